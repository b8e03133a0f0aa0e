"""The table of `peers.csv` and its picture, from the committed rows alone.

    python -m benchmarks.peers.table [--picture docs/figures/peers.png]

Prints the table in Markdown; the documentation makes the same one. A goal that is missed is a row like
others.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gpmcflow.replications.figures.style import handle, legend_below, log_axis, new_figure, styled

from .common import AGAIN, KEY, MEANS_DIFFER, NOT_MIXED, ROWS

JOBS = {
    1: "log evidence at fixed hyperparameters",
    2: "hyperparameters and latents",
    3: "logistic regression",
    4: "hyperparameters of a regression",
    5: "basis functions at large n",
    6: "prediction",
    7: "covariance and maximum likelihood",
}
UNCOMPARED = (MEANS_DIFFER, NOT_MIXED)
BUSY = 0.3  # cores of other processes before the runs


def read(path: Path = ROWS) -> pd.DataFrame:
    """Rows, texts that are empty as such."""
    rows = pd.read_csv(path)
    texts = ["not_converged", "why", "settings", "reached"]
    return rows.assign(**{name: rows[name].astype(object).fillna("").astype(str) for name in texts})


def number(value: float, unit: str = "") -> str:
    """Three digits; of nats as many as differences need; nothing for what is not there."""
    if pd.isna(value):
        return "-"
    if "nats" in unit or unit == "share":
        return f"{value:.4f}"
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


def remarks(row: pd.Series) -> str:
    """Why a goal was missed or the peer ahead, whose means are not converged, and a busy machine."""
    notes = [row["why"]] if row["why"] else []
    if row["not_converged"]:
        notes.append(f"not converged: {row['not_converged']}")
    if row["load"] >= BUSY:  # not where it is unknown
        notes.append(f"others used {row['load']:g} cores")
    if pd.isna(row["load"]):
        notes.append("not known what others used")
    return "; ".join(notes)


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """What the page shows of each row, by job and problem."""

    def pair(row: pd.Series, side: str) -> str:
        alone, whole = (number(row[f"{side}_{name}"], row["unit"]) for name in ("value", "all"))
        return alone if alone == whole else f"{alone} ({whole})"

    def ratio(row: pd.Series) -> str:
        if row["reached"] in UNCOMPARED:
            return "-"
        alone, whole = number(row["ratio"]), number(row["ratio_all"])
        return alone if alone == whole else f"{alone} ({whole})"

    lines = [
        {
            "job": f"{row['job']}: {JOBS[row['job']]}",
            "problem": row["problem"],
            "quantity": f"{row['quantity']}, {row['unit']}",
            "ours": f"{row['ours']}: {pair(row, 'ours')}",
            "peer": f"{row['peer']}: {pair(row, 'peer')}",
            "ratio": ratio(row),
            "gap": number(row["gap"]),
            "goal": number(row["goal"]),
            "reached": row["reached"],
            "remarks": remarks(row),
        }
        for _, row in rows.iterrows()
    ]
    return pd.DataFrame(lines).set_index("job")


def settings(rows: pd.DataFrame) -> pd.DataFrame:
    """The tuning each peer was given, what its search took, and what was compared where and when."""
    columns = [
        "job",
        "problem",
        "version",
        "settings",
        "search_seconds",
        "date",
        "machine",
        "versions",
    ]
    own = rows[columns].drop_duplicates(["job", "problem", "version"]).set_index("job")
    own["search_seconds"] = own["search_seconds"].map("{:.0f}".format)
    return own.rename(
        columns={"version": "peer", "versions": "beside", "search_seconds": "s of search"}
    )


def repeats(rows: pd.DataFrame, again: pd.DataFrame) -> pd.DataFrame:
    """Ratios of the table beside those of a second run, the larger over the smaller, and what they rest on.

    The last column is the fewer of the peer's effective draws (estimates, where a quantity is an evidence).
    """
    both = rows.merge(again, on=KEY, suffixes=("", "_again"), validate="one_to_one")
    both = both.dropna(subset=["ratio", "ratio_again"])
    first, second = both["ratio"], both["ratio_again"]
    shown = pd.DataFrame({
        "problem": both["problem"], "quantity": both["quantity"], "ours": both["ours"],
        "peer": both["peer"], "ratio": first.map(number), "again": second.map(number),
        "factor": np.exp(np.abs(np.log(first / second))).map("{:.2f}".format),
        "peer's draws": both[["peer_draws", "peer_draws_again"]].min(axis=1).map(number),
    })  # fmt: skip
    return shown.set_index(both["job"])


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with a ratio whose posterior means agree, of peers that mixed."""
    return rows[rows["ratio"].notna() & ~rows["reached"].isin(UNCOMPARED)]


