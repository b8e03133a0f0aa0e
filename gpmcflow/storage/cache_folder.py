"""Folders for what can be made again: compiled loops, and what Snakemake keeps between runs.

Only the standard library is imported: `gpmcflow run` needs this before anything heavy.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


def user_caches() -> Path | None:
    """Return the user's folder of caches, or a private temporary one where that cannot be written.

    The first is $XDG_CACHE_HOME, or .cache in the home folder; the second is gpmcflow-<user id> in the
    folder of temporary files. Both are made where they are missing. None if neither can be written.
    """
    return next((folder for folder in _candidates() if is_writable(folder)), None)


def is_writable(folder: Path) -> bool:
    """Make a folder where it is missing; return whether files can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def is_own(folder: Path) -> bool:
    """Make a folder where it is missing; return whether it is the user's, and nobody else can write to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _candidates() -> Iterator[Path]:
    stated = os.environ.get("XDG_CACHE_HOME")
    home = Path(stated or os.path.join(os.path.expanduser("~"), ".cache"))
    if home.is_absolute():  # there is no home without an entry for the user
        yield home
    try:
        temporary = Path(tempfile.gettempdir(), f"gpmcflow-{os.getuid()}")
    except OSError:  # there is no folder for temporary files
        return
    # Everybody may write to /tmp, and code is loaded from here: nobody else may have made the folder.
    if is_own(temporary):
        yield temporary
