from __future__ import annotations

import logging

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpmcflow.approximations import hyperparameters
from gpmcflow.approximations.evidence_density import evidence_gradient
from gpmcflow.approximations.expectation_propagation import expectation_propagation, quick_fit
from gpmcflow.approximations.hyperparameters import maximise_evidence
from gpmcflow.approximations.laplace import laplace
from gpmcflow.covariances.leaves import (
    Categorical,
    Linear,
    Matern32,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SquaredExponential,
    White,
)
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.likelihoods import (
    Binomial,
    Gaussian,
    Logistic,
    NegativeBinomial,
    Poisson,
    Probit,
    StudentT,
)
from gpmcflow.models.case_prior import prior_at
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.marginal_likelihood import MarginalLikelihood
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import Parameter

FREE = Hyperprior("norm", {"scale": 1.0})
SHARED = Parameter("l", FREE)


@pytest.fixture(scope="module")
def data():
    """Labels of a GP draw over two features, of which the second matters less."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-3.0, 3.0, (60, 2))
    K = SquaredExponential((1.0, 4.0), 1.5)(X) + 1e-8 * np.eye(60)
    f = np.linalg.cholesky(K) @ rng.standard_normal(60)
    return X, Probit().simulate(rng, f)


def richardson(model, theta):
    """Gradient of log Z_EP by differences of fourth order."""

    def log_z(at):
        return expectation_propagation(model.at(at), tolerance=1e-13).log_evidence

    gradient = np.empty(len(theta))
    for j in range(len(theta)):
        step = 2e-3 * np.eye(len(theta))[j]
        fine, coarse = (
            (log_z(theta + k * step) - log_z(theta - k * step)) / (4e-3 * k) for k in (1, 2)
        )
        gradient[j] = (4.0 * fine - coarse) / 3.0
    return gradient


def assert_gradient(model, theta, tolerance=2e-7):
    theta = np.asarray(theta, dtype=np.float64)
    fit = expectation_propagation(model.at(theta), tolerance=1e-13)
    found, expected = evidence_gradient(model, theta, fit), richardson(model, theta)
    assert found.shape == (model.dim,)
    allowed = {"rtol": 0.0, "atol": tolerance * np.abs(expected).max()}
    np.testing.assert_allclose(found, expected, **allowed)
    prior = prior_at(model, theta)
    quick = quick_fit(prior, tolerance=1e-13)  # which brings a factor along
    np.testing.assert_allclose(evidence_gradient(model, theta, quick, prior), expected, **allowed)
    return found


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()])
@pytest.mark.parametrize("theta", [[0.3, 0.7], [0.1, 1.1, 0.7]], ids=["isotropic", "ard"])
@pytest.mark.parametrize("mean", [0.0, 0.4])
@pytest.mark.parametrize("jitter", [None, 1e-2])
def test_gradient(data, likelihood, theta, mean, jitter):
    """A jitter that matters belongs to the covariance, and moves with it."""
    X, y = data
    covariance = SquaredExponential(ard=len(theta) > 2)
    assert_gradient(GPModel(X, y, covariance, likelihood, mean, jitter), theta)


COUNTS = np.random.default_rng(3).poisson(3.0, 60).astype(float)
EXPOSURE = np.random.default_rng(4).uniform(0.5, 2.0, 60)
SEASON = SquaredExponential(columns=0) * Periodic(0.8, 1.0, 1.7, columns=0) + Linear(columns=1)
MODELS = {
    "season, free mean": (
        SEASON, Logistic(), FREE, 1e-2, [0.6, 0.3, -0.4, 0.35],
    ),
    "every parameter": (
        SquaredExponential(columns=0) * Periodic(FREE, period=FREE, columns=0)
        + Matern32(SHARED, FREE, columns=1) * SquaredExponential(SHARED, columns=0)
        + White(0.2),
        Probit(), FREE, 1e-2, [0.6, 0.3, -0.1, 0.5, 0.2, -0.3, 0.1],
    ),
    "dispersion": (
        SquaredExponential(), NegativeBinomial(FREE, exposure=EXPOSURE), FREE, 1e-2, [0.3, 0.2, 0.9, 0.8],
    ),
    "amplitude and dispersion are one": (
        SquaredExponential(1.2, SHARED), NegativeBinomial(SHARED), 0.5, 1e-2, [0.4],
    ),
    "dispersion alone": (SquaredExponential(1.2, 0.8), NegativeBinomial(FREE), 0.5, None, [0.7]),
    "mean alone": (SquaredExponential(1.2, 0.8), Poisson(EXPOSURE), FREE, None, [0.7]),
    "binomial": (Matern32(), Binomial(np.full(60, 12.0)), 0.2, 1e-2, [0.4, 0.1]),
    "noise": (SquaredExponential(), Gaussian(FREE), FREE, 1e-2, [0.3, 0.4, 0.2, -0.5]),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_gradient_of_any_model(data, name):
    covariance, likelihood, mean, jitter, theta = MODELS[name]
    y = data[1] if likelihood.binary else COUNTS
    assert_gradient(GPModel(data[0], y, covariance, likelihood, mean, jitter), theta)


def test_gradient_of_a_grid():
    """K = K_1 x K_2, each axis with its jitter."""
    X = np.stack(np.meshgrid(np.linspace(0, 1, 5), np.linspace(0, 2, 6), indexing="ij"), -1)
    y = np.random.default_rng(0).poisson(2.0, 30).astype(float)
    covariance = SquaredExponential(ard=True)
    model = GPModel(X.reshape(30, 2), y, covariance, Poisson(), FREE, 1e-2, "kronecker")
    assert_gradient(model, [-0.7, -0.4, 0.3, 0.5])


def test_for_gaussian_noise_it_is_the_marginal_likelihood(data):
    model = GPModel(data[0], COUNTS, SEASON, Gaussian(), FREE, 1e-2)
    theta = np.array([0.6, 0.3, -0.4, 0.35, -0.3])
    fit = expectation_propagation(model.at(theta), tolerance=1e-13)
    value, slopes = MarginalLikelihood(model).value_and_slopes(model.full(theta))
    assert fit.log_evidence == pytest.approx(value, rel=1e-10)
    gradient = evidence_gradient(model, theta, fit)
    np.testing.assert_allclose(gradient, slopes[model.free], rtol=1e-7)


@pytest.mark.parametrize("ard", [False, True])
def test_the_maximum_is_one(data, ard):
    X, y = data
    model = GPModel(X, y, SquaredExponential(ard=ard), Probit())
    theta, fit = maximise_evidence(model)
    assert theta.shape == ((3,) if ard else (2,))
    assert fit.log_evidence == expectation_propagation(model.at(theta)).log_evidence
    assert_a_maximum(model, theta, fit)
    if ard:
        assert theta[1] > theta[0]


def assert_a_maximum(model, theta, fit):
    assert np.abs(evidence_gradient(model, theta, fit)).max() < 0.05
    for step in np.concatenate([0.2 * np.eye(len(theta)), -0.2 * np.eye(len(theta))]):
        beside = expectation_propagation(model.at(theta + step))
        assert beside.log_evidence < fit.log_evidence


def test_the_maximum_of_counts_with_everything_free(caplog):
    caplog.set_level(logging.WARNING)  # on a slow machine the progress is told, too
    rng = np.random.default_rng(8)
    t = np.linspace(0.0, 6.0, 90)
    rate = np.exp(1.0 + np.sin(2.0 * np.pi * t) + 0.3 * t)
    y = rng.poisson(rate * rng.gamma(4.0, 0.25, 90)).astype(float)
    covariance = SquaredExponential() + Periodic(period=1.0)
    model = GPModel(t, y, covariance, NegativeBinomial(), Hyperprior("norm", {"scale": 2.0}))
    theta, fit = maximise_evidence(model)
    assert not caplog.text
    assert_a_maximum(model, theta, fit)
    assert 2.0 < model.natural(theta)["size"] < 10.0  # it was made with 4


def test_a_column_without_an_effect_costs_the_maximum_nothing():
    """The search ends where the function hardly changes along it: the evidence is that without the column."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    y = 1.5 * np.sin(2.0 * X[:, 0]) + X[:, 0] + 0.3 * rng.standard_normal(300)
    # columns that the evidence does not want: their length scales go to the end
    with_it, without = (
        maximise_evidence(GPModel(rows, y, SquaredExponential(ard=True), Gaussian())).fit
        for rows in (X, X[:, :1])
    )
    assert without.log_evidence - 0.05 < with_it.log_evidence


