"""Labels: equal values are one label and distinct ones are not, however they are handed in, to every entry point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import (
    ConfigError,
    Planner,
    RowLayout,
    SampleMetadata,
    balanced_pack,
    group_by_version,
    loss_weights,
    micro_batches,
    pack_sequences,
)
from packing._labels import collected, labels_of, numbered
from packing.compat import verl
from tests.unit.test_bad_input import refused

HUGE = [2**63, 2**63 + 1, 5]

FORMS = {
    "integers": HUGE,
    "uint64": np.asarray(HUGE, np.uint64),
    "objects": np.asarray(HUGE, object),
    "NumPy integers": [np.uint64(2**63), np.uint64(2**63 + 1), np.int64(5)],
    "beside floats": [2**53, 2**53 + 1, 0.5],
    "beyond 64 bits": [2**64, 2**64 + 1, -3],
    "arrays without dimensions": [np.asarray(2**63), np.asarray(2**63 + 1), np.asarray(5)],
    "tuples": [(3, 0), (3, 1), (2, 0)],
    "tuples of arrays": [(np.asarray(3), 0), (np.asarray(3), 1), (np.asarray(2), 0)],
}


def rows_apart(column):
    """Of three samples, those that each entry point puts in rows of their own under `forbid`."""
    batch = [{"input_ids": [1, 1], "uid": value} for value in column]
    packed = next(pack_sequences([batch], num_packs=1, max_token_budget=8, forbid="uid"))
    planner = Planner(data_parallel_size=1, seq_len=8, forbid="uid")
    return (
        packed.num_rows - packed.num_dummy_rows,
        balanced_pack([2, 2, 2], 1, 8, forbid=column).num_rows,
        balanced_pack([2, 2, 2], 1, 8, versions=column).num_rows,
        micro_batches([2, 2, 2], 8, forbid=column).count,
        len(planner.plan({"length": [2, 2, 2], "uid": column}).bins()),
        len(group_by_version(column)),
    )


@pytest.mark.parametrize("form", FORMS)
def test_distinct_values_are_kept_apart(form):
    column = FORMS[form]
    assert rows_apart(column) == (3,) * 6
    assert numbered(column).tolist() == [1, 2, 0]


@pytest.mark.parametrize("form", FORMS)
def test_equal_values_are_one(form):
    column = FORMS[form]
    assert rows_apart([column[1], column[1], column[1]]) == (1,) * 6
    four = [column[0], column[0], column[1], column[1]]
    layout = RowLayout.from_bins([2] * 4, [[0, 1], [2, 3]])
    for option in ("group", "prompt"):
        weights = loss_weights(layout, [[1, 1]] * 4, reduction=option, **{f"{option}s": four})
        assert weights.denominator == 2
    batch = [{"input_ids": [1, 1], "uid": value} for value in four]
    update = next(pack_sequences([batch], num_packs=2, max_token_budget=4, group="uid"))
    assert sorted(row.tolist() for row in np.split(update.layout.sequences, 2)) == [[0, 1], [2, 3]]
    assert update.loss_weights("group", groups="uid").denominator == 2
    assert balanced_pack([1, 2, 3, 4], 2, 7, group=four).to_lists() == [[2, 3], [0, 1]]
    assert micro_batches([1, 2, 3, 4], 7, group=four).count == 2
    assert verl.get_group_balanced_partitions([5, 1, 2, 8], four, 2) == [[2, 3], [0, 1]]


def test_ids_stay_exact_where_the_batches_of_an_update_are_joined():
    batches = [[{"input_ids": [1, 1], "uid": value}] for value in HUGE]
    update = next(pack_sequences(batches, num_packs=1, max_token_budget=8, forbid="uid", sequences_per_update=3))
    assert update.num_rows == 3
    assert update.values["uid"].dtype == np.uint64
    assert update.values["uid"].tolist() == HUGE


def test_labels_of_records_stay_exact():
    records = [SampleMetadata(2, features={"uid": uid}) for uid in HUGE]
    assert len(Planner(data_parallel_size=1, seq_len=8, forbid="uid").plan(records).bins()) == 3


def test_none_is_a_label_of_its_own_but_in_no_group():
    assert balanced_pack([2, 2, 2], 1, 8, forbid=[None, 7, None]).to_lists() in ([[0, 2], [1]], [[1], [0, 2]])
    assert numbered([None, 7, None]).tolist() == [0, 1, 0]
    assert numbered([None, 7, -1, 5], none=-1).tolist() == [-1, 1, -1, 0]
    assert numbered(np.asarray([-1.0, 7.0, -1.0, 5.0]), none=-1).tolist() == [-1, 1, -1, 0]
    assert numbered(np.asarray([7, 5], np.uint64), none=-1).tolist() == [1, 0]
    assert numbered([], none=-1).tolist() == []
    message = "`forbid` must have a value for each sample, but has None."
    refused(ConfigError, message, lambda: micro_batches([2, 2], 8, forbid=[None, 7]))


@given(st.lists(st.integers(-(2**65), 2**65) | st.integers(-2, 2), max_size=12))
def test_numbers_follow_the_order_of_the_values(values):
    ranked = sorted(set(values))
    assert numbered(values).tolist() == [ranked.index(value) for value in values]
    assert list(map(int, collected(values))) == values
    ranked = sorted(set(values) - {-1})
    assert numbered(values, none=-1).tolist() == [-1 if value == -1 else ranked.index(value) for value in values]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (7, "`uid` must have a value for each sequence, but got 7."),
        ("ab", "`uid` must have a value for each sequence, but got 'ab'."),
        ({5: 1, 6: 1}, "`uid` must have a value for each sequence, but got {5: 1, 6: 1}."),
        (np.asarray(7), "`uid` must have a value for each sequence, but got array(7)."),
        ([1], "`uid` must have a value for each of the 2 sequences, but got 1."),
        (np.asarray([1]), "`uid` must have a value for each of the 2 sequences, but got 1."),
        ([1, "1"], "`uid` must hold sortable values of one type, but got [1, '1']."),
        (["1", b"1"], "`uid` must hold sortable values of one type, but got ['1', b'1']."),
        ([(1, 2), (1, "a")], "`uid` must hold sortable values of one type, but got [(1, 2), (1, 'a')]."),
        (np.asarray([[1], [2]]), "`uid` must hold sortable values of one type, but got [[1], [2]]."),
        (np.asarray([1.0, np.nan]), "`uid` must hold sortable values of one type, but got [1.0, nan]."),
        ([None, float("nan")], "`uid` must hold sortable values of one type, but got [None, nan]."),
    ],
)  # fmt: skip
def test_refusals(values, message):
    refused(ConfigError, message, lambda: labels_of("uid", values, 2))


def test_values_that_cannot_be_hashed_are_no_ids_of_verl():
    message = "`uid_list` must be a list of hashable values, but got [[1], [2]]."
    refused(ConfigError, message, lambda: verl.get_group_balanced_partitions([1, 2], [[1], [2]], 2))


def test_a_name_of_a_value_is_text():
    update = next(pack_sequences([[[1, 2]]], num_packs=1, max_token_budget=4))
    message = "`groups` names the value [1], but the sequences have: none."
    refused(ConfigError, message, lambda: update.loss_weights("group", groups=[1]))
