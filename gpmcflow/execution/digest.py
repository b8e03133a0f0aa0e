"""Digests that say whether settings or arrays are the same.

Only the standard library is imported, since a Snakefile is parsed again for each cluster job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from gpmcflow.errors import InputError
from gpmcflow.storage.files import canonical_json


def settings_digest(settings: Any) -> str:
    """Return the SHA-256 (hex) of `canonical_json(settings)`."""
    return hashlib.sha256(canonical_json(settings).encode()).hexdigest()


def text_digest(*parts: str) -> str:
    """Return the SHA-256 (hex) of several texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def array_digest(arrays: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of named arrays: names, dtypes, shapes and bytes, in order of name.

    Takes NumPy, xarray or Dask arrays (computed by Dask's current scheduler, one at a time).
    Equal digests mean equal bits; the order of the mapping and of memory does not count.
    """
    import numpy as np

    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        if array.dtype.hasobject:
            raise InputError(f"array_digest: {name!r} holds Python objects, which have no bytes.")
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
