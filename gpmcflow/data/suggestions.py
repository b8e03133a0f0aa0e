"""What to do with a CSV file that is seen for the first time: settings and models to start from."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gpmcflow.data.area_names import AreaNames
from gpmcflow.data.column_uses import column_uses
from gpmcflow.data.columns import (
    MOST_LEVELS,
    Column,
    describe_columns,
    is_time,
    looks_like_date,
    yaml_text,
)
from gpmcflow.data.csv_table import (
    MISSING_WORDS,
    SEPARATORS,
    THOUSANDS,
    UNIT,
    CsvTable,
    find_separator,
    missing_cells,
    parse_numbers,
    plain_numbers,
)
from gpmcflow.data.grades import grade_order
from gpmcflow.data.known_files import MAP, NamedLevels, read_known
from gpmcflow.data.large_models import LargeModels, is_large
from gpmcflow.data.other_laws import OVERDISPERSED, OtherLaw, other_laws, overdispersion
from gpmcflow.data.outcome_again import (
    find_leak,
    find_marked,
    find_outcome_again,
    find_rate,
)
from gpmcflow.data.outcome_kinds import KINDS
from gpmcflow.data.own_settings import TableSettings, column_problems, text_of, unknown
from gpmcflow.data.own_table import read_table
from gpmcflow.data.roles import (
    Reading,
    find_codes,
    find_exposure,
    find_groups,
    find_lone_place,
    find_of_models,
    find_places,
    find_points,
    find_row_numbers,
    find_status,
    find_total,
    find_trials,
    may_be_places,
    may_be_successes,
    read_outcome,
    status_of,
    tells_the_end,
    totals_of_the_arm,
)
from gpmcflow.data.seasons import Season, find_season
from gpmcflow.data.suggestion_text import config_text, models_of, plain_model
from gpmcflow.data.target import (
    Target,
    code_target,
    ended,
    offset_problems,
    weight_problems,
)
from gpmcflow.data.times import describe_until, find_interval
from gpmcflow.errors import InputErrors
from gpmcflow.storage.input_files import is_file, user_path

ENOUGH = 0.8
WIDTH = 100
MORE_MISSING = {
    ".", "..", "-", "--", "*", "n/a", "n.a.", "na", "nan", "none", "null", "missing", "unknown", "#n/a",
    "<na>", "nd", "n.d.", "not available", "(null)",
}  # fmt: skip
DOTS = {".", ".."}
STATUS_DROPPED = "status: how cases ended, which is known only afterwards"
OTHER_STATUS = "says how something ended, which is known only afterwards"
SENTINELS = (-9999.0, -999.0, -99.0, 999.0, 9999.0, 99999.0)  # numbers that stand for no value
ROWS_A_CLASS = 5  # on average, by which many texts are classes
MOST_NAMED = 60  # columns of a use, in the summary; the file names all
MANY_NAMES = 10  # groups of which some can be held out


@dataclass(frozen=True)
class Suggestion:
    """What was found in a file, and the settings and models to start from.

    `settings` are those of `data:` that differ from their defaults (with all columns still there);
    `uses` maps a column to what becomes of it, `dropped` one in drop to the reason; `reading` is the kind
    of outcome; `problems` are lines about cells to correct, `notes` about what was decided and could be
    otherwise.
    """

    path: Path
    n_rows: int
    columns: dict[str, Column]
    settings: TableSettings
    target: Target
    reading: Reading
    uses: dict[str, str]
    dropped: dict[str, str]
    models: dict[str, str]
    likelihood: str
    outcome_counts: str
    season: tuple[str, Season] | None = None
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    large: LargeModels | None = None  #: curves of each column by basis functions
    others: dict[str, OtherLaw] = field(default_factory=dict)  #: models with a law of their own
    areas: AreaNames | None = None  #: what the files of areas hold

    def text(self, name: str, csv: str | None = None) -> str:
        """Return the commented YAML of the analysis `name`; `csv` is the path of the file from the
        YAML file's folder, by default its name alone."""
        return config_text(self, name, csv or self.path.name)

    def moved(self, folder: Path) -> Suggestion:
        """Return the same with paths of files of areas from a folder, where the YAML file will be."""
        own = self.settings
        graphs = {name: os.path.relpath(path, folder) for name, path in own.graphs.items()}
        area_map = own.map and os.path.relpath(own.map, folder)
        return replace(self, settings=replace(own, map=area_map, graphs=graphs))

    def summary(self) -> str:
        """Return what was found as a few lines for a terminal."""
        by_use: dict[str, list[str]] = {}
        for column in self.columns.values():
            use = self.uses[column.name]
            if column.name in self.settings.coordinates:
                use = "place"
            elif column.name in self.settings.groups:
                use = "groups"
            elif use == "input":
                use = {"category": "categories", "date": "dates"}.get(column.kind, "numbers")
            elif use not in ("target", "unit", "weights"):
                use = "dropped"
            by_use.setdefault(use, []).append(self._short(column, use))
        lines = [_wrapped("outcome", f"{self.target.name} ({self.outcome_counts})")]
        unit = "offset" if self.target.log_unit else self.target.own.unit or "exposure"
        unit = "until" if self.target.until else unit
        labels = {
            "place": "place", "unit": unit, "weights": "weights", "numbers": "numbers",
            "categories": "categories", "dates": "dates", "groups": "groups", "dropped": "dropped",
        }  # fmt: skip
        for use, label in labels.items():
            if use in by_use:
                names = by_use[use]
                more = len(names) - MOST_NAMED
                shown = names[:MOST_NAMED] + [f"and {more} more"] * (more > 0)
                lines.append(_wrapped(label, ", ".join(shown)))
        if self.areas:
            lines.append(_wrapped("areas", self.areas.counted()))
        if self.season:
            lines.append(_wrapped("season", season_words(*self.season)))
        lines += [_wrapped("correct", line) for line in self.problems]
        lines += [_wrapped("note", line) for line in self.notes]
        n = len(self.columns)
        heading = f"{self.path.name}: {self.n_rows} rows, {n} column{'s' * (n > 1)}"
        return "\n".join([heading, *lines])

    def _short(self, column: Column, use: str) -> str:
        gaps = f"{column.n_missing} missing" if column.n_missing else ""
        if gaps and use in ("numbers", "dates"):
            gaps += ": median, plus an indicator"
        if use == "dropped":
            why = {
                "id": column.contents
                if column.contents == "row number"
                else "different in every row",
                "text": f"{column.contents}; categorical: [{yaml_text(column.name)}] keeps it",
                "constant": "always the same",
            }
            stated = self.dropped.get(column.name)
            return f"{column.name} ({stated or why.get(column.kind, column.kind)})"
        if use == "unit" and self.target.kind == "survival":
            gaps = f"{self.target.positive} where the end was seen"
            if self.target.until:
                gaps = "the upper end, empty where it had not ended"
        words = [f"{len(column.levels)} levels"] if use == "categories" else []
        words += [_group_sizes(column)] if use == "groups" else []
        words += [gaps] if gaps else []
        return column.name + (f" ({', '.join(words)})" if words else "")


