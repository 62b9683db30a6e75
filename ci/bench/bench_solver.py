"""Any algorithm on the seeded lists of instances: layouts audited, gaps to the bound and to known optima, CPU time.

python ci/bench/bench_solver.py --family windows full_packs --algorithm auto --json figures.json
python ci/bench/bench_solver.py --algorithm '{"name": "feasible_lpt", "max_repair_pairs": 256}' --limit 50
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from instances import Instance, families
from timing import slack

from packing.assignment import Assignment
from packing.audit import audit
from packing.bin_bounds import bin_lower_bound
from packing.bins import pack
from packing.bounds import lower_bound
from packing.errors import AuditError
from packing.problem import Problem
from packing.registry import Resolved, resolve_algorithm

DEFAULT = "auto"
QUICK = {"constraints": 300, "idle_limits": 30, "count_capped": 24, "pcmax": 60, "bins": 60, "caps_small": 40}
"""How many instances the short form takes of a family; 12 of those not named."""
QUICK_SAMPLES = 10_000


@dataclass(frozen=True)
class Bar:
    """A figure that the default algorithm must reach on every instance of a family that has the label ("": on all)."""

    family: str
    label: str
    figure: str
    limit: float

    def holds(self, value: float, room: float) -> bool:
        """Whether the figure is good enough; shares are to be reached, all else is not to be exceeded.

        Args:
            room: 1, or more where few instances are measured, beside other things.
        """
        if self.figure.startswith("share"):
            return value >= self.limit - 0.04 * (room - 1)
        return value <= self.limit * (room if "_ms" in self.figure else 1.0)


BARS = (
    Bar("no_cap", "n/k = 4", "gap_median", 1e-3),
    Bar("no_cap", "", "over_best_known_max", 5e-4),
    Bar("no_cap", "n/k = 16", "gap_median", 2e-6),
    Bar("no_cap", "n/k = 100", "gap_median", 1e-7),
    Bar("pcmax", "", "share_optimal", 0.92),
    Bar("pcmax", "", "share_within_0.5%", 0.985),
    Bar("pcmax", "", "cpu_ms_max", 50),
    Bar("bins", "", "share_optimal", 0.80),
    Bar("bins", "", "more_bins_max", 0),
    Bar("bins", "", "cpu_ms_max", 100),
    Bar("caps_one_round", "", "gap_median", 5e-4),
    Bar("caps_one_round", "64 ranks, up to 2k samples", "cpu_ms_max", 10),
    Bar("caps_one_round", "512 ranks, up to 16k samples", "cpu_ms_max", 80),
    Bar("caps_small", "", "over_optimum_max", 3e-3),
    Bar("caps_small", "", "missed", 0),
    Bar("windows", "4 ranks", "gap_max", 2.5e-2),
    Bar("windows", "32 ranks", "gap_max", 6e-3),
    Bar("windows", "64 ranks", "gap_max", 6e-3),
    Bar("windows", "W = 8", "share_4%_below_lpt", 1.0),
    Bar("windows", "K = 256", "cpu_ms_max", 60),
    Bar("full_packs", "W = 1", "gap_max", 2e-2),
    Bar("full_packs", "64 ranks, W = 1", "cpu_ms_max", 200),
    Bar("full_packs", "W = 4", "gap_max", 3e-2),
    Bar("full_packs", "", "share_improved", 0.95),
    Bar("count_capped", "", "more_bins_max", 0),
    Bar("count_capped", "", "gap_max", 2e-2),
    Bar("idle_limits", "", "change_max", 5e-3),
    *(Bar(family, "", "over_named_max", 0) for family in families()),
    *(Bar(family, "", "none", 0) for family in ("caps_one_round", "windows", "count_capped", "idle_limits")),
)


@dataclass
class Row:
    """What came of one instance; figures that do not apply are left out of `figures`."""

    instance: Instance
    labels: set[str]
    outcome: str  # "valid", "none" (no layout found), "unsupported", or why the layout is invalid
    figures: dict[str, float]


def measure(instance: Instance, algorithm: Resolved, others: list[Resolved]) -> Row:
    """Solves one instance and measures the layout, also against those of other algorithms, `lpt` first."""
    problem = instance.problem()
    row = Row(instance, set(instance.labels), "unsupported", {})
    if not problem.needs() <= algorithm.capabilities:
        return row
    layout, row.figures["cpu_ms"] = timed(algorithm, problem, 1 if instance.family == "constraints" else 3)
    if layout is None:
        layout = problem.reference
    if layout is None:
        row.outcome = "none"
        return row
    solved = fixed(problem, layout)
    try:
        layout = audit(solved, layout, algorithm.name, str)
    except AuditError as error:
        row.outcome = str(error)
        return row
    row.outcome = "valid"
    add_figures(row, problem, solved, layout)
    named = [
        solved.score(one) if one is not None and one.num_bins == layout.num_bins else None
        for one in (solve(other, problem) for other in others if problem.needs() <= other.capabilities)
    ]
    if instance.family == "windows":
        row.figures["below_lpt"] = 1 - solved.score(layout) / named[0] if named[0] else 1.0
    if len(others) > 1:
        best = min((score for score in named if score), default=0)
        row.figures["over_named"] = max(0.0, solved.score(layout) / best - 1) if best else 0.0
    if instance.twin is not None:
        twin = instance.twin()
        plain = solve(algorithm, twin)
        if plain is not None:
            row.figures["change"] = solved.score(layout) / twin.score(plain) - 1
    return row


def timed(algorithm: Resolved, problem: Problem, repeat: int) -> tuple[Assignment | None, float]:
    """The layout, and the CPU milliseconds of one call: the minimum of a few where calls are short."""
    best, spent = float("inf"), 0.0
    for _ in range(repeat):
        start = time.process_time()
        layout = solve(algorithm, problem)
        took = time.process_time() - start
        best, spent = min(best, took), spent + took
        if spent > 0.3:
            break
    return layout, best * 1e3


def solve(algorithm: Resolved, problem: Problem) -> Assignment | None:
    answer: Assignment | None = algorithm.instance.assign(problem)
    return answer


def fixed(problem: Problem, layout: Assignment) -> Problem:
    """The problem with as many bins as an open one was given."""
    if problem.bins_per_rank is not None:
        return problem
    return problem.with_bins_per_rank(max(1, layout.num_bins // problem.ranks))


def add_figures(row: Row, problem: Problem, solved: Problem, layout: Assignment) -> None:
    """The distances to what is known of this instance, and labels that depend on the problem itself."""
    figures, optimum, family = row.figures, row.instance.optimum, row.instance.family
    if problem.bins_per_rank is None:
        rule = "best_fit_decreasing" if family == "bins" else "first_fit_decreasing"
        usual = pack(problem.tokens, problem.max_capacity or 0, algorithm=rule).num_bins
        figures["more_bins"] = layout.num_bins - -(-usual // problem.ranks) * problem.ranks
    if family == "bins":
        value, bound, name = layout.num_bins, *bin_lower_bound(problem.tokens, problem.max_capacity or 0)
    else:
        found = lower_bound(solved)
        value, bound, name = solved.score(layout), found.score, found.name
    if solved.objective.name != "balance" and bound and not (family == "count_capped" and name == "longest_sample"):
        figures["gap"] = value / bound - 1
    if optimum is not None:
        figures["over_optimum"] = value / optimum - 1
    if row.instance.best_known is not None:
        figures["over_best_known"] = value / row.instance.best_known - 1
    if problem.reference is not None and solved.score(problem.reference) > bound:
        figures["improved"] = float(value < solved.score(problem.reference))
    if family == "no_cap" and name != "mean":
        # Whatever balances meets a bound that one sample sets; only the mean tells solvers apart.
        row.labels = {f"not the mean: {label}" for label in row.labels}
    elif family == "caps_one_round":
        row.labels |= {
            f"{ranks} ranks, up to {most}k samples"
            for ranks, most in ((64, 2), (512, 16))
            if problem.ranks == ranks and problem.num_samples <= most * 1024
        }
    elif family == "windows":
        row.labels.add(f"K = {problem.ranks}")
    elif family == "full_packs":
        row.labels.add(", ".join(row.instance.labels[:2]))


def summary(rows: list[Row]) -> dict[str, Any]:
    """The figures of some instances of one family."""
    count = len(rows)
    outcomes = [row.outcome for row in rows]
    made: dict[str, Any] = {
        "count": count,
        "none": outcomes.count("none"),
        "missed": sum(row.outcome == "none" and row.instance.optimum is not None for row in rows),
        "unsupported": outcomes.count("unsupported"),
        "invalid": sum(one not in ("valid", "none", "unsupported") for one in outcomes),
    }

    def values(name: str) -> np.ndarray:
        return np.array([row.figures[name] for row in rows if name in row.figures])

    for name in ("gap", "over_optimum", "over_best_known", "over_named", "more_bins", "change", "cpu_ms"):
        found = values(name)
        if found.size:
            made |= {f"{name}_median": float(np.median(found)), f"{name}_max": float(found.max())}
            made[f"{name}_p90"] = float(np.quantile(found, 0.9, method="higher"))
    made["worst"] = max(rows, key=lambda row: row.figures.get("gap", 0.0)).instance.name
    optimal = values("over_optimum")
    if optimal.size:
        known = sum(row.instance.optimum is not None for row in rows)
        made["share_optimal"] = float((optimal <= 0).sum()) / known
        made["share_within_0.5%"] = float((optimal <= 0.005).sum()) / known
    for name, figure, least in (("share_improved", "improved", 1.0), ("share_4%_below_lpt", "below_lpt", 0.04)):
        found = values(figure)
        if found.size:
            made[name] = float((found >= least).mean())
    return made


def chosen(instances: list[Instance], limit: int | None) -> list[Instance]:
    """At most `limit` instances, by a hash of their names: a regular choice would follow the list's own pattern."""
    if limit is None or limit >= len(instances):
        return instances
    return sorted(instances, key=lambda one: hashlib.sha256(one.name.encode()).digest())[:limit]


