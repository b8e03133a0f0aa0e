"""Fits averaged over the hyperparameters against quadrature, closed forms and chains."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import gpmcflow as gp
from gpmcflow.approximations import integrated
from gpmcflow.approximations.evidence_density import NormalEvidenceDensity, normal_density
from gpmcflow.approximations.expectation_propagation import evidence_of
from gpmcflow.approximations.integrated import (
    IntegratedApproximation,
    WarmEvidence,
    _with_ep_error,
    integrate,
)
from gpmcflow.approximations.mixture import Mixture, Mode
from gpmcflow.errors import InputError
from gpmcflow.models.regression_density import NormalDensity
from tests.evidence.test_mixture_evidence import two_explanations

X = np.linspace(0.0, 3.0, 20)


def measurements() -> gp.GPModel:
    """A regression with one free hyperparameter."""
    y = np.sin(2.0 * X) + 0.3 * np.random.default_rng(0).standard_normal(len(X))
    return gp.GPModel(X, y, gp.SquaredExponential(signal_sd=1.0), gp.Gaussian(0.3))


def labels() -> gp.GPModel:
    """Labels with two free hyperparameters."""
    y = np.where(np.sin(2.0 * X) + 0.5 * np.random.default_rng(1).standard_normal(20) > 0, 1, -1)
    signal = gp.Hyperprior("norm", {"loc": 0.5, "scale": 0.5})
    return gp.GPModel(X, y, gp.Matern32(signal_sd=signal), gp.Probit())


def at_nodes(model: gp.GPModel) -> tuple[np.ndarray, np.ndarray]:
    """Settings theta (k, d) at an even grid of normal coordinates, and log Z + log weight of each."""
    axis = np.linspace(-5.0, 5.0, 401 if model.dim == 1 else 41)
    x = np.stack(np.meshgrid(*[axis] * model.dim, indexing="ij"), -1).reshape(-1, model.dim)
    values = normal_density(model).values(x)  # -inf at far nodes without a fit
    return normal_density(model).theta(x), values + model.dim * np.log(axis[1] - axis[0])


def by_quadrature(model: gp.GPModel, new: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Log evidence, and mean and standard deviation of the latents at new inputs."""
    thetas, values = at_nodes(model)
    weights = np.exp(values - logsumexp(values))
    kept = np.flatnonzero(weights > 1e-6)
    found = [gp.predict(gp.approximate(model.at(thetas[k])), new) for k in kept]
    means = np.array([each["latent_mean"].values for each in found])
    squares = np.array([each["latent_sd"].values for each in found]) ** 2 + means**2
    mean = weights[kept] @ means
    return float(logsumexp(values)), mean, np.sqrt(weights[kept] @ squares - mean**2)


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("build", [measurements, labels])
def test_evidence_and_predictions_are_those_of_quadrature(build, rounds, monkeypatch):
    monkeypatch.setattr(integrated, "LEAST_EFFECTIVE", 0.0 if rounds == 1 else np.inf)
    model, new = build(), np.array([[0.7], [2.9], [4.5]])
    evidence, mean, sd = by_quadrature(model, new)
    means, spread = [], []
    for seed in range(8):  # one seed has 25 to 60 settings, and a tenth of error in a deviation
        monkeypatch.setattr(integrated, "SEED", seed)
        fit = integrate(model)
        assert fit.reliable
        assert (fit.effective_size > 100.0) == (rounds == 2)
        assert abs(fit.log_evidence - evidence) < 4.0 * fit.standard_error
        found = gp.predict(fit, new)
        spread.append(found["latent_sd"])
        means.append(found["latent_mean"])
    np.testing.assert_allclose(np.mean(spread, axis=0), sd, rtol=0.08)
    np.testing.assert_allclose(np.mean(means, axis=0), mean, atol=0.08 * sd.max())


def test_draws_go_on_until_enough_of_them_are_effective(monkeypatch):
    """More than two mixtures of 100 draws can give."""
    monkeypatch.setattr(integrated, "LEAST_EFFECTIVE", 220.0)
    assert integrate(measurements()).effective_size >= 220.0


@pytest.mark.parametrize(("each", "rounds"), [(4, 2), (100, 5)])
def test_draws_that_all_rounds_would_leave_too_few_are_given_up(each, rounds, monkeypatch):
    """Of five rounds of four draws no 25 can be effective, of five hundred some would be."""
    monkeypatch.setattr(integrated, "ROUND", each)
    monkeypatch.setattr(integrated, "LEAST_EFFECTIVE", np.inf)
    model, rng = measurements(), np.random.default_rng(0)
    density = NormalDensity(model)
    modes = integrated.climbed_modes(model, density, rng)
    x, _ = integrated.weighted_draws(density, Mixture.at_modes(modes, density), rng)
    assert len(x) == each * rounds


