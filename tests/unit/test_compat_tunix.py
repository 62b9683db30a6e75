"""Drop-in functions of tunix: signatures, return forms, and where the answers are better ones."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from packing import ConfigError, InfeasibleError
from packing.compat import tunix


@dataclass
class TrainExample:
    """The fields that tunix's class has, padded: prompts on the left, completions on the right."""

    prompt_ids: Any
    prompt_mask: Any
    completion_ids: Any
    completion_mask: Any
    advantages: Any
    ref_per_token_logps: Any
    old_per_token_logps: Any
    segment_ids: Any = None
    segment_positions: Any = None
    is_update_step: Any = None
    policy_version: Any = None


def example(sizes, first=1, versions=None, **others):
    """One padded example of (prompt, completion) sizes; ids count up from `first`, which says who is who."""
    width, length = max(p for p, _ in sizes) + 1, max(c for _, c in sizes) + 2
    prompts, completions = np.full((len(sizes), width), 99, np.int32), np.full((len(sizes), length), 99, np.int32)
    masks = np.zeros(prompts.shape, np.int32), np.zeros(completions.shape, np.float32)
    for row, (p, c) in enumerate(sizes):
        prompts[row, width - p :] = np.arange(first, first + p)
        completions[row, :c] = np.arange(first + p, first + p + c)
        masks[0][row, width - p :], masks[1][row, :c] = 1, 1
        first += p + c
    logps = completions * np.float32(0.5)
    fields = {
        "prompt_ids": prompts,
        "prompt_mask": masks[0],
        "completion_ids": completions,
        "completion_mask": masks[1],
        "advantages": np.arange(1, len(sizes) + 1, dtype=np.float32),
        "ref_per_token_logps": logps,
        "old_per_token_logps": None,
        "policy_version": None if versions is None else np.array(versions),
    }
    return TrainExample(**{**fields, **others})


SIZES = [(2, 3), (1, 1), (3, 4), (2, 2), (1, 5)]


def test_signatures_are_those_of_tunix():
    assert list(inspect.signature(tunix.pack_sequences).parameters)[:6] == [
        "item_iterator", "max_token_budget", "pad_id", "target_items_per_update", "num_packs", "packing_strategy",
    ]  # fmt: skip
    assert list(inspect.signature(tunix.karmarkar_karp).parameters) == ["vals", "k"]
    assert list(inspect.signature(tunix.balanced_pack).parameters)[:3] == [
        "items_with_tokens", "max_token_budget", "num_packs",
    ]  # fmt: skip
    assert list(inspect.signature(tunix.group_by_version).parameters) == ["valid"]


@pytest.mark.parametrize("strategy", ["kk", "first_fit"])
def test_rows_hold_every_sequence_with_its_columns(strategy):
    outcome = list(tunix.pack_sequences([[example(SIZES)]], 12, 7, num_packs=2, packing_strategy=strategy))
    assert all(len(one) == 1 and isinstance(one[0], TrainExample) for one in outcome)
    found = {}
    for (packed,) in outcome:
        assert packed.completion_ids.shape == packed.segment_ids.shape == packed.advantages.shape == (2, 12)
        assert packed.prompt_ids.shape == packed.prompt_mask.shape == (2, 0)
        assert packed.old_per_token_logps is None
        assert packed.policy_version is None
        assert packed.is_update_step.tolist() == [False]
        padding = packed.segment_ids == 0
        assert (packed.completion_ids[padding] == 7).all()
        for column in (packed.completion_mask, packed.advantages, packed.ref_per_token_logps, packed.segment_positions):
            assert not column[padding].any()
        for row in range(2):
            for segment in range(1, packed.segment_ids[row].max() + 1):
                where = packed.segment_ids[row] == segment
                ids = packed.completion_ids[row][where]
                assert packed.segment_positions[row][where].tolist() == list(range(ids.size))
                mask = packed.completion_mask[row][where] == 1
                assert np.array_equal(packed.ref_per_token_logps[row][where], ids * 0.5 * mask)
                found[int(ids[0])] = (ids.tolist(), int(mask.sum()), packed.advantages[row][where].tolist())
    first = 1
    for number, (p, c) in enumerate(SIZES, 1):
        assert found.pop(first) == (list(range(first, first + p + c)), c, [0.0] * p + [float(number)] * c)
        first += p + c
    assert not found


def test_first_fit_looks_at_every_pack_and_keeps_the_order():
    lists = [[example([(1, 5), (1, 6), (1, 3), (1, 2)])]]
    ((packed,),) = tunix.pack_sequences(lists, 10, num_packs=2, packing_strategy="first_fit")
    assert packed.segment_ids.max(axis=1).tolist() == [2, 2]  # next fit, the rule in tunix, would need a third pack
    assert packed.completion_ids[:, 0].tolist() == [1, 7]


