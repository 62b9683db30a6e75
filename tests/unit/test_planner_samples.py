"""Lengths, columns, records and keys: what of them reaches the plan and its digest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import SampleKey, SampleMetadata, WorkloadCost
from packing.errors import InfeasibleError, NoCandidateError
from tests.planning import LENGTHS, planner
from tests.problems import column, examples


class TestSamples:
    def test_costs_come_from_the_column_the_records_or_the_lengths(self):
        assert planner().plan([3, 4]).rank_loads.tolist() == [4.0, 3.0]
        by_column = planner().plan({"length": [3, 4], "cost": [0.5, 0.25]})
        assert by_column.rank_loads.tolist() == [0.5, 0.25]
        assert by_column.estimator == "given"
        records = [SampleMetadata(3, cost=WorkloadCost(llm=7.5)), SampleMetadata(4)]
        assert planner().plan(records).rank_loads.tolist() == [7.5, 0.0]
        costless = [SampleMetadata(3, cost=WorkloadCost(io=9.0)), SampleMetadata(4)]
        assert planner().plan(costless).rank_loads.tolist() == [4.0, 3.0]

    def test_an_estimator_overrules_given_costs(self):
        plan = planner(estimator={"name": "attention", "linear": 0, "quadratic": 1}).plan(
            {"length": [3, 4], "cost": [9, 9]}
        )
        assert plan.rank_loads.tolist() == [16.0, 9.0]

    def test_an_estimator_sees_the_columns_and_the_records(self):
        seen = []

        def cost(record):
            seen.append(record)
            return record.features["images"] + record.pack_tokens

        records = [SampleMetadata(3, features={"images": 4}), SampleMetadata(4, features={"images": 0})]
        assert sorted(planner(estimator=cost).plan(records).rank_loads.tolist()) == [4.0, 7.0]
        columns = {"length": [3, 4], "images": [4, 0]}
        assert sorted(planner(estimator=cost).plan(columns).rank_loads.tolist()) == [4.0, 7.0]

    def test_keys_by_record_and_by_column_are_the_same(self):
        keys = [(1, 0, 5), (0, 2, 7), (0, 1, 9), (3, 3, 3)]
        lengths = [4, 4, 4, 7]
        records = [SampleMetadata(length, key=SampleKey(*key)) for length, key in zip(lengths, keys, strict=True)]
        plan = planner().plan(records)
        assert plan.digest == planner().plan({"length": lengths, "key": keys}).digest
        assert plan.keys() == [[SampleKey(*keys[i]) for i in members] for members in plan.bins()]
        assert plan.sample_keys.tolist() == [list(key) for key in keys]
        assert planner().plan(lengths).keys() is None

    def test_short_keys_are_filled_with_zeros(self):
        plan = planner().plan({"length": [4, 4], "key": [7, 3]})
        assert plan.keys() == [[SampleKey(3, 0, 0)], [SampleKey(7, 0, 0)]]

    def test_the_key_breaks_ties(self):
        assert planner().plan({"length": [4, 4], "key": [0, 1]}).bins() == [[0], [1]]
        assert planner().plan({"length": [4, 4], "key": [1, 0]}).bins() == [[1], [0]]

    @examples(100)
    @given(st.data())
    def test_the_order_of_keyed_samples_plays_no_part(self, data):
        count = data.draw(st.integers(4, 10))
        lengths, costs = data.draw(column(count, 1, 9)), data.draw(column(count, 0, 9))
        prompts, kinds = data.draw(column(count, -1, 2)), data.draw(column(count, 0, 1))
        order = data.draw(st.permutations(range(count)))
        samples = {"length": lengths, "cost": costs, "prompt": prompts, "lang": kinds, "key": range(10, 10 + count)}
        permuted = {name: [values[i] for i in order] for name, values in samples.items()}
        made = planner(seq_len=20, group="prompt", forbid="lang", padding_cost={"linear": 0.5}, window=2)
        try:
            plan = made.plan(samples)
        except (InfeasibleError, NoCandidateError) as error:
            with pytest.raises(type(error)):
                made.plan(permuted)
            return
        other = made.plan(permuted)
        assert other.digest == plan.digest
        assert other.keys() == plan.keys()
        assert [[order[i] for i in members] for members in other.bins()] == plan.bins()
        bins = [[order.index(i) for i in members] for members in plan.bins()]
        assert (
            made.plan(permuted, bins).digest
            == made.plan(samples, plan.bins()).digest
            == made.plan(samples, plan.keys()).digest
        )

    @pytest.mark.parametrize(
        "change",
        [
            {"length": [9, 8, 7, 6, 5, 4, 3, 1]}, {"cost": [1, 2, 3, 4, 5, 6, 7, 9]}, {"key": [8, 1, 2, 3, 4, 5, 6, 7]},
            {"memory": [1, 1, 1, 1, 1, 1, 1, 2]}, {"prompt": [0, 0, 1, 1, 2, 2, 3, 4]}, {"lang": [0] * 8},
        ],
        ids=lambda change: next(iter(change)),
    )  # fmt: skip
    def test_every_input_changes_the_digest(self, change):
        samples = {
            "length": LENGTHS, "cost": [1, 2, 3, 4, 5, 6, 7, 8], "key": range(8), "memory": [1] * 8,
            "prompt": [0, 0, 1, 1, 2, 2, 3, 3], "lang": [0, 0, 0, 0, 0, 0, 1, 1],
        }  # fmt: skip
        made = planner(group="prompt", forbid="lang", packing_budgets={"memory": 9}, local_batch_size=2)
        assert made.plan(samples).digest != made.plan(samples | change).digest

    def test_step_and_reference_change_the_digest(self):
        plans = [
            planner().plan(LENGTHS),
            planner().plan(LENGTHS, step=1),
            planner().plan(LENGTHS, [[0, 1, 2, 3], [4, 5, 6, 7]]),
            planner().plan(LENGTHS, [[0, 1, 2], [3, 4, 5, 6, 7]]),
        ]
        assert len({plan.digest for plan in plans}) == 4
