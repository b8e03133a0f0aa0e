"""Columns that would give the outcome away: what makes it, what follows from it, the order of the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, permutations
from typing import NamedTuple

import numpy as np
import pandas as pd

from gpmcflow.data.columns import MOST_LEVELS, Column, is_time, name_words, yaml_text
from gpmcflow.data.csv_table import parse_numbers

MANY_CASES, MOST_CLASSES = 50, 10  # by which a threshold shows
SCREENED = 200  # rows in which relations of two columns and the outcome are tried first
ON_A_LINE = 0.99999  # correlation of two columns of which one follows from the other
FEW_ERRORS = 0.05  # share of rows in which a sum may be another: cells mistyped or corrected
MOSTLY_SAME = 0.8  # share of rows in which a column is the outcome itself
TOTAL_WORDS = {
    "total",
    "tot",
    "sum",
    "all",
    "income",
    "inc",
    "revenue",
    "gross",
    "games",
    "played",
    "n",
}
CUT_WORDS = {
    "cat", "category", "class", "classes", "group", "groups", "grp", "interval", "intervals", "bin",
    "bins", "bracket", "band", "range", "level", "levels", "quartile", "quantile", "quintile", "decile",
    "tercile", "tertile", "high", "low", "binary", "dummy", "coded", "cut",
}  # fmt: skip
CHANCE_DIGITS = 6  # a chance of one in a million
QUOTIENT_WORDS = {
    "per", "rate", "ratio", "share", "percent", "pct", "perc", "prop", "proportion", "intensity",
    "mean", "avg", "average", "density", "pc", "capita",
}  # fmt: skip
ON_A_ROUNDED_LINE = 0.999
MOST_PARTS = 60  # numbers among which the parts of a sum are sought
UNEXPLAINED = 0.5  # share of the variance, at most, of what may be a sum in most rows
FEW_ROWS = 6  # enough to rule out nearly all pairs whose product is not the outcome
NEAR_PRODUCT = 0.02  # relative, of what may be the product of two rounded numbers
RESCALINGS = (np.log, np.log10, np.log2, np.log1p, np.sqrt, np.square, np.reciprocal)
MOST_DECIMALS = 6  # of a number that may be rounded from another
RANK_WORDS = {"rank", "ranking", "place", "placing", "pos", "position", "standing", "finish"}
ADJUSTED_WORDS = {
    "adj", "adjusted", "raw", "unadjusted", "scaled", "standardized", "standardised", "normalized",
    "normalised", "rounded", "smoothed", "real", "nominal", "net", "gross",
}  # fmt: skip
ALIKE = 0.8  # rank correlation of a column with the outcome after which it is named
OFTEN_SAME = 0.2  # share of rows in which another time is the time of a case: it is known as late
FEWEST_ZEROS = 10  # and as many others, by which a column is 0 just where the outcome is
OPPOSITE = -0.9  # correlation of two sides of one question, as of those for and against
DAYS = (1.0, 7.0, 365.25 / 12.0, 365.25, 1.0 / 24.0)  # of units of time
FEWEST_DATES = 20  # pairs of dates by which one is the end of the outcome
DAY_AND_MORE, LONGEST_MONTH = 1.5, 31.5  # days by which the day, or the month, of both may be off
NEARLY, LIKELY = (
    0.98,
    0.9,
)  # rank correlation of a column that gives the outcome away, and in some of the rows
FEWEST_TOLD, MOST_TOLD = 10, 2  # rows, and columns that each give it away
TREND = 0.9  # rank correlation of the outcome with the order of the file, as of what grows over the years


def find_outcome_again(
    columns: Mapping[str, Column],
    inputs: list[str],
    target: Column,
    unit: Column | None,
    status: Column | None = None,
) -> dict[str, str]:
    """Return columns that are the outcome in other words, with the reason: they would give it away.

    A number that the outcome fixes, its quotient by exposure or trials, what it leaves of these, the parts
    of which it is the sum, the log ratio or the difference (but for few rows), its quotient by another
    column, its changes, its distance from a number, the outcome itself in most rows or in other units from
    year to year, numbers or classes of which one is cut into the other, classes put together or taken apart,
    and what is known only where a case ended so, or says how it ended, by the outcome or `status`.
    """
    name, y = target.name, target.values if target.kind in ("number", "whole") else None
    numbers = [n for n in inputs if columns[n].kind in ("number", "whole")]
    found: dict[str, str] = {}
    ends: list[Column] = []  # how cases ended, in more classes
    for other in inputs:
        column = columns[other]
        if other in numbers and y is not None:
            x = column.values
            known = np.isfinite(x) & np.isfinite(y)
            if unit is not None and _fixed_by(x[known], _ratio(y, unit.values)[known]):
                found[other] = f"{name} per {unit.name}"
            elif unit is not None and np.ptp(x[known]) > 0 and _is_same(x + y, unit.values):
                found[other] = f"what {name} leaves of {unit.name}"
            elif _fixed_by(x[known], y[known]) or _fixed_by(x[known], np.abs(y[known])):
                found[other] = f"follows from {name}"
            elif words := _told_by(x, y, name, OFTEN_SAME if status else MOSTLY_SAME):
                found[other] = words
            elif _is_version(other, x, y, name):
                found[other] = f"another {name}"
            elif words := _ranks(column, columns, target):
                found[other] = words
        if other not in found and (known_where := _known_only_where(column, status or target)):
            found[other] = known_where
        if other in found or is_time(other):
            continue
        classes = len(set(column.labels.tolist())) <= MOST_CLASSES
        few = len(set(target.labels.tolist())) <= MOST_CLASSES
        if few and other in numbers and _is_cut(column.values, target):
            found[other] = f"{name} is cut from it"
        elif classes and y is not None and _is_cut(y, column, named=_named_after(other, name)):
            found[other] = f"cut from {name}"
        elif classes and _follows(target, column):
            found[other] = f"follows from {name}"
        elif few and _fixes(column, target):
            found[other] = f"{name} follows from it"
        elif status is not None and _fixes(column, status):
            found[other] = f"{status.name} follows from it"
            ends.append(column)
    for other in inputs if ends else ():
        told = (end.name for end in ends if _tells_of_one_class(columns[other], end))
        if other not in found and (cause := next(told, "")):
            found[other] = f"says more of one class of {cause}"
    if y is not None:
        found |= _ends_of_times(columns, [n for n in inputs if n not in found], y, name)
        found |= _in_other_units(columns, [n for n in inputs if n not in found], y, name)
    left = [n for n in numbers if n not in found]
    for first, second in [] if y is None else _pairs_that_may_make(left, columns, y):
        a, b = columns[first].values, columns[second].values
        some = slice(None, None, 1 + len(a) // SCREENED)  # a relation of all rows holds in these
        if {first, second} & set(found) or not _may_make(a[some], b[some], y[some]):
            continue
        if _is_same(a + b, y):
            found |= {first: _beside(second, name), second: _beside(first, name)}
        elif (one := _is_same(a - b, y)) or _is_same(b - a, y):
            if _are_opposite(a, b):  # either tells nearly all
                found |= {first: _beside(second, name), second: _beside(first, name)}
            else:
                more, less = (first, second) if one else (second, first)
                found |= _later_or_rest(more, less, name)
        elif _on_a_line(y, _ratio(a, b)):
            found[second] = _beside(first, name)
        elif _on_a_line(y, _ratio(b, a)):
            found[first] = _beside(second, name)
        elif _on_a_line(y, _log_ratio(a, b)) or _is_share_of(a, b, y):
            found |= {first: _beside(second, name), second: _beside(first, name)}
    if y is not None:
        found |= _parts([n for n in left if n not in found], columns, y, name)
        found |= _quotients([n for n in left if n not in found], columns, y, name)
    for other in (n for n in left if n not in found):
        if where := _zero_just_where(columns[other], target):
            found[other] = where
    return found if len(found) < len(inputs) else {}


def _parts(
    names: list[str], columns: Mapping[str, Column], y: np.ndarray, name: str
) -> dict[str, str]:
    """Return three or more numbers of which the outcome is the sum, but for few rows; a gap is 0.

    Weights that are not negative and fit best are 1 for the parts and 0 for all else; they are fitted again
    without the rows that are furthest off, where a cell may be mistyped.
    """
    rows = np.flatnonzero(np.isfinite(y))
    if not 3 <= len(names) <= MOST_PARTS or len(rows) < 3 * len(names):
        return {}
    some = rows[:: 1 + len(rows) // (SCREENED + 5 * len(names))]
    x = np.nan_to_num(np.array([columns[part].values[some] for part in names])).T
    own = y[some]
    fitted = x @ np.linalg.lstsq(x, own, rcond=None)[0]
    if not ((fitted - own) ** 2).mean() <= UNEXPLAINED * own.var():
        return {}
    from scipy.optimize import nnls  # takes long to load

    for _ in range(2):
        try:
            weights, _ = nnls(x, own)
        except RuntimeError:  # too many steps
            return {}
        off = np.abs(x @ weights - own)
        kept = off <= np.quantile(off, 1.0 - FEW_ERRORS)
        x, own = x[kept], own[kept]
    parts = np.abs(weights - 1.0) < 1e-3
    if parts.sum() < 3 or (weights[~parts] > 1e-3).any():
        return {}
    found = [part for part, is_part in zip(names, parts, strict=True) if is_part]
    total = sum(np.nan_to_num(columns[part].values) for part in found)
    same = _is_same(np.asarray(total), y)
    return {part: f"one of {len(found)} whose sum is {name}" for part in found} if same else {}


def _ends_of_times(
    columns: Mapping[str, Column], names: list[str], y: np.ndarray, name: str
) -> dict[str, str]:
    """Return dates that are another date and the outcome later: when it ended, with the reason."""
    dates = [n for n in names if columns[n].kind == "date"]
    found: dict[str, str] = {}
    for first, last in permutations(dates, 2):
        days = columns[last].values - columns[first].values
        known = np.isfinite(days) & np.isfinite(y)
        if known.sum() < FEWEST_DATES:
            continue
        days, own = days[known], y[known]
        exact = all("DD" in (columns[n].date_format or "") for n in (first, last))
        slack = DAY_AND_MORE if exact else LONGEST_MONTH
        apart = [
            np.abs(days - unit * own) <= slack for unit in DAYS if unit * np.ptp(own) > 10 * slack
        ]
        if any(same.mean() >= 1.0 - FEW_ERRORS for same in apart):
            found[last] = f"{first} and {name} later"
    return found


def find_marked(columns: Mapping[str, Column], inputs: list[str], target: Column) -> dict[str, str]:
    """Return columns with the outcome and marks beside it, such as <0.006, with the reason."""
    y = target.values if target.kind in ("number", "whole") else None
    same = (n for n in inputs if y is not None and _is_same(_without_marks(columns[n]), y))
    return {name: f"{target.name} with marks" for name in same}


def _without_marks(column: Column) -> np.ndarray:
    """Numbers of cells with a mark such as in <0.006, as of what is below a limit; NaN if none has one."""
    cells = [cell.lstrip("<>~≤≥= ") for cell in column.labels.tolist()]
    marked = any(short != cell for short, cell in zip(cells, column.labels, strict=True))
    return parse_numbers(cells) if marked else np.full(len(cells), np.nan)


def _quotients(
    names: list[str], columns: Mapping[str, Column], y: np.ndarray, name: str
) -> dict[str, str]:
    """Return numbers that are the outcome divided by another, but for a factor as of percent.

    Of two columns with the outcome as their product only the one that is made from it goes: named after the
    outcome or like a quotient, else the one with more decimals.
    """
    if not names:
        return {}
    values = _matrix(names, columns)
    some = slice(None, None, 1 + len(y) // SCREENED)
    rows = np.flatnonzero(np.isfinite(y) & (y != 0))
    rows = rows[np.argsort(-np.abs(y[rows]), kind="stable")][:FEW_ROWS]  # little rounded
    found: dict[str, str] = {}
    for k, first in enumerate(names[:-1]):
        near = k + 1 + _near_quotients(values[rows, k], values[rows, k + 1 :], y[rows])
        if not len(near):
            continue
        with np.errstate(all="ignore"):
            share = (y[some] / values[some, k])[:, None]
        for place in near[_near_a_line(share, values[some][:, near], ON_A_ROUNDED_LINE)]:
            second = names[place]
            if {first, second} & set(found):
                continue
            units = [_last_decimal(values[:, at]) for at in (k, place)]
            if not _is_product(values[:, k], values[:, place], y, units):
                continue
            made = [
                _made_from(n, name, unit) for n, unit in zip((first, second), units, strict=True)
            ]
            other, base = (first, second) if made[0] > made[1] else (second, first)
            found[other] = f"{name} per {base}"
    return found


def _made_from(column: str, name: str, unit: float) -> tuple[bool, bool, float]:
    """Rank how likely a column is made from the outcome: named after it, like a quotient, more decimals."""
    named = len(name) > 1 and name.lower() in column.lower()
    return named, bool(name_words(column) & QUOTIENT_WORDS), -(unit or 1.0)


def _near_quotients(a: np.ndarray, b: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the columns of b of which the product with a may be y but for a factor, by a few rows."""
    with np.errstate(all="ignore"):
        q = y[:, None] / (a[:, None] * b)
        q[~np.isfinite(q)] = np.nan
        low, high = np.fmin.reduce(q), np.fmax.reduce(q)
        return np.flatnonzero(high - low <= NEAR_PRODUCT * np.abs(low + high))


