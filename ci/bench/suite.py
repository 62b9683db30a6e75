"""Packers side by side on the same real inputs: quality, CPU time and memory, every answer verified.

python ci/bench/suite.py              prints every result; packages that are not installed are skipped
python ci/bench/suite.py --write      also writes suite.json and suite.svg beside this file, and the README's table
python ci/bench/suite.py --write --packages ours     measures only these anew
python ci/bench/suite.py --table      only makes the README's table from suite.json
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from adapters import PACKAGES, Method, Step
from drawing import Draw, attention, length_files, lengths_of
from suite_report import FIGURES_FILE, draw_picture, show, write_readme

from packing.bin_bounds import bin_lower_bound
from packing.bounds import lower_bound
from packing.problem import Problem

K = 1024
TIMEOUT = 300.0
REPEATS = 5
SHORT = 1.0  # seconds of CPU time; a call that takes longer is not repeated


@dataclass(frozen=True)
class Input:
    """Samples of one length file for one task: "packs" (as few as possible), "balance" or "capped"."""

    task: str
    file: str
    what: str
    samples: Callable[[], np.ndarray]
    ranks: int | None
    capacity: int | None
    quick: bool = False

    def step(self) -> Step:
        """The samples, drawn anew, with attention-aware costs."""
        lengths = self.samples()
        return Step(lengths.tolist(), attention(lengths).tolist(), self.ranks, self.capacity)


def _some(file: str, count: int, longest: int) -> np.ndarray:
    lengths = lengths_of(file)
    return Draw(f"suite/{file}/{count}").sample(lengths[lengths <= longest], count)


def _filling(file: str, ranks: int, capacity: int, percent: int) -> np.ndarray:
    lengths = lengths_of(file)
    total = ranks * capacity * percent // 100
    return Draw(f"suite/{file}/{ranks}/{capacity}").with_sum(lengths[lengths <= capacity], total)


def _packs(file: str, count: int, size: int, quick: bool = False) -> Input:
    what = f"{count:,} samples of {file} into packs of {size}k"
    return Input("packs", file, what, partial(_some, file, count, size * K), None, size * K, quick)


def _balance(file: str, count: int, ranks: int, quick: bool = False) -> Input:
    what = f"{count:,} samples of {file} onto {ranks} ranks"
    return Input("balance", file, what, partial(_some, file, count, 1 << 40), ranks, None, quick)


def _capped(file: str, ranks: int, size: int, quick: bool = False) -> Input:
    what = f"{file} onto {ranks} ranks of {size}k, 97 % full"
    return Input("capped", file, what, partial(_filling, file, ranks, size * K, 97), ranks, size * K, quick)


INPUTS = (
    _packs("servegen_r1", 20_000, 32),
    _packs("wlbllm_docs", 10_000, 128),
    _packs("openchat_v1", 6_000, 8, quick=True),
    _balance("azure2023_conv", 1_024, 64),
    _balance("openchat_v1", 256, 64, quick=True),
    _balance("docs_mixed", 4_096, 64),
    _balance("servegen_r1", 40, 4),
    _capped("servegen_r1", 64, 64),
    _capped("servegen_r1", 64, 128),
    _capped("wlbllm_docs", 64, 128),
    _capped("openchat_v1", 64, 32, quick=True),
    _capped("azure2023_conv", 8, 8),
)
"""The README shows the first of each task."""


@dataclass(frozen=True)
class Result:
    """What one method made of one input; `outcome` is "ok", "not installed", "no answer", "over N s" or an error."""

    task: str
    what: str
    package: str
    version: str
    method: str
    outcome: str
    bins: int = 0
    over_bound: float = 0.0  # packs, or the largest load, over the proven bound: 0.01 is 1 %
    overflowing: int = 0  # bins over the cap
    cpu_ms: float = 0.0
    peak_mb: float = 0.0


def verified(step: Step, bins: list[list[int]]) -> dict[str, Any]:
    """The quality of an answer; an AssertionError where a sample is missing, comes twice or a bin has no sample."""
    assert all(bins), "a bin is empty"
    assert sorted(i for members in bins for i in members) == list(range(len(step.lengths))), "samples lost or doubled"
    lengths, costs = np.array(step.lengths), np.array(step.costs)
    tokens = np.array([lengths[members].sum() for members in bins])
    over = 0 if step.capacity is None else int((tokens > step.capacity).sum())
    if step.ranks is None:
        assert step.capacity is not None
        assert over == 0, "a pack is over the cap"
        bound = bin_lower_bound(lengths, step.capacity)[0]
        return {"bins": len(bins), "over_bound": len(bins) / bound - 1}
    assert len(bins) == step.ranks, f"{len(bins)} bins for {step.ranks} ranks"
    bound = lower_bound(Problem(tokens=lengths, cost=costs, ranks=step.ranks, capacity=step.capacity)).score
    largest = max(int(costs[members].sum()) for members in bins)
    return {"bins": len(bins), "over_bound": largest / bound - 1, "overflowing": over}


def _memory(field: str) -> float:
    """MiB of this process: "VmRSS" now or "VmHWM" at most; 0 where the system does not say (only Linux does)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:")), 0.0)


