"""Likelihood parts against plain NumPy: several row blocks, sites, parts of the cases, extremes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_expit

from gpmcflow.likelihoods import (
    LIKELIHOODS,
    Beta,
    BetaBinomial,
    Binomial,
    CensoredGaussian,
    Gamma,
    Gaussian,
    Hurdle,
    Logistic,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
    Survival,
    ZeroInflated,
)
from gpmcflow.models import case_part
from gpmcflow.models.case_part import CasePart
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import Target, TemperedPath

N, DIM, CHAINS = 211, 4, 5  # four row blocks of at most 64 cases, the last of 19
SETTINGS = {
    "probit": Probit(),
    "logistic": Logistic(),
    "gaussian": Gaussian(noise_sd=0.6),
    "poisson": Poisson(
        exposure=np.linspace(0.5, 2.0, N)
    ),  # a constant of each case goes with its rows
    "negative_binomial": NegativeBinomial(1.3, exposure=1.7),
    "binomial": Binomial(np.arange(1, N + 1)),
    "student_t": StudentT(0.6, 4.0),
    "log_normal": LogNormal(0.6),
    "gamma": Gamma(1.7),
    "survival": Survival(scale=0.7, event=np.arange(N) % 3 - 1.0),
    "ordinal": Ordinal(cutpoints=(-0.6, 0.5, 1.9)),
    "censored_gaussian": CensoredGaussian(0.6, below=np.linspace(-2.0, -0.5, N), above=0.9),
    "beta": Beta(4.3),
    "zero_inflated": ZeroInflated(Poisson(exposure=np.linspace(0.5, 2.0, N)), 0.3),
    "beta_binomial": BetaBinomial(np.arange(1, N + 1), 4.3),
    "hurdle": Hurdle(NegativeBinomial(1.3, exposure=np.linspace(0.5, 2.0, N)), 0.3),
}


def test_every_likelihood_has_a_case():
    assert set(SETTINGS) == set(LIKELIHOODS)


@pytest.fixture(params=SETTINGS)
def problem(request):
    """Likelihood, data, sites and positions; F in C order, as documented."""
    rng = np.random.default_rng(0)
    likelihood = SETTINGS[request.param]
    factor, mean = rng.standard_normal((N, DIM)) / 2.0, rng.uniform(-0.5, 0.5, N)
    y = likelihood.simulate(rng, mean + factor @ rng.standard_normal(DIM))
    tau, nu = rng.exponential(0.5, N), rng.standard_normal(N)
    return likelihood, y, factor, mean, tau, nu, rng.standard_normal((CHAINS, DIM))


@pytest.fixture(params=[100, 1_000_000], ids=["four blocks", "one block"])
def block_elements(request, monkeypatch):
    monkeypatch.setattr(case_part, "BLOCK_ELEMENTS", request.param)
    return request.param


def plain(likelihood, y, factor, mean, tau, nu, zeta):
    """Predictor, log likelihood, r and its gradient, written out case by case."""
    eta = np.array([[mean[i] + factor[i] @ z for i in range(len(y))] for z in zeta])
    value, slope, *_ = likelihood.derivatives(eta, y)
    rest = (value - nu * eta + 0.5 * tau * eta**2).sum(1)
    gradient = [(slope[c] - nu + tau * eta[c]) @ factor for c in range(len(zeta))]
    return eta, value.sum(1), rest, np.array(gradient)


@pytest.mark.parametrize("with_sites", [True, False])
def test_against_plain_numpy(problem, block_elements, with_sites):
    likelihood, y, factor, mean, tau, nu, zeta = problem
    sites = (tau, nu) if with_sites else ()
    part = CasePart(likelihood, y, factor, mean, *sites)
    assert len(list(part._blocks(CHAINS))) == (4 if block_elements == 100 else 1)
    expected = plain(likelihood, y, factor, mean, tau * with_sites, nu * with_sites, zeta)
    found = part.evaluate(zeta)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(part.gradient(zeta), expected[3], rtol=1e-11, atol=1e-11)
    assert part.n_cases == N
    assert [field.shape for field in found] == [(CHAINS, N), (CHAINS,), (CHAINS,), (CHAINS, DIM)]


def test_value_is_evaluate_without_the_gradient(problem, block_elements):
    *data, zeta = problem
    part = CasePart(*data)
    for ours, theirs in zip(part.value(zeta), part.evaluate(zeta)[:3], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-14)


def test_positions_are_not_changed_and_results_are_not_shared(problem, block_elements):
    """Products accumulate in place over blocks: not in an argument, nor in an earlier result."""
    *data, zeta = problem
    part, kept = CasePart(*data), zeta.copy()
    first = [field.copy() for field in part.evaluate(zeta)]
    again = part.evaluate(zeta)
    part.evaluate(-zeta)
    part.gradient(-zeta)
    np.testing.assert_array_equal(zeta, kept)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_parts_of_the_cases_add_up(problem, block_elements):
    *data, zeta = problem
    whole = CasePart(*data)
    cases = np.random.default_rng(1).permutation(N)
    parts = [whole.take(cases[:70]), whole.take(cases[70:])]
    found = [part.evaluate(zeta) for part in parts]
    eta, *expected = whole.evaluate(zeta)
    np.testing.assert_allclose(found[0][0], eta[:, cases[:70]], rtol=1e-12, atol=1e-13)
    for k, theirs in enumerate(expected, start=1):
        ours = found[0][k] + found[1][k]
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-10)
    assert [part.n_cases for part in parts] == [70, N - 70]


def test_one_chain_and_positions_in_fortran_order(problem, block_elements):
    *data, zeta = problem
    part = CasePart(*data)
    whole = part.evaluate(zeta)
    for other in (part.evaluate(np.asfortranarray(zeta)), part.evaluate(zeta[::-1])[::1]):
        assert other[3].shape == whole[3].shape
    np.testing.assert_allclose(part.evaluate(np.asfortranarray(zeta))[3], whole[3], rtol=1e-12)
    np.testing.assert_allclose(part.evaluate(zeta[::-1])[3], whole[3][::-1], rtol=1e-11)
    np.testing.assert_allclose(part.evaluate(zeta[:1])[3], whole[3][:1], rtol=1e-11)


@pytest.mark.parametrize("likelihood", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("build", ["gp", "glm"])
def test_value_of_a_target_is_its_evaluation_without_the_gradient(likelihood, build, gp, glm):
    """With triangular and dense factors, from the prior and from sites."""
    model = {"gp": gp, "glm": glm}[build](likelihood.take(slice(12)))
    sites = GaussianSites(model, np.linspace(0.2, 1.5, 12), np.linspace(0.6, -0.8, 12))
    zeta = np.random.default_rng(2).standard_normal((3, model.dim))
    targets = [
        Target.posterior(sites),
        TemperedPath(sites).target(0.3, sites.principal_axes),
        TemperedPath(GaussianSites.prior(model)).target(0.7),
        TemperedPath(GaussianSites.prior(model)).target(0.7, sites),
    ]
    for target in targets:
        full = target.evaluate(zeta)
        for ours, theirs in zip(target.value(zeta), full[:3], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(target.residual_gradient(zeta), full[3], rtol=1e-11, atol=1e-12)


def test_gradient_of_the_sites(models):
    """What a data split takes out: F' (nu - tau eta), for the target's sites, not the base's."""
    for model in models.values():
        n = model.n_cases
        base = GaussianSites(model, np.linspace(0.2, 1.5, n), np.linspace(0.6, -0.8, n))
        zeta = np.random.default_rng(3).standard_normal((3, model.dim))
        prior = TemperedPath(GaussianSites.prior(model))
        assert np.all(prior.target(0.4).sites_gradient(zeta) == 0.0)
        for target in (Target.posterior(base), prior.target(0.4, base.principal_axes)):
            eta = target.base.predictor(zeta)
            expected = (target.shift - target.precision * eta) @ target.base.predictor_factor
            np.testing.assert_allclose(target.sites_gradient(zeta), expected, atol=1e-11)


@pytest.mark.parametrize("size", [800.0, 1e-300, 30.0, 0.0, 1e5])
@pytest.mark.parametrize("label", [-1.0, 1.0])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_logistic_at_extreme_predictors(size, label, sign):
    """No overflow, no cancellation: against SciPy's log_expit and expit."""
    eta, y = np.array([[sign * size]]), np.array([label])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        value, slope = Logistic().log_density_and_gradient(eta, y)
        alone = Logistic().gradient(eta, y)
    np.testing.assert_allclose(value, log_expit(y * eta)[:, 0], rtol=1e-14, atol=1e-13)
    np.testing.assert_allclose(slope, y * expit(-y * eta), rtol=1e-14, atol=0.0)
    np.testing.assert_array_equal(alone, slope)
