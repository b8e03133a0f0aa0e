"""Data sets by name, or from a user's own CSV file, as `xarray.Dataset`."""

from __future__ import annotations

from gpmcflow.datasets.by_name import list_datasets, load_dataset
from gpmcflow.datasets.catalogue import CATALOGUE, Entry
from gpmcflow.datasets.own_data import load_csv

__all__ = ["CATALOGUE", "Entry", "list_datasets", "load_csv", "load_dataset"]
