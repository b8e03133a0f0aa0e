"""Three peers that score the held-out rows of a report: gradient boosting, a random forest, a GLM.

Each is scikit-learn's (a negative binomial GLM is fitted here). Settings of the first two, and whatever turns
a prediction into a density, are chosen by 10-fold cross-validation on the learning rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, gammaln, logit
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold
from threadpoolctl import threadpool_limits

PEERS = ("boosting", "forest", "glm")
FOLDS = 10
TREES = 100  #: of a forest, scikit-learn's default
BOOSTING = ({"n_estimators": 60}, {"n_estimators": 200})
FOREST = ({"min_samples_leaf": 1}, {"min_samples_leaf": 5})
SLIGHT = 0.1  #: the weak ridge of a GLM, of standardised columns; one column per category
LARGEST_LOG_RATE = 30.0


class Problem(NamedTuple):
    """Rows for the peers: inputs (n, p), outcomes, and exposure or trials (ones without)."""

    kind: str  #: real, positive, counts, binary or binomial
    X: np.ndarray
    y: np.ndarray
    unit: np.ndarray
    block: np.ndarray  #: rows of a block stay together in a fold

    def rows(self, chosen: np.ndarray) -> Problem:
        """Return some of the rows."""
        return Problem(self.kind, *(values[chosen] for values in self[1:]))


def coded(table: pd.DataFrame, categories: set[str], learning: np.ndarray) -> np.ndarray:
    """Return the columns as users of scikit-learn code them.

    Categories get a column per level of the learning rows, with a level of its own for a gap; gaps of numbers
    get the median; all columns are standardised by the learning rows.
    """
    columns = []
    for name in table:
        column = table[name]
        if name in categories or not pd.api.types.is_numeric_dtype(column):
            text = column.astype(object).where(column.notna(), "missing").astype(str)
            levels = sorted(set(text[learning]))
            levels = levels[1:] if len(levels) == 2 else levels
            columns += [(text == level).to_numpy(float) for level in levels]
        else:
            columns.append(column.fillna(column[learning].median()).to_numpy(float))
    X = np.column_stack(columns)
    sd = X[learning].std(axis=0)
    return (X - X[learning].mean(axis=0))[:, sd > 0] / sd[sd > 0]


def log_scores(problem: Problem, learning: np.ndarray, new: np.ndarray) -> dict[str, np.ndarray]:
    """Return the log density of each new row's outcome under each peer."""
    with (
        warnings.catch_warnings(),
        threadpool_limits(1),
    ):  # threads cost more than they save on few rows
        warnings.simplefilter("ignore")
        return {peer: _best(peer, problem.rows(learning), problem.rows(new)) for peer in PEERS}


def _best(peer: str, known: Problem, new: Problem) -> np.ndarray:
    """Scores of the new rows by the setting that is best out of fold."""
    settings: tuple[Mapping[str, Any], ...] = {"boosting": BOOSTING, "forest": FOREST}.get(
        peer, ({},)
    )
    found = []
    for setting in settings:
        apart = np.empty(len(known.y))
        folds = GroupKFold(FOLDS, shuffle=True, random_state=0)
        for kept, left in folds.split(known.X, groups=known.block):
            apart[left] = _fitted(peer, setting, known.rows(kept))(known.rows(left).X)
        density = density_of(known, apart, calibrate=peer != "glm")
        found.append((density(known, apart).mean(), setting, density))
    _, setting, density = max(found, key=lambda one: one[0])
    return density(new, _fitted(peer, setting, known)(new.X))


def _fitted(peer: str, setting: Mapping[str, Any], rows: Problem) -> Callable:
    """Return a function of X: the mean (of a positive outcome, of its log), the rate or the probability."""
    kind, X, y, unit, _ = rows
    if kind in ("real", "positive"):
        model = {
            "boosting": lambda: GradientBoostingRegressor(
                learning_rate=0.05, random_state=0, **setting
            ),
            "forest": lambda: RandomForestRegressor(TREES, random_state=0, **setting),
            "glm": lambda: Ridge(SLIGHT) if X.shape[1] > 1 else LinearRegression(),
        }[peer]()
        return model.fit(X, np.log(y) if kind == "positive" else y).predict
    if kind == "counts":
        if peer == "glm":
            return _count_regression(rows)
        model = {
            "boosting": lambda: HistGradientBoostingRegressor(
                loss="poisson", learning_rate=0.05, max_iter=setting["n_estimators"],
                max_leaf_nodes=8, min_samples_leaf=5, early_stopping=False, random_state=0,
            ),
            "forest": lambda: RandomForestRegressor(
                TREES, criterion="poisson", random_state=0, **setting
            ),
        }[peer]()  # fmt: skip
        return model.fit(X, y / unit, sample_weight=unit / unit.mean()).predict
    model = {
        "boosting": lambda: GradientBoostingClassifier(
            learning_rate=0.05, random_state=0, **setting
        ),
        "forest": lambda: RandomForestClassifier(TREES, random_state=0, **setting),
        "glm": lambda: LogisticRegression(C=1.0 / SLIGHT, max_iter=2000),
    }[peer]()
    twice, labels = np.vstack([X, X]), np.repeat([1, 0], len(X))
    weight = np.concatenate([y, unit - y])
    used = weight > 0
    model.fit(twice[used], labels[used], sample_weight=weight[used])
    return lambda new: model.predict_proba(new)[:, 1]


