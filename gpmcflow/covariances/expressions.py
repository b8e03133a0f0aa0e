"""Covariance functions as values: leaves with parameters and columns, sums and products of them."""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from gpmcflow.covariances.inputs import Inputs
from gpmcflow.errors import InputError
from gpmcflow.parameters.hyperpriors import Hyperprior, default_hyperpriors
from gpmcflow.parameters.parameter import LOG, LOGIT, Entry, Parameter, checked_setting

Columns = str | int | tuple[str | int, ...] | None


class Covariance:
    """A covariance function k(x, x'), made of leaves by ``+`` and ``*``.

    ``2.0 * k`` has twice the variance, ``k + 1.0`` a constant of variance 1 beside k.

    A parameter is a number, a `Hyperprior`, or a `Parameter` that several leaves share. What is left out
    has a default hyperprior (`gpmcflow.parameters.hyperpriors`); in a product the first factor carries the
    amplitude and the others have ``signal_sd`` 1, unless one is given; each term of a sum has its own.
    """

    def __add__(self, other: Covariance | float) -> Sum:
        term = _operand(other)
        return NotImplemented if term is None else Sum(self, term)

    def __radd__(self, other: float) -> Sum:
        term = _operand(other)
        return NotImplemented if term is None else Sum(term, self)

    def __mul__(self, other: Covariance | float) -> Product:
        factor = _operand(other)
        return NotImplemented if factor is None else Product(self, factor)

    def __rmul__(self, other: float) -> Product:
        factor = _operand(other)
        return NotImplemented if factor is None else Product(factor, self)

    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, from left to right."""
        raise NotImplementedError

    def with_defaults(self, amplitude: bool = True) -> Covariance:
        """The same with all parameters that were left out; ``amplitude``: whether it carries one."""
        raise NotImplementedError

    def with_leaves(self, leaves: Iterator[Leaf]) -> Covariance:
        """The same expression of other leaves, from left to right."""
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


def _operand(other: object) -> Covariance | None:
    """An operand of + and *: of a number the constant covariance of that variance; None for others."""
    if isinstance(other, Covariance):
        return other
    if isinstance(other, (bool, np.bool_)) or not isinstance(other, Real):
        return None
    from gpmcflow.covariances.leaves import Constant  # which is made of this module

    variance = float(other)
    if not 0.0 < variance < np.inf:
        raise InputError(
            f"Constant: found {variance:g} beside + or *; allowed: a variance > 0, such as 2.0 * Matern32()"
        )
    return Constant(math.sqrt(variance))


@dataclass(frozen=True, repr=False)
class _Pair(Covariance):
    left: Covariance
    right: Covariance

    sign: ClassVar[str]

    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, from left to right."""
        return (*self.left.leaves(), *self.right.leaves())

    def with_leaves(self, leaves: Iterator[Leaf]) -> Covariance:
        """As `Covariance.with_leaves`."""
        left = self.left.with_leaves(leaves)
        return replace(self, left=left, right=self.right.with_leaves(leaves))

    def operands(self) -> list[Covariance]:
        """Terms of a sum, or factors of a product, brackets of the same kind opened."""
        parts = []
        for part in (self.left, self.right):
            parts += part.operands() if type(part) is type(self) else [part]
        return parts

    def text(self, priors: Mapping[str, Hyperprior] | None = None) -> str:
        """As `Covariance.text`."""
        return self.joined(lambda part: part.text(priors))

    def __repr__(self) -> str:
        return self.joined(repr)

    def joined(self, show: Callable[[Covariance], str]) -> str:
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

    def with_defaults(self, amplitude: bool = True) -> Covariance:
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

    kind: ClassVar[int]  # what its values are computed from, see `nodes`
    term: ClassVar[str]  # name in texts, and of the term where none is given
    scales: ClassVar[str | None] = None  # parameter of which there is one, or one for each column
    extra: ClassVar[str | None] = None
    has_amplitude: ClassVar[bool] = True  # a parameter ``signal_sd``
    amplitude: ClassVar[str] = "signal_sd"  # parameter that scales a product
    probabilities: ClassVar[tuple[str, ...]] = ()  # parameters whose coordinate is the logit
    n_columns: ClassVar[int | None] = None  # None: any number
    levels_allowed: ClassVar[bool] = False
    smoothness: ClassVar[float | None] = (
        None  # nu of its spectral density, if it has basis functions
    )
    # Compiled loops of a leaf that has an argument; `leaves` describes them
    values_loop: ClassVar[Callable | None] = None
    slopes_loop: ClassVar[Callable | None] = None
    slopes_need_argument: ClassVar[bool] = True

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
            setting: Any = getattr(self, parameter)
            if setting is None:
                continue
            where = f"{type(self).__name__}: {parameter}"
            coordinate = self._coordinate(parameter)
            if parameter == self.scales and isinstance(setting, (Sequence, np.ndarray)):
                value: Any = tuple(
                    checked_setting(v, f"{where}[{k}]") for k, v in enumerate(setting)
                )
                if not value:
                    raise InputError(
                        f"{where} is empty; allowed: one number or hyperprior a column"
                    )
            else:
                value = checked_setting(setting, where, coordinate)
            object.__setattr__(self, parameter, value)

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Names of the parameters, in the order they have in a model."""
        amplitude = ("signal_sd",) if cls.has_amplitude else ()
        return (*filter(None, (cls.scales, cls.extra)), *amplitude)

    @property
    def amplitude_given(self) -> bool:
        """Whether an amplitude other than 1 is stated."""
        return getattr(self, self.amplitude, None) not in (None, 1.0)

    def leaves(self) -> tuple[Leaf, ...]:
        """The expression is one leaf."""
        return (self,)

    def with_leaves(self, leaves: Iterator[Leaf]) -> Covariance:
        """The next leaf."""
        return next(leaves)

    def with_defaults(self, amplitude: bool = True) -> Self:
        """The same with default hyperpriors for what was left out."""
        values: dict[str, Any] = {}
        for parameter in self.parameters():
            if getattr(self, parameter) is None:
                one = parameter == self.amplitude and self._one_amplitude and not amplitude
                values[parameter] = 1.0 if one else default_hyperpriors()[parameter]
        return replace(self, **values) if values else self

    def free_scales(self) -> tuple[str, ...]:
        """Its name, if its amplitude is free."""
        free = isinstance(getattr(self, self.amplitude, None), (Hyperprior, Parameter))
        return (self.name or type(self).__name__,) if free and self._one_amplitude else ()

    @property
    def _one_amplitude(self) -> bool:
        return self.amplitude != self.scales or not getattr(self, "ard", False)

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
                one = value[0] if isinstance(value, tuple) else value
                entries.append(Entry(parameter, one, self._coordinate(parameter)))
        return tuple(entries)

    def _coordinate(self, parameter: str) -> str:
        return LOGIT if parameter in self.probabilities else LOG

    def bound_to(self, inputs: Inputs, places: tuple[int, ...]) -> Self:
        """The same with what it takes from the inputs of a model, whose columns it has at ``places``."""
        return self

    def more_levels(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """Levels of its column that it knows, and the data do not have."""
        return ()

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
        own: Any = self.columns or ()
        columns = [c if _is_bare(c) else repr(c) for c in own]
        settings = [
            f"{key}={setting_text(value, names)}" for key, value in self._settings().items()
        ]
        return f"{self.term}({', '.join([*columns, *settings])})"


def short_text(covariance: Covariance) -> str:
    """A covariance with its columns and without its parameters, such as ``matern32(age) + group(ward)``."""
    if isinstance(covariance, Leaf):
        columns: Any = covariance.columns or ()
        return f"{covariance.term}({', '.join(map(str, columns))})"
    assert isinstance(covariance, _Pair)
    return covariance.joined(short_text)


def _is_bare(column: str | int) -> bool:
    """Whether a column's name needs no quotes: Python reads it as the same name."""
    name = str(column)
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name)


def setting_text(value: Any, names: Mapping[Hyperprior, str] | None = None) -> str:
    """A parameter's setting as text that `covariances.text` reads; ``names`` are those of hyperpriors."""
    if isinstance(value, tuple):
        return f"({', '.join(setting_text(item, names) for item in value)},)".replace(
            ",)", ")" if value[1:] else ",)"
        )
    if isinstance(value, Parameter):
        return f"shared({value.name!r}, {setting_text(value.value, names)})"
    if isinstance(value, Hyperprior):
        shown = "".join(f", {key}={number!r}" for key, number in value.parameters.items())
        return (names or {}).get(value, f"prior({value.distribution!r}, on={value.scale!r}{shown})")
    return repr(value)
