"""What a job of the workflow costs, timed on this machine before it starts."""

from __future__ import annotations

import contextlib
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import gpmcflow
from gpmcflow.data.catalogue import CATALOGUE
from gpmcflow.data.sources import SourceFile, cache_folder, find_local, search_folders
from gpmcflow.errors import StorageError
from gpmcflow.execution import chain_generators, pin_blas
from gpmcflow.execution.blocks import Grid, Program
from gpmcflow.execution.pools import CAN_FORK
from gpmcflow.execution.segment_files import BlockFolder, read_arrays, write_arrays
from gpmcflow.jobs.problems import WITH_OPTIONS, prepare_data
from gpmcflow.jobs.resources import fit_numbers, run_numbers
from gpmcflow.storage import write_text
from gpmcflow.storage.cache_folder import user_caches

# The one measure of CPU seconds per iteration: what a study counts a method's steps at.

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


# Short measurements a forecast is made from.
#
# All seconds are CPU seconds; `share_of_core` measures how much other processes on the machine take.

ENOUGH = 0.05  # seconds a repeated measurement takes
MOST_CASES = 320  # a fit is timed at so many cases, and from there extrapolated
# Linux counts the memory of who started a process in its ru_maxrss; VmHWM is of its own program alone.
_JOB = """
import re, resource, sys, time
import gpmcflow.jobs.job, gpmcflow.storage
import gpmcflow.replications.rmhmc_ais.runs, gpmcflow.replications.split_hmc.runs
try:
    with open("/proc/self/status") as status:
        peak = 1024 * int(re.search("VmHWM:[^0-9]*([0-9]+)", status.read())[1])
except (OSError, TypeError):  # bytes on macOS, kilobytes elsewhere
    unit = 1 if sys.platform == "darwin" else 1024
    peak = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(time.process_time(), peak)
"""
_SPIN = """
import time
end = time.perf_counter() + {seconds}
began = time.process_time()
while time.perf_counter() < end: pass
print((time.process_time() - began) / {seconds})
"""
_SPIN_SECONDS = 0.3
_PYTHON = (sys.executable, "-P", "-c")  # no module is imported from the folder of the data


@cache
def startup() -> tuple[float, int]:
    """Seconds a job needs to start Python and import what it uses, and the bytes it then takes.

    Measured once for this machine, Python and version of the package, and kept in the user's caches.
    """
    caches = user_caches()
    kept = None if caches is None else caches / "gpmcflow" / "startup.json"
    of = [gpmcflow.__version__, sys.version, sys.executable, platform.node(), _JOB]
    if kept is not None and (found := _kept(kept, of)):
        return found
    done = subprocess.run([*_PYTHON, _JOB], capture_output=True, text=True, check=True)
    seconds, peak = done.stdout.split()
    measured = float(seconds), int(peak)
    if kept is not None:
        with contextlib.suppress(StorageError):
            write_text(json.dumps({"of": of, "measured": measured}), kept)
    return measured


