"""A user's own CSV file as a data set."""

from __future__ import annotations

import math
import operator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.data.csv_table import CsvTable, read_csv
from gpmcflow.data.layout import TASKS, Parts, build, permutation
from gpmcflow.data.layout import standardise as standardise_columns
from gpmcflow.data.sources import sha256
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.storage.input_files import user_path


def load_csv(
    path: str | Path,
    target: str,
    *,
    positive: str | float | None = None,
    standardise: bool = True,
    test_fraction: float = 0.0,
    seed: int = 0,
    task: str = "classification",
) -> xr.Dataset:
    """Load a data set of your own from a comma-separated file with a header row.

    Rows that repeat are kept and counted in the attribute `n_duplicate_rows`.

    Parameters
    ----------
    path:
        Of the file, UTF-8.
    target:
        Column that becomes `y`; every other column is a feature and has to be numeric.
    positive:
        Value of the target that is coded +1 in a classification; by default the larger number, or the word
        later in the alphabet. The other one is -1.
    standardise:
        Whether each feature is given mean 0 and standard deviation 1 (divisor n - 1) over the training cases.
    test_fraction:
        Share of the cases, from 0 to below 1, that becomes `X_test`, `y_test`.
    seed:
        Of the random choice of test cases.
    task:
        "classification", of two distinct numbers or words; "multiclass", of class codes 0..K-1; "regression",
        of any finite numbers; or "counts", of 0, 1, 2, ...

    Returns
    -------
    `X` (case, feature), `y` (case) and the test cases as of `load_dataset`, each part in the order of the
    file; the coordinates `file_row` and `test_file_row` give each case's row in the file (the header is row
    1).

    Raises
    ------
    InputError:
        For whatever is wrong in the file, in one line that names column and row; and for arguments out of
        range.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> import gpmcflow as gp
    >>> table = pd.DataFrame({"age": [30.0, 40.0, 50.0], "ill": ["no", "no", "yes"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "patients.csv"
    ...     table.to_csv(path, index=False)
    ...     data = gp.load_csv(path, target="ill")
    >>> data["X"].values.ravel().tolist(), data["y"].values.tolist()
    ([-1.0, 0.0, 1.0], [-1.0, -1.0, 1.0])
    """
    if task not in TASKS:
        raise unknown_name("load_csv: task", task, TASKS)
    path = user_path(path)
    table = read_csv(path)
    y, label_coding = _target(table, target, positive, task)
    features = [name for name in table.columns if name != target]
    if not features:
        raise InputError(f"{path}: found no column beside the target {target!r}; add features")
    X = np.column_stack([table.numbers(name) for name in features])
    train, test = _split(path, len(y), test_fraction, seed)
    X_train, X_test = X[train], X[test]
    preprocessing = "none"
    if standardise:
        X_train, X_test = standardise_columns(str(path), features, X_train, X_test)
        preprocessing = "features standardised by the training mean and n-1 standard deviation"
    coords = {"file_row": ("case", table.rows[train])}
    has_test = len(test) > 0
    if has_test:
        coords["test_file_row"] = ("test_case", table.rows[test])
        preprocessing += f"; {len(test)} of {len(y)} cases at random for the test, seed {seed}"
    parts = Parts(
        X=X_train,
        y=y[train],
        X_test=X_test if has_test else None,
        y_test=y[test] if has_test else None,
        features=features,
        label_coding=label_coding,
        preprocessing=preprocessing,
        coords=coords,
    )
    return build(
        parts,
        name=path.stem,
        title=f"{path.name}, target {target}",
        task=task,
        citation="none given",
        licence="none given",
        source=path.name,
        source_checksum=sha256(path),
        where=str(path),
    )


def _target(
    table: CsvTable, target: str, positive: str | float | None, task: str
) -> tuple[np.ndarray, str]:
    """Return `y` and how it is coded."""
    cells = table.require(target)
    if task == "classification":
        return _two_classes(table, target, cells, positive)
    if positive is not None:
        raise InputError(
            f"{table.path}: positive is {positive!r}, which only task='classification' has; "
            "leave it out"
        )
    y = table.numbers(target)
    bad = np.flatnonzero((y < 0) | (y != np.floor(y)))
    if task == "counts" and len(bad):
        raise InputError(
            f"{table.path}: column {target!r}, row {table.rows[bad[0]]}: found "
            f"{cells[bad[0]]!r}, allowed: counts 0, 1, 2, ...; use task='regression' or correct it"
        )
    return y, f"{target} as in the file"


def _two_classes(
    table: CsvTable, target: str, cells: list[str], positive: str | float | None
) -> tuple[np.ndarray, str]:
    """Return the cells coded -1 and +1, and the coding in words."""
    keys = _label_keys(table, target, cells)
    spelling = dict(zip(reversed(keys), reversed(cells), strict=True))  # as first written
    values = sorted(spelling)
    if len(values) != 2:
        shown = ", ".join(repr(spelling[value]) for value in values[:5])
        shown += ", ..." if len(values) > 5 else ""
        raise InputError(
            f"{table.path}: column {target!r} has {len(values)} distinct "
            f"value{'s' if len(values) > 1 else ''} ({shown}), classification needs 2; "
            "keep two classes, or use task='regression' or 'counts'"
        )
    plus = values[1] if positive is None else _find_label(table, target, spelling, positive)
    minus = values[0] if plus == values[1] else values[1]
    y = np.array([1.0 if key == plus else -1.0 for key in keys])
    return y, f"+1 = {spelling[plus]}, -1 = {spelling[minus]} (column {target})"


def _label_keys(table: CsvTable, target: str, cells: list[str]) -> list[Any]:
    """Return the labels as numbers if all are (so that 1 and 1.0 are one class), else as words."""
    try:
        for cell in cells:
            float(cell)
    except ValueError:
        return cells
    return table.numbers(target).tolist()


def _find_label(table: CsvTable, target: str, spelling: dict, positive: str | float) -> float | str:
    """Return the label that `positive` means; `spelling` maps labels to how the file has them."""
    key: float | str = " ".join(str(positive).split())
    if all(isinstance(label, float) for label in spelling):
        try:
            key = float(positive)
        except (TypeError, ValueError):
            key = math.nan
    if key not in spelling:
        raise unknown_name(
            f"{table.path}: positive, column {target!r}", str(positive), spelling.values()
        )
    return key


def _split(path: Path, n: int, test_fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the training and of the test cases, each in the file's order."""
    try:
        fraction = float(test_fraction)
    except (TypeError, ValueError):
        fraction = math.nan
    if not 0 <= fraction < 1:
        raise InputError(f"{path}: test_fraction is {test_fraction!r}; allowed: from 0 to below 1")
    n_test = round(n * fraction)
    if fraction > 0 and not 0 < n_test < n:
        raise InputError(
            f"{path}: test_fraction {fraction:g} of {n} cases leaves {n_test} for the test and "
            f"{n - n_test} for training; allowed: at least 1 each; change the fraction"
        )
    try:
        order = permutation(operator.index(seed), n)
    except (TypeError, ValueError):
        raise InputError(f"{path}: seed is {seed!r}; allowed: a whole number, 0 or more") from None
    return np.sort(order[n_test:]), np.sort(order[:n_test])
