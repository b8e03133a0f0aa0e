"""A Gaussian in its principal axes: the same law as in triangular coordinates, and accurate."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Logistic, Probit
from gpmcflow.models.gaussian_sites import GaussianSites, PrincipalAxes, SplitCases
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import Target, TemperedPath


@pytest.fixture(params=["probit", "poisson", "logistic"])
def sites(request, models):
    model = models[request.param]
    rng = np.random.default_rng(8)
    return GaussianSites(
        model, rng.exponential(2.0, model.n_cases), rng.standard_normal(model.n_cases)
    )


def test_the_same_gaussian(sites):
    """Mean, covariance of theta and of the predictors, normaliser."""
    axes = sites.principal_axes
    assert isinstance(axes, PrincipalAxes)
    assert axes.principal_axes is axes
    np.testing.assert_allclose(axes.mean, sites.mean, atol=1e-12)
    np.testing.assert_allclose(
        axes.factor @ axes.factor.T, sites.factor @ sites.factor.T, atol=1e-12
    )
    np.testing.assert_allclose(
        axes.predictor_factor @ axes.predictor_factor.T,
        sites.predictor_factor @ sites.predictor_factor.T,
        atol=1e-11,
    )
    np.testing.assert_allclose(axes.predictor_variance, sites.predictor_variance, rtol=1e-11)
    assert axes.log_peak == sites.log_peak
    assert not axes.triangular
    assert axes.digest() != sites.digest()


def test_frequencies_and_axes_are_those_of_the_precision_matrix(sites):
    """Omega_j^2 and V are eigenvalues, ascending, and eigenvectors of the precision of theta."""
    axes, d = sites.principal_axes, sites.model.dim
    omega, V = axes.frequencies, axes.axes
    assert np.all(np.diff(omega) > 0.0)
    np.testing.assert_allclose(V.T @ V, np.eye(d), atol=1e-13)
    L, A = sites.model.cholesky, sites.model.design
    A = np.eye(d) if A is None else A
    J = np.linalg.inv(L @ L.T) + A.T @ np.diag(sites.precision) @ A
    np.testing.assert_allclose(V.T @ J @ V, np.diag(omega**2), atol=1e-9 * omega[-1] ** 2)
    np.testing.assert_allclose(axes.factor, V / omega, rtol=1e-13)


def test_coordinates_go_there_and_back(sites):
    axes, rng = sites.principal_axes, np.random.default_rng(1)
    zeta = rng.standard_normal((4, sites.model.dim))
    theta, xi = axes.latent(zeta), axes.to_whitened(zeta)
    np.testing.assert_allclose(axes.from_latent(theta), zeta, atol=1e-11)
    np.testing.assert_allclose(axes.from_whitened(xi), zeta, atol=1e-11)
    np.testing.assert_allclose(sites.model.latent(xi), theta, atol=1e-11)
    A = np.eye(sites.model.dim) if sites.model.design is None else sites.model.design
    np.testing.assert_allclose(axes.predictor(zeta), theta @ A.T, atol=1e-11)
    np.testing.assert_allclose(axes.predictor(zeta), sites.model.predictor(xi), atol=1e-11)
    gradient = rng.standard_normal((4, sites.model.n_cases))
    np.testing.assert_allclose(
        axes.pull_back(gradient), gradient @ axes.predictor_factor, rtol=1e-9
    )


def test_the_coordinates_are_a_rotation_of_the_triangular_ones(sites):
    axes = sites.principal_axes
    zeta = np.random.default_rng(2).standard_normal((4, sites.model.dim))
    turned = sites.from_latent(axes.latent(zeta))
    np.testing.assert_allclose((turned**2).sum(1), (zeta**2).sum(1), rtol=1e-11)
    assert np.abs(turned - zeta).max() > 0.1


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_a_target_has_the_same_density_in_them(sites, beta):
    target = TemperedPath(sites).target(beta)
    turned = target.in_coordinates(sites.principal_axes)
    zeta = np.random.default_rng(3).standard_normal((5, sites.model.dim))
    there = turned.base.from_latent(target.base.latent(zeta))
    for a, b in zip(target.evaluate(zeta)[:3], turned.evaluate(there)[:3], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)
    assert target.in_coordinates(target.base) is target
    assert turned.digest() != target.digest()
    assert turned.beta == beta


def test_small_deviations_are_accurate():
    """A covariance of condition 1e14: its own eigenvalues would have no digit of the smallest."""
    rng, d = np.random.default_rng(0), 8
    sd = np.logspace(0.0, -7.0, d)
    turn = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2)]
    L = np.linalg.qr((turn[0] * sd @ turn[1].T).T)[1].T  # L L' = V diag(sd^2) V'
    L = L * np.sign(np.diag(L))
    model = LatentGaussianModel(Probit(), np.ones(d), np.linspace(-1, 1, d), np.asfortranarray(L))
    axes = GaussianSites.prior(model).principal_axes
    np.testing.assert_allclose(1.0 / axes.frequencies, sd, rtol=1e-8)
    by_eigenvalues = np.sqrt(np.abs(np.linalg.eigvalsh(L @ L.T)))
    assert abs(by_eigenvalues[0] / sd[-1] - 1.0) > 1e-4  # what the test is about
    zeta = rng.standard_normal((3, d))
    # theta near 1 has an ulp of 1e-16, a billionth of the smallest deviation
    np.testing.assert_allclose(axes.from_latent(axes.latent(zeta)), zeta, atol=1e-7)
    np.testing.assert_allclose(axes.from_whitened(axes.to_whitened(zeta)), zeta, atol=1e-12)
    alone = axes.to_whitened(np.eye(d))  # each axis: a unit vector of xi that moves theta by sd
    np.testing.assert_allclose((alone**2).sum(1), 1.0, rtol=1e-12)
    moved = np.linalg.norm(alone @ L.T, axis=1)
    np.testing.assert_allclose(moved, sd, rtol=1e-8)


def logistic(eta, prior_sd=50.0):
    """A model whose design makes theta_1 = 1 give the predictors eta; all labels alternate."""
    eta = np.asarray(eta, dtype=float)
    y = np.where(np.arange(len(eta)) % 2 == 0, 1.0, -1.0)
    return LatentGaussianModel.from_covariance(
        np.array([[prior_sd**2]]), Logistic(), y, mean=1.0, design=eta[:, None]
    )


def test_the_first_part_has_the_largest_curvature():
    """For the logistic likelihood: the smallest |eta| at the Gaussian's mean, ties by index."""
    eta = [3.0, -0.5, 2.0, 0.5, 0.1, -2.0, 2.0, -4.0, 0.5, 1.0]
    base = GaussianSites.prior(logistic(eta))
    first, second = base.split_cases(0.6).case_indices
    np.testing.assert_array_equal(first, [1, 2, 3, 4, 8, 9])  # of +-2.0 at 2, 5, 6 the first
    np.testing.assert_array_equal(second, [0, 5, 6, 7])
    np.testing.assert_array_equal(base.split_cases(0.3).case_indices[0], [1, 3, 4])
    # of three 2.0 another one, once they stand in another order
    turned = GaussianSites.prior(logistic(eta[::-1]))
    np.testing.assert_array_equal(turned.split_cases(0.6).case_indices[0], [0, 1, 3, 5, 6, 8])


