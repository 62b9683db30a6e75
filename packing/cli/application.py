"""The command group: every failure becomes one line on standard error and an exit status."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import click

from packing import __version__
from packing.cli import commands
from packing.errors import PackingError

__all__ = ["run"]

_INFEASIBLE = 1
_USAGE = 2
# As a shell reports a program that a signal ended: 128 + SIGINT, 128 + SIGPIPE.
_INTERRUPTED = 130
_BROKEN_PIPE = 141


class _Group(click.Group):
    """Commands whose failures end here, before Click turns some of them into statuses of its own."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.exceptions.Abort):
            raise
        except KeyboardInterrupt:
            ctx.exit(_complain("interrupted", _INTERRUPTED))
        except Exception as error:
            if ctx.params.get("traceback") and not isinstance(error, BrokenPipeError):
                raise
            ctx.exit(_status(error))


# Without arguments: one line and a usage error, not a page of help on standard error.
@click.group(
    cls=_Group,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="packing", message="%(prog)s %(version)s")
@click.option("--traceback", is_flag=True, help="Let an error show where it arose.")
def _command(traceback: bool) -> None:
    """Balanced, capped, reproducible packing of training samples onto data-parallel ranks.

    Exit status: 0 a plan, 1 infeasible or no plan found, 2 wrong usage or unreadable input.
    """


for _subcommand in (commands.plan, commands.compare, commands.plugins):
    _command.add_command(_subcommand)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status (see `packing.cli.main`)."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its code, not an exception.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            status = _command.main(arguments, prog_name="packing", standalone_mode=False)
        except click.ClickException as error:
            return _complain(f"{error.format_message()} ({_command_path(error)} --help)", _USAGE)
        except click.exceptions.Abort:
            return _complain("interrupted", _INTERRUPTED)
    return status if isinstance(status, int) else 0


def _command_path(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return context.command_path if context else "packing"


def _status(error: Exception) -> int:
    """Report an error in one line and return the exit status it means."""
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        # What is still buffered would raise again when the interpreter closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    if isinstance(error, commands.NO_PLAN):
        return _complain(str(error), _INFEASIBLE)
    if isinstance(error, PackingError):
        return _complain(str(error), _USAGE)
    if isinstance(error, OSError):
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        return _complain(f"{where}{error.strerror or error}", _USAGE)
    if isinstance(error, MemoryError):
        return _complain("the input needs more memory than there is", _USAGE)
    notes = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
    text = f"unexpected {type(error).__name__}: {error}{notes} (`packing --traceback ...` shows where it arose)"
    return _complain(text, _USAGE)


def _complain(text: str, status: int) -> int:
    """Print one line, whatever the text holds."""
    print(f"packing: {' '.join(text.split())}", file=sys.stderr)
    return status


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    _complain(f"warning: {message}", 0)
