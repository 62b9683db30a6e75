"""Whatever a user gets wrong is one exception whose message says what."""

from __future__ import annotations

import numpy as np
import pytest

from packing import Assignment, Planner, SampleKey, SampleMetadata
from packing.errors import (
    AuditError,
    ConfigError,
    InfeasibleError,
    NoCandidateError,
    PackingError,
    PluginError,
    UnknownNameError,
    UnsupportedProblemError,
)
from tests.planning import planner

ALGORITHMS = (
    "auto, lpt, exchange, feasible_lpt, kk, combine, level_multifit, equal_count, first_fit, first_fit_decreasing, "
    "best_fit_decreasing, exact_fill, next_fit, none"
)


def refused(error: type[PackingError], message: str, call) -> None:
    with pytest.raises(PackingError) as caught:
        call()
    assert (type(caught.value), str(caught.value)) == (error, message)


# ------------------------------------------------------------------------------------------------------------ lengths


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "`samples` must not be empty: there is nothing to plan."),
        (np.empty(0, np.int64), "`samples` must not be empty: there is nothing to plan."),
        ({"length": []}, "`samples` must not be empty: there is nothing to plan."),
        ([5, -3], "`samples` must be positive, but got -3 at index 1."),
        ([5, 0], "`samples` must be positive, but got 0 at index 1."),
        ([5.0, float("nan")], "`samples` must hold whole numbers, but got nan at index 1."),
        ([5.0, float("inf")], "`samples` must hold whole numbers, but got inf at index 1."),
        ([5.0, 2.5], "`samples` must hold whole numbers, but got 2.5 at index 1."),
        ([5.0, 2.0**53], "`samples` must hold whole numbers, but got 9007199254740992.0 at index 1."),
        ([[5, 3], [2, 1]], "`samples` must be one-dimensional, but got shape (2, 2)."),
        ([[5], [2, 1]], "`samples` must be a one-dimensional array of integers, but got [[5], [2, 1]]."),
        (np.asarray(5), "`samples` must be one-dimensional, but got shape ()."),
        ([5, None], "`samples` must hold integers, but got dtype object with None at index 1."),
        ([5, object], "`samples` must hold integers, but got dtype object with <class 'object'> at index 1."),
        (["5", "3"], "`samples` must hold integers, but got dtype <U1 with '5' at index 0."),
        ([b"5", b"3"], "`samples` must hold integers, but got dtype |S1 with b'5' at index 0."),
        ([True, True], "`samples` must hold integers, but got True at index 0."),
        ([3, True], "`samples` must hold integers, but got True at index 1."),
        (np.asarray([True]), "`samples` must hold integers, but got dtype bool with True at index 0."),
        ([5j, 2], "`samples` must hold integers, but got dtype complex128 with 5j at index 0."),
        ("53", "`samples` must be lengths, columns or records, but got '53'."),
        (b"53", "`samples` must be lengths, columns or records, but got b'53'."),
        (7, "`samples` must be lengths, columns or records, but got 7."),
        (None, "`samples` must be lengths, columns or records, but got None."),
        ([5, 2**70], f"`samples` must fit into 64-bit integers, but got {2**70} at index 1."),
        (np.asarray([5, 2**63], np.uint64), f"`samples` must fit into 64-bit integers, but got {2**63}."),
        ([2**61, 2**61], f"`tokens` overflows: its sum must stay below 2**62, but got {2**62}."),
    ],
)
def test_lengths(samples, message):
    refused(ConfigError, message, lambda: planner().plan(samples))


def test_generators_have_no_length():
    with pytest.raises(ConfigError, match="`samples` must be lengths, columns or records, but got <generator"):
        planner().plan(length for length in (1, 2))


def test_alignment_that_overflows():
    message = f"`samples` must hold lengths of at most 2**62 after `alignment`, but got {2**63 - 1} at index 1."
    refused(ConfigError, message, lambda: planner(alignment=64).plan([1, 2**63 - 1]))


