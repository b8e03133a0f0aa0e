"""Read results, and say plainly when a file is missing, cut short or not ours."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import xarray as xr

from gpmcflow.errors import StorageError
from gpmcflow.storage.checksums import require_unchanged
from gpmcflow.storage.plain_reading import plain_tree
from gpmcflow.storage.schema import LIBRARY
from gpmcflow.storage.structure import require_structure

# Arrays that another tool added may have dimensions without names.
_OPTIONS: dict[str, Any] = {"engine": "h5netcdf", "phony_dims": "access", "decode_timedelta": False}


def open_results(path: str | os.PathLike) -> xr.DataTree:
    """Open a results file lazily: variables are Dask arrays with the chunks of the file.

    The functions of arviz_stats want arrays in memory: give them `load_results(path)`, or
    `.load()` the group first. Close the tree (or use it in a `with` block) before the file is
    written again.

    Parameters
    ----------
    path:
        Of a file that `write_results` or the workflow wrote.

    Returns
    -------
    The tree of results, to be closed.

    Raises
    ------
    StorageError:
        For a file that is missing, damaged (not of the SHA-256 in its sidecar), or not this package's; for
        one with links, external arrays, filters other than deflate and shuffle, or arrays of more than
        64 MB and 100 times the bytes of the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> model = gp.GPModel(np.arange(4.0), np.ones(4), gp.Matern32(), gp.Poisson())
    >>> replicates = gp.simulate(model, n_draws=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "replicates.nc"
    ...     gp.write_results(replicates, path)
    ...     with gp.open_results(path) as tree:
    ...         tree.prior_predictive["y"].chunks, tree.prior_predictive["y"].shape
    (((1,), (3,), (4,)), (1, 3, 4))
    """
    path = Path(path)
    with _own_file(path):  # which is checked
        pass
    try:
        return xr.open_datatree(path, chunks={}, **_OPTIONS)
    except Exception as error:  # whatever the libraries make of a file that is not ours
        raise _damaged(path, error) from error


def load_results(path: str | os.PathLike) -> xr.DataTree:
    """Read a results file into memory, and close it.

    Parameters
    ----------
    path:
        Of a file that `write_results` or the workflow wrote.

    Returns
    -------
    The tree of results, as `sample` and the others return it.

    Raises
    ------
    StorageError:
        For a file that is missing, damaged (not of the SHA-256 in its sidecar), or not this package's; for
        one with links, external arrays, filters other than deflate and shuffle, or arrays of more than
        64 MB and 100 times the bytes of the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> model = gp.GPModel(np.arange(4.0), np.ones(4), gp.Matern32(), gp.Poisson())
    >>> replicates = gp.simulate(model, n_draws=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "replicates.nc"
    ...     gp.write_results(replicates, path)
    ...     loaded = gp.load_results(path)
    >>> loaded.prior_predictive["y"].shape
    (1, 3, 4)
    """
    path = Path(path)
    with _own_file(path) as file:
        tree = plain_tree(file)
    try:
        return xr.load_datatree(path, **_OPTIONS) if tree is None else tree
    except Exception as error:  # whatever the libraries make of a file that is not ours
        raise _damaged(path, error) from error


@contextlib.contextmanager
def _own_file(path: Path) -> Iterator[h5py.File]:
    """Open a file that is whole, of this package, and made of what its files are made of."""
    if not path.is_file():
        what = "it is a folder" if path.is_dir() else "no such file"
        raise StorageError(f"{path}: {what}; give a results file, or run the step that writes it.")
    require_unchanged(path)
    try:
        if not h5py.is_hdf5(path):
            with open(path, "rb") as stream:  # an unreadable file is not a foreign one
                stream.read(1)
            raise StorageError(
                f"{path}: not a NetCDF-4 file; give a file written by {LIBRARY}, "
                "or delete it and run again."
            )
        with h5py.File(path, "r") as file:
            _require_own(file.attrs.get("creation_library"), path)
            require_structure(file, path)
            yield file
    except StorageError:
        raise
    except Exception as error:
        raise _damaged(path, error) from error


def _require_own(library: Any, path: Path) -> None:
    if isinstance(library, bytes):  # as netCDF4 writes it
        library = library.decode(errors="replace")
    if not isinstance(library, str) or library != LIBRARY:
        raise StorageError(
            f"{path}: not written by {LIBRARY} (attribute creation_library is {library!r}); "
            "open it with xarray.open_datatree instead."
        )


def _damaged(path: Path, error: Exception) -> StorageError:
    text = " ".join(str(error).split())
    if isinstance(error, PermissionError):
        return StorageError(f"{path}: permission denied; ask for the right to read it.")
    state = "truncated" if "truncated" in text else "truncated or damaged"
    return StorageError(f"{path}: the file is {state} ({text}); delete it and run again.")
