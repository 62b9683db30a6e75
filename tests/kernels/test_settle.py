"""The settling kernel: both implementations agree bit by bit, and bins only come closer to their capacity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import _kernels
from tests.kernels.conftest import COMPILED, REFERENCE

needs_both = pytest.mark.skipif(_kernels.backend == "reference", reason="the compiled kernels are switched off")
ANY = REFERENCE if _kernels.backend == "reference" else COMPILED


@st.composite
def layouts(draw):
    """(cost, tokens, capacity, bin_of): about even, or at random; some bins have more entries than are listed."""
    num_bins = draw(st.integers(1, 6))
    n = num_bins + draw(st.sampled_from([0, 3, 20, 60, 200]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    tokens = np.sort(generator.integers(1, draw(st.sampled_from([3, 40, 3000])), n))[::-1].copy()
    cost = tokens * tokens if draw(st.booleans()) else generator.integers(0, 1 << 40, n)
    bin_of = np.arange(n, dtype=np.int32) % num_bins
    if draw(st.booleans()):
        used = tokens[:num_bins].copy()
        for entry in range(num_bins, n):
            bin_of[entry] = np.argmin(used)
            used[bin_of[entry]] += tokens[entry]
    else:
        bin_of = generator.integers(0, draw(st.integers(1, num_bins)), n).astype(np.int32)
    return cost, tokens, int(tokens.sum()) // num_bins + draw(st.integers(0, 3)), bin_of


def _settle(implementation, cost, tokens, capacity, bin_of, num_bins, max_checks=20_000):
    module, settled = implementation.module("settle"), bin_of.copy()
    workspace = np.empty(module.settle_workspace(tokens.size, num_bins), np.uint8)
    return module.settle(cost, tokens, capacity, num_bins, max_checks, settled, workspace), settled


def _excess(tokens, capacity, bin_of, num_bins):
    return np.bincount(bin_of, tokens, num_bins).astype(np.int64) - capacity


@needs_both
@settings(max_examples=150, deadline=None)
@given(layouts(), st.sampled_from([0, 10, 1000, 20_000]))
def test_bit_equal(layout, max_checks):
    num_bins = int(layout[3].max()) + 1
    compiled, reference = (_settle(one, *layout, num_bins, max_checks) for one in (COMPILED, REFERENCE))
    assert compiled[0] == reference[0]
    assert compiled[1].tolist() == reference[1].tolist()


@settings(max_examples=150, deadline=None)
@given(layouts())
def test_bins_come_closer_to_their_capacity_and_none_is_emptied(layout):
    _, tokens, capacity, bin_of = layout
    num_bins = int(bin_of.max()) + 1
    (left, _), settled = _settle(ANY, *layout, num_bins)
    before, after = (_excess(tokens, capacity, one, num_bins) for one in (bin_of, settled))
    assert left == np.maximum(after, 0).sum() <= np.maximum(before, 0).sum()
    assert np.bincount(settled, minlength=num_bins)[np.unique(bin_of)].all()


@pytest.mark.parametrize("seed", range(5))
def test_full_bins_of_many_lengths_are_settled(implementation, seed):
    generator = np.random.default_rng(seed)
    rows = generator.integers(1, 200, (8, 20))
    rows[:, -1] += rows.sum(axis=1).max() - rows.sum(axis=1)  # all rows have the same sum: a layout without excess
    tokens = np.sort(rows.reshape(-1))[::-1].copy()
    bin_of = (np.arange(tokens.size) % 8).astype(np.int32)
    assert _excess(tokens, int(rows[0].sum()), bin_of, 8).max() > 0
    (left, checks), settled = _settle(implementation, tokens**2, tokens, int(rows[0].sum()), bin_of, 8, 1_000_000)
    assert left == 0
    assert checks < 1_000_000
    assert not _excess(tokens, int(rows[0].sum()), settled, 8).any()


def test_of_exchanges_that_fit_the_one_that_changes_costs_least(implementation):
    # Two entries for one are needed: 9 + 3 or 8 + 4, for 11.
    tokens = np.array([11, 9, 8, 4, 3, 1], np.int64)
    cost = np.array([100, 60, 80, 19, 10, 0], np.int64)
    bin_of = np.array([0, 1, 1, 1, 1, 0], np.int32)
    (left, _), settled = _settle(implementation, cost, tokens, 23, bin_of, 2)
    assert left == 0
    assert settled.tolist() == [1, 1, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": np.zeros(2, np.int64)}, "same length"),
        ({"tokens": np.array([1, 2, 3], np.int64)}, "descend"),
        ({"bin_of": np.array([0, 1, 2], np.int32)}, "name bins"),
        ({"num_bins": 0}, "positive"),
    ],
)
def test_refused(implementation, change, message):
    made = {"cost": np.zeros(3, np.int64), "tokens": np.array([3, 2, 1], np.int64), "bin_of": np.zeros(3, np.int32)}
    made |= {"capacity": 3, "num_bins": 2, "max_checks": 9} | change
    module = implementation.module("settle")
    with pytest.raises(ValueError, match=message):
        module.settle(**made, workspace=np.empty(module.settle_workspace(3, 2), np.uint8))


def test_nothing_to_settle(implementation):
    none = np.empty(0, np.int64)
    assert _settle(implementation, none, none, 5, np.empty(0, np.int32), 1)[0] == (0, 0)