# ---------------------------------------------------------------------------------------------- columns and records


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ({"tokens": [1, 2]}, "`samples` must have a column 'length', but has: tokens."),
        ({"length": [1, 0]}, "`samples['length']` must be positive, but got 0 at index 1."),
        ({"length": [1, 2], "cost": [1]}, "`samples['cost']` must have 2 values like 'length', but has 1."),
        ({"length": [1, 2], "cost": 5}, "`samples['cost']` must have 2 values like 'length', but got 5."),
        ({"length": [1, 2], "cost": [1, -2]}, "`cost` must be finite and non-negative, but got -2 at index 1."),
        (
            {"length": [1, 2], "cost": [1, float("nan")]},
            "`cost` must be finite and non-negative, but got nan at index 1.",
        ),
        ({"length": [1, 2], "cost": [1, "a"]}, "`cost` must hold numbers, but got '1' at index 0."),
        ({"length": [1, 2], "cost": [0.5, False]}, "`cost` must hold numbers, but got False at index 1."),
        ({"length": [1, 2], "cost": np.asarray([False, True])}, "`cost` must hold numbers, but got False at index 0."),
        (
            {"length": [1, 2], "cost": [[1], [2]]},
            "`cost` must be one number for each of the 2 samples, but got shape (2, 1).",
        ),
        ({"length": [1, 2], "cost": [1, 2**64]}, f"`cost` overflows a 64-bit integer: got {2**64}."),
        (
            {"length": [1, 2], "cost": [1e308, 1e308]},
            "`cost` overflows: the sum of all costs must stay below 2**1023, but one is 1e+308.",
        ),
        (
            {"length": [1, 2], "key": [7, 7]},
            "`samples` must have distinct keys, but (7, 0, 0) belongs to both index 0 and index 1.",
        ),
        (
            {"length": [1, 2, 3], "key": [[7, 1], [0, 0], [7, 1]]},
            "`samples` must have distinct keys, but (7, 1, 0) belongs to both index 0 and index 2.",
        ),
        ({"length": [1, 2], "key": [7, -7]}, "`samples['key']` must be non-negative, but got -7 at index 1."),
        (
            {"length": [1, 2], "key": ["a", "b"]},
            "`samples['key']` must hold integers, but got dtype <U1 with 'a' at index 0.",
        ),
        (
            {"length": [1, 2], "key": [[1, 2, 3, 4]] * 2},
            "`samples['key']` must have one to three integers for each sample, but got [[1, 2, 3, 4], [1, 2, 3, 4]].",
        ),
        (
            {"length": [1, 2], "key": [[1], [2, 3]]},
            "`samples['key']` must have one to three integers for each sample, but got [[1], [2, 3]].",
        ),
        ([SampleMetadata(3), 3], "`samples` must all be records, but got 3 at index 1."),
        (
            [SampleMetadata(3, key=SampleKey(0, 0)), SampleMetadata(3)],
            "`samples` must all have a key or none, but the record at index 1 has none.",
        ),
        (
            [SampleMetadata(3, key=SampleKey(0, 1)), SampleMetadata(3, key=SampleKey(0, 1))],
            "`samples` must have distinct keys, but (0, 1, 0) belongs to both index 0 and index 1.",
        ),
        (
            [SampleMetadata(3), SampleMetadata(2**70)],
            f"`pack_tokens` must fit into 64-bit integers, but got {2**70} at index 1.",
        ),
        (
            [SampleMetadata(3, key=SampleKey(0, 2**70)), SampleMetadata(3, key=SampleKey(0, 1))],
            f"`key.dataset_index` must fit into 64-bit integers, but got {2**70} at index 0.",
        ),
    ],
)  # fmt: skip
def test_columns_and_records(samples, message):
    refused(ConfigError, message, lambda: planner().plan(samples))


def test_costs_that_overflow_in_the_estimator():
    message = (
        "the `attention` cost of sample 1 must fit into 64-bit integers, but `length` = 1099511627776 gives "
        f"{49152 * 2**40 + 2**80}."
    )
    refused(ConfigError, message, lambda: planner(estimator="attention").plan([1, 2**40]))


def test_the_step():
    refused(ConfigError, "`step` must be a non-negative integer, but got -1.", lambda: planner().plan([1, 2], step=-1))
    refused(
        ConfigError, "`step` must be a non-negative integer, but got True.", lambda: planner().plan([1, 2], step=True)
    )


# ---------------------------------------------------------------------------------------------------- infeasible input


