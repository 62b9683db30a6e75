"""What is promised to everybody (the kit), and what these two promise beyond it."""

import numpy as np
import pytest

from packing import ConfigError, Planner
from packing.testing import AlgorithmConformance, EstimatorConformance


class TestSnake(AlgorithmConformance):
    """Every sample once, caps kept, the same answer everywhere, ..."""

    config = "starter/snake"


class TestImages(EstimatorConformance):
    """A cost for each sample, the same everywhere, ..."""

    config = "starter/images"


class TestHeavyImages(EstimatorConformance):
    """The same with an option."""

    config = {"name": "starter/images", "weight": 7}  # noqa: RUF012 - a setting of the kit, nobody changes it


def test_the_snake_turns_round():
    """The heaviest and the lightest of four samples share a bin."""
    plan = Planner(data_parallel_size=2, algorithm="starter/snake").plan([40, 10, 30, 20])
    assert [plan.rank(0), plan.rank(1)] == [[[0, 1]], [[2, 3]]]


def test_images_cost_more():
    """By the weight."""
    plan = Planner(data_parallel_size=1, estimator={"name": "starter/images", "weight": 3}).plan(
        {"length": np.array([10, 10]), "image_tokens": np.array([0, 5])}
    )
    assert plan.fixed_costs.tolist() == [10, 25]


@pytest.mark.parametrize("weight", [-1, 1.5, True, "2"])
def test_a_wrong_weight_is_named(weight):
    """Before the first step, not in the middle of a run."""
    with pytest.raises(ConfigError, match="`weight` must be a non-negative integer, but got"):
        Planner(data_parallel_size=1, estimator={"name": "starter/images", "weight": weight})