EDGES = "edges"  # name of the graph of a file of neighbours


def suggest(
    path: str | Path,
    target: str,
    *,
    positive: Any = None,
    area_map: str | None = None,
    neighbours: str | None = None,
    offset: str | None = None,
    weights: str | None = None,
) -> Suggestion:
    """Return what to do with a CSV file whose column `target` is to be predicted.

    Separator, decimal mark and words for "no value" are found from the cells; the kind of outcome, groups,
    codes, exposure, trials, a place and a season by names and patterns of columns. `positive` is the value of
    the target that counts as 1; `area_map` and `neighbours` are paths of a GeoJSON file and of pairs of
    neighbours, whose areas are the levels of the column that has most of their names; `offset` and `weights`
    are columns that nothing tells by themselves, see `TableSettings`. Raises
    InputErrors with all that keeps the file from being used; single bad cells are listed in the suggestion.
    """
    path = user_path(path)
    separator = find_separator(path) if is_file(path) else SEPARATORS[0]
    table = read_table(path, separator)
    target, offset, weights = (name and text_of(name) for name in (target, offset, weights))
    if target not in table.columns:
        raise InputErrors([unknown("", "column", target, table.columns, path.name)])
    decimal = find_decimal(table)
    missing = (*MISSING_WORDS, *missing_words(table, decimal))
    columns = describe_columns(table, missing=missing, decimal=decimal)
    settings = TableSettings(
        path.name,
        target,
        positive=positive,
        missing=missing,
        separator=separator,
        decimal=decimal,
        offset=offset,
        weights=weights,
    )
    if problems := column_problems(settings, table.columns, "data"):
        raise InputErrors(problems)
    ends = None if offset or positive is not None else find_interval(table, columns, settings)
    if ends is not None:
        target, until = ends
        settings = replace(settings, target=target, until=until)
        columns[until] = describe_until(table, until, settings)
    settings, reading, dropped = _roles(columns, settings)
    area = _areas(table, settings, area_map, neighbours)
    if area is not None:
        settings, dropped = area.settings, {k: v for k, v in dropped.items() if k != area.column}
    names = (*settings.categorical, *settings.groups)
    named = replace(table, columns={name: table.columns[name] for name in names})
    columns |= describe_columns(named, missing=missing, decimal=decimal, categorical=names)
    coded, outcome, problems = code_target(table, columns, settings, "data")
    numbers = columns[target].values is not None
    bad_cells = list(columns[target].problems) if numbers else []
    problems = [line for line in problems if line not in bad_cells]
    problems += offset_problems(table, columns[offset]) if offset else []
    problems += weight_problems(table, columns[weights]) if weights else []
    if problems:
        raise InputErrors(problems)
    if coded.kind == "binary":
        settings = replace(settings, positive=coded.positive, outcome=None)
    uses = column_uses(columns, settings)
    inputs = [name for name, use in uses.items() if use == "input"]
    if not inputs:
        raise InputErrors([f"{path.name}: no column to learn from beside the target"])
    bad_cells += [line for name in inputs for line in columns[name].problems]
    explaining = [name for name in inputs if name not in settings.groups]
    scales = [np.log(outcome), outcome] if coded.kind == "positive" else [outcome]
    within = (_within_groups(columns, settings.groups, scaled) for scaled in scales)
    season = next(filter(None, (_season(columns, explaining, own) for own in within)), None)
    if season:
        settings = replace(settings, test_by=season[0])
    elif names_held_out := _held_out_groups(
        columns, [name for name in settings.groups if area is None or name != area.column]
    ):
        settings = replace(settings, test_by=names_held_out)
    models, large = models_of(
        columns, explaining, settings, season,
        many=is_large(len(table.rows), coded), areas=area and (area.column, area.graph),
    )  # fmt: skip
    counted = coded.unit and coded.kind != "survival"
    unit = coded.unit_values(columns[coded.unit]) if counted else np.ones(len(outcome))
    others = other_laws(coded.kind, outcome, unit)
    models |= dict.fromkeys(others, models[plain_model(models)])
    return Suggestion(
        path,
        len(table.rows),
        columns,
        settings,
        coded,
        reading,
        uses,
        dropped,
        models,
        _likelihood(coded.kind, outcome, unit),
        _outcome_counts(columns[target], coded, outcome),
        season,
        bad_cells,
        [
            *table.notes,
            *(area.names.notes() if area else []),
            *_notes(table, columns, settings, reading, explaining, outcome),
        ],
        large,
        others,
        area and area.names,
    )


