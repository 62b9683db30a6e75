"""Every limit that a planner can be given holds in its plans."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import SampleMetadata
from tests.planning import LENGTHS, planner
from tests.problems import column, examples


class TestLimits:
    def test_lengths_count_aligned_against_the_cap(self):
        plan = planner(seq_len=16, alignment=8, local_batch_size=1).plan([9, 8, 1])
        assert sorted(plan.bin_tokens.tolist()) == [16, 16]
        assert plan.tokens.tolist() == [16, 8, 8]
        assert plan.lengths.tolist() == [9, 8, 1]
        assert plan.metrics["num_tokens"] == 18
        assert plan.metrics["num_alignment_tokens"] == 14
        assert sorted(map(sorted, plan.bins())) == [[0], [1, 2]]

    def test_costs_are_not_aligned(self):
        assert planner(alignment=8).plan([9, 8]).rank_loads.tolist() == [9.0, 8.0]

    def test_budgets_by_column_and_by_record(self):
        samples = {"length": [4, 3, 2, 1], "memory": [0.5, 0.75, 0.5, 0.25]}
        plan = planner(packing_budgets={"memory": 1}, local_batch_size=1).plan(samples)
        assert sorted(map(sorted, plan.bins())) == [[0, 2], [1, 3]]
        assert sorted(map(sorted, planner().plan(samples).bins())) == [[0, 3], [1, 2]]
        records = [
            SampleMetadata(length, packing_costs={"memory": memory})
            for length, memory in zip(samples["length"], samples["memory"], strict=True)
        ]
        assert planner(packing_budgets={"memory": 1}, local_batch_size=1).plan(records).digest == plan.digest

    def test_several_budgets(self):
        samples = {"length": [1] * 4, "memory": [3, 3, 1, 1], "images": [0, 2, 2, 0]}
        plan = planner(packing_budgets={"memory": 4, "images": 2}, local_batch_size=1).plan(samples)
        assert sorted(map(sorted, plan.bins())) == [[0, 2], [1, 3]]

    def test_a_group_stays_in_one_bin(self):
        samples = {"length": LENGTHS, "prompt": ["a", None, "b", "a", None, "b", "b", None]}
        plan = planner(group="prompt").plan(samples)
        home = {i: b for b, members in enumerate(plan.bins()) for i in members}
        assert home[0] == home[3]
        assert home[2] == home[5] == home[6]

    def test_a_group_stays_on_one_rank(self):
        samples = {"length": [6, 6, 6, 6], "prompt": [0, 0, 1, 1]}
        plan = planner(group="prompt", group_scope="rank", seq_len=6).plan(samples)
        assert sorted(sorted(chain.from_iterable(plan.rank(r))) for r in range(2)) == [[0, 1], [2, 3]]

    @pytest.mark.parametrize("none", [[-1, -1], [None, None], [None, -1], [-1.0, -1.0]])
    def test_samples_of_no_group_are_free(self, none):
        samples = {"length": [1, 1, 5, 5], "prompt": [7, 7, *none]}
        plan = planner(group="prompt", local_batch_size=1).plan(samples)
        assert sorted(map(sorted, plan.bins())) in ([[0, 1, 2], [3]], [[0, 1, 3], [2]])

    def test_groups_of_text_numbers_and_records_are_alike(self):
        lengths = [5, 4, 3, 2, 1, 1]
        labels = {"text": list("bbaacc"), "numbers": [8, 8, 3, 3, 9, 9], "floats": [0.5, 0.5, 0.1, 0.1, 2, 2]}
        digests = {planner(group="g").plan({"length": lengths, "g": values}).digest for values in labels.values()}
        records = [SampleMetadata(n, features={"g": g}) for n, g in zip(lengths, labels["text"], strict=True)]
        digests.add(planner(group="g").plan(records).digest)
        assert len(digests) == 1

    def test_forbidden_neighbours_never_share_a_row(self):
        samples = {"length": LENGTHS, "lang": list("ababcacb")}
        plan = planner(forbid="lang", seq_len=40).plan(samples)
        assert all(len({samples["lang"][i] for i in members}) == 1 for members in plan.bins())

    def test_oversized_samples_are_alone(self):
        plan = planner(seq_len=10, oversized_policy="single").plan([25, 11, 5, 5, 4])
        rows = sorted(map(sorted, plan.bins()))
        assert [0] in rows
        assert [1] in rows
        assert plan.metrics["largest_bin_tokens"] == 25

    def test_equal_counts(self):
        plan = planner(equal_count=True, algorithm="equal_count").plan([90, 1, 1, 1, 1, 2])
        assert sorted(map(len, plan.bins())) == [3, 3]

    @examples(150)
    @given(st.sampled_from([(1, 2), (2, 1), (2, 2), (1, 3)]), st.data())
    def test_equal_counts_survive_the_sorting_into_rounds(self, shape, data):
        window, slots = shape
        lengths = data.draw(column(2 * window * slots * data.draw(st.integers(1, 3)), 1, 40))
        made = planner(
            equal_count=True, algorithm="equal_count", objective="rounds", window=window, local_batch_size=slots
        )
        plan = made.plan(lengths)
        counts = np.diff(plan.offsets).reshape(plan.ranks, -1).sum(axis=1)
        assert len(set(counts.tolist())) == 1

    def test_padding_counts_as_work(self):
        plan = planner(seq_len=10, local_batch_size=1, padding_cost={"linear": 0.5}).plan([8, 2])
        assert sorted(plan.rank_loads.tolist()) == [2 + 4.0, 8 + 1.0]
        plan = planner(seq_len=10, local_batch_size=1, padding_cost=lambda unused: unused**2).plan([8, 2])
        assert sorted(plan.rank_loads.tolist()) == [8 + 4.0, 2 + 64.0]
        plan = planner(seq_len=10, local_batch_size=1, padding_cost={"quadratic": 1, "linear": 1}).plan([8, 2])
        assert sorted(plan.rank_loads.tolist()) == [8 + 2 + 4.0, 2 + 8 + 64.0]
