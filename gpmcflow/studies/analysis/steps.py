"""The jobs of an analysis: from files to a results tree. Settings are those of the config, by key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from gpmcflow.execution import Execution
from gpmcflow.models.gp_model import GPModel
from gpmcflow.storage import load_results, standard_attributes, with_attributes
from gpmcflow.studies.analysis import averaged_evidence, fitting
from gpmcflow.studies.analysis.data import Data, data_of
from gpmcflow.studies.analysis.models import build_model, model_statement

SEGMENT = 50  # draws between two checkpoints


class _Step:
    """Data, model and attributes of a job."""

    def __init__(self, path: str | Path, names: Any, params: Any) -> None:
        self.settings, self.seed = params.settings, params.seed
        self.key = (names.analysis, names.model)
        stored = load_results(path)
        self.data: Data = data_of(stored)
        where = f"analyses.{names.analysis}"
        self.model: GPModel = build_model(self.settings, names.model, self.data, where)
        kind = self.data.target.kind
        self.attributes = standard_attributes(
            settings={"problem": model_statement(self.settings, names.model, kind)},
            seed=self.seed,
            data_checksum=stored.attrs["data_checksum"],
            name=names.analysis,
        )

    def told(self, tree: xr.DataTree) -> xr.DataTree:
        """The tree with attributes that say what it was made of."""
        return with_attributes(tree, self.attributes)

    def execution(self, settings: Mapping, state_dir: str | None) -> Execution:
        """A block a chain, checkpoints in ``state_dir``."""
        about = {"model": self.attributes["settings"], "data": self.attributes["data_checksum"]}
        return Execution(
            workers=int(settings["workers"]),
            scheduler=settings["scheduler"] or None,
            block_size=1,
            segment_length=SEGMENT,
            state_dir=state_dir,
            settings=about,
            progress=": ".join(self.key),
        )


def fit_step(path: str | Path, names: Any, params: Any) -> xr.DataTree:
    """The quick fit of a model; see `fitting.fit`. ``names`` are wildcards, ``params`` settings and seed."""
    step = _Step(path, names, params)
    tree = fitting.fit(
        step.model, step.data, step.settings["evidence"], seed=step.seed, key=step.key
    )
    return step.told(tree)


def draw_step(
    path: str | Path, names: Any, params: Any, *, execution: Mapping, state_dir: str | None
) -> xr.DataTree:
    """Posterior draws of a model, resumed from ``state_dir``."""
    step = _Step(path, names, params)
    return fitting.draw(
        step.model,
        step.settings["sampling"],
        seed=step.seed,
        key=step.key,
        execution=step.execution(execution, state_dir),
    )


def summary_step(path: str | Path, draws: str | Path, names: Any, params: Any) -> xr.DataTree:
    """What the draws of a model say; see `fitting.summarise`."""
    step = _Step(path, names, params)
    tree = fitting.summarise(
        step.model, load_results(draws), step.data, seed=step.seed, key=step.key
    )
    return step.told(tree)


def evidence_step(
    path: str | Path,
    draws: str | Path,
    names: Any,
    params: Any,
    *,
    execution: Mapping,
    state_dir: str | None,
) -> xr.DataTree:
    """Log evidence of a model, averaged over its hyperparameters; see `averaged_evidence.evidence_of`."""
    step = _Step(path, names, params)
    return averaged_evidence.evidence_of(
        step.model,
        load_results(draws),
        step.settings["evidence"],
        scale=step.data.target.scale,
        seed=step.seed,
        key=step.key,
        execution=step.execution(execution, state_dir),
    )
