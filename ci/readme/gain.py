"""Makes the table and the picture of the README: what planning gains on real lengths.

python ci/readme/gain.py            prints the table
python ci/readme/gain.py --write    also puts it into README.md and draws ci/readme/gain.svg (needs matplotlib)
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from packing import Planner

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("PACKING_DATA", ROOT.parent / "shared" / "data")) / "lengths"
RANKS, STEPS = 64, 10

# name of the length file, what it is, token cap of a row, samples in a step
INSTANCES = (
    ("openchat_v1", "chat fine-tuning, cut at 2k", 32768, 1024),
    ("azure2023_conv", "production chat", 32768, 1024),
    ("servegen_r1", "reasoning rollouts", 65536, 4096),
    ("docs_mixed", "manuals and standards", 131072, 4096),
    ("wlbllm_docs", "long-context documents", 131072, 8192),
)
MARKS = "<!-- gain-table -->", "<!-- end of gain-table -->"


def lengths_of(name: str, longest: int) -> np.ndarray:
    """int64 total lengths of at most `longest` tokens."""
    rows = np.load(DATA / f"{name}.npy").astype(np.int64)
    lengths = rows if rows.ndim == 1 else rows[:, 0] if name == "docs_mixed" else rows[:, :2].sum(axis=1)
    return lengths[lengths <= longest]


def row(name: str, what: str, seq_len: int, count: int) -> str:
    """One line of the table: medians over `STEPS` steps of samples drawn with fixed seeds."""
    lengths = lengths_of(name, seq_len)
    dealt, best, floor, over = [], [], [], []
    for seed in range(STEPS):
        step = np.random.default_rng(seed).choice(lengths, count)
        plans = [
            Planner(data_parallel_size=RANKS, seq_len=seq_len, algorithm=algorithm, estimator="attention").plan(step)
            for algorithm in ("lpt", "kk", "auto")
        ]
        dealt.append(plans[0].baseline.imbalance)
        over.append(plans[0].baseline.num_overflowing_bins)
        best.append([plan.imbalance for plan in plans])
        floor.append(plans[-1].lower_bound.floor)
    lpt, kk, auto = np.median(best, axis=0)
    return (
        f"| `{name}`: {what} | {count:,} | {seq_len // 1024}k | {np.median(dealt):.3f} | {np.median(over):.0f} | "
        f"{lpt:.4f} | {kk:.4f} | {auto:.4f} | {np.median(floor):.4f} |"
    )


def table() -> str:
    """The whole table in Markdown."""
    head = (
        "| real lengths | samples a step | cap | dealt in order | rows over the cap "
        "| `lpt` | `kk` | `auto` | lower bound |\n|---|---|---|---|---|---|---|---|---|"
    )
    return "\n".join([head, *(row(*instance) for instance in INSTANCES)])


def draw(path: Path) -> None:
    """Loads of the 64 ranks in one step, as dealt and as planned."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "packing"
    from matplotlib import pyplot

    name, what, seq_len, count = INSTANCES[1]
    step = np.random.default_rng(0).choice(lengths_of(name, seq_len), count)
    plan = Planner(data_parallel_size=RANKS, seq_len=seq_len, estimator="attention").plan(step)
    mean = plan.rank_loads.mean()
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 2.8), sharey=True, layout="constrained")
    for axis, loads, title in (
        (axes[0], plan.baseline.rank_loads, f"dealt in order: everyone waits, {plan.baseline.imbalance:.2f}x the mean"),
        (axes[1], plan.rank_loads, f"planned: {plan.imbalance:.4f}x the mean"),
    ):
        share = loads / mean
        axis.bar(
            range(RANKS), share, color=["#c44e52" if load == share.max() else "#4c72b0" for load in share], width=0.9
        )
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("data-parallel rank")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("work / mean")
    figure.suptitle(f"{what}, one step of {count:,} samples, attention-aware work", fontsize=10)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    made = table()
    print(made)
    if parser.parse_args().write:
        readme = ROOT / "README.md"
        before, _, rest = readme.read_text().partition(MARKS[0])
        readme.write_text(f"{before}{MARKS[0]}\n{made}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}")
        draw(Path(__file__).with_name("gain.svg"))


if __name__ == "__main__":
    main()
