"""Published figures of Krell, Multipack, SeqPacker and best-fit packing: each reproduced or beaten."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from packing import _kernels, pack
from tests.conftest import ROOT, data_folder

pytestmark = [
    pytest.mark.skipif(_kernels.backend == "reference", reason="millions of sequences"),
    pytest.mark.skipif(not (data_folder() / "references").exists(), reason="the published tables are not here"),
]


@pytest.fixture(scope="module")
def published():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "ci" / "bench"))
        yield importlib.import_module("bench_published")


def all_met(figures) -> int:
    figures = list(figures)
    assert [str(one) for one in figures if not one.met] == []
    return len(figures)


def test_a_figure_is_compared_as_precisely_as_it_was_published(published):
    figure = published.Figure
    assert figure("table", "row", "efficiency", 98.16, 98.1551).met
    assert not figure("table", "row", "efficiency", 98.16, 98.1549).met
    assert figure("table", "row", "bins", 37, 37, lower_is_better=True).met
    assert not figure("table", "row", "bins", 37, 38, lower_is_better=True).met


def test_packs_of_limited_depth(published):
    figures = list(published.krell())
    published.wikipedia.cache_clear()  # 130 MB
    assert all_met(figures) == 60
    # Longest-pack-first histogram packing is best-fit decreasing.
    same = [one for one in figures if one.row.startswith("LPFHP") and one.column == "n_packs"]
    assert [one.ours for one in same] == [one.published for one in same]
    assert len(same) == 8


def test_steps_for_eight_ranks(published):
    assert all_met(published.multipack(epochs=1, effort=19_000)) == 15  # "normal" for 166 samples


def test_bins_of_every_algorithm(published):
    assert all_met(published.seqpacker()) == 820


def test_rules_of_the_same_name_open_as_many_bins(published):
    same = [one for one in published.seqpacker() if one.column != "exact_fill"]
    assert len(same) == 200
    assert all(one.ours == one.published for one in same)


def test_documents_are_cut_only_where_they_must_be(published):
    pytest.importorskip("datasets")
    assert all_met(published.best_fit_packing()) == 4


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 8, 12, 16, None])
def test_exact_fill_needs_no_more_packs_than_best_fit_at_any_depth(published, depth):
    # A sample of the sixteen million in which every length keeps its share.
    lengths = published.wikipedia()[::1000]
    published.wikipedia.cache_clear()
    fewest = pack(lengths, 512, max_items=depth, algorithm="exact_fill", effort="fast")
    assert fewest.num_bins <= pack(lengths, 512, max_items=depth).num_bins
    assert np.diff(fewest.offsets).max() <= (depth or len(lengths))
