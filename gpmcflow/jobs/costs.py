"""What the forecasts of all rules share: data sets, sizes on disk, measurements made once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from gpmcflow.data.catalogue import CATALOGUE
from gpmcflow.data.sources import SourceFile, cache_folder, find_local, search_folders
from gpmcflow.execution.blocks import Grid, Program
from gpmcflow.jobs.problems import WITH_OPTIONS, prepare_data
from gpmcflow.jobs.timing import MOST_CASES, segment_cost, startup, timed

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
        self, config: dict, folder: Path, home: Path | None = None, cores: int = 1
    ) -> None:
        self.config, self.folder, self.cores = config, folder, cores
        self.home = home or Path()  #: where the workflow runs
        self._made: dict[Any, Any] = {}
        self.notes: list[str] = []  #: lines to be told beside the forecast

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

    @property
    def workers(self) -> int:
        """Processes a sampling job runs its blocks in on this machine."""
        return 1 if self.execution["scheduler"] else int(self.execution["workers"])

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
        """Cost of a sampling job: with the start of Python, of its workers, too."""
        start, process = startup()
        pool = self.workers if self.workers > 1 else 0
        begin = start * (2 if pool else 1)  # workers start side by side
        return Cost(begin + seconds, int(array_bytes) + (1 + pool) * process, int(disk) + SMALL)

    def single(self, seconds: float, array_bytes: int, disk: int = 0) -> Cost:
        """Cost of a job in one process."""
        start, process = startup()
        return Cost(start + seconds, int(array_bytes) + process, int(disk) + SMALL)


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
