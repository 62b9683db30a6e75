"""Writing a file atomically, and what people and programs are shown of a plan."""

from __future__ import annotations

import errno
import os
import stat
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("click", reason="the extra `cli` is not installed")

from packing.cli import output, render, settings
from packing.cli.lengths import Lengths
from packing.cli.output import check_target, write_atomically
from packing.cli.summary import Failure, PlanSummary, as_record, summarize
from packing.errors import ConfigError


@pytest.fixture
def target(tmp_path):
    return tmp_path / "plan.json"


def names_in(folder) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_new_file_has_the_text_and_the_mode_of_the_umask(umask, target):
    previous = os.umask(umask)
    try:
        write_atomically(target, "plän\n", force=False)
    finally:
        os.umask(previous)
    assert target.read_text(encoding="utf-8") == "plän\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask
    assert names_in(target.parent) == ["plan.json"]


def test_an_existing_file_needs_force(target):
    target.write_text("old")
    for function in (lambda: check_target(target, force=False), lambda: write_atomically(target, "new", force=False)):
        with pytest.raises(ConfigError, match=r"`--output` must name a new file, but '.*plan\.json' exists \(--force"):
            function()
    assert target.read_text() == "old"
    write_atomically(target, "new", force=True)
    assert target.read_text() == "new"
    assert names_in(target.parent) == ["plan.json"]


@pytest.mark.parametrize("hard_links", [True, False])
def test_a_file_that_appears_meanwhile_is_not_replaced(hard_links, target, monkeypatch):
    really_link = os.link

    def link(source, destination):
        target.write_text("of another process")
        if not hard_links:
            raise OSError(errno.EPERM, "no hard links here")
        really_link(source, destination)

    monkeypatch.setattr(output.os, "link", link)
    with pytest.raises(ConfigError, match="exists"):
        write_atomically(target, "ours", force=False)
    assert target.read_text() == "of another process"
    assert names_in(target.parent) == ["plan.json"]


def test_a_file_system_without_hard_links(target, monkeypatch):
    def link(source, destination):
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(output.os, "link", link)
    write_atomically(target, "text", force=False)
    assert target.read_text() == "text"
    assert names_in(target.parent) == ["plan.json"]


@pytest.mark.parametrize("step", ["fsync", "replace", "link"])
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing(step, failure, target, monkeypatch):
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(output.os, step, fail)
    force = step != "link"
    if step == "fsync":
        target.write_text("old")
    with pytest.raises(type(failure)):
        write_atomically(target, "new", force=force)
    assert names_in(target.parent) == (["plan.json"] if step == "fsync" else [])
    assert step != "fsync" or target.read_text() == "old"


