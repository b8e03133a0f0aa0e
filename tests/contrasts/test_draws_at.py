"""Joint draws at new inputs against the Gaussians they come from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gpmcflow as gp
from gpmcflow.errors import InputError

N = 24
rng = np.random.default_rng(1)
FRAME = pd.DataFrame({
    "x": rng.uniform(0.0, 3.0, N),
    "g": rng.choice(list("abc"), N),
})  # fmt: skip
Y = np.sin(2.0 * FRAME.x) + FRAME.g.map({"a": -0.5, "b": 0.0, "c": 0.8}) + 0.2 * rng.normal(size=N)
NEW = pd.DataFrame(
    {"x": [0.5, 0.5, 1.1, 2.9, 1.1, 1.1], "g": ["a", "b", "c", "a", "new", "new"]},
    index=list("uvwxyz"),
)
MATERN = gp.Matern32(0.8, 1.0, columns="x")
GROUP = gp.Group(0.7, columns="g")
SLOPE = gp.Linear(0.6, columns="x")
COVARIANCES = {
    "dense": (MATERN + GROUP, "dense"),
    "white": (MATERN + gp.White(0.5) + GROUP, "dense"),
    "slopes apart": (MATERN + SLOPE + GROUP, "dense"),
    "few functions": (SLOPE + GROUP + gp.Constant(0.4), "auto"),
    "basis": (
        gp.SquaredExponential(0.8, 1.0, columns="x") + GROUP,
        gp.BasisFunctions(m=40, boundary=3.0),
    ),
}


def by_hand(covariance, noise=0.3, mean=0.2):
    """Mean and covariance of f_* + c given y by the closed form, of levels coded together."""
    both = pd.concat([FRAME, NEW], ignore_index=True)
    K = covariance(both)
    C = K[:N, :N] + noise**2 * np.eye(N)
    gain = np.linalg.solve(C, K[:N, N:]).T
    return mean + gain @ (Y - mean), K[N:, N:] - gain @ K[:N, N:]


@pytest.mark.parametrize("name", COVARIANCES)
def test_draws_of_a_fit_have_the_mean_and_the_covariance_of_the_posterior(name):
    covariance, structure = COVARIANCES[name]
    model = gp.GPModel(FRAME, Y, covariance, gp.Gaussian(0.3), mean=0.2, structure=structure)
    n = 40_000
    eta = gp.draws_at(
        gp.approximate(model), NEW, kind="latent", unseen="new", n_draws=n, seed=3
    ).latent
    assert list(eta.new_case.values) == list(NEW.index)
    mean, K = by_hand(covariance)
    values = eta.values[0]
    sd = np.sqrt(np.diag(K))
    np.testing.assert_allclose(values.mean(0), mean, atol=5 * sd.max() / np.sqrt(n) + 1e-3)
    correlations = np.cov(values.T) / np.outer(sd, sd)
    np.testing.assert_allclose(correlations, K / np.outer(sd, sd), atol=0.03)


@pytest.mark.parametrize("name", ["dense", "few functions", "basis"])
def test_draws_over_posterior_draws_agree_with_predict(name):
    covariance, structure = COVARIANCES[name]
    model = gp.GPModel(FRAME, Y, covariance, gp.Gaussian(), mean=0.2, structure=structure)
    draws = gp.sample(model, gp.UnivariateSlice(), n_chains=2, n_draws=50, seed=5)
    told = gp.predict(draws, NEW, unseen="new")
    eta = gp.draws_at(draws, NEW, kind="latent", unseen="new", n_draws=100).latent
    assert dict(eta.sizes) == {"chain": 2, "draw": 50, "new_case": 6}
    gap = (eta.mean(("chain", "draw")) - told.latent_mean) / told.latent_sd
    assert np.abs(gap.values).max() < 5.0 / np.sqrt(100)
    np.testing.assert_allclose(eta.std(("chain", "draw")), told.latent_sd, rtol=0.35)


@pytest.fixture(scope="module")
def counts():
    visits = np.random.default_rng(2).poisson(2.0 * np.exp(0.5 * Y))
    model = gp.GPModel(
        FRAME, visits, MATERN + GROUP, gp.Poisson(exposure=np.full(N, 2.0)), mean=0.2
    )
    return gp.sample(model, n_chains=2, n_draws=60, seed=1)


def test_given_latents_the_cases_keep_their_own_values(counts):
    eta = gp.draws_at(counts, FRAME, kind="latent", n_draws=120).latent
    np.testing.assert_allclose(eta, counts.posterior.latent, atol=1e-4)  # but for the jitter


FREE = gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.5})


@pytest.mark.parametrize("structure", ["dense", "kronecker", "basis"])
def test_at_free_hyperparameters_the_cases_keep_their_own_values(structure):
    x, z = (axis.ravel() for axis in np.meshgrid(np.arange(4.0), np.arange(3.0), indexing="ij"))
    cases = pd.DataFrame({"x": x, "z": z})
    covariance = gp.Matern32(1.5, FREE, columns="x") * gp.Matern12(2.0, columns="z")
    if structure == "basis":
        covariance = (
            gp.Linear(FREE, columns=("x", "z")) + gp.Group(FREE, columns="z") + gp.Constant(1.0)
        )
    counts = np.random.default_rng(3).poisson(3.0, len(x))
    model = gp.GPModel(
        cases, counts, covariance, gp.Poisson(), mean=FREE, structure=structure,
        jitter=None if structure == "basis" else 1e-8,
    )  # fmt: skip
    draws = gp.sample(model, gp.JointSplitHMC(rounds=(40, 60)), n_chains=2, n_draws=10, seed=2)
    own = draws.posterior_predictive["eta"].values
    eta = gp.draws_at(draws, cases, kind="latent").latent
    np.testing.assert_allclose(eta, own, atol=5e-3)
    told = gp.predict(draws, cases.iloc[:2] + 0.25, unseen="new")
    parts = gp.decompose(draws, cases.iloc[:2] + 0.25, unseen="new")
    np.testing.assert_allclose(parts["mean"].sum("term"), told.latent_mean, rtol=1e-8)


def test_kinds_are_made_of_the_same_latents(counts):
    settings = {"unseen": "new", "seed": 4, "n_draws": 40}
    eta = gp.draws_at(counts, NEW, kind="latent", **settings).latent
    mean = gp.draws_at(counts, NEW, exposure=3.0, **settings)["mean"]
    np.testing.assert_allclose(mean, 3.0 * np.exp(eta))
    seen = gp.draws_at(counts, NEW, kind="response", exposure=3.0, **settings).response
    assert (seen == np.floor(seen)).all()
    gap = (seen - mean) / np.sqrt(mean)
    assert abs(float(gap.mean())) < 4.0 / np.sqrt(gap.size)
    assert list(eta.draw.values[[0, -1]]) == [0, 59]
    assert eta.sizes["draw"] == 20


def test_rows_with_one_new_level_share_it():
    for structure in ("auto", "dense"):
        model = gp.GPModel(FRAME, Y, GROUP, gp.Gaussian(0.3), structure=structure)
        assert (model.structure_name == "basis") == (structure == "auto")
        eta = gp.draws_at(
            gp.approximate(model), NEW, kind="latent", unseen="new", n_draws=50
        ).latent.values[0]
        np.testing.assert_allclose(eta[:, 4], eta[:, 5], atol=1e-5)
        assert eta[:, 4].std() > 0.4


def test_messages(counts):
    with pytest.raises(
        InputError, match=r"draws_at: kind: unknown name 'means'; did you mean 'mean'"
    ):
        gp.draws_at(counts, NEW, kind="means")
    with pytest.raises(InputError, match=r"draws_at: exposure\[0\] is -1"):
        gp.draws_at(counts, FRAME, exposure=-1.0)
    with pytest.raises(InputError, match="draws_at: found a GPModel; allowed: draws of sample"):
        gp.draws_at(gp.GPModel(FRAME, Y, GROUP, gp.Gaussian(0.3)), NEW)
    with pytest.raises(InputError, match="which was not seen"):
        gp.draws_at(gp.approximate(gp.GPModel(FRAME, Y, gp.Categorical(1.0, 1.0, columns="g"),
                                              gp.Gaussian(0.3))), NEW)  # fmt: skip


@pytest.mark.parametrize("n_draws", [20, 3000])
def test_an_integrated_fit_shares_its_draws_among_its_settings(n_draws):
    x = np.linspace(0.0, 1.0, 30)
    y = (np.sin(6.0 * x) + np.random.default_rng(1).standard_normal(30)) > 0.0
    model = gp.GPModel(x, np.where(y, 1.0, -1.0), gp.Matern32(), gp.Logistic())
    fit = gp.approximate(model, integrated=True)
    drawn = gp.draws_at(fit, x[:5], kind="latent", n_draws=n_draws, seed=2)
    values = next(iter(drawn.data_vars.values())).values.reshape(-1, 5)
    assert len(values) == n_draws
    if n_draws == 3000:
        found = gp.predict(fit, x[:5])
        np.testing.assert_allclose(values.mean(0), found.latent_mean, atol=0.08)
        np.testing.assert_allclose(values.std(0), found.latent_sd, rtol=0.08)
