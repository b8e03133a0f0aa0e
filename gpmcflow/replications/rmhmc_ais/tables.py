"""Tables of the evidence study: approximations, estimates, which method to use, and the verdict.

All are made of parts, one a finished run (`parts`), so that they can be rebuilt from parts
that were kept where the runs were not.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from gpmcflow.jobs.judgement import Estimate
from gpmcflow.jobs.parts import rows_of
from gpmcflow.replications.rmhmc_ais.claims import (
    claim_rows,
    estimate_of,
    hardest_setting_rows,
    of_setting,
    reference_estimate,
    size_rows,
)
from gpmcflow.replications.rmhmc_ais.parts import STUDY
from gpmcflow.replications.rmhmc_ais.work import advice, which_method, with_flops
from gpmcflow.replications.verdict import VERDICT_COLUMNS, number_cells, verdict_row


def tables(parts: Iterable[dict], published: dict) -> dict[str, pd.DataFrame]:
    """Frames "evidence", "approximations", "which_method", "verdict" from parts and printed numbers."""
    parts = list(parts)
    fits = pd.DataFrame([part["values"] for part in parts if part["kind"] == "approximation"])
    rows = [row for run in rows_of(parts, "evidence") for row in run["rows"]]
    estimates = with_flops(fits, pd.DataFrame(rows))
    estimates["advice"] = [advice(row) for row in rows]
    verdict = published_rows(fits, estimates, published) + claim_rows(fits, estimates)
    verdict += size_rows(fits, estimates, published)
    annealed = fits[fits["problem"].isin(estimates["problem"])]
    for grid in rows_of(parts, "map"):
        verdict += hardest_setting_rows(grid, annealed)
    frame = pd.DataFrame(verdict, columns=VERDICT_COLUMNS)
    return {
        "evidence": estimates,
        "approximations": fits,
        "which_method": which_method(estimates),
        "verdict": frame.sort_values("table", kind="stable", ignore_index=True),
    }


def published_rows(fits: pd.DataFrame, estimates: pd.DataFrame, published: dict) -> list[dict]:
    """Compare printed and reference numbers with ours, where the config has that problem."""
    rows = []
    for entry in published["values"]:
        for _, fit in of_setting(fits, entry).iterrows():
            if entry["column"] == "log_evidence_annealing":
                best = reference_estimate(estimates, fit["problem"])
                if best is None:
                    continue
                ours = estimate_of(best)
            else:
                ours = Estimate(float(fit[entry["column"]]))
            known = {name: entry[name] for name in ("table", "row", "column", "unit")}
            allowed = {"value": entry["tolerance"], "why": entry["why"]}
            cells = number_cells(ours, entry["value"], allowed)
            rows.append(verdict_row(STUDY, **known, printed=entry["value"], **cells))
    return rows
