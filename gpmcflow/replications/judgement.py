"""One judgement of every verdict: an estimate with its error beside a limit, a range or a reference.

Each position is claimed falsely in at most 5 % of cases, "not resolved" being the answer where the data
do not say: an order needs a 95 % interval that excludes the limit, a range one that lies inside it
(an equivalence test), an equality one that lies within a scale of the reference with no difference seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

from gpmcflow.diagnostics.autocorrelation import mean_and_error

LEVEL = 0.95  # of the intervals
ALARM = 1e-3  # chance that a whole comparison calls equal numbers different
PRECISION, TIME_PRECISION = 0.10, 0.15  # relative error that agreement needs; of times
NOT_RESOLVED = "not resolved"
CLAIM, NUMBER = ("holds", "does not hold"), ("agrees", "differs")


@dataclass(frozen=True)
class Estimate:
    """An estimate, its standard error, and the degrees of freedom of the error.

    Without an error it is a number that has none: a count, a computation. An error of nan is not known.
    A centre that is infinite is that of a chain that never moved.
    """

    centre: float
    error: float = 0.0
    freedom: float = math.inf

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Mean of independent values, one a chain or data set: n - 1 degrees of freedom."""
        mean, error = mean_and_error(values)
        return cls(float(mean), float(error), len(values) - 1)

    def log(self) -> Estimate:
        """Its logarithm, by the delta method; of 0 minus infinity, of a negative number nan."""
        if not self.centre > 0.0:
            return Estimate(-math.inf if self.centre == 0.0 else math.nan, math.nan, 0.0)
        return Estimate(math.log(self.centre), self.error / self.centre, self.freedom)

    def exp(self) -> Estimate:
        """Back from the logarithm, by the delta method."""
        ratio = math.exp(self.centre)
        error = ratio * self.error if math.isfinite(self.centre) else math.nan
        return Estimate(ratio, error, self.freedom)

    def minus(self, other: Estimate) -> Estimate:
        """Difference of two independent estimates."""
        return combined((self, 1.0), (other, -1.0))

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Interval by Student's t; the whole line where the error is not known."""
        if not math.isfinite(self.centre):
            whole = (-math.inf, math.inf)
            return whole if math.isnan(self.centre) else (self.centre, self.centre)
        if self.error == 0.0:
            return self.centre, self.centre
        if not (math.isfinite(self.error) and self.freedom > 0):
            return -math.inf, math.inf
        half = float(student_t.ppf(0.5 + 0.5 * level, self.freedom)) * self.error
        return self.centre - half, self.centre + half

    def cells(self) -> dict[str, float]:
        """Columns ours and mcse of a verdict's row."""
        return {"ours": self.centre, "mcse": self.error}


def combined(*terms: tuple[Estimate, float]) -> Estimate:
    """Weighted sum of independent estimates: errors add up in squares, degrees of freedom by Welch (1947).

    These are at most the least of a term times the number of terms, what terms of equal errors have: two
    values that are close by chance beside sixteen others would be trusted too much.
    """
    centre = sum(weight * term.centre for term, weight in terms)
    squares = [(weight * term.error) ** 2 for term, weight in terms]
    least = min(term.freedom for term, _ in terms)
    if least <= 0:
        return Estimate(centre, math.nan, least)
    lost = sum(v**2 / term.freedom for v, (term, _) in zip(squares, terms, strict=True))
    freedom = sum(squares) ** 2 / lost if lost > 0.0 else math.inf
    return Estimate(centre, math.sqrt(sum(squares)), min(freedom, len(terms) * least))


def side(estimate: Estimate, limit: float) -> str:
    """Whether an estimate is "above" or "below" a limit."""
    low, high = estimate.interval()
    return "above" if low > limit else "below" if high < limit else NOT_RESOLVED


def within(estimate: Estimate, least: float, most: float) -> str:
    """Whether an estimate is "within" a closed range, "above" or "below" it."""
    low, high = estimate.interval()
    if least <= low and high <= most:
        return "within"
    return "above" if low > most else "below" if high < least else NOT_RESOLVED


def near(
    estimate: Estimate,
    value: float,
    *,
    tolerance: float = math.nan,
    factor: float = math.nan,
    precision: float = PRECISION,
) -> str:
    """Whether an estimate is "within" a tolerance or a factor of a value, and its relative error small."""
    if math.isnan(factor):
        position = within(estimate, value - tolerance, value + tolerance)
    else:
        position = within(estimate.log(), math.log(value / factor), math.log(value * factor))
    rough = estimate.error > precision * abs(estimate.centre)
    return NOT_RESOLVED if position == "within" and rough else position


def is_zero(difference: Estimate, scale: float, n_comparisons: int = 1) -> str:
    """Whether a difference is "equal" to 0 up to a scale that matters, "above" or "below" it.

    One of ``n_comparisons`` (Bonferroni's correction) calls an equal number different once in 1000.
    """
    low, high = difference.interval(1.0 - ALARM / n_comparisons)
    if not low <= 0.0 <= high:
        return "above" if low > 0.0 else "below"
    return "equal" if within(difference, -scale, scale) == "within" else NOT_RESOLVED


