"""A CSV file as people have them, made ready for a model: learning, held-out and new rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gpmcflow.data.area_names import AreaNames
from gpmcflow.data.codes import Encoding, GroupCode, fit_codes
from gpmcflow.data.column_uses import column_uses, is_group, uses_table
from gpmcflow.data.columns import INDEX_NAME, Column, describe_columns
from gpmcflow.data.csv_table import (
    CsvTable,
    find_separator,
    header_line,
    missing_cells,
    parse_numbers,
    read_csv,
)
from gpmcflow.data.known_files import NamedLevels, read_known
from gpmcflow.data.layout import permutation
from gpmcflow.data.outcome_again import Leak, find_leak
from gpmcflow.data.own_settings import TableSettings, column_problems, read_settings, unknown
from gpmcflow.data.target import (
    Target,
    code_target,
    idle_rows,
    offset_problems,
    unit_problems,
    weight_problems,
)
from gpmcflow.data.times import describe_until, ends_of, known_times, middle_of
from gpmcflow.errors import InputError, InputErrors
from gpmcflow.storage.input_files import is_file, user_path

# What becomes of each row of an own table: learning, held out, or not used and why.

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
    exposure, trials, offset, weights, event or a coordinate, "<column> 0" of an exposure, trials or
    weights, or "incomplete"."""
    use = np.full(len(table.rows), "learning", dtype=object)
    if settings.incomplete == "drop":
        for name in used:
            use[columns[name].missing] = "incomplete"
    beside = None if settings.until else settings.unit  # a gap there says that a time had not ended
    stated = (*settings.coordinates[::-1], settings.weights, beside)
    for name in stated:  # a made-up place or effort misleads
        if name:
            use[columns[name].missing] = f"no {name}"
    if settings.weights:
        use[columns[settings.weights].values == 0] = f"{settings.weights} 0"
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


class Part(NamedTuple):
    """Some rows of a file as a model takes them.

    `row` (case) are lines of the file; `X` (case, input); `y` as the model takes it (-1 and +1,
    counts, standardised numbers) and `outcome` in natural units (0 and 1, counts, numbers), None
    for new rows; `unit` exposures, trials or events (1, 0, -1), or None; `table` the cells as text, ids
    first; `note` what is to be said of each row, "" if nothing; `until` upper ends of times in natural
    units, nan where there is none, or None.
    """

    row: np.ndarray
    X: pd.DataFrame
    y: np.ndarray | None
    outcome: np.ndarray | None
    unit: np.ndarray | None
    table: pd.DataFrame
    note: list[str]
    until: np.ndarray | None = None


class PreparedTable(NamedTuple):
    """A file made ready: `test` and `new` are None where there are no such rows.

    `rows` (row, use) has each data row of the file once; `columns` (column, found, done) says what
    became of each column; `checksum` is the SHA-256 of the file; `leak` is a column that almost determines
    the outcome alone, if there is one; `areas` are the names of each graph.
    """

    target: Target
    encoding: Encoding
    train: Part
    test: Part | None
    new: Part | None
    rows: pd.DataFrame
    columns: pd.DataFrame
    checksum: str
    leak: Leak | None = None
    areas: Sequence[AreaNames] = ()


