"""Data of the illustrations of the split Hamiltonian paper, Figures 1-4."""

from __future__ import annotations

import numpy as np
import xarray as xr

from gpmcflow.approximations.laplace import laplace
from gpmcflow.diagnostics.autocorrelation import autocorrelation
from gpmcflow.execution import chain_generators
from gpmcflow.jobs.job import Job
from gpmcflow.likelihoods import Gaussian, Logistic
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers import LatentHMC, RandomWalkMetropolis, Sampler
from gpmcflow.storage import standard_attributes, with_attributes

STUDY = "split_hmc"
MEAN = np.array([3.0, 3.0])
COVARIANCE = np.array([[1.0, 0.95], [0.95, 1.0]])
# 20 leapfrog steps, or 20 proposals, an iteration
BIVARIATE: dict[str, Sampler] = {
    "hmc": LatentHMC(step_size=0.15, n_steps=20, jitter=0.0),
    "rwm_small": RandomWalkMetropolis(step_size=0.15, n_steps=20),
    "rwm_large": RandomWalkMetropolis(step_size=2.0, n_steps=20),
}
SHOWN, N_CHAINS, N_ITERATIONS = 30, 40, 400
N_CASES, THETA, FRACTION = 100, np.array([0.5, 1.0, -1.0]), 0.3


def illustrate_job(job: Job) -> tuple[xr.DataTree, dict]:
    """`illustrate` with the seed of a job."""
    return illustrate(seed=job.seed)


def illustrate(*, seed: int) -> tuple[xr.DataTree, dict]:
    """Data of Figures 1-4.

    Group ``bivariate`` (method; chain; iteration): states of HMC and of random-walk Metropolis on
    N((3, 3), [1, 0.95; 0.95, 1]) from (0, 0), acceptance and lag-1 autocorrelation of chains in
    stationarity. Group ``regression``: logistic data with two features, the mode, and the potential
    energy U and its parts along beta_1. Source: Shahbaba, Lan, Johnson & Neal (2014), Figures 1-4.
    """
    tree = xr.DataTree.from_dict({"bivariate": _bivariate(seed), "regression": _regression(seed)})
    attributes = standard_attributes(
        settings={"study": STUDY}, seed=seed, data_checksum="simulated", dataset="illustrations"
    )
    return with_attributes(tree, attributes), {"seconds": {}}


def _bivariate(seed: int) -> xr.Dataset:
    # at inverse temperature 0 the target is the Gaussian alone
    model = LatentGaussianModel.from_covariance(COVARIANCE, Gaussian(1.0), np.zeros(2), mean=MEAN)
    target = TemperedPath(GaussianSites.prior(model)).target(0.0)
    paths, rates, lags = [], [], []
    for method, sampler in BIVARIATE.items():
        here = target.in_coordinates(sampler.coordinates(target.base))
        paths.append(_run(sampler, here, seed, (method, "path"), np.zeros((1, 2)), SHOWN)[0][0])
        draws = np.random.default_rng(seed).multivariate_normal(MEAN, COVARIANCE, N_CHAINS)
        states, rate = _run(sampler, here, seed, (method, "chains"), draws, N_ITERATIONS)
        rates.append(rate)
        lags.append(autocorrelation(states[:, :, 0], 1)[:, 1])
    by_chain = ("method", "chain")
    return xr.Dataset(
        {
            "state": (("method", "iteration", "coordinate"), np.stack(paths)),
            "acceptance": (by_chain, np.stack(rates)),
            "lag_1": (by_chain, np.stack(lags)),
        },
        {
            "method": list(BIVARIATE),
            "chain": np.arange(N_CHAINS),
            "iteration": np.arange(SHOWN + 1),
            "coordinate": ["q_1", "q_2"],
        },
    )


def _run(
    sampler: Sampler, target: Target, seed: int, key: tuple, start: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """States (chain, n + 1, 2), the start among them, and the mean acceptance rate (chain,)."""
    rng = chain_generators(seed, STUDY, "bivariate", *key, chains=range(len(start)))
    state = sampler.init(target, target.base.from_latent(start))
    states, rate = [start], np.zeros(len(start))
    for _ in range(n):
        state, info = sampler.step(rng, target, state)
        states.append(target.base.latent(state.position))
        rate += info.acceptance_rate / n
    return np.stack(states, axis=1), rate


def _regression(seed: int) -> xr.Dataset:
    rng = np.random.default_rng([seed, N_CASES])
    x = rng.standard_normal((N_CASES, 2))
    design = np.column_stack([np.ones(N_CASES), x])
    likelihood = Logistic()
    y = likelihood.simulate(rng, design @ THETA)
    model = LatentGaussianModel.from_design(design, 5.0, likelihood, y)
    sites = laplace(model).sites
    mode, split = sites.mean, sites.split_cases(FRACTION)
    fast = np.zeros(N_CASES, bool)
    fast[split.case_indices[0]] = True
    deviations = np.sqrt(np.diag(sites.factor @ sites.factor.T))
    grid = mode[1] + np.linspace(-3.0, 3.0, 121) * deviations[1]
    theta = np.tile(mode, (len(grid), 1))
    theta[:, 1] = grid
    eta = theta @ design.T
    log_densities, slope, *_ = likelihood.derivatives(eta, y)
    precision = np.linalg.inv(sites.factor @ sites.factor.T)
    prior = 0.5 * (theta**2).sum(1) / 25.0
    energy = prior - log_densities.sum(1)
    lowest = 0.5 * (mode @ mode) / 25.0 - likelihood.log_density((design @ mode)[None], y)[0]
    away = theta - mode
    quadratic = 0.5 * np.einsum("ij,jk,ik->i", away, precision, away)
    return xr.Dataset(
        {
            "x": (("case", "feature"), x),
            "y": ("case", y),
            "mode": ("parameter", mode),
            "fast": ("case", fast.astype(np.int8)),
            "energy": ("grid", energy),
            "gaussian_energy": ("grid", lowest + quadratic),
            "slope": ("grid", grid / 25.0 - slope @ x[:, 0]),
            "gaussian_slope": ("grid", (away @ precision)[:, 1]),
            "fast_slope": ("grid", grid / 25.0 - slope[:, fast] @ x[fast, 0]),
        },
        {"grid": grid, "feature": ["x_1", "x_2"], "parameter": ["alpha", "beta_1", "beta_2"]},
    )
