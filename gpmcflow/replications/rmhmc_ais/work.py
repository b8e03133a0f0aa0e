"""What an estimate of the evidence costs with each method, and which method to use when."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from gpmcflow.replications.figures.estimates import best_rows, combine_replicates

WANTED_ERROR = 0.05  # nats: the standard error all methods are compared at
# Floating-point operations of a likelihood gradient, in n^2: two triangular products, two general ones
# (principal axes), or the products and triangular solves of an iteration of RMHMC's equations.
FLOPS = {"latent_hmc": 4.0, "rmhmc": 6.0}
INEXACT = "a fixed number of iterations is exact only where they converge"
COLUMNS = [
    *("problem", "rank", "method", "advice", "seconds_to_0.05", "times_the_best"),
    *("gigaflops_to_0.05", "time_times_variance", "n_temperatures", "log_evidence"),
    *("log_evidence_mcse", "effective_size", "seconds", "gradients", "factorisations", "alarm"),
]


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
    key = ["problem", "method", "n_temperatures"]
    charged = rows.groupby(key).agg(
        fixed_iters=("fixed_iters", "max"),
        factorisations=("n_factorisation", "sum"),
        pilot_seconds=("pilot_seconds", "max"),
        pilot_gigaflops=("pilot_gigaflops", "max"),
    )
    points = combine_replicates(rows).merge(charged.fillna(0.0), how="left", on=key)
    inexact = (points["fixed_iters"] > 0) & (points["alarm"] == "")
    points["alarm"] = points["alarm"].mask(inexact, INEXACT)
    error = points["standard_error"]
    error = error.where((points["alarm"] == "") & np.isfinite(error) & (error > 0.0))
    ratio, alone = (error / WANTED_ERROR) ** 2, points["seconds"] - points["pilot_seconds"]
    points["seconds_to_0.05"] = points["pilot_seconds"] + alone * ratio
    flops = points["gigaflops"] - points["pilot_gigaflops"]
    points["gigaflops_to_0.05"] = points["pilot_gigaflops"] + flops * ratio
    points["time_times_variance"] = alone * error**2
    chosen = [lengths for _, lengths in points.groupby(["problem", "method"], sort=False)]
    table = pd.DataFrame(map(_first_there, chosen))
    seconds = table.groupby("problem", sort=False)["seconds_to_0.05"]
    table["times_the_best"] = table["seconds_to_0.05"] / seconds.transform("min")
    table["rank"] = seconds.rank(method="first").astype("Int64")
    table["advice"] = table.apply(_advice_of, axis=1)
    order = np.lexsort([table["seconds_to_0.05"], pd.factorize(table["problem"])[0]])
    names = {"standard_error": "log_evidence_mcse", "n_gradient": "gradients"}
    return table.iloc[order].rename(columns=names).reset_index(drop=True)[COLUMNS]


def _first_there(lengths: pd.DataFrame) -> pd.Series:
    """The ladder length of a method that gets to the wanted error first, or the best one without a time."""
    seconds = lengths["seconds_to_0.05"]
    return lengths.loc[seconds.idxmin()] if seconds.notna().any() else best_rows(lengths).iloc[0]


def _advice_of(row: pd.Series) -> str:
    if row["alarm"]:
        return f"not estimable: {row['alarm']}"
    if row["times_the_best"] <= 1.5:
        return "first choice" if row["rank"] == 1 else "as good as the first"
    if row["times_the_best"] <= 10.0:
        return f"works, at {row['times_the_best']:.1f} times the time"
    return f"works, but takes {row['times_the_best']:.0f} times the time"
