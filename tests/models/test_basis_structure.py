"""Priors of basis functions: reference values, gradients, the density by hand, dense models, wrong ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import gpmcflow as gp
from gpmcflow.approximations.basis_sites import basis_sites
from gpmcflow.approximations.frozen_sites import frozen_sites
from gpmcflow.covariances.basis_design import ArrowMatrix, BasisDesign
from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.covariances.leaves import (
    Categorical,
    Constant,
    Group,
    Linear,
    Matern32,
    Matern52,
    SquaredExponential,
)
from gpmcflow.likelihoods import Gaussian, Logistic, NegativeBinomial, Poisson, Probit, StudentT
from gpmcflow.models import basis_structure
from gpmcflow.models.basis_regression import CollapsedBasisDensity
from gpmcflow.models.basis_structure import BasisStructure
from gpmcflow.models.collapsed_density import CollapsedDensity, density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.models.weight_posterior import WeightPosterior
from gpmcflow.parameters.hyperpriors import Hyperprior

LENGTH = Hyperprior.log_uniform(0.4, 2.0)
GAMMA = Hyperprior("gamma", {"a": 4.0, "scale": 0.3}, scale="natural")
SIGNAL = Hyperprior("norm", {"loc": 0.2, "scale": 0.6})
MEAN = Hyperprior("norm", {"loc": 0.1, "scale": 0.5})
COARSE = BasisFunctions(error=0.05)
SE = SquaredExponential(LENGTH, SIGNAL, columns=0)
SQUARE = SquaredExponential(LENGTH, SIGNAL, columns=(0, 1), ard=True)
RICH = (
    SE
    + Matern32(GAMMA, SIGNAL, columns=1)
    + Linear(SIGNAL, columns=(0, 1))
    + Group(SIGNAL, columns=2)
)
LEVELS = SQUARE + Constant(1.5) + Categorical(LENGTH, SIGNAL, columns=2)


def build(covariance, likelihood, mean=0.0, structure=COARSE, n=17, seed=0):
    """A model with data of its own, the third column being levels."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(-1, 1, (n, 2)), rng.integers(0, 4, n)])
    y = np.ones(n) if likelihood.counts or likelihood.binary else np.zeros(n)
    model = GPModel(X, y, covariance, likelihood, mean, structure=structure)
    return model.with_y(model.simulate(rng, model.prior_median())[1])


MODELS = {
    "rich sum": build(RICH, Logistic(), MEAN),
    "two columns": build(LEVELS, Probit(), 0.3),
    "counts": build(SE + Constant(), Poisson(1.3), MEAN),
    "matern": build(Matern52((0.8, LENGTH), SIGNAL, columns=(0, 1)), Poisson(), MEAN),
    "dispersion": build(SE, NegativeBinomial(SIGNAL), MEAN),
    "student": build(RICH, StudentT(Hyperprior("norm", {"loc": -0.5, "scale": 0.3}), GAMMA), MEAN),
    "fixed amplitude": build(SquaredExponential(LENGTH, 1.4, columns=1), Logistic()),
    "fixed length": build(SquaredExponential(0.7, SIGNAL, columns=1), Logistic(), MEAN),
    "real": build(RICH, Gaussian(SIGNAL), MEAN),
    "real, known noise": build(SE, Gaussian(np.linspace(0.2, 0.6, 17)), MEAN),
}  # fmt: skip
NAMES = [name for name in MODELS if not name.startswith("real")]


def point(model, seed=1):
    """A density with the sites of one theta, and another point."""
    rng = np.random.default_rng(seed)
    density = density_of(model, FrozenSites(np.ones(model.n_cases), np.zeros(model.n_cases)))
    if density.n_z:
        density.sites = frozen_sites(model, model.draw_prior(rng, 0.5))
    return density, 0.7 * rng.standard_normal(model.dim), rng.standard_normal(density.n_z)


def gradient_error(density, x, z, h=1e-5):
    """Largest difference from central differences, relative to the largest slope."""
    at, d = density.evaluate(x, z), len(x)
    slope, q = np.concatenate([at.slope_x, at.slope_z]), np.concatenate([x, z])
    values = [
        [density.evaluate((q + s * e)[:d], (q + s * e)[d:]).rest for s in (h, -h)]
        for e in np.eye(len(q))
    ]
    expected = np.array([(up - down) / (2 * h) for up, down in values])
    return np.max(np.abs(slope - expected)) / np.max(np.abs(slope))


