from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.models.linear_maps import pull_back, push_forward, solve

RNG = np.random.default_rng(0)


@pytest.fixture(params=["C", "F"])
def triangle(request):
    return np.asarray(np.tril(RNG.standard_normal((6, 6))) + 3.0 * np.eye(6), order=request.param)


@pytest.mark.parametrize("lead", [(), (1,), (5,), (2, 3)])
def test_triangular_products_and_solves(triangle, lead):
    batch = RNG.standard_normal((*lead, 6))
    kept = batch.copy()
    np.testing.assert_allclose(push_forward(triangle, batch, True), batch @ triangle.T, atol=1e-13)
    np.testing.assert_allclose(pull_back(triangle, batch, True), batch @ triangle, atol=1e-13)
    np.testing.assert_allclose(solve(triangle, batch) @ triangle.T, batch, atol=1e-13)
    np.testing.assert_allclose(solve(triangle, batch, transpose=True) @ triangle, batch, atol=1e-13)
    np.testing.assert_array_equal(batch, kept)


@pytest.mark.parametrize("shape", [(4, 6), (9, 6)])
@pytest.mark.parametrize("lead", [(), (5,), (2, 3)])
def test_general_products(shape, lead):
    factor = RNG.standard_normal(shape)
    batch, gradient = RNG.standard_normal((*lead, 6)), RNG.standard_normal((*lead, shape[0]))
    np.testing.assert_allclose(push_forward(factor, batch, False), batch @ factor.T, atol=1e-13)
    np.testing.assert_allclose(pull_back(factor, gradient, False), gradient @ factor, atol=1e-13)


def test_rows_in_another_order_in_memory():
    factor = np.tril(RNG.standard_normal((6, 6)))
    batch = np.asfortranarray(RNG.standard_normal((5, 6)))[::2]
    np.testing.assert_allclose(push_forward(factor, batch, True), batch @ factor.T, atol=1e-13)
    np.testing.assert_allclose(pull_back(factor, batch, False), batch @ factor, atol=1e-13)