class _Areas(NamedTuple):
    """The column of a map's areas, the graph of its term, the settings with both, and the names."""

    column: str
    graph: str
    settings: TableSettings
    names: AreaNames


def _areas(
    table: CsvTable, settings: TableSettings, area_map: str | None, neighbours: str | None
) -> _Areas | None:
    """What files of a map and of neighbours make of a table.

    Raises `InputErrors` for what is wrong in them.
    """
    if area_map is None and neighbours is None:
        return None
    names = {}
    for name, cells in table.columns.items():
        empty = missing_cells(cells, settings.missing, settings.decimal)
        if name != settings.target:
            names[name] = [cell for cell, gap in zip(cells, empty, strict=True) if not gap]
    graphs = {} if neighbours is None else {EDGES: neighbours}
    settings = replace(settings, map=area_map, graphs=graphs)
    known, _, areas, problems = read_known(settings, NamedLevels(names, "data"), Path())
    if problems:
        raise InputErrors(problems)
    column, graph = known.column, EDGES if graphs else MAP
    if not areas:
        raise InputErrors(
            [f"{area_map}: no two areas share a border; give pairs of them: --neighbours pairs.csv"]
        )
    assert column is not None
    others = [name for name in settings.groups if name != column]
    drop, categorical = (
        tuple(name for name in chosen if name != column)
        for chosen in (settings.drop, settings.categorical)
    )
    settings = replace(settings, groups=(column, *others), drop=drop, categorical=categorical)
    return _Areas(column, graph, settings, areas[0])


