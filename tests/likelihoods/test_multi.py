"""Likelihoods of several latent functions: derivatives, information, simulation, averages."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import gpmcflow as gp
from gpmcflow.errors import InputError

LIKELIHOODS = {
    "softmax": (gp.Softmax(4), np.array([1.0, 4.0, 2.0, 3.0, 1.0])),
    "heteroscedastic": (gp.HeteroscedasticGaussian(), np.array([0.3, -2.0, 1.0, 0.0, 5.0])),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_gradients_are_those_of_the_density(name):
    likelihood, y = LIKELIHOODS[name]
    eta = np.random.default_rng(0).normal(size=(2, len(likelihood.functions), 5))
    value, slope = likelihood.log_density_and_gradient(eta, y)
    assert value.shape == (2,)
    for c in range(eta.shape[1]):
        for i in range(5):
            move = np.zeros_like(eta)
            move[:, c, i] = 1e-6
            by_difference = (
                likelihood.log_density(eta + move, y) - likelihood.log_density(eta - move, y)
            ) / 2e-6
            assert slope[:, c, i] == pytest.approx(by_difference, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_information_is_the_variance_of_the_slope(name):
    likelihood, _ = LIKELIHOODS[name]
    rng, q = np.random.default_rng(1), len(likelihood.functions)
    eta = np.broadcast_to(rng.normal(size=(q, 1)), (q, 200_000))
    y = likelihood.simulate(rng, eta)
    slope = likelihood.derivatives(eta, y)[1]
    blocks = likelihood.information_blocks(eta[:, :1], y[:1])[..., 0]
    assert slope.mean(1) == pytest.approx(np.zeros(q), abs=0.02)
    assert slope @ slope.T / slope.shape[1] == pytest.approx(blocks, abs=0.03)
    assert likelihood.information(eta[:, :1], y[:1])[:, 0] == pytest.approx(np.diag(blocks))


def test_softmax_is_symmetric_in_its_classes():
    """Contrasts that are orthonormal give eta the covariance (I - 1 1' / C) k, whatever the order."""
    A = gp.Softmax(5).contrasts
    assert pytest.approx(np.eye(4), abs=1e-14) == A.T @ A
    assert pytest.approx(np.eye(5) - 0.2, abs=1e-14) == A @ A.T


def test_two_classes_are_a_logistic_of_a_latent_sqrt_2_times_as_large():
    u = np.linspace(-3.0, 3.0, 7)[None]
    own = gp.Softmax(2).derivatives(u, np.ones(7))[0]
    assert own == pytest.approx(gp.Logistic().derivatives(np.sqrt(2.0) * u[0], np.ones(7))[0])


def test_shares_of_simulated_classes_are_their_probabilities():
    likelihood = gp.Softmax(("ash", "beech", "oak"))
    eta = np.broadcast_to(np.array([[0.7], [-0.4]]), (2, 100_000))
    y = likelihood.simulate(np.random.default_rng(2), eta)
    shares = [(y == k).mean() for k in (1.0, 2.0, 3.0)]
    known = likelihood.class_probabilities(eta[:, :1], np.zeros((2, 1)))[:, 0]
    assert shares == pytest.approx(known.tolist(), abs=0.006)
    assert known.sum() == pytest.approx(1.0)


def test_averages_over_normal_functions():
    """Of varying noise in closed form over the mean, so one integral is left; of classes by nodes."""
    likelihood, y = gp.HeteroscedasticGaussian(), np.array([0.4])
    m, v, g, s = 0.1, 0.5, -0.7, 0.6

    def density(at: float) -> float:
        return norm.pdf(y[0], m, np.sqrt(v + np.exp(2.0 * at))) * norm.pdf(at, g, s)

    exact = np.log(quad(density, g - 9.0 * s, g + 9.0 * s, epsabs=1e-13)[0])
    mean, variance = np.array([[m], [g]]), np.array([[v], [s * s]])
    assert likelihood.log_mean(y, mean, variance)[0] == pytest.approx(exact, abs=1e-9)
    softmax = gp.Softmax(2)  # one function: a logistic under N(0.3, 0.8)
    by_nodes = softmax.class_probabilities(np.array([[0.3]]), np.array([[0.8]]))[0, 0]
    exact = gp.Logistic().mean_response(np.array([0.3 * np.sqrt(2.0)]), np.array([1.6]))[0]
    assert by_nodes == pytest.approx(exact, abs=2e-3)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_compiled_loops_of_classes(n_classes):
    """They are what `log_probabilities` says of any number of cases, draws and sizes of the functions."""
    likelihood, rng = gp.Softmax(n_classes), np.random.default_rng(n_classes)
    sizes = np.array([1.0, 30.0, 1e4])[:, None, None]
    eta = sizes * rng.standard_normal((3, n_classes - 1, 300))
    y = rng.integers(1, n_classes + 1, 300).astype(float)
    log_p = likelihood.log_probabilities(eta)
    seen = np.take_along_axis(log_p, y[None, None].astype(int) - 1, axis=1)[:, 0]
    assert likelihood.case_log_density(eta, y) == pytest.approx(seen, rel=1e-12, abs=1e-12)
    variance = rng.exponential(size=eta.shape)
    by_nodes = np.exp(likelihood.log_probabilities(likelihood.at_nodes(eta, variance))).mean(0)
    own = likelihood.class_probabilities(eta, variance)
    assert own.shape == (n_classes, 3, 300)
    assert own == pytest.approx(np.moveaxis(by_nodes, -2, 0), abs=1e-12)
    known = likelihood.class_probabilities(eta, np.zeros_like(eta))
    assert known == pytest.approx(np.moveaxis(np.exp(log_p), -2, 0), abs=1e-12)
    eta[0, 0, :2] = np.nan, np.inf
    with np.errstate(all="ignore"):
        assert np.isnan(likelihood.case_log_density(eta, y)[0, :2]).all()


def test_classes_are_read_from_words_and_categories():
    words = ["oak", "ash", "oak", "beech"]
    own = gp.Softmax().with_levels_of(words)
    assert own.levels == ("ash", "beech", "oak")
    assert own.coded(words).tolist() == [3.0, 1.0, 3.0, 2.0]
    stated = pd.Categorical(words, categories=["oak", "beech", "ash"])
    assert gp.Softmax().with_levels_of(stated).levels == ("oak", "beech", "ash")
    assert gp.Softmax().with_levels_of(np.array([1.0, 3.0, 2.0])).levels == 3


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: gp.Softmax(1), "2 classes or more"),
        (lambda: gp.Softmax(("a", "a")), "levels is"),
        (lambda: gp.Softmax(("a", "b")).coded(["a", "c"]), "y\\[1\\] is 'c'"),
        (lambda: gp.GPModel(np.arange(3.0), [1, 0.5, 2], "matern32()", gp.Softmax()), "is 0.5"),
        (lambda: gp.Softmax().n_levels, "levels is left out"),
    ],
)
def test_what_softmax_refuses(make, said):
    with pytest.raises(InputError, match=said):
        make()


