"""What a process pays before its first plan: the import, the first plan, and a name looked up afterwards."""

from __future__ import annotations

import argparse
import subprocess
import sys

from timing import argsort_seconds, cpu_minimum, slack

from packing.registry import resolve_algorithm

IMPORT_SECONDS = 0.040
FIRST_PLAN_SECONDS = 0.250
LOOKUP_SECONDS = 50e-6
LOOKUPS = 1000

CHILD = """
import sys, time
import numpy
lengths = numpy.random.default_rng(3).integers(1, 32768, 1024)
begin = time.process_time()
import packing
imported = time.process_time()
assert not {{"pluggy", "torch"}} & sys.modules.keys()
plan = packing.Planner(data_parallel_size=64, seq_len=32768, algorithm={algorithm!r}).plan(lengths)
planned = time.process_time()
assert sorted(plan.items.tolist()) == list(range(1024)) and plan.bin_tokens.max() <= 32768
print(imported - begin, planned - begin)
"""


def fresh_seconds(algorithm: str) -> tuple[float, float]:
    """CPU time of one fresh process beyond NumPy: of `import packing`, and until the first plan is there."""
    code = CHILD.format(algorithm=algorithm)
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    importing, planning = map(float, done.stdout.split())
    return importing, planning


def lookups(config: object) -> None:
    """Names to algorithms, as often as one measurement needs."""
    for _ in range(LOOKUPS):
        resolve_algorithm(config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repeats")
    quick = parser.parse_args().quick
    repeat, room = 5 if quick else 20, slack(quick)

    print(f"np.argsort of 1e6 int64: {1e3 * argsort_seconds():.1f} ms")
    for algorithm in ("lpt", "kk"):
        runs = [fresh_seconds(algorithm) for _ in range(repeat)]
        importing, planning = (min(column) for column in zip(*runs, strict=True))
        print(f"import packing: {1e3 * importing:.2f} ms; first plan with {algorithm!r}: {1e3 * planning:.1f} ms")
        assert importing <= room * IMPORT_SECONDS
        assert planning <= room * FIRST_PLAN_SECONDS
    for config in ("lpt", {"name": "lpt", "objective": "balance"}):
        seconds = cpu_minimum(lambda config=config: lookups(config), repeat) / LOOKUPS
        print(f"{config!r} to an algorithm: {1e6 * seconds:.1f} us")
        assert seconds <= room * LOOKUP_SECONDS


if __name__ == "__main__":
    main()