def _group_sizes(column: Column) -> str:
    sizes = Counter(column.labels[~column.missing].tolist()).values()
    least, most = min(sizes), max(sizes)
    rows = f"{least} to {most} rows each" if least < most else f"{most} row{'s' * (most > 1)} each"
    return f"{len(sizes)} names, {rows}"


def season_words(column: str, season: Season) -> str:
    """Words for a season: its period and the column of its times."""
    if season.name:
        return f"the outcome repeats every {season.name} of {column}"
    return f"the outcome repeats every {season.period:g} of {column}"


def find_decimal(table: CsvTable) -> str:
    """Return the decimal mark that more columns are written in: "." or ","."""
    votes = Counter()
    for cells in table.columns.values():
        filled = [cell for cell in cells if cell]
        if table.separator == ",":  # a comma between quotes sets off thousands
            filled = [c for c in filled if not ("," in c and THOUSANDS.fullmatch(c))]
        bare = [c if (c[0] + c[-1]).isdigit() else UNIT.sub(r"\1", c) for c in filled]
        shares = {mark: np.isfinite(plain_numbers(bare, mark)).sum() for mark in ".,"}
        best = max(shares, key=lambda mark: shares[mark])
        if shares["."] != shares[","] and shares[best] >= ENOUGH * len(filled):
            votes[best] += 1
    return "," if votes[","] > votes["."] else "."


def missing_words(table: CsvTable, decimal: str) -> tuple[str, ...]:
    """Return the words for "no value" beside `MISSING_WORDS` that stand among the numbers of some column.

    Signs and words of `MORE_MISSING` in a column that otherwise holds numbers or dates; dots among words, as
    of a SAS file, unless there are other signs; and numbers such as -99 or 999 where they lie far outside the
    other numbers, or alone below 0, in all columns that have them.
    """
    found: dict[str, None] = {}
    refused: set[str] = set()
    for cells in table.columns.values():
        empty = missing_cells(cells, MISSING_WORDS, decimal)
        filled = [cell for cell, gap in zip(cells, empty, strict=True) if not gap]
        words = {cell for cell in filled if cell.lower() in MORE_MISSING}
        numbers = parse_numbers([cell for cell in filled if cell not in words], decimal)
        values = numbers[np.isfinite(numbers)]
        if words and len(values) == 0:  # dates, with words among them
            others = [cell for cell in filled if cell not in words]
            dated = np.mean([looks_like_date(cell) for cell in others]) if len(others) > 3 else 0.0
            found.update(dict.fromkeys(sorted(words) if dated >= ENOUGH else ()))
            named = bool(others) and all(any(map(str.isalnum, cell)) for cell in set(others))
            found.update(dict.fromkeys(sorted(words & DOTS) if named else ()))
        if len(values) < max(ENOUGH * len(numbers), 3):
            continue
        found.update(dict.fromkeys(sorted(words)))
        rest = values[~np.isin(values, SENTINELS)]
        for code in SENTINELS:
            if code not in values:
                continue
            far = len(rest) > 5 and (
                code < min(0.0, rest.min() - np.ptp(rest))
                or code > rest.max() + 2.0 * np.ptp(rest)
                or (code < 0.0 <= rest.min())
            )
            if far:
                found[f"{code:g}"] = None
            else:
                refused.add(f"{code:g}")
    return tuple(word for word in found if word not in refused)


