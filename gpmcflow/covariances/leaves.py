"""Periodic, linear and polynomial covariances, and all there are by name; see `expressions` for + and *."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpmcflow.covariances import nodes
from gpmcflow.covariances.expressions import Leaf
from gpmcflow.covariances.levels import Categorical, Constant, Group, White
from gpmcflow.covariances.stationary import (
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
    Scales,
    SquaredExponential,
)
from gpmcflow.errors import InputError
from gpmcflow.parameters.parameter import Setting


@dataclass(frozen=True, repr=False)
class Periodic(Leaf):
    """Periodic covariance, of functions of one column that repeat themselves (ExpSineSquared elsewhere).

    k = s^2 exp(-2 sin^2(pi (x - x') / p) / l^2). The factor 2 and l inside the square are MacKay's, as in
    scikit-learn; GPflow has 1/2 in the place of 2. A hyperprior of p wider than a factor of 2 makes the
    posterior multimodal.

    Source: MacKay (1998), as in Rasmussen & Williams (2006), eq. 4.31.

    Attributes
    ----------
    length_scale:
        l > 0, dimensionless: the smaller, the more the function varies within a period; by default
        log l ~ N(0, 1).
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). In a product one factor has an
        amplitude, the others have s = 1 unless it is given.
    period:
        p > 0, in the units of the column, which should be left as it is; there is no default.
    columns:
        The column, by name or place; it may be left out where X has but one that holds numbers.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "periodic".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior, no period, or more than one
        column.

    Examples
    --------
    >>> import pandas as pd
    >>> import gpmcflow as gp
    >>> yearly = gp.Periodic(length_scale=1.0, signal_sd=1.0, period=12.0, columns="month")
    >>> yearly(pd.DataFrame({"month": [1.0, 7.0, 13.0]})).round(4)
    array([[1.    , 0.1353, 1.    ],
           [0.1353, 1.    , 0.1353],
           [1.    , 0.1353, 1.    ]])
    """

    length_scale: Setting | None = None
    signal_sd: Setting | None = None
    period: Setting | None = None

    code, term, scales, extra = nodes.PERIODIC, "periodic", "length_scale", "period"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.period is None:
            raise InputError(
                "Periodic: period is missing, and has no default; give a number in the units of the "
                "column, or a hyperprior"
            )
        columns: Any = self.columns or (0,)
        if isinstance(self.length_scale, tuple) or len(columns) != 1:
            raise InputError("Periodic: more than one column; allowed: one; multiply one for each")


@dataclass(frozen=True, repr=False)
class Linear(Leaf):
    """Linear covariance: slopes ~ N(0, sd_c^2), and no intercept (add `Constant`).

    k = sum_c sd_c^2 x_c x'_c. A single slope's standard deviation scales a product as an amplitude does.

    Source: Rasmussen & Williams (2006), section 4.2.2.

    Attributes
    ----------
    sd:
        Standard deviations > 0 of the slopes, in units of the latent function over those of the column: a
        number, a hyperprior or a `Parameter` for all columns, or a sequence of one for each; by default
        log sd ~ N(0, 1).
    ard:
        Whether each column has a standard deviation of its own.
    columns:
        Columns of X it depends on, by name or place; by default all that hold numbers.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "linear".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> gp.Linear(sd=2.0)(np.array([1.0, 3.0]))
    array([[ 4., 12.],
           [12., 36.]])
    """

    sd: Scales = None
    ard: bool = field(default=False, kw_only=True)

    code, term, scales, degree = nodes.POLYNOMIAL, "linear", "sd", 1
    has_amplitude, amplitude = False, "sd"


@dataclass(frozen=True, repr=False)
class Polynomial(Leaf):
    """Polynomial covariance: of all monomials of the columns up to a degree.

    k = (b^2 + sum_c sd_c^2 x_c x'_c)^q.

    Source: Rasmussen & Williams (2006), section 4.2.2.

    Attributes
    ----------
    degree:
        q, a whole number from 1 to 10.
    sd:
        Standard deviations > 0 of the slopes inside the power: a number, a hyperprior or a `Parameter` for
        all columns, or a sequence of one for each; by default log sd ~ N(0, 1). Units are those of the latent
        function to the power 1 / q, over those of the column.
    offset:
        b > 0, in the units of the latent function to the power 1 / q; by default log b ~ N(0, 1).
    ard:
        Whether each column has a standard deviation of its own.
    columns:
        Columns of X it depends on, by name or place; by default all that hold numbers.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "polynomial".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior, and a degree out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> gp.Polynomial(degree=2, sd=1.0, offset=1.0)(np.array([1.0, 3.0]))
    array([[  4.,  16.],
           [ 16., 100.]])
    """

    degree: int = 2
    sd: Scales = None
    offset: Setting | None = None
    ard: bool = field(default=False, kw_only=True)

    code, term, scales, extra = nodes.POLYNOMIAL, "polynomial", "sd", "offset"
    has_amplitude = False

    def with_defaults(self, amplitude: bool = True) -> Polynomial:
        """The same; in a product whose amplitude another factor carries, ``offset`` left out is 1."""
        one = not amplitude and self.offset is None
        return Leaf.with_defaults(replace(self, offset=1.0) if one else self)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.degree, (int, np.integer)) and 1 <= self.degree <= 10):
            raise InputError(f"Polynomial: degree is {self.degree!r}; allowed: 1 to 10")
        object.__setattr__(self, "degree", int(self.degree))  # texts tell it


LEAVES: dict[str, type[Leaf]] = {
    kind.term: kind
    for kind in (
        SquaredExponential, Matern12, Matern32, Matern52, RationalQuadratic, Periodic, Linear, Polynomial,
        Constant, White, Categorical, Group,
    )
}  # fmt: skip
