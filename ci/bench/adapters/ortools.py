"""OR-Tools: CP-SAT, an assignment model without hints, for at most so many seconds of wall time on one thread."""

from ortools.sat.python import cp_model

from adapters import Method, Step

DISTRIBUTION = "ortools"
SECONDS = 20


def cp_sat(step: Step) -> list[list[int]]:
    model, bins, samples = cp_model.CpModel(), range(step.ranks or 1), range(len(step.lengths))
    heaviest_first = sorted(samples, key=lambda i: -step.costs[i])
    # Bins are alike: the p-th heaviest sample is in one of the first p + 1.
    inside = {i: [model.new_bool_var("") for _ in bins[: place + 1]] for place, i in enumerate(heaviest_first)}
    makespan = model.new_int_var(max(max(step.costs), -(-sum(step.costs) // len(bins))), sum(step.costs), "")
    for row in inside.values():
        model.add_exactly_one(row)
    for b in bins:
        column = {i: row[b] for i, row in inside.items() if b < len(row)}
        model.add_at_least_one(column.values())
        model.add(sum(step.costs[i] * one for i, one in column.items()) <= makespan)
        if step.capacity is not None:
            model.add(sum(step.lengths[i] * one for i, one in column.items()) <= step.capacity)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.max_time_in_seconds = 1, SECONDS
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return []
    return [[i for i, row in inside.items() if b < len(row) and solver.value(row[b])] for b in bins]


METHODS = {"CP-SAT": Method(("balance", "capped"), cp_sat, slow=True)}
