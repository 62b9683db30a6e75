"""The subcommands: plan, compare, plugins."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packing.cli import output, render, settings
from packing.cli.lengths import BUNDLED_SAMPLE, Lengths, read_lengths
from packing.cli.summary import Failure, PlanSummary, as_record, summarize
from packing.errors import AuditError, ConfigError, InfeasibleError, NoCandidateError, UnsupportedProblemError

if TYPE_CHECKING:
    from packing.planner import Planner

__all__ = ["NO_PLAN", "compare", "plan", "plugins"]

# The problem or the algorithm says no; everything else is a mistake in what was typed or read.
NO_PLAN = (InfeasibleError, NoCandidateError, UnsupportedProblemError, AuditError)

# A plan takes about a millisecond, of which the first one spends more on imports: short ones are timed again.
_TIMINGS = 3
_LONG_SECONDS = 0.2

_lengths_argument = click.argument("lengths", required=False, metavar="[LENGTHS]")
_column_option = click.option(
    "--column", metavar="NAME", help="Column with the lengths (its position where columns have no names); A+B is a sum."
)
_limit_option = click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N samples.")
_json_option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")


@click.command()
@_lengths_argument
@click.option(
    "--algorithm",
    metavar="NAME",
    help="Algorithm, see `packing plugins`, or a mapping such as '{name: auto, effort: fast}'.",
)
@settings.planner_options
@_column_option
@_limit_option
@click.option("--output", "target", metavar="FILE", help="Write the plan as JSON; `-` is standard output.")
@click.option("--force", is_flag=True, help="Replace an existing output file.")
def plan(
    lengths: str | None,
    config: Path | None,
    column: str | None,
    limit: int | None,
    target: str | None,
    force: bool,
    **flags: Any,
) -> None:
    """Plan one step and print what it gains.

    LENGTHS is a .npy, .npz, .csv, .tsv, .json, .jsonl or .parquet file with one length per sample, or `-` for standard
    input (JSON, JSON lines, CSV, or one number per line). Without it, a bundled sample of real lengths is planned.
    """
    from packing.planner import Planner

    to_stdout = target == "-"
    if target is not None and not to_stdout:
        output.check_target(Path(target), force=force)
    planner = Planner.from_config(settings.merge(config, flags))
    samples = _read(lengths, column, limit, planner)
    with interruptible():
        result = planner.plan(samples.samples)
    if target is not None:
        text = result.to_json().rstrip("\n") + "\n"
        if to_stdout:
            click.echo(text, nl=False)
        else:
            output.write_atomically(Path(target), text, force=force)
    render.show(render.plan_summary(summarize(result), samples), error=to_stdout)


@click.command()
@_lengths_argument
@click.option("--algorithms", metavar="A,B,C", help="Algorithms to compare (none: all built-in ones).")
@settings.planner_options
@_column_option
@_limit_option
@_json_option
def compare(
    lengths: str | None,
    algorithms: str | None,
    config: Path | None,
    column: str | None,
    limit: int | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Plan the same step with several algorithms, one row each.

    LENGTHS is read as by `packing plan`. An algorithm that finds no plan gets a row that says why; the exit status is
    0 when at least one found a plan.
    """
    from packing.planner import Planner

    options = settings.merge(config, flags)
    # All names are resolved before the first plan is made: a typing error should not cost a long run.
    planners = {name: Planner.from_config(_with_algorithm(options, name)) for name in _names(algorithms)}
    # They differ in the algorithm only, and so need the same columns.
    samples = _read(lengths, column, limit, next(iter(planners.values())))
    rows: list[PlanSummary | Failure] = []
    with render.progress(list(planners)) as names:
        for name in names:
            rows.append(_attempt(name, planners[name], samples))
    if as_json:
        document = {"source": samples.source, "column": samples.column, "rows": [as_record(row) for row in rows]}
        click.echo(json.dumps(document, indent=2, allow_nan=False))
    else:
        render.show(render.comparison_table(rows))
    if all(isinstance(row, Failure) for row in rows):
        raise NoCandidateError("none of the algorithms gave a plan.")


@click.command()
@_json_option
def plugins(as_json: bool) -> None:
    """List algorithms and estimators by name, with the distributions they come from and what failed to load."""
    from packing.registry import listing

    rows = listing()
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        render.show(render.plugins_table(rows))


def _read(source: str | None, column: str | None, limit: int | None, planner: Planner) -> Lengths:
    samples = read_lengths(source, column=column, limit=limit, features=planner.columns)
    if source is None:
        click.echo(f"packing: no LENGTHS given, using the bundled sample {BUNDLED_SAMPLE}", err=True)
    return samples


def _names(algorithms: str | None) -> list[str]:
    """The names to compare, each once, in the order given."""
    if algorithms is None:
        from packing.registry import listing

        # Bare names are the built-in ones; a plugin's names have its namespace in front.
        return [row["name"] for row in listing() if row["kind"] == "algorithm" and "/" not in row["name"]]
    names = [name.strip() for name in algorithms.split(",")]
    if not all(names):
        raise ConfigError(f"`--algorithms` must be names joined by commas, but got {algorithms!r}.")
    return list(dict.fromkeys(names))


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends the process at once, even while a kernel runs that Python could not interrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _with_algorithm(options: dict[str, Any], name: str) -> dict[str, Any]:
    """The options with another algorithm; the block's own options for that very algorithm stay."""
    configured = options.get("algorithm")
    if isinstance(configured, dict) and configured.get("name") == name:
        return options
    return {**options, "algorithm": name}


def _attempt(name: str, planner: Planner, samples: Lengths) -> PlanSummary | Failure:
    """One row of the comparison; times are the least of a few runs."""
    times: list[float] = []
    try:
        while len(times) < _TIMINGS and sum(times) < _LONG_SECONDS:
            start = time.perf_counter()
            with interruptible():
                result = planner.plan(samples.samples)
            times.append(time.perf_counter() - start)
    except NO_PLAN as error:
        return Failure(name, type(error).__name__, str(error))
    except Exception as error:  # a third party's algorithm may raise anything; the others still get their rows
        if not getattr(error, "__notes__", None):
            raise
        return Failure(name, type(error).__name__, f"{type(error).__name__}: {error} ({'; '.join(error.__notes__)})")
    return summarize(result, seconds=min(times))
