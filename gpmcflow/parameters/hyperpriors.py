"""Priors of hyperparameters: any scipy.stats distribution, as a density over what is sampled."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
import scipy  # scipy.stats is loaded on first use, as it takes longest of all to load
from scipy.special import logit

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.parameters.densities import Form, form_of, probability_form

SCALES = ("log", "natural", "logit", "probability")
BETWEEN = ("beta", "uniform")  # distributions of a probability, exact near 0 and 1


@cache
def _distributions() -> list[str]:
    stats = scipy.stats
    return sorted(
        name for name in dir(stats) if isinstance(getattr(stats, name), stats.rv_continuous)
    )


@dataclass(frozen=True)
class Hyperprior:
    """Prior of one hyperparameter h, as a density over the coordinate theta that is sampled.

    A positive h has theta = log h, a probability has theta = logit h. On the scales "log" and "logit" the
    distribution is that of theta itself. On "natural" and "probability" it is that of h, and the Jacobian
    comes in: in this order

        log p(theta) = log p_h(exp(theta)) + theta,
        log p(theta) = log p_h(sigma(theta)) + log(sigma(theta) sigma(-theta)).

    For an offset c = theta of a log rate, h is the base rate exp(c); for that of a logit it is sigma(c).

    Attributes
    ----------
    distribution:
        Name of a continuous distribution of scipy.stats, such as "norm" or "gamma".
    parameters:
        Its arguments by name, shapes as well as "loc" and "scale", in units of theta or of h, by the scale.
    scale:
        "log" or "natural" for a positive parameter, "logit" or "probability" for a probability.

    Raises
    ------
    InputError:
        For an unknown distribution or scale, for parameters it cannot have, and on "probability" for other
        distributions than beta and uniform between 0 and 1.

    Examples
    --------
    >>> import gpmcflow as gp
    >>> gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.5})  # theta ~ N(0, 0.5^2)
    Hyperprior('norm', {'loc': 0.0, 'scale': 0.5}, scale='log')
    >>> length = gp.Hyperprior("gamma", {"a": 2.0, "scale": 0.3}, scale="natural")  # h ~ Gamma(2, 0.3)
    >>> round(length.log_density(0.0), 4)  # at h = 1
    -0.9254
    >>> share = gp.Hyperprior("beta", {"a": 1.0, "b": 3.0}, scale="probability")  # h ~ Beta(1, 3)
    >>> round(share.log_density(0.0), 4)  # at h = 1/2: log(3/4) + log(1/4)
    -1.674
    """

    distribution: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    scale: str = "log"

    def __post_init__(self) -> None:
        if self.distribution != "norm" and self.distribution not in _distributions():
            raise unknown_name("hyperprior: distribution", self.distribution, _distributions())
        if self.scale not in SCALES:
            raise unknown_name("hyperprior: scale", self.scale, SCALES)
        shapes = self._shapes
        for name in self.parameters:
            if name not in (*shapes, "loc", "scale"):
                raise unknown_name(
                    f"hyperprior {self.distribution}: parameter", name, (*shapes, "loc", "scale")
                )
        missing = [name for name in shapes if name not in self.parameters]
        if missing:
            raise InputError(
                f"hyperprior {self.distribution}: parameter {missing[0]!r} is missing; give a number"
            )
        values = {name: float(value) for name, value in self.parameters.items()}
        object.__setattr__(self, "parameters", values)
        if not np.isfinite(self._median):
            raise InputError(
                f"hyperprior {self.distribution}: parameters {values} are out of its range; see "
                f"scipy.stats.{self.distribution}"
            )
        if self.scale == "natural" and not self._frozen.cdf(0.0) < 1.0:
            raise InputError(
                f"hyperprior {self.distribution}: parameters {values} leave no probability to positive "
                "numbers; give a distribution of them, or scale='log'"
            )
        if self.scale == "probability" and not self._is_between():
            raise InputError(
                f"hyperprior {self.distribution}: scale is 'probability', parameters {values}; allowed: beta "
                "or uniform between 0 and 1, or scale='logit' with any distribution"
            )

    def __repr__(self) -> str:
        return f"Hyperprior({self.distribution!r}, {self.parameters!r}, scale={self.scale!r})"

    def __hash__(self) -> int:
        return hash((self.distribution, tuple(sorted(self.parameters.items())), self.scale))

    def __getstate__(self) -> dict:
        return {name: getattr(self, name) for name in ("distribution", "parameters", "scale")}

    @classmethod
    def log_uniform(cls, lower: float, upper: float) -> Hyperprior:
        """Uniform density of theta = log h between log(lower) and log(upper).

        Parameters
        ----------
        lower, upper:
            Least and largest h, in its own units; 0 < lower < upper.

        Returns
        -------
        The `Hyperprior`.

        Raises
        ------
        InputError:
            For ends that are not in order.

        Examples
        --------
        >>> import gpmcflow as gp
        >>> round(gp.Hyperprior.log_uniform(0.1, 10.0).log_density(0.0), 4)  # -log log 100
        -1.5272
        """
        if not 0.0 < lower < upper < np.inf:
            raise InputError(
                f"hyperprior log_uniform: found ({lower!r}, {upper!r}); allowed: 0 < lower < upper"
            )
        low, high = float(np.log(lower)), float(np.log(upper))
        return cls("uniform", {"loc": low, "scale": high - low})

    def divided(self, unit: float) -> Hyperprior:
        """The hyperprior of h / ``unit``, the same quantity counted in that unit."""
        loc, scale = (self.parameters.get(name, at) for name, at in (("loc", 0.0), ("scale", 1.0)))
        if self.scale == "log":
            changed = {"loc": loc - float(np.log(unit))}
        else:
            changed = {"loc": loc / unit, "scale": scale / unit}
        return Hyperprior(self.distribution, {**self.parameters, **changed}, self.scale)

    @property
    def is_normal(self) -> bool:
        """Whether theta itself is normal: then scipy.stats, which takes long to load, is not asked."""
        return self.distribution == "norm" and self.scale in ("log", "logit")

    @property
    def _shapes(self) -> list[str]:
        """Names of the parameters beside loc and scale."""
        if self.is_normal:
            return []
        shapes = getattr(scipy.stats, self.distribution).shapes
        return shapes.replace(" ", "").split(",") if shapes else []

    @property
    def _median(self) -> float:
        """Of the distribution; not finite for parameters out of its range."""
        if self.is_normal:
            loc, scale = (
                self.parameters.get(name, at) for name, at in (("loc", 0.0), ("scale", 1.0))
            )
            return loc if 0.0 < scale < np.inf else np.nan
        return float(self._frozen.ppf(0.5))

    def _is_between(self) -> bool:
        """Whether it is a distribution between 0 and 1, known exactly near both."""
        if self.distribution not in BETWEEN:
            return False
        low, high = self._frozen.support()
        return 0.0 <= low < high <= 1.0

    @cached_property
    def _frozen(self):
        return getattr(scipy.stats, self.distribution)(**self.parameters)

    @cached_property
    def below_zero(self) -> float:
        """Probability that a distribution on the natural scale gives to h <= 0; it is cut off."""
        return float(self._frozen.cdf(0.0)) if self.scale == "natural" else 0.0

    @property
    def of_probability(self) -> bool:
        """Whether h is a probability, with its logit as the coordinate."""
        return self.scale in ("logit", "probability")

    @cached_property
    def form(self) -> Form:
        """How it is evaluated."""
        if self.scale == "probability":
            return probability_form(self.distribution, self.parameters)
        frozen, natural = None if self.is_normal else self._frozen, self.scale == "natural"
        return form_of(self.distribution, self.parameters, natural, frozen, self.below_zero)

    @cached_property
    def support(self) -> tuple[float, float]:
        """Least and largest theta with a density, infinite where there is no bound."""
        if self.is_normal:
            return -np.inf, np.inf
        low, high = (float(v) for v in self._frozen.support())
        if self.scale in ("log", "logit"):
            return low, high
        if self.scale == "probability":
            return float(logit(low)), float(logit(high))
        return (float(np.log(low)) if low > 0.0 else -np.inf), float(np.log(high))

    @np.errstate(all="ignore")
    def log_density(self, theta: float) -> float:
        """Log p(theta), -inf outside the support."""
        theta = float(theta)
        if not self.support[0] <= theta <= self.support[1]:
            return -np.inf
        return float(self.form.log_density(theta))

    def score(self, theta: float) -> float:
        """D log p(theta) / d theta, inside the support: exact for normals, else by central differences."""
        if hasattr(self.form, "score"):
            return float(self.form.score(theta))
        step = 1e-6 * self.width
        return (self.log_density(theta + step) - self.log_density(theta - step)) / (2.0 * step)

    @np.errstate(all="ignore")
    def quantile(self, probability: np.ndarray | float) -> np.ndarray | float:
        """Theta with this probability below it."""
        return self.form.quantile(np.asarray(probability, dtype=np.float64))

    @np.errstate(all="ignore")
    def transform(self, x: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Theta = F^-1(Phi(x)), so that standard normal x have this prior, and phi(x) / p(theta), its slope.

        Both have the shape of x and are accurate in both tails.
        """
        return self.form.transform(np.asarray(x, dtype=np.float64))

    @np.errstate(all="ignore")
    def to_normal(self, theta: np.ndarray | float) -> np.ndarray | float:
        """x = Phi^-1(F(theta)), the inverse of `transform`; not finite outside the support."""
        return self.form.to_normal(np.asarray(theta, dtype=np.float64))

    def draw(self, rng: np.random.Generator, size: int | tuple[int, ...] | None = None):
        """Draws of the coordinate theta, a number or an array of ``size``, by the inverse of F."""
        return self.quantile(rng.random(size))

    @cached_property
    def width(self) -> float:
        """Width of the support; where that is infinite, of the central 99 %."""
        low, high = self.support
        if np.isfinite(high - low):
            return high - low
        return float(self.quantile(0.995) - self.quantile(0.005))


