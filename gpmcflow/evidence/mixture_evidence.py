"""The evidence of a model by importance sampling from a mixture at the modes of its hyperparameters.

log p(y) = log E_q[t(x) / q(x)], t(x) = N(x; 0, I) p(y | theta(x)), q a `Mixture`. Latents of a regression are
integrated out. Others are annealed from the EP fit at theta(x) to their posterior, which estimates
p(y | theta) without bias (`SettingFit.draws`): the mean of the weights is p(y) whatever EP does. Of basis
functions one draw f of the fit N(f; m, V) has the weight N(x; 0, I) N(f; 0, K) p(y | f, theta) / [q(x) N(f;
m, V)].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from gpmcflow.approximations.evidence_density import NormalEvidenceDensity, normal_density
from gpmcflow.approximations.mixture import (
    Mixture,
    Mode,
    ModeProposal,
    fit_mixture,
    log_weights,
    missed_modes,
)
from gpmcflow.approximations.site_draws import N_TRIALS, SettingFit
from gpmcflow.diagnostics.importance_weights import (
    effective_size,
    normalised_weights,
    smooth_weights,
    standard_error,
    systematic_resample,
)
from gpmcflow.errors import NumericalError
from gpmcflow.evidence import alarms
from gpmcflow.evidence.estimates import Estimate, estimate_columns
from gpmcflow.execution import chain_generators
from gpmcflow.models.description import data_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.regression_density import NormalDensity
from gpmcflow.samplers.joint.fitted_independence import JointIndependence
from gpmcflow.samplers.modes_group import modes_group
from gpmcflow.samplers.predictive import ModelPredictive, predictive_groups
from gpmcflow.samplers.variables import in_own_units

FIRST_DRAWS = 2000
FIRST_FITS = 1000  # of a model whose draws take an EP fit each
N_LATENTS = 16  # annealed draws of the latents of each setting
WITH_LATENTS = 200  # evenly spaced draws that get latents, which cost more than a weight
FOR_THE_FIT = 100  # of these, where latents serve the mean of log p(y | f) alone
FIRST_WITH_DRAWS = 600  # of a regression, from a mixture fitted to draws of its posterior
LEAST_EFFECTIVE = 200.0
HARMLESS_WEIGHT = 0.01  # share of the heaviest draw in the evidence: 0.01 nats
MOST_FITS = 3  # of mixtures, where the draws of the last one found another mode
ESTIMATOR = "importance"
_STREAM = "mixture"


@dataclass(frozen=True, eq=False)
class Weights:
    """Log weights log t / q (N,) of independent draws from q, whose mean weight is p(y)."""

    log_weights: np.ndarray
    missed: list[str]  #: alarms of modes that q lacks

    @property
    def estimate(self) -> Estimate:
        """Log of the mean weight, its error by the delta method."""
        value = float(logsumexp(self.log_weights)) - np.log(len(self.log_weights))
        return Estimate(np.array([value]), np.array([standard_error(self.log_weights)]))

    @property
    def effective_size(self) -> float:
        """(sum w)^2 / sum w^2."""
        return float(effective_size(self.log_weights))

    def alarms(self) -> list[str]:
        """All that speaks against the estimate."""
        n, size = len(self.log_weights), self.effective_size
        pareto_k = smooth_weights(self.log_weights)[1]
        heaviest = float(normalised_weights(self.log_weights).max())
        # a tenth of the draws are the prior's, which bounds exact weights: k tells of harm where one counts
        of_tail = alarms.pareto_alarms(pareto_k, n, size) if heaviest >= HARMLESS_WEIGHT else []
        return [
            *alarms.not_finite_alarms(self.estimate.mean),
            *of_tail,
            *alarms.few_effective_alarms(size, LEAST_EFFECTIVE),
            *self.missed,
        ]


@dataclass(frozen=True, eq=False)
class Weighted(Weights):
    """Draws x (N, d) of a mixture with their log weights, and what they cost."""

    model: GPModel
    density: NormalDensity | NormalEvidenceDensity
    mixture: Mixture
    x: np.ndarray
    latents: np.ndarray | None  #: (N, n) that were drawn from EP fits
    log_likelihood: np.ndarray | None  #: log p(y | latents, theta) (N,)

    @property
    def masses(self) -> np.ndarray:
        """Share of the posterior nearest to each component (K,)."""
        return self.mixture.shares_of(self.x, self.log_weights)

    def resampled(self, rng: np.random.Generator) -> np.ndarray:
        """Places of N draws of the posterior: systematic resampling by Pareto-smoothed weights, in order."""
        shares = normalised_weights(smooth_weights(self.log_weights)[0])
        return systematic_resample(shares, rng.random())


def weighted_draws(
    model: GPModel,
    most: int,
    target_error: float,
    seed: int,
    key: tuple,
    posterior: np.ndarray | None = None,
) -> Weighted:
    """2,000 draws of a mixture fitted to a model, or twice as many while they are too few, to ``most``.

    It begins with 1,000 where each takes an EP fit, with 600 where draws theta (N, d) of the ``posterior`` of
    a regression are given to fit the mixture to. They are too few with an error above ``target_error``, an
    alarming Pareto k, or fewer than 200 effective ones; the mixture is then refitted to them, and all draws
    are new. Where climbs from the heaviest draws find another mode, the search is not over: the mixture is
    fitted anew. Beside a ``posterior`` there is no search: a mode that it lacks shows in the weights of draws
    of the prior.
    """
    density = normal_density(model)
    rng = chain_generators(seed, *key, _STREAM, chains=[0]).generator(0)
    modes: list[Mode] = []
    if posterior is None:
        modes, mixture = fit_mixture(density, rng)
    else:
        mixture = Mixture.of_draws(model.parameters.to_normal(posterior))
    first = FIRST_DRAWS if model.likelihood.conjugate else FIRST_FITS
    first = first if posterior is None else FIRST_WITH_DRAWS
    length, fits = min(first, most), 1
    while True:
        x = mixture.draw(rng, length)
        weights, *latents = _weigh(model, density, mixture, x, rng)
        found = missed_modes(density, modes, x, weights) if modes else []
        missed = alarms.late_mode_alarms(len(found) > len(modes))
        draws = Weighted(weights, missed, model, density, mixture, x, *latents)
        if draws.missed and fits < MOST_FITS:
            fits += 1
            modes, mixture = fit_mixture(density, rng, found)
            continue
        enough = not draws.alarms() and draws.estimate.error <= target_error
        if enough or length >= most:
            return draws
        length = min(2 * length, most)
        mixture = mixture.refitted(x, weights)


def _weigh(
    model: GPModel,
    density: NormalDensity | NormalEvidenceDensity,
    mixture: Mixture,
    x: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Log weights (N,) of draws x (N, d), and latents (N, n) from EP fits with their log likelihoods (N,)."""
    if model.likelihood.conjugate:
        return log_weights(density, mixture, x), None, None
    if not model.basis:
        return _annealed(model, mixture, x, rng)
    proposal = ModeProposal(mixture, model.parameters)
    transition = JointIndependence(proposal=proposal).bind(model)
    weights, likelihood = np.full((2, len(x)), -np.inf)
    latents = np.full((len(x), model.n_latents), np.nan)
    for k, (theta, log_proposal) in enumerate(zip(*proposal.at(x), strict=True)):
        state = transition.propose_at(rng, theta, log_proposal)
        if state is not None and np.isfinite(state.log_weight):
            weights[k], likelihood[k] = state.log_weight, state.log_likelihood
            latents[k] = state.latent
    return weights, latents, likelihood


