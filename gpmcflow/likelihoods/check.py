"""A check of a likelihood: derivatives by differences, simulation against density, what models need of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from gpmcflow.errors import InputError, InputErrors
from gpmcflow.likelihoods.base import Likelihood
from gpmcflow.likelihoods.multi import MultiLikelihood
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import Entry, Parameter, coordinate_of, own_units

STEP = 1e-4  # of the differences, of fourth order
NEAR = 1e-6  # relative error of a derivative that is right
N_SIMULATED, N_DATA_SETS = 4000, 1000
SURE = 5.0  # standard errors of a mean that is wrong
REACH = 2.0  # predictors are drawn from -REACH to REACH
NAMES = ("log p", "first derivative", "second derivative", "third derivative")
ORDINALS = ("first", "second", "third")


def check_likelihood(likelihood: Likelihood, y: Any, *, seed: int = 0) -> None:
    """Compare what a likelihood returns with differences, and its simulations with its density.

    Free parameters are fixed at draws of their hyperpriors. With l = log p(y | eta): each of the three
    derivatives is that of the one before; `parameter_gradient` is the slope by each coordinate; l' and the
    slopes by parameters have mean 0 over simulated y, whose mean is `conditional_mean`; curvatures are what
    `log_concave` says; shapes are those of the arguments; `take` picks cases.

    Parameters
    ----------
    likelihood:
        Of the package, or a class of your own.
    y:
        Observations (n,) that it can have.
    seed:
        Of predictors, parameters and simulations.

    Returns
    -------
    Nothing, where all is right.

    Raises
    ------
    InputError:
        Where anything is wrong: the first in the message, all in ``problems``.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> from gpmcflow.errors import InputError
    >>> class Waiting(gp.Likelihood):  # times ~ Exp(exp(eta)), with a wrong sign
    ...     def derivatives(self, eta, y):
    ...         hazard = y * np.exp(eta)
    ...         return eta - hazard, 1.0 - hazard, hazard, -hazard
    ...
    ...     def simulate(self, rng, eta):
    ...         return rng.exponential(np.exp(-eta))
    >>> try:
    ...     gp.check_likelihood(Waiting(), [0.5, 2.0])
    ... except InputError as error:
    ...     print(str(error).split(" is ")[0])
    Waiting: derivatives: the second derivative of case 0 at eta 0.547847
    """
    if isinstance(likelihood, MultiLikelihood):
        raise InputError(
            f"check_likelihood: the {likelihood.name} likelihood has several latent functions; allowed: a "
            "likelihood of one"
        )
    if not isinstance(likelihood, Likelihood):
        raise InputError(
            f"check_likelihood: found {type(likelihood).__name__}; allowed: a likelihood such as gp.Poisson()"
        )
    y = np.asarray(likelihood.coded(y), dtype=np.float64)
    if y.ndim != 1 or not y.size:
        raise InputError(f"check_likelihood: y has shape {y.shape}; allowed: (n,), n > 0")
    likelihood.validate(y)
    rng = np.random.default_rng(seed)
    eta = rng.uniform(-REACH, REACH, (3, len(y)))
    coordinates = np.array([_drawn(entry, rng) for entry in likelihood.entries()])
    at = _Fixed(likelihood, coordinates)
    problems = list(_derivative_problems(at(coordinates), eta, y))
    if not problems:  # what follows rests on them
        problems = [*_shape_problems(at(coordinates), eta, y), *_parameter_problems(at, eta, y)]
        problems += _curvature_problems(at(coordinates), eta, y)
        problems += _simulation_problems(at, eta[0], rng)
    if problems:
        raise InputErrors(problems, type(likelihood).__name__)


class _Fixed:
    """The likelihood at coordinates of its parameters (k,)."""

    def __init__(self, likelihood: Likelihood, coordinates: np.ndarray) -> None:
        self.likelihood, self.coordinates = likelihood, coordinates
        self.entries = likelihood.entries()

    def __call__(self, coordinates: np.ndarray) -> Likelihood:
        if not self.entries:
            return self.likelihood
        pairs = zip(coordinates, self.entries, strict=True)
        return self.likelihood.with_values([own_units(x, entry.coordinate) for x, entry in pairs])


def _drawn(entry: Entry, rng: np.random.Generator) -> float:
    """A coordinate: a draw of the hyperprior within its central half, or that of a number."""
    setting = entry.setting.value if isinstance(entry.setting, Parameter) else entry.setting
    if isinstance(setting, Hyperprior):
        return float(setting.quantile(rng.uniform(0.25, 0.75)))
    return coordinate_of(float(setting), entry.coordinate)


def _difference(function: Callable[[float], np.ndarray]) -> np.ndarray:
    """Derivative at 0, of fourth order."""
    near, far = (function(s * STEP) - function(-s * STEP) for s in (1.0, 2.0))
    return (8.0 * near - far) / (12.0 * STEP)


def _wrong(found: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Which of them are not equal but for the error of a difference."""
    scale = 1.0 + np.maximum(np.abs(found), np.abs(right))
    return ~(np.abs(found - right) <= NEAR * scale)


