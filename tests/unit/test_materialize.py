"""Materialised rows: every array against plain loops, over all options; the ways back; what is refused."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import Alignment, ConfigError, InfeasibleError, RowLayout, Sequences, materialize

# ------------------------------------------------------------------------------------------------------ plain loops


def make_items(lengths, dtype="int64"):
    """Sequences whose tokens are all different."""
    first = 1
    items = []
    for n, length in enumerate(lengths):
        ids = np.arange(first, first + length)
        first += length
        items.append(
            {
                "input_ids": (ids % 100).astype(dtype),
                "loss_mask": (ids * 7 + n) % 3 > 0,
                "logprobs": (-0.5 * ids).astype(np.float32),
                "wide": ids * 2**33,
                "half": (ids % 50).astype(np.float16),
                "flag": ids % 2 == 0,
                "coordinates": np.stack([ids, -ids, 3 * ids]).astype(np.int16),
                "advantage": float(n),
            }
        )
    return items


def plain_rows(items, rows, row_length, *, pads, labels, ignore_index, position_start, feature_names):
    """Arrays of rows by name, made token by token; `rows` lists (sequence, start, length, footprint)."""
    made = {name: [] for name in ("input_ids", "segment_ids", "position_ids", "loss_mask", "labels", *feature_names)}
    for segments in rows:
        columns = []  # (sequence, token, number, position) or None
        for number, (sequence, start, length, footprint) in enumerate(segments, start=1):
            columns += [(sequence, start + i, number, i) for i in range(length)] + [None] * (footprint - length)
        columns += [None] * (row_length - len(columns))

        def of(name, columns=columns):
            return [pads.get(name, 0) if at is None else items[at[0]][name][..., at[1]] for at in columns]

        made["input_ids"].append(of("input_ids"))
        made["loss_mask"].append(of("loss_mask"))
        made["segment_ids"].append([0 if at is None else at[2] for at in columns])
        made["position_ids"].append([0 if at is None else at[3] + position_start for at in columns])
        own = [
            ignore_index
            if at is None or at[3] == 0 or not items[at[0]]["loss_mask"][at[1]]
            else items[at[0]]["input_ids"][at[1]]
            for at in columns
        ]
        made["labels"].append([*own[1:], ignore_index][:row_length] if labels == "shifted" else own)
        for name in feature_names:
            planes = items[0][name].shape[:-1] if items else ()
            full = [np.broadcast_to(np.asarray(value), planes) for value in of(name)]
            made[name].append(np.moveaxis(np.stack(full), 0, -1).tolist() if full else np.empty((*planes, 0)).tolist())
    return made


def plain_cumulated(rows, row_length, num_segments):
    """(cu_seqlens, cu_seqlens_padded) as lists."""
    tokens, padded = [], []
    for segments in rows:
        ends = np.cumsum([0] + [length for _, _, length, _ in segments]).tolist()
        tokens.append(ends + [ends[-1]] * (num_segments + 1 - len(ends)))
        ends = np.cumsum([0] + [footprint for *_, footprint in segments]).tolist()[: max(len(segments), 1)]
        padded.append(ends + [row_length] * (num_segments + 1 - len(ends)))
    return tokens, padded


@st.composite
def packed(draw, segment_choices=(1, 2, 4), row_choices=(1, 3, 8)):
    """(lengths, rows of (sequence, start, length, footprint), the layout): dropped, cut and split sequences too."""
    lengths = draw(st.lists(st.integers(1, 9), max_size=7))
    alignment = Alignment(segment=draw(st.sampled_from(segment_choices)), row=draw(st.sampled_from(row_choices)))
    segments = []
    for n, length in enumerate(lengths):
        fate = draw(st.sampled_from(["whole", "whole", "cut", "split", "dropped"]))
        if fate == "whole":
            segments.append((n, 0, length))
        elif fate == "cut":
            start = draw(st.integers(0, length - 1))
            segments.append((n, start, draw(st.integers(1, length - start))))
        elif fate == "split":
            cuts = sorted(draw(st.sets(st.integers(1, length), max_size=2)) | {length})
            segments += [(n, begin, end - begin) for begin, end in pairwise([0, *cuts])]
    num_rows = draw(st.integers(1 if segments else 0, 4))
    rows = [[] for _ in range(num_rows)]
    for n, start, length in draw(st.permutations(segments)):
        footprint = -(-length // alignment.segment) * alignment.segment + alignment.segment * draw(st.integers(0, 1))
        rows[draw(st.integers(0, num_rows - 1))].append((n, start, length, footprint))
    longest = max((sum(segment[3] for segment in row) for row in rows), default=0)
    unit = math.lcm(alignment.segment, alignment.row)
    row_length = -(-longest // unit) * unit + unit * draw(st.integers(0, 1))
    return lengths, rows, make_layout(len(lengths), rows, row_length, alignment)


def make_layout(num_sequences, rows, row_length, alignment=None):
    flat = [segment for row in rows for segment in row]
    columns = [np.asarray([segment[i] for segment in flat], np.int64) for i in range(4)]
    offsets = np.cumsum([0] + [len(row) for row in rows])
    return RowLayout(num_sequences, offsets, *columns, row_length, alignment or Alignment())


def flat_rows(rows, alignment):
    """(rows, row length) of the flat form."""
    segments = [segment for row in rows for segment in row]
    used = sum(segment[3] for segment in segments)
    if not segments and rows:
        return [segments], math.lcm(alignment.segment, alignment.row)
    return [segments], -(-used // alignment.row) * alignment.row


def as_rows(array, form):
    return array.tolist() if form == "rows" else [array.tolist()]


@settings(max_examples=250, deadline=None)
@given(packed(), st.data())
def test_every_array_is_that_of_plain_loops(case, data):
    lengths, rows, layout = case
    form = data.draw(st.sampled_from(["rows", "flat"]), "form")
    options = {
        "labels": data.draw(st.sampled_from([None, "unshifted", "shifted"]), "labels"),
        "ignore_index": data.draw(st.sampled_from([-100, 7, -1000]), "ignore_index"),
        "position_start": data.draw(st.sampled_from([0, 2]), "position_start"),
    }
    pad_id = data.draw(st.sampled_from([0, 5, -1]), "pad_id")
    dtype = data.draw(st.sampled_from(["int8", "int16", "int32", "int64"]), "dtype")
    padding = data.draw(st.sampled_from([{}, {"logprobs": 1.5, "coordinates": -3}, {"flag": True, "wide": 2**40}]))
    items = make_items(lengths, dtype)
    sequences = Sequences.of(items)
    padding = {name: value for name, value in padding.items() if name in sequences.features}
    plain, row_length = (rows, layout.row_length) if form == "rows" else flat_rows(rows, layout.alignment)
    most = max([1, *map(len, plain)])
    num_segments = data.draw(st.sampled_from([None, most, most + 3]), "num_segments")
    out = None
    if data.draw(st.booleans(), "out"):
        out = materialize(sequences, layout, form=form, num_segments=num_segments, **options).arrays
        for array in out.values():
            array.reshape(-1).view(np.uint8)[:] = 0xA5
    result = materialize(
        sequences, layout, pad_id=pad_id, padding=padding, num_segments=num_segments, form=form, out=out, **options
    )
    names = list(sequences.features)
    expected = plain_rows(
        items, plain, row_length, pads={"input_ids": pad_id, **padding}, feature_names=names, **options
    )
    if options["labels"] is None:
        assert result.labels is None
        del expected["labels"]
    arrays = result.arrays
    if out is not None:
        assert arrays.keys() == out.keys()
        assert all(arrays[name] is out[name] for name in out)
    for name, rows_of_it in expected.items():
        assert as_rows(arrays[name], form) == rows_of_it, name
        ids = sequences.input_ids.dtype
        labels = "int16" if ids == np.int8 and options["ignore_index"] == -1000 else ids
        dtypes = {"segment_ids": "int32", "position_ids": "int32", "labels": labels}
        assert arrays[name].dtype == (dtypes.get(name) or (items[0][name].dtype if items else arrays[name].dtype))
    tokens, padded = plain_cumulated(plain, row_length, num_segments or most)
    assert as_rows(result.cu_seqlens, form) == tokens
    assert as_rows(result.cu_seqlens_padded, form) == padded
    assert result.cu_seqlens.dtype == result.cu_seqlens_padded.dtype == np.int32
    segments = [segment for row in plain for segment in row]
    assert result.max_seqlen == max((segment[2] for segment in segments), default=0)
    assert result.max_seqlen_padded == max((int(np.diff(ends).max()) for ends in padded), default=0)


@settings(max_examples=150, deadline=None)
@given(packed(), st.sampled_from(["rows", "flat"]))
def test_unpacking_gives_back_what_the_segments_hold(case, form):
    lengths, rows, layout = case
    sequences = Sequences.of(make_items(lengths))
    result = materialize(sequences, layout, form=form)
    there = {}
    for n, start, length, _ in sorted(segment for row in rows for segment in row):
        there.setdefault(n, []).extend(range(start, start + length))
    for name in ("input_ids", "logprobs", "coordinates"):
        values = {"input_ids": result.input_ids}.get(name, result.features.get(name))
        if values is None:
            continue
        if name == "coordinates":
            values = np.moveaxis(values, -2, -1)
        back = result.unpack(values)
        flat = {"input_ids": sequences.input_ids}.get(name, sequences.features.get(name))
        assert len(back) == len(lengths)
        for n, got in enumerate(back):
            assert (got is None) == (n not in there)
            if got is not None:
                expected = flat[..., sequences.offsets[n] + np.asarray(there[n])]
                assert got.tolist() == (expected.T if name == "coordinates" else expected).tolist()


def test_whole_sequences_come_back_as_they_went(lengths_of):
    lengths = lengths_of("servegen_r1")
    lengths = lengths[(lengths > 0) & (lengths <= 2048)][:300]
    sequences = Sequences.of([np.arange(length) + 7 * n for n, length in enumerate(lengths)])
    bins = np.array_split(np.random.default_rng(0).permutation(lengths.size), 40)
    layout = RowLayout.from_bins(lengths, [one.tolist() for one in bins], alignment={"segment": 8, "row": 128})
    for form in ("rows", "flat"):
        result = materialize(sequences, layout, form=form)
        assert np.concatenate(result.unpack(result.input_ids)).tolist() == sequences.input_ids.tolist()
        assert int(result.loss_mask.sum()) == sequences.num_tokens
    # Rows of one rank: the other sequences are elsewhere.
    mine = materialize(sequences, layout.select(range(0, 40, 4)))
    there = [n for n, got in enumerate(mine.unpack(mine.input_ids)) if got is not None]
    assert there == sorted(np.concatenate(bins[::4]).tolist())


def test_results_are_views_and_keep_their_axes():
    layout = RowLayout.from_bins([3, 2], [[1, 0]], row_length=6)
    result = materialize([[1, 2, 3], [4, 5]], layout)
    values = np.arange(12).reshape(1, 6, 2)
    back = result.unpack(values)
    assert [one.tolist() for one in back] == [[[4, 5], [6, 7], [8, 9]], [[0, 1], [2, 3]]]
    assert all(np.shares_memory(one, values) for one in back)


# ------------------------------------------------------------------------------------------------------------ shards


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([1, 2, 3]), st.sampled_from(["rows", "flat"]), st.data())
def test_the_shards_of_all_ranks_are_the_rows(cp_size, form, data):
    parts = 2 * cp_size
    lengths, _, layout = data.draw(packed(segment_choices=(parts, 2 * parts), row_choices=(1, parts, 4 * parts)))
    whole = materialize(Sequences.of(make_items(lengths)), layout, labels="shifted", form=form)
    shards = [whole.shard(rank, cp_size) for rank in range(cp_size)]
    row_length = whole.layout.row_length
    columns = np.concatenate([shard.columns for shard in shards], axis=-1)
    every = np.broadcast_to(np.arange(row_length), columns.shape)
    assert np.sort(columns, axis=-1).tolist() == every.tolist()
    for name, array in whole.arrays.items():
        if name.startswith("cu_"):
            continue
        gathered = np.concatenate([shard.arrays[name] for shard in shards], axis=-1)
        if gathered.ndim - (form == "rows") == 2:
            gathered, array = np.moveaxis(gathered, -1, -2), np.moveaxis(array, -1, -2)
        assert whole.unshard(gathered, cp_size).tolist() == array.tolist(), name
    # Chunk by chunk, each rank has what its part of cu_seqlens_padded says.
    many = (lambda array: [array.tolist()]) if form == "flat" else (lambda array: array.tolist())
    for rank, shard in enumerate(shards):
        assert (shard.cu_seqlens_padded * cp_size == whole.cu_seqlens_padded).all()
        for r, ends in enumerate(many(whole.cu_seqlens_padded)):
            expected, counts = [], [0]
            for begin, end in pairwise(ends):
                chunk = (end - begin) // parts
                own = [begin + c * chunk + i for c in (rank, parts - 1 - rank) for i in range(chunk)]
                expected += own
                counts.append(counts[-1] + sum(many(whole.segment_ids)[r][column] > 0 for column in own))
            assert many(shard.columns)[r] == expected
            assert many(shard.cu_seqlens)[r] == counts
        assert shard.max_seqlen == int(np.diff(shard.cu_seqlens, axis=-1).max(initial=0))
        assert shard.max_seqlen_padded == int(np.diff(shard.cu_seqlens_padded, axis=-1).max(initial=0))
    assert sum(int(shard.loss_mask.sum()) for shard in shards) == int(whole.loss_mask.sum())


def test_one_context_parallel_rank_has_everything():
    layout = RowLayout.from_bins([3, 2], [[1, 0]], alignment=2)
    whole = materialize([[1, 2, 3], [4, 5]], layout)
    assert whole.shard(0, 1).input_ids.tolist() == whole.input_ids.tolist()


def test_refusals_of_shards():
    whole = materialize([[1, 2, 3], [4, 5]], RowLayout.from_bins([3, 2], [[1, 0]], row_length=8, alignment=4))
    shard = whole.shard(1, 2)
    odd = materialize([[1, 2, 3], [4, 5]], RowLayout.from_bins([3, 2], [[1, 0]], row_length=9, alignment=4))
    labelled = materialize([[1, 2, 3], [4, 5]], whole.layout, labels="unshifted")
    cases = [
        (lambda: whole.shard(2, 2), "`cp_rank` must be a non-negative integer of at most 1, but got 2."),
        (lambda: whole.shard(0, 0), "`cp_size` must be a positive integer, but got 0."),
        (
            lambda: whole.shard(0, 4),
            "segments must take multiples of 2 * cp_size = 8 columns, but one of sequence 1 takes 4: "
            "plan with an `alignment` of 8.",
        ),
        (
            lambda: odd.shard(0, 2),
            "rows must have multiples of 2 * cp_size = 4 columns, but have 9: plan with a row alignment of 4.",
        ),
        (lambda: labelled.shard(0, 2), "`labels` must be \"shifted\" to shard rows, but got 'unshifted'."),
        (lambda: shard.shard(0, 2), "`shard` and `unshard` must be called on whole rows, but these are a shard."),
        (
            lambda: shard.unpack(shard.input_ids),
            "`unpack` must be called on whole rows: bring the shards together with `unshard` first.",
        ),
        (lambda: whole.unpack(np.zeros((1, 7))), "`values` must have the shape [1, 8] or [1, 8, ...], but got (1, 7)."),
        (lambda: whole.unpack(None), "`values` must have the shape [1, 8] or [1, 8, ...], but got ()."),
        (
            lambda: whole.unshard(shard.input_ids, 2),
            "`values` must have the shape [1, 8] or [1, 8, ...], but got (1, 4).",
        ),
    ]
    for call, message in cases:
        with pytest.raises(ConfigError) as caught:
            call()
        assert str(caught.value) == message


# ------------------------------------------------------------------------------------------------------- single cases


def test_a_feature_named_position_ids_takes_the_place_of_positions():
    three = np.arange(12).reshape(3, 4)
    result = materialize([{"input_ids": [1, 2, 3, 4], "position_ids": three}], RowLayout.from_bins([4], [[0]]))
    assert result.position_ids.tolist() == [three.tolist()]
    assert result.features == {}
    assert result.arrays["position_ids"] is result.position_ids


def test_dummy_rows_are_padding():
    layout = RowLayout.from_bins([2], [[0]], num_rows=3, row_length=4)
    result = materialize([[5, 6]], layout, pad_id=9, labels="shifted", num_segments=2)
    assert result.input_ids.tolist() == [[5, 6, 9, 9], [9] * 4, [9] * 4]
    assert result.loss_mask.tolist() == [[True, True, False, False], [False] * 4, [False] * 4]
    assert result.labels.tolist() == [[6, -100, -100, -100], [-100] * 4, [-100] * 4]
    assert result.cu_seqlens.tolist() == [[0, 2, 2], [0, 0, 0], [0, 0, 0]]
    assert result.cu_seqlens_padded.tolist() == [[0, 4, 4]] * 3
    flat = materialize([[5, 6]], layout.select([1, 2]), pad_id=9, form="flat")
    assert flat.input_ids.tolist() == [9]
    assert flat.unpack(flat.input_ids) == [None]


def test_nothing_at_all():
    for form in ("rows", "flat"):
        result = materialize([], RowLayout.from_bins([], []), form=form, labels="shifted")
        assert result.input_ids.size == result.labels.size == 0
        assert result.cu_seqlens.shape == ((0, 2) if form == "rows" else (2,))
        assert result.unpack(result.input_ids) == []
    sequences = Sequences.of([{"input_ids": [1], "x": np.zeros((3, 1))}])
    assert materialize(sequences, RowLayout.from_bins([1], [])).features["x"].shape == (0, 3, 0)
    none = Sequences([0, 1], [1], {"x": np.zeros((0, 1))})
    assert materialize(none, RowLayout.from_bins([1], [[0]])).features["x"].shape == (1, 0, 1)


def test_dtypes_of_eight_bytes_that_are_no_numbers_of_numpys_loops():
    times = np.asarray(["2026-01-01", "2026-01-02"], "M8[D]")
    record = np.asarray([(1, 2.0), (3, 4.0)], [("a", "i4"), ("b", "f4")])
    big = np.asarray([1.5, 2.5], ">f8")
    sequences = Sequences([0, 2], np.asarray([1, 2], ">i4"), {"time": times, "record": record, "big": big})
    result = materialize(sequences, RowLayout.from_bins([2], [[0]], row_length=3), labels="unshifted")
    assert result.features["time"][0, :2].tolist() == times.tolist()
    assert result.features["record"][0].tolist() == [*record.tolist(), (0, 0.0)]
    assert result.features["big"].tolist() == [[1.5, 2.5, 0.0]]
    assert result.input_ids.tolist() == [[1, 2, 0]]
    assert result.labels.tolist() == [[-100, 2, -100]]


def test_memory_that_is_not_aligned():
    memory = np.zeros(41, np.uint8)
    ids = memory[1:41].view(np.int64)
    ids[:] = range(5)
    assert not ids.flags.aligned
    result = materialize(Sequences([0, 5], ids), RowLayout.from_bins([5], [[0]]), labels="unshifted")
    assert result.labels.tolist() == [[-100, 1, 2, 3, 4]]


def test_out_of_some_arrays_and_the_same_ones_again():
    layout = RowLayout.from_bins([2, 3], [[0], [1]])
    ids = np.full((2, 3), 77)
    first = materialize([[1, 2], [3, 4, 5]], layout, out={"input_ids": ids})
    assert first.input_ids is ids
    second = materialize([[6, 7], [8, 9, 10]], layout, out=first.arrays)
    assert ids.tolist() == [[6, 7, 0], [8, 9, 10]]
    assert second.segment_ids is first.segment_ids


LAYOUT = RowLayout.from_bins([2], [[0]])
ITEMS = [{"input_ids": np.asarray([1, 2], np.int32), "x": np.zeros(2, np.float32), "n": np.zeros(2, np.uint8)}]
READ_ONLY = np.zeros((1, 2), np.int32)
READ_ONLY.flags.writeable = False
SHARED = np.zeros((1, 2), np.int32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layout": [[0]]}, "`layout` must be a RowLayout, but got [[0]]."),
        (
            {"layout": RowLayout.from_bins([2, 2], [[0]])},
            "`layout` must be of these 1 sequences, but it is of 2 sequences.",
        ),
        (
            {"layout": RowLayout.from_bins([3], [[0]])},
            "`layout` must lie inside the sequences, but sequence 0 has 2 tokens and a segment of 3 that starts at 0.",
        ),
        (
            {"layout": make_layout(1, [[(0, 1, 2, 2)]], 2)},
            "`layout` must lie inside the sequences, but sequence 0 has 2 tokens and a segment of 2 that starts at 1.",
        ),
        ({"labels": "both"}, '`labels` must be one of "unshifted", "shifted", but got \'both\'.'),
        ({"form": "row"}, '`form` must be one of "rows", "flat", but got \'row\'.'),
        ({"position_start": -1}, "`position_start` must be a non-negative integer, but got -1."),
        (
            {"position_start": 2**31 - 1},
            "`position_start` must leave room for 2 positions below 2**31, but got 2147483647.",
        ),
        ({"pad_id": 2**31}, "`pad_id` must fit into int32, but got 2147483648."),
        ({"pad_id": 0.5}, "`pad_id` must be an integer, but got 0.5."),
        (
            {"labels": "shifted", "ignore_index": -(2**63) - 1},
            "`ignore_index` must fit into a signed dtype that holds int32, but got -9223372036854775809.",
        ),
        ({"padding": {"y": 1}}, "`padding` must name features among ['x', 'n'], but got 'y'."),
        ({"padding": [1]}, "`padding` must map features to values, but got [1]."),
        ({"padding": {"n": -1}}, "`padding['n']` must fit into uint8, but got -1."),
        ({"padding": {"x": "a"}}, "`padding['x']` must fit into float32, but got 'a'."),
        ({"num_segments": 0}, "`num_segments` must be a positive integer, but got 0."),
        ({"out": [1]}, "`out` must map names to arrays, but got [1]."),
        (
            {"out": {"labels": SHARED}},
            "`out` must have names among ['cu_seqlens', 'cu_seqlens_padded', 'input_ids', 'loss_mask', 'n', "
            "'position_ids', 'segment_ids', 'x'], but got 'labels'.",
        ),
        (
            {"out": {"input_ids": np.zeros((1, 2))}},
            "`out['input_ids']` must be a C-contiguous, writeable array int32 (1, 2), but got float64 (1, 2).",
        ),
        (
            {"out": {"input_ids": np.zeros(2, np.int32)}},
            "`out['input_ids']` must be a C-contiguous, writeable array int32 (1, 2), but got int32 (2,).",
        ),
        (
            {"out": {"input_ids": [[0, 0]]}},
            "`out['input_ids']` must be a C-contiguous, writeable array int32 (1, 2), but got [[0, 0]].",
        ),
        (
            {"out": {"input_ids": READ_ONLY}},
            "`out['input_ids']` must be a C-contiguous, writeable array int32 (1, 2), "
            "but got int32 (1, 2) that is read-only.",
        ),
        (
            {"out": {"x": np.zeros((1, 4), np.float32)[:, ::2]}},
            "`out['x']` must be a C-contiguous, writeable array float32 (1, 2), "
            "but got float32 (1, 2) that is not contiguous.",
        ),
        (
            {"out": {"input_ids": SHARED, "segment_ids": SHARED}},
            "`out` must hold separate arrays, but 'input_ids' and 'segment_ids' share memory.",
        ),
        (
            {"layout": make_layout(1, [[(0, 0, 1, 2**31)]], 2**31)},
            "rows must have fewer than 2**31 columns for int32 `cu_seqlens`, but got 2147483648.",
        ),
        (
            {"layout": make_layout(1, [[(0, 0, 1, 2**30)], [(0, 1, 1, 2**30)]], 2**30), "form": "flat"},
            "rows must have fewer than 2**31 columns for int32 `cu_seqlens`, but got 2147483648.",
        ),
    ],
)
def test_refusals(arguments, message):
    before = [array.copy() for array in (SHARED, READ_ONLY)]
    with pytest.raises(ConfigError) as caught:
        materialize(arguments.pop("sequences", ITEMS), arguments.pop("layout", LAYOUT), **arguments)
    assert str(caught.value) == message
    assert [array.tolist() for array in before] == [SHARED.tolist(), READ_ONLY.tolist()]


def test_more_segments_than_allowed():
    layout = RowLayout.from_bins([1, 1, 1], [[0], [1, 2]])
    with pytest.raises(InfeasibleError) as caught:
        materialize([[1], [2], [3]], layout, num_segments=1)
    assert str(caught.value) == "row 1 has 2 segments, more than `num_segments` 1."
    with pytest.raises(InfeasibleError, match=r"^row 0 has 3 segments, more than `num_segments` 2\.$"):
        materialize([[1], [2], [3]], layout, num_segments=2, form="flat")


@pytest.mark.parametrize("name", ["segment_ids", "labels", "cu_seqlens", "cu_seqlens_padded"])
def test_names_that_no_feature_may_have(name):
    with pytest.raises(ConfigError, match=f"^a feature must have another name than .*, but got '{name}'"):
        materialize([{"input_ids": [1, 2], name: [1, 2]}], LAYOUT)


@pytest.mark.parametrize(
    ("ids", "ignore_index", "labels"),
    [("u1", -100, "i2"), ("u2", -100, "i4"), ("u4", -100, "i8"), ("i1", -100, "i1"), ("i1", -129, "i2"),
     ("u2", 65535, "u2"), ("u8", 2**64 - 1, "u8"), (">u2", -100, "i4"), (">i4", -100, ">i4")],
)  # fmt: skip
@pytest.mark.parametrize("form", ["rows", "flat"])
def test_labels_have_a_dtype_that_holds_the_ids_and_the_index(ids, ignore_index, labels, form):
    largest = int(np.iinfo(ids).max)
    items = Sequences([0, 2, 5], np.asarray([1, 2, 3, largest, 4], ids))
    layout = RowLayout.from_bins([2, 3], [[1], [0]], row_length=4)
    made = materialize(items, layout, labels="shifted", ignore_index=ignore_index, form=form)
    assert made.labels.dtype == np.dtype(labels)
    own = [[largest, 4, ignore_index, ignore_index], [2, ignore_index, ignore_index, ignore_index]]
    flat = [largest, 4, ignore_index, 2, ignore_index]
    assert made.labels.tolist() == (own if form == "rows" else flat)
    again = materialize(items, layout, labels="shifted", ignore_index=ignore_index, form=form, out=made.arrays)
    assert again.labels is made.labels


def test_labels_of_the_widest_unsigned_ids_need_an_index_that_fits():
    items = [np.asarray([1, 2], np.uint64)]
    message = r"^`ignore_index` must fit into a signed dtype that holds uint64, but got -100\.$"
    with pytest.raises(ConfigError, match=message):
        materialize(items, LAYOUT, labels="shifted")
    assert materialize(items, LAYOUT).labels is None
