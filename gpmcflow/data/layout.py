"""The shape every data set has in memory: names, dimensions, attributes, checksum.

A loader hands over `Parts` (plain arrays); `build` checks them and makes the `xarray.Dataset`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gpmcflow.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

TASKS = ("classification", "multiclass", "regression", "counts")
CHECKED = ("X", "y", "X_test", "y_test")


@dataclass(frozen=True)
class Parts:
    """What a loader returns.

    `X` (case, feature), `y` (case); the test arrays likewise, or None where there is no test set.
    `latent` (case) only where the true latent values are known. `coords` holds further
    one-dimensional coordinates, name -> (dimension, values); `attrs` further attributes.
    """

    X: np.ndarray
    y: np.ndarray
    features: Sequence[str]
    label_coding: str
    preprocessing: str
    X_test: np.ndarray | None = None
    y_test: np.ndarray | None = None
    latent: np.ndarray | None = None
    latent_test: np.ndarray | None = None
    coords: Mapping[str, tuple[str, np.ndarray]] = field(default_factory=dict)
    attrs: Mapping[str, str | int | float] = field(default_factory=dict)


def build(
    parts: Parts,
    *,
    name: str,
    title: str,
    task: str,
    citation: str,
    licence: str,
    source: str,
    source_checksum: str = "",
    where: str = "",
) -> xr.Dataset:
    """Return the data set with variables `X`, `y` (and `X_test`, `y_test`, `latent`), all float64.

    `y` holds -1 and +1 (task "classification"), the class codes 0..K-1, each of them with a
    training case ("multiclass"), any finite numbers ("regression"), or 0, 1, 2, ... ("counts").
    Dimensions: case, feature (and test_case). Attributes are strings and numbers only, so that
    every NetCDF engine can write them; `checksum` is that of `checksum(dataset)`.
    `n_duplicate_rows` counts training cases whose inputs repeat those of an earlier training
    case (they make a covariance matrix singular), `n_duplicate_rows_test` test cases whose inputs
    repeat those of a training case or of an earlier test case.

    Raises InputError for labels or shapes that do not fit `task`; `where` (by default the name)
    starts its message.
    """
    variables = _variables(parts)
    _check(where or name, task, variables, len(parts.features))
    coords = {
        "case": np.arange(len(parts.X), dtype=np.int64),
        "feature": np.array([str(feature) for feature in parts.features]),
    }
    if parts.X_test is not None:
        coords["test_case"] = np.arange(len(parts.X_test), dtype=np.int64)
    import xarray as xr  # here: whoever looks at a CSV file needs none

    dataset = xr.Dataset(variables, coords=coords | dict(parts.coords))
    dataset.attrs = {
        "name": name,
        "title": title,
        "task": task,
        "citation": citation,
        "licence": licence,
        "source": source,
        "label_coding": parts.label_coding,
        "preprocessing": parts.preprocessing,
        **_duplicates(parts),
        **parts.attrs,
        "checksum": checksum(dataset),
    }
    if source_checksum:
        dataset.attrs["source_checksum"] = source_checksum
    return dataset


def checksum(dataset: xr.Dataset) -> str:
    """Return the sha256 over `X`, `y`, `X_test`, `y_test`, as far as they are there.

    Each enters as its name and shape, then its values as little-endian float64 in C order.
    """
    digest = hashlib.sha256()
    for name in CHECKED:
        if name in dataset:
            values = np.ascontiguousarray(dataset[name].values, dtype="<f8")
            shape = "x".join(str(size) for size in values.shape)
            digest.update(f"{name} {shape}\n".encode())
            digest.update(values.tobytes())
    return digest.hexdigest()


def standardise(
    where: str, features: Sequence[str], X: np.ndarray, X_test: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return `X` and `X_test` minus the mean of `X`, over its standard deviation (n - 1).

    Both moments come from the training cases alone. Raises InputError, naming the columns, where
    a column of `X` is constant and so has no scale.
    """
    if len(X) < 2:
        raise InputError(
            f"{where}: found {len(X)} training case, standardising needs at least 2; "
            "add cases or set standardise=False"
        )
    constant = [str(features[j]) for j in np.flatnonzero(np.ptp(X, axis=0) == 0)]
    if constant:
        raise InputError(
            f"{where}: column{'s' if len(constant) > 1 else ''} "
            f"{', '.join(repr(name) for name in constant)} constant over the {len(X)} training "
            "cases, so there is no scale; drop the column or set standardise=False"
        )
    mean, sd = X.mean(axis=0), X.std(axis=0, ddof=1)
    return (X - mean) / sd, None if X_test is None else (X_test - mean) / sd


