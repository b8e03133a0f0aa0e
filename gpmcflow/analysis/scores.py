"""How good the models of an analysis are, beside no model and a simple one: `models.csv`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy  # scipy.stats is loaded on first use, as it takes longest of all to load
import xarray as xr

from gpmcflow.analysis.baselines import Baseline, baselines
from gpmcflow.analysis.choice import Candidate, Choice, chosen
from gpmcflow.analysis.convergence import convergence
from gpmcflow.analysis.data import Data, Rows
from gpmcflow.analysis.evidence_tables import evidence_row
from gpmcflow.analysis.grades import most_probable
from gpmcflow.data.layout import permutation
from gpmcflow.data.outcome_kinds import KINDS
from gpmcflow.diagnostics.importance_weights import BAD_K

FEWEST_HELD_OUT = 30  # rows; with fewer, scores are of leave-one-out
N_FOLDS = 10  # of the baselines' cross-validation, beside leave-one-out
COLUMNS = (
    "name", "role", "covariance", "likelihood", "can_do", "log_evidence", "log_evidence_se",
    "evidence_alarm", "evidence_averaged", "elpd_loo", "elpd_loo_se", "loo_difference",
    "loo_difference_se", "loo_by", "loo_ep_difference", "loo_bad_share", "test_score", "test_score_se",
    "difference", "difference_se", "base_difference", "base_difference_se", "unseen_difference",
    "unseen_difference_se", "evidence_beyond", "evidence_limit", "error", "error_se", "chains", "draws",
    "r_hat", "r_hat_limit", "ess_bulk", "ess_tail", "acceptance", "ruled_out", "quick_difference",
    "settings", "settings_effective", "settings_k", "ep_error", "seconds",
)  # fmt: skip
# Parameters of one response for all.
OF_A_CONSTANT = (
    "mean", "noise_sd", "log_sd", "scale", "df", "size", "shape", "gap", "precision", "probability",
)  # fmt: skip
HELD_OUT, LEAVE_ONE_OUT = "held out", "leave-one-out"


class Results(NamedTuple):
    """What the jobs of one model left; draws and summary are None in quick mode, or if it was ruled out.

    ``evidence`` is that averaged over the hyperparameters, None where only that at the maximum was made.
    """

    covariance: str
    likelihood: str
    seconds: float
    fit: xr.DataTree
    draws: xr.DataTree | None = None
    summary: xr.DataTree | None = None
    evidence: xr.DataTree | None = None
    ruled_out: bool = False  #: by the quick fits of all

    @property
    def shown(self) -> xr.DataTree:
        """What the report shows: the summary of the draws, or of the fit."""
        return self.fit if self.summary is None else self.summary


def score_kind(data: Data) -> str:
    """Which rows scores are of."""
    enough = data.held_out is not None and len(data.held_out.row) >= FEWEST_HELD_OUT
    return HELD_OUT if enough else LEAVE_ONE_OUT


def choice_of(results: Mapping[str, Results]) -> Choice:
    """The shown model, and what decided: `choice.chosen`."""
    candidates = {}
    for name, own in results.items():
        trees = {"fit": own.fit, "posterior": own.draws, "summary": own.summary}
        trees |= {"evidence": own.evidence}
        made = {kind: tree for kind, tree in trees.items() if tree is not None}
        candidates[name] = Candidate.of_trees(made)._replace(ruled_out=own.ruled_out)
    return chosen(candidates)


def models_table(
    data: Data, results: Mapping[str, Results], can_do: Mapping[str, str], shown: str
) -> pd.DataFrame:
    """A row for each model and baseline: evidence, leave-one-out, scores, diagnostics, seconds.

    A model that was ruled out is compared with the ``shown`` one by the quick fits of both.
    """
    by, likelihood = score_kind(data), results[shown].likelihood
    if by == HELD_OUT:
        scored, others = data.held_out, baselines(data, data.held_out, likelihood)
    else:
        scored, others = data.learning, _cross_validated(data, likelihood)
    simple, base = others
    averaged = any(model.evidence is not None for model in results.values())
    constant = _constant(data, likelihood)
    rows = []
    for name, model in results.items():
        loo = model.shown["leave_one_out"].to_dataset()
        density = loo["log_density"].values
        other = results[shown].fit if model.ruled_out else results[shown].shown
        best = other["leave_one_out/log_density"].values
        own, mean = density, left_out(model.shown, data)
        if by == HELD_OUT:
            group = model.shown["held_out"].to_dataset()
            own, mean = group["log_density"].values, predicted(group, data.target.kind)
        rows.append(
            {
                "name": name,
                "role": "model",
                "covariance": model.covariance,
                "likelihood": model.likelihood,
                "can_do": can_do[name],
                **_evidence(model, averaged),
                "elpd_loo": density.sum(),
                "elpd_loo_se": _sum_error(density),
                "loo_difference": (density - best).sum(),
                "loo_difference_se": _sum_error(density - best),
                "loo_by": loo.attrs.get("by", ""),
                "loo_ep_difference": loo.attrs.get("ep_difference", np.nan),
                "loo_bad_share": float(np.mean(loo["pareto_k"].values > BAD_K)),
                **_score(own, simple.log_density, base.log_density),
                **_unseen(density - constant, own - base.log_density, by),
                **_beyond_constant(model, constant.sum()),
                **_error(data.target.kind, scored, mean),
                **_diagnostics(model.draws),
                **_of_settings(model),
                "ruled_out": model.ruled_out,
                "quick_difference": _quick_difference(model, data.target.kind),
                "seconds": model.seconds,
            }
        )
    for other in others:
        mean, its = other.mean, {"name": other.name, "role": other.role}
        if by == LEAVE_ONE_OUT and other.role == "base" and KINDS[data.target.kind].classified:
            mean = _usual(data)  # folds may differ in what is most frequent
        its |= _score(other.log_density, simple.log_density, base.log_density)
        rows.append(its | _error(data.target.kind, scored, mean))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def left_out_probability(shown: xr.DataTree, data: Data) -> np.ndarray:
    """Probability of a binary outcome in each learning row, had that row been left out."""
    of_seen = np.exp(shown["leave_one_out/log_density"].values)
    return np.where(data.learning.outcome > 0.5, of_seen, 1.0 - of_seen)


def left_out(shown: xr.DataTree, data: Data) -> np.ndarray | None:
    """What the outcome of each learning row is predicted to be without it; None where that is not known."""
    group, kind = shown["leave_one_out"].to_dataset(), data.target.kind
    if kind == "binary":
        return left_out_probability(shown, data)
    if "grade_probability" in group:
        return most_probable(group)
    return group["response_mean"].values if "response_mean" in group else None


def _usual(data: Data) -> np.ndarray:
    """The most frequent outcome of the learning rows, for each of them."""
    outcome = data.learning.outcome
    return np.full(len(outcome), float(np.bincount(outcome.astype(int)).argmax()))


def _evidence(model: Results, all_averaged: bool) -> dict[str, Any]:
    """Averaged over the hyperparameters if there is one, else at the maximum, unless all others are."""
    if model.evidence is None:
        group = model.fit["evidence"].to_dataset()
        alarm = group.attrs["alarm"]
    else:
        group = evidence_row(model.evidence)
        alarm = str(group["alarm"].values)
    numbers = tuple(float(group[name]) for name in ("log_evidence", "standard_error"))
    names = ("log_evidence", "log_evidence_se", "evidence_alarm", "evidence_averaged")
    averaged = model.evidence is not None or "settings" in model.fit.children
    if all_averaged and not averaged:
        numbers, alarm = (np.nan, np.nan), ""
    return dict(zip(names, (*numbers, alarm, averaged), strict=True))


def _cross_validated(data: Data, likelihood: str = "") -> list[Baseline]:
    """Baselines on learning rows that each fit has not seen."""
    learning, n = data.learning, len(data.learning.row)
    fold_of = np.empty(n, dtype=int)
    fold_of[permutation(0, n)] = np.arange(n) % min(N_FOLDS, n)
    parts = []
    for fold in range(fold_of.max() + 1):
        kept, left = learning.take(fold_of != fold), learning.take(fold_of == fold)
        found = baselines(data._replace(learning=kept), left, likelihood)
        parts.append((np.flatnonzero(fold_of == fold), found))
    whole = []
    for k, first in enumerate(parts[0][1]):
        mean, density = np.empty(n), np.empty(n)
        for rows, fitted in parts:
            mean[rows], density[rows] = fitted[k].mean, fitted[k].log_density
        whole.append(first._replace(mean=mean, log_density=density))
    return whole


def _sum_error(values: np.ndarray) -> float:
    return float(np.sqrt(len(values) * values.var(ddof=1))) if len(values) > 1 else np.nan


def _score(density: np.ndarray, simple: np.ndarray, base: np.ndarray) -> dict[str, float]:
    scores = {
        "test_score": density,
        "difference": density - simple,
        "base_difference": density - base,
    }
    means = {name: values.mean() for name, values in scores.items()}
    error = scipy.stats.sem if len(density) > 1 else lambda values: np.nan
    return means | {f"{name}_se": float(error(values)) for name, values in scores.items()}


def _constant(data: Data, likelihood: str) -> np.ndarray:
    """Log density of each learning row under one response for all, at its best.

    Leave-one-out leaves each row in the mean and the scale of y; so does the constant it is held against.
    """
    if data.target.kind == "real" and likelihood != "student_t":
        outcome = data.learning.outcome
        return scipy.stats.norm.logpdf(outcome, outcome.mean(), outcome.std())
    if data.target.kind == "positive" and likelihood != "gamma":
        logs = np.log(data.learning.outcome)
        return scipy.stats.norm.logpdf(logs, logs.mean(), logs.std()) - logs
    return baselines(data, data.learning, likelihood)[1].log_density


def _beyond_constant(model: Results, constant: float) -> dict[str, float]:
    """Log evidence of a fit at the maximum beyond the constant's at its best, and what chance allows.

    The limit is that of a likelihood ratio of so many parameters more, at 5 %. Leave-one-out at the best
    hyperparameters is no measure: these have seen the row. Fits averaged over them need no other: nan.
    """
    if model.summary is not None or "maximum" not in model.fit.children:
        return {"evidence_beyond": np.nan, "evidence_limit": np.nan}
    names = [str(name) for name in model.fit["maximum/parameter"].values]
    own = (name.split("[")[0].removesuffix(".mean") for name in names)
    more = max(1, sum(name not in OF_A_CONSTANT for name in own))
    value = float(model.fit["evidence/approximate_log_evidence"])
    limit = 0.5 * float(scipy.stats.chi2.ppf(0.95, more))
    return {"evidence_beyond": value - constant, "evidence_limit": limit}


def _unseen(left_out: np.ndarray, scored: np.ndarray, by: str) -> dict[str, float]:
    """Mean log score beyond the average's, over learning rows that were left out and held-out ones."""
    every = left_out if by == LEAVE_ONE_OUT else np.concatenate([left_out, scored])
    error = _sum_error(every) / len(every)
    return {"unseen_difference": every.mean(), "unseen_difference_se": error}


