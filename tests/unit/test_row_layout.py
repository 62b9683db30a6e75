"""Where segments lie in rows, and what a layout refuses."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from packing import Alignment, ConfigError, InfeasibleError, Planner, RowLayout, pack


def test_whole_sequences_row_after_row():
    layout = RowLayout.from_bins([5, 3, 9, 2], [[2], [0, 3], []], row_length=16, alignment={"segment": 4, "row": 8})
    assert layout.row_offsets.tolist() == [0, 1, 3, 3]
    assert layout.sequences.tolist() == [2, 0, 3]
    assert layout.starts.tolist() == [0, 0, 0]
    assert layout.lengths.tolist() == [9, 5, 2]
    assert layout.footprints.tolist() == [12, 8, 4]
    assert layout.positions.tolist() == [0, 0, 8]
    assert layout.segment_rows.tolist() == [0, 1, 1]
    assert layout.row_columns.tolist() == [12, 12, 0]
    assert layout.row_tokens.tolist() == [9, 7, 0]
    assert layout.is_dummy.tolist() == [False, False, True]
    assert (layout.num_sequences, layout.num_segments, layout.num_rows) == (4, 3, 3)  # sequence 1 is in no row
    assert not layout.sequences.flags.writeable


def test_the_row_length_is_that_of_the_longest_row():
    assert RowLayout.from_bins([5, 3], [[0, 1]]).row_length == 8
    assert RowLayout.from_bins([5, 3], [[0, 1]], alignment={"segment": 2, "row": 16}).row_length == 16
    assert RowLayout.from_bins([], []).row_length == 0


def test_dummy_rows_fill_up():
    layout = RowLayout.from_bins([5], [[0]], num_rows=3)
    assert layout.is_dummy.tolist() == [False, True, True]
    with pytest.raises(InfeasibleError, match=r"^`bins` has 1 rows, more than `num_rows` 0\.$"):
        RowLayout.from_bins([5], [[0]], num_rows=0)


def test_from_a_plan_and_from_packed_bins():
    lengths = [30, 12, 25, 7, 18, 3]
    plan = Planner(data_parallel_size=2, seq_len=64, alignment=8).plan(lengths)
    layout = RowLayout.from_plan(plan, alignment=8)
    assert (layout.row_length, layout.num_rows) == (64, plan.num_bins)
    assert [layout.select([r]).sequences.tolist() for r in range(layout.num_rows)] == plan.bins()
    assert layout.row_columns.tolist() == plan.bin_tokens.tolist()
    with pytest.raises(ConfigError, match=r"^`alignment` must be that of the plan, but got Alignment\(segment=16"):
        RowLayout.from_plan(plan, alignment=16)
    bins = pack(lengths, 40)
    assert RowLayout.from_bins(lengths, bins).num_rows == bins.num_bins


def test_an_oversized_sample_lengthens_every_row():
    plan = Planner(data_parallel_size=2, seq_len=16, oversized_policy="single").plan([40, 10, 5])
    assert RowLayout.from_plan(plan).row_length == 40


def test_the_flat_row_holds_all_segments_and_no_padding_of_rows():
    layout = RowLayout.from_bins([5, 3, 9, 2], [[2], [], [0, 3]], row_length=32, alignment={"segment": 4, "row": 16})
    flat = layout.flattened()
    assert (flat.row_offsets.tolist(), flat.sequences.tolist()) == ([0, 3], [2, 0, 3])
    assert (flat.positions.tolist(), flat.row_length) == ([0, 12, 20], 32)
    assert layout.select([0]).flattened().row_length == 16
    assert layout.select([1]).flattened().row_length == 16  # a dummy stays a dummy
    assert RowLayout.from_bins([], []).flattened().row_length == 0


def test_rows_are_selected_in_the_order_given():
    layout = RowLayout.from_bins([5, 3, 9, 2], [[2], [0, 3], [1]], row_length=16)
    chosen = layout.select([2, 1])
    assert (chosen.sequences.tolist(), chosen.row_offsets.tolist()) == ([1, 0, 3], [0, 1, 3])
    assert (chosen.num_sequences, chosen.row_length) == (4, 16)
    assert layout.select(slice(1, None)).sequences.tolist() == [0, 3, 1]
    assert layout.select([]).num_rows == 0
    with pytest.raises(ConfigError, match=r"^`rows` must hold indices in \[0, 3\), but got 3\.$"):
        layout.select([3])
    with pytest.raises(ConfigError, match=r"^`rows` must hold no row twice, but 2 is\.$"):
        layout.select([2, 0, 2])


def test_a_layout_survives_a_pickle():
    layout = RowLayout.from_bins([5, 3], [[1], [0]], alignment=4)
    again = pickle.loads(pickle.dumps(layout))
    assert again.positions.tolist() == layout.positions.tolist()
    assert (again.alignment, again.row_length) == (layout.alignment, layout.row_length)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: RowLayout.from_bins([5, 0], [[0]]), ConfigError, "`lengths` must be positive, but got 0 at index 1."),
        (lambda: RowLayout.from_bins([5], [[1]]), ConfigError, "`bins` must hold indices in [0, 1), but got 1."),
        (lambda: RowLayout.from_bins([5], [[0], [0]]), ConfigError, "`bins` must hold no sequence twice, but 0 is."),
        (
            lambda: RowLayout.from_bins([5], [[0]], row_length=4),
            InfeasibleError,
            "row 0 takes 5 tokens, more than the row length 4.",
        ),
        (
            lambda: RowLayout.from_bins([5], [[0]], row_length=20, alignment={"row": 16}),
            ConfigError,
            "`row_length` must be a multiple of the row alignment 16, but got 20.",
        ),
        (
            lambda: RowLayout(1, [0, 2], [0], [0], [5], [5], 8),
            ConfigError,
            "`row_offsets` must ascend from 0 to 1, but got [0, 2].",
        ),
        (
            lambda: RowLayout(1, [0, 1], [0], [0], [5], [4], 8),
            ConfigError,
            "`footprints` must be at least the length 5, but got 4.",
        ),
        (lambda: RowLayout(1, [0, 1], [1], [0], [5], [5], 8), ConfigError, "`sequences` must be below 1, but got 1."),
        (lambda: Alignment.of(0), ConfigError, "`alignment` must be a positive integer, but got 0."),
        (
            lambda: Alignment.of({"rows": 2}),
            ConfigError,
            "`alignment` must have the keys segment and row, but got 'rows'.",
        ),
        (
            lambda: Planner(data_parallel_size=2, seq_len=100, alignment={"row": 16}),
            ConfigError,
            "`seq_len` must be a multiple of the row alignment 16, but got 100.",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


def test_row_alignment_is_part_of_a_planners_identity():
    plain, segments, rows = (
        Planner(data_parallel_size=2, seq_len=128, alignment=one)
        for one in (8, {"segment": 8}, Alignment(segment=8, row=16))
    )
    assert plain.config_fingerprint == segments.config_fingerprint != rows.config_fingerprint
    assert rows.plan([9, 17, 40]).bin_tokens.sum() == 16 + 24 + 40
    assert np.array_equal(plain.plan([9, 17, 40]).tokens, [16, 24, 40])
