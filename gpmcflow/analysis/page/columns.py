"""What each column does to the outcome, seasons among them, in words."""

from __future__ import annotations

import calendar
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from gpmcflow.analysis.page import html, standing, words
from gpmcflow.analysis.page.results import Analysis, label
from gpmcflow.plot.curves import is_date, positions

# An outcome that repeats with the calendar, in words: the month, weekday or hour where it is highest.

_EVERY = {"year": "every year", "week": "every week", "day": "every day"}
_FEWEST_CYCLES = 3
_ROUNDED = 0.02  # months by which years like 1920.083 miss the beginning of one
_DAYS = [f"on {day}s" for day in calendar.day_name]  # 1970-01-01 was a Thursday
_MONTHS = [f"in {month}" for month in calendar.month_name[1:]]
_HOURS = [f"around {hour}:00" for hour in range(24)]


class Turn(NamedTuple):
    """Where a curve is extreme ("in July"), and its mean there over all cycles, with its interval."""

    when: str
    mean: float
    low: float
    high: float


def season_of(analysis: Analysis, column: str) -> str | None:
    """How often a term of the shown model repeats over a column ("every year"), None if none does."""
    season = analysis.info.get("season") or {}
    if season.get("column") != column:
        return None
    period = words.number(season["period"])
    return _EVERY.get(season["name"]) or f"every {season['name'] or period}"


def turns(analysis: Analysis, curve: pd.DataFrame) -> tuple[Turn, Turn] | None:
    """Where in its cycle a curve over time is highest and lowest, None where the bands cannot tell."""
    name = (analysis.info.get("season") or {}).get("name")
    parts = _parts(curve["value"], name)
    if parts is None:
        return None
    part, labels, cycle = parts
    grouped = curve[["mean", "low", "high"]].astype(float).groupby(part).mean()
    if len(grouped) < len(labels) or len(np.unique(cycle)) < _FEWEST_CYCLES:
        return None
    top, foot = int(grouped["mean"].idxmax()), int(grouped["mean"].idxmin())
    if grouped["low"][top] <= grouped["high"][foot]:
        return None
    high = _run(top, grouped["mean"].to_numpy() >= grouped["low"][top])
    low = _run(foot, grouped["mean"].to_numpy() <= grouped["high"][foot])
    return Turn(_named(labels, high), *grouped.loc[top]), Turn(
        _named(labels, low), *grouped.loc[foot]
    )


def _run(extreme: int, alike: np.ndarray) -> tuple[int, int]:
    """First and last of the parts in a row, around the cycle, that cannot be told from the extreme one."""
    n, first, last = len(alike), extreme, extreme
    while last - first < n - 1 and alike[(first - 1) % n]:
        first -= 1
    while last - first < n - 1 and alike[(last + 1) % n]:
        last += 1
    return first % n, last % n


def _named(labels: list[str], run: tuple[int, int]) -> str:
    """``in July``, ``in June and July``, ``from June to August``."""
    first, last = (labels[k] for k in run)
    if run[0] == run[1]:
        return first
    if (run[0] + 1) % len(labels) == run[1]:
        return f"{first} and {last.split(' ', 1)[1]}"
    return f"from {first.split(' ', 1)[1]} to {last.split(' ', 1)[1]}"


