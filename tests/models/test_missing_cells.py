"""Grids whose cases are not the cells in their order: missing cells, several cases in a cell, any order.

The reference is the complete grid, or the dense covariance: what a cell without a case adds is nothing.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import gpmcflow as gp
from gpmcflow.approximations.conditional import latent_predictor
from gpmcflow.approximations.frozen_sites import rank_one_sites
from gpmcflow.covariances.leaves import Constant, Matern32, Periodic, SquaredExponential
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Binomial, Logistic, Poisson
from gpmcflow.models.description import describe, model_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.kronecker_structure import KroneckerStructure
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.parameters.hyperpriors import Hyperprior

LENGTH = Hyperprior.log_uniform(0.2, 3.0)
SIGNAL = Hyperprior("norm", {"loc": 0.2, "scale": 0.6})
MEAN = Hyperprior("norm", {"loc": 0.1, "scale": 0.5})
PRODUCT = Matern32(LENGTH, SIGNAL, columns=0) * (
    Periodic(LENGTH, 0.8, period=1.3, columns=1) + Constant(0.6)
)
SHAPE = 5, 4
GRID = np.stack(np.meshgrid(np.linspace(0, 1, 5), np.linspace(0, 2, 4), indexing="ij"), -1)
CELLS = GRID.reshape(-1, 2)
KEPT = {
    "one missing": np.delete(np.arange(20), 7),
    "a missing half": np.flatnonzero(
        (CELLS[:, 0] < 0.2) | (CELLS[:, 1] < 0.5) | (CELLS[:, 0] > 0.9)
    ),
    "another order": np.random.default_rng(3).permutation(20),
    "several in a cell": np.array([*range(19), 3, 3, 11]),
}
COVARIANCES = {"isotropic": SquaredExponential(LENGTH, SIGNAL), "product": PRODUCT}
LIKELIHOODS = {"counts": Poisson, "labels": Logistic}


def responses(likelihood, size, seed=0):
    """Labels, or counts."""
    rng = np.random.default_rng(seed)
    return rng.choice([-1.0, 1.0], size) if likelihood is Logistic else rng.poisson(2.0, size) * 1.0


def build(kept, covariance="isotropic", likelihood=Poisson, jitter=1e-3, structure="auto"):
    """A model of some of the cells, and the one of all."""
    y = responses(likelihood, 20)
    own = COVARIANCES[covariance], likelihood(), MEAN, jitter
    rows = KEPT[kept] if isinstance(kept, str) else kept
    part = GPModel(CELLS[rows], y[rows], *own, structure)
    return part, GPModel(CELLS, y, *own, structure)


def point(model, seed=1):
    """Sites of rank one, and a point."""
    rng, (first, second) = np.random.default_rng(seed), SHAPE
    w = np.outer(rng.uniform(0.2, 3.0, first), rng.uniform(0.2, 3.0, second)).ravel()
    sites = FrozenSites(w, rng.standard_normal(20))
    return sites, 0.6 * rng.standard_normal(model.dim), rng.standard_normal(40)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("kept", KEPT)
def test_the_density_is_that_of_the_complete_grid_with_the_cases_alone(
    kept, covariance, likelihood
):
    model, whole = build(kept, covariance, LIKELIHOODS[likelihood])
    sites, x, z = point(model)
    densities = [JointDensity(own, sites) for own in (model, whole)]
    assert isinstance(densities[0].structure, KroneckerStructure)
    at, of_all = (density.evaluate(x, z) for density in densities)
    f = of_all.latents
    assert np.allclose(at.latents, f, rtol=0, atol=1e-10)
    eta = f + whole.mean_at(whole.full(of_all.theta))
    each = whole.likelihood.derivatives(eta, whole.y)[0]
    by_cases = float(each[KEPT[kept]].sum())
    assert at.log_likelihood == pytest.approx(by_cases, rel=1e-12)
    assert at.rest == pytest.approx(of_all.rest - each.sum() + by_cases, rel=1e-10)
    assert densities[0].value(x, z) == pytest.approx(at.rest, rel=1e-12)
    assert densities[0].log_constant() == densities[1].log_constant()
    K = whole.covariance_matrix(at.theta)
    prior = multivariate_normal(np.zeros(20), K).logpdf(f)
    assert at.complete == pytest.approx(by_cases + prior, rel=1e-8)
    slow = model.log_density(at.theta, f)
    assert slow == pytest.approx(at.complete + model.log_prior(at.theta), rel=1e-8)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kept", KEPT)
def test_gradients_are_those_of_differences(kept, likelihood):
    model, _ = build(kept, "product", LIKELIHOODS[likelihood])
    sites, x, z = point(model)
    density, h = JointDensity(model, sites), 1e-4
    at = density.evaluate(x, z)
    slope = np.concatenate([at.slope_x, at.slope_z])
    q, differences = np.concatenate([x, z]), []
    for step in h * np.eye(len(q)):
        up, down = (density.value(*np.split(q + s * step, [len(x)])) for s in (1, -1))
        differences.append((up - down) / (2 * h))
    assert np.abs(slope - differences).max() < 1e-6 * np.abs(slope).max()


def test_a_slope_that_misses_its_cell_is_caught(monkeypatch):
    model, _ = build("a missing half")
    sites, x, z = point(model)
    density = JointDensity(model, sites)
    whole = KroneckerStructure._by_cell

    def of_the_next_cell(self, slope):
        return np.roll(whole(self, slope), 1)

    right = density.evaluate(x, z).slope_z
    monkeypatch.setattr(KroneckerStructure, "_by_cell", of_the_next_cell)
    assert np.abs(density.evaluate(x, z).slope_z - right).max() > 1e-2


@pytest.mark.parametrize("kept", ["one missing", "a missing half", "several in a cell"])
def test_the_order_of_the_cases_changes_nothing(kept):
    rows = KEPT[kept]
    model, _ = build(kept)
    other, _ = build(np.random.default_rng(5).permutation(rows))
    _, x, z = point(model)
    theta = model.parameters.normal.theta(x)[0]
    sites = [rank_one_sites(own, theta) for own in (model, other)]
    assert np.allclose(*[own.precision for own in sites], rtol=1e-8)
    assert np.allclose(*[own.shift for own in sites], rtol=1e-6, atol=1e-6)
    at, again = (JointDensity(own, sites[0]).evaluate(x, z) for own in (model, other))
    assert at.rest == pytest.approx(again.rest, rel=1e-12)
    assert np.allclose(at.slope_x, again.slope_x, rtol=1e-9)
    assert np.allclose(at.slope_z, again.slope_z, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kept", ["one missing", "a missing half"])
def test_the_prior_of_the_cases_is_the_dense_one(kept):
    """N(f; 0, K) of all cells over that of the missing ones given the others."""
    model, _ = build(kept, jitter=1e-9)
    dense = model.with_structure("dense")
    rows = KEPT[kept]
    out = np.setdiff1d(np.arange(20), rows)
    theta = model.prior_median()
    f, _ = model.simulate(np.random.default_rng(2), theta)
    full = model.full(theta)
    factor = model.filled_factor(full).dense() * model.scale(full)
    K = factor @ factor.T
    K_rows, cross = K[np.ix_(rows, rows)], K[np.ix_(out, rows)]
    gain = np.linalg.solve(K_rows, cross.T).T
    others = multivariate_normal(gain @ f[rows], K[np.ix_(out, out)] - gain @ cross.T)
    rest = model.log_density(theta, f) - others.logpdf(f[out])
    assert rest == pytest.approx(dense.log_density(theta, f[rows]), abs=1e-4)


@pytest.mark.parametrize("kept", KEPT)
def test_means_of_sites_are_stationary(kept):
    """Given the variances, of E log p(y | h) at the cases less (m - c)'K^-1 (m - c) / 2."""
    model, whole = build(kept)
    theta = model.prior_median()
    w, b = rank_one_sites(model, theta)
    K, c = whole.covariance_matrix(theta), model.mean_at(model.full(theta))
    V = np.linalg.inv(np.linalg.inv(K) + np.diag(w))
    m, v = c + V @ (b - w * c), np.diag(V)
    rate = np.exp(m + 0.5 * v)
    slope = np.bincount(KEPT[kept], model.y - rate[KEPT[kept]], 20)
    assert np.all(np.abs(slope - np.linalg.solve(K, m - c)) * np.sqrt(v) < 1e-2)


