"""Chooses the compiled kernels or their plain-Python twins, once, at import; callers never ask which they got.

`PACKING_KERNELS` is "compiled" (the default) or "reference". Compiled files that are missing are an error, not a
silent change to code that is a thousand times slower.
"""

import os

backend = os.environ.get("PACKING_KERNELS", "compiled")

if backend == "compiled":
    try:
        from packing._kernels import _branch as branch
        from packing._kernels import _exact_fill as exact_fill
        from packing._kernels import _exchange as exchange
        from packing._kernels import _feasible as feasible
        from packing._kernels import _fit as fit
        from packing._kernels import _fit_histogram as fit_histogram
        from packing._kernels import _greedy as greedy
        from packing._kernels import _kk as kk
        from packing._kernels import _level_fit as level_fit
        from packing._kernels import _limited_fill as limited_fill
        from packing._kernels import _order as order
        from packing._kernels import _reach as reach
        from packing._kernels import _reduce_bins as reduce_bins
        from packing._kernels import _relieve as relieve
        from packing._kernels import _rows as rows
        from packing._kernels import _settle as settle
        from packing._kernels import _swap as swap
    except ImportError as error:
        names = os.listdir(os.path.dirname(__file__))
        source_tree = "_kk.pyx" in names and not any(name.endswith((".so", ".pyd")) for name in names)
        cure = (
            "this is its source tree, which hides an installed one: run from another folder, install it editable"
            if source_tree
            else "reinstall packing"
        )
        raise ImportError(
            f"the compiled kernels of packing cannot be loaded ({error}); {cure}, "
            "or set PACKING_KERNELS=reference to run the slow plain-Python twins"
        ) from error
elif backend == "reference":
    # A type checker sees the names twice; whoever runs this gets one of the two.
    from packing._reference import (  # type: ignore[no-redef]  # on purpose: the twins have the kernels' names
        branch,
        exact_fill,
        exchange,
        feasible,
        fit,
        fit_histogram,
        greedy,
        kk,
        level_fit,
        limited_fill,
        order,
        reach,
        reduce_bins,
        relieve,
        rows,
        settle,
        swap,
    )
else:
    raise ImportError(f'`PACKING_KERNELS` must be "compiled" or "reference", but got {backend!r}.')

__all__ = [
    "backend",
    "branch",
    "exact_fill",
    "exchange",
    "feasible",
    "fit",
    "fit_histogram",
    "greedy",
    "kk",
    "level_fit",
    "limited_fill",
    "order",
    "reach",
    "reduce_bins",
    "relieve",
    "rows",
    "settle",
    "swap",
]