def test_a_link_keeps_pointing_to_what_is_written(target, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(target)
    target.write_text("old")
    write_atomically(link, "new", force=True)
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_what_is_no_file_is_never_replaced(tmp_path):
    for path in (tmp_path, tmp_path / "fifo"):
        if path.name == "fifo":
            os.mkfifo(path)
        with pytest.raises(ConfigError, match="must name a regular file"):
            write_atomically(path, "text", force=True)
    with pytest.raises(ConfigError, match="existing folder"):
        check_target(tmp_path / "none" / "plan.json", force=False)


def stub_plan(**changes: object) -> SimpleNamespace:
    fields = {
        "algorithm": "lpt",
        "num_samples": 5,
        "data_parallel_size": 2,
        "window": 1,
        "bins_per_rank": 2,
        "num_bins": 4,
        "seq_len": 100,
        "bin_tokens": np.array([60, 50, 40, 50]),
        "imbalance": 1.25,
        "baseline": SimpleNamespace(imbalance=1.5, num_overflowing_bins=1),
        "metrics": {"objective": "pipeline(stages=4)"},
        "objective_value": 1234567.25,
        "gap": 0.00012345,
        "lower_bound": SimpleNamespace(value=1.0, name="mean", explanation="total cost [sum] over ranks"),
        "decision": SimpleNamespace(accepted=True, reason="no reference was given"),
        "digest": "abc",
    }
    return SimpleNamespace(**{**fields, **changes})


def test_summary_of_a_plan():
    summary = summarize(stub_plan(), seconds=0.5)
    assert summary == PlanSummary(
        algorithm="lpt",
        samples=5,
        tokens=200,
        ranks=2,
        window=1,
        packs=4,
        packs_per_rank=2,
        fill=0.5,
        largest_over_mean=1.25,
        baseline_largest_over_mean=1.5,
        baseline_overflowing_packs=1,
        objective="pipeline(stages=4)",
        objective_value=1234567.25,
        gap=0.00012345,
        bound="mean",
        bound_explanation="total cost [sum] over ranks",
        accepted=True,
        reason="no reference was given",
        seconds=0.5,
        digest="abc",
    )
    assert summarize(stub_plan(seq_len=None)).fill is None


def test_records_tell_plans_from_failures():
    record = as_record(summarize(stub_plan(gap=float("inf"))))
    assert (record["status"], record["gap"], record["packs"]) == ("plan", None, 4)
    assert as_record(Failure("kk", "NoCandidateError", "no layout")) == {
        "status": "no plan",
        "algorithm": "kk",
        "error": "NoCandidateError",
        "reason": "no layout",
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {},
            [
                "5",
                "200",
                "4 = 2 ranks x 2\n",
                "50.00 %",
                "1.2500 (dealt out in order: 1.5000 with 1 pack over the cap)",
                "pipeline(stages=4): 1.23457e+06\n",
                "0.0123 %",
            ],
        ),
        ({"window": 2, "bins_per_rank": 1}, ["4 = 2 ranks x 2 rounds x 1\n"]),
        (
            {"baseline": SimpleNamespace(imbalance=1.5, num_overflowing_bins=0)},
            ["1.2500 (dealt out in order: 1.5000)\n"],
        ),
        ({"seq_len": None}, ["fill                 -\n"]),
        (
            {"decision": SimpleNamespace(accepted=False, reason="gain 0 [too small]")},
            ["kept the reference: gain 0 [too"],
        ),
        ({}, ["mean (total cost [sum] over ranks)", "accepted: no reference was given"]),
    ],
)
def test_the_summary_shows_every_figure(changes, expected, capsys):
    lengths = Lengths(np.array([1]), "file.csv", "length")
    render.show(render.plan_summary(summarize(stub_plan(**changes)), lengths))
    captured = capsys.readouterr()
    assert captured.err == ""
    assert all(text in captured.out for text in expected)
    assert "\x1b" not in captured.out, "no colours off a terminal"
    assert all(line == line.rstrip() for line in captured.out.splitlines())


def test_the_comparison_shows_plans_failures_and_the_baseline(capsys):
    rows = [
        summarize(stub_plan(), seconds=0.0012),
        summarize(stub_plan(algorithm="kk"), seconds=2.0),
        Failure("vendor/[odd]", "NoCandidateError", "no layout in [0, 1)"),
    ]
    render.show(render.comparison_table(rows))
    out = capsys.readouterr().out
    (plan_line,) = [line for line in out.splitlines() if line.startswith("lpt")]
    assert plan_line.split() == ["lpt", "4", "50.00", "%", "1.2500", "1.5000", "1", "0.0123", "%", "1.20", "ms", "mean"]
    row, reason = [line for line in out.splitlines() if line.startswith("vendor/[odd]")]
    assert row.split()[1:] == ["-"] * 7 + ["no", "plan"]
    assert reason == "vendor/[odd]: no plan: no layout in [0, 1)"
    assert out.count("binds: mean (total cost [sum] over ranks)") == 1


def test_the_plugins_table_shows_failures(capsys):
    sound = {"name": "lpt", "kind": "algorithm", "distribution": "packing", "version": "1", "load_seconds": None}
    broken = {"name": "vendor", "kind": "algorithm", "distribution": "vendor", "version": "2", "load_seconds": 1.5}
    rows = [{**sound, "summary": "greedy", "error": None}, {**broken, "summary": "", "error": "No module [x]"}]
    render.show(render.plugins_table(rows))
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "greedy" in lines["lpt"]
    assert "failed: No module [x]" in lines["vendor"]
    assert "1.50 s" in lines["vendor"]


def test_a_flag_that_names_what_the_block_names_keeps_its_options(tmp_path):
    block = tmp_path / "block.yaml"
    block.write_text("data_parallel_size: 2\nestimator: {name: attention, linear: 7}\n")
    same = settings.merge(block, {"estimator": "attention", "seq_len": 5, "objective": None})
    assert same == {"data_parallel_size": 2, "estimator": {"name": "attention", "linear": 7}, "seq_len": 5}
    assert settings.merge(block, {"estimator": "tokens"})["estimator"] == "tokens"
