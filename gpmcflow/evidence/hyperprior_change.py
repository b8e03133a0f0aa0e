"""The evidence of a model under other hyperpriors, from the draws of a run that is there."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from gpmcflow.covariances.expressions import Covariance, Leaf
from gpmcflow.diagnostics.autocorrelation import initial_positive_sequence_time
from gpmcflow.diagnostics.importance_weights import effective_size, smooth_weights
from gpmcflow.errors import InputError
from gpmcflow.evidence import alarms
from gpmcflow.evidence.estimates import Estimate, estimate_columns
from gpmcflow.execution import array_digest
from gpmcflow.likelihoods import Likelihood
from gpmcflow.models.gp_model import GPModel

_WHERE = "change_hyperpriors"
_ROUNDING = 1e-12  # weights of mean 1 that differ by less are equal


def change_hyperpriors(run: xr.DataTree, model: GPModel, other: GPModel) -> xr.DataTree:
    """Log evidence of ``other``, which differs from ``model`` in its hyperpriors alone.

    log p'(y) = log p(y) + log E[p'(theta) / p(theta) | y], by the draws of each replicate.

    Parameters
    ----------
    run:
        Result of `model_evidence` for ``model``.
    model, other:
        The model that was run, and the same with other hyperpriors.

    Returns
    -------
    Group ``evidence`` as `model_evidence` gives it, with ``pareto_k``, the shape of the tail of the weights:
    above 0.7 an alarm says that the draws hardly reach where the new hyperprior has its mass.

    Raises
    ------
    InputError:
        For models that differ in more, and for a hyperprior on a wider support, which no draws can reach: run
        that model.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> def model(longest):
    ...     length = gp.Hyperprior.log_uniform(0.05, longest)
    ...     return gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(length, 1.0), gp.Gaussian(0.1))
    >>> run = gp.model_evidence(model(5.0), n_draws=800)
    >>> narrower = gp.change_hyperpriors(run, model(1.0), model(1.0))
    Traceback (most recent call last):
    gpmcflow.errors.InputError: change_hyperpriors: the run is of another model than the first one given
    >>> narrower = gp.change_hyperpriors(run, model(5.0), model(1.0))
    >>> gain = narrower.evidence["log_evidence"] - run.evidence["log_evidence"].isel(estimator=0)
    >>> bool(abs(gain.item() - np.log(np.log(100.0) / np.log(20.0))) < 0.01)
    True
    """
    _check(run, model, other)
    theta = run["posterior/theta"].transpose("chain", "draw", "theta_dim").values
    log_weights = np.apply_along_axis(
        lambda point: other.log_prior(point) - model.log_prior(point), -1, theta
    )
    n_draws = log_weights.shape[1]
    with np.errstate(divide="ignore"):
        shift = logsumexp(log_weights, axis=-1) - np.log(n_draws)
    weights = np.exp(log_weights - shift[:, None])
    spread = weights.var(-1)
    differ = spread > _ROUNDING**2  # else all draws are as likely under both
    times = np.where(differ, initial_positive_sequence_time(weights), 0.0)
    of_weights = times * spread / n_draws
    group = run["evidence"].to_dataset().isel(estimator=[0])
    names = ("replicate_log_evidence", "replicate_standard_error")
    before = [group[name].values[0] for name in names]
    estimate = Estimate(before[0] + shift, np.sqrt(before[1] ** 2 + of_weights))
    pareto_k = smooth_weights(log_weights.ravel())[1]
    likelihood = run["sample_stats/sum_log_likelihood"].transpose("chain", "draw").values
    known = np.isfinite(likelihood)  # of a mixture, whose draws have latents now and then
    fit = float((weights * likelihood)[known].mean() / weights[known].mean())
    of_weights_alone = float(effective_size(log_weights.ravel()))
    messages = [
        str(group["alarm"].values),
        *alarms.pareto_alarms(pareto_k, log_weights.size, of_weights_alone),
    ]
    scalars = {
        "fit": fit,
        "complexity": fit - estimate.mean,
        "pareto_k": pareto_k,
        "effective_size": min(group["effective_size"].item(), of_weights_alone),
        "alarm": "; ".join(text for text in messages if text),
    }
    columns = estimate_columns({str(group["estimator"].values[0]): estimate})
    changed = group.assign(columns | {name: ((), scalar) for name, scalar in scalars.items()})
    tree = xr.DataTree.from_dict({"evidence": changed})
    tree.attrs = {"data_checksum": run.attrs["data_checksum"]}
    return tree


def _form_of(model: GPModel) -> tuple:
    """All of a model but its hyperpriors."""
    parameters, likelihood = model.parameters, model.likelihood
    fixed = parameters.full(np.zeros(model.dim))[~parameters.is_free]
    numbers = {"X": model.X, "y": model.y, "fixed": fixed}
    structure = model.basis_settings if model.basis else model.structure_name
    return (
        *(tuple(parameters.all_names), tuple(model.names), parameters.coordinates),
        array_digest(numbers | _constants_of(likelihood)),
        *(_terms_of(model.covariance), type(likelihood), model.jitter, repr(structure)),
        repr((model.inputs.names, model.inputs.levels)),
    )


def _constants_of(likelihood: Likelihood, prefix: str = "") -> dict[str, np.ndarray]:
    """What a likelihood, and one that it has as a base, holds besides parameters."""
    constants: dict[str, np.ndarray] = {}
    for name, value in vars(likelihood).items():
        if isinstance(value, Likelihood):
            constants |= _constants_of(value, f"{name} {value.name}: ")
        elif not name.startswith("_") and (name not in likelihood.parameters or np.ndim(value)):
            constants[prefix + name] = np.asarray(value)
    return constants


def _terms_of(covariance: Covariance) -> tuple:
    """Terms of a covariance and how they are put together, without the settings of parameters."""
    if not isinstance(covariance, Leaf):
        pair: Any = covariance  # a sum or a product
        return type(pair), _terms_of(pair.left), _terms_of(pair.right)
    parameters = {*covariance.parameters(), "ard", "given"}  # of which there are names
    own = (field.name for field in fields(covariance) if field.name not in parameters)
    return type(covariance), *((name, getattr(covariance, name)) for name in own)


def _check(run: xr.DataTree, model: GPModel, other: GPModel) -> None:
    attributes = getattr(run, "attrs", {})
    if attributes.get("model_digest") != model.digest():
        raise InputError(f"{_WHERE}: the run is of another model than the first one given")
    if _form_of(model) != _form_of(other):
        raise InputError(
            f"{_WHERE}: the two models differ in more than hyperpriors; run model_evidence on the second"
        )
    pairs = zip(
        model.names, model.parameters.free_priors, other.parameters.free_priors, strict=True
    )
    for name, old, new in pairs:
        (low, high), (new_low, new_high) = old.support, new.support
        slack = 1e-12 * max(1.0, abs(new_low), abs(new_high))  # ends are rounded
        if new_low < low - slack or new_high > high + slack:
            raise InputError(
                f"{_WHERE}: {name} goes from {new_low:g} to {new_high:g}, the draws from {low:g} to {high:g}"
                "; allowed: the same support or a smaller one; run model_evidence on the wider model"
            )
