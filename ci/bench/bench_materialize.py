"""Materialised rows: against a plain copy of as many bytes, and against slice assignments segment by segment."""

from __future__ import annotations

import argparse
import os
import sys
import time
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


def slice_loop(sequences: Sequences, layout: RowLayout, out: dict[str, np.ndarray], counting: np.ndarray) -> None:
    """The same arrays by NumPy, a slice assignment for each segment and array."""
    ids, mask = sequences.input_ids, sequences.loss_mask
    columns = [(out[name], feature) for name, feature in sequences.features.items()]
    columns += [(out["input_ids"], ids), (out["loss_mask"], mask)]
    segment_ids, position_ids = out["segment_ids"], out["position_ids"]
    for array in (*(target for target, _ in columns), segment_ids, position_ids):
        array.fill(0)
    places = [layout.segment_rows, layout.positions, layout.lengths, sequences.offsets[layout.sequences]]
    number, before = 0, -1
    for row, position, length, begin in zip(*(place.tolist() for place in places), strict=True):
        number, before = (number + 1 if row == before else 1), row
        here, there = slice(position, position + length), slice(begin, begin + length)
        for target, source in columns:
            target[row, here] = source[there]
        segment_ids[row, here] = number
        position_ids[row, here] = counting[:length]


def medians(functions: dict[str, object], repeat: int) -> dict[str, float]:
    """Median seconds of CPU time of each function, the functions taking turns."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeat + 2):
        for name, function in functions.items():
            start = time.process_time()
            function()
            seconds[name].append(time.process_time() - start)
    return {name: float(np.median(times[2:])) for name, times in seconds.items()}


def measure(name: str, lengths: np.ndarray, repeat: int, with_loop: bool) -> tuple[float, float]:
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
    slice_loop(sequences, layout, looped, np.arange(ROW_LENGTH, dtype=np.int32))
    assert all(np.array_equal(out[key], looped[key]) and np.array_equal(out[key], copies[key]) for key in out)
    back = first.unpack(out["input_ids"])
    assert np.array_equal(np.concatenate(back), sequences.input_ids)

    def copy() -> None:
        for key, array in out.items():
            np.copyto(array, copies[key])

    functions = {"copy": copy, "ours": lambda: materialize(sequences, layout, out=out)}
    times = medians(functions, repeat)
    ratio = times["ours"] / times["copy"]
    million = sum(array.nbytes for array in out.values()) / 1e6
    line = (
        f"{name:12} {layout.num_segments:7,} segments {million:6.1f} MB   np.copyto {1e3 * times['copy']:6.2f} ms   "
        f"materialize {1e3 * times['ours']:6.2f} ms = {ratio:.2f} copies"
    )
    faster = float("inf")
    if with_loop:
        counting = np.arange(ROW_LENGTH, dtype=np.int32)
        functions["loop"] = lambda: slice_loop(sequences, layout, out, counting)
        times = medians(functions, max(5, repeat // 6))
        faster = times["loop"] / times["ours"]
        line += f"   slice loop {1e3 * times['loop']:7.2f} ms = {faster:.1f} times"
    print(line)
    return ratio, faster


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, bars with slack")
    quick = parser.parse_args().quick
    repeat = 15 if quick else 60
    print(
        f"{NUM_ROWS} rows of {ROW_LENGTH:,} into `out`: ids, segments, positions, mask, two features; median CPU time"
    )
    name, lengths = real_lengths()
    ratio, _ = measure(name, lengths, repeat, with_loop=True)
    for tokens in (512, SHORT):
        equal = np.full(NUM_ROWS * ROW_LENGTH // tokens, tokens)
        _, faster = measure(f"{tokens} tokens", equal, repeat, with_loop=True)
    failed = ratio > MOST_COPIES * slack(quick) or faster < LEAST_LOOPS / slack(quick)
    if failed:
        print(f"FAILED: over {MOST_COPIES:g} copies on {name}, or not {LEAST_LOOPS:g} times the loop at {SHORT} tokens")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
