"""Factorising likelihoods by name.

To add one: its class in the file of its kind, its line in `LIKELIHOODS`, its derivatives in
tests/likelihoods/test_derivatives.py. All that asks for more than `Likelihood` has by default is in that
file, too: sites, mean response, compiled form. One of several latent functions has its line in
`MULTI_LIKELIHOODS`, and its tests in tests/likelihoods/test_multi.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods.base import Likelihood
from gpmcflow.likelihoods.binary import Logistic, Probit
from gpmcflow.likelihoods.censored_gaussian import CensoredGaussian
from gpmcflow.likelihoods.counts import NegativeBinomial, Poisson
from gpmcflow.likelihoods.counts_with_zeros import Hurdle, ZeroInflated
from gpmcflow.likelihoods.distributional import Distributional, with_functions
from gpmcflow.likelihoods.heteroscedastic import HeteroscedasticGaussian
from gpmcflow.likelihoods.multi import MultiLikelihood
from gpmcflow.likelihoods.ordinal import Ordinal
from gpmcflow.likelihoods.positive import Gamma, LogNormal
from gpmcflow.likelihoods.real import Gaussian, StudentT
from gpmcflow.likelihoods.shares import Beta, BetaBinomial, Binomial
from gpmcflow.likelihoods.softmax import Softmax
from gpmcflow.likelihoods.survival import Survival

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
        Survival,
        Ordinal,
        CensoredGaussian,
        Beta,
        ZeroInflated,
        Hurdle,
        BetaBinomial,
    )
}
#: those of several latent functions a case
MULTI_LIKELIHOODS: dict[str, type[MultiLikelihood]] = {
    kind.name: kind for kind in (Softmax, HeteroscedasticGaussian)
}
_ALL: dict[str, type[Likelihood]] = LIKELIHOODS | MULTI_LIKELIHOODS

BASES = (Poisson.name, NegativeBinomial.name)  # of counts with many zeros

__all__ = [
    "LIKELIHOODS", "MULTI_LIKELIHOODS", "Beta", "BetaBinomial", "Binomial", "CensoredGaussian",
    "Distributional", "Gamma", "Gaussian", "HeteroscedasticGaussian", "Hurdle", "Likelihood", "LogNormal",
    "Logistic",
    "MultiLikelihood", "NegativeBinomial", "Ordinal", "Poisson", "Probit", "Softmax", "StudentT", "Survival",
    "ZeroInflated", "is_own", "likelihood", "likelihood_class", "with_functions",
]  # fmt: skip


def likelihood(name: str, **settings: Any) -> Likelihood:
    """Return the likelihood of that name, e.g. ``likelihood("gaussian", noise_sd=0.1)``.

    A parameter is a number, a hyperprior, or a mapping of a hyperprior's fields as in a config. The base of
    counts with many zeros is a name, or {name: settings}. Raises `InputError` for an unknown name or setting,
    and for a setting that is needed and missing.
    """
    kind: Any = likelihood_class(name)  # a dataclass
    if isinstance(settings.get("base"), (str, Mapping)):
        settings["base"] = _base(settings["base"], f"likelihood {name}: base")
    allowed = {field.name: field.default for field in fields(kind)}
    for setting in settings:
        if setting not in allowed and setting not in kind.renamed:
            raise unknown_name(f"likelihood {name}: setting", setting, allowed)
    for setting, default in allowed.items():
        if default is MISSING and setting not in settings:
            raise InputError(f"likelihood {name}: setting {setting!r} is missing; give it")
    return kind(**settings)


def likelihood_class(name: str) -> type[Likelihood]:
    """Return the class of a name. Raises `InputError` for an unknown one."""
    if name not in _ALL:
        raise unknown_name("likelihood", name, _ALL)
    return _ALL[name]


def is_own(kind: Likelihood) -> bool:
    """Return whether a likelihood is of the package's own classes, which a name tells."""
    return _ALL.get(kind.name) is type(kind)


def _base(stated: str | Mapping, where: str) -> Likelihood:
    named = {stated: {}} if isinstance(stated, str) else stated
    if len(named) != 1 or not isinstance(settings := next(iter(named.values())), Mapping):
        raise InputError(f"{where} is {stated!r}; allowed: a name, or {{name: settings}}")
    name = next(iter(named))
    if name not in BASES:
        raise unknown_name(where, name, BASES)
    return likelihood(name, **settings)
