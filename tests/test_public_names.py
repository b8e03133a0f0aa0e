from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import gpmcflow


def test_no_public_name_is_hidden_by_a_submodule():
    """Importing a submodule sets its name on the package, over a lazy name that is the same."""
    for found in pkgutil.iter_modules(gpmcflow.__path__):
        importlib.import_module(f"gpmcflow.{found.name}")
    for name in gpmcflow.__all__:
        assert not isinstance(getattr(gpmcflow, name), ModuleType), name
