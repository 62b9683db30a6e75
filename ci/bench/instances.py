"""The seeded lists of instances on which solvers are measured; problems are built when they are asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from constrained import constrained_problem, unconstrained_twin, with_idle_limits
from drawing import DATA, Draw, attention, length_files, lengths_of

from packing.assignment import Assignment
from packing.bins import pack
from packing.problem import Problem

__all__ = ["Instance", "digest", "families"]

K = 1024
SEEDS = range(3)
FIVE_FILES = ("openchat_v1", "servegen_r1", "wlbllm_docs", "docs_mixed", "azure2023_conv")
ROLLOUTS = ("servegen_r1", "math_cot_rollouts", "wlbllm_docs")
OPTIMA = Path(__file__).with_name("optima.json")
BEST_KNOWN = Path(__file__).with_name("best_known.json")


@dataclass(frozen=True, slots=True)
class Instance:
    """One problem of a list.

    Attributes:
        name: unique over all families.
        family: the list that it belongs to.
        labels: what bars and tables group by; the first is the most important.
        problem: builds the problem. A known layout, where there is one, is the problem's reference.
        optimum: proven optimal score (of open problems of one rank: bins), or None.
        best_known: the best score that any long search found, or None; nothing is proven of it.
        twin: builds the same step without those limits that bind nothing, or None.
    """

    name: str
    family: str
    labels: tuple[str, ...]
    problem: Callable[[], Problem]
    optimum: int | None = None
    best_known: int | None = None
    twin: Callable[[], Problem] | None = None


def digest(problem: Problem) -> str:
    """A hash of everything that is set in a problem; a field more with a default changes nothing."""
    seen = hashlib.sha256()
    for one in fields(problem):
        value = getattr(problem, one.name)
        if value is one.default or (not isinstance(value, np.ndarray) and value == one.default):
            continue
        if isinstance(value, Assignment):
            value = np.concatenate([value.offsets, value.items]).astype(np.int64)
        elif one.name == "objective":
            value = value.name
        seen.update(one.name.encode() + (value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()))
    return seen.hexdigest()


def families() -> dict[str, list[Instance]]:
    """Every list, in a fixed order. Files that are not here are left out; with none of them, `openchat_v1` remains."""
    everything = [
        _no_cap(), _machines(), _classic_bins(), _caps_one_round(), _caps_small(), _windows(), _full_packs(),
        _count_capped(), _constraints(), _idle_limits(),
    ]  # fmt: skip
    return {instances[0].family: instances for instances in everything if instances}


def _here(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in length_files()]


# ------------------------------------------------------------------------------------------------------- no cap


def _no_cap() -> list[Instance]:
    sizes = [
        (file, ranks, ratio)
        for file in length_files()
        for ranks, ratio in product((8, 64, 512), (4, 16, 100))
        if ranks * ratio <= lengths_of(file).size
    ]
    best = json.loads(BEST_KNOWN.read_text())
    instances = []
    for (file, ranks, ratio), kind, seed in product(sizes, ("attention", "tokens"), SEEDS):
        name = f"no_cap/{file}/{kind}/k{ranks}/x{ratio}/{seed}"
        labels = (f"n/k = {ratio}", file, kind, f"{ranks} ranks")
        build = partial(_uncapped, file, kind, ranks, ratio, seed)
        instances.append(Instance(name, "no_cap", labels, build, best_known=best.get(name)))
    return instances


def _uncapped(file: str, kind: str, ranks: int, ratio: int, seed: int) -> Problem:
    lengths = Draw(f"no_cap/{file}/{ranks}/{ratio}/{seed}").sample(lengths_of(file), ranks * ratio)
    return Problem(tokens=lengths, cost=attention(lengths) if kind == "attention" else lengths, ranks=ranks)


# ---------------------------------------------------------------------------------- instances with known optima


def _machines() -> list[Instance]:
    path = DATA / "instances" / "pcmax.npz"
    if not path.exists():
        return []
    rows = np.load(path)
    names, kinds, offsets, sizes, machines, optimum = (
        rows[key] for key in ("name", "family", "offsets", "sizes", "machines", "optimum")
    )
    return [
        Instance(
            f"pcmax/{i:04d}/{name}",
            "pcmax",
            (str(kinds[i]),),
            partial(_jobs, sizes[offsets[i] : offsets[i + 1]], int(machines[i])),
            int(optimum[i]),
        )
        for i, name in enumerate(names)
    ]


def _jobs(sizes: np.ndarray, machines: int) -> Problem:
    # A job of no work has no length; it may go anywhere and counts one token, which nothing limits.
    return Problem(tokens=np.maximum(sizes, 1), cost=sizes, ranks=machines)


def _classic_bins() -> list[Instance]:
    path = DATA / "instances" / "binpacking_classic.npz"
    if not path.exists():
        return []
    rows = np.load(path)
    names, kinds, offsets, sizes, capacity, lower, best = (
        rows[key] for key in ("name", "family", "offsets", "sizes", "capacity", "lower_bound", "best_bins")
    )
    return [
        Instance(
            f"bins/{i:04d}/{name}",
            "bins",
            (str(kinds[i]),),
            partial(_open_bins, sizes[offsets[i] : offsets[i + 1]], int(capacity[i])),
            int(best[i]) if best[i] == lower[i] else None,
        )
        for i, name in enumerate(names)
    ]


def _open_bins(sizes: np.ndarray, capacity: int) -> Problem:
    return Problem(tokens=sizes, cost=sizes, ranks=1, bins_per_rank=None, capacity=capacity)


# -------------------------------------------------------------------------------------------- caps and workload


def _caps_one_round() -> list[Instance]:
    return [
        Instance(
            f"caps/{file}/{ranks}x{size}k/{fill / 10:g}%/{seed}",
            "caps_one_round",
            (f"{ranks} ranks", f"{fill / 10:g} % full", file, f"{size}k"),
            partial(_capped, f"caps/{file}/{ranks}/{size}/{fill}/{seed}", file, ranks, size * K, fill),
        )
        for file, ranks, size, fill, seed in product(_here(FIVE_FILES), (8, 64, 512), (32, 128), (900, 970, 995), SEEDS)
    ]


def _capped(name: str, file: str, ranks: int, capacity: int, fill: int, rounds: int = 1) -> Problem:
    """Samples over the cap are dropped; `fill` is in thousandths of all capacity."""
    lengths = lengths_of(file)
    drawn = Draw(name).with_sum(lengths[lengths <= capacity], rounds * ranks * capacity * fill // 1000)
    return Problem(
        tokens=drawn, cost=attention(drawn), ranks=rounds * ranks, capacity=capacity, round_size=ranks,
        objective="rounds" if rounds > 1 else "makespan",
    )  # fmt: skip


def _caps_small() -> list[Instance]:
    proven = json.loads(OPTIMA.read_text())
    instances = []
    for file, ranks, each, fill, seed in product(_here(FIVE_FILES), (4, 6, 8), (3, 4, 5), (900, 970, 995), range(2)):
        name = f"small/{file}/{ranks}x{each}/{fill / 10:g}%/{seed}"
        labels = (f"{ranks} ranks", f"{fill / 10:g} % full", file)
        build = partial(_small, name, file, ranks, each, fill)
        instances.append(Instance(name, "caps_small", labels, build, proven.get(name)))
    return instances


def _small(name: str, file: str, ranks: int, each: int, fill: int) -> Problem:
    """The cap follows from the samples, so that they fill it as asked, or from the longest sample."""
    lengths = Draw(name).sample(lengths_of(file), ranks * each)
    capacity = max(int(lengths.max()), -(-int(lengths.sum()) * 1000 // (fill * ranks)))
    return Problem(tokens=lengths, cost=attention(lengths), ranks=ranks, capacity=capacity)


def _windows() -> list[Instance]:
    return [
        Instance(
            f"windows/{file}/g{ranks}/W{rounds}/{fill // 10}%/{seed}",
            "windows",
            (f"{ranks} ranks", f"W = {rounds}", f"{fill // 10} % full"),
            partial(_capped, f"windows/{file}/{ranks}/{rounds}/{fill}/{seed}", file, ranks, 128 * K, fill, rounds),
        )
        for file, ranks, rounds, fill, seed in product(_here(("wlbllm_docs",)), (4, 32, 64), (4, 8), (950, 980), SEEDS)
    ]


def _full_packs() -> list[Instance]:
    return [
        Instance(
            f"full/{file}/{ranks}x{size}k/W{rounds}/{seed}",
            "full_packs",
            (f"{ranks} ranks", f"W = {rounds}", f"{size}k", file),
            partial(_full, f"full/{file}/{ranks}/{size}/{rounds}/{seed}", file, ranks, size * K, rounds),
        )
        for file, ranks, size, rounds, seed in product(_here(FIVE_FILES), (8, 64, 512), (32, 128), (1, 4), SEEDS)
    ]


def _full(name: str, file: str, ranks: int, capacity: int, rounds: int) -> Problem:
    """Lengths dealt into packs in order, the last sample of each cut so that the pack is full: the reference."""
    draw, lengths, num_packs = Draw(name), lengths_of(file), ranks * rounds
    packs = [draw.with_sum(lengths, capacity) for _ in range(num_packs)]
    offsets = np.concatenate(([0], np.cumsum([pack.size for pack in packs])))
    tokens = np.concatenate(packs)
    return Problem(
        tokens=tokens, cost=attention(tokens), ranks=num_packs, capacity=capacity, round_size=ranks,
        objective="rounds" if rounds > 1 else "makespan",
        reference=Assignment(offsets, np.arange(tokens.size)),
    )  # fmt: skip


def _count_capped() -> list[Instance]:
    """RL-like batches at first-fit decreasing's count: every pack on its own, and as an open problem of D ranks."""
    instances = []
    for file, size, seed in product(_here(ROLLOUTS), (8, 32, 128), range(300)):
        ranks = (1, 8, 16)[seed % 3]
        for form in ("packs", "open") if ranks > 1 else ("packs",):
            build = partial(_batch, f"count/{file}/{size}/{seed}", file, size * K, ranks, form == "open")
            labels = (f"{form}, {size}k", file, f"D = {ranks}")
            instances.append(Instance(f"count/{file}/{size}k/{seed}/{form}", "count_capped", labels, build))
    return instances


def _batch(name: str, file: str, capacity: int, ranks: int, is_open: bool) -> Problem:
    draw, lengths = Draw(name), lengths_of(file)
    fitting = lengths[lengths <= capacity]
    drawn = fitting[draw.integers((128, 256, 512, 1024)[draw.below(4)], fitting.size)]
    if is_open:
        return Problem(tokens=drawn, cost=attention(drawn), ranks=ranks, bins_per_rank=None, capacity=capacity)
    packs = pack(drawn, capacity, algorithm="first_fit_decreasing").num_bins
    return Problem(tokens=drawn, cost=attention(drawn), ranks=-(-packs // ranks) * ranks, capacity=capacity)


# -------------------------------------------------------------------------------------------- limits, together


def _constraints() -> list[Instance]:
    return [Instance(f"constraints/{seed:05d}", "constraints", (), partial(_first_of, seed)) for seed in range(100_000)]


def _first_of(seed: int) -> Problem:
    return constrained_problem(seed)[0]


def _idle_limits() -> list[Instance]:
    return [
        Instance(
            f"idle_limits/{seed:04d}",
            "idle_limits",
            (),
            partial(with_idle_limits, seed),
            twin=partial(unconstrained_twin, seed),
        )
        for seed in range(2_000)
    ]