def _derivative_at(
    likelihood: Likelihood, eta: np.ndarray, y: np.ndarray, order: int, h: float
) -> np.ndarray:
    """Derivative of some order, h away."""
    return likelihood.derivatives(eta + h, y)[order]


def _derivative_problems(likelihood: Likelihood, eta: np.ndarray, y: np.ndarray) -> Iterator[str]:
    values = likelihood.derivatives(eta, y)
    if len(values) != 4:
        yield f"derivatives: returns {len(values)} arrays; allowed: log p and its first 3 derivatives"
        return
    for name, value in zip(NAMES, values, strict=True):
        if np.shape(value) != eta.shape:
            yield (
                f"derivatives: the {name} has shape {np.shape(value)} where eta has {eta.shape}; return one "
                "number for each predictor, batch axes first"
            )
            return
    for order in range(3):
        right = _difference(partial(_derivative_at, likelihood, eta, y, order))
        wrong = np.argwhere(_wrong(values[order + 1], right))
        if wrong.size:
            i, j = wrong[0]
            yield (
                f"derivatives: the {NAMES[order + 1]} of case {j} at eta {eta[i, j]:g} is "
                f"{values[order + 1][i, j]:g}, where differences of the {NAMES[order]} give {right[i, j]:g}; "
                f"correct the {ORDINALS[order]} derivative, or {NAMES[order]} if that is the wrong one"
            )
            return


def _shape_problems(likelihood: Likelihood, eta: np.ndarray, y: np.ndarray) -> Iterator[str]:
    log_p, first, *_ = likelihood.derivatives(eta, y)
    value, slope = likelihood.log_density_and_gradient(eta, y)
    for what, found, right in (("value", value, log_p.sum(-1)), ("gradient", slope, first)):
        if np.shape(found) != right.shape or _wrong(found, right).any():
            yield (
                f"log_density_and_gradient: the {what} is not that of derivatives; return log p summed over "
                "the last axis, and the first derivative, or leave the method out"
            )
    if len(y) > 1:
        alone = likelihood.take(slice(1, 2)).derivatives(eta[:, 1:2], y[1:2])[0]
        if _wrong(alone, log_p[:, 1:2]).any():
            yield (
                "take: log p of case 1 alone is not its log p among all; name arrays that have one number a "
                "case in constants"
            )


def _log_density_at(
    at: _Fixed, eta: np.ndarray, y: np.ndarray, unit: np.ndarray, h: float
) -> np.ndarray:
    """Sum of log p, h away along a coordinate."""
    return at(at.coordinates + h * unit).derivatives(eta, y)[0].sum(-1)


def _parameter_problems(at: _Fixed, eta: np.ndarray, y: np.ndarray) -> Iterator[str]:
    if not at.entries:
        return
    x = at.coordinates
    found = at(x).parameter_gradient(eta, y)
    if np.shape(found) != (len(eta), len(x)):
        yield (
            f"parameter_gradient: has shape {np.shape(found)} where eta has {eta.shape} and {len(x)} "
            f"parameters are free or numbers; return shape {(len(eta), len(x))}, summed over cases"
        )
        return
    for k, entry in enumerate(at.entries):
        unit = np.eye(len(x))[k]
        right = _difference(partial(_log_density_at, at, eta, y, unit))
        wrong = np.flatnonzero(_wrong(found[:, k], right))
        if wrong.size:
            i = wrong[0]
            yield (
                f"parameter_gradient: by the {entry.coordinate} of {entry.name} it is {found[i, k]:g}, where "
                f"differences of log p give {right[i]:g}; the slope by the log of h is h times that by h"
            )