def _roles(
    columns: dict[str, Column], settings: TableSettings
) -> tuple[TableSettings, Reading, dict[str, str]]:
    """Return the settings with what the columns mean, the kind of outcome, and why columns are dropped."""
    target = columns[settings.target]
    stated = (target.name, settings.until, settings.offset, settings.weights)
    others = {name: column for name, column in columns.items() if name not in stated}
    numbers = [
        column
        for column in others.values()
        if column.kind in ("number", "whole", "constant")
        and column.values is not None
        and not column.problems
    ]
    varied = [column for column in numbers if column.kind != "constant"]
    places = find_places(varied) or find_points(varied, others)
    places = places or find_lone_place(target, others)
    numbers = [column for column in numbers if column.name not in places]
    positive = settings.positive
    reading = Reading("survival", "survival")
    if not settings.until:
        reading = read_outcome(target, others, trials=None)
    total = find_total(columns, target) if reading.model in ("real", "positive") else None
    if settings.offset or total:
        reading = Reading("counts", "counts")
    trials = exposure = None
    successes = reading.model != "binary" and may_be_successes(target)
    successes = successes or (reading.model == "real" and bool(totals_of_the_arm(target, numbers)))
    tries = not (settings.offset or settings.until) and (reading.kind == "counts" or successes)
    if tries and positive is None and not target.problems:
        trials = find_trials(target, numbers)
        counted = reading.kind == "counts" and not trials
        exposure = find_exposure(target, numbers) if counted else None
        if exposure is None and not trials and (total or may_be_successes(target)):
            exposure = find_trials(target, numbers, rare=True)
        reading = (
            Reading("counts", "counts")
            if exposure or (total and not trials)
            else read_outcome(target, others, trials=trials)
        )
    if positive is not None:
        reading = replace(reading, model="binary")
    elif reading.model == "classes" or (
        reading.kind in ("classes", "grades") and reading.model == "binary"
    ):
        counts = Counter(target.labels[~target.missing].tolist())
        if len(counts) <= MOST_LEVELS or ROWS_A_CLASS * len(counts) <= counts.total():
            positive = max(sorted(counts), key=lambda level: counts[level])
    status = find_status(others, target.name) if reading.kind == "survival" else []
    told = status_of(target.name, status, others)
    event = told if reading.model == "survival" else None
    drop = {
        name: STATUS_DROPPED if name == told else OTHER_STATUS
        for name in status
        if name != event and (name == told or tells_the_end(others[name], others[told]))
    }
    settings = replace(
        settings,
        outcome=reading.model,
        positive=positive,
        trials=trials,
        exposure=exposure,
        event=event,
        event_value=None if event is None else ended(_levels(others[event])),
        levels=(grade_order(_levels(target)) or ()) if reading.model == "grades" else (),
        coordinates=places,
        drop=tuple(drop),
    )
    free = [
        name
        for name, use in column_uses(columns, settings).items()
        if use in ("input", "text") and name not in places and not columns[name].problems
    ]
    usable = [name for name in free if columns[name].kind != "text"]
    drop |= find_row_numbers(columns, usable)
    drop |= find_of_models(columns, usable, target)
    counts = [name for name in usable if columns[name].kind in ("number", "whole")]
    if (
        reading.kind == "counts"
        and not settings.offset
        and (pair := find_rate(columns, counts, target))
    ):
        exposure = pair[0]
        settings = replace(settings, exposure=exposure)
    usable = [name for name in usable if name != exposure]
    unit = columns.get(trials or exposure or "")
    usable = [name for name in usable if name not in drop]
    drop |= find_outcome_again(columns, usable, target, unit, others.get(told or ""))
    drop |= find_marked(columns, [name for name in free if name not in drop], target)
    settings = replace(settings, drop=tuple(drop))
    free = [name for name in free if name not in drop]
    groups = find_groups(columns, free)
    codes = find_codes(columns, [name for name in free if name not in groups])
    return replace(settings, groups=tuple(groups), categorical=tuple(codes)), reading, drop


def _levels(column: Column) -> list[str]:
    return sorted(set(column.labels[~column.missing].tolist()))


