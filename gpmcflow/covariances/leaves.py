"""The covariance functions there are; sums and products of them are `gpmcflow.covariances.expressions`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpmcflow.covariances import passes
from gpmcflow.covariances.expressions import Leaf
from gpmcflow.errors import InputError
from gpmcflow.parameters.parameter import Setting

Scales = Setting | Sequence[Setting] | None


@dataclass(frozen=True, repr=False)
class _WithAmplitude(Leaf):
    signal_sd: Setting | None = None


@dataclass(frozen=True, repr=False)
class _Stationary(Leaf):
    length_scale: Scales = None
    signal_sd: Setting | None = None
    ard: bool = field(default=False, kw_only=True)

    scales = "length_scale"


class SquaredExponential(_Stationary):
    """k = s^2 exp(-r^2 / 2), r^2 = sum_c (x_c - x'_c)^2 / l_c^2 (RBF, ExpQuad in other packages).

    ``length_scale`` l is one parameter for all columns; with ``ard``, or given as a sequence, one for each,
    in the units of the column; ``signal_sd`` s in those of the latent function. Source: Rasmussen &
    Williams (2006), eqs. 4.9, 5.1.
    """

    code, term = passes.SQUARED_EXPONENTIAL, "squared_exponential"


class Matern12(_Stationary):
    """k = s^2 exp(-r), of rough paths. Source: Rasmussen & Williams (2006), section 4.2."""

    code, term = passes.MATERN12, "matern12"


class Matern32(_Stationary):
    """k = s^2 (1 + a) exp(-a), a = sqrt(3) r. Source: Rasmussen & Williams (2006), eq. 4.17."""

    code, term = passes.MATERN32, "matern32"


class Matern52(_Stationary):
    """k = s^2 (1 + a + a^2 / 3) exp(-a), a = sqrt(5) r. Source: Rasmussen & Williams (2006), eq. 4.17."""

    code, term = passes.MATERN52, "matern52"


@dataclass(frozen=True, repr=False)
class RationalQuadratic(Leaf):
    """k = s^2 (1 + r^2 / (2 alpha))^-alpha. Source: Rasmussen & Williams (2006), eq. 4.19."""

    length_scale: Scales = None
    signal_sd: Setting | None = None
    alpha: Setting | None = None
    ard: bool = field(default=False, kw_only=True)

    code, term, scales, extra = (
        passes.RATIONAL_QUADRATIC, "rational_quadratic", "length_scale", "alpha",
    )  # fmt: skip


@dataclass(frozen=True, repr=False)
class Periodic(Leaf):
    """k = s^2 exp(-2 sin^2(pi (x - x') / p) / l^2), of one column (ExpSineSquared in other packages).

    ``period`` p has no default, and is in the units of the column: leave that column as it is. A hyperprior
    of p wider than a factor of 2 makes the posterior multimodal. The factor 2 and l inside the square are
    MacKay's, as in scikit-learn; GPflow has 1/2 in the place of 2. Source: MacKay (1998), as in Rasmussen &
    Williams (2006), eq. 4.31.
    """

    length_scale: Setting | None = None
    signal_sd: Setting | None = None
    period: Setting | None = None

    code, term, scales, extra = passes.PERIODIC, "periodic", "length_scale", "period"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.period is None:
            raise InputError(
                "Periodic: period is missing, and has no default; give a number in the units of the "
                "column, or a hyperprior"
            )
        if isinstance(self.length_scale, tuple) or len(self.columns or (0,)) != 1:
            raise InputError("Periodic: more than one column; allowed: one; multiply one for each")


@dataclass(frozen=True, repr=False)
class Linear(Leaf):
    """k = sum_c sd_c^2 x_c x'_c: slopes ~ N(0, sd_c^2), no intercept (add `Constant`).

    ``sd`` is one parameter, or with ``ard`` one a column, in units of the latent function over those of the
    column. One slope's standard deviation scales a product as an amplitude does.
    """

    sd: Scales = None
    ard: bool = field(default=False, kw_only=True)

    code, term, scales, degree = passes.POLYNOMIAL, "linear", "sd", 1
    has_amplitude, amplitude = False, "sd"


@dataclass(frozen=True, repr=False)
class Polynomial(Leaf):
    """k = (b^2 + sum_c sd_c^2 x_c x'_c)^q, b = ``offset``, q = ``degree``."""

    degree: int = 2
    sd: Scales = None
    offset: Setting | None = None
    ard: bool = field(default=False, kw_only=True)

    code, term, scales, extra = passes.POLYNOMIAL, "polynomial", "sd", "offset"
    has_amplitude = False

    def with_defaults(self, amplitude: bool = True) -> Polynomial:
        """The same; in a product whose amplitude another factor carries, ``offset`` left out is 1."""
        one = not amplitude and self.offset is None
        return Leaf.with_defaults(replace(self, offset=1.0) if one else self)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.degree, (int, np.integer)) and 1 <= self.degree <= 10):
            raise InputError(f"Polynomial: degree is {self.degree!r}; allowed: 1 to 10")


class Constant(_WithAmplitude):
    """k = s^2: an intercept ~ N(0, s^2)."""

    code, term = passes.CONSTANT, "constant"


class White(_WithAmplitude):
    """k = s^2 for a case with itself, else 0: also for cases with the same inputs, and for new ones."""

    code, term = passes.WHITE, "white"


class Categorical(_Stationary):
    """k = s^2 exp(-sum_c [x_c != x'_c] / l_c), of columns with words, or codes, for levels."""

    code, term, levels_allowed = passes.CATEGORICAL, "categorical", True


class Group(_WithAmplitude):
    """k = s^2 [x = x']: independent random intercepts of groups; a level not seen before is a new group."""

    code, term, levels_allowed = passes.GROUP, "group", True


LEAVES: dict[str, type[Leaf]] = {
    kind.term: kind
    for kind in (
        SquaredExponential, Matern12, Matern32, Matern52, RationalQuadratic, Periodic, Linear, Polynomial,
        Constant, White, Categorical, Group,
    )
}  # fmt: skip
