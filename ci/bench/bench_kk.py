"""Largest differencing: time beside a NumPy sort, memory, the usual Python form, and whether it lets threads run."""

from __future__ import annotations

import argparse
import heapq
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from timing import argsort_seconds, cpu_minimum

from packing.partition import descending_order, difference, karmarkar_karp


@dataclass
class Row:
    """One figure, and the bar it has to meet if there is one."""

    what: str
    value: float
    unit: str
    bar: str = ""
    met: bool = True

    def line(self) -> str:
        """The figure as a line of the table."""
        verdict = f"  {self.bar}: {'met' if self.met else 'MISSED'}" if self.bar else ""
        return f"{self.what:<58} {self.value:>10.4g} {self.unit:<12}{verdict}"


def lengths(n: int) -> np.ndarray:
    """Lognormal lengths, the usual shape of chat data."""
    return np.maximum(1, np.random.default_rng(1).lognormal(6.5, 1.0, n)).astype(np.int64)


def attention(n: int) -> np.ndarray:
    """The cost a*L + L**2 of those lengths, a = 12h of a 4,096-wide dense model."""
    length = lengths(n)
    return length * 49152 + length * length


def loads_of(values: np.ndarray, offsets: np.ndarray, items: np.ndarray) -> np.ndarray:
    assert np.array_equal(np.sort(items), np.arange(len(values)))
    return np.add.reduceat(values[items], offsets[:-1])


# Against a sort