def test_scikit_learn_finds_the_same_regression():
    """Claim 7: the same value at its optimum, and a maximum as high."""
    X, y = load_diabetes(return_X_y=True)
    X, y = ((a[:100] - a[:100].mean(0)) / a[:100].std(0) for a in (X, y))
    peer = GaussianProcessRegressor(
        ConstantKernel() * RBF(3.0) + WhiteKernel(),
        alpha=0.0,
        n_restarts_optimizer=2,
        random_state=0,
    ).fit(X, y)
    log_variance, log_length, log_noise = peer.kernel_.theta
    theta = np.array([log_length, 0.5 * log_variance, 0.5 * log_noise])
    model = GPModel(X, y, SquaredExponential(), Gaussian(), jitter=0.0)
    density = RegressionDensity(model)
    best = peer.log_marginal_likelihood_value_
    assert density.log_likelihood(theta) == pytest.approx(best, abs=1e-8)
    ours = maximise_evidence(GPModel(X, y, SquaredExponential(), Gaussian()))
    assert ours.fit.log_evidence > best - 1e-4
    assert density.log_likelihood(ours.theta) > best - 1e-4


@pytest.mark.parametrize("unit", [1000.0, 1e-3])
def test_scikit_learn_finds_the_same_regression_in_other_units(unit, caplog):
    """Its search starts at the right answer, in units of y: an all-noise fit is 18 nats below."""
    rng = np.random.default_rng(3)
    x = np.linspace(0.0, 5.0, 40)
    y = unit * (np.sin(2.0 * x) + 0.3 * rng.normal(size=40))
    sizes = {"constant_value_bounds": (1e-9, 1e9)}
    peer = GaussianProcessRegressor(
        ConstantKernel(unit**2, **sizes) * RBF(0.7)
        + WhiteKernel((0.3 * unit) ** 2, noise_level_bounds=(1e-9, 1e9)),
        alpha=0.0,
    ).fit(x[:, None], y)
    ours = maximise_evidence(GPModel(x, y, SquaredExponential(), Gaussian()))
    assert ours.fit.log_evidence == pytest.approx(peer.log_marginal_likelihood_value_, abs=1e-3)
    messages = [record.getMessage() for record in caplog.records]
    assert all(
        "standardise y" in message for message in messages
    )  # of the model, not of the search


