"""Algorithms and estimators that cheat, each in one way, with the check that must catch it."""

from __future__ import annotations

import random
import sys
import threading
import time
from typing import ClassVar

import numpy as np

from packing.plugin import Assignment, BinState

LIMITS = {"capacity", "budgets", "multi_bin", "max_items", "equal_count"}


def bins_of(problem):
    """Bins with equal counts, every sample dealt out in turn; None where a limit is broken or a bin stays empty."""
    state = BinState(problem)
    if problem.num_samples < problem.num_bins or (problem.equal_count and problem.num_samples % problem.ranks):
        return None
    for sample in range(problem.num_samples):
        chosen = sample % problem.num_bins
        if not state.fits(chosen, sample):
            return None
        state.add(chosen, sample)
    return state.members


def rotated(bins, by):
    """The same bins, given to other ranks."""
    by %= len(bins)
    return Assignment.from_bins(bins[by:] + bins[:by])


class Honest:
    """Deals the samples out in turn; the base of the cheats, who change what it found."""

    def assign(self, problem):
        bins = bins_of(problem)
        return None if bins is None else self.cheat(problem, bins)

    def cheat(self, problem, bins):
        return Assignment.from_bins(bins)


class Drops(Honest):
    caught_by = "every_sample_once"

    def cheat(self, problem, bins):
        largest = max(bins, key=len)
        if len(largest) > 1:
            largest.pop()
        return Assignment.from_bins(bins)


class Repeats(Honest):
    caught_by = "every_sample_once"

    def cheat(self, problem, bins):
        bins[-1].append(bins[0][0])
        return Assignment.from_bins(bins)


class Invents(Honest):
    caught_by = "every_sample_once"

    def cheat(self, problem, bins):
        bins[0][0] = problem.num_samples
        return Assignment.from_bins(bins)


class Overflows:
    """Deals out without asking whether it fits."""

    caught_by = "caps_kept"

    def assign(self, problem):
        if problem.num_samples < problem.num_bins:
            return None
        bins = [list(range(b, problem.num_samples, problem.num_bins)) for b in range(problem.num_bins)]
        return Assignment.from_bins(bins)


class IgnoresCounts(Overflows):
    """Keeps token caps, but not `max_items`: two samples change places with one."""

    caught_by = "caps_kept"

    def assign(self, problem):
        bins = bins_of(problem)
        if bins is None or problem.max_items is None or len(bins[0]) < 2:
            return None if bins is None else Assignment.from_bins(bins)
        bins[-1].append(bins[0].pop())
        return Assignment.from_bins(bins)


class IgnoresBudgets:
    """Deals out and looks at everything but budgets."""

    caught_by = "budgets_kept"

    def assign(self, problem):
        if problem.budgets is None:
            return Honest().assign(problem)
        return Overflows().assign(problem)


class IgnoresGroups:
    """Declares that it keeps groups together and samples apart, and does not."""

    capabilities = LIMITS | {"group", "forbid"}
    caught_by = "groups_kept"

    def assign(self, problem):
        return Overflows().assign(problem) if problem.group is not None else Honest().assign(problem)


class IgnoresForbid(IgnoresGroups):
    """Declares that it keeps samples apart, and does not."""

    capabilities = LIMITS | {"forbid"}

    def assign(self, problem):
        return Overflows().assign(problem) if problem.forbid is not None else Honest().assign(problem)


class UnequalCounts(Honest):
    caught_by = "equal_counts"

    def cheat(self, problem, bins):
        if problem.equal_count and problem.num_samples > problem.num_bins:
            bins[-1].append(bins[0].pop())
        return Assignment.from_bins(bins)


class LeavesEmpty(Honest):
    caught_by = "no_empty_bins"

    def cheat(self, problem, bins):
        limits = (problem.capacity, problem.budgets, problem.max_items)
        if all(limit is None for limit in limits) and len(bins) > 1 and not problem.equal_count:
            bins[0] += bins[-1]
            bins[-1] = []
        return Assignment.from_bins(bins)


class TooManyBins(Honest):
    caught_by = "returns_a_layout"

    def cheat(self, problem, bins):
        if problem.num_samples > problem.num_bins:
            bins.append([bins[0].pop()])
        return Assignment.from_bins(bins)


class Garbage(Honest):
    caught_by = "returns_a_layout"

    def cheat(self, problem, bins):
        return bins


class Raises(Honest):
    caught_by = "returns_a_layout"

    def cheat(self, problem, bins):
        return {}["no such key"]


