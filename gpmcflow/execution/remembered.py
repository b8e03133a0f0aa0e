"""Arrays that are computed once and found again by a run that goes on, such as a pilot's."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gpmcflow.execution.blocks import Arrays
from gpmcflow.execution.digest import settings_digest
from gpmcflow.execution.segment_files import read_if_whole, write_arrays

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
