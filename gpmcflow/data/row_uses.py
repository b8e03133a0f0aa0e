"""What becomes of each row of an own table: learning, held out, or not used and why."""

from __future__ import annotations

import numpy as np
import pandas as pd

from gpmcflow.data.column_uses import is_group
from gpmcflow.data.columns import Column
from gpmcflow.data.csv_table import CsvTable
from gpmcflow.data.layout import permutation
from gpmcflow.data.own_settings import TableSettings
from gpmcflow.data.target import idle_rows

FEWEST_ROWS = 10


def row_uses(
    table: CsvTable,
    columns: dict[str, Column],
    settings: TableSettings,
    outcome: np.ndarray,
    used: list[str],
    seed: int,
) -> np.ndarray:
    """Return the use of each case: "learning", "held out", "no outcome", "no <column>" of the
    exposure, trials, event or a coordinate, "<column> 0" of an exposure or trials, or "incomplete"."""
    use = np.full(len(table.rows), "learning", dtype=object)
    if settings.incomplete == "drop":
        for name in used:
            use[columns[name].missing] = "incomplete"
    for name in (*settings.coordinates[::-1], settings.unit):  # a made-up place or effort misleads
        if name:
            use[columns[name].missing] = f"no {name}"
    if settings.exposure or settings.trials:
        use[idle_rows(columns[settings.unit], outcome)] = f"{settings.unit} 0"
    use[np.isnan(outcome)] = "no outcome"
    usable = np.flatnonzero(use == "learning")
    use[usable[held_out(columns, settings, usable, seed)]] = "held out"
    return use


def held_out(
    columns: dict[str, Column], settings: TableSettings, usable: np.ndarray, seed: int
) -> np.ndarray:
    """Return which of the usable cases are held out, as places in `usable`.

    At random; or whole groups at random, up to the first that reaches the fraction; or the last
    by a date or number, the file's order deciding between equals (cases without it are learnt).
    """
    n_test = round(len(usable) * settings.test_fraction)
    if n_test == 0:
        return np.empty(0, dtype=np.int64)
    if settings.test_by is None:
        return permutation(seed, len(usable))[:n_test]
    by = columns[settings.test_by]
    if not is_group(by, settings):
        values = np.where(by.missing, -np.inf, by.values)[usable]
        last = np.argsort(values, kind="stable")[len(usable) - n_test :]
        return last[np.isfinite(values[last])]
    labels = np.where(by.missing, "", by.labels)[usable]
    codes, groups = pd.factorize(labels)
    order = permutation(seed, len(groups))
    sizes = np.bincount(codes, minlength=len(groups))[order]
    n_groups = int(np.searchsorted(np.cumsum(sizes), n_test)) + 1
    chosen = order[: min(n_groups, len(groups) - 1)]
    return np.flatnonzero(np.isin(codes, chosen))
