"""The estimator `images`: the tokens of images cost more than those of text."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from packing import ConfigError


@dataclass(frozen=True)
class ImageEstimator:
    """Cost = length + weight * image_tokens; integers, so that every rank computes the same."""

    weight: int = 2
    columns: ClassVar = ("length", "image_tokens")

    def __post_init__(self):
        if type(self.weight) is not int or self.weight < 0:
            raise ConfigError(f"`weight` must be a non-negative integer, but got {self.weight!r}.")

    def __call__(self, columns):
        """The costs, int64[N]."""
        length, image_tokens = (np.asarray(columns[name], np.int64) for name in self.columns)
        return length + self.weight * image_tokens
