"""Loss weights: every reduction against exact fractions, under any layout, any ranks and any micro-batches."""

from __future__ import annotations

import copy
import pickle
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import ConfigError, Planner, RowLayout, Sequences, loss_weights, materialize, pack_sequences

REDUCTIONS = ("token", "sequence", "prompt", "group")


def labels_of(reduction, members):
    return {f"{reduction}s": members} if reduction in ("prompt", "group") else {}


# ------------------------------------------------------------------------------------------------------ plain answers


def layout_of_three() -> RowLayout:
    """Row 0: sequence 0 (4 tokens) and 2 (2 tokens), rounded up to 4; row 1: a dummy; row 2: sequence 1 (3 tokens)."""
    return RowLayout.from_bins([4, 3, 2], [[0, 2], [], [1]], row_length=9, alignment=4)


MASKS = [[0, 1, 1, 1], [1, 1, 0], [0, 1]]


def test_a_mean_over_tokens():
    weights = loss_weights(layout_of_three(), MASKS)
    assert weights.token_weights().tolist() == [[0, 1, 1, 1, 0, 1, 0, 0, 0], [0] * 9, [0, 1, 0, 0, 0, 0, 0, 0, 0]]
    assert weights.token_weights("flat").tolist() == [0, 1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0]
    assert weights.denominator == 5
    assert weights.segment_counts.tolist() == [3, 1, 1]
    assert weights.segment_weights.tolist() == [1, 1, 1]
    assert weights.segment_denominators.tolist() == [3, 1, 1]
    assert weights.row_denominators.tolist() == [4, 0, 1]
    assert repr(weights) == "LossWeights('token', 5 tokens in 3 rows, denominator 5, 1 ranks)"


def test_the_flat_form_is_that_of_the_rows():
    """The same columns as `materialize`: labels that count have a weight, no others."""
    sequences = Sequences.of([{"input_ids": np.arange(len(m)), "loss_mask": m} for m in MASKS])
    for bins, alignment in (([[0, 2], [], [1]], {"segment": 2, "row": 16}), ([[], []], {"segment": 2, "row": 3})):
        layout = RowLayout.from_bins([4, 3, 2], bins, alignment=alignment)
        for labels in ("unshifted", "shifted"):
            weights = loss_weights(layout, sequences, labels=labels)
            for form in ("rows", "flat"):
                rows = materialize(sequences, layout, labels=labels, form=form, ignore_index=-1)
                np.testing.assert_array_equal(weights.token_weights(form), rows.labels != -1)


def test_a_mean_over_sequences():
    weights = loss_weights(layout_of_three(), MASKS, reduction="sequence")
    third = 1 / 3
    assert weights.token_weights().tolist() == [[0, third, third, third, 0, 1, 0, 0, 0], [0] * 9, [0, 1, *[0] * 7]]
    assert weights.denominator == 3
    assert weights.segment_denominators.tolist() == [1, 1, 1]
    assert weights.row_denominators.tolist() == [2, 0, 1]


def test_a_mean_over_prompts_and_over_groups():
    weights = loss_weights(layout_of_three(), MASKS, reduction="prompt", prompts=["a", "b", "a"])
    assert weights.segment_weights.tolist() == [1 / 4, 1 / 4, 1]  # sequences 0, 2, 1
    assert weights.segment_denominators.tolist() == [3 / 4, 1 / 4, 1]
    assert weights.denominator == 2
    weights = loss_weights(layout_of_three(), MASKS, reduction="group", groups=["a", "b", "a"])
    assert weights.segment_weights.tolist() == [1 / 6, 1 / 2, 1]
    assert weights.segment_denominators.tolist() == [1 / 2, 1 / 2, 1]
    assert weights.denominator == 2


def test_shifted_labels_have_their_weight_one_column_earlier():
    weights = loss_weights(layout_of_three(), MASKS, labels="shifted")
    assert weights.token_weights().tolist() == [[1, 1, 1, 0, 1, 0, 0, 0, 0], [0] * 9, [1, 0, 0, 0, 0, 0, 0, 0, 0]]
    assert weights.token_weights("flat").tolist() == [1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0]
    assert weights.denominator == 5


