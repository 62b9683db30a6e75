"""1F1B replayed event by event: what a step with given micro-batch times takes on each rank."""

from __future__ import annotations

import numpy as np

__all__ = ["replay"]


def replay(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """End of the last operation, without communication.

    Stage s of P runs P - 1 - s forwards, then one forward and one backward in turn, then the backwards that are left. A
    forward waits for that of the stage before, a backward for that of the stage after.

    Args:
        forward, backward: float64[..., P, m], times by stage and micro-batch, in the order in which they run.

    Returns:
        float64[...].
    """
    stages, count = forward.shape[-2:]
    queues = [_operations(min(stages - 1 - stage, count), count) for stage in range(stages)]
    times = {False: forward, True: backward}
    ends = {False: np.zeros(forward.shape), True: np.zeros(forward.shape)}
    free = [np.zeros(forward.shape[:-2]) for _ in range(stages)]
    done: set[tuple[bool, int, int]] = set()
    while any(queues):
        for stage, queue in enumerate(queues):
            while queue:
                is_backward, batch = queue[0]
                before = stage + 1 if is_backward else stage - 1
                start = free[stage]
                if 0 <= before < stages:
                    if (is_backward, before, batch) not in done:
                        break
                    start = np.maximum(start, ends[is_backward][..., before, batch])
                free[stage] = start + times[is_backward][..., stage, batch]
                ends[is_backward][..., stage, batch] = free[stage]
                done.add((is_backward, stage, batch))
                queue.pop(0)
    return np.maximum.reduce(free)


def _operations(warm_up: int, count: int) -> list[tuple[bool, int]]:
    """(is backward, micro-batch) in the order in which a stage runs them."""
    forwards = [(False, batch) for batch in range(warm_up)]
    steady = [one for batch in range(count - warm_up) for one in ((False, warm_up + batch), (True, batch))]
    return [*forwards, *steady, *((True, batch) for batch in range(count - warm_up, count))]
