"""Covariances of levels: of words and codes, of a case with itself, and one that is the same for all."""

from __future__ import annotations

from dataclasses import dataclass

from gpmcflow.covariances import nodes
from gpmcflow.covariances.expressions import Leaf
from gpmcflow.covariances.stationary import (
    Stationary,
)
from gpmcflow.parameters.parameter import Setting


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
