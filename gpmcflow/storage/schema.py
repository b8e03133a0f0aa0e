"""What a results tree must look like before it is written, and the attributes it carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

import gpmcflow
from gpmcflow.errors import InputError
from gpmcflow.storage.files import canonical_json

LIBRARY = "gpmcflow"
_KINDS = "iubUTMm"  # integers, bools, text, times; and the floats below
_FLOATS = (np.float32, np.float64)


def standard_attributes(
    *,
    settings: dict,
    seed: int,
    data_checksum: str,
    sample_dims: Sequence[str] = ("chain", "draw"),
    **more: Any,
) -> dict:
    """Return the attributes of a results group, sorted: the same for the same config and seed.

    `settings` (plain values) becomes one JSON string. There is no clock, host, path or thread count
    among them: those go into the sidecar. `more` adds attributes, such as `name`.
    """
    attributes = {
        "creation_library": LIBRARY,
        "creation_library_language": "Python",
        "creation_library_version": gpmcflow.__version__,
        "data_checksum": data_checksum,
        "inference_library": LIBRARY,
        "inference_library_version": gpmcflow.__version__,
        "sample_dims": list(sample_dims),
        "seed": int(seed),
        "settings": canonical_json(settings),
    }
    return plain_attributes({**attributes, **more}, "standard_attributes")


def with_attributes(tree: xr.DataTree, attributes: dict) -> xr.DataTree:
    """Return a copy of `tree` with these attributes on its root and every group; a group's own win."""
    groups = {}
    for node in tree.subtree:
        dataset = node.to_dataset(inherit=False)
        groups[node.path] = dataset.assign_attrs({**attributes, **dataset.attrs})
    return xr.DataTree.from_dict(groups, name=tree.name)


def checked_tree(tree: xr.DataTree) -> xr.DataTree:
    """Return a copy of `tree` that is ready to be written.

    Attributes are sorted and plain, dimensions have coordinates (0, 1, ... where there were none),
    text held as objects becomes text, encodings of an earlier file are dropped, and the root names
    this library. Raises `InputError` for what NetCDF-4 cannot hold.
    """
    if not isinstance(tree, xr.DataTree):
        raise InputError(f"write_results: found {type(tree).__name__}, expected xarray.DataTree.")
    groups = {}
    for node in tree.subtree:
        dataset = node.to_dataset(inherit=False).drop_encoding()
        inherited = set(node.coords) - set(dataset.coords)
        groups[node.path] = _checked_dataset(dataset, inherited, node.path)
    root = groups["/"]
    root.attrs = dict(sorted({"creation_library": LIBRARY, **root.attrs}.items()))
    if root.attrs["creation_library"] != LIBRARY:
        raise InputError(
            f"/: attribute 'creation_library' is {root.attrs['creation_library']!r}, allowed is "
            f"{LIBRARY!r}; drop it, it is how our files are known."
        )
    return xr.DataTree.from_dict(groups, name=tree.name)


def _checked_dataset(dataset: xr.Dataset, inherited: set, path: str) -> xr.Dataset:
    missing = [dim for dim in dataset.dims if dim not in dataset.coords and dim not in inherited]
    clash = [dim for dim in missing if dim in dataset.data_vars]
    if clash:
        raise InputError(f"{path}: variable {clash[0]!r} has the name of a dimension; rename one.")
    dataset = dataset.assign_coords({dim: np.arange(dataset.sizes[dim]) for dim in missing})
    for name in list(dataset.variables):
        where = f"{path.rstrip('/')}/{name}"
        variable = dataset[name].variable
        if variable.dtype.hasobject:
            dataset[name] = (variable.dims, _text(variable, where), variable.attrs)
        elif variable.dtype.kind not in _KINDS and variable.dtype not in _FLOATS:
            raise _wrong_type(where, variable.dtype)
        dataset[name].attrs = plain_attributes(dataset[name].attrs, where)
    dataset.attrs = plain_attributes(dataset.attrs, path)
    return dataset


def _text(variable: xr.Variable, where: str) -> np.ndarray:
    values = np.asarray(variable.values)
    if not all(isinstance(value, str) for value in values.flat):
        raise _wrong_type(where, variable.dtype)
    return values.astype(str)


def _wrong_type(where: str, dtype: np.dtype) -> InputError:
    return InputError(
        f"{where}: values of type {dtype} cannot be stored (allowed: integers, float32, float64, "
        "bool, text, times); convert them first."
    )


def plain_attributes(attributes: dict, where: str) -> dict:
    """Return attributes sorted by name, as NetCDF holds them.

    Numbers, text and flat lists of either stay; bool, None, dict and nested lists become JSON
    strings. Raises `InputError` for anything else.
    """
    return {
        name: _plain_attribute(attributes[name], f"{where}: attribute {name!r}")
        for name in sorted(attributes)
    }


def _plain_attribute(value: Any, where: str) -> Any:
    if isinstance(value, np.ndarray) and value.ndim <= 1 and value.dtype.kind in "iuf":
        return value
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return value
    if isinstance(value, list) and value and {type(item) for item in value} in _FLAT:
        return value
    return canonical_json(value, where)


_FLAT = ({str}, {int}, {float}, {int, float})