def _count_regression(rows: Problem) -> Callable:
    """Negative binomial regression with a log link, the exposure as offset; near Poisson if size is large."""
    _, X, y, unit, _ = rows
    design = np.column_stack([np.ones(len(X)), X])

    def loss(theta):
        size = np.exp(np.clip(theta[0], -10, 12))
        log_mean = np.minimum(design @ theta[1:], LARGEST_LOG_RATE) + np.log(unit)
        both = np.logaddexp(log_mean, np.log(size))
        value = (
            gammaln(y + size) - gammaln(size) + size * (np.log(size) - both) + y * (log_mean - both)
        )
        slope = y - (y + size) * np.exp(log_mean - both)
        return (
            -value.sum() + 0.5 * SLIGHT * (theta[2:] ** 2).sum(),
            -(design.T @ slope) + SLIGHT * np.append(0.0, theta[2:]),
            size,
            both,
        )

    def both_parts(theta):
        value, gradient, *_ = loss(theta)
        step = 1e-5
        up, down = (loss(np.append(theta[0] + h, theta[1:]))[0] for h in (step, -step))
        return value, np.append((up - down) / (2 * step), gradient)

    start = np.zeros(design.shape[1] + 1)
    start[1] = np.log(max(y.sum(), 0.5) / unit.sum())
    theta = minimize(both_parts, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
    return lambda new: np.exp(np.minimum(theta[1] + new @ theta[2:], LARGEST_LOG_RATE))


def density_of(known: Problem, apart: np.ndarray, calibrate: bool = True) -> Callable:
    """Return the log density of rows given their predictions, fitted to predictions out of fold.

    Normal with the residuals' sd (of a positive outcome on the log scale, with the Jacobian); of counts
    Poisson or negative binomial, of trials binomial or beta-binomial, whichever is better out of fold.
    """
    kind, _, y, unit, _ = known
    if kind in ("real", "positive"):
        at = np.log if kind == "positive" else np.asarray
        sd = np.sqrt(np.mean((at(y) - apart) ** 2))
        return lambda rows, mean: (
            stats.norm.logpdf(at(rows.y), mean, sd) - (np.log(rows.y) if kind == "positive" else 0)
        )
    if kind == "counts":
        least = 0.5 / unit.sum()

        def poisson(rows, rate):
            return stats.poisson.logpmf(rows.y, np.maximum(rate, least) * rows.unit)

        def negative_binomial(size):
            def density(rows, rate):
                mean = np.maximum(rate, least) * rows.unit
                return stats.nbinom.logpmf(rows.y, size, size / (size + mean))

            return density

        log_size = minimize_scalar(
            lambda v: -negative_binomial(np.exp(v))(known, apart).mean(),
            bounds=(-4.0, 10.0), method="bounded",
        ).x  # fmt: skip
        return max(
            (poisson, negative_binomial(np.exp(log_size))), key=lambda f: f(known, apart).mean()
        )
    least = 0.5 / unit.sum()
    slope, shift = _calibration(known, apart, least) if calibrate else (1.0, 0.0)

    def probability(p):
        inner = np.clip(p, least, 1 - least)
        return np.clip(expit(slope * logit(inner) + shift), least, 1 - least)

    def binomial(rows, p):
        return stats.binom.logpmf(rows.y, rows.unit, probability(p))

    def beta_binomial(precision):
        def density(rows, p):
            q = probability(p)
            return stats.betabinom.logpmf(rows.y, rows.unit, precision * q, precision * (1 - q))

        return density

    if kind == "binary":
        return binomial
    log_precision = minimize_scalar(
        lambda v: -beta_binomial(np.exp(v))(known, apart).mean(),
        bounds=(-3.0, 10.0), method="bounded",
    ).x  # fmt: skip
    return max(
        (binomial, beta_binomial(np.exp(log_precision))), key=lambda f: f(known, apart).mean()
    )


def _calibration(known: Problem, apart: np.ndarray, least: float) -> tuple[float, float]:
    """Slope and shift of the logit that fit the predictions out of fold."""
    inner = logit(np.clip(apart, least, 1 - least))[:, None]
    twice, labels = np.vstack([inner, inner]), np.repeat([1, 0], len(inner))
    weight = np.concatenate([known.y, known.unit - known.y])
    model = LogisticRegression(C=100.0).fit(
        twice[weight > 0], labels[weight > 0], weight[weight > 0]
    )
    return float(model.coef_[0, 0]), float(model.intercept_[0])
