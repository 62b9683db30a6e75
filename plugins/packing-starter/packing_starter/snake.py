"""The algorithm `snake`: heaviest sample first, to and fro over the bins."""

import numpy as np

from packing.plugin import BinState


class Snake:
    """Bins 0, 1, ..., K-1 take one sample each, then K-1, ..., 1, 0, and so on. Equal costs go by index."""

    def assign(self, problem):
        """The layout, or None where a sample does not fit into the bin whose turn it is."""
        if problem.num_samples < problem.num_bins:
            return None
        state = BinState(problem)
        for turn, sample in enumerate(np.argsort(-problem.cost, kind="stable").tolist()):
            lap, place = divmod(turn, problem.num_bins)
            chosen = place if lap % 2 == 0 else problem.num_bins - 1 - place
            if not state.fits(chosen, sample):
                return None
            state.add(chosen, sample)
        return state.assignment()
