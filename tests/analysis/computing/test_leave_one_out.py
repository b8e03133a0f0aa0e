"""Leave-one-out densities: refits without the case, cavities, and averages over draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

import gpmcflow as gp
from gpmcflow.analysis import fitting
from gpmcflow.analysis.scores import _error, left_out
from gpmcflow.approximations import leave_one_out
from gpmcflow.approximations.conditional import State, regression_predictor
from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.leave_one_out import (
    LeaveOneOut,
    _of_chain,
    at_theta,
    cavities_at,
    over_draws,
)
from gpmcflow.approximations.predictive import UNITS, log_predictive_density, mixture
from gpmcflow.errors import NumericalError


def refitted(model, theta, predictor_of):
    """log p(y_i | y_-i) by n fits without the case."""
    values = []
    for i in range(model.n_cases):
        others = np.delete(np.arange(model.n_cases), i)
        predictor = predictor_of(model.take(others), theta)
        names = set(UNITS) & set(model.likelihood.constants)
        units = {name: getattr(model.likelihood, name)[[i]] for name in names}
        eta = mixture([predictor.moments(model.X[[i]])], **units)
        values.append(log_predictive_density(eta, model.y[[i]])[0])
    return np.array(values)


def by_ep(model, theta):
    at = model.at(theta)
    return State(at, sites=expectation_propagation(at).sites).predictor()


def test_of_a_regression_equals_refits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(25, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=25)
    model = gp.GPModel(X, y, gp.Matern32(0.8, 1.3), gp.Gaussian(), mean=0.4, jitter=0.0)
    theta = model.theta_of({"noise_sd": 0.35})
    refits = refitted(model, theta, regression_predictor)
    np.testing.assert_allclose(at_theta(model, theta), refits, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("kind", "covariance"),
    [("binary", "squared_exponential()"), ("counts", "matern32()"), ("binomial", "matern32()")],
)
def test_of_ep_is_close_to_refits(data, model, kind, covariance):
    own = model(data(kind, 30), covariance)
    theta = own.prior_median()
    refits = refitted(own, theta, by_ep)
    values = at_theta(own, theta)
    np.testing.assert_allclose(values, refits, rtol=0, atol=0.1)
    assert abs(values.sum() - refits.sum()) < 0.1
    assert np.ptp(refits) > 0.5  # the cases differ by more than the tolerance


def test_fits_at_many_draws_are_within_a_thousandth_of_a_nat(data, model):
    for kind in ("binary", "counts", "binomial"):
        own = model(data(kind, 30), "squared_exponential()")
        thetas = own.prior_median() + np.random.default_rng(0).normal(0.0, 0.5, (20, own.dim))
        exact = np.array([at_theta(own, theta) for theta in thetas])
        values, _ = _of_chain(own, thetas, False)
        np.testing.assert_allclose(values, exact, rtol=0, atol=1e-3, err_msg=kind)
        assert np.abs(values - exact).max() > 1e-12, kind  # of fits that begin at those before


@pytest.mark.parametrize("kind", ["grades", "share"])
def test_responses_of_cavities_are_close_to_refits(data, model, kind):
    own = model(data(kind, 30), "matern32()")
    theta = own.prior_median()
    found = cavities_at(own, theta)[0].response()
    refits = []
    for i in range(own.n_cases):
        others = np.delete(np.arange(own.n_cases), i)
        eta = by_ep(own.take(others), theta).moments(own.X[[i]])
        refits.append(eta.class_probabilities() if kind == "grades" else eta.mean_response())
    refits = np.concatenate(refits, axis=-1)
    np.testing.assert_allclose(found, refits, atol=0.02)
    assert np.ptp(refits, axis=-1).max() > 0.2  # the cases differ by more than the tolerance


def test_responses_are_averaged_with_the_weights_of_a_left_out_case():
    """Of two settings that give a case the densities 1 / 2 and 1 / 4, the second counts twice."""
    values = np.log([[[0.5], [0.25]]])
    chances = np.array([[[[0.9], [0.1]], [[0.3], [0.7]]]])
    found = leave_one_out._average_response(values, chances)
    np.testing.assert_allclose(found, [[0.5], [0.5]])


@pytest.mark.parametrize("kind", ["grades", "share"])
def test_a_report_by_leave_one_out_has_errors_of_grades_and_shares(data, model, draw, kind):
    """Few rows are held out, so that each is left out: by a quick fit, and by draws."""
    rows = data(kind, 80)
    own = model(rows, "linear()")
    quick = fitting.fit(own, rows, {"temperatures": 2, "particles": 10}, seed=1, key=("x", "a"))
    full = fitting.summarise(own, draw(own), rows, seed=1, key=("x", "a"))
    found = [left_out(tree, rows) for tree in (quick, full)]
    outcome = rows.learning.outcome
    for predicted in found:
        by_chance = np.bincount(outcome.astype(int)).max() if kind == "grades" else outcome.std()
        error = _error(kind, rows.learning, predicted)["error"]
        assert error < (len(outcome) - by_chance if kind == "grades" else by_chance)
    apart = found[0] != found[1] if kind == "grades" else np.abs(found[0] - found[1]) > 0.05
    assert np.mean(apart) < 0.15


def test_of_draws_of_the_latents_is_exact(monkeypatch):
    """Labels and counts: log p(y) - log p(y_-i), both by sums over a grid of three latents."""
    x, t = np.array([0.0, 0.3, 0.5]), np.linspace(-7.0, 7.0, 61)
    for likelihood, y in ((gp.Probit(), [1.0, -1.0, 1.0]), (gp.Poisson(), [0.0, 5.0, 1.0])):
        model = gp.GPModel(x, np.array(y), gp.Matern12(1.0, 4.0), likelihood, mean=0.3)
        L = model.cholesky(model.full(()))
        z = np.stack(np.meshgrid(t, t, t, indexing="ij"), -1).reshape(-1, 3)
        f = z @ L.T
        log_p = likelihood.derivatives(f + 0.3, model.y)[0]
        prior = -0.5 * (z**2).sum(1)
        all_ = logsumexp(prior + log_p.sum(1))
        right = [all_ - logsumexp(prior + np.delete(log_p, i, 1).sum(1)) for i in range(3)]
        rng, weights = np.random.default_rng(1), np.exp(prior + log_p.sum(1) - all_)
        draws = f[rng.choice(len(f), 1000, p=weights / weights.sum())]
        by_ep = at_theta(model, np.empty(0))
        with monkeypatch.context() as patch:  # the same at every draw
            repeated = np.tile(by_ep, (1000, 1))
            patch.setattr(leave_one_out, "_of_chain", lambda *_, own=repeated: (own, []))
            found = over_draws(model, np.empty((1, 1000, 0)), draws[None])
        np.testing.assert_allclose(found.log_density, right, atol=0.08, err_msg=likelihood.name)
        assert found.by == "draws", likelihood.name
        assert likelihood.name == "poisson" or np.abs(by_ep - right).max() > 0.2  # what EP says
        expected = np.abs(found.log_density - by_ep).max()
        assert found.ep_difference == pytest.approx(expected, abs=1e-3), likelihood.name


def preset(monkeypatch, values):
    """Densities (draw, n) in the place of those of a model, by the number of the draw."""
    monkeypatch.setattr(leave_one_out, "how", lambda model: "EP")
    of_chain = lambda model, thetas, _: (values[thetas[:, 0].astype(int)], [])  # noqa: E731
    monkeypatch.setattr(leave_one_out, "_of_chain", of_chain)
    return np.arange(len(values), dtype=float).reshape(2, -1, 1)


def test_of_a_case_that_draws_cannot_tell_the_value_is_that_of_the_fit(monkeypatch):
    rng = np.random.default_rng(0)
    exact = np.stack([rng.normal(-1.0, 0.1, 400), -3.0 * rng.exponential(size=400)], axis=-1)
    by_fit = np.tile([-1.5, -2.5], (400, 1)) + 0.01 * rng.normal(size=(400, 2))
    monkeypatch.setattr(leave_one_out, "of_latents", lambda model, theta, f: exact[int(f[0])])
    latents = np.arange(400.0).reshape(2, 200, 1)
    found = over_draws(None, preset(monkeypatch, by_fit), latents)
    assert found.pareto_k[0] < 0.7 < found.pareto_k[1]
    np.testing.assert_allclose(found.log_density, [plain(exact)[0], plain(by_fit)[1]], atol=0.01)


def plain(values):
    return np.log(len(values)) - logsumexp(-values, axis=0)


def test_draws_that_repeat_are_the_plain_mean(monkeypatch):
    values = np.tile(np.array([[-0.5, -2.0, -0.1]]), (60, 1))
    found = over_draws(None, preset(monkeypatch, values))
    np.testing.assert_allclose(found.log_density, [-0.5, -2.0, -0.1], rtol=1e-12)
    assert np.all(np.isinf(found.pareto_k))
    values[:, 1] = np.random.default_rng(0).normal(
        -2.0, 0.1, 60
    )  # a tail can be fitted to this one
    values[::3, 2] = -0.4  # and not to the least densities of this one, which are equal
    found = over_draws(None, preset(monkeypatch, values))
    assert list(np.isinf(found.pareto_k)) == [True, False, True]
    np.testing.assert_allclose(found.log_density[[0, 2]], plain(values)[[0, 2]], rtol=1e-12)
    assert found.log_density[1] == pytest.approx(plain(values)[1], abs=0.01)


def test_weights_are_inverse_densities(monkeypatch):
    rng = np.random.default_rng(1)
    values = -1.0 + 0.1 * rng.normal(size=(100, 4))
    found = over_draws(None, preset(monkeypatch, values))
    np.testing.assert_allclose(found.log_density, plain(values), atol=2e-3)
    assert np.all(plain(values) < np.log(np.exp(values).mean(0)) - 4e-3)  # another average
    assert np.all(found.pareto_k < 0.7)


def test_a_heavy_tail_has_a_large_k(monkeypatch):
    rng = np.random.default_rng(2)
    values = np.column_stack(
        [-1.0 + 0.01 * rng.normal(size=200), -3.0 * rng.standard_exponential(200)]
    )
    found = over_draws(None, preset(monkeypatch, values))
    assert found.pareto_k[0] < 0.7 < found.pareto_k[1]
    assert found.bad_share == 0.5


def test_few_draws_are_averaged_as_they_are(monkeypatch):
    values = -np.random.default_rng(3).random((6, 5))
    found = over_draws(None, preset(monkeypatch, values))
    np.testing.assert_allclose(found.log_density, plain(values), rtol=1e-12)
    assert found.bad_share == 1.0


def test_draws_without_a_fit_are_left_out_of_all_chains(monkeypatch):
    values = -np.random.default_rng(4).random((6, 5))
    values[1, 3] = np.nan  # of chain 0; the draw at its place in chain 1 goes, too
    found = over_draws(None, preset(monkeypatch, values))
    np.testing.assert_allclose(found.log_density, plain(values[[0, 2, 3, 5]]), rtol=1e-12)
    with pytest.raises(NumericalError, match="fit converges at none"):
        over_draws(None, preset(monkeypatch, np.full((6, 5), np.nan)))


def test_a_fit_that_does_not_converge_is_nan(monkeypatch, data, model):
    def fails(at, **settings):
        raise NumericalError("EP")

    own = model(data("binary"), "matern32()")
    monkeypatch.setattr(leave_one_out, "quick_fit", fails)
    assert np.isnan(at_theta(own, own.prior_median())).all()


def test_share_of_bad_k_is_of_those_above_the_limit():
    assert LeaveOneOut(np.zeros(4), np.array([0.7, 0.71, 0.2, np.inf])).bad_share == 0.5
