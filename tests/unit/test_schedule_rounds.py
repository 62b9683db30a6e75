"""Complete packs into rounds and ranks: every pack once, as good as any order, and where the planner puts them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import ConfigError, Planner, schedule_rounds
from packing.assignment import Assignment
from packing.objectives import get_objective
from packing.problem import Problem
from packing.rounds import into_rounds
from tests.problems import column, examples

LENGTHS = [30, 5, 12, 9, 24, 7, 18, 3, 11, 16, 2, 8]


@st.composite
def packs(draw, largest=60):
    """(loads of K packs, ranks, rounds)."""
    ranks, rounds = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    return np.asarray(draw(column(ranks * rounds, 0, largest)), np.int64), ranks, rounds


def one_f_one_b(loads, stages):
    """End of a 1F1B step on equal stages, a backward taking twice as long as its forward; plainly, stage by stage."""
    count = len(loads)
    queues = []
    for stage in range(stages):
        warm = min(stages - 1 - stage, count)
        steady = [one for i in range(count - warm) for one in (("f", warm + i), ("b", i))]
        queues.append([("f", i) for i in range(warm)] + steady + [("b", i) for i in range(count - warm, count)])
    ends, free = {}, [0] * stages
    while any(queues):
        for stage, queue in enumerate(queues):
            while queue:
                kind, i = queue[0]
                before = stage - 1 if kind == "f" else stage + 1
                if 0 <= before < stages and (kind, before, i) not in ends:
                    break
                start = max(free[stage], ends.get((kind, before, i), 0))
                free[stage] = ends[kind, stage, i] = start + loads[i] * (1 if kind == "f" else 2)
                queue.pop(0)
    return max(free)


@examples(300)
@given(packs(), st.sampled_from([None, 1, 2, 5]), st.booleans())
def test_every_pack_runs_once_and_ranks_get_equally_many(case, stages, stay):
    loads, ranks, rounds = case
    schedule = schedule_rounds(loads, ranks, stages=stages, keep_ranks=stay)
    assert schedule.shape == (ranks, rounds)
    assert np.array_equal(np.sort(schedule, axis=None), np.arange(loads.size))
    if stay:
        assert np.array_equal(np.sort(schedule, axis=1), np.arange(loads.size).reshape(ranks, rounds))
    assert np.array_equal(
        schedule_rounds(loads.reshape(ranks, rounds), ranks, stages=stages, keep_ranks=stay), schedule
    )


@examples(300)
@given(packs())
def test_rounds_cost_what_the_objective_scores(case):
    loads, ranks, rounds = case
    schedule = schedule_rounds(loads, ranks)
    assert loads[schedule].max(axis=0).sum() == get_objective("rounds").score(loads, ranks, rounds, ranks)


@examples(150)
@given(st.integers(1, 3), st.integers(1, 4), st.data())
def test_no_other_order_of_the_packs_of_a_rank_makes_cheaper_rounds(ranks, rounds, data):
    loads = np.asarray(data.draw(column(ranks * rounds, 0, 30))).reshape(ranks, rounds)
    schedule = schedule_rounds(loads, ranks, keep_ranks=True)
    ours = loads.reshape(-1)[schedule].max(axis=0).sum()
    orders = [list(permutations(row)) for row in loads.tolist()]
    best = {tuple(orders[0][0])}  # the first rank's order does not matter
    for options in orders[1:]:
        best = {tuple(map(max, so_far, one)) for so_far in best for one in options}
    assert ours == min(map(sum, best))


@examples(300)
@given(packs(largest=10**6), st.integers(1, 6))
def test_small_packs_lie_at_both_ends(case, stages):
    loads, ranks, rounds = case
    for row in loads[schedule_rounds(loads, ranks, stages=stages)]:
        peak = int(np.argmax(row))
        assert (np.diff(row[: peak + 1]) >= 0).all()
        assert (np.diff(row[peak:]) <= 0).all()
        assert {row[0], row[-1]} == set(np.sort(row)[:2].tolist()) or rounds == 1


def test_the_order_is_near_the_best_of_all_orders():
    """Exact replays of every order of six micro-batches on equal stages."""
    generator = np.random.default_rng(5)
    for stages in (2, 4):
        ratios = []
        for _ in range(8):
            loads = generator.integers(1, 40, 6)
            ours = one_f_one_b(loads[schedule_rounds(loads, 1, stages=stages)[0]].tolist(), stages)
            every = [one_f_one_b(order, stages) for order in permutations(loads.tolist())]
            ratios.append(ours / min(every))
            assert ours <= np.quantile(every, 0.1)
        assert np.mean(ratios) <= 1.03


def test_ranks_are_even_behind_a_pipeline():
    loads = (np.random.default_rng(3).lognormal(0, 0.5, 256) * 1e6).astype(np.int64)
    for stages in (1, 2, 4):
        on_rank = loads[schedule_rounds(loads, 16, stages=stages)]
        times = on_rank.sum(axis=1) + (stages - 1) * on_rank.max(axis=1)
        assert times.max() <= 1.002 * times.mean()


def test_loads_may_be_any_numbers():
    whole = [5, 3, 8, 1, 9, 2]
    for values in (np.asarray(whole, float) / 7, [value / 7 for value in whole], np.asarray(whole, np.int32)):
        for stages in (None, 3):
            assert np.array_equal(schedule_rounds(values, 2, stages=stages), schedule_rounds(whole, 2, stages=stages))
    huge = [2**59] * 4 + [2**58] * 4
    assert sorted(schedule_rounds(huge, 2, stages=1000).reshape(-1).tolist()) == list(range(8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2, 3], 2), "`pack_loads` must hold a positive multiple of 2 loads, but got [1, 2, 3]."),
        (([], 2), "`pack_loads` must hold a positive multiple of 2 loads, but got []."),
        (([[1, 2]], 2), "`pack_loads` must have a row for each of the 2 ranks, but got 1."),
        (([[1, 2], [3]], 2), "`pack_loads` must have the same number of loads in every row, but got [[1, 2], [3]]."),
        (([1, -2], 2), "`pack_loads` must be finite and non-negative, but got -2 at index 1."),
        (([1, 2], 0), "`data_parallel_size` must be a positive integer, but got 0."),
        (([1, 2], 2, 0), "`stages` must be a positive integer, but got 0."),
        (([1, 2], 2, None, 1), "`keep_ranks` must be true or false, but got 1."),
    ],
)
def test_what_arguments_must_be(arguments, message):
    values, ranks, *rest = arguments
    with pytest.raises(ConfigError) as error:
        schedule_rounds(values, ranks, **dict(zip(("stages", "keep_ranks"), rest, strict=False)))
    assert str(error.value) == message


def layouts(objective, **fields):
    problem = Problem(tokens=LENGTHS, cost=LENGTHS, ranks=2, bins_per_rank=3, objective=objective, **fields)
    return problem, Assignment.from_bin_of(np.arange(12) % 6, 6)


PIPELINE = {"name": "pipeline", "stages": 4}


def test_packs_are_dealt_anew_only_where_that_is_better():
    problem, layout = layouts(PIPELINE)
    better = into_rounds(problem, layout)
    assert problem.score(better) < problem.score(layout)
    assert sorted(map(tuple, better.to_bins())) == sorted(map(tuple, layout.to_bins()))
    again = into_rounds(problem, better)
    assert problem.score(again) == problem.score(better)


@pytest.mark.parametrize("objective", [PIPELINE, "rounds"], ids=str)
def test_packs_stay_on_their_rank_where_a_limit_is_the_ranks(objective):
    for fields in ({"equal_count": True}, {"group": [0, 1] * 6, "group_scope": "rank"}):
        problem, layout = layouts(objective, **fields)
        ordered = into_rounds(problem, layout)
        for rank in range(2):
            held = [sorted(map(tuple, one.to_bins()[3 * rank : 3 * rank + 3])) for one in (layout, ordered)]
            assert held[0] == held[1]
        assert problem.delivered_score(ordered) <= problem.delivered_score(layout)


def test_bins_of_different_capacity_stay_as_they_are():
    for objective in (PIPELINE, "rounds"):
        problem, layout = layouts(objective, capacity=np.arange(60, 66))
        assert into_rounds(problem, layout) == layout
    problem, layout = layouts("makespan")
    assert into_rounds(problem, layout) == layout


def test_a_plan_for_a_pipeline_has_small_packs_at_both_ends():
    lengths = np.random.default_rng(2).integers(1, 400, 96)
    for algorithm in ("lpt", "kk", "best_fit_decreasing"):
        plan = Planner(
            data_parallel_size=4, seq_len=2000, local_batch_size=4, algorithm=algorithm, objective=PIPELINE
        ).plan(lengths)
        for row in plan.bin_costs.reshape(4, 4):
            assert max(row[0], row[-1]) <= min(row[1], row[2])
    unchanged = Planner(data_parallel_size=4, local_batch_size=4, algorithm="none", objective=PIPELINE).plan(lengths)
    assert unchanged.permutation.tolist() == list(range(96))
