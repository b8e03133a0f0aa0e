"""Gaussian process models: a covariance expression, a likelihood with parameters, a mean, and the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpmcflow.covariances.basis_binding import bind_basis
from gpmcflow.covariances.basis_blocks import BasisBlocks
from gpmcflow.covariances.basis_design import BasisDesign
from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.covariances.binding import bind, leaf_entries
from gpmcflow.covariances.dense_factor import DenseCovariance, DenseFactor
from gpmcflow.covariances.expressions import Covariance, Leaf, Sum
from gpmcflow.covariances.inputs import inputs_of, new_inputs
from gpmcflow.covariances.kronecker import KroneckerBuffers, KroneckerFactor, axis_tapes
from gpmcflow.covariances.leaves import Constant
from gpmcflow.covariances.tape import CovarianceBuffers, Tape, WritableArrays
from gpmcflow.errors import InputError, NumericalError, unknown_name
from gpmcflow.execution import array_digest, pin_blas, text_digest
from gpmcflow.likelihoods import Likelihood
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.model_checks import refuse_degenerate, warn_unidentified
from gpmcflow.parameters.parameter import (
    IDENTITY,
    Entry,
    Setting,
    checked_setting,
)
from gpmcflow.parameters.space import ParameterSpace

JITTER = 1e-6
RESERVED = ("theta", "chain", "draw")  # names in the posterior of results, beside the latents'
STRUCTURES = ("auto", "dense", "kronecker", "basis")


@dataclass(frozen=True, eq=False, repr=False)
class GPModel(WritableArrays):
    """A Gaussian process model: data, a covariance, a likelihood, and priors of their parameters.

    theta ~ p_h, f | theta ~ GP(0, k), y_i ~ p(y_i | f(x_i) + c).

    The coordinates that are sampled are theta: logs of positive parameters, the mean c as it is, those of
    them that have a hyperprior; numbers are fixed. All densities are with respect to these coordinates.
    ``full`` is the vector of all coordinates, fixed ones included: covariance, mean, likelihood.

    Attributes
    ----------
    X, y:
        Inputs: an array (n, p) or (n,), a DataFrame (columns of words are coded), an xarray variable with a
        feature coordinate; and observations (n,).
    covariance, likelihood:
        Any covariance expression and likelihood; what they leave out has a default hyperprior.
    mean:
        Number or hyperprior of c, in the units of the latent function.
    jitter:
        eps of K_ii (1 + eps), a part of the model, the same for all theta. None is 1e-6, and for `at` with a
        covariance of fixed parameters the least that lets it factorise, zero first.
    structure:
        "kronecker" for K = K_1 x K_2 on a grid row by row, with the jitter on each axis; "dense"; "auto"
        takes the first where the cases are a grid and the covariance a product, else the second.
        `BasisFunctions`, or "basis" for its defaults: latents made of m weights, for n of 100,000 and more,
        with a box about the cases of the model, and no jitter.

    Raises
    ------
    InputError:
        For inputs that are not finite, unknown columns, observations the likelihood cannot have, parameters
        that cannot be told apart or have one name, a prior variance of zero, duplicate inputs with no jitter,
        structure "kronecker" where the cases are no grid, and basis functions that do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.Matern32() + gp.Linear(sd=2.0), gp.Probit())
    >>> model.names
    ('matern32.length_scale', 'matern32.signal_sd')
    >>> model.natural(model.prior_median())
    {'matern32.length_scale': 1.0, 'matern32.signal_sd': 1.0, 'linear.sd': 2.0, 'mean': 0.0}
    """

    X: Any
    y: np.ndarray
    covariance: Covariance
    likelihood: Likelihood
    mean: Setting = 0.0
    jitter: float | None = None
    structure: str | BasisFunctions = "auto"

    def __post_init__(self) -> None:
        inputs = inputs_of(self.X)
        try:
            y = np.array(self.y, dtype=np.float64, order="C")  # writable, as compiled code knows it
        except (TypeError, ValueError):
            raise InputError("model: y holds other than numbers; code it as numbers") from None
        if y.shape != (len(inputs.values),) or not inputs.values.size:
            raise InputError(
                f"model: X has shape {inputs.values.shape}, y {y.shape}; allowed: (n, p) and (n,)"
            )
        wrong = np.flatnonzero(~np.isfinite(y))
        if wrong.size:
            raise InputError(f"model: y[{wrong[0]}] is {y[wrong[0]]}; give finite numbers")
        if not isinstance(self.covariance, Covariance):
            raise InputError(
                f"model: covariance is {self.covariance!r}; allowed: covariances such as Matern32(), + and *"
            )
        if not isinstance(self.likelihood, Likelihood):
            raise InputError(
                f"model: likelihood is {self.likelihood!r}; allowed: a likelihood such as Probit()"
            )
        self.likelihood.validate(y)
        if self.jitter is not None and not (np.isfinite(self.jitter) and self.jitter >= 0):
            raise InputError(f"model: jitter is {self.jitter!r}; allowed: a number >= 0, or None")
        set_ = object.__setattr__
        if isinstance(self.structure, str) and self.structure == "basis":
            set_(self, "structure", BasisFunctions())
        if not isinstance(self.structure, BasisFunctions) and self.structure not in STRUCTURES:
            raise unknown_name("model: structure", self.structure, STRUCTURES)
        set_(self, "inputs", inputs)
        set_(self, "X", inputs.values)
        set_(self, "y", y)
        set_(self, "mean", checked_setting(self.mean, "model: mean", positive=False))
        covariance, columns = bind(self.covariance, inputs)
        set_(self, "covariance", covariance)
        groups = leaf_entries(covariance, columns, inputs.names)
        owners = [
            *groups,
            ("", (Entry("mean", self.mean, IDENTITY),)),
            ("", self.likelihood.entries()),
        ]
        set_(self, "parameters", ParameterSpace(owners))
        set_(self, "_columns", columns)
        set_(self, "_places", [self.parameters.places(k) for k in range(len(groups))])
        set_(self, "_mean_place", int(self.parameters.places(len(groups))[0]))
        set_(self, "_likelihood_places", self.parameters.places(len(groups) + 1))
        set_(self, "_axes", self._axis_tapes())
        set_(self, "basis", self._basis_blocks())
        for name in {*RESERVED, self.latent_variable} & set(self.parameters.all_names):
            raise InputError(
                f"model: a parameter is named {name!r}, as results are; give it another name"
            )
        prior_variance = CovarianceBuffers(self._tape).diagonal(
            self.full(self.prior_median()), self.X
        )
        refuse_degenerate(self, prior_variance, self._columns)
        free_noise = self.likelihood.conjugate and not self._likelihood_is_fixed
        warn_unidentified(self.covariance, self._free[self._mean_place], free_noise)

    def __repr__(self) -> str:
        n, p = self.X.shape
        more = "" if self.mean == 0.0 else f", mean={self.mean!r}"
        structure = self.structure if self.basis else self.structure_name
        return (
            f"GPModel(n={n}, p={p}, {self.covariance!r}, {self.likelihood!r}{more}, "
            f"structure={structure!r})"
        )

    def __getstate__(self) -> dict:
        return {k: v for k, v in vars(self).items() if k != "basis_design"}  # large, and soon made

    # -- construction ----------------------------------------------------------------------------

    def _axis_tapes(self) -> tuple[Tape, Tape] | None:
        exact = (
            self.structure == "auto" and self.likelihood.conjugate
        )  # a factorisation is needed anyway
        if self.structure == "dense" or exact or isinstance(self.structure, BasisFunctions):
            return None
        try:
            return axis_tapes(self.covariance, self._columns, self._places, self._free, self.X)
        except InputError:
            if self.structure == "kronecker":
                raise
            return None

    def _basis_blocks(self) -> BasisBlocks | None:
        return self.basis_of(self.structure) if isinstance(self.structure, BasisFunctions) else None

    def basis_of(self, settings: BasisFunctions) -> BasisBlocks:
        """Blocks of basis functions for this model. Raises `InputError` where its covariance has none."""
        return bind_basis(
            settings, self.covariance, self._columns, self._places, self.parameters.priors, self.X,
            self.inputs.names,
        )  # fmt: skip

    def _changed(self, **changes: Any) -> GPModel:
        return replace(self, **({"X": self.inputs} | changes))

    def with_y(self, y: np.ndarray) -> GPModel:
        """The model of other observations (n,)."""
        return self._changed(y=y)

    def with_structure(self, structure: str | BasisFunctions) -> GPModel:
        """The same model with another structure of its covariance matrix."""
        return self._changed(structure=structure)

    def take(self, cases: np.ndarray) -> GPModel:
        """The model of some of the cases, with the same parameters and hyperpriors."""
        inputs = self.inputs._replace(values=self.X[cases])
        return self._changed(X=inputs, y=self.y[cases], likelihood=self.likelihood.take(cases))

    # -- parameters ------------------------------------------------------------------------------

    @property
    def structure_name(self) -> str:
        """What the prior is taken for: "dense", "kronecker" or "basis"."""
        return "basis" if self.basis else "dense" if self._axes is None else "kronecker"

    @property
    def latent_variable(self) -> str:
        """Name of the latents in results: "latent", or "weight" with basis functions."""
        return "weight" if self.basis else "latent"

    @property
    def n_latents(self) -> int:
        """Number of latents: n values of the process, or m weights of basis functions."""
        return self.basis.size if self.basis else self.n_cases

    @property
    def numbers_held(self) -> int:
        """Most numbers that a chain holds at a time: 10 n^2 dense, 100 n on a grid, 30 n + 10 m^2 of weights.

        An estimate; draws that are kept, and fits that are not made with the structure, come on top.
        """
        n = self.n_cases
        if self.basis:
            return 30 * n + 10 * self.n_latents**2
        return 100 * n if self.kronecker else 10 * n**2

    @cached_property
    def basis_design(self) -> BasisDesign:
        """Basis functions at the cases; made when first asked for, and not pickled."""
        pin_blas()
        return BasisDesign(self.basis, self.X)

    def refuse_basis(self) -> None:
        """Raise `InputError` for a model with basis functions, where a matrix of all cases is needed."""
        if self.basis:
            raise InputError(
                "model: basis functions have no factor of the covariance of all cases, which is asked for "
                'here; take JointSplitHMC, model.at(theta), or with_structure("dense")'
            )

    @property
    def n_cases(self) -> int:
        """Number n of cases."""
        return len(self.y)

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
        theta: their logs, of the mean itself, in the order of ``names``.

        Raises
        ------
        InputError:
            For an unknown name, one that is missing, and a number that is not positive where it has to be.

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
        log = self.parameters.is_log[self.free]
        if np.any(log & ~(numbers > 0.0)):
            name = self.names[int(np.argmax(log & ~(numbers > 0.0)))]
            raise InputError(f"model: {name} is {values[name]!r}; allowed: a positive number")
        numbers[log] = np.log(numbers[log])
        return numbers

    def touches(self, place: int) -> str | None:
        """What a move of the coordinate at a place of ``full`` changes.

        "scale": the covariance by a factor; "covariance"; "mean"; "likelihood"; None for several of these.
        """
        owners = self.owners(place)
        if len(owners) > 1:
            return None
        return "scale" if place == self.scale_place else owners[0]

    def owners(self, place: int) -> list[str]:
        """Which of "covariance", "mean" and "likelihood" have the parameter at a place of ``full``."""
        owners = {
            "covariance": any(place in places for places in self._places),
            "mean": place == self._mean_place,
            "likelihood": place in self._likelihood_places,
        }
        return [name for name, own in owners.items() if own]

    @cached_property
    def scale_place(self) -> int | None:
        """Place of the amplitude that multiplies the whole covariance, or None."""
        if self._axes is None:
            return self._tape.common_scale
        used = np.concatenate(self._places).tolist()
        scales = [tape.common_scale for tape in self._axes]
        once = [place for place in scales if place is not None and used.count(place) == 1]
        return min(once, key=lambda place: not self._free[place], default=None)

    def mean_at(self, full: np.ndarray) -> float:
        """c."""
        return float(full[self._mean_place])

    @cached_property
    def _likelihood_is_fixed(self) -> bool:
        return not self._free[self._likelihood_places].any()

    @cached_property
    def _fixed_likelihood(self) -> Likelihood:
        return self._likelihood_of(self.full(self.prior_median()))

    def _likelihood_of(self, full: np.ndarray) -> Likelihood:
        return self.likelihood.with_values(np.exp(full[self._likelihood_places]))

    def likelihood_at(self, full: np.ndarray) -> Likelihood:
        """The likelihood with numbers for its parameters."""
        return self._fixed_likelihood if self._likelihood_is_fixed else self._likelihood_of(full)

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
        self, slopes: np.ndarray, full: np.ndarray, predictor: np.ndarray
    ) -> None:
        """Add the slopes by the likelihood's parameters at a predictor to ``slopes``."""
        if not self._likelihood_is_fixed:
            by_likelihood = self.likelihood_at(full).parameter_gradient(predictor, self.y)
            np.add.at(slopes, self._likelihood_places, by_likelihood)

    # -- latents ---------------------------------------------------------------------------------

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """Leaves of the covariance."""
        return self.covariance.leaves()

    @property
    def epsilon(self) -> float:
        """eps of K_ii (1 + eps) as samplers over theta take it."""
        return JITTER if self.jitter is None else self.jitter

    @cached_property
    def _tape(self) -> Tape:
        return Tape(self.covariance, self._columns, self._places, self._free, self.X)

    def scaled_covariance(self) -> tuple[np.ndarray, int | None, np.ndarray, CovarianceBuffers]:
        """K = s^2 E + constants: places in ``full`` of E, of s (or None), of the constants; buffers for E.

        E is the one term of the sum that is not constant, if it has an amplitude, else the whole.
        """
        pin_blas()
        self.refuse_basis()
        everything = np.unique(np.concatenate(self._places))
        if self._axes is not None:
            return everything, None, np.empty(0, dtype=int), self.covariance_buffers()
        terms = (
            self.covariance.operands() if isinstance(self.covariance, Sum) else [self.covariance]
        )
        bound = list(zip(self._columns, self._places, strict=True))
        constants, inner = [], []
        for term in terms:
            own, bound = bound[: len(term.leaves())], bound[len(term.leaves()) :]
            (constants if isinstance(term, Constant) else inner).append((term, own))
        if len(inner) == 1:
            columns, places = zip(*inner[0][1], strict=True)
            tape = Tape(inner[0][0], columns, places, self._free, self.X)
            if tape.common_scale is not None:
                at = np.array([int(own[0][1][0]) for _, own in constants], dtype=int)
                buffers = CovarianceBuffers(tape, self.epsilon)
                return np.concatenate(places), tape.common_scale, at, buffers
        buffers = CovarianceBuffers(self._tape, self.epsilon)
        return everything, None, np.empty(0, dtype=int), buffers

    @property
    def kronecker(self) -> bool:
        """Whether K is taken for a Kronecker product."""
        return self._axes is not None

    def factor(self) -> DenseFactor | KroneckerFactor:
        """Empty buffers for L of K = s^2 L L', s the amplitude at `scale_place`. BLAS has one thread then."""
        pin_blas()
        self.refuse_basis()
        if self._axes is not None:
            return KroneckerFactor(self._axes, self.epsilon, self.scale_place)
        return DenseFactor(self._tape, self.epsilon, self.scale_place)

    def covariance_buffers(self) -> DenseCovariance | KroneckerBuffers:
        """Buffers for K and its adjoint. BLAS has one thread from here on."""
        pin_blas()
        self.refuse_basis()
        if self._axes is not None:
            return KroneckerBuffers(self._axes, self.epsilon)
        return DenseCovariance(self._tape, self.epsilon)

    def scale(self, full: np.ndarray) -> float:
        """s of K = s^2 L L'; 1 where no amplitude multiplies the whole covariance."""
        return 1.0 if self.scale_place is None else float(np.exp(full[self.scale_place]))

    def filled_factor(self, full: np.ndarray) -> DenseFactor | KroneckerFactor:
        """Factor at ``full``. Raises `NumericalError` where the covariance is not positive definite."""
        factor = self.factor()
        if not factor.fill(full):
            raise NumericalError(
                f"model: the covariance is not positive definite at {np.round(full, 3).tolist()}; give a "
                f"larger jitter than {self.epsilon:g}"
            )
        return factor

    def cholesky(self, full: np.ndarray) -> np.ndarray:
        """Lower factor of K with its jitter (n, n)."""
        return self.scale(full) * self.filled_factor(full).dense()

    def covariance_matrix(self, theta: np.ndarray) -> np.ndarray:
        """K(theta) (n, n), with its jitter."""
        L = self.cholesky(self.full(theta))
        return L @ L.T

    def at(self, theta: np.ndarray = ()) -> LatentGaussianModel:
        """Fix the hyperparameters: the model of f at theta.

        It is what EP, Laplace, annealing and the samplers of latents take. With basis functions its latent
        variables are the weights.

        Parameters
        ----------
        theta:
            Coordinates (d,) of the free parameters, in the order of ``names``; see `theta_of`.

        Returns
        -------
        A `LatentGaussianModel`.

        Raises
        ------
        InputError:
            For theta of another length than d.
        NumericalError:
            Where the covariance does not factorise.

        Examples
        --------
        >>> import numpy as np
        >>> import gpmcflow as gp
        >>> x = np.linspace(0.0, 1.0, 8)
        >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.Matern32(), gp.Probit())
        >>> model.at(model.theta_of({"length_scale": 0.5, "signal_sd": 2.0})).dim
        8
        """
        full = self.full(np.asarray(theta, dtype=np.float64))
        if self.basis:
            s, _ = self.basis.scales(full)
            design = self.basis_design.matrix() * s
            unit, c = np.eye(self.n_latents, order="F"), self.mean_at(full)
            zero, likelihood = np.zeros(self.n_latents), self.likelihood_at(full)
            return LatentGaussianModel(
                likelihood, self.y, zero, unit, design=design, offset=c,
                covariance_function=CovarianceAt(self, full), X=self.X,
            )  # fmt: skip
        shared = {
            "mean": self.mean_at(full),
            "covariance_function": CovarianceAt(self, full),
            "X": self.X,
        }
        fixed = not any(self._free[place] for places in self._places for place in places)
        likelihood = self.likelihood_at(full)
        if self.jitter is None and fixed and self.structure != "kronecker":
            K = CovarianceBuffers(self._tape).matrix(full)
            return LatentGaussianModel.from_covariance(K, likelihood, self.y, **shared)
        shared["mean"] = np.full(self.n_cases, shared["mean"])
        L = np.asfortranarray(self.cholesky(full))
        jitter = self.epsilon * float(np.mean(CovarianceBuffers(self._tape).diagonal(full, self.X)))
        return LatentGaussianModel(likelihood, self.y, cholesky=L, jitter=jitter, **shared)

    def log_likelihood(self, f: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Log p(y | f, theta) for latents (..., n), or weights (..., m), shape (...)."""
        eta = self.predictor(theta, np.atleast_1d(np.asarray(f, dtype=np.float64)))
        return self.likelihood_at(self.full(theta)).log_density(eta, self.y)

    def predictor(self, theta: np.ndarray, f: np.ndarray) -> np.ndarray:
        """eta = f + c (..., n) of latents f (..., n), or of weights (..., m)."""
        full = self.full(theta)
        if self.basis:
            coefficients = (self.basis.scales(full)[0] * f).reshape(-1, self.n_latents)
            rows = [self.basis_design.multiply(b, np.empty(self.n_cases)) for b in coefficients]
            f = np.reshape(rows, (*np.shape(f)[:-1], self.n_cases))
        return f + self.mean_at(full)

    def log_density(self, theta: np.ndarray, f: np.ndarray) -> float:
        """Log p_h(theta) + log N(f; 0, K) + log p(y | f, theta), the slow way; of weights f N(f; 0, I)."""
        full = self.full(theta)
        if self.basis:
            log_normal = -0.5 * float(np.dot(f, f)) - 0.5 * self.n_latents * np.log(2.0 * np.pi)
            return self.log_prior(theta) + log_normal + float(self.log_likelihood(f, theta))
        factor, n, s = self.filled_factor(full), self.n_cases, self.scale(full)
        z = factor.solve(np.asarray(f, dtype=np.float64)) / s
        log_normal = -0.5 * (z @ z) - factor.log_det - n * (np.log(s) + 0.5 * np.log(2.0 * np.pi))
        return self.log_prior(theta) + log_normal + float(self.log_likelihood(f, theta))

    def simulate(
        self, rng: np.random.Generator, theta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw latents f (n,), or weights (m,), and observations (n,) given theta."""
        full = self.full(theta)
        z = rng.standard_normal(self.n_latents)
        f = z if self.basis else self.scale(full) * self.filled_factor(full).multiply(z)
        return f, self.likelihood_at(full).simulate(rng, self.predictor(theta, f))

    def new_inputs(self, X_new: Any, unseen: str = "error") -> np.ndarray:
        """New inputs as (m, p), coded as those of the model; see `covariances.inputs.new_inputs`."""
        kinds: dict[str, set[str]] = {}
        for leaf, columns in zip(self.leaves, self._columns, strict=True):
            for column in columns:
                kinds.setdefault(self.inputs.names[column], set()).add(leaf.term)
        return new_inputs(X_new, self.inputs, kinds, unseen).values

    def cross_covariance(
        self, full: np.ndarray, X_new: np.ndarray, X: np.ndarray | None = None
    ) -> np.ndarray:
        """Covariances of latents at new inputs (m, p) with those at X, or at the cases, (m, n); no jitter."""
        return CovarianceBuffers(self._tape).cross(full, np.ascontiguousarray(X_new), X)

    def prior_variance(self, full: np.ndarray, X_new: np.ndarray) -> np.ndarray:
        """Prior variances of latents at new inputs (m, p), with jitter, (m,)."""
        return CovarianceBuffers(self._tape, self.epsilon).diagonal(
            full, np.ascontiguousarray(X_new)
        )

    def digest(self) -> str:
        """SHA-256 of data, parameters and settings."""
        inputs = (self.inputs.names, self.inputs.levels)
        settings = (
            self.covariance,
            self.likelihood.digest(),
            self.mean,
            self.jitter,
            self.kronecker,
        )
        structure = (self.structure,) if self.basis else ()
        text = repr((*settings, *inputs, *structure))
        return text_digest(array_digest({"X": self.X, "y": self.y}), text)


@dataclass(frozen=True, eq=False)
class CovarianceAt:
    """The covariance function of a model at fixed coordinates, for predictions."""

    model: GPModel
    full: np.ndarray

    def __repr__(self) -> str:
        return f"{self.model.covariance!r} at {self.full.tolist()}"

    def __call__(self, X_new: np.ndarray, X: np.ndarray | None = None) -> np.ndarray:
        """Covariances of new inputs (m, p) with X (n, p), or with the model's cases, (m, n)."""
        return self.model.cross_covariance(self.full, X_new, X)

    def diagonal(self, X_new: np.ndarray) -> np.ndarray:
        """Prior variances at new inputs, (m,)."""
        return CovarianceBuffers(self.model._tape).diagonal(self.full, np.ascontiguousarray(X_new))
