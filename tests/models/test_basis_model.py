"""A model with basis functions: sites of its weights, fixed hyperparameters, results, what it refuses."""

from __future__ import annotations

import json
import pickle
import tracemalloc
import weakref

import numpy as np
import pytest
import xarray as xr

from gpmcflow.approximations.basis_sites import basis_sites
from gpmcflow.approximations.conditional import NewDesigns, basis_predictor
from gpmcflow.approximations.evidence_density import evidence_gradient
from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.frozen_sites import frozen_sites
from gpmcflow.approximations.laplace import laplace
from gpmcflow.covariances.basis_design import BasisDesign
from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.covariances.leaves import Constant, Group, Linear, Matern52, SquaredExponential
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Gaussian, Logistic, Poisson, Probit, StudentT
from gpmcflow.models.description import data_of, describe, model_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.models.weight_posterior import WeightPosterior
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers import SurrogateSlice
from gpmcflow.samplers.sampling import sample

LENGTH = Hyperprior.log_uniform(0.4, 2.0)
SIGNAL = Hyperprior("norm", {"loc": 0.2, "scale": 0.6})
MEAN = Hyperprior("norm", {"loc": 0.1, "scale": 0.5})
COARSE, LARGE = BasisFunctions(error=0.05), BasisFunctions(m=80, boundary=6.0)
SE = SquaredExponential(LENGTH, SIGNAL, columns=0)
SQUARE = SquaredExponential(LENGTH, SIGNAL, columns=(0, 1), ard=True)
RICH = SE + Matern52(LENGTH, SIGNAL, columns=1) + Linear(SIGNAL, columns=(0, 1))
RICH += Group(SIGNAL, columns=2)


