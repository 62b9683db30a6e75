"""The starter plugin: its own tests, and its README followed step by step, as `ci/plugins.sh` does with real wheels."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import packing
from packing import Planner
from packing.plugin import AlgorithmSpec
from packing.testing import temporary_plugin
from tests.conftest import ROOT

STARTER = ROOT / "plugins" / "packing-starter"
README = (STARTER / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The README's code blocks, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def install(folder: Path) -> None:
    """What an editable install leaves beside the code, without pip: the metadata by which entry points are found."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    points = "".join(
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in project["entry-points"].items()
    )
    (about / "entry_points.txt").write_text(points)


@pytest.fixture
def starter(tmp_path):
    """A copy of the starter, as somebody gets it who clones the project."""
    folder = tmp_path / "packing-starter"
    shutil.copytree(STARTER, folder, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".*"))
    return folder


def run(command: list[str], folder: Path, *paths: Path) -> str:
    """Standard output of a command that must succeed, with the package and `paths` to import from."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PACKING_PLUGINS", "PYTEST_ADDOPTS")
    }
    environment["PYTHONPATH"] = os.pathsep.join(map(str, [*paths, Path(packing.__file__).parents[1]]))
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]


def test_the_starters_own_tests(starter):
    install(starter)
    out = run(PYTEST, starter, starter)
    assert re.search(r"^\d{2} passed", out, flags=re.MULTILINE), out


def test_the_code_is_short():
    lines = [
        line
        for path in (STARTER / "packing_starter").glob("*.py")
        for line in path.read_text().splitlines()
        if line.strip() and not line.strip().startswith(("#", '"""'))
    ]
    assert len(lines) <= 70


def test_there_is_no_block_that_no_test_knows():
    languages = re.findall(r"^```(\w+)$", README, flags=re.MULTILINE)
    assert languages == ["sh", "sh", "yaml", "sh", "python", "sh", "python"]


def test_whoever_follows_the_readme_gets_a_plugin(starter):
    pytest.importorskip("click", reason="the extra `cli` is not installed")
    rename, add, choose, check = blocks("sh")
    run(["bash", "-euo", "pipefail", "-c", rename], starter.parent)
    acme = starter.parent / "packing-acme"
    left = "".join(path.read_text() for path in acme.rglob("*") if path.is_file() and path.name != "README.md")
    assert "starter" not in left
    assert not list(acme.rglob("*.bak"))

    assert add.splitlines() == ["python -m pip install -e '.[test]'", "packing plugins"]
    install(acme)
    packing_command = [sys.executable, "-m", "packing"]
    rows = {row["name"]: row for row in json.loads(run([*packing_command, "plugins", "--json"], acme, acme))}
    for name in ("acme/snake", "acme/images"):
        assert (rows[name]["distribution"], rows[name]["version"], rows[name]["error"]) == (
            "packing-acme",
            "0.1.0",
            None,
        )
        assert rows[name]["load_seconds"] > 0
    assert not [name for name in rows if name.startswith("starter")]

    script = f'packing() {{ {shlex.quote(sys.executable)} -m packing "$@"; }}\n{choose}'
    out = run(["bash", "-euo", "pipefail", "-c", script], acme, acme)
    assert re.search(r"^algorithm +acme/snake$", out, flags=re.MULTILINE), out
    assert re.search(r"^acme/snake +512 ", out, flags=re.MULTILINE), out
    assert (acme / "block.yaml").read_text() == blocks("yaml")[0]

    for snippet in blocks("python"):
        assert "acme/snake" in run([sys.executable, "-c", snippet], acme, acme)
    assert check == "python -m pytest -q\n"
    assert re.search(r"^\d{2} passed", run(PYTEST, acme, acme), flags=re.MULTILINE)


def test_the_block_is_a_planner_once_the_plugin_is_there(monkeypatch, starter):
    monkeypatch.syspath_prepend(str(starter))
    block = yaml.safe_load(blocks("yaml")[0])
    spec = AlgorithmSpec("snake", "packing_starter.snake:Snake", capabilities={"capacity", "multi_bin"})
    with temporary_plugin("acme", algorithms=[spec]):
        assert Planner.from_config(block).plan([100] * 512).num_bins == 512
    for name in [name for name in sys.modules if name.startswith("packing_starter")]:
        del sys.modules[name]


def test_ci_follows_the_readme_with_real_wheels():
    script = (ROOT / "ci" / "plugins.sh").read_text()
    assert "packing-starter/README.md" in script
    assert "ci/plugins.sh" in (ROOT / "ci" / "run.sh").read_text()
