"""What a model knows of its parameters: names, sharing, coordinates and priors, also as standard normals."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import (
    IDENTITY,
    LOG,
    LOGIT,
    Entry,
    Parameter,
    checked_setting,
    coordinate_of,
    own_units,
)

TRIED = np.array([-6.0, -3.0, 0.0, 3.0, 6.0])  # a transform has to be usable where chains go


class NormalCoordinates:
    """theta_j = F_j^-1(Phi(x_j)), x ~ N(0, I) a priori, with slopes; one call for a family of hyperpriors.

    ``priors`` are those of the coordinates ``names``. Raises `InputError` for a hyperprior whose transform is
    not finite and increasing where it is tried, and for one on the natural scale that includes zero.
    """

    def __init__(self, names: Sequence[str], priors: Sequence[Hyperprior]) -> None:
        places: dict[Hashable, list[int]] = {}
        for k, (name, prior) in enumerate(zip(names, priors, strict=True)):
            _require_usable(name, prior)
            places.setdefault(prior.form.like, []).append(k)
        self._groups = [
            (priors[at[0]].form.stack([priors[k].form for k in at]), np.array(at))
            for at in places.values()
        ]

    @np.errstate(all="ignore")
    def theta(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Theta (..., d) and its slopes d theta_j / dx_j (..., d) at x (..., d)."""
        if len(self._groups) == 1:  # all in their order
            return self._groups[0][0].transform(x)
        theta, slopes = np.empty_like(x), np.empty_like(x)
        for form, places in self._groups:
            theta[..., places], slopes[..., places] = form.transform(x[..., places])
        return theta, slopes


def _require_usable(name: str, prior: Hyperprior) -> None:
    who = f"hyperprior {prior!r} of {name}"
    if prior.below_zero > 0.0:
        raise InputError(
            f"{who} includes zero: {prior.below_zero:.2g} of it is not positive, where there is no "
            "transform to a standard normal; give a distribution of positive numbers, or scale='log'"
        )
    theta, slope = prior.transform(TRIED)
    usable = np.isfinite(theta) & np.isfinite(slope) & (slope > 0)
    if not usable.all():
        at = int(np.argmin(usable))
        raise InputError(
            f"{who} has no usable transform to a standard normal x: theta is {theta[at]:g}, its slope "
            f"{slope[at]:g} at x = {TRIED[at]:g}; allowed: a density that is positive all over its support"
        )


