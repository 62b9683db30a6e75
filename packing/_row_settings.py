"""Settings of rows, checked once, and the columns that a search for rows needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from packing import _checks
from packing._checks import Int64Array
from packing._costs import estimated_costs
from packing._fixed_point import Numbers, finite
from packing._row_items import RowItems
from packing._row_plans import RowPlanner
from packing._row_search import RowSearch
from packing._samples import read_samples
from packing.alignment import Alignment
from packing.errors import ConfigError
from packing.planner import Planner

__all__ = ["MOST_PACKS", "CostModel", "canonical_order", "combined_labels", "row_search"]

MOST_PACKS = 1 << 20
"""Rows of a step; a step of so many takes seconds to lay out, and more would only be a wrong number."""


def row_search(
    algorithm: Any,
    num_packs: int,
    max_token_budget: Any,
    *,
    alignment: Any = 1,
    max_segments_per_row: int | None = None,
    first_fit: bool = False,
    ranks: int | None = None,
    group_scope: str = "bin",
    oversized: str = "error",
    lenient: bool = False,
) -> RowSearch:
    """The search with these settings, named as `balanced_pack` and `pack_sequences` name them.

    Raises:
        ConfigError: a setting has a wrong type or value.
        UnknownNameError, AmbiguousNameError, PluginError: the algorithm cannot be resolved.
    """
    budget = _checks.integer("max_token_budget", max_token_budget, minimum=1, maximum=2**40)
    alignment = Alignment.of(alignment)
    alignment.check_row_length("max_token_budget", budget)
    if alignment.segment > budget:
        raise ConfigError(
            f"`max_token_budget` must be at least the segment alignment {alignment.segment}, but got {budget}."
        )
    settings: dict[str, Any] = {
        "data_parallel_size": num_packs,
        "seq_len": budget,
        "max_items": _checks.optional_integer(
            "max_segments_per_row", max_segments_per_row, minimum=1, maximum=_checks.LARGEST
        ),
        "alignment": alignment,
        "oversized_policy": oversized,
    }
    planner = Planner(algorithm="auto" if first_fit else algorithm, **settings)
    fallback = planner if planner._algorithm.name == "auto" else Planner(algorithm="auto", **settings)
    return RowSearch(RowPlanner(planner, fallback, lenient), num_packs, first_fit, ranks, group_scope)


class CostModel:
    """The work of sequences by an estimator, resolved once.

    Args:
        estimator: as in `Planner`.

    Raises:
        ConfigError, UnknownNameError, AmbiguousNameError, PluginError: it cannot be resolved.
    """

    fingerprint: str
    """Of its name, version and options."""

    def __init__(self, estimator: Any) -> None:
        self._planner = Planner(data_parallel_size=1, estimator="tokens" if estimator is None else estimator)
        resolved = self._planner._estimator
        assert resolved is not None
        self._all = getattr(resolved.instance, "takes_records", False)
        self.fingerprint = self._planner.config_fingerprint
        self._label = f"cost` of estimator `{resolved.name}"

    def __call__(self, lengths: Int64Array, values: Mapping[str, Any]) -> Numbers:
        """The work of each sequence, [N], of its length and of the values that the estimator asks for."""
        if lengths.size == 0:
            return np.empty(0, np.int64)
        names = values.keys() if self._all else [name for name in self._planner.columns if name in values]
        batch = read_samples({name: values[name] for name in names if name != "key"} | {"length": lengths})
        return finite(self._label, estimated_costs(self._planner, batch), length=lengths.size)


def combined_labels(labels: Sequence[Int64Array]) -> Int64Array | None:
    """One label for each combination of labels, in the order of the labels; None for no labels."""
    if not labels:
        return None
    return np.unique(np.stack(labels, axis=1), axis=0, return_inverse=True)[1].reshape(-1)


def canonical_order(items: RowItems, lengths: Int64Array, costs: Numbers) -> Int64Array:
    """int64[P]: the items by tokens, length, then work, descending, then labels; those that agree in all are alike.

    Args:
        lengths: int64[P], tokens before alignment.
        costs: [P], the work.
    """
    labels = [one for one in (items.groups, items.kinds) if one is not None]
    return np.lexsort((*labels, -costs, -lengths, -items.tokens))
