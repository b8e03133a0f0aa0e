"""Expectation propagation of several latent functions: limits with known answers, and averages over it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_wine

import gpmcflow as gp
from gpmcflow.approximations import leave_one_out, multi_ep, multi_maximum
from gpmcflow.approximations.approximate import fitted_at
from gpmcflow.approximations.integrated import (
    IntegratedApproximation,
    IntegratedFunctions,
    WarmFunctionsEvidence,
    integrate,
    integrates,
)
from gpmcflow.approximations.mixture import more_modes
from gpmcflow.approximations.multi_annealing import annealed_weights
from gpmcflow.approximations.multi_ep import fit_of_sites, multi_expectation_propagation
from gpmcflow.approximations.multi_gradient import ep_gradient
from gpmcflow.approximations.multi_laplace import multi_laplace
from gpmcflow.approximations.multi_maximum import functions_fit, maximise_multi_evidence
from gpmcflow.approximations.multi_prediction import MultiConditional, fit_predictor
from gpmcflow.diagnostics.importance_weights import effective_size
from gpmcflow.errors import NumericalError

HALF = gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.5})
RNG = np.random.default_rng(3)
PLACES = RNG.standard_normal((14, 2))
CLASSES = np.array(["ash", "beech", "oak"])[(PLACES[:, 0] > 0).astype(int) + (PLACES[:, 1] > 0.5)]
NEW = RNG.standard_normal((5, 2))


def of_classes(covariance, words=CLASSES, places=PLACES):
    return gp.GPModel(places, words, covariance, gp.Softmax())


MODELS = {
    "dense": lambda: of_classes(gp.Matern32(HALF, HALF)),
    "basis": lambda: of_classes(gp.Linear(HALF) + gp.Constant(HALF)),
    "four": lambda: of_classes(gp.Matern32(HALF, HALF), np.array(list("abcd"))[np.arange(14) % 4]),
}  # fmt: skip


@pytest.mark.parametrize("amplitude", [0.5, 2.0, 5.0])
def test_two_classes_are_logistic(amplitude):
    """The latent function is sqrt(2) times as large: evidence, left-out cases and predictions agree."""
    labels = np.where(PLACES[:, 0] + 0.4 * PLACES[:, 1] > 0.0, 1.0, -1.0)
    words = np.where(labels > 0, "a", "b")
    two = of_classes(gp.Matern32(1.0, amplitude), words)
    one = gp.GPModel(
        PLACES, labels, gp.Matern32(1.0, np.sqrt(2.0) * amplitude), gp.Logistic(), mean=0.0
    )
    fit, same = gp.approximate(two), gp.approximate(one)
    assert fit.method == "ep"
    assert fit.log_evidence == pytest.approx(same.log_evidence, abs=2e-3)
    left_out = leave_one_out.of_fit(same.fit, one.likelihood).log_density(labels)
    assert fit.fit.log_left_out == pytest.approx(left_out, abs=2e-3)
    of_a = gp.predict(fit, NEW).response_probability.sel({"class": "a"})
    assert of_a.values == pytest.approx(gp.predict(same, NEW).response_mean.values, abs=0.02)


def test_a_single_case_is_exact():
    """Its evidence is the average of the likelihood over the prior, and what it leaves out has no case."""
    model = gp.GPModel(np.zeros((1, 2)), ["b"], gp.Matern32(1.0, 1.5), gp.Softmax(("a", "b", "c")))
    fit = multi_expectation_propagation(model, np.empty(0))
    assert fit.log_evidence == pytest.approx(np.log(1.0 / 3.0), abs=1e-6)
    assert fit.log_left_out == pytest.approx(np.log(1.0 / 3.0), abs=1e-6)


def test_the_evidence_is_near_the_truth():
    """Of 6 cases, by 200,000 draws of the prior; draws of the fit make up for what EP misses."""
    model = MODELS["dense"]().take(np.arange(6))
    theta = np.zeros(2)
    fit = multi_expectation_propagation(model, theta)
    rng, L = np.random.default_rng(0), model.parts[0].cholesky(model.parts[0].full(theta))
    eta = rng.standard_normal((200_000, 2, 6)) @ L.T
    log_p = model.likelihood.log_density(eta, model.y)
    truth = logsumexp(log_p) - np.log(len(log_p))
    assert fit.log_evidence == pytest.approx(truth, abs=0.08)  # what EP misses
    for own, n_temperatures in ((fit, 1), (fit, 10), (multi_laplace(model, theta), 10)):
        weights = annealed_weights(own, np.random.default_rng(1), 4000, n_temperatures)
        assert logsumexp(weights) - np.log(4000) == pytest.approx(truth, abs=0.03)
    mean = np.exp(log_p - logsumexp(log_p)) @ eta.reshape(len(eta), -1)
    assert fit.predictor.ravel() == pytest.approx(mean, abs=0.06)


def test_annealed_draws_reach_what_those_of_a_fit_hardly_do():
    """Of cases told apart by large functions: the mean weight by 400,000 draws of the prior, 0.03 off."""
    model = of_classes(gp.Matern32(1.0, 6.0)).take(np.arange(8))
    fit = multi_expectation_propagation(model, np.empty(0))
    L = model.parts[0].cholesky(model.parts[0].full(np.empty(0)))
    eta = np.random.default_rng(0).standard_normal((400_000, 2, 8)) @ L.T
    truth = logsumexp(model.likelihood.log_density(eta, model.y)) - np.log(len(eta))
    plain, annealed = (annealed_weights(fit, np.random.default_rng(2), 3000, k) for k in (1, 20))
    assert effective_size(plain) < 1000 < 2450 < effective_size(annealed)
    assert logsumexp(annealed) - np.log(3000) == pytest.approx(truth, abs=0.08)
    value, error = integrate(model).checked_evidence  # by 5 x 32 draws
    assert value == pytest.approx(truth, abs=0.12)
    assert error < 0.06


@pytest.mark.parametrize("name", MODELS)
def test_its_gradient_by_differences(name):
    model = MODELS[name]()
    theta = model.prior_median() + 0.2
    fit = multi_expectation_propagation(model, theta, tolerance=1e-8)

    def value(at):
        return multi_expectation_propagation(model, at, fit.sites, tolerance=1e-8).log_evidence

    steps = 1e-3 * np.eye(model.dim)
    slopes = [(value(theta + step) - value(theta - step)) / 2e-3 for step in steps]
    # nodes turn with the cavity, so that averages are a little off those of a fixed rule
    assert ep_gradient(fit) == pytest.approx(slopes, rel=5e-3, abs=5e-3)


def test_the_gradient_of_a_parameter_of_the_likelihood():
    """Fits of a likelihood that is not log-concave are not asked for, but converge here."""
    y = PLACES[:, 0] + 0.3 * PLACES[:, 1]
    covariances = {"mean": gp.Matern32(1.0, 1.0), "scale": gp.Matern32(1.0, 0.3)}
    model = gp.GPModel(PLACES, y, covariances, gp.StudentT(df=HALF, scale=1.0), mean=0.0)
    assert model.names == ("df",)
    theta = np.array([0.5])
    fit = multi_expectation_propagation(model, theta, tolerance=1e-8)

    def value(at):
        return multi_expectation_propagation(model, at, fit.sites, tolerance=1e-8).log_evidence

    steps = 1e-3 * np.eye(model.dim)
    slopes = [(value(theta + step) - value(theta - step)) / 2e-3 for step in steps]
    assert ep_gradient(fit) == pytest.approx(slopes, rel=0.02, abs=0.02)


def test_a_mean_moves_with_the_data():
    """Of a function whose mean is not zero; functions of classes have none."""
    y = PLACES[:, 0] + 0.3 * PLACES[:, 1]
    covariances = {"mean": gp.Matern32(1.0, 1.0), "scale": gp.Matern32(1.0, 0.3)}
    noise = gp.StudentT(df=4.0, scale=1.0)
    here, there = (
        multi_expectation_propagation(
            gp.GPModel(PLACES, y + c, covariances, noise, mean=c), np.empty(0)
        )
        for c in (0.0, 2.0)
    )
    assert there.log_evidence == pytest.approx(here.log_evidence, abs=1e-6)
    assert there.predictor[0] == pytest.approx(here.predictor[0] + 2.0, abs=1e-4)


def test_classes_swapped_are_mirrored():
    """Two of three names change places: the nodes of the contrasts are those of before."""
    fits = [
        multi_expectation_propagation(
            gp.GPModel(PLACES, CLASSES, gp.Matern32(1.0, 4.0), gp.Softmax(order)), np.empty(0)
        )
        for order in (("ash", "beech", "oak"), ("beech", "ash", "oak"), ("ash", "oak", "beech"))
    ]
    for fit in fits[1:]:
        assert fit.log_evidence == pytest.approx(fits[0].log_evidence, abs=1e-6)


def test_gradients_of_a_search_are_those_of_sites_that_settled():
    """Fits of a search that begin nearby stop early; curvatures are differences of their gradients."""
    model = MODELS["dense"]()
    density = WarmFunctionsEvidence(model)
    x = np.array([0.3, 0.4])
    for step in (0.0, 1e-3):
        _, gradient = density.evaluate_gradient(x + step)
    theta, slopes = model.parameters.normal.theta(x + 1e-3)
    right = ep_gradient(multi_expectation_propagation(model, theta, tolerance=1e-8))
    assert gradient == pytest.approx(right * slopes - x - 1e-3, abs=5e-4)


@pytest.mark.parametrize("name", MODELS)
def test_where_a_fit_begins_does_not_matter(name):
    model = MODELS[name]()
    theta = model.prior_median()
    cold = multi_expectation_propagation(model, theta)
    near = multi_expectation_propagation(model, theta + 0.1)
    warm = multi_expectation_propagation(model, theta, near.sites)
    assert warm.iterations <= cold.iterations
    assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-5)
    assert warm.predictor == pytest.approx(cold.predictor, abs=5e-3)
    again = fit_of_sites(model, theta, cold.sites)
    assert again.log_evidence == pytest.approx(cold.log_evidence, abs=1e-10)
    assert again.factor == pytest.approx(cold.factor, abs=1e-10)


def test_sites_that_do_not_settle_are_an_error():
    model = MODELS["dense"]()
    right = multi_expectation_propagation(model, np.zeros(2))
    fewer = right.iterations - 1
    with pytest.raises(NumericalError, match="EP of several functions: no convergence at"):
        multi_expectation_propagation(model, np.zeros(2), most=fewer)
    some = multi_expectation_propagation(model, np.zeros(2), most=fewer, enough=0.01)
    assert some.iterations == fewer
    assert some.log_evidence == pytest.approx(right.log_evidence, abs=1e-3)


@pytest.mark.parametrize("sd", [20.0, 60.0])
def test_slopes_of_any_size(sd):
    """Of 13 columns that tell classes apart: with slopes ever larger the evidence nears a limit."""
    wine = load_wine()
    X, y = (wine.data - wine.data.mean(0)) / wine.data.std(0), wine.target + 1
    fit = multi_expectation_propagation(
        gp.GPModel(X, y, gp.Linear(sd=sd), gp.Softmax(3)), np.empty(0)
    )
    assert fit.log_evidence == pytest.approx(-24.6, abs=0.1)
    assert fit.iterations < 70


def test_sweeps_with_fewer_columns_are_those_with_all(monkeypatch):
    """Basis functions of two columns and a slope, more of them than the 14 cases."""
    smooth = gp.SquaredExponential(0.2, 1.5, columns=[0])
    smooth += gp.SquaredExponential(0.3, 0.8, columns=[1])
    model = gp.GPModel(PLACES, CLASSES, smooth + gp.Linear(0.5), gp.Softmax(), structure="basis")
    assert model.parts[0].n_latents > 2 * len(PLACES)
    fit = multi_expectation_propagation(model, np.empty(0))
    monkeypatch.setattr(multi_ep, "_with_fewest_columns", lambda maps: maps)
    slow = multi_expectation_propagation(model, np.empty(0))
    assert fit.iterations == slow.iterations
    assert fit.log_evidence == pytest.approx(slow.log_evidence, abs=1e-8)
    assert fit.predictor == pytest.approx(slow.predictor, abs=1e-8)


def test_a_climb_ends_where_the_evidence_is_nearly_flat():
    density = WarmFunctionsEvidence(MODELS["dense"]())
    modes = more_modes(density, [], np.array([[0.0, 0.0], [2.0, -1.0]]))
    assert len(modes) == 1
    assert np.abs(density.evaluate_gradient(modes[0].x)[1]).max() < 0.04


def test_fits_that_do_not_settle_from_nothing_are_reached_by_steps(monkeypatch):
    model, theta = MODELS["dense"](), np.array([0.5, 2.0])
    right = multi_expectation_propagation(model, theta)
    few = partial(multi_expectation_propagation, most=right.iterations - 1)
    monkeypatch.setattr(multi_maximum, "multi_expectation_propagation", few)
    fit = functions_fit(model, theta)
    assert np.array_equal(fit.theta, theta)
    assert fit.log_evidence == pytest.approx(right.log_evidence, abs=1e-5)


def test_joint_draws_at_new_inputs_have_the_moments_of_each_function():
    """Functions of one prior are drawn together, each about its own draws of the latents."""
    fit = multi_expectation_propagation(MODELS["dense"](), np.zeros(2))
    predictor = fit_predictor(fit, 2)
    moments, rng = predictor.moments(NEW), np.random.default_rng(0)
    drawn = np.array([predictor.draw(NEW, rng, 2) for _ in range(4000)])
    assert drawn.shape == (4000, *moments.mean.shape)
    assert drawn.mean(0) == pytest.approx(moments.mean, abs=0.06)
    assert drawn.var(0) == pytest.approx(moments.variance, abs=0.06)
    assert np.ptp(moments.mean, axis=(0, 1)).min() > 0.2


@pytest.mark.parametrize("n_draws", [3, 100, 450])
def test_many_draws_share_the_nodes_of_their_averages(n_draws):
    """Of 100 draws each has half of the nodes, in mirrored pairs; together they say what all would."""
    rng, likelihood = np.random.default_rng(n_draws), gp.Softmax(4)
    mean, variance = (
        1.5 * rng.standard_normal((n_draws, 3, 40)),
        rng.exponential(size=(n_draws, 3, 40)),
    )
    own = MultiConditional(mean, variance, [likelihood]).class_probabilities()
    every = zip(mean, variance, strict=True)
    right = np.mean([likelihood.class_probabilities(m, v) for m, v in every], axis=0)
    assert own == pytest.approx(right, abs=1e-12 if n_draws == 3 else 0.003)
    shares = [likelihood.some_nodes(k, 8) for k in range(8)]
    assert np.allclose([share.mean(0) for share in shares], 0.0)
    together = np.concatenate(shares)
    assert np.array_equal(np.unique(together, axis=0), np.unique(likelihood.nodes(), axis=0))


@pytest.mark.parametrize("name", ["dense", "basis"])
def test_the_search_ends_where_the_evidence_is_flat(name):
    model = MODELS[name]()
    best = maximise_multi_evidence(model)
    assert best.method == "ep"
    inside = np.abs(model.parameters.to_normal(best.theta)) < 2.99
    assert ep_gradient(best)[inside] == pytest.approx(0.0, abs=0.05)
    stored = fitted_at(model, best.theta)
    assert stored.method == "ep"
    assert stored.log_evidence == pytest.approx(best.log_evidence, abs=1e-8)


def test_the_average_over_one_hyperparameter():
    """log p(y) by the trapezium rule over an amplitude, and the amplitude's posterior mean."""
    model = of_classes(gp.Matern32(1.0, HALF))
    found = integrate(model)
    grid = np.linspace(-2.5, 2.5, 101)
    fits = [multi_expectation_propagation(model, np.array([at])).log_evidence for at in grid]
    log_p = np.array(fits) + [model.log_prior(np.array([at])) for at in grid]
    step = grid[1] - grid[0]
    assert isinstance(found, IntegratedFunctions)
    assert found.reliable
    assert found.log_evidence == pytest.approx(logsumexp(log_p) + np.log(step), abs=0.05)
    mean = np.exp(log_p - logsumexp(log_p)) @ grid
    assert found.theta.mean() == pytest.approx(mean, abs=0.12)
    assert abs(found.ep_error) < 0.2


