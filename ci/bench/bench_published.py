"""Published figures, recomputed: every row of the reference tables whose input is here, and what we reach on it."""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.util
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from packing import Planner, pack, schedule_rounds

DATA = Path(os.environ.get("PACKING_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))

EXCEPTED = ("NNLSHP", "ENNLSHP")
"""They reserve slots for sequences that do not exist, and take half a minute on 508 lengths."""

OWN_NAMES = {
    "NF": "next_fit",
    "FF": "first_fit",
    "BF": "best_fit",
    "FFD": "first_fit_decreasing",
    "BFD": "best_fit_decreasing",
}
"""Algorithms of the SeqPacker tables that we have by another name."""

WITHIN = 1.001  # Multipack: no rank holds more tokens than this many times the mean of its step


@dataclass(frozen=True)
class Figure:
    """One published number and ours."""

    table: str
    row: str
    column: str
    published: float
    ours: float
    lower_is_better: bool = False

    @property
    def met(self) -> bool:
        """Ours is as good, to as many decimals as were published."""
        decimals = len(repr(float(self.published)).split(".")[1])
        ours = round(float(self.ours), decimals)
        return ours <= self.published if self.lower_is_better else ours >= self.published


# ------------------------------------------------------------------------------- Krell et al.: packs of limited depth


@lru_cache(maxsize=1)
def wikipedia() -> np.ndarray:
    """16,279,552 lengths of at most 512."""
    with gzip.open(DATA / "lengths" / "hist_wikipedia_bert_512.csv.gz", "rt") as rows:
        lengths, counts = np.loadtxt(rows, delimiter=",", skiprows=1, dtype=np.int64).T
    return np.repeat(lengths, counts)


@cache
def depth_limited(depth: int | None, algorithm: str) -> tuple[int, float]:
    """Number of packs with at most `depth` sequences each, and CPU seconds."""
    lengths = wikipedia()
    start = time.process_time()
    num_packs = pack(lengths, 512, max_items=depth, algorithm=algorithm, effort="fast").num_bins
    return num_packs, time.process_time() - start


def krell(algorithm: str = "best_fit_decreasing", depths: tuple = (1, 2, 3, 4, 8, 12, 16, "max")) -> Iterator[Figure]:
    """The authors' printed figures and runs of their programs, at these depths."""
    runs = json.loads((DATA / "references" / "krell_reference_runs_wikipedia.json").read_text())["rows"]
    measured = [
        ("runs", row["algorithm"], row["max_sequences_per_pack"], column, row[column])
        for row in runs
        for column in ("n_packs", "packing_factor", "efficiency_pct")
    ]
    printed = [
        ("README", name, depth, column, value)
        for name, depth, *values in table("krell_readme")["rows"]
        for column, value in zip(("efficiency_pct", "packing_factor"), values[:2], strict=True)
    ]
    printed += [
        ("table 1", name, depth, column, value)
        for depth, name, *values in table("krell_table1")["rows"]
        for column, value in zip(("efficiency_pct", "packing_factor"), values[:2], strict=True)
    ]
    count, tokens = len(wikipedia()), int(wikipedia().sum())
    for source, name, depth, column, published in measured + printed:
        if name in EXCEPTED or depth not in depths:
            continue
        packs = depth_limited(None if depth == "max" else depth, algorithm)[0]
        ours = {"n_packs": packs, "packing_factor": count / packs, "efficiency_pct": 100 * tokens / (packs * 512)}
        row = f"{name} at depth {depth}"
        yield Figure(f"Krell, {source}", row, column, published, ours[column], lower_is_better=column == "n_packs")


# ------------------------------------------------------------------------------------ Multipack: steps for eight ranks


def multipack(epochs: int = 10, effort: str | int = "normal") -> Iterator[Figure]:
    """Means over epochs, as their notebook takes them."""
    lengths = np.load(DATA / "lengths" / "openchat_v1.npy").astype(np.int64)
    published = table("multipack_openchat_v1")
    capacity, ranks = published["settings"]["capacity_per_gpu_batch"], published["settings"]["gpus"]
    in_order = [
        measures(lengths, steps_in_order(lengths, capacity, ranks, seed, effort), capacity) for seed in range(epochs)
    ]  # fmt: skip
    full_steps = measures(lengths, only_full_steps(lengths, capacity, ranks), capacity)
    for name, *values in published["rows"]:
        ours = full_steps if "Linear" in name else np.mean(in_order, axis=0)
        for column, value, own in zip(published["columns"][1:], values, ours, strict=True):
            yield Figure("Multipack", name, column, value, own, lower_is_better=not column.endswith("pct"))


def steps_in_order(
    lengths: np.ndarray, capacity: int, ranks: int, seed: int, effort: str | int
) -> list[list[np.ndarray]]:
    """Every sample of a shuffled epoch, in as few steps as its tokens need, each a stretch of the epoch.

    Work is the sum of squared lengths, which their lag is about. Tokens are kept together by the cap.
    """
    order = np.random.default_rng(seed).permutation(len(lengths))
    reached = np.cumsum(lengths[order])
    num_steps = -(-int(reached[-1]) // (capacity * ranks))
    ends = np.searchsorted(reached, np.arange(1, num_steps) * reached[-1] / num_steps)
    squares = {"name": "attention", "linear": 0, "quadratic": 1}
    steps = []
    for samples in np.split(order, ends):
        tokens = int(lengths[samples].sum())
        planner = Planner(
            data_parallel_size=ranks,
            seq_len=min(capacity, math.ceil(WITHIN * tokens / ranks)),
            local_batch_size=1,
            algorithm={"name": "auto", "effort": effort},
            estimator=squares,
        )
        steps.append([samples[one] for one in planner.plan(lengths[samples]).bins()])
    return steps


def only_full_steps(lengths: np.ndarray, capacity: int, ranks: int) -> list[list[np.ndarray]]:
    """The fullest packs, in complete steps of packs of similar work; what is left belongs to the next epoch."""
    packed = pack(lengths, capacity, algorithm="exact_fill")
    packs = [np.array(one) for one in packed.to_lists()]
    tokens = np.array([lengths[one].sum() for one in packs])
    fullest = np.sort(np.argsort(-tokens, kind="stable")[: len(packs) // ranks * ranks])
    work = np.array([(lengths[packs[at]] ** 2).sum() for at in fullest])
    return [[packs[at] for at in fullest[column]] for column in schedule_rounds(work, ranks).T]


def measures(lengths: np.ndarray, steps: list[list[np.ndarray]], capacity: int) -> tuple[float, ...]:
    """Their five columns; every sample at most once and no rank above the capacity."""
    used = np.concatenate([one for step in steps for one in step])
    assert len(np.unique(used)) == len(used)
    tokens = np.array([[lengths[one].sum() for one in step] for step in steps])
    squares = np.array([[(lengths[one] ** 2).sum() for one in step] for step in steps])
    assert tokens.max() <= capacity
    lag = squares.max(axis=1) - squares.min(axis=1)
    return (
        len(steps),
        math.sqrt(lag.mean()),
        math.sqrt(lag.max()),
        100 * tokens.sum() / (tokens.size * capacity),
        100 * tokens.sum() / (tokens.shape[1] * tokens.max(axis=1).sum()),
    )


# -------------------------------------------------------------------------------------------- SeqPacker: bins by name


def seqpacker() -> Iterator[Figure]:
    """Every synthetic row twice: against the algorithm of the same name, where we have it, and against `exact_fill`."""
    inputs = np.load(DATA / "lengths" / "seqpacker_synthetic.npy").astype(np.int64)
    columns = {"Uniform": 0, "Log-Normal": 1, "Exponential": 2, "Bimodal": 3}

    @cache
    def bins(name: str, capacity: int, algorithm: str) -> tuple[int, int]:
        lengths = inputs[:, columns[name]]
        lengths = lengths[lengths <= capacity]  # as in the tables
        return len(lengths), pack(lengths, capacity, algorithm=algorithm).num_bins

    with gzip.open(DATA / "references" / "seqpacker_tables.csv.gz", "rt") as lines:
        for row in csv.DictReader(lines):
            if row["dataset_type"] != "synthetic":
                continue
            where = f"{row['package']}, {row['algorithm']}, {row['dataset']}, {row['capacity']}"
            same = OWN_NAMES.get(row["algorithm"].split()[-1]) if row["package"].lower().startswith("seqp") else None
            for algorithm in ("exact_fill", *([same] if same else [])):
                count, ours = bins(row["dataset"], int(row["capacity"]), algorithm)
                assert count == int(row["num_sequences"]), f"{where}: {count} sequences"
                yield Figure("SeqPacker", where, algorithm, int(row["num_bins"]), ours, lower_is_better=True)


# ------------------------------------------------------------------------- Ding et al.: documents cut where they must


def best_fit_packing() -> Iterator[Figure]:
    """The worked example of figure 1, through a real dataset."""
    import datasets

    from packing.compat.trl import pack_dataset

    datasets.disable_progress_bars()
    example = next(one for one in tables() if one["id"] == "best_fit_packing_figure1")["rows"]
    documents = [[document] * length for document, length in enumerate(example["lengths"])]
    given = datasets.Dataset.from_dict({"input_ids": documents})
    for strategy, name in (("wrapped", "concat"), ("bfd_split", "best_fit")):
        rows = pack_dataset(given, example["capacity"], strategy, {"keep_in_memory": True})["input_ids"]
        spread = [sum(document in row for row in rows) for document in range(len(documents))]
        cut = sum(count > 1 for count in spread)
        yield Figure("Ding", strategy, "rows", example[f"rows_{name}"], len(rows), lower_is_better=True)
        yield Figure("Ding", strategy, "cut", example[f"documents_truncated_{name}"], cut, lower_is_better=True)


def tables() -> list[dict]:
    """All published tables."""
    return json.loads((DATA / "references" / "published_tables.json").read_text())["tables"]


def table(name: str) -> dict:
    """The published table of that name."""
    return next(one for one in tables() if one["id"] == name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="Krell at three depths, one epoch of Multipack")
    quick = parser.parse_args().quick
    if not (DATA / "references").exists():
        print(f"no published tables in {DATA / 'references'}")
        return 0
    depths = (3, 12, "max") if quick else (1, 2, 3, 4, 8, 12, 16, "max")
    figures = [*krell(depths=depths), *multipack(1 if quick else 10)]
    if not quick:
        figures += krell("exact_fill")
    if importlib.util.find_spec("datasets"):
        figures += best_fit_packing()
    for one in figures:
        print(
            f"{one.table:16} {one.row:28} {one.column:17} {one.published:>14,} {one.ours:>18,.6f}  {one.met or '<--'}"
        )
    bins = list(seqpacker())
    fewer = sum(one.ours < one.published for one in bins)
    print(f"SeqPacker: {len(bins)} comparisons, in {fewer} of them fewer bins than published")
    for depth in depths:
        names = ("best_fit_decreasing",) if quick else ("best_fit_decreasing", "exact_fill")
        answers = [(name, *depth_limited(None if depth == "max" else depth, name)) for name in names]
        print(
            f"depth {depth!s:>4}: " + "; ".join(f"{name} {count:,} packs, {cpu:.2f} s" for name, count, cpu in answers)
        )
    missed = [one for one in figures + bins if not one.met]
    for one in missed:
        print(f"FAILED: {one}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
