"""The posterior density of hyperparameters and latents as one function of a vector, for any sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.execution import pin_blas
from gpmcflow.execution.digest import text_digest
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.parameters.parameter import own_units

if TYPE_CHECKING:
    from gpmcflow.models.gp_model import GPModel

_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
# a precision that no prior variance makes visible: coordinates are those of the prior
_NO_SITE = 1e-30


class JointLogDensity(LogDensity):
    """The log density log p(y, q) of whitened hyperparameters and latents q = (x, z) (d + m,).

    A priori q is standard normal: theta = theta(x) then has its hyperpriors, and f = L(theta) z has the
    covariance K = L L' (of basis functions z are the weights themselves). So

        log p(y, q) = log N(x; 0, I) + log N(z; 0, I) + log p(y | f(x, z) + c, theta(x)),

    whose integral over q is the evidence p(y). It is a plain function of NumPy arrays: `value_and_gradient`
    is what samplers of other packages ask for, and `variables` tells what their draws of q mean. A point
    where the covariance does not factorise has the value -inf and a gradient of zeros.

    ``names`` are those of the coordinates, x of each free parameter in the model's order, then z[0], z[1],
    ..; ``dim`` is d + m, and ``start`` are zeros: every hyperparameter at its prior median, f = 0. Calls,
    gradients, failures and seconds are counted, as by every density of the package.

    Parameters
    ----------
    model:
        A `GPModel`.

    Raises
    ------
    InputError:
        For a `MultiGPModel`, and a hyperprior that has no transform from a standard normal.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 4)
    >>> model = gp.GPModel(x, [0, 1, 1, 3], gp.Matern32(), gp.Poisson())
    >>> density = model.joint_log_density()
    >>> density.names
    ('x[length_scale]', 'x[signal_sd]', 'z[0]', 'z[1]', 'z[2]', 'z[3]')
    >>> value, gradient = density.value_and_gradient(density.start)
    >>> round(value, 4), gradient.shape
    (-11.3054, (6,))
    >>> {name: draw.shape for name, draw in density.variables(np.zeros((5, 6))).items()}
    {'length_scale': (5,), 'signal_sd': (5,), 'latent': (5, 4)}
    """

    model: GPModel

    def __init__(self, model: GPModel) -> None:
        if getattr(model, "parts", None) is not None:
            raise InputError(
                "joint_log_density: this model has several latent functions; allowed: a GPModel of one"
            )
        self.model = model
        latents = (f"z[{k}]" for k in range(model.n_latents))
        self.names = (*(f"x[{name}]" for name in model.names), *latents)
        self._work: JointDensity | None = None
        _ = model.parameters.normal  # refuses hyperpriors without a transform

    def __repr__(self) -> str:
        return f"JointLogDensity(d={self.model.dim}, {self.model.latent_variable}={self.model.n_latents})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_work": None}  # a copy makes its own

    @property
    def start(self) -> np.ndarray:
        """Zeros: every hyperparameter at its prior median, f = 0."""
        return np.zeros(self.dim)

    def digest(self) -> str:
        """SHA-256 of the model."""
        return text_digest(type(self).__name__, self.model.digest())

    def log_prior(self, q: np.ndarray) -> float:
        """log N(q; 0, I)."""
        return float(-0.5 * (q @ q) - self.dim * _HALF_LOG_2PI)

    def evaluate(self, q: np.ndarray) -> float:
        """Log density at q (d + m,)."""
        x, z = self._split(q)
        return self._density.value(x, z) + self.log_prior(np.asarray(q, dtype=np.float64))

    def evaluate_gradient(self, q: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and its gradient at q (d + m,)."""
        x, z = self._split(q)
        at, n = self._density.evaluate(x, z), self.model.n_latents
        q = np.asarray(q, dtype=np.float64)
        slope = np.concatenate([at.slope_x, at.slope_z[:n]])
        return at.rest + self.log_prior(q), slope - q

    def variables(self, q: np.ndarray) -> dict[str, np.ndarray]:
        """What draws q (.., d + m) are of: free parameters (..) in their own units, and latents (.., m).

        Latents are f without the mean c, under "latent"; of basis functions their weights, under "weight".
        """
        draws = np.asarray(q, dtype=np.float64)
        flat = draws.reshape(-1, self.dim) if draws.shape[-1:] == (self.dim,) else None
        if flat is None:
            raise InputError(
                f"joint_log_density: q has shape {draws.shape}; allowed: (.., {self.dim})"
            )
        model, density, shape = self.model, self._density, draws.shape[:-1]
        thetas = model.parameters.normal.theta(flat[:, : model.dim])[0]
        out: dict[str, np.ndarray] = {}
        for k, name in enumerate(model.names):
            kind = model.parameters.coordinates[model.free[k]]
            out[name] = own_units(thetas[:, k], kind).reshape(shape)
        latents = np.empty((len(flat), model.n_latents))
        for row, (theta, point) in enumerate(zip(thetas, flat, strict=True)):
            density.structure.place(model.full(theta), self._split(point)[1])
            latents[row] = density.structure.latents
        return out | {model.latent_variable: latents.reshape(*shape, model.n_latents)}

    @property
    def _density(self) -> JointDensity:
        if self._work is None:
            pin_blas()
            n = self.model.n_sites
            self._work = JointDensity(self.model, FrozenSites(np.full(n, _NO_SITE), np.zeros(n)))
        return self._work

    def _split(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """x, and z as the structure takes it: where it has a second half, for the sites, that is zero."""
        q = np.asarray(q, dtype=np.float64)
        if q.shape != (self.dim,):
            raise InputError(f"joint_log_density: q has shape {q.shape}; allowed: ({self.dim},)")
        z = np.zeros(self._density.n_z)
        z[: self.model.n_latents] = q[self.model.dim :]
        return q[: self.model.dim], z
