"""What an analysis is compared with: no model, and a generalised linear model of scikit-learn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

from gpmcflow.likelihoods.counts import LARGEST_RATE
from gpmcflow.studies.analysis.data import Data, Rows

SIMPLE = {
    "binary": "logistic regression",
    "binomial": "logistic regression",
    "counts": "Poisson regression",
    "real": "linear regression",
}
SLIGHT = (
    1e-3  # penalty of the Poisson regression: keeps it finite for columns that repeat each other
)


class Baseline(NamedTuple):
    """Predictions of held-out rows by a baseline."""

    name: str
    role: str  #: "simple" or "base"
    mean: np.ndarray  #: expected outcome in natural units; of a binary one the probability (m,)
    log_density: np.ndarray  #: of what was observed (m,)


def baselines(data: Data, rows: Rows) -> list[Baseline]:
    """The base rate, and a generalised linear model of all inputs, both fitted to the learning rows."""
    kind, learning = data.target.kind, data.learning
    weight = np.ones(len(learning.y)) if learning.unit is None else learning.unit
    unit = np.ones(len(rows.row)) if rows.unit is None else rows.unit
    outcome, X, X_new = learning.outcome, learning.X.to_numpy(), rows.X.to_numpy()
    if kind == "real":
        return _of_real(learning, rows)
    least = 0.5 / weight.sum()  # a rate or share of 0 would rule out what may come
    most = np.inf if kind == "counts" else 1.0 - least
    base = np.clip(outcome.sum() / weight.sum(), least, most)
    same = outcome.sum() == 0 or (kind != "counts" and np.array_equal(outcome, weight))
    if same:  # nothing to learn from, and no regression
        rate = np.full(len(X_new), base)
    elif kind == "counts":
        model = PoissonRegressor(alpha=SLIGHT, max_iter=1000).fit(X, outcome / weight, weight)
        log_rate = X_new @ model.coef_ + model.intercept_
        rate = np.exp(np.minimum(log_rate, np.log(LARGEST_RATE)))
    else:
        twice, labels = np.vstack([X, X]), np.repeat([1.0, 0.0], len(X))
        counts = np.concatenate([outcome, weight - outcome])
        used = counts > 0
        model = LogisticRegression(max_iter=1000).fit(twice[used], labels[used], counts[used])
        rate = model.predict_proba(X_new)[:, 1]

    # a value far outside the learning rows may make a rate 0, 1 or larger than any
    tiny = np.finfo(float).eps
    rate = np.clip(rate, tiny, LARGEST_RATE if kind == "counts" else 1.0 - tiny)

    def baseline(name: str, role: str, rate: np.ndarray) -> Baseline:
        if kind == "counts":
            density = stats.poisson.logpmf(rows.outcome, rate * unit)
        else:
            density = stats.binom.logpmf(rows.outcome, unit, rate)
        return Baseline(name, role, rate * unit, density)

    base_rate = np.full(len(X_new), base)
    return [
        baseline(SIMPLE[kind], "simple", rate),
        baseline("base rate", "base", base_rate),
    ]


def _of_real(learning: Rows, rows: Rows) -> list[Baseline]:
    """Least squares with Student-t predictions, with inputs and without."""
    found, n = [], len(learning.outcome)
    for name, role in ((SIMPLE["real"], "simple"), ("base rate", "base")):
        X, X_new = learning.X.to_numpy(), rows.X.to_numpy()
        if role == "base":
            X, X_new = X[:, :0], X_new[:, :0]
        design, design_new = (np.column_stack([np.ones(len(rows_)), rows_]) for rows_ in (X, X_new))
        if role == "simple":
            model = LinearRegression().fit(X, learning.outcome)
            fitted, mean = model.predict(X), model.predict(X_new)
        else:
            level = learning.outcome.mean()
            fitted, mean = np.full(n, level), np.full(len(X_new), level)
        dof = max(n - np.linalg.matrix_rank(design), 1)
        variance = np.sum((learning.outcome - fitted) ** 2) / dof
        leverage = np.einsum(
            "ij,jk,ik->i", design_new, np.linalg.pinv(design.T @ design), design_new
        )
        scale = np.sqrt(variance * (1.0 + leverage))
        found.append(Baseline(name, role, mean, stats.t.logpdf(rows.outcome, dof, mean, scale)))
    return found
