"""What becomes of each column of an own table, and the words for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from gpmcflow.data.area_names import AreaNames
from gpmcflow.data.codes import Encoding
from gpmcflow.data.columns import Column, as_argument, yaml_text
from gpmcflow.data.own_settings import TableSettings
from gpmcflow.data.target import Target

INPUT_KINDS = ("number", "whole", "date", "category")
WEIGHTS_DONE = "how many equal rows each row stands for"
DROPPED = {
    "id": "dropped: different in every row",
    "constant": "dropped: constant",
    "empty": "dropped: empty",
    "drop": "dropped: named in drop",
    "group": "not an input: it chooses the rows held out",
}


def is_group(column: Column, settings: TableSettings) -> bool:
    """Return whether rows are held out by groups of the column, not by its order."""
    stated = (*settings.categorical, *settings.groups)
    return column.kind not in ("number", "whole", "date") or column.name in stated


def column_uses(columns: dict[str, Column], settings: TableSettings) -> dict[str, str]:
    """Return the use of each column: "target", "unit", "weights", "input", "drop", "group", "id",
    "constant", "empty" or "text".

    A column of categories whose rows are held out together is no input, as all its categories are new in
    the held-out rows; one under `groups` is, as a term group(column) allows for new ones.
    """
    return {name: _use(column, settings) for name, column in columns.items()}


def uses_table(
    columns: dict[str, Column],
    uses: dict[str, str],
    settings: TableSettings,
    target: Target,
    encoding: Encoding,
    areas: Sequence[AreaNames] = (),
) -> pd.DataFrame:
    """Return what was found in each column and what was done with it, in words."""
    told = {own.column: "; ".join([own.counted(), *own.notes()]) for own in areas}
    encoded = set(encoding.columns)
    lines = []
    for name, column in columns.items():
        use = uses[name]
        if use == "target":
            lines.append((name, target_found(column, target), target_done(target)))
        elif use == "unit":
            lines.append((name, unit_found(column), unit_done(name, target)))
        elif use == "weights":
            lines.append((name, unit_found(column), WEIGHTS_DONE))
        elif use == "input" and name not in encoded:
            lines.append((name, "always the same in the learning rows", DROPPED["constant"]))
        elif use == "input":
            done = input_done(column, settings)
            lines.append((name, column.contents, f"{done}; {told[name]}" if name in told else done))
        else:
            lines.append((name, column.contents, dropped_done(name, use, column)))
    return pd.DataFrame(lines, columns=["column", "found", "done"])


def input_done(column: Column, settings: TableSettings) -> str:
    """Return the words for how a column becomes inputs."""
    gaps = column.n_missing > 0
    if column.name in settings.coordinates:
        return "coordinate"
    if column.name in settings.groups:
        return f"names of groups, for a term group({as_argument(column.name)})"
    if column.kind == "category":
        plain = "one column each" if len(column.levels) > 2 else _two_levels(column)
        filled = f"{plain}, and a column “missing”" if plain else "a column “missing”"
    elif column.kind == "date":
        plain = "days since the first"
        filled = f"{plain}; the middle one where missing, and a column “missing”"
    else:
        plain, filled = "as it is", "middle value, and a column “missing”"
    if not gaps:
        return plain
    return filled if settings.incomplete == "fill" else f"{plain}; rows without it are not used"


def dropped_done(name: str, use: str, column: Column) -> str:
    """Return the words for why a column is not used."""
    if column.contents == "row number":
        return "dropped"
    return DROPPED.get(use) or f"dropped: text; to use it: categorical: [{yaml_text(name)}]"


def target_found(column: Column, target: Target) -> str:
    """Return the words for what the target column holds."""
    if target.kind == "binary":
        return f"{target.positive}, {target.negative}"
    if target.own.measured or target.levels:
        return column.contents
    return f"whole numbers, {_range(column)}"


def unit_found(column: Column) -> str:
    """Return the words for what the column of exposures, trials, events, offsets or weights holds."""
    gaps = f", {column.n_missing} missing" if column.n_missing else ""
    if column.values is None:
        return column.contents
    return f"number, {_range(column)}{gaps}"


def unit_done(name: str, target: Target) -> str:
    """Return the words for what exposures, trials, events or offsets do."""
    if target.log_unit:
        return f"offset: added to the log of the {target.name} expected"
    if target.until:
        return f"upper end of {target.name}: the same where the end was seen, empty where it had not ended"
    if target.kind == "survival":
        return f"{target.positive}: the end was seen; {target.negative}: it had not ended yet"
    if target.kind == "binomial":
        return f"the number of trials behind each {target.name}"
    return f"effort: twice the {name}, twice the {target.name} expected"


def _use(column: Column, settings: TableSettings) -> str:
    name = column.name
    if name == settings.target:
        return "target"
    if name == settings.unit:
        return "unit"
    if name == settings.weights:
        return "weights"
    if name in settings.drop:
        return "drop"
    if name in settings.groups and column.kind == "category":
        return "input"
    if column.kind in ("empty", "constant"):
        return column.kind
    if name in settings.coordinates:
        return "input"
    if column.kind == "id":
        return "id"
    if name == settings.test_by and is_group(column, settings):
        return "group"
    if column.kind in INPUT_KINDS or column.problems:
        return "input"  # one with problems is to be corrected, not dropped
    return "text"


def _range(column: Column) -> str:
    return f"{np.nanmin(column.values):g} to {np.nanmax(column.values):g}"


def target_done(target: Target) -> str:
    """Return the words for what the target is."""
    if target.until:
        return f"the outcome: time to the end, which came between it and {target.unit}"
    return target.own.done.format(
        positive=target.positive, unit=target.unit, levels=", ".join(target.levels)
    )


def _two_levels(column: Column) -> str:
    return f"one column, {column.levels[1]} counts as 1" if len(column.levels) == 2 else ""
