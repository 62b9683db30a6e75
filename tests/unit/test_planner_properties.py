"""Everything together: a valid plan or one of the documented errors."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from packing import Plan, Planner
from packing.errors import InfeasibleError, NoCandidateError, UnsupportedProblemError
from packing.registry import resolve_algorithm
from tests.problems import BUILTINS, column, examples


@st.composite
def steps(draw):
    """Settings and samples of every kind at once."""
    settings = {
        "data_parallel_size": draw(st.integers(1, 3)),
        "seq_len": draw(st.sampled_from([None, 12, 16, 24, 64])),
        "local_batch_size": draw(st.sampled_from([None, None, None, 1, 2])),
        "objective": draw(st.sampled_from([None, "makespan", "balance", "rounds"])),
        "min_balance_gain": draw(st.sampled_from([0.0, 0.1])),
        "oversized_policy": draw(st.sampled_from(["error", "single"])),
        "window": draw(st.sampled_from([1, 1, 2])),
        "alignment": draw(st.sampled_from([1, 1, 4])),
        "max_items": draw(st.sampled_from([None, None, None, 2, 5])),
        "equal_count": draw(st.sampled_from([False, False, False, True])),
        "baseline": draw(st.sampled_from(["contiguous", "round_robin"])),
        "estimator": draw(st.sampled_from([None, None, "tokens", "attention", lambda record: record.pack_tokens / 3])),
    }
    count = draw(st.integers(4, 20) if draw(st.integers(0, 9)) else st.integers(1, 4))
    samples = {"length": draw(column(count, 1, 12))}
    if draw(st.booleans()):
        samples["key"] = draw(st.permutations(range(count)))
    if draw(st.integers(0, 2)) == 0:
        samples["cost"] = draw(st.lists(st.floats(0, 1e6), min_size=count, max_size=count))
    if draw(st.integers(0, 3)) == 0:
        settings |= {"group": "prompt", "group_scope": draw(st.sampled_from(["bin", "rank"]))}
        samples["prompt"] = draw(st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=count, max_size=count))
    if draw(st.integers(0, 3)) == 0:
        settings["forbid"] = "lang"
        samples["lang"] = draw(column(count, 0, 1))
    if draw(st.integers(0, 3)) == 0:
        settings["packing_budgets"] = {"memory": draw(st.sampled_from([3, 7.5, 1e9]))}
        samples["memory"] = draw(st.lists(st.floats(0, 3), min_size=count, max_size=count))
    if settings["seq_len"] and draw(st.integers(0, 3)) == 0:
        settings["padding_cost"] = draw(st.sampled_from([{"linear": 1}, {"linear": 0.1, "quadratic": 0.01}]))
    wanted = {
        "equal_count": settings["equal_count"],
        "max_items": settings["max_items"],
        "budgets": "memory" in samples,
    }
    wanted |= {"group": "group" in settings, "forbid": "forbid" in settings, "pad_cost": "padding_cost" in settings}
    needs = {name for name, needed in wanted.items() if needed}
    able = [name for name in BUILTINS if needs <= resolve_algorithm(name).capabilities]
    settings["algorithm"] = draw(st.sampled_from(able if draw(st.integers(0, 9)) else BUILTINS))
    return settings, samples


def check_limits(settings: dict, samples: dict, plan: Plan) -> None:
    """The promises, spelled out from the settings alone."""
    lengths, align, cap = samples["length"], settings["alignment"], settings["seq_len"]
    aligned = [-(-length // align) * align for length in lengths]
    assert sorted(chain.from_iterable(plan.bins())) == list(range(len(lengths)))
    assert plan.num_bins == settings["data_parallel_size"] * settings["window"] * plan.bins_per_rank
    assert settings["local_batch_size"] in (None, plan.bins_per_rank)
    for members in plan.bins():
        assert members
        tokens = sum(aligned[i] for i in members)
        assert cap is None or tokens <= cap or (settings["oversized_policy"] == "single" and len(members) == 1)
        assert settings["max_items"] is None or len(members) <= settings["max_items"]
        if "forbid" in settings:
            assert len({samples["lang"][i] for i in members}) == 1
        if "packing_budgets" in settings:
            assert sum(samples["memory"][i] for i in members) <= settings["packing_budgets"]["memory"] * (1 + 1e-12)
    ranks = [
        [members for slot in range(plan.bins_per_rank) for members in [plan.bin(rank, slot, round)]]
        for round in range(plan.window)
        for rank in range(plan.data_parallel_size)
    ]
    if settings["equal_count"]:
        assert len({sum(map(len, rows)) for rows in ranks}) == 1
    if "group" in settings:
        places = (
            plan.bins() if settings["group_scope"] == "bin" else [list(chain.from_iterable(rows)) for rows in ranks]
        )
        for label in set(samples["prompt"]) - {None}:
            assert sum(any(samples["prompt"][i] == label for i in place) for place in places) == 1


@examples(1500)
@given(steps())
def test_a_valid_plan_or_a_documented_error(step):
    settings, samples = step
    made = Planner(**settings)
    try:
        plan = made.plan(samples)
    except (InfeasibleError, NoCandidateError, UnsupportedProblemError):
        return
    check_limits(settings, samples, plan)
    assert plan.gap >= 0
    assert plan.imbalance >= 1 - 1e-9
    assert made.plan(samples).digest == plan.digest
    again = made.plan(samples, plan.bins())
    check_limits(settings, samples, again)
    assert again.decision.accepted or again.bins() == plan.bins()