def hyperprior(setting: Hyperprior | Mapping | float, where: str) -> Hyperprior | float:
    """Hyperprior of a config entry: {distribution, parameters, scale}, or a number that fixes it.

    Raises `InputError` naming ``where`` for anything else.
    """
    if isinstance(setting, Hyperprior):
        return setting
    if isinstance(setting, Mapping):
        for name in setting:
            if name not in Hyperprior.__dataclass_fields__:
                raise unknown_name(f"{where}: setting", name, Hyperprior.__dataclass_fields__)
        try:
            return Hyperprior(**setting)
        except (TypeError, InputError) as error:
            raise InputError(f"{where}: {error}") from None
    if isinstance(setting, bool) or not isinstance(setting, (int, float, np.number)):
        raise InputError(
            f"{where}: found {setting!r}; allowed: a number, or a hyperprior with a distribution"
        )
    return float(setting)


def _log_normal(loc: float, scale: float) -> Hyperprior:
    return Hyperprior("norm", {"loc": loc, "scale": scale})


@functools.cache
def default_hyperpriors() -> Mapping[str, Hyperprior]:
    """Return the hyperprior of each kind of parameter by name."""
    return {
        "length_scale": _log_normal(0.0, 1.0),  # 0.14 to 7.1 with probability 0.95
        "signal_sd": _log_normal(0.0, 1.0),
        "sd": _log_normal(0.0, 1.0),  # of a slope
        "offset": _log_normal(0.0, 1.0),
        "alpha": _log_normal(0.0, 1.0),  # of a rational quadratic
        "rho": Hyperprior(
            "norm", {"loc": 1.0, "scale": 1.5}, "logit"
        ),  # of neighbours, 0.13 to 0.98
        "mix": Hyperprior("norm", {"loc": 0.0, "scale": 1.5}, "logit"),  # of areas, 0.05 to 0.95
        "noise_sd": _log_normal(-1.0, 1.0),  # 0.05 to 2.6
        "scale": _log_normal(-1.0, 1.0),  # of Student-t noise
        "df": _log_normal(1.5, 0.75),  # 1 to 19.5 degrees of freedom
        "size": _log_normal(1.0, 1.5),  # of a negative binomial, 0.14 to 51
        "precision": _log_normal(2.0, 1.0),  # of a beta or a beta-binomial, 1 to 52
        "probability": Hyperprior("norm", {"loc": -1.0, "scale": 1.5}, "logit"),  # 0.02 to 0.87
        "shape": _log_normal(1.0, 1.0),  # of a gamma distribution, 0.38 to 19
        "survival.scale": _log_normal(-0.5, 0.75),  # of log times, 0.14 to 2.6
        "gap": _log_normal(0.0, 0.75),  # between cutpoints of grades, 0.23 to 4.3
    }


def default_hyperprior(owner: str, name: str) -> Hyperprior | None:
    """Return the hyperprior of a parameter of an owner, such as survival's scale; None without a default."""
    known = default_hyperpriors()
    return known.get(f"{owner}.{name}", known.get(name))
