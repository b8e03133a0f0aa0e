"""What a user gives for a parameter of a covariance, a mean or a likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.parameters.hyperpriors import Hyperprior, hyperprior

LOG, IDENTITY = "log", "identity"


@dataclass(frozen=True)
class Parameter:
    """One parameter that several terms of a model share, by name.

    >>> ell = Parameter("ell", Hyperprior.log_uniform(0.1, 10.0))  # doctest: +SKIP
    >>> SquaredExponential(ell, columns="age") + Matern32(ell, columns="bmi")  # doctest: +SKIP

    Its gradient is the sum over its places. ``value`` is a number or a hyperprior. Raises `InputError` for
    anything else.
    """

    name: str
    value: Hyperprior | float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", hyperprior(self.value, f"parameter {self.name}"))


Setting = Hyperprior | Mapping | Parameter | float


class Entry(NamedTuple):
    """A parameter as its owner, a covariance or a likelihood, states it to the model."""

    name: str  #: within its owner, such as "length_scale[age]"
    setting: Hyperprior | Parameter | float  #: a number is in the parameter's own units
    coordinate: str = (
        LOG  #: the model's coordinate is the log of the parameter, or the parameter itself
    )


def checked_setting(
    value: Setting, where: str, *, positive: bool = True
) -> Hyperprior | Parameter | float:
    """Setting of a parameter; `InputError` that begins with ``where`` unless it is one."""
    if isinstance(value, Parameter):
        checked_setting(value.value, where, positive=positive)
        return value
    value = hyperprior(value, where)
    if not isinstance(value, Hyperprior) and not (
        np.isfinite(value) and (value > 0 or not positive)
    ):
        kind = "a positive number" if positive else "a finite number"
        raise InputError(f"{where} is {value!r}; allowed: {kind}, or a hyperprior")
    return value
