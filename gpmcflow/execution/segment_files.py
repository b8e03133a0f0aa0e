"""Arrays on disk: segments, checkpoints, and what a run that goes on finds again, such as a pilot's.

They are uncompressed .npz files, so that workers never touch HDF5 (which is not safe to use from
several threads), and because `np.savez` writes the same bytes each time. The zip format has a
checksum for each array, which finds truncated and changed files.
"""

from __future__ import annotations

import logging
import os
import threading
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpmcflow.errors import StorageError
from gpmcflow.execution.blocks import Arrays
from gpmcflow.execution.digest import settings_digest
from gpmcflow.storage.atomic import atomic_path

_IDENTITY = "identity"
_PREFIX = "array:"
_OTHER = "it belongs to other settings"
# NumPy parses the header of an array as Python, and the parser of CPython 3.11 counts its depth for all
# threads together: of two at once, one may fail with SystemError.
_one_parses = threading.Lock()
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
        for number in range(index - _KEEP, -1, -1):  # the folder is not listed: it may be long
            try:
                self.checkpoint(number).unlink()
            except FileNotFoundError:
                return


def write_arrays(
    path: Path, arrays: Mapping[str, np.ndarray], identity: str, *, tidy: bool = False
) -> None:
    """Write named arrays, the digest of what they belong to and their names, atomically.

    `tidy` removes what killed writes of this file left; of segments, the run does it at its start.
    Raises `StorageError` when the disk is full or the folder cannot be written.
    """
    # Prefixed, as np.savez takes the names as keyword arguments beside its own.
    named = {f"{_PREFIX}{name}": np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}
    header = np.array([identity, *named])
    with atomic_path(path, tidy=tidy) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, allow_pickle=False, **{_IDENTITY: header}, **named)


def read_arrays(path: Path, names: list[str] | None = None) -> Arrays:
    """Return the named arrays of a file (all if None); raise `StorageError` if it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            if names is None:
                _, names = _header(archive)
            return {name: _read_part(archive, _PREFIX + name) for name in names}
    except Exception as error:  # a damaged zip raises a dozen different types
        text = " ".join(str(error).split())
        raise StorageError(f"{path}: cannot be read ({text}); run again to rebuild it.") from error


def read_if_whole(path: Path, identity: str) -> tuple[Arrays, str | None]:
    """Return the arrays of a whole file of this identity and None, else none and what is wrong.

    As `fault` and `read_arrays` do, but the file is read only once.
    """
    if not path.exists():
        return {}, "it is missing"
    try:
        with zipfile.ZipFile(path) as archive:
            stored, names = _header(archive)
            arrays = {name: _read_part(archive, _PREFIX + name) for name in names}
    except Exception as error:
        return {}, f"it is damaged ({' '.join(str(error).split())})"
    return (arrays, None) if stored == identity else ({}, _OTHER)


def fault(path: Path, identity: str) -> str | None:
    """Return None for a whole file of this identity, else what is wrong with it, in a few words.

    All of the file is read, in pieces, and compared with its checksums.
    """
    if not path.exists():
        return "it is missing"
    try:
        with zipfile.ZipFile(path) as archive:
            stored, _ = _header(archive)
            damaged = archive.testzip()
            if damaged is not None:
                return f"its part {damaged!r} is damaged"
    except Exception as error:
        return f"it is damaged ({' '.join(str(error).split())})"
    return None if stored == identity else _OTHER


def identity_of(path: Path) -> str | None:
    """The digest of what a file belongs to; None where it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _header(archive)[0]
    except Exception:
        return None


def _header(archive: zipfile.ZipFile) -> tuple[str, list[str]]:
    """Return identity and names; raise for a file without all parts it had, or not as it is written."""
    if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
        raise ValueError("it is compressed, and might not fit into memory")
    identity, *parts = _read_part(archive, _IDENTITY).tolist()
    if sorted(archive.namelist()) != sorted(f"{part}.npy" for part in (_IDENTITY, *parts)):
        raise ValueError("a part of it is missing")
    return identity, [part.removeprefix(_PREFIX) for part in parts]


def _read_part(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with _one_parses, archive.open(f"{name}.npy") as part:
        array = np.lib.format.read_array(part, allow_pickle=False)
        # The checksum is compared at the end, which a damaged shape would stop short of.
        if part.read(1):
            raise ValueError(f"{name} is longer than its shape")
    return array


log = logging.getLogger(__name__)


def remember(
    folder: str | os.PathLike | None,
    name: str,
    identity: Any,
    compute: Callable[[], dict[str, Any]],
) -> Arrays:
    """Return the arrays of ``<folder>/<name>.npz``, or those of `compute`, which are then kept there.

    `identity` (plain values) must name all that decides the numbers. A file of another identity or
    a damaged one is computed again, with a warning. Without a folder, `compute` is called each
    time. Numbers and bools come back as arrays without dimensions.

    Raises `StorageError` when the file cannot be written, `InputError` for an identity that is not
    plain.
    """
    if folder is None:
        return _arrays(compute())
    path = Path(folder) / f"{name}.npz"
    digest = settings_digest(identity)
    arrays, wrong = read_if_whole(path, digest)
    if wrong is None:
        return arrays
    if path.exists():
        log.warning("%s: %s; it is computed again.", path, wrong)
    arrays = _arrays(compute())
    write_arrays(path, arrays, digest, tidy=True)
    return arrays


def _arrays(values: dict[str, Any]) -> Arrays:
    return {name: np.asarray(value) for name, value in sorted(values.items())}
