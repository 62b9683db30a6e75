"""The planner's settings: a YAML block, overridden by command-line flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml

from packing._checks import shown
from packing.errors import ConfigError

__all__ = ["merge", "planner_options", "read_block"]

Function = TypeVar("Function", bound=Callable[..., Any])

# A trainer's whole configuration may be handed in; the planner's block then lies under this key.
_BLOCK = "packing"

_POSITIVE = click.IntRange(min=1)
# Each option's parameter is named as the planner names the setting, so that flags and block merge without a table.
_OPTIONS = (
    click.option(
        "--ranks", "data_parallel_size", type=_POSITIVE, metavar="N", help="Data-parallel ranks that share a step."
    ),
    click.option("--seq-len", type=_POSITIVE, metavar="N", help="Token cap of a pack; left out: no cap."),
    click.option("--local-batch-size", type=_POSITIVE, metavar="N", help="Packs per rank (none: the fewest that fit)."),
    click.option("--window", type=_POSITIVE, metavar="N", help="Rounds planned together."),
    click.option("--alignment", type=_POSITIVE, metavar="N", help="Round each length up to a multiple of this."),
    click.option("--max-items", type=_POSITIVE, metavar="N", help="Most samples in one pack."),
    click.option("--estimator", metavar="NAME", help="What a sample costs: tokens, attention, flops, ..."),
    click.option(
        "--objective",
        metavar="NAME",
        help="What to balance: makespan (the default), balance, rounds, pipeline, or a mapping such as "
        '\'{"name": "components", "weights": {"llm": 1, "encoder": 0.5}}\'.',
    ),
    click.option("--stages", type=_POSITIVE, metavar="P", help="Stages of the pipeline, for the objective pipeline."),
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="YAML mapping with the planner's options, at the top or under `packing:`; flags override it.",
    ),
)


def planner_options(function: Function) -> Function:
    """Decorate a command with the options that set up the planner, `--config` included."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def read_block(path: Path) -> dict[str, Any]:
    """The planner's block of a YAML file; its keys are not checked here, the planner does.

    Raises:
        ConfigError: not YAML, or not a mapping.
        OSError: the file cannot be read.
    """
    try:
        document = yaml.safe_load(path.read_bytes())
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}:{where} is not YAML ({getattr(error, 'problem', None) or error}).") from None
    block = document.get(_BLOCK, document) if isinstance(document, dict) else document
    if not isinstance(block, dict):
        raise ConfigError(f"{path}: the configuration must be a mapping of options, but got {shown(block)}.")
    wrong = next((key for key in block if not isinstance(key, str)), None)
    if wrong is not None:
        raise ConfigError(f"{path}: the name of an option must be a string, but got {shown(wrong)}.")
    return dict(block)


def merge(config: Path | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for `Planner.from_config`: the block of the file, then every flag that was given.

    Raises:
        ConfigError: as `read_block`, or neither the block nor the flags say how many ranks there are.
    """
    settings = read_block(config) if config is not None else {}
    flags = _with_objective({name: _mapping_or_name(name, value) for name, value in flags.items()}, settings)
    for name, value in flags.items():
        configured = settings.get(name)
        # A flag that names what the block names already keeps the block's options for it.
        if value is not None and not (isinstance(configured, Mapping) and configured.get("name") == value):
            settings[name] = value
    if settings.get("data_parallel_size") is None:
        raise ConfigError("`--ranks` must be given (or `data_parallel_size` in the configuration).")
    return settings


def _with_objective(flags: Mapping[str, Any], block: Mapping[str, Any]) -> dict[str, Any]:
    """The flags with `--stages` made a parameter of the objective."""
    merged = dict(flags)
    stages, objective = merged.pop("stages", None), merged.get("objective")
    if stages is not None:
        chosen = block.get("objective") if objective is None else objective
        name = chosen.get("name") if isinstance(chosen, Mapping) else chosen
        if name != "pipeline":
            raise ConfigError(f"`--stages` needs `--objective pipeline`, but the objective is {shown(name)}.")
        merged["objective"] = {"name": "pipeline", "stages": stages}
    return merged


def _mapping_or_name(flag: str, value: Any) -> Any:
    """The value of a flag; where it is the text of a mapping with a name and options, that mapping."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return yaml.safe_load(value)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = getattr(error, "problem", None) or error
        raise ConfigError(f"`--{flag}` {shown(value)} is no mapping ({reason}).") from None