def _within_groups(
    columns: dict[str, Column], groups: Sequence[str], outcome: np.ndarray
) -> np.ndarray:
    """Return the outcome less the mean of the same names, so that who is seen when makes no season."""
    if not groups:
        return outcome
    names = pd.Series(list(zip(*(columns[name].labels for name in groups), strict=True)))
    return outcome - pd.Series(outcome).groupby(names).transform("mean").to_numpy()


def _season(
    columns: dict[str, Column], inputs: list[str], outcome: np.ndarray
) -> tuple[str, Season] | None:
    """Return the column of times over which the outcome repeats, and the period; None if there is none."""
    for name in inputs:
        column = columns[name]
        is_date = column.kind == "date"
        timed = is_date or (column.kind in ("number", "whole") and is_time(name))
        if timed and (season := find_season(column.values, outcome, is_date=is_date)):
            return name, season
    return None


def _held_out_groups(columns: dict[str, Column], groups: Sequence[str]) -> str | None:
    """Return the column of groups whose rows are held out together: the one of most names."""
    sizes = {name: len(columns[name].levels) for name in groups}
    most = max(sizes, key=lambda name: sizes[name], default=None)
    return most if most and sizes[most] >= MANY_NAMES else None


def _likelihood(kind: str, outcome: np.ndarray, unit: np.ndarray) -> str:
    """Name of the likelihood: of counts that vary more than Poisson's do, the negative binomial one."""
    if kind != "counts":
        return KINDS[kind].likelihoods[0]
    known = np.isfinite(outcome) & np.isfinite(unit)
    over = overdispersion(kind, outcome[known], unit[known])
    return "negative_binomial" if over > OVERDISPERSED else "poisson"


def _notes(
    table: CsvTable,
    columns: dict[str, Column],
    settings: TableSettings,
    reading: Reading,
    inputs: list[str],
    outcome: np.ndarray,
) -> list[str]:
    """Lines on what was decided and may be otherwise, each with the line to write."""
    lines = []
    added = settings.missing[len(MISSING_WORDS) :]
    if added:
        shown = ", ".join(f'"{word}"' for word in added)
        lines.append(f"{shown} read as no value in every column; see missing")
    if reading.why:
        lines.append(f"{settings.target} holds {KINDS_IN_WORDS[reading.kind]}; {reading.why}")
    if settings.event and len(levels := _levels(columns[settings.event])) > 2:
        lines.append(
            f"{settings.event} has {len(levels)} values ({', '.join(levels)}): only "
            f"{text_of(settings.event_value)} is taken as an end, all others as not ended yet; see "
            "event_value"
        )
    if leak := find_leak(columns, inputs, outcome):
        lines.append(leak.words(settings.target))
    free = [columns[name] for name in inputs if columns[name].kind in ("number", "whole")]
    if not settings.coordinates and (pair := may_be_places(free)):
        lines.append(
            f"if {pair[0]} and {pair[1]} are a place on a map: coordinates: [{pair[0]}, {pair[1]}]"
        )
    return lines


KINDS_IN_WORDS = {
    "classes": "several classes",
    "grades": "ordered grades",
    "share": "shares from 0 to 1",
    "survival": "durations, some of which have not ended",
    "positive": "positive amounts with a long tail",
}


def _outcome_counts(column: Column, target: Target, outcome: np.ndarray) -> str:
    values = outcome[np.isfinite(outcome)]
    if target.kind == "binary":
        n = int(values.sum())
        text = f"{target.positive} {n}, {target.negative} {len(values) - n}"
    elif target.levels:
        number = Counter(values.astype(int).tolist())
        text = ", ".join(f"{level} {number[k]}" for k, level in enumerate(target.levels, 1))
    elif target.own.measured:
        article = {"positive": "a positive number", "survival": "a time", "share": "a share"}.get(
            target.kind, "a number"
        )
        text = f"{article}, {values.min():.6g} to {values.max():.6g}"
    else:
        text = f"a count, {values.min():g} to {values.max():g}, mean {values.mean():.3g}"
        if target.kind == "binomial":
            text += f", out of {target.unit}"
    n = int(np.isnan(outcome).sum()) if target.until else column.n_missing
    return text + (f", {n} empty: these rows are not used" if n else "")


def _wrapped(label: str, text: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=f"  {label:<13}", subsequent_indent=" " * 15,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
