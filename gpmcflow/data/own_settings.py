"""The settings of an own table: what the key `data` of a config may hold."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from gpmcflow.data.csv_table import MISSING_WORDS, SEPARATORS
from gpmcflow.data.outcome_kinds import KINDS

INCOMPLETE = ("fill", "drop")
DECIMALS = (".", ",")


@dataclass(frozen=True)
class TableSettings:
    """How a CSV file is read.

    `csv` (path) and `target` (column) are required. `positive` is the value of the target that
    counts as 1; `outcome` one of `KINDS`, or None: by the target; `levels` are its grades, from low to high.
    `event` names the column that says whether the end of a time was seen, which
    its value `event_value` does.
    `drop`, `categorical` name columns that are not used, or are categories whatever they hold;
    `groups` those of names of subjects and the like, which only a term group(column) uses.
    `missing` are the words for "no value"; `incomplete` says what becomes of a row with a missing
    cell: "fill" (median, and a column that marks it) or "drop". `exposure`, `trials` name the
    column of positive numbers, or of whole numbers from 1, that counts belong to; `coordinates`
    two number columns. `test_fraction` of the rows is held out, at random or by the column
    `test_by`. `new` is the path of a file of new rows, read with the same `separator` and
    `decimal` mark.
    """

    csv: str = ""
    target: str = ""
    positive: Any = None
    outcome: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    missing: tuple[str, ...] = MISSING_WORDS
    incomplete: str = "fill"
    exposure: str | None = None
    trials: str | None = None
    event: str | None = None
    event_value: Any = None
    levels: tuple[Any, ...] = ()
    coordinates: tuple[str, ...] = ()
    test_fraction: float = 0.2
    test_by: str | None = None
    new: str | None = None
    separator: str = ","
    decimal: str = "."

    @property
    def unit(self) -> str | None:
        """The column that belongs to the outcome: exposure, trials or event."""
        return self.exposure or self.trials or self.event


def read_settings(mapping: Mapping[str, Any], where: str) -> tuple[TableSettings, list[str]]:
    """Return the settings, defaults in place of what is wrong, and one line for each problem."""
    names = [field.name for field in fields(TableSettings)]
    if not isinstance(mapping, Mapping):
        return TableSettings(), [
            f"{where}: found {mapping!r}; allowed: keys such as csv and target"
        ]
    problems = [unknown(f"{where}: ", "key", key, names) for key in mapping if key not in names]
    chosen: dict[str, Any] = {}
    for name in names:
        value = mapping.get(name)
        if value is None:
            if name in ("csv", "target"):
                problems.append(f"{where}.{name}: missing; give {_ALLOWED[name]}")
            continue
        read = _read(name, value)
        if read is None:
            problems.append(f"{where}.{name}: found {value!r}; allowed: {_ALLOWED[name]}")
        else:
            chosen[name] = read
    settings = TableSettings(**chosen)
    if settings.exposure and settings.trials:
        problems.append(
            f"{where}: exposure and trials are both given; counts have an exposure, successes "
            "out of a number have trials; keep one"
        )
    if settings.event and (settings.exposure or settings.trials):
        key = "exposure" if settings.exposure else "trials"
        problems.append(
            f"{where}: {key} and event are both given; counts have {key}, times have an event; keep one"
        )
    return settings, problems


def column_problems(settings: TableSettings, columns: Iterable[str], where: str) -> list[str]:
    """Return one line for each setting that names a column that is not there or not free."""
    columns = list(columns)
    file = settings.csv.replace("\\", "/").rsplit("/", 1)[-1]
    target = settings.target
    named = {
        "target": (target,) if target else (),
        "drop": settings.drop,
        "categorical": settings.categorical,
        "groups": settings.groups,
        "exposure": (settings.exposure,) if settings.exposure else (),
        "trials": (settings.trials,) if settings.trials else (),
        "event": (settings.event,) if settings.event else (),
        "coordinates": settings.coordinates,
        "test_by": (settings.test_by,) if settings.test_by else (),
    }
    problems = []
    for key, chosen in named.items():
        for name in chosen:
            if name not in columns:
                problems.append(unknown(f"{where}.{key}: ", "column", name, columns, file))
            elif key != "target" and name == target:
                problems.append(f"{where}.{key}: {name!r} is the target; leave it out here")
    roles = [
        (key, name) for key in named if key not in ("target", "test_by") for name in named[key]
    ]
    for place, (key, name) in enumerate(roles):
        for other, same in roles[:place]:
            if same == name and other != key and name in columns:
                problems.append(f"{where}.{key}: {name!r} is also in {where}.{other}; keep one")
    return problems


def unknown(where: str, what: str, name: str, allowed: Iterable[str], file: str = "") -> str:
    """Return one line about a name that is not there, with the nearest one that is."""
    names = [str(allowed_name) for allowed_name in allowed]
    small = {allowed_name.lower(): allowed_name for allowed_name in names}
    near = difflib.get_close_matches(str(name).lower(), small, n=1, cutoff=0.4)
    place = f" in {file}" if file else ""
    hint = f'did you mean "{small[near[0]]}"?' if near else f"there are: {', '.join(names)}"
    return f'{where}no {what} "{name}"{place}; {hint}'


def text_of(value: Any) -> str:
    """Return a value of a YAML file as the cell of a table that it stands for."""
    if value is None:
        return "null"
    if isinstance(value, float):
        return "nan" if math.isnan(value) else f"{value:.15g}"
    return " ".join(str(value).split())


_ALLOWED = {
    "csv": "the path of a CSV file",
    "target": "the name of a column",
    "positive": "one value of the target",
    "outcome": ", ".join(KINDS),
    "drop": "a list of columns",
    "categorical": "a list of columns",
    "groups": "a list of columns",
    "missing": "a list of words",
    "incomplete": "fill (middle value) or drop (rows are not used)",
    "exposure": "the name of a column",
    "trials": "the name of a column",
    "event": "the name of a column",
    "event_value": "one value of the column event",
    "levels": "a list of two grades or more, from low to high, such as [poor, fair, good]",
    "coordinates": "two columns, such as [easting, northing]",
    "test_fraction": "a number from 0 to below 1",
    "test_by": "the name of a column",
    "new": "the path of a CSV file",
    "separator": '"," or ";" or a tab, "\\t"',
    "decimal": '"." or ","',
}
_CHOICES = {
    "outcome": tuple(KINDS), "incomplete": INCOMPLETE, "separator": SEPARATORS, "decimal": DECIMALS
}  # fmt: skip


def _read(name: str, value: Any) -> Any:
    """Return the value of a setting in its type, None if it is not allowed."""
    if name in ("drop", "categorical", "groups", "missing", "coordinates"):
        listed = [value] if isinstance(value, (str, int)) else value
        if not isinstance(listed, (list, tuple)) or any(
            isinstance(item, (list, dict)) for item in listed
        ):
            return None
        if name == "coordinates" and len(set(map(str, listed))) != 2 and listed:
            return None
        return tuple(text_of(item) for item in listed)
    if name == "levels":
        return _levels(value)
    if isinstance(value, (list, tuple, Mapping)):
        return None
    if name in ("positive", "event_value"):
        return value
    if name == "test_fraction":
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1
        return float(value) if good else None
    if name in _CHOICES:
        text = "\t" if str(value) in ("tab", "\\t") else value
        return text if text in _CHOICES[name] else None
    return (str(value) if name in ("csv", "new") else text_of(value)) or None


def _levels(value: Any) -> tuple[Any, ...] | None:
    """Return two grades or more as text, but for yes and no without quotes, which YAML reads as booleans."""
    if not isinstance(value, (list, tuple)) or len(value) < 2:
        return None
    if any(item is None or isinstance(item, (list, tuple, Mapping)) for item in value):
        return None
    return tuple(item if isinstance(item, bool) else text_of(item) for item in value)
