"""The planner: settings once, then the same valid, explained plan for the same samples."""

from __future__ import annotations

import json
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import Assignment, Plan, Planner, SampleKey, SampleMetadata, WorkloadCost
from packing.errors import ConfigError, InfeasibleError, NoCandidateError, UnsupportedProblemError
from packing.objectives import get_objective
from packing.registry import resolve_algorithm
from tests.problems import BUILTINS, column, examples

LENGTHS = [9, 8, 7, 6, 5, 4, 3, 2]


def planner(**settings) -> Planner:
    return Planner(**({"data_parallel_size": 2} | settings))


def samples_of(plan: Plan) -> list[int]:
    return sorted(chain.from_iterable(plan.bins()))


class Fixed:
    """Returns the layout it was made with."""

    capabilities = frozenset({"capacity", "multi_bin", "rounds", "open_bins"})

    def __init__(self, bins) -> None:
        self.layout = None if bins is None else Assignment.from_bins(bins)

    def assign(self, problem):
        self.problem = problem
        return self.layout


# ------------------------------------------------------------------------------------------------------------ settings


class TestSettings:
    def test_numpy_scalars_become_plain_numbers(self):
        made = planner(
            data_parallel_size=np.int64(2), seq_len=np.uint16(16), min_balance_gain=np.float32(0.25),
            packing_budgets={"memory": np.int32(7)}, equal_count=np.bool_(False),
        )  # fmt: skip
        assert type(made.data_parallel_size) is type(made.seq_len) is int
        assert type(made.min_balance_gain) is float
        assert type(made.packing_budgets["memory"]) is int
        assert made.equal_count is False
        plain = planner(seq_len=16, min_balance_gain=0.25, packing_budgets={"memory": 7})
        assert made.config_fingerprint == plain.config_fingerprint

    def test_settings_cannot_be_changed(self):
        with pytest.raises(AttributeError):
            planner().seq_len = 7

    def test_a_config_is_read_and_left_alone(self):
        config = {
            "data_parallel_size": 2,
            "seq_len": 32,
            "algorithm": {"name": "lpt", "objective": "balance"},
            "estimator": {"name": "attention", "linear": 3},
            "padding_cost": {"linear": 1},
        }
        before = json.dumps(config)
        made = Planner.from_config(config)
        assert json.dumps(config) == before
        assert made.plan(LENGTHS).objective == "balance"
        assert made.config_fingerprint == Planner(**config).config_fingerprint

    @pytest.mark.parametrize(
        "change",
        [
            {"data_parallel_size": 4}, {"seq_len": 31}, {"seq_len": None}, {"local_batch_size": 1},
            {"algorithm": "kk"}, {"estimator": "tokens"}, {"estimator": {"name": "attention", "linear": 3}},
            {"objective": "balance"}, {"min_balance_gain": 0.1}, {"oversized_policy": "single"},
            {"packing_budgets": {"memory": 5}}, {"window": 2}, {"alignment": 2}, {"max_items": 9},
            {"equal_count": True}, {"group": "prompt"}, {"group_scope": "rank"}, {"forbid": "lang"},
            {"padding_cost": {"linear": 1}}, {"padding_cost": lambda unused: unused * 2}, {"baseline": "round_robin"},
        ],
        ids=str,
    )  # fmt: skip
    def test_every_setting_changes_the_fingerprint(self, change):
        base = {"seq_len": 32}
        assert planner(**(base | change)).config_fingerprint != planner(**base).config_fingerprint

    def test_equal_settings_share_a_fingerprint(self):
        one = planner(seq_len=32, padding_cost={"linear": 2}, packing_budgets={"a": 1, "b": 2})
        other = planner(seq_len=32, padding_cost=lambda unused: 2 * unused, packing_budgets={"b": 2, "a": 1})
        assert one.config_fingerprint == other.config_fingerprint
        by_option = planner(algorithm={"name": "lpt", "objective": "balance"})
        assert by_option.config_fingerprint == planner(objective="balance").config_fingerprint

    def test_one_objective_said_twice(self):
        made = planner(objective="balance", algorithm={"name": "lpt", "objective": "balance"})
        assert made.plan(LENGTHS).objective == "balance"

    @pytest.mark.parametrize(
        ("algorithm", "name"),
        [
            ("kk", "kk"),
            ("packing/kk", "kk"),
            ({"name": "kk"}, "kk"),
            (Fixed([[0], [1]]), f"{__name__}:Fixed"),
            (lambda: Fixed([[0], [1]]), f"{__name__}:TestSettings.<lambda>"),
        ],
    )
    def test_ways_to_choose_an_algorithm(self, algorithm, name):
        assert planner(algorithm=algorithm).plan([3, 4]).algorithm == name

    def test_a_plain_function_as_estimator(self):
        def squares(record):
            return record.pack_tokens**2

        plan = planner(estimator=squares).plan([3, 4])
        assert plan.estimator == f"{__name__}:{squares.__qualname__}"
        assert sorted(plan.rank_loads.tolist()) == [9.0, 16.0]


