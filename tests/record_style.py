"""Record-style algorithms as third parties write them, and records for them."""

from __future__ import annotations

import inspect
import itertools

from packing import (
    Planner,
    SampleKey,
    SampleMetadata,
    WorkloadCost,
)


class Snake:
    """As a third party writes it: no import of ours, heaviest first, there and back over the bins."""

    def assign(self, samples, *, reference_bins, constraints, data_parallel_size, local_batch_size):
        bins = [[] for _ in range(data_parallel_size * local_batch_size)]
        tokens = [0] * len(bins)
        ordered = sorted(samples, key=lambda sample: (-sample.cost.llm, sample.key))
        for turn, sample in enumerate(ordered):
            lap, step = divmod(turn, len(bins))
            at = step if lap % 2 == 0 else len(bins) - 1 - step
            bins[at].append(sample.key)
            tokens[at] += sample.pack_tokens
        if constraints.seq_len is not None and max(tokens) > constraints.seq_len:
            return reference_bins
        return bins

    def objective(self, rank_costs):
        return max(cost.llm for cost in rank_costs)


class Returns(Snake):
    """Gives back what `made` makes of the snake's bins."""

    def __init__(self, made):
        self.made = made

    def assign(self, samples, **settings):
        return self.made(super().assign(samples, **settings))

    # The signature is what tells the protocol.
    assign.__signature__ = inspect.signature(Snake.assign)


class Scores(Snake):
    """Has the objective that it is told."""

    def __init__(self, value):
        self.value = value

    def objective(self, rank_costs):
        return self.value(rank_costs) if callable(self.value) else self.value


def key(position: int) -> SampleKey:
    return SampleKey(position % 2, 7, position)


def records(costs, tokens=None, **more) -> list[SampleMetadata]:
    tokens = [int(cost) or 1 for cost in costs] if tokens is None else tokens
    return [
        SampleMetadata(pack_tokens=length, cost=WorkloadCost(llm=cost), key=key(position), **more)
        for position, (cost, length) in enumerate(zip(costs, tokens, strict=True))
    ]


def contiguous(samples, num_bins) -> list[list[SampleKey]]:
    edges = [len(samples) * b // num_bins for b in range(num_bins + 1)]
    return [[one.key for one in samples[start:stop]] for start, stop in itertools.pairwise(edges)]


def planner_of(algorithm, ranks=2, seq_len=30, **settings) -> Planner:
    settings = {"data_parallel_size": ranks, "seq_len": seq_len, "local_batch_size": 1} | settings
    return Planner(algorithm=algorithm, **settings)


COSTS = [8, 7, 6, 5, 4, 3, 2, 1]