def permutation(seed: int, n: int) -> np.ndarray:
    """Return a permutation of 0..n-1 that `seed` fixes for good.

    It sorts raw 64-bit words of PCG64: NumPy promises that stream for ever, but not that of
    `Generator.permutation`.
    """
    return np.argsort(np.random.PCG64(seed).random_raw(n), kind="stable")


def _variables(parts: Parts) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return name -> (dimensions, float64 values) of the arrays that are there."""
    arrays = {
        "X": (("case", "feature"), parts.X),
        "y": (("case",), parts.y),
        "X_test": (("test_case", "feature"), parts.X_test),
        "y_test": (("test_case",), parts.y_test),
        "latent": (("case",), parts.latent),
        "latent_test": (("test_case",), parts.latent_test),
    }
    return {
        name: (dims, np.ascontiguousarray(values, dtype=np.float64))
        for name, (dims, values) in arrays.items()
        if values is not None
    }


def _check(where: str, task: str, variables: Mapping, n_features: int) -> None:
    """Raise InputError where the arrays do not make a data set of this task."""
    sizes = {"feature": n_features}
    for variable, (dims, values) in variables.items():
        for dim, size in zip(dims, values.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise InputError(
                    f"{where}: {variable} has {size} along {dim}, expected {sizes[dim]}; "
                    "give arrays of matching shapes"
                )
        if not np.isfinite(values).all():
            raise InputError(f"{where}: {variable} holds NaN or infinity; allowed: finite numbers")
        if variable in ("y", "y_test"):
            _check_labels(where, task, variable, values)
            if task == "multiclass":
                n_classes = len(np.unique(variables["y"][1]))
                _check_codes(where, variable, values, n_classes)


def _check_labels(where: str, task: str, variable: str, y: np.ndarray) -> None:
    """Raise InputError where `y` is not a target of this task."""
    if task == "counts" and ((y < 0) | (y != np.floor(y))).any():
        bad = y[(y < 0) | (y != np.floor(y))][0]
        raise InputError(
            f"{where}: {variable} holds {bad:g}; counts are 0, 1, 2, ...; "
            "correct the values or use task='regression'"
        )
    if task != "classification":
        return
    values = set(np.unique(y).tolist())
    if not values <= {-1.0, 1.0}:
        raise InputError(f"{where}: {variable} holds {sorted(values)}, allowed: -1 and +1")
    if variable == "y" and len(values) < 2:
        raise InputError(
            f"{where}: all {len(y)} training cases have label {values.pop():+g}, classification "
            "needs both -1 and +1; use more cases or another seed"
        )


def _check_codes(where: str, variable: str, y: np.ndarray, n_classes: int) -> None:
    """Raise InputError unless `y` holds class codes 0..n_classes-1, where the training cases
    have `n_classes` distinct labels (so that each code has a training case)."""
    if n_classes < 2:
        raise InputError(
            f"{where}: all training cases have label {y[0]:g}, multiclass needs 2 classes or more; "
            "use more cases or another seed"
        )
    bad = np.setdiff1d(y, np.arange(n_classes))
    if len(bad):
        raise InputError(
            f"{where}: {variable} holds {bad[0]:g} and the training cases {n_classes} classes, "
            f"allowed: 0, 1, ..., {n_classes - 1}; code the classes so"
        )


def _duplicates(parts: Parts) -> dict[str, int]:
    """Return the counts of repeated rows described in `build`."""
    count = {"n_duplicate_rows": _n_repeats(parts.X)}
    if parts.X_test is not None:
        both = _n_repeats(np.concatenate([parts.X, parts.X_test]))
        count["n_duplicate_rows_test"] = both - count["n_duplicate_rows"]
    return count


def _n_repeats(X: np.ndarray) -> int:
    return len(X) - len(np.unique(X, axis=0))