@pytest.mark.parametrize("kept", ["one missing", "a missing half"])
def test_predictions_given_the_cells_are_those_of_the_dense_covariance_of_all(kept):
    model, whole = build(kept, jitter=1e-8)
    theta, rng = model.prior_median(), np.random.default_rng(4)
    f, _ = model.simulate(rng, theta)
    new = np.concatenate([CELLS[:8], rng.uniform(0, 1, (5, 2))])
    eta = f[None] + model.mean_at(model.full(theta))
    own = latent_predictor(model, theta, eta).moments(model.new_inputs(new))
    other = latent_predictor(whole.with_structure("dense"), theta, eta).moments(new)
    assert np.allclose(own.mean, other.mean, atol=1e-4)
    assert np.allclose(own.variance, other.variance, atol=1e-4)
    assert np.allclose(own.mean[0, :8], eta[0, :8], atol=1e-4)  # a missing cell among them


def test_fits_are_those_of_the_dense_model():
    model, _ = build("a missing half")
    dense = model.with_structure("dense")
    theta = model.prior_median()
    for method in ("ep", "laplace"):
        fits = [gp.approximate(own, method=method) for own in (model, dense)]
        assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, rel=1e-10)
        predictions = [gp.predict(fit, CELLS) for fit in fits]
        for name in ("latent_mean", "latent_sd", "response_mean"):
            assert np.allclose(*[found[name] for found in predictions], rtol=1e-6, atol=1e-9)
    at = [own.at(theta) for own in (model, dense)]
    assert np.array_equal(*[own.cholesky for own in at])


