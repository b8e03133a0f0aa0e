"""What columns mean, by their names and by the pattern of their values: groups, codes, places, efforts, kinds
of outcome."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from gpmcflow.data.columns import (
    ID_WORDS,
    MOST_LEVELS,
    Column,
    is_time,
    last_word,
    name_words,
    yaml_text,
)
from gpmcflow.data.grades import are_graded, grade_order

EXPOSURE_WORDS = (
    "exposure", "effort", "personyears", "pyears", "pyar", "pyr", "py", "population", "pop", "popn",
    "service", "risk", "insured", "holders", "expected", "sweptarea", "meters", "metres", "transect",
    "ncontrols", "controls", "n", "hours", "hour", "minutes", "days", "years", "time", "duration", "area",
)  # fmt: skip
CLOCKS = {
    "hours",
    "hour",
    "minutes",
    "days",
    "years",
    "time",
    "duration",
}  # efforts if alone in a name
CLOCK_FILLERS = {
    "observed",
    "obs",
    "watched",
    "person",
    "follow",
    "up",
    "at",
    "risk",
    "total",
    "of",
}
TRIALS_WORDS = (
    "trials", "tested", "examined", "attempts", "tries", "total", "tot", "size", "n", "m", "exposed",
    "sample", "litter", "number", "batch",
)  # fmt: skip
SUCCESS_WORDS = {
    "ill", "dead", "died", "killed", "deaths", "cases", "success", "successes", "infected", "positive",
    "germinated", "germ", "hits", "made", "won", "wins", "correct", "survived", "affected", "events", "count",
}  # fmt: skip
RARE = 0.01  # share of successes below which a whole number of trials is an exposure
PLACE_PAIRS = (
    ("longitude", "latitude"), ("lon", "lat"), ("long", "lat"), ("lng", "lat"),
    ("easting", "northing"), ("east", "north"), ("x", "y"),
)  # fmt: skip
PLACE_FILLERS = {"coord", "coordinate", "coords", "utm", "pos", "position", "m", "km", "deg"}
PROJECTED = 1e4  # x and y above this are metres of a map; below they may be anything
SUBJECT_WORDS = {
    "subject", "subjects", "subj", "participant", "respondent", "person", "patient", "individual", "ind",
    "child", "pupil", "student", "mother", "family", "household", "school", "classroom", "teacher",
    "instructor", "lecturer", "doctor", "physician", "hospital", "clinic", "center", "centre", "firm",
    "inst", "institution",
    "company", "worker", "rater", "judge", "animal", "rat", "mouse", "dog", "cow", "pig", "bird", "lamb",
    "monkey", "horse", "fish", "tree", "plant", "litter", "sire", "dam", "nest", "colony", "brood", "herd",
    "flock", "country", "state", "county", "city", "district", "village", "municipality", "lga", "station",
    "player", "team", "item", "word", "cluster", "id", "ids", "cask", "wafer", "lot", "chick", "plate",
    "twin", "pair", "location", "site", "strata", "stratum", "provider", "provnum", "prov", "pid", "sid",
    "uid", "subjid", "patid", "caseid",
    "bottle", "precinct", "borough", "parish", "province", "canton",
}  # fmt: skip
CODE_WORDS = {
    "race", "ethnicity", "religion", "sex", "gender", "block", "blk", "dept", "department", "region",
    "type", "class", "group", "grp", "treatment", "treat", "trt", "treatmt", "diet", "species", "variety",
    "batch", "zone", "sector", "industry", "occupation", "method", "machine", "operator", "status",
    "brand", "code", "category", "cat", "cluster", "store", "unit", "zip", "plz", "marital", "origin",
    "party", "arm", "site", "plot", "line", "strain", "breed", "colour", "color", "mode", "program", "prog",
    "ward", "room", "column", "row", "field", "lab", "laboratory", "study", "country", "state", "cell",
    "cyl", "month", "weekday", "dow", "weathersit", "season", "rep", "replicate", "replication", "run",
    "precinct", "district", "borough", "parish", "province",
}  # fmt: skip
CYCLES = {"month", "weekday", "dow", "season"}  # codes only where they come again; else times
COUNT_WORDS = {
    "count", "counts", "number", "num", "n", "nr", "freq", "frequency", "visits", "visit", "events",
    "event", "cases", "ncases", "accidents", "accident", "deaths", "death", "died", "dead", "killed",
    "births", "stations", "seeds", "fish", "claims", "crimes", "crime", "admissions", "seizures", "breaks",
    "bugs", "insects", "eggs", "larvae", "calls", "goals", "injuries", "failures", "faults", "defects",
    "trips", "ships", "incidents", "articles", "art", "kids", "children", "citations", "absences", "awards",
    "satellites", "satell", "sat", "infections", "offspring", "colonies", "plants", "trees", "nests",
    "doctorvisits", "visitors", "passengers", "arrivals", "users", "rentals", "homicides", "murders",
    "suicides", "strikes", "affairs", "discoveries", "abundance", "richness", "nspecies", "matings",
    "bites", "attacks", "wins", "patents", "tumors", "tumours", "lesions", "cysts", "mutants", "purchases",
    "orders", "downloads", "clicks", "followers",
    "drivers", "pedestrians", "fatalities", "casualties", "crashes", "collisions", "victims",
}  # fmt: skip
AMOUNT_WORDS = {
    "price", "cost", "costs", "income", "wage", "wages", "salary", "earnings", "expenditure", "pay", "rent",
    "score", "points", "marks", "mark", "temp", "temperature", "weight", "wt", "mass", "distance", "dist",
    "pressure", "height", "length", "width", "depth", "time", "duration", "age", "percent", "pct", "rate",
    "ratio", "index", "yield", "mm", "cm", "kg", "usd", "dollars", "amount", "value", "balance", "speed",
    "concentration", "conc", "dose", "rain", "rainfall", "precipitation", "ozone", "level", "iq", "test",
    "minutes", "hours", "seconds", "days", "delay", "arr", "dep", "diff", "difference", "change", "area",
}  # fmt: skip
POSITIVE_WORDS = {
    "price", "cost", "costs", "income", "wage", "wages", "salary", "earnings", "expenditure", "pay", "rent",
    "duration", "time", "days", "hours", "minutes", "seconds", "latency", "rt", "concentration", "conc",
    "weight", "mass", "biomass", "volume", "area", "amount", "sales", "revenue", "charges", "fare",
    "tip", "tips", "fee", "fees", "tax", "bill", "spending", "budget", "gross",
}  # fmt: skip
PERCENT_NAMES = {"percent", "pct", "percentage"}
PERCENT_WORDS = PERCENT_NAMES | {
    "share",
    "proportion",
    "fraction",
}  # of numbers up to 100
GRADE_WORDS = {
    "rating", "quality", "grade", "satisfaction", "satis", "likert", "stage", "severity", "pain", "rank",
    "apply", "opinion", "agree", "agreement", "health", "education", "bitterness", "response", "mental",
    "improvement", "improved", "outcome", "level", "class", "evaluation", "eval",
}  # fmt: skip
ID_ENDS = re.compile(r"[a-z ._](id|ID|Id|no|No|nr|Nr)$")  # of a name, after another letter
STATUS = re.compile(
    r"status|stat$|cens|event|death|dead|died|relapse|surviv|delta|^d$|^fail|progress"
)
DURATIONS = re.compile(r"time|surv|^tt|days|months|years|weeks|duration|^t$|spell|follow")
FIRST_YEAR, LAST_YEAR = 1500, 2100
FEWEST_GROUPS = 5  # fewer are categories
FEWEST_NUMBERS = 8  # fewer whole numbers are codes or grades, unless they are ids
FEW_TEXTS = 10  # so many names are categories, unless they are ids
MOST_GROUPS = 500  # of a column named otherwise than subjects are
MANY_CASES, MOST_CLASSES = 50, 10  # by which a threshold shows
MANY_CLASSES = 12  # of an outcome in words: with more, one is set against the rest
SCREENED = 200  # rows in which relations of two columns and the outcome are tried first
ON_A_LINE = 0.99999  # correlation of two columns of which one follows from the other
NEARLY = 0.98  # rank correlation of a column that gives the outcome away
SKEWED = 1.0  # skewness of positive numbers that are modelled on the log scale
LESS_SKEWED = 0.75  # times it: the most that is left in their logarithms


@dataclass(frozen=True)
class Reading:
    """The kind of outcome that a file holds, and the kind of model that it gets.

    `kind` is one of "real", "positive", "counts", "binary", "binomial", "classes", "grades", "share" and
    "survival"; `model` is the one of `KINDS` that is nearest, and `why` says what that model does not see, ""
    where the two are the same.
    """

    kind: str
    model: str
    why: str = ""


def is_years(column: Column) -> bool:
    """Return whether all numbers of a column are years of the calendar."""
    if column.kind != "whole":
        return False
    values = column.values[np.isfinite(column.values)]
    inside = bool((values >= FIRST_YEAR).all() and (values <= LAST_YEAR).all())
    return inside and (len(np.unique(values)) > 1) and is_time(column.name)


def is_counted(column: Column) -> bool:
    """Return whether a column of numbers holds counts: whole numbers from 0 that are no amounts.

    With a zero among them, or the name of something that is counted; not years, marks, prices or measures.
    """
    if column.values is None or column.kind == "date":
        return False
    values = column.values[np.isfinite(column.values)]
    if (
        len(values) == 0
        or (values != np.floor(values)).any()
        or values.min() < 0
        or is_years(column)
    ):
        return False
    words = name_words(column.name)
    if words & COUNT_WORDS:
        return True
    if words & (AMOUNT_WORDS | GRADE_WORDS) and not words <= {"days", "nights"}:
        return False
    return bool(values.min() == 0)


def are_percent(column: Column) -> bool:
    """Return whether numbers are percent: some are above 1, or they are named or written as percent."""
    values = column.values
    if values is None or not np.isfinite(values).any():
        return False
    named = "%" in column.name or "%" in column.contents or name_words(column.name) & PERCENT_NAMES
    return bool(named) or float(np.nanmax(values)) > 1.0


def _is_share(column: Column) -> bool:
    named = "%" in column.name or "%" in column.contents
    return named or bool(name_words(column.name) & PERCENT_WORDS)


def _several(n: int) -> Reading:
    """Several classes: all of them, or of very many one against the rest."""
    if n <= MANY_CLASSES:
        return Reading("classes", "classes")
    return Reading("classes", "binary", "one class against the rest")


def read_outcome(column: Column, others: Mapping[str, Column], *, trials: str | None) -> Reading:
    """Return the kind of outcome of a column, by its values, its name and the columns beside it."""
    if trials:
        return Reading("binomial", "binomial")
    filled = column.labels[~column.missing]
    levels = sorted(set(filled.tolist()))
    words = name_words(column.name)
    status = find_status(others)
    if column.values is None or column.kind == "category":
        if len(levels) == 2:
            return Reading("binary", "binary")
        if grade_order(levels):
            return Reading("grades", "grades")
        if are_graded(levels):
            why = "their order is not known, so one is set against the rest; see levels"
            return Reading("grades", "binary", why)
        return _several(len(levels))
    values = column.values[np.isfinite(column.values)]
    if len(np.unique(values)) == 2:
        return Reading("binary", "binary")
    whole = bool((values == np.floor(values)).all())
    few = len(np.unique(values)) <= 10 and np.ptp(values) <= 10
    if whole and few and STATUS.search(column.name.lower()) and not words & COUNT_WORDS - {"death"}:
        return _several(len(levels))
    if values.min() >= 0 and DURATIONS.search(column.name.lower()) and status:
        if values.min() > 0:
            return Reading("survival", "survival")
        why = (
            f"a time of 0 has no logarithm, so cases that {yaml_text(status[0])} marks as not ended are "
            "taken as ended; correct these cells and run gpmcflow new again"
        )
        return Reading("survival", "real", why)
    if whole and few and words & GRADE_WORDS and not words & COUNT_WORDS:
        return Reading("grades", "grades")
    if whole and few and words & (CODE_WORDS - CYCLES) and not words & COUNT_WORDS:
        return _several(len(levels))
    steps = np.unique(values)
    scale = 3 <= len(steps) <= 7 and bool((steps == np.arange(len(steps)) + 1).all())
    if whole and scale and not words & COUNT_WORDS:
        return Reading("grades", "grades")
    if is_counted(column) or (
        whole and _rises_from_few(values) and not words & (AMOUNT_WORDS | GRADE_WORDS)
    ):
        return Reading("counts", "counts")
    if (not whole and values.min() >= 0 and values.max() <= 1) or (
        are_percent(column) and _is_share(column) and values.min() >= 0 and values.max() <= 100
    ):
        top = 100 if are_percent(column) else 1
        if values.min() > 0 and values.max() < top:
            return Reading("share", "share")
        why = "a beta outcome has no 0 and no 1, so intervals of a share can leave 0 to 1"
        return Reading("share", "real", why)
    named = words & POSITIVE_WORDS
    if (values.min() > 0 or (named and values.min() == 0)) and not is_years(column):
        spread = _skewness(values)
        logged = re.match(r"(log|ln)|l[a-z]+", column.name.lower()) and values.max() < 20
        if (spread > SKEWED or (named and spread > 0)) and not logged:
            return _positive(values, spread)
    return Reading("real", "real")


def _positive(values: np.ndarray, spread: float) -> Reading:
    """Return the reading of amounts of some skewness: on the log scale where that takes it away."""
    below = "intervals can fall below 0"
    if values.min() == 0:
        return Reading("positive", "real", f"a 0 among them has no logarithm, so {below}")
    if abs(_skewness(np.log(values))) > LESS_SKEWED * spread:
        return Reading("positive", "real", f"their logarithms are as skewed, so {below}")
    return Reading("positive", "positive")


def find_status(columns: Mapping[str, Column]) -> list[str]:
    """Return the columns that say how cases ended: named so, of two to four different values."""
    found = []
    for name, column in columns.items():
        levels = set(column.labels[~column.missing].tolist())
        found += [name] * bool(STATUS.search(name.lower()) and 2 <= len(levels) <= 4)
    return found


def _skewness(values: np.ndarray) -> float:
    return float(((values - values.mean()) ** 3).mean() / max(values.std(), 1e-100) ** 3)


def _rises_from_few(values: np.ndarray) -> bool:
    """Return whether whole numbers begin at a few and have a long tail, as counts without a zero do."""
    return bool(1 <= values.min() <= 5 and values.max() >= 10 and _skewness(values) > 0.5 * SKEWED)


def find_places(numbers: list[Column]) -> tuple[str, str] | tuple[()]:
    """Return the two columns of a place on a map, by their names and the ranges these have."""
    for pair in PLACE_PAIRS:
        found = [
            next((c for c in numbers if name_words(c.name) - PLACE_FILLERS == {word}), None)
            for word in pair
        ]
        if None in found:
            continue
        low = [float(np.nanmin(c.values)) for c in found]
        high = [float(np.nanmax(c.values)) for c in found]
        if pair[1] in ("latitude", "lat"):
            plausible = low[0] >= -180 and high[0] <= 360 and low[1] >= -90 and high[1] <= 90
        elif pair == ("x", "y"):
            coordinate = any(name_words(c.name) & PLACE_FILLERS for c in found)
            plausible = coordinate or min(low) > PROJECTED
        else:
            plausible = True
        if plausible:
            return found[0].name, found[1].name
    return ()


def may_be_places(numbers: list[Column]) -> tuple[str, str] | tuple[()]:
    """Return columns named x and y that are not taken for a place, which only their owner knows."""
    named = {name.lower(): name for name in (c.name for c in numbers)}
    return (named["x"], named["y"]) if {"x", "y"} <= set(named) else ()


def may_be_successes(target: Column) -> bool:
    """Return whether whole numbers may be successes out of trials, by their name or one letter for it."""
    values = target.values
    if values is None or target.kind != "whole" or np.nanmin(values) < 0:
        return False
    return len(target.name) == 1 or bool(name_words(target.name) & SUCCESS_WORDS)


def find_trials(target: Column, numbers: list[Column], *, rare: bool = False) -> str | None:
    """Return the column of trials that successes are out of: named like one, never below the successes.

    With ``rare`` one of which hardly any succeed, so that it is as good an exposure.
    """
    for column in _named(numbers, TRIALS_WORDS):
        gaps = target.missing | column.missing
        trials, successes = column.values[~gaps], target.values[~gaps]
        whole = bool((trials == np.floor(trials)).all())
        if not (whole and len(trials) and trials.min() >= 1 and (successes <= trials).all()):
            continue
        if (successes.sum() <= RARE * trials.sum()) == rare:
            return column.name
    return None


def find_exposure(target: Column, numbers: list[Column]) -> str | None:
    """Return the column of efforts that counts belong to: positive, and no time that merely goes on."""
    for column in _named(numbers, EXPOSURE_WORDS):
        values = column.values[np.isfinite(column.values)]
        words = name_words(column.name)
        clock = is_years(column) or (is_time(column.name) and _goes_on(column.values))
        clock |= bool(words & CLOCKS) and not words <= CLOCKS | CLOCK_FILLERS
        idle = (column.values == 0) & (target.values == 0)  # nothing observed in no effort
        effort = values.min() >= 0 and (values > 0).sum() + idle.sum() >= len(values)
        if column.kind != "constant" and effort and not clock:
            return column.name
    return None


def find_groups(columns: Mapping[str, Column], inputs: list[str]) -> list[str]:
    """Return columns whose values are names of subjects, schools, stations and the like, each with some rows.

    Text of 21 to 500 different values; whole numbers or texts named like subjects; and whole numbers in
    blocks of rows within which another column rises anew each time.
    """
    groups = []
    for name in inputs:
        column = columns[name]
        words = name_words(name)
        levels = len(set(column.labels[~column.missing].tolist()))
        known = int((~column.missing).sum())
        is_id = bool(words & ID_WORDS or ID_ENDS.search(name))
        words = {last_word(name)} if not is_id else words  # a lot, not the frontage of a lot
        repeated = levels <= (0.7 if is_id else 0.5) * known
        most = known if words & SUBJECT_WORDS else MOST_GROUPS
        if not repeated or not FEWEST_GROUPS <= levels <= most or column.kind == "date":
            continue
        named = bool(words & SUBJECT_WORDS) and column.kind != "number"
        if column.values is None and levels <= FEW_TEXTS:
            named = named and is_id
        if column.values is not None and (levels < FEWEST_NUMBERS or np.nanmin(column.values) < 1):
            named = named and is_id
        many = column.kind == "text" and levels > MOST_LEVELS
        code = column.kind == "whole" and levels > MOST_LEVELS and bool(words & CODE_WORDS - CYCLES)
        blocks = column.kind == "whole" and _repeated_measures(column, columns, inputs)
        blocks = blocks and not _has_the_same_blocks(column, columns, inputs)
        if named or many or code or blocks:
            groups.append(name)
    return groups


def find_codes(columns: Mapping[str, Column], inputs: list[str]) -> list[str]:
    """Return columns of whole numbers that are codes of categories: a few that repeat, named like codes."""
    codes = []
    for name in inputs:
        column = columns[name]
        if column.kind != "whole" or is_years(column):
            continue
        values = column.values[np.isfinite(column.values)]
        levels = np.unique(values)
        words = name_words(name)
        if not 3 <= len(levels) <= MOST_LEVELS or 2 * len(levels) > len(values) or values.min() < 0:
            continue
        if words & (COUNT_WORDS - {"n", "nr", "num", "number"}):
            continue
        cycle = words & CYCLES and (_goes_on(column.values) or len(levels) < 6 or levels[0] != 1)
        names_codes = words & CODE_WORDS and not cycle
        if names_codes or (words & SUBJECT_WORDS and len(levels) < FEWEST_NUMBERS):
            codes.append(name)
    return codes


def find_row_numbers(columns: Mapping[str, Column], inputs: list[str]) -> dict[str, str]:
    """Return columns that name the row, with the reason, unless they are times or the only inputs.

    They run 1, 2, 3, ... through the file, or are whole numbers, different in every row, named like subjects.
    """
    found: dict[str, str] = {}
    for name in inputs:
        column = columns[name]
        if column.kind != "whole" or column.missing.any() or is_time(name):
            continue
        values = column.values
        if values[0] in (0.0, 1.0) and (np.diff(values) == 1.0).all():
            found[name] = "row number"
        elif name_words(name) & SUBJECT_WORDS and len(np.unique(values)) == len(values):
            found[name] = "different in every row"
    return found if set(found) < set(inputs) else {}


def find_outcome_again(
    columns: Mapping[str, Column], inputs: list[str], target: Column, unit: Column | None
) -> dict[str, str]:
    """Return columns that are the outcome in other words, with the reason: they would give it away.

    A number that the outcome fixes, its quotient by exposure or trials, the parts of which it is the sum or
    the difference, numbers or classes of which one is cut into the other, and classes put together.
    """
    name, y = target.name, target.values if target.kind in ("number", "whole") else None
    numbers = [n for n in inputs if columns[n].kind in ("number", "whole")]
    found: dict[str, str] = {}
    for other in inputs:
        column = columns[other]
        if other in numbers and y is not None:
            x = column.values
            known = np.isfinite(x) & np.isfinite(y)
            if unit is not None and _fixed_by(x[known], _ratio(y, unit.values)[known]):
                found[other] = f"{name} per {unit.name}"
            elif _fixed_by(x[known], y[known]) or _fixed_by(x[known], np.abs(y[known])):
                found[other] = f"follows from {name}"
        if other in found or is_time(other):
            continue
        classes = len(set(column.labels.tolist())) <= MOST_CLASSES
        few = len(set(target.labels.tolist())) <= MOST_CLASSES
        if few and other in numbers and _is_cut(column.values, target.labels, target.missing):
            found[other] = f"{name} is cut from it"
        elif classes and y is not None and _is_cut(y, column.labels, column.missing):
            found[other] = f"cut from {name}"
        elif classes and _follows(target, column):
            found[other] = f"follows from {name}"
    left = [n for n in numbers if n not in found]
    for first, second in [] if y is None else _pairs_that_may_make(left, columns, y):
        a, b = columns[first].values, columns[second].values
        some = slice(None, None, 1 + len(a) // SCREENED)  # a relation of all rows holds in these
        if {first, second} & set(found) or not _may_make(a[some], b[some], y[some]):
            continue
        if _is_same(a + b, y):
            found |= {first: f"with {second} it is {name}", second: f"with {first} it is {name}"}
        elif _is_same(a - b, y):
            found[first] = f"with {second} it is {name}"
        elif _is_same(b - a, y) or _on_a_line(y, _ratio(a, b)):
            found[second] = f"with {first} it is {name}"
        elif _on_a_line(y, _ratio(b, a)):
            found[first] = f"with {second} it is {name}"
    return found if len(found) < len(inputs) else {}


def find_rate(
    columns: Mapping[str, Column], numbers: list[str], target: Column
) -> tuple[str, str] | None:
    """Return the exposure of counts and the column of their rate, whose product they are but for a factor."""
    y = target.values
    some = slice(None, None, 1 + len(y) // SCREENED)
    values = _matrix(numbers, columns)[some]
    for base, rate in _pairs_near_a_line(numbers, values, y[some]):
        x, r = columns[base].values, columns[rate].values
        if not _on_a_line(r[some], _ratio(y, x)[some]):
            continue
        known = np.isfinite(x) & np.isfinite(r) & np.isfinite(y)
        if (x[known] > 0).all() and _fixed_by(r[known], _ratio(y, x)[known]):
            return base, rate
    return None


def _matrix(names: Sequence[str], columns: Mapping[str, Column]) -> np.ndarray:
    """Values of columns beside each other (row, column)."""
    return np.array([columns[name].values for name in names]).T if names else np.empty((0, 0))


def _pairs_that_may_make(
    names: list[str], columns: Mapping[str, Column], y: np.ndarray
) -> Iterator[tuple[str, str]]:
    """Yield pairs of columns in order, all that `_may_make` the outcome and few others.

    Columns are taken many at a time: of 1,000 there are half a million pairs.
    """
    some = slice(None, None, 1 + len(y) // SCREENED)
    values, y = _matrix(names, columns)[some], y[some]
    for k, first in enumerate(names[:-1]):
        a, b = values[:, k, None], values[:, k + 1 :]
        may = _near_a_line(y[:, None], _ratio(a, b)) | _near_a_line(y[:, None], _ratio(b, a))
        for total in (a + b, a - b):
            gap = np.abs(np.abs(total) - np.abs(y[:, None]))
            may |= ~(gap > 2e-9 + 2e-6 * np.abs(y[:, None])).any(axis=0)
        for place in np.flatnonzero(may):
            yield first, names[k + 1 + place]


def _pairs_near_a_line(
    names: list[str], values: np.ndarray, y: np.ndarray
) -> Iterator[tuple[str, str]]:
    """Yield pairs (x, r) in order, all in which r and y / x are on a line and few others."""
    for k, base in enumerate(names):
        near = _near_a_line(_ratio(y, values[:, k])[:, None], values)
        near[k] = False
        for place in np.flatnonzero(near):
            yield base, names[place]


def _near_a_line(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return for each column whether `_on_a_line` may hold: its correlation, but for rounding.

    Columns of both (row, column), of which one may have a single one.
    """
    x, y = np.broadcast_arrays(x, y)
    with np.errstate(all="ignore"):
        known = np.isfinite(x) & np.isfinite(y)
        n = known.sum(axis=0)
        x, y = (np.where(known, part, 0.0) for part in (x, y))
        x, y = (np.where(known, part - part.sum(axis=0) / n, 0.0) for part in (x, y))
        product = (x * y).sum(axis=0)
        scale = np.sqrt((x * x).sum(axis=0) * (y * y).sum(axis=0))
        # not <, so that what overflows stays
        return ~(np.abs(product) < (ON_A_LINE - 1e-6) * scale) & (n >= 20)