class ParameterSpace:
    """All distinct parameters of a model, and the free ones among them, theta (d,).

    Built from (prefix, entries) of each owner of parameters. A parameter is named ``prefix.name``, or just
    ``name`` under an empty prefix; a shared `Parameter` occurs once, where it is first met, under its own
    name. ``full`` are the coordinates of all of them: the log of a positive parameter, the logit of a
    probability, or the parameter itself. Those with a hyperprior are free, numbers are fixed. Densities are
    with respect to coordinates; a hyperprior on the "natural" scale is one of h = exp(coordinate), also where
    the coordinate is the parameter itself.

    >>> wide, shared = Hyperprior("norm"), Parameter("ell", 2.0)
    >>> space = ParameterSpace([("trend", [Entry("sd", wide), Entry("length_scale", shared)]),
    ...                         ("", [Entry("noise_sd", 0.5)])])
    >>> space.names, space.natural(np.array([0.0]))
    (('trend.sd',), {'trend.sd': 1.0, 'ell': 2.0, 'noise_sd': 0.5})

    Raises `InputError` for two parameters of one name, a shared one with two values or two coordinates, and a
    number that the parameter cannot be.
    """

    def __init__(self, groups: Sequence[tuple[str, Sequence[Entry]]]) -> None:
        self._place: dict[str, int] = {}
        self._first: list[tuple[Entry, str]] = []  # of each parameter, with its owner
        self._places = [
            np.array([self._placed(prefix, k, entry) for entry in entries], dtype=int)
            for k, (prefix, entries) in enumerate(groups)
        ]
        #: names of all parameters, by place in `full`
        self.all_names = tuple(self._place)
        #: hyperprior or fixed coordinate of all parameters
        self.priors: tuple[Any, ...] = tuple(
            _prior(name, entry)
            for name, (entry, _) in zip(self.all_names, self._first, strict=True)
        )
        #: whether a parameter is free, by place, and places of those that are
        self.is_free = np.array(
            [isinstance(prior, Hyperprior) for prior in self.priors], dtype=bool
        )
        self.free = np.flatnonzero(self.is_free)
        self.names = tuple(self.all_names[k] for k in self.free)
        self.free_priors = tuple(p for p in self.priors if isinstance(p, Hyperprior))
        #: what each coordinate is of its parameter, by place: its log, its logit, or itself
        self.coordinates = tuple(entry.coordinate for entry, _ in self._first)
        self._fixed = np.array(
            [np.nan if free else p for free, p in zip(self.is_free, self.priors, strict=True)]
        )

    def _placed(self, prefix: str, group: int, entry: Entry) -> int:
        """Place of an entry, a new one at its first occurrence."""
        if entry.coordinate not in (LOG, LOGIT, IDENTITY):
            raise InputError(
                f"parameter {entry.name}: coordinate is {entry.coordinate!r}; allowed: {LOG}, {LOGIT}, "
                f"{IDENTITY}"
            )
        shared = isinstance(entry.setting, Parameter)
        own = f"{prefix}.{entry.name}" if prefix else entry.name
        name = entry.setting.name if shared else own
        owner = f"{entry.name} of {prefix or f'group {group + 1}'}"
        if name not in self._place:
            self._place[name] = len(self._first)
            self._first.append((entry, owner))
            return self._place[name]
        first, other = self._first[self._place[name]]
        both = f"parameters: {other} and {owner}"
        if not (shared and isinstance(first.setting, Parameter)):
            raise InputError(f"{both} have one name, {name!r}; give one of them another name")
        if first.setting != entry.setting:
            raise InputError(
                f"{both} share Parameter {name!r} with two values, {first.setting.value!r} and "
                f"{entry.setting.value!r}; give one value, or two names"
            )
        if first.coordinate != entry.coordinate:
            raise InputError(
                f"{both} share Parameter {name!r}, whose coordinates differ, {first.coordinate} and "
                f"{entry.coordinate}; give two Parameters"
            )
        return self._place[name]

    @property
    def size(self) -> int:
        """Number of all parameters."""
        return len(self.priors)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All parameters in the order of `full`, with their whole names, as one owner would state them."""
        return tuple(
            Entry(name, entry.setting, entry.coordinate)
            for name, (entry, _) in zip(self.all_names, self._first, strict=True)
        )

    @property
    def dim(self) -> int:
        """Number d of free parameters."""
        return len(self.free)

    def places(self, group: int) -> np.ndarray:
        """Places in `full` of the entries of a group, in its order."""
        return self._places[group]

    def full(self, theta: np.ndarray) -> np.ndarray:
        """Coordinates of all parameters (size,), the fixed ones included, of theta (d,)."""
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != (self.dim,):
            raise InputError(
                f"parameters: theta has shape {theta.shape}; allowed: ({self.dim},): "
                f"{', '.join(self.names) or 'none is free'}"
            )
        out = self._fixed.copy()
        out[self.free] = theta
        return out

    def natural(self, theta: np.ndarray) -> dict[str, float]:
        """All parameters in their own units, by name, at theta (d,)."""
        own = self.own_units(self.full(theta), range(self.size))
        return dict(zip(self.all_names, own, strict=True))

    def own_units(self, full: np.ndarray, places: Iterable[int]) -> list[float]:
        """Parameters in their own units at some places of `full`."""
        return [float(own_units(full[k], self.coordinates[k])) for k in places]

    def log_prior(self, theta: np.ndarray) -> float:
        """Log density of theta (d,), -inf outside the support."""
        return float(self.log_priors(theta))

    def log_priors(self, thetas: np.ndarray) -> np.ndarray:
        """Log densities (...) of thetas (..., d), -inf outside the support."""
        thetas = np.asarray(thetas, dtype=np.float64)
        total, inside = np.zeros(thetas.shape[:-1]), np.ones(thetas.shape[:-1], dtype=bool)
        for density, places, low, high in self._densities:
            values = thetas[..., places]
            within = (values >= low) & (values <= high)
            inside &= within.all(-1)
            total += density(np.where(within, values, np.nan)).sum(-1)
        return np.where(inside, total, -np.inf)

    @cached_property
    def _densities(self) -> list[tuple]:
        """(log density, places in theta, support) of hyperpriors of one family, evaluated at once."""
        like: dict[Hashable, list[int]] = {}
        for k, prior in enumerate(self.free_priors):
            like.setdefault(prior.form.like if prior.form.stacks else (k,), []).append(k)
        groups = []
        for at in like.values():
            priors = [self.free_priors[k] for k in at]
            low, high = np.array([prior.support for prior in priors]).T
            first = priors[0]
            density = first.form.stack([p.form for p in priors]).log_density
            if not first.form.stacks:
                density = np.vectorize(first.log_density, otypes=[float])
            groups.append((density, np.array(at), low, high))
        return groups

    def log_prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        """Gradient of `log_prior` (d,)."""
        return self._each("score", theta)

    def draw_prior(self, rng: np.random.Generator, central: float = 1.0) -> np.ndarray:
        """Draw theta (d,) from its prior, or from the central part that holds this probability."""
        return self._each("quantile", 0.5 + central * (rng.random(self.dim) - 0.5))

    def prior_median(self) -> np.ndarray:
        """Theta (d,) at the median of every hyperprior."""
        return self._each("quantile", np.full(self.dim, 0.5))

    def to_normal(self, theta: np.ndarray) -> np.ndarray:
        """Standard normal x (..., d) of theta (..., d), the inverse of ``normal.theta``."""
        theta = np.asarray(theta, dtype=np.float64)
        x = np.empty_like(theta)
        for k, prior in zip(range(theta.shape[-1]), self.free_priors, strict=True):
            x[..., k] = prior.to_normal(theta[..., k])
        return x

    def _each(self, method: str, values: np.ndarray) -> np.ndarray:
        pairs = zip(self.free_priors, values, strict=True)
        return np.array([float(getattr(prior, method)(v)) for prior, v in pairs])

    @cached_property
    def normal(self) -> NormalCoordinates:
        """``normal.theta(x)``: theta (d,) that has its prior where x (d,) are standard normal, and slopes.

        Refuses a hyperprior that has no usable transform.
        """
        return NormalCoordinates(self.names, self.free_priors)


def _prior(name: str, entry: Entry) -> Hyperprior | float:
    """Hyperprior, or the coordinate of a number."""
    value = entry.setting.value if isinstance(entry.setting, Parameter) else entry.setting
    value = checked_setting(value, f"parameter {name}", entry.coordinate)
    return value if isinstance(value, Hyperprior) else coordinate_of(value, entry.coordinate)
