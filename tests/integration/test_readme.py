"""Every snippet of the README runs, and its table says what the script says."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import packing
from packing import Planner, _kernels
from tests.conftest import ROOT, data_folder

README = (ROOT / "README.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_there_is_no_block_that_no_test_knows():
    languages = re.findall(r"^```(\w*)\n", README, flags=re.MULTILINE)
    assert sorted(set(languages) - {""}) == ["python", "sh", "yaml"]


@pytest.mark.parametrize("number", range(len(_blocks("python"))))
def test_the_python_snippets_run(number, capsys):
    names: dict = {"__name__": "snippet"}
    exec(compile(_blocks("python")[number], f"README python {number}", "exec"), names)
    printed = capsys.readouterr().out
    if number == 0:
        assert names["plan"].digest in printed
    elif number == 1:
        bins = [set(members) for members in names["plan"].bins()]
        assert any({0, 1} <= members for members in bins)
        assert not any(members & {4, 5} and members & {0, 1, 2, 3} for members in bins)
    elif number == 2:  # the loss of a token is the advantage of its rollout; a rank has one half of the rows
        assert "rows (2, 2048)" in printed
        assert names["weights"].denominator == 16
    elif number == 3:  # every token's loss is 1
        losses = [float(line.rsplit(" ", 1)[1]) for line in printed.splitlines()]
        assert sum(losses) == pytest.approx(3.0, abs=0.01)
    elif number == 4:
        assert names["packed"].labels.tolist() == [[-100, 3, 4, 5, -100, 8, -100, -100]]
        assert [one.tolist() for one in names["packed"].unpack(names["packed"].input_ids)] == [[1, 2, 3, 4, 5], [9, 8]]
    elif number == 5:
        assert (names["results"] == names["lengths"]).all()
        assert len(printed.splitlines()) == names["step"].count
    elif number == 6:
        assert float(printed) == pytest.approx((2 + 5 + 7) / 3)
    else:
        layout = Planner(data_parallel_size=4, algorithm=names["Snake"]()).plan(np.arange(1, 41))
        assert layout.imbalance == pytest.approx(1.0)
        assert [spec.name for spec in names["packing_algorithms"](None)] == ["snake"]


def test_fifteen_lines_are_fifteen_lines():
    for what in ("RL", "SFT"):
        (snippet,) = re.findall(rf"## {what} in 15 lines\n+```python\n(.*?)```", README, flags=re.DOTALL)
        assert len([line for line in snippet.splitlines() if line]) <= 15


def test_the_ranks_of_the_rl_snippet_share_one_loss(capsys):
    total = 0.0
    digests = []
    for rank in range(2):
        names: dict = {"__name__": "snippet"}
        first = "rng, rank = np.random.default_rng(0), 0"
        assert first in _blocks("python")[2]
        exec(_blocks("python")[2].replace(first, f"{first[:-1]}{rank}"), names)
        total += sum(float(line.rsplit(" ", 1)[1]) for line in capsys.readouterr().out.splitlines())
        digests.append(names["update"].digest)
    # Every group has as many rollouts, and all tokens of a rollout have its advantage.
    advantages = [rollout["advantage"][0] for rollout in names["rollouts"]]
    assert total / 2 == pytest.approx(np.mean(advantages), abs=1e-3)
    assert digests[0] == digests[1]


def test_the_yaml_block_is_a_planner():
    planner = Planner.from_config(yaml.safe_load(_blocks("yaml")[0]))
    assert planner.plan(np.arange(1, 501)).num_samples == 500


def test_the_commands_run(tmp_path):
    lengths = np.random.default_rng(0).integers(16, 8000, 600)
    np.save(tmp_path / "lengths.npy", lengths)
    rows = "\n".join(f"{n // 2},{n - n // 2}" for n in lengths)
    (tmp_path / "lengths.csv").write_text(f"prompt_tokens,response_tokens\n{rows}\n")
    (tmp_path / "block.yaml").write_text(_blocks("yaml")[0])
    # The package that this very test runs on, wherever it lies.
    environment = os.environ | {"PYTHONPATH": str(Path(packing.__file__).parents[1])}
    commands = [line for block in _blocks("sh") for line in block.splitlines() if line.startswith("packing ")]
    assert len(commands) == 3
    for command in commands:
        words = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert done.stdout
    assert (tmp_path / "plan.json").exists()


def test_ci_runs_the_two_commands():
    script = (ROOT / "ci" / "run.sh").read_text()
    for name in ("run-command", "test-command"):
        assert README.count(f"<!-- {name} -->\n```sh\n") == 1
        assert f"readme_command {name}" in script


@pytest.mark.skipif(_kernels.backend == "reference", reason="300 plans of thousands of samples")
@pytest.mark.skipif(not data_folder().exists(), reason="the length files are not here")
@pytest.mark.skipif("PACKING_DATA" in os.environ, reason="made from another folder's files")
def test_the_table_is_what_the_script_makes():
    # In a process of its own: here the named efforts are smaller.
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    made = subprocess.run(
        [sys.executable, str(ROOT / "ci" / "readme" / "gain.py")],
        capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    begin, end = "<!-- gain-table -->", "<!-- end of gain-table -->"
    assert made.stdout.strip() == README.partition(begin)[2].partition(end)[0].strip()


def test_the_second_table_is_what_the_suite_wrote(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "ci" / "bench"))
    report = importlib.import_module("suite_report")
    figures = json.loads(report.FIGURES_FILE.read_text())
    begin, end = report.MARKS
    assert report.table(figures) == README.partition(begin)[2].partition(end)[0].strip()
    ours = [one for one in figures if one["package"] == "ours"]
    assert ours
    assert all(one["outcome"] == "ok" and not one["overflowing"] for one in ours)


def test_the_pictures_are_there():
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README):
        assert (ROOT / path).read_text().startswith("<?xml")
