"""Latents and responses at new inputs, and replicates of the data, from a prior, a fit or posterior draws."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.approximations.conditional import (
    BasisPredictor,
    NewDesigns,
    Predictor,
    State,
    basis_predictor,
    latent_predictor,
    prior_conditionals,
    regression_predictor,
)
from gpmcflow.approximations.draws import outcome_of, read_draws
from gpmcflow.approximations.integrated import IntegratedApproximation
from gpmcflow.approximations.multi_laplace import FunctionsFit
from gpmcflow.approximations.multi_prediction import (
    MultiConditional,
    MultiPredictor,
    fit_predictor,
    multi_predictive,
    multi_predictor,
    prior_multi_conditionals,
)
from gpmcflow.approximations.predictive import (
    QUANTILES,
    by_blocks,
    mixture,
    predictive,
    responses,
    tell_missing_moments,
)
from gpmcflow.approximations.stacking import run_weights
from gpmcflow.covariances.inputs import row_labels
from gpmcflow.errors import InputError
from gpmcflow.execution import Progress, pin_blas
from gpmcflow.models.basis_regression import CollapsedBasisDensity
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel

logger = logging.getLogger(__name__)
N_DRAWS = 400  # posterior draws that predictions are averaged over: each needs a factorisation


def predict(
    source: Any,
    X_new: Any,
    *,
    exposure: Any = None,
    trials: Any = None,
    unseen: str = "error",
    quantiles: Sequence[float] = QUANTILES,
    weights: Any = "stacking",
    model: GPModel | None = None,
    seed: int = 0,
) -> xr.Dataset:
    """Predict latents and responses at new inputs.

    Parameters
    ----------
    source:
        Draws of `sample` from a `GPModel`, or from its latents at fixed hyperparameters; also read from a
        file, in another process. A fit of `approximate`, or its ``sites``. Or a `GPModel`, for what its prior
        says. Of draws at most 400 are used, spread evenly. A dict of draws, by the names of their models,
        averages the predictions of several models.
    X_new:
        New inputs, (m, p) or a table with the columns the model was made with, in any order.
    exposure, trials:
        Of the new cases, numbers or (m,), for likelihoods that have them; one unit or trial unless given.
    unseen:
        "new" takes a level that the model has not seen as different from all; else it is an error.
    quantiles:
        Levels of the quantiles.
    weights:
        Of several models: "stacking" for the weights of `stacking_weights`, {name: number}, or the table of
        `compare_models` for their probabilities. The 400 draws are shared out in proportion.
    model:
        The model of draws whose covariance or likelihood is written in Python, as results do not hold it.
    seed:
        Of the simulated responses.

    Returns
    -------
    Variables (new_case) latent_mean, latent_sd of eta = f + c, response_mean, response_sd of a new
    observation, and (quantile, new_case) latent_quantile, response_quantile; new_case has the index of a
    DataFrame as its coordinate, else 0, 1, ... Of labels the response is the probability of +1, with the
    spread it has over the posterior. Means are exact given the draws; the spread of responses is that of 4000
    simulated ones. Noise of its own for each case has no response at new ones: there the response is the mean
    of y. Where a draw of Student-t noise has df at most 1 there is no mean, and at most 2 no standard
    deviation: they are nan, with a warning. Of counts response_mean and response_sd are nan, with a warning,
    where the largest hundredth of the draws carries more than a third of the mean: it may be infinite, as
    under a log-normal amplitude. The median and all quantiles exist.

    Raises
    ------
    InputError:
        For inputs that are not those of the model, and a source that nothing can be predicted from.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(0.3, 1.0), gp.Gaussian(0.1))
    >>> prediction = gp.predict(gp.approximate(model), [0.25, 2.0])
    >>> prediction.latent_mean.values.round(2)
    array([0.98, 0.01])
    """
    pin_blas()
    quantiles = _levels(quantiles)
    parts: Any
    if isinstance(source, dict):
        if model is not None:
            raise InputError("predict: model has no use with several models; leave it out")
        parts = _averaged(source, run_weights(source, weights), X_new, unseen)
    elif isinstance(source, MultiGPModel) and model is None:
        parts = prior_multi_conditionals(source, X_new, N_DRAWS, unseen)
    elif isinstance(source, GPModel) and model is None:
        parts = prior_conditionals(source, X_new, N_DRAWS, unseen)
    else:
        parts = conditionals(source, X_new, model=model, unseen=unseen, n_draws=N_DRAWS)
    rng = np.random.default_rng(seed)
    eta = mixture(parts, exposure=exposure, trials=trials)
    tell_missing_moments(eta)
    if isinstance(eta, MultiConditional):
        response = np.empty(0) if eta.likelihoods[0].classes else eta.responses(rng)
        prediction = multi_predictive(eta, response, quantiles)
    else:
        prediction = by_blocks(eta, lambda part: predictive(part, responses(part, rng), quantiles))
    unknown = 0
    if "response_mean" in prediction:
        unknown = int(np.isnan(prediction["response_mean"]).sum())
    if unknown and all(own.has_moment(1) for own in eta.likelihoods):
        logger.warning(
            "predict: response_mean and response_sd are nan at %d of %d new inputs: a hundredth of the draws "
            "carries more than a third of the mean, which may be infinite; take response_quantile",
            unknown,
            prediction.sizes["new_case"],
        )
    outcome = outcome_of(next(iter(source.values())) if isinstance(source, dict) else source)
    if outcome is not None and "response_mean" in prediction:
        prediction["response_mean"].attrs["long_name"] = outcome.response
    return prediction.assign_coords(row_labels(X_new, "new_case"))


def simulate(source: Any, *, n_draws: int = 200, seed: int = 0) -> xr.DataTree:
    """Replicates of the data: what the prior, or the posterior, of a model thinks observations look like.

    Parameters
    ----------
    source:
        A `GPModel`, or draws of `sample` with their latents.
    n_draws:
        Replicates, of posterior draws spread evenly.
    seed:
        Of the random numbers.

    Returns
    -------
    Group ``prior_predictive`` or ``posterior_predictive`` (chain, draw, case: y, and the predictor eta) by
    ArviZ's schema, beside ``observed_data``.

    Raises
    ------
    InputError:
        For draws without latents.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> model = gp.GPModel(np.arange(5.0), np.ones(5), gp.Matern32(), gp.Poisson())
    >>> dict(gp.simulate(model, n_draws=3).prior_predictive["y"].sizes)
    {'chain': 1, 'draw': 3, 'case': 5}
    """
    rng = np.random.default_rng(seed)
    if not isinstance(n_draws, int | np.integer) or n_draws < 1:
        raise InputError(f"simulate: n_draws is {n_draws!r}; allowed: a whole number >= 1")
    if isinstance(source, GPModel | MultiGPModel):
        group, y = "prior_predictive", source.y
        pairs, report = [], Progress("simulate", n_draws, unit="draws")
        for _ in range(n_draws):
            theta = source.draw_prior(rng)
            f, replicate = source.simulate(rng, theta)
            pairs.append((replicate, source.predictor(theta, f)))
            report.update()
        report.close()
    elif not isinstance(source, xr.DataTree):
        raise InputError(
            f"simulate: found {type(source).__name__}; allowed: a GPModel, or draws of sample"
        )
    else:
        group, pairs = "posterior_predictive", []
        model, thetas, eta = read_draws("simulate", source, None, n_draws)
        if eta is None:
            raise InputError(
                "simulate: these draws hold no latents; sample with keep_latents=True, and by a "
                "sampler that draws them, such as JointSplitHMC"
            )
        y = model.y
        for theta, row in zip(np.broadcast_to(thetas, (len(eta), model.dim)), eta, strict=True):
            if model.basis or isinstance(model, MultiGPModel):
                row = model.predictor(theta, row)
            else:
                row = model.at_cases(row)
            pairs.append((model.likelihood_at(model.full(theta)).simulate(rng, row), row))
    ys, etas = zip(*pairs, strict=True)
    several = np.ndim(etas[0]) > 1
    of_eta = ("function", "case") if several else ("case",)
    replicates = {
        "y": (("chain", "draw", "case"), np.stack(ys)[None]),
        "eta": (("chain", "draw", *of_eta), np.stack(etas)[None]),
    }
    cases: dict[str, Any] = {"case": np.arange(len(y))}
    index = {"chain": [0], "draw": np.arange(len(pairs))}
    data = xr.Dataset({"y": ("case", y)}, cases)
    return xr.DataTree.from_dict(
        {group: xr.Dataset(replicates, index | cases), "observed_data": data}
    )


def conditionals(
    source: Any,
    X_new: Any,
    *,
    model: GPModel | None = None,
    unseen: str = "error",
    n_draws: int,
) -> list[Any]:
    """Predictors at new inputs, for each setting of the hyperparameters of draws or a fit."""
    parts: list[Any] = []
    coded: Any = None
    for predictor in predictors(source, model=model, n_draws=n_draws):
        if coded is None:
            coded = predictor.model.new_inputs(X_new, unseen)
        parts.append(predictor.moments(coded))
    return parts


def _averaged(
    runs: dict[str, Any], weights: dict[str, float], X_new: Any, unseen: str
) -> list[Any]:
    """Predictors of several models, each with its share of the draws, spread evenly over its own."""
    parts: list[Any] = []
    shares = np.array(list(weights.values()))
    counts = np.diff(np.round(N_DRAWS * np.cumsum([0.0, *shares])).astype(int))
    for source, count in zip(runs.values(), counts.tolist(), strict=True):
        if not count:
            continue
        rows = [
            type(part)(mean[None], variance[None], part.likelihoods)
            for part in conditionals(source, X_new, unseen=unseen, n_draws=count)
            for mean, variance in zip(part.mean, part.variance, strict=True)
        ]
        parts += [rows[k * len(rows) // count] for k in range(count)]
    kinds = {
        (own.constants, own.binary, own.discrete, own.functions)
        for part in parts
        for own in part.likelihoods
    }
    if len(kinds) > 1:
        raise InputError(
            "predict: these models have likelihoods of other kinds of outcomes; average models of one kind"
        )
    return parts


def predictors(
    source: Any, *, model: GPModel | None = None, n_draws: int
) -> Iterable[Predictor | BasisPredictor | MultiPredictor]:
    """The predictor of each setting of the hyperparameters, of draws or of a fit.

    Of draws at most ``n_draws`` are used, spread evenly.

    Raises `InputError` for a source that nothing can be predicted from.
    """
    if isinstance(source, xr.DataTree):
        return _draw_predictors(source, model, n_draws)
    if model is not None:
        raise InputError(f"predict: model has no use with {type(source).__name__}; leave it out")
    if isinstance(source, IntegratedApproximation):
        return source.predictors()
    fit = getattr(source, "fit", source)
    if isinstance(fit, FunctionsFit):
        return [fit_predictor(fit, N_DRAWS)]
    sites = getattr(source, "sites", source)
    if isinstance(sites, GaussianSites):
        function: Any = sites.model.covariance_function  # a `CovarianceAt`
        if function is not None and function.model.basis:
            return [basis_predictor(NewDesigns(function.model), function.full, sites=sites)]
        return [State(sites.model, sites=sites).predictor()]
    raise InputError(
        f"predict: found {type(source).__name__}; allowed: draws of sample, a fit of approximate, a GPModel"
    )


def _draw_predictors(
    tree: xr.DataTree, model: GPModel | None, n_draws: int
) -> Iterable[Predictor | BasisPredictor | MultiPredictor]:
    """Predictors of posterior draws; those at one setting of theta are one."""
    drawn_of, thetas, eta = read_draws("predict", tree, model, n_draws)
    return _of_draws(drawn_of, thetas, eta)


def _of_draws(
    model: Any, thetas: np.ndarray, eta: np.ndarray | None
) -> Iterable[Predictor | BasisPredictor | MultiPredictor]:
    if eta is None and not model.likelihood.conjugate:
        raise InputError("predict: these draws hold no latents; sample with keep_latents=True")
    report = Progress("predict", len(thetas), unit="draws")
    designs = NewDesigns(model)
    of_functions: dict[int, NewDesigns] = {}
    regression = CollapsedBasisDensity(model) if model.basis and eta is None else None
    for k, theta in enumerate(thetas):
        latents = eta if eta is None or len(thetas) == 1 else eta[k : k + 1]
        if isinstance(model, MultiGPModel) and latents is not None:
            yield multi_predictor(model, theta, latents, of_functions)
        elif model.basis:
            yield basis_predictor(designs, model.full(theta), latents, regression=regression)
        elif latents is None:
            yield regression_predictor(model, theta)
        else:
            yield latent_predictor(model, theta, latents)
        report.update()
    report.close()


def _levels(quantiles: Sequence[float]) -> list[float]:
    levels = np.asarray(quantiles)
    if (
        levels.ndim != 1
        or not levels.size
        or levels.dtype.kind not in "iuf"
        or not np.all((levels >= 0) & (levels <= 1))
    ):
        raise InputError(f"predict: quantiles is {quantiles!r}; allowed: numbers from 0 to 1")
    return levels.tolist()
