"""The built-in names: they come through the same hooks as everyone else's, as text, so that nothing is imported."""

from __future__ import annotations

from packing.plugin import AlgorithmSpec, EstimatorSpec, Host, hookimpl

_OBJECTIVES = {"makespan", "balance", "rounds", "pipeline", "components"}


@hookimpl
def packing_algorithms(host: Host) -> list[AlgorithmSpec]:
    """The balancing algorithms of this package."""
    everything = {
        "capacity", "budgets", "multi_bin", "rounds", "pad_cost", "oversized", "group", "forbid", "max_items",
        "open_bins",
    }  # fmt: skip
    packers = {"capacity", "multi_bin", "open_bins", "oversized", "max_items"} | _OBJECTIVES
    return [
        AlgorithmSpec(
            "auto",
            "packing.algorithms.auto:Auto",
            capabilities=everything | {"equal_count"} | _OBJECTIVES,
            summary="the best of the other solvers, improved by exchanges until the bound is met or the effort ends",
        ),
        AlgorithmSpec(
            "lpt",
            "packing.algorithms.placement:LPT",
            capabilities=everything | _OBJECTIVES,
            summary="heaviest sample first, each onto the least loaded rank that has room",
        ),
        AlgorithmSpec(
            "exchange",
            "packing.algorithms.exchange:Exchange",
            capabilities=everything | {"equal_count"} | _OBJECTIVES,
            summary="lpt or the reference, then moves and exchanges of up to two samples for two",
        ),
        AlgorithmSpec(
            "feasible_lpt",
            "packing.algorithms.feasible:FeasibleLPT",
            capabilities={"capacity", "budgets", "multi_bin", "open_bins", "pad_cost", "oversized"} | _OBJECTIVES,
            summary="lpt, then pairs of bins are split anew while the round objective falls",
        ),
        AlgorithmSpec(
            "kk",
            "packing.algorithms.differencing:KarmarkarKarp",
            capabilities={"capacity", "multi_bin", "open_bins"} | _OBJECTIVES,
            summary="largest differencing; under a cap what overflows is moved or swapped afterwards",
        ),
        AlgorithmSpec(
            "combine",
            "packing.algorithms.multifit:Combine",
            capabilities=everything | _OBJECTIVES,
            summary="lpt, then a search for the smallest load below which first fit or best fit places everything",
        ),
        AlgorithmSpec(
            "level_multifit",
            "packing.algorithms.level_multifit:LevelMultifit",
            capabilities=everything | _OBJECTIVES,
            summary="one load level for outlier rounds, one for all others: long samples where much work is wanted",
        ),
        AlgorithmSpec(
            "equal_count",
            "packing.algorithms.equal_count:EqualCount",
            capabilities={"capacity", "multi_bin", "open_bins", "equal_count"} | _OBJECTIVES,
            summary="the same number of samples on every rank: the better of capped LPT and differencing, then swaps",
        ),
        AlgorithmSpec(
            "first_fit",
            "packing.algorithms.fitting:FirstFit",
            capabilities=packers,
            summary="in sample order, each into the first pack with room; packs are dealt to ranks in turn",
        ),
        AlgorithmSpec(
            "first_fit_decreasing",
            "packing.algorithms.fitting:FirstFitDecreasing",
            capabilities=packers,
            summary="longest first, each into the first pack with room; packs are dealt to ranks in turn",
        ),
        AlgorithmSpec(
            "best_fit_decreasing",
            "packing.algorithms.fitting:BestFitDecreasing",
            capabilities=packers,
            summary="longest first, each into the fullest pack with room; packs are dealt to ranks in turn",
        ),
        AlgorithmSpec(
            "exact_fill",
            "packing.algorithms.fitting:ExactFill",
            capabilities=packers,
            summary="packs filled one by one, then a search for fewer of them; packs are dealt to ranks in turn",
        ),
        AlgorithmSpec(
            "next_fit",
            "packing.algorithms.fitting:NextFit",
            capabilities=packers,
            summary="in sample order, a new pack whenever the last one is full; packs are dealt to ranks in turn",
        ),
        AlgorithmSpec(
            "none",
            "packing.algorithms.identity:Identity",
            capabilities=everything | {"equal_count"} | _OBJECTIVES,
            summary="the identity plan: the reference, or the samples dealt out in order",
        ),
    ]


@hookimpl
def packing_estimators(host: Host) -> list[EstimatorSpec]:
    """The workload estimators of this package."""
    return [
        EstimatorSpec("tokens", "packing.estimators.tokens:TokenEstimator", summary="cost = length"),
        EstimatorSpec(
            "attention",
            "packing.estimators.attention:AttentionEstimator",
            summary="cost = linear * length + quadratic * length**2",
        ),
        EstimatorSpec(
            "flops",
            "packing.estimators.flops:FlopsEstimator",
            summary="training FLOPs of a dense or grouped-query transformer, from its config.json",
        ),
    ]