def summary(rows: pd.DataFrame) -> str:
    """Table of the median ratio of speeds by job and peer; goals reached, who is ahead, what is missing."""
    wanted = rows[rows["reached"].isin(["yes", "no"])]
    reached = int((wanted["reached"] == "yes").sum())
    same = compared(rows)
    speeds = same.groupby(["job", "peer"])["ratio"].median()
    lines = ["| job | times as fast as the peer, median of its rows |", "| --- | --- |"]
    for job, own in speeds.groupby(level="job"):
        ratios = (f"{peer} {number(value)}" for peer, value in own.droplevel("job").items())
        lines.append(f"| {JOBS[job]} | {', '.join(ratios)} |")
    behind = same[same["ratio"] < 1.0].drop_duplicates(["job", "peer"])
    ahead = ", ".join(f"{row['peer']} ({JOBS[row['job']]})" for _, row in behind.iterrows())
    without = [name for job, name in JOBS.items() if job not in set(rows["job"])]
    missing = f" Not measured yet: {'; '.join(without)}." * bool(without)
    end = (
        f"{reached} of {len(wanted)} goals are reached. Faster than ours in some row: "
        f"{ahead or 'none'}.{missing}"
    )
    return "\n".join([*lines, "", end])


LOOKS = {
    "ratio": {"marker": "o", "markersize": 5, "color": "black", "linestyle": "none"},
    "ratio_all": {
        "marker": "o", "markersize": 5, "markerfacecolor": "white", "markeredgecolor": "black",
        "linestyle": "none",
    },
    "goal": {"marker": "|", "markersize": 13, "markeredgewidth": 3.0, "color": "0.55", "linestyle": "none"},
}  # fmt: skip
LEGEND = {
    "ratio": "ratio",
    "ratio_all": "the same, warm-up and compilation of both counted",
    "goal": "goal",
}


@styled
def picture(rows: pd.DataFrame) -> Figure:
    """Ratios on a log scale, a row for each job, problem and peer; a line at 1, goals as bars."""
    shown = compared(rows)
    groups = list(shown.groupby(["job", "problem", "peer"], sort=False))
    figure = new_figure(height=0.24 * len(groups) + 1.2)
    axes = figure.subplots()
    for k, ((job, _, _), own) in enumerate(groups):
        y = len(groups) - 1 - k
        for name in ("goal", "ratio_all", "ratio"):
            values = own[name].dropna().unique() if job < 6 or name != "goal" else []
            axes.plot(values, np.full(len(values), y), **LOOKS[name])
    axes.axvline(1.0, color="black", linewidth=1.0, linestyle="--", zorder=0)
    values = pd.concat(
        [shown["ratio"], shown["ratio_all"], shown.query("job < 6")["goal"]]
    ).dropna()
    log_axis(axes, values.min(), values.max())
    labels = [f"{problem} ({peer})  {job}" for (job, problem, peer), _ in groups]
    axes.set_yticks(range(len(groups)), labels[::-1])
    axes.set_ylim(-0.6, len(groups) - 0.4)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("speed, ours over the peer's")
    legend_below(figure, [handle(LEGEND[name], **LOOKS[name]) for name in LOOKS], columns=3)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    rows = read()
    if options.picture:
        picture(rows).savefig(options.picture)
    print(summary(rows))
    for part in (table(rows), settings(rows), repeats(rows, pd.read_csv(AGAIN))):
        print(part.reset_index().to_string(index=False))


if __name__ == "__main__":
    main()
