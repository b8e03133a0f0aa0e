"""Data of figures 1 and 2 against dense formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gpmcflow.replications.surrogate_slice import illustrations as study


@pytest.fixture(scope="module")
def tree():
    return study.illustrate(seed=5)


def covariance(x: np.ndarray, length: float) -> np.ndarray:
    squares = (x[:, None] - x[None]) ** 2
    return np.exp(-0.5 * squares / length**2) + study.JITTER * np.eye(len(x))


def test_functions_of_figure_1_have_one_whitened_draw(tree):
    data = tree["whitened"].to_dataset()
    whitened = [
        np.linalg.solve(np.linalg.cholesky(covariance(data["x"].values, length)), f)
        for length, f in zip(study.LENGTHS, data["latent"].values, strict=True)
    ]
    np.testing.assert_allclose(whitened[1], whitened[0], atol=1e-6)
    np.testing.assert_allclose(whitened[2], whitened[0], atol=1e-6)
    assert 0.7 < np.std(whitened[0]) < 1.3


def test_densities_of_figure_1(tree):
    data = tree["whitened"].to_dataset()
    found, grid = data["density"].values, data["other_length"].values
    np.testing.assert_allclose(found.sum(1), 1.0)
    assert np.argsort(found.max(1)).tolist() == [2, 1, 0]  # sharpest for the shortest
    assert found.max() < 0.3
    x, f = data["x"].values, data["latent"].values[1]
    few = np.argsort(found[1])[-5:]
    slow = [multivariate_normal.logpdf(f, cov=covariance(x, length)) for length in grid[few]]
    np.testing.assert_allclose(np.diff(np.log(found[1][few])), np.diff(slow), atol=1e-5)


def test_latents_of_figure_2_fit_and_so_does_the_surrogates_proposal(tree):
    data = tree["proposals"].to_dataset()
    y, sd = data["y"].values, float(data["noise_sd"])

    def misfit(f):
        return float(np.sqrt(np.mean((y - f) ** 2)) / sd)

    white, surrogate = data["proposed"].values
    assert misfit(data["current"].values) < 1.4
    assert misfit(surrogate) < 2.0
    assert misfit(white) > 2.0


def test_proposals_of_figure_2_are_those_of_their_representations(tree):
    data = tree["proposals"].to_dataset()
    x, f = data["x"].values, data["current"].values
    white, surrogate = data["proposed"].values
    before, after = (np.linalg.cholesky(covariance(x, v)) for v in (study.CURRENT, study.PROPOSED))
    np.testing.assert_allclose(white, after @ np.linalg.solve(before, f), atol=1e-7)
    # the mean of the surrogate's proposals given f: g has mean f, eta is what f leaves of its mean
    noise = study.NOISE_SD**2 * np.eye(len(x))

    def parts(L):
        K = L @ L.T
        gain = K @ np.linalg.inv(K + noise)
        return gain, np.linalg.cholesky(K - gain @ K + 1e-12 * np.eye(len(x)))

    (gain, root), (new_gain, new_root) = parts(before), parts(after)
    mean = new_gain @ f + new_root @ np.linalg.solve(root, f - gain @ f)
    g_part = new_gain - new_root @ np.linalg.solve(root, gain)
    spread = np.sqrt(np.diag(g_part @ noise @ g_part.T))
    assert np.all(np.abs(surrogate - mean) < 5.0 * spread + 1e-3)


def test_same_seed_same_numbers_and_no_more(tree):
    again, other = study.illustrate(5), study.illustrate(6)
    for name in ("whitened/latent", "proposals/proposed"):
        np.testing.assert_array_equal(again[name].values, tree[name].values)
        assert not np.array_equal(other[name].values, tree[name].values)