class Exits(Honest):
    caught_by = "returns_a_layout"

    def cheat(self, problem, bins):
        sys.exit(3)


class GivesUp:
    caught_by = "finds_easy_layouts"

    def assign(self, problem):
        return None


class Writes(Honest):
    caught_by = "inputs_not_written"

    def cheat(self, problem, bins):
        problem.cost[0] = 0
        return Assignment.from_bins(bins)


class WritesBehind(Honest):
    """Makes the array writable first, as code that shares the memory could."""

    caught_by = "inputs_not_written"

    def cheat(self, problem, bins):
        problem.cost.flags.writeable = True
        problem.cost[:] = 1
        problem.cost.flags.writeable = False
        return Assignment.from_bins(bins)


class Replaces(Honest):
    """Puts another array into the frozen problem."""

    caught_by = "inputs_not_written"

    def cheat(self, problem, bins):
        object.__setattr__(problem, "tokens", problem.tokens + 1)
        return Assignment.from_bins(bins)


class Remembers(Honest):
    """The answer depends on what was asked before."""

    caught_by = "same_answer_twice"

    def __init__(self):
        self.asked = 0

    def cheat(self, problem, bins):
        self.asked += 1
        return rotated(bins, self.asked)


class Draws(Honest):
    """Draws from the generator that everybody shares."""

    caught_by = "same_answer_twice"

    def cheat(self, problem, bins):
        random.shuffle(bins)
        return Assignment.from_bins(bins)


