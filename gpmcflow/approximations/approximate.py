"""Gaussian approximations of a posterior, at the maximum of the evidence or averaged over hyperparameters."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from gpmcflow.approximations.expectation_propagation import ExpectationPropagation
from gpmcflow.approximations.hyperparameters import FITS, maximise_evidence
from gpmcflow.approximations.integrated import IntegratedApproximation, integrate
from gpmcflow.approximations.laplace import Laplace
from gpmcflow.approximations.multi_laplace import FunctionsFit
from gpmcflow.approximations.multi_maximum import functions_fit, takes_ep
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.multi_gp_model import MultiGPModel

logger = logging.getLogger(__name__)
TOLD = 0.01  # nats


@dataclass(frozen=True, eq=False)
class Approximation:
    """A fit of a model: what `sample`, `log_evidence` and `predict` take.

    Attributes
    ----------
    method:
        "ep" or "laplace".
    parameters:
        Free parameters at the maximum of the evidence, by name in their own units; empty where none is free.
    theta:
        Their coordinates (d,).
    fit:
        The `ExpectationPropagation` or `Laplace` fit there; a `FunctionsFit` of several functions.
    """

    method: str
    parameters: dict[str, float]
    theta: np.ndarray
    fit: ExpectationPropagation | Laplace | FunctionsFit

    @property
    def sites(self) -> GaussianSites:
        """The Gaussian: prior times sites. Raises `InputError` for several latent functions."""
        if isinstance(self.fit, FunctionsFit):
            raise InputError(
                "approximate: the Gaussian of several latent functions has no sites of single cases, which "
                "this needs; take sample(model), or model_evidence(model)"
            )
        return self.fit.sites

    @property
    def log_evidence(self) -> float:
        """The method's log evidence, at the maximum."""
        return self.fit.log_evidence

    def __repr__(self) -> str:
        at = ", ".join(f"{name}={value:.4g}" for name, value in self.parameters.items())
        return (
            f"<{self.method} fit: log evidence {self.log_evidence:.4f}{' at ' + at if at else ''}>"
        )


@overload
def approximate(
    model: GPModel | LatentGaussianModel, method: str = ..., *, integrated: Literal[False] = ...
) -> Approximation: ...


@overload
def approximate(
    model: GPModel | LatentGaussianModel,
    method: str = ...,
    *,
    integrated: Literal[True],
    start: np.ndarray | None = ...,
) -> IntegratedApproximation: ...