def test_advantages_may_be_per_token_and_tokens_between_masked_ones_stay():
    one = example([(1, 4)])
    one.completion_mask[0, 1] = 0  # a tool's answer
    one.advantages = np.arange(6, dtype=np.float32)[None]
    ((packed,),) = tunix.pack_sequences([[one]], 8)
    assert packed.completion_ids[0, :5].tolist() == [1, 2, 3, 4, 5]
    assert packed.completion_mask[0].tolist() == [0, 1, 0, 1, 1, 0, 0, 0]
    assert packed.advantages[0].tolist() == [0, 0, 1, 2, 3, 0, 0, 0]


def test_the_tokens_that_were_written_may_be_said():
    one = example([(1, 4)])
    one.completion_attention_mask = np.array([[1, 1, 1, 1, 1, 0]])
    ((packed,),) = tunix.pack_sequences([[one]], 8)
    assert packed.segment_ids[0].tolist() == [1] * 6 + [0, 0]
    assert packed.completion_mask[0].tolist() == [0, 1, 1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("strategy", ["kk", "first_fit"])
def test_a_row_never_mixes_versions(strategy):
    lists = [[example([(1, 1)] * 3, versions=[4, 5, 4]), example([(1, 1)] * 3, first=20, versions=[5, 5, 6])]]
    (first,), (second,) = tunix.pack_sequences(lists, 12, num_packs=2, packing_strategy=strategy)
    rows = {}
    for packed in (first, second):
        for ids, version in zip(packed.completion_ids, packed.policy_version, strict=True):
            rows[tuple(ids[ids > 0])] = int(version)
    version_of = {1: 4, 2: 4, 5: 4, 6: 4, 3: 5, 4: 5, 20: 5, 21: 5, 22: 5, 23: 5, 24: 6, 25: 6}
    assert sorted(token for row in rows for token in row) == sorted(version_of)
    assert all(version_of[token] == version for row, version in rows.items() for token in row)


def test_dummy_rows_name_a_version_that_there_is():
    ((packed,),) = tunix.pack_sequences([[example([(1, 1)] * 2, versions=[4, 5])]], 12, num_packs=4)
    assert sorted(packed.policy_version[:2]) == [4, 5]
    assert packed.policy_version[2:].tolist() == [4, 4]
    assert not packed.segment_ids[2:].any()


def test_updates_end_with_the_last_rows_of_their_last_list():
    lists = [[example(SIZES)], [], [example(SIZES)], [example(SIZES)], [example([(1, 1)])]]
    steps = [bool(packed.is_update_step[0]) for (packed,) in tunix.pack_sequences(lists, 8, target_items_per_update=2)]
    per_list = len(list(tunix.pack_sequences(lists[:1], 8)))
    assert steps == [False] * (2 * per_list - 1) + [True] + [False] * per_list + [True]


def test_a_stream_that_ends_inside_an_update_is_an_error():
    iterator = tunix.pack_sequences([[example([(1, 1)])]], 8, target_items_per_update=2)
    next(iterator)
    message = "the stream ends inside an update: it has 1 of the 2 lists `target_items_per_update`."
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        next(iterator)


def test_no_lists_and_lists_without_sequences_give_nothing():
    assert list(tunix.pack_sequences([], 8)) == list(tunix.pack_sequences([[], []], 8)) == []


def test_a_class_that_is_no_dataclass_gets_every_field():
    class Loose:
        def __init__(self, **fields):
            self.__dict__.update(fields)

    fields = {name: value for name, value in vars(example(SIZES)).items() if value is not None}
    ((packed,),) = tunix.pack_sequences([[Loose(**fields, returns=fields["completion_mask"])]], 32)
    assert packed.returns.sum() == sum(c for _, c in SIZES)


def changed(**fields):
    return lambda: example([(1, 2), (2, 1)], **fields)


REFUSED = [
    (changed(prompt_ids=None), "`prompt_ids` of example 0 in list 0 must be given."),
    (changed(prompt_mask=np.ones((2, 2))), "`prompt_ids` of example 0 in list 0 must be integers [B, P] with a "
     "`prompt_mask` of that shape, but got int32 (2, 3) and (2, 2)."),
    (changed(completion_ids=np.ones((2, 4))), "`completion_ids` of example 0 in list 0 must be integers [B, C] with a "
     "`completion_mask` of that shape, but got float64 (2, 4) and (2, 4)."),
    (changed(completion_ids=np.ones((1, 4), int), completion_mask=np.ones((1, 4))),
     "`prompt_ids` of example 0 in list 0 must have as many rows as `completion_ids`, but got 2 and 1."),
    (changed(advantages=np.ones(3)), "`advantages` of example 0 in list 0 must have shape (2, 4), but got (3,)."),
    (changed(ref_per_token_logps=np.ones((2, 3))),
     "`ref_per_token_logps` of example 0 in list 0 must have shape (2, 4), but got (2, 3)."),
    (changed(policy_version=np.ones(2)),
     "`policy_version` of example 0 in list 0 must be 2 integers, but got float64 (2,)."),
    (changed(prompt_mask=np.zeros((2, 3)), completion_mask=np.array([[0, 0, 0, 0], [1, 0, 0, 0]])),
     "row 0 of example 0 in list 0 must have at least one token, but got none."),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=lambda value: None)
def test_a_malformed_example_is_named(make, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        list(tunix.pack_sequences([[make()]], 16))


def test_versions_are_in_all_examples_of_a_list_or_in_none():
    lists = [[example([(1, 1)], versions=[3]), example([(1, 1)])]]
    with pytest.raises(ConfigError, match=r"^`policy_version` must be in all examples of list 0 or in none\.$"):
        list(tunix.pack_sequences(lists, 16))


def test_settings_are_refused_at_once_and_a_long_sequence_when_it_comes():
    with pytest.raises(
        ConfigError, match=r"^`packing_strategy` must be one of \"kk\", \"first_fit\", but got 'ffd'\.$"
    ):
        tunix.pack_sequences([], 8, packing_strategy="ffd")
    with pytest.raises(ConfigError, match=r"^`target_items_per_update` must be a positive integer, but got 0\.$"):
        tunix.pack_sequences([], 8, target_items_per_update=0)
    with pytest.raises(ConfigError, match=r"^`item_iterator` must be an iterable of lists of examples, but got 3\.$"):
        tunix.pack_sequences(3, 8)
    with pytest.raises(ConfigError, match=r"^`max_segments_per_packed_row` must be a positive integer, but got 0\.$"):
        tunix.pack_sequences([], 8, max_segments_per_packed_row=0)
    message = r"^row 1 of example 0 in list 1 has 9 tokens, over `max_token_budget` = 8\.$"
    with pytest.raises(InfeasibleError, match=message):
        list(tunix.pack_sequences([[example([(4, 3)])], [example([(1, 2), (4, 5)])]], 8))


# ------------------------------------------------------------------------------------------------------------- helpers


def test_differencing():
    values = [8, 7, 6, 5, 4]
    groups = tunix.karmarkar_karp(values, 2)
    assert [sum(values[at] for at in group) for group in groups] == [16, 14]
    assert tunix.karmarkar_karp([3, 5], 3) == [[1], [0], []]
    assert tunix.karmarkar_karp([], 2) == [[], []]


def test_pairs_are_grouped_by_version():
    pairs = [({"policy_version": np.array([7]), "id": 0}, 3), ({"id": 1}, 4), ({"policy_version": 7, "id": 2}, 5)]
    assert [[item["id"] for item, _ in group] for group in tunix.group_by_version(pairs)] == [[0, 2], [1]]
    with pytest.raises(ConfigError, match=r"^`policy_version` of item 0 must be one number, but got \[1, 2\]\.$"):
        tunix.group_by_version([({"policy_version": [1, 2]}, 3)])
    with pytest.raises(ConfigError, match=r"^`policy_version of item 0` must be an integer, but got 1\.5\.$"):
        tunix.group_by_version([({"policy_version": 1.5}, 3)])


def test_packs_are_a_multiple_under_the_budget():
    tokens = np.random.default_rng(0).integers(1, 100, 50).tolist()
    packs = tunix.balanced_pack([(f"item {at}", count) for at, count in enumerate(tokens)], 128, 4)
    assert len(packs) % 4 == 0
    assert sorted(item for pack in packs for item in pack) == sorted(f"item {at}" for at in range(50))
    assert max(sum(tokens[int(item.split()[1])] for item in pack) for pack in packs) <= 128
    assert tunix.balanced_pack([("a", 3), ("b", 4)], 8, 4) == [["b"], ["a"], [], []]
    with pytest.raises(InfeasibleError, match=r"^sequence 1 has 9 tokens, over `max_token_budget` = 8"):
        tunix.balanced_pack([("a", 3), ("b", 9)], 8, 4)


def test_packs_do_not_mix_versions():
    pairs = [({"policy_version": at % 2}, 1) for at in range(6)]
    packs = tunix.balanced_pack(pairs, 8, 1)
    assert [{item["policy_version"] for item in pack} for pack in packs] in ([{0}, {1}], [{1}, {0}])