def _annealed(
    model: GPModel, mixture: Mixture, x: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `_weigh`, by `N_LATENTS` annealed draws of the EP fit at each x, which begins at the nearest one."""
    trials = rng.standard_normal((N_TRIALS, model.n_cases))
    weights, likelihood = np.full((2, len(x)), -np.inf)
    latents = np.full((len(x), model.n_cases), np.nan)
    sites = np.zeros((len(x), 2, model.n_cases))  # precisions and shifts
    done: list[int] = []
    for k, log_proposal in enumerate(mixture.log_density(x)):
        near = done[int(np.square(x[done] - x[k]).sum(1).argmin())] if done else k
        try:
            at = SettingFit(model, x[k], (sites[near, 0], sites[near, 1]))
            draws = at.draws(rng, N_LATENTS, at.n_levels(trials))
        except NumericalError:
            continue
        done.append(k)
        sites[k] = at.fit.precision, at.fit.shift
        chosen = draws.pick(rng)
        weights[k] = at.log_density + draws.log_ratio - log_proposal
        likelihood[k] = draws.log_likelihood[chosen]
        latents[k] = draws.predictor[chosen] - at.prior.predictor_mean
    return weights, latents, likelihood


def mixture_groups(
    model: GPModel, draws: Weighted, predictive: bool, seed: int, key: tuple
) -> dict[str, xr.Dataset]:
    """Groups of `model_evidence` by the mixture."""
    rng = chain_generators(seed, *key, _STREAM, "posterior", chains=[0]).generator(0)
    places, density = draws.resampled(rng), draws.density
    theta, n = density.theta(draws.x[places])[None], len(places)
    kept = np.arange(0, n, -(-n // (WITH_LATENTS if predictive else FOR_THE_FIT)))
    if draws.latents is None or draws.log_likelihood is None:
        latents, likelihood = _latents_of_regression(draws, rng, theta[0], kept)
    else:
        latents, likelihood = draws.latents[places[kept]], draws.log_likelihood[places]
    along = ("chain", "draw")
    coords = {"chain": [0], "draw": np.arange(n)}
    posterior = {
        name: ((*along, "theta_dim") if values.ndim == 3 else along, values)
        for name, values in in_own_units(model, theta).items()
    }
    groups = {
        "observed_data": data_of(model)["observed_data"],
        "posterior": xr.Dataset(posterior, coords | {"theta_dim": np.array(model.names)}),
        "sample_stats": xr.Dataset(
            {
                "log_ratio": (along, draws.log_weights[places][None]),
                "sum_log_likelihood": (along, likelihood[None]),
            },
            coords,
        ),
        "reference": xr.Dataset({"log_ratio": (along, draws.log_weights[None])}, coords),
        "modes": modes_group(model, draws.mixture, draws.masses),
        "evidence": _evidence(
            draws,
            float(np.nanmean(likelihood)),
            density.n_gradients,
            density.n_calls + (0 if draws.latents is None else len(draws.x)),
        ),
    }
    if predictive:
        own = {"theta": theta[:, kept], model.latent_variable: latents[None]}
        made = predictive_groups(
            ModelPredictive(model, has_latents=True), own, seed, (*key, _STREAM)
        )
        for name in ("log_likelihood", "posterior_predictive", "log_prior"):
            if name in made:
                made[name] = made[name].assign_coords(draw=kept[made[name]["draw"].values])
        groups |= made
    return groups


def _latents_of_regression(
    draws: Weighted, rng: np.random.Generator, theta: np.ndarray, kept: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Latents (kept, n) given y and theta (N, d), and log likelihoods (N,), nan where there are none."""
    density: Any = draws.density
    latents = np.full((len(kept), draws.model.n_latents), np.nan)
    likelihood = np.full(len(theta), np.nan)
    for row, k in enumerate(kept):
        try:
            latents[row], likelihood[k] = density.draw_latents(rng, theta[k])
        except NumericalError:  # the covariance without noise does not factorise
            continue
    return latents, likelihood


def weights_of_proposals(draws: xr.DataTree) -> Weights | None:
    """Weights of all proposals of the chains of `PseudoMarginalIndependence`, None of draws without them."""
    groups = getattr(draws, "children", {})
    stats = draws["sample_stats"].to_dataset() if "sample_stats" in groups else {}
    return Weights(stats["log_weight"].values.ravel(), []) if "log_weight" in stats else None


def proposal_groups(draws: xr.DataTree, weights: Weights) -> dict[str, xr.Dataset]:
    """Groups of `model_evidence` by these weights; its posterior are the draws."""
    posterior, stats = (draws[name].to_dataset() for name in ("posterior", "sample_stats"))
    own = [name for name, values in posterior.items() if "latent_dim" not in values.dims]
    return {
        "observed_data": draws["observed_data"].to_dataset(),
        "posterior": posterior[own],
        "sample_stats": stats[["sum_log_likelihood"]],
        "reference": xr.Dataset({"log_ratio": stats["log_weight"]}),
        "evidence": _evidence(
            weights, float(stats["sum_log_likelihood"].mean()), 0, weights.log_weights.size
        ),
    }


def _evidence(draws: Weights, fit: float, n_gradients: int, n_likelihoods: int) -> xr.Dataset:
    estimate = draws.estimate
    scalars = {
        "effective_size": draws.effective_size,
        "fit": fit,
        "complexity": fit - estimate.mean,
        "overlap": len(draws.log_weights) / draws.effective_size - 1.0,
        "pareto_k": smooth_weights(draws.log_weights)[1],
        "n_gradient": float(n_gradients),
        "n_gradient_pilot": float(n_gradients),
        "n_likelihood": float(n_gradients + n_likelihoods),
        "n_factorisation": 0.0,
        "acceptance_rate": np.nan,
        "diverging": 0.0,
        "unsolved": 0.0,
        "alarm": alarms.join(draws.alarms()),
    }
    values: dict[str, Any] = estimate_columns({ESTIMATOR: estimate})
    values |= {name: ((), value) for name, value in scalars.items()}
    coords = {"estimator": [ESTIMATOR], "replicate": [0]}
    return xr.Dataset(values, coords, {"route": "mixture"})
