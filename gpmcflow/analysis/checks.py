"""What was checked of each model of an analysis: `checks.csv`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.analysis.convergence import FEWEST_EFFECTIVE, NOT_ANNEALED, convergence
from gpmcflow.diagnostics.rhat_limit import LEAST

LARGEST_BAD_SHARE = 0.05  # of cases with a Pareto k above 0.7
LARGEST_EVIDENCE_ERROR = 0.5  # nats
COLUMNS = ("check", "model", "limit", "worst", "alarm", "reason", "touches", "settle")


def checks(
    models: pd.DataFrame,
    shown: str,
    again: str,
    evidence: pd.DataFrame | None = None,
    final: xr.DataTree | None = None,
) -> pd.DataFrame:
    """What was checked of each model, the limit, the worst value, and what to do where it failed.

    ``final`` are the draws of the shown one given all rows, if there are any.
    ``again`` is the command that runs the analysis, ``evidence`` its `evidence_table` if it has one: rows of
    it begin with "evidence" and touch nothing but the order of the models.
    """
    more = f"write sampling: {{draws: N}} with N twice as large in the config, then: {again}"
    bad_share = "leave-one-out, share of rows with Pareto k above 0.7"
    rows = []
    for row in models[models["role"] == "model"].to_dict("records"):
        name, own = row["name"], []
        if np.isfinite(row.get("r_hat", np.nan)):
            bad = row["loo_bad_share"]
            own += _of_draws(row, more)
            own += (
                _of_draws(convergence(final), more, ", all rows") if final and name == shown else []
            )
            own += [
                (bad_share, LARGEST_BAD_SHARE, bad, bad > LARGEST_BAD_SHARE,
                 "judge by the held-out rows instead"),
            ]  # fmt: skip
        touches = "what is shown" if name == shown else f"the comparison with {name}"
        rows += [_row(name, touches, each) for each in own]
        if evidence is None:
            of_evidence = _at_maximum(row, again)
        else:
            of_evidence = [_averaged(evidence.set_index("model").loc[name], again)]
        rows += [_row(name, "only its place by the evidence", each) for each in of_evidence]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _of_draws(row: Mapping[str, Any], more: str, of: str = "") -> list[tuple]:
    """R-hat, and the smallest effective size."""
    fewest, limit = min(row["ess_bulk"], row["ess_tail"]), row.get("r_hat_limit", LEAST)
    limit = np.nan_to_num(limit, nan=LEAST)
    return [
        (f"R-hat{of}", limit, row["r_hat"], row["r_hat"] > limit, more),
        (f"effective draws{of}", FEWEST_EFFECTIVE, fewest, fewest < FEWEST_EFFECTIVE, more),
    ]


def _row(model: str, touches: str, each: tuple) -> dict[str, Any]:
    names = ("check", "limit", "worst", "alarm", "settle", "reason")
    return {"model": model, "touches": touches, **dict(zip(names, each, strict=False))}


def _at_maximum(row: dict[str, Any], again: str) -> list[tuple]:
    if str(row["evidence_alarm"]).startswith(NOT_ANNEALED):  # which the comparison says
        return []
    longer = f"write evidence: {{temperatures: 200}} in the config, then: {again}"
    error, limit, alarm = row["log_evidence_se"], LARGEST_EVIDENCE_ERROR, row["evidence_alarm"]
    size = ("evidence, standard error", limit, error, error > limit, longer)
    return [size, _doubts(alarm, longer)] if alarm else [size]


def _doubts(alarm: str, settle: str) -> tuple:
    """The alarms of an evidence, which name themselves."""
    n = len(alarm.split("; ")) if alarm else 0
    return ("evidence, alarms", 0, n, n > 0, settle if n else "", alarm)


def _averaged(row: pd.Series, again: str) -> tuple:
    return _doubts(row["alarm"], f"write {row['settle']} in the config, then: {again}")
