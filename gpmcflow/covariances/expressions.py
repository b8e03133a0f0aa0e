"""Covariance functions as values: leaves with parameters and columns, sums and products of them."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from gpmcflow.covariances import passes
from gpmcflow.errors import InputError
from gpmcflow.parameters.defaults import DEFAULTS
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import Entry, Parameter, Setting, checked_setting

Columns = str | int | tuple[str | int, ...] | None


class Covariance:
    """A covariance function k(x, x'), made of leaves by ``+`` and ``*``.

    A parameter is a number, a `Hyperprior`, or a `Parameter` that several leaves share. What is left out
    has a default hyperprior (`gpmcflow.parameters.defaults`); in a product the first factor carries the
    amplitude and the others have ``signal_sd`` 1, unless one is given; each term of a sum has its own.
    """

    def __add__(self, other: Covariance) -> Sum:
        return Sum(self, other) if isinstance(other, Covariance) else NotImplemented

    def __mul__(self, other: Covariance) -> Product:
        return Product(self, other) if isinstance(other, Covariance) else NotImplemented

    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, from left to right."""
        raise NotImplementedError

    def with_defaults(self, amplitude: bool = True) -> Covariance:
        """The same with all parameters that were left out; ``amplitude``: whether it carries one."""
        raise NotImplementedError

    def free_scales(self) -> tuple[str, ...]:
        """Leaves whose free ``signal_sd`` multiplies the whole expression."""
        raise NotImplementedError

    def text(self, priors: Mapping[str, Hyperprior] | None = None) -> str:
        """The expression as `parse_covariance` reads it, hyperpriors by their names in ``priors``."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text()

    def __call__(self, X: Any, X2: Any = None) -> np.ndarray:
        """Matrix of the rows of X (n, p) with those of X2 (m, p), or of X itself: (n, m).

        Raises `InputError` unless all parameters are numbers.
        """
        from gpmcflow.covariances.evaluation import covariance_matrix

        return covariance_matrix(self, X, X2)

    def diagonal(self, X: Any) -> np.ndarray:
        """Prior variances k(x, x) of the rows of X, (n,)."""
        from gpmcflow.covariances.evaluation import prior_variances

        return prior_variances(self, X)


@dataclass(frozen=True, repr=False)
class _Pair(Covariance):
    left: Covariance
    right: Covariance

    sign: ClassVar[str]

    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, from left to right."""
        return (*self.left.leaves(), *self.right.leaves())

    def operands(self) -> list[Covariance]:
        """Terms of a sum, or factors of a product, brackets of the same kind opened."""
        parts = []
        for part in (self.left, self.right):
            parts += part.operands() if type(part) is type(self) else [part]
        return parts

    def text(self, priors: Mapping[str, Hyperprior] | None = None) -> str:
        """As `Covariance.text`."""
        return self._joined(lambda part: part.text(priors))

    def __repr__(self) -> str:
        return self._joined(repr)

    def _joined(self, show: Callable[[Covariance], str]) -> str:
        bracketed = isinstance(self, Product)
        return f" {self.sign} ".join(
            f"({show(part)})" if bracketed and isinstance(part, Sum) else show(part)
            for part in self.operands()
        )


class Sum(_Pair):
    """k = k_1 + k_2."""

    sign = "+"

    def with_defaults(self, amplitude: bool = True) -> Sum:
        """The first term has an amplitude of its own only if the sum carries one, the others always."""
        return Sum(self.left.with_defaults(amplitude), self.right.with_defaults())

    def free_scales(self) -> tuple[str, ...]:
        """Those of all terms, if each has one."""
        scales = [part.free_scales() for part in (self.left, self.right)]
        return sum(scales, ()) if all(scales) else ()


class Product(_Pair):
    """k = k_1 k_2."""

    sign = "*"

    def with_defaults(self, amplitude: bool = True) -> Product:
        """One factor carries the amplitude: the given one, else the first sum, else the first factor."""
        factors = self.operands()
        carrier = None
        if amplitude and not any(leaf.amplitude_given for leaf in self.leaves()):
            sums = [k for k, factor in enumerate(factors) if isinstance(factor, Sum)]
            carrier = (sums or [0])[0]
        completed = [factor.with_defaults(k == carrier) for k, factor in enumerate(factors)]
        product = completed[0]
        for factor in completed[1:]:
            product = Product(product, factor)
        return product

    def free_scales(self) -> tuple[str, ...]:
        """Those of all factors."""
        return self.left.free_scales() + self.right.free_scales()


@dataclass(frozen=True, repr=False)
class Leaf(Covariance):
    """What leaves share: ``columns`` (names or places; None: all numeric ones) and ``name``, of the term."""

    code: ClassVar[int]
    term: ClassVar[str]  # name in texts, and of the term where none is given
    scales: ClassVar[str | None] = None  # parameter of which there is one, or one for each column
    extra: ClassVar[str | None] = None
    has_amplitude: ClassVar[bool] = True  # a parameter ``signal_sd``
    levels_allowed: ClassVar[bool] = False

    columns: Columns = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        columns = self.columns
        if isinstance(columns, (str, int, np.integer)):
            columns = (columns,)
        if columns is not None:
            plain = (int(c) if isinstance(c, np.integer) else c for c in columns)
            object.__setattr__(self, "columns", tuple(plain))
        for parameter in self.parameters():
            given = getattr(self, parameter)
            if given is None:
                continue
            where = f"{type(self).__name__}: {parameter}"
            if parameter == self.scales and isinstance(given, (Sequence, np.ndarray)):
                value = tuple(checked_setting(v, f"{where}[{k}]") for k, v in enumerate(given))
                if not value:
                    raise InputError(
                        f"{where} is empty; allowed: one number or hyperprior a column"
                    )
            else:
                value = checked_setting(given, where)
            object.__setattr__(self, parameter, value)

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Names of the parameters, in the order they have in a model."""
        amplitude = ("signal_sd",) if cls.has_amplitude else ()
        return (*filter(None, (cls.scales, cls.extra)), *amplitude)

    @property
    def amplitude_given(self) -> bool:
        """Whether an amplitude other than 1 is stated."""
        return getattr(self, "signal_sd", None) not in (None, 1.0)

    def leaves(self) -> tuple[Leaf, ...]:
        """Itself."""
        return (self,)

    def with_defaults(self, amplitude: bool = True) -> Leaf:
        """The same with default hyperpriors for what was left out."""
        values = {}
        for parameter in self.parameters():
            if getattr(self, parameter) is None:
                one = parameter == "signal_sd" and not amplitude
                values[parameter] = 1.0 if one else DEFAULTS[parameter]
        return replace(self, **values) if values else self

    def free_scales(self) -> tuple[str, ...]:
        """Its name, if its amplitude is free."""
        free = isinstance(getattr(self, "signal_sd", None), (Hyperprior, Parameter))
        return (self.name or type(self).__name__,) if free else ()

    def entries(self, columns: Sequence[str]) -> tuple[Entry, ...]:
        """Its parameters, given the names of its columns."""
        entries = []
        for parameter in self.parameters():
            value = getattr(self, parameter)
            many = isinstance(value, tuple) or (
                parameter == self.scales and getattr(self, "ard", False)
            )
            if parameter == self.scales and many and len(columns) > 1:
                values = value if isinstance(value, tuple) else [value] * len(columns)
                if len(values) != len(columns):
                    raise InputError(
                        f"{type(self).__name__}: {parameter} has {len(values)} entries for "
                        f"{len(columns)} columns ({', '.join(columns)}); allowed: one for all, or one each"
                    )
                named = zip(columns, values, strict=True)
                entries += [Entry(f"{parameter}[{column}]", v) for column, v in named]
            else:
                entries.append(Entry(parameter, value[0] if isinstance(value, tuple) else value))
        return tuple(entries)

    def _settings(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            key: value
            for key, value in values.items()
            if value is not None and value is not False and key != "columns"
        }

    def __repr__(self) -> str:
        settings = self._settings()
        if self.columns is not None:
            settings["columns"] = self.columns
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in settings.items())})"

    def text(self, priors: Mapping[str, Hyperprior] | None = None) -> str:
        """As `Covariance.text`."""
        names = {prior: name for name, prior in (priors or {}).items()}
        columns = [c if _is_bare(c) else repr(c) for c in self.columns or ()]
        settings = [f"{key}={_text(value, names)}" for key, value in self._settings().items()]
        return f"{self.term}({', '.join([*columns, *settings])})"


def _is_bare(column: str | int) -> bool:
    """Whether a column's name needs no quotes: Python reads it as the same name."""
    return str(column).isidentifier() and column.isascii() and not keyword.iskeyword(column)


def _text(value: Any, names: Mapping[Hyperprior, str]) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_text(each, names) for each in value)},)".replace(
            ",)", ")" if value[1:] else ",)"
        )
    if isinstance(value, Parameter):
        return f"shared({value.name!r}, {_text(value.value, names)})"
    if isinstance(value, Hyperprior):
        shown = "".join(f", {key}={number!r}" for key, number in value.parameters.items())
        return names.get(value, f"prior({value.distribution!r}, on={value.scale!r}{shown})")
    return repr(value)


