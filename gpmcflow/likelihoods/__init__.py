"""Factorising likelihoods by name.

To add one: its file, its line in `LIKELIHOODS`, its derivatives in tests/likelihoods/test_derivatives.py.
All that asks for more than `Likelihood` has by default is in that file, too: sites, mean response, compiled
form.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods.base import Likelihood
from gpmcflow.likelihoods.beta import Beta
from gpmcflow.likelihoods.binomial import Binomial
from gpmcflow.likelihoods.gamma import Gamma
from gpmcflow.likelihoods.gaussian import Gaussian
from gpmcflow.likelihoods.log_normal import LogNormal
from gpmcflow.likelihoods.logistic import Logistic
from gpmcflow.likelihoods.negative_binomial import NegativeBinomial
from gpmcflow.likelihoods.poisson import Poisson
from gpmcflow.likelihoods.probit import Probit
from gpmcflow.likelihoods.student_t import StudentT

LIKELIHOODS: dict[str, type[Likelihood]] = {
    kind.name: kind
    for kind in (
        Probit,
        Logistic,
        Gaussian,
        Poisson,
        NegativeBinomial,
        Binomial,
        StudentT,
        LogNormal,
        Gamma,
        Beta,
    )
}

__all__ = [
    "LIKELIHOODS", "Beta", "Binomial", "Gamma", "Gaussian", "Likelihood", "LogNormal", "Logistic",
    "NegativeBinomial", "Poisson", "Probit", "StudentT", "likelihood",
]  # fmt: skip


def likelihood(name: str, **settings: Any) -> Likelihood:
    """Return the likelihood of that name, e.g. ``likelihood("gaussian", noise_sd=0.1)``.

    A parameter is a number, a hyperprior, or a mapping of a hyperprior's fields as in a config. Raises
    `InputError` for an unknown name or setting, and for a setting that is needed and missing.
    """
    if name not in LIKELIHOODS:
        raise unknown_name("likelihood", name, LIKELIHOODS)
    kind: Any = LIKELIHOODS[name]  # a dataclass
    allowed = {field.name: field.default for field in fields(kind)}
    for setting in settings:
        if setting not in allowed and setting not in kind.renamed:
            raise unknown_name(f"likelihood {name}: setting", setting, allowed)
    for setting, default in allowed.items():
        if default is MISSING and setting not in settings:
            raise InputError(f"likelihood {name}: setting {setting!r} is missing; give it")
    return kind(**settings)