def _is_product(a: np.ndarray, b: np.ndarray, y: np.ndarray, units: Sequence[float]) -> bool:
    """Return whether y is the product of two columns that vary, but for a factor and their rounding."""
    known = np.isfinite(a) & np.isfinite(b) & np.isfinite(y)
    a, b, y = a[known], b[known], y[known]
    told = (a != 0) & (b != 0) & (y != 0)
    if told.sum() < 20 or ((a * b == 0) & (y != 0)).any() or ((a * b != 0) & (y == 0)).mean() > 0.1:
        return False
    if min(len(np.unique(a)), len(np.unique(b)), len(np.unique(y))) < 10:
        return False
    a, b, y = a[told], b[told], y[told]
    if not np.corrcoef(y / a, b)[0, 1] ** 2 >= ON_A_ROUNDED_LINE**2:
        return False  # numbers that vary by less than they are rounded to
    q = y / (a * b)
    rounding = 0.5 * (units[0] / np.abs(a) + units[1] / np.abs(b) + _last_decimal(y) / np.abs(y))
    error = np.abs(q / np.median(q) - 1.0)
    return bool((error <= 1e-4 + 1.01 * rounding).all() and np.median(rounding) <= NEAR_PRODUCT / 4)


def _last_decimal(x: np.ndarray) -> float:
    """Return the unit to which numbers are rounded, 0 for whole numbers, which are not."""
    x = x[np.isfinite(x)]
    for decimals in range(MOST_DECIMALS + 1):
        if np.abs(x * 10.0**decimals - np.round(x * 10.0**decimals)).max(initial=0.0) < 1e-6:
            return 10.0**-decimals if decimals else 0.0
    return 10.0**-MOST_DECIMALS