def test_fewer_samples_than_bins():
    message = "3 samples cannot fill 4 bins without leaving one empty."
    refused(InfeasibleError, message, lambda: planner(local_batch_size=2).plan([1, 2, 3]))
    message = "1 samples cannot fill 2 bins without leaving one empty."
    refused(InfeasibleError, message, lambda: planner().plan([1]))


def test_a_sample_over_the_cap():
    message = (
        "sample 1 has 9 tokens, over the cap `seq_len` = 8 (1 such samples); `oversized_policy: single` puts each "
        "alone into a bin."
    )
    refused(InfeasibleError, message, lambda: planner(seq_len=8).plan([1, 9, 3]))
    # The message names the sample of the input, although samples are planned in the order of their keys.
    keyed = {"length": [1, 9, 3], "key": [5, 4, 3]}
    keyed_message = message.replace("sample 1", "sample 1 with key (4, 0, 0)")
    refused(InfeasibleError, keyed_message, lambda: planner(seq_len=8).plan(keyed))


def test_a_sample_over_the_cap_only_after_alignment():
    message = (
        "sample 0 has 12 tokens, over the cap `seq_len` = 10 (1 such samples); `oversized_policy: single` puts each "
        "alone into a bin."
    )
    refused(InfeasibleError, message, lambda: planner(seq_len=10, alignment=4).plan([9, 8]))


def test_a_sample_over_a_budget():
    samples = {"length": [1, 2], "memory": [3, 6]}
    message = "sample 1 needs 6 of budget 'memory', over its limit 5."
    refused(InfeasibleError, message, lambda: planner(packing_budgets={"memory": 5}).plan(samples))


def test_a_group_over_the_cap():
    samples = {"length": [5, 1, 5], "prompt": ["b", "a", "b"]}
    message = "the group of sample 0 has 10 tokens in 2 samples, but one bin holds at most 8."
    refused(InfeasibleError, message, lambda: planner(seq_len=8, group="prompt").plan(samples))


def test_nothing_found_names_the_limits_and_who_could():
    samples = {"length": [5, 4, 3, 3, 3, 2]}
    message = (
        "`algorithm` 'first_fit' found no layout of 6 samples in 2 bins of 10 tokens (100.00% full); others to try: "
        "auto, lpt, exchange, feasible_lpt, kk, combine, level_multifit, equal_count, first_fit_decreasing, "
        "best_fit_decreasing, exact_fill, next_fit."
    )
    plan = planner(seq_len=10, local_batch_size=1, algorithm="first_fit").plan
    refused(NoCandidateError, message, lambda: plan(samples["length"][::-1]))


# -------------------------------------------------------------------------------------------------------------- names


def test_an_unknown_algorithm():
    message = (
        "`algorithm` 'best_fit_decresing' does not exist. Did you mean 'best_fit_decreasing' or "
        f"'first_fit_decreasing'? There are: {ALGORITHMS}."
    )
    refused(UnknownNameError, message, lambda: planner(algorithm="best_fit_decresing"))


def test_an_unknown_estimator():
    message = "`estimator` 'atention' does not exist. Did you mean 'attention'? There are: tokens, attention, flops."
    refused(UnknownNameError, message, lambda: planner(estimator="atention"))
    refused(UnknownNameError, message, lambda: planner(estimator={"name": "atention"}))


def test_an_unknown_objective():
    message = "`objective` 'fair' does not exist; there are: makespan, balance, rounds, pipeline, components."
    refused(UnknownNameError, message, lambda: planner(objective="fair"))


def test_an_unknown_setting():
    with pytest.raises(
        ConfigError, match=r"`seqlen` is no setting of the planner\. Did you mean `seq_len`\? There are:"
    ):
        Planner.from_config({"data_parallel_size": 2, "seqlen": 8})


def test_an_unknown_option():
    message = "`algorithm` 'lpt' has no option `seed` (got 3); its options: none."
    refused(ConfigError, message, lambda: planner(algorithm={"name": "lpt", "seed": 3}))
    message = (
        "`estimator` 'attention' has no option `quadratc` (got 2); its options: `linear`, `quadratic`. Did you mean "
        "`quadratic`?"
    )
    refused(ConfigError, message, lambda: planner(estimator={"name": "attention", "quadratc": 2}))


