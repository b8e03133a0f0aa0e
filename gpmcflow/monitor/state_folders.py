"""What runs have left on disk so far: their manifests, finished segments, and whether they still run.

All of it may change while one looks: files appear, vanish, or are half-written. A manifest that cannot
be read counts as missing, a folder that is gone as empty.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

import psutil

from gpmcflow.errors import GpmcflowError
from gpmcflow.execution.blocks import Grid
from gpmcflow.execution.lock import lock_owner
from gpmcflow.jobs.job_errors import ERRORS, STATE

RUN, JOB, WAITING = "run.json", "job.json", "waiting.json"
_SEGMENT = re.compile(r"segment_(\d{5,})\.npz")
MOST_PIECES = 1_000_000  # blocks, or segments of one; a manifest that says more is damaged
_SLACK = 60.0  # seconds between the birth of a process and its manifest, by two clocks


@dataclass(frozen=True)
class Run:
    """One call of `gpmcflow.execution.run`: its folder and its manifest."""

    folder: Path
    manifest: dict
    grid: Grid

    @cached_property
    def finished(self) -> list[list[float]]:
        """Times at which the segments of each block were finished, up to the first that is missing."""
        return [self._times(self.block(number)) for number in range(len(self.grid.blocks))]

    def _times(self, folder: Path) -> list[float]:
        written: dict[int, float] = {}
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if match := _SEGMENT.fullmatch(entry.name):
                    with suppress(OSError):
                        written[int(match.group(1))] = entry.stat().st_mtime
        times = []
        while len(times) in written and len(times) < len(self.grid.segments):
            times.append(written[len(times)])
        return times

    @property
    def n_finished(self) -> int:
        """Finished segments of all blocks."""
        return sum(map(len, self.finished))

    @property
    def n_segments(self) -> int:
        """Segments of all blocks, finished or not."""
        return len(self.grid.blocks) * len(self.grid.segments)

    @property
    def waiting(self) -> dict:
        """What the run waits for (`for`), and since when (`started_at`); empty if it does not wait."""
        return read_json(self.folder / WAITING)

    def block(self, number: int) -> Path:
        """Folder of a block."""
        return self.folder / f"block_{self.grid.blocks[number][0] // self.grid.block_size:05d}"

    def segment(self, block: int, index: int) -> Path:
        """File of a segment."""
        return self.block(block) / f"segment_{index:05d}.npz"


def read_json(path: Path) -> dict:
    """Return the mapping of a JSON file, an empty one if it is missing or half-written."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def find_runs(state_dir: str | os.PathLike) -> list[Run]:
    """Return the runs of a state folder, itself or its subfolders, in the order of their start."""
    runs = []
    for folder, subfolders, files in os.walk(state_dir):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("block_"))
        if RUN not in files:
            continue
        manifest = read_json(Path(folder, RUN))
        sizes = ("n_chains", "length", "block_size", "segment_length")
        with suppress(KeyError, GpmcflowError):
            grid = Grid(*(manifest[name] for name in sizes), manifest.get("first_chain", 0))
            if max(grid.n_blocks, grid.n_segments) <= MOST_PIECES:
                runs.append(Run(Path(folder), manifest, grid))
    return sorted(runs, key=lambda run: str(run.manifest.get("started_at", "")))


def started(manifest: dict) -> float | None:
    """Return the time a manifest says its process began, in seconds since 1970; None if unknown."""
    try:
        return datetime.fromisoformat(manifest["started_at"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return None


def is_locked(runs: Iterable[Run]) -> bool:
    """Return whether a process, on this machine or another one, is at work on one of the runs."""
    return any(lock_owner(run.folder) is not None for run in runs)


def process_exists(manifest: dict) -> bool | None:
    """Return whether there is a process of that number; None if it would be on another machine."""
    if manifest.get("host") != socket.gethostname():
        return None
    try:
        return psutil.pid_exists(int(manifest["pid"]))
    except (KeyError, OverflowError, TypeError, ValueError):
        return False


def process_runs(manifest: dict) -> bool | None:
    """Return whether the process of a manifest still runs; None if it is on another machine.

    A process that began after the manifest was written has got the number of one that is gone.
    """
    exists = process_exists(manifest)
    if not exists:
        return exists
    with suppress(psutil.Error):
        process = psutil.Process(int(manifest["pid"]))
        began = started(manifest)
        reused = began is not None and process.create_time() > began + _SLACK
        return not reused and process.status() != psutil.STATUS_ZOMBIE
    return False


def state_folders(results: str | os.PathLike) -> Iterator[Path]:
    """Yield the state folders below a results folder, or the folder itself if it is one."""
    root = Path(results)
    if (root / RUN).exists() or (root / JOB).exists():
        yield root
        return
    with suppress(OSError):
        folders = sorted(path for path in (root / STATE.name).iterdir() if path.is_dir())
        yield from (path for path in folders if path.name != ERRORS)