@pytest.mark.parametrize(("fraction", "n", "size"), [(0.4, 10, 4), (0.26, 10, 3), (0.01, 10, 1)])
@pytest.mark.parametrize("order", ["curvature", "random"])
def test_sizes_of_the_parts(fraction, n, size, order):
    split = GaussianSites.prior(logistic(np.linspace(-2, 3, n))).split_cases(fraction, order)
    first, second = split.case_indices
    assert (len(first), len(second)) == (size, n - size)
    np.testing.assert_array_equal(np.sort(np.concatenate([first, second])), np.arange(n))
    assert [part.n_cases for part in split.parts] == [size, n - size]


def test_a_part_is_never_empty():
    base = GaussianSites.prior(logistic([1.0, 2.0]))
    assert [len(part) for part in base.split_cases(0.999).case_indices] == [1, 1]
    with pytest.raises(InputError, match="there is one case"):
        GaussianSites.prior(logistic([1.0])).split_cases(0.5)


def test_a_random_part_is_as_large_and_always_the_same():
    base = GaussianSites.prior(logistic(np.linspace(-3, 3, 60)))
    ranked = base.split_cases(0.4).case_indices[0]
    drawn = [base.split_cases(0.4, "random").case_indices[0] for _ in range(2)]
    np.testing.assert_array_equal(*drawn)
    assert len(drawn[0]) == len(ranked) == 24
    assert 0 < len(np.intersect1d(drawn[0], ranked)) < 20


def test_joined_cases_are_in_their_own_order(sites):
    split = sites.split_cases(0.4)
    eta = np.random.default_rng(4).standard_normal((3, sites.model.n_cases))
    parts = (eta[:, cases] for cases in split.case_indices)
    np.testing.assert_array_equal(split.join_cases(*parts), eta)


def test_the_parts_are_the_likelihood_of_their_cases(sites):
    """Values and gradients of both add up to those of the model, in the same coordinates."""
    split, model = sites.split_cases(0.3), sites.model
    zeta = np.random.default_rng(5).standard_normal((3, model.dim))
    found = [part.evaluate(zeta) for part in split.parts]
    eta = split.predictor(zeta)
    value, slope, *_ = model.likelihood.derivatives(eta, model.y)
    for (predictor, log_likelihood, rest, gradient), cases in zip(
        found, split.case_indices, strict=True
    ):
        np.testing.assert_allclose(predictor, eta[:, cases], atol=1e-12)
        np.testing.assert_allclose(log_likelihood, value[:, cases].sum(1), rtol=1e-11, atol=1e-12)
        np.testing.assert_array_equal(rest, log_likelihood)  # no sites in a part
        expected = slope[:, cases] @ split.predictor_factor[cases]
        np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-12)


def test_splits_tell_themselves_apart(sites):
    split = sites.split_cases(0.3)
    assert isinstance(split, SplitCases)
    assert split.split_cases(0.3) is split
    others = [split.split_cases(0.4), split.split_cases(0.3, "random"), sites.principal_axes, sites]
    assert len({base.digest() for base in [split, *others]}) == 5
    assert Target.posterior(split).digest() != Target.posterior(others[0]).digest()
    with pytest.raises(InputError, match=r"order.*did you mean 'curvature'"):
        sites.split_cases(0.3, "curvatures")
