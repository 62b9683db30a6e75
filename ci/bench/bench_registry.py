"""Names to algorithms: in a warm process, and in a fresh one with 20 plugins of which one is broken."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import argsort_seconds, cpu_minimum, slack

from packing.plugin import AlgorithmSpec
from packing.registry import resolve_algorithm
from packing.testing import temporary_plugin

PLUGINS = 20
BROKEN = 7
WARM_SECONDS = 50e-6
COLD_SECONDS = 60e-3
LOOKUPS = 1000

MODULE = """
from packing.plugin import AlgorithmSpec, EstimatorSpec, hookimpl
{broken}
@hookimpl
def packing_algorithms(host):
    names = ("balance", "spread", "only_{number}")
    return [AlgorithmSpec(name, "bench_plugin_{number}_solver:Solver", summary=name) for name in names]

@hookimpl
def packing_estimators(host):
    return [EstimatorSpec("cost", "bench_plugin_{number}_solver:cost")]
"""
SOLVER = """
class Solver:
    def assign(self, problem):
        return None
"""

# Bare: only one plugin offers the name, which is known when all of them were asked. Full: one plugin is loaded.
CHILD = """
import json, sys, time, warnings
import numpy
sys.path[:0] = json.loads(sys.argv[1])
start = time.process_time()
import packing.planner
from packing.registry import listing, resolve_algorithm
begin = time.process_time()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    resolved = resolve_algorithm(sys.argv[2])
end = time.process_time()
assert resolved.name == "bench_13/only_13" and type(resolved.instance).__name__ == "Solver"
if "/" not in sys.argv[2]:
    assert len(caught) == 1 and "no_such_library" in str(caught[0].message)
    rows = listing()
    assert sum(row["kind"] == "plugin" for row in rows) == 1
    assert sum(row["name"].startswith("bench_") and row["kind"] == "algorithm" for row in rows) == 3 * ({plugins} - 1)
    assert not any(name.endswith("_solver") and "13" not in name for name in sys.modules)
print(end - begin, end - start)
"""


def write_plugins(folder: Path) -> None:
    """Installed plugins as pip leaves them: a module each, and the metadata that names it."""
    for number in range(PLUGINS):
        name = f"bench_plugin_{number}"
        broken = "import no_such_library" if number == BROKEN else ""
        (folder / f"{name}.py").write_text(MODULE.format(number=number, broken=broken))
        (folder / f"{name}_solver.py").write_text(SOLVER)
        about = folder / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[packing]\nbench_{number} = {name}\n")


def cold_seconds(folder: Path, name: str) -> tuple[float, float]:
    """CPU time of the first name in a fresh process: with the planner imported, and from NumPy alone."""
    paths = json.dumps([str(folder), *(path for path in sys.path if path)])
    command = [sys.executable, "-c", CHILD.replace("{plugins}", str(PLUGINS)), paths, name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, with_imports = map(float, done.stdout.split())
    return first, with_imports


def lookups(config: object) -> None:
    """Names to algorithms, as often as one measurement needs."""
    for _ in range(LOOKUPS):
        resolve_algorithm(config)


class Solver:
    """A plugin's algorithm."""

    def __init__(self, effort: int = 3) -> None:
        self.effort = effort

    def assign(self, problem: object) -> None:
        """Nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repeats")
    quick = parser.parse_args().quick
    repeat, room = 5 if quick else 20, slack(quick)
    print(f"np.argsort of 1e6 int64: {1e3 * argsort_seconds(repeat=repeat):.1f} ms of CPU (minimum of {repeat})")

    with temporary_plugin("bench", algorithms=[AlgorithmSpec("solver", Solver)]):
        for config in ("lpt", {"name": "lpt", "objective": "balance"}, "bench/solver", "solver",
                       {"name": "bench/solver", "effort": 5}):  # fmt: skip
            assert callable(resolve_algorithm(config).instance.assign)
            seconds = cpu_minimum(lambda config=config: lookups(config), repeat) / LOOKUPS
            print(f"warm, {config!r}: {1e6 * seconds:.1f} us (bar {1e6 * WARM_SECONDS:g})")
            assert seconds <= room * WARM_SECONDS

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_plugins(folder)
        for choice in ("only_13", "bench_13/only_13"):
            cold_seconds(folder, choice)  # writes the bytecode
            runs = [cold_seconds(folder, choice) for _ in range(repeat)]
            seconds, with_imports = (min(column) for column in zip(*runs, strict=True))
            what = f"cold, {choice!r} among {PLUGINS} plugins, one broken"
            print(
                f"{what}: {1e3 * seconds:.1f} ms (bar {1e3 * COLD_SECONDS:g}); {1e3 * with_imports:.1f} ms with imports"
            )
            assert seconds <= room * COLD_SECONDS


if __name__ == "__main__":
    main()
