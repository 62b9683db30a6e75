"""Sequences into rows: balance and rows of nearly full batches, and every promise on thousands of RL-like batches."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from timing import slack

from packing import Sequences, balanced_pack, pack, pack_sequences

DATA = Path(os.environ.get("PACKING_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
COLUMNS = {
    "servegen_r1": 2, "math_cot_rollouts": 2, "wlbllm_docs": 1, "docs_mixed": 1, "azure2023_conv": 2,
    "code_python_files": 1,
}  # fmt: skip

NUM_SEQUENCES, NUM_PACKS = 1024, 16
FILLS = (0.95, 0.97, 0.98, 0.99, 0.995, 0.999)
MOST_GAP, MOST_SECONDS = 0.02, 0.025

RL_FILES = ("servegen_r1", "math_cot_rollouts", "wlbllm_docs")
BUDGETS = (8_192, 32_768, 131_072)


def lengths_of(name: str) -> np.ndarray | None:
    """int64[N], or None where the file is not here."""
    file = DATA / "lengths" / f"{name}.npy"
    if not file.exists():
        return None
    rows = np.load(file).astype(np.int64)
    lengths = rows.reshape(len(rows), -1)[:, : COLUMNS[name]].sum(axis=1)
    return lengths[lengths > 0]


# -------------------------------------------------------------------------------------------------- nearly full batches


def nearly_full(quick: bool) -> bool:
    """Rows, gap and CPU time of `balanced_pack`; whether a bar was missed."""
    print(f"balanced_pack, n = {NUM_SEQUENCES:,}, D = {NUM_PACKS}; one call each, CPU ms")
    print(
        f"{'lengths':18} {'fill':>6} {'batches':>8} {'fewer':>6} {'gap':>8} {'largest':>8} {'ms':>6} {'most':>6}  binds"
    )
    seconds, gaps = [], []
    balanced_pack([3, 2, 1], 2, 4)  # what is loaded on first use
    for name in COLUMNS:
        lengths = lengths_of(name)
        for fill in FILLS if lengths is not None else ():
            rows = []
            for seed in range(2 if quick else 8):
                sample = np.random.default_rng(seed).choice(lengths, NUM_SEQUENCES)
                rows += [
                    _one_batch(sample, int(np.ceil(sample.sum() / (fill * steps * NUM_PACKS)))) for steps in (1, 2, 4)
                ]
            found = [row for row in rows if row is not None]
            if not found:
                continue
            gap, cpu = np.array([row[0] for row in found]), np.array([row[1] for row in found])
            binds = Counter(row[3] for row in found)
            print(
                f"{name:18} {fill:6.1%} {len(found):8} {sum(row[2] for row in found):6} "
                f"{np.median(gap):8.4%} {gap.max():8.3%} "
                f"{1e3 * np.median(cpu):6.1f} {1e3 * cpu.max():6.1f}  {', '.join(binds)}"
            )
            seconds += cpu.tolist()
            gaps += gap.tolist()
    if not gaps:
        return False
    within, median = float(np.mean(np.array(gaps) <= MOST_GAP)), float(np.median(seconds))
    in_time = float(np.mean(np.array(seconds) <= MOST_SECONDS * slack(quick)))
    print(
        f"{len(gaps)} batches: {within:.2%} within {MOST_GAP:.0%} of the bound, {in_time:.1%} within "
        f"{1e3 * MOST_SECONDS:g} ms, median {1e3 * median:.1f} ms"
    )
    failed = within < 0.99 or median > MOST_SECONDS * slack(quick)
    if failed:
        print(f"FAILED: fewer than 99 % within {MOST_GAP:.0%}, or a median over {1e3 * MOST_SECONDS:g} ms")
    return failed


def _one_batch(lengths: np.ndarray, budget: int) -> tuple[float, float, bool, str] | None:
    """Gap, CPU seconds, whether there are fewer rows than first-fit decreasing gives, what binds; None: too long."""
    if budget < lengths.max():
        return None
    decreasing = -(-pack(lengths, budget, algorithm="first_fit_decreasing").num_bins // NUM_PACKS) * NUM_PACKS
    start = time.process_time()
    packs = balanced_pack(lengths, NUM_PACKS, budget)
    seconds = time.process_time() - start
    assert packs.num_rows <= decreasing, f"{packs.num_rows} rows, first-fit decreasing {decreasing}"
    assert packs.num_rows % NUM_PACKS == 0
    assert packs.layout.row_columns.max() <= budget
    assert np.array_equal(np.sort(packs.layout.sequences), np.arange(lengths.size))
    return packs.gap, seconds, packs.num_rows < decreasing, packs.lower_bound.name


# ------------------------------------------------------------------------------------------------------ RL-like batches


def rl_like(quick: bool) -> None:
    """Batches of rollouts under all limits at once; every promise is checked on each."""
    count = 25 if quick else 1000
    print(f"\npack_sequences on {count} batches each under random settings; every promise checked")
    print(f"{'lengths':18} {'T':>8} {'sequences':>10} {'rows':>8} {'dummies':>8} {'lost':>7} {'ms':>6}")
    for name in RL_FILES:
        lengths = lengths_of(name)
        for budget in BUDGETS if lengths is not None else ():
            totals: Counter[str] = Counter()
            start = time.process_time()
            for seed in range(count):
                totals += _rl_batch(lengths, budget, np.random.default_rng((seed, budget)))
            each = 1e3 * (time.process_time() - start) / count
            print(
                f"{name:18} {budget:8,} {totals['sequences']:10,} {totals['rows']:8,} {totals['dummies']:8,} "
                f"{totals['lost'] / totals['tokens']:7.2%} {each:6.1f}"
            )


def _rl_batch(lengths: np.ndarray, budget: int, rng: np.random.Generator) -> Counter[str]:
    """One batch of prompts with eight rollouts each under random settings."""
    prompts, rollouts = int(rng.integers(4, 33)), 8
    sample = rng.choice(lengths, prompts * rollouts)
    num_packs = int(rng.choice([2, 4, 8, 16]))
    options = {
        "num_packs": num_packs,
        "max_token_budget": budget,
        "packing_strategy": str(rng.choice(["kk", "first_fit", "auto"])),
        "order": str(rng.choice(["balanced", "sampler"])),
        "overflow": str(rng.choice(["single", "truncate_left", "truncate_right", "split", "drop"])),
        "alignment": [1, 16, {"segment": 8, "row": 128}][rng.integers(3)],
        "max_segments_per_row": [None, 16, 64][rng.integers(3)],
    }
    values = {"prompt": np.repeat(np.arange(prompts), rollouts), "version": rng.integers(0, 2, sample.size)}
    match rng.integers(4):
        case 0:
            options["forbid"] = "version"
        case 1:  # pairs of neighbours, in one row
            aligned = -(-sample // 16) * 16
            fits = np.repeat(aligned.reshape(-1, 2).sum(axis=1) <= budget, 2)
            values["pair"] = np.where(fits, np.arange(sample.size) // 2, -1)
            values["version"][1::2] = values["version"][::2]
            options |= {"group": "pair", "forbid": "version"}
        case 2:
            options |= {"group": "prompt", "group_scope": "rank", "data_parallel_size": num_packs // 2}
    sequences = Sequences(np.concatenate(([0], np.cumsum(sample))), np.zeros(sample.sum(), np.int8), values=values)
    (batch,) = pack_sequences([sequences], **options)
    _check(batch, sample, values, options)
    return Counter(
        sequences=sample.size,
        rows=batch.num_rows,
        dummies=batch.num_dummy_rows,
        lost=batch.num_lost_tokens,
        tokens=int(sample.sum()),
    )


def _check(batch, lengths: np.ndarray, values: dict, options: dict) -> None:
    """Caps, counts, dummy rows, conservation, labels."""
    layout, budget, num_packs = batch.layout, options["max_token_budget"], options["num_packs"]
    segments = np.diff(layout.row_offsets)
    assert batch.num_rows % num_packs == 0
    assert layout.row_length == budget or options["overflow"] == "single"
    running = np.concatenate(([0], np.cumsum(layout.footprints)))
    columns = np.diff(running[layout.row_offsets])
    assert (columns[(segments > 1) | (layout.row_length == budget)] <= budget).all()
    assert segments.max() <= (options["max_segments_per_row"] or lengths.size)
    laid_out = np.bincount(layout.sequences, weights=layout.lengths, minlength=lengths.size).astype(np.int64)
    missing = {int(i): loss for loss in batch.losses for i in loss.indices}
    whole = np.array([i not in missing or options["overflow"] in ("single", "split") for i in range(lengths.size)])
    assert np.array_equal(laid_out[whole], lengths[whole])
    assert int((lengths - laid_out).sum()) == batch.num_lost_tokens
    rows = np.repeat(np.arange(batch.num_rows), segments)
    wholes = layout.num_segments
    if "forbid" in options:
        assert np.unique(np.stack((rows, values["version"][layout.sequences])), axis=1).shape[1] == (segments > 0).sum()
    if "group" in options:
        labels = values[options["group"]][layout.sequences]
        where, alone = rows, labels < 0
        if "group_scope" in options:
            where = rows % num_packs // (num_packs // options["data_parallel_size"])
        else:
            wholes = np.unique(labels[~alone]).size + int(alone.sum())
        together = np.unique(np.stack((labels, where))[:, ~alone], axis=1)
        assert together.shape[1] == np.unique(labels[~alone]).size
    if "group_scope" not in options:
        assert batch.num_dummy_rows == max(0, batch.num_rows - wholes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer batches")
    quick = parser.parse_args().quick
    failed = nearly_full(quick)
    rl_like(quick)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
