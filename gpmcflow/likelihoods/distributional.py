"""A likelihood whose parameters are functions of the inputs, too."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods.base import Likelihood
from gpmcflow.likelihoods.multi import MultiLikelihood
from gpmcflow.likelihoods.real import Gaussian
from gpmcflow.parameters.parameter import LOG, Entry, Parameter, coordinate_of, own_units

MEAN = "mean"  # the function that the likelihood has by itself
_LARGEST, _LARGEST_LOGIT = 300.0, 36.0  # of a log; a logit above 36 is one of 1
_STEP = 1e-4  # of a log or logit, for second derivatives


@dataclass(frozen=True, eq=False, repr=False)
class Distributional(MultiLikelihood):
    """A likelihood of one function, ``base``, whose parameters ``varying`` are functions as well.

    y_i ~ p(y_i | eta_i, h(g_i)), h the exponential of a positive parameter and the logistic function of a
    probability. The mean of g has the hyperprior of the parameter, or is the log or logit of its number. A
    `GPModel` makes it where the covariance is one for each of ``mean`` and parameters of the likelihood.

    Slopes are exact. The information is minus the Hessian of log p, its part by parameters by differences of
    slopes, which approximations and sites alone use.
    """

    base: Likelihood
    varying: tuple[str, ...]
    # slopes do not vanish with the curvature: a site of far less would be so far out that sums lose digits
    least_information = 1e-3
    indefinite = True

    def __post_init__(self) -> None:
        """Nothing: the base has checked its fields."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """That of the base, as are the properties that follow."""
        return self.base.name

    @property
    def stated(self) -> Likelihood:
        """The base."""
        return self.base

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """Whether y has probabilities."""
        return self.base.discrete

    @property
    def constants(self) -> tuple[str, ...]:  # type: ignore[override]
        """Fields that may be one a case."""
        return self.base.constants

    @property
    def of_observation(self) -> tuple[str, ...]:  # type: ignore[override]
        """Constants that say how y was seen."""
        return self.base.of_observation

    @property
    def per_case(self) -> bool:
        """Whether cases with equal observations can have different factors."""
        return self.base.per_case

    @property
    def functions(self) -> tuple[str, ...]:  # type: ignore[override]
        """``mean``, and the parameters that vary."""
        return (MEAN, *self.varying)

    def densities(self, y: np.ndarray) -> np.ndarray:
        """As of the base."""
        return self.base.densities(y)

    def coded(self, y: Any) -> Any:
        """As of the base."""
        return self.base.coded(y)

    def validate(self, y: np.ndarray) -> None:
        """As of the base."""
        self.base.validate(y)

    def has_moment(self, order: int) -> bool:
        """Whether it is finite whatever the functions are."""
        ends = np.array([[0.0, 0.0], *[[-_LARGEST_LOGIT, _LARGEST_LOGIT]] * len(self.varying)])
        return self.at(ends)[0].has_moment(order)

    # -- parameters and constants ----------------------------------------------------------------

    def entries(self) -> tuple[Entry, ...]:
        """Those that do not vary."""
        return tuple(entry for entry in self.base.entries() if entry.name not in self.varying)

    def with_values(self, values: Sequence[float]) -> Likelihood:
        """The same with numbers for `entries`; those that vary have their value at 0 until eta is given."""
        numbers = iter(values)
        every = [
            own_units(0.0, entry.coordinate) if entry.name in self.varying else next(numbers)
            for entry in self.base.entries()
        ]
        return self._changed({"base": self.base.with_values(every)})

    def take(self, cases: np.ndarray | slice) -> Likelihood:
        """The likelihood of some of the cases."""
        return self._changed({"base": self.base.take(cases)})

    def with_constants(self, **values: np.ndarray) -> Likelihood:
        """The same with other constants of the base."""
        return self._changed({"base": self.base.with_constants(**values)})

    def default_means(self) -> dict[str, Any]:
        """The base's mean, and what it states for each parameter, as its log or logit."""
        means = {MEAN: self.base.default_mean()}
        for entry in self.base.entries():
            if entry.name in self.varying:
                means[entry.name] = _level(entry)
        return means

    def at(self, eta: np.ndarray) -> tuple[Likelihood, np.ndarray]:
        """The base with its parameters at eta (..., q, n), and its own predictor (..., n)."""
        rows = dict(zip(self.varying, np.moveaxis(eta, -2, 0)[1:], strict=True))
        values = [
            _parameter(rows[entry.name], entry.coordinate)
            if entry.name in rows
            else self.base.number(entry.name)
            for entry in self.base.entries()
        ]
        return self.base.with_values(values), eta[..., 0, :]

    @property
    def _places(self) -> list[int]:
        """Of the parameters that vary, among those of the base."""
        names = [entry.name for entry in self.base.entries()]
        return [names.index(name) for name in self.varying]

    # -- densities -------------------------------------------------------------------------------

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return log p, and its slopes by the mean's function and by the log or logit of parameters."""
        base, of_mean = self.at(eta)
        value, slope, *_ = base.derivatives(of_mean, y)
        by_parameter = np.moveaxis(base.case_slopes(of_mean, y)[..., self._places], -1, -2)
        return value, np.concatenate([slope[..., None, :], by_parameter], axis=-2)

    def parameter_gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """By those that do not vary, (..., k)."""
        base, of_mean = self.at(eta)
        rest = np.delete(np.arange(len(self.base.entries())), self._places)
        return base.case_slopes(of_mean, y)[..., rest].sum(-2)

    def information_blocks(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return minus the Hessian of log p of each case, which may have negative eigenvalues."""
        q = len(self.functions)
        blocks = np.empty((*eta.shape[:-2], q, q, eta.shape[-1]))
        base, of_mean = self.at(eta)
        blocks[..., 0, 0, :] = -base.derivatives(of_mean, y)[2]
        for j, step in enumerate(_STEP * np.eye(q)[1:, :, None], 1):
            rise = self.derivatives(eta + step, y)[1] - self.derivatives(eta - step, y)[1]
            blocks[..., j, :, :] = rise / (-2.0 * _STEP)
            blocks[..., 0, j, :] = blocks[..., j, 0, :]
        return 0.5 * (blocks + np.swapaxes(blocks, -2, -3))

    def information(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the base's for the mean's function, and the diagonal of `information_blocks` for others."""
        found = super().information(eta, y).copy()
        base, of_mean = self.at(eta)
        found[..., 0, :] = base.information(of_mean, y)
        return found

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Draw from the base."""
        base, of_mean = self.at(eta)
        return base.simulate(rng, of_mean)

    # -- responses -------------------------------------------------------------------------------

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """Return that of the base."""
        base, of_mean = self.at(eta)
        return base.conditional_mean(of_mean)

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """As the base averages over its own function, averaged over parameters by `nodes`.

        One node is enough where no parameter moves the mean, as the precision of shares.
        """
        eta = self.at_nodes(mean, variance)
        eta[..., 0, :] = mean[..., 0, :]
        base, own = self.at(eta)
        level = base.conditional_mean(own)
        if base.has_moment(1) and np.all(level == level[0]):
            base, own = self.at(eta[:1])
        return base.mean_response(own, np.broadcast_to(variance[..., 0, :], own.shape)).mean(0)


def with_functions(base: Likelihood, functions: Collection[str]) -> MultiLikelihood:
    """The likelihood with ``functions``, ``mean`` and names of parameters; itself if it has several.

    Raises `InputError` for names that are not parameters.
    """
    if isinstance(base, MultiLikelihood):
        return base
    allowed = base.may_vary
    for name in functions:
        if name not in (MEAN, *allowed):
            raise unknown_name("model: covariance of function", name, (MEAN, *allowed))
    if type(base) is Gaussian and "noise_sd" in functions:
        raise InputError(
            "model: covariance of function noise_sd; for noise that varies write likelihood "
            'HeteroscedasticGaussian() and covariance {"mean": .., "log_sd": ..}'
        )
    return Distributional(base, tuple(name for name in allowed if name in functions))


def _level(entry: Entry) -> Any:
    """What is stated for a parameter, as a mean of its log or logit."""
    setting: Any = entry.setting
    if isinstance(setting, Parameter):
        return Parameter(setting.name, _level(entry._replace(setting=setting.value)))
    is_number = isinstance(setting, int | float)
    return coordinate_of(setting, entry.coordinate) if is_number else setting


def _parameter(row: np.ndarray, coordinate: str) -> np.ndarray:
    """A parameter in its own units at logs or logits, within what numbers can be."""
    most = _LARGEST if coordinate == LOG else _LARGEST_LOGIT
    return own_units(np.clip(row, -_LARGEST, most), coordinate)
