"""Fixed points of a batch: solutions, acceleration, chains that fail beside chains that do not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.samplers.latent.generalised_leapfrog import FixedPointSolver, _combine


def linear(rates, k=6, seed=0):
    """x = M x + b per chain with spectral radius ``rates``; its update and its solutions."""
    rng = np.random.default_rng(seed)
    raw = rng.standard_normal((len(rates), k, k))
    raw = raw + raw.transpose(0, 2, 1)
    M = raw * (np.asarray(rates) / np.abs(np.linalg.eigvalsh(raw)).max(1))[:, None, None]
    b = rng.standard_normal((len(rates), k))
    solution = np.linalg.solve(np.eye(k) - M, b[:, :, None])[:, :, 0]
    return lambda x, rows: np.einsum("pij,pj->pi", M[rows], x) + b[rows], solution


def plain(update, start, tolerance=1e-10, most=500):
    """Iterations of plain updates of one chain."""
    x, rows = start, np.arange(len(start))
    for count in range(1, most + 1):
        image = update(x, rows)
        if np.abs(image - x).max() < tolerance * (1.0 + np.abs(image).max()):
            return count
        x = image
    return most


def test_solutions_of_contractions():
    rates = [0.0, 0.1, 0.5, 0.9, 0.97]
    update, solution = linear(rates)
    found, counts, solved = FixedPointSolver(1e-12, 200)(update, np.zeros((5, 6)))
    assert solved.all()
    np.testing.assert_allclose(found, solution, atol=1e-9)
    assert counts[0] == 2  # one update is the solution, the next one shows it
    assert np.all(np.diff(counts) >= 0)


def test_a_contraction_in_few_dimensions_needs_far_fewer_updates_than_plain_iteration():
    """Three residuals span two dimensions: for linear equations in the plane that is the solution."""
    update, solution = linear([0.9] * 20, k=2, seed=3)
    found, counts, solved = FixedPointSolver(1e-10, 100)(update, np.zeros((20, 2)))
    assert solved.all()
    np.testing.assert_allclose(found, solution, atol=1e-8)
    assert counts.max() <= 8
    assert plain(update, np.zeros((20, 2))) > 100


def test_nonlinear_equations_are_solved_with_fewer_updates():
    """cos-like contractions near 0.8: at most 70 % of the plain updates."""
    rng = np.random.default_rng(1)
    slope, shift = 0.8 * rng.uniform(0.9, 1.0, (30, 8)), rng.uniform(-1.0, 1.0, (30, 8))

    def update(x, rows):
        return slope[rows] * np.sin(x) + shift[rows]

    found, counts, solved = FixedPointSolver(1e-10, 200)(update, np.zeros((30, 8)))
    assert solved.all()
    np.testing.assert_allclose(found, update(found, np.arange(30)), atol=1e-9)
    each = [
        plain(lambda x, rows, p=p: update(x, np.array([p])), np.zeros((1, 8))) for p in range(30)
    ]
    assert counts.mean() < 0.7 * np.mean(each)


def test_chains_do_not_depend_on_each_other():
    """Solved, slow, diverging and broken chains together: each is what it is alone, bit for bit."""
    update, _ = linear([0.3, 0.99, 4.0, 0.5, 0.6, 1e9])

    def broken(x, rows):
        image = update(x, rows)
        image[rows == 3] = np.nan
        return image

    solver, start = FixedPointSolver(1e-9, 25), np.ones((6, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, counts, solved = solver(broken, start)
    np.testing.assert_array_equal(solved, [True, False, False, False, True, False])
    assert counts[3] == 1  # nan is given up at once
    assert counts[5] <= 3  # and so is a change that runs away
    assert counts[1] == 25
    for p in range(6):
        alone = solver(lambda x, rows, p=p: broken(x, np.full(len(x), p))[:1], start[p : p + 1])
        np.testing.assert_array_equal(alone[0][0], found[p])
        assert alone[1][0] == counts[p]
        assert alone[2][0] == solved[p]


def test_a_start_that_is_not_finite_is_not_solved():
    update, _ = linear([0.5, 0.5])
    start = np.array([[np.nan] * 6, [0.0] * 6])
    found, _, solved = FixedPointSolver()(update, start)
    np.testing.assert_array_equal(solved, [False, True])
    assert np.isfinite(found[1]).all()


def test_fixed_iterations_are_plain_updates_without_a_test():
    update, _ = linear([0.5, 0.9])
    expected = start = np.ones((2, 6))
    for _ in range(4):
        expected = update(expected, np.arange(2))
    found, counts, solved = FixedPointSolver(fixed_iterations=4)(update, start)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(counts, [4, 4])
    assert solved.all()
    broken = FixedPointSolver(fixed_iterations=2)(
        lambda x, rows: x * np.array([[np.inf], [1.0]]), start
    )
    np.testing.assert_array_equal(broken[2], [False, True])


def test_parallel_and_vanishing_steps_have_a_combination():
    """Residuals along one line, equal residuals and zeros: finite numbers, no exception."""
    image = np.arange(6.0).reshape(2, 3)
    for scale in (1.0, 1e-170, 0.0):
        residuals = [scale * image, 2.0 * scale * image, 3.0 * scale * image]
        images = [image, image + residuals[0], image + residuals[1]]
        assert np.isfinite(_combine(images, residuals)).all()
    same = [np.ones((2, 3))] * 3
    np.testing.assert_array_equal(_combine(same, same), same[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tolerance": 0.0}, "tolerance is 0.0; allowed: between 0 and 1"),
        ({"tolerance": -1e-8}, "allowed: between 0 and 1"),
        ({"tolerance": 1.0}, "allowed: between 0 and 1"),
        ({"tolerance": np.nan}, "tolerance is nan"),
        ({"max_iterations": 0}, "max_iterations is 0; allowed: whole numbers from 1"),
        ({"max_iterations": 2.5}, "max_iterations is 2.5"),
        ({"fixed_iterations": -1}, "fixed_iterations is -1; allowed: whole numbers from 0"),
    ],
)
def test_silly_settings_are_refused_in_one_line(settings, message):
    with pytest.raises(InputError, match=message) as caught:
        FixedPointSolver(**settings)
    assert "\n" not in str(caught.value)
