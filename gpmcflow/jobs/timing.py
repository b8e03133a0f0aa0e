"""Short measurements a forecast is made from.

Seconds are those of a processor: what other processes on the machine take is told by `share_of_core`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.execution import Program, chain_generators
from gpmcflow.execution.segment_files import BlockFolder, read_arrays, write_arrays

ENOUGH = 0.25  # seconds a repeated measurement takes
MOST_CASES = 320  # a fit is timed at so many cases, and from there extrapolated
_JOB = """
import resource, time
import gpmcflow.jobs.job, gpmcflow.storage
import gpmcflow.replications.rmhmc_ais.runs, gpmcflow.replications.split_hmc.runs
print(time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
_SPIN = """
import time
end = time.perf_counter() + {seconds}
began = time.process_time()
while time.perf_counter() < end: pass
print((time.process_time() - began) / {seconds})
"""
_SPIN_SECONDS = 1.5


@cache
def startup() -> tuple[float, int]:
    """Seconds a job needs to start Python and import what it uses, and the bytes it then takes."""
    done = subprocess.run([sys.executable, "-c", _JOB], capture_output=True, text=True, check=True)
    seconds, peak = done.stdout.split()
    # Linux counts kilobytes, macOS bytes
    return float(seconds), int(peak) * (1 if sys.platform == "darwin" else 1024)


def share_of_core(n_processes: int) -> float:
    """Share of a core that each of so many processes side by side gets now: 1 on a quiet machine."""
    command = [sys.executable, "-c", _SPIN.format(seconds=_SPIN_SECONDS)]
    spinning = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(n_processes)
    ]
    shares = [float(process.communicate()[0]) for process in spinning]
    return min(sum(shares) / len(shares), 1.0)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a call, and what it returned."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def repeated(work: Callable[[], Any]) -> float:
    """Seconds of one call, of as many as fit into `ENOUGH`, after one that is not counted."""
    work()
    n, began = 0, time.process_time()
    while n == 0 or time.process_time() - began < ENOUGH:
        work()
        n += 1
    return (time.process_time() - began) / n


def seconds_by_cases(work: Callable[[xr.Dataset], Any], dataset: xr.Dataset) -> float:
    """Seconds of a fit of all cases; of many, from two subsets, by a + b n^3."""
    n = dataset.sizes["case"]
    if n <= MOST_CASES:
        return timed(lambda: work(dataset))[0]
    # every k-th case, so that a subset has both classes
    sizes = [MOST_CASES // 2, MOST_CASES]
    few, many = (
        timed(lambda rows=rows: work(dataset.isel(case=rows)))[0]
        for rows in (np.linspace(0, n - 1, size).astype(int) for size in sizes)
    )
    slope = max(many - few, 0.0) / (sizes[1] ** 3 - sizes[0] ** 3)
    return many + slope * (n**3 - sizes[1] ** 3)


def seconds_per_transition(program: Program, n_chains: int) -> float:
    """Seconds a block of chains takes for one transition, or one temperature, from the first on."""
    rng = chain_generators(0, "forecast", chains=range(n_chains))
    carry = program.start(rng)
    return repeated(lambda: program.advance(rng, carry, 0, 1))


def segment_cost(
    program: Program, n_chains: int, n_draws: int, folder: str | Path
) -> tuple[float, int, int]:
    """Seconds to write a segment with its checkpoint and to read it again, and the bytes of the two."""
    rng = chain_generators(0, "forecast", chains=range(n_chains))
    carry = {f"carry:{name}": np.asarray(value) for name, value in program.start(rng).items()}
    carry["generator_state"] = np.asarray(rng.state)
    outputs = {
        name: np.zeros((n_chains, n_draws, *trailing), dtype)
        for name, (trailing, dtype) in program.outputs().items()
    }
    with tempfile.TemporaryDirectory(dir=folder) as place:
        block = BlockFolder(place)

        def write() -> None:
            write_arrays(block.checkpoint(0), carry, "forecast")
            write_arrays(block.segment(0), outputs, "forecast")

        writing = []
        for _ in range(3):  # the least of them, as what is waited for may be another's turn
            began = time.perf_counter()
            write()
            writing.append(time.perf_counter() - began)
        reading, _ = timed(lambda: read_arrays(block.segment(0)))
        sizes = [path.stat().st_size for path in (block.segment(0), block.checkpoint(0))]
    return min(writing) + reading, *sizes