def test_the_pieces_of_a_split_sequence_are_one_sequence():
    """Six tokens in pieces of 4 and 2 in two rows: five would be predicted in one piece, four are."""
    layout = RowLayout(2, [0, 1, 3], [0, 0, 1], [0, 4, 0], [4, 2, 2], [4, 2, 2], 4)
    masks = [[0, 1, 1, 1, 1, 1], [0, 1]]
    weights = loss_weights(layout, masks, reduction="sequence")
    assert weights.denominator == 2
    assert weights.token_weights().tolist() == [[0, 1 / 4, 1 / 4, 1 / 4], [0, 1 / 4, 0, 1]]
    assert weights.row_denominators.tolist() == [3 / 4, 5 / 4]
    assert loss_weights(layout, masks).denominator == 5


def test_what_is_truncated_or_dropped_counts_nothing():
    layout = RowLayout(3, [0, 2], [0, 1], [2, 0], [2, 3], [2, 3], 5)  # the left of 0 is cut, 2 is dropped
    weights = loss_weights(layout, [np.ones(4), np.ones(5), np.ones(7)], reduction="sequence")
    assert weights.denominator == 2
    assert weights.token_weights().tolist() == [[0, 1, 0, 1 / 2, 1 / 2]]


def test_fully_masked_sequences_prompts_and_groups_count_nothing():
    layout = RowLayout.from_bins([3, 3, 3, 3], [[0, 1], [2, 3]])
    masks = [[1, 1, 1], [0, 0, 0], [0, 0, 0], [1, 0, 0]]  # the one token of sequence 3 is never predicted
    for reduction in REDUCTIONS:
        weights = loss_weights(layout, masks, reduction=reduction, **labels_of(reduction, [0, 0, 1, 1]))
        assert weights.denominator == (2 if reduction == "token" else 1)
        assert weights.row_denominators.tolist() == [weights.denominator, 0]
        assert not weights.token_weights()[1].any()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_where_nothing_is_counted_everything_is_zero(reduction):
    layout = RowLayout.from_bins([3, 1], [[0, 1], []], num_rows=2)
    weights = loss_weights(layout, [np.zeros(3, bool), [1]], reduction=reduction, **labels_of(reduction, [7, 8]))
    assert (weights.denominator, weights.scale(), weights.scale(8)) == (0, 0.0, 0.0)
    for array in (weights.token_weights(), weights.segment_weights, weights.row_denominators):
        assert not array.any()
        assert np.isfinite(array).all()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_no_rows(reduction):
    weights = loss_weights(RowLayout.from_bins([], []), [], reduction=reduction, **labels_of(reduction, []))
    assert weights.token_weights().shape == (0, 0)
    assert weights.token_weights("flat").shape == (0,)
    assert (weights.denominator, weights.rank_denominators.tolist(), weights.rank(0).denominator) == (0, [0], 0)


def test_members_of_no_group_stand_for_themselves():
    layout = RowLayout.from_bins([2] * 6, [range(6)])
    for groups in ([None, None, "a", "a", -1, -1], np.array([-1, -1, 4, 4, -1, -1])):
        weights = loss_weights(layout, [[1, 1]] * 6, reduction="group", groups=groups)
        assert weights.denominator == 5
        assert weights.segment_weights.tolist() == [1, 1, 1 / 2, 1 / 2, 1, 1]


# -------------------------------------------------------------------------------------------------- ranks and parts


