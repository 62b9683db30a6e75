"""Proves optima of the small capped instances with CP-SAT and writes them to optima.json; needs ortools.

python ci/bench/prove_small.py [--seconds 10]     deterministic seconds for each; those that are not closed are left out
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from instances import OPTIMA, families
from ortools.sat.python import cp_model

from packing.bounds import lower_bound
from packing.problem import Problem


def proven_optimum(problem: Problem, seconds: float) -> int | None:
    """The smallest makespan under one cap with no bin empty, or None where it is not proven in time."""
    model = cp_model.CpModel()
    order = np.argsort(-problem.cost, kind="stable").tolist()
    bins = range(problem.ranks)
    # Bins are alike: the i-th heaviest sample is in one of the first i + 1.
    inside = [[model.new_bool_var("") if b <= place else 0 for b in bins] for place in range(len(order))]
    for row in inside:
        model.add_exactly_one(one for one in row if not isinstance(one, int))
    makespan = model.new_int_var(lower_bound(problem).score, int(problem.cost.sum()), "")
    for b in bins:
        column = [row[b] for row in inside]
        model.add(sum(column) >= 1)
        model.add(sum(int(problem.tokens[i]) * one for i, one in zip(order, column, strict=True)) <= problem.capacity)
        model.add(sum(int(problem.cost[i]) * one for i, one in zip(order, column, strict=True)) <= makespan)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = seconds
    if solver.solve(model) != cp_model.OPTIMAL:
        return None
    return int(solver.value(makespan))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    seconds = parser.parse_args().seconds
    proven = {}
    instances = families()["caps_small"]
    for instance in instances:
        optimum = proven_optimum(instance.problem(), seconds)
        print(instance.name, optimum, flush=True)
        if optimum is not None:
            proven[instance.name] = optimum
    OPTIMA.write_text(json.dumps(proven, indent=0) + "\n")
    print(f"{len(proven)} of {len(instances)} proven")


if __name__ == "__main__":
    main()