def test_fits_move_with_the_units_of_inputs_and_responses():
    """p(s y) = p(y) / s^n, and a column in other units changes nothing but what belongs to it."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (40, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=40)
    free_mean = Hyperprior("norm", {"scale": 1.0})
    linear = Matern32(columns=0) + Linear(columns=1)
    product = SquaredExponential(columns=0) * Linear(1.0, columns=1) + Linear(columns=1)
    known = np.full(40, 0.2)
    for name, covariance, likelihood, mean, method in (
        ("a scale a column, free mean", Matern32(ard=True), Gaussian, free_mean, "ep"),
        ("linear", linear, Gaussian, 0.0, "ep"),
        ("product", product, Gaussian, 0.0, "ep"),
        ("polynomial", Polynomial(2, columns=1), Gaussian, 0.0, "ep"),
        ("known noise", RationalQuadratic(), lambda s: Gaussian(s * known), 0.0, "ep"),
        ("outliers", SquaredExponential(), lambda s: StudentT(df=4.0), 0.0, "laplace"),
    ):
        found = []
        # a mean above 300 is out of range
        for unit in (1.0, 1e3 if mean == 0.0 else 20.0, 1e-3):
            own = likelihood() if likelihood is Gaussian else likelihood(unit)
            column = 1.0 if name in ("known noise", "outliers", "product") else unit
            model = GPModel(X * [1.0, column], unit * y, covariance, own, mean)
            found.append(maximise_evidence(model, method).fit.log_evidence + 40.0 * np.log(unit))
        np.testing.assert_allclose(found, found[0], atol=0.01, err_msg=name)


def test_the_higher_of_two_maxima_is_found():
    """A slow trend with noise, or a fast function without it, which is higher."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, 30))
    y = np.sin(9.0 * x) + 0.05 * rng.normal(size=30) + 0.2 * x
    model = GPModel(x, y, SquaredExponential(), Gaussian(), jitter=1e-8)
    density = RegressionDensity(model)
    grid = np.stack(np.meshgrid(*[np.linspace(-3.0, 2.5, 12)] * 3), -1).reshape(-1, 3)
    highest = max(density.log_likelihood(theta) for theta in grid)
    assert maximise_evidence(model).fit.log_evidence > highest


