"""The prior on a grid by its axes: the dense structure of the same matrix, wrong programs, memory, refusals.

Gradients and densities of grids by formulas of n x n matrices are in `test_joint_density`.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from gpmcflow.approximations.conditional import latent_predictor
from gpmcflow.approximations.frozen_sites import rank_one_sites
from gpmcflow.covariances.dense_factor import DenseCovariance
from gpmcflow.covariances.kronecker import KroneckerBuffers
from gpmcflow.covariances.leaves import Constant, Matern32, Periodic, SquaredExponential
from gpmcflow.errors import NumericalError
from gpmcflow.likelihoods import Logistic, Poisson, Probit
from gpmcflow.models import kronecker_structure
from gpmcflow.models.dense_structure import DenseStructure
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.kronecker_structure import KroneckerStructure, SiteSpectrum
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.parameters.hyperpriors import Hyperprior

LENGTH = Hyperprior.log_uniform(0.2, 3.0)
SIGNAL = Hyperprior("norm", {"loc": 0.2, "scale": 0.6})
MEAN = Hyperprior("norm", {"loc": 0.1, "scale": 0.5})
PRODUCT = Matern32(LENGTH, SIGNAL, columns=0) * (
    Periodic(LENGTH, 0.8, period=1.3, columns=1) + Constant(0.6)
)
COVARIANCES = {
    "isotropic": SquaredExponential(LENGTH, SIGNAL),
    "a length an axis": SquaredExponential(LENGTH, SIGNAL, ard=True),
    "product": PRODUCT,
}
LIKELIHOODS = {"counts": Poisson(1.3), "labels": Logistic()}


def grid(first, second):
    """Cases row by row."""
    axes = np.meshgrid(np.linspace(0, 1, first), np.linspace(0, 2, second), indexing="ij")
    return np.stack(axes, -1).reshape(-1, 2)


def build(covariance, likelihood, shape=(5, 4), jitter=1e-3, kind=GPModel):
    """A model on a grid with data of its own."""
    rng, X = np.random.default_rng(0), grid(*shape)
    model = kind(X, np.ones(len(X)), covariance, likelihood, MEAN, jitter, "kronecker")
    return model.with_y(model.simulate(rng, model.prior_median())[1])


def point(model, seed=1):
    """Sites of rank one, and a point."""
    rng, (first, second) = np.random.default_rng(seed), model.covariance_buffers().shape
    w = np.outer(rng.uniform(0.2, 3.0, first), rng.uniform(0.2, 3.0, second)).ravel()
    sites = FrozenSites(w, rng.standard_normal(w.size))
    return sites, 0.6 * rng.standard_normal(model.dim), rng.standard_normal(2 * w.size)


class DenseGrid(KroneckerBuffers):
    """The same matrix, factorised as a whole."""

    factorise, invert = DenseCovariance.factorise, DenseCovariance.invert


class DenseModel(GPModel):
    """A grid for the dense structure."""

    def covariance_buffers(self):
        """K_1 x K_2 with its jitter."""
        return DenseGrid(self._axes, self.epsilon)


@pytest.mark.parametrize("jitter", [1e-3, 1e-6])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_dense_structure_of_the_same_matrix_is_the_same(covariance, likelihood, jitter):
    given = COVARIANCES[covariance], LIKELIHOODS[likelihood]
    model, dense = build(*given, jitter=jitter), build(*given, jitter=jitter, kind=DenseModel)
    sites, x, z = point(model)
    densities = JointDensity(model, sites), JointDensity(dense, sites)
    assert isinstance(densities[0].structure, KroneckerStructure)
    densities[1].structure = DenseStructure(dense, sites)
    at, other = (density.evaluate(x, z) for density in densities)
    for field in ("rest", "log_likelihood", "latents", "slope_z"):
        expected = getattr(other, field)
        size = max(1.0, np.abs(expected).max())
        assert np.allclose(getattr(at, field), expected, rtol=0, atol=1e-9 * size), field
    assert at.complete == pytest.approx(other.complete, rel=1e-8)
    error = np.abs(at.slope_x - other.slope_x).max() / np.abs(other.slope_x).max()
    assert error < (1e-9 if jitter > 1e-4 else 1e-5)
    f = other.latents + 0.1
    augmented = [
        density.augment(np.random.default_rng(3), x, f)
        for density in densities
    ]  # fmt: skip
    assert np.allclose(*augmented, atol=1e-6)


# -- wrong programs --------------------------------------------------------------------------------


def gradient_error(model):
    """Largest difference of slope_x from central differences, relative to the largest slope."""
    sites, x, z = point(model)
    density, h = JointDensity(model, sites), 1e-4
    slope = density.evaluate(x, z).slope_x
    steps = h * np.eye(len(x))
    ends = [[density.evaluate(x + s * e, z).rest for s in (1, -1)] for e in steps]
    differences = np.array([(up - down) / (2 * h) for up, down in ends])
    return np.abs(slope - differences).max() / np.abs(slope).max()


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_gradient_without_one_of_its_terms_is_caught(likelihood, monkeypatch):
    model = build(PRODUCT, LIKELIHOODS[likelihood])
    assert gradient_error(model) < 1e-6
    whole = KroneckerStructure._log_det_adjoints
    with monkeypatch.context() as without:  # the trace term of rank-one sites
        without.setattr(
            KroneckerStructure, "_log_det_adjoints", lambda self: [0.0 * S for S in whole(self)]
        )
        assert gradient_error(model) > 1e-3
    with monkeypatch.context() as without:
        without.setattr(kronecker_structure, "cholesky_adjoint", lambda L, product: 0.0 * product)
        assert gradient_error(model) > 1e-3
    with monkeypatch.context() as without:  # the evidence of the sites
        without.setattr(SiteSpectrum, "log_det", lambda self: 0.0)
        assert gradient_error(model) > 1e-3


def test_a_gradient_of_labels_without_the_amplitude_of_the_sites_is_caught(monkeypatch):
    model = build(PRODUCT, Probit())
    assert gradient_error(model) < 1e-6
    pull_back = KroneckerStructure.pull_back

    def without(self, slope):
        monkeypatch.setattr(Probit, "relative_sites", False)
        slopes = pull_back(self, slope)
        monkeypatch.setattr(Probit, "relative_sites", True)
        return slopes

    monkeypatch.setattr(KroneckerStructure, "pull_back", without)
    assert gradient_error(model) > 1e-3


# -- size ------------------------------------------------------------------------------------------


def test_nothing_is_n_by_n():
    """From the construction of a model to its predictions."""
    side, n = 45, 45 * 45
    tracemalloc.start()
    try:
        model = build(COVARIANCES["a length an axis"], Poisson(), (side, side), 1e-6)
        theta, rng = model.prior_median(), np.random.default_rng(1)
        density = JointDensity(model, rank_one_sites(model, theta))
        x = model.parameters.to_normal(theta)
        f, _ = model.simulate(rng, theta)
        at = density.evaluate(x, density.augment(rng, x, f))
        prediction = latent_predictor(model, theta, f[None]).moments(model.X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.allclose(at.latents, f, atol=1e-6)
    assert np.allclose(prediction.mean, f, atol=1e-2)
    assert peak < 0.3 * 8 * n * n


# -- refusals --------------------------------------------------------------------------------------


def test_precisions_that_are_no_product():
    model = build(PRODUCT, Poisson())
    w = np.ones(20)
    w[7] = 1.01
    with pytest.raises(
        NumericalError, match=r"site 7 is 1.01, .*take sites of rank_one_sites"
    ) as error:
        JointDensity(model, FrozenSites(w, np.zeros(20)))
    assert "\n" not in str(error.value)


def test_where_there_is_no_density():
    wide = SquaredExponential(Hyperprior("norm", {"scale": 3.0}), 1.0)
    model = GPModel(grid(30, 3), np.ones(90), wide, Poisson(), MEAN, 0.0, "kronecker")
    density = JointDensity(model, FrozenSites(np.ones(90), np.zeros(90)))
    for x in ([2.0, 0.0], [1e3, 0.0], [np.nan, 0.0]):
        at = density.evaluate(np.array(x), np.zeros(180))
        assert at.rest == -np.inf
        assert not np.any(at.slope_x)
    with pytest.raises(NumericalError, match="give a larger jitter than 0"):
        density.augment(np.random.default_rng(0), np.array([2.0, 0.0]), np.zeros(90))
