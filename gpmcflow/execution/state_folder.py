"""The folder of a run that can be resumed: whose it is, which segments are whole, and their files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpmcflow.execution.blocks import Grid, Program
from gpmcflow.execution.lock import state_lock, this_process
from gpmcflow.execution.segment_files import BlockFolder
from gpmcflow.storage.atomic import remove_temporary_files
from gpmcflow.storage.files import canonical_json, write_text

# What a file on disk belongs to: a digest of all that decides the numbers in it.


@dataclass(frozen=True)
class RunIdentity:
    """The parts that all files of a run share, as canonical JSON, so that each is digested once.

    A program's own digest may read hundreds of megabytes, and a run has thousands of files.
    """

    key: str
    shared: str

    @classmethod
    def of(
        cls, program: Program, seed: int, key: tuple[str | int, ...], settings: Any
    ) -> RunIdentity:
        """Return the identity; raises `InputError` for settings that are no plain values."""
        canonical_json(settings)
        outputs = {
            name: [[int(n) for n in trailing], np.dtype(dtype).str]
            for name, (trailing, dtype) in program.outputs().items()
        }
        shared = {
            "outputs": outputs,
            "program": program.digest() if hasattr(program, "digest") else None,
            "seed": int(seed),
            "settings": settings,
        }
        plain = [part if isinstance(part, str) else int(part) for part in key]
        return cls(canonical_json(plain), canonical_json(shared)[1:-1])

    def of_file(self, kind: str, chains: tuple[int, int], start: int, stop: int) -> str:
        """Return `settings_digest` of all of it, for a file of draws start..stop-1 of these chains."""
        text = (
            f'{{"chains":[{chains[0]},{chains[1]}],"draws":[{start},{stop}],'
            f'"key":{self.key},"kind":"{kind}",{self.shared}}}'
        )
        return hashlib.sha256(text.encode()).hexdigest()


# Which segments were seen whole: spares a run that goes on from reading all of them first.

_NAME = "ledger.txt"


class Entry(NamedTuple):
    """What a segment's file was like when it was written or checked."""

    identity: str
    size: int
    mtime_ns: int
    acceptance: float

    def fits(self, stat: os.stat_result, identity: str) -> bool:
        """Return whether the file looks untouched since; its checksums are for others to compare."""
        return (self.size, self.mtime_ns, self.identity) == (
            stat.st_size,
            stat.st_mtime_ns,
            identity,
        )


class Ledger:
    """A text file with a line for each segment, `checksum name size mtime_ns acceptance identity`.

    A line that is damaged or missing costs a look into the segment, no more. So it is not synced,
    and a disk that cannot take a line is not an error here.
    """

    def __init__(self, folder: Path):
        self._path = folder / _NAME
        self._stream = None

    def read(self) -> dict[str, Entry]:
        """Return the entries by name; a file of mostly outdated lines is written anew."""
        try:
            lines = self._path.read_text("utf-8", "replace").split("\n")
        except OSError:
            return {}
        entries = {}
        for line in lines:
            with contextlib.suppress(ValueError):
                name, entry = _parse(line)
                entries[name] = entry
        if len(lines) > 2 * len(entries) + 1:
            text = "".join(_line(name, entry) for name, entry in entries.items())
            with contextlib.suppress(OSError):
                write_text(text, self._path)
        elif lines[-1]:  # the last line was cut short; the next one must not become a part of it
            self._append("\n")
        return entries

    def add(self, name: str, entry: Entry) -> None:
        """Append an entry."""
        self._append(_line(name, entry))

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.close()

    def _append(self, text: str) -> None:
        with contextlib.suppress(OSError):
            if self._stream is None:
                self._stream = open(self._path, "ab", buffering=0)  # noqa: SIM115
            self._stream.write(text.encode())


def _line(name: str, entry: Entry) -> str:
    text = f"{name} {entry.size} {entry.mtime_ns} {entry.acceptance!r} {entry.identity}"
    return f"{zlib.crc32(text.encode()):08x} {text}\n"


def _parse(line: str) -> tuple[str, Entry]:
    checksum, text = line.split(" ", 1)
    if int(checksum, 16) != zlib.crc32(text.encode()):
        raise ValueError(line)
    name, size, mtime_ns, acceptance, identity = text.split(" ")
    return name, Entry(identity, int(size), int(mtime_ns), float(acceptance))


# What one run keeps in its state folder beside the blocks: lock, manifest and ledger.

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