def _parts(value: pd.Series, name: str | None) -> tuple[np.ndarray, list[str], np.ndarray] | None:
    """Part of the cycle of each place of a curve, the words for the parts, and its cycle."""
    if is_date(value):
        dates = pd.to_datetime(value.astype(str), format="ISO8601").dt
        days = np.floor(positions(value))
        kinds = {
            "year": (lambda: dates.month - 1, _MONTHS, lambda: dates.year),
            "week": (lambda: dates.day_of_week, _DAYS, lambda: (days + 3) // 7),
            "day": (lambda: dates.hour, _HOURS, lambda: days),
        }  # type: dict[str | None, tuple[Callable, list[str], Callable]]
        if name not in kinds:
            return None
        part, labels, cycle = kinds[name]
        return np.asarray(part()), labels, np.asarray(cycle())
    if name != "year":
        return None
    years = pd.to_numeric(value).to_numpy(float)
    months = np.floor(12.0 * years + _ROUNDED).astype(int)
    return months % 12, _MONTHS, months // 12


def season_ends(analysis: Analysis, column: str) -> str:
    """``January to July``: where in the cycle the ends of a change lie; nothing without such names."""
    if not season_of(analysis, column):
        return ""
    row = analysis["relevance"].set_index("column").loc[column]
    found = _parts(pd.Series([row["low"], row["high"]]), analysis.info["season"]["name"])
    if found is None:
        return ""
    part, labels, _ = found
    return " to ".join(labels[k].split(" ", 1)[1] for k in part)


def level(curve: pd.DataFrame, *, last: bool) -> pd.Series:
    """Mean of a curve over its first or its last whole year, with its interval."""
    value = positions(curve["value"])
    year = 365.25 if is_date(curve["value"]) else 1.0
    end = value.max() if last else value.min()
    near = np.abs(value - end) < year
    return curve.loc[near, ["mean", "low", "high"]].astype(float).mean()


def season_answer(
    analysis: Analysis, curve: pd.DataFrame, column: Markup, say: Callable[..., str]
) -> list[Markup]:
    """Sentences on where in its cycle the only curve is highest and lowest, and how it moves over the years.

    ``say(row, opening=..)`` words a mean with its interval.
    """
    found, every = turns(analysis, curve), season_of(analysis, analysis.info["season"]["column"])
    assert every is not None
    if found is None:
        return [Markup("The {} repeats {} of {}.").format(analysis.response, every, column)]
    top, foot = found
    parts = [
        Markup("The {} repeats {}: on average it is highest {}, with {}, and lowest {}, with {}.")
        .format(
            *(analysis.response, every, Markup("<b>{}</b>").format(top.when)),
            *(say(top._asdict(), opening=True), Markup("<b>{}</b>").format(foot.when)),
            say(foot._asdict()),
        )
    ]  # fmt: skip
    if analysis.info["season"]["name"] == "year":
        first, last = (level(curve, last=side) for side in (False, True))
        moved = "rises" if last["low"] > first["high"] else ""
        moved = "falls" if last["high"] < first["low"] else moved
        ends = f"{say(first)} over the first year to {say(last)} over the last"
        text = f"Apart from the season it {moved}: from {ends}."
        parts.append(
            Markup.escape(text if moved else "Apart from the season it does not clearly change.")
        )
    return parts


# What goes with the outcome, by how much and how sure: columns, or the one curve, in words.

_SPELLED = 2  # columns whose change is spelled out
_NAMED = 4  # and whose names are


def columns_answer(analysis: Analysis) -> Markup:
    """Which columns matter and by how much, or that the model does no better than the average."""
    if nothing := standing.nothing_learnt(analysis):
        return nothing
    shifts = [shift for shift in standing.changes(analysis) if shift.kind != "place"]
    states = standing.CLEAR, standing.LIKELY, standing.WEAK
    clear, likely, weak = ([s for s in shifts if s.state == state] for state in states)
    sets = standing.together(analysis)
    found = bool(clear or sets)
    doubt: Markup | str = ""
    if standing.against_base(analysis) == "unsure":  # an effect may be seen for all that
        text = (
            "Whether this makes predictions of {} better than the {}, these rows cannot tell."
            if found
            else "These rows cannot tell whether the model predicts {} better than the {}."
        )
        doubt = Markup(text).format(html.italic(analysis.target), analysis.own.overall)
    moved = _grades_move(analysis, clear)
    sign = f"There is a weak sign that {{}} matter{{}}{', too' * bool(clear or likely)}."
    return html.sentences(
        "" if found else doubt,
        moved,
        *_matter(analysis, clear, likely, sets, len(shifts)),
        *_spelled(analysis, [] if moved else clear),
        "" if clear else _along(analysis, sets),
        _may_matter("It is likely that {} matter{}.", likely) if sets or not clear else "",
        "" if sets else _may_matter(sign, weak),
        _location(analysis),
        doubt if found else "",
        _overall(analysis),
    )


def _matter(
    analysis: Analysis,
    clear: list[standing.Change],
    likely: list[standing.Change],
    sets: list[standing.Together],
    n: int,
) -> list[Markup]:
    """How many of the columns matter, which, with the shapes of their curves, and which do together."""
    target = html.italic(analysis.target)
    sharing = [_shared(analysis, own, n, bool(clear)) for own in sets]
    if clear:
        rest = sharing or [_may_matter("it is likely that {} matter{}, too", likely)]
        first, *others = [_clearly(analysis, clear, n), *(text for text in rest if text)]
        first = Markup("; ").join([first, *others[:1]])
        return [Markup("{}.").format(first), *_sentences(others[1:])]
    if sharing:
        return _sentences(sharing)
    weak = any(s.state in (standing.LIKELY, standing.WEAK) for s in standing.changes(analysis))
    if n == 0 or weak:
        return []
    if n > 1 and standing.against_base(analysis) == "better":
        text = Markup(
            "Together the columns predict {} better than the {}, but no single one shows a clear effect."
        ).format(target, analysis.own.overall)
        return [text]
    return [Markup("No single column shows a clear effect on {}.").format(target)]


def _sentences(clauses: list[Markup]) -> list[Markup]:
    return [Markup("{}.").format(Markup(words.capital(str(clause)))) for clause in clauses]


def _clearly(analysis: Analysis, clear: list[standing.Change], n: int) -> Markup:
    """``two of the three columns clearly matter for price, the strongest first: area and town``."""
    target, verb = html.italic(analysis.target), f"clearly matter{'s' * (len(clear) == 1)}"
    if n == 1:
        return Markup("{} {} for {}").format(_shaped(analysis, clear[0]), verb, target)
    who = {1: "both columns" if n == 2 else f"all {words.count(n)} columns"}.get(
        n - len(clear) + 1, f"{words.count(len(clear))} of the {words.count(n)} columns"
    )
    order = ", the strongest first" if len(clear) > 1 else ""
    return Markup("{} {} for {}{}: {}").format(
        words.capital(who), verb, target, order, _shaped_series(analysis, clear)
    )


def _shared(analysis: Analysis, own: standing.Together, n: int, more: bool) -> Markup:
    """That a set of columns matters together; ``more``: beside columns with effects of their own."""
    who: Markup | str = words.series(
        _some([html.bold(label(c)) for c in own.columns[:_NAMED]], own.columns)
    )
    if not own.alike:
        rest = words.count(len(own.columns))
        who = f"the {rest} columns" if len(own.columns) == n else f"the other {rest} columns"
    verb = "clearly matter" if own.state == standing.CLEAR else "are likely to matter"
    what = Markup(", too") if more else Markup(" for {}").format(html.italic(analysis.target))
    return Markup("together, {} {}{}, but these rows do not clearly tell which of them").format(
        who, verb, what
    )


def _along(analysis: Analysis, sets: list[standing.Together]) -> Markup:
    """The change from low to high values of the first set, where all of its columns are numbers."""
    kinds = {shift.column: shift.kind for shift in standing.changes(analysis)}
    if not sets or not sets[0].alike or {kinds[c] for c in sets[0].columns} != {"number"}:
        return Markup("")
    return Markup("From low to high values of them, the {} is {}, other things equal.").format(
        analysis.response, _size(analysis, sets[0], True)
    )


def _may_matter(sentence: str, shifts: list[standing.Change]) -> Markup:
    """The sentence with the names of the columns, or nothing without any."""
    names = words.series([html.bold(shift.name) for shift in shifts[:_NAMED]])
    return Markup(sentence).format(names, "s" * (len(shifts) == 1)) if shifts else Markup("")


def _location(analysis: Analysis) -> str:
    """Whether location matters, where the page opens with the columns."""
    place = standing.place_of(analysis)
    if place is None:
        return ""
    said = {
        standing.CLEAR: "matters too",
        standing.LIKELY: "is likely to matter too",
        standing.WEAK: "shows a weak sign of an effect",
        standing.UNSURE: "shows no clear effect",
    }
    return f"Location {said.get(place.state, 'shows no sign of an effect')}."


def besides_location(analysis: Analysis) -> Markup:
    """Columns that matter, where the page opens with the map."""
    clear = [
        s.name
        for s in standing.changes(analysis)
        if s.state == standing.CLEAR and s.kind != "place"
    ]
    verb = f"matter{'s' * (len(clear) == 1)}"
    return html.naming(
        f"Besides location, {{}} {verb}.", [html.bold(name) for name in clear[:_NAMED]]
    )


def _spelled(analysis: Analysis, shifts: list[standing.Change]) -> list[Markup]:
    """One sentence with the changes of the first columns: in points, as factors, or in the unit."""
    told = [s for s in shifts if not season_of(analysis, s.column)]  # its ends are two dates
    parts = [
        Markup("{}, {} is {}{}").format(
            _where(analysis, shift),
            "it" if k else f"the {analysis.response}",
            _size(analysis, shift, not k),
            "" if k else ", other things equal",
        )
        for k, shift in enumerate(told[:_SPELLED])
    ]
    return _sentences([Markup("; ").join(parts)] if parts else [])


def _grades_move(analysis: Analysis, clear: list[standing.Change]) -> Markup:
    """How much likelier the upper grades, or a class, are at one end of the first column."""
    told = [shift for shift in clear if not season_of(analysis, shift.column)]
    if not analysis.own.leveled or not told:
        return Markup("")
    shift = told[0]
    raw = analysis["relevance"].query("column == @shift.column").iloc[0]
    effects = analysis["effects"].query("column == @shift.column").set_index("value")["mean"]
    low, high = (words.probability(float(effects[raw[end]])) for end in ("low", "high"))
    unit = analysis.unit_after(shift.column) if shift.kind == "number" else ""
    if shift.kind == "category":
        where = Markup("with {} at “{}” than at “{}”: {} against {}").format(
            html.bold(shift.name), shift.high, shift.low, high, low
        )
    else:
        where = Markup("as {} rises: {} at {}{}, {} at {}{}").format(
            html.bold(shift.name), low, shift.low, unit, high, shift.high, unit
        )
    return Markup("{} is {} to be {} {} ({}), other things equal.").format(
        Markup("<i>{}</i>").format(words.capital(analysis.target)),
        "likelier" if shift.value >= 0 else "less likely",
        analysis.info["target"]["positive"],
        where,
        _size(analysis, shift, True).replace(" (", ", ").rstrip(")"),
    )


def _where(analysis: Analysis, shift: standing.Change) -> Markup:
    if shift.kind == "category":
        return Markup("with {} at “{}” instead of “{}”").format(shift.name, shift.high, shift.low)
    return Markup("with {} at {}{} instead of {}").format(
        shift.name, shift.high, analysis.unit_after(shift.column), shift.low
    )


def _size(analysis: Analysis, shift: standing.Change | standing.Together, first: bool) -> str:
    """``34 points higher (95 % interval 20 to 46)``, ``higher by a factor of 2.1 (1.6 to 2.8)``."""
    value, low, high = shift.value, shift.lower, shift.upper
    up, opening = value >= (1 if analysis.own.ratios else 0), "95 % interval " * first
    if analysis.own.ratios:
        value, low, high = (value, low, high) if up else (1 / value, 1 / high, 1 / low)
        sides = ("longer", "shorter") if analysis.kind == "survival" else ("higher", "lower")
        return f"{sides[not up]} by a factor of {words.interval(value, low, high, first=first)}"
    value, low, high = (value, low, high) if up else (-value, -high, -low)
    parts = words.points_parts if analysis.own.shares else words.interval_parts
    middle, lower, upper = parts(value, low, high)
    unit = (" point" if middle == "1" else " points") if analysis.own.shares else analysis.unit
    return f"{middle}{unit} {'higher' if up else 'lower'} ({opening}{lower} to {upper})"


def _overall(analysis: Analysis) -> Markup:
    base, target = analysis.info["base"], analysis.info["target"]
    if analysis.kind == "share":
        return Markup("The average is {}.").format(words.percent(base))
    if analysis.own.shares:
        of = "trials" if analysis.kind == "binomial" else "rows"
        what = analysis.target if analysis.kind == "binomial" else f"“{target['positive']}”"
        return Markup("Of all {}, {} are {}.").format(of, words.percent(base), what)
    per = f" {analysis.per}" if analysis.per and analysis.kind == "counts" else ""
    if analysis.kind == "survival":
        return Markup("The median of all rows is {}{}.").format(words.number(base), analysis.unit)
    return Markup("The average is {}{}{}.").format(words.number(base), analysis.unit, per)


def _shaped_series(analysis: Analysis, shifts: list[standing.Change]) -> Markup:
    return words.series(_some([_shaped(analysis, shift) for shift in shifts[:_NAMED]], shifts))


def _some(named: list[Markup], every: Sequence[object]) -> list[Markup | str]:
    """Names of the first, and how many more there are."""
    more = len(every) - len(named)
    return [*named, *[f"{words.count(more)} more"] * (more > 0)]


def _shaped(analysis: Analysis, shift: standing.Change) -> Markup:
    effects = analysis["effects"].query("column == @shift.column")
    if every := season_of(analysis, shift.column):
        found = turns(analysis, effects)
        sides = zip(("highest", "lowest"), found, strict=True) if found else ()
        parts = [f"repeats {every}", *(f"{side} {turn.when}" for side, turn in sides)]
        return html.bold(shift.name) + f" ({', '.join(parts)})"
    trend, places = shape_of(effects)
    parts = [trend] if trend else []
    for side, row in places.items():
        place = _near(row, effects)
        parts.append(f"{side} near {place}{analysis.unit_after(shift.column)}")
    return html.bold(shift.name) + (f" ({', '.join(parts)})" if parts else "")


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
    if nothing := standing.nothing_learnt(analysis):
        return nothing
    curve = _within_the_data(analysis)
    name = next(iter(analysis["relevance"]["column"]), "") or _only_input(analysis)
    first, last = curve.iloc[0], curve.iloc[-1]
    seen = any(shift.seen for shift in standing.changes(analysis))
    trend, places = shape_of(curve) if seen else ("", {})
    unit = "" if is_date(curve["value"]) else analysis.unit_after(name)
    column = html.bold(label(name))
    leads = not trend and bool(places)  # with the places, else with the trend and the ends

    def at(row: pd.Series, *, opening: bool = False) -> str:
        if analysis.own.shares:
            return words.percent_interval(row["mean"], row["low"], row["high"], first=opening)
        triple = row["mean"], row["low"], row["high"]
        return words.interval(*triple, unit=analysis.unit, first=opening)

    if seen and season_of(analysis, name):
        repeats = season_answer(analysis, curve, column, at)
        return html.sentences(*repeats, "" if analysis.own.shares else _overall(analysis))
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
    return html.sentences(*parts, "" if analysis.own.shares else _overall(analysis))


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