def typical_response(group: xr.Dataset) -> np.ndarray:
    """Mean of each row's predictive distribution (m,); the median where the mean may not exist."""
    mean = group["response_mean"].values
    if not np.isnan(mean).any():
        return mean
    return np.where(np.isnan(mean), group["response_quantile"].sel(quantile=0.5).values, mean)


def predicted(group: xr.Dataset, kind: str) -> np.ndarray:
    """What each row's outcome is predicted to be (m,): the most probable grade, the median of amounts and
    times, else the mean."""
    if KINDS[kind].leveled:
        return most_probable(group)
    if KINDS[kind].typical == "median":
        return group["response_quantile"].sel(quantile=0.5).values
    return typical_response(group)


def _error(kind: str, rows: Rows, mean: np.ndarray | None) -> dict[str, float]:
    """Number wrong of classes; mean absolute error of counts and amounts; else root mean square.

    None of times: how far a prediction is off is not known of one that has not ended.
    """
    if mean is None or kind == "survival":
        return {"error": np.nan, "error_se": np.nan}
    outcome, n = rows.outcome, len(rows.outcome)
    if KINDS[kind].classified:
        wrong = mean != outcome if KINDS[kind].leveled else (mean > 0.5) != (outcome > 0.5)
        error = float(np.sqrt(n * wrong.mean() * (1 - wrong.mean())))
        return {"error": wrong.sum(), "error_se": error}
    if kind in ("counts", "positive"):
        apart = np.abs(outcome - mean)
        return {"error": apart.mean(), "error_se": scipy.stats.sem(apart)}
    squares = (outcome - mean) ** 2
    root = np.sqrt(squares.mean())
    return {"error": root, "error_se": scipy.stats.sem(squares) / (2.0 * root)}


