"""Covariance functions by name: of the distance between inputs, of levels, periodic, linear, polynomial.

See `expressions` for + and *.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpmcflow.covariances import nodes
from gpmcflow.covariances.expressions import Leaf
from gpmcflow.errors import InputError
from gpmcflow.parameters.parameter import Setting

# Covariances of the distance between inputs.

Scales = Setting | Sequence[Setting] | None


@dataclass(frozen=True, repr=False)
class Stationary(Leaf):
    """One length scale, or one for each column, and an amplitude."""

    length_scale: Scales = None
    signal_sd: Setting | None = None
    ard: bool = field(default=False, kw_only=True)

    scales = "length_scale"


class SquaredExponential(Stationary):
    """Squared exponential covariance, of smooth functions (RBF, ExpQuad in other packages).

    k = s^2 exp(-r^2 / 2), r^2 = sum_c (x_c - x'_c)^2 / l_c^2.

    Source: Rasmussen & Williams (2006), eqs. 4.9, 5.1.

    Attributes
    ----------
    length_scale:
        l > 0, in the units of the columns: a number, a hyperprior or a `Parameter` for all columns, or a
        sequence of one for each; by default log l ~ N(0, 1), which suits standardised columns.
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). In a product one factor has an
        amplitude, the others have s = 1 unless it is given.
    ard:
        Whether each column has a length scale of its own (automatic relevance determination).
    columns:
        Columns of X it depends on, by name or place; by default all that hold numbers.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "squared_exponential".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> gp.SquaredExponential(length_scale=2.0, signal_sd=3.0)(np.array([0.0, 2.0])).round(4)
    array([[9.    , 5.4588],
           [5.4588, 9.    ]])
    """

    code, term = nodes.SQUARED_EXPONENTIAL, "squared_exponential"


class Matern12(Stationary):
    """Matern covariance of smoothness 1/2, of continuous but rough functions (exponential).

    k = s^2 exp(-r), r^2 = sum_c (x_c - x'_c)^2 / l_c^2.

    Source: Rasmussen & Williams (2006), section 4.2.

    Attributes
    ----------
    length_scale:
        l > 0, in the units of the columns: a number, a hyperprior or a `Parameter` for all columns, or a
        sequence of one for each; by default log l ~ N(0, 1), which suits standardised columns.
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). In a product one factor has an
        amplitude, the others have s = 1 unless it is given.
    ard:
        Whether each column has a length scale of its own (automatic relevance determination).
    columns:
        Columns of X it depends on, by name or place; by default all that hold numbers.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "matern12".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> gp.Matern12(length_scale=2.0, signal_sd=3.0)(np.array([0.0, 2.0])).round(4)
    array([[9.    , 3.3109],
           [3.3109, 9.    ]])
    """

    code, term = nodes.MATERN12, "matern12"


class Matern32(Stationary):
    """Matern covariance of smoothness 3/2, of functions that are differentiable once.

    k = s^2 (1 + a) exp(-a), a = sqrt(3) r, r^2 = sum_c (x_c - x'_c)^2 / l_c^2.

    Source: Rasmussen & Williams (2006), eq. 4.17.

    Attributes
    ----------
    length_scale:
        l > 0, in the units of the columns: a number, a hyperprior or a `Parameter` for all columns, or a
        sequence of one for each; by default log l ~ N(0, 1), which suits standardised columns.
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). In a product one factor has an
        amplitude, the others have s = 1 unless it is given.
    ard:
        Whether each column has a length scale of its own (automatic relevance determination).
    columns:
        Columns of X it depends on, by name or place; by default all that hold numbers.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "matern32".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> gp.Matern32(length_scale=2.0, signal_sd=3.0)(np.array([0.0, 2.0])).round(4)
    array([[9.    , 4.3502],
           [4.3502, 9.    ]])
    """

    code, term = nodes.MATERN32, "matern32"


class Matern52(Stationary):
    """Matern covariance of smoothness 5/2, of functions that are differentiable twice.

    k = s^2 (1 + a + a^2 / 3) exp(-a), a = sqrt(5) r, r^2 = sum_c (x_c - x'_c)^2 / l_c^2.

    Source: Rasmussen & Williams (2006), eq. 4.17.

    Attributes
    ----------
    length_scale:
        l > 0, in the units of the columns: a number, a hyperprior or a `Parameter` for all columns, or a
        sequence of one for each; by default log l ~ N(0, 1), which suits standardised columns.
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). In a product one factor has an
        amplitude, the others have s = 1 unless it is given.
    ard:
        Whether each column has a length scale of its own (automatic relevance determination).
    columns:
        Columns of X it depends on, by name or place; by default all that hold numbers.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "matern52".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> gp.Matern52(length_scale=2.0, signal_sd=3.0)(np.array([0.0, 2.0])).round(4)
    array([[9.    , 4.7159],
           [4.7159, 9.    ]])
    """

    code, term = nodes.MATERN52, "matern52"


@dataclass(frozen=True, repr=False)
class RationalQuadratic(Leaf):
    """Rational quadratic covariance: a mixture of squared exponentials of many length scales.

    k = s^2 (1 + r^2 / (2 alpha))^-alpha, r^2 = sum_c (x_c - x'_c)^2 / l_c^2.

    Source: Rasmussen & Williams (2006), eq. 4.19.

    Attributes
    ----------
    length_scale:
        l > 0, in the units of the columns: a number, a hyperprior or a `Parameter` for all columns, or a
        sequence of one for each; by default log l ~ N(0, 1), which suits standardised columns.
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). In a product one factor has an
        amplitude, the others have s = 1 unless it is given.
    alpha:
        Shape > 0, dimensionless: the smaller, the wider the mixture; as it grows k becomes the squared
        exponential. By default log alpha ~ N(0, 1).
    ard:
        Whether each column has a length scale of its own (automatic relevance determination).
    columns:
        Columns of X it depends on, by name or place; by default all that hold numbers.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "rational_quadratic".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> gp.RationalQuadratic(length_scale=2.0, signal_sd=3.0, alpha=0.5)(np.array([0.0, 2.0])).round(4)
    array([[9.   , 6.364],
           [6.364, 9.   ]])
    """

    length_scale: Scales = None
    signal_sd: Setting | None = None
    alpha: Setting | None = None
    ard: bool = field(default=False, kw_only=True)

    code, term, scales, extra = (
        nodes.RATIONAL_QUADRATIC, "rational_quadratic", "length_scale", "alpha",
    )  # fmt: skip


# Covariances of levels: of words and codes, of a case with itself, and one that is the same for all.


@dataclass(frozen=True, repr=False)
class _WithAmplitude(Leaf):
    signal_sd: Setting | None = None


class Constant(_WithAmplitude):
    """Constant covariance: one intercept ~ N(0, s^2) for all cases.

    k = s^2.

    Attributes
    ----------
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). In a product one factor has an
        amplitude, the others have s = 1 unless it is given.
    columns:
        Has to stay None, as it does not depend on the inputs.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "constant".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> gp.Constant(2.0)(np.array([1.0, 3.0]))
    array([[4., 4.],
           [4., 4.]])
    """

    code, term = nodes.CONSTANT, "constant"


class White(_WithAmplitude):
    """White noise in the latent function: an independent N(0, s^2) for each case.

    k = s^2 for a case with itself, else 0: also for two cases with the same inputs, and for new ones.

    Attributes
    ----------
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). In a product one factor has an
        amplitude, the others have s = 1 unless it is given.
    columns:
        Has to stay None, as it does not depend on the inputs.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "white".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> gp.White(2.0)(np.array([1.0, 1.0]))
    array([[4., 0.],
           [0., 4.]])
    """

    code, term = nodes.WHITE, "white"


class Categorical(Stationary):
    """Categorical covariance: the same level correlates fully, different ones by exp(-1 / l).

    k = s^2 exp(-sum_c [x_c != x'_c] / l_c), of columns with words, or codes, for levels.

    Attributes
    ----------
    length_scale:
        l > 0, dimensionless: a number, a hyperprior or a `Parameter` for all columns, or a sequence of one
        for each; by default log l ~ N(0, 1).
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). In a product one factor has an
        amplitude, the others have s = 1 unless it is given.
    ard:
        Whether each column has a length scale of its own (automatic relevance determination).
    columns:
        Columns of X, by name or place, that hold words or codes; there is no default.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "categorical".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior.

    Examples
    --------
    >>> import pandas as pd
    >>> import gpmcflow as gp
    >>> homes = pd.DataFrame({"town": ["Leeds", "York", "Leeds"]})
    >>> gp.Categorical(length_scale=1.0, signal_sd=1.0, columns="town")(homes).round(4)
    array([[1.    , 0.3679, 1.    ],
           [0.3679, 1.    , 0.3679],
           [1.    , 0.3679, 1.    ]])
    """

    code, term, levels_allowed = nodes.CATEGORICAL, "categorical", True


class Group(_WithAmplitude):
    """Group covariance: an independent intercept ~ N(0, s^2) for each group (random intercepts).

    k = s^2 [x = x'], in all its columns. At new inputs a level that was not seen before is a new group.

    Attributes
    ----------
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). In a product one factor has an
        amplitude, the others have s = 1 unless it is given.
    columns:
        Columns of X, by name or place, that hold words or codes; there is no default.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "group".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior.

    Examples
    --------
    >>> import pandas as pd
    >>> import gpmcflow as gp
    >>> pupils = pd.DataFrame({"school": ["A", "B", "A"]})
    >>> gp.Group(signal_sd=2.0, columns="school")(pupils)
    array([[4., 0., 4.],
           [0., 4., 0.],
           [4., 0., 4.]])
    """

    code, term, levels_allowed = nodes.GROUP, "group", True


# Periodic, linear and polynomial covariances, and all there are by name; see `expressions` for + and *.


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
