"""`gpmcflow certify`: a certificate of the fits of an analysis, on data like its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

import gpmcflow
from gpmcflow.analysis import fitting
from gpmcflow.analysis.data import Data, data_of_table
from gpmcflow.analysis.models import build_model
from gpmcflow.analysis.page.certificate import certificate_page
from gpmcflow.analysis.page.words import duration, series
from gpmcflow.analysis.reading import prepare
from gpmcflow.certificate.certificate import Certificate, certified
from gpmcflow.certificate.fits import QUIET, Fit
from gpmcflow.data.target import Target
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.execution import Execution, settings_digest, workers
from gpmcflow.execution.code import code_digest
from gpmcflow.execution.state_folder import write_manifest
from gpmcflow.jobs.job_errors import STATE
from gpmcflow.models.gp_model import GPModel
from gpmcflow.monitor.state_folders import find_runs
from gpmcflow.pipeline.run import checked_with_files
from gpmcflow.storage import write_csv, write_result_text
from gpmcflow.storage.checksums import read_sha256
from gpmcflow.storage.input_files import user_path

N_TIMED = 3  # data sets whose fits are timed for the forecast, and kept
CODE = ("gpmcflow.certificate.fits", "gpmcflow.analysis.fitting", "gpmcflow.analysis.models")


@dataclass(frozen=True)
class AsAnalysed:
    """The draws of a model, as the analysis makes them."""

    chains: int
    draws: int
    warmup: int

    def __call__(self, model: GPModel, *, seed: int, key: tuple[str | int, ...]) -> xr.DataTree:
        """See `certificate.fits.Fit`."""
        return fitting.draw(
            model, vars(self), seed=seed, key=key, execution=QUIET, predictive=False
        )

    def digest(self) -> str:
        """Its settings."""
        return repr(self)


class Certified(NamedTuple):
    """A model of an analysis that is to be certified, and where what is finished is kept."""

    name: str
    model: GPModel
    fit: Fit | None
    seed: int
    key: tuple[str, str]
    state: Path
    target: Target

    def certificate(self, n: int, execution: Execution) -> Certificate:
        """Of n data sets; what is finished is read."""
        results = certified(
            self.model, self.fit, n, seed=self.seed, key=self.key, execution=execution
        ).results
        units = {"outcome_shift": self.target.shift, "outcome_scale": self.target.scale}
        return Certificate(results.assign_attrs(units))

    def n_finished(self) -> int:
        """Data sets that are finished."""
        return sum(
            len(list(run.folder.glob("block_*/segment_*.npz"))) for run in find_runs(self.state)
        )


def certify(
    path: str | Path,
    n: int,
    cores: int | None = None,
    models: Sequence[str] = (),
    *,
    quick: bool = False,
) -> Iterator[str]:
    """Certify the fits of each analysis of a config file; yield lines that say how it goes.

    ``n`` data sets are simulated from the priors of each model, or those named, at the rows of the file, and
    fitted as the analysis fits, with ``quick`` by approximations. Writes certificate.html and certificate.csv
    into the folder of its results. What is finished is kept as it comes; the same call goes on from there,
    and so does one with more data sets.

    Raises `InputErrors` with all that is wrong with the file, `InputError` for models it does not have.
    """
    config, folder = checked_with_files(path, quick=quick), Path(path).resolve().parent
    if not config["analyses"]:
        raise InputError(
            f"{path}: found no analysis; allowed: a config such as gpmcflow new writes"
        )
    n_cores = cores or os.cpu_count() or 1
    with workers("processes" if n_cores > 1 else "synchronous", n_cores) as pool:
        for name, settings in config["analyses"].items():
            data, stated = _data(config, name, folder), _stated(settings, models, str(path))
            own = [_certified(config, name, model, data, folder) for model in stated]
            yield from _forecast(own, n, n_cores, pool)
            certificates = {one.name: one.certificate(n, _execution(one, pool)) for one in own}
            for model, certificate in certificates.items():
                yield f"{model}:"
                yield from (
                    f"  {line}" for line in (*certificate.in_words, certificate.cost_in_words)
                )
            command = _command(path, n, models, quick)
            written = _write(folder, name, config, data, certificates, command)
            yield from (f"wrote {os.path.relpath(path)}" for path in written)


def _data(config: Mapping, name: str, folder: Path) -> Data:
    where = f"analyses.{name}.data"
    table = prepare(name, config["analyses"][name], folder, config["seed"], where)
    return data_of_table(table).whole()


def _stated(settings: Mapping, models: Sequence[str], where: str) -> list[str]:
    for name in models:
        if name not in settings["models"]:
            raise unknown_name(f"{where}: --models", name, settings["models"])
    return [name for name in settings["models"] if not models or name in models]


def _certified(config: Mapping, analysis: str, name: str, data: Data, folder: Path) -> Certified:
    settings, seed = config["analyses"][analysis], config["seed"]
    model = build_model(settings, name, data, f"analyses.{analysis}")
    fit = None if settings["quick"] else AsAnalysed(**settings["sampling"])
    wildcards = {"analysis": analysis, "model": name}
    identity = {
        "rule": "certify",
        "wildcards": wildcards,
        "model": model.digest(),
        "fit": "approximate" if fit is None else fit.digest(),
        "seed": seed,
        "code": code_digest(*CODE),
    }
    digest = settings_digest(identity)
    state = folder / STATE / digest
    output = f"results/{analysis}/certificate.csv"
    facts = {"rule": "certify", "wildcards": wildcards, "output": output}
    write_manifest(state / "job.json", facts | {"identity_digest": digest})
    return Certified(name, model, fit, seed, (analysis, name), state, data.target)


def _execution(one: Certified, pool: Any) -> Execution:
    label = f"certify {one.name}"
    return Execution(scheduler=pool, block_size=1, state_dir=one.state, progress=label)


def _forecast(own: Sequence[Certified], n: int, cores: int, pool: Any) -> Iterator[str]:
    """A line with the time to expect, by the first data sets of each model, which are kept."""
    left, seconds = 0, 0.0
    for one in own:
        first = one.certificate(min(n, N_TIMED), _execution(one, pool)).results
        missing = max(n - one.n_finished(), 0)
        left += missing
        seconds += missing * float(np.median(first["seconds"]))
    what = f"{n} data sets for each of {len(own)} models" if len(own) > 1 else f"{n} data sets"
    head = f"{what} ({series([one.name for one in own])})"
    if not left:
        yield f"{head}: nothing is left to fit"
        return
    at = f"{cores} core{'s' * (cores > 1)}"
    time = f"about {duration(seconds / min(cores, left))} on {at}"
    there = f"{n * len(own) - left} of them finished"
    yield f"{head}, {there}: {time}; Ctrl-C is safe, the same command goes on from there"


def _command(path: str | Path, n: int, models: Sequence[str], quick: bool) -> str:
    named = f" --models {' '.join(models)}" if models else ""
    return f"gpmcflow certify {Path(path).name}{named} -n {n}{' --quick' * quick}"


def _write(
    folder: Path,
    analysis: str,
    config: Mapping,
    data: Data,
    certificates: Mapping[str, Certificate],
    command: str,
) -> list[Path]:
    """The table and the page."""
    place, settings = folder / "results" / analysis, config["analyses"][analysis]
    frames = [c.table().assign(model=name) for name, c in certificates.items()]
    frame = pd.concat(frames, ignore_index=True)
    frame.insert(0, "model", frame.pop("model"))
    csv = settings["data"].get("csv") or settings["data"].get("table")
    source = user_path(csv, folder) if settings["data"].get("csv") else None
    made_of = [
        (str(csv), read_sha256(source) if source else "of scikit-learn"),
        ("settings", settings_digest(json.loads(json.dumps({**settings, "seed": config["seed"]})))),
        ("code", code_digest(*CODE)),
        ("gpmcflow", gpmcflow.__version__),
    ]
    sampling = settings["sampling"]
    info = {
        "csv": str(csv),
        "n_rows": len(data.learning.y),
        "n": max(c.results.sizes["data_set"] for c in certificates.values()),
        "around": "from the priors of the model",
        "fit": "by the approximation of a quick run: Gaussians at settings of the hyperparameters"
        if settings["quick"]
        else f"as the analysis is: {sampling['chains']} chains of {sampling['draws']} draws",
        "command": command,
        "made_of": made_of,
    }
    page = certificate_page(certificates, info, gpmcflow.__version__)
    place.mkdir(parents=True, exist_ok=True)
    write_csv(frame, place / "certificate.csv")
    write_result_text(page, place / "certificate.html")
    return [place / "certificate.html", place / "certificate.csv"]