def _beside(other: str, name: str) -> str:
    return f"gives {name} together with {other}"


def _later_or_rest(more: str, less: str, name: str) -> dict[str, str]:
    """Of two columns with the outcome as their difference, drop the later one, or the rest of a total."""
    is_total = bool(name_words(more) & TOTAL_WORDS)
    return {less: _beside(more, name)} if is_total else {more: _beside(less, name)}


def _are_opposite(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether one of two columns falls as the other rises, as no values before and after do."""
    known = np.isfinite(a) & np.isfinite(b)
    return bool(np.corrcoef(a[known], b[known])[0, 1] <= OPPOSITE)


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
    if len(names) < 2:
        return
    some = slice(None, None, 1 + len(y) // SCREENED)
    values, y = _matrix(names, columns)[some], y[some]
    positive = (values > 0).sum(axis=0) >= 0.9 * len(values)
    known = values[np.isfinite(y)]
    whole = ((np.isnan(known) | (known == np.floor(known))) & ~(known < 0)).all(axis=0)
    for k, first in enumerate(names[:-1]):
        a, b = values[:, k, None], values[:, k + 1 :]
        may = _near_a_line(y[:, None], _ratio(a, b)) | _near_a_line(y[:, None], _ratio(b, a))
        for total in (a + b, a - b):
            gap = np.abs(np.abs(total) - np.abs(y[:, None]))
            other = gap > 2e-9 + 2e-6 * np.abs(y[:, None])
            may |= other.sum(axis=0) <= 2 * FEW_ERRORS * np.isfinite(gap).sum(axis=0)
        if positive[k]:
            both = positive[k + 1 :]
            may[both] |= _near_a_line(y[:, None], _log_ratio(a, b[:, both]))
        if whole[k]:
            both = whole[k + 1 :]
            may[both] |= _may_be_share_of(values[:, k], b[:, both], y)
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


def _near_a_line(x: np.ndarray, y: np.ndarray, least: float = ON_A_LINE - 1e-6) -> np.ndarray:
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
        return ~(np.abs(product) < least * scale) & (n >= 20)


def _may_make(a: np.ndarray, b: np.ndarray, y: np.ndarray) -> bool:
    """Return whether y may be the sum, difference, quotient, log ratio or share of two columns that vary."""
    known = np.isfinite(a) & np.isfinite(b)
    if not known.any() or min(np.ptp(a[known]), np.ptp(b[known])) == 0:
        return False
    same = any(_is_same(total, y, 2.0) for total in (a + b, a - b, b - a))
    ratios = (_ratio(a, b), _ratio(b, a), _log_ratio(a, b))
    return same or any(_on_a_line(y, ratio) for ratio in ratios) or _is_share_of(a, b, y)


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


def _log_ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return log(a / b), not finite where one is not positive."""
    with np.errstate(all="ignore"):
        return np.log(a) - np.log(b)


def _is_same(total: np.ndarray, y: np.ndarray, errors: float = 1.0) -> bool:
    """Return whether two columns are the same in all rows but few, also in those without the usual value."""
    known = np.isfinite(total) & np.isfinite(y)
    if known.sum() < 10:
        return False
    same = np.isclose(total[known], y[known], rtol=1e-6, atol=1e-9)
    if same.all():
        return True
    values, n = np.unique(y[known], return_counts=True)
    telling = y[known] != values[n.argmax()]
    allowed = errors * FEW_ERRORS
    one = telling.sum() >= 6  # five times the same by chance is rare
    few = (~same & telling).sum() <= max(allowed * telling.sum(), one)
    return bool((~same).mean() <= allowed and few)


def _told_by(x: np.ndarray, y: np.ndarray, name: str, often: float) -> str:
    """Return words for a number: the outcome in so many rows, its change, or its distance from a number.

    "" where it is none of these.
    """
    known = np.isfinite(x) & np.isfinite(y)
    same = known & np.isclose(x, y, rtol=1e-6, atol=1e-9)
    if same.sum() >= often * known.sum() and len(np.unique(x[same])) >= 10:
        return f"{name} itself in {same.sum()} of {known.sum()} rows"
    with np.errstate(all="ignore"):
        changes = (np.diff(y), y[1:] / y[:-1], np.diff(np.log(y)))
    if any(_on_a_line(x[1:], change) for change in changes):
        return f"the change of {name} since the row before"
    if known.sum() >= 20 and x[known].min() >= 0 and _on_a_line(x**2 - y**2, y):
        middle = -np.polyfit(y[known], (x**2 - y**2)[known], 1)[0] / 2.0
        gap = np.abs(x - np.abs(y - middle))[known]
        inside = y[known].min() < middle < y[known].max()
        if inside and gap.max() <= 1e-3 * np.ptp(x[known]):
            return f"how far {name} is from {middle:.6g}"
    return ""


def _is_version(other: str, x: np.ndarray, y: np.ndarray, name: str) -> bool:
    """Return whether numbers are a version of the outcome by name, as adjusted prices, and rise with it."""
    words, own = name_words(other), name_words(name)
    if not own or not own < words or not words - own <= ADJUSTED_WORDS:
        return False
    known = np.isfinite(x) & np.isfinite(y)
    ranks = pd.Series(x[known]).rank(), pd.Series(y[known]).rank()
    return known.sum() >= 20 and bool(np.corrcoef(*ranks)[0, 1] >= ALIKE)


def _ranks(column: Column, columns: Mapping[str, Column], target: Column) -> str:
    """Return words for numbers named as ranks, if they are the outcome's in each part of a file; else ""."""
    if column.kind != "whole" or not name_words(column.name) & RANK_WORDS:
        return ""
    known = ~column.missing & ~target.missing
    x, y = pd.Series(column.values[known]), pd.Series(target.values[known])
    parts = [
        other
        for other in columns.values()
        if other is not column and other is not target and other.kind not in ("id", "constant")
    ]
    for part in parts:
        groups = pd.Series(part.labels[known])
        if not 2 <= groups.nunique() <= len(x) / 5:
            continue
        ranked = x.groupby(groups).rank()
        up, down = (y.groupby(groups).rank(ascending=way) for way in (True, False))
        if any((ranked - own).abs().lt(1.0).mean() >= 1.0 - FEW_ERRORS for own in (up, down)):
            return f"ranks of {target.name} in each {part.name}"
    return ""


def _zero_just_where(column: Column, target: Column) -> str:
    """Return words for numbers that are 0 in all of one class of two, or of outcome 0, alone; else ""."""
    known = ~column.missing & ~target.missing
    zero = column.values[known] == 0
    many = min(zero.sum(), (~zero).sum()) >= FEWEST_ZEROS and known.sum() >= MANY_CASES
    if not many or len(np.unique(column.values[known])) < FEW_ROWS:
        return ""
    levels = sorted(set(target.labels[known].tolist()))
    if len(levels) == 2:
        for level in levels:
            if np.array_equal(zero, target.labels[known] == level):
                return f"0 just where {target.name} is {level}"
    elif target.kind in ("number", "whole") and np.array_equal(zero, target.values[known] == 0):
        return f"0 just where {target.name} is"
    return ""


def _known_only_where(column: Column, classes: Column) -> str:
    """Return words for a column that is filled in one class of two alone, in most of its rows; else ""."""
    known = ~classes.missing
    labels, gaps = classes.labels[known], column.missing[known]
    levels = set(labels.tolist())
    if len(levels) != 2 or min(gaps.sum(), (~gaps).sum()) < 10:
        return ""
    for level in sorted(levels):
        own = labels == level
        if gaps[~own].all() and (~gaps[own]).mean() >= MOSTLY_SAME:
            return f"known only where {classes.name} is {level}"
    return ""


def _in_other_units(
    columns: Mapping[str, Column], inputs: list[str], y: np.ndarray, name: str
) -> dict[str, str]:
    """Return numbers that are the outcome but for a factor of each year, country or the like."""
    found = {}
    units = [
        columns[by]
        for by in inputs
        if columns[by].kind in ("category", "date", "text") or is_time(by)
    ]
    for other in inputs:
        x = columns[other].values
        if columns[other].kind not in ("number", "whole") or x is None:
            continue
        with np.errstate(all="ignore"):
            factor = np.where((x != 0) & (y != 0), y / x, np.nan)
        zeros = np.isfinite(x) & np.isfinite(y) & ((x == 0) != (y == 0))
        known = np.isfinite(factor)
        if zeros.any() or known.sum() < 20 or np.ptp(factor[known]) == 0:
            continue
        for column in (own for own in units if own.name != other):
            groups = pd.Series(factor[known]).groupby(column.labels[known])
            lows, highs, sizes = groups.min(), groups.max(), groups.size()
            if len(sizes) > known.sum() / 3 or (sizes >= 3).sum() < 2:
                continue
            varied = pd.Series(x[known]).groupby(column.labels[known]).nunique() >= 3
            same = (highs - lows) <= 1e-4 * np.maximum(highs.abs(), lows.abs())
            if same.all() and varied.mean() >= 0.5:
                found[other] = f"{name} but for a factor of each {column.name}"
                break
    return found


def _is_share_of(a: np.ndarray, b: np.ndarray, y: np.ndarray) -> bool:
    """Return whether y is the share of whole numbers a in a + b, where a tie counts as half of each."""
    known = np.isfinite(a) & np.isfinite(b) & np.isfinite(y)
    a, b, y = a[known], b[known], y[known]
    if (
        len(y) < 20
        or (a != np.floor(a)).any()
        or (b != np.floor(b)).any()
        or min(a.min(), b.min()) < 0
    ):
        return False
    sum_varies = np.ptp(a + b) > 0
    shares = [_ratio(a, a + b)] if sum_varies else []
    return any(_on_a_line(y, share) for share in shares) or (sum_varies and _on_a_line(y, a - b))


def _may_be_share_of(a: np.ndarray, b: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return for each column of b whether `_is_share_of` may hold."""
    a = a[:, None]
    return _near_a_line(y[:, None], _ratio(a, a + b)) | _near_a_line(y[:, None], a - b)


def _follows(target: Column, column: Column) -> bool:
    """Return whether the classes of a column are those of the outcome, or some of them put together."""
    known = ~target.missing & ~column.missing
    pairs = set(zip(target.labels[known].tolist(), column.labels[known].tolist(), strict=True))
    own, other = ({pair[side] for pair in pairs} for side in (0, 1))
    few = 2 <= len(own) <= MOST_CLASSES and len(other) >= 2
    return bool(few and known.sum() >= MANY_CASES and len(pairs) == len(own))


def _fixes(column: Column, target: Column) -> bool:
    """Return whether each class of a column has one outcome alone, over enough rows of each class."""
    known = ~target.missing & ~column.missing
    own = column.labels[known].tolist()
    sizes = Counter(own)
    fewest = 1 if name_words(target.name) < name_words(column.name) else 5
    many = len(own) >= MANY_CASES and min(sizes.values(), default=0) >= fewest
    if not (2 <= len(sizes) <= MOST_LEVELS and many):
        return False
    pairs = set(zip(own, target.labels[known].tolist(), strict=True))
    return len(pairs) == len(sizes) and len({outcome for _, outcome in pairs}) >= 2


def _tells_of_one_class(column: Column, cause: Column) -> bool:
    """Return whether one of two values stands in one class of a cause alone, in at least half of its rows.

    By chance it hardly would; a stage of a disease that few survive stands in a smaller part of its deaths.
    """
    known = ~cause.missing & ~column.missing
    own, classes = column.labels[known], cause.labels[known]
    levels = set(own.tolist())
    if len(levels) != 2:
        return False
    for level in levels:
        inside = classes[own == level]
        if len(inside) >= 10 and (inside == inside[0]).all():
            of_class = (classes == inside[0]).sum()
            rare = len(inside) * np.log10(of_class / len(classes)) < -CHANCE_DIGITS
            if rare and 2 * len(inside) >= of_class:
                return True
    return False


def _named_after(other: str, name: str) -> bool:
    """Return whether a column has the name of the outcome and words for classes: cigs_intervals."""
    words = name_words(other) - name_words(name)
    return name.lower() in other.lower() and bool(words & CUT_WORDS)


def _in_order(values: np.ndarray) -> bool:
    """Return whether numbers never fall, or never rise, from row to row."""
    steps = np.diff(values)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _fixed_by(x: np.ndarray, y: np.ndarray) -> bool:
    """Return whether one of two columns is a rising or falling function of the other."""
    some = slice(None, None, 1 + len(x) // SCREENED)
    if _on_a_line(x, y) or (_is_rescaled(x[some], y[some]) and _is_rescaled(x, y)):
        return True
    levels = min(len(np.unique(x)), len(np.unique(y)))
    if levels < 0.3 * len(x) or len(x) < MANY_CASES:
        return False
    rises = (np.diff(x[np.lexsort((x, y))]) >= -1e-9 * np.ptp(x)).all()
    falls = (np.diff(x[np.lexsort((-x, y))]) <= 1e-9 * np.ptp(x)).all()
    return bool(rises or falls) and not _in_order(x)


def _is_rescaled(x: np.ndarray, y: np.ndarray) -> bool:
    """Return whether one of two columns is the log, root, square or reciprocal of the other, or a line of it.

    This shows in fewer rows than that one rises with the other, as a calibration does.
    """
    if len(x) < 10:
        return False
    risen, fallen = (np.diff(x[np.lexsort((key, y))]) for key in (x, -x))
    if max((risen >= 0).mean(), (fallen <= 0).mean()) < 0.9:  # most columns: in a tenth of the time
        return False
    with np.errstate(all="ignore"):
        for a, b in ((x, y), (y, x)):
            for made in (rescaling(a) for rescaling in RESCALINGS):
                known = np.isfinite(made)
                if known.mean() >= 0.9 and (  # a column may have some zeros
                    _on_a_line(made, b) or _is_rounded_from(made[known], b[known])
                ):
                    return True
    return False


def _is_rounded_from(exact: np.ndarray, x: np.ndarray) -> bool:
    """Return whether numbers are others to their last decimal."""
    if len(np.unique(x)) < 0.5 * len(x):
        return False
    for decimals in range(MOST_DECIMALS + 1):
        unit = 10.0**-decimals
        if np.abs(x / unit - np.round(x / unit)).max() < 1e-6:
            return decimals > 0 and bool(np.abs(exact - x).max() <= 0.51 * unit)
    return bool(np.abs(exact - x).max() <= unit)


def _is_cut(values: np.ndarray, column: Column, *, named: bool = False) -> bool:
    """Return whether classes are numbers cut at thresholds, with some close to these on either side.

    Where their name says so (`named`), fewer different numbers are enough.

    Classes that are numbers are numbered through, or near those they are cut from: not ages 3, 5, 10.
    """
    known = np.isfinite(values) & ~column.missing
    x, classes = values[known], column.labels[known]
    levels = set(classes.tolist())
    if known.sum() < MANY_CASES or not 2 <= len(levels) <= MOST_CLASSES:
        return False
    if _in_order(x):  # of the file: see `find_leak`
        return False
    if column.values is not None and not _are_classes(column.values[known], x):
        return False
    parts = sorted((x[classes == level] for level in levels), key=np.median)
    gaps = [above.min() - below.max() for below, above in pairwise(parts)]
    enough = min(map(len, parts)) >= 5 and len(np.unique(x)) > (2 if named else 6) * len(parts)
    steps = 2.0 * np.diff(np.unique(x)).min()  # of whole numbers that leave 0 out, it is at 0
    close = np.median(gaps) <= max(0.06 * x.std() * len(parts), steps)
    return bool(enough and min(gaps) >= 0 and close)


def _are_classes(numbers: np.ndarray, x: np.ndarray) -> bool:
    """Return whether numbers are 1, 2, 3, ..., or rounded from others."""
    levels = np.unique(numbers)
    if (np.diff(levels) == 1.0).all():
        return True
    means = [x[numbers == level].mean() for level in levels]
    return bool((np.abs(means - levels) <= np.diff(levels).max()).all())


class Leak(NamedTuple):
    """A column that almost determines the outcome alone: in the order of the file, or in any."""

    column: str
    in_order: bool

    def words(self, target: str) -> str:
        """What may be wrong with it, and the line that drops it."""
        cause = "is made from it, or was known only after it"
        how = "alone almost determines"
        if self.in_order:
            cause = "is a row number or comes after the outcome"
            how = "follows the order of the file and almost determines"
        return f"{self.column} {how} {target}; if it {cause}: drop: [{yaml_text(self.column)}]"


def find_leak(columns: Mapping[str, Column], inputs: list[str], outcome: np.ndarray) -> Leak | None:
    """Return a column that tells the outcome nearly perfectly alone; first one in the order of the file.

    Of others one that is among two at most, as more are measures of one thing; not where the outcome itself
    goes with the order of the file, as what grows over the years goes with all that does.
    """
    rows = np.isfinite(outcome)
    told: dict[str, float] = {}
    for name in inputs if len(inputs) > 1 else ():  # a lone input may be a calibration curve
        column = columns[name]
        if column.kind not in ("number", "whole") or is_time(name):
            continue
        known = rows & np.isfinite(column.values)
        x, y = column.values[known], outcome[known]
        if len(x) < FEWEST_TOLD or not _may_tell(x, y) or (share := _rank_share(x, y)) <= NEARLY:
            continue
        if len(np.unique(x)) >= 0.9 * len(x) and _in_order(x):
            return Leak(name, in_order=True)
        n_levels, many = len(np.unique(y)), len(np.unique(x)) > MOST_CLASSES and len(x) > MANY_CASES
        if many and (n_levels > MOST_CLASSES or (n_levels == 2 and _parts_two(x, y))):
            told[name] = share
    if not 1 <= len(told) <= MOST_TOLD:
        return None
    known = outcome[rows]
    if _rank_share(np.arange(len(known)), known) > TREND:
        return None
    return Leak(max(told, key=lambda name: told[name]), in_order=False)


def _may_tell(x: np.ndarray, y: np.ndarray) -> bool:
    """Return whether some rows leave it open that x tells y: to rank all rows of many columns takes long."""
    some = slice(None, None, 1 + len(x) // SCREENED)
    return len(np.unique(y[some])) == 1 or _rank_share(x[some], y[some]) > LIKELY


def _parts_two(x: np.ndarray, y: np.ndarray) -> bool:
    """Return whether a threshold of x parts two values of y but for few rows of either."""
    order = np.argsort(x, kind="stable")
    x, above = x[order], y[order] == y.max()
    ends = np.append(np.flatnonzero(np.diff(x) > 0), len(x) - 1)  # of equal numbers
    wrong = np.cumsum(above)[ends] + np.sum(~above) - np.cumsum(~above)[ends]
    least = min(wrong.min(), (len(x) - wrong).min())
    return bool(
        least <= (1.0 - NEARLY) * len(x) and least <= 0.1 * min(above.sum(), (~above).sum())
    )


def _rank_share(x: np.ndarray, y: np.ndarray) -> float:
    """|Rank correlation| of two columns, over the largest that their ties leave."""
    ranks, score = pd.Series(x).rank(), pd.Series(y).rank()
    if ranks.nunique() == 1 or score.nunique() == 1:
        return 0.0
    largest = np.corrcoef(np.sort(ranks), np.sort(score))[0, 1]
    return float(abs(np.corrcoef(ranks, score)[0, 1]) / largest)
