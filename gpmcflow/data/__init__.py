"""Data sets by name, or from a user's own CSV file, as `xarray.Dataset`."""

from __future__ import annotations

from gpmcflow.data.catalogue import CATALOGUE, Entry, list_datasets, load_dataset
from gpmcflow.data.own_data import load_csv

__all__ = ["CATALOGUE", "Entry", "list_datasets", "load_csv", "load_dataset"]
