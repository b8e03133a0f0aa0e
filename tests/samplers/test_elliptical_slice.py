from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.execution import chain_generators
from gpmcflow.execution.randomness import RandomRows
from gpmcflow.likelihoods import Gaussian, Logistic, Poisson, Probit
from gpmcflow.likelihoods.compiled import (
    PythonCode,
    TemperedCode,
    elliptical_updates,
    likelihood_code,
    log_likelihood,
)
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers.latent.elliptical_slice import EllipticalSlice

LIKELIHOODS = {
    "gaussian": Gaussian(0.4),
    "logistic": Logistic(),
    "probit": Probit(),
    "poisson": Poisson(exposure=2.5),
}


def data(name, rng, n):
    return LIKELIHOODS[name].simulate(rng, rng.standard_normal(n))


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_compiled_log_likelihoods(name):
    rng = np.random.default_rng(0)
    y, f = data(name, rng, 50), 6.0 * rng.standard_normal(50)
    expected = LIKELIHOODS[name].log_density(f + 0.3, y)
    code = likelihood_code(LIKELIHOODS[name], y)
    assert log_likelihood(code, f, 0.3) == pytest.approx(expected, rel=1e-13)


def test_an_overflowing_rate_is_minus_infinity():
    code = likelihood_code(Poisson(), np.array([1.0, 0.0]))
    assert log_likelihood(code, np.array([0.0, 800.0]), 0.0) == -np.inf


def one_update(rng, f, nu, log_density):
    """The algorithm as it is written down."""
    level = log_density(f) - rng.standard_exponential()
    angle = 2.0 * np.pi * rng.random()
    low, high = angle - 2.0 * np.pi, angle
    while True:
        proposal = f * np.cos(angle) + nu * np.sin(angle)
        if log_density(proposal) > level:
            return proposal
        low, high = (angle, high) if angle < 0.0 else (low, angle)
        angle = low + (high - low) * rng.random()


@pytest.mark.parametrize("kind", ["plain", "tempered", "tempered in Python"])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_updates_follow_the_algorithm(name, kind):
    rng = np.random.default_rng(1)
    n, likelihood, beta = 9, LIKELIHOODS[name], 0.6
    y, f, draws = data(name, rng, n), rng.standard_normal(n), rng.standard_normal((30, n))
    mean, precision, shift = np.linspace(-0.4, 0.5, n), np.linspace(0.1, 0.8, n), rng.random(n)
    code, offset = likelihood_code(likelihood, y), 0.2

    def log_density(f):
        if kind == "plain":
            return float(likelihood.log_density(f + offset, y))
        eta = f + mean
        sites = (shift * eta - 0.5 * precision * eta**2).sum()
        return beta * float(likelihood.log_density(eta, y) - sites)

    if kind != "plain":
        factors = code if kind == "tempered" else PythonCode(likelihood, y)
        code = TemperedCode(factors, mean, precision, shift, beta)
    ours, theirs, g, h = *(np.random.default_rng(5) for _ in range(2)), f.copy(), f
    value, spent = elliptical_updates(
        ours, code, offset, g, log_density(f), draws.copy(), np.empty(n)
    )
    for nu in draws:
        h = one_update(theirs, h, nu, log_density)
    assert np.allclose(g, h, atol=1e-10)
    assert value == pytest.approx(log_density(h), rel=1e-9)
    assert ours.random() == theirs.random()
    assert spent > 40  # some proposals failed


def test_chains_do_not_depend_on_their_block_mates(gp):
    target = TemperedPath(gp_base(gp)).target(1.0)
    start = np.random.default_rng(2).standard_normal((4, target.dim))

    def run(chains):
        rng = chain_generators(3, "elliptical", chains=chains)
        sampler = EllipticalSlice(n_steps=5)
        state = sampler.init(target, start[list(chains)])
        return sampler.step(rng, target, state)

    (together, info), (alone, one) = run(range(4)), run([2])
    assert np.allclose(together.position[2], alone.position[0], atol=1e-12)
    assert info.n_gradient[2] == one.n_gradient[0]
    assert len(set(info.n_gradient)) > 1  # chains ended at different times
    fresh = target.value(together.position)
    assert all(np.allclose(a, b, atol=1e-10) for a, b in zip(together[1:4], fresh, strict=True))


def test_rows_of_a_chain_draw_from_its_own_stream(gp):
    path, start = TemperedPath(gp_base(gp)), np.random.default_rng(2)
    start = start.standard_normal((4, gp_base(gp).model.dim))
    sampler = EllipticalSlice(n_steps=3)

    def run(chains, betas):
        rng = RandomRows(chain_generators(3, "rows", chains=chains), 2)
        target = path.target(np.array(betas))
        rows = [2 * chain + t for chain in chains for t in range(2)]
        return sampler.step(rng, target, sampler.init(target, start[rows]))[0]

    together, alone = run([0, 1], [0.2, 0.9, 0.4, 1.0]), run([1], [0.4, 1.0])
    assert np.allclose(together.position[2:], alone.position, atol=1e-12)
    assert not np.allclose(together.position[:2], alone.position)


def gp_base(gp):
    from gpmcflow.approximations.expectation_propagation import expectation_propagation

    return expectation_propagation(gp(Poisson(exposure=2.5), signal_sd=0.8)).sites


def test_without_likelihood_a_draw_is_a_rotation(gp):
    target = TemperedPath(gp_base(gp)).target(np.array([0.0, 0.5]))
    sampler = EllipticalSlice()
    state = sampler.init(target, np.random.default_rng(0).standard_normal((2, target.dim)))
    _, info = sampler.step(chain_generators(1, chains=[0, 1]), target, state)
    assert info.n_gradient[0] == 0.5  # beta = 0: the first angle is taken
    far, n = np.full((20, 3), 800.0), np.zeros(3)  # where rates overflow, too
    code = TemperedCode(likelihood_code(Poisson(), np.ones(3)), n, n, n, 0.0)
    rng = np.random.default_rng(0)
    assert elliptical_updates(rng, code, 0.0, far[0].copy(), 0.0, far, np.empty(3)) == (0.0, 20)


def test_wrong_settings():
    with pytest.raises(InputError, match=r"EllipticalSlice: n_steps is 0"):
        EllipticalSlice(n_steps=0)
    assert EllipticalSlice().with_steps(0.1, 7) == replace(EllipticalSlice(), n_steps=7)
