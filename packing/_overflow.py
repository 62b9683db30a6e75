"""Sequences that no row can hold: what a policy makes of them, and what is lost by it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from packing._checks import Int64Array
from packing.alignment import Alignment
from packing.errors import InfeasibleError

__all__ = ["POLICIES", "Groups", "Overflow", "Pieces"]

POLICIES = ("error", "single", "truncate_left", "truncate_right", "split", "drop")


@dataclass(frozen=True, eq=False)
class Overflow:
    """Sequences that no row of `max_token_budget` columns can hold, and what was done about them.

    Attributes:
        policy: "single", "truncate_left", "truncate_right", "split" or "drop".
        reason: "length" (more tokens than columns) or "alignment" (more only once the length is rounded up); also
            "group" under "drop" (it fits, but another one of its group does not, or not all of the group together).
        indices: int64, their positions in the stream.
        num_lost_tokens: tokens of them that are in no row; 0 under "single" and "split".
    """

    policy: str
    reason: str
    indices: Int64Array
    num_lost_tokens: int

    @property
    def num_sequences(self) -> int:
        """How many sequences."""
        return self.indices.size

    def __repr__(self) -> str:
        return (
            f"Overflow({self.policy!r}, {self.reason!r}, {self.num_sequences} sequences, "
            f"{self.num_lost_tokens} tokens lost)"
        )


@dataclass(frozen=True, eq=False)
class Groups:
    """Sequences that are of no use without each other.

    Attributes:
        labels: int64[N]; -1: in no group.
        share_row: a group must fit into one row.
        max_segments: most segments in one row; None: any number.
    """

    labels: Int64Array
    share_row: bool
    max_segments: int | None

    def to_drop(self, footprints: Int64Array, over: npt.NDArray[np.bool_], budget: int) -> npt.NDArray[np.bool_]:
        """bool[N]: whether it is in a group of which a row cannot hold one, or all where they share a row."""
        inside = self.labels >= 0
        labels = self.labels[inside]
        count = int(labels.max(initial=-1)) + 1
        lost = np.zeros(count, np.bool_)
        lost[labels[over[inside]]] = True
        if self.share_row:
            tokens = np.zeros(count, np.int64)
            np.add.at(tokens, labels, footprints[inside])
            lost |= tokens > budget
            if self.max_segments is not None:
                lost |= np.bincount(labels, minlength=count) > self.max_segments
        drop = np.zeros(self.labels.size, np.bool_)
        drop[inside] = lost[labels]
        return drop


@dataclass(frozen=True, eq=False)
class Pieces:
    """The runs of tokens that are laid out, P of them, by sequence and start.

    Attributes:
        sequences, starts, lengths: int64[P]; a sequence has one run, several if split, none if dropped.
        footprints: int64[P], columns that each takes.
        overflows: one for each reason that occurred.
    """

    sequences: Int64Array
    starts: Int64Array
    lengths: Int64Array
    footprints: Int64Array
    overflows: tuple[Overflow, ...]

    @classmethod
    def of(
        cls,
        lengths: Int64Array,
        budget: int,
        alignment: Alignment,
        policy: str,
        first: int,
        groups: Groups | None = None,
    ) -> Pieces:
        """The runs under one policy.

        Args:
            lengths: int64[N], at least 1.
            budget: columns of a row.
            alignment: of segments.
            policy: one of `POLICIES`.
            first: position of the first sequence in the stream.
            groups: what "drop" drops as a whole.

        Raises:
            InfeasibleError: policy "error", and a sequence that no row can hold.
        """
        num_sequences = lengths.size
        footprints = alignment.aligned(lengths)
        over = footprints > budget
        everything = np.arange(num_sequences)
        with_group = np.zeros(num_sequences, np.bool_)
        if policy == "drop" and groups is not None:
            with_group = groups.to_drop(footprints, over, budget) & ~over
        if not (over | with_group).any():
            zeros = np.zeros(num_sequences, np.int64)
            return cls(everything, zeros, lengths, footprints, ())
        if policy == "error":
            _refuse(lengths, over, budget, alignment, first)
        longest = budget // alignment.segment * alignment.segment
        counts, kept = np.ones(num_sequences, np.int64), lengths.copy()
        if policy == "drop":
            counts[over | with_group] = kept[over | with_group] = 0
        elif policy == "split":
            counts = -(-lengths // longest)
        elif policy != "single":
            kept[over] = longest
        sequences = np.repeat(everything, counts)
        number = np.arange(sequences.size) - np.repeat(np.cumsum(counts) - counts, counts)
        starts, of_piece = number * longest, kept[sequences]
        if policy == "truncate_left":
            starts = (lengths - kept)[sequences]
        elif policy == "split":
            of_piece = np.minimum(of_piece - starts, longest)
        overflows = [
            Overflow(policy, reason, first + np.flatnonzero(chosen), int((lengths - kept)[chosen].sum()))
            for reason, chosen in (
                ("length", lengths > budget),
                ("alignment", over & (lengths <= budget)),
                ("group", with_group),
            )
            if chosen.any()
        ]
        return cls(sequences, starts, of_piece, alignment.aligned(of_piece), tuple(overflows))


def _refuse(lengths: Int64Array, over: npt.NDArray[np.bool_], budget: int, alignment: Alignment, first: int) -> None:
    at = int(np.argmax(over))
    aligned = "" if lengths[at] > budget else f" ({int(alignment.aligned(lengths)[at])} once aligned)"
    policies = ", ".join(map(repr, POLICIES[1:]))
    raise InfeasibleError(
        f"sequence {first + at} has {lengths[at]} tokens{aligned}, over `max_token_budget` = {budget} "
        f"({int(over.sum())} such sequences); `overflow` may also be {policies}."
    )
