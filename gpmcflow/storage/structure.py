"""What a results file may be made of, looked at before any of its numbers are read.

HDF5 lets a file name other files and programs, and promise far more numbers than it holds. A file from a
stranger may do all of that; one that `write_results` wrote does none of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from gpmcflow.errors import StorageError

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
