"""The settings of an own table: what the key `data` of a config may hold."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpmcflow.data.columns import yaml_text
from gpmcflow.data.csv_table import MISSING_WORDS


@dataclass(frozen=True)
class TableSettings:
    """How a CSV file is read.

    `csv` (path) and `target` (column) are required. `positive` is the value of the target that
    counts as 1; `outcome` one of `KINDS`, or None: by the target; `levels` are its grades, from low to high.
    `event` names the column that says whether the end of a time was seen, which
    its value `event_value` does; `until` that of the upper ends of times known to an interval, whose lower
    ends are the target.
    `drop`, `categorical` name columns that are not used, or are categories whatever they hold;
    `groups` those of names of subjects and the like, which only a term group(column) uses.
    `missing` are the words for "no value"; `incomplete` says what becomes of a row with a missing
    cell: "fill" (median, and a column that marks it) or "drop". `exposure`, `trials` name the
    column of positive numbers, or of whole numbers from 1, that counts belong to, `offset` that of the
    logs of such numbers; `weights` the column that says how many equal rows a row stands for; `coordinates`
    two number columns. `test_fraction` of the rows is held out, at random or by the column
    `test_by`. `new` is the path of a file of new rows, read with the same `separator` and
    `decimal` mark. `graphs` and `correlations` are paths by the names that covariances have for them,
    `map` that of a GeoJSON file; all have names of levels of `groups`.
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
    offset: str | None = None
    weights: str | None = None
    event: str | None = None
    event_value: Any = None
    until: str | None = None
    levels: tuple[Any, ...] = ()
    coordinates: tuple[str, ...] = ()
    graphs: Mapping[str, str] = field(default_factory=dict)
    correlations: Mapping[str, str] = field(default_factory=dict)
    map: str | None = None
    test_fraction: float = 0.2
    test_by: str | None = None
    new: str | None = None
    separator: str = ","
    decimal: str = "."

    @property
    def unit(self) -> str | None:
        """The column that belongs to the outcome: exposure, trials, event, until or offset."""
        return self.exposure or self.trials or self.event or self.until or self.offset


def read_settings(mapping: Mapping[str, Any], where: str) -> tuple[TableSettings, list[str]]:
    """Return the settings, and one line for each problem that the schema of a config does not see.

    The schema (`analysis.data`) declares what each key may be.
    """
    chosen = {key: _read(key, value) for key, value in mapping.items() if value is not None}
    problems = [
        f"{where}.{key}: missing; give {what}"
        for key, what in (("csv", "the path of a CSV file"), ("target", "the name of a column"))
        if not chosen.get(key)
    ]
    settings = TableSettings(**chosen)
    if settings.exposure and settings.trials:
        problems.append(
            f"{where}: exposure and trials are both given; counts have an exposure, successes "
            "out of a number have trials; keep one"
        )
    if settings.exposure and settings.offset:
        problems.append(
            f"{where}: exposure and offset are both given; an offset is the log of an exposure; keep one"
        )
    of_times = "event" if settings.event else "until"
    if getattr(settings, of_times) and (settings.exposure or settings.trials):
        key = "exposure" if settings.exposure else "trials"
        problems.append(
            f"{where}: {key} and {of_times} are both given; counts have {key}, times have an {of_times}; "
            "keep one"
        )
    if settings.event and settings.until:
        problems.append(
            f"{where}: event and until are both given; until is empty where a time had not ended; "
            f"leave out event and write until: {yaml_text(settings.until)}"
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
        "offset": (settings.offset,) if settings.offset else (),
        "weights": (settings.weights,) if settings.weights else (),
        "event": (settings.event,) if settings.event else (),
        "until": (settings.until,) if settings.until else (),
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


_COLUMNS = ("target", "exposure", "trials", "offset", "weights", "event", "until", "test_by")


def _read(name: str, value: Any) -> Any:
    """Return the value of a setting in its type: names and words as cells of a table."""
    if name in ("drop", "categorical", "groups", "missing", "coordinates"):
        return tuple(map(text_of, value))
    if name == "levels":  # but yes and no without quotes, which YAML reads as booleans
        return tuple(item if isinstance(item, bool) else text_of(item) for item in value)
    if name == "separator":
        return "\t" if value in ("tab", "\\t") else value
    if name in ("graphs", "correlations"):
        return {str(key): str(path) for key, path in value.items()}
    return text_of(value) if name in _COLUMNS else value
