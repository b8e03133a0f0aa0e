"""Run a program over blocks of chains and segments of draws."""

from __future__ import annotations

import os
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from dask.highlevelgraph import HighLevelGraph

from gpmcflow.execution.blocks import Grid, Program
from gpmcflow.execution.pools import Workers, workers
from gpmcflow.execution.progress import Progress
from gpmcflow.execution.randomness import stable_key
from gpmcflow.execution.segment_files import BlockFolder
from gpmcflow.execution.tasks import (
    ProgramBox,
    Segment,
    SegmentTask,
    advance_segment,
    mean_acceptance,
    read_output,
    take_output,
)


def run(
    program: Program,
    *,
    n_chains: int,
    length: int,
    block_size: int,
    segment_length: int,
    seed: int,
    key: tuple[str | int, ...] = (),
    scheduler: Any = "synchronous",
    n_workers: int = 1,
    state_dir: str | os.PathLike | None = None,
    settings: Any = None,
    compute: bool = True,
    progress: str | None = None,
    first_chain: int = 0,
) -> dict[str, da.Array]:
    """Return the outputs of a program as Dask arrays (n_chains, length, *trailing).

    Chains are advanced together in fixed blocks of `block_size`, draws in segments of
    `segment_length`: one Dask task for each (block, segment), one chunk of each output. Chain k
    draws from the generator keyed by (seed, *key, k), starting at `first_chain`. The numbers do not
    depend on `scheduler`, `n_workers`, `segment_length`, or on a run being killed and started
    again; they may depend on `block_size` by rounding.

    With `state_dir` each task writes its outputs and a checkpoint below it (uncompressed .npz, so
    that no HDF5 happens in workers) and memory is bounded by the blocks in flight. A segment file
    that is whole and belongs to these `settings` (plain values, which should name all that the
    program depends on, its data and code too), seed, key, chains and draws is taken as it is; any
    other is computed again, with a warning. More chains or more draws go on from what is there.

    With `compute=False` nothing runs: the arrays hold the graph. Else all is run now, by
    `scheduler` (see `workers`), and the arrays hold NumPy chunks, or read the finished files of
    `state_dir`. `progress` is the label of a progress bar, None for silence.

    Raises `InputError` for wrong sizes, settings or programs, `StorageError` when files cannot be
    written or read, `ResourceError` when a worker dies.
    """
    grid = Grid(n_chains, length, block_size, segment_length, first_chain)
    stable_key(seed, *key)  # refuse a wrong key here, not in a worker
    folder = None if state_dir is None else Path(state_dir).resolve()
    job = _Job(program, grid, seed, tuple(key), settings, folder)
    if not compute:
        return job.lazy_arrays()
    with workers(scheduler, n_workers) as pool:
        return job.run(pool, progress)


class _Job:
    """The graph of one run, and the arrays on it."""

    def __init__(self, program, grid: Grid, seed, key, settings, folder: Path | None):
        self.program = program
        self.grid = grid
        self.folder = folder
        # A random name: nothing here can tell whether two programs are the same.
        self.name = f"segment-{uuid.uuid4().hex}"
        self.graph: dict = {f"program-{self.name}": ProgramBox(program)}
        for block, chains in enumerate(grid.blocks):
            block_folder = None if folder is None else self._block_folder(chains[0])
            previous = None
            for index, (start, stop) in enumerate(grid.segments):
                task = SegmentTask(
                    chains, index, start, stop, grid.segment_length, seed, key, settings,
                    None if block_folder is None else block_folder.path,
                )  # fmt: skip
                if block == index == 0:
                    task.identity(program, "segment", start, stop)  # refuse wrong settings now
                self.graph[self.name, block, index] = (
                    partial(advance_segment, task=task),
                    f"program-{self.name}",
                    previous,
                )
                previous = (self.name, block, index)

    def _block_folder(self, first_chain: int) -> BlockFolder:
        return BlockFolder(str(self.folder / f"block_{first_chain // self.grid.block_size:05d}"))

    def lazy_arrays(self) -> dict[str, da.Array]:
        return self._arrays(
            lambda name, block, index: (partial(take_output, name=name), (self.name, block, index)),
            {self.name: self.graph},
        )

    def run(self, pool: Workers, label: str | None) -> dict[str, da.Array]:
        segments = [key for key in self.graph if isinstance(key, tuple)]
        collected: dict[tuple[int, int], dict[str, np.ndarray]] = {}
        report = None if label is None else Progress(label, len(segments))

        def finished(key, value):
            if not isinstance(key, tuple) or key[0] not in (self.name, f"outputs-{self.name}"):
                return
            if isinstance(value, Segment):
                # Taken out of the segment, so that only the carry goes to the next task.
                segment, value = value, value.outputs
                segment.outputs = {}
            in_memory = isinstance(value, dict)
            if in_memory:
                collected[key[1:]] = value
            if report is not None:
                acceptance = mean_acceptance(value) if in_memory else value.acceptance
                report.update(acceptance, found=not in_memory and value.found)

        try:
            pool.compute(*self._wanted(pool, segments), finished)
        finally:
            if report is not None:
                report.close()
        if self.folder is not None:
            return self._file_arrays()
        return self._arrays(lambda name, block, index: collected[block, index][name], {})

    def _wanted(self, pool: Workers, segments: list) -> tuple[dict, list]:
        """Return the graph and the keys to compute; carries are held no longer than needed."""
        if pool.client is None:
            last = len(self.grid.segments) - 1
            return self.graph, [key for key in segments if key[2] == last]
        if self.folder is not None:
            return self.graph, segments
        outputs = {(f"outputs-{self.name}", *key[1:]): (_outputs, key) for key in segments}
        return self.graph | outputs, list(outputs)

    def _file_arrays(self) -> dict[str, da.Array]:
        def chunk(name, block, index):
            path = self._block_folder(self.grid.blocks[block][0]).segment(index)
            return (partial(read_output, path=str(path), name=name),)

        return self._arrays(chunk, {})

    def _arrays(self, chunk, layers: dict) -> dict[str, da.Array]:
        """Return an array for each output, of chunk(name, block, segment), above other layers."""
        arrays = {}
        for name, (trailing, dtype) in self.program.outputs().items():
            chunks = self.grid.chunks(tuple(trailing))
            layer_name = f"{name}-{self.name}"
            zeros = (0,) * len(trailing)
            layer = {
                (layer_name, block, index, *zeros): chunk(name, block, index)
                for block in range(len(self.grid.blocks))
                for index in range(len(self.grid.segments))
            }
            graph = HighLevelGraph(
                {**layers, layer_name: layer},
                {**{below: set() for below in layers}, layer_name: set(layers)},
            )
            arrays[name] = da.Array(graph, layer_name, chunks, dtype=np.dtype(dtype))
        return arrays


def _outputs(segment: Segment) -> dict[str, np.ndarray]:
    return segment.outputs