# ----------------------------------------------------------------------------------------------------- setting values


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data_parallel_size": 0}, "`data_parallel_size` must be a positive integer, but got 0."),
        ({"data_parallel_size": True}, "`data_parallel_size` must be a positive integer, but got True."),
        ({"data_parallel_size": 2.0}, "`data_parallel_size` must be a positive integer, but got 2.0."),
        ({"data_parallel_size": None}, "`data_parallel_size` must be a positive integer, but got None."),
        ({"seq_len": 0}, "`seq_len` must be a positive integer, but got 0."),
        ({"seq_len": True}, "`seq_len` must be a positive integer, but got True."),
        ({"seq_len": "8"}, "`seq_len` must be a positive integer, but got '8'."),
        ({"seq_len": 2**70}, f"`seq_len` must be a positive integer of at most {2**62}, but got {2**70}."),
        ({"local_batch_size": -1}, "`local_batch_size` must be a positive integer, but got -1."),
        ({"local_batch_size": False}, "`local_batch_size` must be a positive integer, but got False."),
        ({"max_items": True}, "`max_items` must be a positive integer, but got True."),
        ({"max_items": 2**63}, f"`max_items` must be a positive integer of at most {2**62}, but got {2**63}."),
        ({"window": 0}, "`window` must be a positive integer, but got 0."),
        ({"alignment": 1.5}, "`alignment` must be a positive integer, but got 1.5."),
        ({"alignment": 2**63}, f"`alignment` must be a positive integer of at most {2**62}, but got {2**63}."),
        ({"equal_count": 1}, "`equal_count` must be true or false, but got 1."),
        ({"min_balance_gain": 1.0}, "`min_balance_gain` must lie in [0, 1), but got 1.0."),
        ({"min_balance_gain": 1}, "`min_balance_gain` must lie in [0, 1), but got 1."),
        ({"min_balance_gain": -0.1}, "`min_balance_gain` must lie in [0, 1), but got -0.1."),
        ({"min_balance_gain": True}, "`min_balance_gain` must be a number, but got True."),
        ({"min_balance_gain": "0.1"}, "`min_balance_gain` must be a number, but got '0.1'."),
        ({"oversized_policy": "drop"}, '`oversized_policy` must be one of "error", "single", but got \'drop\'.'),
        ({"group_scope": "node"}, '`group_scope` must be one of "bin", "rank", but got \'node\'.'),
        ({"baseline": None}, '`baseline` must be one of "contiguous", "round_robin", but got None.'),
        ({"group": 5}, "`group` must be the name of a column, but got 5."),
        ({"forbid": ["a"]}, "`forbid` must be the name of a column, but got ['a']."),
        ({"objective": 5}, "`objective` must be a name, or a mapping with one, but got 5."),
        ({"packing_budgets": [5]}, "`packing_budgets` must be a mapping from names to limits, but got [5]."),
        ({"packing_budgets": {5: 5}}, "`packing_budgets` must have names that are text, but got 5."),
        ({"packing_budgets": {"m": True}}, "`packing_budgets.m` must be a number, but got True."),
        ({"packing_budgets": {"m": -1}}, "`packing_budgets.m` must be finite and at least 0, but got -1."),
        ({"padding_cost": {"linear": 1}}, "`padding_cost` needs `seq_len`."),
        (
            {"padding_cost": {"cubic": 1}, "seq_len": 8},
            '`padding_cost` must be {"linear": a, "quadratic": b} or a function, but got {\'cubic\': 1}.',
        ),
        (
            {"padding_cost": {"linear": float("nan")}, "seq_len": 8},
            "`padding_cost.linear` must be finite and at least 0, but got nan.",
        ),
        ({"padding_cost": {"linear": True}, "seq_len": 8}, "`padding_cost.linear` must be a number, but got True."),
        (
            {"padding_cost": lambda unused: 3 - unused, "seq_len": 8},
            "`padding_cost` must be finite and non-negative, but got -1 at index 4.",
        ),
        (
            {"algorithm": None},
            "`algorithm` must be a name, a mapping with a name, a class or factory, or an object with `assign`, but "
            "got None.",
        ),
        ({"algorithm": {"objective": "balance"}}, '`algorithm` must have a "name" that is text, but got None.'),
        (
            {"estimator": 5},
            "`estimator` must be a name, a mapping with a name, a class or factory, or an object with `columns` and a "
            "call, but got 5.",
        ),
        (
            {"estimator": {"name": "attention", "linear": True}},
            "`linear` must be a non-negative integer, but got True.",
        ),
        (
            {"estimator": {"name": "attention", "linear": -1}},
            "`linear` must be a non-negative integer, but got -1.",
        ),
        (
            {"objective": "makespan", "algorithm": {"name": "lpt", "objective": "balance"}},
            "`objective` is 'makespan', but the option of `algorithm` 'lpt' says 'balance'.",
        ),
    ],
)  # fmt: skip
def test_settings(settings, message):
    refused(ConfigError, message, lambda: planner(**settings))