def test_what_is_stored_is_read_again():
    model = MODELS["dense"]()
    found = integrate(model)
    again = IntegratedApproximation.of_dataset(model, found.to_dataset())
    assert isinstance(again, IntegratedFunctions)
    first, second = (gp.predict(fit, NEW).response_probability.values for fit in (found, again))
    assert np.array_equal(first, second)
    assert repr(again) == repr(found)


def test_draws_at_a_setting_have_the_moments_of_its_fit():
    found = integrate(MODELS["dense"]())
    mean, about = found.draws_at(0, np.random.default_rng(0), 20_000)
    assert not np.allclose(about[10_000:], -about[:10_000])  # each is a draw of its own
    fit = found.at(0)
    assert mean == pytest.approx(fit.predictor)
    assert about.mean(0) == pytest.approx(np.zeros((2, 14)), abs=0.05)
    inside = np.linalg.inv(np.linalg.inv(fit.cavity_covariance) + np.moveaxis(fit.precision, -1, 0))
    both = np.einsum("kan,kbn->nab", about, about) / len(about)
    assert both == pytest.approx(inside, abs=0.06)


def test_left_out_cases_of_an_average():
    """Weights 1 / p(y_i | y_-i, theta) of the settings, as of one function."""
    found = integrate(MODELS["dense"]())
    values = np.array([found.at(k).log_left_out for k in range(len(found.theta))])
    plain = np.log(len(values)) - logsumexp(-values, axis=0)
    scores = leave_one_out.over_settings(found)
    assert scores.by == "EP"
    assert scores.log_density == pytest.approx(plain, abs=0.02)
    assert gp.leave_one_out(found).attrs["elpd"] == pytest.approx(scores.log_density.sum())


