"""A study as the workflow sees it: one object that says what to check, run, forecast and show.

Imported by the Snakefile, which is parsed again for each cluster job: no NumPy here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class PlannedJob:
    """One Snakemake job: its rule, the first file it declares, and the files it waits for."""

    rule: str
    output: str
    problem: str | None = None
    method: str | None = None
    needs: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Study:
    """A kind of study. All that walks studies asks these, never for a study by its name.

    Attributes
    ----------
    key:
        Key of the config that its settings stand under.
    check:
        Called with the checked config, the start of messages and the folder that the workflow runs in; raises
        `InputError` for what a schema cannot see.
    jobs:
        Called with the checked config, gives the jobs it stands for, each after those it needs.
    costs:
        "module:name" of the mapping from rule to the function (context, job) that forecasts its cost.
    answers:
        "module:function" called with the config and the folder of the run, which gives what the first page
        shows of it: pairs of a folder of results and its facts.
    """

    key: str
    check: Callable[[Mapping[str, Any], str, Path], None]
    jobs: Callable[[Mapping[str, Any]], Iterator[PlannedJob]]
    costs: str
    answers: str

    def load(self, name: str) -> Any:
        """What an attribute of the form "module:name" names."""
        module, attribute = getattr(self, name).split(":")
        return getattr(importlib.import_module(module), attribute)