def test_a_config_that_is_no_mapping_or_incomplete():
    refused(ConfigError, "the config must be a mapping, but got 'lpt'.", lambda: Planner.from_config("lpt"))
    refused(ConfigError, "`data_parallel_size` must be given.", lambda: Planner.from_config({"seq_len": 8}))


# ---------------------------------------------------------------------------------- columns that the settings ask for


@pytest.mark.parametrize(
    ("settings", "samples", "message"),
    [
        (
            {"packing_budgets": {"memory": 5}},
            [1, 2],
            "`packing_budgets` names the column 'memory', but the samples have: length.",
        ),
        (
            {"packing_budgets": {"memory": 5}},
            [SampleMetadata(1, packing_costs={"images": 2}), SampleMetadata(2, features={"lang": "de"})],
            "`packing_budgets` names the column 'memory', but the samples have: images, length.",
        ),
        (
            {"packing_budgets": {"memory": 5}},
            [SampleMetadata(1, packing_costs={"memory": 2}), SampleMetadata(2)],
            "`samples` must all have 'memory', but the record at index 1 has not.",
        ),
        (
            {"packing_budgets": {"memory": 5}},
            {"length": [1, 2], "memory": [1, -2]},
            "`memory` must be finite and non-negative, but got -2 at index 1.",
        ),
        (
            {"group": "prompt"},
            {"length": [1, 2], "uid": [1, 2], 5: [1, 2]},
            "`group` names the column 'prompt', but the samples have: 5, length, uid.",
        ),
        (
            {"group": "prompt"},
            {"length": [1, 2], "prompt": [[1], [2, 3]]},
            "`samples['prompt']` must have one value for each sample, but got [[1], [2, 3]].",
        ),
        (
            {"group": "prompt"},
            {"length": [1, 2], "prompt": [[1], [2]]},
            "`group` column 'prompt' must have one value for each sample, got (2, 1).",
        ),
        (
            {"group": "prompt"},
            {"length": [1, 2], "prompt": [1.0, float("nan")]},
            "`group` column 'prompt' must hold finite values, but has NaN or infinity.",
        ),
        (
            {"forbid": "lang"},
            {"length": [1, 2], "lang": ["de", None]},
            "`forbid` column 'lang' must have a value for each sample, but has None.",
        ),
        (
            {"forbid": "policy"},
            {"length": [1, 2], "policy": [1, "1"]},
            "`forbid` column 'policy' must hold values of one type.",
        ),
        (
            {"group": "prompt"},
            {"length": [1, 2, 3], "prompt": np.asarray([1, "a", None], object)},
            "`group` column 'prompt' must hold values of one type.",
        ),
    ],
)  # fmt: skip
def test_columns_that_settings_name(settings, samples, message):
    refused(ConfigError, message, lambda: planner(**settings).plan(samples))


