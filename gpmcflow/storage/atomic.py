"""A file appears whole or not at all. Only the standard library is imported, for the workers."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from gpmcflow.errors import StorageError

_counter = itertools.count()
_REASONS = {
    errno.ENOSPC: "the disk is full; free some space, or choose another folder",
    errno.EDQUOT: "the disk quota is used up; free some space, or choose another folder",
    errno.EFBIG: "the file would be larger than this system allows; choose another folder",
    errno.EROFS: "the folder is read-only; choose another folder",
    errno.EACCES: "permission denied; choose a folder you may write to",
    errno.EPERM: "permission denied; choose a folder you may write to",
    errno.ENOTDIR: "a part of the path is a file, not a folder; choose another folder",
    errno.EISDIR: "there is a folder of that name; choose another file name",
}


@contextlib.contextmanager
def atomic_path(
    path: str | Path, *, tidy: bool = True, checksum: Path | None = None
) -> Iterator[Path]:
    """Give a temporary path beside `path`, which becomes `path` when the block ends without error.

    The file is flushed to disk before it is renamed, and the folder after, so `path` is at all
    times the old file or the whole new one. On an error the temporary file is removed; an
    `OSError` is raised as a one-line `StorageError`. Temporary files of `path` that dead processes
    of this host left are removed as well, unless `tidy` is false (it lists the folder).

    `checksum`, the file that has the checksum of `path`, goes just before the new file comes: a process
    that is killed in between leaves a whole file without one, never one that seems damaged.

    Only a file is replaced: a device or a pipe of that name is a `StorageError`.
    """
    path = Path(path)
    if is_special(path):
        raise StorageError(
            f"{path}: cannot be written: it is a device, a pipe or a socket; choose another file name."
        )
    prefix = f".{path.name}.{socket.gethostname()}-"
    temporary = path.with_name(f"{prefix}{os.getpid()}-{next(_counter)}.tmp")
    try:
        make_folder(path.parent)
        if tidy:
            _remove_leftovers(path.parent, prefix)
        yield temporary
        _sync(temporary)
        _replace(temporary, path, checksum)
        _sync(path.parent)
    except StorageError:
        raise
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def is_special(path: str | Path) -> bool:
    """Return whether a path, or what it is a link to, is there and neither a file nor a folder."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _replace(temporary: Path, path: Path, checksum: Path | None) -> None:
    if checksum is None or not checksum.exists():
        os.replace(temporary, path)
        return
    aside = temporary.with_suffix(".old.tmp")
    os.replace(checksum, aside)
    try:
        os.replace(temporary, path)
    except OSError:
        os.replace(aside, checksum)
        raise
    aside.unlink()


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, each known to the disk before anything is put into it."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync(folder.parent)


def remove_temporary_files(folder: Path) -> None:
    """Remove what killed writes left in a folder; for one whose only writer is the caller."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if name.startswith(".") and name.endswith(".tmp"):
                (folder / name).unlink(missing_ok=True)


def write_error(path: str | Path, error: BaseException) -> StorageError:
    """Return the one-line error for a file that could not be written."""
    number = getattr(error, "errno", None)
    if number is None:  # HDF5 tells the number only in its text
        match = re.search(r"[Ee]rrno\s*=?\s*(\d+)", str(error))
        number = int(match.group(1)) if match else None
    text = " ".join(str(error).split())
    if number == errno.ENOSPC and _has_no_inodes(path):
        return StorageError(
            f"{path}: cannot be written: the disk has room, but for no more files (inodes); remove some "
            "files, or choose another folder."
        )
    reason = _REASONS.get(number, f"{text}; check the folder and the disk")
    return StorageError(f"{path}: cannot be written: {reason}.")


def _has_no_inodes(path: str | Path) -> bool:
    folder = Path(path).absolute().parent
    with contextlib.suppress(OSError):
        disk = os.statvfs(next(place for place in (folder, *folder.parents) if place.is_dir()))
        return disk.f_files > 0 and disk.f_favail == 0
    return False


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_leftovers(folder: Path, prefix: str) -> None:
    for name in os.listdir(folder):
        if name.startswith(prefix) and name.endswith(".tmp"):
            process = name[len(prefix) :].split("-")[0]
            if process.isdigit() and not _is_alive(int(process)):
                (folder / name).unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
