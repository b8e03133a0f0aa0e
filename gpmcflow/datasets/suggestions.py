"""What to do with a CSV file that is seen for the first time: settings and models to start from."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpmcflow.datasets.cells import THOUSANDS, parse_numbers
from gpmcflow.datasets.column_uses import column_uses
from gpmcflow.datasets.columns import Column, describe_columns, name_words, yaml_text
from gpmcflow.datasets.csv_table import SEPARATORS, CsvTable, find_separator
from gpmcflow.datasets.large_models import MANY_ROWS, LargeModels
from gpmcflow.datasets.own_settings import TableSettings, unknown
from gpmcflow.datasets.own_table import read_table
from gpmcflow.datasets.suggestion_text import config_text, models_of
from gpmcflow.datasets.target import Target, code_target, guess_kind
from gpmcflow.errors import InputErrors
from gpmcflow.storage.input_files import is_file, user_path

EXPOSURE_WORDS = (
    "exposure", "effort", "hours", "hour", "minutes", "days", "years", "personyears", "time",
    "duration", "area",
)  # fmt: skip
TRIALS_WORDS = ("trials", "tested", "examined", "attempts", "tries", "total")
COORDINATE_PAIRS = (
    ("easting", "northing"), ("east", "north"), ("longitude", "latitude"), ("lon", "lat"),
    ("long", "lat"), ("lng", "lat"), ("x", "y"),
)  # fmt: skip
COORDINATE_FILLERS = {"coord", "coordinate", "utm", "pos", "position", "m", "km", "deg"}
ENOUGH = 0.8
WIDTH = 100


@dataclass(frozen=True)
class Suggestion:
    """What was found in a file, and the settings and models to start from.

    `settings` are those of `data:` that differ from their defaults (with all columns still there);
    `uses` maps a column to what becomes of it; `problems` are lines about cells to be mended.
    """

    path: Path
    n_rows: int
    columns: dict[str, Column]
    settings: TableSettings
    target: Target
    uses: dict[str, str]
    models: dict[str, str]
    outcome_counts: str
    problems: list[str] = field(default_factory=list)
    large: LargeModels | None = None  #: models of a file of many rows

    @property
    def likelihood(self) -> str:
        """Name of the likelihood for the kind of outcome."""
        kinds = {
            "binary": "probit",
            "counts": "poisson",
            "binomial": "binomial",
            "real": "gaussian",
        }
        return kinds[self.target.kind]

    def text(self, name: str, csv: str | None = None) -> str:
        """Return the commented YAML of the analysis `name`; `csv` is the path of the file from the
        YAML file's folder, by default its name alone."""
        return config_text(self, name, csv or self.path.name)

    def summary(self) -> str:
        """Return what was found as a few lines for a terminal."""
        by_use: dict[str, list[str]] = {}
        for column in self.columns.values():
            use = self.uses[column.name]
            if column.name in self.settings.coordinates:
                use = "place"
            elif use == "input":
                use = {"category": "text", "date": "dates"}.get(column.kind, "numbers")
            elif use not in ("target", "unit"):
                use = "dropped"
            by_use.setdefault(use, []).append(self._short(column, use))
        lines = [f"  {'outcome':<10}{self.target.name}: {self.outcome_counts}"]
        unit = "trials" if self.target.kind == "binomial" else "exposure"
        labels = {"place": "place", "unit": unit, "numbers": "numbers", "text": "text"}
        labels |= {"dates": "dates", "dropped": "dropped"}
        for use, label in labels.items():
            if use in by_use:
                lines.append(_wrapped(label, ", ".join(by_use[use])))
        lines += [_wrapped("to mend", line) for line in self.problems]
        if self.large is not None:
            lines.append(
                _wrapped("models", "of basis functions, as a dense covariance takes hours")
            )
        n = len(self.columns)
        heading = f"{self.path.name}: {self.n_rows} rows, {n} column{'s' * (n > 1)}"
        return "\n".join([heading, *lines])

    def _short(self, column: Column, use: str) -> str:
        if use == "dropped":
            why = {
                "id": "an id",
                "text": f"{column.contents}; categorical: [{yaml_text(column.name)}] keeps it",
            }
            return f"{column.name} ({why.get(column.kind, column.kind)})"
        words = [f"{len(column.levels)} categories"] if use == "text" else []
        words += ["to days"] if use == "dates" else []
        words += [f"{column.n_missing} empty"] if column.n_missing else []
        return column.name + (f" ({', '.join(words)})" if words else "")


