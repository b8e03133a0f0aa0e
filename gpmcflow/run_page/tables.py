"""Tables of the report: what is shown of each CSV file, and how numbers are written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import groupby
from pathlib import PurePath
from typing import Any

import pandas as pd

from gpmcflow.replications.figures.estimates import (
    best_rows,
    combine_replicates,
    require_columns,
    series_name,
)

# Cells, and how numbers are written in them.


def kind_of(column: pd.Series) -> str:
    """What the cells of a column are: number, name, or note, which is long."""
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return "number"
    return "note" if column.dropna().astype(str).str.len().max() > 40 else "name"


def columns_of(*labels: str, kind: str = "name") -> list[dict[str, str]]:
    """Heads of columns of a kind."""
    return [{"label": label, "kind": kind} for label in labels]


def cell(text: str, kind: str = "name", mark: str = "") -> dict[str, str]:
    """Text of a kind (name, number, note), after a word that stands out."""
    return {"text": text, "kind": kind, "mark": mark}


def grouped(rows: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Neighbouring rows of one ``group``, by its name."""
    return [(name, list(some)) for name, some in groupby(rows, key=lambda row: row["group"])]


def text_of(value: Any) -> str:
    """Text of a value, empty for none."""
    return "" if pd.isna(value) else str(value)


def decimals_of(error: Any) -> int | None:
    """Decimals that show two digits of a standard error; None (all that matter) without one."""
    try:
        error = float(error)
    except (TypeError, ValueError):
        return None
    if not math.isfinite(error) or error <= 0.0:
        return None
    return min(max(1 - math.floor(math.log10(error)), 0), 6)


def number_text(value: Any, decimals: int | None = None, digits: int = 7) -> str:
    """Number with that many decimals, or with that many significant digits; text stays text."""
    if isinstance(value, bool):
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return text_of(value)
    if math.isnan(number):
        return ""
    if not math.isfinite(number):
        return "-∞" if number < 0 else "∞"
    if decimals is not None:
        return f"{number:.{decimals}f}"
    text = f"{number:.{digits}g}"
    return f"{number:.0f}" if "e" in text and 1.0 <= abs(number) < 1e9 else text


_VERDICT = ["unit", "printed", "recomputed", "ours", "mcse", "tolerance"]
_APPROXIMATIONS = {  # column -> label
    "dataset": "data set",
    "n": "cases",
    "likelihood": "likelihood",
    "log_length_scale": "log length scale",
    "log_signal_sd": "log signal sd",
    "jitter": "jitter",
    "log_evidence_laplace": "Laplace (nats)",
    "log_evidence_ep": "EP (nats)",
    "correction": "correction (nats)",
    "log_evidence_corrected": "EP, corrected (nats)",
    "test_error_laplace": "test error, Laplace",
    "test_error_ep": "test error, EP",
    "test_error_posterior": "test error, posterior",
    "test_log_score_ep": "test log score, EP (nats)",
    "test_log_score_posterior": "test log score, posterior (nats)",
    "seconds_laplace": "Laplace (seconds)",
    "seconds_ep": "EP (seconds)",
}


def summary(frames: Mapping[str, pd.DataFrame]) -> list[tuple[str, str]]:
    """What was run, as far as the tables tell."""
    facts = []
    if "approximations" in frames:
        frame = frames["approximations"]
        require_columns(frame, ["problem", "dataset", "n", "likelihood"], "approximations table")
        texts = [
            f"{row.problem} ({row.dataset}, {row.n} cases, {row.likelihood})"
            for row in frame.itertuples()
        ]
        facts.append(("problems", "; ".join(texts)))
    if "evidence" in frames:
        frame = frames["evidence"]
        require_columns(frame, ["method", "n_temperatures", "replicate"], "evidence table")
        facts.append(("methods", ", ".join(map(str, frame["method"].unique()))))
        lengths = sorted(frame["n_temperatures"].dropna().unique())
        facts.append(("temperatures", ", ".join(f"{length:g}" for length in lengths)))
        facts.append(("estimates", str(len(frame))))
        alarms = int(frame["alarm"].notna().sum()) if "alarm" in frame else 0
        facts.append(("estimates with an alarm", str(alarms)))
    for kind, frame in frames.items():
        if kind not in ("approximations", "evidence", "verdict", "which_method", "which_sampler"):
            names = [name for name in ("problem", "method") if name in frame]
            facts += [(f"{name}s", ", ".join(map(str, frame[name].unique()))) for name in names]
    if "verdict" in frames:
        require_columns(frames["verdict"], ["verdict"], "verdict table")
        counts = frames["verdict"]["verdict"].value_counts(sort=False)
        facts.append(("verdicts", ", ".join(f"{count} {word}" for word, count in counts.items())))
    return list(dict.fromkeys(facts))  # tables of the same problems and methods say so once


