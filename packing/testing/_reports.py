"""Outcomes of checks: what passed, what failed and why, and failures that were declared beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from packing.errors import ConfigError

__all__ = ["CheckResult", "NotApplicable", "Report", "checked_declarations", "run_check"]

_SHOWN = 3  # violations of one check; the first one is what people fix


class NotApplicable(str):
    """What a check yields instead of violations where it has nothing to look at: why not."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found.

    Attributes:
        check: its name.
        outcome: "passed", "failed", "skipped" (nothing to look at), "failed as declared" or "passed against its
            declaration".
        detail: the first violations, each with its instance; the reason of a skip or a declaration.
    """

    check: str
    outcome: str
    detail: str = ""

    @property
    def ok(self) -> bool:
        """False for a failure that nobody declared, and for a declared one that did not happen."""
        return self.outcome in ("passed", "skipped", "failed as declared")

    def __str__(self) -> str:
        return f"{self.check}: {self.outcome}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True, slots=True)
class Report:
    """What all checks found.

    Attributes:
        subject: the config that was checked.
        results: in the order in which the checks ran.
    """

    subject: str
    results: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Whether every result is."""
        return all(result.ok for result in self.results)

    def __getitem__(self, check: str) -> CheckResult:
        return next(result for result in self.results if result.check == check)

    def __str__(self) -> str:
        return "\n".join([f"{self.subject}:", *(f"  {result}" for result in self.results)])

    def raise_failures(self) -> None:
        """Raises an AssertionError that names every failed check with its instance, if there is any."""
        failures = tuple(result for result in self.results if not result.ok)
        if failures:
            raise AssertionError(str(Report(self.subject, failures)))


def run_check(name: str, check: Callable[[Any], Iterator[str]], subject: Any, declared: str | None) -> CheckResult:
    """Runs one check and holds its outcome against the declaration.

    Args:
        check: yields violations, each a sentence, from what is examined; or one `NotApplicable`.
        declared: the reason why it is expected to fail, or None.
    """
    found = list(islice(check(subject), _SHOWN))
    outcome = "failed" if found else "passed"
    if found and isinstance(found[0], NotApplicable):
        outcome = "skipped"
    if declared is None:
        return CheckResult(name, outcome, "; ".join(found))
    if outcome == "failed":
        return CheckResult(name, "failed as declared", declared)
    return CheckResult(name, "passed against its declaration", f"remove the declared failure ({declared})")


def checked_declarations(option: str, declared: Mapping[str, str] | None, known: Sequence[str]) -> dict[str, str]:
    """Declarations by name, each with its reason.

    Raises:
        ConfigError: a name is unknown, or a reason is missing.
    """
    for name, reason in (declared or {}).items():
        if name not in known:
            raise ConfigError(f"`{option}` names {name!r}, but there are: {', '.join(known)}.")
        if not isinstance(reason, str) or not reason.strip():
            raise ConfigError(f"`{option}` must give a reason for {name!r}, but got {reason!r}.")
    return dict(declared or {})
