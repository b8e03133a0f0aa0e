"""What a finished analysis left in its folder, read once and checked, with the words for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpmcflow.analysis.page import words
from gpmcflow.data.outcome_kinds import KINDS, OutcomeKind
from gpmcflow.errors import InputError
from gpmcflow.plot.numbers import label as label
from gpmcflow.storage import read_csv

ENOUGH_ROWS = 30  # fewer held-out rows are too few to judge by
# The columns of each table that the page reads; those with a star are text, a name of digits, too.
_COLUMNS = {
    "columns": "column* found done",
    "models": "name* role covariance likelihood can_do log_evidence log_evidence_se evidence_alarm "
    "evidence_averaged elpd_loo elpd_loo_se loo_difference loo_difference_se loo_bad_share test_score "
    "test_score_se difference difference_se error error_se base_difference base_difference_se "
    "unseen_difference unseen_difference_se evidence_beyond evidence_limit chains draws r_hat ess_bulk "
    "ess_tail acceptance ruled_out quick_difference seconds",
    "checks": "check model* limit worst alarm reason touches settle",
    "predictions_test": "row outcome mean q025 q975",
    "predictions_loo": "row outcome mean q025 q975",
    "predictions_new": "row mean q025 q975",
    "relevance": "column* kind low* high* change change_low change_high chance straight",
    "effects": "column* value* mean low high",
    "rug": "column* value* outcome",
    "interactions": "column* by* low* high* by_low* by_high* at_low at_high difference chance",
    "pairs": "column* by* value* by_value* mean low high",
    "explanations": "column* value* by* mean low high in_words",
    "together": "columns alike change change_low change_high chance",
    "curve": "value mean low high predictive_low predictive_high",
    "map": "x y mean low high factor",
    "points": "x y outcome",
    "survival": "of* time longer",
    "grades": "column* value* grade* probability",
    "areas": "area* rows mean relative relative_low relative_high above",
    "coefficients": "name* kind mean sd low high",
    "outlines": "area* ring x y",
    "reach": "direction distance low high",
    "evidence": "model* log_evidence standard_error fit complexity log_bayes_factor probability low high "
    "verdict route effective_size overlap alarm settle",
    "ladder": "model* of beta mean sd",
    "hyperparameters": "model* parameter* prior_q025 prior_q50 prior_q975 q025 q50 q975",
}
_NEEDED = ("columns", "models", "checks")
_OF_LEVELS = ("row", "probability", "q025", "q975")  # predictions


@dataclass(frozen=True)
class Analysis:
    """Tables of one analysis by name (empty where there is no file) and its ``info``."""

    info: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.tables[name]

    @property
    def kind(self) -> str:
        """Name of the kind of outcome, one of `KINDS`."""
        return self.info["target"]["kind"]

    @property
    def own(self) -> OutcomeKind:
        """What is known of outcomes of this kind."""
        return KINDS[self.kind]

    @property
    def usual(self) -> str:
        """The most frequent class, or grade."""
        target = self.info["target"]
        if target.get("levels"):
            return self.info["usual"]
        return target["positive"] if self.info["base"] > 0.5 else target["negative"]

    @property
    def target(self) -> str:
        """Name of the outcome, for reading."""
        return label(self.info["target"]["name"])

    @property
    def per(self) -> str:
        """What a count is for: "per hour", of a column without a unit "per unit of hours", of an offset
        "where log_hours is 0", or nothing."""
        target = self.info["target"]
        column, unit = target.get("unit"), target.get("unit_text")
        if unit or not column:
            return f"per {unit}" if unit else ""
        if target.get("log_unit"):
            return f"where {label(column)} is 0"
        if column.lower().startswith("expected"):  # a count, that of the same kind
            return "per expected one"
        return f"per unit of {label(column)}"

    @property
    def by_interval(self) -> bool:
        """Whether times are known to an interval."""
        return bool(self.info["target"].get("until"))

    @property
    def response(self) -> str:
        """What is predicted on average: "probability that readmitted is yes"."""
        target = self.info["target"]
        if self.own.classified:
            return f"probability that {self.target} is {target['positive']}"
        if self.kind == "binomial":
            return f"expected share of {self.target} among {label(target['unit'])}"
        if self.kind == "counts":
            if self.per == "per expected one":
                return f"number of {self.target} {self.per}"
            return f"expected {self.target} {self.per}".rstrip()
        if self.kind == "survival":
            return f"median {self.target}"
        return f"expected {self.target}"

    @cached_property
    def models(self) -> pd.DataFrame:
        """Rows of the models, the shown one first, then by their score."""
        frame = self["models"][self["models"]["role"] == "model"]
        order = np.lexsort(
            (-frame["test_score"].fillna(-np.inf), frame["name"] != self.info["shown"])
        )
        return frame.iloc[order]

    @cached_property
    def shown(self) -> pd.Series:
        """Row of the model that the page shows."""
        return self.models.iloc[0]

    @cached_property
    def ruled_out(self) -> list[str]:
        """Names of the models of which no draws were made, as their first fits left no doubt."""
        return list(self.models["name"][_truth(self.models["ruled_out"])])

    @property
    def has_errors(self) -> bool:
        """Whether the shown model has an error; leave-one-out has that of yes or no, grades and shares."""
        return math.isfinite(self.shown.get("error", math.nan))

    def baseline(self, role: str) -> pd.Series | None:
        """Row of the simple model (``simple``) or of the base rate (``base``), if there is one."""
        frame = self["models"][self["models"]["role"] == role]
        return None if frame.empty else frame.iloc[0]

    @property
    def averaged(self) -> bool:
        """Whether the shown answer is averaged over the settings of its model, not at the best ones."""
        return not self.info.get("quick") or math.isfinite(self.shown.get("settings", math.nan))

    @property
    def by_loo(self) -> bool:
        """Whether scores are of leave-one-out for want of held-out rows."""
        return self.info.get("score_by") == "leave-one-out"

    def groups(self, scored: str, known: bool) -> list[str]:
        """Columns of groups whose rows "held_out" or "left_out" are of known groups, or are of new ones."""
        return [group["name"] for group in self.info.get("groups", ()) if group[scored] == known]

    @property
    def n_scored(self) -> int:
        """Rows that the scores are of."""
        return int(self.info["n_learning"] if self.by_loo else self.info["n_test"])

    @property
    def judged(self) -> pd.DataFrame:
        """Predictions beside outcomes that calibration is judged by; may be empty."""
        loo = self["predictions_loo"]
        return loo if self.by_loo and not loo.empty else self["predictions_test"]

    @cached_property
    def alarms(self) -> pd.DataFrame:
        """Rows of checks that failed."""
        checks = self["checks"]
        return checks[_truth(checks["alarm"])]

    @property
    def provisional(self) -> bool:
        """Whether a failed check touches the shown model, not its evidence alone."""
        models = self.alarms[~touches_evidence(self.alarms)]["model"]
        return bool(((models == self.info["shown"]) | models.isna()).any())

    @property
    def unit(self) -> str:
        """Unit of the outcome, to follow a number, or nothing."""
        return self.unit_after(self.info["target"]["name"])

    def change_in_words(self, value: float, low: float, high: float) -> str:
        """A change of the response with its interval: in points, a factor, or a difference."""
        return (words.points if self.own.shares else words.interval)(value, low, high)

    def with_unit(self, column: str) -> str:
        """Column for an axis, with its unit where the config states one."""
        unit = self.info.get("units", {}).get(column)
        return f"{label(column)} ({unit})" if unit else label(column)

    def unit_after(self, column: str) -> str:
        """Unit to follow a number, with a space before it, or nothing."""
        unit = self.info.get("units", {}).get(column)
        return f"\u00a0{unit}" if unit else ""


def are_averaged(models: pd.DataFrame) -> bool:
    """Whether the evidences of some rows of models are all averaged over their settings."""
    return bool(_truth(models["evidence_averaged"]).all())


def touches_evidence(alarms: pd.DataFrame) -> pd.Series:
    """Which checks are of the evidence, and so touch the order of the models alone."""
    return alarms["check"].astype(str).str.startswith("evidence")


def read_analysis(folder: Path, info: Mapping[str, Any]) -> Analysis:
    """Tables of the analysis in ``folder``.

    Raises `StorageError` for a missing or unreadable file, `InputError` where a column is missing,
    the shown model has no row, or the uses of the rows do not add up.
    """
    tables = {name: _read(folder, name, info) for name in _COLUMNS}
    models = tables["models"]
    for name in ("covariance", "likelihood", "can_do"):
        models[name] = models[name].fillna("").astype(str)
    if info["shown"] not in set(models.loc[models["role"] == "model", "name"]):
        raise InputError(
            f"{folder / 'models.csv'}: no row of the shown model {info['shown']!r}; run the step "
            "that writes it again."
        )
    total = sum(info["uses"].values())
    if total != info["n_rows"]:
        raise InputError(
            f"{folder}: the uses of the rows add up to {total}, the file has {info['n_rows']}; run "
            "the step that reads the data again."
        )
    return Analysis(info, tables)


def _read(folder: Path, name: str, info: Mapping[str, Any]) -> pd.DataFrame:
    """A table; an empty one for a file that is not there and need not be."""
    path, stated = folder / f"{name}.csv", _COLUMNS[name].split()
    needed, texts = [c.rstrip("*") for c in stated], [c[:-1] for c in stated if c.endswith("*")]
    if name not in _NEEDED and not path.exists():
        return pd.DataFrame(columns=needed)
    if name.startswith("predictions"):
        texts += [*info.get("ids", []), *info.get("shown_columns", [])]
        if info["target"].get("levels"):
            level = KINDS[info["target"]["kind"]].level
            texts, needed = [*texts, level, "outcome"], [level, *_OF_LEVELS]
    table = read_csv(path, na_values=[""], dtype=dict.fromkeys(texts, str))
    missing = [column for column in needed if column not in table]
    if missing:
        raise InputError(
            f"{path}: no column {missing[0]!r} (columns: {', '.join(table)}); run the step that "
            "writes it again."
        )
    return table


def _truth(column: pd.Series) -> pd.Series:
    return column.map(lambda cell: str(cell).strip().lower() in ("true", "1", "1.0")).astype(bool)