def lead(frames: Mapping[str, pd.DataFrame]) -> str:
    """Problems and methods of a study, for a list of all studies."""
    said = dict(summary(frames))
    return "; ".join(f"{name}: {said[name]}" for name in ("problems", "methods") if name in said)


def verdict_table(frame: pd.DataFrame, path: str, title: str) -> dict[str, Any]:
    """Printed numbers beside ours, a block of rows per table of the paper."""
    require_columns(frame, ["table", "row", "column", *_VERDICT, "verdict", "why"], path)
    # a study without printed numbers leaves these empty; the room belongs to the reasons
    numbers = [
        name
        for name in ("printed", "ours", "mcse", "tolerance", "recomputed")
        if name == "ours" or frame[name].map(number_text).ne("").any()
    ]
    rows = []
    for row in frame.to_dict("records"):
        verdict = text_of(row["verdict"])
        decimals = decimals_of(row["mcse"])
        written = {
            "printed": number_text(row["printed"]),
            "ours": number_text(row["ours"], decimals),
            "mcse": number_text(row["mcse"], digits=2),
            "tolerance": number_text(row["tolerance"], digits=2),
            "recomputed": number_text(row["recomputed"]),
        }
        cells = [
            cell(text_of(row["row"])),
            cell(text_of(row["column"])),
            cell("", mark=verdict),
            *(cell(written[name], "number") for name in numbers),
            cell(text_of(row["unit"])),
            cell(text_of(row["why"]), "note"),
        ]
        rows.append({"group": text_of(row["table"]), "cells": cells})
    return {
        "caption": f"{title}: the printed numbers beside ours",
        "path": path,
        "note": "mcse: Monte Carlo standard error of ours. Recomputed: from the paper's other cells.",
        "columns": [
            *columns_of("row", "column", "verdict"),
            *columns_of(*numbers, kind="number"),
            *columns_of("unit", "why"),
        ],
        "groups": grouped(rows),
    }


def evidence_table(frame: pd.DataFrame, path: str) -> dict[str, Any]:
    """Best estimate of each method (`best_rows`), a block of rows per problem."""
    rows = []
    for row in best_rows(combine_replicates(frame, path)).to_dict("records"):
        alarm = text_of(row["alarm"])
        decimals = 4 if row["standard_error"] < 0.01 else 3
        value, error = (number_text(row[n], decimals) for n in ("log_evidence", "standard_error"))
        made = ", ".join(
            filter(None, (text_of(row[n]) for n in ("sampler", "reference", "ladder")))
        )
        cells = [
            cell(series_name(text_of(row["method"]), text_of(row["direction"]))),
            cell(f"{value} ± {error}", "number", "ALARM" if alarm else ""),
            cell(alarm or "none", "note" if alarm else "name"),
            cell(number_text(row["effective_size"], digits=3), "number"),
            cell(number_text(row["acceptance_rate"], 2), "number"),
            cell(number_text(row["n_temperatures"], 0), "number"),
            cell(
                f"{number_text(row['n_replicates'], 0)} × {number_text(row['n_particles'], 0)}",
                "number",
            ),
            cell(number_text(row["n_gradient"], digits=3), "number"),
            cell(number_text(row["seconds"], digits=3), "number"),
            cell(made),
        ]
        rows.append({"group": text_of(row["problem"]), "cells": cells, "useless": bool(alarm)})
    return {
        "caption": "Evidence: the best estimate of each method",
        "path": path,
        "note": (
            "Replicates averaged; of the ladder lengths the one with the smallest standard error "
            "(se) among those without an alarm, or the longest if all raised one. The effective "
            "size is that of the worst replicate; gradients and seconds are sums over replicates "
            "with the pilot. An estimate with an alarm, and its error, are not to be trusted."
        ),
        "columns": [
            *columns_of("method"),
            *columns_of("log evidence ± se (nats)", kind="number"),
            *columns_of("alarm"),
            *columns_of("effective size", "acceptance", kind="number"),
            *columns_of("ladder length", "replicates × particles", kind="number"),
            *columns_of("gradients", "seconds", kind="number"),
            *columns_of("sampler, reference, ladder"),
        ],
        "groups": grouped(rows),
    }


