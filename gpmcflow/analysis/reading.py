"""The first step of an analysis: the file as its settings say, and what became of rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from gpmcflow.analysis.data import beside_predictions, data_of_table, data_tree, widened
from gpmcflow.analysis.models import build_model, kind_of
from gpmcflow.covariances.correlated_group import correlation_of
from gpmcflow.data.own_settings import read_settings
from gpmcflow.data.own_table import Part, PreparedTable, encode_new, prepare_table, read_table
from gpmcflow.data.scikit_tables import scikit_table
from gpmcflow.errors import GpmcflowError, InputError, InputErrors, unknown_name
from gpmcflow.jobs.job import Job
from gpmcflow.storage import standard_attributes, with_attributes, write_csv
from gpmcflow.storage.input_files import user_path

PATHS = ("csv", "new", "map", "graphs", "correlations")  # of the settings of data
# columns that belong to the outcome, and are no inputs
OF_OUTCOME = ("exposure", "trials", "offset", "weights", "event", "until")


def read(job: Job) -> xr.DataTree:
    """The rows of an analysis as a model takes them; what became of rows and columns is written beside."""
    name, settings = job.wildcards.analysis, job.settings
    table = prepare(name, settings, ".", job.seed, f"analyses.{name}.data")
    write_rows(Path(job.output.rows).parent, table)
    return tree_of(name, settings, table, job.seed)


def problems_of(name: str, settings: Mapping[str, Any], folder: Path, seed: int) -> Iterator[str]:
    """All that is wrong with the file and the models of an analysis, a line each."""
    if "table" in settings["data"]:
        return
    try:
        data = data_of_table(prepare(name, settings, folder, seed, "data"))
    except InputErrors as errors:
        yield from errors.problems
        return
    except InputError as error:
        yield str(error)
        return
    for model in settings["models"]:
        try:
            build_model(settings, model, data, name)
        except GpmcflowError as error:
            yield str(error).removeprefix(f"{name}.")


def prepare(
    name: str, settings: Mapping[str, Any], folder: str | Path, seed: int, where: str
) -> PreparedTable:
    """The prepared table of an analysis.

    A table of scikit-learn is written to ``results/<name>/<table>.csv`` first. Raises `InputErrors` for all
    that is wrong with the file.
    """
    stated, folder = dict(settings["data"]), Path(folder)
    if (kind := kind_of(settings.get("likelihood"))) and not stated.get("positive"):
        stated.setdefault("outcome", kind)
    table = stated.pop("table", None)
    if table is not None:
        stated["csv"] = str(Path("results", name, f"{table}.csv"))
        write_csv(scikit_table(table), folder / stated["csv"])
    use = stated.pop("use", None)
    if use is not None:
        kept = {stated["target"], *use, *(stated.get("coordinates") or ())}
        kept |= {stated[key] for key in OF_OUTCOME if stated.get(key)}
        if any(stated.get(key) for key in PATHS[2:]):
            kept |= set(stated.get("groups") or ())
        path = user_path(stated["csv"], folder)
        columns = list(read_table(path, read_settings(stated, where)[0].separator).columns)
        for column in use:
            if column not in columns:
                raise unknown_name(f"{where}.use: column", column, columns)
        stated["drop"] = [column for column in columns if column not in kept]
    prepared = prepare_table(stated, folder, seed=seed, where=where)
    for tree, told in prepared.encoding.known.correlations.items():
        correlation_of(tuple(told), f"{where}.correlations.{tree}: {stated['correlations'][tree]}")
    if prepared.new is None or prepared.test is None:
        return prepared
    encoding = widened(prepared.encoding, prepared.test.X)  # held-out rows are learnt from, too
    return prepared._replace(new=encode_new(encoding, user_path(stated["new"], folder)))


def tree_of(name: str, settings: Mapping[str, Any], table: PreparedTable, seed: int) -> xr.DataTree:
    """The prepared table as a results file, with the checksum of the CSV file."""
    told = {key: value for key, value in settings["data"].items() if key not in PATHS}
    attributes = standard_attributes(
        settings=told, seed=seed, data_checksum=table.checksum, name=name
    )
    return with_attributes(data_tree(table), attributes)


def write_rows(folder: str | Path, table: PreparedTable) -> None:
    """Write `rows.csv`, `columns.csv`, and `new_rows.csv` (row, note, cells), into a folder."""
    write_csv(table.rows, Path(folder, "rows.csv"))
    write_csv(table.columns, Path(folder, "columns.csv"))
    write_csv(cells_of(table.new), Path(folder, "new_rows.csv"))


def cells_of(part: Part | None) -> pd.DataFrame:
    """Cells of rows as text, with their line in the file and what is to be said of them."""
    if part is None:
        return pd.DataFrame(columns=["row", "note"])
    cells = part.table.reset_index(drop=True).rename(columns=beside_predictions)
    return pd.concat([pd.DataFrame({"row": part.row, "note": part.note}), cells], axis=1)
