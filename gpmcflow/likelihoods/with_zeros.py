"""What zero-inflated and hurdle likelihoods share: a base for counts, and a probability of zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import Likelihood
from gpmcflow.likelihoods.counts import CountLikelihood, log_factorial, validate_counts
from gpmcflow.likelihoods.negative_binomial import NegativeBinomial
from gpmcflow.likelihoods.poisson import Poisson
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.exponentials import exponential
from gpmcflow.numerics.gamma_ratios import log_gamma_ratio
from gpmcflow.parameters.parameter import Entry, Setting


@compiled(inline="always")
def zero_terms(z, d):
    """x, each, s, p of `ZeroTerms` at z = log m: of a Poisson base where d is 0, else of size d."""
    if d == 0.0:
        rate = np.inf if z > 708.0 else exponential(z)
        return rate, z, rate, 1.0
    z -= np.log(d)
    e = exponential(-abs(z))
    less, inverse = np.log1p(e), 1.0 / (1.0 + e)
    p, q = (e * inverse, inverse) if z > 0.0 else (inverse, e * inverse)
    return d * (max(z, 0.0) + less), min(z, 0.0) - less, d * q, p


class WithZeros(Likelihood):
    """Counts of a ``base`` whose parameters and exposure come along, and the ``probability`` pi of zeros."""

    base: CountLikelihood
    probability: Setting | None
    parameters = ("probability",)
    probabilities = ("probability",)
    constants = ("exposure",)
    discrete = True
    log_concave = False
    standard_sites = "laplace"

    def __post_init__(self) -> None:
        if type(self.base) not in (Poisson, NegativeBinomial):
            raise InputError(
                f"{type(self).__name__} likelihood: base is {self.base!r}; allowed: Poisson() or "
                "NegativeBinomial(), with their settings"
            )
        object.__setattr__(self, "probability", self._checked("probability"))

    @property
    def exposure(self) -> float | np.ndarray:
        """That of the base."""
        return self.base.exposure

    def entries(self) -> tuple[Entry, ...]:
        """Return those of the base, and the probability."""
        return *self.base.entries(), *super().entries()

    def with_values(self, values: Sequence[float]) -> Likelihood:
        """Return the same likelihood with numbers, in their own units, one for each of `entries`."""
        *of_base, probability = values
        return self._changed(
            {"base": self.base.with_values(of_base), "probability": float(probability)}
        )

    def number(self, name: str) -> float | np.ndarray:
        """Value of a parameter. Raises `InputError` where it is free."""
        return super().number(name) if name == "probability" else self.base.number(name)

    def _changed(self, fields: dict[str, Any]) -> Likelihood:
        of_base = {name: value for name, value in fields.items() if name in self.constants}
        own = {name: value for name, value in fields.items() if name not in of_base}
        if of_base:
            own["base"] = self.base._changed(of_base)
        return super()._changed(own)

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless y holds counts, of as many cases as the exposure."""
        super().validate(y)
        validate_counts(self.name, y)

    def places(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where quadrature over eta must look besides the cavity: at the count, or where p(0) falls."""
        x = self._fall()
        some = np.maximum(y, 1.0)
        at_zero = np.broadcast_to(self.base.eta_of_zero(x), y.shape)
        widths = 1.0 / np.maximum(self.base.zero_terms(at_zero).s, 1.0)
        d = self._size()
        spread = np.sqrt(1.0 / some + (1.0 / d if d else 0.0))
        centre = np.log(some) - np.log(self.exposure)
        return np.where(y > 0, centre, at_zero), np.where(y > 0, spread, widths)

    def _fall(self) -> float:
        """Minus log p(0) of the base where zeros become those of the other kind; 1 where there is none."""
        return 1.0

    def _size(self) -> float:
        """Of a negative binomial base, 0 of a Poisson one."""
        return float(self.number("size")) if isinstance(self.base, NegativeBinomial) else 0.0

    def _constants_of_base(self, y: np.ndarray) -> np.ndarray:
        """What log p0(y) has besides y each - x; 0 for y = 0."""
        d = self._size()
        return (log_gamma_ratio(d, y) if d else 0.0) - log_factorial(y)

    def _constant_of_base(self, y: np.ndarray) -> float:
        """`_constants_of_base`, summed."""
        return float(self._constants_of_base(y).sum())

    def _log_exposures(self, y: np.ndarray) -> np.ndarray:
        return np.full((1, len(y)), np.log(self.exposure))

    def _pi(self) -> float:
        return float(super().number("probability"))
