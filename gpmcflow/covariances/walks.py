"""Covariances of one column that is time: random walks, smoothing splines, autoregression."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import expit, log_expit

from gpmcflow.covariances.given import GivenLeaf
from gpmcflow.covariances.inputs import Inputs
from gpmcflow.errors import InputError
from gpmcflow.parameters.parameter import Setting


def positive(where: str, value: float | None) -> float | None:
    """A number above 0, or None; else `InputError`."""
    if value is not None and not (np.isfinite(value) and value > 0.0):
        raise InputError(f"{where} is {value!r}; allowed: a positive number, or None")
    return None if value is None else float(value)


@dataclass(frozen=True, repr=False)
class Walk(GivenLeaf):
    """A process that is 0 at its start, to both sides of it; a = (x - start) / span."""

    signal_sd: Setting | None = None
    start: float | None = None
    span: float | None = None

    n_columns = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        who = type(self).__name__
        if self.start is not None and not np.isfinite(self.start):
            raise InputError(f"{who}: start is {self.start!r}; allowed: a finite number, or None")
        object.__setattr__(self, "span", positive(f"{who}: span", self.span))

    def bound_to(self, inputs: Inputs, places: tuple[int, ...]) -> Self:
        """Start and span of the cases, where they are not stated."""
        x, name = inputs.values[:, places[0]], inputs.names[places[0]]
        start = float(x.min()) if self.start is None else float(self.start)
        span = float(np.ptp(x)) if self.span is None else self.span
        if not span > 0.0:
            raise InputError(
                f"{type(self).__name__}: column {name!r} is constant; drop the term, or state its span"
            )
        return replace(self, start=start, span=span)

    def matrix(self, X: np.ndarray, X2: np.ndarray, own: np.ndarray) -> np.ndarray:
        """k / s^2."""
        a, b = self._since_start(X)[:, None], self._since_start(X2)
        near, far = np.minimum(np.abs(a), np.abs(b)), np.maximum(np.abs(a), np.abs(b))
        return np.where(a * b > 0.0, self._of_times(near, far), 0.0)

    def slopes(self, X: np.ndarray, own: np.ndarray) -> list[np.ndarray]:
        """It has no parameter but the amplitude."""
        return []

    def diagonal_of(self, X: np.ndarray, own: np.ndarray) -> np.ndarray:
        """k(x, x) / s^2, (n,)."""
        a = np.abs(self._since_start(X))
        return self._of_times(a, a)

    @staticmethod
    @abstractmethod
    def _of_times(near: np.ndarray, far: np.ndarray) -> np.ndarray:
        """k / s^2 of two times from the start on."""

    def reach(self, X: np.ndarray) -> tuple[float, float]:
        """How far cases X (n, 1) go before the start and after it, in spans; 0 where there are none."""
        a = self._since_start(X)
        return max(float(-a.min()), 0.0), max(float(a.max()), 0.0)

    def outside(self, X: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
        """Which rows of X (n, 1) lie beyond the ends before and after the start, (n,)."""
        a = self._since_start(X)
        return (a < -ends[0]) | (a > ends[1])

    def functions(self, X: np.ndarray, ends: tuple[float, float], n: int) -> np.ndarray:
        """n functions for each side with an end above 0, (rows, n or 2 n), whose squares sum to k / s^2.

        These are Brownian motion's eigenfunctions on [0, end], sqrt(2 / end) sin(w_j a) / w_j with w_j =
        (j - 1/2) pi / end, or their integrals; 0 outside.
        """
        a, frequencies, parts = self._since_start(X)[:, None], np.arange(0.5, n) * np.pi, []
        for time, end in zip((-a, a), ends, strict=True):
            if end > 0.0:
                w, inside = frequencies / end, (time > 0.0) & (time <= end)
                parts.append(np.where(inside, np.sqrt(2.0 / end) * self._waves(time * w, w), 0.0))
        return np.hstack(parts)

    @staticmethod
    @abstractmethod
    def _waves(angle: np.ndarray, w: np.ndarray) -> np.ndarray:
        """sin(angle) / w, or its integral over time."""

    def _since_start(self, X: np.ndarray) -> np.ndarray:
        return (X[:, 0] - self.start) / self.span  # type: ignore[operator] # bound to inputs


class Wiener(Walk):
    """Random walk in continuous time, or Brownian motion (rw1): steps are independent.

    k = s^2 min(|a|, |a'|) on the same side of the start, else 0, a = (x - start) / span. It is 0 at the
    start: add `Constant` for its level.

    Source: Rasmussen & Williams (2006), appendix B.

    Attributes
    ----------
    signal_sd:
        s > 0, the standard deviation of the change over the span, in the units of the latent function; by
        default log s ~ N(0, 1). In a product one factor has an amplitude, the others have s = 1 unless it is
        given.
    start:
        Where it is 0, in the units of the column; by default the least value of the data.
    span:
        Unit of time > 0, in the units of the column; by default the range of the data.
    columns:
        The column, by name or place; it may be left out where X has but one that holds numbers.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "wiener".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior, and more than one column.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> gp.Wiener(signal_sd=2.0, start=0.0, span=4.0)(np.array([1.0, 4.0]))
    array([[1., 1.],
           [1., 4.]])
    """

    term = "wiener"

    @staticmethod
    def _of_times(near: np.ndarray, far: np.ndarray) -> np.ndarray:
        return near + 0.0 * far

    @staticmethod
    def _waves(angle: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.sin(angle) / w


class IntegratedWiener(Walk):
    """Integral of a random walk (rw2): the cubic smoothing spline.

    k = s^2 v^2 (3 m - v) / 6 on the same side of the start, else 0, v = min(|a|, |a'|), m = max(|a|, |a'|),
    a = (x - start) / span. It and its slope are 0 at the start: add `Constant` and `Linear`; where these have
    wide priors the posterior mean of a regression is the cubic smoothing spline with penalty
    span^3 noise_sd^2 / s^2.

    Source: Wahba (1978); Rasmussen & Williams (2006), section 6.3.

    Attributes
    ----------
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). At the end of the span the
        standard deviation is s / sqrt(3). In a product one factor has an amplitude, the others have s = 1
        unless it is given.
    start:
        Where it is 0, in the units of the column; by default the least value of the data.
    span:
        Unit of time > 0, in the units of the column; by default the range of the data.
    columns:
        The column, by name or place; it may be left out where X has but one that holds numbers.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "integrated_wiener".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior, and more than one column.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> gp.IntegratedWiener(signal_sd=1.0, start=0.0, span=1.0)(np.array([1.0, 2.0])).round(4)
    array([[0.3333, 0.8333],
           [0.8333, 2.6667]])
    """

    term = "integrated_wiener"

    @staticmethod
    def _of_times(near: np.ndarray, far: np.ndarray) -> np.ndarray:
        return near * near * (3.0 * far - near) / 6.0

    @staticmethod
    def _waves(angle: np.ndarray, w: np.ndarray) -> np.ndarray:
        return 2.0 * (np.sin(0.5 * angle) / w) ** 2


@dataclass(frozen=True, repr=False)
class AR1(GivenLeaf):
    """Autoregression of order 1: each step keeps a share rho of the last value.

    k = s^2 rho^(|x - x'| / step). In continuous time it is `Matern12` with l = -step / log rho.

    Attributes
    ----------
    rho:
        Correlation of neighbours, between 0 and 1: a number, or a hyperprior on the scale "logit" or
        "probability"; by default logit rho ~ N(1, 1.5^2).
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). In a product one factor has an
        amplitude, the others have s = 1 unless it is given.
    step:
        Distance of neighbours > 0, in the units of the column; by default the least in the data.
    columns:
        The column, by name or place; it may be left out where X has but one that holds numbers.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "ar1".

    Raises
    ------
    InputError:
        For a rho that is neither between 0 and 1 nor a hyperprior of a probability, and more than one column.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> gp.AR1(rho=0.5, signal_sd=2.0)(np.array([1.0, 2.0, 4.0]))
    array([[4. , 2. , 0.5],
           [2. , 4. , 1. ],
           [0.5, 1. , 4. ]])
    """

    rho: Setting | None = None
    signal_sd: Setting | None = None
    step: float | None = None

    term, extra, probabilities, n_columns = "ar1", "rho", ("rho",), 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "step", positive("AR1: step", self.step))

    def bound_to(self, inputs: Inputs, places: tuple[int, ...]) -> Self:
        """The least distance of two cases as the step, where it is not stated."""
        gaps = np.diff(np.unique(inputs.values[:, places[0]]))
        if self.step is None and not gaps.size:
            name = inputs.names[places[0]]
            raise InputError(f"AR1: column {name!r} is constant; drop the term, or state its step")
        return self if self.step is not None else replace(self, step=float(gaps.min()))

    def matrix(self, X: np.ndarray, X2: np.ndarray, own: np.ndarray) -> np.ndarray:
        """rho^steps."""
        return np.exp(self._steps(X, X2) * log_expit(own[0]))

    def slopes(self, X: np.ndarray, own: np.ndarray) -> list[np.ndarray]:
        """The derivative by logit rho."""
        return [self._steps(X, X) * expit(-own[0]) * self.matrix(X, X, own)]

    def diagonal_of(self, X: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Ones (n,)."""
        return np.ones(len(X))

    def _steps(self, X: np.ndarray, X2: np.ndarray) -> np.ndarray:
        return np.abs(X[:, [0]] - X2[:, 0]) / self.step