class LooksAtTheClock(Honest):
    caught_by = "same_answer_twice"

    def cheat(self, problem, bins):
        return rotated(bins, time.time_ns() // 1000)


class StopsByTime(Honest):
    """Improves its answer as long as there is time, of which there is plenty while it is tested."""

    caught_by = "same_in_new_process"

    def cheat(self, problem, bins):
        deadline = time.monotonic() + 60
        for _ in range(len(bins) - 1):
            if time.monotonic() > deadline:
                break
            bins.append(bins.pop(0))
        return Assignment.from_bins(bins)


class Hashes(Honest):
    """Ties end in the hash of a text."""

    caught_by = "same_in_new_process"

    def cheat(self, problem, bins):
        return Assignment.from_bins(sorted(bins, key=lambda members: hash(str(members))))


class LooksAtTheThread(Honest):
    caught_by = "same_in_threads"

    def cheat(self, problem, bins):
        return rotated(bins, int(threading.current_thread() is not threading.main_thread()))


class SharesScratch(Honest):
    """Keeps what it works on in itself, where another thread finds it."""

    caught_by = "same_in_threads"

    def cheat(self, problem, bins):
        self.bins = bins
        time.sleep(1e-4)
        return Assignment.from_bins(self.bins)


class LooksAtLabels(Honest):
    """Finds the order in which the samples came in, and their keys, with whoever called."""

    caught_by = "same_after_relabelling"

    def cheat(self, problem, bins):
        frame = sys._getframe()
        while frame is not None and "samples" not in frame.f_locals:
            frame = frame.f_back
        samples = frame.f_locals["samples"] if frame is not None else None
        return rotated(bins, int(samples["key"][0]) if isinstance(samples, dict) else 0)


class LooksAtKeyValues(LooksAtLabels):
    """The same for the numbers of the keys only, whatever their order."""

    def cheat(self, problem, bins):
        frame = sys._getframe()
        while frame is not None and "samples" not in frame.f_locals:
            frame = frame.f_back
        samples = frame.f_locals["samples"] if frame is not None else None
        return rotated(bins, int(np.min(samples["key"])) if isinstance(samples, dict) else 0)


class HoldsALock(Honest):
    caught_by = "pickles"

    def __init__(self):
        self.lock = threading.Lock()


class ForgetsInThePickle(Honest):
    """Its state gets lost on the way to a worker."""

    caught_by = "pickles"

    def __init__(self):
        self.by = 1

    def __getstate__(self):
        return {"by": 0}

    def cheat(self, problem, bins):
        return rotated(bins, self.by)


class FirstOption(Honest):
    """The order of keys in a mapping decides, which neither YAML nor the fingerprint keeps."""

    caught_by = "config_round_trips"
    options: ClassVar = {"priority": {"b": 1, "a": 2}}

    def __init__(self, priority=None):
        self.by = next(iter((priority or {"b": 1}).values()))

    def cheat(self, problem, bins):
        return rotated(bins, self.by)


class Shifty(type):
    """Its capabilities are other ones whenever they are asked for."""

    asked = 0

    @property
    def capabilities(cls):
        Shifty.asked += 1
        return LIMITS if Shifty.asked % 2 else LIMITS | {"group"}


class ShiftyCapabilities(Honest, metaclass=Shifty):
    """Promises something else every time."""

    caught_by = "undeclared_features_refused"

    @property
    def capabilities(self):
        return type(self).capabilities


ALGORITHMS = [
    Drops, Repeats, Invents, Overflows, IgnoresCounts, IgnoresBudgets, IgnoresGroups, IgnoresForbid, UnequalCounts,
    LeavesEmpty, TooManyBins, Garbage, Raises, Exits, GivesUp, Writes, WritesBehind, Replaces, Remembers, Draws,
    LooksAtTheClock, StopsByTime, Hashes, LooksAtTheThread, SharesScratch, LooksAtLabels, LooksAtKeyValues, HoldsALock,
    ForgetsInThePickle, FirstOption,
]  # fmt: skip


# -------------------------------------------------------------------------------------------------------- estimators


class HonestCost:
    """Cost = length."""

    columns = ("length",)

    def __call__(self, columns):
        return self.cheat(columns, columns["length"].copy())

    def cheat(self, columns, costs):
        return costs


class ListOfCosts(HonestCost):
    caught_by = "gives_costs"

    def cheat(self, columns, costs):
        return costs.tolist()


class TooFewCosts(HonestCost):
    caught_by = "gives_costs"

    def cheat(self, columns, costs):
        return costs[1:]


class NotANumber(HonestCost):
    caught_by = "gives_costs"

    def cheat(self, columns, costs):
        return np.where(costs == costs.max(), np.nan, costs)


class Negative(HonestCost):
    caught_by = "gives_costs"

    def cheat(self, columns, costs):
        return costs - 50


class NarrowCosts(HonestCost):
    caught_by = "gives_costs"

    def cheat(self, columns, costs):
        return costs.astype(np.int32)


class RaisesOnCosts(HonestCost):
    caught_by = "gives_costs"

    def cheat(self, columns, costs):
        raise ValueError("no costs today")


class ReadsOthers(HonestCost):
    """Reads whatever else is there."""

    caught_by = "reads_declared_columns"

    def cheat(self, columns, costs):
        for name in columns:
            costs = np.maximum(costs, columns[name])
        return costs


class NeedsADict(HonestCost):
    """Takes the columns for a dict, which those of records are not."""

    caught_by = "plans"

    def __call__(self, columns):
        return columns.copy()["length"] + 0


class RemembersCosts(HonestCost):
    caught_by = "same_answer_twice"

    def __init__(self):
        self.asked = 0

    def cheat(self, columns, costs):
        self.asked += 1
        return costs + self.asked


class ClockCosts(HonestCost):
    caught_by = "same_in_new_process"

    def __init__(self):
        self.begun = time.monotonic()

    def cheat(self, columns, costs):
        return costs + int(time.monotonic() - self.begun > 60)


class HashCosts(HonestCost):
    caught_by = "same_in_new_process"

    def cheat(self, columns, costs):
        return costs + hash("packing") % 1000


class ThreadCosts(HonestCost):
    caught_by = "same_in_threads"

    def cheat(self, columns, costs):
        return costs + int(threading.current_thread() is not threading.main_thread())


class PositionCosts(HonestCost):
    caught_by = "same_after_relabelling"

    def cheat(self, columns, costs):
        return costs + np.arange(costs.size)


class WritesColumns(HonestCost):
    caught_by = "inputs_not_written"

    def cheat(self, columns, costs):
        columns["length"][0] = 1
        return costs


class WritesColumnsBehind(HonestCost):
    caught_by = "inputs_not_written"

    def cheat(self, columns, costs):
        columns["length"].flags.writeable = True
        columns["length"][:] = 1
        return costs


class FirstWeight(HonestCost):
    caught_by = "config_round_trips"
    options: ClassVar = {"weights": {"b": 1, "a": 2}}

    def __init__(self, weights=None):
        self.weight = next(iter((weights or {"b": 1}).values()))

    def cheat(self, columns, costs):
        return costs * self.weight


class LockedCosts(HonestCost):
    caught_by = "pickles"

    def __init__(self):
        self.lock = threading.Lock()


ESTIMATORS = [
    ListOfCosts, TooFewCosts, NotANumber, Negative, NarrowCosts, RaisesOnCosts, ReadsOthers, NeedsADict, RemembersCosts,
    ClockCosts, HashCosts, ThreadCosts, PositionCosts, WritesColumns, WritesColumnsBehind, FirstWeight, LockedCosts,
]  # fmt: skip
