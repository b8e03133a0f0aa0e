"""Exactness of the samplers of a log density on GP regression: invariance, joint tests, agreement."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from gpmcflow.approximations.fitted_density import FittedStudent
from gpmcflow.approximations.stand_ins import (
    Nystrom,
    SubsetOfData,
    farthest_point_cases,
    nested_subsets,
)
from gpmcflow.covariances.leaves import Constant, SquaredExponential
from gpmcflow.likelihoods import Gaussian
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.replications.fast_likelihood.methods import SinglePrecision
from gpmcflow.replications.fast_likelihood.pilots import find_widths
from gpmcflow.replications.fast_likelihood.runs import initial_monotone_sequence_time
from gpmcflow.samplers.density.collapsed_scale import CollapsedScale
from gpmcflow.samplers.density.discretizing_chain import DiscretizingChain, IndependentDraws
from gpmcflow.samplers.density.fitted_independence import FittedIndependence
from gpmcflow.samplers.density.hmc import DensityHMC
from gpmcflow.samplers.density.tempered_transitions import TemperedTransitions
from gpmcflow.samplers.density.univariate_slice import SliceSweep, UnivariateSlice
from gpmcflow.samplers.sampling import sample

# 1. GP regression with five cases: exact draws, some iterations, exact draws again.


PRIOR_MEAN = np.array([-1.35, 0.0, 0.0])  # of the logs of length scale, signal_sd, noise_sd


def empty_model(X, constant, mean) -> GPModel:
    length, amplitude, noise = (Hyperprior("norm", {"loc": m}) for m in mean)
    covariance = SquaredExponential(length, amplitude) + Constant(constant)
    return GPModel(X, np.zeros(len(X)), covariance, Gaussian(noise), jitter=0.0)


def with_data(model: GPModel, rng, theta) -> GPModel:
    return model.with_y(RegressionDensity(model).draw_responses(rng, theta))


def small_model() -> GPModel:
    rng = np.random.default_rng(2)
    return with_data(empty_model(rng.random(5), 1.0, PRIOR_MEAN), rng, np.array([-1.35, 0.3, -0.7]))


@cache
def exact_draws(n: int, seed: int = 0) -> np.ndarray:
    """Posterior draws (n, 3) by rejection from the prior, likelihoods in one batch."""
    model, rng = small_model(), np.random.default_rng(seed)
    D = (model.X - model.X.T) ** 2

    def log_likelihood(theta):
        r2, e2, s2 = np.exp(2.0 * theta).T[:, :, None, None]
        C = 1.0 + e2 * np.exp(-0.5 * D / r2) + s2 * np.eye(5)
        quadratic = np.linalg.solve(C, np.broadcast_to(model.y[:, None], (len(theta), 5, 1)))
        return -0.5 * ((quadratic[:, :, 0] * model.y).sum(1) + np.linalg.slogdet(C)[1])

    prior = PRIOR_MEAN + rng.standard_normal((60_000, 3))
    envelope = log_likelihood(prior).max()
    best = prior[np.argsort(log_likelihood(prior))[-5:]]
    for scale in (0.3, 0.1, 0.03, 0.01):
        near = (best[:, None] + scale * rng.standard_normal((5, 2000, 3))).reshape(-1, 3)
        envelope = max(envelope, log_likelihood(near).max())
        best = near[np.argsort(log_likelihood(near))[-5:]]
    envelope += np.log(1.02)
    found, total = [], 0
    while total < n:
        theta = PRIOR_MEAN + rng.standard_normal((60_000, 3))
        kept = theta[np.log(rng.random(60_000)) < log_likelihood(theta) - envelope]
        found.append(kept)
        total += len(kept)
    return np.concatenate(found)[:n]


def paired_z(densities, sampler, n_draws, n_steps=3, init=None) -> np.ndarray:
    """z of the changes of the means of theta, its products, and the log likelihood."""
    exact, rng = densities[0], np.random.default_rng(1)
    before = exact_draws(10_000)[:n_draws]
    changes = []
    for theta in before:
        state = (init or sampler.init)(densities, theta)
        first = functionals(exact, theta, state.values[0])
        for _ in range(n_steps):
            state, _ = sampler.step(rng, densities, state)
        changes.append(functionals(exact, state.position, state.values[0]) - first)
    changes = np.array(changes)
    return changes.mean(0) / (changes.std(0) / np.sqrt(n_draws))


def functionals(exact, theta, value) -> np.ndarray:
    products = np.outer(theta, theta)[np.triu_indices(3)]
    return np.concatenate([theta, products, [value - exact.log_prior(theta)]])


SWEEP = SliceSweep((2.0, 2.0, 2.0))
N = 2500  # the mutant below has |z| of about 13


def gp_methods():
    model = small_model()
    exact = RegressionDensity(model)
    two, three = SubsetOfData(model, [0, 3]), SubsetOfData(model, [0, 3, 1])
    student = FittedStudent(np.array([-1.2, 0.3, -0.2]), 0.8 * np.eye(3), 5.0, model.names)
    nystrom = Nystrom(model, [0, 2, 4])
    return {
        "standard": ([exact], UnivariateSlice(SliceSweep((1.0,) * 3, max_steps=3))),
        "chain": ([exact, two], DiscretizingChain(SWEEP)),
        "chain r=3 s=2": ([exact, three], DiscretizingChain(SWEEP, 3, 2)),
        "nystrom": ([exact, nystrom], DiscretizingChain(SWEEP)),
        "float32": ([exact, SinglePrecision(model)], DiscretizingChain(SWEEP)),
        "student": ([exact, student], DiscretizingChain(IndependentDraws())),
        "tempered 1": ([exact, two], TemperedTransitions((SWEEP,))),
        "tempered 2": ([exact, three, two], TemperedTransitions((SWEEP,))),
        "fast coordinates": (
            [exact, three], DiscretizingChain(SliceSweep(SWEEP.widths, coordinates=(1, 2, 1, 0))),
        ),
        "collapsed": ([exact], CollapsedScale(SliceSweep((2.0, 2.0)))),
        "fitted independence": ([exact], FittedIndependence(proposal=student)),
        "hmc": ([exact], DensityHMC(0.5, 3, (0.8, 0.8, 0.8))),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(gp_methods()))
def test_exact_draws_of_a_gp_stay_exact(name):
    z = paired_z(*gp_methods()[name], N)
    assert np.abs(z).max() < 4.0, z.round(1)


@dataclass(frozen=True)
class DroppedRatio:
    """A sweep that says its log density is 0, so that pi* drops out of the acceptance."""

    sweep: SliceSweep

    def forward(self, rng, density, position, value):
        return self.sweep.forward(rng, density, position, density.evaluate(position))[0], 0.0

    def backward(self, rng, density, position, value):
        return self.sweep.backward(rng, density, position, density.evaluate(position))[0], 0.0


def test_a_dropped_ratio_is_found_out():
    densities, _ = gp_methods()["chain"]
    sampler = DiscretizingChain(DroppedRatio(SWEEP))

    def init(densities, theta):
        state = sampler.init(densities, theta)
        return state._replace(values=(state.values[0], 0.0))

    assert np.abs(paired_z(densities, sampler, N, init=init)).max() > 8.0


# 2. The joint test of Geweke: y given theta, theta given y; theta keeps its prior.


@pytest.mark.parametrize("name", ["chain", "tempered", "collapsed"])
def test_joint_distribution(name):
    model, rng, n_steps = small_model(), np.random.default_rng(4), 6000
    sampler = {
        "chain": DiscretizingChain(SWEEP),
        "tempered": TemperedTransitions((SWEEP,)),
        "collapsed": CollapsedScale(SliceSweep((2.0, 2.0))),
    }[name]
    theta, path = model.draw_prior(rng), np.empty((n_steps, 3))
    for t in range(n_steps):
        now = with_data(model, rng, theta)
        densities = [RegressionDensity(now)]
        if name != "collapsed":
            densities.append(SubsetOfData(now, [0, 3, 1]))
        if name == "tempered":
            densities.append(SubsetOfData(now, [0, 3]))
        state, _ = sampler.step(rng, densities, sampler.init(densities, theta))
        theta = path[t] = state.position
    z = path - PRIOR_MEAN
    for series, want, spread in ((z, 0.0, 1.0), (z**2, 1.0, np.sqrt(2.0))):
        tau = np.maximum(initial_monotone_sequence_time(series.T), 1.0)
        error = spread * np.sqrt(tau / n_steps)
        assert np.abs((series.mean(0) - want) / error).max() < 4.0


# 3. Methods agree with standard slice sampling on data of the paper's kind.


@pytest.mark.parametrize(("p", "rho"), [(1, 0.1), (5, 2.0)])
def test_methods_agree(p, rho):
    theta, rng = np.log([rho / np.sqrt(2.0), 5.0, 0.2]), np.random.default_rng([p, 1])
    model = with_data(empty_model(rng.random((80, p)), 10.0, theta), rng, theta)
    exact = RegressionDensity(model)
    pilot = find_widths(exact, theta, rng, n_sweeps=150)
    large, small = (SubsetOfData(model, c) for c in nested_subsets(80, [40, 20], rng))
    nystrom = Nystrom(model, farthest_point_cases(model.X, 30 if p == 1 else 60))
    wide, narrow = SliceSweep(pilot.widths(3.0)), SliceSweep(pilot.widths(1.5))
    methods = {
        "standard": ([exact], UnivariateSlice(wide)),
        "subset": ([exact, large], DiscretizingChain(wide)),
        "nystrom": ([exact, nystrom], DiscretizingChain(wide)),
        "tempered": ([exact, large, small], TemperedTransitions((narrow,))),
    }
    found = {}
    for name, (densities, sampler) in methods.items():
        tree = sample(
            densities, sampler, n_chains=2, n_draws=800, n_warmup=30, seed=1, start=pilot.last
        )
        assert float(tree.sample_stats["acceptance_rate"].mean()) > 0.05
        series = np.concatenate(
            [
                tree.posterior["theta"].values,
                tree.sample_stats["sum_log_likelihood"].values[..., None],
            ],
            axis=-1,
        ).transpose(0, 2, 1)
        tau = initial_monotone_sequence_time(series).mean(0)
        variance = series.var(axis=(0, 2)) * tau / (series.shape[0] * series.shape[2])
        found[name] = series.mean(axis=(0, 2)), variance
    mean, variance = found.pop("standard")
    z = np.array([(m - mean) / np.sqrt(v + variance) for m, v in found.values()])
    assert np.abs(z).max() < 4.0
    assert np.sqrt((z**2).mean()) < 2.0
