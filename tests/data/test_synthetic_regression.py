from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.data import load_dataset
from gpmcflow.errors import InputError


def lengths(dataset) -> np.ndarray:
    return np.array([float(v) for v in dataset.attrs["length_scales"].split()])


def test_responses_are_noisy_draws_of_the_stated_process():
    data = load_dataset("synthetic-regression", n=1500, n_features=3, noise_sd=0.5, seed=2)
    X, y, f = (data[name].values for name in ("X", "y", "latent"))
    assert 0.0 <= X.min() < 0.01
    assert 0.99 < X.max() <= 1.0
    assert np.std(y - f) == pytest.approx(0.5, rel=0.1)
    assert abs(np.mean(y - f)) < 4 * 0.5 / np.sqrt(1500)
    scaled = X[:300] / lengths(data)
    K = np.exp(-0.5 * ((scaled[:, None] - scaled[None]) ** 2).sum(-1)) + 0.25 * np.eye(300)
    white = np.linalg.solve(np.linalg.cholesky(K), y[:300])
    assert (white**2).mean() == pytest.approx(1.0, abs=5.0 * np.sqrt(2.0 / 300))


def test_length_scales_are_drawn_until_all_are_above_the_bound():
    draws = [load_dataset("synthetic-regression", n=2, seed=s) for s in range(150)]
    found = np.array([lengths(d) for d in draws])
    assert found.min() > 0.1
    assert found.max() < np.sqrt(10.0)
    again = np.mean([d.attrs["draws_of_length_scales"] > 1 for d in draws])
    assert again == pytest.approx(1.0 - (1.0 - 0.1 / np.sqrt(10.0)) ** 10, abs=0.12)
    assert draws[0].attrs["checksum"] == load_dataset("synthetic-regression", n=2).attrs["checksum"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n": 1}, "n is 1"),
        ({"noise_sd": 0.0}, "noise_sd is 0.0"),
        ({"least_length": 3.0}, "least_length is 3.0"),
    ],
)
def test_wrong_options(options, text, fails):
    with fails(InputError, "synthetic-regression", text):
        load_dataset("synthetic-regression", **options)