def test_classes_far_apart_are_told_apart():
    """Laplace's Gaussian reaches across the boundary, where the posterior does not."""
    x = np.concatenate([np.linspace(-3.0, -1.0, 15), np.linspace(1.0, 3.0, 15), np.full(15, 6.0)])
    words = np.repeat(["a", "b", "c"], 15)
    model = gp.GPModel(x, words, "squared_exponential() + constant()", gp.Softmax())
    right = gp.predict(
        gp.approximate(model, integrated=True), [-2.0, 2.0, 6.0]
    ).response_probability
    assert np.diagonal(right.values).min() > 0.9
    laplace = gp.predict(gp.approximate(model, "laplace"), [-2.0, 2.0, 6.0]).response_probability
    assert np.diagonal(laplace.values).max() < 0.8


def test_which_models_are_averaged(monkeypatch):
    assert integrates(MODELS["dense"]())
    assert not integrates(
        gp.GPModel(PLACES, PLACES[:, 0], gp.Matern32(HALF, HALF), gp.HeteroscedasticGaussian())
    )
    monkeypatch.setattr("gpmcflow.approximations.integrated.MOST_ROWS", 27)  # 14 rows x 2 functions
    assert not integrates(MODELS["dense"]())
    monkeypatch.setattr("gpmcflow.approximations.integrated.MOST_ROWS", 28)
    assert integrates(MODELS["dense"]())


