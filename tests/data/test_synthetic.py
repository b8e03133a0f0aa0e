from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from gpmcflow.data import load_dataset
from gpmcflow.data import simulated as module
from gpmcflow.errors import InputError, NumericalError, ResourceError

OPTIONS = {"n": 40, "n_features": 3, "log_length_scale": -0.4, "log_signal_sd": 0.7}


def draw(**options):
    return load_dataset("synthetic-gpc", **options)


def test_same_seed_same_arrays_other_seed_other_arrays():
    first, again, other = draw(seed=5), draw(seed=5), draw(seed=6)
    assert first.identical(again)
    assert first.attrs["checksum"] != other.attrs["checksum"]


def test_layout():
    dataset = draw(n=30, n_test=12, n_features=4, seed=np.int64(3))
    assert dataset.sizes == {"case": 30, "test_case": 12, "feature": 4}
    assert dataset.latent.dims == ("case",)
    assert dataset.latent_test.dims == ("test_case",)
    assert "X_test" not in draw(n=30)
    assert type(dataset.attrs["seed"]) is int
    assert dataset.attrs["jitter"] == 0


def test_inputs_do_not_depend_on_the_hyperparameters():
    np.testing.assert_array_equal(draw().X, draw(log_length_scale=1.0, log_signal_sd=0.3).X)


def test_latent_has_the_stated_covariance():
    # f' K^-1 f is chi-squared with n degrees of freedom; K written out anew, loop by loop.
    ell, variance = np.exp(OPTIONS["log_length_scale"]), np.exp(2 * OPTIONS["log_signal_sd"])
    total, trace, count = 0.0, 0.0, 0
    for seed in range(25):
        dataset = draw(**OPTIONS, n_test=10, seed=seed)
        X = np.concatenate([dataset.X, dataset.X_test])
        f = np.concatenate([dataset.latent, dataset.latent_test])
        K = [[variance * np.exp(-((a - b) @ (a - b)) / (2 * ell**2)) for b in X] for a in X]
        total += f @ np.linalg.solve(np.array(K), f)
        trace += (f**2).mean() / variance
        count += len(f)
    assert abs(total - count) < 4 * np.sqrt(2 * count)
    assert 0.8 < trace / 25 < 1.25


def test_labels_follow_the_probit_likelihood():
    residual, variance = 0.0, 0.0
    weighted, weighted_variance = 0.0, 0.0
    for seed in range(25):
        dataset = draw(**OPTIONS, seed=seed)
        f = dataset.latent.values
        p = norm.cdf(f)
        error = (dataset.y.values == 1) - p
        residual += error.sum()
        variance += (p * (1 - p)).sum()
        weighted += (error * f).sum()
        weighted_variance += (f**2 * p * (1 - p)).sum()
    assert abs(residual) < 4 * np.sqrt(variance)
    assert abs(weighted) < 4 * np.sqrt(weighted_variance)


def test_jitter_is_recorded_where_it_is_needed():
    dataset = draw(n=200, n_features=1, log_length_scale=1.0, log_signal_sd=2.0)
    assert 0 < dataset.attrs["jitter"] <= 1e-6 * np.exp(4.0)


def test_no_jitter_helps(monkeypatch, fails):
    monkeypatch.setattr(module, "JITTERS", (0.0,))
    with fails(NumericalError, "200 cases", "not positive definite", "shorter length scale"):
        draw(n=200, n_features=1, log_length_scale=3.0)


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"n": 1}, ("n is 1", "2 or more")),
        ({"n": 10.5}, ("n is 10.5", "whole number")),
        ({"n": "many"}, ("n is 'many'",)),
        ({"n": True}, ("n is True",)),
        ({"n_test": -1}, ("n_test is -1", "0 or more")),
        ({"n_features": 0}, ("n_features is 0", "1 or more")),
        ({"seed": -3}, ("seed is -3",)),
        ({"log_length_scale": float("nan")}, ("log_length_scale is nan",)),
        ({"log_signal_sd": None}, ("log_signal_sd is None",)),
        ({"log_signal_sd": 1e4}, ("log_signal_sd is 10000",)),
    ],
)
def test_wrong_options(fails, options, texts):
    with fails(InputError, "synthetic-gpc", "allowed", *texts):
        draw(**options)


def test_too_many_cases_fail_before_work_starts(fails):
    with fails(ResourceError, "n + n_test is 200000", "640 GB", "20000"):
        draw(n=100_000, n_test=100_000)


def test_one_class_only(fails):
    with fails(InputError, "synthetic-gpc", "all 2 training cases", "another seed"):
        for seed in range(20):
            draw(n=2, log_length_scale=4.0, log_signal_sd=4.0, seed=seed)
