"""Covariances of the distance between inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpmcflow.covariances import nodes
from gpmcflow.covariances.expressions import Leaf
from gpmcflow.parameters.parameter import Setting

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