@pytest.mark.parametrize("name", MODELS)
def test_gradient(name):
    assert gradient_error(*point(MODELS[name])) < 1e-6


# -- reference values ------------------------------------------------------------------------------


def reference():
    x, y = np.array([-1, -0.5, 0, 0.5, 1]), np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    covariance = SquaredExponential(
        Hyperprior.log_uniform(0.2, 1.0), Hyperprior.log_uniform(0.3, 3.0)
    )
    model = GPModel(x, y, covariance, Logistic(), structure=BasisFunctions(m=4, boundary=1.5))
    w, b = np.array([0.5, 1, 1.5, 2, 2.5]), np.array([0.1, -0.2, 0.3, -0.4, 0.5])
    return JointDensity(model, FrozenSites(w, b)), model.parameters.to_normal(np.log([0.5, 1.2]))


def test_reference_values():
    density, x = reference()
    at = density.evaluate(x, np.array([0.1, 0.2, 0.3, 0.4]))
    structure = density.structure
    full = density.model.full(at.theta)
    scales = [1.25442627, 1.02128492, 0.72496417, 0.44869789]
    assert np.allclose(density.model.basis.scales(full)[0], scales, atol=5e-9)
    log_z = structure.place(full, np.array([0.1, 0.2, 0.3, 0.4]))
    assert log_z == pytest.approx(-2.1742616219, abs=5e-11)
    assert at.rest == pytest.approx(-5.5100696480, abs=5e-11)
    assert np.allclose(at.slope_x, [0.41859274, -2.10500651], atol=5e-9)
    assert np.allclose(at.slope_z, [0.24666388, 0.13770854, -0.14688022, 0.63512728], atol=5e-9)
    h = [0.38477379, 0.11062618, -0.07939807, 0.05015913, 0.05251068]
    assert np.allclose(structure.predictor, h, atol=5e-9)
    assert at.complete + 2 * np.log(2 * np.pi) == pytest.approx(-3.4695168511, abs=5e-11)


def test_evidence_of_sites_by_matrices_of_the_cases():
    density, x = reference()
    model = density.model
    full = model.full(density.coordinates.theta(x)[0])
    w, b = density.sites
    Phi = model.basis_design.matrix() * model.basis.scales(full)[0]
    # exp(b h - w h^2 / 2) is N(b / w; h, 1 / w) over its largest value in b
    log_z = multivariate_normal.logpdf(b / w, cov=Phi @ Phi.T + np.diag(1 / w))
    log_z += 0.5 * (b @ (b / w)) + 0.5 * np.sum(np.log(2 * np.pi / w))
    assert density.structure.place(full, np.zeros(4)) == pytest.approx(log_z, abs=1e-12)


# -- identities ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_density_is_that_of_weights_at_any_sites(name):
    """rest + log N(x) + log N(z) - log |dw/dz| = log p(theta, w, y) + log |dtheta/dx|, exactly."""
    model, rng = MODELS[name], np.random.default_rng(2)
    for scale in (0.3, 2.0):
        density, _, _ = point(model)
        density.sites = FrozenSites(*(scale * rng.random((2, model.n_cases)) + [[0.1], [-0.3]]))
        theta = model.draw_prior(rng, 0.6)
        w, _ = model.simulate(rng, theta)
        x = model.parameters.to_normal(theta)
        z = density.augment(rng, x, w)
        at = density.evaluate(x, z)
        assert np.allclose(at.latents, w, atol=1e-12)
        at_theta, slopes = density.coordinates.theta(x)
        assert np.allclose(at_theta, theta)
        full = model.full(theta)
        S, Phi = np.diag(model.basis.scales(full)[0]), model.basis_design.matrix()
        Q = np.eye(len(w)) + S @ Phi.T @ (density.sites.precision[:, None] * Phi) @ S
        left = at.rest + norm.logpdf(x).sum() + norm.logpdf(z).sum() + 0.5 * np.linalg.slogdet(Q)[1]
        right = model.log_density(theta, w) + np.log(slopes).sum()
        assert left == pytest.approx(right, abs=1e-10 * model.n_cases)
        complete = model.log_density(theta, w) - model.log_prior(theta)
        assert at.complete == pytest.approx(complete, abs=1e-10)


