"""Real lengths: every sample once, caps kept, and the same plan in any order, on any thread, in any process."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from itertools import chain

import numpy as np
import pytest

from packing import Plan, Planner, _kernels
from tests.conftest import ROOT, data_folder

SLOW = _kernels.backend == "reference"
NUM_SAMPLES = 64 if SLOW else 512
THREADS = 2 if SLOW else 8  # the twins hold the interpreter's lock

ORDER_FREE = (
    "auto", "lpt", "exchange", "kk", "combine", "level_multifit", "equal_count", "first_fit_decreasing",
    "best_fit_decreasing", "exact_fill",
)  # fmt: skip
ALGORITHMS = (*ORDER_FREE, "first_fit", "next_fit")

FOLDER = data_folder() / "lengths"
FILES = sorted(path.stem for path in FOLDER.glob("*.npy")) + sorted(path.name for path in FOLDER.glob("hist_*.csv.gz"))
BUNDLED = "bundled openchat_v1"
SOURCES = [*FILES, *([BUNDLED] if (resources.files("packing") / "data" / "openchat_v1.npy").is_file() else [])]
SOURCES = SOURCES[::5] if SLOW else SOURCES


def draw(source: str, count: int, lengths_of) -> np.ndarray:
    """Seeded lengths of one source; a few files hold empty sequences, which nobody packs."""
    random = np.random.default_rng(int.from_bytes(hashlib.sha256(source.encode()).digest()[:4], "little"))
    weights = None
    if source == BUNDLED:
        with resources.as_file(resources.files("packing") / "data" / "openchat_v1.npy") as file:
            lengths = np.load(file).astype(np.int64).reshape(-1)
    elif source.startswith("hist_"):
        with gzip.open(FOLDER / source, "rt") as rows:
            table = np.loadtxt(rows, delimiter=",", skiprows=1, dtype=np.int64, usecols=(0, 1))
        table = table[table[:, 0] > 0]
        lengths, weights = table[:, 0], table[:, 1] / table[:, 1].sum()
    else:
        lengths = lengths_of(source)
        lengths = lengths[lengths > 0]
    return random.choice(lengths, count, p=weights)


@pytest.fixture(scope="module", params=SOURCES)
def sample(request, lengths_of) -> np.ndarray:
    return draw(request.param, NUM_SAMPLES, lengths_of)


def cap_of(lengths: np.ndarray, ranks: int, slack: float) -> int:
    """A cap that the longest sample fits under, or that gives every rank about two rows."""
    return int(max(lengths.max(), slack * lengths.sum() / ranks / 2))


def planner(algorithm: str, ranks: int, cap: int | None, **settings) -> Planner:
    return Planner(data_parallel_size=ranks, seq_len=cap, algorithm=algorithm, **settings)


def check(plan: Plan, lengths: np.ndarray) -> None:
    assert sorted(chain.from_iterable(plan.bins())) == list(range(lengths.size))
    assert np.diff(plan.offsets).min() >= 1
    assert plan.bin_tokens.tolist() == [int(lengths[members].sum()) for members in plan.bins()]
    if plan.seq_len is not None:
        assert plan.bin_tokens.max() <= plan.seq_len
    assert plan.gap >= 0
    if plan.algorithm == "equal_count":
        counts = np.diff(plan.offsets).reshape(plan.ranks, -1).sum(axis=1)
        assert (counts == counts[0]).all()


def multiset(plan: Plan) -> list[list[int]]:
    return [sorted(plan.lengths[members].tolist()) for members in plan.bins()]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("ranks", "slack", "window"), [(4, None, 1), (8, 1.3, 1), (16, 1.1, 1), (8, 1.2, 4)], ids=str
)  # fmt: skip
def test_every_sample_once_and_every_cap_kept(sample, algorithm, ranks, slack, window):
    cap = None if slack is None else cap_of(sample, ranks * window, slack)
    objective = "rounds" if window > 1 and algorithm != "equal_count" else "makespan"
    made = planner(algorithm, ranks, cap, window=window, objective=objective, estimator="attention")
    plan = made.plan(sample)
    check(plan, sample)
    assert plan.imbalance >= 1
    if slack is None and algorithm in ("lpt", "kk"):
        # Graham's bound for any greedy placement; differencing is no worse on real lengths.
        assert plan.rank_loads.max() <= plan.rank_loads.mean() + plan.fixed_costs.max()


def test_balancing_beats_the_order_of_the_input(sample):
    plan = planner("lpt", 8, None, estimator="attention").plan(sample)
    assert plan.imbalance <= plan.baseline.imbalance
    assert plan.imbalance <= max(1.2, plan.lower_bound.floor * 1.05)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_order_of_keyed_samples_plays_no_part(sample, algorithm):
    cap = cap_of(sample, 8, 1.3)
    order = np.random.default_rng(17).permutation(sample.size)
    keys = np.stack([np.arange(sample.size) % 8, np.arange(sample.size) // 8], axis=1)
    made = planner(algorithm, 8, cap, estimator="attention")
    plan = made.plan({"length": sample, "key": keys})
    permuted = made.plan({"length": sample[order], "key": keys[order]})
    assert permuted.digest == plan.digest
    assert [order[members].tolist() for members in permuted.bins()] == plan.bins()


@pytest.mark.parametrize("slack", [1.05, 1.0])
def test_repaired_pairs_stay_within_their_caps(sample, slack):
    """Full rows: where greedy placement fails, the reference is kept or improved, never broken."""
    reference = planner("best_fit_decreasing", 8, cap_of(sample, 8, slack), estimator="attention").plan(sample)
    made = planner(
        "feasible_lpt", 8, reference.seq_len, estimator="attention", local_batch_size=reference.bins_per_rank
    )
    plan = made.plan(sample, reference.bins())
    check(plan, sample)
    assert plan.rank_loads.max() <= reference.rank_loads.max()
    order = np.random.default_rng(29).permutation(sample.size)
    places = np.argsort(order)
    permuted = {"length": sample[order], "key": order}
    keyed = {"length": sample, "key": np.arange(sample.size)}
    moved = [places[members].tolist() for members in reference.bins()]
    assert made.plan(permuted, moved).digest == made.plan(keyed, reference.bins()).digest


@pytest.mark.parametrize("algorithm", ORDER_FREE)
def test_permuted_lengths_keep_the_lengths_in_every_bin(sample, algorithm):
    made = planner(algorithm, 8, cap_of(sample, 8, 1.3), estimator="attention")
    order = np.random.default_rng(19).permutation(sample.size)
    assert multiset(made.plan(sample[order])) == multiset(made.plan(sample))


def test_threads_agree(sample):
    cap = cap_of(sample, 8, 1.3)
    for algorithm in ALGORITHMS:
        made = planner(algorithm, 8, cap)
        with ThreadPoolExecutor(THREADS) as pool:
            digests = {plan.digest for plan in pool.map(made.plan, [sample] * THREADS)}
        assert digests == {made.plan(sample).digest}


PROGRAM = """
import json, sys
import numpy as np
from packing import Planner, _kernels
digests = {}
for name, cap, lengths in json.load(sys.stdin):
    for config in %r:
        algorithm = config["name"]
        made = Planner(data_parallel_size=4, seq_len=cap, algorithm=config, estimator="attention", window=2)
        plan = made.plan({"length": lengths, "key": np.arange(len(lengths))[::-1]})
        digests[name + " " + algorithm] = plan.digest