def test_the_highest_tooth_of_a_comb_is_found():
    """Aliases of a period are maxima of their own: from the usual starts 7 nats are lost."""
    rng = np.random.default_rng([9, 25])
    x = np.sort(rng.uniform(0.0, 10.0, 25))
    y = np.sin(2.0 * np.pi * x / 0.83) + 0.6 * rng.standard_normal(25)
    period, noise = (
        Hyperprior.log_uniform(0.4, 2.0),
        Hyperprior("norm", {"loc": -0.7, "scale": 0.5}),
    )
    model = GPModel(x, y, Periodic(1.5, period=period, signal_sd=1.0), Gaussian(noise))
    density = RegressionDensity(model)
    axes = np.linspace(np.log(0.4), np.log(2.0), 600), np.linspace(-1.2, 0.0, 5)
    grid = np.stack(np.meshgrid(*axes), -1).reshape(-1, 2)
    highest = max(density.log_likelihood(theta) for theta in grid)
    found = maximise_evidence(model).fit.log_evidence
    assert highest < found < highest + 1.0


def test_no_search_for_modes_where_it_takes_long(monkeypatch):
    monkeypatch.setattr(hyperparameters, "find_modes", lambda *_: pytest.fail("a search"))
    monkeypatch.setattr(hyperparameters, "MOST_SEARCHED", 29)
    x = np.linspace(0.0, 1.0, 30)
    maximise_evidence(GPModel(x, np.sin(6.0 * x), SquaredExponential(), Gaussian()))


@pytest.mark.parametrize("likelihood", [Gaussian(), Logistic()], ids=["numbers", "labels"])
def test_the_maximum_of_many_rows_begins_at_those_of_some(likelihood, monkeypatch):
    """It is the same, from fewer fits of all rows."""
    rng = np.random.default_rng(4)
    X = rng.uniform(0.0, 6.0, (160, 2))
    f = 2.0 * np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1]
    y = f + 0.3 * rng.standard_normal(160) if likelihood.conjugate else np.sign(f - np.median(f))
    model = GPModel(X, y, SquaredExponential(ard=True), likelihood)
    monkeypatch.setattr(hyperparameters, "MOST_SEARCHED", 0)
    fits, found = [], []
    objective = hyperparameters._Search.objective

    def counted(search, theta):
        fits[-1] += search.model.n_cases == 160
        return objective(search, theta)

    monkeypatch.setattr(hyperparameters._Search, "objective", counted)
    for most in (1000, 100):
        monkeypatch.setattr(hyperparameters, "MOST_ROWS", most)
        monkeypatch.setattr(hyperparameters, "SOME_ROWS", 80)
        fits.append(0)
        found.append(maximise_evidence(model))
    assert found[1].fit.log_evidence == pytest.approx(found[0].fit.log_evidence, abs=2e-3)
    np.testing.assert_allclose(found[1].theta, found[0].theta, atol=0.05)
    assert fits[1] < 0.8 * fits[0]


def test_nothing_is_free(data):
    model = GPModel(*data, SquaredExponential(1.0, 1.5), Probit())
    theta, fit = maximise_evidence(model)
    assert theta.shape == (0,)
    assert fit.log_evidence == expectation_propagation(model.at()).log_evidence


def test_a_finite_support_is_not_left(data, caplog):
    """Length scales that the model excludes are no maximum of it."""
    low = 1.2 * np.exp(maximise_evidence(GPModel(*data, SquaredExponential(), Probit())).theta[0])
    covariance = SquaredExponential(Hyperprior.log_uniform(low, 1e4))
    model = GPModel(*data, covariance, Probit())
    assert np.exp(maximise_evidence(model).theta[0]) == pytest.approx(low)
    told = f"edge of the search: length_scale {low:.3g}, the smallest tried (the end of its hyperprior)"
    assert told in caplog.text


