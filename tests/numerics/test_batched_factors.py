"""Compiled loops of factorisations against NumPy's, chain by chain."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.numerics.lapack import ROUTINES
from gpmcflow.samplers.latent import curvature_metric as compiled

SLOTS = np.array([3, 0, 4])  # chains keep their matrices where they are told to
N, CHAINS = 7, 3


@pytest.fixture
def problem():
    """K (n, n), square roots of weights (chain, n) with rows that are nothing, and work space."""
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((N, N + 2))
    gram, root = raw @ raw.T, rng.uniform(0.1, 2.0, (CHAINS, N))
    root[1, [0, 4]] = 0.0
    root[2, 6] = 1e-12
    return gram, root


def storage(size):
    return np.full((5, size, size), np.nan), np.full((5, N), -1), np.full(5, -1)


def factored(gram, root, keep=1e-16):
    factors, active, sizes = storage(N)
    log_det = np.empty(len(root))
    compiled.factor_case_matrices(
        ROUTINES, gram, root, SLOTS[: len(root)], keep, factors, active, sizes, log_det
    )
    return factors, active, sizes, log_det


def dense(gram, root):
    return np.eye(N) + root[:, None] * gram * root


def test_case_factors_against_numpy(problem):
    gram, root = problem
    factors, active, sizes, log_det = factored(gram, root)
    np.testing.assert_array_equal(sizes, [5, -1, -1, 7, 6])  # negligible rows are left out
    for p, slot in enumerate(SLOTS):
        B, rows = dense(gram, root[p]), active[slot, : sizes[slot]]
        assert log_det[p] == pytest.approx(np.linalg.slogdet(B)[1], rel=1e-13)
        m = len(rows)
        lower = np.triu(factors[slot, :m, :m]).T  # Fortran order seen in C order
        np.testing.assert_allclose(lower, np.linalg.cholesky(B[np.ix_(rows, rows)]), atol=1e-12)
    untouched = np.setdiff1d(np.arange(5), SLOTS)
    assert np.isnan(factors[untouched]).all()
    np.testing.assert_array_equal(active[1], -1)


def test_with_every_row_kept_nothing_changes(problem):
    gram, root = problem
    *_, sizes, every = factored(gram, root, keep=0.0)
    np.testing.assert_array_equal(sizes[SLOTS], N)
    np.testing.assert_allclose(every, factored(gram, root)[3], rtol=1e-14)


def test_case_solutions_against_numpy(problem):
    gram, root = problem
    factors, active, sizes, _ = factored(gram, root)
    x = np.random.default_rng(1).standard_normal((CHAINS, N))
    kept, out = x.copy(), np.empty_like(x)
    compiled.solve_case_matrices(ROUTINES, root, SLOTS, factors, active, sizes, x, out)
    np.testing.assert_array_equal(x, kept)
    for p in range(CHAINS):
        expected = root[p] * np.linalg.solve(dense(gram, root[p]), root[p] * x[p])
        np.testing.assert_allclose(out[p], expected, atol=1e-12)


def test_case_inverse_diagonals_against_numpy(problem):
    gram, root = problem
    factors, active, sizes, _ = factored(gram, root)
    kept, out = factors.copy(), np.empty((CHAINS, N))
    compiled.case_inverse_diagonals(ROUTINES, SLOTS, factors, active, sizes, out)
    np.testing.assert_array_equal(factors, kept)  # the factor serves solutions afterwards
    for p in range(CHAINS):
        expected = np.diag(np.linalg.inv(dense(gram, root[p])))
        np.testing.assert_allclose(out[p], expected, atol=1e-13)
    np.testing.assert_array_equal(out[1, [0, 4]], 1.0)


def test_nothing_active_is_the_identity(problem):
    gram, _ = problem
    root = np.zeros((1, N))
    factors, active, sizes, log_det = factored(gram, root)
    assert log_det[0] == 0.0
    assert sizes[SLOTS[0]] == 0
    out = np.empty((1, N))
    arguments = (ROUTINES, SLOTS[:1], factors, active, sizes, out)
    compiled.case_inverse_diagonals(*arguments)
    np.testing.assert_array_equal(out, 1.0)
    x = np.ones((1, N))
    compiled.solve_case_matrices(ROUTINES, root, SLOTS[:1], factors, active, sizes, x, out)
    np.testing.assert_array_equal(out, 0.0)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_weights_that_are_not_finite_show_in_the_determinant(problem, wrong):
    """Of their chain alone; nothing is raised."""
    gram, root = problem
    good = factored(gram, root)[3]
    root[1, 2] = wrong
    log_det = factored(gram, root)[3]
    assert not np.isfinite(log_det[1])
    np.testing.assert_array_equal(log_det[[0, 2]], good[[0, 2]])


def test_a_matrix_that_is_not_definite_has_no_determinant(problem):
    _, root = problem
    log_det = factored(-10.0 * np.eye(N), np.ones_like(root), keep=-np.inf)[3]
    assert np.isnan(log_det).all()


@pytest.fixture
def design():
    rng = np.random.default_rng(2)
    return np.ascontiguousarray(rng.standard_normal((N, 3)))


def coordinate_factors(design, root):
    factors, log_det = storage(3)[0], np.empty(CHAINS)
    compiled.factor_coordinate_matrices(ROUTINES, design, root, SLOTS, factors, log_det)
    return factors, log_det


def test_coordinate_matrices_against_numpy(design, problem):
    _, root = problem
    factors, log_det = coordinate_factors(design, root)
    x = np.random.default_rng(3).standard_normal((CHAINS, 3))
    solution, variance = x.copy(), np.empty((CHAINS, N))
    compiled.solve_coordinate_matrices(ROUTINES, SLOTS, factors, solution)
    compiled.coordinate_variances(ROUTINES, design, SLOTS, factors, variance)
    for p, slot in enumerate(SLOTS):
        G = np.eye(3) + design.T @ (root[p][:, None] ** 2 * design)
        np.testing.assert_allclose(np.triu(factors[slot]).T, np.linalg.cholesky(G), atol=1e-13)
        assert log_det[p] == pytest.approx(np.linalg.slogdet(G)[1], rel=1e-13)
        np.testing.assert_allclose(solution[p], np.linalg.solve(G, x[p]), atol=1e-13)
        expected = np.diag(design @ np.linalg.inv(G) @ design.T)
        np.testing.assert_allclose(variance[p], expected, atol=1e-13)


def test_coordinate_weights_that_are_not_finite_show_in_the_determinant(design, problem):
    _, root = problem
    root[2, 0] = np.nan
    log_det = coordinate_factors(design, root)[1]
    np.testing.assert_array_equal(np.isnan(log_det), [False, False, True])