print(json.dumps([_kernels.backend, digests]))
"""


# Named efforts would take the plain twins minutes.
EFFORTS = {"auto": {"effort": 1}, "exchange": {"effort": 1}, "exact_fill": {"effort": 1000}}


def digests_in_a_fresh_process(cases: list, **environment: str) -> tuple[str, dict[str, str]]:
    """The same steps, planned by another interpreter."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM % ([{"name": name, **EFFORTS.get(name, {})} for name in ALGORITHMS],)],
        input=json.dumps(cases), capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": path} | environment,
    )  # fmt: skip
    backend, digests = json.loads(done.stdout)
    return backend, digests


def test_another_process_and_the_reference_kernels_agree(lengths_of):
    """Another PYTHONHASHSEED and the plain kernels give the digests of this process, on small draws of some files."""
    cases = []
    for name in SOURCES if SLOW else SOURCES[::5]:
        drawn = draw(name, 48, lengths_of)
        cases.append([name, cap_of(drawn, 8, 1.4), drawn.tolist()])
    if not cases:
        pytest.skip("no length files")
    own_backend, own = digests_in_a_fresh_process(cases, PYTHONHASHSEED="1")
    assert own_backend == _kernels.backend
    assert len(own) == len(cases) * len(ALGORITHMS)
    assert digests_in_a_fresh_process(cases, PYTHONHASHSEED="4242") == (own_backend, own)
    assert digests_in_a_fresh_process(cases, PACKING_KERNELS="reference") == ("reference", own)
    for name, cap, lengths in cases[:3]:
        made = Planner(data_parallel_size=4, seq_len=cap, algorithm="lpt", estimator="attention", window=2)
        here = made.plan({"length": lengths, "key": np.arange(len(lengths))[::-1]})
        assert here.digest == own[f"{name} lpt"]


def test_there_are_files_where_there_is_a_folder():
    if not FOLDER.exists():
        pytest.skip("the data folder is not here")
    assert FILES
