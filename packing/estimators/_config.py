"""Reads the fields of a model config, with errors that name the field."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packing._checks import boolean, integer, shown
from packing.errors import ConfigError

__all__ = ["ModelConfig", "read_model_config"]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The fields of the language model, and the `model_type` that gives them their meaning ("" if none is stated)."""

    fields: Mapping[str, Any]
    model_type: str

    def first(self, *names: str) -> tuple[str, Any] | None:
        """The first of several spellings that is there and not null, with its value."""
        return next(((name, self.fields[name]) for name in names if self.fields.get(name) is not None), None)

    def integer(self, *names: str, default: int | None = None, minimum: int = 1) -> int:
        """The value of a field; several names are spellings of one field.

        Raises:
            ConfigError: the field is missing and has no default, or it is not an integer of at least `minimum`.
        """
        found = self.first(*names)
        if found is None:
            if default is not None:
                return default
            raise self.missing(*names)
        return integer(f"model.{found[0]}", found[1], minimum=minimum)

    def flag(self, name: str, default: bool) -> bool:
        """A true or false field, or its default where it is missing or null."""
        value = self.fields.get(name)
        return default if value is None else boolean(f"model.{name}", value)

    def missing(self, *names: str) -> ConfigError:
        """The error for a field that is needed and not there."""
        spellings = " or ".join(f"`model.{name}`" for name in names)
        kind = f' of model_type "{self.model_type}"' if self.model_type else ""
        return ConfigError(f"{spellings} is missing from the model config{kind}.")


def read_model_config(model: Mapping[str, Any] | str | os.PathLike[str]) -> ModelConfig:
    """The language model of a config.

    Args:
        model: the fields as a mapping, or the path of a Hugging Face `config.json` or of a folder that holds one. The
            `text_config` of a multimodal model is used in its place.

    Raises:
        ConfigError: it is neither, the file cannot be read, or it is not a JSON object.
    """
    fields = model if isinstance(model, Mapping) else _read_file(model)
    outer_type = fields.get("model_type")
    text = fields.get("text_config")
    if text is not None:
        if not isinstance(text, Mapping):
            raise ConfigError(f"`model.text_config` must be a mapping, but got {shown(text)}.")
        # Multimodal configs state tying once, sometimes only at the outer level.
        fields = {"tie_word_embeddings": fields.get("tie_word_embeddings"), **text}
    model_type = fields.get("model_type", outer_type)
    if model_type is not None and not isinstance(model_type, str):
        raise ConfigError(f"`model.model_type` must be a string, but got {shown(model_type)}.")
    return ModelConfig(fields, model_type or "")


def _read_file(model: Any) -> Mapping[str, Any]:
    """The JSON object in a config file."""
    if not isinstance(model, (str, os.PathLike)):
        raise ConfigError(f"`model` must be a mapping or the path of a config.json, but got {shown(model)}.")
    path = Path(model)
    if path.is_dir():
        path = path / "config.json"
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"`model` must be a mapping or the path of a config.json (names of hosted models are not looked up), but "
            f"{str(model)!r} cannot be read: {error.strerror or error}."
        ) from None
    except ValueError as error:
        raise ConfigError(f"`model` must be a JSON file, but {str(path)!r} is not: {error}.") from None
    if not isinstance(fields, Mapping):
        raise ConfigError(f"`model` must be a JSON object, but {str(path)!r} holds {shown(fields)}.")
    return fields
