"""An analysis of a table from Python: what the commands `new`, `run` and `predict` do, and its tables."""

from __future__ import annotations

import html
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from gpmcflow.analysis.of_model import write_model_report
from gpmcflow.analysis.page.results import Analysis
from gpmcflow.covariances.expressions import Covariance
from gpmcflow.covariances.inputs import table_of
from gpmcflow.data.suggestions import suggest
from gpmcflow.errors import GpmcflowError, InputError, StorageError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.pipeline.new import analysis_name
from gpmcflow.pipeline.predict import predict_file, results_folder
from gpmcflow.pipeline.run import run
from gpmcflow.storage import load_results, read_csv, write_text
from gpmcflow.storage.input_files import load_json


class AnalysisFolder:
    """A finished analysis: its report, tables and draws, read from the files of its folder.

    Attributes
    ----------
    folder:
        Where its files are, such as results/patients.
    models:
        One row for each model and simple peer: evidence, leave-one-out, scores on the rows held out.
    relevance:
        One row for each column: how far the expected outcome goes with it, and the chance of no effect.
    effects:
        The expected outcome at values of each column, averaged over the rows.
    map:
        The expected outcome over the plane of two coordinates.
    predictions:
        The rows held out, with what was predicted of them; those left out one by one where none were.
    columns:
        What was done with each column of the file.
    draws:
        The results file of each model by its name, read on demand: draws, or the fit of a quick run.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        self.info = load_json(self.folder / "info.json")

    def __repr__(self) -> str:
        quick = ", quick" if self.info["quick"] else ""
        return f"AnalysisFolder({str(self.folder)!r}: {self.info['target']['name']}{quick})"

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    @cached_property
    def models(self) -> pd.DataFrame:
        """See the class."""
        return read_csv(self.folder / "models.csv").set_index("name")

    @cached_property
    def relevance(self) -> pd.DataFrame:
        """See the class."""
        return read_csv(self.folder / "relevance.csv").set_index("column")

    @cached_property
    def effects(self) -> pd.DataFrame:
        """See the class."""
        return self._of_response("effects")

    @cached_property
    def map(self) -> pd.DataFrame:
        """See the class."""
        if not self.info["coordinates"]:
            raise InputError(f"{self!r}: has no map, as its inputs hold no coordinates")
        return self._of_response("map")

    def _of_response(self, table: str) -> pd.DataFrame:
        """A table, and what it is of in its attributes."""
        frame, page = read_csv(self.folder / f"{table}.csv"), Analysis(self.info, {})
        frame.attrs = {"long_name": page.response, "kind": page.kind, "share": page.own.shares}
        frame.attrs["names"] = list(self.info["coordinates"])
        return frame

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """See the class."""
        scored = self.folder / "predictions_test.csv"
        return read_csv(scored if scored.is_file() else self.folder / "predictions_loo.csv")

    @cached_property
    def columns(self) -> pd.DataFrame:
        """See the class."""
        return read_csv(self.folder / "columns.csv")

    @property
    def draws(self) -> Mapping[str, xr.DataTree]:
        """See the class."""
        return _Draws(self.folder)

    def report(self) -> Report:
        """Return the page, which a notebook shows; its ``path`` opens in a browser."""
        return Report(self.folder / "report.html")

    def predict(self, new: Any) -> pd.DataFrame:
        """Predict new rows with the shown model, learnt from all rows.

        Parameters
        ----------
        new:
            A frame with the columns of the file but the outcome, or the path of a CSV file.

        Returns
        -------
        One row for each new row, with mean, sd, quantiles, and a note where it is unlike the data.

        Raises
        ------
        InputErrors:
            For rows that cannot be read.
        StorageError:
            For files that are not all of one run, or of another version of the package.
        """
        with tempfile.TemporaryDirectory() as temporary:
            csv, output = Path(temporary) / "new.csv", Path(temporary) / "predictions.csv"
            csv = csv if (frame := table_of(new)) is not None else Path(new).resolve()
            if frame is not None:
                frame.to_csv(csv, index=False)
            predict_file(str(self.folder), csv, output)
            predicted = read_csv(output)
        return predicted if frame is None else predicted.set_axis(frame.index)


class Report:
    """The page of an analysis, at ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Report({str(self.path)!r})"

    def _repr_html_(self) -> str:
        page = html.escape(self.path.read_text(encoding="utf-8"), quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="700" style="border: 0"></iframe>'


class _Draws(Mapping):
    """Results files by the names of the models."""

    def __init__(self, folder: Path) -> None:
        self._paths = {}
        for model in sorted(path for path in folder.iterdir() if path.is_dir()):
            for kind in ("posterior", "fit"):
                if (path := model / f"{kind}.nc").is_file():
                    self._paths[model.name] = path
                    break

    def __getitem__(self, name: str) -> xr.DataTree:
        return load_results(self._paths[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def analyse(
    data: Any,
    target: str,
    *,
    models: Mapping[str, str | Covariance] | None = None,
    quick: bool = True,
    folder: str | Path | None = None,
    name: str | None = None,
    positive: str | None = None,
    area_map: str | Path | None = None,
    neighbours: str | Path | None = None,
    offset: str | None = None,
    weights: str | None = None,
    cores: int | None = None,
) -> AnalysisFolder:
    """Analyse a table: read it, fit the models, score them, and write the report.

    It does what ``gpmcflow new`` and ``gpmcflow run`` do, with the same files in the same places: a config
    ``<name>.yaml``, and ``results/<name>`` beside it. Where these are there, what is finished is kept.

    Parameters
    ----------
    data:
        A frame (pandas, polars, pyarrow), or the path of a CSV file.
    target:
        The column of the outcome.
    models:
        Covariances, as text or expressions, by names of your own; by default those that the file suggests.
    quick:
        Whether an approximation is enough: seconds. Without it hyperparameters are integrated over, in
        minutes, and what is finished goes on after a stop.
    folder:
        Where config and results go; by default a new temporary folder for a frame, and the one of a file.
    name:
        Of the analysis; by default that of the file, or of the outcome.
    positive:
        The answer that counts as yes, where the outcome has two.
    area_map, neighbours:
        Paths of a GeoJSON file of areas and of a file with pairs of neighbours, as ``--map`` and
        ``--neighbours`` of ``gpmcflow new``: a column has the names of the areas, and in the suggested models
        these resemble their neighbours.
    offset:
        The column of logs of exposures, which are added to the log of expected counts.
    weights:
        The column of whole numbers that say how many equal rows each row stands for.
    cores:
        Jobs at a time; by default all cores.

    Returns
    -------
    An `AnalysisFolder`.

    Raises
    ------
    InputError, InputErrors:
        For a table, an outcome or models that cannot be used.
    StorageError:
        For a config of that name with other content.
    GpmcflowError:
        Where a job of the run fails.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import gpmcflow as gp
    >>> rng = np.random.default_rng(0)
    >>> plots = pd.DataFrame({"rain": rng.normal(80.0, 10.0, 60), "soil": rng.choice(["clay", "sand"], 60)})
    >>> plots["harvest"] = 0.1 * plots.rain + rng.normal(0.0, 0.5, 60)
    >>> lines = {"lines": "linear() + constant()"}
    >>> analysis = gp.analyse(plots, "harvest", models=lines)  # doctest: +ELLIPSIS
    1/5  analysis read  harvest ...
    >>> bool(analysis.relevance.chance["rain"] < 0.01)
    True
    >>> analysis.predict(pd.DataFrame({"rain": [70.0], "soil": ["clay"]}))["mean"].round(0).item()
    7.0
    """
    frame = table_of(data)
    stem = target if frame is not None else Path(data).stem
    name = analysis_name(name or stem)
    if folder is None:
        folder = tempfile.mkdtemp(prefix="gpmcflow-") if frame is not None else Path(data).parent
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if frame is not None:
        csv = folder / f"{name}.csv"
        _write_once(csv, frame.to_csv(index=False))
    else:
        csv = Path(data).resolve()
    files = {"area_map": area_map, "neighbours": neighbours}
    stated = {key: str(Path(path).resolve()) for key, path in files.items() if path is not None}
    suggestion = suggest(
        csv, target, positive=positive, offset=offset, weights=weights, **stated
    ).moved(folder)
    text = suggestion.text(name, csv=os.path.relpath(csv, folder))
    _write_once(folder / f"{name}.yaml", text if models is None else _with_models(text, models))
    code = run(folder / f"{name}.yaml", cores, quick=quick)
    if code:
        raise GpmcflowError(
            f"analysis {name}: the run in {folder} failed; what it printed says why"
        )
    return AnalysisFolder(folder / "results" / name)


def report(
    draws: Any,
    folder: str | Path | None = None,
    *,
    title: str | None = None,
    model: GPModel | None = None,
    seed: int = 0,
) -> Report:
    """Write the report of a model made in Python: the page that the commands write, as far as draws go.

    Effects and their intervals, leave-one-out beside simple models, calibration of labels, hyperparameters
    before and after the data, checks of the chains; of grades and classes the probability of each, of times
    the share that lasts longer. Rows held out, predictions of new rows, maps and the evidence are left out,
    and the page says so.

    Parameters
    ----------
    draws:
        Draws of `sample` from a `GPModel` with free hyperparameters, such as one of `GPModel.from_frame`,
        whose names the page takes; or ``approximate(model, integrated=True)``.
    folder:
        Where the page and its tables go; by default a new temporary folder.
    title:
        Of the page; by default the name of the outcome.
    model:
        Of draws that do not tell theirs, as of `predict`.
    seed:
        Of the rows that effects are averaged over.

    Returns
    -------
    A report, which a notebook shows; its ``path`` opens in a browser.

    Raises
    ------
    InputError:
        For other sources, several latent functions but of classes, and likelihoods that the page cannot show.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> rng = np.random.default_rng(0)
    >>> plots = {"rain": rng.normal(80.0, 10.0, 40)}
    >>> plots["harvest"] = 0.1 * plots["rain"] + rng.normal(0.0, 0.5, 40)
    >>> model = gp.GPModel.from_frame(plots, "harvest", "linear(rain)")
    >>> page = gp.report(gp.sample(model, n_draws=200, n_chains=2))
    >>> "Which columns matter?" in page.path.read_text()
    True
    """
    folder = Path(tempfile.mkdtemp(prefix="gpmcflow-") if folder is None else folder).resolve()
    return Report(write_model_report(draws, folder, title=title, model=model, seed=seed))


def open_analysis(folder: str | Path) -> AnalysisFolder:
    """Open a finished analysis, made by `analyse` or by the commands.

    Parameters
    ----------
    folder:
        Of its results, such as "results/patients"; or its name, or its config file.

    Returns
    -------
    An `AnalysisFolder`.

    Raises
    ------
    StorageError:
        Where no finished analysis is there.

    Examples
    --------
    >>> import gpmcflow as gp
    >>> from gpmcflow.errors import StorageError
    >>> try:
    ...     gp.open_analysis("results/patients")
    ... except StorageError as error:
    ...     print(str(error)[:55])
    open_analysis: no finished analysis 'results/patients':
    """
    return AnalysisFolder(results_folder(str(folder), "open_analysis"))


def _write_once(path: Path, text: str) -> None:
    """Write a file, unless it is there with that content; `StorageError` where it has another."""
    if not path.is_file():
        write_text(text, path)
    elif path.read_text(encoding="utf-8") != text:
        raise StorageError(
            f"{path}: is there with other content; give another folder= or name=, or remove it; an analysis "
            "as it is there is opened by gp.open_analysis"
        )


def _with_models(text: str, models: Mapping[str, str | Covariance]) -> str:
    """The config with other models."""
    if not models or not isinstance(models, Mapping):
        raise InputError(f"analyse: models are {models!r}; allowed: covariances by names")
    head = text[: re.search(r"^models:", text, re.MULTILINE).start()]  # type: ignore[union-attr]
    lines = [
        f"  {json.dumps(str(name))}: {{covariance: {json.dumps(str(covariance))}}}"
        for name, covariance in models.items()
    ]
    return "\n".join([head + "models:", *lines, ""])