def prepare_table(
    settings: Mapping[str, Any], folder: str | Path, *, seed: int = 0, where: str = "data"
) -> PreparedTable:
    """Return a CSV file as inputs and outcomes, by settings as `TableSettings` has them.

    Paths are relative to `folder`; `seed` draws the held-out rows; `where` names the settings in
    messages. Raises InputErrors with all problems of settings and files.
    """
    chosen, problems = read_settings(settings, where)
    if not chosen.csv:
        raise InputErrors(problems)
    folder = Path(folder)
    table, wrong = _read(chosen.csv, folder, chosen.separator)
    problems += wrong
    new_table = None
    if chosen.new:
        new_table, wrong = _read(chosen.new, folder, chosen.separator, new=True)
        problems += wrong
    if table is None:
        raise InputErrors(problems)
    problems += column_problems(chosen, table.columns, where)
    columns = describe_columns(
        table,
        missing=chosen.missing,
        decimal=chosen.decimal,
        categorical=(*chosen.categorical, *chosen.groups),
    )
    if chosen.until in table.columns:
        columns[chosen.until] = describe_until(table, chosen.until, chosen)
    uses = column_uses(columns, chosen)
    used = [name for name, use in uses.items() if use == "input"]
    problems += [line for name in used for line in columns[name].problems]
    problems += [
        f"{where}.coordinates: column {name} holds {columns[name].contents}; numbers are needed"
        for name in chosen.coordinates
        if name in columns and columns[name].kind not in ("number", "whole")
    ]
    by = columns.get(chosen.test_by) if chosen.test_by else None
    if by is not None and by.name not in used:
        problems += by.problems
        if by.kind in ("constant", "empty"):
            problems.append(f"{where}.test_by: column {by.name} has no groups; {by.contents}")
    if new_table is not None:
        unit = chosen.exposure or chosen.trials or chosen.offset  # new rows have no event or until
        needed = [*used, *([unit] if unit in columns else [])]
        problems += _lacking(new_table, needed)
    if chosen.target not in columns:
        raise InputErrors(problems)
    target, outcome, wrong = code_target(table, columns, chosen, where)
    problems += wrong
    unit = columns.get(chosen.unit) if chosen.unit else None
    if unit is not None and target.log_unit:
        problems += offset_problems(table, unit)
    elif unit is not None:
        problems += unit_problems(table, unit, target.kind, target.name, outcome)
    weights = columns.get(chosen.weights) if chosen.weights else None
    if weights is not None:
        problems += weight_problems(table, weights)
    if not used:
        problems.append(f"{table.path.name}: no column is left to learn from beside the target")
    named = {
        name: columns[name].labels[~columns[name].missing].tolist()
        for name in chosen.groups
        if name in used and columns[name].labels is not None
    }
    known, names, areas, wrong = read_known(chosen, NamedLevels(named, where), folder)
    problems += wrong
    if problems:
        raise InputErrors(problems)
    use = row_uses(table, columns, chosen, outcome, used, seed)
    learning, held_out = np.flatnonzero(use == "learning"), np.flatnonzero(use == "held out")
    if weights is not None:  # a row of weight 3 is three rows
        learning, held_out = (
            np.repeat(places, weights.values[places].astype(np.int64))
            for places in (learning, held_out)
        )
    units = until = None
    if target.until:
        _, units, until = known_times(columns[target.name], unit)
    elif unit is not None:
        units = target.unit_values(unit)
    _check_learning(table, target, outcome, learning, held_out, where)
    if target.kind == "survival" and not units[learning].any():
        raise InputErrors(
            [
                f"{table.path.name}: none of the {len(learning)} rows to learn from has ended ({target.unit} "
                f"{'is empty' if target.until else target.positive}); add rows, or change "
                f"{where}.test_fraction, {where}.test_by or the seed"
            ]
        )
    typical = middle_of(*ends_of(outcome, units, until)) if target.until else outcome
    target = target.standardised_by(typical[learning])
    codes = tuple(
        code.knowing(names[code.column])
        if isinstance(code, GroupCode) and code.column in names
        else code
        for code in fit_codes(columns, used, learning, chosen)
    )
    ids = tuple(name for name, use in uses.items() if use == "id")
    encoding = Encoding(
        target,
        codes,
        ids,
        chosen.coordinates,
        chosen.missing,
        chosen.separator,
        chosen.decimal,
        known,
    )
    _check_names(table, encoding)
    parts: list[Part | None] = []
    for places in (learning, held_out):
        own, ends = (None if values is None else values[places] for values in (units, until))
        part = None
        if len(places):
            part = _part(encoding, table.take(places), outcome[places], own, ends)
        encoding = encoding if part is None else encoding.beyond(part.X)
        parts.append(part)
    new = None if new_table is None else _new_part(encoding, new_table)
    rows = pd.DataFrame(
        {
            "row": np.concatenate([table.rows, table.empty_rows]),
            "use": [*use, *["empty"] * len(table.empty_rows)],
        }
    )
    return PreparedTable(
        target,
        encoding,
        parts[0],
        parts[1],
        new,
        rows.sort_values("row", ignore_index=True),
        uses_table(columns, uses, chosen, target, encoding, areas),
        table.checksum,
        find_leak(columns, [name for name in used if name not in chosen.groups], outcome),
        areas,
    )


def encode_new(encoding: Encoding, path: str | Path) -> Part:
    """Return the rows of a file of new rows, none left out; see `Part.note` for what is odd.

    Raises InputErrors for a file that cannot be read, lacks a column, or has cells that are no
    numbers (dates, positive exposures) where these are needed.
    """
    return _new_part(encoding, read_table(Path(path), encoding.separator, new=True))


def read_table(path: Path, separator: str, *, new: bool = False) -> CsvTable:
    """Return the table of a file; raise InputErrors, also for another separator than the given."""
    header = header_line(path) if is_file(path) else separator
    if separator not in header:
        better = find_separator(path)
        if better in header:
            name, used = ("\\t" if mark == "\t" else mark for mark in (better, separator))
            raise InputErrors(
                [
                    f'{path.name}: the header has no separator "{used}", but "{name}"; '
                    + (f'save it with "{used}"' if new else f'write separator: "{name}"')
                ]
            )
    try:
        return read_csv(path, separator, INDEX_NAME)
    except InputErrors:
        raise
    except InputError as error:
        raise InputErrors([str(error)]) from None


