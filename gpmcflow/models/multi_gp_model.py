"""A Gaussian process model of several latent functions, which meet in the likelihood alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.covariances.binding import with_all_levels
from gpmcflow.covariances.expressions import Covariance, Leaf
from gpmcflow.covariances.inputs import Inputs, inputs_of
from gpmcflow.covariances.text import parse_covariance
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.execution import text_digest
from gpmcflow.likelihoods import Likelihood, MultiLikelihood
from gpmcflow.models.gp_model import GPModel, tell_units
from gpmcflow.models.model_coordinates import ModelCoordinates
from gpmcflow.models.outcome import Outcome, observed
from gpmcflow.models.printed import as_html, as_text
from gpmcflow.parameters.space import ParameterSpace

LATENT, WEIGHT = "latent", "weight"


@dataclass(frozen=True, eq=False, repr=False)
class FunctionOf(Likelihood):
    """Stands for the likelihood in the model of one function, whose prior alone is asked for."""

    single = False
    relative_sites: bool = False  # type: ignore[misc]
    options = ("relative_sites",)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Refused: functions meet in the likelihood of the whole."""
        raise NotImplementedError

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Refused, as `derivatives`."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, repr=False)
class MultiGPModel(ModelCoordinates):
    """A model of q latent functions: f_c ~ GP(0, k_c), y_i ~ p(y_i | f_1(x_i) + c_1, .., f_q(x_i) + c_q).

    `GPModel` makes it where the likelihood is a `MultiLikelihood`, such as `Softmax` or
    `HeteroscedasticGaussian`, and where parameters of another likelihood have a covariance each: of
    {"mean": .., "size": ..} the second function is the log of a negative binomial's size, of a probability
    it is the logit. Latents are those of function 1, of function 2, .. in a row (q n,), or weights
    of basis functions; predictors have shape (q, n).

    Attributes
    ----------
    X, y, jitter, structure, outcome:
        As of `GPModel`; the structure is that of each function.
    covariance:
        One for each function by its name, {"mean": .., "log_sd": ..}, as expressions or text; or one for all,
        of which each function has parameters of its own, named like ``log_sd.length_scale``. A likelihood of
        the ``same_prior``, as `Softmax`, takes one, and its functions share all parameters.
    likelihood:
        A `MultiLikelihood`, or one whose parameters the covariance names.
    mean:
        A number or hyperprior for each function by its name, or for the first alone; where left out, 0, or
        the likelihood's default, which for a parameter is what the likelihood states, as its log or logit.

    Raises
    ------
    InputError:
        As `GPModel`; for functions that the likelihood does not have, and ones that are left out.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 9)
    >>> model = gp.GPModel(x, ["a", "b", "c"] * 3, "matern32()", gp.Softmax())
    >>> model.names, model.likelihood.classes
    (('length_scale', 'signal_sd'), ('a', 'b', 'c'))
    >>> model.n_latents
    18
    """

    X: Any
    y: Any
    covariance: Any
    likelihood: Any
    mean: Any = None
    jitter: float | None = None
    structure: str | BasisFunctions = "auto"
    outcome: Outcome | None = None
    #: the model of each function, the same one where they share all parameters
    parts: list[GPModel] = field(init=False)
    part_places: list[np.ndarray] = field(init=False)  #: in ``full``, of all parameters of each
    inputs: Inputs = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.likelihood, MultiLikelihood):
            raise InputError(
                f"model: the {self.likelihood.name} likelihood has one latent function; give one covariance"
            )
        set_ = object.__setattr__
        y = observed(self.y, self.likelihood)
        set_(self, "likelihood", self.likelihood.with_levels_of(self.y))
        inputs = inputs_of(self.X)
        covariances = {
            name: parse_covariance(own, where="model: covariance") if isinstance(own, str) else own
            for name, own in self._each("covariance", self.covariance).items()
        }
        set_(self, "covariance", covariances)
        means = self.likelihood.default_means()
        if isinstance(self.mean, Mapping):
            self._require_functions("mean", self.mean)
            means |= self.mean
        elif self.mean is not None:
            means |= {self.functions[0]: self.mean}
        self._refuse_shared_mean(means)
        set_(self, "mean", means)
        for own in covariances.values():  # levels that one covariance knows of are those of all
            inputs = with_all_levels(inputs, own) if isinstance(own, Covariance) else inputs
        parts = [self._part(inputs, y, name) for name in self._own_functions]
        first = parts[0]
        bound = (part.covariance for part in parts)
        set_(self, "covariance", dict(zip(self._own_functions, bound, strict=True)))
        set_(self, "parts", parts * (len(self.functions) // len(parts)))
        set_(self, "inputs", first.inputs)
        set_(self, "X", first.X)
        set_(self, "y", first.y)
        self.likelihood.validate(self.y)
        groups = [
            (prefix, part.parameters.entries)
            for prefix, part in zip(self._prefixes, parts, strict=True)
        ]
        set_(self, "parameters", ParameterSpace([*groups, ("", self.likelihood.entries())]))
        of_part = [self.parameters.places(k) for k in range(len(parts))]
        set_(self, "part_places", of_part * (len(self.functions) // len(parts)))
        set_(self, "_likelihood_places", self.parameters.places(len(parts)))
        if self.likelihood.noise_function:
            self._warn_units(self.functions.index(self.likelihood.noise_function))

    def _warn_units(self, noise: int) -> None:
        """As `warn_units`, of a mean function and the log of the noise's standard deviation."""
        signal, ends = self.parts[0], []
        if not self.dim or signal.basis:
            return
        for share in (0.001, 0.999):
            theta = [float(prior.quantile(share)) for prior in self.parameters.free_priors]
            own, of_noise = (self.full(np.array(theta))[self.part_places[k]] for k in (0, noise))
            variance = np.exp(2.0 * self.parts[noise].mean_at(of_noise))
            total = float(np.mean(signal.prior_variance(own, self.X))) + variance
            ends.append((signal.mean_at(own), float(np.sqrt(variance)), float(np.sqrt(total))))
        tell_units(self.y, ends, "y")

    # -- functions -------------------------------------------------------------------------------

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of the latent functions."""
        return self.likelihood.functions

    @property
    def _own_functions(self) -> tuple[str, ...]:
        """Functions with parameters of their own: the first alone where all share them."""
        return self.functions[:1] if self.likelihood.same_prior else self.functions

    @property
    def _prefixes(self) -> list[str]:
        return [""] if self.likelihood.same_prior else list(self.functions)

    def _each(self, what: str, stated: Any) -> dict[str, Any]:
        """What is stated, by function."""
        if not isinstance(stated, Mapping):
            return dict.fromkeys(self._own_functions, stated)
        if self.likelihood.same_prior and set(stated) != set(self._own_functions):
            raise InputError(
                f"model: {what} is one for {', '.join(stated)}; allowed: one for all functions of the "
                f"{self.likelihood.name} likelihood, which share it"
            )
        self._require_functions(what, stated)
        missing = [name for name in self._own_functions if name not in stated]
        if missing:
            raise InputError(
                f"model: no {what} for {', '.join(missing)}; give one for each of "
                f"{', '.join(self.functions)}"
            )
        return {name: stated[name] for name in self._own_functions}

    def _require_functions(self, what: str, stated: Mapping[str, Any]) -> None:
        for name in stated:
            if name not in self.functions:
                raise unknown_name(f"model: {what} of function", name, self.functions)

    def _refuse_shared_mean(self, means: Mapping[str, Any]) -> None:
        """A mean of contrasts would depend on the order of the classes."""
        if self.likelihood.same_prior and any(value != 0.0 for value in means.values()):
            raise InputError(
                f"model: mean is {self.mean!r}; allowed: 0 with the {self.likelihood.name} likelihood, whose "
                "functions have one prior; add Constant() to the covariance for classes of other sizes"
            )

    def _part(self, inputs: Inputs, y: np.ndarray, name: str) -> GPModel:
        return GPModel(
            inputs, y, self.covariance[name], FunctionOf(self.likelihood.relative_sites),
            self.mean[name], self.jitter, self.structure,
        )  # fmt: skip

    def thetas_of_parts(self, theta: np.ndarray) -> list[np.ndarray]:
        """Free coordinates of the model of each function at theta (d,)."""
        full = self.full(theta)
        return [
            full[places][part.free]
            for part, places in zip(self.parts, self.part_places, strict=True)
        ]

    # -- what samplers ask of a model --------------------------------------------------------------

    @property
    def n_cases(self) -> int:
        """Number n of cases."""
        return len(self.y)

    @property
    def basis(self) -> Any:
        """The basis of the first function that has one; None where all functions are values at the cases."""
        return next((part.basis for part in self.parts if part.basis), None)

    @property
    def kronecker(self) -> bool:
        """Whether any function's covariance is taken for a Kronecker product."""
        return any(part.kronecker for part in self.parts)

    @property
    def chose_basis(self) -> bool:
        """Whether "auto" took a basis."""
        return any(part.chose_basis for part in self.parts)

    @property
    def structure_name(self) -> str:
        """Structures of the functions, such as "dense" or "dense, basis"."""
        return ", ".join(dict.fromkeys(part.structure_name for part in self.parts))

    @property
    def structure_in_words(self) -> str:
        """Structures with the reasons for them."""
        return ", ".join(dict.fromkeys(part.structure_in_words for part in self.parts))

    @property
    def latent_variable(self) -> str:
        """Name of the latents in results: "latent", or "weight" where any function has basis functions."""
        return WEIGHT if self.basis else LATENT

    @property
    def n_sites(self) -> int:
        """Number of sites that stand for the likelihood, one for each function and case."""
        return len(self.parts) * self.n_cases

    @property
    def n_latents(self) -> int:
        """Number of latents of all functions."""
        return sum(part.n_latents for part in self.parts)

    @cached_property
    def splits(self) -> np.ndarray:
        """Where in the latents each function but the first begins."""
        return np.cumsum([part.n_latents for part in self.parts])[:-1]

    @property
    def numbers_held(self) -> int:
        """Most numbers that a chain holds at a time, an estimate."""
        return sum(part.numbers_held for part in self.parts)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """Leaves of all covariances."""
        return tuple(leaf for part in self.parts for leaf in part.leaves)

    @property
    def _columns(self) -> list[tuple[int, ...]]:
        return [columns for part in self.parts for columns in part._columns]

    @property
    def epsilon(self) -> float:
        """eps of the jitter."""
        return max(part.epsilon for part in self.parts)

    def own_parts(self) -> list[tuple[GPModel, list[int]]]:
        """Each model of functions once, with the numbers of the functions that share it."""
        found: dict[int, tuple[GPModel, list[int]]] = {}
        for c, part in enumerate(self.parts):
            found.setdefault(id(part), (part, []))[1].append(c)
        return list(found.values())

    def predictor(self, theta: np.ndarray, latents: np.ndarray) -> np.ndarray:
        """eta (..., q, n) of latents (..., n_latents)."""
        own = zip(
            self.parts,
            self.thetas_of_parts(theta),
            np.split(np.asarray(latents, dtype=np.float64), self.splits, axis=-1),
            strict=True,
        )
        return np.stack([part.predictor(at, f) for part, at, f in own], axis=-2)

    def log_likelihood(self, latents: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Log p(y | latents, theta) for latents (..., n_latents), shape (...)."""
        likelihood = self.likelihood_at(self.full(theta))
        return likelihood.log_density(self.predictor(theta, latents), self.y)

    def log_density(self, theta: np.ndarray, latents: np.ndarray) -> float:
        """Log p_h(theta) + sum_c log N(f_c; 0, K_c) + log p(y | f, theta), the slow way."""
        total = self.log_prior(theta) + float(self.log_likelihood(latents, theta))
        own = zip(
            self.parts, self.thetas_of_parts(theta), np.split(latents, self.splits), strict=True
        )
        for part, at, f in own:
            if part.basis:
                total += -0.5 * float(f @ f) - 0.5 * len(f) * np.log(2.0 * np.pi)
                continue
            L = part.cholesky(part.full(at))
            z = np.linalg.solve(L, f)
            total -= float(np.log(np.diagonal(L)).sum()) + 0.5 * len(f) * np.log(2.0 * np.pi)
            total -= 0.5 * float(z @ z)
        return total

    def simulate(
        self, rng: np.random.Generator, theta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw latents (n_latents,) and observations (n,) given theta."""
        own = zip(self.parts, self.thetas_of_parts(theta), strict=True)
        latents = np.concatenate([_draw_function(part, rng, at) for part, at in own])
        eta = self.predictor(theta, latents)
        return latents, self.likelihood_at(self.full(theta)).simulate(rng, eta)

    def new_inputs(self, X_new: Any, unseen: str = "error") -> np.ndarray:
        """New inputs as (m, p), coded as those of the model: levels are those of all functions."""
        return self.parts[0].new_inputs(X_new, unseen)

    # -- other models ------------------------------------------------------------------------------

    def _changed(self, **changes: Any) -> MultiGPModel:
        return replace(self, **({"X": self.inputs} | changes))

    def with_y(self, y: np.ndarray) -> MultiGPModel:
        """The same model of other observations (n,)."""
        return self._changed(y=y)

    def with_structure(self, structure: str | BasisFunctions) -> MultiGPModel:
        """The same model with another structure of its covariance matrices."""
        return self._changed(structure=structure)

    def dense_if_exact(self) -> MultiGPModel:
        """The model without its bases where that changes nothing but the cost, else the model itself."""
        exact = [part.basis is not None and not part.approximate_basis for part in self.parts]
        return self.with_structure("dense") if any(exact) else self

    def take(self, cases: np.ndarray) -> MultiGPModel:
        """The model of some of the cases, with the same parameters and hyperpriors."""
        inputs = self.inputs._replace(values=self.X[cases])
        return self._changed(X=inputs, y=self.y[cases], likelihood=self.likelihood.take(cases))

    def digest(self) -> str:
        """SHA-256 of data, parameters and settings."""
        parts = [part.digest() for part in self.parts[: len(self._own_functions)]]
        return text_digest(self.likelihood.digest(), *parts)

    def __repr__(self) -> str:
        n, p = self.X.shape
        covariances = {name: own for name, own in self.covariance.items()}
        stated = next(iter(covariances.values())) if len(covariances) == 1 else covariances
        return f"GPModel(n={n}, p={p}, {stated!r}, {self.likelihood!r})"

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def _draw_function(part: GPModel, rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
    """Latents of one function from its prior."""
    z, full = rng.standard_normal(part.n_latents), part.full(theta)
    return z if part.basis else part.scale(full) * part.filled_factor(full).multiply(z)
