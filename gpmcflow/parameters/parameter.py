"""What a user gives for a parameter of a covariance, a mean or a likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from gpmcflow.errors import InputError
from gpmcflow.parameters.hyperpriors import Hyperprior, hyperprior

LOG, IDENTITY, LOGIT = "log", "identity", "logit"


@dataclass(frozen=True)
class Parameter:
    """A parameter that several terms of a model share, by its name.

    Its gradient is the sum over the places where it occurs.

    Attributes
    ----------
    name:
        Its name in the model and in results.
    value:
        A number in its own units, which fixes it, or a hyperprior.

    Raises
    ------
    InputError:
        For a value that is neither.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> ell = gp.Parameter("ell", gp.Hyperprior.log_uniform(0.1, 10.0))
    >>> covariance = gp.Matern32(ell, 1.0, columns=0) + gp.Matern12(ell, 0.5, columns=1)
    >>> gp.GPModel(np.eye(3, 2), np.ones(3), covariance, gp.Gaussian(0.1)).names
    ('ell',)
    """

    name: str
    value: Hyperprior | float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", hyperprior(self.value, f"parameter {self.name}"))


Setting = Hyperprior | Mapping | Parameter | float
_ALLOWED = {
    LOG: "a positive number",
    IDENTITY: "a finite number",
    LOGIT: "a number between 0 and 1",
}


class Entry(NamedTuple):
    """A parameter as its owner, a covariance or a likelihood, states it to the model."""

    name: str  #: within its owner, such as "length_scale[age]"
    setting: Hyperprior | Parameter | float  #: a number is in the parameter's own units
    #: the model's coordinate is the log of the parameter, its logit, or the parameter itself
    coordinate: str = LOG


def coordinate_of(value: float, coordinate: str) -> float:
    """Coordinate of a parameter in its own units."""
    if coordinate == IDENTITY:
        return value
    return float(np.log(value) if coordinate == LOG else logit(value))


def own_units(theta: Any, coordinate: str) -> Any:
    """Parameter in its own units at coordinates theta, elementwise."""
    if coordinate == IDENTITY:
        return theta
    return np.exp(theta) if coordinate == LOG else expit(theta)


def checked_setting(
    value: Setting, where: str, coordinate: str = LOG
) -> Hyperprior | Parameter | float:
    """Setting of a parameter; `InputError` that begins with ``where`` unless it is one."""
    if isinstance(value, Parameter):
        checked_setting(value.value, where, coordinate)
        return value
    value = hyperprior(value, where)
    if isinstance(value, Hyperprior):
        if coordinate != IDENTITY and value.of_probability != (coordinate == LOGIT):
            kind, scales = "a positive number", "'log' or 'natural'"
            if coordinate == LOGIT:
                kind, scales = "a probability", "'logit' or 'probability'"
            raise InputError(
                f"{where} is {kind}, its hyperprior {value!r}; allowed: a hyperprior with scale {scales}"
            )
    else:
        require_allowed(value, where, coordinate, ", or a hyperprior")
    return value


def require_allowed(value: float, where: str, coordinate: str, others: str = "") -> None:
    """Raise `InputError` for a number that a parameter with this coordinate cannot be."""
    if coordinate == LOGIT:
        allowed = 0.0 < value < 1.0
    else:
        allowed = np.isfinite(value) and (value > 0.0 or coordinate == IDENTITY)
    if not allowed:
        raise InputError(f"{where} is {value!r}; allowed: {_ALLOWED[coordinate]}{others}")
