"""What goes with the outcome, by how much and how sure: columns, or the one curve, in words."""

from __future__ import annotations

import numpy as np
import pandas as pd
from markupsafe import Markup

from gpmcflow.studies.analysis.page import words
from gpmcflow.studies.analysis.page.html import bold, italic, sentences
from gpmcflow.studies.analysis.page.results import Analysis, is_date, label, positions
from gpmcflow.studies.analysis.page.standing import Change, against_base, changes, error_unit

_SPELLED = 2  # columns whose change is spelled out


def columns_answer(analysis: Analysis) -> Markup:
    """Which columns stand out and by how much, or that none predicts the outcome."""
    shifts = changes(analysis)
    clear = [shift for shift in shifts if shift.state == "clear"]
    just = [shift for shift in shifts if shift.state == "only just"]
    base = against_base(analysis)
    if base == "worse" or not (clear or just):
        return sentences([_no_prediction(analysis, base), _overall(analysis)])
    if analysis.kind == "real":
        return _real_answer(analysis, clear or just, len(shifts), only_just=not clear)
    opening = Markup("")
    if base == "better":
        opening = Markup("The outcome {} can be predicted in part.").format(italic(analysis.target))
    elif base == "not resolved":
        opening = Markup(
            "Whether the outcome {} can be predicted better than by its {} is not resolved."
        ).format(italic(analysis.target), "base rate" if analysis.shares else "average")
    return sentences(
        [opening, _stand_out(clear, just), *_spelled(analysis, clear or just), _overall(analysis)]
    )


def _no_prediction(analysis: Analysis, base: str) -> Markup:
    n = int(analysis.info["n_learning"])
    why = (
        "the model did worse than the same answer for every row"
        if base == "worse"
        else f"no column shows an influence that {words.rows(n)} could reveal"
    )
    return Markup("These columns do not predict the outcome {} ({}).").format(
        italic(analysis.target), why
    )


def _stand_out(clear: list[Change], just: list[Change]) -> Markup:
    if not clear:
        names = words.series([bold(shift.name) for shift in just[:3]])
        return Markup("An association is seen for {}, but only just.").format(names)
    names = _names(clear)
    verb = "stands out" if len(clear) == 1 else "stand out"
    return Markup("{} {}: {}.").format(
        words.capital(f"{words.count(len(clear))} column{'s' * (len(clear) > 1)}"), verb, names
    )


def _names(shifts: list[Change]) -> Markup:
    items: list[Markup | str] = [bold(shift.name) for shift in shifts[:4]]
    if len(shifts) > 4:
        items.append(f"{words.count(len(shifts) - 4)} more")
    return words.series(items)


def _spelled(analysis: Analysis, shifts: list[Change]) -> list[Markup]:
    """One sentence with the changes of the first columns, in percentage points or as factors."""
    parts = []
    for index, shift in enumerate(shifts[:_SPELLED]):
        where = _where(analysis, shift)
        subject = f"the {analysis.response}" if index == 0 else "it"
        parts.append(
            Markup("{} {} is {}{}").format(
                where,
                subject,
                _size(analysis, shift, index == 0),
                ", all else as it is" if index == 0 else "",
            )
        )
    joined = Markup("; ").join(parts)
    return [Markup(words.capital(str(joined)) + ".")] if parts else []


def _where(analysis: Analysis, shift: Change) -> Markup:
    if shift.kind == "missing":
        return Markup("where {} is missing").format(shift.name.removesuffix(" missing"))
    if shift.kind == "category":
        return Markup("with {} at “{}” instead of “{}”").format(shift.name, shift.high, shift.low)
    return Markup("with {} at {}{} instead of {}").format(
        shift.name, shift.high, analysis.unit_after(shift.column), shift.low
    )


def _size(analysis: Analysis, shift: Change, first: bool) -> str:
    """``34 points higher (95 % interval 20 to 46)``, ``lower by a factor of 2.1 (1.6 to 2.8)``."""
    value, low, high = shift.value, shift.lower, shift.upper
    if analysis.kind == "counts":
        up = value >= 1
        if not up:
            value, low, high = 1 / value, 1 / high, 1 / low
        return f"{'higher' if up else 'lower'} by a factor of {words.interval(value, low, high, first=first)}"
    up = value >= 0
    if not up:
        value, low, high = -value, -high, -low
    middle, lower, upper = words.points_parts(value, low, high)
    noun = "point" if middle == "1" else "points"
    return f"{middle} {noun} {'higher' if up else 'lower'} ({'95 % interval ' * first}{lower} to {upper})"


def _overall(analysis: Analysis) -> Markup:
    base, target = analysis.info["base"], analysis.info["target"]
    if analysis.shares:
        return Markup("Over all learning rows the {} is {}.").format(
            "share" if analysis.kind == "binomial" else f"share of “{target['positive']}”",
            words.percent(base),
        )
    per = f" per {analysis.unit}" if analysis.unit and analysis.kind == "counts" else ""
    return Markup("The average of all learning rows is {}{}{}.").format(
        words.number(base), error_unit(analysis), per
    )


