"""The sequence packers of NeMo-RL: `get_packer(...)` and what it returns."""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from packing import _checks
from packing._checks import Int64Array, shown
from packing._fixed_point import exact_sum
from packing.assignment import Assignment
from packing.bins import fit_bins, pack
from packing.compat._more_bins import cut_into
from packing.errors import ConfigError, InfeasibleError

__all__ = ["PackingAlgorithm", "SequencePacker", "get_packer"]


class PackingAlgorithm(enum.Enum):
    """The packers that `get_packer` knows."""

    CONCATENATIVE = "concatenative"
    FIRST_FIT_DECREASING = "first_fit_decreasing"
    FIRST_FIT_SHUFFLE = "first_fit_shuffle"
    MODIFIED_FIRST_FIT_DECREASING = "modified_first_fit_decreasing"


def get_packer(
    algorithm: PackingAlgorithm | str,
    bin_capacity: int,
    collect_metrics: bool = False,
    min_bin_count: int | None = None,
    bin_count_multiple: int | None = None,
    *,
    seed: int = 0,
) -> SequencePacker:
    """A packer with the signature and the names that NeMo-RL calls.

    Where that project's behaviour is a defect, this one differs: a shuffle has a seed and is not drawn from the
    process-wide `random`, so every rank packs alike; no input at all gives no bin (there, one empty bin); nothing is
    printed on the way.

    Args:
        algorithm: a `PackingAlgorithm` or its name in any case. CONCATENATIVE: samples as they come, a new bin where
            the next one does not fit. FIRST_FIT_DECREASING and FIRST_FIT_SHUFFLE: each sample into the first bin with
            room, longest first or shuffled. MODIFIED_FIRST_FIT_DECREASING: never more bins than that algorithm makes
            (Johnson and Garey, "A 71/60 theorem for bin packing", 1985), and fewer where the search of
            `packing.pack(..., algorithm="exact_fill")` finds them.
        bin_capacity: most tokens in one bin, at least 1.
        collect_metrics: keep totals of every `pack` for `get_aggregated_metrics`.
        min_bin_count: fewest bins, at least 0; None: no minimum.
        bin_count_multiple: the number of bins is a multiple of it, at least 1; None: any number.
        seed: of the shuffle; the same lengths are always shuffled alike.

    Raises:
        ConfigError: an unknown algorithm, or an argument with a wrong type or value; it is a ValueError.
    """
    return SequencePacker(
        _algorithm(algorithm),
        bin_capacity,
        collect_metrics=collect_metrics,
        min_bin_count=min_bin_count,
        bin_count_multiple=bin_count_multiple,
        seed=seed,
    )