# ------------------------------------------------------------------------------------------------------------- columns


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


# -------------------------------------------------------------------------------------------------------------- layout


class TestLayout:
    def test_bins_are_rank_major_within_a_round(self):
        bins = [[b] for b in range(12)]
        made = planner(window=3, local_batch_size=2, algorithm=Fixed(bins))
        plan = made.plan([1] * 12)
        assert (plan.ranks, plan.num_bins, plan.window, plan.data_parallel_size) == (6, 12, 3, 2)
        assert plan.bin(rank=0) == [0]
        assert plan.bin(rank=0, slot=1) == [1]
        assert plan.bin(rank=1) == [2]
        assert plan.bin(rank=0, round=1) == [4]
        assert plan.bin(rank=1, slot=1, round=2) == [11]
        assert plan.rank(1) == [[2], [3], [6], [7], [10], [11]]
        for name, wrong in (
            ("rank", {"rank": 2}),
            ("slot", {"rank": 0, "slot": 2}),
            ("round", {"rank": 0, "round": -1}),
        ):
            with pytest.raises(IndexError, match=f"`{name}` must lie in"):
                plan.bin(**wrong)

    def test_rounds_of_the_window_reach_the_problem(self):
        algorithm = Fixed([[b] for b in range(6)])
        planner(window=3, algorithm=algorithm).plan([1] * 6)
        assert (algorithm.problem.ranks, algorithm.problem.round_size) == (6, 2)

    def test_the_inverse_permutation_brings_samples_back(self):
        samples = np.asarray(LENGTHS) * 10
        plan = planner().plan(LENGTHS)
        assert samples[plan.permutation][plan.inverse_permutation].tolist() == samples.tolist()
        assert sorted(plan.permutation.tolist()) == list(range(8))

    def test_tokens_loads_and_costs_by_bin(self):
        plan = planner(local_batch_size=2).plan({"length": LENGTHS, "cost": [1.5] * 8})
        assert plan.bin_tokens.tolist() == [sum(LENGTHS[i] for i in members) for members in plan.bins()]
        assert plan.bin_costs.tolist() == [1.5 * len(members) for members in plan.bins()]
        assert plan.rank_loads.tolist() == [sum(1.5 * len(row) for row in plan.rank(rank)) for rank in range(2)]

    def test_an_open_count_is_the_smallest_that_fits(self):
        assert planner(seq_len=22).plan(LENGTHS).bins_per_rank == 1
        assert planner(seq_len=21).plan(LENGTHS).bins_per_rank == 2
        assert planner(seq_len=9).plan(LENGTHS).bins_per_rank == 3
        assert planner(max_items=2).plan(LENGTHS).bins_per_rank == 2
        assert planner().plan(LENGTHS).bins_per_rank == 1
        assert planner(forbid="lang").plan({"length": LENGTHS, "lang": list("abcdabcd")}).bins_per_rank == 2
        assert planner(packing_budgets={"m": 8}).plan({"length": LENGTHS, "m": [4] * 8}).bins_per_rank == 2

    def test_an_open_count_takes_the_reference_as_its_shape(self):
        reference = [[0], [1, 7], [2, 6], [3, 4, 5]]
        plan = planner(seq_len=30).plan(LENGTHS, reference)
        assert plan.bins_per_rank == 2
        with pytest.raises(ConfigError, match="`reference_bins` must be a multiple of 2 bins, but got 3"):
            planner(seq_len=30).plan(LENGTHS, [[0, 1], [2, 3, 4], [5, 6, 7]])

    @pytest.mark.parametrize("bins", [[[0, 1], [2], [3]], [[0, 1, 2, 3]], []])
    def test_an_open_algorithm_must_return_whole_ranks(self, bins):
        with pytest.raises(Exception, match=r"the layout has \d bins instead of [24]"):
            planner(seq_len=9, algorithm=Fixed(bins)).plan([1, 2, 3, 4])

    def test_the_arrays_of_a_plan_are_read_only(self):
        plan = planner().plan(LENGTHS)
        for name in ("offsets", "items", "lengths", "tokens", "fixed_costs", "pack_loads"):
            assert not getattr(plan, name).flags.writeable


