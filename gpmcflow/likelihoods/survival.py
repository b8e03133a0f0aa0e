"""Survival likelihoods: times to an event, seen to the end, cut off, or known to lie in an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, log_expit, log_ndtr

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods.base import by_case
from gpmcflow.likelihoods.interval_observed import (
    EXTREME_VALUE,
    LOGISTIC,
    NORMAL,
    IntervalObserved,
)
from gpmcflow.likelihoods.positive import LARGEST_LOG_RESPONSE as LARGEST
from gpmcflow.likelihoods.positive import PositiveLikelihood
from gpmcflow.parameters.parameter import Setting

_LAWS = {"weibull": EXTREME_VALUE, "loglogistic": LOGISTIC, "lognormal": NORMAL}


@dataclass(frozen=True, eq=False, repr=False)
class Survival(IntervalObserved, PositiveLikelihood):
    """Times to an event: log t = eta + s eps, where some are only known to be longer, or shorter.

    A case that was seen to its end adds log f((log t - eta) / s) - log s - log t, one known to lie in (l, u]
    the log of F((log u - eta) / s) - F((log l - eta) / s). eps is the log of a unit exponential (Weibull,
    shape 1 / s), logistic, or normal. One unit more of eta makes times e times as long; under Weibull the
    hazard is then exp(-1 / s) times as high.

    Attributes
    ----------
    law:
        "weibull", "loglogistic" or "lognormal".
    scale:
        s > 0, of log t: a number, a hyperprior or a `Parameter`; by default log s ~ N(-0.5, 0.75^2).
    event:
        One for each case (n,): 1 where the end was seen at y, 0 where it came after y (censored), -1 where it
        came before y. None: all ends were seen.
    until:
        Upper ends (n,) > y of times known to lie between y and there, nan where there is none, inf for "after
        y". None: no intervals. A case has an interval, or an event of 0 or -1.

    Raises
    ------
    InputError:
        For an unknown law, a scale that is not positive, events other than -1, 0, 1; in a model, for times
        that are not positive, and upper ends below them.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> likelihood = gp.Survival(scale=1.0, event=[1, 0])  # exponential times of mean 1
    >>> likelihood.log_density(np.zeros(2), np.array([2.0, 3.0])).item()
    -5.0
    """

    law: str = "weibull"
    scale: Setting | None = None
    event: Any = None
    until: Any = None
    name = "survival"
    options = ("law",)
    parameters = ("scale",)
    constants = of_observation = ("event", "until")
    in_units_of_y = ("scale",)

    def __post_init__(self) -> None:
        if self.law not in _LAWS:
            raise unknown_name("Survival likelihood: law", self.law, _LAWS)
        super().__post_init__()
        if self.event is not None and self.until is not None:
            both = np.flatnonzero((self.event < 1.0) & ~np.isnan(self.until))
            if both.size:
                raise InputError(
                    f"Survival likelihood: case {both[0]} has event {self.event[both[0]]:g} and until "
                    f"{self.until[both[0]]:g}; allowed: one of the two; set until to nan there, or event to 1"
                )

    def checked_constant(self, name: str, value: Any, where: str) -> Any:
        """Events and upper ends as arrays that cannot be written to, or None."""
        if value is None:
            return None
        allowed = "-1, 0 or 1" if name == "event" else "numbers, inf, or nan for none"
        array = by_case(value, where, allowed)
        if name == "event":
            wrong = np.flatnonzero(~np.isin(array, (-1.0, 0.0, 1.0)))
            if wrong.size:
                raise InputError(
                    f"{where}[{wrong[0]}] is {array[wrong[0]]:g}; allowed: 1 (the end was seen), 0 (it came "
                    "later), -1 (it came earlier); recode the column"
                )
        return array

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless times are positive, and upper ends above them."""
        super().validate(y)
        self.refuse_low_ends(y, self.until)

    @property
    def code(self) -> int:
        """Law of eps."""
        return _LAWS[self.law]

    @property
    def s(self) -> float | np.ndarray:
        """Scale of log t."""
        return self.number("scale")

    def to_eta(self, y: np.ndarray) -> np.ndarray:
        """Return log y."""
        return np.log(y)

    def ends(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logs of the ends between which each time lies."""
        low = high = np.log(y)
        if self.event is not None:
            low, high = (
                np.where(self.event < 0, -np.inf, low),
                np.where(self.event == 0, np.inf, high),
            )
        if self.until is not None:
            high = np.where(np.isnan(self.until), high, np.log(self.until))
        return low, high

    def log_measure(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """-log s - log t of the times that were seen, at log t = low = high."""
        return np.where(low == high, -np.log(self.s) - low, 0.0)

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Times as if each had been seen to its end, within exp(-700) and exp(700)."""
        return np.exp(np.clip(self.simulate_latent(rng, eta), -LARGEST, LARGEST))

    def log_survival(self, eta: np.ndarray, times: np.ndarray) -> np.ndarray:
        """log P(t > times | eta), broadcast."""
        with np.errstate(divide="ignore", over="ignore"):
            a = (np.log(times) - eta) / self.s
            if self.law == "weibull":
                return -np.exp(a)
            return log_expit(-a) if self.law == "loglogistic" else log_ndtr(-a)

    def conditional_median(self, eta: np.ndarray) -> np.ndarray:
        """exp(eta) (log 2)^s under the Weibull law, else exp(eta)."""
        factor = math.log(2.0) ** self.s if self.law == "weibull" else 1.0
        with np.errstate(over="ignore"):
            return factor * np.exp(eta)

    def has_moment(self, order: int) -> bool:
        """Whether s times the order is below 1 under the log-logistic law; always under the others."""
        return self.law != "loglogistic" or bool(np.all(self.s * order < 1.0))

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """exp(eta) G(1 + s), exp(eta) pi s / sin(pi s), or exp(eta + s^2 / 2); nan where there is none."""
        return self.mean_response(eta, np.zeros(()))

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """As `conditional_mean` at mean + variance / 2."""
        s: Any = self.s
        if self.law == "weibull":
            log_factor = gammaln(1.0 + s)
        elif self.law == "loglogistic":
            with np.errstate(invalid="ignore", divide="ignore"):
                log_factor = np.where(s < 1.0, -np.log(np.sinc(s)), np.nan)
        else:
            log_factor = 0.5 * s**2
        with np.errstate(over="ignore"):
            return np.exp(mean + 0.5 * variance + log_factor)
