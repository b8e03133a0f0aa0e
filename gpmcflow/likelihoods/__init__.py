"""Factorising likelihoods by name."""

from __future__ import annotations

from gpmcflow.errors import unknown_name
from gpmcflow.likelihoods.base import Likelihood
from gpmcflow.likelihoods.gaussian import Gaussian
from gpmcflow.likelihoods.logistic import Logistic
from gpmcflow.likelihoods.poisson import Poisson
from gpmcflow.likelihoods.probit import Probit

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "probit": Probit,
    "logistic": Logistic,
    "gaussian": Gaussian,
    "poisson": Poisson,
}

__all__ = ["LIKELIHOODS", "Gaussian", "Likelihood", "Logistic", "Poisson", "Probit", "likelihood"]


def likelihood(name: str, **settings: float) -> Likelihood:
    """Return the likelihood of that name, e.g. ``likelihood("gaussian", noise_sd=0.1)``."""
    if name not in LIKELIHOODS:
        raise unknown_name("likelihood", name, LIKELIHOODS)
    return LIKELIHOODS[name](**settings)
