"""Explanations: the curve of each mode of the hyperparameters, and its share."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gpmcflow as gp
from gpmcflow.contrasts.explanations import in_words, told_apart
from gpmcflow.errors import InputError


def two_explanations():
    """A slow wave with a fast one, which short length scales or noise explain."""
    rng = np.random.default_rng([77, 2])
    x = np.linspace(0.0, 5.0, 30)
    y = np.sin(1.3 * x) + 0.7 * np.sin(25.0 * x) + 0.1 * rng.standard_normal(30)
    normal = [gp.Hyperprior("norm", {"loc": loc, "scale": 1.0}) for loc in (0.0, -1.0)]
    covariance = gp.SquaredExponential(gp.Hyperprior.log_uniform(0.02, 20.0), normal[0])
    return gp.GPModel.from_frame(
        {"x": x, "y": y}, "y", covariance, gp.Gaussian(normal[1]), mean=0.0
    )


@pytest.fixture(scope="module")
def draws():
    return gp.sample(two_explanations(), n_chains=2, n_draws=400, predictive=False, seed=1)


def conditional_means(model, theta, values):
    """E[f(values) | y, theta], a row each, by dense algebra."""
    x = model.X[:, 0]
    means = []
    for length, sd, noise in np.exp(theta):
        k = lambda a, b: sd**2 * np.exp(-0.5 * ((a[:, None] - b) / length) ** 2)  # noqa: B023, E731
        means.append(k(values, x) @ np.linalg.solve(k(x, x) + noise**2 * np.eye(len(x)), model.y))
    return np.array(means)


def test_each_curve_is_that_of_the_draws_of_its_mode(draws):
    """Few draws have a noise level about 0.3, which is between the two explanations."""
    values = np.linspace(0.1, 4.9, 25)
    found = gp.explanations(draws, "x", values=values, n_draws=800)
    theta = draws["posterior"]["theta"].values.reshape(-1, 3)
    fast = theta[:, 2] < np.log(0.3)
    shares = np.array([1.0 - fast.mean(), fast.mean()])
    np.testing.assert_allclose(found["share"], shares, atol=0.01)
    assert list(found.explanation.values) == [f"{100 * s:.0f} %" for s in found["share"].values]
    for k, own in enumerate((~fast, fast)):
        exact = conditional_means(two_explanations(), theta[own], values).mean(0)
        error = found["sd"].isel(explanation=k).values / np.sqrt(own.sum())
        assert (np.abs(found["mean"].isel(explanation=k) - exact) < 5.0 * error).all()


def test_words_tell_what_differs(draws):
    words = gp.explanations(draws, "x", values=np.linspace(0.0, 5.0, 60)).attrs["in_words"]
    slow, fast = words.split("; ")
    assert "% with slower change, more noise, length_scale 1." in slow
    assert "% with faster change, less noise, length_scale 0.1" in fast


def test_the_report_shows_both_curves(draws, tmp_path):
    page = gp.report(draws, tmp_path).path.read_text(encoding="utf-8")
    assert "Two explanations of these rows are left: " in page
    table = pd.read_csv(tmp_path / "explanations.csv")
    assert table["by"].nunique() == 2
    slow, fast = (part["mean"].diff().abs().sum() for _, part in table.groupby("by", sort=False))
    assert fast > 2.0 * slow


def test_terms_that_change_places_are_one_explanation():
    rng = np.random.default_rng(5)
    x = np.linspace(0.0, 5.0, 30)
    y = np.sin(1.3 * x) + 0.7 * np.sin(6.0 * x) + 0.1 * rng.standard_normal(30)
    scale = gp.Hyperprior.log_uniform(0.02, 20.0)
    a, b = (gp.SquaredExponential(scale, 0.8, name=name) for name in "ab")
    model = gp.GPModel.from_frame({"x": x, "y": y}, "y", a + b, gp.Gaussian(0.1), mean=0.0)
    draws = gp.sample(model, n_chains=2, n_draws=200, predictive=False)
    assert (draws["modes"]["mass"] > 0.3).sum() == 2
    found = gp.explanations(draws, "x")
    assert found.sizes["explanation"] == 1
    assert found.attrs["in_words"] == "one explanation"


def test_curves_that_differ_are_told_apart_and_rare_modes_left_out():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2, 3], [50, 30, 17, 3])
    level = np.array([0.0, 10.0, 10.0, -10.0])[labels]
    curves = level[:, None] + rng.standard_normal((100, 4))
    shares = np.array([0.5, 0.3, 0.18, 0.02])
    theta = labels[:, None].astype(float)
    found = told_apart(labels, shares, theta, curves)
    assert [own.name for own in found] == ["50 %", "48 %"]
    np.testing.assert_array_equal(found[1].rows, np.arange(50, 97))
    np.testing.assert_array_equal(found[1].theta, [1.0])  # of the likelier of the two
    again = told_apart(labels, np.array([0.5, 0.32, 0.18, 0.0]), theta, curves)
    assert [own.name for own in again] == ["50 %", "50 % (2)"]
    assert in_words(two_explanations(), found[:1], curves) == "one explanation"


def test_draws_without_modes_say_what_to_do():
    model = gp.GPModel(np.arange(6.0), np.array([1, 0, 2, 3, 1, 0]), gp.Matern32(), gp.Poisson())
    draws = gp.sample(model, n_chains=1, n_draws=20, predictive=False)
    with pytest.raises(InputError, match=r'explanations: found no group "modes"; allowed: draws'):
        gp.explanations(draws, "x1")