def test_inputs_that_are_all_the_same(data):
    X = np.ones((60, 2))
    with pytest.raises(InputError, match="all inputs are the same"):
        maximise_evidence(GPModel(X, data[1], SquaredExponential(), Probit()))
    codes = np.arange(60.0)[:, None] % 3  # no distance is asked for where none counts
    model = GPModel(codes, data[1], Categorical(columns=0), Probit())
    assert maximise_evidence(model).theta.shape == (2,)


def test_no_fit_converges(data, monkeypatch):
    def fails(model, **settings):
        raise NumericalError("expectation propagation: no")

    monkeypatch.setattr(hyperparameters, "quick_fit", fails)
    for covariance in (SquaredExponential(), SquaredExponential(signal_sd=1.0)):
        with pytest.raises(NumericalError, match=r"no fit \(ep\) converged"):
            maximise_evidence(GPModel(*data, covariance, Probit()))


def test_a_maximum_at_the_edge_is_said(caplog):
    """Labels that a line separates want a signal without end."""
    X = np.random.default_rng(0).normal(size=(30, 1))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    theta, _ = maximise_evidence(GPModel(X, y, SquaredExponential(), Probit()))
    assert theta[-1] == pytest.approx(6.0)
    told = "edge of the search: signal_sd 403, the largest tried (the signal grows, as for classes"
    assert told in caplog.text


def break_fits(monkeypatch, low=0.0, high=np.inf):
    """EP fails where a prior variance is outside (low, high)."""
    for name in ("quick_fit", "expectation_propagation"):
        whole = getattr(hyperparameters, name)

        def fit(latent, whole=whole, **settings):
            variance = np.diag(latent.predictor_covariance)
            if variance.max() > high or variance.max() < low:
                raise NumericalError("expectation propagation: no")
            return whole(latent, **settings)

        monkeypatch.setattr(hyperparameters, name, fit)


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, np.exp(1.3)), (np.exp(-2.5), np.inf), (np.exp(-1.0), np.exp(2.1))]
)
def test_the_search_steps_back_from_fits_that_fail_and_goes_on(
    data, caplog, monkeypatch, low, high
):
    """The start fails, or the second point does, or several: the maximum is the same, and it is said."""
    caplog.set_level(logging.WARNING)
    X, y = data
    exact = maximise_evidence(GPModel(X, y, SquaredExponential(), Probit())).theta
    assert not caplog.text
    break_fits(monkeypatch, low, high)
    theta = maximise_evidence(GPModel(X, y, SquaredExponential(), Probit())).theta
    np.testing.assert_allclose(theta, exact, atol=2e-3)
    assert "fits (ep) failed and the search stepped back; the first at length_scale" in caplog.text
    assert "expectation propagation: no" in caplog.text


def test_a_maximum_beyond_fits_that_fail_is_approached(data, caplog, monkeypatch):
    break_fits(monkeypatch, high=np.exp(2 * 0.5))  # the maximum is at 0.64
    X, y = data
    model = GPModel(X, y, SquaredExponential(), Probit())
    theta, fit = maximise_evidence(model)
    assert 0.45 < theta[1] <= 0.5
    assert abs(evidence_gradient(model, theta, fit)[0]) < 0.1
    assert "fits (ep) failed" in caplog.text


def test_clipped_sites_are_said(outliers, caplog):
    X, y = outliers().X, outliers().y
    _, fit = maximise_evidence(GPModel(X, y, SquaredExponential(), StudentT(FREE, 4.0)))
    assert fit.clipped > 0
    assert f"{fit.clipped} sites of the EP fit are clipped" in caplog.text


def test_the_maximum_of_laplaces_evidence_is_one(data):
    """Its gradient is by differences: no step from there finds more."""
    X, y = data
    model = GPModel(X, y, SquaredExponential(), Probit())
    theta, fit = maximise_evidence(model, "laplace")
    assert fit.log_evidence == laplace(model.at(theta)).log_evidence
    assert abs(fit.log_evidence - maximise_evidence(model).fit.log_evidence) > 0.01
    for step in 0.05 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, -1]]):
        assert laplace(model.at(theta + step)).log_evidence < fit.log_evidence
