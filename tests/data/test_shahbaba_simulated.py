from __future__ import annotations

import time

import numpy as np
import pytest
import xarray as xr
from scipy.special import expit

from gpmcflow.data import load_dataset
from gpmcflow.data import simulated as module
from gpmcflow.errors import InputError, ResourceError


def draw(**options):
    return load_dataset("shahbaba-simulated", **options)


@pytest.fixture(scope="module")
def authors():
    return load_dataset("shahbaba-simulated")


def test_stream_is_that_of_r():
    # R: set.seed(42); runif(3) and set.seed(123); rnorm(3), as many tutorials print them.
    uniforms = module._uniforms(module._r_stream(42), 3)
    np.testing.assert_allclose(uniforms, [0.9148060, 0.9370754, 0.2861395], atol=5e-8)
    normals = module._normals(module._r_stream(123), 3)
    np.testing.assert_allclose(normals, [-0.56047565, -0.23017749, 1.55870831], atol=5e-9)


def test_authors_data(authors):
    assert authors.sizes == {"case": 10_000, "feature": 100}
    first = [authors.attrs["true_intercept"], *authors.true_slope.values[:2]]
    np.testing.assert_allclose(first, [-0.65480083, -0.02877456, -0.19413575], atol=5e-9)
    assert int((authors.y == 1).sum()) == 4767
    sd = np.repeat([5, 1, 0.2], [5, 5, 90])
    np.testing.assert_allclose(authors.X.std("case") / sd, 1, atol=0.03)
    assert (authors.attrs["seed"], authors.attrs["preprocessing"]) == (2011, "none")


def test_filling_by_row_gives_other_labels(monkeypatch):
    by_column = module._normals

    def by_row(stream, size):
        values = by_column(stream, size)
        return values if size == 101 else values.reshape(10_000, 100).ravel(order="F")

    monkeypatch.setattr(module, "_normals", by_row)
    assert int((draw().y == 1).sum()) == 4769


def test_fewer_cases_are_the_first_ones(authors):
    few = draw(n=300)
    np.testing.assert_array_equal(few.X, authors.X[:300])
    np.testing.assert_array_equal(few.y, authors.y[:300])


def test_authors_data_take_a_moment():
    start = time.process_time()
    module.shahbaba_simulated()
    assert time.process_time() - start < 2


def test_certain_labels_draw_no_number():
    u = module._uniforms(module._r_stream(42), 2)  # 0.91, 0.94
    latent = np.array([2.6, 50.0, 2.6, 50.0])
    p = expit(2.6)
    assert u[0] < p < u[1]
    found = module._labels(module._r_stream(42), latent)
    assert found.tolist() == [True, True, False, True]
    # The rarer outcome takes the upper end: u >= 1 - p.
    latent = np.array([-2.6, -2.6])
    assert module._labels(module._r_stream(42), latent).tolist() == [False, True]


def test_fresh_draws(authors):
    first, again, other = draw(n=50, seed=3), draw(n=50, seed=3), draw(n=50, seed=4)
    assert first.identical(again)
    assert first.attrs["checksum"] != other.attrs["checksum"]
    assert not np.array_equal(draw(n=50, seed=2011).X, authors.X[:50])
    assert first.attrs["generator"] == "PCG64"
    more = draw(n=80, seed=3)
    np.testing.assert_array_equal(more.X[:50], first.X)
    np.testing.assert_array_equal(more.y[:50], first.y)
    np.testing.assert_array_equal(more.true_slope, first.true_slope)


@pytest.mark.parametrize("seed", [None, 5])
def test_distribution(seed):
    dataset = draw(seed=seed)
    slope = dataset.true_slope.values
    theta = np.append(slope, dataset.attrs["true_intercept"])
    assert abs(theta @ theta - 101) < 4 * np.sqrt(202)
    scaled = dataset.X.values / np.repeat([5, 1, 0.2], [5, 5, 90])
    assert abs((scaled**2).sum() - scaled.size) < 4 * np.sqrt(2 * scaled.size)
    eta = dataset.attrs["true_intercept"] + dataset.X.values @ slope
    error, p = (dataset.y.values == 1) - expit(eta), expit(eta)
    variance = p * (1 - p)
    assert abs(error.sum()) < 4 * np.sqrt(variance.sum())
    assert abs(error @ eta) < 4 * np.sqrt(variance @ eta**2)


def test_netcdf_keeps_the_parameters(tmp_path):
    dataset = draw(n=20)
    dataset.to_netcdf(tmp_path / "s.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "s.nc", engine="h5netcdf") as back:
        assert back.load().identical(dataset)
        assert "true_slope" in back.coords


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"n": 1}, ("n is 1", "2 or more")),
        ({"n": 20_000}, ("n is 20000", "at most 10000", "seed")),
        ({"n": 10, "seed": -1}, ("seed is -1",)),
        ({"n": 10, "seed": 1.5}, ("seed is 1.5", "whole number")),
    ],
)
def test_wrong_options(fails, options, texts):
    with fails(InputError, "shahbaba-simulated", "allowed", *texts):
        draw(**options)


def test_too_many_cases_fail_before_work_starts(fails):
    with fails(ResourceError, "n is 2000000", "1.6 GB", "1000000"):
        draw(n=2_000_000, seed=1)
