"""Parameters theta as functions of standard normals x that have their prior, all at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.parameters.hyperpriors import Hyperprior

TRIED = np.array([-6.0, -3.0, 0.0, 3.0, 6.0])  # a transform has to be usable where chains go


class NormalCoordinates:
    """theta_j = F_j^-1(Phi(x_j)), x ~ N(0, I) a priori, with slopes; one call for a family of hyperpriors.

    ``priors`` are those of the coordinates ``names``. Raises `InputError` for a hyperprior whose transform is
    not finite and increasing where it is tried, and for one on the natural scale that includes zero.
    """

    def __init__(self, names: Sequence[str], priors: Sequence[Hyperprior]) -> None:
        places: dict[Hashable, list[int]] = {}
        for k, (name, prior) in enumerate(zip(names, priors, strict=True)):
            _require_usable(name, prior)
            places.setdefault(prior.form.like, []).append(k)
        self._groups = [
            (priors[at[0]].form.stack([priors[k].form for k in at]), np.array(at))
            for at in places.values()
        ]

    @np.errstate(all="ignore")
    def theta(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Theta (..., d) and its slopes d theta_j / dx_j (..., d) at x (..., d)."""
        theta, slopes = np.empty_like(x), np.empty_like(x)
        for form, places in self._groups:
            theta[..., places], slopes[..., places] = form.transform(x[..., places])
        return theta, slopes


def _require_usable(name: str, prior: Hyperprior) -> None:
    who = f"hyperprior {prior!r} of {name}"
    if prior.below_zero > 0.0:
        raise InputError(
            f"{who} includes zero: {prior.below_zero:.2g} of it is not positive, where there is no "
            "transform to a standard normal; give a distribution of positive numbers, or scale='log'"
        )
    theta, slope = prior.transform(TRIED)
    usable = np.isfinite(theta) & np.isfinite(slope) & (slope > 0)
    if not usable.all():
        at = int(np.argmin(usable))
        raise InputError(
            f"{who} has no usable transform to a standard normal x: theta is {theta[at]:g}, its slope "
            f"{slope[at]:g} at x = {TRIED[at]:g}; allowed: a density that is positive all over its support"
        )
