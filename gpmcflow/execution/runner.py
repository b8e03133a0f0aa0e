"""Run a program over blocks of chains and segments of draws."""

from __future__ import annotations

import contextlib
import logging
import math
import uuid
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpmcflow.execution.blocks import Grid, Program
from gpmcflow.execution.disk import require_disk
from gpmcflow.execution.pools import Workers, workers
from gpmcflow.execution.progress import Progress
from gpmcflow.execution.randomness import stable_key
from gpmcflow.execution.settings import Execution
from gpmcflow.execution.signals import Stopped, finish_first, stop_if_asked
from gpmcflow.execution.state_folder import Key, RunIdentity, StateFolder
from gpmcflow.execution.tasks import (
    ProgramBox,
    Segment,
    SegmentFile,
    SegmentTask,
    advance_and_tell,
    advance_segment,
    damaged_files,
    mean_acceptance,
    read_output,
    take_output,
)

if TYPE_CHECKING:
    import dask.array as da


# The tasks of one run, how their results are gathered, and the arrays made of them.

log = logging.getLogger(__name__)
_CHECKED_TOGETHER = 64  # files read by one task


class Job:
    """The graph of one run, and the arrays on it; made and used by `run`."""

    def __init__(self, box: ProgramBox, grid: Grid, seed, key, folder: StateFolder | None):
        self.box = box
        self.grid = grid
        self.folder = folder
        self.blocks, self.segments = grid.blocks, grid.segments
        self.seed, self.key = seed, key
        # A random name: nothing here can tell whether two programs are the same.
        self.name = f"segment-{uuid.uuid4().hex}"

    @property
    def keys(self) -> list[Key]:
        """All (block, segment), a block's segments in order."""
        return [(b, i) for b in range(len(self.blocks)) for i in range(len(self.segments))]

    def graph(self, keys: Collection[Key], *, lazy: bool = False) -> dict:
        """Return the tasks of these segments; within a block each waits for the one before it."""
        advance = advance_and_tell if lazy else advance_segment
        graph: dict = {f"program-{self.name}": self.box}
        before = None
        for block, index in keys:
            start, stop = self.segments[index]
            folder = None if self.folder is None else self.folder.block(block).path
            task = SegmentTask(
                self.blocks[block], index, start, stop, self.grid.segment_length,
                self.seed, self.key, folder,
            )  # fmt: skip
            if before is not None and before[1] != block:
                before = None
            name = (self.name, block, index)
            graph[name] = (partial(advance, task=task), f"program-{self.name}", before)
            before = name
        return graph

    def lazy_arrays(self) -> dict[str, da.Array]:
        """Return arrays that hold the graph."""
        return self._arrays(
            lambda name, block, index: (partial(take_output, name=name), (self.name, block, index)),
            {self.name: self.graph(self.keys, lazy=True)},
        )

    def in_memory(self, pool: Workers, label: str | None) -> dict[str, da.Array]:
        """Run all; the arrays hold NumPy chunks."""
        keys = self.keys
        collected: dict[Key, dict[str, np.ndarray]] = {}
        graph = self.graph(keys)
        if pool.client is None:
            last = len(self.segments) - 1
            wanted = [(self.name, block, last) for block in range(len(self.blocks))]
        else:  # carries stay on the cluster
            outputs = {
                (f"outputs-{self.name}", *key): (_outputs, (self.name, *key)) for key in keys
            }
            graph |= outputs
            wanted = list(outputs)

        def finished(name, value):
            if isinstance(value, Segment):
                # Taken out of the segment, so that only the carry goes to the next task.
                segment, value = value, value.outputs
                segment.outputs = {}
            if not isinstance(value, dict):
                return
            collected[name[1:]] = value
            if report is not None:
                report.update(mean_acceptance(value))
            stop_if_asked()

        with _progress(label, len(keys)) as report:
            try:
                _compute(pool, graph, wanted, finished)
            except Stopped as stopped:
                raise Stopped(
                    f"{stopped}; nothing is kept, as this run has no state_dir."
                ) from None
        return self._arrays(lambda name, block, index: collected[block, index][name], {})

    def on_disk(self, pool: Workers, label: str | None) -> dict[str, da.Array]:
        """Run what is not on disk; the arrays read files."""
        keys = self.keys
        trusted = self.folder.trusted()
        with _progress(label, len(keys)) as report:
            if report is not None:
                for acceptance in trusted.values():
                    report.update(acceptance, restored=True)
            try:
                self._write([key for key in keys if key not in trusted], pool, report)
                # Now those of which no more than size and time was looked at.
                self._write(self._damaged(list(trusted), pool), pool, None)
                stop_if_asked()
            except Stopped as stopped:
                raise Stopped(
                    f"{stopped}: {self.folder.count()} of {len(keys)} segments are kept in "
                    f"{self.folder.path}; give the same command again to go on."
                ) from None
        return self._file_arrays()

    def _write(self, keys: list[Key], pool: Workers, report: Progress | None) -> None:
        def finished(name, value):
            if not isinstance(value, SegmentFile):
                return
            for remark in value.remarks:
                log.warning(remark)
            self.folder.note(name[1:], value.acceptance)
            if report is not None:
                report.update(value.acceptance, restored=value.restored)
            stop_if_asked()

        if keys:
            wanted = [(self.name, *key) for key in keys]
            _compute(pool, self.graph(keys), wanted, finished, self.folder.note_waiting)

    def _damaged(self, keys: list[Key], pool: Workers) -> list[Key]:
        graph, damaged_keys = {}, []
        for first in range(0, len(keys), _CHECKED_TOGETHER):
            files = [self.folder.file(key) for key in keys[first : first + _CHECKED_TOGETHER]]
            graph[f"check-{self.name}", first] = (partial(damaged_files, files=files),)

        def finished(name, value):
            damaged_keys.extend(keys[name[1] + i] for i, damaged in enumerate(value) if damaged)
            stop_if_asked()

        if graph:
            _compute(pool, graph, list(graph), finished, self.folder.note_waiting)
        return sorted(damaged_keys)

    def _file_arrays(self) -> dict[str, da.Array]:
        folders = [self.folder.block(block) for block in range(len(self.blocks))]

        def chunk(name, block, index):
            return (partial(read_output, path=str(folders[block].segment(index)), name=name),)

        return self._arrays(chunk, {})

    def _arrays(self, chunk, layers: dict) -> dict[str, da.Array]:
        """Return an array for each output, of chunk(name, block, segment), above other layers."""
        import dask.array as da
        from dask.highlevelgraph import HighLevelGraph

        arrays = {}
        for name, (trailing, dtype) in self.box.program.outputs().items():
            chunks = self.grid.chunks(tuple(trailing))
            layer_name = f"{name}-{self.name}"
            zeros = (0,) * len(trailing)
            layer = {
                (layer_name, block, index, *zeros): chunk(name, block, index)
                for block, index in self.keys
            }
            graph = HighLevelGraph(
                {**layers, layer_name: layer},
                {**{below: set() for below in layers}, layer_name: set(layers)},
            )
            arrays[name] = da.Array(graph, layer_name, chunks, dtype=np.dtype(dtype))
        return arrays


def _compute(pool: Workers, *arguments: Any) -> None:
    try:
        pool.compute(*arguments)
    finally:
        pool.settle()


@contextlib.contextmanager
def _progress(label: str | None, total: int) -> Iterator[Progress | None]:
    report = None if label is None else Progress(label, total)
    try:
        yield report
    finally:
        if report is not None:
            report.close()


def _outputs(segment: Segment) -> dict[str, np.ndarray]:
    return segment.outputs


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