def which_method_table(frame: pd.DataFrame, path: str) -> dict[str, Any]:
    """What to use when: methods by the time to a given standard error, a block of rows per problem."""
    labels = {
        "seconds_to_0.05": "seconds to 0.05",
        "times_the_best": "times the best",
        "gigaflops_to_0.05": "Gflop to 0.05",
        "time_times_variance": "time × variance (s nat²)",
        "n_temperatures": "ladder length",
        "effective_size": "effective size",
    }
    require_columns(
        frame, ["problem", "method", "advice", "log_evidence", "log_evidence_mcse", *labels], path
    )
    rows = []
    for row in frame.to_dict("records"):
        decimals = decimals_of(row["log_evidence_mcse"])
        value, error = (
            number_text(row[n], decimals) for n in ("log_evidence", "log_evidence_mcse")
        )
        cells = [
            cell(text_of(row["method"])),
            cell(text_of(row["advice"]), "note"),
            *(cell(number_text(row[name], digits=3), "number") for name in labels),
            cell(f"{value} ± {error}", "number"),
        ]
        useless = number_text(row["seconds_to_0.05"]) == ""
        rows.append({"group": text_of(row["problem"]), "cells": cells, "useless": useless})
    return {
        "caption": "Which method to use",
        "path": path,
        "note": (
            "Methods by the time they take to a standard error of 0.05 nats: the pilot, and the runs "
            "times (se / 0.05)², at the ladder length that gets there first among those without an "
            "alarm. Where all lengths raised an alarm there is no time: the weights have collapsed, "
            "and the standard error means nothing. Gflop: floating-point operations by the counts of "
            "gradients and factorisations, which do not depend on the machine."
        ),
        "columns": [
            *columns_of("method", "advice"),
            *columns_of(*labels.values(), "log evidence ± se (nats)", kind="number"),
        ],
        "groups": grouped(rows),
    }


def which_sampler_table(frame: pd.DataFrame, path: str) -> dict[str, Any]:
    """Samplers by the time to 100 effective samples, a block of rows per problem."""
    note = (
        "Samplers by CPU seconds of one core to 100 effective samples of what a chain mixes slowest in, "
        "the complete-data log likelihood T, a hyperparameter or a latent value; the seconds before the "
        "first draw, burn-in or pilot, are among them. joint-split moves all at once; the others are slice "
        "sampling."
    )
    table = plain_table(frame, path)
    return table | {"caption": "Which sampler to use", "note": f"{note} {table['note']}"}


def approximations_table(frame: pd.DataFrame, path: str) -> dict[str, Any]:
    """Laplace and EP, a column per problem; quantities that no problem has are left out."""
    require_columns(frame, ["problem", *_APPROXIMATIONS], path)
    rows = []
    for name, label in _APPROXIMATIONS.items():
        if frame[name].notna().any():
            values = [cell(_approximation(name, value), "number") for value in frame[name]]
            rows.append({"group": "", "cells": [cell(label), *values]})
    problems = map(str, frame["problem"])
    return {
        "caption": "Approximations: log evidence and predictions of Laplace and EP",
        "path": path,
        "note": "The correction is of second order. Test errors and scores are on held-out cases.",
        "columns": [*columns_of("problem"), *columns_of(*problems, kind="number")],
        "groups": grouped(rows),
    }


def plain_table(frame: pd.DataFrame, path: str) -> dict[str, Any]:
    """All of a table that has no layout of its own, a block of rows per problem if it names them.

    A column ``x_mcse`` is shown behind ``x``, which has the digits of this error; columns without
    any value are left out.
    """
    shown = frame.dropna(axis="columns", how="all")
    errors = {name: f"{name}_mcse" for name in shown if f"{name}_mcse" in shown}
    names = [name for name in shown if name != "problem" and name not in errors.values()]
    kinds = {name: kind_of(shown[name]) for name in names}
    rows = []
    for row in shown.to_dict("records"):
        cells = []
        for name in names:
            error = row.get(errors.get(name))
            decimals = decimals_of(error)
            text = number_text(row[name], decimals, digits=4)
            if decimals is not None and text:
                text = f"{text} ± {float(error):.{decimals}f}"
            cells.append(cell(text, kinds[name]))
        rows.append({"group": text_of(row.get("problem", "")), "cells": cells})
    labels = [name.replace("_", " ") + " ± mcse" * (name in errors) for name in names]
    columns = zip(labels, kinds.values(), strict=True)
    return {
        "caption": PurePath(path).stem.replace("_", " ").capitalize(),
        "path": path,
        "note": "mcse: Monte Carlo standard error." if errors else "",
        "columns": [{"label": label, "kind": kind} for label, kind in columns],
        "groups": grouped(rows),
    }


def _approximation(name: str, value: Any) -> str:
    if name.startswith(("log_evidence", "correction", "test_log_score")):
        return number_text(value, 4)
    return number_text(value, digits=3 if name.startswith("seconds") else 7)