def build(covariance, likelihood, mean, structure=COARSE, n=17):
    """A model with data of its own, the third column being levels."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (n, 2)), rng.integers(0, 4, n)])
    y = np.ones(n) if likelihood.counts or likelihood.binary else np.zeros(n)
    model = GPModel(X, y, covariance, likelihood, mean, structure=structure)
    return model.with_y(model.simulate(rng, model.prior_median())[1])


MODELS = {
    "rich sum": build(RICH, Logistic(), MEAN),
    "two columns": build(SQUARE, Probit(), 0.3),
    "counts": build(SE, Poisson(1.3), MEAN),
    "student": build(RICH, StudentT(0.6, 4.0), MEAN),
}

# -- sites -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rich sum", "two columns", "counts", "student"])
def test_sites_are_those_of_laplace(name):
    model = MODELS[name]
    theta = model.prior_median()
    w, b = basis_sites(model, theta)
    fit = laplace(model.at(theta)).sites
    h = fit.predictor_mean
    own = GPModel.full(model, theta)
    expected = model.likelihood_at(own).information(h, model.y)
    assert np.all(w > 0)
    assert np.allclose(w, expected, rtol=0.02)
    again = basis_sites(model, theta, FrozenSites(w, b))
    assert np.allclose(again.precision, expected, rtol=1e-3)


def test_sites_begin_where_they_are_told(monkeypatch):
    model, calls = MODELS["student"], []
    theta = model.prior_median()
    cold = basis_sites(model, theta)
    whole = WeightPosterior.__init__

    def counted(self, *given):
        calls.append(1)
        whole(self, *given)

    monkeypatch.setattr(WeightPosterior, "__init__", counted)
    basis_sites(model, theta)
    n_cold = len(calls)
    basis_sites(model, theta, cold)
    assert len(calls) - n_cold < n_cold


# -- fits by blocks of levels -----------------------------------------------------------------------

SLOPE, CURVE = Linear(SIGNAL, columns=0), SquaredExponential(LENGTH, SIGNAL, columns=0)
EACH = Group(1.0, columns=2)
BY_LEVELS = {
    "slopes": (SLOPE + Group(SIGNAL, columns=2) + SLOPE * EACH, Logistic()),
    "curves": (CURVE + CURVE * EACH, Poisson()),
    "curves of heavy tails": (CURVE + CURVE * EACH, StudentT(0.6, 4.0)),
    "one curve": (CURVE, Probit()),
}


def with_all_weights(model, theta):
    """The model and the same latent Gaussian model by its matrix (n, m)."""
    full = model.full(theta)
    design = model.basis_design.matrix() * model.basis.scales(full)[0]
    m, c = model.n_latents, model.mean_at(full)
    own = model.likelihood_at(full), model.y, np.zeros(m), np.eye(m, order="F")
    return model.at(theta), LatentGaussianModel(*own, design=design, offset=c)


@pytest.mark.parametrize("name", BY_LEVELS)
def test_fits_by_blocks_of_levels_are_those_of_the_matrix(name):
    covariance, likelihood = BY_LEVELS[name]
    model = build(covariance, likelihood, MEAN, BasisFunctions(m=9, boundary=1.5), 60)
    pair = with_all_weights(model, model.prior_median())
    for fit_of in (expectation_propagation, laplace):
        first, second = (fit_of(one) for one in pair)
        assert first.log_evidence == pytest.approx(second.log_evidence, abs=1e-9)
        assert first.iterations == second.iterations
        for of in ("precision", "shift", "mean", "predictor_mean", "predictor_variance", "log_det"):
            a, b = (getattr(fit.sites, of) for fit in (first, second))
            assert np.allclose(a, b, rtol=1e-8, atol=1e-9), of
        a, b = (fit.sites.factor for fit in (first, second))  # the matrix is made when asked for
        assert np.allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("case", BY_LEVELS)
def test_basis_functions_at_new_inputs_are_kept_as_long_as_these_are(case):
    model = build(*BY_LEVELS[case], MEAN, BasisFunctions(m=9, boundary=1.5), 60)
    designs, X = NewDesigns(model), model.X[:20].copy()
    first = weakref.ref(designs.of(X))
    assert designs.of(X) is first()
    del X
    designs.of(model.X[:20].copy())
    assert first() is None


def test_predictions_by_blocks_of_levels_are_those_of_the_matrix():
    covariance, likelihood = BY_LEVELS["curves"]
    model = build(covariance, likelihood, MEAN, BasisFunctions(m=9, boundary=1.5), 60)
    theta = model.prior_median()
    sites = laplace(model.at(theta)).sites
    predictor = basis_predictor(NewDesigns(model), model.full(theta), sites=sites)
    X = model.X[:20].copy()
    X[::3, 2] = 99.0  # another level: its curve is the prior's
    Phi = BasisDesign(model.basis, X).matrix() * predictor.scales
    root = Phi @ sites.factor
    known = np.diag(root @ root.T)
    own = np.where(X[:, 2] == 99.0, np.exp(2.0 * model.full(theta)[1]), 0.0)
    moments, (mean, covariance) = predictor.moments(X), predictor.joint(X)
    assert np.allclose(moments.mean[0], Phi @ sites.mean + model.mean_at(model.full(theta)))
    assert np.allclose(moments.variance[0], known + own, rtol=1e-9)
    assert np.allclose(mean, moments.mean)
    assert np.allclose(covariance, root @ root.T + np.diag(own), atol=1e-10)
    average = np.full((1, 20), 0.05)
    assert predictor.joint(X, average)[1] == pytest.approx(
        (average @ covariance @ average.T), rel=1e-9
    )
    at = X[:, 2] != 99.0  # rows of the other level share their curve
    drawn = predictor.draw(X[at], np.random.default_rng(0), 20_000)
    expected = covariance[np.ix_(at, at)]
    assert np.allclose(np.cov(drawn.T), expected, atol=0.05 * expected.max())


def test_sites_too_precise_for_products_of_the_design_are_predicted_by_the_matrix():
    """Noise of 1e-5: of its precision 1e10 a sum of products leaves no digits to the prior."""
    model = build(CURVE + CURVE * EACH, Gaussian(1e-5), MEAN, BasisFunctions(m=9, boundary=1.5), 60)
    theta = model.prior_median()
    first, second = (expectation_propagation(one).sites for one in with_all_weights(model, theta))
    assert first.weight_posterior is None
    predictor = basis_predictor(NewDesigns(model), model.full(theta), sites=first)
    Phi = BasisDesign(model.basis, model.X[:20]).matrix() * predictor.scales
    moments = predictor.moments(model.X[:20])
    root = Phi @ second.factor
    assert np.allclose(moments.variance[0], np.einsum("ij,ij->i", root, root), rtol=1e-5)
    assert np.allclose(moments.mean[0], Phi @ second.mean + model.mean_at(model.full(theta)))
    assert np.allclose(predictor.joint(model.X[:20])[1], root @ root.T, rtol=1e-5, atol=1e-15)


def test_slopes_of_thousands_of_groups_take_no_matrix_of_their_square():
    """An EP fit, a gradient and predictions hold tens of numbers a row: a dense factor is 64,000,000."""
    rng, L = np.random.default_rng(0), 4000
    X = np.column_stack([rng.standard_normal((5 * L, 2)), np.repeat(np.arange(L), 5)])
    y = np.where(rng.random(5 * L) < 0.5, 1.0, -1.0)
    covariance = SLOPE + Group(SIGNAL, columns=2) + SLOPE * EACH
    model = GPModel(X, y, covariance, Logistic(), MEAN)
    assert model.basis
    theta = model.prior_median()
    tracemalloc.start()
    fit = expectation_propagation(model.at(theta))
    evidence_gradient(model, theta, fit)
    found = basis_predictor(NewDesigns(model), model.full(theta), sites=fit.sites).moments(X[:50])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.allclose(found.variance[0], fit.sites.predictor_variance[:50], rtol=1e-9)
    assert peak < 8 * 200 * len(y)


# -- the model -------------------------------------------------------------------------------------


def test_model_of_weights_at_fixed_hyperparameters():
    """Its EP fit has the dense model's evidence and its moments."""
    x = np.random.default_rng(4).uniform(-1, 1, 15)
    y, covariance = np.where(np.sin(4 * x) > 0, 1.0, -1.0), SquaredExponential(LENGTH, SIGNAL)
    dense, basis = (
        GPModel(x, y, covariance, Logistic(), MEAN, jitter=1e-8, structure=structure)
        for structure in ("dense", LARGE)
    )
    theta = np.array([0.0, 0.3, -0.2])
    first, second = (expectation_propagation(model.at(theta)) for model in (dense, basis))
    assert first.log_evidence == pytest.approx(second.log_evidence, abs=1e-5)
    assert np.allclose(first.sites.predictor_mean, second.sites.predictor_mean, atol=1e-5)
    assert basis.at(theta).dim == basis.n_latents == 80


