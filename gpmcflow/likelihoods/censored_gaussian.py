"""Censored Gaussian likelihood: measurements that stop at a limit, or are known as an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import by_case
from gpmcflow.likelihoods.interval_observed import NORMAL, IntervalObserved
from gpmcflow.parameters.parameter import Setting


@dataclass(frozen=True, eq=False, repr=False)
class CensoredGaussian(IntervalObserved):
    """Measurements with normal noise that stop at a limit (tobit), or are grouped: y* = eta + noise.

    y is y* unless y* is at or below ``below``, where y is that limit and adds log P(y* <= below), or at or
    above ``above``. With ``until`` y* is known to lie in (y, until].

    Attributes
    ----------
    noise_sd:
        Standard deviation > 0 of the noise, in the units of y: a number, a hyperprior or a `Parameter`; by
        default log noise_sd ~ N(-1, 1).
    below, above:
        Limits, a number or one for each case (n,), -inf and inf where there is none; None: no limit.
    until:
        Upper ends (n,) of grouped measurements, nan where y is y* itself; None: nothing is grouped.

    Raises
    ------
    InputError:
        For a noise level that is not positive, limits in the wrong order; in a model, for y beyond a limit,
        and upper ends below y.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> likelihood = gp.CensoredGaussian(noise_sd=1.0, below=0.0)
    >>> round(likelihood.log_density(np.zeros(1), np.zeros(1)).item(), 4)  # log 1/2
    -0.6931
    """

    noise_sd: Setting | None = None
    below: Any = None
    above: Any = None
    until: Any = None
    name = "censored_gaussian"
    parameters = ("noise_sd",)
    constants = of_observation = ("below", "above", "until")
    in_units_of_y = ("noise_sd",)
    code = NORMAL

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self._limits()
        if not np.all(low < high):
            raise InputError(
                "CensoredGaussian likelihood: below is not less than above; allowed: below < above in every "
                "case"
            )

    def checked_constant(self, name: str, value: Any, where: str) -> Any:
        """Limits as a number or as an array that cannot be written to, or None."""
        if value is None or (
            np.ndim(value) == 0 and name != "until" and isinstance(value, int | float)
        ):
            return value if value is None else float(value)
        return by_case(value, where, "numbers, inf, or nan for none")

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` for y beyond a limit, or at and above its upper end."""
        super().validate(y)
        low, high = self._limits()
        wrong = np.flatnonzero((y < low) | (y > high))
        if wrong.size:
            i = wrong[0]
            raise InputError(
                f"censored_gaussian likelihood: y[{i}] is {y[i]:g}, beyond the limits "
                f"{np.broadcast_to(low, y.shape)[i]:g} to {np.broadcast_to(high, y.shape)[i]:g}; give a "
                "censored y as its limit"
            )
        self.refuse_low_ends(y, self.until)

    @property
    def s(self) -> float | np.ndarray:
        """Standard deviation of the noise."""
        return self.number("noise_sd")

    def ends(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ends between which each y* lies."""
        low, high = self._limits()
        ends = np.where(y <= low, -np.inf, y), np.where(y >= high, np.inf, y)
        if self.until is None:
            return ends
        return ends[0], np.where(np.isnan(self.until), ends[1], self.until)

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Return eta plus noise, and the limit where that is beyond it; nothing is grouped."""
        return np.clip(self.simulate_latent(rng, eta), *self._limits())

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """Return eta, the mean of y*."""
        return np.array(eta)

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the mean, that of y*."""
        return np.array(mean)

    def _limits(self) -> tuple[float | np.ndarray, float | np.ndarray]:
        low = -np.inf if self.below is None else self.below
        return low, np.inf if self.above is None else self.above
