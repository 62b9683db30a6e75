"""`pack_sequences`: nothing lost, counts, updates, orders, what stays together and apart, overflow, refusals."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import (
    Alignment,
    ConfigError,
    InfeasibleError,
    PackingError,
    Planner,
    Sequences,
    UnsupportedProblemError,
    pack_sequences,
)
from packing._row_search import RowSearch


def stream_of(lengths, **values):
    """One batch for each list of lengths; every token id of the stream is another one, and a feature repeats it."""
    batches, at, token = [], 0, 1
    for each in lengths:
        batch = []
        for length in each:
            ids = np.arange(token, token + length)
            item = {"input_ids": ids, "half": ids * 0.5, "pair": np.stack([ids, -ids])}
            batch.append(item | {name: column[at] for name, column in values.items()})
            at, token = at + 1, token + length
        batches.append(batch)
    return batches


def packed(lengths, num_packs=2, max_token_budget=16, **options):
    values = options.pop("values", {})
    return list(
        pack_sequences(stream_of(lengths, **values), num_packs=num_packs, max_token_budget=max_token_budget, **options)
    )


def rows_of(batch):
    """The sequences of every row, by position in the update."""
    return [row.tolist() for row in np.split(batch.layout.sequences, batch.layout.row_offsets[1:-1])]


@st.composite
def streams(draw):
    """(lengths of each batch, values, options) with which the stream can be packed."""
    batches = draw(st.lists(st.lists(st.integers(1, 45), max_size=9), max_size=4))
    count = sum(map(len, batches))
    values, options = {}, {"num_packs": draw(st.sampled_from([1, 2, 4])), "max_token_budget": 32}
    options["overflow"] = draw(st.sampled_from(["single", "truncate_left", "truncate_right", "split", "drop"]))
    options["packing_strategy"] = draw(st.sampled_from(["kk", "first_fit", "auto", {"name": "lpt"}]))
    options["order"] = draw(st.sampled_from(["balanced", "sampler", "shuffled"]))
    if options["order"] == "shuffled":
        options["seed"] = draw(st.integers(0, 3))
    options["alignment"] = draw(st.sampled_from([1, 4, {"segment": 5, "row": 16}]))
    if draw(st.booleans()):
        options["max_segments_per_row"] = draw(st.integers(2, 5))
    match draw(st.sampled_from(["batch", "count", "name"])):
        case "count":
            options |= {"sequences_per_update": draw(st.integers(1, 7)), "last_update": "pack"}
        case "name":
            cuts = sorted(draw(st.lists(st.integers(0, count), max_size=3)))
            values["step"] = [f"step {np.searchsorted(cuts, at, side='right')}" for at in range(count)]
            options["update_id"] = "step"
    if draw(st.booleans()):
        values["version"] = draw(st.lists(st.sampled_from([5, 6]), min_size=count, max_size=count))
        options["forbid"] = "version"
    if draw(st.booleans()):
        options["data_parallel_size"] = draw(st.sampled_from([g for g in (1, 2, 4) if options["num_packs"] % g == 0]))
        if draw(st.booleans()):
            values["prompt"] = draw(st.lists(st.sampled_from([None, 1, 2, 3]), min_size=count, max_size=count))
            options |= {"group": "prompt", "group_scope": "rank"}
    elif options["overflow"] != "split" and draw(st.booleans()):
        # Neighbours of one version; what one row cannot hold is dropped, or there is none.
        flat = [length for batch in batches for length in batch]
        values["prompt"] = [-1] * count
        for at in range(0, count - 1, 2):
            same = "version" not in values or values["version"][at] == values["version"][at + 1]
            if same and (options["overflow"] == "drop" or max(flat[at : at + 2]) <= 12):
                values["prompt"][at : at + 2] = [at, at]
        options["group"] = "prompt"
    return batches, values, options


@given(streams())
@settings(max_examples=120, deadline=None)
def test_tokens_in_are_tokens_out_and_counted_losses(case):
    """Under all options: every token once, in the row of its sequence, or counted."""
    lengths, values, options = case
    stream = stream_of(lengths, **values)
    flat = [item for batch in stream for item in batch]
    outcome = list(pack_sequences(stream, **options))
    position = 0
    for batch in outcome:
        count = len(batch.sequences)
        mine = flat[position : position + count]
        assert batch.indices.tolist() == list(range(position, position + count))
        assert [item["input_ids"].size for item in mine] == batch.sequences.lengths.tolist()
        assert batch.num_rows % options["num_packs"] == 0 < batch.num_rows
        real, rows = batch.rows.segment_ids > 0, batch.rows
        tokens = rows.input_ids[real]
        assert np.array_equal(rows.features["half"][real], tokens * 0.5)
        assert np.array_equal(rows.features["pair"].transpose(0, 2, 1)[real], np.stack([tokens, -tokens], axis=1))
        assert not rows.input_ids[~real].any()
        given_tokens = np.concatenate([item["input_ids"] for item in mine])
        assert np.unique(tokens).size == tokens.size
        assert np.isin(tokens, given_tokens).all()
        assert tokens.size + batch.num_lost_tokens == given_tokens.size
        check_overflow(batch, mine, options)
        check_limits(batch, mine, options)
        position += count
    assert position == len(flat)


def check_overflow(batch, items, options):
    """What each policy makes of each sequence, and that it is counted."""
    segment = Alignment.of(options["alignment"]).segment
    longest = 32 // segment * segment
    without = dropped_labels(items, segment, options)
    counted = {int(index): loss for loss in batch.losses for index in loss.indices}
    for at, (item, found) in enumerate(zip(items, batch.unpack(batch.rows.input_ids), strict=True)):
        ids, index = item["input_ids"], int(batch.indices[at])
        over = ids.size > longest or item.get("prompt") in without
        assert over == (index in counted)
        if over:
            assert counted[index].policy == options["overflow"]
            fits = "alignment" if ids.size > longest else "group"
            assert counted[index].reason == ("length" if ids.size > 32 else fits)
        policy = options["overflow"] if over else None
        expected = {"truncate_left": ids[-longest:], "truncate_right": ids[:longest], "drop": None}.get(policy, ids)
        assert found is None if expected is None else np.array_equal(found, expected)
        segments = int((batch.layout.sequences == at).sum())
        assert segments == {"drop": 0, "split": -(-ids.size // longest)}.get(policy, 1)


def dropped_labels(items, segment, options):
    """The groups of which not every sequence can be in a row, or not all in one where they must."""
    if options["overflow"] != "drop":
        return set()
    groups = {}
    for item in items:
        groups.setdefault(item.get("prompt"), []).append(-(-item["input_ids"].size // segment) * segment)
    total = max if options.get("group_scope") == "rank" else sum
    return {label for label, columns in groups.items() if label not in (None, -1) and total(columns) > 32}


def check_limits(batch, items, options):
    """Caps, segments, kinds, groups, dummy rows."""
    layout, num_packs = batch.layout, options["num_packs"]
    alone = np.diff(layout.row_offsets) == 1
    assert (layout.row_columns[~alone] <= 32).all()
    assert layout.row_length == 32 or options["overflow"] == "single"
    assert layout.row_length % Alignment.of(options["alignment"]).row == 0
    assert (layout.footprints % Alignment.of(options["alignment"]).segment == 0).all()
    assert np.diff(layout.row_offsets).max() <= options.get("max_segments_per_row", layout.num_segments)
    versions = np.array([item.get("version", 0) for item in items])[layout.sequences]
    for row in range(layout.num_rows):
        assert np.unique(versions[layout.segment_rows == row]).size <= 1
    where = layout.segment_rows
    if options.get("group_scope") == "rank":
        where = where % num_packs // (num_packs // options["data_parallel_size"])
    prompts = [items[at].get("prompt") for at in layout.sequences]
    for label in set(prompts) - {None, -1}:
        assert np.unique(where[[prompt == label for prompt in prompts]]).size == 1
    wholes = len([p for p in prompts if p in (None, -1)]) + len(set(prompts) - {None, -1})
    if options.get("group_scope") != "rank":
        assert batch.num_dummy_rows == max(0, batch.num_rows - wholes)
    if options["order"] == "sampler":
        firsts = [row[0] for row in rows_of(batch) if row]
        assert all(row == sorted(row) for row in rows_of(batch))
        assert firsts == sorted(firsts) or "data_parallel_size" in options


# ----------------------------------------------------------------------------------------------------------- real data


@pytest.mark.parametrize(
    ("name", "budget"), [("servegen_r1", 32768), ("math_cot_rollouts", 8192), ("wlbllm_docs", 131072)]
)
@pytest.mark.parametrize("strategy", ["kk", "first_fit", "auto"])
def test_real_lengths_are_all_there_under_the_cap(lengths_of, name, budget, strategy):
    lengths = lengths_of(name)
    lengths = np.random.default_rng(1).choice(lengths[(lengths > 0) & (lengths <= 40000)], 300)
    batches = [
        Sequences(np.concatenate(([0], np.cumsum(part))), np.ones(part.sum(), np.int8)) for part in np.split(lengths, 3)
    ]
    outcome = list(
        pack_sequences(
            batches, num_packs=8, max_token_budget=budget, packing_strategy=strategy, overflow="truncate_right"
        )
    )
    assert [len(batch.sequences) for batch in outcome] == [100, 100, 100]
    assert sum(int(batch.layout.lengths.sum()) + batch.num_lost_tokens for batch in outcome) == lengths.sum()
    assert all(batch.layout.row_columns.max() <= budget and batch.num_rows % 8 == 0 for batch in outcome)
    assert not any(batch.num_dummy_rows for batch in outcome)


# ------------------------------------------------------------------------------------------------------------- updates


def test_every_batch_is_an_update_and_empty_ones_add_nothing():
    outcome = packed([[3, 4], [], [5]])
    assert [(batch.update, batch.indices.tolist(), batch.is_complete) for batch in outcome] == [
        (0, [0, 1], True),
        (1, [2], True),
    ]
    assert packed([]) == packed([[], []]) == []


def test_updates_are_regrouped_by_count_from_batches_of_any_size():
    lengths = [[1, 2, 3, 4, 5], [6], [7, 8]]
    outcome = packed(lengths, sequences_per_update=4, num_packs=1, max_token_budget=64)
    assert [batch.sequences.lengths.tolist() for batch in outcome] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert [batch.indices.tolist() for batch in outcome] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert packed(lengths, sequences_per_update=8)[0].sequences.lengths.tolist() == list(range(1, 9))


def test_updates_go_by_a_value():
    values = {"step": ["a", "a", "b", "b", "c"]}
    outcome = packed([[1, 2, 3], [4], [5]], values=values, update_id="step")
    assert [(batch.update, batch.sequences.lengths.tolist()) for batch in outcome] == [
        ("a", [1, 2]),
        ("b", [3, 4]),
        ("c", [5]),
    ]


def test_a_stream_that_ends_inside_an_update_is_an_error_unless_it_is_to_be_packed():
    iterator = pack_sequences(stream_of([[1, 2, 3], [4, 5]]), num_packs=2, max_token_budget=16, sequences_per_update=3)
    assert next(iterator).indices.tolist() == [0, 1, 2]
    message = (
        'the stream ends inside update 1: it has 2 of the 3 `sequences_per_update`; `last_update` "pack" packs them.'
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        next(iterator)
    outcome = packed([[1, 2, 3], [4, 5]], sequences_per_update=3, last_update="pack")
    assert [batch.is_complete for batch in outcome] == [True, False]


def test_the_stream_is_read_as_updates_are_asked_for():
    seen = []

    def stream():
        for number in range(3):
            seen.append(number)
            yield [[1, 2, 3]]

    iterator = pack_sequences(stream(), num_packs=1, max_token_budget=8)
    assert seen == []
    next(iterator)
    assert seen == [0]


def test_values_and_integer_dtypes_are_joined_over_batches():
    batches = [
        [{"input_ids": np.array([1, 2], np.int16), "advantage": 0.5}],
        [{"input_ids": np.array([3], np.int64), "advantage": 2}],
    ]
    (batch,) = pack_sequences(batches, num_packs=1, max_token_budget=4, sequences_per_update=2)
    assert batch.values["advantage"].tolist() == [0.5, 2.0]
    assert batch.rows.input_ids.dtype == np.int64


# -------------------------------------------------------------------------------------------------------------- orders


def test_orders():
    lengths = [[3, 9, 2, 8, 7, 4, 6, 5]]
    (balanced,) = packed(lengths, num_packs=2, max_token_budget=12)
    assert (np.diff(balanced.loads) <= 0).all()
    (sampler,) = packed(lengths, num_packs=2, max_token_budget=12, packing_strategy="first_fit", order="sampler")
    assert rows_of(sampler) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    options = {"max_token_budget": 12, "packing_strategy": "first_fit", "order": "shuffled"}
    shuffles = [rows_of(batch) for seed in range(2) for batch in packed(lengths * 2, seed=seed, **options)]
    assert len({str(rows) for rows in shuffles}) == 4  # another one for each seed and update
    again = packed(lengths * 2, seed=1, **options)
    assert rows_of(again[1]) == shuffles[3]


def test_the_rows_of_a_step_are_alike_where_there_are_several_steps():
    (batch,) = packed([[12] * 2 + [2] * 2 + [7] * 2], num_packs=2, max_token_budget=12, packing_strategy="auto")
    assert batch.num_steps * 2 == batch.num_rows
    loads = batch.loads.reshape(-1, 2)
    assert (loads.min(axis=1)[:-1] >= loads.max(axis=1)[1:]).all()


def test_permuting_the_sequences_permutes_the_rows():
    lengths = np.random.default_rng(0).integers(1, 12, 30)
    order = np.random.default_rng(1).permutation(30)
    (one,), (other,) = packed([lengths], num_packs=4), packed([lengths[order]], num_packs=4)
    assert [sorted(lengths[row]) for row in rows_of(one)] == [sorted(lengths[order][row]) for row in rows_of(other)]


def test_the_same_stream_gives_the_same_rows():
    lengths = np.random.default_rng(2).integers(1, 12, (3, 20))
    for options in ({}, {"order": "shuffled", "seed": 4}, {"packing_strategy": "auto", "data_parallel_size": 2}):
        one, other = packed(lengths, num_packs=4, **options), packed(lengths, num_packs=4, **options)
        assert [rows_of(batch) for batch in one] == [rows_of(batch) for batch in other]


# ------------------------------------------------------------------------------------------------- strategies and ranks


def test_differencing_gives_way_where_other_limits_apply():
    assert packed([[5, 4, 3, 3, 3]], max_token_budget=9)[0].algorithm == "kk"
    assert packed([[5, 4, 3, 3, 3]], max_token_budget=9, max_segments_per_row=3)[0].algorithm == "auto"
    assert packed([[5, 4, 3, 3, 3]], max_token_budget=9, packing_strategy="first_fit")[0].algorithm == "first_fit"
    versions = {"version": [0, 0, 1, 1, 1]}  # each by itself
    assert packed([[5, 4, 3, 3, 3]], max_token_budget=9, values=versions, forbid="version")[0].algorithm == "kk"


def test_another_algorithm_has_more_rows_where_it_finds_no_layout():
    lengths = [[9, 2, 9, 2, 9, 2, 9, 2]]
    (auto,) = packed(lengths, max_token_budget=12, packing_strategy="auto")
    (in_order,) = packed([[7, 6, 5, 6]], num_packs=1, max_token_budget=12, packing_strategy="next_fit", order="sampler")
    assert auto.num_rows == 4
    assert rows_of(in_order) == [[0], [1, 2], [3]]
    with pytest.raises(
        UnsupportedProblemError, match="`algorithm` 'next_fit' does not support what this problem needs: `forbid`"
    ):
        packed([[1, 2]], values={"version": [0, 1]}, forbid="version", packing_strategy="next_fit")


def test_the_work_of_the_rows_of_a_rank_is_balanced_together():
    lengths = np.random.default_rng(3).integers(1, 16, 40)
    (batch,) = packed([lengths], num_packs=4, data_parallel_size=2, packing_strategy="auto", estimator="tokens")
    ranks = batch.loads.reshape(-1, 2, 2).sum(axis=(0, 2))
    assert ranks.max() == np.ceil(lengths.sum() / 2)
    assert batch.gap == 0


def test_a_group_shares_the_rank_where_no_row_can_hold_it():
    values = {"prompt": [0] * 4 + [1] * 4}
    (batch,) = packed([[10] * 8], values=values, num_packs=4, data_parallel_size=2, group="prompt", group_scope="rank")
    ranks = [
        {
            at // 4
            for row in range(rank * 2, rank * 2 + 2)
            for step in range(batch.num_steps)
            for at in rows_of(batch)[step * 4 + row]
        }
        for rank in range(2)
    ]
    assert sorted(ranks, key=min) == [{0}, {1}]


def test_a_group_that_needs_many_rows_on_one_rank_is_no_long_search(monkeypatch):
    counts = []
    search = RowSearch._counts
    monkeypatch.setattr(RowSearch, "_counts", lambda *args: (counts.append(one[0]) or one for one in search(*args)))
    values = {"prompt": [0] * 60 + [None]}
    (batch,) = packed([[16] * 61], values=values, group="prompt", group_scope="rank", data_parallel_size=2)
    assert counts == [120]
    assert (batch.num_rows, batch.num_dummy_rows) == (120, 59)


def test_updates_that_are_alike_share_what_plans_them(monkeypatch):
    made = []
    check = Planner.__post_init__
    monkeypatch.setattr(Planner, "__post_init__", lambda planner: (made.append(planner), check(planner))[1])
    counts = []
    for _ in pack_sequences(stream_of([[5, 4, 3]] * 4), num_packs=2, max_token_budget=16):
        counts.append(len(made))
    assert counts == counts[:1] * 4


def test_names_of_several_values_keep_apart():
    values = {"version": [0, 0, 1, 1], "adapter": ["a", "b", "b", "b"]}
    (batch,) = packed([[1] * 4], values=values, num_packs=1, forbid=["version", "adapter"])
    assert sorted(rows_of(batch)) == [[0], [1], [2, 3]]


def test_an_estimator_sees_the_values():
    def work(record):
        return record.features["weight"]

    (batch,) = packed([[4, 4, 4, 4]], values={"weight": [1, 5, 2, 4]}, estimator=work)
    assert batch.loads.tolist() == [6.0, 6.0]


# ------------------------------------------------------------------------------------------------------- a packed batch


def test_steps_have_the_rows_of_the_whole():
    (batch,) = packed([[9, 8, 7, 6, 5, 4, 3]], num_packs=2, max_token_budget=12, labels="shifted", pad_id=9)
    steps = list(batch.steps())
    assert len(steps) == batch.num_steps > 1
    assert np.array_equal(np.concatenate([step.input_ids for step in steps]), batch.rows.input_ids)
    assert np.array_equal(np.concatenate([step.cu_seqlens for step in steps]), batch.rows.cu_seqlens)
    assert steps[0].labels is not None
    assert (batch.rows.input_ids[batch.rows.segment_ids == 0] == 9).all()
    out = {"input_ids": np.empty((2, 12), np.int64)}
    for step, whole in zip(batch.steps(out=out), steps, strict=True):
        assert step.input_ids is out["input_ids"]
        assert np.array_equal(step.input_ids, whole.input_ids)
    with pytest.raises(ConfigError, match=r"^`step` must be a non-negative integer of at most 1, but got 2\.$"):
        batch.step_layout(2)
    with pytest.raises(ConfigError, match=r"^`step` must be a non-negative integer, but got -1\.$"):
        batch.step_layout(-1)
    with pytest.raises(TypeError, match=r"steps\(\) got an unexpected keyword argument 'labels'"):
        batch.steps(labels="unshifted")  # the weights would not follow


def test_a_rank_takes_its_rows_of_every_step_in_the_form_of_the_update():
    (batch,) = packed(
        [[9, 8, 7, 6, 5, 4, 3, 11, 12, 10]], num_packs=4, max_token_budget=12, data_parallel_size=2, pad_id=9,
        labels="shifted", position_start=3, padding={"half": -1.0},
    )  # fmt: skip
    assert batch.num_steps == 2
    weights = batch.loss_weights("sequence")
    for rank in range(2):
        mine = weights.rank(rank)
        for step, rows in enumerate(batch.steps(rank=rank)):
            first = step * 4 + rank * 2
            for name, array in rows.arrays.items():
                assert np.array_equal(array, batch.rows.arrays[name][first : first + 2])
            assert rows.layout.sequences.tolist() == mine.micro_batch(step).layout.sequences.tolist()
            counted = mine.micro_batch(step).token_weights() > 0
            assert np.array_equal(counted, rows.labels != -100)
    flat = next(batch.steps(rank=1, form="flat"))
    assert np.array_equal(flat.labels != -100, weights.rank(1).micro_batch(0).token_weights("flat").reshape(-1) > 0)
    with pytest.raises(ConfigError, match=r"^`rank` must be a non-negative integer of at most 1, but got 2\.$"):
        batch.steps(rank=2)
    (alone,) = packed([[3]])
    with pytest.raises(ConfigError, match=r"^`rank` needs the `data_parallel_size` of `pack_sequences`\.$"):
        alone.step_layout(0, rank=0)


def test_loss_weights_are_shared_by_the_ranks_of_the_update():
    (batch,) = packed([[9, 8, 7, 6]], num_packs=4, max_token_budget=12, data_parallel_size=2)
    assert batch.loss_weights().data_parallel_size == batch.data_parallel_size == 2
    assert batch.loss_weights().scale() == 2 / 26
    assert batch.loss_weights(data_parallel_size=4).scale() == 4 / 26
    (alone,) = packed([[9, 8, 7, 6]], num_packs=4, max_token_budget=12)
    assert (alone.data_parallel_size, alone.loss_weights().scale()) == (None, 1 / 26)
    with pytest.raises(ConfigError, match=r"^`groups` names the value \[1\], but the sequences have: none\.$"):
        batch.loss_weights("group", groups=[1])


def test_ranks_that_agree_have_one_digest():
    def digest(lengths=((5, 4, 3, 3, 3),), **options):
        return packed(lengths, **options)[-1].digest

    one = digest()
    padding = {"half": 0.5}
    assert one == digest() == digest(values={"reward": [1, 2, 3, 4, 5]})
    assert digest(padding=padding) == digest(padding={"half": np.float32(0.5)}) != one
    others = [
        digest(((5, 4, 3, 3, 2),)), digest(((1,), (5, 4, 3, 3, 3))), digest(num_packs=1), digest(max_token_budget=17),
        digest(labels="shifted"), digest(estimator="tokens"), digest(packing_strategy="first_fit"),
        digest(overflow="drop"), digest(data_parallel_size=2), digest(order="sampler"),
        digest(order="shuffled", seed=0), digest(order="shuffled", seed=1), digest(alignment=2),
    ]  # fmt: skip
    assert len({one, *others}) == 14
    (batch,) = packed([[5, 4, 3, 3, 3]])
    assert pickle.loads(pickle.dumps(batch)).digest == batch.digest
    narrow = [[np.ones(length, np.int8) for length in (5, 4, 3, 3, 3)]]
    (other,) = pack_sequences(narrow, num_packs=np.int64(2), max_token_budget=16)
    assert other.digest == one  # of no token or dtype


def test_a_group_is_dropped_as_a_whole():
    values = {"pair": [0, 0, 1, 1, 2, 2, None]}
    (batch,) = packed([[20, 3, 9, 8, 7, 6, 5]], values=values, group="pair", overflow="drop")
    assert batch.layout.sequences.tolist() == [4, 5, 6]
    assert [(loss.reason, loss.indices.tolist(), loss.num_lost_tokens) for loss in batch.losses] == [
        ("length", [0], 20),
        ("group", [1, 2, 3], 20),
    ]
    options = {"group": "pair", "group_scope": "rank", "data_parallel_size": 2, "overflow": "drop"}
    (batch,) = packed([[20, 3, 9, 8, 7, 6, 5]], values=values, **options)
    assert sorted(batch.layout.sequences.tolist()) == [2, 3, 4, 5, 6]
    (batch,) = packed(
        [[1] * 7], values={"pair": [0] * 5 + [1] * 2}, group="pair", overflow="drop", max_segments_per_row=4
    )
    assert batch.layout.sequences.tolist() == [5, 6]


def test_the_stream_goes_on_after_an_update_that_cannot_be_packed():
    iterator = pack_sequences(stream_of([[3], [20], [4]]), num_packs=1, max_token_budget=16)
    assert next(iterator).update == 0
    with pytest.raises(InfeasibleError):
        next(iterator)
    assert next(iterator).update == 2
    iterator = pack_sequences([[item(3)], [item(0)], [item(3)]], num_packs=1, max_token_budget=16)
    next(iterator)
    with pytest.raises(ConfigError, match=r"^batch 1: "):
        next(iterator)
    assert next(iterator, None) is None


def test_the_width_of_cu_seqlens_limits_the_segments():
    (batch,) = packed([[1] * 9], num_segments=4)
    assert batch.rows.cu_seqlens.shape == (4, 5)
    assert np.diff(batch.layout.row_offsets).max() <= 4


def test_the_most_segments_are_the_width_of_cu_seqlens():
    (batch,) = packed([[3, 3, 3]], max_segments_per_row=5)
    assert batch.rows.cu_seqlens.shape == (2, 6)
    assert packed([[3, 3, 3]], max_segments_per_row=5, num_segments=7)[0].rows.cu_seqlens.shape == (2, 8)


def test_pairs_keep_the_mask_of_their_prompts():
    (batch,) = pack_sequences([[([1, 2], [3]), ([4], [5, 6])]], num_packs=1, max_token_budget=8)
    assert batch.rows.input_ids[0, :6].tolist() == [1, 2, 3, 4, 5, 6]
    assert batch.rows.loss_mask[0].tolist() == [False, False, True, False, True, True, False, False]


def test_a_batch_survives_a_pickle():
    (batch,) = packed([[20, 30, 3]], overflow="drop", labels="shifted")
    again = pickle.loads(pickle.dumps(batch))
    assert rows_of(again) == rows_of(batch)
    assert repr((again, again.losses)) == repr((batch, batch.losses))
    assert np.array_equal(again.rows.labels, batch.rows.labels)


def test_an_update_of_dropped_sequences_is_dummy_rows():
    (batch,) = packed([[20, 30]], num_packs=3, overflow="drop")
    assert (batch.num_rows, batch.num_dummy_rows, batch.num_lost_tokens) == (3, 3, 50)
    assert (batch.lower_bound, batch.gap, batch.algorithm, batch.fill) == (None, 0.0, None, 0.0)
    assert batch.unpack(batch.rows.input_ids) == [None, None]


def test_losses_name_policy_and_reason():
    (batch,) = packed([[20, 15, 3]], overflow="truncate_left", alignment=6)
    assert repr(batch.losses) == (
        "(Overflow('truncate_left', 'length', 1 sequences, 8 tokens lost), "
        "Overflow('truncate_left', 'alignment', 1 sequences, 3 tokens lost))"
    )
    assert repr(batch) == "PackedBatch(update 0, 3 sequences in 4 rows of 16, 1 dummies, 11 tokens lost)"


# ------------------------------------------------------------------------------------------------------------ refusals


SETTINGS = [
    ({"batches": {"input_ids": [1]}}, "`batches` must be an iterable of batches, but got {'input_ids': [1]}."),
    ({"batches": 3}, "`batches` must be an iterable of batches, but got 3."),
    ({"num_packs": 0}, "`num_packs` must be a positive integer, but got 0."),
    ({"num_packs": 2**20 + 1}, "`num_packs` must be a positive integer of at most 1048576, but got 1048577."),
    ({"max_token_budget": 0}, "`max_token_budget` must be a positive integer, but got 0."),
    ({"alignment": {"row": 12}}, "`max_token_budget` must be a multiple of the row alignment 12, but got 16."),
    ({"alignment": 32}, "`max_token_budget` must be at least the segment alignment 32, but got 16."),
    ({"max_segments_per_row": 0}, "`max_segments_per_row` must be a positive integer, but got 0."),
    ({"order": "random"}, '`order` must be one of "balanced", "sampler", "shuffled", but got \'random\'.'),
    ({"order": "shuffled"},
     "`seed` must be given with `order` \"shuffled\" and only then, but got None with 'shuffled'."),
    ({"seed": 3}, "`seed` must be given with `order` \"shuffled\" and only then, but got 3 with 'balanced'."),
    ({"order": "shuffled", "seed": -1}, "`seed` must be a non-negative integer, but got -1."),
    ({"overflow": "truncate"},
     '`overflow` must be one of "error", "single", "truncate_left", "truncate_right", "split", "drop", '
     "but got 'truncate'."),
    ({"sequences_per_update": 0}, "`sequences_per_update` must be a positive integer, but got 0."),
    ({"sequences_per_update": 3, "update_id": "step"},
     "`update_id` and `sequences_per_update` must not both be given."),
    ({"last_update": "drop"}, "`last_update` must be one of \"error\", \"pack\", but got 'drop'."),
    ({"group": 3}, "`group` must be the name of a per-sequence value, but got 3."),
    ({"forbid": ["a", 3]}, "`forbid` must be the name of a per-sequence value, but got 3."),
    ({"group_scope": "row"}, "`group_scope` must be one of \"bin\", \"rank\", but got 'row'."),
    ({"group": "g", "group_scope": "rank"}, '`data_parallel_size` must be given with `group_scope` "rank".'),
    ({"data_parallel_size": 3}, "`data_parallel_size` must divide `num_packs` 2, but got 3."),
    ({"labels": "both"}, "`labels` must be one of \"unshifted\", \"shifted\", but got 'both'."),
    ({"pad_id": 0.5}, "`pad_id` must be an integer, but got 0.5."),
    ({"position_start": -1}, "`position_start` must be a non-negative integer, but got -1."),
    ({"num_segments": 0}, "`num_segments` must be a positive integer, but got 0."),
    ({"padding": 3}, "`padding` must map features to values, but got 3."),
    ({"padding": {"half": 0, 3: 0}}, "`padding` must map names of features to values, but got 3."),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), SETTINGS, ids=lambda value: None)
def test_a_wrong_setting_is_refused_before_the_stream_is_touched(changes, message):
    def stream():
        raise AssertionError("read")
        yield

    arguments = {"batches": stream(), "num_packs": 2, "max_token_budget": 16} | changes
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        pack_sequences(arguments.pop("batches"), **arguments)


def test_an_unknown_strategy_or_estimator_is_refused_before_the_stream_is_touched():
    for option in ({"packing_strategy": "karmarkar"}, {"estimator": "flop"}):
        with pytest.raises(PackingError, match=r"karmarkar|flop"):
            pack_sequences(iter([]), num_packs=2, max_token_budget=16, **option)


def item(length, **others):
    return {"input_ids": [1] * length, **others}


PER_TOKEN = "; a list or array has a value for each token, those of the prompt included, and a tuple is one value."

BATCHES = [
    ([[item(1)], [item(2), item(0)]], {},
     "batch 1: `input_ids` of sequence 1 must have at least one token, but got none."),
    ([[item(3, logp=[0.5, 0.5])]], {},
     f"batch 0: `logp` of sequence 0 must have shape [3] or [k, 3], but got (2,){PER_TOKEN}"),
    ([[item(1, logp=np.zeros(1, "f4")), item(1, logp=np.zeros(1, "f8"))]], {},
     "batch 0: `logp` must have one dtype, but got float32 in sequence 0 and float64 in sequence 1."),
    ([[item(1, logp=np.zeros(1, "f4"))], [item(1, logp=np.zeros(1, "f8"))]], {"sequences_per_update": 2},
     "`logp` must have one dtype and form in batches 0 and 1 of an update, but got float32 [...] and float64 [...]."),
    ([[item(1, logp=np.zeros((2, 1)))], [item(1, logp=np.zeros((3, 1)))]], {"sequences_per_update": 2},
     "`logp` must have one dtype and form in batches 0 and 1 of an update, but got float64 [2, ...] and "
     "float64 [3, ...]."),
    ([[item(1, a=1)], [item(1, b=1)]], {"sequences_per_update": 2},
     "batches 0 and 1 of an update must have the same values, but got ['a'] and ['b']."),
    ([[1, 2, 3]], {},
     "batch 0: `input_ids` of sequence 0 must be a one-dimensional array of integers, but got shape ()."),
    ([[item(1, a=1)]], {"group": "g"}, "`group` names the value 'g', but the sequences have: 'a'."),
    ([[item(1)]], {"forbid": "v"}, "`forbid` names the value 'v', but the sequences have: none."),
    ([[item(1)]], {"update_id": "step"},
     "`update_id` names the value 'step', but the sequences of batch 0 have: none."),
    ([[item(1, step=0), item(1, step=1), item(1, step=0)]], {"update_id": "step"},
     "`step` of sequence 2 is 0, but that update has ended: the sequences of an update must follow each other."),
    ([[item(1, a=[0.5])]], {"padding": {"advv": -1.0}}, "`padding` must name features among ['a'], but got 'advv'."),
    ([[item(1, labels=[0.5])]], {},
     "a feature must have another name than ('segment_ids', 'labels', 'cu_seqlens', 'cu_seqlens_padded'), "
     "but got 'labels'."),
    ([[np.ones(1, np.uint16)]], {"pad_id": -1}, "`pad_id` must fit into uint16, but got -1."),
    ([[np.ones(1, np.uint64)]], {"labels": "shifted"},
     "`ignore_index` must fit into a signed dtype that holds uint64, but got -100."),
    ([[item(1, v=1), item(1, v="a")]], {"forbid": "v"}, "`v` must hold sortable values of one type, but got [1, 'a']."),
]  # fmt: skip


@pytest.mark.parametrize(("batches", "options", "message"), BATCHES, ids=lambda value: None)
def test_a_malformed_batch_is_named(batches, options, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        list(pack_sequences(batches, num_packs=2, max_token_budget=16, **options))


ADVICE = '; `overflow` "drop" leaves such groups out, `group_scope` "rank" keeps them on one rank.'

TOO_MUCH = [
    ([20], {}, {}, "sequence 2 has 20 tokens, over `max_token_budget` = 16 (1 such sequences); `overflow` may also be "
     "'single', 'truncate_left', 'truncate_right', 'split', 'drop'."),
    ([15], {}, {"alignment": 6},
     "sequence 2 has 15 tokens (18 once aligned), over `max_token_budget` = 16 (1 such sequences); `overflow` may also "
     "be 'single', 'truncate_left', 'truncate_right', 'split', 'drop'."),
    ([9, 8], {"g": [7, 7]}, {"group": "g"},
     "the group of sequence 2 has 17 tokens in 2 segments, but a row holds at most 16" + ADVICE),
    ([20], {"g": [7]}, {"group": "g", "overflow": "split"},
     "the group of sequence 2 has 20 tokens in 2 segments, but a row holds at most 16" + ADVICE),
    ([1, 1, 1], {"g": [7, 7, 7]}, {"group": "g", "max_segments_per_row": 2},
     "the group of sequence 2 has 3 segments, but a row holds at most 2" + ADVICE),
    ([1, 1], {"g": [7, 7], "v": [0, 1]}, {"group": "g", "forbid": "v"},
     "the group of sequence 2 must share a row, but sequence 3 must not share one with it."),
]  # fmt: skip


@pytest.mark.parametrize(("lengths", "values", "options", "message"), TOO_MUCH, ids=lambda value: None)
def test_what_no_row_can_hold_is_named_by_its_position_in_the_stream(lengths, values, options, message):
    before = {"g": [-1, -1], "v": [0, 0]}
    joined = {name: before[name] + column for name, column in values.items()}
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        packed([[1, 2], lengths], values=joined, **options)


@pytest.mark.parametrize("limit", [None, 2])
def test_flat_steps_hold_the_segments_of_all_their_rows(limit):
    stream = [[np.arange(3)] * 7]
    settings = {"num_packs": 2, "max_token_budget": 8, "data_parallel_size": 2, "max_segments_per_row": limit}
    update = next(pack_sequences(stream, **settings))
    steps = [step.cu_seqlens.tolist() for step in update.steps(form="flat")]
    assert steps == [[0, 3, 6, 9, 12], [0, 3, 6, 9, 9]]
    for rank in range(2):
        assert [step.cu_seqlens.size for step in update.steps(rank=rank, form="flat")] == [3, 3]
    assert [step.cu_seqlens.shape for step in update.steps()] == [(2, 3), (2, 3)]
