"""The steps of an analysis for one model: the quick fit with its evidence, draws, and what they say."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from gpmcflow.analysis.coefficients import is_straight, with_coefficients
from gpmcflow.analysis.convergence import (
    FEWEST_EFFECTIVE,
    GROUP,
    NOT_ANNEALED,
    converged,
    convergence,
)
from gpmcflow.analysis.data import Data
from gpmcflow.analysis.effects import explained
from gpmcflow.analysis.seasons import season_of
from gpmcflow.analysis.summaries import Places, describe, reach, with_leave_one_out
from gpmcflow.analysis.together import N_SETTINGS, with_together
from gpmcflow.approximations import leave_one_out as left_out
from gpmcflow.approximations.approximate import Approximation, approximate, fitted_at
from gpmcflow.approximations.integrated import IntegratedApproximation, integrate, integrates
from gpmcflow.approximations.multi_annealing import annealed_weights
from gpmcflow.approximations.multi_laplace import FunctionsFit
from gpmcflow.approximations.prediction import predictors
from gpmcflow.contrasts.explanations import thetas
from gpmcflow.diagnostics.importance_weights import effective_size, standard_error
from gpmcflow.errors import NumericalError
from gpmcflow.evidence import alarms
from gpmcflow.evidence.log_evidence import log_evidence
from gpmcflow.execution import Execution, chain_generators
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.samplers import FittedIndependence, JointSplitHMC, Sampler
from gpmcflow.samplers.density.problem import DensityProblem
from gpmcflow.samplers.joint.pseudo_marginal import prefers_pseudo_marginal
from gpmcflow.samplers.joint.pseudo_marginal_independence import suits_independence
from gpmcflow.samplers.sampling import sample

LEFT_OUT_RESPONSES = ("grades", "share")  # kinds of which leave-one-out has predictions, too
LEAST_STEP, MOST_STEP = 1.25, 2.0  # times as many draws each time chains go on
MOST_GROWTH, MOST_DRAWS = 4, 4000  # in all, whichever is more
MARGIN = 1.1  # of the effective draws aimed at, as chains may go on again
LEAST_SHARE = 0.3  # effective draws of an independence sampler, of its pilot's
N_PREDICTED = 200  # draws that predictions are averaged over
MOST_WORK = 2e10  # numbers of annealing with basis functions, a few minutes of a core
ALL_ROWS = "all rows"  # of the random numbers of the final fit
N_LEFT_OUT = 100  # draws that leave-one-out densities are averaged over: a fit at each
FEWEST_LEFT_OUT = 40  # of them with basis functions
LEFT_OUT_WORK = 1e11  # rows x functions^2 of all of them


def fit(
    model: GPModel,
    data: Data,
    settings: Mapping,
    *,
    scores_alone: bool = False,
    seed: int,
    key: tuple,
) -> xr.DataTree:
    """EP, or the exact marginal likelihood, averaged over the hyperparameters or at its maximum.

    Groups: settings (`IntegratedApproximation.to_dataset`), or maximum (theta, parameter values) where
    `quick_fit` is that; evidence (log_evidence in nats of outcomes in natural units, standard_error,
    approximate_log_evidence, alarm), and those of `describe`, with ``scores_alone`` of the held-out rows
    alone.
    """
    best = quick_fit(model)
    tree = _answer_of_fit(model, best, data, scores_alone, seed, key)
    if scores_alone and is_straight(model):  # what it says of columns counts if another is shown
        tree = with_coefficients(tree, best, model, seed)
    tree = with_leave_one_out(tree, _left_out(model, best, data.target.kind), data)
    tree["evidence"] = xr.DataTree(_evidence(model, best, data, settings, seed, key))
    return tree


def quick_fit(
    model: GPModel, start: np.ndarray | None = None
) -> Approximation | IntegratedApproximation:
    """The fit of a quick answer: averaged over the hyperparameters where that takes seconds.

    At the maximum of the evidence for more than 700 rows, or rows x functions, for several latent functions
    other than those of classes, and where a hyperprior has no transform to a normal, or no setting a fit. An
    average begins at ``start`` (s, d), settings of the same model given some of the rows; a maximum is
    searched for anew, as another may be the highest.
    """
    if integrates(model):
        with contextlib.suppress(NumericalError):
            return integrate(model, start=start)
    return approximate(model)


def _left_out(
    model: GPModel, best: Approximation | IntegratedApproximation, kind: str
) -> left_out.LeaveOneOut:
    """Leave-one-out densities of a fit, and responses of the kinds whose report has them."""
    asked = kind in LEFT_OUT_RESPONSES
    if isinstance(best, IntegratedApproximation):
        return left_out.over_settings(best, responses=asked)
    if isinstance(best.fit, FunctionsFit):
        return left_out.of_functions_fit(best.fit)
    if not model.basis and not model.likelihood.conjugate:
        found = left_out.of_fit(best.fit, best.sites.model.likelihood)
        density = found.log_density(model.y)
    else:
        density = left_out.at_theta(model, best.theta)  # in closed form, or of m x m matrices
        found = left_out.cavities_at(model, best.theta)[0] if asked else None
    response = found.response() if asked and found is not None else None
    return left_out.LeaveOneOut(
        density, np.zeros(len(density)), left_out.how(model), response=response
    )


def _places(
    model: GPModel, data: Data, seed: int, key: tuple
) -> tuple[Places, np.random.Generator]:
    rng = chain_generators(seed, *key, "quick", chains=range(1)).generator(0)
    return Places.of(data, rng, season_of(model, data)), rng


def _answer_of_fit(
    model: GPModel,
    best: Approximation | IntegratedApproximation,
    data: Data,
    scores_alone: bool,
    seed: int,
    key: tuple,
) -> xr.DataTree:
    """Groups settings or maximum, those of `describe`, and reach."""
    places, rng = _places(model, data, seed, key)
    thetas = best.theta if isinstance(best, IntegratedApproximation) else best.theta[None]
    tree = describe(predictors(best, n_draws=1), len(thetas), places.scored(scores_alone), rng)
    if not scores_alone:
        some = predictors(best, n_draws=1), len(thetas)
        tree = _with_more(tree, model, best, places, thetas, some, seed)
    if isinstance(best, IntegratedApproximation):
        tree["settings"] = xr.DataTree(best.to_dataset())
        return tree
    names = np.array(list(best.parameters), dtype=object).astype(str)
    values = np.array(list(best.parameters.values()), dtype=np.float64)
    maximum = {"theta": ("parameter", best.theta), "value": ("parameter", values)}
    tree["maximum"] = xr.DataTree(xr.Dataset(maximum, {"parameter": names}))
    return tree


def _with_more(
    tree: xr.DataTree,
    model: GPModel,
    source: Any,
    places: Places,
    thetas: np.ndarray,
    some: tuple[Iterable[Any], int],
    seed: int,
) -> xr.DataTree:
    """The tree with what is no prediction: reach, sets of columns by some predictors, coefficients."""
    if places.data.encoding.coordinates:
        tree["reach"] = reach(model, thetas, places.data)
    return with_coefficients(with_together(tree, *some, places), source, model, seed)


def stored_predictors(model: GPModel, tree: xr.DataTree) -> Iterable[Any]:
    """The predictors of a quick fit that `fit` or `answer` stored."""
    if "settings" in tree.children:
        stored = tree["settings"].to_dataset()
        return predictors(IntegratedApproximation.of_dataset(model, stored), n_draws=1)
    return predictors(fitted_at(model, tree["maximum/theta"].values), n_draws=1)


def answer(
    model: GPModel,
    data: Data,
    draws: xr.DataTree | None,
    *,
    first: xr.DataTree | None = None,
    seed: int,
    key: tuple,
) -> xr.DataTree:
    """What posterior draws say, or without them the quick fit: the groups of `describe`, and reach.

    The quick fit begins where that of ``first`` ended, which `fit` made of the learning rows.
    """
    if draws is None:
        averaged = first is not None and "settings" in first.children
        start = first["settings/theta"].values if averaged else None
        return _answer_of_fit(model, quick_fit(model, start), data, False, seed, key)
    return _answer_of_draws(model, draws, data, False, seed, key)


def _evidence(
    model: GPModel,
    best: Approximation | IntegratedApproximation,
    data: Data,
    settings: Mapping,
    seed: int,
    key: tuple,
) -> xr.Dataset:
    """Log evidence averaged over the hyperparameters, EP's corrected by draws of latents; or at the maximum.

    There it is exact with Gaussian noise, else by annealing from the fit. With basis functions of more
    than `MOST_WORK` it is that of EP, which an alarm says.
    """
    shift, error, alarm = -float(data.learning.log_units(data.target).sum()), np.nan, ""
    value = estimate = best.log_evidence + shift
    if isinstance(best, IntegratedApproximation):
        estimate = value + best.ep_error
        error = float(np.hypot(best.standard_error, best.ep_error_se))
    elif too_much_annealing(model, settings):
        rows = f"{model.n_cases} rows take long"
        alarm = f"{NOT_ANNEALED}, as {rows}: the value of EP, of unknown error"
    elif model.likelihood.conjugate:
        error = 0.0
    elif isinstance(best.fit, FunctionsFit):
        rng = chain_generators(seed, *key, "evidence", chains=range(1)).generator(0)
        weights = annealed_weights(best.fit, rng, settings["particles"], settings["temperatures"])
        found = float(logsumexp(weights)) - np.log(len(weights))
        error, size = float(standard_error(weights)), float(effective_size(weights))
        estimate = found + shift
        alarm = alarms.join(alarms.weight_alarms(size), alarms.tail_alarms(found, weights))
    else:
        size = {"n_temperatures": settings["temperatures"], "n_particles": settings["particles"]}
        run = log_evidence(best, **size, seed=seed, key=(*key, "evidence"))
        group = run["evidence"].to_dataset()
        names = ("log_evidence", "standard_error", "alarm")
        found, error, alarm = (group[name].values.ravel()[0] for name in names)
        estimate, error, alarm = float(found) + shift, float(error), str(alarm)
    numbers = {"log_evidence": estimate, "standard_error": error, "approximate_log_evidence": value}
    return xr.Dataset(numbers, attrs={"alarm": alarm})


def too_much_annealing(model: GPModel, settings: Mapping) -> bool:
    """Whether annealing to the evidence is left out, by rows x basis functions x temperatures x particles."""
    if not model.basis or model.likelihood.conjugate:
        return False
    runs = settings["temperatures"] * settings["particles"]
    return model.n_cases * model.n_latents * runs > MOST_WORK


def _independent(model: GPModel, seed: int, key: tuple) -> tuple[Sampler | None, float]:
    """An independence sampler of a regression, and the share of draws that its pilot finds effective."""
    rng = chain_generators(seed, *key, "pilot", chains=range(1)).generator(0)
    problem = DensityProblem.of(RegressionDensity(model), None)
    try:
        return FittedIndependence().fitted(problem, rng)
    except NumericalError:  # no mode
        return None, 0.0


def draw(
    model: GPModel,
    sampling: Mapping,
    *,
    seed: int,
    key: tuple,
    execution: Execution | None = None,
    predictive: bool = True,
    earlier: xr.DataTree | None = None,
) -> xr.DataTree:
    """Posterior draws of hyperparameters and latents; with Gaussian noise of hyperparameters alone.

    By what `sample` chooses where EP is good: independent proposals of few hyperparameters, pseudo-marginal
    HMC of labels and of few cases of Student-t; else by joint split HMC. With Gaussian noise and a dense
    covariance independence Metropolis comes first, where its pilot finds at least `LEAST_SHARE` of the draws
    effective, and stays if these draws converge. Chains that do not converge go on, up to `MOST_GROWTH` times
    as long or `MOST_DRAWS` draws, unless they were too short to. Joint split HMC begins with what the pilot
    of ``earlier`` draws found, those of the same model given some of the rows, if they converged.
    """
    regression = model.likelihood.conjugate and not model.basis
    independent, share = _independent(model, seed, key) if regression else (None, 0.0)
    run: dict[str, Any] = {"predictive": predictive, "seed": seed, "key": key}
    run |= {f"n_{name}": sampling[name] for name in ("chains", "draws", "warmup")}
    samplers = {"independence": independent} if share >= LEAST_SHARE else {}
    samplers |= {"joint": _joint(model, earlier)}
    inside, most = Execution.of(execution).inside, max(MOST_GROWTH * sampling["draws"], MOST_DRAWS)
    too_short = sampling["chains"] * sampling["draws"] < FEWEST_EFFECTIVE or not model.dim
    if not too_short:
        run |= {"n_wanted": lambda draws: min(n_wanted(draws), most)}
    for stage, sampler in samplers.items():
        draws = sample(model, sampler, execution=inside(stage), **run)
        if stage == "joint" or converged(draws):
            break
    if model.dim:  # for the jobs that follow
        draws[GROUP] = xr.DataTree(xr.Dataset(convergence(draws)))
    return draws


def _joint(model: GPModel, earlier: xr.DataTree | None) -> JointSplitHMC | None:
    """Joint split HMC, after draws of its own if there are any; None lets `sample` choose."""
    of_joint = earlier is not None and "stage" in earlier.get("pilot", xr.Dataset()).dims
    if not of_joint:
        tried = prefers_pseudo_marginal(model) or suits_independence(model)
        return None if tried else JointSplitHMC()
    same = list(earlier["posterior"]["theta_dim"].values) == list(model.names)
    return JointSplitHMC.after(earlier) if same and converged(earlier) else JointSplitHMC()


def n_wanted(draws: xr.DataTree) -> int:
    """How many draws of a chain would be enough, at most twice as many; twice where the chains disagree."""
    n_draws, worst = draws["posterior"].sizes["draw"], convergence(draws)
    if converged(draws):
        return n_draws
    agree = worst["r_hat"] <= worst["r_hat_limit"]
    times = MARGIN * FEWEST_EFFECTIVE / min(worst["ess_bulk"], worst["ess_tail"])
    return round(n_draws * (np.clip(times, LEAST_STEP, MOST_STEP) if agree else MOST_STEP))


def n_left_out(model: GPModel) -> int:
    """Draws that leave-one-out densities are averaged over."""
    if not model.basis:
        return N_LEFT_OUT
    affordable = LEFT_OUT_WORK / (model.n_cases * model.n_latents**2)
    return int(np.clip(affordable, FEWEST_LEFT_OUT, N_LEFT_OUT))


def _answer_of_draws(
    model: GPModel, draws: xr.DataTree, data: Data, scores_alone: bool, seed: int, key: tuple
) -> xr.DataTree:
    """Groups of `describe`, and reach."""
    rng = chain_generators(seed, *key, "summary", chains=range(1)).generator(0)
    n_all = draws["posterior"].sizes["chain"] * draws["posterior"].sizes["draw"]
    n = min(N_PREDICTED, n_all)
    places = _places(model, data, seed, key)[0].scored(scores_alone)
    tree = describe(predictors(draws, model=model, n_draws=n), n, places, rng)
    if scores_alone:
        return tree
    used = thetas(draws)[np.linspace(0, n_all - 1, n).astype(int)]
    averages = [(s, tree[f"effects/{s.key}/average"].values) for s in places.swept]
    for name, group in explained(model, draws, used, averages).items():
        tree[name] = xr.DataTree(group)
    theta, rows = _spread(model, draws)
    at, n = theta[:, rows].reshape(-1, theta.shape[-1]), min(N_SETTINGS, n)
    some = predictors(draws, model=model, n_draws=n), n
    return _with_more(tree, model, draws, places, at, some, seed)


def _spread(model: GPModel, draws: xr.DataTree) -> tuple[np.ndarray, np.ndarray]:
    """theta (chain, draw, d), and places of as many draws of a chain as `n_left_out` allows."""
    theta = draws["posterior"]["theta"].transpose("chain", "draw", "theta_dim").values
    each = max(1, n_left_out(model) // theta.shape[0])
    return theta, np.linspace(0, theta.shape[1] - 1, min(each, theta.shape[1])).astype(int)


def summarise(
    model: GPModel,
    draws: xr.DataTree,
    data: Data,
    *,
    scores_alone: bool = False,
    seed: int,
    key: tuple,
) -> xr.DataTree:
    """What posterior draws say: leave_one_out and the groups of `answer`.

    With ``scores_alone`` of these the held-out rows alone.
    """
    tree = _answer_of_draws(model, draws, data, scores_alone, seed, key)
    theta, rows = _spread(model, draws)
    if isinstance(model, MultiGPModel):
        every = draws["posterior"][model.latent_variable].transpose("chain", "draw", ...)
        kept = every[:, rows].values.reshape(*theta[:, rows].shape[:2], -1)
        return with_leave_one_out(
            tree, left_out.over_function_draws(model, theta[:, rows], kept), data
        )
    latents = None
    name = model.latent_variable
    if name in draws["posterior"] and not (model.likelihood.conjugate or model.basis):
        every = draws["posterior"][name].transpose("chain", "draw", ...)
        latents = model.at_cases(every[:, rows].values)
    asked = data.target.kind in LEFT_OUT_RESPONSES
    loo = left_out.over_draws(model, theta[:, rows], latents, responses=asked)
    return with_leave_one_out(tree, loo, data)
