"""Memory and time a job asks a cluster for, from the size of its problem and the attempt.

Called by the rules when a job is about to be submitted; a data file that is not there yet raises
`FileNotFoundError`, which Snakemake takes for "to be decided". Imports nothing heavy by itself.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpmcflow.storage.checksums import require_unchanged

if TYPE_CHECKING:
    from gpmcflow.jobs.study import PlannedJob

PROCESS_MB = 600  # Python with the libraries a job imports: 270 MB measured, doubled
MARGIN = 1.25  # of what is asked for a fit to what it holds
# Arrays alive at once in a fit: n x n, also with hyperparameters and latents together; n x d of a linear
# model; n x m and m x m of m basis functions
GP_MATRICES, JOINT_MATRICES, LINEAR_MATRICES, BASIS_MATRICES, BASIS_SQUARES = 8, 12, 6, 8, 10
BASIS_VECTORS = 30  # of n numbers, beside them
TILED_VECTORS = (
    300  # of n numbers, where only tiles of the n x m are made: 200 measured with 10 columns
)
MOST_FUNCTIONS = 400  # basis functions, where they are not counted
MANY_CASES = 2000  # beyond which models of structure auto have them, as in `models.gp_model`
# Measured with the jobs themselves; a test does so again.
PER_STATE = 18  # arrays of n or d numbers for each state that is moved: at most 16
PER_FACTORED_STATE = 56  # the same of RMHMC, beside its n x n factor: 52
PER_CHAIN = 2000  # numbers: a chain's own random generator
KEPT = 2  # copies of a segment's draws at its end: one by one, and in one array
STATISTICS = 8  # numbers kept for each particle and temperature
REVERSED = 3  # arrays of n numbers for each draw that a reverse run starts from
MOST_MINUTES = 60
INSIDE = ("parallel_tempering", "sequential_monte_carlo")  # replicates have their chains inside

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Ask:
    """What the jobs of a stage ask a machine for.

    Walltimes are short, as a job that is stopped goes on in its next attempt: longer jobs are chains of
    attempts. A job on its second attempt may have been killed for its memory or for its time, which
    nothing here can tell apart: it asks for more of both.

    Attributes
    ----------
    threads:
        By config and job.
    first_megabytes:
        Memory of the first attempt, by config, job and threads.
    first_minutes:
        Walltime of the first attempt.
    """

    threads: Callable[[Settings, PlannedJob], int]
    first_megabytes: Callable[[Settings, PlannedJob, int], int]
    first_minutes: int

    def megabytes(self, config: Settings, job: PlannedJob, threads: int, attempt: int) -> int:
        """Half as much again on the second attempt, from the third on twice as much."""
        first = self.first_megabytes(config, job, threads)
        return math.ceil(first * (1 + 0.5 * min(attempt - 1, 2)))

    def minutes(self, attempt: int) -> int:
        """As many times the first as there were attempts, up to an hour."""
        return min(MOST_MINUTES, self.first_minutes * attempt)


def one_thread(config: Settings, job: PlannedJob) -> int:
    """One, for any job."""
    return 1


def worker_threads(config: Settings, job: PlannedJob) -> int:
    """As many as the config has workers; those of a Dask cluster are not on the cores of the job."""
    execution = config["execution"]
    return 1 if execution["scheduler"] else execution["workers"]


def small(megabytes: int = 1200, minutes: int = 15) -> Ask:
    """One thread, and the same for every job."""
    return Ask(one_thread, lambda config, job, threads: megabytes, minutes)


def of_problem(
    minutes: int = MOST_MINUTES,
    threads: Callable[[Settings, PlannedJob], int] = one_thread,
    method: str = "",
) -> Ask:
    """Memory by the input named data, of a fit, or of chains by the settings of this name."""

    def megabytes(config: Settings, job: PlannedJob, processes: int) -> int:
        chosen = job.settings[method] if method else {}
        return memory_mb(config, job.problem, job.inputs["data"], processes, chosen)

    return Ask(threads, megabytes, minutes)


def problem_sizes(data: str | os.PathLike, variable: str = "X") -> tuple[int, int]:
    """Return cases and features of a prepared data file, from its header.

    Of a damaged file (1, 1): its job starts, and refuses it in one line.
    """
    seen = os.stat(data)  # h5py's own error does not name the file
    return _sizes(os.fspath(data), variable, seen.st_size, seen.st_mtime_ns)


@functools.cache
def _sizes(data: str, variable: str, size: int, mtime_ns: int) -> tuple[int, int]:
    """`problem_sizes`, looked up once for each state of a file, as each job asks several times."""
    import h5py

    try:
        require_unchanged(data)
        with h5py.File(data) as file:
            n, p = file[variable].shape
    except (OSError, RuntimeError, LookupError, AttributeError, ValueError):
        return 1, 1
    return n, p


def memory_mb(
    config: Settings, problem: str, data: str | os.PathLike, processes: int, method: Settings
) -> int:
    """Return the MB to ask for: room for the arrays of a problem and for each Python process.

    The arrays get no more than `memory_limit_gb`, above which a job refuses to start.
    """
    sizes, settings = problem_sizes(data), config["problems"][problem]
    chains = run_numbers(settings, config["execution"], *sizes, method, processes)
    spare = (MARGIN - 1) * fit_numbers(settings, *sizes)
    return _megabytes(config, chains + spare, processes)


def analysis_memory_mb(
    config: Settings,
    data: str | os.PathLike,
    processes: int,
    structure: str = "auto",
    learning: float = 1.0,
) -> int:
    """Return the MB that a job of an analysis asks for, as `memory_mb`: each process has its own matrices.

    ``structure`` is that of its model; with "basis" the matrices are those of the most functions, and so they
    are with "auto" for more than `MANY_CASES` rows, but not fewer than the dense ones of so many. The job
    fits more rows than the learning ones: these are the share ``learning`` of its rows.
    """
    n = math.ceil(problem_sizes(data, "learning/X")[0] / learning)
    numbers = model_numbers(n, MOST_FUNCTIONS if structure == "basis" else None)
    if structure == "auto" and n > MANY_CASES:
        numbers = max(model_numbers(n, MOST_FUNCTIONS), model_numbers(MANY_CASES))
    return _megabytes(config, MARGIN * numbers * processes, processes)


def _megabytes(config: Settings, numbers: float, processes: int) -> int:
    arrays = 8 * numbers / 1e6
    if config["memory_limit_gb"]:
        arrays = min(arrays, 1000 * config["memory_limit_gb"])
    return math.ceil(arrays + PROCESS_MB * (1 + processes))


def model_numbers(n: int, functions: int | None = None) -> int:
    """Return the most numbers that a fit of a `GPModel` holds at a time, dense or with basis functions."""
    if functions is None:
        return JOINT_MATRICES * n * n
    return (BASIS_MATRICES * functions + BASIS_VECTORS) * n + BASIS_SQUARES * functions**2


def tiled_numbers(n: int, matrix: int) -> int:
    """The same with basis functions whose n x m is made in tiles, and ``matrix`` numbers of their m x m."""
    return TILED_VECTORS * n + BASIS_SQUARES * matrix


def fit_numbers(problem: Settings, n: int, p: int) -> int:
    """Return the most numbers that a fit of a problem with n cases and p features holds at a time."""
    if problem["model"] == "linear":
        d = _draw_size(problem, n, p)
        return LINEAR_MATRICES * n * d + d * d
    return GP_MATRICES * n * n if problem["model"] == "gp" else model_numbers(n)


def run_numbers(
    problem: Settings, execution: Settings, n: int, p: int, method: Settings, processes: int
) -> int:
    """Return those of its chains: the fit, a block of chains in each process, and what is kept of all.

    ``method`` says how many chains there are, of how many states or factors each, and whether latents
    are kept; an empty one has no chains.
    """
    fit = fit_numbers(problem, n, p)
    if not method:
        return fit
    d = _draw_size(problem, n, p)
    per_state = PER_STATE * (n if problem["model"] != "linear" else d + d * n // (p + 1))
    if method.get("sampler") == "rmhmc":
        per_state = n * n + PER_FACTORED_STATE * n
    per_chain = PER_CHAIN + states_per_chain(method) * per_state
    if "chains" in method or method.get("store_latents"):
        per_chain += KEPT * execution["segment_length"] * d
    chains = chains_of(method)
    kept = REVERSED * n if method.get("reverse") else 0
    kept += STATISTICS * max(method.get("temperatures") or [0]) * _runs_per_chain(method)
    if "iterations" in method:  # whose draws are loaded
        kept += KEPT * d * (method["iterations"] + method["warmup"]) // method["thin"]
    block = min(chains, execution["block_size"])
    return fit + processes * block * per_chain + chains * kept


def _draw_size(problem: Settings, n: int, p: int) -> int:
    """Numbers of a draw: latents, or a coefficient of each class."""
    if problem["model"] != "linear":
        return n
    return (p + 1) * (8 if problem["likelihood"] == "multinomial" else 1)


def chains_of(method: Settings) -> int:
    """Return the chains of a run; of the evidence study particles, or replicates with theirs inside."""
    return (
        method.get("chains")
        or method["replicates" if method.get("kind") in INSIDE else "particles"]
    )


def _runs_per_chain(method: Settings) -> int:
    """Passes along a ladder whose statistics are kept of each chain."""
    if method.get("kind") == "parallel_tempering":
        return method["draws"] + method["warmup"]
    return 1 if method.get("kind") in INSIDE else method.get("replicates", 1)


def states_per_chain(method: Settings) -> int:
    """Return the states a chain of the evidence study moves at once: its ladder, or its particles."""
    if method.get("kind") == "parallel_tempering":
        return max(method["temperatures"])
    if method.get("kind") == "sequential_monte_carlo":
        return (method.get("adaptive_particles") or {}).get("most", method["particles"])
    return 1