# -------------------------------------------------------------------------------------------------------------- limits


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


# --------------------------------------------------------------------------------------------------- reference and gate


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
        score = get_objective(objective).score
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


# ---------------------------------------------------------------------------------------------------------- objectives


class TestObjectives:
    def test_the_score_is_the_objective_of_the_loads(self):
        for objective in ("makespan", "balance", "rounds"):
            plan = planner(objective=objective, window=2, local_batch_size=2).plan([9, 8, 7, 6, 5, 4, 3, 2, 1, 1])
            chosen = get_objective(objective)
            score = chosen.score(plan.pack_loads, 4, 2, 2)
            assert plan.decision.after == chosen.value(score, plan.cost_exponent)
            assert plan.gap >= 0

    @examples(100)
    @given(st.sampled_from(["lpt", "kk", "best_fit_decreasing", "next_fit"]), st.data())
    def test_rounds_are_realised_by_the_layout(self, algorithm, data):
        size, window, slots = (data.draw(st.integers(1, 3)) for _ in range(3))
        lengths = data.draw(column(size * window * slots + data.draw(st.integers(0, 8)), 1, 30))
        made = Planner(
            data_parallel_size=size, window=window, local_batch_size=slots, objective="rounds", algorithm=algorithm
        )
        plan = made.plan(lengths)
        realised = sum(
            max(sum(lengths[i] for i in plan.bin(rank, slot, round)) for rank in range(size))
            for round in range(window)
            for slot in range(slots)
        )
        assert realised == plan.decision.after
        assert realised >= plan.lower_bound.value

    def test_none_never_reorders(self):
        for objective in ("makespan", "balance", "rounds"):
            plan = planner(objective=objective, window=2, algorithm="none").plan([1, 2, 3, 4])
            assert plan.bins() == [[0], [1], [2], [3]]
            assert plan.inverse_permutation.tolist() == [0, 1, 2, 3]

    def test_an_algorithm_without_the_objective_is_refused(self):
        fixed = Fixed([[0, 1], [2, 3]])
        planner(algorithm=fixed, objective="balance").plan([4, 3, 2, 1])  # names no objective: indifferent
        fixed.capabilities |= {"makespan"}
        with pytest.raises(UnsupportedProblemError, match="does not support what this problem needs: `balance`"):
            planner(algorithm=fixed, objective="balance").plan([4, 3, 2, 1])


# ------------------------------------------------------------------------------------------------------------- metrics


class TestMetrics:
    def test_flat_scalars_that_json_takes(self):
        plans = [
            planner().plan(LENGTHS),
            planner(seq_len=20, alignment=8, objective="rounds", window=2).plan({"length": LENGTHS, "cost": [0.1] * 8}),
            planner().plan(LENGTHS, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ]
        for plan in plans:
            assert plan.metrics.keys() == plans[0].metrics.keys()
            assert all(type(value) in (int, float, str) for value in plan.metrics.values())
            assert json.loads(json.dumps(plan.metrics)) == plan.metrics

    def test_values(self):
        metrics = planner(seq_len=30, local_batch_size=1).plan([4, 3, 2, 1], [[0, 1], [2, 3]]).metrics
        assert metrics == {
            "num_samples": 4, "num_tokens": 10, "num_alignment_tokens": 0, "num_bins": 2, "bins_per_rank": 1,
            "fill": 10 / 60, "largest_bin_tokens": 5, "largest_rank_load": 5.0, "mean_rank_load": 5.0,
            "imbalance": 1.0, "baseline_imbalance": 1.4, "baseline_num_overflowing_bins": 0, "lower_bound": 5.0,
            "lower_bound_name": "mean", "gap": 0.0, "accepted": 1,
        }  # fmt: skip

    def test_a_bound_of_nothing_under_padding(self):
        plan = planner(seq_len=9, local_batch_size=1, padding_cost={"linear": 1}).plan(
            {"length": [1, 2], "cost": [0, 0]}
        )
        assert plan.lower_bound.value == 0.0
        assert plan.gap == float("inf")


# ------------------------------------------------------------------------------------------------- everything together


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
    assert samples_of(plan) == list(range(len(lengths)))
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
