"""Hyperparameters theta as functions of standard normals x that have their prior, all at once."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import ndtr

from gpmcflow.errors import InputError
from gpmcflow.models.joint_model import JointModel
from gpmcflow.parameters.hyperpriors import Hyperprior

TRIED = np.array([-6.0, -3.0, 0.0, 3.0, 6.0])  # a transform has to be usable where chains go
_SQRT_2PI = np.sqrt(2.0 * np.pi)


class NormalCoordinates:
    """theta_j = F_j^-1(Phi(x_j)), x ~ N(0, I) a priori, with slopes; equal hyperpriors are one call.

    Raises `InputError` for a hyperprior whose transform is not finite and increasing where it is tried, and
    for one on the natural scale that includes zero.
    """

    def __init__(self, model: JointModel) -> None:
        places: dict[Hyperprior, list[int]] = {}
        for k, (name, prior) in enumerate(zip(model.names, model.free_priors, strict=True)):
            if prior not in places:
                _require_usable(name, prior)
            places.setdefault(prior, []).append(k)
        self._groups = [(prior, np.array(found)) for prior, found in places.items()]

    def theta(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Theta (d,) and its slopes d theta_j / dx_j (d,) at x (d,)."""
        theta, slopes = np.empty_like(x), np.empty_like(x)
        for prior, places in self._groups:
            theta[places], slopes[places] = _transform(prior, x[places])
        return theta, slopes


def _transform(prior: Hyperprior, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if prior.scale == "log" and prior.distribution in ("uniform", "norm"):
        loc, scale = prior.parameters.get("loc", 0.0), prior.parameters.get("scale", 1.0)
        if prior.distribution == "norm":
            return loc + scale * x, np.full_like(x, scale)
        return loc + scale * ndtr(x), scale / _SQRT_2PI * np.exp(-0.5 * x * x)
    return prior.from_normal(x), prior.normal_slope(x)


def _require_usable(name: str, prior: Hyperprior) -> None:
    who = f"joint split HMC: hyperprior {prior!r} of {name}"
    distribution = getattr(stats, prior.distribution)(**prior.parameters)
    if prior.scale == "natural" and distribution.cdf(0.0) > 0.0:
        raise InputError(
            f"{who} includes zero: {distribution.cdf(0.0):.2g} of it is not positive, where there is no "
            "transform to a standard normal; give a distribution of positive numbers, or scale='log'"
        )
    with np.errstate(all="ignore"):
        theta, slope = _transform(prior, TRIED)
    usable = np.isfinite(theta) & np.isfinite(slope) & (slope > 0)
    if not usable.all():
        at = int(np.argmin(usable))
        raise InputError(
            f"{who} has no usable transform to a standard normal x: theta is {theta[at]:g}, its slope "
            f"{slope[at]:g} at x = {TRIED[at]:g}; allowed: a density that is positive all over its support"
        )
