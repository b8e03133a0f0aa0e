from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.numerics.lapack import ROUTINES, invert_factored, lower_columns, lower_inverse


def lower(n):
    """A well-conditioned lower triangle of many sizes of entries."""
    rng = np.random.default_rng(n)
    return np.tril(rng.normal(size=(n, n)) / np.sqrt(n)) + np.diag(rng.uniform(1.0, 3.0, n))


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 64, 65, 97, 130, 257])
def test_inverses_of_triangles_are_made_of_blocks_of_any_number(n):
    L = lower(n)
    wanted = np.linalg.inv(L)
    inverse = lower_inverse(L)
    np.testing.assert_allclose(inverse, wanted, rtol=1e-9, atol=1e-12)
    assert inverse.flags.f_contiguous
    assert not np.triu(inverse, 1).any()
    np.testing.assert_array_equal(L, lower(n))
    own = L.copy(order="F")
    assert np.shares_memory(lower_inverse(own, overwrite=True), own)
    np.testing.assert_array_equal(own, inverse)
    rubbish = L + np.triu(np.full((n, n), np.nan), 1)
    np.testing.assert_array_equal(lower_inverse(rubbish), inverse)


@pytest.mark.parametrize("n", [1, 5, 33, 130])
def test_the_inverse_of_a_matrix_from_its_factor(n):
    L = lower(n)
    columns = L.T.copy()
    invert_factored(ROUTINES, columns)
    np.testing.assert_allclose(
        np.tril(columns.T), np.tril(np.linalg.inv(L @ L.T)), rtol=1e-8, atol=1e-12
    )


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_of_a_lower_triangle_are_a_copy_without_what_is_above(order):
    matrix = np.array(np.arange(1.0, 17.0).reshape(4, 4), order=order)
    columns = lower_columns(matrix)
    np.testing.assert_array_equal(columns.T, np.tril(matrix))
    assert columns.flags.c_contiguous
    assert not np.shares_memory(columns, matrix)
