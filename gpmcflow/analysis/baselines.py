"""What an analysis is compared with: no model, and a regression whose response is of the model's kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy  # its parts, and scikit-learn, are loaded on first use: they take long to load
from scipy.special import digamma, expit, gammaln, logit

from gpmcflow.analysis.data import Data, Rows
from gpmcflow.likelihoods import (
    Beta,
    BetaBinomial,
    Hurdle,
    NegativeBinomial,
    Ordinal,
    Survival,
    ZeroInflated,
)
from gpmcflow.likelihoods.counts import LARGEST_RATE

SIMPLE = {
    "binary": "logistic regression",
    "binomial": "logistic regression",
    "counts": "Poisson regression",
    "grades": "ordered logistic regression",
    "classes": "multinomial logistic regression",
    "share": "beta regression",
    "real": "linear regression",
    "negative_binomial": "negative binomial regression",
    "zero_inflated": "zero-inflated regression",
    "hurdle": "hurdle regression",
    "beta_binomial": "beta-binomial regression",
    "student_t": "Student-t regression",
    "positive": "log-linear regression",
    "gamma": "gamma regression",
    "weibull": "Weibull regression",
    "loglogistic": "log-logistic regression",
    "lognormal": "log-normal regression",
}
WITH_ZEROS = {"zero_inflated": ZeroInflated, "hurdle": Hurdle}
LARGEST_ETA = 40.0  # of a regression of times, about their geometric mean
LARGEST_LOG = 300.0  # of a prediction far outside the learning rows
SLIGHT = 1e-3  # penalty that keeps a regression finite for columns that repeat each other
MOST_SEPARABLE = 5000  # rows that are looked at for a plane between two classes


Fitted = tuple[np.ndarray, np.ndarray]  # prediction (m,) and log density of what was observed (m,)


class Baseline(NamedTuple):
    """Predictions of held-out rows by a baseline."""

    name: str
    role: str  #: "simple" or "base"
    mean: np.ndarray  #: what is predicted (m,): see `scores.predicted`
    log_density: np.ndarray  #: of what was observed (m,)


def baselines(data: Data, rows: Rows, likelihood: str = "") -> list[Baseline]:
    """The base rate, and a regression on all inputs but those of groups, both fitted to the learning rows.

    Their response is that of the ``likelihood``, by maximum likelihood: negative binomial, zero-inflated,
    hurdle, beta-binomial, Student-t, gamma, or the law of times. Positive outcomes are regressed on the log
    scale, all densities are of the outcome itself.
    """
    kind, n_levels = data.target.kind, len(data.target.levels)
    learning, rows = (without_groups(part, data) for part in (data.learning, rows))
    of_measured = {"student_t": _heavy_tailed, "gamma": _of_gamma}.get(likelihood) or {
        "survival": partial(_of_times, law=likelihood or "weibull"),
        "share": _of_shares,
        "grades": partial(_of_grades, n_grades=n_levels),
        "classes": partial(_of_classes, n_classes=n_levels),
        "positive": _of_logs,
        "real": _of_real,
    }.get(kind)
    if of_measured is not None:
        return of_measured(learning, rows)
    learning, rows = map(_with_units, (learning, rows))
    outcome, weight, unit = learning.outcome, learning.unit, rows.unit
    X, X_new = learning.X.to_numpy(), rows.X.to_numpy()
    least = 0.5 / weight.sum()  # a rate or share of 0 would rule out what may come
    most = np.inf if kind == "counts" else 1.0 - least
    base = np.clip(outcome.sum() / weight.sum(), least, most)
    same = outcome.sum() == 0 or (kind != "counts" and np.array_equal(outcome, weight))
    if likelihood in WITH_ZEROS and not same:
        return _of_zeros(likelihood, learning, rows)
    if likelihood == "negative_binomial" and not same:
        return _overdispersed(learning, rows)
    if likelihood == "beta_binomial" and not same:
        return _of_varying_chances(learning, rows)
    if same or not X.shape[1]:  # nothing to learn from, and no regression
        rate = np.full(len(X_new), base)
    elif kind == "counts":
        from sklearn.linear_model import PoissonRegressor

        model = PoissonRegressor(alpha=SLIGHT, max_iter=1000).fit(X, outcome / weight, weight)
        log_rate = X_new @ model.coef_ + model.intercept_
        rate = np.exp(np.minimum(log_rate, np.log(LARGEST_RATE)))
    else:
        twice, labels = np.vstack([X, X]), np.repeat([1.0, 0.0], len(X))
        counts = np.concatenate([outcome, weight - outcome])
        used = counts > 0
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(max_iter=1000).fit(twice[used], labels[used], counts[used])
        rate = model.predict_proba(X_new)[:, 1]

    # a value far outside the learning rows may make a rate 0, 1 or larger than any
    tiny = np.finfo(float).eps
    rate = np.clip(rate, tiny, LARGEST_RATE if kind == "counts" else 1.0 - tiny)

    def baseline(name: str, role: str, rate: np.ndarray) -> Baseline:
        if kind == "counts":
            density = scipy.stats.poisson.logpmf(rows.outcome, rate * unit)
        else:
            density = scipy.stats.binom.logpmf(rows.outcome, unit, rate)
        return Baseline(name, role, rate * unit, density)

    return [
        baseline(SIMPLE[kind], "simple", rate),
        baseline("base rate", "base", np.full(len(X_new), base)),
    ]


def _with_units(rows: Rows) -> Rows:
    return rows if rows.unit is not None else rows._replace(unit=np.ones(len(rows.row)))


def without_groups(rows: Rows, data: Data) -> Rows:
    """The rows without the inputs of groups, whose numbers only name their levels."""
    names = [name for column in data.encoding.groups for name in data.encoding.inputs_of(column)]
    return rows._replace(X=rows.X.drop(columns=names))


def _of_real(learning: Rows, rows: Rows, name: str = "real") -> list[Baseline]:
    """Least squares with Student-t predictions."""
    y, n = learning.outcome, len(learning.outcome)

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        if X.shape[1] > 1:
            from sklearn.linear_model import LinearRegression

            model = LinearRegression().fit(X[:, 1:], y)
            fitted, mean = model.predict(X[:, 1:]), model.predict(X_new[:, 1:])
        else:
            fitted, mean = np.full(n, y.mean()), np.full(len(X_new), y.mean())
        dof = max(n - np.linalg.matrix_rank(X), 1)
        variance = np.sum((y - fitted) ** 2) / dof
        leverage = np.einsum("ij,jk,ik->i", X_new, np.linalg.pinv(X.T @ X), X_new)
        scale = np.sqrt(variance * (1.0 + leverage))
        return mean, scipy.stats.t.logpdf(rows.outcome, dof, mean, scale)

    return _with_inputs_and_without(name, learning, rows, fit)


def _of_logs(learning: Rows, rows: Rows) -> list[Baseline]:
    """`_of_real` of the logarithms, with medians and densities of the outcome itself."""
    logs = [part._replace(outcome=np.log(part.outcome)) for part in (learning, rows)]
    return [
        own._replace(
            mean=np.exp(np.minimum(own.mean, LARGEST_LOG)),
            log_density=own.log_density - logs[1].outcome,
        )
        for own in _of_real(*logs, name="positive")
    ]


def _of_gamma(learning: Rows, rows: Rows) -> list[Baseline]:
    """Gamma regression with a log link and its shape by maximum likelihood."""
    centre = np.log(learning.outcome).mean()
    log_y = np.log(learning.outcome) - centre

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        def log_likelihood(at: np.ndarray) -> tuple[float, np.ndarray]:
            a, d = np.exp(at[-1]), np.clip(log_y - X @ at[:-1], -40.0, 40.0)
            value = a * (np.log(a) + d - np.exp(d)) - gammaln(a) - log_y
            by_a = a * (np.log(a) + 1.0 - digamma(a) + d - np.exp(d))
            return value.sum(), np.append(X.T @ (a * np.expm1(d)), by_a.sum())

        line = np.linalg.lstsq(X, log_y, rcond=None)[0]
        spread = np.var(log_y - X @ line) + 1e-3
        start = np.append(line, np.clip(-np.log(spread), -3.0, 6.0))
        at = _maximum(log_likelihood, X, start, [(-5, 12)])
        mean = np.exp(np.clip(centre + X_new @ at[:-1], -LARGEST_LOG, LARGEST_LOG))
        a = float(np.exp(at[-1]))
        law = scipy.stats.gamma(a, scale=mean / a)
        return law.median(), law.logpdf(rows.outcome)

    return _with_inputs_and_without("gamma", learning, rows, fit)


def _of_times(learning: Rows, rows: Rows, law: str) -> list[Baseline]:
    """Accelerated failure times by maximum likelihood; censored times as such."""
    centre = np.log(learning.outcome).mean()
    y, y_new = (part.outcome / np.exp(centre) for part in (learning, rows))

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        def log_likelihood(at: np.ndarray) -> tuple[float, np.ndarray]:
            eta, own = X @ at[:-1], Survival(law, float(np.exp(at[-1])), event=learning.unit)
            value, first, *_ = own.derivatives(np.clip(eta, -LARGEST_ETA, LARGEST_ETA), y)
            return value.sum(), np.append(X.T @ first, own.parameter_gradient(eta, y))

        line = np.linalg.lstsq(X, np.log(y), rcond=None)[0]
        spread = np.log(np.std(np.log(y) - X @ line) + 1e-3)
        at = _maximum(log_likelihood, X, np.append(line, np.clip(spread, -2.0, 2.0)), [(-5.0, 3.0)])
        eta = np.clip(X_new @ at[:-1], -LARGEST_ETA, LARGEST_ETA)
        own = Survival(law, float(np.exp(at[-1])), event=rows.unit)
        density = own.derivatives(eta, y_new)[0] - centre * rows.unit
        return np.exp(centre) * own.conditional_median(eta), density

    return _with_inputs_and_without(law, learning, rows, fit)


def _of_shares(learning: Rows, rows: Rows) -> list[Baseline]:
    """Beta regression with a logit link and its precision by maximum likelihood."""
    y = learning.outcome

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        def log_likelihood(at: np.ndarray) -> tuple[float, np.ndarray]:
            eta, own = X @ at[:-1], Beta(float(np.exp(at[-1])))
            value, slope = own.log_density_and_gradient(eta, y)
            return float(value), np.append(X.T @ slope, own.parameter_gradient(eta, y))

        line = np.linalg.lstsq(X, logit(y), rcond=None)[0]
        mean = expit(X @ line)
        spread = np.mean((y - mean) ** 2) / np.mean(mean * (1.0 - mean)) + 1e-6
        start = np.append(line, np.clip(np.log(1.0 / spread), -2.0, 10.0))
        at = _maximum(log_likelihood, X, start, [(-5.0, 14.0)])
        eta = np.clip(X_new @ at[:-1], -LARGEST_ETA, LARGEST_ETA)
        return expit(eta), Beta(float(np.exp(at[-1]))).derivatives(eta, rows.outcome)[0]

    return _with_inputs_and_without("share", learning, rows, fit)


def _of_grades(learning: Rows, rows: Rows, n_grades: int) -> list[Baseline]:
    """Proportional odds by maximum likelihood."""
    seen, y = np.unique(learning.outcome, return_inverse=True)
    n = len(y)

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        p = X.shape[1]

        def log_likelihood(at: np.ndarray) -> tuple[float, np.ndarray]:
            own, eta = Ordinal(len(seen)).with_values(np.exp(at[p:])), X @ at[:p]
            value, first, *_ = own.derivatives(eta, y + 1.0)
            return value.sum(), np.append(X.T @ first, own.parameter_gradient(eta, y + 1.0))

        below = logit(np.cumsum(np.bincount(y))[:-1] / n)
        start = np.concatenate([[-below[0]], np.zeros(p - 1), np.log(np.diff(below))])
        at = _maximum(log_likelihood, X, start, [(-12.0, 5.0)] * (len(seen) - 2))
        eta = np.clip(X_new @ at[:p], -LARGEST_ETA, LARGEST_ETA)
        own = Ordinal(len(seen)).with_values(np.exp(at[p:]))
        chances = np.zeros((n_grades, len(eta)))
        chances[seen.astype(int) - 1] = own.class_probabilities(eta, np.zeros(len(eta)))
        return _of_chances(chances, learning, rows)

    return _with_inputs_and_without("grades", learning, rows, fit)


def _of_classes(learning: Rows, rows: Rows, n_classes: int) -> list[Baseline]:
    """Multinomial logistic regression, with a slight penalty; the frequencies of the classes."""
    seen, n = np.unique(learning.outcome).astype(int), len(learning.outcome)

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        chances = np.zeros((n_classes, len(X_new)))
        if len(seen) == 1 or X.shape[1] == 1:
            shares = np.bincount(learning.outcome.astype(int) - 1, minlength=n_classes) / n
            chances += shares[:, None]
        else:
            from sklearn.linear_model import LogisticRegression

            model = LogisticRegression(max_iter=1000).fit(X[:, 1:], learning.outcome)
            chances[seen - 1] = model.predict_proba(X_new[:, 1:]).T
        return _of_chances(chances, learning, rows)

    return _with_inputs_and_without("classes", learning, rows, fit)


def _of_chances(chances: np.ndarray, learning: Rows, rows: Rows) -> Fitted:
    """The most probable of levels, by their probabilities (level, m), and the log density of what was seen.

    Where a level is not among the learning rows, each counts as half a row more: none is ruled out.
    """
    n, n_levels = len(learning.outcome), len(chances)
    if len(np.unique(learning.outcome)) < n_levels:
        chances = (n * chances + 0.5) / (n + 0.5 * n_levels)
    of_seen = chances[rows.outcome.astype(int) - 1, np.arange(chances.shape[1])]
    return 1.0 + chances.argmax(0), np.log(np.maximum(of_seen, np.finfo(float).tiny))


def _overdispersed(learning: Rows, rows: Rows) -> list[Baseline]:
    """Negative binomial regression with a log link and its size by maximum likelihood."""
    y, weight, unit = learning.outcome, learning.unit, rows.unit

    def rate(design: np.ndarray, at: np.ndarray) -> np.ndarray:
        return np.exp(np.clip(design @ at, -40.0, np.log(LARGEST_RATE)))

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        def log_likelihood(at: np.ndarray) -> tuple[float, np.ndarray]:
            m, d = weight * rate(X, at[:-1]), np.exp(at[-1])
            value = gammaln(y + d) - gammaln(d) - gammaln(y + 1.0) - d * np.log1p(m / d)
            value += y * (np.log(m) - np.log(m + d))
            by_d = digamma(y + d) - digamma(d) - np.log1p(m / d) + (m - y) / (m + d)
            return value.sum(), np.append(X.T @ (d * (y - m) / (m + d)), d * by_d.sum())

        start = np.zeros(X.shape[1] + 1)
        start[0] = np.log(y.sum() / weight.sum())
        at = _maximum(log_likelihood, X, start, [(-6, 12)])
        mean, d = unit * rate(X_new, at[:-1]), np.exp(at[-1])
        return mean, scipy.stats.nbinom.logpmf(rows.outcome, d, d / (d + mean))

    return _with_inputs_and_without("negative_binomial", learning, rows, fit)


def _of_zeros(name: str, learning: Rows, rows: Rows) -> list[Baseline]:
    """Negative binomial regression, and one probability of zeros for all rows, by maximum likelihood."""
    y, weight, unit, kind = learning.outcome, learning.unit, rows.unit, WITH_ZEROS[name]

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        def at_most(design: np.ndarray, at: np.ndarray) -> np.ndarray:
            return np.clip(design @ at[:-2], -LARGEST_ETA, np.log(LARGEST_RATE))

        def law(at: np.ndarray, exposure: np.ndarray) -> ZeroInflated | Hurdle:
            base = NegativeBinomial(float(np.exp(at[-2])), exposure=exposure)
            return kind(base, probability=float(expit(at[-1])))

        def log_likelihood(at: np.ndarray) -> tuple[float, np.ndarray]:
            eta, own = at_most(X, at), law(at, weight)
            value, slope = own.log_density_and_gradient(eta, y)
            return float(value), np.append(X.T @ slope, own.parameter_gradient(eta, y))

        some, least = y > 0, 0.5 / len(y)
        start = np.zeros(X.shape[1] + 2)
        start[0] = np.log(y[some].sum() / weight[some].sum())
        start[-1] = logit(np.clip(0.5 * (1.0 - some.mean()), least, 1.0 - least))
        at = _maximum(log_likelihood, X, start, [(-6.0, 12.0), (-12.0, 12.0)])
        eta, own = at_most(X_new, at), law(at, unit)
        return unit * own.conditional_mean(eta), own.derivatives(eta, rows.outcome)[0]

    return _with_inputs_and_without(name, learning, rows, fit)


def _of_varying_chances(learning: Rows, rows: Rows) -> list[Baseline]:
    """Beta-binomial regression with a logit link and its precision by maximum likelihood."""
    y, weight, unit = learning.outcome, learning.unit, rows.unit

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        def log_likelihood(at: np.ndarray) -> tuple[float, np.ndarray]:
            eta, own = X @ at[:-1], BetaBinomial(weight, float(np.exp(at[-1])))
            value, slope, *_ = own.derivatives(eta, y)
            return float(value.sum()), np.append(X.T @ slope, own.parameter_gradient(eta, y))

        start = np.zeros(X.shape[1] + 1)
        start[0], start[-1] = logit(y.sum() / weight.sum()), 2.0
        at = _maximum(log_likelihood, X, start, [(-5.0, 14.0)])
        eta = np.clip(X_new @ at[:-1], -LARGEST_ETA, LARGEST_ETA)
        own = BetaBinomial(unit, float(np.exp(at[-1])))
        return unit * expit(eta), own.derivatives(eta, rows.outcome)[0]

    return _with_inputs_and_without("beta_binomial", learning, rows, fit)


def _heavy_tailed(learning: Rows, rows: Rows) -> list[Baseline]:
    """Linear regression with Student-t noise, scale and degrees of freedom by maximum likelihood."""
    shift, scale = learning.outcome.mean(), learning.outcome.std() or 1.0
    y = (learning.outcome - shift) / scale

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        def log_likelihood(at: np.ndarray) -> tuple[float, np.ndarray]:
            s, v = np.exp(at[-2:])
            r = (y - X @ at[:-2]) / s
            value = -np.log(s) - 0.5 * (v + 1.0) * np.log1p(r**2 / v) - 0.5 * np.log(v * np.pi)
            value += gammaln(0.5 * (v + 1.0)) - gammaln(0.5 * v)
            pull = (v + 1.0) * r / (v + r**2)
            by_v = digamma(0.5 * (v + 1.0)) - digamma(0.5 * v) - 1.0 / v - np.log1p(r**2 / v)
            by_v = 0.5 * v * (by_v + pull * r / v)
            slope = np.concatenate([X.T @ pull / s, [(pull * r - 1.0).sum(), by_v.sum()]])
            return value.sum(), slope

        line = np.linalg.lstsq(X, y, rcond=None)[0]
        start = np.append(line, [np.log(np.std(y - X @ line) + 1e-3), np.log(5.0)])
        at = _maximum(log_likelihood, X, start, [(-12, 5), (0, np.log(200.0))], largest=None)
        s, v = np.exp(at[-2:])
        mean = shift + scale * (X_new @ at[:-2])
        return mean, scipy.stats.t.logpdf(rows.outcome, v, mean, scale * s)

    return _with_inputs_and_without("student_t", learning, rows, fit)


def _with_inputs_and_without(
    name: str, learning: Rows, rows: Rows, fit: Callable[[np.ndarray, np.ndarray], Fitted]
) -> list[Baseline]:
    """A regression and the base rate, each fitted to a design of the learning rows and one of the others."""
    found = []
    for own, role in ((SIMPLE[name], "simple"), ("base rate", "base")):
        kept = slice(None) if role == "simple" else slice(0, 0)
        designs = [
            np.insert(part.X.to_numpy()[:, kept], 0, 1.0, axis=1) for part in (learning, rows)
        ]
        found.append(Baseline(own, role, *fit(*designs)))
    return found


def _maximum(
    log_likelihood: Callable[[np.ndarray], tuple[float, np.ndarray]],
    X: np.ndarray,
    start: np.ndarray,
    bounds: list[tuple[float, float]],
    largest: float | None = LARGEST_ETA,
) -> np.ndarray:
    """Where a log likelihood (value, gradient) is largest, with a slight penalty of all slopes.

    ``bounds`` are those of the parameters behind the slopes, which lie within -largest to largest.
    """
    n, p = X.shape
    penalty = np.zeros(len(start))
    penalty[1:p] = SLIGHT

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = log_likelihood(at)
        return -value / n + 0.5 * float(penalty @ at**2), -slope / n + penalty * at

    of_slopes = (None, None) if largest is None else (-largest, largest)
    return scipy.optimize.minimize(loss, start, jac=True, bounds=[of_slopes] * p + bounds).x


def separated(data: Data) -> str | None:
    """A column that tells the classes of the learning rows apart without error; "" if all together do.

    All together: by a plane in the inputs, of which there are at most a quarter as many as rows. Groups do
    not count: the numbers of their levels have no order.
    """
    X, positive = without_groups(data.learning, data).X, data.learning.outcome > 0.5
    if data.target.kind != "binary" or positive.all() or not positive.any():
        return None
    for code in data.encoding.codes:
        for values in (X[name].to_numpy() for name in code.inputs if name in X):
            yes, no = values[positive], values[~positive]
            if yes.min() > no.max() or yes.max() < no.min():
                return code.column
    n, p = X.shape
    if n < 4 * p or n > MOST_SEPARABLE:
        return None
    signed = np.where(positive, -1.0, 1.0)[:, None] * np.insert(X.to_numpy(), 0, 1.0, axis=1)
    found = scipy.optimize.linprog(np.zeros(p + 1), signed, np.full(n, -1.0), bounds=(None, None))
    return "" if found.status == 0 else None
