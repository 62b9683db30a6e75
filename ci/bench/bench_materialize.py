"""Materialised rows: against a plain copy of as many bytes, and against slice assignments segment by segment."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import numpy as np
from timing import slack

from packing import PackedRows, RowLayout, Sequences, materialize, pack

DATA = Path(os.environ.get("PACKING_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))

NUM_ROWS, ROW_LENGTH, SHORT = 64, 32_768, 64

MOST_COPIES = 1.5  # times np.copyto of the same bytes
LEAST_LOOPS = 10.0  # times faster than slice assignments, at segments of SHORT tokens


def real_lengths() -> tuple[str, np.ndarray]:
    """A name and lengths of at most a row, shuffled."""
    file = DATA / "lengths" / "servegen_r1.npy"
    if file.exists():
        name, lengths = "servegen_r1", np.load(file).sum(axis=1)
    else:
        with resources.as_file(resources.files("packing") / "data" / "openchat_v1.npy") as bundled:
            name, lengths = "openchat_v1", np.load(bundled)
    lengths = lengths[(lengths > 0) & (lengths <= ROW_LENGTH)].astype(np.int64)
    return name, np.random.default_rng(0).permutation(lengths)


def full_rows(lengths: np.ndarray) -> tuple[np.ndarray, RowLayout]:
    """As many of the first lengths as fill NUM_ROWS rows, and their layout."""
    count = int(np.searchsorted(np.cumsum(lengths), NUM_ROWS * ROW_LENGTH, side="right"))
    while (packed := pack(lengths[:count], ROW_LENGTH)).num_bins > NUM_ROWS:
        count -= 1
    layout = RowLayout.from_bins(lengths[:count], packed, row_length=ROW_LENGTH, num_rows=NUM_ROWS)
    return lengths[:count], layout


def make_sequences(lengths: np.ndarray) -> Sequences:
    """Ids, a mask and two float features."""
    generator, total = np.random.default_rng(1), int(lengths.sum())
    features = {name: generator.standard_normal(total, np.float32) for name in ("logprobs", "advantages")}
    ids = generator.integers(1, 100_000, total, np.int32)
    return Sequences(np.concatenate(([0], np.cumsum(lengths))), ids, features, generator.random(total) < 0.7)


def slice_loop(sequences: Sequences, layout: RowLayout, out: dict[str, np.ndarray]) -> None:
    """The same arrays as one writes it with NumPy: a slice assignment for each segment and array."""
    for name in ("input_ids", "segment_ids", "position_ids", "loss_mask", *sequences.features):
        out[name][:] = 0
    offsets, positions, lengths = layout.row_offsets.tolist(), layout.positions.tolist(), layout.lengths.tolist()
    begins = sequences.offsets[layout.sequences].tolist()
    for row in range(layout.num_rows):
        for number, s in enumerate(range(offsets[row], offsets[row + 1]), start=1):
            position, length, begin = positions[s], lengths[s], begins[s]
            out["input_ids"][row, position : position + length] = sequences.input_ids[begin : begin + length]
            out["segment_ids"][row, position : position + length] = number
            out["position_ids"][row, position : position + length] = np.arange(length)
            out["loss_mask"][row, position : position + length] = sequences.loss_mask[begin : begin + length]
            for name, feature in sequences.features.items():
                out[name][row, position : position + length] = feature[begin : begin + length]


def seconds_in_turn(functions: dict[str, Callable[[], object]], repeat: int) -> dict[str, np.ndarray]:
    """Seconds of CPU time of every call but the first two, the functions taking turns."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeat + 2):
        for name, function in functions.items():
            start = time.process_time()
            function()
            seconds[name].append(time.process_time() - start)
    return {name: np.array(times[2:]) for name, times in seconds.items()}


def measure(name: str, lengths: np.ndarray, repeat: int) -> tuple[float, float]:
    """(times np.copyto, times faster than the loop); prints both, and checks the answer."""
    lengths, layout = full_rows(lengths)
    sequences = make_sequences(lengths)
    first: PackedRows = materialize(sequences, layout)
    out = first.arrays
    copies = {key: array.copy() for key, array in out.items()}
    looped = {key: array.copy() for key, array in out.items()}
    for array in out.values():
        array.reshape(-1).view(np.uint8)[:] = 0xA5
    materialize(sequences, layout, out=out)
    slice_loop(sequences, layout, looped)
    assert all(np.array_equal(out[key], looped[key]) and np.array_equal(out[key], copies[key]) for key in out)
    back = first.unpack(out["input_ids"])
    assert np.array_equal(np.concatenate(back), sequences.input_ids)

    def copy() -> None:
        for key, array in out.items():
            np.copyto(array, copies[key])

    functions = {
        "copy": copy,
        "ours": lambda: materialize(sequences, layout, out=out),
        "loop": lambda: slice_loop(sequences, layout, out),
    }
    seconds = seconds_in_turn(functions, repeat)
    times = {key: float(np.median(one)) for key, one in seconds.items()}
    ratio = times["ours"] / times["copy"]
    # Both of these wait for memory; the loop waits for the interpreter, which others on the machine do not slow down.
    faster = float(seconds["loop"].min() / seconds["ours"].min())
    print(
        f"{name:12} {layout.num_segments:8,} {sum(array.nbytes for array in out.values()) / 1e6:6.1f} "
        f"{1e3 * times['copy']:8.2f} {1e3 * times['ours']:12.2f} {1e3 * times['loop']:8.2f} {ratio:7.2f} {faster:6.1f}"
    )
    return ratio, faster


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, bars with slack")
    quick = parser.parse_args().quick
    repeat = 9 if quick else 40
    print(f"{NUM_ROWS} rows of {ROW_LENGTH:,}: ids, segments, positions, mask, two features into `out`; median CPU ms,")
    print("copies: times np.copyto of the same bytes; loops: times faster than slice assignments, by the minima")
    print(f"{'':12} {'segments':>8} {'MB':>6} {'copyto':>8} {'materialize':>12} {'loop':>8} {'copies':>7} {'loops':>6}")
    name, lengths = real_lengths()
    ratio, _ = measure(name, lengths, repeat)
    for tokens in (512, SHORT):
        equal = np.full(NUM_ROWS * ROW_LENGTH // tokens, tokens)
        _, faster = measure(f"{tokens} tokens", equal, repeat)
    failed = ratio > MOST_COPIES * slack(quick) or faster < LEAST_LOOPS / slack(quick)
    if failed:
        print(f"FAILED: over {MOST_COPIES:g} copies on {name}, or not {LEAST_LOOPS:g} times the loop at {SHORT} tokens")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
