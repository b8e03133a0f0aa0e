"""Run a program over blocks of chains and segments of draws."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpmcflow.execution.blocks import Grid, Program
from gpmcflow.execution.disk import require_disk
from gpmcflow.execution.identity import RunIdentity
from gpmcflow.execution.job import Job
from gpmcflow.execution.pools import workers
from gpmcflow.execution.randomness import stable_key
from gpmcflow.execution.settings import Execution
from gpmcflow.execution.signals import finish_first
from gpmcflow.execution.state_folder import StateFolder
from gpmcflow.execution.tasks import ProgramBox

if TYPE_CHECKING:
    import dask.array as da


def run(
    program: Program,
    *,
    n_chains: int,
    length: int,
    seed: int,
    key: tuple[str | int, ...] = (),
    first_chain: int = 0,
    execution: Execution | None = None,
) -> dict[str, da.Array]:
    """Return the outputs of a program as Dask arrays (n_chains, length, *trailing).

    Chains are advanced together in fixed blocks of `execution.block_size` (all of them unless given), draws
    in segments of `segment_length` (100): one Dask task for each (block, segment), one chunk of each output.
    Chain k draws from the generator keyed by (seed, *key, k), starting at `first_chain`. The numbers do not
    depend on the scheduler, the workers, `segment_length`, or on a run being killed and started again; they
    may depend on `block_size` by rounding.

    With a `state_dir` each task writes its outputs and a checkpoint below it (uncompressed .npz, so
    that no HDF5 happens in workers) and memory is bounded by the blocks in flight. A segment file
    that is whole and belongs to these `settings` (plain values, which should name all that the
    program depends on, its data and code too), seed, key, chains and draws is taken as it is; any
    other is computed again, with a warning. More chains or more draws go on from what is there. One
    run at a time works in a folder. Inside `graceful_stop` a SIGTERM or SIGUSR1 ends the run with
    `Stopped`, when the segments under way are on disk.

    With `compute=False` nothing runs: the arrays hold the graph. Else all is run now, and the arrays hold
    NumPy chunks, or read the finished files of `state_dir`.

    Raises `InputError` for wrong sizes, settings or programs, `StorageError` when files cannot be
    written or read, `ResourceError` when a worker dies or the disk of `state_dir` has too little
    room, and its kind `UnavailableError` when no Dask scheduler answers, one is lost on the way, or
    another run is at work in `state_dir`: for scheduler and folder it waits a second, for minutes
    inside `patience`.
    """
    how = Execution.of(execution, block_size=n_chains, segment_length=100)
    grid = Grid(n_chains, length, how.block_size, how.segment_length, first_chain)
    stable_key(seed, *key)  # refuse a wrong key here, not in a worker
    identity = RunIdentity.of(program, seed, tuple(key), how.settings)
    folder = None
    if how.state_dir is not None:
        folder = StateFolder(Path(how.state_dir).resolve(), grid, identity)
    job = Job(ProgramBox(program, identity), grid, seed, tuple(key), folder)
    if not how.compute:
        return job.lazy_arrays()
    with workers(how.pool, how.workers) as pool, finish_first():
        if folder is None:
            return job.in_memory(pool, how.label)
        facts = {"label": how.label, "settings": how.settings, "outputs": sorted(program.outputs())}
        with folder.open(**facts):
            _require_space(program, grid, folder, how.label)
            return job.on_disk(pool, how.label)


def _require_space(program: Program, grid: Grid, folder: StateFolder, label: str | None) -> None:
    """Refuse, before work starts, draws that the disk has no room for; those that are there count."""
    per_draw = sum(
        math.prod(trailing) * np.dtype(dtype).itemsize
        for trailing, dtype in program.outputs().values()
    )
    missing = 1.0 - folder.count() / (len(grid.blocks) * len(grid.segments))
    n_bytes = int(missing * grid.n_chains * grid.length * per_draw)
    require_disk(n_bytes, folder.path, label or "the run")