def verdict(*claims: tuple[str, str] | bool, words: tuple[str, str] = CLAIM) -> str:
    """The first of the words if all claims are true, the second if one is false, else "not resolved".

    A claim is a pair, the position that was judged and the one it should be, or whether a fact is so.
    """
    truths: list[bool | None] = []
    for claim in claims:
        if isinstance(claim, bool):
            truths.append(claim)
        else:
            position, wanted = claim
            truths.append(None if position == NOT_RESOLVED else position == wanted)
    if all(truths):
        return words[0]
    return words[1] if False in truths else NOT_RESOLVED


class Agreement(NamedTuple):
    """Many differences judged at once: in standard errors their root mean square and the largest."""

    rms: float
    largest: float
    where: int
    limit: float
    verdict: str


def all_equal(
    differences: Sequence[Estimate], scales: Sequence[float], known: bool = True
) -> Agreement:
    """Whether differences that ought to be 0 are, each up to its scale, where their errors are known."""
    n = len(differences)
    z = np.array([abs(difference.centre) / difference.error for difference in differences])
    pairs = zip(differences, scales, strict=True)
    positions = [is_zero(difference, scale, n) for difference, scale in pairs]
    limit = float(student_t.isf(0.5 * ALARM / n, math.inf))
    judged = verdict(*((position, "equal") for position in positions)) if known else NOT_RESOLVED
    return Agreement(float(np.sqrt(np.mean(z**2))), float(z.max()), int(z.argmax()), limit, judged)


# Rows of a verdict table: a printed number or a claim beside ours.

VERDICT_COLUMNS = [
    *("study", "table", "row", "column", "unit", "printed", "recomputed", "ours", "mcse"),
    *("tolerance", "verdict", "why"),
]


def verdict_row(*, table: str, row: str, column: str, verdict: str, **cells) -> dict:
    """Return one row; cells that are not given stay empty."""
    known = {"table": table, "row": row, "column": column, "verdict": verdict}
    unknown = set(cells) - set(VERDICT_COLUMNS)
    if unknown:
        raise TypeError(f"verdict row: unknown columns {sorted(unknown)}")
    return dict.fromkeys(VERDICT_COLUMNS, "") | known | cells


def verdict_table(study: str, rows: Sequence[dict]) -> pd.DataFrame:
    """The verdict of a study, of its rows."""
    return pd.DataFrame(rows, columns=VERDICT_COLUMNS).assign(study=study)


def claim_row(claim: str, row: str, column: str, **cells) -> dict:
    """Row of a claim in words."""
    return verdict_row(table=f"claim: {claim}", row=row, column=column, **cells)


def judged_row(claim: str, row: str, column: str, ours: Estimate, *claims, **cells) -> dict:
    """Row of a claim about an estimate, which holds where each position is what it should be."""
    return claim_row(claim, row, column, **ours.cells(), verdict=verdict(*claims), **cells)


def missing_row(claim: str, need: str, row: str = "", column: str = "") -> dict:
    """Row of a claim whose run is not there: what it needs."""
    why = f"not in this config: {need}"
    return claim_row(claim, row, column, verdict="missing", why=why)


def joined(*reasons: str) -> str:
    """Reasons that say something, one after the other."""
    return "; ".join(filter(None, reasons))


def number_cells(
    ours: Estimate,
    value: float,
    allowed: dict[str, Any],
    note: str = "",
    precision: float = PRECISION,
) -> dict:
    """Cells of an estimate beside a printed number.

    ``allowed`` is its tolerance (absolute), its share of the number, or a factor, and why.
    """
    if "factor" in allowed:
        shown = f"factor {allowed['factor']:g}"
        position = near(ours, value, factor=allowed["factor"], precision=precision)
    else:
        shown = allowed["value"] if "value" in allowed else allowed["share"] * value
        position = near(ours, value, tolerance=shown, precision=precision)
    judged = verdict((position, "within"), words=NUMBER)
    return ours.cells() | {
        "tolerance": shown,
        "verdict": judged,
        "why": joined(allowed["why"], note),
    }


def printed_row(known: dict, cells: dict | None, missing: str, *reasons: str) -> dict:
    """Row of a printed number: ``missing`` says what is not there; reasons stand before a disagreement."""
    if cells is None:
        return verdict_row(**known, verdict="missing", why=missing)
    if cells["verdict"] in (NUMBER[1], NOT_RESOLVED):
        cells = cells | {"why": joined(*reasons, cells["why"])}
    return verdict_row(**known, **cells)


def reason_of(published: dict, **cell) -> str:
    """Checked reason why a printed cell cannot agree, or nothing."""
    for entry in published["reasons"]:
        if all(entry[key] == value for key, value in cell.items()):
            return entry["why"]
    return ""
