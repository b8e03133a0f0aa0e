"""Covariance functions by name: of the distance between inputs, of levels, periodic, linear, polynomial.

See `expressions` for + and *.

A leaf whose values depend on an argument h (see `nodes`) has two loops, which compiled code calls by their
addresses for the numbers of a panel. They get pointers; ``head`` holds the numbers named in `nodes`.
``values_loop`` computes k / s^2 into v; it may overwrite h, and use u. ``slopes_loop``, for which v holds k
with its amplitude, multiplies bar by a weight, and sums bar h, h being what it was at first: where h is a sum
over columns, each with its scale, bar times the column's share of h is that scale's slope (half of it for
inner products, twice for mismatches).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
from numba import carray

from gpmcflow.covariances import nodes
from gpmcflow.covariances.areas import Areal
from gpmcflow.covariances.correlated_group import CorrelatedGroup
from gpmcflow.covariances.expressions import Leaf
from gpmcflow.covariances.nodes import OWN, OWN_SLOPE, POWER, SCALE_SLOPE, SIZE, SWITCH
from gpmcflow.covariances.walks import AR1, IntegratedWiener, Wiener
from gpmcflow.errors import InputError
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.exponentials import exponentials, logarithms
from gpmcflow.parameters.parameter import Setting


@compiled
def exponential_values(head, h, v, u, bar):
    """v = exp(-h / 2)."""
    if head[SWITCH] == 0.0:
        n = int(head[SIZE])
        exponentials(carray(h, n), carray(v, n))


@compiled(fastmath={"contract", "reassoc"})
def exponential_slopes(head, h, v, u, bar):
    """Slopes of v = exp(-h / 2)."""
    total = 0.0
    for i in range(int(head[SIZE])):
        bar[i] *= v[i]
        total += bar[i] * h[i]
    head[SCALE_SLOPE] = total


@compiled(fastmath={"contract"})
def matern_values(head, h, v, rate, second):
    """h becomes 2 a, a^2 = rate h, rate being 2 nu; v = (1 + a + second a^2) exp(-a)."""
    n = int(head[SIZE])
    for i in range(n):
        h[i] = np.sqrt(4.0 * rate * h[i])
    if head[SWITCH] == 0.0:
        exponentials(carray(h, n), carray(v, n))
        if rate > 1.0:
            for i in range(n):
                a = 0.5 * h[i]
                v[i] *= 1.0 + a + second * a * a


# Covariances of the distance between inputs.

Scales = Setting | Sequence[Setting] | None


@dataclass(frozen=True, repr=False)
class Stationary(Leaf):
    """One length scale, or one for each column, and an amplitude; h = r^2."""

    length_scale: Scales = None
    signal_sd: Setting | None = None
    ard: bool = field(default=False, kw_only=True)

    kind, scales = nodes.DISTANCES, "length_scale"


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

    term, smoothness, slopes_need_argument = "squared_exponential", np.inf, False

    @staticmethod
    def values_loop(head, h, v, u, bar):
        """exp(-h / 2)."""
        exponential_values(head, h, v, u, bar)

    @staticmethod
    def slopes_loop(head, h, v, u, bar):
        """Times v."""
        exponential_slopes(head, h, v, u, bar)


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

    term, smoothness = "matern12", 0.5

    @staticmethod
    def values_loop(head, h, v, u, bar):
        """exp(-a), a^2 = h."""
        matern_values(head, h, v, 1.0, 0.0)

    @staticmethod
    def slopes_loop(head, h, v, u, bar):
        """Times v / a; nothing at one place, where that is infinite."""
        total = 0.0
        for i in range(int(head[SIZE])):
            safe = h[i] if h[i] > 0.0 else 1.0
            bar[i] = bar[i] * v[i] * 2.0 / safe if h[i] > 0.0 else 0.0
            total += bar[i] * h[i] * h[i]
        head[SCALE_SLOPE] = total / 4.0


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

    term, smoothness = "matern32", 1.5

    @staticmethod
    def values_loop(head, h, v, u, bar):
        """(1 + a) exp(-a), a^2 = 3 h."""
        matern_values(head, h, v, 3.0, 0.0)

    @staticmethod
    def slopes_loop(head, h, v, u, bar):
        """Times 3 v / (1 + a)."""
        total = 0.0
        for i in range(int(head[SIZE])):
            bar[i] *= 3.0 * v[i] / (1.0 + 0.5 * h[i])
            total += bar[i] * h[i] * h[i]
        head[SCALE_SLOPE] = total / 12.0


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

    term, smoothness = "matern52", 2.5

    @staticmethod
    def values_loop(head, h, v, u, bar):
        """(1 + a + a^2 / 3) exp(-a), a^2 = 5 h."""
        matern_values(head, h, v, 5.0, 1.0 / 3.0)

    @staticmethod
    def slopes_loop(head, h, v, u, bar):
        """Times 5 (1 + a) v / (3 + 3 a + a^2)."""
        total = 0.0
        for i in range(int(head[SIZE])):
            a = 0.5 * h[i]
            bar[i] *= 5.0 * (1.0 + a) * v[i] / (3.0 + 3.0 * a + a * a)
            total += bar[i] * h[i] * h[i]
        head[SCALE_SLOPE] = total / 20.0


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

    kind, term, scales, extra = nodes.DISTANCES, "rational_quadratic", "length_scale", "alpha"

    @staticmethod
    def values_loop(head, h, v, u, bar):
        """(1 + h / (2 alpha))^-alpha; h becomes -2 log v, u holds what it was."""
        n, alpha = int(head[SIZE]), np.exp(head[OWN])
        for i in range(n):
            u[i] = h[i]
            v[i] = 1.0 + u[i] / (2.0 * alpha)
        logarithms(carray(v, n), carray(h, n))
        for i in range(n):
            h[i] *= 2.0 * alpha
        exponential_values(head, h, v, u, bar)

    @staticmethod
    def slopes_loop(head, h, v, u, bar):
        """Times v / (1 + h / (2 alpha))."""
        n, alpha, own, total = int(head[SIZE]), np.exp(head[OWN]), 0.0, 0.0
        if head[SWITCH] == 1.0:
            for i in range(n):
                own += bar[i] * v[i] * (u[i] / (2.0 + u[i] / alpha) - 0.5 * h[i])
        for i in range(n):
            bar[i] *= v[i] / (1.0 + u[i] / (2.0 * alpha))
            total += bar[i] * u[i]
        head[SCALE_SLOPE], head[OWN_SLOPE] = total, own


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

    kind, term = nodes.ONE, "constant"


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

    kind, term = nodes.SAME_CASE, "white"


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

    kind, term, levels_allowed = nodes.MISMATCHES, "categorical", True
    slopes_need_argument = False
    values_loop = staticmethod(SquaredExponential.values_loop)
    slopes_loop = staticmethod(SquaredExponential.slopes_loop)


@dataclass(frozen=True, repr=False)
class Group(_WithAmplitude):
    """Group covariance: an intercept for each group, independent or with a known correlation.

    k = s^2 [x = x'], in all its columns (random intercepts). At new inputs a level that was not seen before
    is a new group. With ``correlation`` R it is k = s^2 R[x, x'] of one column: species of a phylogeny,
    animals of a pedigree. Levels of R that are not in the data can be predicted.

    Attributes
    ----------
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). In a product one factor has an
        amplitude, the others have s = 1 unless it is given.
    correlation:
        R (L, L), symmetric and positive semidefinite: a DataFrame with the levels' names in its rows and
        columns, or an xarray variable with them as coordinates. Its diagonal is 1, or that of a known
        covariance, such as twice the kinship.
    columns:
        Columns of X, by name or place, that hold words or codes; there is no default.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "group".

    Raises
    ------
    InputError:
        For a parameter that is neither a positive number nor a hyperprior, a correlation that is not
        symmetric or not positive semidefinite, and levels of the data that it does not have.

    Examples
    --------
    >>> import pandas as pd
    >>> import gpmcflow as gp
    >>> pupils = pd.DataFrame({"school": ["A", "B", "A"]})
    >>> gp.Group(signal_sd=2.0, columns="school")(pupils)
    array([[4., 0., 4.],
           [0., 4., 0.],
           [4., 0., 4.]])
    >>> tree = pd.DataFrame([[1.0, 0.8], [0.8, 1.0]], ["ape", "man"], ["ape", "man"])
    >>> gp.Group(2.0, tree, columns="species")({"species": ["man", "ape", "man"]})
    array([[4. , 3.2, 4. ],
           [3.2, 4. , 3.2],
           [4. , 3.2, 4. ]])
    """

    correlation: Any = None

    kind, term, levels_allowed = nodes.SAME_LEVELS, "group", True

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        """A `CorrelatedGroup` where a correlation is given."""
        if named.get("correlation", arguments[1] if len(arguments) > 1 else None) is None:
            return super().__new__(cls)
        return CorrelatedGroup(*arguments, **named)


# what `help` shows: that of the fields, which `__new__` hides
_fields = signature(Group.__init__)
Group.__signature__ = _fields.replace(parameters=list(_fields.parameters.values())[1:])  # type: ignore[attr-defined]


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

    kind, term, scales, extra, n_columns = nodes.PHASES, "periodic", "length_scale", "period", 1
    slopes_need_argument = False
    values_loop = staticmethod(SquaredExponential.values_loop)
    slopes_loop = staticmethod(SquaredExponential.slopes_loop)

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

    kind, term, scales, degree = nodes.INNER_PRODUCTS, "linear", "sd", 1
    has_amplitude, amplitude, slopes_need_argument = False, "sd", False

    @staticmethod
    def values_loop(head, h, v, u, bar):
        """h."""
        for i in range(int(head[SIZE])):
            v[i] = h[i]

    @staticmethod
    def slopes_loop(head, h, v, u, bar):
        """Times 1."""
        total = 0.0
        for i in range(int(head[SIZE])):
            total += bar[i] * h[i]
        head[SCALE_SLOPE] = total


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

    kind, term, scales, extra = nodes.INNER_PRODUCTS, "polynomial", "sd", "offset"
    has_amplitude = False

    @staticmethod
    def values_loop(head, h, v, u, bar):
        """(h + b^2)^q."""
        n, offset = int(head[SIZE]), np.exp(2.0 * head[OWN])
        for i in range(n):
            h[i] += offset
            v[i] = h[i]
        for _ in range(int(head[POWER]) - 1):
            for i in range(n):
                v[i] *= h[i]

    @staticmethod
    def slopes_loop(head, h, v, u, bar):
        """Times q (h + b^2)^(q - 1)."""
        n, degree, offset = int(head[SIZE]), head[POWER], np.exp(2.0 * head[OWN])
        own = total = 0.0
        for _ in range(int(degree) - 1):
            for i in range(n):
                bar[i] *= h[i]
        for i in range(n):
            bar[i] *= degree
            own += bar[i]
            total += bar[i] * (h[i] - offset)
        head[SCALE_SLOPE], head[OWN_SLOPE] = total, 2.0 * offset * own

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
        Constant, White, Categorical, Group, Areal, Wiener, IntegratedWiener, AR1,
    )
}  # fmt: skip