def test_a_model_survives_description_pickle_and_changes():
    model = MODELS["rich sum"]
    _ = model.basis_design
    copy = pickle.loads(pickle.dumps(model))
    assert "basis_design" not in vars(copy)
    assert copy.digest() == model.digest()
    described = json.loads(json.dumps(describe(model)))
    tree = xr.DataTree.from_dict(data_of(model))
    rebuilt = model_of(described, tree)
    assert rebuilt.digest() == model.digest()
    assert rebuilt.structure == COARSE
    assert model.with_structure(BasisFunctions(error=0.04)).digest() != model.digest()
    assert model.with_structure("dense").digest() != model.digest()
    assert model.take(np.arange(9)).n_cases == 9
    assert "BasisFunctions(m=None" in repr(model)
    theta = model.prior_median()
    w, y = model.simulate(np.random.default_rng(0), theta)
    assert w.shape == (model.n_latents,)
    assert y.shape == (model.n_cases,)
    stacked = model.predictor(theta, np.stack([w, 2 * w]))
    Phi = model.basis_design.matrix()
    full = model.full(theta)
    by_hand = Phi @ (model.basis.scales(full)[0] * w) + model.mean_at(full)
    assert np.allclose(stacked[0], by_hand)
    assert np.allclose(stacked[1], 2 * by_hand - model.mean_at(full))


