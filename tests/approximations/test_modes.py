"""The search for modes and the mixture at them, on densities whose modes and integrals are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

import gpmcflow as gp
from gpmcflow.approximations.mixture import (
    Mixture,
    Mode,
    find_modes,
    fit_mixture,
    log_weights,
    missed_modes,
    more_modes,
)
from gpmcflow.diagnostics.importance_weights import effective_size
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.regression_density import NormalDensity

LENGTH, SIGNAL = gp.Hyperprior.log_uniform(0.03, 1.0), gp.Hyperprior.log_uniform(0.2, 5.0)
CENTRES = np.array([[-1.0, 0.5], [1.2, -0.8], [0.5, 1.9]])
SDS = np.array([0.3, 0.2, 0.08])
MASSES = np.array([0.6, 0.37, 0.03])


class Peaks(LogDensity):
    """Normal densities of known places, widths and masses."""

    names = ("a", "b")

    def evaluate(self, theta):
        return self.evaluate_gradient(theta)[0]

    def evaluate_gradient(self, theta):
        way = theta - CENTRES
        logs = np.log(MASSES / (2.0 * np.pi * SDS**2)) - 0.5 * (way**2).sum(1) / SDS**2
        total = logsumexp(logs)
        return float(total), -np.exp(logs - total) / SDS**2 @ way


class DearPeaks(Peaks):
    """The same, of which curvatures are taken by half as many gradients."""

    dear = True


class Nowhere(Peaks):
    def evaluate_gradient(self, theta):
        return -np.inf, np.zeros(2)


def fitted(seed: int):
    density = Peaks()
    return density, *fit_mixture(density, np.random.default_rng(seed))


@pytest.mark.parametrize("density", [Peaks(), DearPeaks()], ids=["cheap", "dear"])
@pytest.mark.parametrize("seed", range(5))
def test_all_peaks_are_found_with_their_widths_and_masses(seed, density):
    modes = find_modes(density, np.random.default_rng(seed))
    assert len(modes) == 3
    for mode, centre, sd, mass in zip(modes, CENTRES, SDS, MASSES, strict=True):
        np.testing.assert_allclose(mode.x, centre, atol=0.02)
        assert mode.log_mass == pytest.approx(np.log(mass), abs=0.05)
        np.testing.assert_allclose(mode.precision, np.eye(2) / sd**2, rtol=0.05, atol=0.05 / sd**2)


def test_the_search_is_one_of_its_generator():
    first, again, other = (find_modes(Peaks(), np.random.default_rng(k)) for k in (1, 1, 2))
    assert all(np.array_equal(a.x, b.x) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a.x, b.x) for a, b in zip(first, other, strict=True))


def test_climbs_towards_known_modes_end_early():
    density = Peaks()
    known = find_modes(density, np.random.default_rng(0))
    density.reset()
    assert more_modes(density, known, CENTRES + 0.4 * SDS[:, None] / np.sqrt(2.0)) == known
    assert density.n_gradients == 0
    assert len(more_modes(density, known[1:], CENTRES[:1])) == 3


def test_two_tops_of_one_hill_are_one_mode():
    density = Peaks()
    known = [
        Mode(CENTRES[0] + 0.6 * SDS[0], float(density(CENTRES[0])) - 0.5, np.eye(2) / SDS[0] ** 2)
    ]
    (only,) = more_modes(density, known, CENTRES[:1] - 0.1)
    np.testing.assert_allclose(only.x, CENTRES[0], atol=0.02)  # the higher one stays


def test_a_density_that_is_nowhere_is_refused():
    with pytest.raises(NumericalError, match="the density of a, b is zero at all 256 points"):
        find_modes(Nowhere(), np.random.default_rng(0))


def test_a_likelihood_whose_latents_stay_is_refused():
    model = gp.GPModel([0.1, 0.6], [1, -1], gp.SquaredExponential(), gp.Probit())
    with pytest.raises(InputError, match="the probit likelihood; allowed: gaussian and log_normal"):
        NormalDensity(model)


@pytest.mark.parametrize("structure", ["dense", "basis"])
def test_gradients_in_normal_coordinates(structure):
    x = np.linspace(0.0, 1.0, 15)
    covariance = gp.SquaredExponential(gp.Hyperprior("gamma", {"a": 2.0, "scale": 0.2}), SIGNAL)
    model = gp.GPModel(x, np.sin(6.0 * x), covariance, gp.Gaussian()).with_structure(structure)
    density, rng = NormalDensity(model), np.random.default_rng(0)
    points = 0.7 * rng.standard_normal((4, density.dim))
    for point in points:
        value, gradient = density.value_and_gradient(point)
        assert value == density(point)
        ends = [[density(point + sign * h) for sign in (1, -1)] for h in 1e-5 * np.eye(density.dim)]
        numeric = [(a - b) / 2e-5 for a, b in ends]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(density.values(points), [density(p) for p in points], rtol=1e-12)
    theta = model.parameters.normal.theta(points[0])[0]
    np.testing.assert_array_equal(density.theta(points)[0], theta)


@pytest.mark.parametrize("two_sided", [False, True])
def test_the_mixture_is_a_density_and_its_draws_are_its_own(two_sided):
    _, _, mixture = fitted(0)
    if two_sided:
        sides = np.random.default_rng(3).uniform(0.5, 2.0, (len(mixture.masses), 2, 2))
        mixture = Mixture(mixture.masses, mixture.locations, mixture.scales, sides)
    axis = np.linspace(-9.0, 9.0, 901)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    density = np.exp(mixture.log_density(grid))
    cell = (axis[1] - axis[0]) ** 2
    assert density.sum() * cell == pytest.approx(1.0, abs=2e-3)
    draws = mixture.draw(np.random.default_rng(1), 40_000)
    for inside in (lambda x: x[:, 0] > 0.5, lambda x: x[:, 1] > 1.7, lambda x: (x**2).sum(1) > 9.0):
        exact = density[inside(grid)].sum() * cell
        error = np.sqrt(exact * (1.0 - exact) / len(draws))
        assert abs(inside(draws).mean() - exact) < 4.0 * error + 1e-3


class Halves(LogDensity):
    """Four quarters of Gaussians about one mode, each with widths of its own, in turned coordinates."""

    names = ("a", "b")
    mode = np.array([0.3, -0.2])
    root = np.array([[0.5, 0.2], [0.2, 0.4]])  # symmetric
    widths = np.array([[0.7, 1.0], [1.8, 1.3]])  # below, above

    def evaluate(self, x):
        z = np.linalg.solve(self.root, x - self.mode)
        return float(-0.5 * np.square(z / np.where(z > 0.0, self.widths[1], self.widths[0])).sum())


def test_sides_of_a_mode_are_those_of_its_density():
    mode = Mode(Halves.mode, 0.0, np.linalg.inv(Halves.root @ Halves.root))
    np.testing.assert_allclose(mode.sides(Halves()), Halves.widths, rtol=1e-10)
    mixture = Mixture.at_modes([mode], Halves())
    x = mixture.draw(np.random.default_rng(0), 20_000)
    right = np.log(2.0 * np.pi * np.linalg.det(Halves.root) * Halves.widths.mean(0).prod())
    found = log_weights(Halves(), mixture, x)
    assert logsumexp(found) - np.log(len(x)) == pytest.approx(right, abs=0.02)
    one_sided = Mixture.at_modes([mode])
    of_one = log_weights(Halves(), one_sided, one_sided.draw(np.random.default_rng(0), 20_000))
    assert effective_size(found) > 1.15 * effective_size(of_one)
    refitted = mixture.refitted(x, found)
    np.testing.assert_array_equal(refitted.sides, 1.0)  # the draws' own scale holds both


def test_a_density_that_does_not_fall_has_sides_of_bounded_length():
    mode = Mode(np.zeros(2), 0.0, np.eye(2))
    np.testing.assert_array_equal(mode.sides(Flat()), 2.0)


class Flat(Halves):
    """The same everywhere."""

    def evaluate(self, x):
        return 0.0


def test_refits_move_components_to_the_posterior():
    """From places and masses that are wrong to those that are right."""
    density = Peaks()
    wrong = Mixture(np.array([0.2, 0.2, 0.6]), CENTRES + 0.1, np.tile(0.06 * np.eye(2), (3, 1, 1)))
    mixture, rng = wrong, np.random.default_rng(2)
    for _ in range(2):
        x = mixture.draw(rng, 2000)
        mixture = mixture.refitted(x, log_weights(density, mixture, x))
    np.testing.assert_allclose(mixture.locations, CENTRES, atol=0.04)
    np.testing.assert_allclose(mixture.masses, MASSES, atol=0.04)
    assert mixture.weights.min() >= 0.019


@pytest.mark.parametrize("seed", range(3))
def test_the_share_of_the_prior_leads_to_modes_that_the_search_missed(seed):
    density, rng = Peaks(), np.random.default_rng(seed)
    modes = find_modes(density, rng)
    alone = Mixture.at_modes(modes[:1])
    x = alone.draw(rng, 2000)
    assert len(missed_modes(density, modes[:1], x, log_weights(density, alone, x))) > 1


def test_draws_of_no_unusual_weight_are_no_places_to_climb_from():
    """A mixture with all modes has none; nor has one whose density is zero wherever it was tried."""
    density, rng = Peaks(), np.random.default_rng(1)
    modes = find_modes(density, rng)
    mixture = Mixture.at_modes(modes)
    x = mixture.draw(rng, 300)
    weights = log_weights(density, mixture, x)
    assert np.exp(weights - logsumexp(weights)).max() * len(x) < 3.0
    before = density.n_gradients
    assert missed_modes(density, modes, x, weights) == modes
    assert missed_modes(density, modes, x, np.full(300, -np.inf)) == modes
    assert density.n_gradients == before


@pytest.mark.parametrize(
    ("n", "structure", "dear"), [(601, "dense", True), (600, "dense", False), (601, "basis", False)]
)
def test_values_of_many_rows_are_dear_unless_they_are_of_basis_functions(n, structure, dear):
    x = np.linspace(0.0, 1.0, n)
    model = gp.GPModel(
        x, np.sin(6 * x), gp.SquaredExponential(), gp.Gaussian(), structure=structure
    )
    assert NormalDensity(model).dear == dear
