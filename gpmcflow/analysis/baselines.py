"""What an analysis is compared with: no model, and a regression whose response is of the model's kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy  # its parts, and scikit-learn, are loaded on first use: they take long to load
from scipy.special import expit, logit

from gpmcflow.analysis.data import Data, Rows
from gpmcflow.likelihoods import (
    Beta,
    BetaBinomial,
    Gamma,
    Hurdle,
    Likelihood,
    NegativeBinomial,
    Ordinal,
    StudentT,
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
    learning, rows = (part._replace(unit=part.effort(kind)) for part in (learning, rows))
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
        line = np.linalg.lstsq(X, log_y, rcond=None)[0]
        spread = np.var(log_y - X @ line) + 1e-3
        start = np.append(line, np.clip(-np.log(spread), -3.0, 6.0))
        eta, (a,) = _regression((X, X_new), np.exp(log_y), Gamma, start, [(-5, 12)])
        mean = np.exp(np.clip(centre + eta, -LARGEST_LOG, LARGEST_LOG))
        law = scipy.stats.gamma(a, scale=mean / a)
        return law.median(), law.logpdf(rows.outcome)

    return _with_inputs_and_without("gamma", learning, rows, fit)


def _of_times(learning: Rows, rows: Rows, law: str) -> list[Baseline]:
    """Accelerated failure times by maximum likelihood; censored times and intervals as such."""
    centre = np.log(learning.middle).mean()
    y, y_new = (part.outcome / np.exp(centre) for part in (learning, rows))
    log_y = np.log(learning.middle) - centre

    def law_of(scale: float, part: Rows = learning) -> Survival:
        until = None if part.until is None else part.until / np.exp(centre)
        return Survival(law, scale, event=part.unit, until=until)

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        line = np.linalg.lstsq(X, log_y, rcond=None)[0]
        spread = np.log(np.std(log_y - X @ line) + 1e-3)
        start, bounds = np.append(line, np.clip(spread, -2.0, 2.0)), [(-5.0, 3.0)]
        eta, (scale,) = _regression((X, X_new), y, law_of, start, bounds)
        own = law_of(scale, rows)
        density = own.derivatives(eta, y_new)[0] - centre * rows.seen("survival")
        return np.exp(centre) * own.conditional_median(eta), density

    return _with_inputs_and_without(law, learning, rows, fit)


def _of_shares(learning: Rows, rows: Rows) -> list[Baseline]:
    """Beta regression with a logit link and its precision by maximum likelihood."""
    y = learning.outcome

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        line = np.linalg.lstsq(X, logit(y), rcond=None)[0]
        mean = expit(X @ line)
        spread = np.mean((y - mean) ** 2) / np.mean(mean * (1.0 - mean)) + 1e-6
        start = np.append(line, np.clip(np.log(1.0 / spread), -2.0, 10.0))
        eta, (precision,) = _regression((X, X_new), y, Beta, start, [(-5.0, 14.0)])
        return expit(eta), Beta(precision).derivatives(eta, rows.outcome)[0]

    return _with_inputs_and_without("share", learning, rows, fit)


def _of_grades(learning: Rows, rows: Rows, n_grades: int) -> list[Baseline]:
    """Proportional odds by maximum likelihood."""
    seen, y = np.unique(learning.outcome, return_inverse=True)

    def law(*gaps: float) -> Ordinal:
        return Ordinal(len(seen)).with_values(np.array(gaps))

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        below = logit(np.cumsum(np.bincount(y))[:-1] / len(y))
        start = np.concatenate([[-below[0]], np.zeros(X.shape[1] - 1), np.log(np.diff(below))])
        bounds = [(-12.0, 5.0)] * (len(seen) - 2)
        eta, gaps = _regression((X, X_new), y + 1.0, law, start, bounds)
        chances = np.zeros((n_grades, len(eta)))
        chances[seen.astype(int) - 1] = law(*gaps).class_probabilities(eta, np.zeros(len(eta)))
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
    start = [np.log(learning.outcome.sum() / learning.unit.sum()), 0.0]

    def law(exposure: np.ndarray, size: float) -> NegativeBinomial:
        return NegativeBinomial(size, exposure=exposure)

    return _of_counted("negative_binomial", learning, rows, law, start, [(-6, 12)])


def _of_zeros(name: str, learning: Rows, rows: Rows) -> list[Baseline]:
    """Negative binomial regression, and one probability of zeros for all rows, by maximum likelihood."""
    some, least = learning.outcome > 0, 0.5 / len(learning.outcome)
    level = np.log(learning.outcome[some].sum() / learning.unit[some].sum())
    start = [level, 0.0, logit(np.clip(0.5 * (1.0 - some.mean()), least, 1.0 - least))]

    def law(exposure: np.ndarray, size: float, odds: float) -> ZeroInflated | Hurdle:
        base = NegativeBinomial(size, exposure=exposure)
        return WITH_ZEROS[name](base, probability=odds / (1.0 + odds))

    return _of_counted(name, learning, rows, law, start, [(-6.0, 12.0), (-12.0, 12.0)])


def _of_varying_chances(learning: Rows, rows: Rows) -> list[Baseline]:
    """Beta-binomial regression with a logit link and its precision by maximum likelihood."""
    start = [logit(learning.outcome.sum() / learning.unit.sum()), 2.0]
    return _of_counted("beta_binomial", learning, rows, BetaBinomial, start, [(-5.0, 14.0)])


def _of_counted(
    name: str,
    learning: Rows,
    rows: Rows,
    law: Callable[..., Likelihood],
    start: list[float],
    bounds: list[tuple[float, float]],
) -> list[Baseline]:
    """A regression by a law of exposures or trials and of parameters; it starts without slopes."""

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        flat = np.insert(start, 1, np.zeros(X.shape[1] - 1))
        of_learning = partial(law, learning.unit)
        eta, found = _regression((X, X_new), learning.outcome, of_learning, flat, bounds)
        own = law(rows.unit, *found)
        return rows.unit * own.conditional_mean(eta), own.derivatives(eta, rows.outcome)[0]

    return _with_inputs_and_without(name, learning, rows, fit)


def _heavy_tailed(learning: Rows, rows: Rows) -> list[Baseline]:
    """Linear regression with Student-t noise, scale and degrees of freedom by maximum likelihood."""
    shift, scale = learning.outcome.mean(), learning.outcome.std() or 1.0
    y = (learning.outcome - shift) / scale

    def fit(X: np.ndarray, X_new: np.ndarray) -> Fitted:
        line = np.linalg.lstsq(X, y, rcond=None)[0]
        start = np.append(line, [np.log(np.std(y - X @ line) + 1e-3), np.log(5.0)])
        bounds = [(-12, 5), (0, np.log(200.0))]
        eta, (s, v) = _regression((X, X_new), y, StudentT, start, bounds, largest=np.inf)
        mean = shift + scale * eta
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


def _regression(
    designs: tuple[np.ndarray, np.ndarray],
    y: np.ndarray,
    law: Callable[..., Likelihood],
    start: np.ndarray,
    bounds: list[tuple[float, float]],
    largest: float = LARGEST_ETA,
) -> tuple[np.ndarray, list[float]]:
    """Latent values of other rows (m,) and positive parameters of a law, by maximum likelihood.

    All slopes have a slight penalty. ``designs`` are those of the learning rows and of the others; ``start``
    has slopes and then logs of the parameters, which ``bounds`` limit; slopes and latent values lie within
    -largest to largest.
    """
    X, X_new = designs
    n, p = X.shape
    penalty = np.zeros(len(start))
    penalty[1:p] = SLIGHT

    def eta_of(design: np.ndarray, at: np.ndarray) -> np.ndarray:
        return np.clip(design @ at[:p], -largest, largest)

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        eta, own = eta_of(X, at), law(*np.exp(at[p:]).tolist())
        value, first, *_ = own.derivatives(eta, y)
        slope = np.append(X.T @ first, own.parameter_gradient(eta, y))
        return -value.sum() / n + 0.5 * float(penalty @ at**2), -slope / n + penalty * at

    limits = [(-largest, largest)] * p + bounds
    at = scipy.optimize.minimize(loss, start, jac=True, bounds=limits).x
    return eta_of(X_new, at), np.exp(at[p:]).tolist()


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
