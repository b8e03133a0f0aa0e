"""Read results, and say plainly when a file is missing, cut short or not ours.

HDF5 lets a file name other files and programs, and promise far more numbers than it holds. A file from a
stranger may do all of that; one that `write_results` wrote does none of it, so its structure is looked at
before any of its numbers are read. h5py alone then reads what needs no interpretation: xarray takes four
times as long, and loads dask.array.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from gpmcflow.errors import StorageError
from gpmcflow.storage.checksums import require_unchanged
from gpmcflow.storage.schema import LIBRARY

_HIDDEN = frozenset(  # of NetCDF-4 itself
    (
        "CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates",
        "_nc3_strict", "_NCProperties",
    )
)  # fmt: skip
_INTERPRETED = frozenset(  # by xarray, in an array
    (
        "_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "_Encoding", "units",
        "calendar", "dtype", "coordinates",
    )
)  # fmt: skip


class _InterpretedError(Exception):
    """There is something that only xarray interprets."""


def plain_tree(file: h5py.File) -> xr.DataTree | None:
    """Return the tree of an open file, in memory, as xarray would; None for one that xarray has to read.

    Arrays are of numbers in this machine's byte order, bools as NetCDF keeps them, or text of any length;
    each dimension has a coordinate in its group or above.
    """
    groups: dict[str, xr.Dataset] = {}
    waiting = [file["/"]]
    try:
        while waiting:
            group = waiting.pop(0)
            items = {name: group[name] for name in group}
            groups[group.name] = _dataset(group, items)
            waiting += [item for item in items.values() if isinstance(item, h5py.Group)]
    except _InterpretedError:
        return None
    return xr.DataTree.from_dict(groups)


def _dataset(group: h5py.Group, items: Mapping[str, Any]) -> xr.Dataset:
    variables, coordinates = {}, set()
    for name, item in items.items():
        if isinstance(item, h5py.Dataset):
            stated = _attributes(item)
            coordinates |= set(str(stated.pop("coordinates", "")).split())
            variables[name] = _variable(name, item, stated)
    attributes = _attributes(group)
    if not coordinates <= set(variables) or "coordinates" in attributes:
        raise _InterpretedError
    return xr.Dataset(variables, attrs=attributes).set_coords(coordinates)


def _variable(name: str, array: h5py.Dataset, stated: dict[str, Any]) -> xr.Variable:
    dtype, dims = array.dtype, _dims(name, array)
    if dtype.kind == "O":
        values = np.asarray(array.asstr()[()]).astype(str)
    elif dtype.kind in "iuf" and dtype.isnative:
        values = array[()]
    else:
        raise _InterpretedError
    if dtype == np.int8 and stated.get("dtype") == "bool":
        values = values.astype(bool)
        del stated["dtype"]
    if dtype.kind == "f" and np.isnan(stated.get("_FillValue", 0.0)):
        del stated["_FillValue"]
    if not _INTERPRETED.isdisjoint(stated):
        raise _InterpretedError
    return xr.Variable(dims, np.asarray(values), stated, fastpath=True)


def _dims(name: str, array: h5py.Dataset) -> tuple[str, ...]:
    """Names of the dimensions of an array: those of the scales that it refers to, or its own."""
    if array.ndim == 0:
        return ()
    if "DIMENSION_LIST" in array.attrs:
        references = array.attrs["DIMENSION_LIST"]
        return tuple(array.file[each[-1]].name.split("/")[-1] for each in references)
    if array.ndim == 1 and array.attrs.get("NAME") == name.encode():
        return (name,)
    raise _InterpretedError


def _attributes(item: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in item.attrs:
        if name in _HIDDEN:
            continue
        value = item.attrs[name]
        if isinstance(value, bytes) or (isinstance(value, np.ndarray) and value.dtype.kind == "S"):
            raise _InterpretedError
        if isinstance(value, np.ndarray) and value.dtype.kind == "O":
            value = value.tolist()
        found[name] = value[0] if not np.isscalar(value) and len(value) == 1 else value
    return found


MOST_GROUPS, MOST_OBJECTS, MOST_ATTRIBUTES = 200, 5000, 500  # of a file, a file, an object
LARGEST_ATTRIBUTE = 16_000_000  # bytes
SMALL = 64_000_000  # bytes that any file may promise
MOST_TIMES = 100  # the bytes of the file, as much as a larger file may promise
_FILTERS = (h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE)
_BYTES_OF_A_CHUNK = 16  # that the index of chunks takes at least
_KINDS = "iufbSO"  # of numpy: numbers, bytes, and text of any length
# Attributes that xarray interprets when it opens a file.
_TEXTS = ("calendar", "coordinates", "dtype")
_NUMBERS = ("_FillValue", "add_offset", "missing_value", "scale_factor")
# Of dimensions, as HDF5 and NetCDF keep them: lists of references, which are not read here.
_OF_DIMENSIONS = ("DIMENSION_LIST", "REFERENCE_LIST")


def require_structure(file: h5py.File, path: Path) -> None:
    """Raise `StorageError` unless a file holds nothing but its own numbers, texts and groups.

    Links lead nowhere else, and no array is stored in another file or made of other arrays. The only filters
    are deflate and shuffle. All arrays together take at most 64 MB or 100 times the bytes of the file.
    Attributes are text and numbers, and those that xarray interprets are what it takes them for.
    """
    size = path.stat().st_size
    most, most_chunks = max(SMALL, MOST_TIMES * size), 1000 + size // _BYTES_OF_A_CHUNK
    n_groups = n_bytes = n_chunks = 0
    for n_objects, item in enumerate(_objects(file, path), start=1):
        _require_attributes(item, path)
        if isinstance(item, h5py.Group):
            n_groups += 1
        elif item.shape is None:
            raise _refused(path, f"an array without a shape, {item.name}")
        else:
            n_bytes += math.prod(item.shape) * item.dtype.itemsize
            n_chunks += _require_array(item, path)
        if n_groups > MOST_GROUPS or n_objects > MOST_OBJECTS:
            raise _refused(
                path, f"more than {MOST_GROUPS} groups or {MOST_OBJECTS} groups and arrays"
            )
        if n_bytes > most or n_chunks > most_chunks:
            what = f"{size:,} bytes that promise {n_bytes:,} bytes in {n_chunks:,} pieces"
            raise _refused(path, f"{what}, allowed: {most:,} bytes in {most_chunks:,} pieces")


def _objects(file: h5py.File, path: Path) -> Iterator[Any]:
    """Yield the groups and arrays of a file, each once."""
    waiting, seen = [file["/"]], set()
    while waiting:
        group = waiting.pop()
        yield group
        for name in group:
            where = f"{group.name.rstrip('/')}/{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise _refused(path, f"a link, {where}")
            item = group[name]
            # Two names for one thing can be a ring of groups.
            place = h5py.h5o.get_info(item.id).addr
            if place in seen or item.id == file["/"].id:
                raise _refused(path, f"two names for one thing, {where}")
            seen.add(place)
            if isinstance(item, h5py.Group):
                waiting.append(item)
            elif isinstance(item, h5py.Dataset):
                yield item
            else:
                raise _refused(path, f"something that is no group and no array, {where}")


def _require_array(array: h5py.Dataset, path: Path) -> int:
    """Return the number of chunks of an array that is stored in its file as we would store it."""
    layout = array.id.get_create_plist()
    where = array.name
    if layout.get_external_count() or layout.get_layout() == h5py.h5d.VIRTUAL:
        raise _refused(path, f"an array that is stored elsewhere, {where}")
    filters = [layout.get_filter(k)[0] for k in range(layout.get_nfilters())]
    if len(set(filters)) < len(filters) or not set(filters) <= set(_FILTERS):
        raise _refused(path, f"filters of array {where} other than one deflate and one shuffle")
    if array.dtype.kind not in _KINDS or (
        array.dtype.kind == "O" and h5py.check_string_dtype(array.dtype) is None
    ):
        raise _refused(path, f"an array of neither numbers nor text, {where}")
    if array.chunks is None:
        return 1
    return math.prod(-(-n // m) for n, m in zip(array.shape, array.chunks, strict=True))


def _require_attributes(item: Any, path: Path) -> None:
    n = h5py.h5a.get_num_attrs(item.id)
    if n > MOST_ATTRIBUTES:
        raise _refused(path, f"{n} attributes of {item.name}, allowed: {MOST_ATTRIBUTES}")
    for k in range(n):
        attribute = h5py.h5a.open(item.id, index=k)
        name = attribute.name.decode(errors="replace")
        where = f"attribute {name} of {item.name}"
        if attribute.shape is None:
            raise _refused(path, f"{where}, which has no value")
        if math.prod(attribute.shape) * attribute.dtype.itemsize > LARGEST_ATTRIBUTE:
            raise _refused(path, f"{where}, of more than {LARGEST_ATTRIBUTE:,} bytes")
        if name in _OF_DIMENSIONS:
            continue
        _require_type(item.attrs[name], name, where, path)


def _require_type(value: Any, name: str, where: str, path: Path) -> None:
    is_text = isinstance(value, (str, bytes))
    values = np.asarray(value)
    plain = values.ndim <= 1 and (
        values.dtype.kind in "iufbSU" or all(isinstance(item, str) for item in values.flat)
    )
    if not plain:
        raise _refused(path, f"{where}, which is neither text nor numbers")
    if name in _TEXTS and not is_text:
        raise _refused(path, f"{where}, which is no text")
    if name in _NUMBERS and (is_text or values.size != 1 or values.dtype.kind not in "iufb"):
        raise _refused(path, f"{where}, which is not one number")


def _refused(path: Path, what: str) -> StorageError:
    return StorageError(
        f"{path}: holds {what}; no file of ours does, so none of it was read: ask for the file that "
        "write_results wrote."
    )


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
