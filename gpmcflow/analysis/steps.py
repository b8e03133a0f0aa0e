"""The jobs of each model of an analysis: from files to a results tree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import xarray as xr

from gpmcflow.analysis import evidence_tables as averaged_evidence
from gpmcflow.analysis import fitting
from gpmcflow.analysis.choice import RULED_OUT, Candidate, chosen, ruled_out
from gpmcflow.analysis.data import Data, data_of
from gpmcflow.analysis.models import build_model, model_statement
from gpmcflow.execution import Execution, workers
from gpmcflow.jobs.job import Job
from gpmcflow.models.gp_model import GPModel
from gpmcflow.storage import load_results, standard_attributes, with_attributes

SEGMENT = 50  # draws between two checkpoints


class _Step:
    """Data, model and attributes of a job of one model."""

    def __init__(self, job: Job) -> None:
        self.job, self.settings = job, job.settings
        stored = load_results(job.input.data)
        analysis, (model, data, *rest) = job.wildcards.analysis, self._taken(data_of(stored))
        self.data: Data = data
        self.model: GPModel = build_model(self.settings, model, self.data, f"analyses.{analysis}")
        self.streams = {"seed": job.seed, "key": (analysis, model, *rest)}
        kind = self.data.target.kind
        self.attributes = standard_attributes(
            settings={"problem": model_statement(self.settings, model, kind)},
            seed=job.seed,
            data_checksum=stored.attrs["data_checksum"],
            name=analysis,
        )

    def _taken(self, data: Data) -> tuple:
        """Name of the model, its data, and what else its random numbers depend on."""
        return self.job.wildcards.model, data

    def stamped(self, tree: xr.DataTree) -> xr.DataTree:
        """The tree with attributes that say what it was made of."""
        return with_attributes(tree, self.attributes)

    def execution(self) -> Execution:
        """A block a chain, checkpoints in the job's folder."""
        settings = self.job.execution
        about = {"model": self.attributes["settings"], "data": self.attributes["data_checksum"]}
        return Execution(
            workers=int(settings["workers"]),
            scheduler=settings["scheduler"] or None,
            block_size=1,
            segment_length=SEGMENT,
            state_dir=self.job.state_dir(),
            settings=about,
            progress=": ".join(self.streams["key"]),
        )

    def draws(self, **given: xr.DataTree | None) -> xr.DataTree:
        """Posterior draws of the model; ``given`` as `fitting.draw` takes it."""
        how = self.execution()
        with workers(how.pool, how.workers) as pool:  # for the pilot, the chains, and as they go on
            how, sampling = replace(how, scheduler=pool), self.settings["sampling"]
            return fitting.draw(self.model, sampling, execution=how, **given, **self.streams)


class _Final(_Step):
    """The same of the shown model and all rows."""

    def _taken(self, data: Data) -> tuple:
        trees: dict[str, dict[str, xr.DataTree]] = {model: {} for model in self.settings["models"]}
        for path in map(Path, self.job.input.results):
            trees[path.parent.name][path.stem] = load_results(path)
        candidates = {model: Candidate.of_trees(own) for model, own in trees.items()}
        shown = chosen(candidates).name
        self.first, self.earlier = trees[shown]["fit"], trees[shown].get("posterior")
        return shown, data.whole(), fitting.ALL_ROWS


def fit(job: Job) -> xr.DataTree:
    """The quick fit of a model; see `fitting.fit`."""
    step = _Step(job)
    evidence, scores_alone = (step.settings[key] for key in ("evidence", "scores_alone"))
    tree = fitting.fit(step.model, step.data, evidence, scores_alone=scores_alone, **step.streams)
    return step.stamped(tree)


def draw(job: Job) -> xr.DataTree:
    """Posterior draws of a model; none where the quick fits of all rule it out, which an attribute says.

    `summarise` and `evidence` then hand that on: what is known of such a model is its quick fit.
    """
    step = _Step(job)
    if step.settings["sampling"]["every_model"]:
        return step.draws()
    fits = {Path(path).parent.name: load_results(path) for path in job.input.fits}
    quick = {name: Candidate.of_trees({"fit": fit}) for name, fit in fits.items()}
    averaged = all("settings" in fit.children for fit in fits.values())
    if ruled_out(job.wildcards.model, quick, averaged):
        return step.stamped(xr.DataTree(xr.Dataset(attrs={RULED_OUT: 1})))
    return step.draws()


def summarise(job: Job) -> xr.DataTree:
    """What the draws of a model say; see `fitting.summarise`."""
    step, draws = _Step(job), load_results(job.input.draws)
    if RULED_OUT in draws.attrs:
        return draws
    scores_alone = step.settings["scores_alone"]
    tree = fitting.summarise(
        step.model, draws, step.data, scores_alone=scores_alone, **step.streams
    )
    return step.stamped(tree)


def final_draw(job: Job) -> xr.DataTree:
    """Posterior draws of the shown model given all rows."""
    step = _Final(job)
    return step.draws(earlier=step.earlier)


def final(job: Job) -> xr.DataTree:
    """What the shown model says once it has learnt from all rows: `fitting.answer`."""
    step = _Final(job)
    draws = None if step.settings["quick"] else load_results(job.input.draws)
    answered = fitting.answer(step.model, step.data, draws, first=step.first, **step.streams)
    return step.stamped(answered)


def evidence(job: Job) -> xr.DataTree:
    """Log evidence of a model, averaged over its hyperparameters; see `averaged_evidence.evidence_of`."""
    step, draws = _Step(job), load_results(job.input.draws)
    if RULED_OUT in draws.attrs:
        return draws
    return averaged_evidence.evidence_of(
        step.model,
        draws,
        step.settings["evidence"],
        log_units=float(step.data.learning.log_units(step.data.target).sum()),
        execution=step.execution(),
        **step.streams,
    )
