"""`combine` and `level_multifit`: what they promise beyond what every built-in does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from packing import ConfigError, _kernels
from packing.algorithms.fitting import BestFitDecreasing, FirstFitDecreasing
from packing.algorithms.level_multifit import LevelMultifit, level_multifit
from packing.algorithms.multifit import Combine, combine
from packing.algorithms.placement import LPT
from packing.assignment import Assignment
from packing.audit import first_violation, is_valid
from packing.bounds import lower_bound
from packing.partition import descending_order
from packing.problem import Problem
from tests.problems import examples, problems

SLOW = _kernels.backend == "reference"


def attention(lengths: np.ndarray, linear: int = 49152) -> np.ndarray:
    return lengths * linear + lengths * lengths


def windows(lengths: np.ndarray, ranks: int, rounds: int, fill: float, **fields) -> Problem:
    """The first samples that fill so much of `rounds` rounds of packs (of 128K tokens)."""
    bins, fields = ranks * rounds, {"capacity": 1 << 17, "round_size": ranks, "objective": "rounds"} | fields
    lengths = lengths[lengths <= fields["capacity"]]
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), fill * bins * fields["capacity"]))]
    return Problem(lengths, attention(lengths), bins, **fields)


@examples(300)
@given(problems(max_samples=12, equal_count=False))
def test_never_worse_than_what_they_start_from(problem):
    start = LPT().assign(problem)
    assume(start is not None)
    assert problem.score(combine(problem)) <= problem.score(start)
    assert problem.score(level_multifit(problem, start=start)) <= problem.score(start)


def test_components_count_one_by_one():
    """The layout with the smaller sum of both components, 6 and not 7, has the larger score, 8 and not 7."""
    objective = {"name": "components", "weights": {"encoder": 1, "llm": 1}}
    components = [[0, 2], [0, 2], [0, 2], [1, 2], [1, 2]]
    problem = Problem([1] * 5, [2, 2, 2, 3, 3], 2, objective=objective, components=components)
    start = LPT().assign(problem)
    assert problem.score(combine(problem)) <= problem.score(start)


@examples(200)
@given(problems(max_samples=7, max_ranks=2, equal_count=False), st.sampled_from([combine, level_multifit]))
def test_what_the_caller_hands_over_changes_nothing(problem, solve):
    order = descending_order(problem.cost, problem.tokens)
    assert solve(problem, order) == solve(problem)
    if solve is combine:
        assert combine(problem, order, start=LPT().assign(problem)) == combine(problem)


@examples(200)
@given(
    problems(
        max_samples=10, equal_count=False, group=None, forbid=None, max_items=None, footprints=None, budgets=None,
        oversized="error", pad_cost=None,
    )
)  # fmt: skip
def test_a_layout_exists_wherever_decreasing_fits_find_one(problem):
    packings = [rule().assign(problem) for rule in (BestFitDecreasing, FirstFitDecreasing)]
    assume(any(layout is not None and is_valid(problem, layout) for layout in packings))
    assert level_multifit(problem) is not None


@pytest.mark.parametrize("solve", [combine, level_multifit])
def test_a_start_is_improved(solve):
    """With one round and with several, whatever the objective."""
    costs = [5, 5, 4, 4, 3, 3, 3, 3]
    for objective in ("makespan", "balance", "rounds"):
        for size in (2, 4):
            problem = Problem(costs, costs, 4, capacity=20, round_size=size, objective=objective)
            start = Assignment.from_bins([[0, 1, 2], [3, 4], [5, 6], [7]])
            assert problem.score(solve(problem, start=start)) < problem.score(start)


def test_multifit_repairs_what_lpt_gets_wrong():
    """Graham's worst case of LPT on three machines: 11 against 9."""
    problem = Problem([5, 5, 4, 4, 3, 3, 3], [5, 5, 4, 4, 3, 3, 3], 3)
    assert problem.score(LPT().assign(problem)) == 11
    assert problem.score(combine(problem)) == 9


def test_multifit_over_ranks_of_two_bins():
    costs = [5, 5, 4, 4, 3, 3, 3]
    problem = Problem(costs, costs, 3, bins_per_rank=2, capacity=6)
    assert problem.score(combine(problem)) == 9
    assert first_violation(problem, combine(problem)) is None


def test_outliers_share_a_round():
    """Two rounds of two: 10 and 9 belong together, and 4 is what the other round needs."""
    problem = Problem([10, 9, 4, 4], [10, 9, 4, 4], 4, round_size=2, objective="rounds")
    assert problem.score(level_multifit(problem)) == 14


