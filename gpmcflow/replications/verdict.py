"""Rows of a verdict table: a printed number or a claim beside ours."""

from __future__ import annotations

from typing import Any

from gpmcflow.replications.judgement import (
    NOT_RESOLVED,
    NUMBER,
    PRECISION,
    Estimate,
    near,
    verdict,
)

VERDICT_COLUMNS = [
    *("study", "table", "row", "column", "unit", "printed", "recomputed", "ours", "mcse"),
    *("tolerance", "verdict", "why"),
]


def verdict_row(study: str, *, table: str, row: str, column: str, verdict: str, **cells) -> dict:
    """Return one row; cells that are not given stay empty."""
    known = {"study": study, "table": table, "row": row, "column": column, "verdict": verdict}
    unknown = set(cells) - set(VERDICT_COLUMNS)
    if unknown:
        raise TypeError(f"verdict row: unknown columns {sorted(unknown)}")
    return dict.fromkeys(VERDICT_COLUMNS, "") | known | cells


def claim_row(study: str, claim: str, row: str, column: str, **cells) -> dict:
    """Row of a claim in words."""
    return verdict_row(study, table=f"claim: {claim}", row=row, column=column, **cells)


def judged_row(
    study: str, claim: str, row: str, column: str, ours: Estimate, *claims, **cells
) -> dict:
    """Row of a claim about an estimate, which holds where each position is what it should be."""
    judged = ours.cells() | {"verdict": verdict(*claims)}
    return claim_row(study, claim, row, column, **judged, **cells)


def missing_row(study: str, claim: str, need: str, row: str = "", column: str = "") -> dict:
    """Row of a claim whose run is not there: what it needs."""
    why = f"not in this config: {need}"
    return claim_row(study, claim, row, column, verdict="missing", why=why)


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


def printed_row(study: str, known: dict, cells: dict | None, missing: str, *reasons: str) -> dict:
    """Row of a printed number: ``missing`` says what is not there; reasons stand before a disagreement."""
    if cells is None:
        return verdict_row(study, **known, verdict="missing", why=missing)
    if cells["verdict"] in (NUMBER[1], NOT_RESOLVED):
        cells = cells | {"why": joined(*reasons, cells["why"])}
    return verdict_row(study, **known, **cells)


def reason_of(published: dict, **cell) -> str:
    """Checked reason why a printed cell cannot agree, or nothing."""
    for entry in published["reasons"]:
        if all(entry[key] == value for key, value in cell.items()):
            return entry["why"]
    return ""
