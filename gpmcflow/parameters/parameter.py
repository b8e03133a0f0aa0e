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