def test_auto_takes_the_grid_and_says_so():
    model, _ = build("one missing")
    words = "kronecker (exact: grid of 5 x 4 cells, 19 of 20 with cases)"
    assert (model.structure_in_words, model.latent_variable, model.n_latents) == (words, "cell", 20)
    assert words in repr(model)
    X = np.random.default_rng(0).random((30, 2))
    scattered = GPModel(X, np.ones(30), COVARIANCES["isotropic"], Poisson())
    assert scattered.structure_in_words == "dense"
    few = CELLS[[0, 1, 4, 6, 9, 11, 12, 15, 18]]
    sparse, asked = (
        GPModel(few, np.ones(9), COVARIANCES["isotropic"], Poisson(), structure=s)
        for s in ("auto", "kronecker")
    )
    words = "dense (grid of 5 x 4 cells, 9 of 20 with cases: fewer than half)"
    assert (sparse.structure_in_words, asked.n_latents) == (words, 20)


def test_many_cases_of_few_cells_are_basis_functions():
    """Whose fits take less time, too; the grid is taken where no basis fits, or where it is asked for."""
    X, y = np.tile(CELLS, (101, 1)), np.ones(2020)
    wide = SquaredExponential(Hyperprior.log_uniform(0.4, 3.0), SIGNAL)
    assert GPModel(X, y, wide, Poisson()).structure_name == "basis"
    asked = GPModel(X, y, wide, Poisson(), structure="kronecker")
    for own in (asked, GPModel(X, y, COVARIANCES["isotropic"], Poisson())):
        assert (own.structure_name, own.n_latents, own.n_cases) == ("kronecker", 20, 2020)


def test_a_model_survives_description_pickle_and_changes():
    model, _ = build("a missing half")
    x = np.zeros(model.dim)
    sites, z = FrozenSites(np.ones(20), np.zeros(20)), np.ones(40)
    value = JointDensity(model, sites).value(x, z)
    assert model.by_cases.structure_name == "dense"
    again = pickle.loads(pickle.dumps(model))
    assert "by_cases" not in vars(again)
    assert JointDensity(again, sites).value(x, z) == value
    told = model_of(describe(model), gp.sample(model, n_chains=1, n_draws=2, seed=0))
    assert JointDensity(told, sites).value(x, z) == value
    assert model.with_y(model.y + 1).n_latents == 20
    fewer = model.take(np.arange(1, model.n_cases))
    assert fewer.structure_name == "kronecker"


def test_functions_of_several_parameters_stay_dense():
    """Whose sites are those of the cases."""
    covariance = dict.fromkeys(("mean", "size"), COVARIANCES["isotropic"])
    own = CELLS[KEPT["one missing"]], np.ones(19), covariance, gp.NegativeBinomial()
    assert GPModel(*own).structure_name == "dense"
    with pytest.raises(
        InputError, match="row by row, which Gaussian noise and several functions ask for"
    ):
        GPModel(*own, structure="kronecker")


# -- whole runs ------------------------------------------------------------------------------------