def classes_of(likelihood, y):
    model = gp.GPModel(np.arange(float(len(y))), y, gp.Matern32(), likelihood)
    return model.likelihood.levels, model.y.tolist()


def test_classes_that_count_from_zero_are_named_by_their_numbers():
    """As scikit-learn's targets; a model made of a model's y has the same classes again."""
    named = (("0", "1", "2"), [1.0, 2.0, 3.0, 2.0])
    y = np.array([0, 1, 2, 1])
    for own in (y, y.astype(float), pd.Series(y), pd.Series(y).astype("category"), y.tolist()):
        assert classes_of(gp.Softmax(), own) == named
    assert classes_of(gp.Softmax(named[0]), np.array(named[1])) == named
    assert classes_of(gp.Softmax(), y - 1) == (("-1", "0", "1"), named[1])
    assert classes_of(gp.Softmax(), y + 1) == (3, named[1])


def test_numbers_in_text_are_labels_and_grades():
    y = ["1", "-1", "1"]
    for own in (y, np.array(y, dtype=object)):
        model = gp.GPModel(np.arange(3.0), own, gp.Matern32(), gp.Logistic())
        assert model.y.tolist() == [1.0, -1.0, 1.0]
    assert classes_of(gp.Ordinal(3), ["1", "3", "2"]) == (3, [1.0, 3.0, 2.0])


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (gp.Softmax(3), ["b", "a"], r"y\[0\] is 'b', and levels is 3; name the classes .*=\('a', 'b'\)"),
        (gp.Ordinal(3), ["b", "a"], r"y\[0\] is 'b', and levels is 3; name the grades in their order"),
        (gp.Ordinal(("a", "b")), ["b", "c"], r"y\[1\] is 'c'; allowed: a, b; add it to levels"),
        (gp.Softmax(3), [0, 2], r"y\[0\] is 0; allowed: classes 1 to 3, .*write y \+ 1$"),
        (gp.Ordinal(3), [1, 4], r"y\[1\] is 4; allowed: grades 1 to 3, or their names as words$"),
        (gp.Probit(), ["no", "yes"], r"y\[0\] is 'no'; allowed: -1 and \+1; write .* == 'yes', 1, -1\)"),
        (gp.HeteroscedasticGaussian(), ["no", "yes"], "y holds other than numbers"),
        (gp.Softmax(), ["no", None, "yes"], r"y\[1\] is missing; leave the case out"),
        (gp.Ordinal(("a", "b")), ["a", np.nan], r"y\[1\] is missing; leave the case out"),
    ],
)  # fmt: skip
def test_words_and_numbers_that_are_no_levels_are_told(likelihood, y, message):
    with pytest.raises(InputError, match=message):
        classes_of(likelihood, y)
