"""Problem: one step as frozen NumPy columns and limits; all that an algorithm sees."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from packing import _checks
from packing._checks import Int64Array, shown
from packing._fixed_point import SUM_BITS, exact_sum
from packing.assignment import Assignment
from packing.bin_state import BinState
from packing.errors import ConfigError
from packing.objectives import OBJECTIVE_NAMES, OBJECTIVES, Objective, get_objective

__all__ = ["CAPABILITIES", "BinState", "Problem"]

CAPABILITIES = frozenset(
    {
        "capacity", "budgets", "multi_bin", "rounds", "pad_cost", "oversized", "equal_count", "group", "forbid",
        "max_items", "open_bins", *OBJECTIVE_NAMES,
    }
)  # fmt: skip
"""Every feature that a problem can need and an algorithm can declare; names of objectives among them."""


def _column(name: str, values: Any, length: int, *, minimum: int = 0) -> Int64Array:
    array = _checks.integers(name, values, minimum=minimum)
    if array.size != length:
        raise ConfigError(f"`{name}` must have one value for each of the {length} samples, but got {array.size}.")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One step. Arrays are copied, C-contiguous and read-only; index order is `SampleKey` order, so the index is the
    tie-breaker. Legend: N samples, R ranks, M bins per rank, K = R * M bins, B budgets, C cost components.

    Args:
        tokens: int64[N], positive; length counted against `capacity`, already rounded up to the alignment.
        cost: int64[N], non-negative; balance cost in fixed point. Sums (padding included) stay below 2**62.
        ranks: R, virtual ranks; bins are rank-major.
        bins_per_rank: M, or None for an open problem: the smallest count that fits.
        capacity: token cap of a bin: one int, int64[K], or None for no cap.
        footprints: int64[N, B], additive use of each budget. budgets: int64[B], hard caps per bin. budget_names: B.
        round_size: g, ranks that wait for each other in one synchronous round; default R.
        objective: an `Objective`, its name, or a mapping with its name and parameters.
        pad_cost: int64[max capacity + 1], cost of t unused tokens of a bin, or None.
        max_items: most samples in one bin, or None.
        equal_count: every rank gets the same number of samples.
        group: int64[N] or None; samples with one non-negative value stay together, -1 marks a sample of no group.
        group_scope: "bin" or "rank": where a group stays together.
        forbid: int64[N] or None; samples with different values never share a bin.
        oversized: "error" or "single": a sample longer than the capacity is an error, or alone in its own bin.
        reference: a known-feasible original layout, or None.
        cost_exponent: costs are fixed-point numbers, value * 2**cost_exponent; only for display.
        budget_exponents: the same for each budget and its footprints; empty: all 0.
        components: int64[N, C], the weighted cost of each sample in each component that the objective `components`
            names, in its order; the rows add up to `cost`. None: no components. Not together with `pad_cost`, which
            belongs to no component.

    Raises:
        ConfigError: a field has a wrong type, shape or value.
    """

    tokens: Int64Array
    cost: Int64Array
    ranks: int
    bins_per_rank: int | None = 1
    capacity: int | Int64Array | None = None
    footprints: Int64Array | None = None
    budgets: Int64Array | None = None
    budget_names: tuple[str, ...] = ()
    round_size: int | None = None
    objective: Objective = OBJECTIVES["makespan"]
    pad_cost: Int64Array | None = None
    max_items: int | None = None
    equal_count: bool = False
    group: Int64Array | None = None
    group_scope: str = "bin"
    forbid: Int64Array | None = None
    oversized: str = "error"
    reference: Assignment | None = None
    cost_exponent: int = 0
    budget_exponents: tuple[int, ...] = ()
    components: Int64Array | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        tokens = _checks.integers("tokens", self.tokens, minimum=1)
        tokens.flags.writeable = False
        put(self, "tokens", tokens)
        put(self, "cost", _column("cost", self.cost, tokens.size))
        put(self, "ranks", _checks.integer("ranks", self.ranks, minimum=1))
        put(self, "bins_per_rank", _checks.optional_integer("bins_per_rank", self.bins_per_rank, minimum=1))
        round_size = (
            self.ranks if self.round_size is None else _checks.integer("round_size", self.round_size, minimum=1)
        )
        if self.ranks % round_size:
            raise ConfigError(f"`round_size` must divide the {self.ranks} ranks, but got {round_size}.")
        put(self, "round_size", round_size)
        put(self, "capacity", self._checked_capacity())
        self._check_budgets()
        if not isinstance(self.objective, Objective):
            put(self, "objective", get_objective(self.objective))
        if not isinstance(self.reference, (Assignment, type(None))):
            raise ConfigError(f"`reference` must be an Assignment or None, but got {shown(self.reference)}.")
        put(self, "cost_exponent", _checks.integer("cost_exponent", self.cost_exponent))
        put(
            self, "max_items", _checks.optional_integer("max_items", self.max_items, minimum=1, maximum=_checks.LARGEST)
        )
        put(self, "equal_count", _checks.boolean("equal_count", self.equal_count))
        _checks.one_of("group_scope", self.group_scope, ("bin", "rank"))
        _checks.one_of("oversized", self.oversized, ("error", "single"))
        for name, minimum in (("group", -1), ("forbid", 0)):
            if getattr(self, name) is not None:
                put(self, name, _column(name, getattr(self, name), tokens.size, minimum=minimum))
        self._check_pad_cost()
        self._check_components()
        self._check_sums()

    def __reduce__(self) -> tuple[Any, ...]:
        # NumPy forgets on the way through a pickle that an array is read-only.
        return Problem, tuple(getattr(self, one.name) for one in dataclasses.fields(self))

    def _checked_capacity(self) -> int | Int64Array | None:
        scalar: Any = self.capacity
        if not isinstance(scalar, (list, tuple)) and np.ndim(scalar) == 0:
            return _checks.optional_integer("capacity", scalar, minimum=1, maximum=_checks.LARGEST)
        if self.bins_per_rank is None:
            raise ConfigError("`capacity` of an open problem must be one integer or None.")
        capacity = _checks.integers("capacity", self.capacity, minimum=1)
        if capacity.size != self.ranks * self.bins_per_rank:
            raise ConfigError(
                f"`capacity` must have one value for each of the {self.num_bins} bins, got {capacity.size}."
            )
        capacity.flags.writeable = False
        return capacity

    def _check_budgets(self) -> None:
        if (self.footprints is None) != (self.budgets is None):
            raise ConfigError("`footprints` and `budgets` must be given together.")
        if self.budgets is None:
            return
        budgets = _checks.integers("budgets", self.budgets)
        try:
            footprints = np.asarray(self.footprints)
        except ValueError:
            raise ConfigError("`footprints` must have one value for each sample and budget.") from None
        if footprints.shape != (self.num_samples, budgets.size):
            raise ConfigError(
                f"`footprints` must have shape ({self.num_samples}, {budgets.size}), but got {footprints.shape}."
            )
        flat = _checks.integers("footprints", footprints.reshape(-1)).reshape(footprints.shape)
        names = tuple(self.budget_names) or tuple(f"budget {b}" for b in range(budgets.size))
        if len(names) != budgets.size:
            raise ConfigError(f"`budget_names` must name {budgets.size} budgets, but got {len(names)}.")
        for array in (flat, budgets):
            array.flags.writeable = False
        object.__setattr__(self, "footprints", flat)
        object.__setattr__(self, "budgets", budgets)
        object.__setattr__(self, "budget_names", names)

    def _check_pad_cost(self) -> None:
        if self.pad_cost is None:
            return
        if self.capacity is None:
            raise ConfigError("`pad_cost` needs a `capacity`.")
        table = _checks.integers("pad_cost", self.pad_cost)
        if table.size != int(np.max(self.capacity)) + 1:
            raise ConfigError(f"`pad_cost` must have {int(np.max(self.capacity)) + 1} values, but got {table.size}.")
        table.flags.writeable = False
        object.__setattr__(self, "pad_cost", table)

    def _check_components(self) -> None:
        if self.components is None:
            if self.objective.name == "components":
                raise ConfigError("`components` must be given under the objective `components`.")
            return
        if self.pad_cost is not None:
            raise ConfigError("`pad_cost` must be None where there are `components`: it belongs to none of them.")
        values = np.asarray(self.components)
        names = [name for name, _ in self.objective.weights]
        if values.ndim != 2 or len(values) != self.num_samples or values.shape[1] != (len(names) or values.shape[1]):
            wanted = f"({self.num_samples}, {len(names) or 'C'})"
            raise ConfigError(f"`components` must have shape {wanted}, but got {values.shape}.")
        columns = _checks.integers("components", values.reshape(-1)).reshape(values.shape)
        # The sums of rows may have wrapped around; that of all values cannot.
        whole = exact_sum(columns.reshape(-1)) == exact_sum(self.cost)
        if not whole or not np.array_equal(columns.sum(axis=1), self.cost):
            raise ConfigError("`components` must add up to `cost` for every sample.")
        columns.flags.writeable = False
        object.__setattr__(self, "components", columns)

    def _check_sums(self) -> None:
        bins = self.num_bins if self.bins_per_rank is not None else self.num_samples
        padding = 0 if self.pad_cost is None else int(self.pad_cost.max()) * bins
        if exact_sum(self.cost) + padding >= 1 << SUM_BITS:
            raise ConfigError(
                f"`cost` overflows: the sum of all costs, padding included, must stay below 2**{SUM_BITS}, "
                f"but got {exact_sum(self.cost) + padding}."
            )
        columns = [("tokens", self.tokens)]
        if self.footprints is not None:
            columns += [(name, self.footprints[:, b]) for b, name in enumerate(self.budget_names)]
        for name, column in columns:
            total = exact_sum(column)
            if total >= 1 << SUM_BITS:
                raise ConfigError(f"`{name}` overflows: its sum must stay below 2**{SUM_BITS}, but got {total}.")

    @property
    def num_samples(self) -> int:
        """N."""
        return self.tokens.size

    @property
    def num_bins(self) -> int:
        """K; of an open problem an error."""
        if self.bins_per_rank is None:
            raise ConfigError("an open problem has no fixed number of bins.")
        return self.ranks * self.bins_per_rank

    @property
    def max_capacity(self) -> int | None:
        """The largest token cap of a bin, or None."""
        return None if self.capacity is None else int(np.max(self.capacity))

    def budget_amount(self, budget: int, fixed: int) -> str:
        """A fixed-point amount of a budget in the user's unit, for messages."""
        exponent = self.budget_exponents[budget] if self.budget_exponents else 0
        return str(fixed) if exponent == 0 else repr(math.ldexp(fixed, -exponent))

    def capacities(self) -> Int64Array:
        """int64[K]: the cap of every bin; without a cap, 2**62."""
        capacity = 1 << SUM_BITS if self.capacity is None else self.capacity
        return np.ascontiguousarray(np.broadcast_to(np.asarray(capacity, np.int64), (self.num_bins,)))

    def with_bins_per_rank(self, bins_per_rank: int) -> Problem:
        """The same step with M fixed."""
        return dataclasses.replace(self, bins_per_rank=bins_per_rank)

    def is_oversized(self) -> npt.NDArray[np.bool_]:
        """bool[N]: samples longer than every bin's capacity."""
        return np.zeros(self.num_samples, bool) if self.capacity is None else self.tokens > np.max(self.capacity)

    def needs(self) -> frozenset[str]:
        """The capabilities that an algorithm must declare to be asked for this problem."""
        features = {
            "capacity": self.capacity is not None,
            "budgets": self.budgets is not None and self.budgets.size > 0,
            "multi_bin": self.bins_per_rank not in (None, 1),
            "open_bins": self.bins_per_rank is None,
            "rounds": self.round_size != self.ranks or self.objective.name == "rounds",
            "pad_cost": self.pad_cost is not None,
            "oversized": bool(self.is_oversized().any()),
            "equal_count": self.equal_count,
            "group": self.group is not None,
            "forbid": self.forbid is not None,
            "max_items": self.max_items is not None,
        }
        return frozenset(name for name, wanted in features.items() if wanted) | {self.objective.name}

    def pack_loads(self, assignment: Assignment) -> Int64Array:
        """int64[K]: cost of each bin, pad cost of its unused tokens included (a negative unused amount counts as 0)."""
        loads = assignment.sums(self.cost)
        if self.pad_cost is not None:
            unused = np.maximum(self.capacities() - assignment.sums(self.tokens), 0)
            loads = loads + self.pad_cost[unused]
        return loads

    def component_loads(self, assignment: Assignment) -> Int64Array | None:
        """int64[K, C]: weighted cost of each bin in each component; None without components."""
        return None if self.components is None else assignment.sums(self.components)

    def score(self, assignment: Assignment) -> int:
        """The objective's exact score of a layout."""
        assert self.bins_per_rank is not None
        assert self.round_size is not None
        return self.objective.score(self._scored(assignment), self.ranks, self.bins_per_rank, self.round_size)

    def delivered_score(self, assignment: Assignment) -> int:
        """The objective's exact score of a layout with every pack where it lies; see `Objective.delivered`."""
        assert self.bins_per_rank is not None
        assert self.round_size is not None
        return self.objective.delivered(self._scored(assignment), self.ranks, self.bins_per_rank, self.round_size)

    def _scored(self, assignment: Assignment) -> Int64Array:
        by_component = self.component_loads(assignment) if self.objective.name == "components" else None
        return self.pack_loads(assignment) if by_component is None else by_component
