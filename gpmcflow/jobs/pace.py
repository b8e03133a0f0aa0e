"""The one measure of CPU seconds per iteration: what a study counts a method's steps at."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpmcflow.execution import pin_blas

LEAST, MOST = 10, 500  # steps that are timed

Step = Callable[[], object]


def seconds_per_step(step_at: Callable[[float], Step], budget: float, least: int = LEAST) -> float:
    """CPU seconds of a step on one core with one BLAS thread: the mean over ``least`` to 500 steps.

    ``step_at`` is called with shares of a run from 0 to 1 and prepares, untimed, the step from the state
    there. A first step, which loads compiled code, is not counted; ``budget`` are the seconds to spend.
    """
    pin_blas()
    step_at(0.0)()

    def mean_of(count: int) -> float:
        total = 0.0
        for k in range(count):
            step = step_at(k / count)
            began = time.process_time()
            step()
            total += time.process_time() - began
        return total / count

    few = mean_of(least)
    wanted = min(int(budget / max(few, 1e-9)), MOST)
    return mean_of(wanted) if wanted > least else few