def suggest(path: str | Path, target: str, *, positive: Any = None) -> Suggestion:
    """Return what to do with a CSV file whose column `target` is to be predicted.

    Separator and decimal mark are found from the file; exposure, trials and coordinates by the
    names of columns. `positive` is the value of the target that counts as 1. Raises InputErrors
    with all that keeps the file from being used; single bad cells are listed in the suggestion.
    """
    path = user_path(path)
    separator = find_separator(path) if is_file(path) else SEPARATORS[0]
    table = read_table(path, separator)
    if target not in table.columns:
        raise InputErrors([unknown("", "column", target, table.columns, path.name)])
    decimal = find_decimal(table)
    columns = describe_columns(table, decimal=decimal)
    settings = TableSettings(
        path.name, target, positive=positive, separator=separator, decimal=decimal
    )
    settings = _roles(columns, settings)
    coded, outcome, problems = code_target(table, columns, settings, "data")
    numbers = columns[target].values is not None
    bad_cells = list(columns[target].problems) if numbers else []
    problems = [line for line in problems if line not in bad_cells]
    if problems:
        raise InputErrors(problems)
    if positive is None and coded.kind == "binary":
        settings = replace(settings, positive=coded.positive)
    uses = column_uses(columns, settings)
    inputs = [name for name, use in uses.items() if use == "input"]
    if not inputs:
        raise InputErrors([f"{path.name}: no column to learn from beside the target"])
    bad_cells += [line for name in inputs for line in columns[name].problems]
    many = len(table.rows) > MANY_ROWS
    large = LargeModels(columns, inputs, settings.coordinates) if many else None
    return Suggestion(
        path,
        len(table.rows),
        columns,
        settings,
        coded,
        uses,
        models_of(columns, inputs, settings.coordinates) if large is None else large.covariances,
        _outcome_counts(columns[target], coded, outcome),
        bad_cells,
        large,
    )


def find_decimal(table: CsvTable) -> str:
    """Return the decimal mark that more columns are written in: "." or ","."""
    votes = Counter()
    for cells in table.columns.values():
        filled = [
            cell for cell in cells if cell and not ("," in cell and THOUSANDS.fullmatch(cell))
        ]
        shares = {mark: np.isfinite(parse_numbers(filled, mark)).sum() for mark in ".,"}
        best = max(shares, key=lambda mark: shares[mark])
        if shares["."] != shares[","] and shares[best] >= ENOUGH * len(filled):
            votes[best] += 1
    return "," if votes[","] > votes["."] else "."


def _roles(columns: Mapping[str, Column], settings: TableSettings) -> TableSettings:
    """Return the settings with exposure, trials and coordinates, where columns look like them."""
    target = columns[settings.target]
    numbers = [
        column
        for column in columns.values()
        if column.kind in ("number", "whole") and column.name != target.name and not column.problems
    ]
    for pair in COORDINATE_PAIRS:
        chosen = [
            next((c.name for c in numbers if name_words(c.name) - COORDINATE_FILLERS == {word}), "")
            for word in pair
        ]
        if all(chosen):
            settings = replace(settings, coordinates=tuple(chosen))
            break
    numbers = [column for column in numbers if column.name not in settings.coordinates]
    kind = guess_kind(target, settings)
    if target.kind != "whole" or settings.positive is not None or kind not in ("counts", "real"):
        return settings
    trials = _first_named(numbers, TRIALS_WORDS)
    if trials is not None and trials.kind == "whole" and np.nanmin(trials.values) >= 1:
        gaps = target.missing | trials.missing
        if (target.values[~gaps] <= trials.values[~gaps]).all() and np.nanmin(target.values) >= 0:
            return replace(settings, trials=trials.name)
    exposure = _first_named(numbers, EXPOSURE_WORDS)
    if kind == "counts" and exposure is not None and np.nanmin(exposure.values) > 0:
        return replace(settings, exposure=exposure.name)
    return settings


def _first_named(columns: list[Column], words: tuple[str, ...]) -> Column | None:
    """Return the first column that has one of the words in its name, the first word first."""
    named = [column for word in words for column in columns if word in name_words(column.name)]
    return named[0] if named else None


def _outcome_counts(column: Column, target: Target, outcome: np.ndarray) -> str:
    values = outcome[np.isfinite(outcome)]
    if target.kind == "binary":
        n = int(values.sum())
        text = f"{target.positive} {n}, {target.negative} {len(values) - n}"
    elif target.kind == "real":
        text = f"a number, {values.min():.6g} to {values.max():.6g}"
    else:
        text = f"a count, {values.min():g} to {values.max():g}, mean {values.mean():.3g}"
        if target.kind == "binomial":
            text += f", out of {target.unit}"
    n = column.n_missing
    return text + (f", empty {n} (these rows will not be used)" if n else "")


def _wrapped(label: str, text: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=f"  {label:<10}", subsequent_indent=" " * 12,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
