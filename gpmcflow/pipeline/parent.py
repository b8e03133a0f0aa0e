"""A Snakemake whose parent is gone ends, with its jobs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping

FRONT_END = "GPMCFLOW_FRONT_END"  #: variable of the environment: process of `gpmcflow run`
_PERIOD = 1.0  # seconds between looks


def end_without_parent(main: bool, environment: Mapping[str, str] = os.environ) -> None:
    """End this Snakemake when `gpmcflow run`, or what started it in a job of SLURM, is gone.

    Its jobs get SIGTERM, so they save what they have. It gets SIGKILL: its own handler of SIGTERM takes a
    lock, and hangs where it interrupts a holder of that lock. ``main`` says that this Snakemake plans the
    workflow; one that a user starts by hand may outlive its shell.
    """
    if main and FRONT_END in environment:
        parent = int(environment[FRONT_END])
    elif not main and "SLURM_JOB_ID" in environment:
        parent = os.getppid()
    else:
        return
    threading.Thread(target=_end_after, args=[parent], daemon=True).start()


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PERIOD)
    os.killpg(0, signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGKILL)
