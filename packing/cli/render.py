"""Summaries and tables for people; nothing here computes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from packing.cli.lengths import Lengths
from packing.cli.summary import Failure, PlanSummary

__all__ = ["comparison_table", "plan_summary", "plugins_table", "progress", "show"]

# Text that goes to a file or pipe is not folded to the width of a terminal that is not there.
_WIDTH_OFF_TERMINAL = 10_000


def show(renderable: RenderableType, *, error: bool = False) -> None:
    """Print to standard output (or standard error), in colour only on a terminal."""
    stream = sys.stderr if error else sys.stdout
    console = Console(file=stream, width=None if stream.isatty() else _WIDTH_OFF_TERMINAL, highlight=False)
    # Captured first: Rich answers a closed pipe with an exit status of its own.
    with console.capture() as captured:
        console.print(renderable)
    # Padding at the ends of lines would make output hard to compare.
    stream.write("".join(f"{line.rstrip()}\n" for line in captured.get().split("\n")[:-1]))
    stream.flush()


def plan_summary(summary: PlanSummary, lengths: Lengths) -> RenderableType:
    """The compact summary of one plan."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for label, text in (
        ("lengths", f"{lengths.source} (column {lengths.column})"),
        ("algorithm", summary.algorithm),
        ("samples", f"{summary.samples:,}"),
        ("tokens", f"{summary.tokens:,}"),
        ("packs", _packs(summary)),
        ("fill", _fill(summary)),
        ("largest / mean load", _loads(summary)),
        ("objective", f"{summary.objective}: {summary.objective_value:,.6g}"),
        ("gap to the bound", percent(summary.gap)),
        ("what binds", f"{summary.bound} ({summary.bound_explanation})"),
        ("decision", f"{'accepted' if summary.accepted else 'kept the reference'}: {summary.reason}"),
    ):
        table.add_row(label, Text(text))
    return table


def comparison_table(rows: Sequence[PlanSummary | Failure]) -> RenderableType:
    """One row per algorithm; below it, in full width, what the bounds mean and why an algorithm gave no plan."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("algorithm", style="bold", overflow="fold")
    for heading in ("packs", "fill", "largest\n/ mean", "baseline\n/ mean", "baseline\nover cap", "gap", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("binds", overflow="fold")
    notes: dict[str, None] = {}  # each once, in the order of the rows
    for row in rows:
        if isinstance(row, Failure):
            table.add_row(Text(row.algorithm), *["-"] * 7, Text("no plan", style="red"))
            notes[f"{row.algorithm}: no plan: {row.reason}"] = None
            continue
        table.add_row(
            Text(row.algorithm),  # not markup, whatever square brackets it holds
            f"{row.packs:,}",
            _fill(row),
            f"{row.largest_over_mean:.4f}",
            f"{row.baseline_largest_over_mean:.4f}",
            f"{row.baseline_overflowing_packs:,}",
            percent(row.gap),
            _duration(row.seconds),
            Text(row.bound),
        )
        notes[f"binds: {row.bound} ({row.bound_explanation})"] = None
    notes["baseline: the same samples dealt out in order into as many packs, which may break the cap"] = None
    return Group(table, Text(""), *[Text(note) for note in notes])


def plugins_table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Every registered name, where it comes from, and what failed."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("name", "kind", "distribution", "version"):
        table.add_column(heading, overflow="fold")
    table.add_column("load time", justify="right", no_wrap=True)
    table.add_column("summary", overflow="fold")
    for row in rows:
        words = [Text(str(row.get(key) or "-")) for key in ("name", "kind", "distribution", "version")]
        failure = row.get("error")
        note = Text(f"failed: {failure}", style="red") if failure else Text(str(row.get("summary") or ""))
        table.add_row(*words, _duration(row.get("load_seconds")), note)
    return table


@contextmanager
def progress(names: Sequence[str]) -> Iterator[Iterator[str]]:
    """Iterate over names, with a progress bar on standard error when that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("planning", total=len(names))

        def advancing() -> Iterator[str]:
            for name in names:
                bar.update(task, description=name)
                yield name
                bar.advance(task)

        yield advancing()


def percent(ratio: float) -> str:
    """A small ratio with three significant digits: 0.0123 is "1.23 %"."""
    return f"{100 * ratio:.3g} %"


def _packs(summary: PlanSummary) -> str:
    rounds = f" x {summary.window:,} rounds" if summary.window > 1 else ""
    return f"{summary.packs:,} = {summary.ranks:,} ranks{rounds} x {summary.packs_per_rank:,}"


def _fill(summary: PlanSummary) -> str:
    return "-" if summary.fill is None else f"{100 * summary.fill:.2f} %"


def _loads(summary: PlanSummary) -> str:
    over = summary.baseline_overflowing_packs
    note = f" with {over:,} {'pack' if over == 1 else 'packs'} over the cap" if over else ""
    return f"{summary.largest_over_mean:.4f} (dealt out in order: {summary.baseline_largest_over_mean:.4f}{note})"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{1000 * seconds:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