def _kept(path: Path, of: list[str]) -> tuple[float, int] | None:
    """What was measured for the same machine and versions; None where nothing is, or nothing sensible."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        seconds, size = float(found["measured"][0]), int(found["measured"][1])
    except (OSError, ValueError, TypeError, LookupError, OverflowError):
        return None
    return (seconds, size) if found["of"] == of and 0.0 < seconds < 1e3 and size > 0 else None


def share_of_core(n_processes: int) -> float:
    """Share of a core that each of so many processes side by side gets now: 1 on a quiet machine."""
    command = [*_PYTHON, _SPIN.format(seconds=_SPIN_SECONDS)]
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


# What the forecasts of all rules share: data sets, sizes on disk, measurements made once.

SMALL = 200_000  # bytes of a results file without its draws


class Cost(NamedTuple):
    """What one job needs."""

    seconds: float  #: on a quiet machine
    memory: int  #: bytes of its processes and arrays
    disk: int  #: bytes of its output and its state
    cores: int = 1  #: that it takes


class Context:
    """A checked config with its data sets, and what has been measured so far."""

    def __init__(
        self,
        config: dict,
        folder: Path,
        home: Path | None = None,
        cores: int = 1,
        started: bool = False,
    ) -> None:
        self.config, self.folder, self.cores = config, folder, cores
        self.home = home or Path()  #: where the workflow runs
        self.started = started  #: whether one Python, which is counted elsewhere, runs all jobs
        self._made: dict[Any, Any] = {}
        self.notes: list[str] = []  #: lines to be told beside the forecast
        self.workers = 1  #: processes of the sampling job that is looked at

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` gave when it was called for this key first."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def data(self, name: str) -> tuple[float, xr.Dataset] | None:
        """Seconds to make a data set, and the data set; None if it would have to be downloaded."""
        settings, data_dir = self.config["datasets"].get(name), self.config["data_dir"]

        keys = [key for key in settings or () if key in WITH_OPTIONS]
        entry = WITH_OPTIONS[keys[0]] if keys else name

        def make() -> tuple[float, xr.Dataset] | None:
            if (settings is None or keys) and not is_local(entry, data_dir):
                return None
            return timed(lambda: prepare_data(name, settings, data_dir))

        return self.once(("data", name), make)

    def dataset(self, problem: str) -> xr.Dataset | None:
        """Data set of a problem, None if it is not here."""
        made = self.data(self.config["problems"][problem]["dataset"])
        return None if made is None else made[1]

    def small(self, problem: str) -> xr.Dataset:
        """At most `MOST_CASES` of its cases, every k-th, so that each class is among them."""
        dataset = self.dataset(problem)
        n = dataset.sizes["case"]
        return dataset.isel(case=np.linspace(0, n - 1, min(n, MOST_CASES)).astype(int))

    @property
    def execution(self) -> dict:
        """Section `execution` of the config."""
        return self.config["execution"]

    def fit_bytes(self, problem: str) -> int:
        """Bytes of the arrays of a fit."""
        settings, sizes = self.config["problems"][problem], self._sizes(problem)
        return 8 * fit_numbers(settings, *sizes)

    def run_bytes(self, problem: str, method: dict) -> int:
        """Bytes of the arrays of the chains of a method."""
        settings, sizes = self.config["problems"][problem], self._sizes(problem)
        return 8 * run_numbers(settings, self.execution, *sizes, method, self.workers)

    def _sizes(self, problem: str) -> tuple[int, int]:
        sizes = self.dataset(problem).sizes
        return sizes["case"], sizes["feature"]

    def grid(self, n_chains: int, length: int) -> Grid:
        """Blocks and segments of a run."""
        execution = self.execution
        return Grid(
            int(n_chains), int(length), execution["block_size"], execution["segment_length"]
        )

    def turns(self, grid: Grid) -> float:
        """Full blocks one after another on a worker; a smaller last one counts as its share."""
        return max(grid.n_chains / block_of(grid) / self.workers, 1.0)

    def on_disk(self, program: Program, grid: Grid) -> tuple[float, int, int]:
        """Seconds a run spends on its segments, on one worker, and bytes of its state and its draws."""
        n_draws = min(grid.segment_length, grid.length)
        shapes = tuple(sorted((name, *kind) for name, kind in program.outputs().items()))
        key = ("segment", shapes, block_of(grid), n_draws)
        make = lambda: segment_cost(program, block_of(grid), n_draws, self.folder)  # noqa: E731
        one, segment, checkpoint = self.once(key, make)
        draws = segment * grid.length / n_draws * grid.n_chains / block_of(grid)
        checkpoints = checkpoint * min(len(grid.segments), 2) * grid.n_chains / block_of(grid)
        seconds = one * len(grid.segments) * self.turns(grid)
        return seconds, int(draws + checkpoints), int(draws)

    def job(self, seconds: float, array_bytes: int, disk: int) -> Cost:
        """Cost of a sampling job: with the start of Python, and the memory of its workers."""
        pool = self.workers if self.workers > 1 else 0
        start = self.start_of_job + (self.start_of_workers if pool else 0.0)
        return Cost(
            start + seconds, int(array_bytes) + (1 + pool) * startup()[1], int(disk) + SMALL
        )

    @property
    def start_of_job(self) -> float:
        """Seconds that the process of a job takes to start."""
        return 0.0 if self.started else startup()[0]

    @property
    def start_of_workers(self) -> float:
        """Seconds that the workers of a job take to start, side by side: see `forked_workers`."""
        return 0.0 if CAN_FORK else startup()[0]

    def single(self, seconds: float, array_bytes: int, disk: int = 0) -> Cost:
        """Cost of a job in one process."""
        array_bytes = int(array_bytes) + startup()[1]
        return Cost(self.start_of_job + seconds, array_bytes, int(disk) + SMALL)


def cost_of_making(make: Callable[..., Any]) -> Callable[[Context, Any], Cost]:
    """Cost of small jobs, which are made to see: of illustrations."""
    return lambda context, job: context.single(timed(lambda: make(seed=0))[0], 0)


def block_of(grid: Grid) -> int:
    """Chains of a full block."""
    return min(grid.block_size, grid.n_chains)


def is_local(name: str, data_dir: str | None) -> bool:
    """Return whether a data set of the catalogue can be had without a download."""
    entry, folders = CATALOGUE[name], search_folders(data_dir)

    def here(files: tuple[SourceFile, ...]) -> bool:
        return all(find_local(f, folders) or (cache_folder() / f.path).is_file() for f in files)

    return here(entry.files) or bool(entry.fallback and here(entry.fallback))
