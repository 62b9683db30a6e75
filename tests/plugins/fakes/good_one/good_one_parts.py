"""What the specs of `good_one` point at; nothing imports it before it is used."""

from __future__ import annotations

import numpy as np

from packing.plugin import Assignment


class Snake:
    """The longest first, forth and back over the bins. Names no objective, so it is taken for indifferent."""

    def __init__(self, *, reverse: bool = False, weights: dict | None = None) -> None:
        self.reverse = reverse
        if weights is not None:
            weights.clear()  # a factory may use up what it is given

    def assign(self, problem):
        bins = problem.num_bins
        order = np.argsort(-problem.cost, kind="stable")
        places = np.arange(order.size) % (2 * bins)
        bin_of = np.empty(order.size, np.int64)
        bin_of[order] = np.where(places < bins, places, 2 * bins - 1 - places)
        return Assignment.from_bin_of(bins - 1 - bin_of if self.reverse else bin_of, bins)


class Needy(Snake):
    def __init__(self, depth: int, *, width: int = 1) -> None:
        super().__init__()
        self.depth, self.width = depth, width


class Focused(Snake):
    """Takes the objective as an option of its own."""

    def __init__(self, objective: str = "makespan") -> None:
        super().__init__()
        self.objective = objective


def make_snake():
    return Snake()


class Words:
    columns = ("words",)

    def __call__(self, columns):
        return np.asarray(columns["words"])
