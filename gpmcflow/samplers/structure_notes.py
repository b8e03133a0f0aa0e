"""What a run says of the structure of its prior: the cost of a dense one, the error of a basis."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.covariances.basis_binding import covariance_error, settings_for
from gpmcflow.covariances.basis_blocks import BasisBlocks
from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.errors import InputError
from gpmcflow.models.gp_model import GPModel

log = logging.getLogger(__name__)
LARGE = 2000  # cases above which a dense covariance is worth a word
ALLOWED_ERROR = 2.5  # times `BasisFunctions.error`, within which the rule of sizes keeps it
CENTRAL = (0.01, 0.99)  # quantiles of the draws' length scales
_PROBE = 400  # order of the matrices whose product tells the rate of this machine


def advise(model: Any) -> None:
    """Say what a large dense covariance costs, or that "auto" took basis functions for one."""
    note = dense_note(model)
    if note:
        log.warning("sample: %s", note)
    for part in getattr(model, "parts", [model]):
        if part.chose_basis and part.approximate_basis:
            log.warning(
                'sample: basis functions stand for the covariance (%s); structure="dense" is exact, and slow',
                part.structure_reason,
            )
            break  # once for all functions


def dense_note(model: Any, with_basis: Callable[[], BasisBlocks | None] | None = None) -> str:
    """What a large dense covariance costs, and whether basis functions fit it; empty for other models.

    ``with_basis`` makes them, or raises `InputError`; by default those of the same covariance.
    """
    n = model.n_cases
    if model.structure_name != "dense" or n <= LARGE:
        return ""
    flops = (1.0 if model.likelihood.conjugate else 8.0 / 3.0) * float(n) ** 3
    try:
        blocks = model.basis_of(BasisFunctions()) if with_basis is None else with_basis()
        instead = f'structure "basis" fits this covariance with m = {blocks.size} weights'
    except InputError as error:
        instead = f'structure "basis" does not fit, since {error}'
    return (
        f"a dense covariance of n = {n} cases costs about {flops / _rate():.2g} s a gradient and "
        f"{40.0 * float(n) ** 2 / 1e9:.2g} GB a chain; {instead}"
    )


def _rate() -> float:
    """Floating point operations a second of a matrix product."""
    A, best = np.ones((_PROBE, _PROBE)), np.inf
    for _ in range(3):
        start = time.perf_counter()
        A @ A
        best = min(best, time.perf_counter() - start)
    return 2.0 * _PROBE**3 / best


def structure_attributes(model: Any, tree: xr.DataTree, computed: bool) -> dict[str, str]:
    """Attributes ``structure`` of the results of a `GPModel`, and ``basis_error`` of draws with a basis.

    Where "auto" took a basis, ``structure_reason`` says why. ``basis_error`` is JSON, one entry a
    term: the largest error of the covariance, over the amplitude's square, at the shortest and at the longest
    length scales of the central 98 % of the draws. A warning tells where that is too large.
    """
    if not isinstance(model, GPModel):
        return {}
    attributes = {"structure": model.structure_name}
    if model.chose_basis:
        attributes["structure_reason"] = model.structure_reason
    if model.basis and model.basis.lengths and computed:
        thetas = model.prior_median()[None]
        if "theta" in tree["posterior"]:
            theta = tree["posterior/theta"].transpose("chain", "draw", "theta_dim")
            thetas = theta.values.reshape(-1, model.dim)
        attributes["basis_error"] = json.dumps(_errors(model, thetas))
    return attributes


def _errors(model: GPModel, thetas: np.ndarray) -> list[dict[str, Any]]:
    low, high = (model.full(theta) for theta in np.quantile(thetas, CENTRAL, axis=0))
    settings, entries = model.basis_settings, []
    for block in model.basis.eigen:
        shortest, longest = (np.exp(at[list(block.lengths)]) for at in (low, high))
        errors = [covariance_error(block, lengths) for lengths in (shortest, longest)]
        entries.append({
            "term": block.term, "m": list(block.sizes),
            "shortest": shortest.tolist(), "error_at_shortest": errors[0],
            "longest": longest.tolist(), "error_at_longest": errors[1],
        })  # fmt: skip
        if max(errors) > ALLOWED_ERROR * settings.error:
            sizes, boxes = settings_for(block, shortest, longest, settings)
            log.warning(
                "sample: the basis functions of %s are off by %.2g of the variance at the length scales "
                "drawn (%.3g to %.3g), more than %g times error = %g; m = %s with boundary = %s would do",
                block.term, max(errors), shortest.min(), longest.max(), ALLOWED_ERROR, settings.error,
                _shown(sizes), _shown([round(box, 2) for box in boxes]),
            )  # fmt: skip
    for wave in model.basis.waves:
        shortest, longest = (float(np.exp(at[wave.length])) for at in (low, high))
        errors = [wave.left_out(length) for length in (shortest, longest)]
        entries.append({
            "term": wave.term, "m": [wave.size],
            "shortest": [shortest], "error_at_shortest": errors[0],
            "longest": [longest], "error_at_longest": errors[1],
        })  # fmt: skip
        if max(errors) > ALLOWED_ERROR * settings.error:
            log.warning(
                "sample: the waves of %s leave out %.2g of the variance at the length scales drawn (%.3g to "
                "%.3g), more than %g times error = %g; give its length scale a hyperprior of shorter ones",
                wave.term, max(errors), shortest, longest, ALLOWED_ERROR, settings.error,
            )  # fmt: skip
    return entries


def _shown(values: list) -> str:
    return str(values[0]) if len(set(values)) == 1 else str(tuple(values))
