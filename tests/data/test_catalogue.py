from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest

from gpmcflow.data import CATALOGUE, list_datasets, load_dataset
from gpmcflow.data.layout import TASKS, Parts
from gpmcflow.errors import InputError


def test_names():
    assert set(list_datasets()) == {
        "digits-3v5",
        "usps-3v5",
        "ionosphere",
        "sonar",
        "pima",
        "crabs",
        "statlog-cotton",
        "statlog",
        "ctg",
        "chess",
        "breast-cancer",
        "shahbaba-simulated",
        "synthetic-gpc",
        "synthetic-regression",
        "coal",
        "redwood",
        "simulated-cox",
        "ten-counts",
    }


def test_unknown_name_offers_the_nearest(fails):
    with fails(InputError, "'digits-35'", "did you mean 'digits-3v5'", "sonar"):
        load_dataset("digits-35")


def test_unknown_option(fails):
    with fails(InputError, "synthetic-gpc", "'log_lengthscale'", "'log_length_scale'"):
        load_dataset("synthetic-gpc", log_lengthscale=0.0)
    with fails(InputError, "digits-3v5", "'seed'", "remove it"):
        load_dataset("digits-3v5", seed=1)


@pytest.mark.parametrize("name", CATALOGUE)
def test_entry_is_complete(name):
    entry = CATALOGUE[name]
    assert entry.task in TASKS
    assert all([entry.title, entry.description, entry.citation, entry.licence])
    assert entry.files or entry.source
    assert all(file.url or entry.fallback for file in entry.files)
    assert len(inspect.signature(entry.loader).parameters) >= 1


def test_checksums_are_those_of_the_data_folder(data_folder):
    lines = (data_folder / "checksums.sha256").read_text().splitlines()
    listed = {path.lstrip("*./"): digest for digest, path in (line.split() for line in lines)}
    for entry in CATALOGUE.values():
        for file in (*entry.files, *entry.fallback):
            assert file.sha256 == listed[file.path]


def test_a_new_data_set_is_one_entry(monkeypatch):
    def loader(paths):
        X, y = np.arange(6.0).reshape(3, 2), np.array([0, 4, 2])
        return Parts(X=X, y=y, features=["a", "b"], label_coding="counts", preprocessing="none")

    new = dataclasses.replace(CATALOGUE["digits-3v5"], loader=loader, task="counts")
    monkeypatch.setitem(CATALOGUE, "new", new)
    dataset = load_dataset("new")
    assert dataset.attrs["name"] == "new"
    assert dataset.attrs["task"] == "counts"
    assert dataset.y.values.tolist() == [0, 4, 2]
