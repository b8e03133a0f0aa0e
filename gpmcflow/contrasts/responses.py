"""Draws of latents as what was asked for: latent values, mean responses, or new observations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpmcflow.approximations.predictive import UNITS
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods import Likelihood, MultiLikelihood

KINDS = ("latent", "mean", "response")


def require_kind(who: str, kind: str) -> None:
    """Raise `InputError` for another kind."""
    if kind not in KINDS:
        raise unknown_name(f"{who}: kind", kind, KINDS)


def of_kind(
    kind: str,
    likelihood: Likelihood,
    eta: np.ndarray,
    units: dict[str, Any],
    rng: Any = None,
    of: str | None = None,
) -> np.ndarray:
    """Draws (draw, m) of a kind from those of eta; ``units`` are exposure and trials of the rows (m,).

    ``of`` names the latent function, or the class whose probability the mean is, where there are several.
    """
    named: list[str] = []
    if isinstance(likelihood, MultiLikelihood):
        classes = [str(level) for level in likelihood.classes]
        named = {"latent": list(likelihood.functions), "mean": classes}.get(kind, [])
    if named and of not in named:
        raise unknown_name(f'kind="{kind}": of', str(of), named)
    if of is not None and not named:
        raise InputError(f'kind="{kind}": of is {of!r}, and there is one; leave it out')
    if kind == "latent":
        return eta[:, named.index(str(of))] if named else eta
    if kind == "mean" and named:
        probabilities = likelihood.class_probabilities(eta, np.zeros_like(eta))
        return probabilities[named.index(str(of))]
    if kind == "mean":
        return likelihood.conditional_mean(eta) * math.prod(units.values())
    unknown = [
        name
        for name in likelihood.constants
        if name not in (*UNITS, *likelihood.of_observation) and np.ndim(getattr(likelihood, name))
    ]
    if unknown:
        raise InputError(
            f"draws_at: the {likelihood.name} likelihood has {unknown[0]} for each case, which new rows do "
            'not have; write kind="mean"'
        )
    new = units | dict.fromkeys(likelihood.of_observation)
    return likelihood.with_constants(**new).simulate(rng, eta)
