"""`gpmcflow predict`: predictions of new rows by a finished analysis."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from gpmcflow.analysis import tables
from gpmcflow.analysis.data import data_of, rows_of
from gpmcflow.analysis.fitting import N_PREDICTED, stored_predictors
from gpmcflow.analysis.grades import PREFIX
from gpmcflow.analysis.models import build_model
from gpmcflow.analysis.reading import cells_of
from gpmcflow.analysis.study import DRAW, FINAL, FINAL_DRAW, FIT, holds_out, made_of
from gpmcflow.analysis.summaries import predictions_of
from gpmcflow.approximations.prediction import predictors
from gpmcflow.approximations.predictive import mixture
from gpmcflow.data.outcome_kinds import KINDS
from gpmcflow.data.own_table import Part, encode_new
from gpmcflow.errors import InputError, StorageError, refuse_unfit
from gpmcflow.execution.code import code_digest
from gpmcflow.jobs.study import Stage
from gpmcflow.storage import csv_text, load_results, read_sidecar, write_text
from gpmcflow.storage.atomic import is_special
from gpmcflow.storage.checksums import recorded_checksum
from gpmcflow.storage.input_files import load_json, load_yaml, user_path


def results_folder(name: str, who: str = "predict") -> Path:
    """Folder of the results of an analysis, by its name, its config file or the folder itself.

    Raises `StorageError` where no finished analysis is there.
    """
    named = Path(name)
    candidates = [Path("results", name), named]
    if named.suffix in (".yaml", ".yml"):
        candidates = [named.parent / "results" / named.stem]
    for folder in candidates:
        if (folder / "info.json").is_file():
            return folder
    there = sorted(path.parent.name for path in Path("results").glob("*/info.json"))
    raise StorageError(
        f"{who}: no finished analysis {name!r}: {candidates[0]}/info.json is not there; allowed: "
        f"{', '.join(there) or 'none in results/ here'}; run gpmcflow run first"
    )


def predict_file(name: str, csv: str | Path, output: str | Path, *, raw: bool = False) -> list[str]:
    """Predict the rows of a CSV file with the shown model, learnt from all rows; return lines that say so.

    ``output`` gets a row for each row of the CSV file: row (its line), ids, mean, sd, quantiles, for yes or
    no the probability, note, and the cells. "-" is standard output. Text that a spreadsheet would take for a
    formula gets an apostrophe before it, but not with ``raw``. Raises `StorageError` and `InputErrors` for
    results and files that cannot be read, `StorageError` also for results that are not all of one run, or of
    another version of the package, and `InputError` for an output that is no file of the user's own.
    """
    folder = results_folder(name)
    info, settings = load_json(folder / "info.json"), load_yaml(folder / "config.yaml")
    read = [info["yaml"], settings["data"]["csv"], settings["data"].get("new")]
    if not is_standard_output(output):
        _refuse_to_write_over(Path(output), Path(csv), folder, [path for path in read if path])
    of_the_run, advice = f"{folder}: a file of the analysis", "run it again"
    with refuse_unfit(of_the_run, advice):
        _require_one_run(folder, info, settings)
        data = data_of(load_results(folder / "data.nc")).whole()
    part = encode_new(data.encoding, Path(csv))
    rows = rows_of(part)
    with refuse_unfit(of_the_run, advice):
        model = build_model(settings, info["shown"], data, info["name"])
        tree = load_results(folder / _predicting(info, settings)[0])
        if info["quick"]:
            own = stored_predictors(model, tree)
        else:
            own = predictors(tree, model=model, n_draws=N_PREDICTED)
    coded = model.new_inputs(rows.X, "new")
    eta = mixture([predictor.moments(coded) for predictor in own], **rows.units(data.target.kind))
    group = predictions_of(eta, rows, data)
    table = tables.predictions_new(group, data._replace(new=rows), cells_of(part))
    _write_output(csv_text(table, raw=raw), output)
    return list(_told(table, part, info, output))


def is_standard_output(output: str | Path) -> bool:
    """Return whether an output is standard output: "-", or another name for where that goes."""
    try:
        return str(output) == "-" or os.path.samestat(os.stat(output), os.fstat(1))
    except (OSError, ValueError):
        return False


def _write_output(text: str, output: str | Path) -> None:
    """Write a table to a file, to standard output, or into a pipe that another process reads."""
    if is_standard_output(output):
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
    elif Path(output).is_fifo():
        Path(output).write_bytes(text.encode())
    else:
        write_text(text, Path(output).resolve())


def _predicting(info: Mapping, settings: Mapping) -> tuple[str, Stage]:
    """The file of the fit, or the draws, that new rows are predicted from, and the stage that made it."""
    if holds_out(settings):
        return ("final.nc", FINAL) if info["quick"] else ("final_posterior.nc", FINAL_DRAW)
    kind, stage = ("fit", FIT) if info["quick"] else ("posterior", DRAW)
    return f"{info['shown']}/{kind}.nc", stage


def _require_one_run(folder: Path, info: Mapping, settings: Mapping) -> None:
    """Raise `StorageError` unless data, fits and settings are those of the report, and made by this code."""
    run = f"run gpmcflow run {info['yaml']}{' --quick' * bool(info['quick'])}"
    used, stage = _predicting(info, settings)
    for path, digest in made_of(folder, [used]).items():
        if info.get("made_of", {}).get(path) != digest:
            raise StorageError(
                f"{folder}: {path} is not what the report was made of: a later run has not finished; {run}"
            )
    code = read_sidecar(folder / used).get("code")
    if code is not None and code != code_digest(stage.entry, *stage.code):
        raise StorageError(
            f"{folder}: made by other code: another version of gpmcflow, or another minor version of Python; "
            f"{run}"
        )


def _refuse_to_write_over(output: Path, csv: Path, folder: Path, stated: list[str]) -> None:
    """Raise `InputError` for an output that is read here, or by the analysis, or is one of its results."""
    place, project = output.resolve(), folder.resolve().parents[1]
    if place == csv.resolve():
        raise InputError(f"{output}: the file of the new rows itself; give another --output")
    if place in [user_path(path, project).resolve() for path in stated]:
        raise InputError(f"{output}: a file that the analysis is made of; give another --output")
    results = folder.resolve().parent
    own = results if results.name == "results" else folder.resolve()
    if place.is_relative_to(own) or recorded_checksum(place) is not None:
        raise InputError(
            f"{output}: a place for results of analyses, which runs write; give another --output"
        )
    if is_special(place) and not place.is_fifo():
        raise InputError(
            f"{output}: a device or a socket; allowed: a file, a pipe, - for standard output"
        )


def _told(table: pd.DataFrame, part: Part, info: Mapping, output: str | Path) -> Iterator[str]:
    unseen = [note for note in part.note if "not seen" in note]
    outside = [note for note in part.note if "seen in learning" in note]
    yield f"{len(part.row)} rows read, {len(table)} predicted"
    if unseen:
        yield f"  {len(unseen)} name a category not seen before ({unseen[0]}): see column note"
    if outside:
        yield f"  {len(outside)} lie outside the learning data ({outside[0]}): see column note"
    first, kind, name = table.iloc[0], info["target"]["kind"], info["target"]["name"]
    if level := KINDS[kind].level:
        shown = f"{name} {first[level]} ({first[PREFIX + first[level]]:.0%})"
    elif kind == "binary":
        shown = f"probability {first['mean']:.0%} ({first['q025']:.0%} to {first['q975']:.0%})"
    else:
        middle = "q50" if KINDS[kind].typical == "median" else "mean"
        shown = f"{name} {first[middle]:.3g} ({first['q025']:.3g} to {first['q975']:.3g})"
    yield f"  first row: {shown}"
    last = list(table).index("note") + 1
    names, cells = ", ".join(table.columns[:last]), len(table.columns) - last
    where = "standard output" if is_standard_output(output) else output
    yield f"wrote {where}: {names}, and the {cells} columns of the file; {len(table)} rows, none left out"
