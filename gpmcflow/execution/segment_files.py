"""Segments and checkpoints on disk.

They are uncompressed .npz files, so that workers never touch HDF5 (which is not safe to use from
several threads), and because `np.savez` writes the same bytes each time. The zip format has a
checksum for each array, which finds truncated and changed files.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpmcflow.errors import StorageError
from gpmcflow.execution.blocks import Arrays
from gpmcflow.storage.atomic import atomic_path

_IDENTITY = "identity"
_KEEP = 2  # the last checkpoint, and the one before in case the last is damaged


@dataclass(frozen=True)
class BlockFolder:
    """The files of one block: `segment_00000.npz`, `checkpoint_00000.npz`, and so on."""

    path: str

    def segment(self, index: int) -> Path:
        """Return the file of a segment's outputs."""
        return Path(self.path) / f"segment_{index:05d}.npz"

    def checkpoint(self, index: int) -> Path:
        """Return the file of the carry and the generator states after a segment."""
        return Path(self.path) / f"checkpoint_{index:05d}.npz"

    def drop_checkpoints_before(self, index: int) -> None:
        """Remove the checkpoints that the ones up to `index` make superfluous."""
        for path in Path(self.path).glob("checkpoint_*.npz"):
            number = path.stem.removeprefix("checkpoint_")
            if number.isdigit() and int(number) <= index - _KEEP:
                path.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], identity: str) -> None:
    """Write named arrays, the digest of what they belong to and their names, atomically.

    Raises `StorageError` when the disk is full or the folder cannot be written.
    """
    # Prefixed, as np.savez takes the names as keyword arguments beside its own.
    named = {f"array:{name}": np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}
    header = np.array([identity, *named])
    with atomic_path(path) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, allow_pickle=False, **{_IDENTITY: header}, **named)


def read_arrays(path: Path, names: list[str] | None = None) -> Arrays:
    """Return the named arrays of a file (all if None); raise `StorageError` if it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            if names is None:
                names = [name.removeprefix("array:") for name in file.files if name != _IDENTITY]
            return {name: file[f"array:{name}"] for name in names}
    except Exception as error:  # a damaged zip raises a dozen different types
        text = " ".join(str(error).split())
        raise StorageError(f"{path}: cannot be read ({text}); run again to rebuild it.") from error


def fault(path: Path, identity: str) -> str | None:
    """Return None for a whole file of this identity, else what is wrong with it, in a few words.

    All of the file is read, in pieces, and compared with its checksums.
    """
    if not path.exists():
        return "it is missing"
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            return f"its part {damaged!r} is damaged"
        with np.load(path, allow_pickle=False) as file:
            found, *names = file[_IDENTITY].tolist()
            if sorted(file.files) != sorted([_IDENTITY, *names]):
                return "a part of it is missing"
    except Exception as error:  # a damaged zip raises a dozen different types
        return f"it is damaged ({' '.join(str(error).split())})"
    return None if found == identity else "it belongs to other settings"