class SequencePacker:
    """Packs sequences into bins; made by `get_packer`, whose arguments these are.

    Attributes:
        algorithm, bin_capacity, collect_metrics, min_bin_count, bin_count_multiple, seed: as given.
    """

    def __init__(
        self,
        algorithm: PackingAlgorithm,
        bin_capacity: int,
        *,
        collect_metrics: bool = False,
        min_bin_count: int | None = None,
        bin_count_multiple: int | None = None,
        seed: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.bin_capacity = _checks.integer("bin_capacity", bin_capacity, minimum=1, maximum=_checks.LARGEST)
        self.collect_metrics = _checks.boolean("collect_metrics", collect_metrics)
        self.min_bin_count = _checks.optional_integer("min_bin_count", min_bin_count, minimum=0)
        self.bin_count_multiple = _checks.optional_integer("bin_count_multiple", bin_count_multiple, minimum=1)
        self.seed = _checks.integer("seed", seed, minimum=0)
        self._collected: list[dict[str, float]] = []

    def pack(self, sequence_lengths: Sequence[int]) -> list[list[int]]:
        """Bins of indices into `sequence_lengths`, each index once, no bin empty, none above the capacity.

        The number of bins is the least that the algorithm finds, raised to `min_bin_count` and then to a multiple of
        `bin_count_multiple`. A further bin is the second part of the fullest one that has two samples or more, cut
        where the halves are closest in tokens; so bins keep the order of their samples.

        Args:
            sequence_lengths: N whole numbers of at least 0 (of MODIFIED_FIRST_FIT_DECREASING at least 1): a list, an
                array or a CPU tensor.

        Raises:
            ConfigError: lengths that are no such numbers; it is a ValueError.
            InfeasibleError: a length above the capacity, or fewer samples than bins asked for; it is a ValueError.
        """
        modified = self.algorithm is PackingAlgorithm.MODIFIED_FIRST_FIT_DECREASING
        lengths = _checks.integers("sequence_lengths", sequence_lengths, minimum=int(modified))
        if exact_sum(lengths) >= _checks.LARGEST:
            raise ConfigError(f"`sequence_lengths` must add up to less than 2**62, but got {exact_sum(lengths)}.")
        if lengths.max(initial=0) > self.bin_capacity:
            at = int(np.argmax(lengths > self.bin_capacity))
            raise InfeasibleError(
                f"sequence {at} has length {lengths[at]}, more than `bin_capacity` {self.bin_capacity}."
            )
        bins = self._with_promised_count(self._fewest(lengths), lengths)
        if self.collect_metrics:
            self._collected.append(self.compute_metrics(sequence_lengths, bins))
        return bins

    def compute_metrics(self, sequence_lengths: Sequence[int], bins: list[list[int]]) -> dict[str, float]:
        """What a packing is worth, without keeping it: counts, tokens and shares.

        Returns:
            "num_sequences", "num_bins"; "total_tokens", "total_capacity", "total_waste" (tokens); "utilization" (tokens
            per token of capacity), "waste_ratio" (1 - utilization), "min_utilization" and "max_utilization" of one bin;
            "imbalance" (fullest bin over mean bin, 1 is even); "least_possible_bins" (tokens over capacity, rounded
            up) and "bin_efficiency" (that over `num_bins`). Without bins the shares are 0 and `imbalance` is 1.
        """
        lengths = _checks.integers("sequence_lengths", sequence_lengths).tolist()
        loads = [sum(lengths[index] for index in one) for one in bins]
        tokens, capacity, count = sum(loads), self.bin_capacity * len(bins), len(bins)
        least = -(-tokens // self.bin_capacity)
        share = tokens / capacity if count else 0.0
        return {
            "num_sequences": sum(map(len, bins)),
            "num_bins": count,
            "total_tokens": tokens,
            "total_capacity": capacity,
            "total_waste": capacity - tokens,
            "utilization": share,
            "waste_ratio": 1.0 - share if count else 0.0,
            "min_utilization": min(loads, default=0) / self.bin_capacity,
            "max_utilization": max(loads, default=0) / self.bin_capacity,
            "imbalance": max(loads) * count / tokens if tokens else 1.0,
            "least_possible_bins": least,
            "bin_efficiency": least / count if count else 0.0,
        }

    def get_aggregated_metrics(self) -> dict[str, float]:
        """Over all calls of `pack` since the last reset; {} where nothing is collected.

        Returns:
            "num_packing_operations", the sums of the counts and tokens of `compute_metrics`, "utilization",
            "waste_ratio" and "bin_efficiency" of these sums, the smallest and largest bin, and the mean "imbalance".
        """
        if not self._collected:
            return {}
        summed = ("num_sequences", "num_bins", "total_tokens", "total_capacity", "total_waste", "least_possible_bins")
        sums = {name: sum(one[name] for one in self._collected) for name in summed}
        share = sums["total_tokens"] / sums["total_capacity"] if sums["total_capacity"] else 0.0
        return {
            "num_packing_operations": len(self._collected),
            **sums,
            "utilization": share,
            "waste_ratio": 1.0 - share if sums["total_capacity"] else 0.0,
            "min_utilization": min(one["min_utilization"] for one in self._collected),
            "max_utilization": max(one["max_utilization"] for one in self._collected),
            "imbalance": fmean(one["imbalance"] for one in self._collected),
            "bin_efficiency": sums["least_possible_bins"] / sums["num_bins"] if sums["num_bins"] else 0.0,
        }

    def reset_metrics(self) -> None:
        """Forget what was collected."""
        self._collected.clear()

    def print_metrics(self) -> None:
        """Write the aggregated metrics to standard output, one a line."""
        metrics = self.get_aggregated_metrics()
        for name, value in metrics.items():
            print(f"{name}: {value:,.4g}" if isinstance(value, float) else f"{name}: {value:,}")
        if not metrics:
            print("no metrics: pack something with `collect_metrics=True`")

    def _fewest(self, lengths: Int64Array) -> list[list[int]]:
        """The bins that the algorithm makes, before their number is raised."""
        if self.algorithm is PackingAlgorithm.MODIFIED_FIRST_FIT_DECREASING:
            searched = pack(lengths, self.bin_capacity, algorithm="exact_fill", effort="fast")
            if searched.gap == 0:
                return searched.to_lists()
            modified = _modified_first_fit_decreasing(lengths.tolist(), self.bin_capacity)
            return modified if len(modified) < searched.num_bins else searched.to_lists()
        order, rule = None, "next_fit"
        if self.algorithm is PackingAlgorithm.FIRST_FIT_DECREASING:
            rule = "first_fit_decreasing"
        elif self.algorithm is PackingAlgorithm.FIRST_FIT_SHUFFLE:
            rule, order = "first_fit", np.random.default_rng(self.seed).permutation(len(lengths)).astype(np.int32)
        return Assignment(*fit_bins(lengths, order, self.bin_capacity, rule)).to_bins()

    def _with_promised_count(self, bins: list[list[int]], lengths: Int64Array) -> list[list[int]]:
        """As many bins as were promised: the fullest ones that can be cut are."""
        multiple = self.bin_count_multiple or 1
        promised = -(-max(len(bins), self.min_bin_count or 0) // multiple) * multiple
        if promised > len(lengths):
            raise InfeasibleError(
                f"{promised} non-empty bins (`min_bin_count` {self.min_bin_count}, `bin_count_multiple`"
                f" {self.bin_count_multiple}) need as many samples, but there are only {len(lengths)}."
            )
        return cut_into(bins, lengths.tolist(), promised)


def _modified_first_fit_decreasing(lengths: list[int], capacity: int) -> list[list[int]]:
    """MFFD of Johnson and Garey, "A 71/60 theorem for bin packing", Journal of Complexity 1, 1985.

    Samples above a half of the capacity get a bin each, longest first. From the first bin on, each takes the longest
    sample above a third that fits. From the last on, those without one take two samples above a sixth, the shortest and
    the longest beside it, if two fit. From the first on, all take the longest samples left as long as one fits. What is
    then left goes by first-fit decreasing into bins of its own.

    Args:
        lengths: positive, at most `capacity`.
        capacity: most tokens in one bin.

    Returns:
        Bins of indices.
    """
    ascending = sorted(range(len(lengths)), key=lambda index: (lengths[index], -index))
    sizes = [lengths[index] for index in ascending]
    sixth, third, half = (bisect_right(sizes, capacity // part) for part in (6, 3, 2))
    bins = [[index] for index in reversed(ascending[half:])]
    room = [capacity - lengths[one[0]] for one in bins]
    medium, small, tiny = _Shelf(ascending, sizes, third, half), _Shelf(ascending, sizes, sixth, third), sixth

    def put(at: int, index: int) -> None:
        bins[at].append(index)
        room[at] -= lengths[index]

    for at, free in enumerate(room):
        if medium.sizes and medium.sizes[0] <= free:
            put(at, medium.take_longest(free))
    for at in range(len(bins) - 1, -1, -1):
        if len(bins[at]) == 1 and len(small.sizes) > 1 and sum(small.sizes[:2]) <= room[at]:
            put(at, small.take(0))
            put(at, small.take_longest(room[at]))
    left = _Shelf(ascending, sizes, 0, tiny)
    left.indices += small.indices + medium.indices
    left.sizes += small.sizes + medium.sizes
    for at in range(len(bins)):
        while left.sizes and left.sizes[0] <= room[at]:
            put(at, left.take_longest(room[at]))
    rest = np.array(left.indices[::-1], np.int64)
    columns = np.array([lengths[index] for index in left.indices[::-1]], np.int64)
    further = Assignment(*fit_bins(columns, None, capacity, "first_fit_decreasing")).to_bins()
    return bins + [rest[one].tolist() for one in further]


class _Shelf:
    """Samples of one size class, ascending; taken one by one."""

    def __init__(self, ascending: list[int], sizes: list[int], begin: int, end: int) -> None:
        self.indices, self.sizes = ascending[begin:end], sizes[begin:end]

    def take(self, at: int) -> int:
        del self.sizes[at]
        return self.indices.pop(at)

    def take_longest(self, room: int) -> int:
        """The longest that fits; one does."""
        return self.take(bisect_right(self.sizes, room) - 1)


def _algorithm(algorithm: Any) -> PackingAlgorithm:
    if isinstance(algorithm, PackingAlgorithm):
        return algorithm
    # The peer's own enum is taken by its member names.
    name = algorithm if isinstance(algorithm, str) else getattr(algorithm, "name", None)
    if isinstance(name, str) and name.upper() in PackingAlgorithm.__members__:
        return PackingAlgorithm[name.upper()]
    known = ", ".join(PackingAlgorithm.__members__)
    raise ConfigError(f"`algorithm` must be one of {known} (in any case), but got {shown(algorithm)}.")