def _real_answer(
    analysis: Analysis, seen: list[Change], n_columns: int, *, only_just: bool
) -> Markup:
    most = seen[0].value
    then = [shift for shift in seen[1:] if shift.value >= most / 2]
    less = [shift for shift in seen[1:] if shift.value < most / 2]
    unit = error_unit(analysis)
    number = words.capital(words.count(len(seen)))
    opening = Markup("{} matter{} for {}{}: ").format(
        "The column" if n_columns == 1 else f"{number} of the {words.count(n_columns)} columns",
        "s" * (len(seen) == 1),
        analysis.target,
        ", but only just" * only_just,
    )
    groups = [_shaped(analysis, seen[0]) + (" most" if len(seen) > 1 else "")]
    if then:
        groups.append(Markup("then {}").format(_shaped_series(analysis, then)))
    if less:
        groups.append(Markup("less {}").format(_shaped_series(analysis, less)))
    change = Markup("As {} runs from {}, the expected {} changes by {}, all else as it is.").format(
        seen[0].name,
        f"{seen[0].low} to {seen[0].high}{analysis.unit_after(seen[0].column)}",
        analysis.target,
        words.interval(most, seen[0].lower, seen[0].upper, unit=unit, first=True),
    )
    if seen[0].kind in ("category", "missing"):
        change = Markup("Between the groups of {}, the expected {} differs by up to {}.").format(
            *(seen[0].name, analysis.target),
            words.interval(most, seen[0].lower, seen[0].upper, unit=unit, first=True),
        )
    return sentences([opening + Markup(", ").join(groups) + ".", change])


def _shaped_series(analysis: Analysis, shifts: list[Change]) -> Markup:
    items: list[Markup | str] = [_shaped(analysis, shift) for shift in shifts[:3]]
    if len(shifts) > 3:
        items.append(f"{words.count(len(shifts) - 3)} more")
    return words.series(items)


def _shaped(analysis: Analysis, shift: Change) -> Markup:
    effects = analysis["effects"].query("column == @shift.column")
    trend, places = shape_of(effects)
    parts = [trend] if trend else []
    for side, row in places.items():
        place = _near(row, effects)
        parts.append(f"{side} near {place}{analysis.unit_after(shift.column)}")
    return bold(shift.name) + (f" ({', '.join(parts)})" if parts else "")


def _near(row: pd.Series, curve: pd.DataFrame) -> str:
    width = float(np.ptp(positions(curve["value"])))
    if is_date(curve["value"]):
        return words.near_date(row["value"], width)
    return words.near(float(row["value"]), width)


def shape_of(curve: pd.DataFrame) -> tuple[str, dict[str, pd.Series]]:
    """``rising``, ``falling`` or nothing, and the rows where the curve is ``highest`` and ``lowest``.

    Only what the bands can tell: a trend where the ends differ; a place that stands out from both ends, or
    both places where they differ from each other and nothing else is seen. Where there are such places, a
    trend counts only if a straight line describes three quarters of the curve's variance.
    """
    value = positions(curve["value"])
    if len(curve) < 3 or value is None:
        return "", {}
    mean, low, high = (curve[name].to_numpy(float) for name in ("mean", "low", "high"))
    top, foot = int(mean.argmax()), int(mean.argmin())
    trend = "rising" if low[-1] > high[0] else "falling" if high[-1] < low[0] else ""
    places = {}
    if low[top] > max(high[0], high[-1]):
        places["highest"] = curve.iloc[top]
    if high[foot] < min(low[0], low[-1]):
        places["lowest"] = curve.iloc[foot]
    if places and np.corrcoef(value, mean)[0, 1] ** 2 < 0.75:
        trend = ""
    if not trend and not places and low[top] > high[foot]:
        places = {"highest": curve.iloc[top], "lowest": curve.iloc[foot]}
    return trend, places


def curve_answer(analysis: Analysis) -> Markup:
    """Whether the curve of the only input rises, where it is highest and lowest, and its two ends."""
    curve = _within_the_data(analysis)
    name = next(iter(analysis["relevance"]["column"]), "") or _only_input(analysis)
    first, last = curve.iloc[0], curve.iloc[-1]
    trend, places = shape_of(curve)
    unit = "" if is_date(curve["value"]) else analysis.unit_after(name)
    column = bold(label(name))
    leads = not trend and bool(places)  # with the places, else with the trend and the ends

    def at(row: pd.Series, *, opening: bool = False) -> str:
        if analysis.shares:
            return words.percent_interval(row["mean"], row["low"], row["high"], first=opening)
        of = error_unit(analysis)
        return words.interval(row["mean"], row["low"], row["high"], unit=of, first=opening)

    ends = (
        f"At {_near(first, curve)} it is {at(first, opening=not leads)}, "
        f"at {_near(last, curve)} it is {at(last)}."
    )
    extremes = Markup(", and ").join(
        Markup("{} near {}{}{}, with {}").format(
            *(side, column + " " if leads and index == 0 else "", _near(row, curve), unit),
            at(row, opening=leads and index == 0),
        )
        for index, (side, row) in enumerate(places.items())
    )
    if leads:
        parts = [Markup("The {} is {}.").format(analysis.response, extremes), ends]
    else:
        verb = {"rising": "rises", "falling": "falls", "": "does not clearly change"}[trend]
        parts = [Markup("The {} {} with {}.").format(analysis.response, verb, column), ends]
        parts.append(Markup("In between it is {}.").format(extremes) if places else "")
    return sentences([*parts, "" if analysis.shares else _overall(analysis)])


def _within_the_data(analysis: Analysis) -> pd.DataFrame:
    """The curve in order, without what lies beyond the learning rows (of those in the rug)."""
    curve = analysis["curve"].sort_values("value")
    seen = analysis["rug"]["value"]
    if len(seen) and not is_date(curve["value"]):
        seen = pd.to_numeric(seen, errors="coerce")
    inside = curve[curve["value"].between(seen.min(), seen.max())]
    return curve if len(inside) < 3 else inside


def _only_input(analysis: Analysis) -> str:
    columns = analysis["columns"]
    used = columns[
        ~columns["done"].str.startswith("dropped")
        & (columns["column"] != analysis.info["target"]["name"])
    ]
    return used["column"].iloc[0] if len(used) else "the input"
