"""Which segments were seen whole: spares a run that goes on from reading all of them first."""

from __future__ import annotations

import contextlib
import os
import zlib
from pathlib import Path
from typing import NamedTuple

from gpmcflow.storage.files import write_text

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