def test_hyperparameters_have_the_quantiles_of_their_posterior(monkeypatch):
    """On average over eight seeds: of one the settings are 25 to 60."""
    model = measurements()
    x = np.linspace(-4.0, 4.0, 401)
    thetas = model.parameters.normal.theta(x[:, None])[0]
    density = gp.RegressionDensity(model)
    values = [density.log_likelihood(theta) for theta in thetas] - 0.5 * x**2
    shares = np.cumsum(np.exp(values - logsumexp(values)))
    levels, found = np.array([0.25, 0.5, 0.75]), []
    right = thetas[np.searchsorted(shares, levels), 0]
    for seed in range(8):
        monkeypatch.setattr(integrated, "SEED", seed)
        found.append((integrate(model).theta <= right).mean(0))
    assert np.abs(np.mean(found, axis=0) - levels).max() < 0.08


def test_ep_error_is_the_exact_evidence_less_that_of_the_sites(monkeypatch):
    """Orthant probabilities; sites far from EP's own have an error that is no rounding."""
    monkeypatch.setattr(integrated, "LATENTS", 20_000)
    prior = gp.Hyperprior("norm", {"scale": 0.5})
    covariance = gp.SquaredExponential(1.0, prior)
    fit = integrate(gp.GPModel([0.0, 0.3], [1.0, -1.0], covariance, gp.Probit()))
    moved = _with_ep_error(replace(fit, sites=fit.sites + 1.0), np.random.default_rng(0))
    checked = np.linspace(0, len(fit.theta) - 1, integrated.CHECKED).astype(int)
    for own, least in ((fit, 0.0), (moved, 0.1)):
        errors = []
        for k in checked:
            sites, y = own.at(k), own.model.y
            signed = (sites.model.predictor_covariance + np.eye(2)) * np.outer(y, y)
            exact = stats.multivariate_normal([0.0, 0.0], signed).logcdf([0.0, 0.0])
            errors.append(exact - evidence_of(sites))
        assert abs(np.mean(errors)) >= least
        assert own.ep_error == pytest.approx(np.mean(errors), abs=0.02)
        spread = np.std(errors, ddof=1) / np.sqrt(len(errors))
        assert own.ep_error_se == pytest.approx(spread, abs=0.02)


def test_leave_one_out_of_a_regression_is_that_of_quadrature():
    model = measurements()
    thetas, values = at_nodes(model)
    weights = np.exp(values - logsumexp(values))
    kept = weights > 1e-6
    inverse = np.zeros(len(X))
    for theta, weight in zip(thetas[kept], weights[kept], strict=True):
        covariance = model.at(theta).predictor_covariance + 0.3**2 * np.eye(len(X))
        precision = np.linalg.inv(covariance)
        spread = 1.0 / np.diag(precision)
        density = stats.norm.pdf(precision @ model.y * spread, scale=np.sqrt(spread))
        inverse += weight / density
    scores = gp.leave_one_out(integrate(model))
    assert scores.attrs["by"] == "exact"
    np.testing.assert_allclose(scores["elpd"], -np.log(inverse), atol=0.1)


def test_settings_lie_in_both_modes(monkeypatch):
    """Their share on average over six seeds: of one it is that of 25 to 60 settings."""
    short = []
    for seed in range(6):
        monkeypatch.setattr(integrated, "SEED", seed)
        fit = integrate(two_explanations())
        assert abs(fit.log_evidence + 34.927) < 4.0 * fit.standard_error
        assert fit.standard_error < 0.15
        short.append(np.mean(fit.parameters["length_scale"] < 0.25))
    assert np.mean(short) == pytest.approx(0.083, abs=0.05)


@pytest.mark.parametrize("build", [measurements, labels])
def test_a_fit_that_begins_at_one_of_fewer_rows_is_the_same(build, monkeypatch):
    """From one climb in place of the usual search."""
    model = build()
    start = integrate(model.take(np.arange(0, 20, 2))).theta
    whole = integrate(model)
    monkeypatch.setattr(integrated, "climbed_modes", lambda *_: pytest.fail("the usual search"))
    near = integrate(model, start=start)
    assert near.reliable
    error = np.hypot(whole.standard_error, near.standard_error)
    assert abs(near.log_evidence - whole.log_evidence) < 4.0 * error
    public = gp.approximate(model, integrated=True, start=start)
    np.testing.assert_array_equal(public.theta, near.theta)


def test_settings_of_both_modes_lead_to_both(monkeypatch):
    """One climb from their mean ends in one of them."""
    model, short = two_explanations(), []
    for seed in range(6):
        monkeypatch.setattr(integrated, "SEED", seed)
        start = integrate(model).theta
        assert (
            len(integrated.modes_near(NormalDensity(model), model.parameters.to_normal(start))) == 2
        )
        fit = integrate(model, start=start)
        assert abs(fit.log_evidence + 34.927) < 4.0 * fit.standard_error
        short.append(np.mean(fit.parameters["length_scale"] < 0.25))
    assert np.mean(short) == pytest.approx(0.083, abs=0.05)


def test_a_start_that_misses_the_posterior_is_given_up(monkeypatch):
    model = measurements()
    whole = integrate(model)
    lost = Mode(np.array([6.0]), 0.0, np.array([[1e4]]))
    monkeypatch.setattr(integrated, "modes_near", lambda *_: [lost])
    found = integrate(model, start=whole.theta)
    np.testing.assert_array_equal(found.theta, whole.theta)


