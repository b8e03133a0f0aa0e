"""Estimates as figures and tables show them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import logsumexp

from gpmcflow.errors import InputError
from gpmcflow.evidence.estimates import half_width

# Annealing groups of an evidence tree, as the figures read them.

_ANNEALING = re.compile(r"annealing(_.+)?")


def annealing_groups(tree: xr.DataTree) -> list[xr.Dataset]:
    """Annealing groups of an evidence tree, shortest ladder first, forward before reverse."""
    groups = [
        node.to_dataset() for name, node in tree.children.items() if _ANNEALING.fullmatch(str(name))
    ]
    return sorted(groups, key=lambda group: (group.sizes["temperature"], -direction_sign(group)))


def longest_ladders(trees: Mapping[str, xr.DataTree]) -> dict[str, xr.Dataset]:
    """Longest forward ladder of each method."""
    return {
        name: [group for group in annealing_groups(tree) if direction_sign(group) > 0][-1]
        for name, tree in trees.items()
    }


def direction_sign(group: xr.Dataset) -> float:
    """-1 for a reverse run, whose weights enter by their inverse, else 1."""
    return -1.0 if group.attrs.get("direction") == "reverse" else 1.0


def cumulated_weights(group: xr.Dataset) -> np.ndarray:
    """Log weights (..., chain, temperature) after each increment."""
    increments = group["log_weight_increment"].transpose(..., "chain", "temperature")
    return np.cumsum(increments.values, axis=-1)


def betas_reached(group: xr.Dataset) -> np.ndarray:
    """Inverse temperature that each increment leads to, and its transition is made at."""
    beta = np.asarray(group["beta"].values, dtype=float)
    return beta if direction_sign(group) > 0 else np.append(beta[1:], 0.0)


def ladder_label(group: xr.Dataset) -> str:
    """Length of the ladder, and whether the run went in reverse."""
    label = f"{group.sizes['temperature']} temperatures"
    return label if direction_sign(group) > 0 else f"{label}, reverse"


# Rows of evidence.csv, one a replicate, joined into the points that figures and report show.

INTERVAL = 1.96  # half width of a 95 % interval, in standard errors that are read as normal
_GROUP = ["problem", "method", "direction", "n_temperatures"]
_SAME = ["sampler", "reference", "ladder", "coordinates", "n_particles"]
_COUNTS = [
    *("n_gradient", "pilot_gradient", "n_likelihood"),
    *("gigaflops", "pilot_gigaflops", "seconds", "pilot_seconds"),
]
_NEEDED = [
    *_GROUP,
    *_SAME,
    *_COUNTS,
    *("log_evidence", "standard_error", "effective_size", "acceptance_rate", "alarm"),
]


def require_columns(frame: pd.DataFrame, columns: Iterable[str], where: str) -> None:
    """Raise `InputError` that names the columns a table lacks."""
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise InputError(
            f"{where}: no column {', '.join(map(repr, missing))} (found: "
            f"{', '.join(map(str, frame.columns))}); run the step that writes the table again."
        )


def combine_replicates(evidence: pd.DataFrame, where: str = "evidence table") -> pd.DataFrame:
    """One row per problem, method, direction and ladder length, in the order of the table.

    Evidence estimates Z_r of R replicates are averaged, as each is unbiased: log Z = log mean Z_r,
    with standard error sqrt(sum_r (W_r se_r)^2), W_r = Z_r / sum Z, whose degrees of freedom are those
    of Welch and Satterthwaite; ``interval`` is half the width of the 95 % interval. Reverse runs
    estimate 1/Z, so there the mean is of 1/Z_r. ``seconds``, ``gigaflops`` and ``n_gradient`` are what
    the average cost: the sum over replicates and, once, the pilot they share. ``effective_size`` is the
    smallest one, ``alarm`` that of the worst replicate with the number of replicates that raised one.

    Raises `InputError` when a column is missing.
    """
    require_columns(evidence, _NEEDED, where)
    alarm = evidence["alarm"].astype(object)  # an empty column is read from CSV as numbers
    evidence = evidence.assign(alarm=alarm.where(alarm.notna(), "").astype(str))
    groups = evidence.groupby(_GROUP, sort=False, dropna=False)
    rows = [dict(zip(_GROUP, key, strict=True)) | _combined(rows) for key, rows in groups]
    return pd.DataFrame(rows)


def series_name(method: str, direction: str) -> str:
    """Name of a curve: the method's, and how it was run where that is not forward."""
    return method if direction == "forward" else f"{method} ({direction})"


