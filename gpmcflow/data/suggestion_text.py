"""The commented config that a first look at a CSV file ends in."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpmcflow.data.column_uses import (
    WEIGHTS_DONE,
    dropped_done,
    input_done,
    unit_done,
    unit_found,
)
from gpmcflow.data.columns import Column, as_argument, name_words, yaml_text
from gpmcflow.data.grades import listed_grades
from gpmcflow.data.large_models import MANY_ROWS, STRAIGHT, WIDTHS, LargeModels, is_large
from gpmcflow.data.own_settings import TableSettings
from gpmcflow.data.seasons import Season
from gpmcflow.data.times import KNOWN, counts_of, ends_of, known_times

if TYPE_CHECKING:
    from gpmcflow.data.suggestions import Suggestion

NAME_LIKE = {
    "no", "nr", "num", "code", "batch", "type", "class", "group", "zip", "plz", "id", "site",
    "category", "lot", "unit", "store", "region",
}  # fmt: skip


def models_of(
    columns: Mapping[str, Column],
    inputs: Sequence[str],
    settings: TableSettings,
    season: tuple[str, Season] | None,
    *,
    many: bool,
    areas: tuple[str, str] | None = None,
) -> tuple[dict[str, str], LargeModels | None]:
    """Return models to start from, name -> covariance, and what those of basis functions need.

    `inputs` are the columns used but for groups, each of which has a term of its own in all models. ``many``
    rows have basis functions alone. `areas` are a column of areas and the name of their graph.
    """
    if areas is not None:
        models, large = models_of(columns, inputs, settings, season, many=many)
        column, graph = as_argument(areas[0]), areas[1]
        apart, near = f"group({column})", f"areal({column}, graph={graph})"
        own = next(name for name in ("levels", "plain", *models) if name in models)
        shown = {
            "areas" if name == "levels" else name: text.replace(apart, near)
            for name, text in models.items()
        }
        return shown | {APART: models[own]}, large
    levels = "".join(f" + group({as_argument(name)})" for name in settings.groups)
    if not inputs:
        return {"levels": f"{levels.removeprefix(' + ')} + constant(signal_sd=2.0)"}, None
    places = settings.coordinates
    wave = f"periodic({as_argument(season[0])}, period={season[1].period:.10g})" if season else None
    large: LargeModels | None
    if many:
        large = LargeModels(columns, inputs, places, wave)
        models = large.covariances
    else:
        models = _dense_models(inputs, places)
        large = LargeModels(columns, [name for name in inputs if name not in places], ())
        if len(inputs) > 1 and "curves" in large.covariances:
            over = f"{_surface_over(places)} + " if places else ""
            models[ADDITIVE] = over + large.covariances["curves"]
        else:
            large = None
    if season and not many:
        rest = "" if len(inputs) == 1 else "squared_exponential(ard=True) + "
        slow = f"squared_exponential({as_argument(season[0])}, name='trend')"
        models["seasons"] = f"{rest}{slow} + {wave}"
    return {name: covariance + levels for name, covariance in models.items()}, large


def _surface_over(places: Sequence[str]) -> str:
    return f"matern32({', '.join(as_argument(name) for name in places)})"


def _dense_models(inputs: Sequence[str], places: Sequence[str]) -> dict[str, str]:
    if places and len(inputs) == 2:
        return {"map": "matern32(ard=True)", "round": "matern32()", "trend": STRAIGHT}
    if len(inputs) == 1:
        return {"smooth": "squared_exponential()", "rough": "matern32()", "plain": STRAIGHT}
    models = {"relevance": "squared_exponential(ard=True)", "smooth": "matern32()"}
    if places:
        models["map"] = f"{_surface_over(places)} + {STRAIGHT}"
    return models | {"plain": STRAIGHT}


MANY_LEVELS = 5  # of categories, from which on they may as well be names of groups
ADDITIVE = "curves"
APART = "apart"
MODEL_WORDS = {
    "levels": "a level for each group",
    "areas": "levels of areas that resemble their neighbours",
    APART: "levels of areas that do not resemble their neighbours, to compare",
    "relevance": "curves, each column with its own weight",
    "smooth": "curves, all columns alike",
    "rough": "a curve with more bends",
    "plain": "straight lines",
    "seasons": "a slow curve, and a season that repeats",
    "curves": "a curve for each column, no interactions",
    "surface": "a surface over both columns",
    "map": "a surface, each direction with its own reach",
    "round": "a surface, the same reach in all directions",
    "trend": "a straight slope",
}


def _about_groups(suggestion: Suggestion) -> str:
    """What groups are; and what to write for a level of its own of each of many categories, if there are."""
    settings, what = suggestion.settings, "names of subjects and the like"
    inputs = [name for name, use in suggestion.uses.items() if use == "input"]
    many = {
        name: len(own.levels)
        for name, own in ((name, suggestion.columns[name]) for name in inputs)
        if own.kind == "category" and len(own.levels) >= MANY_LEVELS
    }
    if settings.groups or not many:
        return f"{what}, for group(..)"
    name = max(many, key=lambda name: many[name])
    elsewhere = ", not under categorical" if name in settings.categorical else ""
    term = f"group({as_argument(name)})"
    return f"{what}: write {yaml_text(name)} here{elsewhere}, and + {term} in a covariance"


def plain_model(models: Mapping[str, str]) -> str:
    """Return the name of the model whose covariance those with another law have: the plain one."""
    return "plain" if "plain" in models else next(iter(models))


def config_text(suggestion: Suggestion, name: str, csv: str) -> str:
    """Return the YAML file of an analysis, one comment a line for what was found and will be done."""
    settings, target = suggestion.settings, suggestion.target
    n_columns = len(suggestion.columns)
    lines = [
        f"# {suggestion.path.name}: {suggestion.n_rows} rows, {n_columns} columns. "
        "Read this file, change what you like, then:",
        f"#   gpmcflow check {name}.yaml",
        f"#   gpmcflow run {name}.yaml",
        "",
        f"# title: What goes with {target.name}?   # heading of the report",
        "seed: 1",
        "",
        "data:",
        f"  csv: {yaml_text(csv)}",
    ]
    lines += _file_marks(suggestion)
    lines += [
        f"  # {target.name}: {suggestion.outcome_counts}",
        f"  target: {yaml_text(target.name)}",
    ]
    reading = suggestion.reading
    why = f": {reading.why}" if reading.why else ""
    lines.append(f"  # read as {reading.kind}{why}")
    if target.kind == "binary":
        lines.append(f"  positive: {yaml_text(target.positive)}   # counts as 1, all else as 0")
    else:
        column = suggestion.columns[target.name]
        counted = (
            column.kind == "whole" and column.values is not None and np.nanmin(column.values) >= 0
        )
        words = target.own.words + ("; or counts" if target.kind == "real" and counted else "")
        lines.append(f"  outcome: {target.kind}   # {words}")
    if target.kind == "classes":
        lines.append(
            f"  positive: {yaml_text(target.positive)}   # the class that pictures are of; all are predicted"
        )
    elif target.levels:
        lines.append(
            f"  levels: [{listed_grades(target.levels)}]   # from low to high; correct the order if need be"
        )
    lines += _units(suggestion)
    lines += ["", "  # the columns: what was found -> what is done"]
    lines += [f"  # {line}" for line in _column_lines(suggestion)]
    lines += [f"  # CORRECT: {line}" for line in suggestion.problems]
    lines += [f"  # NOTE: {line}" for line in suggestion.notes]
    if settings.coordinates:
        places = ", ".join(yaml_text(place) for place in settings.coordinates)
        degrees = any(name_words(place) & {"lat", "latitude"} for place in settings.coordinates)
        shape = (
            "degrees taken as they are, kilometres are better"
            if degrees
            else "both share one scale"
        )
        lines.append(f"  coordinates: [{places}]   # a place; {shape}")
    words = ", ".join(yaml_text(word) for word in settings.missing)
    lines += [
        f"  drop: [{_listed(settings.drop)}]   # columns not to use",
        f"  categorical: [{_listed(settings.categorical)}]   # categories, whatever they hold",
        f"  groups: [{_listed(settings.groups)}]   # {_about_groups(suggestion)}",
        *_files_of_areas(settings),
        f'  missing: [{words}]   # words for "no value", beside the empty cell',
        "  incomplete: fill        # missing cells get the middle value; drop: rows are not used",
        "  test_fraction: 0.2      # share of the rows held out to score the models; 0: none",
        *_test_by(suggestion),
        "  # new: new_rows.csv     # rows to predict: the same columns, without the outcome",
        "",
        f"likelihood: {suggestion.likelihood}   # {target.own.choice}",
        "",
    ]
    if suggestion.large is not None:
        lines += _large(suggestion)
    lines += [f"# {line}" for law in suggestion.others.values() for line in law.why]
    lines += ["# no column named: all of them; each model has a covariance", "models:"]
    many = is_large(suggestion.n_rows, target)
    for model, covariance in suggestion.models.items():
        law = suggestion.others.get(model)
        if law is not None:
            words = f"as {plain_model(suggestion.models)}, {law.words}"
        else:
            words = MODEL_WORDS[model].removesuffix(
                ", all columns alike" * ("rough" in suggestion.models)
            )
        if model == "map" and "linear()" in covariance:
            words = "a surface over the places, straight lines in the other columns"
        over_places = bool(suggestion.settings.coordinates) and not many
        if model == ADDITIVE and over_places:
            words = "a surface over the places, a curve for each other column"
        text = json.dumps(covariance, ensure_ascii=False)
        by_basis = many or (model == ADDITIVE and not over_places)
        structure = ", structure: basis" if by_basis else ""
        if law is not None:
            structure += f", likelihood: {law.likelihood}"
        lines.append(f"  {model}: {{covariance: {text}{structure}}}   # {words}")
    return "".join(f"{_one_line(line)}\n" for line in lines)


def _large(suggestion: Suggestion) -> list[str]:
    """Why models have basis functions, and the hyperpriors of their length scales."""
    lines = []
    rows, classes = f"{suggestion.n_rows} rows", len(suggestion.target.levels)
    if is_large(suggestion.n_rows, suggestion.target):
        if suggestion.target.kind == "classes":
            rows += f" x {classes - 1} functions of {classes} classes"
        lines = [
            f"# {rows}: a dense covariance takes hours above {MANY_ROWS}, so each model has",
            "# basis functions, at most 400 for each, fewer the longer their length scales are.",
        ]
    if suggestion.large.straight:
        shown = ", ".join(suggestion.large.straight)
        lines.append(f"# No functions were left for {shown}: straight lines.")
    stated = "".join(suggestion.models.values())
    priors = {name: own for name, own in suggestion.large.priors.items() if f"={name}" in stated}
    if priors:
        lines.append("priors:")
    for name, (loc, scale) in priors.items():
        low, high = (math.exp(loc + side * WIDTHS * scale) for side in (-1.0, 1.0))
        lines.append(
            f"  {name}: {{distribution: norm, parameters: {{loc: {loc}, scale: {scale}}}}}   # log of length "
            f"scales, {low:.2g} to {high:.2g} sd of a column"
        )
    return lines


def _file_marks(suggestion: Suggestion) -> list[str]:
    settings = suggestion.settings
    lines = []
    if settings.separator != ",":
        lines.append(f"  separator: {json.dumps(settings.separator)}   # between cells")
    if settings.decimal != ".":
        lines.append(f"  decimal: {json.dumps(settings.decimal)}   # as in 3{settings.decimal}5")
    return lines


def _units(suggestion: Suggestion) -> list[str]:
    settings, target = suggestion.settings, suggestion.target
    weights = (
        [f"  weights: {yaml_text(settings.weights)}   # {WEIGHTS_DONE}"] if settings.weights else []
    )
    if settings.unit is None:
        return weights
    if target.until:
        left, right = (suggestion.columns[name] for name in (target.name, settings.until))
        time, event, until = known_times(left, right)
        kept = np.isfinite(time)
        known = counts_of(*ends_of(time[kept], event[kept], until[kept]))
        found = ", ".join(f"{n} {KNOWN[how]}" for how, n in known.items() if n)
        return [
            f"  # no cell of {right.name} is below {left.name}: ends of times, of which {found}",
            f"  until: {yaml_text(right.name)}   # if that is wrong, take it out and write another outcome",
            *weights,
        ]
    if target.kind == "survival":
        column = suggestion.columns[settings.event]
        ends = column.labels == target.positive
        others = int((~column.missing & ~ends).sum())
        return [
            f"  event: {yaml_text(settings.event)}   # says which times had ended",
            f"  event_value: {yaml_text(target.positive)}   # the end was seen ({int(ends.sum())} rows); "
            f"{target.negative}: it had not ended yet ({others} rows); change it if that is wrong",
            *weights,
        ]
    key = next(key for key in ("exposure", "trials", "offset") if getattr(settings, key))
    words = unit_done(settings.unit, target)
    return [
        f"  {key}: {yaml_text(settings.unit)}   # {words}; take it out if that is wrong",
        *weights,
    ]


def _column_lines(suggestion: Suggestion) -> list[str]:
    lines = []
    for name, column in suggestion.columns.items():
        use = suggestion.uses[name]
        contents = column.contents
        if use == "target":
            continue
        if use == "unit":
            contents, done = unit_found(column), unit_done(name, suggestion.target)
        elif use == "weights":
            contents, done = unit_found(column), WEIGHTS_DONE
        elif use == "input":
            done = input_done(column, suggestion.settings).replace("“missing”", f'"{name} missing"')
            if suggestion.areas is not None and name == suggestion.areas.column:
                done += f"; {suggestion.areas.counted()}"
            if column.kind == "whole" and name_words(name) & NAME_LIKE:
                done += f"; if it is a name and not an amount: categorical: [{yaml_text(name)}]"
        else:
            done = dropped_done(name, use, column)
            if use == "drop":
                why = suggestion.dropped[name]
                done = why if why.startswith("status") else f"dropped: {why}"
            if use == "id":
                done += ", shown beside the predictions"
        lines.append(f"{name}: {contents} -> {done}")
    return lines


def _files_of_areas(settings: TableSettings) -> list[str]:
    lines = []
    if settings.graphs:
        files = ", ".join(f"{name}: {yaml_text(path)}" for name, path in settings.graphs.items())
        lines.append(f"  graphs: {{{files}}}   # pairs of neighbours, for areal(.., graph=..)")
    if settings.map:
        lines.append(
            f"  map: {yaml_text(settings.map)}   # outlines of the areas, which the report draws"
        )
    return lines


def _test_by(suggestion: Suggestion) -> list[str]:
    """The setting that holds out the last rows or whole groups; commented where neither was seen."""
    by = suggestion.settings.test_by
    if by in suggestion.settings.groups:
        return [f"  test_by: {yaml_text(by)}   # hold out all rows of some, to judge by new ones"]
    if by:
        return [f"  test_by: {yaml_text(by)}   # hold out the last rows, to judge a forecast"]
    dates = [name for name, column in suggestion.columns.items() if column.kind == "date"]
    if dates:
        return [f"  # test_by: {yaml_text(dates[0])}     # hold out the last rows, not random ones"]
    return ["  # test_by: a_column     # hold out whole groups, or the last rows by a date"]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(yaml_text(name) for name in names)


def _one_line(text: str) -> str:
    """Return text with what YAML does not allow in a file, or takes for the end of a line, escaped."""
    refused = "[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"
    return re.sub(refused, lambda mark: f"\\u{ord(mark[0]):04x}", text)
