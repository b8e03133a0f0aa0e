from __future__ import annotations

import importlib
import pkgutil
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import gpmcflow

ROOT = Path(gpmcflow.__file__).parents[1]


def test_no_public_name_is_hidden_by_a_submodule():
    """Importing a submodule sets its name on the package, over a lazy name that is the same."""
    for module in pkgutil.iter_modules(gpmcflow.__path__):
        importlib.import_module(f"gpmcflow.{module.name}")
    for name in gpmcflow.__all__:
        assert not isinstance(getattr(gpmcflow, name), ModuleType), name


@pytest.mark.parametrize(
    "package", ["gpmcflow", "gpmcflow.execution", "gpmcflow.plot", "gpmcflow.storage"]
)
def test_type_checkers_read_the_same_homes_of_names(package):
    """The stub beside a package that imports on first use names what it does, and from where."""
    module = importlib.import_module(package)
    stub = Path(module.__file__).with_suffix(".pyi").read_text()
    imports = re.findall(r"^from (\S+) import \(?\s*(\w+) as (\w+)", stub, re.MULTILINE)
    homes = {(f"{package}.{home}", name, name) for name, home in module._HOME.items()}
    assert set(imports) == homes


def test_types_are_checked_of_all_public_modules():
    """Where a name is taken from, where it is defined, and what classes are derived from."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    public = {f"gpmcflow.{home}" for home in gpmcflow._HOME.values()}
    for name in gpmcflow._HOME:
        value = getattr(gpmcflow, name)
        for origin in getattr(value, "__mro__", [value]):
            module = getattr(origin, "__module__", "")
            public |= {module} if module.startswith("gpmcflow.") else set()
    assert public <= set(settings["tool"]["mypy"]["modules"])
    assert (ROOT / "gpmcflow" / "py.typed").is_file()