def _diagnostics(draws: xr.DataTree | None) -> dict[str, Any]:
    """Worst R-hat and effective sizes over the parameters."""
    if draws is None:
        return {}
    sizes, rate = draws["posterior"].sizes, float(draws["sample_stats/acceptance_rate"].mean())
    counts = {"chains": sizes["chain"], "draws": sizes["draw"], "acceptance": rate}
    return counts | convergence(draws)


def _of_settings(model: Results) -> dict[str, float]:
    """How many settings a quick fit averages over, what their weights say, and how far off EP was."""
    if model.summary is not None or "settings" not in model.fit.children:
        return {}
    group = model.fit["settings"].to_dataset()
    names = {
        "effective_size": "settings_effective",
        "pareto_k": "settings_k",
        "ep_error": "ep_error",
    }
    found = {name: float(group[stored]) for stored, name in names.items()}
    return {"settings": group.sizes["setting"], **found}


def _quick_difference(model: Results, kind: str) -> float:
    """Largest difference of quick and full predictions of held-out rows: of probabilities, or in their sd."""
    if model.summary is None or "held_out" not in model.summary:
        return np.nan
    full, quick = (tree["held_out"].to_dataset() for tree in (model.summary, model.fit))
    name = "grade_probability" if KINDS[kind].leveled else None
    pair = [tree[name].values if name else predicted(tree, kind) for tree in (full, quick)]
    apart = np.abs(pair[0] - pair[1])
    sd = 1.0 if KINDS[kind].classified else full["response_sd"].values
    return float(np.nanmax(apart / sd))
