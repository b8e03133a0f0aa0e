"""What an estimate of the evidence costs with each method, and which method to use when."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from gpmcflow.figures.estimates import best_rows, combine_replicates

WANTED_ERROR = 0.05  # nats: the standard error all methods are compared at
# Floating-point operations of a likelihood gradient, in n^2: two triangular products, two general ones
# (principal axes), or the products and triangular solves of an iteration of RMHMC's equations.
FLOPS = {"latent_hmc": 4.0, "rmhmc": 6.0}
INEXACT = "a fixed number of iterations is exact only where they converge"
COLUMNS = [
    "problem", "rank", "method", "advice", "seconds_to_0.05", "times_the_best", "gigaflops_to_0.05",
    "time_times_variance", "n_temperatures", "log_evidence", "log_evidence_mcse", "effective_size",
    "seconds", "gradients", "factorisations", "alarm",
]  # fmt: skip


def advice(row: Mapping[str, Any]) -> str:
    """What to do with one estimate: use it, refine it, or not trust it and why."""
    if row["alarm"]:
        return f"do not use: {row['alarm']}"
    if row["fixed_iters"]:
        return f"do not use: {INEXACT}"
    if row["standard_error"] <= WANTED_ERROR:
        return "use"
    more = math.ceil((row["standard_error"] / WANTED_ERROR) ** 2)
    return f"usable; {more} times the runs for a standard error of {WANTED_ERROR:g}"


def with_flops(fits: pd.DataFrame, estimates: pd.DataFrame) -> pd.DataFrame:
    """Add ``gigaflops`` of each run and ``pilot_gigaflops``, from the counts and the number n of cases.

    2 n^2 a gradient (4 n^2 in principal axes, 6 n^2 an iteration of RMHMC's equations), n^2 a likelihood
    alone, n^3 / 3 a factorisation; a pilot is taken to factorise as often for a gradient as the run.
    """
    n = estimates["problem"].map(dict(zip(fits["problem"], fits["n"], strict=True))).astype(float)
    per_gradient = estimates["sampler"].map(FLOPS).fillna(2.0) * n**2
    gradients, factorised = estimates["n_gradient"], estimates["n_factorisation"] * n**3 / 3.0
    alone = (estimates["n_likelihood"] - gradients).clip(lower=0.0) * n**2
    ratio = per_gradient + factorised / gradients.where(gradients > 0)
    return estimates.assign(
        gigaflops=(gradients * per_gradient + alone + factorised) / 1e9,
        pilot_gigaflops=(estimates["pilot_gradient"] * ratio).fillna(0.0) / 1e9,
    )


def which_method(estimates: pd.DataFrame) -> pd.DataFrame:
    """The methods of each problem by the time they take to a standard error of 0.05 nats.

    Replicates are averaged and their costs added. Of the ladder lengths of a method the one that
    gets there first, among those without an alarm; if all raised one the longest is shown, with no
    time ("not estimable"): its weights have collapsed, and its error means nothing. seconds to 0.05
    = pilot + run (se / 0.05)^2; gigaflops likewise (`with_flops`, whose columns ``estimates`` has).
    ``time_times_variance`` (seconds nat^2, without the pilot) does not depend on the number of
    particles or replicates.
    """
    rows = estimates[estimates["direction"] == "forward"]
    points = combine_replicates(rows)
    fixed = points["method"].map(rows.groupby("method")["fixed_iters"].max()) > 0
    points["alarm"] = points["alarm"].where(~fixed | points["alarm"].ne(""), INEXACT)
    points["factorisations"] = _sums(rows, points, "n_factorisation")
    points["pilot_seconds"] = _sums(rows, points, "pilot_seconds", once=True)
    points["pilot_gigaflops"] = _sums(rows, points, "pilot_gigaflops", once=True)
    points = points.join(pd.DataFrame([_work(point) for _, point in points.iterrows()]))
    tables = []
    for _, here in points.groupby("problem", sort=False):
        chosen = []
        for _, lengths in here.groupby("method", sort=False):
            trusted = lengths[lengths["seconds_to_0.05"].notna()]
            least = trusted["seconds_to_0.05"].idxmin() if len(trusted) else None
            chosen.append(best_rows(lengths).iloc[0] if least is None else trusted.loc[least])
        table = pd.DataFrame(chosen).sort_values("seconds_to_0.05", kind="stable")
        table["times_the_best"] = table["seconds_to_0.05"] / table["seconds_to_0.05"].min()
        table["rank"] = np.where(table["seconds_to_0.05"].notna(), np.arange(1, len(table) + 1), 0)
        tables.append(table)
    table = pd.concat(tables, ignore_index=True)
    table["advice"] = [_advice_of(row) for _, row in table.iterrows()]
    table["rank"] = table["rank"].where(table["rank"] > 0).astype("Int64")
    table = table.rename(columns={"standard_error": "log_evidence_mcse", "n_gradient": "gradients"})
    return table[COLUMNS]


def _sums(rows: pd.DataFrame, points: pd.DataFrame, name: str, once: bool = False) -> np.ndarray:
    """Sum over replicates of a cost, or the one value they share, for each point."""
    group = rows.groupby(["problem", "method", "n_temperatures"], sort=False)[name]
    total = (group.max() if once else group.sum()).fillna(0.0)
    keys = zip(points["problem"], points["method"], points["n_temperatures"], strict=True)
    return np.array([total[key] for key in keys], dtype=float)


def _work(point: pd.Series) -> dict[str, float]:
    """Cost of one point at the wanted error; nan where it is not to be trusted."""
    error = float(point["standard_error"])
    trusted = not point["alarm"] and np.isfinite(error) and error > 0.0
    ratio = (error / WANTED_ERROR) ** 2 if trusted else np.nan
    seconds, flops = (point[c] - point[f"pilot_{c}"] for c in ("seconds", "gigaflops"))
    return {
        "seconds_to_0.05": point["pilot_seconds"] + seconds * ratio,
        "gigaflops_to_0.05": point["pilot_gigaflops"] + flops * ratio,
        "time_times_variance": seconds * error**2 if trusted else np.nan,
    }


def _advice_of(row: pd.Series) -> str:
    if row["alarm"]:
        return f"not estimable: {row['alarm']}"
    if row["times_the_best"] <= 1.5:
        return "first choice" if row["rank"] == 1 else "as good as the first"
    if row["times_the_best"] <= 10.0:
        return f"works, at {row['times_the_best']:.1f} times the time"
    return f"works, but takes {row['times_the_best']:.0f} times the time"