def _curvature_problems(likelihood: Likelihood, eta: np.ndarray, y: np.ndarray) -> Iterator[str]:
    second = likelihood.derivatives(4.0 * eta, y)[2]
    if likelihood.log_concave and np.any(second > 1e-12):
        yield (
            f"log_concave: the second derivative is {second.max():g} > 0 somewhere; write log_concave = "
            "False in the class, and give it information and majorising_precision"
        )
    for name in ("information", "majorising_precision"):
        try:
            curvature = getattr(likelihood, name)(eta, y)
        except InputError as error:
            yield f"{name}: {error}"
            continue
        least = 0.0 if name == "majorising_precision" or likelihood.log_concave else 1e-300
        if np.shape(curvature) != eta.shape or not np.all(curvature >= least):
            yield (
                f"{name}: has shape {np.shape(curvature)} and least value {np.min(curvature):g}; allowed: "
                "the shape of eta, and no negative number"
            )


def _simulation_problems(at: _Fixed, eta: np.ndarray, rng: np.random.Generator) -> Iterator[str]:
    likelihood = at(at.coordinates)
    if any(getattr(likelihood, name) is not None for name in likelihood.of_observation):
        return  # how y was seen says nothing of simulated ones
    n = len(eta)
    draws = likelihood.simulate(rng, np.broadcast_to(eta, (N_SIMULATED, n)))
    if np.shape(draws) != (N_SIMULATED, n):
        yield (
            f"simulate: returns shape {np.shape(draws)} for eta of {(N_SIMULATED, n)}; return one y for each"
        )
        return
    try:
        likelihood.validate(draws[0])
    except InputError as error:
        yield f"validate: refuses what simulate returns: {error}"
        return
    again = np.tile(np.arange(n), N_SIMULATED)
    slopes = likelihood.take(again).derivatives(eta[again], draws.ravel())[1].reshape(draws.shape)
    spread = slopes.std(0) / np.sqrt(N_SIMULATED)
    far = np.flatnonzero(np.abs(slopes.mean(0)) > SURE * spread + NEAR)
    if far.size:
        j = far[0]
        yield (
            f"simulate: over {N_SIMULATED} simulated y the first derivative of case {j} at eta {eta[j]:g} "
            f"has mean {slopes.mean(0)[j]:g} +- {spread[j]:g}, where 0 is right; simulate and log p are not "
            "of one law"
        )
        return
    if at.entries:
        sets = draws[:N_DATA_SETS]
        by_parameter = np.stack([likelihood.parameter_gradient(eta, row) for row in sets])
        spread = by_parameter.std(0) / np.sqrt(len(sets))
        far = np.flatnonzero(np.abs(by_parameter.mean(0)) > SURE * spread + NEAR * n)
        if far.size:
            k = far[0]
            yield (
                f"simulate: over {len(sets)} simulated data sets the slope by {at.entries[k].name} has "
                f"mean {by_parameter.mean(0)[k]:g} +- {spread[k]:g}, where 0 is right; simulate takes the "
                "parameter otherwise than log p, or log p lacks a term that depends on it"
            )
            return
    yield from _mean_problems(likelihood, eta, draws)


def _mean_problems(likelihood: Likelihood, eta: np.ndarray, draws: np.ndarray) -> Iterator[str]:
    if not likelihood.has_moment(2) or {"exposure", "trials"} & set(likelihood.constants):
        return  # it is the mean of one unit of exposure, or of one trial
    try:
        right = likelihood.conditional_mean(eta)
    except InputError:
        return  # it has none, which only predictions of responses need
    seen = 0.5 * (draws + 1.0) if likelihood.binary else draws
    error = seen.std(0) / np.sqrt(len(seen))
    far = np.flatnonzero(np.abs(seen.mean(0) - right) > SURE * error + NEAR)
    if far.size:
        j = far[0]
        yield (
            f"conditional_mean: {right[j]:g} at eta {eta[j]:g}, where {len(seen)} simulated y have the mean "
            f"{seen.mean(0)[j]:g} +- {error[j]:g}"
        )