def test_no_free_hyperparameter():
    model = of_classes(gp.Matern32(1.0, 1.5))
    found = integrate(model)
    assert found.log_evidence == gp.approximate(model).log_evidence
    assert found.theta.shape == (1, 0)


@pytest.mark.parametrize("factor", [np.nan, -1e3])
def test_sites_without_a_covariance_are_an_error(factor):
    model = MODELS["dense"]()
    start = multi_expectation_propagation(model, np.zeros(2)).sites * factor
    with pytest.raises(NumericalError, match="no convergence at"):
        multi_expectation_propagation(model, np.zeros(2), start)


def test_left_out_cases_at_the_maximum():
    """By the cavities of EP; of Laplace's fit by its draws."""
    model = MODELS["dense"]()
    best = gp.approximate(model)
    scores = leave_one_out.of_functions_fit(best.fit)
    assert (scores.by, scores.pareto_k.max()) == ("EP", 0.0)
    assert np.array_equal(scores.log_density, best.fit.log_left_out)
    other = leave_one_out.of_functions_fit(fitted_at(model, best.theta).fit)
    assert other.log_density == pytest.approx(scores.log_density, abs=1e-6)
    laplace = leave_one_out.of_functions_fit(multi_laplace(model, np.zeros(2)))
    at_same = leave_one_out.of_functions_fit(multi_expectation_propagation(model, np.zeros(2)))
    assert laplace.by == "Laplace"
    assert laplace.log_density == pytest.approx(at_same.log_density, abs=0.5)
