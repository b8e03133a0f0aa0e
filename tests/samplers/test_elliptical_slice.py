from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.execution import chain_generators
from gpmcflow.likelihoods import Gaussian, Logistic, Poisson, Probit
from gpmcflow.likelihoods.compiled import (
    elliptical_updates,
    likelihood_code,
    log_likelihood,
)
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers.elliptical_slice import EllipticalSlice, elliptical_slice

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


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_compiled_updates_are_those_of_the_batch(name):
    rng = np.random.default_rng(1)
    n, likelihood = 9, LIKELIHOODS[name]
    y, f, nu = data(name, rng, n), rng.standard_normal(n), rng.standard_normal(n)
    value = float(likelihood.log_density(f, y))

    class Stream:  # numbers of one generator in the order in which the compiled loop draws them
        def __init__(self):
            self.generator, self.first = np.random.default_rng(5), True

        def uniform(self):
            if self.first:
                self.first = False
                return -np.expm1(-np.array([self.generator.standard_exponential()]))
            return np.array([self.generator.random()])

    batch = elliptical_slice(
        Stream(), f[None], np.array([value]), nu[None], lambda p, rows: likelihood.log_density(p, y)
    )
    g = f.copy()
    found, spent = elliptical_updates(
        np.random.default_rng(5), likelihood_code(likelihood, y), 0.0, g, value, nu[None].copy(),
        np.empty(n),
    )  # fmt: skip
    assert np.allclose(batch[0][0], g, atol=1e-12)
    assert found == pytest.approx(batch[1][0], rel=1e-12)
    assert spent == batch[3][0]
    assert np.allclose(batch[2][0, 0] * f + batch[2][0, 1] * nu, g, atol=1e-12)


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


def gp_base(gp):
    from gpmcflow.approximations.expectation_propagation import expectation_propagation

    return expectation_propagation(gp(Poisson(exposure=2.5), signal_sd=0.8)).sites


def test_without_likelihood_a_draw_is_a_rotation(gp):
    target = TemperedPath(gp_base(gp)).target(np.array([0.0, 0.5]))
    sampler = EllipticalSlice()
    state = sampler.init(target, np.random.default_rng(0).standard_normal((2, target.dim)))
    _, info = sampler.step(chain_generators(1, chains=[0, 1]), target, state)
    assert info.n_gradient[0] == 0.5  # beta = 0: the first angle is taken


def test_wrong_settings():
    with pytest.raises(InputError, match=r"EllipticalSlice: n_steps is 0"):
        EllipticalSlice(n_steps=0)
    assert EllipticalSlice().with_steps(0.1, 7) == replace(EllipticalSlice(), n_steps=7)