def _memory_now() -> float:
    """MiB of this process; its peak is counted from here."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def child(package: str, name: str, at: int) -> dict[str, Any]:
    """Runs one method on one input in this process."""
    step = INPUTS[at].step()
    method: Method = importlib.import_module(f"adapters.{package}").METHODS[name]
    given = method.prepare(step)
    before = _memory_now()
    best, spent, rounds = float("inf"), 0.0, 0
    while rounds == 0 or (spent < SHORT and rounds < REPEATS):
        start = time.process_time()
        answer = method.solve(given)
        took = time.process_time() - start
        best, spent, rounds = min(best, took), spent + took, rounds + 1
        if rounds == 1:
            peak = _memory("VmHWM") - before
    bins = method.read(answer)
    if not bins:
        return {"outcome": "no answer", "cpu_ms": best * 1e3}
    return {"outcome": "ok", "cpu_ms": best * 1e3, "peak_mb": peak, **verified(step, bins)}


def measured(at: int, package: str, name: str, version: str, timeout: float) -> Result:
    """The result of one method on one input, from a process of its own."""
    head = (INPUTS[at].task, INPUTS[at].what, package, version, name)
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--child", package, name, str(at)],
            capture_output=True, text=True, timeout=timeout,
            env=os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Result(*head, outcome=f"over {timeout:g} s")
    if done.returncode:
        return Result(*head, outcome=done.stderr.strip().splitlines()[-1].removeprefix("AssertionError: "))
    return Result(*head, **json.loads(done.stdout.splitlines()[-1]))


def run(inputs: list[int], packages: list[str], quick: bool) -> list[Result]:
    """Every method of those packages on those inputs."""
    results = []
    for package in packages:
        try:
            adapter = importlib.import_module(f"adapters.{package}")
        except ImportError as error:
            print(f"{package}: not installed ({error})", flush=True)
            results.append(Result("", "", package, "", "", "not installed"))
            continue
        version = metadata.version(adapter.DISTRIBUTION) if package != "ours" else ""
        for name, method in adapter.METHODS.items():
            for at in inputs:
                if INPUTS[at].task in method.tasks and not (quick and method.slow):
                    results.append(measured(at, package, name, version, 30.0 if quick else TIMEOUT))
                    show(asdict(results[-1]))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one input a task, fast methods")
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, default=PACKAGES, help="the others stay as written")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--write", action="store_true", help="write suite.json, suite.svg and the README's table")
    parser.add_argument("--table", action="store_true", help="measure nothing, use suite.json")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        package, name, at = arguments.child
        print(json.dumps(child(package, name, int(at))))
        return 0
    failed: list[Result] = []
    if not arguments.table:
        here = [at for at, one in enumerate(INPUTS) if one.file in length_files() and one.quick >= arguments.quick]
        results = run(here, arguments.packages, arguments.quick)
        figures = [asdict(one) for one in results]
        if arguments.json:
            arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
        if arguments.write:
            written = json.loads(FIGURES_FILE.read_text())
            figures += [one for one in written if one["package"] not in arguments.packages]
            FIGURES_FILE.write_text(json.dumps(figures, indent=1) + "\n")
        failed = [one for one in results if one.package == "ours" and (one.outcome != "ok" or one.overflowing)]
        for one in failed:
            print(f"FAILED: {one}")
    if arguments.write or arguments.table:
        figures = json.loads(FIGURES_FILE.read_text())
        write_readme(figures)
        draw_picture(figures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