def test_warm_fits_keep_the_evidence():
    model = labels()
    warm, cold = WarmEvidence(model), NormalEvidenceDensity(model, tolerance=1e-9)
    xs = np.random.default_rng(3).standard_normal((20, model.dim))
    np.testing.assert_allclose(warm.values(xs), cold.values(xs), atol=0.01)


@pytest.mark.parametrize("build", [measurements, labels])
def test_what_is_stored_predicts_the_same(build):
    fit, new = integrate(build()), np.array([[0.7], [4.5]])
    again = IntegratedApproximation.of_dataset(build(), fit.to_dataset())
    assert repr(again) == repr(fit)
    assert gp.predict(fit, new).equals(gp.predict(again, new))


def test_basis_functions_give_what_the_dense_covariance_gives():
    x = np.column_stack([X, X**2])
    y = np.where(X > 1.2, 1, -1) * np.where(np.arange(20) % 7 == 0, -1, 1)
    fits = [
        integrate(
            gp.GPModel(x, y, gp.Linear() + gp.Constant(1.0), gp.Probit(), structure=structure)
        )
        for structure in ("basis", "dense")
    ]
    assert abs(fits[0].log_evidence - fits[1].log_evidence) < 0.02
    new = [gp.predict(fit, x[:3] + 0.1)["latent_sd"].values for fit in fits]
    np.testing.assert_allclose(*new, rtol=0.02)


def test_without_free_hyperparameters_it_is_the_fit_itself():
    for likelihood, y in ((gp.Probit(), np.where(X > 1, 1, -1)), (gp.Gaussian(0.2), np.sin(X))):
        model = gp.GPModel(X, y, gp.Matern32(1.0, 1.0), likelihood)
        fit, plain = integrate(model), gp.approximate(model)
        assert fit.log_evidence == pytest.approx(plain.log_evidence, abs=1e-9)
        got, right = gp.predict(fit, [0.5]), gp.predict(plain, [0.5])
        np.testing.assert_allclose(got["latent_sd"], right["latent_sd"], rtol=1e-4)
        assert "medians" not in repr(fit)


def test_settings_that_miss_the_posterior_are_told(monkeypatch, caplog):
    gp.approximate(measurements(), integrated=True)
    assert not caplog.text
    monkeypatch.setattr(integrated, "ROUND", 20)
    monkeypatch.setattr(integrated, "ROUNDS", 1)
    gp.approximate(measurements(), integrated=True)
    assert "of the hyperparameters are effective" in caplog.text
    assert "take sample(model)" in caplog.text


def test_refusals_say_what_is_allowed():
    with pytest.raises(
        InputError, match=r"one latent function, or of classes, with method=\"ep\"; take sample"
    ):
        gp.approximate(labels(), "laplace", integrated=True)
    with pytest.raises(InputError, match="one latent function"):
        gp.approximate(labels().at(np.zeros(2)), integrated=True)
    for start in (np.zeros(2), np.zeros((1, 3)), np.zeros((0, 2)), [[np.nan, 0.0]]):
        with pytest.raises(InputError, match=r"start has shape .*allowed: .* shape \(s, 2\)"):
            gp.approximate(labels(), integrated=True, start=start)
    with pytest.raises(InputError, match="found a start; allowed: with integrated=True alone"):
        gp.approximate(labels(), start=np.zeros((1, 2)))
    with pytest.raises(InputError, match=r"found Approximation; allowed: .*integrated=True"):
        gp.leave_one_out(gp.approximate(labels()))


def test_a_setting_at_which_sites_overflow_is_one_at_which_no_fit_converges():
    """A hyperprior over twenty powers of e draws scales of times far below rounding."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 1))
    y = np.exp(5.0 + 0.5 * x[:, 0]) * rng.exponential(size=30) ** 0.7
    wide = gp.Hyperprior("norm", {"loc": 0.0, "scale": 10.0})
    event = (rng.random(30) < 0.7).astype(float)
    model = gp.GPModel(
        x, y, gp.Linear(sd=30.0) + gp.Constant(30.0), gp.Survival(scale=wide, event=event)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = gp.approximate(model, integrated=True)
    assert 0.5 < np.median(fit.parameters["scale"]) < 1.0


@pytest.mark.parametrize("likelihood", [gp.Gaussian(0.4), gp.Poisson()])
def test_draws_at_a_setting_have_its_mean_and_covariance(likelihood):
    x = np.linspace(0.0, 1.0, 4)
    model = gp.GPModel(x, np.array([1.0, 0.0, 2.0, 1.0]), gp.SquaredExponential(0.4), likelihood)
    found = integrate(model)
    mean, about = found.draws_at(0, np.random.default_rng(0), 20000)
    sites = found.at(0)
    covariance = sites.predictor_factor @ sites.predictor_factor.T
    assert np.allclose(mean, sites.predictor_mean, atol=1e-8)
    assert np.allclose(np.cov(about.T), covariance, atol=0.05 * covariance.max())
    unchecked = integrate(model, checked=False)
    assert np.array_equal(unchecked.theta, found.theta)
    assert unchecked.ep_error == 0.0
