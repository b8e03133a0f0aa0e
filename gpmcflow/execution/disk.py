"""Forecast of disk space, before work starts."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from gpmcflow.errors import ResourceError

_MARGIN = 10_000_000  # bytes that stay free


def require_disk(n_bytes: int, folder: str | os.PathLike, what: str) -> None:
    """Raise `ResourceError` when `what` needs `n_bytes` below `folder` and the disk has less free.

    The folder need not exist yet.
    """
    free = free_disk(folder)
    if free is not None and n_bytes + _MARGIN > free:
        raise ResourceError(
            f"{what}: needs {human_bytes(n_bytes)} in {folder}, where {human_bytes(free)} are free; "
            "free some space (gpmcflow clean), keep fewer draws, or choose another disk."
        )


def free_disk(folder: str | os.PathLike) -> int | None:
    """Return the free bytes of the disk a folder is, or would be, on; None if it cannot be asked."""
    path = Path(folder).absolute()
    for place in (path, *path.parents):
        with suppress(OSError):
            return shutil.disk_usage(place).free
    return None


def human_bytes(n_bytes: float) -> str:
    """Return a number of bytes in kB, MB, GB or TB."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= 0.9995 * size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes / 1e3:.0f} kB"
