"""Gaussian sites fitted to one case at a time under the prior's variance.

For each case L_i(f + c) N(f; 0, k) is fitted by a mean mu and a variance v; the site's precision is then
w = 1 / v - 1 / k and its natural mean b = mu / v: exp(b f - w f^2 / 2) stands for L_i. Sites depend on
hyperparameters through k and the offset c, never on the latents, which makes samplers with them valid.

Source: Murray & Adams (2010), sections 3.1 and 4, which fit them numerically.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods import Likelihood
from gpmcflow.likelihoods.sites import LARGEST_VARIANCE, Sites

__all__ = [
    "LARGEST_VARIANCE", "SITE_RULES", "ConstantSites", "LaplaceSites", "MomentSites", "ScaledSites",
    "SiteRule", "Sites", "StandardSites", "TaylorSites", "site_rule",
]  # fmt: skip


class SiteRule:
    """Fits sites. Frozen, picklable, with a repr that tells its settings."""

    def __call__(
        self,
        likelihood: Likelihood,
        y: np.ndarray,
        variance: np.ndarray | float,
        offset: float = 0.0,
    ) -> Sites:
        """Sites of y (n,) under N(f; 0, variance), variance a number or (n,), and eta = f + offset."""
        if isinstance(variance, np.ndarray) and np.all(variance == variance.flat[0]):
            variance = float(variance.flat[0])
        return self.fit(likelihood, y, variance, offset)

    def fit(self, likelihood: Likelihood, y: np.ndarray, k: np.ndarray | float, c: float) -> Sites:
        """As the call, with one number k where all variances are the same."""
        raise NotImplementedError


@dataclass(frozen=True)
class MomentSites(SiteRule):
    """Mean and variance of L_i N(f; 0, k) itself; see `Likelihood.moment_sites`.

    Exact for Gaussian data, closed forms for binary data without an offset, else `tilted` moments.
    """

    def fit(self, likelihood: Likelihood, y: np.ndarray, k: np.ndarray | float, c: float) -> Sites:
        """Sites of y (n,)."""
        return likelihood.moment_sites(y, k, c)


@dataclass(frozen=True)
class LaplaceSites(SiteRule):
    """Mode mu of L_i N(f; 0, k) and its curvature: w = -(log L_i)''(mu), b = mu (1 / k + w).

    See `Likelihood.laplace_sites`: closed forms for Gaussian data and Poisson counts.
    """

    def fit(self, likelihood: Likelihood, y: np.ndarray, k: np.ndarray | float, c: float) -> Sites:
        """Sites of y (n,)."""
        return likelihood.laplace_sites(y, k, c)


@dataclass(frozen=True)
class TaylorSites(SiteRule):
    """Expansion of log L_i alone at its own maximum: independent of k.

    `InputError` where log L_i has no maximum, as with binary data; see `Likelihood.taylor_sites`.
    """

    def fit(self, likelihood: Likelihood, y: np.ndarray, k: np.ndarray | float, c: float) -> Sites:
        """Sites of y (n,)."""
        return likelihood.taylor_sites(y, c)


@dataclass(frozen=True)
class StandardSites(SiteRule):
    """The rule that suits the likelihood: moments for binary and Gaussian data, Laplace for counts."""

    def fit(self, likelihood: Likelihood, y: np.ndarray, k: np.ndarray | float, c: float) -> Sites:
        """Sites of y (n,)."""
        return SITE_RULES[likelihood.standard_sites]().fit(likelihood, y, k, c)


@dataclass(frozen=True)
class ScaledSites(SiteRule):
    """Sites of a rule with their variances times ``factor``: the same pseudo-data b / w, w / factor."""

    factor: float
    rule: SiteRule = field(default_factory=StandardSites)

    def __post_init__(self) -> None:
        _require_positive("ScaledSites: factor", self.factor)

    def fit(self, likelihood: Likelihood, y: np.ndarray, k: np.ndarray | float, c: float) -> Sites:
        """Sites of y (n,)."""
        w, b, equal = self.rule(likelihood, y, k, c)
        return Sites(w / self.factor, b / self.factor, equal)


@dataclass(frozen=True)
class ConstantSites(SiteRule):
    """One variance alpha set by hand for all cases; the pseudo-data b / w are those of a rule."""

    variance: float
    rule: SiteRule = field(default_factory=StandardSites)

    def __post_init__(self) -> None:
        _require_positive("ConstantSites: variance", self.variance)

    def fit(self, likelihood: Likelihood, y: np.ndarray, k: np.ndarray | float, c: float) -> Sites:
        """Sites of y (n,)."""
        w, b, _ = self.rule(likelihood, y, k, c)
        return Sites(np.full(len(w), 1.0 / self.variance), b / (w * self.variance), True)


SITE_RULES: dict[str, type] = {
    "constant": ConstantSites,
    "laplace": LaplaceSites,
    "moments": MomentSites,
    "scaled": ScaledSites,
    "standard": StandardSites,
    "taylor": TaylorSites,
}


def site_rule(name: str, **settings: float) -> SiteRule:
    """Return the site rule of that name, e.g. ``site_rule("constant", variance=0.5)``."""
    if name not in SITE_RULES:
        raise unknown_name("site rule", name, SITE_RULES)
    try:
        return SITE_RULES[name](**settings)
    except TypeError as error:
        raise InputError(f"site rule {name}: {error}") from None


def _require_positive(where: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise InputError(f"{where} is {value!r}; allowed: a positive number")
