"""Data sets by name, or from a user's own CSV file, as `xarray.Dataset`.

Names are imported on first use: a look at a CSV file needs neither xarray nor the catalogue.
"""

from __future__ import annotations

from gpmcflow.lazy_names import lazy_names

_HOME = {
    "CATALOGUE": "catalogue",
    "Entry": "catalogue",
    "list_datasets": "catalogue",
    "load_csv": "own_data",
    "load_dataset": "catalogue",
}

__all__ = sorted(_HOME)
__getattr__ = lazy_names(__name__, _HOME)