def report(family: str, label: str, made: dict[str, Any]) -> None:
    name = f"{family} {label}".strip()
    cells = [f"{int(made['count']):6} {int(made['invalid']):3} {int(made['none']):4}"]
    for figure, scale in (("gap", 100.0), ("over_optimum", 100.0), ("cpu_ms", 1.0)):
        for part in ("median", "p90", "max"):
            value = made.get(f"{figure}_{part}")
            cells.append(f"{value * scale:9.3g}" if value is not None else " " * 9)
    others = [
        f"{key} {value:.4g}"
        for key, value in made.items()
        if key.startswith(("share", "more_bins_max", "change", "over_best", "over_named_max"))
    ]
    print(f"{name:<44}", *cells, " ", ", ".join([*others, f"worst {made['worst']}"]), flush=True)


def run(
    family: str, instances: list[Instance], algorithm: Resolved, others: list[Resolved], room: float | None
) -> tuple[dict, list[str]]:
    """Measures and prints one family; `room` None: no bars. Returns the figures by label, and what failed."""
    rows = [measure(instance, algorithm, others) for instance in instances]
    tables = {"": summary(rows)}
    first = list(dict.fromkeys(instance.labels[0] for instance in instances if instance.labels))
    barred = [bar.label for bar in BARS if bar.family == family and bar.label]
    for label in dict.fromkeys([*first, *barred, *(f"not the mean: {one}" for one in first)]):
        some = [row for row in rows if label in row.labels]
        if some:
            tables[label] = summary(some)
    for label, made in tables.items():
        report(family, label, made)
    failed = [
        f"{row.instance.name}: {row.outcome}" for row in rows if row.outcome not in ("valid", "none", "unsupported")
    ]
    if room is not None:
        for bar in BARS:
            made = tables.get(bar.label, {}) if bar.family == family else {}
            if bar.figure in made and not bar.holds(made[bar.figure], room):
                failed.append(f"{family} {bar.label}: {bar.figure} is {made[bar.figure]:.4g}, the bar is {bar.limit:g}")
    return tables, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", nargs="+", help="names of families; all of them by default")
    parser.add_argument("--algorithm", default=DEFAULT, help="a name, or a JSON object with a name and options")
    parser.add_argument("--beside", nargs="+", default=[], help="algorithms that the default must not be worse than")
    parser.add_argument("--limit", type=int, help="so many instances of each family")
    parser.add_argument("--quick", action="store_true", help="a few instances of each family, none of them large")
    parser.add_argument("--no-bars", action="store_true", help="print only")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    config: Any = json.loads(arguments.algorithm) if arguments.algorithm.startswith("{") else arguments.algorithm
    algorithm = resolve_algorithm(config)
    others = [resolve_algorithm(name) for name in ("lpt", *arguments.beside)]
    lists = families()
    names = arguments.family or list(lists)
    unknown = [name for name in names if name not in lists]
    if unknown:
        parser.error(f"no such family here: {', '.join(unknown)}; there are: {', '.join(lists)}")
    bars = algorithm.name == DEFAULT and not arguments.no_bars
    print(f"{'':44}  count bad none  gap to the bound, %             over the optimum, %           CPU ms")
    print(f"{'family and label':<44} {'':15}" + "    median       p90       max" * 3)
    figures, failed = {}, []
    for name in names:
        limit = QUICK.get(name, 12) if arguments.quick and arguments.limit is None else arguments.limit
        instances = chosen(lists[name], limit)
        if arguments.quick:
            instances = [one for one in instances if one.problem().num_samples <= QUICK_SAMPLES]
        figures[name], wrong = run(name, instances, algorithm, others, slack(arguments.quick) if bars else None)
        failed += wrong
    if arguments.json:
        arguments.json.write_text(json.dumps({"algorithm": config, "families": figures}, indent=1) + "\n")
    for line in failed:
        print(f"FAILED: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