@pytest.mark.parametrize(
    ("settings", "needs", "able"),
    [
        (
            {"packing_budgets": {"memory": 5}},
            "`budgets`",
            "auto, lpt, exchange, feasible_lpt, combine, level_multifit, none",
        ),
        ({"group": "memory"}, "`group`", "auto, lpt, exchange, combine, level_multifit, none"),
        (
            {"max_items": 2, "forbid": "memory"},
            "`forbid`, `max_items`",
            "auto, lpt, exchange, combine, level_multifit, none",
        ),
        ({"equal_count": True}, "`equal_count`", "auto, exchange, equal_count, none"),
        (
            {"padding_cost": {"linear": 1}, "seq_len": 8},
            "`pad_cost`",
            "auto, lpt, exchange, feasible_lpt, combine, level_multifit, none",
        ),
        (
            {"max_items": 2},
            "`max_items`",
            "auto, lpt, exchange, combine, level_multifit, first_fit, first_fit_decreasing, best_fit_decreasing, "
            "exact_fill, next_fit, none",
        ),
        ({"equal_count": True, "max_items": 2}, "`equal_count`, `max_items`", "auto, exchange, none"),
    ],
)
def test_a_limit_that_the_algorithm_does_not_declare(settings, needs, able):
    message = f"`algorithm` 'kk' does not support what this problem needs: {needs}; those that do: {able}."
    samples = {"length": [1, 2], "memory": [1, 2]}
    plan = planner(algorithm="kk", local_batch_size=1, **settings).plan
    refused(UnsupportedProblemError, message, lambda: plan(samples))


# ---------------------------------------------------------------------------------------------------------- reference


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ([[0, 1], [3]], "`reference_bins` must be a valid layout, but sample 2 (4 tokens) is in no bin."),
        ([[0, 1], [2, 3, 1]], "`reference_bins` must be a valid layout, but sample 1 occurs 2 times, in bins [0, 1]."),
        ([[0, 1], [2, 7]], "`reference_bins[1]` holds sample 7, but there are 4."),
        ([[0, 1], [2, -3]], "`reference_bins[1]` must be non-negative, but got -3 at index 1."),
        (
            [[0, 2], [1, 3]],
            "`reference_bins` must be a valid layout, but sample 2 (4 tokens) does not fit into bin 0: 5 + 4 tokens "
            "exceed the capacity 8.",
        ),
        ([[0, 1, 2, 3], []], "`reference_bins` must be a valid layout, but bin 1 is empty."),
        ([[0, 1, 2, 3]], "`reference_bins` must be 2 bins, but got 1."),
        ([], "`reference_bins` must be 2 bins, but got 0."),
        ("0123", "`reference_bins` must be a sequence of bins, but got '0123'."),
        (5, "`reference_bins` must be a sequence of bins, but got 5."),
        ([[0, 1], 2], "`reference_bins[1]` must be a sequence of samples, but got 2."),
        ([[0, 1], "23"], "`reference_bins[1]` must be a sequence of samples, but got '23'."),
        ([[0, 1], [2.5, 3]], "`reference_bins[1]` must hold whole numbers, but got 2.5 at index 0."),
        ([[0, 1], [True, 3]], "`reference_bins[1]` must hold integers, but got True at index 0."),
        ([[(0, 0), (0, 1)], [2, 3]], "`reference_bins[0]` holds the key (0, 0, 0), but no sample has it."),
        ([[0, (1,)], [2, 3]], "`reference_bins[0]` must be a one-dimensional array of integers, but got [0, (1,)]."),
    ],
)  # fmt: skip
def test_a_reference_that_is_none(reference, message):
    plan = planner(seq_len=8, local_batch_size=1).plan
    refused(ConfigError, message, lambda: plan([5, 1, 4, 2], reference))


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ([[(9,)], [(8,), (7,)]], "sample 3 with key (6, 0, 0) (2 tokens) is in no bin"),
        ([[SampleKey(9, 0)], [(8, 0), (6, 0, 0), (6,)]], "sample 3 with key (6, 0, 0) occurs 2 times, in bins [1]"),
        ([[0], [1, 2]], "sample 3 with key (6, 0, 0) (2 tokens) is in no bin"),
        ([[0, 3], [1, 2, 2]], "sample 2 with key (7, 0, 0) occurs 2 times, in bins [1]"),
    ],
)
def test_a_reference_of_keyed_samples_is_told_in_their_words(reference, message):
    samples = {"length": [5, 1, 4, 2], "key": [9, 8, 7, 6]}
    message = f"`reference_bins` must be a valid layout, but {message}."
    refused(ConfigError, message, lambda: planner().plan(samples, reference))


