"""The first compilation of the passes: once for an installation, announced, and out of what is timed."""

from __future__ import annotations

import logging
import threading
from functools import cache

import numpy as np

from gpmcflow.covariances import nodes, passes

log = logging.getLogger(__name__)
SLOW = 2.0  # seconds after which the user is told what is going on


@cache
def load_passes() -> None:
    """Load the compiled passes from disk; where they are not there, compile them, and say so in one line."""
    message = "gpmcflow: compiling the covariance loops, once for this installation (half a minute at most)"
    timer = threading.Timer(SLOW, lambda: log.warning(message))
    timer.daemon = True
    timer.start()
    try:
        table = np.full((1, nodes.WIDTH), -1)
        table[0, [nodes.CODE, nodes.N_SCALES, nodes.N_COLUMNS]] = nodes.CONSTANT, 0, 0
        none, numbers, matrix = np.empty((0, 0, 0)), np.zeros(1), np.empty((1, 1))
        places, Z = np.empty(0, dtype=np.int64), np.empty((1, 1))
        passes.prepare(
            table, places, numbers, np.zeros(1, dtype=np.int64), np.empty((1, 1)), numbers, Z
        )
        passes.sweep(
            nodes.FILL, table, numbers, np.zeros(1, dtype=np.bool_), Z, Z, np.zeros(1, dtype=np.int64),
            0.0, none, none, none, none, np.empty((0, 0)), 0.0, 0.0, matrix, np.empty(0),
        )  # fmt: skip
    finally:
        timer.cancel()
