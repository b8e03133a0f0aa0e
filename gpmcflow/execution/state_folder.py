"""What one run keeps in its state folder beside the blocks: lock, manifest and ledger."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpmcflow.execution.blocks import Grid
from gpmcflow.execution.identity import RunIdentity
from gpmcflow.execution.ledger import Entry, Ledger
from gpmcflow.execution.lock import state_lock, this_process
from gpmcflow.execution.segment_files import BlockFolder
from gpmcflow.storage.atomic import remove_temporary_files
from gpmcflow.storage.files import write_text

MANIFEST = "run.json"
WAITING = "waiting.json"
Key = tuple[int, int]  # block and segment


class StateFolder:
    """The state folder of one run, as its main process uses it.

    `<path>/block_00000/segment_00000.npz` and so on are the segments; see `BlockFolder`. Beside the
    blocks lie `run.json` (what the run is, for those who look on), `lock`, `ledger.txt` and, while
    the run waits for workers, `waiting.json`.
    """

    def __init__(self, path: Path, grid: Grid, identity: RunIdentity):
        self.path = path
        self._grid = grid
        self._identity = identity
        self._blocks, self._segments = grid.blocks, grid.segments
        self._ledger = Ledger(path)

    def block(self, block: int) -> BlockFolder:
        """Return the folder of a block, named by its place among all blocks of that size."""
        number = self._blocks[block][0] // self._grid.block_size
        return BlockFolder(str(self.path / f"block_{number:05d}"))

    def file(self, key: Key) -> tuple[str, str]:
        """Return path and identity of a segment's file."""
        block, index = key
        identity = self._identity.of_file("segment", self._blocks[block], *self._segments[index])
        return str(self.block(block).segment(index)), identity

    @contextlib.contextmanager
    def open(self, **facts: Any) -> Iterator[None]:
        """Hold the lock, write the manifest with these facts, and clear away what a killed run left.

        Raises `ResourceError` when another run is at work here, `StorageError` when nothing can be
        written.
        """
        with state_lock(self.path):
            grid = self._grid
            manifest = {
                "first_chain": int(grid.first_chain),
                "n_chains": int(grid.n_chains),
                "length": int(grid.length),
                "block_size": int(grid.block_size),
                "segment_length": int(grid.segment_length),
                "n_blocks": len(self._blocks),
                "n_segments": len(self._segments),
            }
            write_manifest(self.path / MANIFEST, facts | manifest)
            self.note_waiting(None)
            remove_temporary_files(self.path)
            for block in range(len(self._blocks)):
                remove_temporary_files(Path(self.block(block).path))
            try:
                yield
            finally:
                self._ledger.close()

    def trusted(self) -> dict[Key, float]:
        """Return acceptance by key of the segments that look as they did when they were whole.

        Only their names, sizes and times were looked at: before the end of the run they are to be
        read.
        """
        entries = self._ledger.read()
        acceptances = {}
        for block, chains in enumerate(self._blocks):
            folder = self.block(block)
            files = _files(Path(folder.path)) if entries else {}
            for index, draws in enumerate(self._segments):
                path = folder.segment(index)
                entry, file = entries.get(_name(path)), files.get(path.name)
                if entry is None or file is None:
                    continue
                if entry.fits(file, self._identity.of_file("segment", chains, *draws)):
                    acceptances[block, index] = entry.acceptance
        return acceptances

    def note(self, key: Key, acceptance: float) -> None:
        """Write into the ledger that a segment was seen whole."""
        path, identity = self.file(key)
        with contextlib.suppress(OSError):
            stat = os.stat(path)
            entry = Entry(identity, stat.st_size, stat.st_mtime_ns, acceptance)
            self._ledger.add(_name(Path(path)), entry)

    def note_waiting(self, what: str | None) -> None:
        """Tell those who look on what the run waits for from now on; None for nothing any more."""
        with contextlib.suppress(OSError):
            if what is None:
                (self.path / WAITING).unlink(missing_ok=True)
            else:
                write_manifest(self.path / WAITING, {"for": what})

    def count(self) -> int:
        """Return how many of the run's segments are on disk."""
        folders = [self.block(block) for block in range(len(self._blocks))]
        names = {folders[0].segment(index).name for index in range(len(self._segments))}
        return sum(len(names & _files(Path(folder.path)).keys()) for folder in folders)


def write_manifest(path: Path, facts: dict) -> None:
    """Write facts, process, host and time as JSON, for `gpmcflow status`; results never hold them."""
    text = json.dumps({**facts, **this_process()}, indent=1, default=str)
    write_text(text + "\n", path)


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _files(folder: Path) -> dict[str, os.stat_result]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat() for entry in entries}
    except FileNotFoundError:
        return {}
