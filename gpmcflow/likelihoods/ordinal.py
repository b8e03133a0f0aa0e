"""Ordinal likelihood: ordered grades, cut from a latent value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods.base import Likelihood
from gpmcflow.likelihoods.binary import Logistic
from gpmcflow.likelihoods.interval_observed import LOGISTIC, NORMAL, IntervalObserved
from gpmcflow.likelihoods.levels import checked_levels, coded_levels, require_levels
from gpmcflow.parameters.hyperpriors import Hyperprior, default_hyperprior
from gpmcflow.parameters.parameter import Entry

_LINKS = {"logit": LOGISTIC, "probit": NORMAL}
_MEAN_SD = 1.5


@dataclass(frozen=True, eq=False, repr=False)
class Ordinal(IntervalObserved):
    """Ordered grades 1 to C: grade c where kappa_(c-1) < eta + eps <= kappa_c, kappa_0 = -inf, kappa_C = inf.

    p(c | eta) = F(kappa_c - eta) - F(kappa_(c-1) - eta), F logistic or normal. The first cutpoint is 0, as
    the mean of the model says where grades lie: by default it is ~ N(-F^-1(1 / C), 1.5^2). The others are
    free, and follow by ``gap[2]``, .., ``gap[C-1]``, log gap ~ N(0, 0.75^2) each.

    Attributes
    ----------
    levels:
        How many grades there are, or their names in order, as y then has them. Left out with cutpoints.
    link:
        "logit" or "probit".
    cutpoints:
        C - 1 increasing numbers, which fixes them; the mean is then 0 by default. None: they are free.

    Raises
    ------
    InputError:
        For fewer than two levels, an unknown link, cutpoints that do not increase; in a model, for grades
        that are not among the levels.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> likelihood = gp.Ordinal(cutpoints=(-1.0, 1.0))
    >>> likelihood.class_probabilities(np.zeros(1), np.zeros(1)).ravel().round(4)
    array([0.2689, 0.4621, 0.2689])
    """

    levels: int | Sequence[str] | None = None
    link: str = "logit"
    cutpoints: Sequence[float] | None = None
    name = "ordinal"
    options = ("levels", "link", "cutpoints")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link not in _LINKS:
            raise unknown_name("Ordinal likelihood: link", self.link, _LINKS)
        cuts = self.cutpoints
        if cuts is not None:
            cuts = tuple(float(cut) for cut in cuts)
            if not cuts or not np.all(np.isfinite(cuts)) or not np.all(np.diff(cuts) > 0.0):
                raise InputError(
                    f"Ordinal likelihood: cutpoints is {self.cutpoints!r}; allowed: increasing numbers, one "
                    "fewer than grades"
                )
        object.__setattr__(self, "cutpoints", cuts)
        levels: Any = self.levels
        if levels is None and cuts is not None:
            levels = len(cuts) + 1
        such_as = "in order, such as ('low', 'medium', 'high')"
        levels = checked_levels(levels, "Ordinal", "grades", such_as)
        object.__setattr__(self, "levels", levels)
        if cuts is not None and len(cuts) + 1 != self.n_levels:
            raise InputError(
                f"Ordinal likelihood: {len(cuts)} cutpoints for {self.n_levels} levels; allowed: one fewer "
                "than levels"
            )

    @property
    def n_levels(self) -> int:
        """C, how many grades there are."""
        levels: Any = self.levels
        return int(levels) if isinstance(levels, int | np.integer) else len(levels)

    @property
    def code(self) -> int:
        """Law of eps."""
        return _LINKS[self.link]

    @property
    def s(self) -> float:
        """1, as cutpoints are in units of eps."""
        return 1.0

    # -- parameters ------------------------------------------------------------------------------

    def default_mean(self) -> Hyperprior | float:
        """At which the first grade has the probability 1 / C, give or take 1.5; 0 with fixed cutpoints."""
        if self.cutpoints is not None:
            return 0.0
        quantile = logit if self.link == "logit" else ndtri
        return Hyperprior("norm", {"loc": -float(quantile(1.0 / self.n_levels)), "scale": _MEAN_SD})

    def entries(self) -> tuple[Entry, ...]:
        """Gaps between cutpoints."""
        free: Any = default_hyperprior(self.name, "gap")
        gaps = (
            [free] * (self.n_levels - 2)
            if self.cutpoints is None
            else np.diff(self.cutpoints).tolist()
        )
        return tuple(Entry(f"gap[{k}]", gap) for k, gap in enumerate(gaps, 2))

    def with_values(self, values: Sequence[float]) -> Likelihood:
        """The same with cutpoints at these gaps, from 0 on unless the first one is stated."""
        first = 0.0 if self.cutpoints is None else self.cutpoints[0]
        return self._changed({"cutpoints": tuple((first + np.cumsum([0.0, *values])).tolist())})

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By log of each gap, which moves all cutpoints from there on."""
        low, high = self.by_ends(eta, y)
        cuts = self._cutpoints()
        by_cut = [high * (y == k + 1.0) + low * (y == k + 2.0) for k in range(1, len(cuts))]
        later = np.cumsum(by_cut[::-1], axis=0)[::-1]
        return np.moveaxis(later, 0, -1) * np.diff(cuts)

    # -- observations ----------------------------------------------------------------------------

    def coded(self, y: Any) -> Any:
        """Grades 1 to C of names of levels; numbers are grades."""
        return coded_levels(y, self.levels, self.name, "grades")

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` unless grades are whole numbers from 1 to C."""
        super().validate(y)
        require_levels(y, self.n_levels, self.name, "grades")

    def ends(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cutpoints below and above each grade."""
        cuts = np.concatenate([[-np.inf], self._cutpoints(), [np.inf]])
        grades = np.asarray(y, dtype=np.intp)
        return cuts[grades - 1], cuts[grades]

    def densities(self, y: np.ndarray) -> np.ndarray:
        """Nowhere."""
        return np.zeros(len(y), dtype=bool)

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Grades of eta + eps."""
        return 1.0 + np.searchsorted(self._cutpoints(), self.simulate_latent(rng, eta)).astype(
            float
        )

    # -- responses -------------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[str, ...] | range:
        """Names of the grades, or their numbers."""
        return self.levels if isinstance(self.levels, tuple) else range(1, self.n_levels + 1)

    def class_probabilities(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """P(y = c) averaged over eta ~ N(mean, variance), (C, ...)."""
        mean, variance = np.broadcast_arrays(np.asarray(mean, dtype=float), variance)
        if self.link == "probit":
            below = [ndtr((cut - mean) / np.sqrt(1.0 + variance)) for cut in self._cutpoints()]
        else:
            below = [Logistic().mean_response(cut - mean, variance) for cut in self._cutpoints()]
        edges = np.stack([np.zeros_like(mean), *below, np.ones_like(mean)])
        return np.diff(edges, axis=0)

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """The expected grade, sum of c p(c | eta)."""
        above = [
            expit(eta - cut) if self.link == "logit" else ndtr(eta - cut)
            for cut in self._cutpoints()
        ]
        return 1.0 + np.sum(above, axis=0)

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """The expected grade."""
        grades = np.arange(1.0, self.n_levels + 1.0)
        return np.tensordot(grades, self.class_probabilities(mean, variance), 1)

    def _cutpoints(self) -> np.ndarray:
        if self.cutpoints is None:
            raise InputError(
                "ordinal likelihood: the cutpoints are free where numbers are needed; take model.at(theta)"
            )
        return np.array(self.cutpoints)
