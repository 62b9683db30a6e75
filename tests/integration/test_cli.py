"""The command `packing` as users run it: in a process of its own, with real files, pipes and signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import packing as package

pytest.importorskip("click", reason="the extra `cli` is not installed")

# The process finds the very package under test, wherever it starts.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(package.__file__).resolve().parent.parent)}
STEP = ("--ranks", "8", "--seq-len", "4096")


@pytest.fixture
def packing(tmp_path):
    """A function that runs the command in an empty folder and returns the finished process."""

    def run(*arguments: object, stdin: str = "", code: str | None = None, **environment: str):
        program = ["-c", code] if code else ["-m", "packing"]
        return subprocess.run(
            [sys.executable, *program, *map(str, arguments)],
            input=stdin,
            cwd=tmp_path,
            env={**ENVIRONMENT, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def lengths_file(tmp_path):
    path = tmp_path / "lengths.csv"
    rows = np.random.default_rng(5).integers(1, 2000, (300, 2))
    path.write_text("prompt_tokens,response_tokens\n" + "\n".join(f"{a},{b}" for a, b in rows))
    return path


def assert_one_line(process: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    """The process failed with one line on standard error that holds the words, and nothing else anywhere."""
    assert process.returncode == status, process.stderr
    assert process.stdout == ""
    assert process.stderr.startswith("packing: ")
    assert process.stderr.count("\n") == 1, process.stderr
    for word in words:
        assert word in process.stderr


def test_version_and_help(packing):
    assert packing("--version").stdout == f"packing {package.__version__}\n"
    for arguments in (["--help"], ["plan", "--help"], ["compare", "-h"], ["plugins", "-h"]):
        process = packing(*arguments)
        assert process.returncode == 0
        assert process.stdout.startswith("Usage: packing")


def test_the_bundled_sample_is_planned_and_said_so(packing):
    process = packing("plan", *STEP, "--algorithm", "best_fit_decreasing")
    assert process.returncode == 0, process.stderr
    assert process.stderr == "packing: no LENGTHS given, using the bundled sample openchat_v1\n"
    lines = dict(line.split(maxsplit=1) for line in process.stdout.splitlines())
    assert lines["lengths"].startswith("openchat_v1")
    assert lines["samples"] == "6,144"
    assert lines["tokens"] == "9,521,300"
    assert 90 < float(lines["fill"].split()[0]) <= 100
    assert {"packs", "largest", "gap", "decision"} <= lines.keys()


def test_the_plan_is_written_and_read_back(packing, lengths_file, tmp_path):
    from packing.plan import Plan

    column = ("--column", "prompt_tokens+response_tokens")
    process = packing("plan", lengths_file, *STEP, *column, "--algorithm", "lpt", "--output", "plan.json")
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    plan = Plan.from_json((tmp_path / "plan.json").read_text())
    rows = np.loadtxt(lengths_file, delimiter=",", skiprows=1, dtype=np.int64)
    assert (plan.ranks, plan.num_samples) == (8, 300)
    assert plan.bin_tokens.sum() == rows.sum()
    assert plan.bin_tokens.max() <= 4096

    # The same plan on standard output, where nothing else may be.
    process = packing("plan", lengths_file, *STEP, *column, "--algorithm", "lpt", "--output", "-")
    assert process.stdout == (tmp_path / "plan.json").read_text()
    assert "gap to the bound" in process.stderr
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["lengths.csv", "plan.json"]


def test_an_existing_output_needs_force(packing, tmp_path):
    target = tmp_path / "plan.json"
    target.write_text("precious")
    arguments = ("plan", "-", *STEP, "--output", "plan.json")
    assert_one_line(packing(*arguments, stdin="5\n" * 100), 2, "plan.json", "--force")
    assert target.read_text() == "precious"
    process = packing(*arguments, "--force", stdin="5\n" * 100)
    assert process.returncode == 0, process.stderr
    assert json.loads(target.read_text())


def test_a_failed_plan_writes_nothing(packing, tmp_path):
    process = packing("plan", "-", *STEP, "--output", "plan.json", stdin="5\n4097\n" * 10)
    assert_one_line(process, 1, "4097", "4096")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(["7"] * 90),
        "length\n" + "7\n" * 90,
        json.dumps([7] * 90),
        json.dumps({"length": [7] * 90}),
        '{"length": 7}\n' * 90,
    ],
    ids=["numbers", "csv", "json", "columns", "json_lines"],
)
def test_standard_input(text, packing):
    process = packing("plan", "-", *STEP, stdin=text)
    assert process.returncode == 0, process.stderr
    assert "standard input" in process.stdout
    assert "\nsamples              90\n" in process.stdout


def test_limit_and_window_and_alignment(packing):
    process = packing(
        "compare", *STEP, "--limit", 64, "--window", 2, "--alignment", 128, "--algorithms", "lpt", "--json"
    )
    assert process.returncode == 0, process.stderr
    (row,) = json.loads(process.stdout)["rows"]
    assert row["samples"] == 64
    assert (row["ranks"], row["window"], row["packs"] % 16) == (8, 2, 0)
    assert row["tokens"] % 128 == 0


def test_flags_override_the_block(packing, tmp_path):
    block = "trainer: x\npacking:\n  data_parallel_size: 8\n  seq_len: 4096\n  algorithm: {name: lpt}\n"
    (tmp_path / "block.yaml").write_text(block)
    arguments = ("plan", "--config", "block.yaml", "--limit", 500)
    default = packing(*arguments)
    assert default.returncode == 0, default.stderr
    assert "= 8 ranks x" in default.stdout
    changed = packing(*arguments, "--ranks", 4, "--algorithm", "kk")
    assert "= 4 ranks x" in changed.stdout
    assert "\nalgorithm            kk\n" in changed.stdout


def test_columns_that_the_settings_name_are_read_from_the_file(packing, tmp_path):
    from packing.plan import Plan

    kinds = [("text", "code", None)[index % 3] for index in range(90)]
    rows = [{"length": 10 + index, "kind": kinds[index], "images": index % 4} for index in range(90)]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    block = "data_parallel_size: 4\nseq_len: 2000\ngroup: kind\ngroup_scope: rank\npacking_budgets: {images: 20}\n"
    (tmp_path / "block.yaml").write_text(block)
    process = packing("plan", "rows.jsonl", "--config", "block.yaml", "--output", "plan.json")
    assert process.returncode == 0, process.stderr
    plan = Plan.from_json((tmp_path / "plan.json").read_text())
    bins = plan.bins()
    assert sorted(sample for members in bins for sample in members) == list(range(90))
    assert max(sum(rows[sample]["images"] for sample in members) for members in bins) <= 20
    rank_of = {sample: b // plan.bins_per_rank for b, members in enumerate(bins) for sample in members}
    for kind in ("text", "code"):
        assert len({rank_of[sample] for sample in range(90) if kinds[sample] == kind}) == 1
    process = packing("plan", *STEP, "--config", "block.yaml")
    assert_one_line(process, 2, "no column 'images'", "'0'")


def test_compare_tells_plans_from_failures(packing):
    # 1,001 samples cannot be shared out equally among 8 ranks, and `equal_count` says so.
    arguments = ("compare", *STEP, "--algorithms", "lpt,equal_count,kk", "--limit", 1001)
    process = packing(*arguments)
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert [line.split()[0] for line in lines[3:6]] == ["lpt", "equal_count", "kk"]
    assert any(line.startswith("equal_count: no plan: ") and "multiple of the" in line for line in lines)

    document = json.loads(packing(*arguments, "--json").stdout)
    assert document["source"] == "openchat_v1"
    assert [row["status"] for row in document["rows"]] == ["plan", "no plan", "plan"]
    assert document["rows"][1]["error"] == "InfeasibleError"
    for row in document["rows"][::2]:
        assert row["baseline_overflowing_packs"] > 0
        assert row["seconds"] > 0
        assert row["largest_over_mean"] >= 1
        assert row["gap"] >= 0
        assert row["bound"]


def test_compare_without_any_plan_exits_with_one(packing):
    arguments = ("compare", "-", *STEP, "--algorithms", "lpt,kk")
    process = packing(*arguments, "--json", stdin="5000\n" * 20)
    assert process.returncode == 1
    assert [row["error"] for row in json.loads(process.stdout)["rows"]] == ["InfeasibleError"] * 2
    process = packing(*arguments, stdin="5000\n" * 20)
    assert process.returncode == 1
    assert process.stdout.count("no plan") >= 2
    assert process.stderr == "packing: none of the algorithms gave a plan.\n"


def test_an_algorithm_and_an_objective_with_options(packing, lengths_file):
    algorithm, objective = "{name: exact_fill, effort: fast}", '{"name": "pipeline", "stages": 2}'
    column = ("--column", "prompt_tokens+response_tokens")
    process = packing("plan", lengths_file, *column, *STEP, "--algorithm", algorithm, "--objective", objective)
    assert process.returncode == 0, process.stderr
    assert "exact_fill" in process.stdout
    assert "pipeline(stages=2)" in process.stdout


def test_plugins(packing):
    process = packing("plugins")
    assert process.returncode == 0, process.stderr
    assert "lpt" in process.stdout
    rows = json.loads(packing("plugins", "--json").stdout)
    names = {(row["name"], row["kind"]) for row in rows}
    assert {("lpt", "algorithm"), ("kk", "algorithm"), ("tokens", "estimator")} <= names
    assert all({"distribution", "version", "load_seconds", "summary", "error"} <= row.keys() for row in rows)


USAGE = [
    ([], ["--help"]),
    (["plam"], ["plam"]),
    (["plan", "--bogus"], ["--bogus", "packing plan --help"]),
    (["plan", "--ranks", "0"], ["--ranks", "0"]),
    (["plan", "--ranks", "many"], ["--ranks", "many"]),
    (["plan"], ["--ranks", "data_parallel_size"]),
    (["plan", *STEP, "--algorithm", "ltp"], ["ltp", "lpt"]),
    (["plan", *STEP, "--algorithm", "{name: auto, effort: quick}"], ["effort", "'normal'", "quick"]),
    (["plan", *STEP, "--algorithm", "{name: ["], ["--algorithm", "no mapping"]),
    (["plan", *STEP, "--estimator", "token"], ["token", "tokens"]),
    (["plan", *STEP, "--objective", "makespam"], ["makespam", "makespan"]),
    (["compare", *STEP, "--algorithms", "lpt,ltp"], ["ltp", "lpt"]),
    (["compare", *STEP, "--algorithms", "lpt,,kk"], ["--algorithms", "lpt,,kk"]),
    (["plan", *STEP, "none.csv"], ["none.csv", "No such file"]),
    (["plan", *STEP, "."], [".", "Is a directory"]),
    (["plan", *STEP, "lengths.csv"], ["lengths.csv", "'prompt_tokens', 'response_tokens'"]),
    (["plan", *STEP, "lengths.csv", "--column", "length"], ["'length'", "'prompt_tokens', 'response_tokens'"]),
    (["plan", *STEP, "-"], ["standard input", "no samples"]),
    (["plan", *STEP, "--output", "none/plan.json"], ["none/plan.json"]),
    (["plan", *STEP, "--config", "none.yaml"], ["none.yaml", "No such file"]),
    (["plan", *STEP, "--config", "lengths.csv"], ["lengths.csv", "mapping"]),
    (["plan", *STEP, "--config", "wrong.yaml"], ["seq_lem", "seq_len"]),
]


@pytest.mark.parametrize(("arguments", "words"), USAGE, ids=[" ".join(arguments) or "none" for arguments, _ in USAGE])
def test_usage_errors_are_one_line_and_status_two(arguments, words, packing, lengths_file, tmp_path):
    (tmp_path / "wrong.yaml").write_text("seq_lem: 5\n")
    process = packing(*arguments)
    notice = "packing: no LENGTHS given, using the bundled sample openchat_v1\n"
    process.stderr = process.stderr.removeprefix(notice)
    assert_one_line(process, 2, *words)


@pytest.mark.parametrize("library", ["click", "rich", "yaml"])
def test_without_the_extra_it_says_how_to_install_it(library, packing):
    code = f"import sys; sys.modules[{library!r}] = None; import packing.cli; sys.exit(packing.cli.main())"
    assert_one_line(packing("plan", code=code), 2, f"`{library}`", "pip install 'packing[cli]'")


def test_an_unexpected_error_is_one_line_and_can_be_traced(packing):
    code = (
        "import sys, packing.planner as p, packing.cli as c\n"
        "def plan(self, *a, **k): raise ZeroDivisionError('a bug\\nin two lines')\n"
        "p.Planner.plan = plan\n"
        "sys.exit(c.main())"
    )
    process = packing("plan", "-", *STEP, stdin="5", code=code)
    assert_one_line(process, 2, "ZeroDivisionError: a bug in two lines", "--traceback")
    assert "Traceback" in packing("--traceback", "plan", "-", *STEP, stdin="5", code=code).stderr


def test_output_that_the_terminal_cannot_encode(packing):
    process = packing("compare", *STEP, "--algorithms", "lpt", "--limit", 200, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert process.returncode == 0, process.stderr
    assert process.stdout.isascii()


def test_a_closed_pipe_is_quiet(packing, tmp_path):
    command = [sys.executable, "-m", "packing", "plan", *STEP, "--limit", "200", "--output", "-"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=ENVIRONMENT
    ) as process:
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait(timeout=120) == 141
    assert errors == "packing: no LENGTHS given, using the bundled sample openchat_v1\n"


def test_interrupting_leaves_nothing_and_is_no_traceback(tmp_path):
    # Reading a named pipe that stays open never ends, and opening its other end shows that reading has begun.
    pipe = tmp_path / "lengths.csv"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "packing", "plan", pipe.name, *STEP, "--output", "plan.json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=ENVIRONMENT
    ) as process:
        writer = None
        while writer is None and process.poll() is None:
            try:
                writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                time.sleep(0.01)
        assert writer is not None, process.stderr.read()
        try:
            output = errors = None
            for _ in range(
                20
            ):  # a signal just before the blocking read is only seen once the read is interrupted again
                process.send_signal(signal.SIGINT)
                try:
                    output, errors = process.communicate(timeout=5)
                    break
                except subprocess.TimeoutExpired:
                    continue
        finally:
            os.close(writer)
    assert (process.returncode, output, errors) == (130, b"", b"packing: interrupted\n")
    assert list(tmp_path.iterdir()) == [pipe]
