"""Annealing with RMHMC: closed forms, a subset of USPS, the count of what it costs, its alarm."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.evidence.annealing import anneal
from gpmcflow.evidence.schedule import Schedule, geometric, linear
from gpmcflow.likelihoods import Probit
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import RMHMC, PreconditionedSplitHMC

Y3 = np.array([1.0, -1.0, 1.0])
K3 = 4.0 * np.array([[1.0, 0.7, 0.2], [0.7, 1.3, 0.5], [0.2, 0.5, 0.9]])


def evidence(reference, sampler, betas, n_particles, seed=1):
    """Scalars of an annealing run with the sampler's own steps at every temperature."""
    schedule = Schedule.constant(betas, sampler)
    path = TemperedPath(reference)
    tree = anneal(path, sampler, schedule, n_particles=n_particles, seed=seed)
    return {name: value.values[()] for name, value in tree["evidence"].data_vars.items()}


@pytest.mark.parametrize("n", [3, 50])
@pytest.mark.parametrize("start", ["prior", "ep"])
def test_closed_forms(orthant_evidence, one_factor, n, start):
    """Row 15: both starts, n = 3 and the one-factor process: within 3 se, each below 0.05."""
    if n == 3:
        model, exact = (
            LatentGaussianModel.from_covariance(K3, Probit(), Y3),
            orthant_evidence(K3, Y3),
        )
    else:
        model, exact = one_factor(50, 30)
    reference, betas, n_particles = GaussianSites.prior(model), geometric(40, 0.01), 700
    if start == "ep":
        reference, betas, n_particles = expectation_propagation(model).sites, linear(8), 200
    found = evidence(reference, RMHMC(0.5, 4), betas, n_particles)
    assert found["standard_error"] < 0.05
    assert abs(found["log_evidence"] - exact) <= 3.0 * found["standard_error"]
    assert not found["alarm"]
    assert found["unsolved"] < 1e-3
    n_moves = n_particles * (len(betas) - 2)
    assert found["n_factorisation"] == pytest.approx(2 * (4 + 1) * n_moves, rel=1e-3)


def test_long_steps_raise_the_alarm():
    """Of particles whose equations are not solved, which stay where they are; the estimate is right."""
    y = np.where(np.arange(6) < 3, 1.0, -1.0)
    K = 10.0 * (0.3 * np.eye(6) + 0.7)
    q = expectation_propagation(LatentGaussianModel.from_covariance(K, Probit(), y)).sites
    fine, coarse = (evidence(q, RMHMC(s, 4), linear(20), 200) for s in (0.3, 1.0))
    assert not fine["alarm"]
    assert coarse["unsolved"] > 0.02
    assert "implicit equations unsolved" in coarse["alarm"]
    joint = np.hypot(fine["standard_error"], coarse["standard_error"])
    assert abs(fine["log_evidence"] - coarse["log_evidence"]) < 3.0 * joint


@pytest.fixture(scope="module")
def subset(usps):
    """A function: EP of the first 150 USPS cases at a setting."""

    def fit(setting):
        whole = usps(setting).model.covariance_function.model
        return expectation_propagation(whole.take(np.arange(150)).at()).sites

    return fit


@pytest.mark.parametrize(
    ("setting", "sampler", "n_temperatures", "n_particles", "fixed", "bound"),
    [
        ("A", RMHMC(0.06, 6), 40, 24, PreconditionedSplitHMC(0.25, 10), 0.3),
        ("B", RMHMC(0.3, 4), 12, 24, PreconditionedSplitHMC(0.8, 3), 0.03),
    ],
)
def test_usps_subset_against_a_fixed_metric(
    subset, setting, sampler, n_temperatures, n_particles, fixed, bound
):
    """Row 22: RMHMC from EP equals whitened split HMC from EP within 3 joint standard errors."""
    reference = subset(setting)
    found = evidence(reference, sampler, linear(n_temperatures), n_particles)
    expected = evidence(reference, fixed, linear(60), 150)
    assert found["standard_error"] < bound
    assert expected["standard_error"] < 0.06
    joint = np.hypot(found["standard_error"], expected["standard_error"])
    assert abs(found["log_evidence"] - expected["log_evidence"]) < 3.0 * joint