def test_what_needs_the_covariance_of_all_cases_is_refused():
    model = MODELS["counts"]
    with pytest.raises(InputError, match="basis functions have no factor"):
        sample(model, SurrogateSlice(), n_chains=1, n_draws=2)
    with pytest.raises(InputError, match="basis functions have no factor"):
        model.covariance_matrix(model.prior_median())
    with pytest.raises(InputError, match="unknown name 'basic'"):
        model.with_structure("basic")


def test_no_array_of_cases_by_cases_is_made():
    """100,000 cases: a square of them would be 80 GB."""
    x = np.linspace(0, 1, 100_000)
    length = Hyperprior.log_uniform(0.3, 1.0)
    model = GPModel(x, np.round(1 + x), SquaredExponential(length), Poisson(), structure="basis")
    model.digest(), describe(model), repr(model)
    theta = model.prior_median()
    w, y = model.simulate(np.random.default_rng(0), theta)
    again = model.with_y(y)
    assert np.isfinite(again.log_density(theta, w))
    density = JointDensity(again, frozen_sites(again, theta))
    assert np.isfinite(density.evaluate(np.zeros(2), np.zeros(density.n_z)).rest)
    assert again.take(np.arange(50_000)).n_cases == 50_000


def test_duplicate_inputs_need_no_jitter():
    x, y = np.array([0.0, 0.0, 1.0]), np.array([1.0, -1.0, 1.0])
    model = GPModel(x, y, SquaredExponential(0.8, 1.0), Probit(), jitter=0.0, structure="basis")
    assert np.ptp(model.predictor((), np.ones(model.n_latents))[:2]) == 0.0


def test_a_point_with_no_density_is_no_error():
    model = MODELS["rich sum"]
    density = JointDensity(model, frozen_sites(model, model.prior_median()))
    x, z = np.zeros(model.dim), np.zeros(density.n_z)
    for far in (np.full_like(x, 60.0), np.full_like(x, np.nan)):
        at = density.evaluate(far, z)
        assert at.rest == -np.inf
        assert not at.slope_x.any()


def test_numbers_held_follow_the_structure():
    """Of a grid and of weights they grow with the cases, of a dense covariance with their square."""
    sides = np.arange(30.0), np.arange(40.0)
    grid = np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, 2)
    y, length = np.ones(len(grid)), Hyperprior("norm", {"loc": 3.0, "scale": 0.1})
    held = {
        name: GPModel(grid, y, SquaredExponential(length), Poisson(), structure=name).numbers_held
        for name in ("dense", "kronecker", "basis")
    }
    assert held["dense"] == 10 * 1200**2
    assert held["kronecker"] == 100 * 1200
    assert 30 * 1200 < held["basis"] < 30 * 1200 + 10 * 400**2


def test_numbers_held_of_many_levels_are_no_square_of_them():
    """A block for each of 5,000 levels beside 2 other weights; the square would be 2 GB."""
    X = np.column_stack([np.arange(10_000.0) % 5000, np.linspace(-1.0, 1.0, 10_000)])
    covariance = Group(1.0, columns=[0]) + Linear(1.0, columns=[1]) + Constant(2.0)
    model = GPModel(X, np.ones(len(X)), covariance, Poisson(), structure="basis")
    matrix = model.basis_design.gram(np.ones(len(X)))
    assert model.basis_design.arrow_numbers == matrix.D.size + matrix.E.size + matrix.F.size
    assert model.numbers_held < 8e5