Scales = Setting | Sequence[Setting] | None


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
    column.
    """

    sd: Scales = None
    ard: bool = field(default=False, kw_only=True)

    code, term, scales, degree = passes.POLYNOMIAL, "linear", "sd", 1
    has_amplitude = False

    @property
    def amplitude_given(self) -> bool:
        """A slope's standard deviation scales a product as an amplitude does."""
        return self.sd not in (None, 1.0)

    def with_defaults(self, amplitude: bool = True) -> Linear:
        """The same; in a product whose amplitude another factor carries, ``sd`` left out is 1."""
        if self.sd is None and not amplitude and not self.ard:
            return replace(self, sd=1.0)
        return super().with_defaults()

    def free_scales(self) -> tuple[str, ...]:
        """Its name, if its one slope's sd is free."""
        free = isinstance(self.sd, (Hyperprior, Parameter)) and not self.ard
        return (self.name or "Linear",) if free else ()


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


@dataclass(frozen=True, repr=False)
class Constant(Leaf):
    """k = s^2: an intercept ~ N(0, s^2)."""

    signal_sd: Setting | None = None

    code, term = passes.CONSTANT, "constant"


@dataclass(frozen=True, repr=False)
class White(Leaf):
    """k = s^2 for a case with itself, else 0: also for cases with the same inputs, and for new ones."""

    signal_sd: Setting | None = None

    code, term = passes.WHITE, "white"


@dataclass(frozen=True, repr=False)
class Categorical(Leaf):
    """k = s^2 exp(-sum_c [x_c != x'_c] / l_c), of columns with words, or codes, for levels."""

    length_scale: Scales = None
    signal_sd: Setting | None = None
    ard: bool = field(default=False, kw_only=True)

    code, term, scales, levels_allowed = passes.CATEGORICAL, "categorical", "length_scale", True


@dataclass(frozen=True, repr=False)
class Group(Leaf):
    """k = s^2 [x = x']: independent random intercepts of groups; a level not seen before is a new group."""

    signal_sd: Setting | None = None

    code, term, levels_allowed = passes.GROUP, "group", True


LEAVES: dict[str, type[Leaf]] = {
    kind.term: kind
    for kind in (
        SquaredExponential, Matern12, Matern32, Matern52, RationalQuadratic, Periodic, Linear, Polynomial,
        Constant, White, Categorical, Group,
    )
}  # fmt: skip