def test_ranks_micro_batches_and_the_averaging_factor():
    layout = RowLayout.from_bins([2, 3, 4, 5], [[0], [1], [2], [3]])
    masks = [np.ones(n, bool) for n in (2, 3, 4, 5)]
    weights = loss_weights(layout, masks, data_parallel_size=2, micro_batches=[0, 1, 0, 1])
    assert weights.row_ranks.tolist() == [0, 0, 1, 1]
    assert weights.rank_denominators.tolist() == [3, 7]
    assert weights.micro_batch_denominators.tolist() == [[1, 2], [3, 4]]
    assert (weights.denominator, weights.scale(), weights.scale(1), weights.scale(4)) == (10, 0.2, 0.1, 0.4)
    mine = weights.rank(1)
    assert (mine.denominator, mine.scale()) == (10, 0.2)  # of the step, not of the rank
    assert mine.rank_denominators.tolist() == [0, 7]
    assert mine.micro_batch_denominators.tolist() == [[0, 0], [3, 4]]
    assert mine.micro_batch(1).layout.sequences.tolist() == [3]
    assert weights.micro_batch(0).layout.sequences.tolist() == [0, 2]
    round_robin = loss_weights(layout, masks, data_parallel_size=3, row_ranks=[0, 1, 0, 1])
    assert round_robin.rank_denominators.tolist() == [4, 6, 0]
    assert round_robin.scale() == 0.3  # the rank without rows is averaged over, too


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_rows_selected_in_any_order_keep_their_weights(reduction):
    layout = RowLayout.from_bins([3, 4, 5, 6, 2], [[0, 4], [1], [], [2, 3]], alignment=2)
    masks = [np.arange(n) % 3 > 0 for n in (3, 4, 5, 6, 2)]
    whole = loss_weights(layout, masks, reduction=reduction, **labels_of(reduction, list("aabbc")))
    for rows in ([3, 0], [2], [], slice(1, 4)):
        part = whole.select(rows)
        np.testing.assert_array_equal(part.token_weights(), whole.token_weights()[rows])
        np.testing.assert_array_equal(part.row_denominators, whole.row_denominators[rows])
        assert part.denominator == whole.denominator
        assert part.layout.sequences.tolist() == layout.select(rows).sequences.tolist()
    flat = np.concatenate([whole.select([row]).token_weights("flat") for row in (0, 1, 3)])
    np.testing.assert_array_equal(flat, whole.token_weights("flat"))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ranks_that_know_only_their_own_rows_add_their_denominators_up(reduction):
    layout = RowLayout.from_bins([3, 4, 5, 6, 2], [[0, 4], [1], [2], [3]])
    masks = [np.arange(n) % 3 > 0 for n in (3, 4, 5, 6, 2)]
    labels = labels_of(reduction, list("aabba"))  # no prompt or group lies on two ranks
    whole = loss_weights(layout, masks, reduction=reduction, data_parallel_size=2, **labels)
    own = [loss_weights(layout.select(rows), masks, reduction=reduction, **labels) for rows in ([0, 1], [2, 3])]
    assert sum(weights.denominator for weights in own) == whole.denominator
    np.testing.assert_array_equal(np.concatenate([one.token_weights() for one in own]), whole.token_weights())