@pytest.mark.parametrize(
    ("bins", "message"),
    [
        ([[(9,), (5,)], [(8,), (7,)]], "`reference_bins[0]` holds the key (5, 0, 0), but no sample has it."),
        ([[(9,), 2], [(8,), (7,)]], "`reference_bins[0]` mixes keys and positions: got 2."),
        ([[(9, 0, 0, 0)], [(8,)]], "`reference_bins[0]` holds the key (9, 0, 0, 0), but no sample has it."),
        ([[([9],)], [(8,)]], "`reference_bins[0]` holds the key ([9], 0, 0), but no sample has it."),
    ],
)
def test_keys_that_no_sample_has(bins, message):
    samples = {"length": [5, 1, 4, 2], "key": [9, 8, 7, 6]}
    refused(ConfigError, message, lambda: planner().plan(samples, bins))


def test_a_reference_that_breaks_a_budget_or_a_group():
    samples = {"length": [1, 1, 1, 1], "memory": [3, 3, 1, 1], "prompt": [0, 0, 1, 1]}
    message = (
        "`reference_bins` must be a valid layout, but sample 1 (1 tokens) does not fit into bin 0: 3 + 3 of budget "
        "'memory' exceed 5."
    )
    plan = planner(packing_budgets={"memory": 5}, local_batch_size=1).plan
    refused(ConfigError, message, lambda: plan(samples, [[0, 1], [2, 3]]))
    message = (
        "`reference_bins` must be a valid layout, but sample 3 (1 tokens) does not fit into bin 1: its group is in bin "
        "0, not in 1."
    )
    refused(ConfigError, message, lambda: planner(group="prompt").plan(samples, [[0, 1, 2], [3]]))


# ---------------------------------------------------------------------------------------------------- broken algorithms


class Broken:
    """Returns whatever it is told to."""

    capabilities = frozenset({"capacity", "multi_bin"})

    def __init__(self, answer) -> None:
        self.answer = answer

    def assign(self, problem):
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([[0, 1], [2]], "must return an Assignment or None, but returned <class 'list'>."),
        (
            Assignment.from_bins([[0, 1], [1, 2]]),
            "broke its contract: sample 1 with key (1, 0, 0) occurs 2 times, in bins [0, 1].",
        ),
        (Assignment.from_bins([[0, 1], [9]]), "broke its contract: bin 1 holds sample 9, but the samples are 0 to 2."),
        (Assignment.from_bins([[0, 1, 2], []]), "broke its contract: bin 1 is empty."),
        (Assignment.from_bins([[0, 1, 2]]), "broke its contract: the layout has 1 bins instead of 2."),
    ],
)  # fmt: skip
def test_an_algorithm_that_breaks_its_contract(answer, message):
    name = f"{Broken.__module__}:Broken"
    plan = planner(algorithm=Broken(answer)).plan
    samples = {"length": [1, 2, 3], "key": [2, 1, 0]}
    refused(AuditError, f"algorithm {name!r} {message}", lambda: plan(samples))


def test_an_algorithm_that_cannot_be_made():
    class Picky:
        def __init__(self) -> None:
            raise RuntimeError("no licence")

        def assign(self, problem):
            return None

    with pytest.raises(PluginError, match="could not be made: RuntimeError: no licence"):
        planner(algorithm=Picky)


def test_padding_that_no_table_can_hold():
    message = "`padding_cost` is tabulated for `seq_len` up to 16777216, but got 1099511627776."
    refused(ConfigError, message, lambda: planner(seq_len=2**40, padding_cost={"linear": 1}))


def test_budgets_in_fractions_are_named_in_fractions():
    samples = {"length": [1, 1, 1], "memory": [0.75, 0.5, 0.5]}
    message = "`local_batch_size` must be at least 2 on 1 ranks (budget 'memory': 1.75 at 1.5 a bin), but got 1."
    settings = {"data_parallel_size": 1, "local_batch_size": 1, "packing_budgets": {"memory": 1.5}}
    refused(InfeasibleError, message, lambda: Planner(**settings).plan(samples))
    message = "sample 0 needs 0.75 of budget 'memory', over its limit 0.625."
    settings["packing_budgets"] = {"memory": 0.625}
    refused(InfeasibleError, message, lambda: Planner(**settings).plan(samples))
