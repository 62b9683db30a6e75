"""Algorithms that break the contract, each in one way."""

from __future__ import annotations

from packing.plugin import CAPABILITIES, AlgorithmSpec, Assignment, hookimpl


def _bins(problem):
    """Longest first, each into the bin with the fewest tokens."""
    bins = [[] for _ in range(problem.num_bins)]
    tokens = [0] * problem.num_bins
    for sample in sorted(range(problem.num_samples), key=lambda one: -problem.tokens[one]):
        least = tokens.index(min(tokens))
        bins[least].append(sample)
        tokens[least] += int(problem.tokens[sample])
    return bins


class Drops:
    def assign(self, problem):
        bins = _bins(problem)
        bins[0].pop()
        return Assignment.from_bins(bins)


class Repeats:
    def assign(self, problem):
        bins = _bins(problem)
        bins[1].append(bins[0][0])
        return Assignment.from_bins(bins)


class Overflows:
    def assign(self, problem):
        bins = _bins(problem)
        for members in bins[1:]:
            bins[0] += [members.pop() for _ in range(len(members) - 1)]
        return Assignment.from_bins(bins)


class Empties:
    def assign(self, problem):
        bins = _bins(problem)
        bins[0] += bins.pop()
        return Assignment.from_bins([*bins, []])


class Invents:
    def assign(self, problem):
        bins = _bins(problem)
        bins[0][0] = problem.num_samples
        return Assignment.from_bins(bins)


class TooMany:
    def assign(self, problem):
        bins = _bins(problem)
        return Assignment.from_bins([*bins, [bins[0].pop()]])


class Garbage:
    def assign(self, problem):
        return _bins(problem)


class Fails:
    error = RuntimeError("the solver crashed")

    def assign(self, problem):
        raise self.error


class Writes:
    def assign(self, problem):
        problem.cost[0] = 0


class WritesBehind:
    """Writes through what it made writable, as code that shares the memory would."""

    def assign(self, problem):
        problem.cost.flags.writeable = True
        problem.cost[:] = 1
        return Assignment.from_bins(_bins(problem))


class GivesUp:
    def assign(self, problem):
        return None


@hookimpl
def packing_algorithms(host):
    classes = (
        Drops, Repeats, Overflows, Empties, Invents, TooMany, Garbage, Fails, Writes, WritesBehind, GivesUp
    )  # fmt: skip
    capabilities = CAPABILITIES - {"open_bins"}
    return [AlgorithmSpec(one.__name__.lower(), one, capabilities=capabilities) for one in classes]
