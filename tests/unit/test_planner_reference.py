"""With a reference the better layout is the plan; without one the samples as dealt are the comparison."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import SampleKey
from packing.errors import NoCandidateError
from packing.objectives import get_objective
from tests.planning import Fixed, planner
from tests.problems import column, examples


class TestReference:
    even, uneven = [[0, 3], [1, 2]], [[0, 1], [2, 3]]  # of lengths 4, 3, 2, 1: loads 5 5 and 7 3

    def test_a_better_candidate_is_taken(self):
        plan = planner().plan([4, 3, 2, 1], self.uneven)
        assert plan.decision.accepted
        assert (plan.decision.before, plan.decision.after) == (7.0, 5.0)
        assert plan.decision.gain == pytest.approx(2 / 7)
        assert plan.imbalance == 1.0
        assert plan.baseline.kind == "reference"
        assert plan.baseline.rank_loads.tolist() == [7.0, 3.0]
        assert plan.baseline.imbalance == 1.4

    @pytest.mark.parametrize("bins", [even, [[3, 0], [2, 1]], [[2, 1], [0, 3]]])
    def test_an_equal_candidate_keeps_the_reference_as_it_was(self, bins):
        plan = planner().plan([4, 3, 2, 1], bins)
        assert not plan.decision.accepted
        assert plan.decision.reason == "the candidate is not better than the reference"
        assert plan.bins() == bins

    def test_a_worse_candidate_keeps_the_reference(self):
        plan = planner(algorithm=Fixed(self.uneven)).plan([4, 3, 2, 1], self.even)
        assert plan.bins() == self.even
        assert plan.decision.gain == pytest.approx(-0.4)
        assert plan.rank_loads.tolist() == [5.0, 5.0]

    def test_no_candidate_keeps_the_reference(self):
        plan = planner(algorithm=Fixed(None)).plan([4, 3, 2, 1], self.uneven)
        assert plan.bins() == self.uneven
        assert (plan.decision.accepted, plan.decision.after) == (False, None)
        assert plan.metrics["accepted"] == 0

    def test_the_gain_must_be_strictly_above_the_minimum(self):
        lengths, before, after = [4, 2, 1, 1, 4], [[0, 1, 2, 3], [4]], [[0], [1, 2, 3, 4]]
        better = Fixed([[0, 1], [2, 3, 4]])
        assert planner(algorithm=better, min_balance_gain=0.24).plan(lengths, before).decision.accepted
        plan = planner(algorithm=better, min_balance_gain=0.25).plan(lengths, before)
        assert not plan.decision.accepted
        assert plan.bins() == before
        assert plan.decision.gain == 0.25
        assert plan.decision.reason == "the gain 25.000% is not above `min_balance_gain` = 0.25"
        assert not planner(algorithm=Fixed(after)).plan(lengths, before).decision.accepted

    def test_a_perfect_reference_stays(self):
        plan = planner(objective="balance", algorithm=Fixed(self.even)).plan([4, 3, 2, 1], self.even)
        assert plan.decision.reason == "the reference cannot be improved: its objective is 0"

    def test_the_gate_counts_the_padding(self):
        # Without padding both layouts weigh the same; with it the fullest rank of the second one wastes more.
        samples = {"length": [9, 1, 5, 5], "cost": [2, 2, 2, 2]}
        fixed = Fixed([[0, 2], [1, 3]])
        fixed.capabilities |= {"pad_cost"}
        made = planner(seq_len=14, local_batch_size=1, algorithm=fixed)
        assert not made.plan(samples, [[0, 1], [2, 3]]).decision.accepted
        padded = planner(seq_len=14, local_batch_size=1, algorithm=fixed, padding_cost={"linear": 1})
        plan = padded.plan(samples, [[0, 1], [2, 3]])
        assert plan.decision.before == 4 + 4.0
        assert plan.decision.after == 4 + 8.0
        assert plan.rank_loads.tolist() == plan.baseline.rank_loads.tolist() == [8.0, 8.0]

    def test_the_reference_may_name_keys(self):
        samples = {"length": [4, 3, 2, 1], "key": [(0, 3), (0, 1), (0, 2), (0, 0)]}
        by_key = [[SampleKey(0, 3), (0, 0)], [(0, 1, 0), SampleKey(0, 2)]]
        plan = planner(algorithm="none").plan(samples, by_key)
        assert plan.bins() == self.even
        assert plan.digest == planner(algorithm="none").plan(samples, self.even).digest
        assert plan.digest == planner(algorithm="none").plan(samples, np.asarray(self.even)).digest

    @examples(150)
    @given(st.sampled_from(["makespan", "balance", "rounds"]), st.floats(0, 0.5), st.data())
    def test_the_plan_is_never_worse_than_the_reference(self, objective, minimum, data):
        count = data.draw(st.integers(4, 10))
        lengths = data.draw(column(count, 1, 30))
        order = data.draw(st.permutations(range(count)))
        bins = [order[0:1], order[1:2], order[2:3], order[3:]]
        made = planner(objective=objective, min_balance_gain=minimum, window=2)
        plan = made.plan(lengths, bins)
        score = get_objective(objective).delivered
        before = score(np.asarray([sum(lengths[i] for i in members) for members in bins]), 4, 1, 2)
        after = score(plan.pack_loads, 4, 1, 2)
        assert after <= before
        assert plan.decision.accepted is (after < before)
        if not plan.decision.accepted:
            assert plan.bins() == [list(members) for members in bins]
        elif before:
            assert (before - after) / before > minimum * (1 - 1e-12)


class TestBaseline:
    def test_without_a_reference_any_candidate_is_taken(self):
        plan = planner(algorithm=Fixed([[0, 1, 2], [3]]), min_balance_gain=0.9).plan([4, 3, 2, 1])
        assert plan.decision.accepted
        assert plan.decision.before is None
        assert plan.decision.reason == "no reference to compare with"

    def test_contiguous_and_round_robin(self):
        samples = {"length": [4, 3, 2, 1], "key": [3, 1, 2, 0]}
        plan = planner().plan(samples)
        assert plan.baseline.kind == "baseline"
        assert plan.baseline.rank_loads.tolist() == [7.0, 3.0]
        assert planner(baseline="round_robin").plan(samples).baseline.rank_loads.tolist() == [6.0, 4.0]
        uneven = planner(data_parallel_size=3).plan([4, 3, 2, 1])
        assert uneven.baseline.rank_loads.tolist() == [7.0, 2.0, 1.0]

    def test_overflowing_bins_are_counted(self):
        made = planner(seq_len=6, local_batch_size=1)
        assert made.plan([4, 3, 2, 1]).baseline.num_overflowing_bins == 1
        assert made.plan([4, 3, 2, 1], [[0, 3], [1, 2]]).baseline.num_overflowing_bins == 0

    def test_no_candidate_and_no_reference_is_an_error(self):
        with pytest.raises(NoCandidateError, match="found no layout of 4 samples in 2 bins"):
            planner(algorithm=Fixed(None)).plan([4, 3, 2, 1])


class TestRounds:
    """Numbers are those of the layout that is delivered, every pack where it lies."""

    def test_packs_in_a_better_order_are_an_improvement(self):
        plan = planner(objective="rounds", window=2, local_batch_size=1).plan([92, 28, 11, 92], [[2], [3], [0], [1]])
        assert plan.decision.accepted
        assert (plan.decision.before, plan.decision.after) == (184.0, 120.0)
        assert plan.objective_value == 120.0
        assert sorted(map(sorted, [plan.bin(0, round=0), plan.bin(1, round=0)])) == [[0], [3]]

    def test_a_layout_that_keeps_its_order_is_scored_in_it(self):
        plan = planner(objective="rounds", window=2, local_batch_size=1, algorithm="none").plan([1, 100, 100, 1])
        assert plan.objective_value == 200.0
        assert plan.gap == pytest.approx(200 / 101 - 1)
