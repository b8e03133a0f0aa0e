from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.frozen_sites import frozen_sites
from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.likelihoods import Gaussian, Logistic, Poisson
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers import JointSplitHMC
from gpmcflow.samplers.joint.split_dynamics import (
    Frame,
    SplitTarget,
    energy,
    trajectory,
    transition,
)

LENGTH = Hyperprior.log_uniform(0.1, 10.0)
SIGNAL = Hyperprior("norm", {"scale": 0.5})
OFFSET = Hyperprior("norm", {"loc": 0.5, "scale": 0.4})
NARROW = Hyperprior("norm", {"scale": 1e-9})  # theta is fixed, to all that can be seen


def problem(likelihood, length=LENGTH, signal=SIGNAL, n=5, p=2, sites=None):
    """A target in a frame off its defaults."""
    rng = np.random.default_rng(0)
    X = rng.random((n, p))
    y = likelihood.simulate(rng, rng.standard_normal(n))
    mean = OFFSET if isinstance(likelihood, Poisson) else 0.0
    covariance = SquaredExponential(length, signal, ard=True)
    model = GPModel(X, y, covariance, likelihood, mean, 1e-4)
    d = model.dim
    scale = np.tril(0.3 * rng.standard_normal((d, d)), -1) + np.diag(rng.uniform(0.5, 1.0, d))
    found = frozen_sites(model, model.prior_median()) if sites is None else sites
    frame = Frame(0.4 * rng.standard_normal(d), scale, found)
    return SplitTarget(JointDensity(model, frame.sites), frame), rng


def run(target, q, p, step=0.3, n_steps=4):
    *_, (state, momentum) = trajectory(target, target.state(q), p.copy(), step, n_steps)
    return state.position, momentum


@pytest.mark.parametrize("likelihood", [Logistic(), Poisson()])
def test_reversible_and_volume_preserving(likelihood):
    target, rng = problem(likelihood)
    m = target.dim + 10
    q, p = 0.5 * rng.standard_normal(m), rng.standard_normal(m)
    end, momentum = run(target, q, p)
    assert np.linalg.norm(end - q) > 0.5
    back, returned = run(target, end, -momentum)
    assert np.allclose(back, q, atol=1e-10)
    assert np.allclose(returned, -p, atol=1e-10)
    columns = []
    for e in np.eye(2 * m) * 1e-5:
        ends = [np.concatenate(run(target, q + s * e[:m], p + s * e[m:])) for s in (1, -1)]
        columns.append((ends[0] - ends[1]) / 2e-5)
    assert np.linalg.det(columns) == pytest.approx(1.0, abs=1e-6)


def test_slope_is_that_of_the_rest_and_the_energy_error_is_of_second_order():
    target, rng = problem(Poisson())
    m = target.dim + 10
    q, p = 0.5 * rng.standard_normal(m), rng.standard_normal(m)
    slope = target.state(q).slope
    for k in range(m):
        e = 1e-5 * np.eye(m)[k]
        difference = (target.state(q + e).rest - target.state(q - e).rest) / 2e-5
        assert slope[k] == pytest.approx(difference, rel=1e-6, abs=1e-6)
    errors = []
    for n_steps in (8, 16):
        *_, (end, momentum) = trajectory(target, target.state(q), p.copy(), 1.0 / n_steps, n_steps)
        errors.append(energy(end, momentum) - energy(target.state(q), p))
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)


def test_without_residual_and_with_theta_fixed_every_trajectory_is_accepted():
    target, rng = problem(Gaussian(0.3), NARROW, NARROW)
    frame = Frame(np.zeros(3), np.eye(3), target.density.sites)
    target = SplitTarget(target.density, frame)
    state = target.start(rng, np.zeros(3), None)
    for _ in range(20):
        state, info = transition(rng, target, state, 1.3, 3, 0.2)
        assert info.accepted
        assert abs(info.energy_error) < 1e-5
        assert info.n_gradient == 3


def test_a_point_without_density_is_a_rejection():
    X = np.linspace(0, 1, 40)
    covariance = SquaredExponential(Hyperprior("norm", {"loc": -5.0, "scale": 1.5}), 1.0)
    model = GPModel(X, np.ones(40), covariance, Logistic(), jitter=0.0)
    sites = frozen_sites(model, np.array([-5.0]))
    target = SplitTarget(JointDensity(model, sites), Frame(np.zeros(1), np.eye(1), sites))
    rng = np.random.default_rng(1)
    first = state = target.start(rng, np.zeros(1), None)
    infos = []
    for _ in range(60):
        state, info = transition(rng, target, state, 0.9, 2, 0.2)
        infos.append(info)
    lost = [info for info in infos if info.diverging]
    assert lost
    assert not any(info.accepted for info in lost)
    assert all(info.acceptance_rate == 0.0 for info in lost)
    assert state is not first
    assert np.isfinite(state.rest)
    with pytest.raises(NumericalError, match="no finite density at the start"):
        target.start(rng, np.array([4.0]), None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_acceptance": 1.0}, "target_acceptance is 1.0; allowed: between 0 and 1"),
        ({"jitter": 1.0}, "jitter is 1.0"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"rounds": (10,)}, "rounds has 1 entries; allowed: 2 or more"),
        ({"rounds": (10, 5, 10)}, r"rounds\[1\] is 5; allowed: 6 or more"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(InputError, match=message) as found:
        JointSplitHMC(**settings)
    assert "\n" not in str(found.value)
