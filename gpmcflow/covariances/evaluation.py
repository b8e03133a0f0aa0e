"""Matrices of covariances whose parameters are all numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpmcflow.covariances.binding import bind, leaf_entries, with_all_levels
from gpmcflow.covariances.expressions import Covariance
from gpmcflow.covariances.inputs import inputs_of, new_inputs
from gpmcflow.covariances.tape import CovarianceBuffers, Tape
from gpmcflow.errors import InputError
from gpmcflow.parameters.parameter import coordinate_of


def _buffers(covariance: Covariance, X: Any) -> tuple[CovarianceBuffers, np.ndarray, Any]:
    inputs = with_all_levels(inputs_of(X), covariance)
    covariance, columns = bind(covariance, inputs)
    values, places = [], []
    for term, entries in leaf_entries(covariance, columns, inputs.names):
        for entry in entries:
            if not isinstance(entry.setting, float):
                raise InputError(
                    f"{covariance!r}: {term or 'it'} has {entry.name} = {entry.setting!r}; allowed: numbers, "
                    "to evaluate it"
                )
        places.append(np.arange(len(values), len(values) + len(entries)))
        values += [coordinate_of(entry.setting, entry.coordinate) for entry in entries]
    full = np.array(values, dtype=np.float64)
    tape = Tape(covariance, columns, places, np.zeros(len(full), dtype=bool), inputs.values)
    return CovarianceBuffers(tape), full, inputs


def covariance_matrix(covariance: Covariance, X: Any, X2: Any = None) -> np.ndarray:
    """Matrix of the rows of X (n, p) with those of X2 (m, p), or of X itself: (n, m)."""
    buffers, full, inputs = _buffers(covariance, X)
    if X2 is not None:
        kinds = {name: {"group"} for name in inputs.names}  # any level goes
        other = new_inputs(X2, inputs, kinds, "new").values
        return np.ascontiguousarray(buffers.cross(full, other).T)
    return buffers.matrix(full)


def prior_variances(covariance: Covariance, X: Any) -> np.ndarray:
    """k(x, x) of the rows of X, (n,)."""
    buffers, full, inputs = _buffers(covariance, X)
    return buffers.diagonal(full, inputs.values)