def _may_make(a: np.ndarray, b: np.ndarray, y: np.ndarray) -> bool:
    """Return whether y may be the sum, the difference or the quotient of two columns that both vary."""
    known = np.isfinite(a) & np.isfinite(b)
    if not known.any() or min(np.ptp(a[known]), np.ptp(b[known])) == 0:
        return False
    same = any(_is_same(total, y) for total in (a + b, a - b, b - a))
    return same or _on_a_line(y, _ratio(a, b)) or _on_a_line(y, _ratio(b, a))


def _on_a_line(x: np.ndarray, y: np.ndarray) -> bool:
    """Return whether two columns of some different values are on a line, where both are known."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if (
        len(x) < 20
        or min(np.ptp(x), np.ptp(y)) == 0
        or not abs(np.corrcoef(x, y)[0, 1]) >= ON_A_LINE
    ):
        return False
    return min(len(np.unique(x)), len(np.unique(y))) >= 5


def _ratio(y: np.ndarray, unit: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(y.shape, unit.shape)
    return np.divide(y, unit, out=np.zeros(shape), where=unit > 0)


def _is_same(total: np.ndarray, y: np.ndarray) -> bool:
    known = np.isfinite(total) & np.isfinite(y)
    return bool(known.sum() >= 10 and np.allclose(total[known], y[known], rtol=1e-6, atol=1e-9))


def _follows(target: Column, column: Column) -> bool:
    """Return whether the classes of a column are those of the outcome, or some of them put together."""
    known = ~target.missing & ~column.missing
    pairs = set(zip(target.labels[known].tolist(), column.labels[known].tolist(), strict=True))
    own, other = ({pair[side] for pair in pairs} for side in (0, 1))
    few = 2 <= len(own) <= MOST_CLASSES and len(other) >= 2
    return bool(few and known.sum() >= MANY_CASES and len(pairs) == len(own))


def _in_order(values: np.ndarray) -> bool:
    """Return whether numbers never fall, or never rise, from row to row."""
    steps = np.diff(values)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _fixed_by(x: np.ndarray, y: np.ndarray) -> bool:
    """Return whether one of two columns is a rising or falling function of the other."""
    if _on_a_line(x, y):
        return True
    levels = min(len(np.unique(x)), len(np.unique(y)))
    if levels < 0.3 * len(x) or len(x) < MANY_CASES:
        return False
    rises = (np.diff(x[np.lexsort((x, y))]) >= -1e-9 * np.ptp(x)).all()
    falls = (np.diff(x[np.lexsort((-x, y))]) <= 1e-9 * np.ptp(x)).all()
    return bool(rises or falls) and not _in_order(x)


def _is_cut(values: np.ndarray, labels: np.ndarray, missing: np.ndarray) -> bool:
    """Return whether classes are numbers cut at thresholds, with some close to these on either side."""
    known = np.isfinite(values) & ~missing
    x, classes = values[known], labels[known]
    levels = set(classes.tolist())
    if known.sum() < MANY_CASES or not 2 <= len(levels) <= MOST_CLASSES:
        return False
    if _in_order(x):  # of the file: see `find_leak`
        return False
    parts = sorted((x[classes == level] for level in levels), key=np.median)
    gaps = [above.min() - below.max() for below, above in pairwise(parts)]
    enough = min(map(len, parts)) >= 5 and len(np.unique(x)) > 6 * len(parts)
    return bool(enough and min(gaps) >= 0 and np.median(gaps) <= 0.06 * x.std() * len(parts))


def find_leak(columns: Mapping[str, Column], inputs: list[str], outcome: np.ndarray) -> str | None:
    """Return a column that runs with the order of the file and tells the outcome nearly perfectly alone."""
    rows = np.isfinite(outcome)
    for name in inputs if len(inputs) > 1 else ():  # a lone input in order is a calibration curve
        column = columns[name]
        if column.kind not in ("number", "whole") or is_time(name):
            continue
        known = rows & np.isfinite(column.values)
        x, y = column.values[known], outcome[known]
        if len(x) < 10 or len(np.unique(x)) < 0.9 * len(x) or not _in_order(x):
            continue
        ranks, score = pd.Series(x).rank(), pd.Series(y).rank()
        largest = np.corrcoef(np.sort(ranks), np.sort(score))[0, 1]  # ties leave less than 1
        if abs(np.corrcoef(ranks, score)[0, 1]) > NEARLY * largest:
            return name
    return None


def leak_words(leak: str, target: str) -> str:
    """Words for a column that `find_leak` found, with the line that drops it."""
    return (
        f"{leak} follows the order of the file and almost determines {target}; if it is a row number or "
        f"comes after the outcome: drop: [{yaml_text(leak)}]"
    )


def _named(columns: list[Column], words: tuple[str, ...]) -> list[Column]:
    """The columns that have one of the words in their names, the first word first."""
    return [column for word in words for column in columns if word in name_words(column.name)]


def _goes_on(values: np.ndarray) -> bool:
    """Return whether numbers are times that go on: in order in the file, in even steps."""
    different = np.unique(values[np.isfinite(values)])
    if len(different) < 3:
        return False
    steps = np.diff(different)
    known = values[np.isfinite(values)]
    return bool(np.allclose(steps, steps[0])) and bool((np.diff(known) >= 0).all())


def _has_the_same_blocks(column: Column, columns: Mapping[str, Column], inputs: list[str]) -> bool:
    """Return whether another column is constant in the same rows: then either may be an amount."""
    if (column.values == np.unique(column.values, return_inverse=True)[1] + 1).all():
        return False  # numbered through
    own = column.labels[1:] != column.labels[:-1]
    others = [columns[name] for name in inputs if columns[name] is not column]
    return any(((other.labels[1:] != other.labels[:-1]) == own).all() for other in others)


def _repeated_measures(column: Column, columns: Mapping[str, Column], inputs: list[str]) -> bool:
    """Return whether rows come in a block for each value, and another column rises anew in each block."""
    levels = np.unique(column.values)
    steps = np.diff(levels)
    if is_time(column.name) or column.missing.any() or (steps[0] > 1 and (steps == steps[0]).all()):
        return False  # values of a design
    starts = np.flatnonzero(np.diff(column.values) != 0) + 1
    if len(starts) + 1 != len(np.unique(column.values)):
        return False
    within = np.ones(len(column.values) - 1, dtype=bool)
    within[starts - 1] = False
    for name in inputs:
        other = columns[name]
        if other is column or other.kind not in ("number", "whole", "date") or other.missing.any():
            continue
        steps = np.diff(other.values)
        if within.any() and (steps[within] > 0).all() and (steps[~within] < 0).mean() > 0.9:
            return True
    return False