def best_rows(points: pd.DataFrame) -> pd.DataFrame:
    """One row of combined estimates per problem and method.

    The one with the smallest standard error among those without an alarm; if all raised one, that
    of the longest ladder.
    """
    chosen = []
    for _, rows in points.groupby(["problem", "method", "direction"], sort=False, dropna=False):
        trusted = rows[(rows["alarm"] == "") & rows["standard_error"].notna()]
        best = (
            trusted["standard_error"].idxmin() if len(trusted) else rows["n_temperatures"].idxmax()
        )
        chosen.append(best)
    return points.loc[chosen].reset_index(drop=True)


def focus(points: pd.DataFrame, anchors: Iterable[float]) -> tuple[float, float]:
    """Range of log evidence that shows the trusted estimates and the finite ``anchors``.

    The best estimate (smallest standard error, no alarm) and the anchors (EP and its correction)
    are always inside; other trusted estimates within three times that spread widen it.
    """
    anchors = [value for value in anchors if np.isfinite(value)]
    points = points[np.isfinite(points["log_evidence"])]
    trusted = points[(points["alarm"] == "") & np.isfinite(points["standard_error"])]
    if trusted.empty:
        values = anchors or list(points["log_evidence"]) or [0.0]
        low, high = min(values), max(values)
        spread = max(high - low, 1.0)
        return low - 0.5 * spread, high + 0.5 * spread
    best = trusted.loc[trusted["standard_error"].idxmin()]
    error = trusted["interval"]
    centre = best["log_evidence"]
    spread = max([abs(value - centre) for value in anchors] + [float(error.median()), 1e-3])
    near = (trusted["log_evidence"] - centre).abs() <= 3.0 * spread
    ends = pd.concat(
        [(trusted["log_evidence"] - error)[near], (trusted["log_evidence"] + error)[near]]
    )
    ends = ends.clip(centre - 3.0 * spread, centre + 3.0 * spread)
    low, high = min([*anchors, ends.min()]), max([*anchors, ends.max()])
    margin = 0.08 * (high - low)
    return low - margin, high + margin


def _combined(rows: pd.DataFrame) -> dict:
    sign = -1.0 if rows["direction"].iloc[0] == "reverse" else 1.0
    logs = sign * rows["log_evidence"].to_numpy(dtype=float)
    total = logsumexp(logs)
    with np.errstate(invalid="ignore"):
        weights = np.exp(logs - total)
    error, df = _joint_error(rows, weights)
    alarmed = rows[rows["alarm"] != ""]
    alarm = ""
    if len(alarmed):
        sizes = alarmed["effective_size"].to_numpy(dtype=float)
        worst = int(np.argmin(np.where(np.isnan(sizes), np.inf, sizes)))
        alarm = alarmed["alarm"].iloc[worst]
        if len(rows) > 1:
            alarm += f" (in {len(alarmed)} of {len(rows)} replicates)"
    return {
        **{name: rows[name].iloc[0] for name in _SAME},
        "n_replicates": len(rows),
        "log_evidence": sign * (total - np.log(len(rows))),
        "standard_error": error,
        "degrees_of_freedom": df,
        "interval": float(half_width(df) * error),
        "effective_size": rows["effective_size"].min(),
        "acceptance_rate": rows["acceptance_rate"].mean(),
        "n_gradient": rows["n_gradient"].sum() + _once(rows["pilot_gradient"]),
        "n_likelihood": rows["n_likelihood"].sum(),
        "gigaflops": rows["gigaflops"].sum() + _once(rows["pilot_gigaflops"]),
        "seconds": rows["seconds"].sum(min_count=1) + _once(rows["pilot_seconds"]),
        "alarm": alarm,
    }


def _joint_error(rows: pd.DataFrame, weights: np.ndarray) -> tuple[float, float]:
    """Standard error of a weighted mean and its degrees of freedom; tables of old have none: infinite."""
    variance = (weights * rows["standard_error"].to_numpy(dtype=float)) ** 2
    total = variance.sum()
    if "degrees_of_freedom" not in rows or not total > 0.0:
        return float(np.sqrt(total)), np.inf
    df = rows["degrees_of_freedom"].fillna(np.inf).to_numpy(dtype=float)
    lost = (variance**2 / df).sum()
    return float(np.sqrt(total)), float(total**2 / lost) if lost > 0.0 else np.inf


def _once(column: pd.Series) -> float:
    """Cost of the pilot, which every replicate's row repeats; no pilot costs nothing."""
    largest = column.max()
    return 0 if pd.isna(largest) else largest
