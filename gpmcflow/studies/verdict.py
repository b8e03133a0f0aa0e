"""Rows of a verdict table: a printed number or a claim beside ours."""

from __future__ import annotations

import numpy as np
import pandas as pd

VERDICT_COLUMNS = [
    "study", "table", "row", "column", "unit", "printed", "recomputed", "ours", "mcse",
    "tolerance", "verdict", "why",
]  # fmt: skip
NOT_RUN = ("missing", "not run")


def of_this_run(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return a study's tables, of "verdict" only the rows that its runs fill.

    A run of the workflow ends when all of its config is done: what is missing then is not in the config.
    """
    verdict = tables["verdict"]
    filled = verdict[~verdict["verdict"].isin(NOT_RUN)].reset_index(drop=True)
    return tables | {"verdict": filled}


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


def missing_row(study: str, claim: str, need: str, row: str = "", column: str = "") -> dict:
    """Row of a claim whose run is not there: what it needs."""
    why = f"not in this config: {need}"
    return claim_row(study, claim, row, column, verdict="missing", why=why)


def compare(study: str, entry: dict, ours: float, mcse: float) -> dict:
    """Row for one number of a published table.

    ``entry`` has table, row, column, unit, value, tolerance (absolute) and why; it agrees if the
    distance is within sqrt(tolerance^2 + (3 mcse)^2). An error larger than the tolerance resolves
    nothing.
    """
    allowed = float(np.hypot(entry["tolerance"], 3.0 * mcse))
    judged = "agrees" if abs(ours - entry["value"]) <= allowed else "differs"
    return verdict_row(
        study,
        table=entry["table"],
        row=entry["row"],
        column=entry["column"],
        unit=entry["unit"],
        printed=entry["value"],
        ours=ours,
        mcse=mcse,
        tolerance=entry["tolerance"],
        verdict=judged if mcse <= entry["tolerance"] else "not resolved",
        why=entry["why"],
    )
