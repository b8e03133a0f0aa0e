"""Terms of additive models against closed forms, and coefficients of mixed models against their terms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gpmcflow as gp
from gpmcflow.contrasts.terms import term_names
from gpmcflow.covariances.expressions import short_text

N = 30
rng = np.random.default_rng(11)
FRAME = pd.DataFrame({
    "x": rng.uniform(0.0, 3.0, N),
    "dose": rng.uniform(1.0, 5.0, N),
    "g": rng.choice(list("abc"), N),
})  # fmt: skip
Y = np.sin(2.0 * FRAME.x) + 0.4 * FRAME.dose + 0.2 * rng.normal(size=N)
NEW = pd.DataFrame(
    {"x": [0.5, 1.1, 2.9], "dose": [1.0, 2.0, 4.0], "g": ["a", "new", "new"]}, index=list("uvw")
)
SLOPE, GROUP = gp.Linear(0.6, columns="dose"), gp.Group(0.7, columns="g")
DENSE = gp.Matern32(0.8, 1.0, columns="x") + SLOPE + GROUP * gp.Matern12(1.0, columns="x")
FEW = SLOPE + GROUP + gp.Constant(0.4) + gp.Categorical(1.0, 0.5, columns="g")
SMOOTH = gp.SquaredExponential(0.8, 1.0, columns="x") + GROUP
KINDS = {"dense": (DENSE, "dense"), "few": (FEW, "auto"), "basis": (SMOOTH, "basis"),
         "one": (gp.Matern32(0.8, 1.0, columns="x"), "dense")}  # fmt: skip
QUESTIONS = {"unseen": "new", "seed": 1}


def model_of(name, likelihood=None, y=Y):
    covariance, structure = KINDS[name]
    return gp.GPModel(
        FRAME, y, covariance, likelihood or gp.Gaussian(0.3), mean=0.2, structure=structure
    )


@pytest.mark.parametrize("name", KINDS)
def test_terms_of_a_fit_sum_to_the_whole_and_have_its_spread(name):
    fit = gp.approximate(model_of(name))
    parts = gp.decompose(fit, NEW, n_draws=20_000, **QUESTIONS)
    told = gp.predict(fit, NEW, unseen="new")
    np.testing.assert_allclose(parts["mean"].sum("term"), told.latent_mean, rtol=1e-9)
    assert list(parts.new_case.values) == list("uvw")
    drawn = gp.decompose(fit, NEW, summary=False, n_draws=20_000, **QUESTIONS).latent
    np.testing.assert_allclose(drawn.sum("term").std("draw")[0], told.latent_sd, rtol=0.03)
    np.testing.assert_allclose(drawn.std("draw")[0], parts["sd"], rtol=1e-9)


@pytest.mark.parametrize("name", ["dense", "few"])
def test_each_term_is_that_of_the_closed_form(name):
    covariance = KINDS[name][0]
    fit = gp.approximate(model_of(name))
    n = 20_000
    drawn = gp.decompose(fit, NEW, summary=False, n_draws=n, **QUESTIONS).latent.values[0]
    parts = gp.decompose(fit, NEW, n_draws=50, **QUESTIONS)
    both = pd.concat([FRAME, NEW], ignore_index=True)
    K = covariance(both)[:N, :N] + 0.3**2 * np.eye(N)
    terms = [term(both) for term in covariance.operands()]
    cross = np.concatenate([k[N:, :N] for k in terms])
    prior = np.zeros((len(cross), len(cross)))
    for j, k in enumerate(terms):
        prior[3 * j : 3 * j + 3, 3 * j : 3 * j + 3] = k[N:, N:]
    mean = cross @ np.linalg.solve(K, Y - 0.2)
    posterior = prior - cross @ np.linalg.solve(K, cross.T)
    told = parts["mean"].values[:-1].ravel()
    np.testing.assert_allclose(told, mean, atol=2e-5)  # but for the jitter
    flat = drawn[:, :-1].reshape(n, -1)
    sd = np.sqrt(np.diag(posterior))
    np.testing.assert_allclose(
        np.cov(flat.T) / np.outer(sd, sd), posterior / np.outer(sd, sd), atol=0.035
    )


@pytest.mark.parametrize("name", KINDS)
def test_terms_over_posterior_draws_sum_to_what_predict_says(name):
    counts = np.random.default_rng(2).poisson(np.exp(0.5 * Y))
    draws = gp.sample(model_of(name, gp.Poisson(), counts), n_chains=2, n_draws=15, seed=1)
    parts = gp.decompose(draws, NEW, **QUESTIONS)
    told = gp.predict(draws, NEW, unseen="new")
    np.testing.assert_allclose(parts["mean"].sum("term"), told.latent_mean, rtol=1e-8)


def test_names_of_terms():
    model = gp.GPModel(
        FRAME, Y, gp.Matern32(columns="x", name="trend") + GROUP * gp.Linear(columns=("x", "dose"))
        + gp.Matern12(columns="x") + gp.Matern12(columns="x", name="matern12(x)"), gp.Gaussian(0.3),
    )  # fmt: skip
    assert term_names(model) == [
        "trend",
        "group(g) * linear(x, dose)",
        "matern12(x)",
        "matern12(x) #2",
    ]
    assert (
        short_text((gp.White() + gp.Constant()) * SLOPE) == "(white() + constant()) * linear(dose)"
    )


@pytest.mark.parametrize("structure", ["auto", "dense"])
def test_coefficients_are_those_of_ridge_regression(structure):
    covariance = SLOPE + GROUP + gp.Constant(0.4)
    model = gp.GPModel.from_frame(
        FRAME.assign(y=Y), "y", covariance, gp.Gaussian(0.3), mean=0.2, structure=structure
    )
    n = 20_000
    table = gp.coefficients(gp.approximate(model), n_draws=n)
    dose = FRAME.dose.mean()
    levels = ["a", "b", "c"]
    Z = np.column_stack(
        [np.ones(N), FRAME.dose - dose, *[(FRAME.g == level).astype(float) for level in levels]]
    )
    precision = Z.T @ Z / 0.3**2 + np.diag(1.0 / np.array([0.4, 0.6, 0.7, 0.7, 0.7]) ** 2)
    mean = np.linalg.solve(precision, Z.T @ (Y - 0.2) / 0.3**2)
    cov = np.linalg.inv(precision)
    to_zero = np.eye(5)  # the intercept where the dose is 0
    to_zero[0, 1] = -dose
    mean, cov = to_zero @ mean + 0.2 * np.eye(5)[0], to_zero @ cov @ to_zero.T
    sd = np.sqrt(np.diag(cov))
    assert list(table.coefficient.values) == [
        "intercept", "dose", "g[a]", "g[b]", "g[c]", "sd(group(g))", "noise_sd",
        "share(linear(dose))", "share(group(g))", "share(rest)",
    ]  # fmt: skip
    assert list(table.kind.values) == [
        "intercept", "slope", "level", "level", "level", "sd", "likelihood",
        "share", "share", "share",
    ]  # fmt: skip
    np.testing.assert_allclose(table["mean"][:5], mean, atol=5 * sd.max() / np.sqrt(n))
    np.testing.assert_allclose(table["sd"][:5], sd, rtol=0.03)
    np.testing.assert_allclose(table["mean"][5:7], [0.7, 0.3])
    assert len(table.to_dataframe()) == 10
    beta = np.random.default_rng(0).multivariate_normal(mean, cov, 50_000)
    parts = [(beta[:, own] @ Z[:, own].T).var(1) for own in (slice(1, 2), slice(2, 5))]
    total = parts[0] + parts[1] + 0.3**2
    np.testing.assert_allclose(
        table["mean"][7:], [np.mean(part / total) for part in (*parts, 0.3**2)], atol=0.01
    )


def test_shares_of_curves_are_those_of_their_values_at_the_rows():
    covariance = gp.Matern32(0.8, 1.5, columns="x") + GROUP
    model = gp.GPModel.from_frame(FRAME.assign(y=Y), "y", covariance, gp.Gaussian(0.3), mean=0.2)
    fit = gp.approximate(model)
    found = gp.coefficients(fit, n_draws=4000)["mean"].to_series()
    drawn = gp.decompose(fit, FRAME, n_draws=4000, seed=1)
    curve = drawn["mean"].sel(term="matern32(x)").values.var()  # of the mean, so a little less
    shares = found.filter(like="share")
    assert shares.sum() == pytest.approx(1.0)
    assert list(shares.index) == ["share(matern32(x))", "share(group(g))", "share(rest)"]
    assert shares.iloc[0] / shares.iloc[2] * 0.3**2 == pytest.approx(curve, rel=0.6)
    labels = gp.GPModel(
        FRAME[["x"]], np.where(Y > 0, 1.0, -1.0), gp.Matern32(0.8, 2.0), gp.Probit()
    )
    shares = (
        gp.coefficients(gp.approximate(labels), n_draws=400)["mean"]
        .to_series()
        .filter(like="share")
    )
    assert shares.sum() == pytest.approx(1.0)
    counts = gp.GPModel(FRAME[["x"]], np.arange(N) % 3, gp.Matern32(0.8, 1.0), gp.Poisson())
    assert "share" not in gp.coefficients(gp.approximate(counts), n_draws=9)["kind"]


def test_coefficients_of_posterior_draws_hold_the_parameters_of_the_posterior():
    model = gp.GPModel.from_frame(
        FRAME.assign(y=Y), "y", "linear(dose) + group(g) + matern32(x, length_scale=0.8)", mean=0.2
    )
    draws = gp.sample(model, gp.UnivariateSlice(), n_chains=2, n_draws=25, seed=2)
    table = gp.coefficients(draws)
    by_name = table["mean"].to_series()
    assert "sd(matern32(x))" in by_name.index
    for name, own in (("sd(group(g))", "group.signal_sd"), ("noise_sd", "noise_sd")):
        assert by_name[name] == pytest.approx(float(draws.posterior[own].mean()))
    slope = gp.effects(draws, "dose", values=[1, 2], compare="slope", n_draws=400)
    assert by_name["dose"] == pytest.approx(float(slope["mean"][0]), abs=0.05)


def test_coefficients_of_slopes_by_group_are_those_of_generalised_least_squares():
    """Random intercepts and slopes with all variances known: best linear unbiased predictions."""
    rng = np.random.default_rng(11)
    group, day = np.repeat(list("abcd"), 6), np.tile(np.arange(6.0), 4)
    of_group = (group[:, None] == np.array(list("abcd"))).astype(float)
    Z = np.hstack([of_group, of_group * day[:, None]])
    y = 3.0 + 1.5 * day + Z @ rng.normal(0.0, [2.0] * 4 + [0.7] * 4) + 0.5 * rng.standard_normal(24)
    text = (
        "constant(signal_sd=1000.0) + linear(day, sd=1000.0) + group(group, signal_sd=2.0)"
        " + linear(day, sd=0.7) * group(group, signal_sd=1.0)"
    )
    frame = {"y": y, "day": day, "group": group}
    model = gp.GPModel.from_frame(frame, "y", text, gp.Gaussian(0.5), mean=0.0)
    assert model.structure_name == "basis"
    table = gp.coefficients(gp.approximate(model), n_draws=4000).to_dataframe()["mean"]
    X, prior = np.column_stack([np.ones(24), day]), np.diag([4.0] * 4 + [0.49] * 4)
    V = Z @ prior @ Z.T + 0.25 * np.eye(24)
    beta = np.linalg.solve(X.T @ np.linalg.solve(V, X), X.T @ np.linalg.solve(V, y))
    u = prior @ Z.T @ np.linalg.solve(V, y - X @ beta)
    names = [
        "intercept",
        "day",
        *(f"group[{g}]" for g in "abcd"),
        *(f"day:group[{g}]" for g in "abcd"),
    ]
    np.testing.assert_allclose(table[names], [*beta, *u], atol=0.12)  # of 4000 draws
    assert table["sd(day:group)"] == pytest.approx(0.7)
