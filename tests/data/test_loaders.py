from __future__ import annotations

import hashlib
import shutil

import numpy as np
import pandas as pd
import pytest
import scipy.io
from sklearn.datasets import load_digits

from gpmcflow.data import CATALOGUE, load_dataset
from gpmcflow.data.layout import checksum

# name -> (features, training +1, training -1, test +1, test -1)
COUNTS = {
    "usps-3v5": (256, 406, 361, 418, 355),
    "ionosphere": (33, 101, 99, 124, 27),
    "sonar": (60, 56, 48, 55, 49),
    "pima": (7, 68, 132, 109, 223),
    "crabs": (5, 100, 100, 0, 0),
    "statlog-cotton": (36, 479, 3956, 0, 0),
    "ctg": (21, 176, 1950, 0, 0),
    "chess": (36, 1669, 1527, 0, 0),
    "breast-cancer": (30, 212, 357, 0, 0),
}
CHECKSUMS = {
    "digits-3v5": "de6bc68a3a2357e6aba9bfe98e99a56b60a498bbdc011b9b9f382b6cde5ca25f",
    "usps-3v5": "46b4b92a138a8b86e848b91e8a5fd3cc601ab2b5257d692e4d8b016e763cd249",
    "ionosphere": "bf83bd780c58949c728d13983d916d6dfef2be8916b510f2df4e448142506560",
    "sonar": "30da67375565707450bf613f5c3fc6144c85db138a511f82ab170599eadf90b9",
    "pima": "bd4b16b0e7ebd41d3d5c3e06b6598c5bff612e7e0d49a833553e92a5a85d1e54",
    "crabs": "59ddb9389a69a96b64c9273cfb2850679627329eee79287eafe7864e716df7fa",
    "statlog-cotton": "9c69abac1b03d9c42b307d40e18aa32e40eb1b799eb9960de41db0c52c814e84",
    "ctg": "a1e40be16992654bb7327037a2147954e0815ca9ebe96b98d7ed415ef8dc9ca1",
    "chess": "3d7c30001aa39ca03989406fa4b59b832fd6f1ed2840885000ab5c8395f92b4d",
    "breast-cancer": "4119872ca9bbfabcd8baa540e449eac8d4ab994177ac75e35447f40c7a7cbfd3",
}
ATTRS = {
    "name",
    "title",
    "task",
    "citation",
    "licence",
    "source",
    "label_coding",
    "preprocessing",
    "checksum",
    "n_duplicate_rows",
}


@pytest.fixture
def load(data_folder):
    return lambda name: load_dataset(name, data_dir=data_folder)


@pytest.mark.parametrize("name", COUNTS)
def test_counts_and_coding(load, name):
    dataset = load(name)
    y = dataset.y.values
    y_test = dataset.y_test.values if "y_test" in dataset else np.array([])
    found = (dataset.sizes["feature"], *(int((a == s).sum()) for a in (y, y_test) for s in (1, -1)))
    assert found == COUNTS[name]
    assert len(y) == COUNTS[name][1] + COUNTS[name][2]
    assert dataset.X.dims == ("case", "feature")
    assert len(set(dataset.feature.values.tolist())) == dataset.sizes["feature"]
    assert set(dataset.attrs) >= ATTRS
    assert dataset.attrs["label_coding"].startswith("+1 = ")
    assert all(isinstance(value, (str, int, float)) for value in dataset.attrs.values())


@pytest.mark.parametrize("name", COUNTS)
def test_checksum_is_stable(load, name):
    dataset = load(name)
    assert dataset.attrs["checksum"] == checksum(dataset) == CHECKSUMS[name]


