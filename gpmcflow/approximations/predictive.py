"""Responses of mixtures of predictors: means, spreads, quantiles, densities of what was observed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from gpmcflow.approximations.conditional import Conditional
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Likelihood

log = logging.getLogger(__name__)
QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
N_SIMULATED = 4000  # responses drawn for their quantiles
BLOCK = 1000  # cases whose responses are simulated at a time
UNITS = ("exposure", "trials")  # constants of likelihoods that are a case's own


def mixture(parts: Sequence[Any], *, exposure: Any = None, trials: Any = None) -> Any:
    """Predictors of several settings as one mixture, whose likelihoods have the units of the new cases.

    All ``parts`` are of one type, `Conditional` or, for several functions, `MultiConditional`; so is the
    mixture. Raises `InputError` for units that the likelihood does not have, or that are not positive.
    """
    mean, variance = (np.concatenate([part[k] for part in parts]) for k in range(2))
    likelihoods = _own(parts)
    units = units_of(likelihoods[0], mean.shape[-1], "predict", exposure=exposure, trials=trials)
    units |= dict.fromkeys(likelihoods[0].of_observation)
    likelihoods = [likelihood.with_constants(**units) for likelihood in likelihoods]
    return type(parts[0])(mean, variance, likelihoods)


def predictive(
    eta: Conditional, response: np.ndarray, quantiles: Sequence[float] = QUANTILES
) -> xr.Dataset:
    """Latents and responses of a mixture of predictors: what `predict` returns.

    ``response`` (draw, m) are simulated `responses`, for spreads and for quantiles without a closed form. A
    mean or a standard deviation that a draw of the likelihood does not have is nan.
    """
    m = eta.mean.shape[1]
    has_sd = all(own.has_moment(2) for own in eta.likelihoods)
    scale = units_product(eta.likelihoods[0])
    spread = eta.variance.mean(0) + eta.mean.var(0)  # within draws, and between them
    over, mean = ("quantile", "new_case"), scale * eta.mean_response()
    of_response = eta.response_quantiles(quantiles)
    if of_response is None:
        of_response = np.quantile(response, quantiles, axis=0, method="inverted_cdf")
    of_classes: dict[str, Any] = {}
    if (probabilities := eta.class_probabilities()) is not None:
        of_classes["response_probability"] = (("class", "new_case"), probabilities)
    return xr.Dataset(
        {
            "latent_mean": ("new_case", eta.mean.mean(0)),
            "latent_sd": ("new_case", np.sqrt(spread)),
            "latent_quantile": (over, eta.quantiles(quantiles)),
            "response_mean": ("new_case", mean),
            "response_sd": (
                "new_case",
                np.where(np.isnan(mean) | (not has_sd), np.nan, response.std(0)),
            ),
            "response_quantile": (over, of_response),
            **of_classes,
        },
        {"new_case": np.arange(m), "quantile": list(quantiles), **_classes(eta.likelihoods[0])},
    )


def units_product(likelihood: Likelihood) -> np.ndarray:
    """Exposure or trials by case, which multiply the mean of one unit."""
    units = [getattr(likelihood.stated, name, None) for name in UNITS]
    return np.prod([unit for unit in units if np.ndim(unit)], axis=0)


def _classes(likelihood: Likelihood) -> dict[str, Any]:
    """Names of the classes of y, or their numbers from 1, as a coordinate."""
    return {"class": list(likelihood.classes)} if likelihood.classes else {}


def tell_missing_moments(eta: Conditional) -> None:
    """Say so where responses have no mean, or no standard deviation."""
    missing = [not all(own.has_moment(order) for own in eta.likelihoods) for order in (1, 2)]
    if any(missing):
        what = (
            "mean and no standard deviation, which are"
            if missing[0]
            else "standard deviation, which is"
        )
        own = eta.likelihoods[0].name
        log.warning(
            "predict: the response has no %s nan: the tails of draws of the %s likelihood are too "
            "heavy; take the quantiles", what, own,
        )  # fmt: skip


def by_blocks(eta: Any, described: Callable[[Any], xr.Dataset]) -> xr.Dataset:
    """What ``described`` says of `BLOCK` new cases at a time (new_case), put together.

    ``eta`` is a `Conditional` or, of several functions, a `MultiConditional`.
    """
    m = eta.mean.shape[-1]
    if m <= BLOCK:
        return described(eta)
    parts = [described(eta.take(slice(k, k + BLOCK))) for k in range(0, m, BLOCK)]
    return xr.concat(parts, "new_case").assign_coords(new_case=np.arange(m))


def log_predictive_density(eta: Conditional, y: np.ndarray) -> np.ndarray:
    """log p(y_i) under a mixture of predictors, (m,): of each draw int p(y_i | eta) N(eta) d eta."""
    n = len(eta.mean)
    own = eta.likelihoods * (n if len(eta.likelihoods) == 1 else 1)
    terms = [_log_mean(*part, y) for part in zip(own, eta.mean, eta.variance, strict=True)]
    return logsumexp(terms, axis=0) - np.log(n)


def _log_mean(
    likelihood: Likelihood, mean: np.ndarray, variance: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """log int p(y_i | eta) N(eta) d eta (m,), the density itself where weights tell eta."""
    known = variance <= 0.0
    if not known.any():
        return likelihood.tilted(y, mean, variance)[0]
    out = likelihood.derivatives(mean, y)[0]
    if not known.all():
        rest = np.flatnonzero(~known)
        out[rest] = likelihood.take(rest).tilted(y[rest], mean[rest], variance[rest])[0]
    return out


def responses(eta: Conditional, rng: np.random.Generator) -> np.ndarray:
    """Simulated responses (draw, m); of labels, and with noise by case, E[y | eta]."""
    rows = []
    for likelihood, draws in eta.simulate(rng, N_SIMULATED):
        as_mean = likelihood.binary or any(
            np.ndim(getattr(likelihood, name)) and name not in UNITS
            for name in likelihood.constants
        )
        rows.append(
            likelihood.conditional_mean(draws) if as_mean else likelihood.simulate(rng, draws)
        )
    return np.concatenate(rows)


def _own(parts: list[Conditional]) -> list[Likelihood]:
    if len(parts) == 1:
        return list(parts[0].likelihoods)
    return [part.likelihoods[0] for part in parts for _ in part.mean]


def units_of(likelihood: Likelihood, m: int, who: str, **constants: Any) -> dict[str, np.ndarray]:
    """Exposure or trials of new cases, as far as the likelihood has them."""
    units = {}
    for name, value in constants.items():
        if name in likelihood.constants:
            try:
                array = np.broadcast_to(np.asarray(1.0 if value is None else value, float), (m,))
            except (TypeError, ValueError):
                raise InputError(
                    f"{who}: {name} is {value!r}; allowed: a number, or one for each of {m} new inputs"
                ) from None
            whole = name == "trials"
            sound = np.isfinite(array) & (array > 0) & ((array == np.floor(array)) | (not whole))
            wrong = np.flatnonzero(~sound)
            if wrong.size:
                kind = "whole numbers >= 1" if whole else "positive numbers"
                raise InputError(
                    f"{who}: {name}[{wrong[0]}] is {array[wrong[0]]:g}; allowed: {kind}"
                )
            units[name] = array
        elif value is not None:
            raise InputError(f"{who}: the {likelihood.name} likelihood has no {name}; leave it out")
    return units
