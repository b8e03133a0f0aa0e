"""A sampler is added by its own file, one line in the registry, and its test: all there is of one is here.

The class below is what its file would hold, ``in_the_registry`` its line, and the rest its test. Nothing of
the package knows it; pilots, results, evidence and the exactness harness take it as it is.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import gpmcflow as gp
from gpmcflow.errors import InputError
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers import SAMPLERS, make_sampler
from gpmcflow.samplers.adaptation.pilot import find_pilot
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings
from gpmcflow.samplers.latent.hamiltonian import column, log_density, require_steps, select
from gpmcflow.samplers.latent.protocol import Info, LatentSampler, State


@dataclass(frozen=True)
class Langevin(LatentSampler):
    """Langevin diffusion in one step, accepted or rejected (MALA).

    From zeta, with g the gradient of the log density and n ~ N(0, I), the proposal is zeta' = zeta +
    h^2 g / 2 + h n. Source: Roberts & Tweedie (1996).
    """

    step_size: float | np.ndarray = 0.8
    target_acceptance = 0.574  # optimal in many dimensions

    def __post_init__(self) -> None:
        require_steps("Langevin", self.step_size, 1)

    def init(self, target: Target, position: np.ndarray) -> State:
        """Evaluate the target at positions (chain, dim)."""
        return State(position, *target.evaluate(position))

    def step(self, rng, target: Target, state: State) -> tuple[State, Info]:
        """One proposal of every chain."""
        h, noise = column(self.step_size), rng.standard_normal((target.dim,))
        log_uniform = np.log1p(-rng.uniform())
        with np.errstate(over="ignore", invalid="ignore"):
            proposal = self.init(target, self._drifted(target, state, h) + h * noise)
            back = (state.position - self._drifted(target, proposal, h)) / h
            ratio = log_density(target, proposal) - log_density(target, state)
            ratio += 0.5 * (noise**2 - back**2).sum(-1)
        failed = ~np.isfinite(ratio)
        log_accept = np.minimum(np.where(failed, -np.inf, ratio), 0.0)
        accepted = log_uniform < log_accept
        info = Info.explicit(accepted, np.exp(log_accept), -ratio, failed, np.ones(len(ratio)))
        return select(accepted, proposal, state), info

    @staticmethod
    def _drifted(target: Target, state: State, h: float | np.ndarray) -> np.ndarray:
        slope = target.beta_column() * state.gradient - state.position
        return state.position + 0.5 * h**2 * slope


@pytest.fixture(autouse=True)
def in_the_registry(monkeypatch):
    monkeypatch.setitem(SAMPLERS, "langevin", Langevin)


def test_it_is_as_short_as_that():
    assert len(inspect.getsource(Langevin).splitlines()) <= 40


K = np.array([[1.6, 0.9, 0.2], [0.9, 1.4, 0.5], [0.2, 0.5, 1.1]])


def probit() -> gp.LatentGaussianModel:
    return gp.LatentGaussianModel.from_covariance(K, gp.Probit(), np.array([1.0, -1.0, 1.0]))


def test_settings():
    assert make_sampler("langevin", step_size=0.4) == Langevin(0.4)
    with pytest.raises(InputError, match="Langevin: step_size is -1; allowed: a positive number"):
        make_sampler("langevin", step_size=-1)
    with pytest.raises(InputError, match="sampler langevin: setting: unknown name 'n_steps'"):
        make_sampler("langevin", n_steps=3)
    with pytest.raises(InputError, match="did you mean 'langevin'"):
        gp.sample(probit(), "langevn")


def test_a_pilot_tunes_it():
    path = TemperedPath(gp.GaussianSites.prior(probit()))
    tuning = TuningSettings(n_particles=200, max_step_size=4.0, rounds=20)
    pilot = find_pilot(path, Langevin(), tuning=tuning, seed=1)
    assert pilot.acceptance_rate[-1] == pytest.approx(0.574, abs=0.04)
    assert 0.7 < pilot.step_size[-1] < 1.6


def test_it_samples_by_name():
    """Against the closed form; by its name it is tuned first."""
    y = np.array([1.2, -0.4, 0.7])
    model = gp.LatentGaussianModel.from_covariance(K, gp.Gaussian(0.7), y)
    tree = gp.sample(model, "langevin", n_chains=40, n_draws=250, seed=2)
    stats = tree["sample_stats"]
    assert 0.45 < float(stats["acceptance_rate"].mean()) < 1.0
    assert np.all(stats["n_gradient"] == 1)
    assert float(stats["step_size"]) != Langevin().step_size
    mean = K @ np.linalg.solve(K + 0.49 * np.eye(3), y)
    by_chain = tree["posterior"]["latent"].values.mean(1)
    error = by_chain.std(0, ddof=1) / np.sqrt(40)
    assert np.all(error < 0.05)
    assert np.all(np.abs(by_chain.mean(0) - mean) < 4.0 * error)
    np.testing.assert_array_equal(
        tree["posterior"]["latent"],
        gp.sample(model, "langevin", n_chains=40, n_draws=250, seed=2)["posterior"]["latent"],
    )


@pytest.mark.parametrize("route", ["annealing", "sequential_monte_carlo", "parallel_tempering"])
def test_evidence_by_name(route, orthant_evidence):
    model = probit()
    exact = orthant_evidence(K, model.y)
    sizes = (
        {"n_replicates": 8, "n_draws": 300}
        if route == "parallel_tempering"
        else {"n_particles": 400}
    )
    reference = gp.GaussianSites.prior(model)
    found = gp.log_evidence(
        reference, route, "langevin", n_temperatures=12, seed=3, **sizes
    ).evidence
    errors = np.atleast_1d(found["log_evidence"].values - exact)
    allowed = np.atleast_1d(found["standard_error"].values)
    assert np.all(allowed < 0.1)
    assert np.all(np.abs(errors) < 4.0 * allowed)


# -- exactness -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def harness():
    folder = str(Path(__file__).parents[1])
    sys.path.insert(0, folder)
    from statistical import invariance

    sys.path.remove(folder)
    return invariance


def cell(harness, sampler, model: str, setting: str):
    seed = 10 * sorted(harness.LOG_LIKELIHOODS).index(model) + harness.SETTINGS.index(setting)
    return harness.run_cell(sampler, harness.problem(model, setting), seed, n_chains=5000)


@pytest.mark.parametrize("setting", ["prior_reference", "sites_reference", "posterior", "own_base"])
@pytest.mark.parametrize(
    "model", ["gp_probit", "gp_poisson", "gaussian", "student_t", "logistic_regression"]
)
def test_exact_draws_stay_exact(harness, model, setting):
    outcome = cell(harness, Langevin(1.1), model, setting)
    assert outcome.passed, outcome
    assert outcome.acceptance < 0.97


class WithoutTheWayBack(Langevin):
    """A proposal taken for symmetric."""

    def step(self, rng, target, state):
        noise = self.step_size * rng.standard_normal((target.dim,))
        proposal = self.init(target, self._drifted(target, state, self.step_size) + noise)
        ratio = log_density(target, proposal) - log_density(target, state)
        accepted = np.log1p(-rng.uniform()) < ratio
        rate = np.exp(np.minimum(ratio, 0.0))
        info = Info.explicit(accepted, rate, -ratio, ~np.isfinite(ratio), np.ones(len(ratio)))
        return select(accepted, proposal, state), info


def test_a_wrong_one_fails(harness):
    assert cell(harness, WithoutTheWayBack(1.1), "gaussian", "posterior").p_value < 1e-8