def _read(
    path: str, folder: Path, separator: str, *, new: bool = False
) -> tuple[CsvTable | None, list[str]]:
    """Return the table, None if it cannot be read, and what is wrong with it."""
    try:
        return read_table(user_path(path, folder), separator, new=new), []
    except InputErrors as error:
        return None, error.problems
    except InputError as error:
        return None, [str(error)]


def _lacking(table: CsvTable, needed: list[str]) -> list[str]:
    file = table.path.name
    return [
        unknown("", "column", name, table.columns, file)
        for name in needed
        if name not in table.columns
    ]


def _new_part(encoding: Encoding, table: CsvTable) -> Part:
    unit = None if encoding.target.kind == "survival" else encoding.target.unit
    problems = _lacking(table, [*encoding.columns, *([unit] if unit else [])])
    if problems:
        raise InputErrors(problems)
    values, unit_notes = None, [""] * len(table.rows)
    if unit:
        cells = table.columns[unit]
        empty = missing_cells(cells, encoding.missing, encoding.decimal)
        none = 0.0 if encoding.target.log_unit else 1.0
        values = np.where(empty, none, parse_numbers(cells, encoding.decimal))
        contents = "numbers" if np.isfinite(values).any() else "no numbers"
        column = Column(
            unit, "number", contents, empty, np.array(cells, dtype=object), values=values
        )
        unread = ~np.isfinite(values)
        if unread.any():
            row, cell = table.rows[unread][0], cells[int(np.flatnonzero(unread)[0])]
            problems.append(f'row {row}, column {unit}: "{cell}" is not a number; correct the cell')
        if encoding.target.log_unit:
            problems += offset_problems(table, column)
        else:
            problems += unit_problems(table, column, encoding.target.kind)
        values = encoding.target.unit_values(column)
        unit_notes = [f"{unit} is empty: {none:g} taken" if gap else "" for gap in empty]
    problems = [f"{table.path.name}: {line}" for line in problems]
    try:
        part = _part(encoding, table, None, values)
    except InputErrors as error:
        raise InputErrors([*problems, *error.problems]) from None
    if problems:
        raise InputErrors(problems)
    notes = ["; ".join(filter(None, both)) for both in zip(part.note, unit_notes, strict=True)]
    return part._replace(note=notes)


def _part(
    encoding: Encoding,
    table: CsvTable,
    outcome: np.ndarray | None,
    unit: np.ndarray | None,
    until: np.ndarray | None = None,
) -> Part:
    X, notes = encoding.encode(table)
    target = encoding.target
    shown = [name for name in encoding.ids if name in table.columns]
    shown += encoding.columns + ([target.unit] if unit is not None else [])
    cells = pd.DataFrame({name: table.columns[name] for name in shown}, dtype=object)
    y = None if outcome is None else target.model_values(outcome)
    return Part(table.rows, X, y, outcome, unit, cells, notes, until)


def _check_learning(
    table: CsvTable,
    target: Target,
    outcome: np.ndarray,
    learning: np.ndarray,
    held_out: np.ndarray,
    where: str,
) -> None:
    """Raise InputErrors where the learning rows are too few, or all have the same outcome."""
    file = table.path.name
    if len(learning) < FEWEST_ROWS:
        raise InputErrors(
            [
                f"{file}: {len(learning)} rows to learn from and {len(held_out)} held out, of "
                f"{len(table.rows)}; at least {FEWEST_ROWS} to learn from are needed; add rows or "
                f"lower {where}.test_fraction"
            ]
        )
    if np.ptp(outcome[learning]) == 0:
        raise InputErrors(
            [
                f"{file}: all {len(learning)} rows to learn from have the same {target.name}; "
                f"add rows, or change {where}.test_fraction, {where}.test_by or the seed"
            ]
        )


def _check_names(table: CsvTable, encoding: Encoding) -> None:
    names = encoding.names
    for place in encoding.coordinates:
        if place not in encoding.columns:
            raise InputErrors([f"{table.path.name}: all rows to learn from have the same {place}"])
    if not names:
        raise InputErrors(
            [f"{table.path.name}: all columns are constant in the rows to learn from; add columns"]
        )
    alike = Counter(name.replace("/", "_") for name in encoding.columns)  # in results files
    pair = [name for name in encoding.columns if alike[name.replace("/", "_")] > 1]
    if pair:
        raise InputErrors(
            [
                f"{table.path.name}: columns {pair[0]} and {pair[1]} differ in / and _ alone; rename one"
            ]
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputErrors(
            [f'{table.path.name}: two columns would both become the input "{twice[0]}"; rename one']
        )
