"""Read a results file of this package by h5py alone: xarray takes four times as long, and loads dask.array.

What xarray would interpret, such as times and scales, is left to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np
import xarray as xr

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
