"""Discovery among installed distributions, in processes of their own: the real path, the environment, -W error."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.contract.sources import PACKAGE
from tests.plugins.conftest import FAKES


def run(code: str, *fakes: str, options: tuple[str, ...] = ("-W", "error"), **environment: str):
    """Runs Python with the fakes installed (their folders on the path), returns the finished process."""
    path = os.pathsep.join([str(PACKAGE.parent), *(str(FAKES / fake) for fake in fakes)])
    inherited = {name: value for name, value in os.environ.items() if name != "PACKING_PLUGINS"}
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env=inherited | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


PLAN = """
from packing import Planner
plan = Planner(data_parallel_size=4, algorithm={algorithm!r}).plan(range(1, 33))
print(plan.algorithm, plan.imbalance, plan.config_fingerprint)
"""


@pytest.mark.parametrize("algorithm", ["snake", "good/snake", {"name": "good/snake", "reverse": True}])
def test_an_installed_plugin_is_found_by_name(algorithm):
    process = run(PLAN.format(algorithm=algorithm), "good_one")
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("good/snake 1.0 ")


def test_a_built_in_name_neither_scans_nor_loads():
    code = """
import sys
from importlib import metadata

def scan(*arguments, **options):
    raise AssertionError("scanned")

metadata.entry_points = metadata.distributions = metadata.Distribution.discover = scan
from packing import Planner
for algorithm in ("lpt", "kk", {"name": "lpt", "objective": "balance"}):
    Planner(data_parallel_size=4, seq_len=512, algorithm=algorithm, estimator="attention").plan(range(1, 33))
print(sorted({"good_one", "rival", "missing_import", "leaves"} & sys.modules.keys()))
"""
    process = run(code, "good_one", "rival", "broken_ones")
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == "[]"


def test_broken_plugins_warn_once_each_and_break_nothing():
    code = PLAN.format(algorithm="snake") + PLAN.format(algorithm="made")
    process = run(code, "broken_ones", "good_one", "claims_a", "claims_b", options=())
    assert process.returncode == 0, process.stderr
    assert [line.split()[0] for line in process.stdout.splitlines()] == ["good/snake", "good/made"]
    warned = [line for line in process.stderr.splitlines() if "PluginWarning" in line]
    assert len(warned) == 19
    assert len({line.partition("PluginWarning: ")[2] for line in warned}) == 19


def test_the_allow_list_comes_from_the_environment():
    ask = "from packing.registry import resolve_algorithm\nprint(resolve_algorithm({name!r}).name)"
    everyone = ("broken_ones", "good_one", "rival")
    process = run(ask.format(name="snake"), *everyone, PACKING_PLUGINS="good")
    assert (process.returncode, process.stdout.strip()) == (0, "good/snake"), process.stderr
    process = run(ask.format(name="snake"), *everyone, PACKING_PLUGINS="")
    assert process.returncode == 1
    assert "UnknownNameError: `algorithm` 'snake' does not exist." in process.stderr
    assert "good (not in PACKING_PLUGINS)" in process.stderr
    process = run(ask.format(name="lpt"), *everyone, PACKING_PLUGINS="")
    assert (process.returncode, process.stdout.strip()) == (0, "lpt"), process.stderr


def test_an_unreadable_distribution_hides_no_other():
    code = "from packing.registry import listing, resolve_algorithm\nprint(resolve_algorithm('snake').name)\n"
    code += "print([row['name'] for row in listing() if row['error']])"
    process = run(code, "garbled", "good_one", options=())
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == ["good/snake", "['garbled']"]
    assert (
        process.stderr.count("PluginWarning: plugin 'garbled' of garbled 1.0 is left out: its entry points cannot") == 1
    )


def test_the_fingerprint_names_the_plugin_and_its_version(tmp_path):
    """The same code under another version is another config; on another path it is the same one."""
    prints = []
    for folder, version in (("a", "1.2"), ("b", "1.2"), ("c", "1.3")):
        home = tmp_path / folder
        info = home / f"good_one-{version}.dist-info"
        info.mkdir(parents=True)
        for name in ("good_one.py", "good_one_parts.py"):
            (home / name).write_text((FAKES / "good_one" / name).read_text())
        for name in ("METADATA", "entry_points.txt"):
            text = (FAKES / "good_one" / "good_one-1.2.dist-info" / name).read_text()
            (info / name).write_text(text.replace("Version: 1.2", f"Version: {version}"))
        process = run(PLAN.format(algorithm="snake"), str(home))
        assert process.returncode == 0, process.stderr
        prints.append(process.stdout.split()[2])
    assert prints[0] == prints[1] != prints[2]
