"""How a run executes, in the place of a dozen arguments of everything that runs."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import Any

from gpmcflow.errors import InputError


@dataclass(frozen=True)
class Execution:
    """Where the chains of a run are computed, in what pieces, and what is kept on the way.

    The numbers that come out depend on none of it but ``block_size``, and on that by rounding only.

    Attributes
    ----------
    workers:
        Processes, or threads, that share the blocks of chains.
    scheduler:
        "synchronous", "threads", "processes", the address or the file of a Dask scheduler, a
        `distributed.Client` or a `Workers`; see `gpmcflow.workers`. By default processes for two workers or
        more, else this process.
    block_size:
        Chains that are advanced together, as one batch and one Dask task; by default what suits the sampler.
    segment_length:
        Draws between two checkpoints, the unit that is written; by default what suits the sampler.
    state_dir:
        Folder in which checkpoints are kept, so that a run that was killed goes on, and results are read from
        files; without it all is in memory.
    settings:
        Plain values that name what the numbers depend on beside the program, for the files of ``state_dir``.
    compute:
        False for lazy arrays, which hold the graph.
    progress:
        Whether a run of more than two seconds shows a bar in a terminal, or lines in a log; or its label.

    Examples
    --------
    >>> import gpmcflow as gp
    >>> gp.Execution(workers=2, state_dir="chains").with_defaults(block_size=8).block_size
    8
    """

    workers: int = 1
    scheduler: Any = None
    block_size: int | None = None
    segment_length: int | None = None
    state_dir: str | os.PathLike | None = None
    settings: Any = None
    compute: bool = True
    progress: str | bool = True

    @classmethod
    def of(cls, execution: Execution | None, **defaults: Any) -> Execution:
        """Return settings as they were given, or none, with defaults for what was left out.

        Raises `InputError` for anything else.
        """
        if not isinstance(execution, Execution | None):
            raise InputError(f"execution is {execution!r}; allowed: Execution(workers=2), say")
        return (execution or cls()).with_defaults(**defaults)

    def with_defaults(self, **values: Any) -> Execution:
        """Return settings in which those that were left out have these values."""
        unset = {f.name for f in fields(self) if getattr(self, f.name) is f.default}
        return replace(self, **{name: value for name, value in values.items() if name in unset})

    def inside(self, folder: str) -> Execution:
        """Return the same settings with a folder of its own inside ``state_dir``."""
        if self.state_dir is None:
            return self
        return replace(self, state_dir=os.path.join(self.state_dir, folder))

    @property
    def pool(self) -> Any:
        """The scheduler, chosen by the number of workers where it was left out."""
        if self.scheduler is not None:
            return self.scheduler
        return "processes" if self.workers > 1 else "synchronous"

    @property
    def label(self) -> str | None:
        """Label of the progress bar, None for silence."""
        return self.progress if isinstance(self.progress, str) else None

    @property
    def in_memory(self) -> bool:
        """Whether results are NumPy arrays when the run has ended."""
        return self.compute and self.state_dir is None
