"""Data sets by name, or from a user's own CSV file, as `xarray.Dataset`.

Names are imported on first use: a look at a CSV file needs neither xarray nor the catalogue.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "CATALOGUE": "catalogue",
    "Entry": "catalogue",
    "list_datasets": "catalogue",
    "load_csv": "own_data",
    "load_dataset": "catalogue",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
