"""What was checked of each model of an analysis: `checks.csv`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gpmcflow.diagnostics.rhat_limit import LEAST
from gpmcflow.studies.analysis.convergence import FEWEST_EFFECTIVE, NOT_ANNEALED

LARGEST_BAD_SHARE = 0.05  # of cases with a Pareto k above 0.7
LARGEST_EVIDENCE_ERROR = 0.5  # nats
COLUMNS = ("check", "model", "limit", "worst", "alarm", "touches", "settle")


def checks(
    models: pd.DataFrame, shown: str, again: str, evidence: pd.DataFrame | None = None
) -> pd.DataFrame:
    """What was checked of each model, the limit, the worst value, and what to do where it failed.

    ``again`` is the command that runs the analysis, ``evidence`` its `evidence_table` if it has one: rows of
    it begin with "evidence" and touch nothing but the order of the models.
    """
    more = f"write sampling: {{draws: N}} with N twice as large in the config, then: {again}"
    bad_share = "leave-one-out, share of rows with Pareto k above 0.7"
    rows = []
    for row in models[models["role"] == "model"].to_dict("records"):
        name, own = row["name"], []
        if np.isfinite(row.get("r_hat", np.nan)):
            fewest, bad = min(row["ess_bulk"], row["ess_tail"]), row["loo_bad_share"]
            limit = np.nan_to_num(row.get("r_hat_limit", LEAST), nan=LEAST)
            own += [
                ("R-hat", limit, row["r_hat"], row["r_hat"] > limit, more),
                ("effective draws", FEWEST_EFFECTIVE, fewest, fewest < FEWEST_EFFECTIVE, more),
                (bad_share, LARGEST_BAD_SHARE, bad, bad > LARGEST_BAD_SHARE,
                 "judge by the held-out rows instead"),
            ]  # fmt: skip
        if evidence is None:
            own += _at_maximum(row, again)
        touches = "what is shown" if name == shown else f"the comparison with {name}"
        rows += [_row(name, touches, each) for each in own]
        if evidence is not None:
            averaged = evidence.set_index("model").loc[name]
            rows.append(_row(name, "only its place by the evidence", _averaged(averaged, again)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(model: str, touches: str, each: tuple) -> dict[str, Any]:
    names = ("check", "limit", "worst", "alarm", "settle")
    return {"model": model, "touches": touches, **dict(zip(names, each, strict=True))}


def _at_maximum(row: dict[str, Any], again: str) -> list[tuple]:
    if str(row["evidence_alarm"]).startswith(NOT_ANNEALED):  # which the comparison says
        return []
    longer = f"write evidence: {{temperatures: 200}} in the config, then: {again}"
    error, limit = row["log_evidence_se"], LARGEST_EVIDENCE_ERROR
    failed = bool(row["evidence_alarm"]) or error > limit
    return [("standard error of the log evidence", limit, error, failed, longer)]


def _averaged(row: pd.Series, again: str) -> tuple:
    n = len(row["alarm"].split("; ")) if row["alarm"] else 0
    settle = f"write {row['settle']} in the config, then: {again}" if n else ""
    return ("evidence, reasons to doubt it", 0, n, n > 0, settle)
