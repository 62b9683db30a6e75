"""The planner: settings once, then a valid, explained plan."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import Planner
from packing.errors import ConfigError, UnsupportedProblemError
from packing.objectives import get_objective
from tests.planning import LENGTHS, Fixed, planner
from tests.problems import column, examples


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
        ids=lambda change: next(iter(change)),  # a lambda's own text would differ from process to process
    )  # fmt: skip
    def test_every_setting_changes_the_fingerprint(self, change):
        base = {"seq_len": 32}
        assert planner(**(base | change)).config_fingerprint != planner(**base).config_fingerprint

    def test_equal_settings_share_a_fingerprint(self):
        one = planner(seq_len=32, padding_cost={"linear": 2}, packing_budgets={"a": 1, "b": 2})
        other = planner(seq_len=32, padding_cost=lambda unused: 2 * unused, packing_budgets={"b": 2, "a": 1})
        assert one.config_fingerprint == other.config_fingerprint
        by_option = planner(algorithm={"name": "lpt", "objective": "balance"})
        assert by_option.config_fingerprint == planner(algorithm="lpt", objective="balance").config_fingerprint

    def test_one_objective_said_twice(self):
        made = planner(objective="balance", algorithm={"name": "lpt", "objective": "balance"})
        assert made.plan(LENGTHS).objective == "balance"

    @pytest.mark.parametrize(
        ("algorithm", "name"),
        [
            ("kk", "kk"),
            ("packing/kk", "kk"),
            ({"name": "kk"}, "kk"),
            (Fixed([[0], [1]]), f"{Fixed.__module__}:Fixed"),
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
            "lower_bound_name": "mean", "gap": 0.0, "accepted": 1, "objective": "makespan", "objective_value": 5.0,
            "round_imbalance": 1.0,
        }  # fmt: skip

    def test_a_bound_of_nothing_under_padding(self):
        # One unused token for nothing, and the two that are left for one: no bound is as clever as that.
        plan = planner(seq_len=9, local_batch_size=1, padding_cost=lambda unused: int(unused not in (0, 1))).plan(
            {"length": [8, 6], "cost": [0, 0]}
        )
        assert plan.lower_bound.value == 0.0
        assert plan.gap == float("inf")


def test_equal_planners_have_one_hash():
    one, other = (Planner(data_parallel_size=2, algorithm={"name": "lpt", "objective": "balance"}) for _ in range(2))
    assert one == other
    assert len({one, other, Planner(data_parallel_size=3)}) == 2
