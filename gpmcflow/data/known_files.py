"""Files beside a table that know how levels of a column depend: pairs of neighbours, correlations, maps."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from gpmcflow.data.area_names import AreaNames, nearest
from gpmcflow.data.geojson import Feature, drawn, read_geojson, touching
from gpmcflow.data.own_settings import TableSettings
from gpmcflow.errors import InputError
from gpmcflow.storage.input_files import is_file, user_path

MAP = "map"  # name of the graph of areas that share a border on the map
MOST_LEVELS = 1000  # of a correlation
MOST_BYTES = 50_000_000  # of a text file
_GRAPH = (
    "two columns with a pair of neighbours in each row, an area and its neighbours in each row, or a square "
    "table of 0 and 1 with names"
)


@dataclass(frozen=True)
class KnownFiles:
    """What the files say, by the names that covariances have for them.

    Attributes
    ----------
    graphs:
        Pairs of neighbours.
    correlations:
        Names and lower triangle, row by row.
    column:
        Column with the names of the areas: those of the map, without one those of the first graph.
    outlines:
        Rings [[x, y], ..] of each area.
    """

    graphs: dict[str, list[list[str]]] = field(default_factory=dict)
    correlations: dict[str, list[list]] = field(default_factory=dict)
    column: str | None = None
    outlines: dict[str, list[list[list[float]]]] = field(default_factory=dict)


class NamedLevels:
    """Names that a file has, and the column of groups that they are of."""

    def __init__(self, columns: Mapping[str, Iterable[str]], where: str) -> None:
        self.columns = {column: set(levels) for column, levels in columns.items()}
        self.where = where

    def column_of(self, names: Iterable[str], path: Path) -> str:
        """The column that shares most levels with these names. Raises `InputError` where none does."""
        names = set(names)
        if not self.columns:
            raise InputError(
                f"{path}: no column has its names; write groups: [the column with them] under {self.where}"
            )
        best = max(self.columns, key=lambda column: len(self.columns[column] & names))
        if not self.columns[best] & names:
            seen, own = (", ".join(sorted(some)[:3]) for some in (self.columns[best], names))
            raise InputError(
                f"{path}: none of its names ({own}, ..) is in column {best} ({seen}, ..); give both the same"
            )
        return best


def read_graph(path: Path, levels: Iterable[str]) -> list[list[str]]:
    """Pairs of neighbours of a file; a first row of other words than areas is its header.

    Raises `InputError` for a file that cannot be read as one.
    """
    if path.suffix.lower() in (".geojson", ".json"):
        raise InputError(
            f"{path}: GeoJSON is a map; write map: {path.name}, and graph=map in the model"
        )
    rows = _rows(path)
    if _is_square(rows):
        names, values = _square(path, rows)
        beside = np.array(values)
        if not np.array_equal(beside, beside.T) or not np.isin(beside, (0.0, 1.0)).all():
            raise InputError(
                f"{path}: the table of neighbours is not of 0 and 1, the same both ways; correct it"
            )
        pairs = np.argwhere(np.triu(beside) == 1.0)
        return sorted(sorted((names[i], names[j])) for i, j in pairs)
    if (
        len(rows[0]) == 1 and rows[0][0].isdigit()
    ):  # INLA's format: area, number of neighbours, neighbours
        rows = [[row[0], *row[2:]] for row in rows[1:]]
    else:
        known = set(levels) | {cell for row in rows[1:] for cell in row}
        if not set(rows[0]) & known:
            rows = rows[1:]
    alone = next((row for row in rows if len(row) < 2 and not row[0].strip()), None)
    pairs = [sorted((row[0], other)) for row in rows for other in row[1:] if other]
    if alone is not None or not pairs:
        raise InputError(f"{path}: has no pair of neighbours; allowed: {_GRAPH}")
    own = next((first for first, second in pairs if first == second), None)
    if own is not None:
        raise InputError(f"{path}: has {own!r} as its own neighbour; drop that pair")
    return [list(pair) for pair in sorted({(a, b) for a, b in pairs})]


def read_correlation(path: Path) -> list[list]:
    """Names and lower triangle of a square table with a header of the levels' names.

    Raises `InputError` for a file that is no such table or not symmetric.
    """
    rows = _rows(path)
    names, values = _square(path, rows)
    if len(names) > MOST_LEVELS:
        raise InputError(
            f"{path}: {len(names)} levels; allowed: {MOST_LEVELS:,} in an analysis of own data; give "
            "gp.Group(correlation=..) in Python"
        )
    R = np.array(values)
    wrong = np.argwhere(np.abs(R - R.T) > 1e-8 * np.abs(R).max())
    if wrong.size:
        i, j = (int(k) for k in wrong[0])
        raise InputError(
            f"{path}: is not symmetric: {R[i, j]:g} for {names[i]} and {names[j]}, {R[j, i]:g} the other way "
            "round; correct the entry"
        )
    return [names, R[np.tril_indices(len(names))].tolist()]


def read_map(path: Path, columns: NamedLevels) -> tuple[str, dict, list[list[str]]]:
    """Column of the areas' names, outlines for pictures by name, and pairs that share a border.

    Names are the property that shares most of them with a column of groups. Raises `InputError` for a file
    that is no map, and for one whose properties name no level of the data, or not all of them.
    """
    features = read_geojson(path)
    keys = list(dict.fromkeys(key for feature in features for key in feature.properties))
    named = {key: _by_name(features, key) for key in keys}

    def shared(key: str) -> int:
        return max((len(own & set(named[key])) for own in columns.columns.values()), default=0)

    if not keys:
        raise InputError(
            f"{path}: its features have no properties; give each a name as in the table"
        )
    key = max(keys, key=shared)
    column = columns.column_of(named[key], path)
    missing = sorted(columns.columns[column] - set(named[key]))
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        near = nearest(missing[0], set(named[key]) - columns.columns[column])
        hint = f" (did you mean {near!r}?)" if near else ""
        raise InputError(
            f"{path}: no feature has {key} {missing[0]!r}{hint}{more}, which column {column} has; correct "
            "the names, or drop the rows"
        )
    outlines = {
        name: [ring.tolist() for ring in rings] for name, rings in drawn(named[key]).items()
    }
    return column, outlines, [list(pair) for pair in touching(named[key])]


def _by_name(features: Sequence[Feature], key: str) -> dict[str, list[np.ndarray]]:
    out: dict[str, list[np.ndarray]] = {}
    for feature in features:
        if key in feature.properties:
            out.setdefault(feature.properties[key], []).extend(feature.rings)
    return out


def _rows(path: Path) -> list[list[str]]:
    """Cells of a text file, separated by the mark that its lines have: comma, semicolon, tab or blanks."""
    if not is_file(path):
        raise InputError(f"{path}: no such file; give the path of an existing file")
    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"{path}: {path.stat().st_size:,} bytes; allowed: {MOST_BYTES:,}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); save it as UTF-8 text") from None
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise InputError(f"{path}: is empty; allowed: {_GRAPH}")
    mark = next((mark for mark in ",;\t" if any(mark in line for line in lines[:50])), None)
    if mark is None:
        return [line.replace(":", " ").split() for line in lines]
    try:
        rows = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=mark))
    except csv.Error as error:
        raise InputError(f"{path}: cannot be read ({error}); save it as a CSV file") from None
    return [[" ".join(cell.split()) for cell in row] for row in rows]


def _is_square(rows: Sequence[Sequence[str]]) -> bool:
    names, first = list(rows[0]), [row[0] for row in rows[1:]]
    wide = all(len(row) == len(first) + 1 for row in rows[1:])
    return len(first) > 1 and wide and (names[1:] == first or names == first)


def _square(path: Path, rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[float]]]:
    """Names and numbers of a square table, whose rows may begin with their names."""
    header, body = list(rows[0]), rows[1:]
    if _is_square(rows):
        names, body = [row[0] for row in body], [row[1:] for row in body]
    else:
        names = header
    if len(set(names)) < len(names):
        raise InputError(f"{path}: two levels have one name; give each level once")
    if len(body) != len(names) or any(len(row) != len(names) for row in body):
        raise InputError(
            f"{path}: {len(names)} names and {len(body)} rows, the first of {len(body[0]) if body else 0}; "
            "allowed: a square table with the levels' names in its header"
        )
    numbers = []
    for name, row in zip(names, body, strict=True):
        try:
            numbers.append([float(cell) for cell in row])
        except ValueError:
            raise InputError(
                f"{path}: the row of {name} has a cell that is no number; correct it"
            ) from None
    if not np.isfinite(numbers).all():
        raise InputError(f"{path}: has a cell that is not finite; give finite numbers")
    return names, numbers


def read_known(
    settings: TableSettings, columns: NamedLevels, folder: Path
) -> tuple[KnownFiles, dict[str, list[str]], list[AreaNames], list[str]]:
    """What the files of settings say, the names that they know by column, the areas of each graph, and a line
    for each problem."""
    found, names, areas, problems = KnownFiles(), {}, [], []
    every = {level for levels in columns.columns.values() for level in levels}

    def kept(column: str, levels: Iterable[str]) -> None:
        own = names.setdefault(column, [])
        own.extend(sorted(set(levels) - set(own)))

    for name, stated in settings.graphs.items():
        with _collected(problems):
            path = user_path(stated, folder)
            pairs = read_graph(path, every)
            named = [area for pair in pairs for area in pair]
            column = columns.column_of(named, path)
            kept(column, named)
            found.graphs[name] = pairs
            areas.append(AreaNames(column, columns.columns[column], pairs, path.name))
    for name, stated in settings.correlations.items():
        with _collected(problems):
            path = user_path(stated, folder)
            told = read_correlation(path)
            column = columns.column_of(told[0], path)
            missing = sorted(columns.columns[column] - set(told[0]))
            if missing:
                more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
                near = nearest(missing[0], set(told[0]) - columns.columns[column])
                hint = f" (did you mean {near!r}?)" if near else ""
                raise InputError(
                    f"{path}: has no row of {missing[0]!r}{hint}{more}, which column {column} has; add its "
                    "row and column, or drop the rows of the data"
                )
            kept(column, told[0])
            found.correlations[name] = told
    if settings.map:
        with _collected(problems):
            path = user_path(settings.map, folder)
            column, outlines, pairs = read_map(path, columns)
            kept(column, outlines)
            found = replace(found, column=column, outlines=outlines)
            areas = [
                replace(own, outlined=outlines) if own.column == column else own for own in areas
            ]
            if pairs and MAP not in found.graphs:
                found.graphs[MAP] = pairs
                if all(own.column != column for own in areas):
                    areas.append(
                        AreaNames(column, columns.columns[column], pairs, outlined=outlines)
                    )
    elif areas:
        found = replace(found, column=areas[0].column)
    return found, names, areas, problems


@contextlib.contextmanager
def _collected(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        problems.append(str(error))
