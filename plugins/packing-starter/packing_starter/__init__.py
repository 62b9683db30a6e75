"""What this plugin offers, by name; nothing else is imported until somebody chooses one of them."""

from packing.plugin import AlgorithmSpec, EstimatorSpec, hookimpl


@hookimpl
def packing_algorithms(host):
    """The algorithms; `capabilities` are the limits that they keep, all others are refused for them."""
    return [
        AlgorithmSpec(
            "snake",
            "packing_starter.snake:Snake",
            capabilities={"capacity", "budgets", "max_items", "multi_bin"},
            summary="heaviest sample first, to and fro over the bins",
        )
    ]


@hookimpl
def packing_estimators(host):
    """The estimators."""
    return [
        EstimatorSpec(
            "images",
            "packing_starter.images:ImageEstimator",
            summary="cost = length + weight * image_tokens",
        )
    ]
