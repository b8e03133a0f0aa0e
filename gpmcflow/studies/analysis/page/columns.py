"""What goes with the outcome, by how much and how sure: columns, or the one curve, in words."""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup

from gpmcflow.studies.analysis.page import words
from gpmcflow.studies.analysis.page.html import bold, italic, sentences
from gpmcflow.studies.analysis.page.results import Analysis, label
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
    opening = Markup("{} of the {} matter{} for {}{}: ").format(
        number,
        "one column" if n_columns == 1 else f"{words.count(n_columns)} columns",
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
    shape = shape_of(
        analysis["effects"].query("column == @shift.column"), analysis.unit_after(shift.column)
    )
    return bold(shift.name) + (f" ({shape})" if shape else "")


def shape_of(effects: pd.DataFrame, unit: str = "") -> str:
    """``highest near 2030``, ``rising``, ``falling``, or nothing where the bands cannot tell."""
    value = pd.to_numeric(effects["value"], errors="coerce")
    if len(effects) < 3 or value.isna().any():
        return ""
    mean, low, high = (effects[name].to_numpy(float) for name in ("mean", "low", "high"))
    top, foot = int(mean.argmax()), int(mean.argmin())
    width = float(value.max() - value.min())
    if low[top] > max(high[0], high[-1]):
        return f"highest near {words.near(value.iloc[top], width)}{unit}"
    if high[foot] < min(low[0], low[-1]):
        return f"lowest near {words.near(value.iloc[foot], width)}{unit}"
    if low[-1] > high[0]:
        return "rising"
    return "falling" if high[-1] < low[0] else ""


def curve_answer(analysis: Analysis) -> Markup:
    """Where the curve of the only input is highest or whether it rises, and its two ends."""
    curve = analysis["curve"].sort_values("value")
    name = next(iter(analysis["relevance"]["column"]), "") or _only_input(analysis)
    first, last = curve.iloc[0], curve.iloc[-1]
    shape = shape_of(curve, analysis.unit_after(name))

    def at(row: pd.Series, opening: bool) -> str:
        if analysis.shares:
            return words.percent_interval(row["mean"], row["low"], row["high"], first=opening)
        unit = error_unit(analysis)
        return words.interval(row["mean"], row["low"], row["high"], unit=unit, first=opening)

    top = curve.iloc[int(curve["mean"].to_numpy(float).argmax())]
    foot = curve.iloc[int(curve["mean"].to_numpy(float).argmin())]
    verb = {"rising": "rises", "falling": "falls", "": "does not clearly change"}.get(shape)
    if verb:
        opening = Markup("The {} {} with {}.").format(analysis.response, verb, bold(label(name)))
    else:
        extreme = top if shape.startswith("highest") else foot
        side, _, place = shape.partition(" near ")
        opening = Markup("The {} is {} near {} {}, with {}.").format(
            *(analysis.response, side, bold(label(name)), place, at(extreme, True))
        )
    width = float(last["value"] - first["value"])
    ends = (
        f"At {words.near(first['value'], width)} it is {at(first, bool(verb))}, "
        f"at {words.near(last['value'], width)} it is {at(last, False)}."
    )
    return sentences([opening, ends, "" if analysis.shares else _overall(analysis)])


def _only_input(analysis: Analysis) -> str:
    columns = analysis["columns"]
    used = columns[
        ~columns["done"].str.startswith("dropped")
        & (columns["column"] != analysis.info["target"]["name"])
    ]
    return used["column"].iloc[0] if len(used) else "the input"