def approximate(
    model: GPModel | LatentGaussianModel,
    method: str = "ep",
    *,
    integrated: bool = False,
    start: np.ndarray | None = None,
) -> Approximation | IntegratedApproximation:
    """Fit a Gaussian to the posterior of a model's latents.

    Parameters
    ----------
    model:
        A `GPModel`, whose free parameters go to the maximum of the method's log evidence (hyperpriors do not
        count there, but for their support), or a `LatentGaussianModel`.
    method:
        "ep", expectation propagation, or "laplace". Both are exact for Gaussian noise. Models of several
        latent functions other than `Softmax` take Laplace's method, whatever is stated.
    integrated:
        Average over the hyperparameters of a `GPModel`, instead of taking them at the maximum: a fit at each
        of 25 to 60 settings that stand for their posterior, hyperpriors included. At the maximum intervals
        are too narrow where rows are few or hyperparameters many. Each of 100 or 200 weights takes a fit, of
        n^3 flops or more.
    start:
        With ``integrated`` the ``theta`` (s, d) of such a fit of the same model given some of these rows: the
        search begins there, which takes a fraction of the time.

    Returns
    -------
    An `Approximation`, with ``parameters`` in their own units, ``log_evidence`` (in nats) and ``sites``; an
    `IntegratedApproximation` with ``integrated``.

    Raises
    ------
    InputError:
        For another kind of model, and an unknown method; with ``integrated`` for Laplace's method, several
        latent functions other than those of `Softmax`, and a hyperprior without a transform to a normal; for
        a start of another shape, or without ``integrated``.
    NumericalError:
        Where no fit converges.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 12)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian(0.1))
    >>> gp.approximate(model)
    <ep fit: log evidence 2.0038 at length_scale=0.2846, signal_sd=0.8978>
    >>> gp.approximate(model, integrated=True)
    <exact fits at 60 settings: log evidence -1.3093, medians length_scale=0.3021, signal_sd=1.036>
    """
    if method not in FITS:
        raise unknown_name("approximate: method", method, FITS)
    if start is not None and not integrated:
        raise InputError("approximate: found a start; allowed: with integrated=True alone")
    if integrated:
        other = isinstance(model, MultiGPModel) and not takes_ep(model)
        if method != "ep" or other or not isinstance(model, GPModel | MultiGPModel):
            raise InputError(
                "approximate: integrated=True is of a GPModel of one latent function, or of classes, with "
                'method="ep"; take sample(model) for another'
            )
        found = integrate(model, start=None if start is None else _settings(model, start))
        tell_unreliable(found)
        return found
    if isinstance(model, LatentGaussianModel):
        fit = FITS[method](model)
        _tell_jitter(fit)
        return Approximation(method, {}, np.empty(0), fit)
    if not isinstance(model, GPModel | MultiGPModel):
        raise InputError(
            f"approximate: found {type(model).__name__}; allowed: a GPModel or a LatentGaussianModel"
        )
    best = maximise_evidence(model, method)
    if isinstance(best.fit, FunctionsFit):
        method = best.fit.method
    else:
        _tell_jitter(best.fit)
    values = model.natural(best.theta)
    parameters: dict[str, Any] = {name: values[name] for name in model.names}
    return Approximation(method, parameters, best.theta, best.fit)


def _settings(model: GPModel | MultiGPModel, start: np.ndarray) -> np.ndarray:
    """A start as settings (s, d) of a model's free parameters."""
    settings = np.asarray(start, dtype=np.float64)
    if settings.shape[1:] != (model.dim,) or not settings.size or not np.isfinite(settings).all():
        raise InputError(
            f"approximate: start has shape {settings.shape}; allowed: finite numbers of shape "
            f"(s, {model.dim}), the theta of a fit of the same model"
        )
    return settings


def tell_unreliable(found: IntegratedApproximation) -> None:
    """Say so where the settings may miss a part of the posterior of the hyperparameters."""
    if not found.reliable:
        logger.warning(
            "approximate: %.0f of the weighted draws of the hyperparameters are effective, with a Pareto "
            "k of %.2f, so that the settings may miss a part of the posterior; take sample(model)",
            found.effective_size, found.pareto_k,
        )  # fmt: skip


def fitted_at(model: GPModel | MultiGPModel, theta: np.ndarray) -> Approximation:
    """The fit of `approximate` at theta (d,), where nothing is searched for."""
    if isinstance(model, MultiGPModel):
        fit = functions_fit(model, theta)
        return Approximation(fit.method, {}, theta, fit)
    return approximate(model.at(theta))


def _tell_jitter(fit: ExpectationPropagation | Laplace) -> None:
    """Say so where the jitter of the prior covariance changes the log evidence by more than 0.01 nats.

    To first order: d log Z / d K_ii = (b_i^2 - tau_i (1 - tau_i Var eta_i)) / 2, b the slopes of the sites.
    """
    sites = fit.sites
    if sites.model.jitter == 0.0 or sites.model.design is not None:
        return
    slopes = np.square(sites.residual) - sites.precision * sites.cavity_share
    change = 0.5 * sites.model.jitter * float(slopes.sum())
    if abs(change) > TOLD:
        logger.warning(
            "approximate: the jitter %.2g changes the log evidence by about %.2g; give GPModel a smaller "
            "jitter=, or noise that is not so far below the signal", sites.model.jitter, change,
        )  # fmt: skip