def test_the_rows_of_an_update_know_their_steps_ranks_and_labels():
    rng = np.random.default_rng(1)
    lengths = rng.integers(3, 60, 40)
    items = [
        {"prompt_ids": np.ones(2, int), "completion_ids": np.ones(n, int), "prompt": i // 4}
        for i, n in enumerate(lengths)
    ]
    (update,) = pack_sequences([items], num_packs=4, max_token_budget=64, labels="shifted", alignment=4)
    weights = update.loss_weights("prompt", prompts="prompt", data_parallel_size=2)
    assert (weights.denominator, weights.labels) == (10, "shifted")
    assert update.num_steps > 2
    for step, rows in enumerate(update.steps()):
        mine = weights.micro_batch(step)
        np.testing.assert_array_equal(mine.token_weights() > 0, rows.labels != -100)
        for rank in range(2):
            wanted = mine.token_weights()[2 * rank : 2 * rank + 2]
            np.testing.assert_array_equal(weights.rank(rank).micro_batch(step).token_weights(), wanted)
    assert update.loss_weights("group", groups="prompt").denominator == 10
    assert update.loss_weights().denominator == lengths.sum()
    assert weights.token_weights().sum() == pytest.approx(10)
    with pytest.raises(ConfigError, match=r"^`prompts` names the value 'uid', but the sequences have: 'prompt'\.$"):
        update.loss_weights("prompt", prompts="uid")
    with pytest.raises(ConfigError, match=r"^`data_parallel_size` must divide `num_packs` 4, but got 3\.$"):
        update.loss_weights(data_parallel_size=3)


@pytest.mark.parametrize("window", [1, 3])
def test_the_ranks_of_a_plan(window):
    lengths = np.random.default_rng(5).integers(2, 30, 40)
    plan = Planner(data_parallel_size=4, seq_len=64, alignment=8, window=window).plan(lengths)
    ranks = np.arange(plan.num_bins) // plan.bins_per_rank % 4
    layout, masks = RowLayout.from_plan(plan, alignment=8), [np.ones(n, bool) for n in lengths]
    weights = loss_weights(layout, masks, data_parallel_size=4, row_ranks=None if window == 1 else ranks)
    for rank in range(4):
        members = [i for row in plan.rank(rank) for i in row]
        assert weights.rank(rank).layout.sequences.tolist() == members
        assert weights.rank_denominators[rank] == (lengths[members] - 1).sum()


# ------------------------------------------------------------------------------------------------------ exact answers


@st.composite
def problems(draw):
    """A layout with split, truncated and dropped sequences, dummy rows and any order; masks; labels; ranks."""
    num_sequences = draw(st.integers(1, 8))
    lengths = draw(st.lists(st.integers(1, 12), min_size=num_sequences, max_size=num_sequences))
    pieces = []
    for sequence, length in enumerate(lengths):
        cuts = sorted(draw(st.sets(st.integers(0, length), min_size=2, max_size=4))) if length > 1 else [0, 1]
        if draw(st.booleans()):
            cuts = [0, length]
        pieces += [(sequence, a, b - a) for a, b in pairwise(cuts) if draw(st.integers(0, 9))]
    pieces = draw(st.permutations(pieces))
    num_rows = draw(st.integers(1, 6))
    place = draw(st.lists(st.integers(0, num_rows - 1), min_size=len(pieces), max_size=len(pieces)))
    rows = [[piece for piece, at in zip(pieces, place, strict=True) if at == row] for row in range(num_rows)]
    align = draw(st.sampled_from([1, 3]))
    flat = [piece for row in rows for piece in row]
    columns = [[piece[k] for piece in flat] for k in range(3)]
    footprints = [-(-length // align) * align for length in columns[2]]
    layout = RowLayout(
        num_sequences, np.cumsum([0, *map(len, rows)]), *columns, footprints, sum(footprints) + draw(st.integers(0, 3))
    )
    masks = [draw(st.lists(st.booleans(), min_size=n, max_size=n)) for n in lengths]
    members = draw(st.lists(st.integers(0, 3), min_size=num_sequences, max_size=num_sequences))
    size = draw(st.integers(1, 3))
    ranks = draw(st.lists(st.integers(0, size - 1), min_size=num_rows, max_size=num_rows))
    micro = draw(st.lists(st.integers(0, num_rows - 1), min_size=num_rows, max_size=num_rows))
    return layout, masks, members, size, ranks, micro


def counted_tokens(layout, masks):
    """(row, column, flat column, segment, sequence) of every counted token, one by one."""
    tokens, flat = [], 0
    for row in range(layout.num_rows):
        column = 0
        for segment in range(layout.row_offsets[row], layout.row_offsets[row + 1]):
            sequence, start = int(layout.sequences[segment]), int(layout.starts[segment])
            for within in range(1, int(layout.lengths[segment])):
                if masks[sequence][start + within]:
                    tokens.append((row, column + within, flat + within, segment, sequence))
            column += int(layout.footprints[segment])
            flat += int(layout.footprints[segment])
    return tokens


def exact(reduction, tokens, members):
    """The exact weight of each counted token, and the denominator, by the definition of each mean."""
    by_sequence, by_member, inside = defaultdict(int), defaultdict(int), defaultdict(set)
    for *_, sequence in tokens:
        by_sequence[sequence] += 1
        by_member[members[sequence]] += 1
        inside[members[sequence]].add(sequence)
    weight = {
        "token": lambda i: Fraction(1),
        "sequence": lambda i: Fraction(1, by_sequence[i]),
        "prompt": lambda i: Fraction(1, by_member[members[i]]),
        "group": lambda i: Fraction(1, by_sequence[i]) / len(inside[members[i]]),
    }[reduction]
    weights = [weight(token[-1]) for token in tokens]
    return weights, {"token": len(tokens), "sequence": len(by_sequence)}.get(reduction, len(by_member))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_weights_and_denominators_are_the_exact_ones(reduction, problem):
    layout, masks, members, size, ranks, micro = problem
    tokens = counted_tokens(layout, masks)
    exactly, denominator = exact(reduction, tokens, members)
    assert sum(exactly) == denominator
    options = {"data_parallel_size": size, "row_ranks": ranks, "micro_batches": micro}
    for labels, shift in (("unshifted", 0), ("shifted", 1)):
        weights = loss_weights(
            layout, masks, reduction=reduction, labels=labels, **labels_of(reduction, members), **options
        )
        assert weights.denominator == denominator
        assert type(weights.denominator) is int
        rows = np.zeros((layout.num_rows, layout.row_length))
        flat = np.zeros(layout.flattened().row_length)
        for (row, column, at, *_), weight in zip(tokens, exactly, strict=True):
            rows[row, column - shift] = flat[at - shift] = float(weight)
        np.testing.assert_array_equal(weights.token_weights(), rows)  # each the double nearest to the fraction
        np.testing.assert_array_equal(weights.token_weights("flat"), flat)
        np.testing.assert_array_equal(weights.token_weights(dtype=np.float32), rows.astype(np.float32))
    sums = {"segment": defaultdict(Fraction), "row": defaultdict(Fraction), "rank": defaultdict(Fraction)}
    parts = defaultdict(Fraction)
    for (row, _, _, segment, _), weight in zip(tokens, exactly, strict=True):
        sums["segment"][segment] += weight
        sums["row"][row] += weight
        sums["rank"][ranks[row]] += weight
        parts[ranks[row], micro[row]] += weight
    segments = [float(sums["segment"][s]) for s in range(layout.num_segments)]
    assert weights.segment_denominators.tolist() == segments
    for name, got in (("row", weights.row_denominators), ("rank", weights.rank_denominators)):
        np.testing.assert_allclose(got, [float(sums[name][i]) for i in range(got.size)], rtol=1e-14)
    shape = weights.micro_batch_denominators.shape
    assert shape == (size, max(micro) + 1)
    wanted = [[float(parts[rank, m]) for m in range(shape[1])] for rank in range(size)]
    np.testing.assert_allclose(weights.micro_batch_denominators, wanted, rtol=1e-14)
    assert not weights.row_denominators[layout.is_dummy].any()
    for rank in range(size):
        mine = weights.rank(rank)
        np.testing.assert_array_equal(mine.token_weights(), weights.token_weights()[np.equal(ranks, rank)])
        assert mine.denominator == denominator


@settings(max_examples=40, deadline=None)
@given(problem=problems(), seed=st.integers(0, 99))
def test_regrouping_whole_sequences_changes_no_weight(problem, seed):
    """The weight of a sequence's tokens depends on the sequences alone, not on rows, order, ranks or padding."""
    _, masks, members, *_ = problem
    lengths = [len(mask) for mask in masks]
    rng = np.random.default_rng(seed)
    alone = RowLayout.from_bins(lengths, [[i] for i in range(len(masks))])
    place = rng.integers(0, 3, len(masks))
    mixed = RowLayout.from_bins(
        lengths, [rng.permutation(np.flatnonzero(place == row)) for row in range(3)], alignment=4
    )
    for reduction in REDUCTIONS:
        found = []
        for layout in (alone, mixed):
            weights = loss_weights(layout, masks, reduction=reduction, **labels_of(reduction, members))
            found.append((weights.denominator, dict(zip(layout.sequences, weights.segment_weights, strict=True))))
        assert found[0] == found[1]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_real_lengths_add_up_to_the_denominator(lengths_of, reduction):
    rng = np.random.default_rng(0)
    lengths = np.minimum(lengths_of("servegen_r1")[:600], 8000) + 2
    plan = Planner(data_parallel_size=4, seq_len=16384, alignment=16, algorithm="lpt").plan(lengths)
    layout = RowLayout.from_plan(plan, alignment=16)
    masks = [np.arange(n) >= rng.integers(1, n) for n in lengths]
    groups = labels_of(reduction, np.arange(lengths.size) // 8)
    weights = loss_weights(layout, masks, reduction=reduction, data_parallel_size=4, **groups)
    counts = sum(int(mask[1:].sum()) for mask in masks)
    assert weights.denominator == {"token": counts, "sequence": 600}.get(reduction, 75)
    assert weights.token_weights().sum() == pytest.approx(weights.denominator, rel=1e-12)
    assert weights.rank_denominators.sum() == pytest.approx(weights.denominator, rel=1e-12)
    if reduction in ("token", "sequence"):
        assert weights.row_denominators.sum() == weights.denominator
        assert (weights.row_denominators == np.floor(weights.row_denominators)).all()


# ------------------------------------------------------------------------------------------------------ what is taken


def test_masks_of_any_kind():
    layout = layout_of_three()
    wanted = loss_weights(layout, MASKS).token_weights()
    flat = np.concatenate(MASKS)
    flat.flags.writeable = False
    wide = np.zeros((9, 2))
    wide[:, 0] = flat
    for masks in ([np.array(m, bool) for m in MASKS], tuple(np.array(m, np.float32) for m in MASKS)):
        np.testing.assert_array_equal(loss_weights(layout, masks).token_weights(), wanted)
    for mask in (flat, flat.astype(np.uint8), flat.tolist(), wide[:, 0]):
        got = loss_weights(layout, mask, offsets=[0, 4, 7, 9])
        np.testing.assert_array_equal(got.token_weights(), wanted)
    sequences = Sequences.of([{"input_ids": range(len(m)), "loss_mask": m} for m in MASKS])
    np.testing.assert_array_equal(loss_weights(layout, sequences).token_weights(), wanted)
    with pytest.raises(ConfigError, match=r"^`offsets` must be None beside a `Sequences`, but got \[0\]\.$"):
        loss_weights(layout, sequences, offsets=[0])
    assert flat.tolist() == [0, 1, 1, 1, 1, 1, 0, 0, 1]


BAD = [
    ({"layout": [[0, 2], [1]]}, "`layout` must be a RowLayout, but got [[0, 2], [1]]."),
    ({"loss_mask": np.ones(2)},
     "`loss_mask` must be a `Sequences`, a list of one mask per sequence, or a flat array with `offsets`, but got "
     "array([1., 1.])."),
    ({"loss_mask": None}, "`loss_mask` must be a `Sequences`, a list of one mask per sequence, or a flat"),
    ({"loss_mask": "abc"}, "`loss_mask` must be a `Sequences`, a list of one mask per sequence"),
    ({"loss_mask": MASKS[:2]}, "`loss_mask` must have the 3 sequences of `layout`, but has 2."),
    ({"loss_mask": [[1] * 4, [1] * 2, [1] * 2]},
     "`loss_mask` must have the 3 tokens that `layout` holds of sequence 1, but has 2."),
    ({"loss_mask": [[1] * 4, [1, 0.5, 0], [1] * 2]},
     "`loss_mask[1]` must hold bools, zeros and ones, but got 0.5 at index 1."),
    ({"loss_mask": [[1] * 4, [1, float("nan"), 0], [1] * 2]},
     "`loss_mask[1]` must hold bools, zeros and ones, but got nan at index 1."),
    ({"loss_mask": [["a"] * 4, [1] * 3, [1] * 2]},
     "`loss_mask[0]` must hold bools, zeros and ones, but got dtype <U1."),
    ({"loss_mask": [[[1]] * 4, [1] * 3, [1] * 2]}, "`loss_mask[0]` must be one-dimensional, but got shape (4, 1)."),
    ({"loss_mask": [[[1], 2], [1] * 3, [1] * 2]},
     "`loss_mask[0]` must be a one-dimensional mask, but got [[1], 2]."),
    ({"loss_mask": np.ones(9), "offsets": [0, 4, 7, 8]}, "`offsets` must ascend from 0 to 9, but got [0, 4, 7, 8]."),
    ({"loss_mask": np.ones(9), "offsets": []}, "`offsets` must ascend from 0 to 9, but got []."),
    ({"reduction": "mean"}, '`reduction` must be one of "token", "sequence", "prompt", "group", but got \'mean\'.'),
    ({"labels": None}, '`labels` must be one of "unshifted", "shifted", but got None.'),
    ({"reduction": "prompt"}, '`prompts` must be given with reduction "prompt".'),
    ({"reduction": "group", "prompts": [1, 2, 3]}, '`prompts` must be None with reduction "group", but got [1, 2, 3].'),
    ({"groups": [1, 2, 3]}, '`groups` must be None with reduction "token", but got [1, 2, 3].'),
    ({"reduction": "group", "groups": [1, 2]}, "`groups` must have a value for each of the 3 sequences, but got 2."),
    ({"reduction": "group", "groups": 5}, "`groups` must have a value for each sequence, but got 5."),
    ({"reduction": "group", "groups": [1, [2], 3]},
     "`groups` must hold sortable values of one type, but got [1, [2], 3]."),
    ({"reduction": "group", "groups": [1.0, float("nan"), 3]},
     "`groups` must hold sortable values of one type, but got [1.0, nan, 3]."),
    ({"data_parallel_size": 0}, "`data_parallel_size` must be a positive integer, but got 0."),
    ({"data_parallel_size": True}, "`data_parallel_size` must be a positive integer, but got True."),
    ({"data_parallel_size": 2},
     "`row_ranks` must be given where the rows are no multiple of `data_parallel_size` 2, but got 3 rows."),
    ({"data_parallel_size": 2, "row_ranks": [0, 1, 2]},
     "`row_ranks` must be below `data_parallel_size` 2, but got 2."),
    ({"row_ranks": [0, 0]}, "`row_ranks` must have one value for each of 3 rows, but has 2."),
    ({"row_ranks": [0, 0, -1]}, "`row_ranks` must be non-negative, but got -1 at index 2."),
    ({"micro_batches": [0, 1, 3]}, "`micro_batches` must be below the number of rows 3, but got 3."),
    ({"micro_batches": [0]}, "`micro_batches` must have one value for each of 3 rows, but has 1."),
]  # fmt: skip


@pytest.mark.parametrize(("options", "message"), BAD, ids=[message[:60] for _, message in BAD])
def test_what_is_refused(options, message):
    with pytest.raises(ConfigError) as error:
        loss_weights(**{"layout": layout_of_three(), "loss_mask": MASKS, **options})
    assert str(error.value).startswith(message)


def test_what_the_weights_refuse():
    weights = loss_weights(layout_of_three(), MASKS, data_parallel_size=3)
    for call, message in (
        (lambda: weights.token_weights("columns"), '`form` must be one of "rows", "flat", but got \'columns\'.'),
        (lambda: weights.token_weights(dtype=np.int32), "`dtype` must be float64 or float32, but got <class"),
        (lambda: weights.token_weights(dtype=None), "`dtype` must be float64 or float32, but got None."),
        (lambda: weights.token_weights(dtype="int8"), "`dtype` must be float64 or float32, but got 'int8'."),
        (lambda: weights.rank(3), "`rank` must be a non-negative integer of at most 2, but got 3."),
        (lambda: weights.micro_batch(1), "`micro_batch` must be a non-negative integer of at most 0, but got 1."),
        (lambda: weights.select([3]), "`rows` must hold indices in [0, 3), but got 3."),
        (lambda: weights.select([0, 0]), "`rows` must hold no row twice, but 0 is."),
        (lambda: weights.scale(0), "`averaged_over` must be a positive integer, but got 0."),
    ):
        with pytest.raises(ConfigError) as error:
            call()
        assert str(error.value).startswith(message)


def test_nothing_can_be_changed_and_a_pickle_is_the_same():
    weights = loss_weights(layout_of_three(), MASKS, reduction="group", groups=[0, 0, 1], data_parallel_size=3)
    for one in (weights, pickle.loads(pickle.dumps(weights)), copy.deepcopy(weights), weights.rank(0)):
        for array in (
            one.row_ranks, one.row_micro_batches, one.counted, one.segment_weights, one.segment_denominators,
            one.segment_counts, one.row_denominators, one.rank_denominators, one.micro_batch_denominators,
        ):  # fmt: skip
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 0
    back = pickle.loads(pickle.dumps(weights))
    np.testing.assert_array_equal(back.token_weights(), weights.token_weights())
    assert repr(back) == repr(weights)
