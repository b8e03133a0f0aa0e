"""Coordinates of a Gaussian process model: its free parameters, and who has which of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods import Likelihood
from gpmcflow.parameters.parameter import IDENTITY, coordinate_of, require_allowed
from gpmcflow.parameters.space import ParameterSpace


class ModelCoordinates:
    """What `GPModel` says of its parameters, and of its mean and likelihood at values of them."""

    y: np.ndarray
    likelihood: Likelihood
    parameters: ParameterSpace
    _places: list[np.ndarray]  #: in ``full``, of each leaf's parameters
    _mean_place: int
    _likelihood_places: np.ndarray

    @property
    def dim(self) -> int:
        """Number d of coordinates of theta."""
        return self.parameters.dim

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates of theta."""
        return self.parameters.names

    @property
    def free(self) -> np.ndarray:
        """Places of theta in ``full``."""
        return self.parameters.free

    @property
    def _free(self) -> np.ndarray:
        return self.parameters.is_free

    def full(self, theta: np.ndarray) -> np.ndarray:
        """All coordinates, the fixed ones included, of theta (d,)."""
        return self.parameters.full(theta)

    def natural(self, theta: np.ndarray) -> dict[str, float]:
        """All parameters in their own units, by name, at theta (d,)."""
        return self.parameters.natural(theta)

    def log_prior(self, theta: np.ndarray) -> float:
        """Log p_h(theta), -inf outside the support."""
        return self.parameters.log_prior(theta)

    def draw_prior(self, rng: np.random.Generator, central: float = 1.0) -> np.ndarray:
        """Draw theta (d,) from its prior, or from the central part that holds this probability."""
        return self.parameters.draw_prior(rng, central)

    def prior_median(self) -> np.ndarray:
        """Theta (d,) at the median of every hyperprior."""
        return self.parameters.prior_median()

    def theta_of(self, values: Mapping[str, float]) -> np.ndarray:
        """Coordinates theta (d,) of values of the free parameters.

        Parameters
        ----------
        values:
            One number for each free parameter, by its name, in its own units.

        Returns
        -------
        theta: their logs, logits of probabilities, the mean itself, in the order of ``names``.

        Raises
        ------
        InputError:
            For an unknown name, one that is missing, and a number that the parameter cannot be.

        Examples
        --------
        >>> import numpy as np
        >>> import gpmcflow as gp
        >>> model = gp.GPModel(np.arange(3.0), np.ones(3), gp.Matern32(), gp.Gaussian(0.1))
        >>> model.theta_of({"signal_sd": 1.0, "length_scale": 2.0}).round(4)
        array([0.6931, 0.    ])
        """
        for name in values:
            if name not in self.names:
                raise unknown_name("model: parameter", name, self.names)
        missing = [name for name in self.names if name not in values]
        if missing:
            raise InputError(
                f"model: no value for {', '.join(missing)}; give one for each free parameter"
            )
        try:
            numbers = np.array([float(values[name]) for name in self.names])
        except (TypeError, ValueError):
            raise InputError(
                f"model: values are {dict(values)!r}; allowed: a number for each parameter"
            ) from None
        kinds = [self.parameters.coordinates[place] for place in self.free]
        for name, number, kind in zip(self.names, numbers.tolist(), kinds, strict=True):
            given = values[name]  # shown as it was given, unless it is of NumPy or text
            require_allowed(given if isinstance(given, int) else number, f"model: {name}", kind)
        return np.array([coordinate_of(v, kind) for v, kind in zip(numbers, kinds, strict=True)])

    def in_range(self, full: np.ndarray, largest: float) -> bool:
        """Whether logs and logits are below ``largest`` in size, and the mean is finite; not for nan."""
        return bool((np.abs(full) < self._range * largest).all())

    @cached_property
    def _range(self) -> np.ndarray:
        """1 where a coordinate is a log or a logit, inf where it is the parameter itself."""
        kinds = self.parameters.coordinates
        return np.array([np.inf if kind == IDENTITY else 1.0 for kind in kinds])

    def owners(self, place: int) -> list[str]:
        """Which of "covariance", "mean" and "likelihood" have the parameter at a place of ``full``."""
        owners = {
            "covariance": any(place in places for places in self._places),
            "mean": place == self._mean_place,
            "likelihood": place in self._likelihood_places,
        }
        return [name for name, own in owners.items() if own]

    def mean_at(self, full: np.ndarray) -> float:
        """Mean c of the process at ``full``, in units of the latent function."""
        return float(full[self._mean_place])

    @cached_property
    def _likelihood_is_fixed(self) -> bool:
        return not self._free[self._likelihood_places].any()

    @cached_property
    def _fixed_likelihood(self) -> Likelihood:
        return self._likelihood_of(self.full(self.prior_median()))

    def _likelihood_of(self, full: np.ndarray) -> Likelihood:
        places = self._likelihood_places
        return self.likelihood.with_values(self.parameters.own_units(full, places))

    def likelihood_at(self, full: np.ndarray) -> Likelihood:
        """The likelihood with numbers for its parameters."""
        return self._fixed_likelihood if self._likelihood_is_fixed else self._likelihood_of(full)

    @property
    def eta_y(self) -> np.ndarray:
        """Observations on the scale of eta, (n,): what Gaussian noise is added to makes them."""
        return self.likelihood.to_eta(self.y)

    @property
    def log_jacobian(self) -> float:
        """What makes the log density of `eta_y` that of y."""
        return float(self.likelihood.log_jacobian(self.y).sum())

    @property
    def noise_place(self) -> int | None:
        """Place of a Gaussian likelihood's one noise level, free or fixed, or None."""
        return int(self._likelihood_places[0]) if len(self._likelihood_places) else None

    def add_noise_slopes(
        self, slopes: np.ndarray, full: np.ndarray, by_mean: float, trace: float
    ) -> None:
        """Add the slopes by the mean and the log noise level: 2 sigma^2 tr S."""
        slopes[self._mean_place] += by_mean
        if not self._likelihood_is_fixed:
            slopes[self.noise_place] += 2.0 * np.exp(2.0 * full[self.noise_place]) * trace

    def add_mean_slope(self, slopes: np.ndarray, by_mean: float) -> None:
        """Add the slope by the mean to ``slopes``."""
        slopes[self._mean_place] += by_mean

    def add_likelihood_slopes(
        self, slopes: np.ndarray, likelihood: Likelihood, predictor: np.ndarray
    ) -> None:
        """Add the slopes by the parameters of `likelihood_at` at a predictor to ``slopes``."""
        if not self._likelihood_is_fixed:
            by_likelihood = likelihood.parameter_gradient(predictor, self.y)
            np.add.at(slopes, self._likelihood_places, by_likelihood)
