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
# n x n and n x d arrays alive at once, a quarter above the studies'
GP_MATRICES, LINEAR_MATRICES = 10, 8
JOINT_MATRICES = 15  # of a model of hyperparameters and latents
BASIS_COLUMNS, MOST_FUNCTIONS_SQUARED = 4000, 2_000_000  # of a model with 400 basis functions
# Measured with the jobs themselves; a test does so again.
PER_STATE = 18  # arrays of n or d numbers for each state that is moved: at most 16
PER_FACTORED_STATE = 56  # the same of RMHMC, beside its n x n factor: 52
PER_CHAIN = 2000  # numbers: a chain's own random generator
KEPT = 2  # copies of a segment's draws at its end: one by one, and in one array
FLOPS = 1e9  # a second of one busy core, at matrices of this size; a tenth of what a quiet one does
LEAST_MINUTES, WALLTIME_MINUTES = 15, 60
INSIDE = ("parallel_tempering", "sequential_monte_carlo")  # replicates have their chains inside

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Ask:
    """What the jobs of a stage ask a machine for.

    Attributes
    ----------
    threads:
        By config and job.
    megabytes:
        By config, job, threads and attempt.
    minutes:
        Walltime, by config, job and attempt.
    """

    threads: Callable[[Config, PlannedJob], int]
    megabytes: Callable[[Config, PlannedJob, int, int], int]
    minutes: Callable[[Config, PlannedJob, int], int]


def small(megabytes: int = 1200, minutes: int = 15) -> Ask:
    """One thread, and the same for every job; a longer time at each attempt."""
    return Ask(
        lambda config, job: 1,
        lambda config, job, threads, attempt: megabytes,
        lambda config, job, attempt: min(WALLTIME_MINUTES, minutes * attempt),
    )


def of_problem(minutes: int | None = None, workers: bool = False, method: str = "") -> Ask:
    """Memory by the input named data, and by the settings of this name of a method.

    The time follows the flops of the method where none is stated. ``workers`` takes as many threads as the
    config has workers; those of a Dask cluster are not on the cores of the job.
    """

    def threads(config: Config, job: PlannedJob) -> int:
        execution = config["execution"]
        return execution["workers"] if workers and not execution["scheduler"] else 1

    def megabytes(config: Config, job: PlannedJob, processes: int, attempt: int) -> int:
        chosen = job.settings[method] if method else None
        return memory_mb(config, job.problem, job.inputs["data"], processes, attempt, chosen)

    def walltime(config: Config, job: PlannedJob, attempt: int) -> int:
        if minutes is not None:
            return min(WALLTIME_MINUTES, minutes * attempt)
        return runtime_minutes(
            config, job.problem, job.inputs["data"], job.settings[method], attempt
        )

    return Ask(threads, megabytes, walltime)


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
    config: dict,
    problem: str,
    data: str | os.PathLike,
    processes: int,
    attempt: int,
    method: dict[str, Any] | None = None,
) -> int:
    """Return the MB to ask for: room for the arrays of a problem and for each Python process.

    ``method`` says how many chains there are, of how many states or factors each, and whether latents
    are kept; without one, that a block is full and they are.

    A job on its second attempt may have been killed for its memory or for its time, which nothing
    here can tell apart: it asks for half as much again, from the third on for twice as much. The
    arrays get no more than `memory_limit_gb`, above which a job refuses to start.
    """
    n, p = problem_sizes(data)
    settings, method = config["problems"][problem], method or {}
    if settings["model"] in ("gp", "joint"):
        d, per_state = n, PER_STATE * n
        numbers = (GP_MATRICES if settings["model"] == "gp" else JOINT_MATRICES) * n * n
        if method.get("sampler") == "rmhmc":
            per_state = n * n + PER_FACTORED_STATE * n
    else:
        classes = 8 if settings["likelihood"] == "multinomial" else 1
        d = classes * (p + 1)
        numbers, per_state = LINEAR_MATRICES * n * d + d * d, PER_STATE * (classes * n + d)
    per_chain = PER_CHAIN + states_per_chain(method) * per_state
    if not method or "chains" in method or method.get("store_latents"):
        per_chain += KEPT * config["execution"]["segment_length"] * d
    chains = config["execution"]["block_size"]
    if method:
        chains = min(chains, method.get("chains") or chains_of(method))
    numbers += processes * chains * per_chain
    return _asked(config, numbers, processes, attempt)


