"""Items of rows: sequences or pieces of them, what must share a row, what must not, and first fit over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from packing._checks import Int64Array
from packing._fewest_bins import EFFORTS
from packing.bins import fit_bins, fit_fewest
from packing.errors import InfeasibleError

__all__ = ["RowItems", "Wholes"]


@dataclass(frozen=True)
class RowItems:
    """What is laid out in rows, P items, checked.

    Attributes:
        tokens: int64[P], columns that each takes in a row.
        kinds: int64[P] or None: items of different kinds never share a row.
        groups: int64[P] or None: items of one group stay together; -1: of no group.
    """

    tokens: Int64Array
    kinds: Int64Array | None = None
    groups: Int64Array | None = None

    def __post_init__(self) -> None:
        # Labels that say nothing would ask of an algorithm what the problem does not need.
        if self.kinds is not None and (self.kinds == self.kinds[:1]).all():
            object.__setattr__(self, "kinds", None)
        if self.groups is not None:
            together = self.groups[self.groups >= 0]
            if np.unique(together).size == together.size:
                object.__setattr__(self, "groups", None)

    def take(self, order: Int64Array) -> RowItems:
        """The items in another order."""
        kinds = None if self.kinds is None else self.kinds[order]
        return RowItems(self.tokens[order], kinds, None if self.groups is None else self.groups[order])

    def check_groups(
        self, capacity: int, max_items: int | None, describe: Callable[[int], str], advice: str = ""
    ) -> None:
        """Raises an InfeasibleError for a group that no row can hold.

        Args:
            capacity: columns of a row.
            max_items: most segments in a row.
            describe: an item in the words of the user.
            advice: the end of the message about a group that is too large.
        """
        if self.groups is None:
            return
        wholes = Wholes.of(self)
        together = wholes.counts > 1
        limits = [(wholes.tokens, capacity, "tokens")]
        limits += [] if max_items is None else [(wholes.counts, max_items, "segments")]
        for amounts, limit, unit in limits:
            if (amounts[together] > limit).any():
                at = int(np.argmax(np.where(together, amounts, 0)))
                first = describe(int(np.argmax(wholes.whole_of == at)))
                of = "" if unit == "segments" else f" in {wholes.counts[at]} segments"
                raise InfeasibleError(
                    f"the group of {first} has {amounts[at]} {unit}{of}, but a row holds at most {limit}{advice}."
                )
        if self.kinds is not None:
            mixed = self.kinds != wholes.kinds[wholes.whole_of]
            if mixed.any():
                at = int(np.argmax(mixed))
                first = describe(int(np.argmax(wholes.whole_of == wholes.whole_of[at])))
                raise InfeasibleError(
                    f"the group of {first} must share a row, but {describe(at)} must not share one with it."
                )


@dataclass(frozen=True)
class Wholes:
    """What is placed as one: W single items or groups, numbered by their first item.

    Attributes:
        whole_of: int64[P].
        tokens, counts, kinds: int64[W] each.
    """

    whole_of: Int64Array
    tokens: Int64Array
    counts: Int64Array
    kinds: Int64Array

    @classmethod
    def of(cls, items: RowItems) -> Wholes:
        """Groups as one each; without groups every item is one."""
        num_items = items.tokens.size
        kinds = np.zeros(num_items, np.int64) if items.kinds is None else items.kinds
        if items.groups is None:
            return cls(np.arange(num_items), items.tokens, np.ones(num_items, np.int64), kinds)
        alone = items.groups < 0
        labels = np.where(alone, items.groups.max(initial=0) + 1 + np.arange(num_items), items.groups)
        _, first, label_of = np.unique(labels, return_index=True, return_inverse=True)
        number = np.empty(first.size, np.int64)
        number[np.argsort(first)] = np.arange(first.size)
        whole_of = number[label_of]
        tokens = np.zeros(first.size, np.int64)
        np.add.at(tokens, whole_of, items.tokens)
        return cls(whole_of, tokens, np.bincount(whole_of), kinds[np.sort(first)])

    def first_fit(self, order: Int64Array, capacity: int, max_items: int | None) -> Int64Array:
        """Each into the first row of its kind with room, in this order; a longer one than a row alone in its own.

        Args:
            order: int64[W].

        Returns:
            int64[W], the row of each.
        """
        if max_items is not None and (self.counts > 1).any():
            return self._first_fit_by_looking(order, capacity, max_items)
        row_of = np.empty(order.size, np.int64)
        num_rows = 0
        for kind in np.unique(self.kinds):
            chosen = order[self.kinds[order] == kind]
            offsets, placed = fit_bins(
                np.ascontiguousarray(self.tokens[chosen]), None, capacity, "first_fit", None, max_items, "single"
            )
            row_of[chosen[placed]] = num_rows + np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
            num_rows += offsets.size - 1
        return row_of

    def fewest(self, capacity: int, max_items: int | None) -> Int64Array | None:
        """A search for the fewest rows, int64[W]; None where it cannot keep `max_items`."""
        if max_items is not None and (self.counts > 1).any():
            return None
        row_of = np.empty(self.tokens.size, np.int64)
        num_rows = 0
        for kind in np.unique(self.kinds):
            chosen = np.flatnonzero(self.kinds == kind)
            tokens = np.ascontiguousarray(self.tokens[chosen])
            offsets, placed, _, _ = fit_fewest(tokens, capacity, None, max_items, "single", EFFORTS["fast"])
            row_of[chosen[placed]] = num_rows + np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
            num_rows += offsets.size - 1
        return row_of

    def _first_fit_by_looking(self, order: Int64Array, capacity: int, max_items: int) -> Int64Array:
        """The kernels count every whole as one; here its items count."""
        row_of = np.empty(order.size, np.int64)
        room, left, kind_of = (np.zeros(order.size, np.int64) for _ in range(3))
        num_rows = 0
        for whole in order.tolist():
            tokens, count, kind = self.tokens[whole], self.counts[whole], self.kinds[whole]
            fits = (room[:num_rows] >= tokens) & (left[:num_rows] >= count) & (kind_of[:num_rows] == kind)
            row = int(np.argmax(fits)) if fits.any() else num_rows
            if row == num_rows:
                room[row], left[row], kind_of[row] = capacity, max_items, kind
                num_rows += 1
            room[row] -= tokens
            left[row] -= count
            row_of[whole] = row
        return row_of

    @staticmethod
    def spread(row_of: Int64Array, order: Int64Array, num_rows: int) -> Int64Array:
        """So many rows, none empty: what was placed last and shares a row leaves it; int64[W].

        Args:
            row_of: int64[W], at most `num_rows` rows, numbered from 0.
            order: int64[W], in which they were placed.
        """
        found = int(row_of.max(initial=-1)) + 1
        if found == num_rows:
            return row_of
        shares = np.ones(order.size, np.bool_)
        shares[np.unique(row_of[order], return_index=True)[1]] = False
        leave = np.flatnonzero(shares)
        spread = row_of.copy()
        spread[order[leave[leave.size - (num_rows - found) :]]] = np.arange(found, num_rows)
        return spread