@pytest.mark.parametrize("name", ["ionosphere", "usps-3v5"])
def test_source_checksum_is_that_of_the_file(load, data_folder, name):
    path = data_folder / CATALOGUE[name].files[0].path
    assert load(name).attrs["source_checksum"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_several_files_are_all_in_source_checksum(load):
    attrs = load("pima").attrs
    for file in CATALOGUE["pima"].files:
        assert f"{file.path}={file.sha256}" in attrs["source_checksum"]
        assert file.url in attrs["source"]


def test_digits_need_no_file(monkeypatch):
    monkeypatch.delenv("GPMCFLOW_DATA", raising=False)
    dataset = load_dataset("digits-3v5")
    assert dataset.sizes == {"case": 243, "feature": 64, "test_case": 122}
    threes = (dataset.y == 1).sum() + (dataset.y_test == 1).sum()
    fives = (dataset.y == -1).sum() + (dataset.y_test == -1).sum()
    assert (int(threes), int(fives)) == (183, 182)
    assert dataset.attrs["label_coding"] == "+1 = digit 3, -1 = digit 5"
    assert dataset.attrs["checksum"] == CHECKSUMS["digits-3v5"]
    assert "source_checksum" not in dataset.attrs


def test_digits_split_and_scaling():
    dataset = load_dataset("digits-3v5")
    digits = load_digits()
    keep = np.flatnonzero(np.isin(digits.target, [3, 5]))
    # The first of them is a test case, the second and third are training cases.
    np.testing.assert_array_equal(dataset.X_test[0], digits.data[keep[0]] / 8 - 1)
    np.testing.assert_array_equal(dataset.X[:2], digits.data[keep[1:3]] / 8 - 1)
    np.testing.assert_array_equal(dataset.X_test[1], digits.data[keep[3]] / 8 - 1)
    np.testing.assert_array_equal(dataset.y_test == 1, digits.target[keep[::3]] == 3)
    assert (float(dataset.X.min()), float(dataset.X.max())) == (-1.0, 1.0)


def test_usps_training_cases_are_those_of_the_upstream_file(load, data_folder):
    dataset = load("usps-3v5")
    upstream = scipy.io.loadmat(data_folder / "usps" / "usps3vs5.mat")
    np.testing.assert_array_equal(dataset.X, upstream["usps3vs5_data"])
    np.testing.assert_array_equal(dataset.y, upstream["usps3vs5_labels"].ravel())
    assert float(abs(dataset.X).max()) <= 1
    # Row by row: neighbouring pixels of a row are features side by side, background is at the top.
    image = dataset.X.mean("case").values.reshape(16, 16)
    assert dataset.feature.values[17] == "pixel_01_01"
    assert image[:, 0].mean() < -0.8 < image[:, 8].mean()


def test_usps_without_the_derived_file_has_no_test_set(data_folder, tmp_path, monkeypatch):
    monkeypatch.delenv("GPMCFLOW_DATA", raising=False)
    (tmp_path / "usps").mkdir()
    shutil.copy(data_folder / "usps" / "usps3vs5.mat", tmp_path / "usps")
    reduced = load_dataset("usps-3v5", data_dir=tmp_path)
    full = load_dataset("usps-3v5", data_dir=data_folder)
    assert "X_test" not in reduced
    assert "test_case" not in reduced.dims
    np.testing.assert_array_equal(reduced.X, full.X)
    np.testing.assert_array_equal(reduced.y, full.y)
    assert "no test set" in reduced.attrs["preprocessing"]
    assert "usps3vs5.mat" in reduced.attrs["source"]


def test_ionosphere_has_no_constant_column(load, data_folder):
    dataset = load("ionosphere")
    raw = pd.read_csv(data_folder / "ionosphere" / "ionosphere.data", header=None)
    assert (raw[1] == 0).all()
    assert "column 2" in dataset.attrs["preprocessing"]
    assert dataset.feature.values[:3].tolist() == ["real_01", "real_02", "imaginary_02"]
    np.testing.assert_array_equal(dataset.X[0], raw.iloc[0, [0, *range(2, 34)]].astype(float))
    np.testing.assert_array_equal(
        dataset.X_test[0], raw.iloc[200, [0, *range(2, 34)]].astype(float)
    )
    np.testing.assert_array_equal(dataset.y == 1, raw.iloc[:200, 34] == "g")
    # Rows 103 and 249 of the file are the same: one training, one test case.
    assert dataset.attrs["n_duplicate_rows"] == 0
    assert dataset.attrs["n_duplicate_rows_test"] == 1


def test_sonar_is_shuffled_and_keeps_every_row(load, data_folder):
    dataset = load("sonar")
    raw = pd.read_csv(data_folder / "gpc" / "sonar.all-data", header=None)
    both = np.concatenate([dataset.X, dataset.X_test])
    label = np.concatenate([dataset.y, dataset.y_test])
    rows = {tuple(row[:60]): row[60] for row in raw.itertuples(index=False, name=None)}
    assert len(rows) == 208
    found = {tuple(x): "M" if s == 1 else "R" for x, s in zip(both.tolist(), label, strict=True)}
    assert found == rows
    assert (np.diff(dataset.y) != 0).sum() > 30  # the file itself has one change of class


@pytest.mark.parametrize(
    "name", ["pima", "crabs", "statlog-cotton", "statlog", "ctg", "breast-cancer"]
)
def test_standardised_by_the_training_cases(load, name):
    dataset = load(name)
    np.testing.assert_allclose(dataset.X.mean("case"), 0, atol=1e-13)
    np.testing.assert_allclose(dataset.X.std("case", ddof=1), 1, rtol=1e-13)


def test_pima_values_and_split(load, data_folder):
    dataset = load("pima")
    train, test = (
        pd.read_csv(data_folder / "gpc" / f"pima.{part}", sep=r"\s+") for part in ("tr", "te")
    )
    for feature in ("npreg", "age"):
        mean, sd = train[feature].mean(), train[feature].std()
        expected = (test[feature] - mean) / sd
        np.testing.assert_allclose(dataset.X_test.sel(feature=feature), expected, atol=1e-13)
    np.testing.assert_array_equal(dataset.y_test == 1, test["type"] == "Yes")


def test_crabs_predict_sex_from_lengths_alone(load, data_folder):
    dataset = load("crabs")
    raw = pd.read_csv(data_folder / "gpc" / "crabs.dat", sep=r"\s+")
    assert dataset.feature.values.tolist() == ["FL", "RW", "CL", "CW", "BD"]
    np.testing.assert_array_equal(dataset.y == 1, raw["sex"] == "M")


def test_statlog_classes_are_coded_in_order(load, data_folder):
    dataset = load("statlog")
    raw = np.loadtxt(data_folder / "statlog" / "sat.trn")
    assert dataset.attrs["task"] == "multiclass"
    assert dataset.attrs["checksum"] == checksum(dataset)
    assert np.unique(dataset.y, return_counts=True)[1].tolist() == [1072, 479, 961, 415, 470, 1038]
    np.testing.assert_array_equal(np.array([1, 2, 3, 4, 5, 7])[dataset.y.astype(int)], raw[:, 36])
    assert "1 = class 2 (cotton crop)" in dataset.attrs["label_coding"]
    assert "5 = class 7 (very damp grey soil)" in dataset.attrs["label_coding"]
    # The same inputs, and class 2 against the rest.
    np.testing.assert_array_equal(dataset.X, load("statlog-cotton").X)
    np.testing.assert_array_equal(dataset.y == 1, load("statlog-cotton").y == 1)
    assert dataset.feature.values[[0, 3, 4]].tolist() == [
        "pixel_1_band_1",
        "pixel_1_band_4",
        "pixel_2_band_1",
    ]


def test_ctg_leaves_out_the_column_that_tells_the_label(load):
    dataset = load("ctg")
    names = dataset.feature.values.tolist()
    assert (names[0], names[-1]) == ("LB", "Tendency")
    assert "CLASS" not in names
    # Width = Max - Min, so the standardised columns have rank 20.
    assert np.linalg.matrix_rank(dataset.X) == 20


def test_ctg_from_the_file_with_an_address(load, data_folder, tmp_path, monkeypatch):
    monkeypatch.delenv("GPMCFLOW_DATA", raising=False)
    (tmp_path / "ctg").mkdir()
    shutil.copy(data_folder / "ctg" / "CTG.txt", tmp_path / "ctg")
    rounded, full = load_dataset("ctg", data_dir=tmp_path), load("ctg")
    assert "CTG.txt" in rounded.attrs["source"]
    assert rounded.feature.equals(full.feature)
    np.testing.assert_array_equal(rounded.y, full.y)
    np.testing.assert_allclose(rounded.X, full.X, atol=1e-5)


def test_chess_levels_are_alphabetical_ranks(load, data_folder):
    dataset = load("chess")
    raw = pd.read_csv(data_folder / "chess" / "kr-vs-kp.data", header=None)
    X = dataset.X.values
    levels = {name: "ft" for name in dataset.feature.values}
    levels |= {"dwipd": "gl", "katri": "bnw", "wtoeg": "nt"}
    for j, (name, ordered) in enumerate(levels.items()):
        assert "".join(ordered[int(rank)] for rank in X[:, j]) == "".join(raw[j])
        assert dataset.feature.values[j] == name
    # Positions and counts that are known of single attributes.
    assert float(dataset.X.sel(feature="spcop").sum()) == 1
    assert float(dataset.X.sel(feature="skach").sum()) == 11
    assert float(dataset.X.sel(feature="hdchk").sum()) == 15
    np.testing.assert_array_equal(dataset.y == 1, raw[36] == "won")


def test_breast_cancer_needs_no_file(monkeypatch):
    monkeypatch.delenv("GPMCFLOW_DATA", raising=False)
    dataset = load_dataset("breast-cancer")
    assert dataset.sizes == {"case": 569, "feature": 30}
    # Malignant tumours are the large ones.
    radius = dataset.X.sel(feature="mean radius")
    assert float(radius[dataset.y == 1].mean()) > 0.5 > float(radius[dataset.y == -1].mean())