def analysis_memory_mb(
    config: dict,
    data: str | os.PathLike,
    processes: int,
    attempt: int,
    structure: str = "auto",
    learning: float = 1.0,
) -> int:
    """Return the MB that a job of an analysis asks for, as `memory_mb`: each process has its own matrices.

    ``structure`` is that of its model; with "basis" the matrices are those of the most functions. The
    job fits more rows than the learning ones: these are the share ``learning`` of its rows.
    """
    n = math.ceil(problem_sizes(data, "learning/X")[0] / learning)
    basis = structure == "basis"
    numbers = BASIS_COLUMNS * n + MOST_FUNCTIONS_SQUARED if basis else JOINT_MATRICES * n * n
    return _asked(config, numbers * processes, processes, attempt)


def _asked(config: dict, numbers: int, processes: int, attempt: int) -> int:
    arrays = 8 * numbers / 1e6
    if config["memory_limit_gb"]:
        arrays = min(arrays, 1000 * config["memory_limit_gb"])
    return math.ceil((arrays + PROCESS_MB * (1 + processes)) * (1 + 0.5 * min(attempt - 1, 2)))


def runtime_minutes(
    config: dict, problem: str, data: str | os.PathLike, method: dict[str, Any], attempt: int
) -> int:
    """Return the walltime to ask for: short, as a job that is stopped goes on in its next attempt.

    It follows the flops of the method, between 15 and 60 minutes; an attempt that was not enough is
    followed by a longer one, up to the 60. Longer jobs are chains of attempts.
    """
    minutes = LEAST_MINUTES + flops(config, problem, data, method) / FLOPS / 60
    return min(WALLTIME_MINUTES, math.ceil(minutes) * attempt)


def chains_of(method: dict[str, Any]) -> int:
    """Return the chains of a run of the evidence study: particles, or replicates that have theirs inside."""
    return method["replicates" if method.get("kind") in INSIDE else "particles"]


def states_per_chain(method: dict[str, Any]) -> int:
    """Return the states a chain of the evidence study moves at once: its ladder, or its particles."""
    if method.get("kind") == "parallel_tempering":
        return max(method["temperatures"])
    if method.get("kind") == "sequential_monte_carlo":
        return (method.get("adaptive_particles") or {}).get("most", method["particles"])
    return 1


def flops(config: dict, problem: str, data: str | os.PathLike, method: dict[str, Any]) -> float:
    """Return the floating-point operations of a method's gradients, roughly."""
    n, p = problem_sizes(data)
    steps = method.get("n_steps") or (method.get("tuning") or {}).get("n_steps") or 20
    if config["problems"][problem]["model"] == "gp":
        gradient = n**3 if method.get("sampler") == "rmhmc" else 2 * n * n
        ladders = sum(method.get("temperatures") or [1])
        if method.get("kind") == "parallel_tempering":
            transitions = method["replicates"] * (method["draws"] + method["warmup"]) * ladders
        elif method.get("kind") == "sequential_monte_carlo":
            transitions = (
                method["replicates"] * states_per_chain(method) * method["moves"] * ladders
            )
        else:
            draws = method.get("draws", 0) + method.get("warmup", 0)
            ways = (1 + bool(method.get("reverse"))) * method.get("replicates", 1)
            transitions = method.get("chains", 0) * draws
            transitions += method.get("particles", 0) * ladders * ways
        fits = 100 * n**3
    else:
        gradient = 4 * n * (p + 1) * method.get("inner_steps", 1)
        transitions, fits = method["chains"] * method["draws"], 20 * n * (p + 1) ** 2
    return transitions * steps * gradient + fits