def measure_speed(repeat: int, n: int) -> list[Row]:
    sort = argsort_seconds(n, repeat)
    rows = [Row(f"np.argsort, {n:,} int64", sort * 1e3, "ms")]
    for name, values in (("lengths", lengths(n)), ("attention costs", attention(n))):
        order = descending_order(values)
        assert (np.diff(values[order]) <= 0).all()
        seconds = cpu_minimum(lambda values=values: descending_order(values), repeat)
        rows.append(Row(f"  descending_order, {name}", seconds / sort, "argsorts", "below 1", seconds < sort))
        for k in (2, 8, 64, 1024, 16384):
            loads = loads_of(values, *difference(values, k))
            assert (np.diff(loads) <= 0).all()
            assert loads[0] <= max(-(-loads.sum() // k) * 1.0001, values.max()), "not balanced"
            seconds = cpu_minimum(lambda values=values, k=k: difference(values, k), repeat)
            bar = "at most 3" if k in (8, 64, 1024) else ""
            met = not bar or seconds <= 3 * sort
            rows.append(Row(f"  sort and difference, {name}, k={k}", seconds / sort, "argsorts", bar, met))
    return rows


def measure_small(repeat: int) -> list[Row]:
    rows = []
    for n, k in ((256, 32), (1024, 64), (8192, 512)):
        values = attention(n)
        rows.append(Row(f"difference, n={n:,} k={k}", cpu_minimum(lambda v=values, k=k: difference(v, k)) * 1e3, "ms"))
    return rows


# Memory

# VmHWM and not ru_maxrss: the latter survives exec, so a child would start from the peak of this process.
CHILD = """
import re, sys
from pathlib import Path
import numpy as np
from packing.partition import difference
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text()).group(1)) * 1024
values, k = np.load(sys.argv[1]), int(sys.argv[2])
difference(values[:1000], 8)
before = peak()
difference(values, k)
print(peak() - before)
"""


def measure_memory(n: int) -> list[Row]:
    rows: list[Row] = []
    if not Path("/proc/self/status").exists():
        return rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "values.npy")
        np.save(path, attention(n))
        for k in (2, 8, 64, 1024, n // 2):
            done = subprocess.run([sys.executable, "-c", CHILD, path, str(k)], check=True, capture_output=True)
            growth = int(done.stdout) / n
            rows.append(Row(f"peak memory growth, n={n:,} k={k}", growth, "bytes/item", "at most 80", growth <= 80))
    return rows


# The usual Python form: objects in a heap, sorted() at every merge


class Group:
    """A subset and its sum."""

    def __init__(self) -> None:
        self.total = 0
        self.members: list[tuple[int, int]] = []

    def take(self, index: int, value: int) -> None:
        """Add one value."""
        self.members.append((index, value))
        self.total += value

    def take_all(self, other: Group) -> None:
        """Add every value of another group."""
        for index, value in other.members:
            self.take(index, value)

    def __lt__(self, other: Group) -> bool:
        return (self.total, len(self.members), self.members) < (other.total, len(other.members), other.members)


class Candidate:
    """k groups, largest first."""

    def __init__(self, index: int, value: int, k: int) -> None:
        self.groups = [Group() for _ in range(k)]
        self.groups[0].take(index, value)

    @property
    def spread(self) -> int:
        """Largest minus smallest sum."""
        return self.groups[0].total - self.groups[-1].total

    def combine(self, other: Candidate) -> None:
        """Largest group of one with the smallest of the other."""
        for group, partner in zip(self.groups, reversed(other.groups), strict=True):
            group.take_all(partner)
        self.groups = sorted(self.groups, reverse=True)

    def __lt__(self, other: Candidate) -> bool:
        if self.spread != other.spread:
            return self.spread > other.spread
        return self.groups[0] > other.groups[0]


def textbook(values: list[int], k: int) -> list[list[int]]:
    heap: list[Candidate] = []
    for index, value in enumerate(values):
        heapq.heappush(heap, Candidate(index, value, k))
    while len(heap) > 1:
        largest, second = heapq.heappop(heap), heapq.heappop(heap)
        largest.combine(second)
        heapq.heappush(heap, largest)
    return [sorted(index for index, _ in group.members) for group in heap[0].groups]


def measure_textbook(n: int, k: int, bar: int) -> list[Row]:
    values = attention(n).tolist()
    start = time.process_time()
    expected = textbook(values, k)
    peer = time.process_time() - start
    ours = cpu_minimum(lambda: karmarkar_karp(values, k))
    theirs_loads, loads = (
        sorted(sum(values[i] for i in group) for group in groups) for groups in (expected, karmarkar_karp(values, k))
    )
    assert loads[-1] <= theirs_loads[-1], "worse than the textbook"
    assert sum(loads) == sum(theirs_loads)
    return [
        Row(f"textbook in Python, n={n:,} k={k}", peer, "s"),
        Row("  karmarkar_karp of the same list", ours * 1e3, "ms"),
        Row("  times faster", peer / ours, "x", f"at least {bar:,}", peer >= bar * ours),
        Row("  largest load over the textbook's", loads[-1] / theirs_loads[-1], "", "at most 1"),
    ]


# Other threads


def measure_threads(n: int) -> list[Row]:
    """The rate at which a Python thread counts while the kernel runs, against its rate while this thread sleeps."""
    values = np.random.default_rng(2).integers(0, 1 << 40, n)
    order = descending_order(values)
    ticks, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            ticks[0] += 1

    def rate_during(work: Callable[[], object]) -> tuple[float, float]:
        start, before = time.perf_counter(), ticks[0]
        work()
        seconds = time.perf_counter() - start
        return (ticks[0] - before) / seconds, seconds

    thread = threading.Thread(target=count)
    thread.start()
    try:
        share, seconds = 0.0, 0.0
        for _ in range(5):  # the second core may be busy with something else for a while
            solo, _ = rate_during(lambda: time.sleep(0.3))
            rate, seconds = rate_during(lambda: difference(values, 2, order=order))
            share = max(share, rate / solo)
    finally:
        stop.set()
        thread.join()
    return [
        Row(f"kernel call, n={n:,} k=2", seconds * 1e3, "ms", "at least 200", seconds >= 0.2),
        Row("  another thread's rate meanwhile", share, "of its own", "at least 0.4", share >= 0.4),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller textbook run and fewer repeats")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the rows there")
    options = parser.parse_args()
    repeat = 5 if options.quick else 20
    peer = (2048, 64, 300) if options.quick else (16384, 256, 2000)
    rows: list[Row] = []
    for part in (
        lambda: measure_speed(repeat, 1_000_000),
        lambda: measure_small(repeat),
        lambda: measure_memory(1_000_000),
        lambda: measure_threads(1_000_000),
        lambda: measure_textbook(*peer),
    ):
        for row in part():
            print(row.line(), flush=True)
            rows.append(row)
    print(f"process CPU time, minimum of {repeat}; threads: wall time, best of 5")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    missed = [row.what.strip() for row in rows if not row.met]
    if missed:
        print("missed:", "; ".join(missed), file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