def log_normal(median):
    """Hyperprior of a factor of e^0.5 either way."""
    return Hyperprior("norm", {"loc": np.log(median), "scale": 0.5})


def spatial():
    """Counts on a 9 x 8 grid, a corner of which is missing."""
    axes = np.meshgrid(np.linspace(0, 1, 9), np.linspace(0, 1, 8), indexing="ij")
    X = np.stack(axes, -1).reshape(-1, 2)
    X = X[(X[:, 0] < 0.6) | (X[:, 1] < 0.5)]
    rng = np.random.default_rng(8)
    trials = np.full(len(X), 6.0)
    p = 1 / (1 + np.exp(-2 * np.sin(3 * X[:, 0]) * np.cos(4 * X[:, 1])))
    y = rng.binomial(6, p) * 1.0
    order = rng.permutation(len(X))
    covariance = SquaredExponential(log_normal(0.4), log_normal(1.0))
    return GPModel(X[order], y[order], covariance, Binomial(trials[order]))


def mean_and_error(draws):
    """Means over draws (chain, draw, ...) with their Monte Carlo errors."""
    from arviz_stats.base import array_stats

    flat = draws.reshape(*draws.shape[:2], -1)
    ess = np.array([array_stats.ess(flat[:, :, k]) for k in range(flat.shape[2])])
    return flat.mean((0, 1)), flat.std((0, 1)) / np.sqrt(ess)


def test_draws_predictions_and_evidence_are_those_of_the_dense_model():
    model = spatial()
    assert model.structure_name == "kronecker"
    dense = model.with_structure("dense")
    draws = [
        gp.sample(own, gp.JointSplitHMC(), n_chains=2, n_draws=600, seed=k)
        for k, own in enumerate((model, dense))
    ]
    found = []
    for own in draws:
        posterior = own["posterior"].to_dataset()
        eta = own["posterior_predictive"]["eta"].transpose("chain", "draw", "case").values
        theta = posterior["theta"].transpose("chain", "draw", "theta_dim").values
        found.append(mean_and_error(np.concatenate([theta, eta, eta**2], axis=2)))
    (first, error), (second, other) = found
    assert np.all(np.abs(first - second) < 4.5 * np.hypot(error, other))
    corner = np.array([[1.0, 1.0], [0.8, 0.7], [0.33, 0.2]])
    predictions = [gp.predict(own, corner) for own in draws]
    gap = np.abs(predictions[0]["latent_mean"] - predictions[1]["latent_mean"])
    assert np.all(gap < 0.15 * predictions[0]["latent_sd"])
    assert np.allclose(predictions[0]["latent_sd"], predictions[1]["latent_sd"], rtol=0.2)
    scores = [float(gp.leave_one_out(own, n_draws=1200).attrs["elpd"]) for own in draws]
    assert scores[0] == pytest.approx(scores[1], abs=0.5)
    evidences = [gp.model_evidence(own, seed=3)["evidence"] for own in (model, dense)]
    values, errors = np.array([
        [float(own[name][0]) for own in evidences] for name in ("log_evidence", "standard_error")
    ])  # fmt: skip
    assert abs(values[0] - values[1]) < 3.0 * np.hypot(*errors)


@pytest.mark.parametrize("sampler", [gp.SurrogateSlice(), gp.JointIndependence(n_pilot=100)])
def test_samplers_that_ask_for_the_cases_get_the_dense_model(sampler):
    model = spatial()
    draws = gp.sample(model, sampler, n_chains=1, n_draws=5, seed=0)
    assert draws["posterior"]["latent"].sizes["latent_dim"] == model.n_cases
    assert gp.predict(draws, CELLS[:2])["latent_mean"].shape == (2,)


def test_evidence_begins_with_draws_of_the_cells_and_takes_the_mixture_of_fits():
    model = spatial()
    draws = gp.sample(model, n_chains=2, n_draws=100, seed=0)
    replicates = gp.simulate(draws, n_draws=3)
    assert replicates["posterior_predictive"]["eta"].sizes["case"] == model.n_cases
    found = [
        gp.model_evidence(model, draws=draws, seed=1),
        gp.model_evidence(model, route="mixture", n_draws=500, seed=1),
    ]
    values, errors = np.array([
        [float(own["evidence"][name][0]) for own in found]
        for name in ("log_evidence", "standard_error")
    ])  # fmt: skip
    assert abs(values[0] - values[1]) < 3.0 * np.hypot(*errors)