def test_few_samples_a_rank_come_near_the_mean():
    """256 lognormal lengths on 64 ranks: LPT is 5 % over the bound, COMBINE below one."""
    gaps = []
    for seed in range(3 if SLOW else 10):
        lengths = np.random.default_rng(seed).lognormal(7.0, 0.5, 256).astype(np.int64) + 1
        problem = Problem(lengths, lengths, 64)
        bound = max(-(-int(lengths.sum()) // 64), int(lengths.max()))
        gaps.append([problem.score(one.assign(problem)) / bound - 1 for one in (LPT(), Combine())])
    lpt, multifit = np.median(gaps, axis=0)
    assert lpt > 0.03
    assert multifit < lpt / 4


@pytest.mark.parametrize("rounds", [4, 8])
def test_windows_of_documents(lengths_of, rounds):
    ranks = 4 if SLOW else 32
    problem = windows(lengths_of("wlbllm_docs"), ranks, rounds, 0.95)
    by_rank = LPT().assign(Problem(problem.tokens, problem.cost, problem.ranks, capacity=problem.capacity))
    layout = level_multifit(problem)
    assert first_violation(problem, layout) is None
    assert problem.score(layout) < 0.97 * problem.score(by_rank)
    if rounds == 4 and not SLOW:
        assert problem.score(layout) < 1.003 * _bound(problem)


def _bound(problem: Problem) -> float:
    """Outlier rounds hold the densest samples at best: the level bound, with no sample cut."""
    size, rounds = problem.round_size, problem.ranks // problem.round_size
    order = descending_order(problem.cost, problem.tokens)
    room, costs = np.cumsum(problem.tokens[order]), np.cumsum(problem.cost[order])
    leaders = [int(problem.cost[i]) if 2 * problem.tokens[i] > problem.capacity else 0 for i in order[::size][:rounds]]
    best = 0.0
    for j in range(rounds):
        held = np.interp(j * size * problem.capacity, room, costs) if j else 0.0
        best = max(best, sum(leaders[:j]) + (float(costs[-1]) - held) / size)
    return best


@pytest.mark.parametrize("fill", [0.97, 0.995, 0.999])
def test_nearly_full_packs_have_a_layout(lengths_of, fill):
    problem = windows(lengths_of("servegen_r1"), 8, 1, fill)
    layout = level_multifit(problem)
    assert first_violation(problem, layout) is None
    if fill < 0.99:
        assert problem.score(layout) <= 1.01 * max(problem.cost.sum() / 8, problem.cost.max())


@pytest.mark.skipif(SLOW, reason="thousands of samples")
@pytest.mark.parametrize(("objective", "rounds"), [("makespan", 1), ("rounds", 4)])
@pytest.mark.parametrize("file", ["servegen_r1", "azure2023_conv"])
def test_full_packs_are_near_the_bound_without_a_reference(lengths_of, file, objective, rounds):
    """Every token of every pack is used, so that placement alone runs into a dead end."""
    problem = windows(lengths_of(file), 32, rounds, 1.0, objective=objective)
    tokens = np.append(problem.tokens, 32 * rounds * (1 << 17) - problem.tokens.sum())
    problem = replace(problem, tokens=tokens, cost=attention(tokens))
    layout = level_multifit(problem)
    assert first_violation(problem, layout) is None
    assert problem.score(layout) <= 1.03 * lower_bound(problem).score


@pytest.mark.parametrize("limit", ["max_items", "budgets"])
def test_tokens_and_counts_that_both_bind_have_a_layout(lengths_of, limit):
    """Long samples fill the tokens, short ones the counts: by cost alone the last short ones find no bin."""
    problem = windows(lengths_of("servegen_r1"), 16, 4, 0.95, capacity=1 << 15)
    most = problem.num_samples // problem.num_bins * 6 // 5
    uses = {"footprints": np.ones((problem.num_samples, 1), np.int64), "budgets": [most]}
    problem = replace(problem, **({"max_items": most} if limit == "max_items" else uses))
    assert LPT().assign(problem) is None
    assert first_violation(problem, level_multifit(problem)) is None


def test_the_other_rounds_count_where_one_sample_binds(lengths_of):
    """Under `makespan` the longest sample hides all else; the sum over rounds still improves on one level for all."""
    problem = windows(lengths_of("wlbllm_docs"), 4, 4, 0.9, objective="makespan")
    layout, lpt = level_multifit(problem), LPT().assign(problem)
    assert problem.score(layout) == problem.score(lpt) == problem.cost.max()
    rounds = [np.sort(problem.pack_loads(one))[::-4].sum() for one in (layout, lpt)]
    assert rounds[0] < rounds[1]


@pytest.mark.parametrize("algorithm", [Combine, LevelMultifit])
def test_steps_are_a_count(algorithm):
    assert algorithm(steps=1).assign(Problem([3, 2, 1], [3, 2, 1], 2)).num_bins == 2
    for steps, message in ((0, "at least 1|positive"), (1.5, "steps"), ("x", "steps")):
        with pytest.raises(ConfigError, match=message):
            algorithm(steps=steps)