def smooth(likelihood, structure, covariance=None):
    """A model with a basis so large that it is the dense one, but for rounding."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (15, 1))
    covariance = covariance or SquaredExponential(LENGTH, SIGNAL)
    y = np.where(np.sin(4 * X[:, 0]) > 0, 1.0, -1.0) if likelihood.binary else np.round(2 + X[:, 0])
    return GPModel(X, y, covariance, likelihood, MEAN, jitter=1e-8, structure=structure)


LARGE = BasisFunctions(m=80, boundary=6.0)


@pytest.mark.parametrize("likelihood", [Logistic(), Poisson()])
def test_evidence_of_sites_is_that_of_the_dense_model(likelihood):
    dense, basis = (smooth(likelihood, structure) for structure in ("dense", LARGE))
    theta = np.array([0.0, 0.3, -0.2])
    sites = basis_sites(basis, theta)
    values = []
    for model in (dense, basis):
        model = model if model.basis else replace(model, likelihood=Poisson(), y=np.ones(15))
        density = JointDensity(model, sites)  # of counts sites are in h, as those of a basis are
        values.append(density.structure.place(model.full(theta), np.zeros(density.n_z)))
    left_out = 0.5 * float(
        sites.shift @ (sites.shift / sites.precision)
    )  # by the dense one: a constant
    assert values[0] + left_out == pytest.approx(values[1], abs=1e-5)


def test_collapsed_density_is_that_of_the_dense_model():
    trend = SquaredExponential(LENGTH, SIGNAL) + Linear(SIGNAL)
    for noise in (SIGNAL, 0.4, np.linspace(0.2, 0.7, 15)):
        dense, basis = (smooth(Gaussian(noise), s, trend) for s in ("dense", LARGE))
        first, second = density_of(dense, None), density_of(basis, None)
        assert isinstance(first, CollapsedDensity)
        assert isinstance(second, CollapsedBasisDensity)
        for x in np.random.default_rng(0).standard_normal((3, dense.dim)):
            a, b = first.evaluate(x, np.empty(0)), second.evaluate(x, np.empty(0))
            assert a.rest == pytest.approx(b.rest, abs=1e-5)
            assert np.allclose(a.slope_x, b.slope_x, atol=1e-4)
    assert second.evaluate(np.full(dense.dim, 500.0), np.empty(0)).rest == -np.inf


def test_draws_of_weights_integrated_out_are_exact():
    model = MODELS["real"]
    density, rng = density_of(model, None), np.random.default_rng(0)
    theta = model.prior_median()
    full = model.full(theta)
    Phi = model.basis_design.matrix() * model.basis.scales(full)[0]
    noise = np.exp(2 * full[model.noise_place])
    precision = np.eye(model.n_latents) + Phi.T @ Phi / noise
    mean = np.linalg.solve(precision, Phi.T @ (model.y - model.mean_at(full)) / noise)
    draws = [density.draw_latents(rng, theta) for _ in range(4000)]
    w = np.array([draw[0] for draw in draws])
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    assert np.max(np.abs(w.mean(0) - mean) / sd) < 4.5 / np.sqrt(4000)
    assert np.max(np.abs(np.cov(w.T) - np.linalg.inv(precision)) / np.outer(sd, sd)) < 0.1
    value, complete = draws[0][1:]
    assert value == pytest.approx(float(model.log_likelihood(w[0], theta)))
    assert complete == pytest.approx(model.log_density(theta, w[0]) - model.log_prior(theta))


CURVE = SquaredExponential(LENGTH, SIGNAL, columns=0)
SLOPE, EACH = Linear(SIGNAL, columns=1), Group(1.0, columns=2)


def by_levels(name):
    """A model whose Q has a block for each level of the third column, and the shape of these blocks."""
    covariance, shape = {
        "levels": (SLOPE + Group(SIGNAL, columns=2), (4, 1)),
        "slopes": (SLOPE + Group(SIGNAL, columns=2) + SLOPE * EACH, (4, 2)),
        "curves": (CURVE + CURVE * EACH + Linear(SIGNAL, columns=1), (4, 9)),
        "curves alone": (CURVE * EACH, (4, 9)),
    }[name]
    return build(covariance, Logistic(), MEAN, BasisFunctions(m=9, boundary=1.5), n=60), shape


BY_LEVELS = ["levels", "slopes", "curves", "curves alone"]


@pytest.mark.parametrize("name", BY_LEVELS)
def test_blocks_of_levels_change_no_number(name):
    """Value, moments and adjoints are those of a full matrix, also for rows of a new level."""
    (model, shape), rng = by_levels(name), np.random.default_rng(0)
    n, m = model.n_cases, model.n_latents
    w, b = 0.1 + rng.random(n), rng.standard_normal(n)
    design = model.basis_design
    G, r = design.gram(w), design.pull_back(b)
    assert G.D.shape[:2] == shape
    assert np.allclose(G.dense(), (design.matrix().T * w) @ design.matrix(), atol=1e-12)
    s = model.basis.scales(model.full(model.prior_median()))[0]
    first, second = WeightPosterior(G, r, s), WeightPosterior(ArrowMatrix.full(G.dense()), r, s)
    assert first.log_evidence == pytest.approx(second.log_evidence, abs=1e-11)
    assert np.allclose(first.mean, second.mean, atol=1e-11)
    v = rng.standard_normal(m)
    assert np.allclose(G.dot(v), G.dense() @ v, atol=1e-11)
    assert np.allclose(first.whitened(first.weights(v)), v)
    assert np.allclose(first.solve(first.solve(v), True), second.solve(second.solve(v), True))
    X = model.X[:40].copy()
    X[::3, 2] = 99.0  # a level that nobody knows
    new = BasisDesign(model.basis, X)
    Phi = new.matrix() * s
    covariance = Phi @ np.linalg.solve(np.eye(m) + s[:, None] * G.dense() * s, Phi.T)
    for posterior in (first, second):
        assert np.allclose(posterior.variances(new), np.diag(covariance), atol=1e-11)
        spread = np.concatenate([block for _, block in posterior.spread(new)])
        assert np.allclose(spread @ spread.T, covariance, atol=1e-11)
    z, slope = rng.standard_normal((2, m))
    order = np.concatenate([G.tips, G.rest])  # in which the full factor is the same one
    whole = ArrowMatrix.full(G.dense()[np.ix_(order, order)])
    third = WeightPosterior(whole, r[order], s[order])
    slope_z = first.solve(slope), third.solve(slope[order])
    assert np.allclose(slope_z[0][order], slope_z[1], atol=1e-11)
    solved = first.solve(slope_z[0], transposed=True), third.solve(slope_z[1], transposed=True)
    of_first = first.scale_slopes(z, slope_z[0], solved[0])
    of_third = third.scale_slopes(z[order], slope_z[1], solved[1])
    for found, expected in zip(of_first, of_third, strict=True):
        assert np.allclose(found[order], expected, atol=1e-11)
    again = WeightPosterior(G, r, s), second
    for found, expected in zip(*(each.scale_slopes() for each in again), strict=True):
        assert np.allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("name", BY_LEVELS[1:])
def test_gradients_by_blocks_of_levels(name):
    assert gradient_error(*point(by_levels(name)[0])) < 1e-6


# -- wrong programs --------------------------------------------------------------------------------


def test_a_gradient_without_the_weights_own_part_is_caught(monkeypatch):
    whole = WeightPosterior.scale_slopes

    def without(self, z, slope_z, solved):
        by_scale, inner = whole(self, z, slope_z, solved)
        w = self.weights_at
        return by_scale - self.rho_at * w, inner

    def pull_back(self, slope):
        posterior = self._posterior
        posterior.weights_at = self.latents
        posterior.rho_at = self._design.pull_back(slope) - posterior.r + self._product
        return original(self, slope)

    original = BasisStructure.pull_back
    monkeypatch.setattr(WeightPosterior, "scale_slopes", without)
    monkeypatch.setattr(BasisStructure, "pull_back", pull_back)
    assert gradient_error(*point(MODELS["counts"])) > 1e-3


def test_a_gradient_without_the_factors_adjoint_is_caught(monkeypatch):
    whole = WeightPosterior.scale_slopes

    def without(self, z, slope_z, solved):
        return whole(self, 0.0 * z, slope_z, solved)

    monkeypatch.setattr(WeightPosterior, "scale_slopes", without)
    assert gradient_error(*point(MODELS["rich sum"])) > 1e-3


def test_a_matrix_that_is_stale_after_a_refit_is_caught(monkeypatch):
    density, x, z = point(MODELS["counts"])
    before = density.evaluate(x, z).rest
    old = density.sites
    monkeypatch.setattr(BasisStructure, "freeze", lambda self: None)
    density.sites = old.scaled(3.0)
    assert density.evaluate(x, z).rest == before  # the mutant: new sites change nothing
    monkeypatch.undo()
    density.sites = old.scaled(3.0)
    assert abs(density.evaluate(x, z).rest - before) > 1e-3
    assert gradient_error(density, x, z) < 1e-6


def test_the_same_sites_are_frozen_once(monkeypatch):
    density, _, _ = point(MODELS["counts"])
    times, whole = [], BasisStructure.freeze
    monkeypatch.setattr(BasisStructure, "freeze", lambda self: times.append(whole(self)))
    density.sites = density.sites  # as each object does that is given a density and its frame
    assert not times
    density.sites = density.sites.scaled(1.0)  # equal numbers in other arrays
    assert len(times) == 1


def test_a_dropped_noise_term_is_caught(monkeypatch):
    density, x, _ = point(MODELS["real"])
    whole = CollapsedBasisDensity.value_and_slopes

    def without(self, full):
        value, slopes = whole(self, full)
        return value + self.model.n_cases * full[self.model.noise_place], slopes

    monkeypatch.setattr(CollapsedBasisDensity, "value_and_slopes", without)
    assert gradient_error(density, x, np.empty(0)) > 1e-2


def test_a_mean_that_sites_do_not_follow_is_caught(monkeypatch):
    whole = basis_structure.WeightPosterior

    class Without(whole):
        def __init__(self, G, r, s):
            super().__init__(G, np.zeros_like(r) + r.mean(), s)

    monkeypatch.setattr(basis_structure, "WeightPosterior", Without)
    assert gradient_error(*point(MODELS["counts"])) > 1e-3


def test_auto_takes_basis_functions_of_more_than_2000_cases():
    x = np.linspace(0.0, 10.0, 2001)
    model = gp.GPModel(x, np.sin(x), gp.Matern52(), gp.Gaussian())
    asked = model.with_structure("basis")
    assert model.approximate_basis
    assert model.digest() == asked.digest()
    words = (
        f"basis ({asked.n_latents} functions for 2001 cases, with errors of up to 2.5 % of the var"
    )
    assert words in repr(model)
    assert model.take(np.arange(2000)).structure_in_words == "dense"
    assert model.with_structure("dense").structure_in_words == "dense"


@pytest.mark.parametrize(
    ("covariance", "options", "why"),
    [
        (gp.RationalQuadratic(), {}, "2001 cases, but rational_quadratic() has no basis"),
        (gp.Matern52(), {"jitter": 1e-6}, "functions for 2001 cases would do, but a jitter is stated"),
        (gp.Matern52() + gp.Linear(), {"far": 1e6}, "of columns too far from 0: centre them"),
        (gp.Matern52(0.001), {}, "2001 cases, but matern52() has length scales down to 0.001"),
    ],
)  # fmt: skip
def test_why_many_cases_stay_dense(covariance, options, why):
    x = np.linspace(0.0, 10.0, 2001) + options.pop("far", 0.0)
    model = gp.GPModel(x, np.sin(x), covariance, gp.Gaussian(), **options)
    assert model.structure_name == "dense"
    assert why in repr(model)


def test_a_grid_of_many_cases_is_no_basis():
    X = np.array([(a, b) for a in range(51) for b in range(40)], dtype=float)
    model = gp.GPModel(
        X, np.ones(2040), gp.Matern32(columns=0) * gp.Matern32(columns=1), gp.Poisson()
    )
    assert model.structure_in_words == "kronecker"
