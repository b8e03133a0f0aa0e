from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest

from gpmcflow.data.layout import Parts, build, checksum, permutation, standardise
from gpmcflow.errors import InputError

META = {"name": "toy", "title": "t", "citation": "c", "licence": "l", "source": "s"}


def make(X=((1.0, 2.0), (3.0, 4.0), (1.0, 2.0)), y=(1, -1, 1), task="classification", **rest):
    parts = Parts(
        X=np.array(X), y=np.array(y), features=["a", "b"], label_coding="", preprocessing="", **rest
    )
    return build(parts, task=task, **META)


def test_checksum_is_sha256_over_name_shape_and_little_endian_doubles():
    dataset = make(X=[[1.0, 2.0], [3.0, 4.0]], y=[1, -1])
    expected = hashlib.sha256(
        b"X 2x2\n" + struct.pack("<4d", 1, 2, 3, 4) + b"y 2\n" + struct.pack("<2d", 1, -1)
    ).hexdigest()
    assert dataset.attrs["checksum"] == checksum(dataset) == expected


def test_checksum_does_not_depend_on_type_or_memory_order():
    X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    same = make(X=np.asfortranarray(X.astype(">f4")), y=np.array([1, -1, 1], dtype=np.int8))
    assert same.attrs["checksum"] == make(X=X).attrs["checksum"]
    assert same.X.dtype == same.y.dtype == np.float64


def test_checksum_sees_the_test_set():
    with_test = make(X_test=np.array([[0.0, 0.0]]), y_test=np.array([1.0]))
    assert with_test.attrs["checksum"] != make().attrs["checksum"]


def test_duplicates_are_counted_apart_for_training_and_test():
    X_test = np.array([[3.0, 4.0], [9.0, 9.0], [9.0, 9.0], [0.0, 0.0]])
    dataset = make(X_test=X_test, y_test=np.array([1, 1, 1, 1]))
    assert dataset.attrs["n_duplicate_rows"] == 1
    assert dataset.attrs["n_duplicate_rows_test"] == 2
    assert "n_duplicate_rows_test" not in make().attrs


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_netcdf_round_trip_keeps_everything(tmp_path, engine):
    import xarray as xr

    dataset = make(X_test=np.array([[0.0, 0.0]]), y_test=np.array([1.0]))
    dataset.to_netcdf(tmp_path / "a.nc", engine=engine)
    with xr.open_dataset(tmp_path / "a.nc", engine=engine) as back:
        back.load()
    xr.testing.assert_equal(back, dataset)
    assert {key: back.attrs[key] for key in dataset.attrs} == dataset.attrs
    assert checksum(back) == dataset.attrs["checksum"]


def test_standardise_uses_the_training_cases_alone():
    rng = np.random.default_rng(1)
    X, X_test = rng.normal(5, 3, (20, 2)), rng.normal(50, 1, (7, 2))
    Z, Z_test = standardise("here", ["a", "b"], X, X_test)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(Z.std(axis=0, ddof=1), 1, rtol=1e-14)
    back = Z_test * X.std(axis=0, ddof=1) + X.mean(axis=0)
    np.testing.assert_allclose(back, X_test, rtol=1e-13)


def test_constant_columns_are_named(fails):
    # Three times 0.1 has a standard deviation of rounding size, not 0.
    X = np.array([[0.1, 1.0, 3.0], [0.1, 2.0, 3.0], [0.1, 3.0, 3.0]])
    with fails(InputError, "here", "'a', 'c'", "constant", "3 training cases", "standardise=False"):
        standardise("here", ["a", "b", "c"], X)


def test_standardising_one_case_fails(fails):
    with fails(InputError, "here", "1 training case"):
        standardise("here", ["a"], np.ones((1, 1)))


def test_permutation_is_fixed_for_good():
    assert permutation(3, 8).tolist() == [0, 4, 7, 1, 5, 6, 3, 2]
    assert sorted(permutation(9, 1000)) == list(range(1000))


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ({"y": (1, 0, 1)}, ("toy", "y holds [0.0, 1.0]", "-1 and +1")),
        ({"y": (1, 1, 1)}, ("toy", "3 training cases", "label +1")),
        ({"y": (1, -1)}, ("toy", "y has 2 along case", "expected 3")),
        ({"X": ((1.0, np.nan), (0.0, 0.0), (1.0, 1.0))}, ("toy", "X holds NaN or infinity")),
        ({"y": (1, 2.5, 0), "task": "counts"}, ("toy", "y holds 2.5", "counts are 0, 1, 2")),
        ({"y": (1, -2, 0), "task": "counts"}, ("toy", "y holds -2")),
        ({"y": (1, 2, 3), "task": "multiclass"}, ("toy", "y holds 3", "0, 1, ..., 2")),
        ({"y": (0, 1, 0.5), "task": "multiclass"}, ("toy", "y holds 0.5")),
        ({"y": (-1, 0, 1), "task": "multiclass"}, ("toy", "y holds -1")),
        ({"y": (0, 0, 0), "task": "multiclass"}, ("toy", "label 0", "2 classes or more")),
    ],
)
def test_arrays_that_do_not_fit_the_task_fail(fails, change, texts):
    with fails(InputError, *texts):
        make(**change)


def test_test_cases_have_only_classes_of_the_training_cases(fails):
    test = {"X_test": np.zeros((2, 2)), "task": "multiclass"}
    fine = make(y=(0, 2, 1), y_test=np.array([2, 2]), **test)
    assert fine.attrs["task"] == "multiclass"
    assert fine.y.values.tolist() == [0, 2, 1]
    with fails(InputError, "toy", "y_test holds 2", "2 classes"):
        make(y=(0, 1, 1), y_test=np.array([0, 2]), **test)


def test_counts_and_regression_keep_the_target():
    assert make(y=(0, 3, 7), task="counts").y.values.tolist() == [0, 3, 7]
    assert make(y=(0.5, -3, 7), task="regression").y.values.tolist() == [0.5, -3, 7]
