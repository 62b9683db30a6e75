"""The packers of NeMo-RL: names, counts that are kept, metrics, and what is better than there."""

from __future__ import annotations

import enum
import re
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing import ConfigError, InfeasibleError, pack
from packing.compat import nemo_rl
from packing.compat.nemo_rl import PackingAlgorithm, get_packer

ALL = list(PackingAlgorithm)


@st.composite
def inputs(draw):
    capacity = draw(st.integers(1, 60))
    return draw(st.lists(st.integers(1, capacity), max_size=40)), capacity


def valid(bins, lengths, capacity) -> bool:
    return sorted(chain.from_iterable(bins)) == list(range(len(lengths))) and all(
        one and sum(lengths[i] for i in one) <= capacity for one in bins
    )


@given(inputs(), st.sampled_from(ALL), st.integers(0, 12), st.integers(1, 6))
def test_counts_are_kept_exactly_or_refused(given_, algorithm, least, multiple):
    lengths, capacity = given_
    free = get_packer(algorithm, capacity).pack(lengths)
    assert valid(free, lengths, capacity)
    promised = -(-max(len(free), least) // multiple) * multiple
    packer = get_packer(algorithm, capacity, min_bin_count=least, bin_count_multiple=multiple)
    if promised > len(lengths):
        with pytest.raises(InfeasibleError, match=f"^{promised} non-empty bins"):
            packer.pack(lengths)
        return
    bins = packer.pack(lengths)
    assert valid(bins, lengths, capacity)
    assert len(bins) == promised
    # Further bins are parts of those that there were.
    whole = {i: at for at, one in enumerate(free) for i in one}
    assert all(len({whole[i] for i in one}) == 1 for one in bins)


@pytest.mark.parametrize("algorithm", ALL)
def test_names_are_taken_in_any_case_and_as_members_of_the_peers_enum(algorithm):
    peer = enum.Enum("PackingAlgorithm", {one.name: one.value for one in ALL})
    for name in (algorithm, algorithm.name, algorithm.name.lower(), algorithm.name.title(), peer[algorithm.name]):
        packer = get_packer(name, 8)
        assert packer.algorithm is algorithm
        assert packer.pack([8, 3, 8]) == get_packer(algorithm, 8).pack(np.array([8, 3, 8], np.int32))


def test_samples_in_order_go_into_the_newest_bin():
    assert get_packer("concatenative", 5).pack([4, 1, 3, 2, 1, 3, 4, 5]) == [[0, 1], [2, 3], [4, 5], [6], [7]]
    assert get_packer("concatenative", 8).pack([4, 1, 3, 2, 1, 3, 4, 5]) == [[0, 1, 2], [3, 4, 5], [6], [7]]


def test_order_survives_where_bins_are_cut():
    bins = get_packer("concatenative", 10, bin_count_multiple=4).pack([5, 5, 1, 1, 1, 1, 6])
    assert sorted(bins) == [[0], [1], [2, 3, 4, 5], [6]]


def test_the_fullest_bin_is_cut_where_the_halves_are_closest():
    assert get_packer("concatenative", 12, min_bin_count=2).pack([1, 1, 3, 5, 2]) == [[0, 1, 2], [3, 4]]
    assert get_packer("concatenative", 12, min_bin_count=2).pack([9, 1, 1]) == [[0], [1, 2]]
    assert get_packer("concatenative", 12, min_bin_count=2).pack([1, 1, 9]) == [[0, 1], [2]]
    assert get_packer("concatenative", 12, min_bin_count=3).pack([0, 0, 0]) == [[0], [1], [2]]


@given(inputs())
def test_decreasing_is_the_packages_own(given_):
    lengths, capacity = given_
    ours = pack(lengths, capacity, algorithm="first_fit_decreasing").to_lists()
    assert get_packer("first_fit_decreasing", capacity).pack(lengths) == ours


def test_a_shuffle_has_a_seed():
    lengths = np.random.default_rng(3).integers(1, 50, 200).tolist()
    first = get_packer("first_fit_shuffle", 64)
    assert first.pack(lengths) == first.pack(lengths) == get_packer("first_fit_shuffle", 64, seed=0).pack(lengths)
    assert first.pack(lengths) != get_packer("first_fit_shuffle", 64, seed=1).pack(lengths)
    state = np.random.get_state()[1].tolist()
    get_packer("first_fit_shuffle", 64).pack(lengths)
    assert np.random.get_state()[1].tolist() == state


@given(inputs())
def test_modified_first_fit_decreasing_is_never_worse_than_that_algorithm(given_):
    lengths, capacity = given_
    plain = nemo_rl._modified_first_fit_decreasing(lengths, capacity)
    assert valid(plain, lengths, capacity)
    ours = get_packer("modified_first_fit_decreasing", capacity).pack(lengths)
    assert len(ours) <= len(plain)
    assert len(ours) <= pack(lengths, capacity, algorithm="first_fit_decreasing").num_bins


def test_modified_first_fit_decreasing_goes_through_its_five_passes():
    # A large one with the longest medium one that fits, one with the shortest and the longest small one that fit, then
    # what still fits from the longest, then first-fit decreasing.
    lengths = [60, 55, 34, 45, 20, 17, 28, 5, 4, 40, 35, 33]
    bins = nemo_rl._modified_first_fit_decreasing(lengths, 100)
    assert [[lengths[i] for i in one] for one in bins] == [[60, 40], [55, 45], [35, 34, 28], [33, 20, 17, 5, 4]]
    assert nemo_rl._modified_first_fit_decreasing([52, 17, 20, 30, 18], 100) == [[0, 1, 3], [2, 4]]


def test_modified_first_fit_decreasing_is_kept_where_the_search_finds_no_fewer(monkeypatch):
    lengths = [5, 6, 4, 3]
    monkeypatch.setattr(nemo_rl, "pack", lambda lengths, capacity, **_: pack(lengths, capacity, algorithm="next_fit"))
    assert pack(lengths, 9, algorithm="next_fit").num_bins == 3
    assert get_packer("modified_first_fit_decreasing", 9).pack(lengths) == [[1, 3], [0, 2]]


@pytest.mark.parametrize("algorithm", ALL)
def test_no_samples_give_no_bin(algorithm):
    assert get_packer(algorithm, 8, bin_count_multiple=4).pack([]) == []
    with pytest.raises(InfeasibleError, match=r"^4 non-empty bins .* there are only 0\.$"):
        get_packer(algorithm, 8, min_bin_count=1, bin_count_multiple=4).pack([])


def test_metrics_of_one_packing_and_of_all(capsys):
    packer = get_packer("concatenative", 10, collect_metrics=True)
    assert packer.get_aggregated_metrics() == {}
    assert packer.pack([6, 3, 7]) == [[0, 1], [2]]
    one = packer.compute_metrics([6, 3, 7], [[0, 1], [2]])
    assert one == pytest.approx(
        {
            "num_sequences": 3, "num_bins": 2, "total_tokens": 16, "total_capacity": 20, "total_waste": 4,
            "utilization": 0.8, "waste_ratio": 0.2, "min_utilization": 0.7, "max_utilization": 0.9,
            "imbalance": 1.125, "least_possible_bins": 2, "bin_efficiency": 1.0,
        }
    )  # fmt: skip
    packer.pack([1, 10])
    total = packer.get_aggregated_metrics()
    assert total["num_packing_operations"] == 2
    assert (total["num_bins"], total["total_tokens"], total["utilization"]) == (4, 27, 27 / 40)
    assert (total["min_utilization"], total["max_utilization"]) == (0.1, 1.0)
    assert total["imbalance"] == pytest.approx((1.125 + 20 / 11) / 2)
    assert capsys.readouterr().out == ""  # packing prints nothing
    packer.print_metrics()
    assert "num_bins: 4\n" in capsys.readouterr().out
    packer.reset_metrics()
    packer.print_metrics()
    assert capsys.readouterr().out == "no metrics: pack something with `collect_metrics=True`\n"


def test_metrics_are_not_collected_unless_asked_for():
    packer = get_packer("concatenative", 10)
    packer.pack([1])
    assert packer.get_aggregated_metrics() == {}
    assert packer.compute_metrics([], [])["imbalance"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("best_fit", 8),
            "`algorithm` must be one of CONCATENATIVE, FIRST_FIT_DECREASING, FIRST_FIT_SHUFFLE,"
            " MODIFIED_FIRST_FIT_DECREASING (in any case), but got 'best_fit'.",
        ),
        ((None, 8), "`algorithm` must be one of .*, but got None."),
        (("concatenative", 0), "`bin_capacity` must be a positive integer, but got 0."),
        (("concatenative", True), "`bin_capacity` must be a positive integer, but got True."),
        (("concatenative", 8, 1), "`collect_metrics` must be true or false, but got 1."),
        (("concatenative", 8, False, -1), "`min_bin_count` must be a non-negative integer, but got -1."),
        (("concatenative", 8, False, None, 0), "`bin_count_multiple` must be a positive integer, but got 0."),
    ],
)
def test_a_wrong_setting_is_named(arguments, message):
    with pytest.raises(ConfigError, match="^" + re.escape(message).replace(r"\.\*", ".*") + "$"):
        get_packer(*arguments)


def test_wrong_lengths_are_named():
    packer = get_packer("modified_first_fit_decreasing", 8)
    with pytest.raises(InfeasibleError, match=r"^sequence 1 has length 9, more than `bin_capacity` 8\.$"):
        packer.pack([1, 9])
    with pytest.raises(ConfigError, match=r"^`sequence_lengths` must be positive, but got 0 at index 1\.$"):
        packer.pack([1, 0])
    with pytest.raises(ConfigError, match=r"^`sequence_lengths` must hold whole numbers, but got nan at index 0\.$"):
        packer.pack([float("nan")])
    with pytest.raises(ConfigError, match=r"^`sequence_lengths` must add up to less than 2\*\*62, but got"):
        get_packer("concatenative", 2**62).pack([2**61, 2**61])
    assert get_packer("concatenative", 8).pack([0, 8, 0]) == [[0, 1, 2]]
