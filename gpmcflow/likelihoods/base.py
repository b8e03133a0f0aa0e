"""What a factorising likelihood offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.execution.digest import array_digest, text_digest
from gpmcflow.likelihoods.sites import Sites, laplace_sites, moment_sites
from gpmcflow.likelihoods.tilted import tilted_cumulants, tilted_moments, tilted_site
from gpmcflow.likelihoods.tilted_loops import FactorLoop
from gpmcflow.parameters.hyperpriors import Hyperprior, default_hyperprior
from gpmcflow.parameters.parameter import LOG, LOGIT, Entry, Parameter, checked_setting


def positive_constant(value: Any, where: str) -> float | np.ndarray:
    """Return a positive number, or an array of them that cannot be written to."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    wrong = np.flatnonzero(~(np.isfinite(array) & (array > 0)))
    if array.ndim > 1 or not array.size or wrong.size:
        shown = repr(value)
        if array.ndim:
            shown = f"of shape {array.shape}"
        if array.ndim == 1 and wrong.size:
            where, shown = f"{where}[{wrong[0]}]", f"{array[wrong[0]]:g}"
        raise InputError(f"{where} is {shown}; allowed: a positive number, or one for each case")
    array.setflags(write=False)
    return array if array.ndim else float(array)


def by_case(value: Any, where: str, allowed: str) -> np.ndarray:
    """Numbers of each case (n,), which may be nan, in an array that cannot be written to."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.ndim != 1 or not array.size:
        shown = f"of shape {array.shape}" if array.ndim > 1 or np.ndim(value) else repr(value)
        raise InputError(f"{where} is {shown}; allowed: one for each case: {allowed}")
    array.setflags(write=False)
    return array


def value_text(value: Any) -> str:
    """A setting in a repr: of an array shape and digest."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    return f"array({value.shape}, {array_digest({'': value})[:16]})"


# Nodes and weights of E[g(x)], x ~ N(0, 1): the trapezoid rule, which converges like exp(-c / step).
NORMAL_NODES = np.linspace(-16.0, 16.0, 513)
NORMAL_WEIGHTS = np.exp(-0.5 * NORMAL_NODES**2) / np.exp(-0.5 * NORMAL_NODES**2).sum()
_BLOCK = 4096  # means at a time


class CompiledValue(NamedTuple):
    """The log likelihood of data as a loop for `numba.cfunc`, and the numbers it reads.

    ``loop(head, f, y, constants, phi)`` takes pointers to float64: head holds the number n of cases, the
    offset c and a place for the answer, log p(y | f + c) up to ``constant``; constants is (k, n) row by row.
    """

    loop: Callable
    constants: np.ndarray  #: (k, n)
    phi: np.ndarray  #: numbers that are the same for all cases
    constant: float  #: what does not depend on f


class Likelihood(ABC):
    """A likelihood p(y | eta) = prod_i p(y_i | eta_i): derive your own from it.

    Arrays of predictors eta have shape (..., n), observations y have shape (n,). Everything is elementwise:
    batch axes stay in front.

    A subclass needs `derivatives` and `simulate`, `validate` unless y is any number, and `conditional_mean`
    if responses are predicted; all else has a default. Its fields named in ``parameters`` may be hyperpriors
    (None: the default one) and then need `parameter_gradient`, or its terms `case_slopes`, with which a model
    may take them for functions of the inputs; they are positive, or probabilities where
    ``probabilities`` names them, too. Those in ``constants`` are positive numbers, or arrays of one a case. A
    frozen dataclass with ``repr=False, eq=False`` keeps the repr, which digests of runs are made of.

    Attributes
    ----------
    name:
        In messages and in configs; by default the name of the class.
    parameters, constants, options:
        Names of its fields: those that may be free, those that may have one value per case, and the others.
    probabilities:
        Names of the parameters between 0 and 1: their coordinate is the logit, that of others the log.
    defaults:
        Hyperpriors of parameters that are left out, by name, where the package has none of that name.
    log_concave:
        Whether log p is concave in each eta_i; if not, `information` and `majorising_precision` are needed,
        too.
    in_units_of_y:
        Names of the parameters that are in the units of y, as eta is (an identity link): widths of y about
        eta, or of `to_eta` of y. The search for a maximum then starts at the spread of y, and a y of another
        size is a warning.
    of_observation:
        Names of the constants that say how y was seen, such as whether it was censored; None is a value of
        each, and predictions of new cases take it.
    discrete:
        Whether y has probabilities, as counts and labels do; such evidences compare with none of densities.
    relative_sites, frozen_sites, conjugate, binary, counts, log_link, exponential_mean, standard_sites:
        What the package's own ones set: whether frozen sites grow with the amplitude, whether those of one
        setting do for all where cases are few, whether it is Gaussian in eta, has labels -1 and +1, counts
        with a log link, a mean proportional to exp(eta), or one that grows like it; and how sites are fitted
        to it.

    Raises
    ------
    InputError:
        For parameters that are neither numbers in their range nor hyperpriors, and constants that are not
        positive.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> class Waiting(gp.Likelihood):  # times ~ Exp(exp(eta))
    ...     def derivatives(self, eta, y):
    ...         hazard = y * np.exp(eta)
    ...         return eta - hazard, 1.0 - hazard, -hazard, -hazard
    ...
    ...     def simulate(self, rng, eta):
    ...         return rng.exponential(np.exp(-eta))
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, 1.0 + x, gp.SquaredExponential(1.0, 1.0), Waiting())
    >>> gp.approximate(model)
    <ep fit: log evidence -12.6054>
    """

    name: ClassVar[str]  #: in messages and in configs; left out, the name of the class
    parameters: ClassVar[tuple[str, ...]] = ()  #: fields that may be free
    probabilities: ClassVar[tuple[str, ...]] = ()  #: parameters between 0 and 1
    defaults: ClassVar[Mapping[str, Hyperprior]] = {}  #: hyperpriors of parameters left out
    constants: ClassVar[tuple[str, ...]] = ()  #: fields that may be one a case
    options: ClassVar[tuple[str, ...]] = ()  #: fields that are neither, such as the name of a law
    renamed: ClassVar[tuple[str, ...]] = ()  #: names that fields had, which making one refuses
    log_concave: ClassVar[bool] = True  #: in each eta_i
    relative_sites: ClassVar[bool] = False  #: whether frozen sites live in f / amplitude
    frozen_sites: ClassVar[bool] = (
        True  #: whether those of one setting do for all, of few cases, too
    )
    conjugate: ClassVar[bool] = False  #: Gaussian in eta, with `noise_variances`
    single: ClassVar[bool] = (
        True  #: False for what stands for the likelihood in one of several functions
    )
    discrete: ClassVar[bool] = False  #: log p is that of a probability, not of a density
    binary: ClassVar[bool] = False  #: labels -1 and +1, whose mean response is a probability
    counts: ClassVar[bool] = False  #: log link: E[y] = exposure exp(eta)
    log_link: ClassVar[bool] = False  #: E[y | eta] is exp(eta) times what is the same for all eta
    of_observation: ClassVar[tuple[str, ...]] = ()  #: constants of how y was seen: not of new cases
    exponential_mean: ClassVar[bool] = False  #: E[y | eta] grows like exp(eta)
    eta_of: ClassVar[str] = "y"  #: what `to_eta` returns, in messages
    in_units_of_y: ClassVar[tuple[str, ...]] = ()  #: parameters in the units of y, and of eta
    standard_sites: ClassVar[str] = "moments"  #: or "laplace"
    functions: tuple[str, ...] = ("latent",)  #: names of latent functions; see `MultiLikelihood`

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "name" not in vars(cls):
            cls.name = cls.__name__.lower()

    def __post_init__(self) -> None:
        for name in dict.fromkeys((*self.parameters, *self.constants)):
            object.__setattr__(self, name, self._checked(name))

    def _checked(self, name: str) -> Any:
        """A field as it is kept; `InputError` for what it cannot be."""
        value: Any = getattr(self, name)
        where = f"{type(self).__name__} likelihood: {name}"
        if name not in self.parameters or (name in self.constants and np.ndim(value)):
            return self.checked_constant(name, value, where)
        if hasattr(value, "leaves"):  # a covariance
            raise InputError(
                f"{where} is a covariance, {value!r}; leave it out here, and write covariance={{'mean': .., "
                f"{name!r}: {value!r}}} in the model"
            )
        if value is None:
            value = self.defaults.get(name, default_hyperprior(self.name, name))
        if value is None:
            raise InputError(
                f"{where} is left out and has no default; give a number or a hyperprior, or name one in the "
                f"class: defaults = {{{name!r}: gp.Hyperprior(..)}}"
            )
        return checked_setting(value, where, self._coordinate(name))

    def __repr__(self) -> str:
        fields = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        shown = ", ".join(f"{name}={value_text(value)}" for name, value in fields.items())
        return f"{type(self).__name__}({shown})"

    def digest(self) -> str:
        """Return the SHA-256 of class and fields, arrays in full whatever the repr shows of them."""
        fields = {name: _field_digest(name, value) for name, value in vars(self).items()}
        return text_digest(
            type(self).__module__, type(self).__qualname__, repr(sorted(fields.items()))
        )

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def stated(self) -> Likelihood:
        """Return what a user stated: the likelihood itself, unless a model has made it of another one."""
        return self

    # -- parameters and constants ----------------------------------------------------------------

    @property
    def may_vary(self) -> tuple[str, ...]:
        """Return names of the parameters that a model may take for functions of the inputs."""
        return tuple(self._single())

    def entries(self) -> tuple[Entry, ...]:
        """Return the parameters that are one number for all cases, in order."""
        return tuple(
            Entry(name, getattr(self, name), self._coordinate(name)) for name in self._single()
        )

    def with_values(self, values: Sequence[float]) -> Likelihood:
        """Return the same likelihood with numbers, in their own units, one for each of `entries`.

        In `derivatives`, `case_slopes` and responses a value may be an array that broadcasts with eta.
        """
        numbers = (value if np.ndim(value) else float(value) for value in values)
        return self._changed(dict(zip(self._single(), numbers, strict=True)))

    def take(self, cases: np.ndarray | slice) -> Likelihood:
        """Return the likelihood of some of the cases: itself, unless there are constants of each case."""
        arrays = {name: getattr(self, name) for name in self.constants}
        arrays = {name: value[cases] for name, value in arrays.items() if np.ndim(value)}
        return self._changed(arrays) if arrays else self

    def with_constants(self, **values: np.ndarray) -> Likelihood:
        """Return the same likelihood with other constants, as of other cases."""
        return self._changed(values)

    @property
    def per_case(self) -> bool:
        """Whether cases with equal observations can have different factors."""
        return any(np.ndim(getattr(self, name)) for name in self.constants)

    def number(self, name: str) -> float | np.ndarray:
        """Value of a parameter. Raises `InputError` where it is free."""
        value = getattr(self, name)
        value = value.value if isinstance(value, Parameter) else value
        if isinstance(value, Hyperprior):
            raise InputError(
                f"{self.name} likelihood has a free parameter, {name}: found {value!r} where a number is "
                "needed; take model.at(theta)"
            )
        return value if np.ndim(value) else float(value)

    def _coordinate(self, name: str) -> str:
        return LOGIT if name in self.probabilities else LOG

    def _single(self) -> list[str]:
        return [name for name in self.parameters if not np.ndim(getattr(self, name))]

    def _changed(self, fields: dict[str, Any]) -> Likelihood:
        changed = object.__new__(type(self))  # copy.copy takes five times as long, twice a gradient
        vars(changed).update(vars(self) | fields)
        return changed

    # -- densities -------------------------------------------------------------------------------

    def checked_constant(self, name: str, value: Any, where: str) -> Any:
        """A constant as the likelihood keeps it; `InputError` that begins with ``where`` unless it is one."""
        return positive_constant(value, where)

    def coded(self, y: Any) -> Any:
        """Observations as numbers, where they may come as words."""
        return y

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` for observations this likelihood cannot have; the model has refused nan."""
        for name in self.constants:
            value = getattr(self, name)
            if np.ndim(value) and len(value) != len(y):
                raise InputError(
                    f"{self.name} likelihood: {name} has {len(value)} entries, y has {len(y)}; allowed: a "
                    "number, or one for each case"
                )

    @abstractmethod
    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return log p(y_i | eta_i) and its derivatives 1, 2, 3 by eta_i, each (..., n)."""

    def densities(self, y: np.ndarray) -> np.ndarray:
        """Whether log p of each case is the log of a density, (n,); else it is that of a probability."""
        return np.full(len(y), not self.discrete)

    def default_mean(self) -> Hyperprior | float:
        """Return what a model takes for its mean where none is stated."""
        return 0.0

    def noise_variances(self, n: int) -> np.ndarray:
        """Of n cases of a likelihood that is ``conjugate``, (n,)."""
        raise NotImplementedError

    def to_eta(self, y: np.ndarray) -> np.ndarray:
        """Return y on the scale of eta, where it is Gaussian if the likelihood is ``conjugate``, (n,)."""
        return y

    def from_eta(self, value: np.ndarray) -> np.ndarray:
        """Return the responses of which `to_eta` is a value."""
        return value

    def log_jacobian(self, y: np.ndarray) -> np.ndarray:
        """Return log |d to_eta / dy| of each case, (n,), which makes a density of `to_eta` one of y."""
        return np.zeros(len(y))

    @abstractmethod
    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Draw observations given predictors, shape of eta."""

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log p(y | eta) summed over cases, shape (...), and its gradient (..., n)."""
        value, slope, *_ = self.derivatives(eta, y)
        return value.sum(-1), slope

    def gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return d log p(y_i | eta_i) / d eta_i, shape (..., n)."""
        return self.log_density_and_gradient(eta, y)[1]

    def log_density(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return log p(y | eta) summed over cases, shape (...)."""
        return self.log_density_and_gradient(eta, y)[0]

    def parameter_gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Derivatives of log p(y | eta) by the coordinate of each of `entries`, shape (..., k).

        That is the log of a positive parameter, the logit of a probability. By default the sum of
        `case_slopes`.
        """
        if not self.entries():
            return np.zeros((*np.shape(eta)[:-1], 0))
        if type(self).case_slopes is Likelihood.case_slopes:
            raise InputError(
                f"{self.name} likelihood: parameters {', '.join(self._single())} have no gradient; give it a "
                "method parameter_gradient(eta, y), or fix them"
            )
        return self.case_slopes(eta, y).sum(-2)

    def case_slopes(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Terms of `parameter_gradient`, (..., n, k): what a parameter that is a function needs."""
        raise InputError(
            f"{self.name} likelihood: the slopes of each case by its parameters are not known; give it a "
            "method case_slopes(eta, y), or one covariance for the model"
        )

    def information(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return a curvature > 0 of each factor, (..., n): -l'' if log-concave, else its expectation."""
        return self._curvature("information", eta, y)

    def majorising_precision(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return precisions >= 0 with which Newton's method finds modes, (..., n)."""
        return self._curvature("majorising_precision", eta, y)

    def _curvature(self, method: str, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        if not self.log_concave:
            raise InputError(
                f"{self.name} likelihood is not log-concave, so -l'' may be negative; give it a method "
                f"{method}(eta, y), which returns positive numbers"
            )
        return -self.derivatives(eta, y)[2]

    # -- responses -------------------------------------------------------------------------------

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """E[y | eta] for one unit of exposure, or one trial; of labels, the probability of +1."""
        raise InputError(
            f"{self.name} likelihood: the mean response is not known; give it a method "
            "conditional_mean(eta), which returns E[y | eta]"
        )

    @property
    def classes(self) -> tuple[str, ...] | range:
        """Names of the classes of y in order, or their numbers; empty unless it has any."""
        return ()

    def class_probabilities(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray | None:
        """P(y = each class) averaged over eta ~ N(mean, variance), (class, ...); None without classes."""
        return None

    def has_moment(self, order: int) -> bool:
        """Whether E[|y|^order | eta] is finite: of order 1 for a mean, 2 for a standard deviation."""
        return True

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """`conditional_mean` averaged over eta ~ N(mean, variance), shape of mean, by quadrature."""
        mean, sd = np.broadcast_arrays(mean, np.sqrt(variance))
        response = np.empty(mean.size)
        for start in range(0, mean.size, _BLOCK):  # bounds the memory
            block = slice(start, start + _BLOCK)
            eta = mean.ravel()[block, None] + sd.ravel()[block, None] * NORMAL_NODES
            response[block] = self.conditional_mean(eta) @ NORMAL_WEIGHTS
        return response.reshape(mean.shape)

    # -- sites and compiled form -----------------------------------------------------------------

    moment_sites = moment_sites
    laplace_sites = laplace_sites

    def taylor_sites(self, y: np.ndarray, offset: float) -> Sites:
        """Sites at the maximum of L_i(f + offset) itself."""
        raise InputError(
            f"TaylorSites: the {self.name} likelihood has no maximum to expand at; allowed: gaussian, "
            "log_normal, gamma, poisson; take the site rule standard"
        )

    def compiled(self, y: np.ndarray) -> CompiledValue | None:
        """Value for compiled loops; None: they call `log_density`."""
        return None

    def factor_loop(self, y: np.ndarray) -> FactorLoop | None:
        """`derivatives` for compiled quadrature; None: it calls them."""
        return None

    # -- tilted moments: by quadrature, unless a subclass has closed forms -------------------------

    tilted = tilted_moments
    tilted_cumulants = tilted_cumulants

    def tilted_site(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return alpha of `tilted`, and the precision 1 / tilted - 1 / cavity variance, each (n,).

        From r it is r / (1 - v r), which has no digits left where the factor is far narrower than the
        cavity; quadrature has the tilted variance itself.
        """
        if type(self).tilted is tilted_moments:
            return tilted_site(self, y, mean, variance)
        _, alpha, r = self.tilted(y, mean, variance)
        with np.errstate(divide="ignore"):
            return alpha, r / (1.0 - variance * r)

    def places(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Centres and widths, (n,) or one row a place, that quadrature must look at besides the cavity.

        Without any a log-concave factor has one bend, which is found.
        """
        return None


def _field_digest(name: str, value: Any) -> str:
    if isinstance(value, np.ndarray):
        return array_digest({name: value})
    return value.digest() if isinstance(value, Likelihood) else repr(value)


def values_and_slopes(
    loop: Callable, eta: np.ndarray, *settings: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Values (...) and slopes (..., n) that a compiled loop (rows, *settings, value, slope) writes at eta."""
    flat = flat_rows(eta)
    value, slope = np.empty(len(flat)), np.empty_like(flat)
    loop(flat, *settings, value, slope)
    return value.reshape(eta.shape[:-1]), slope.reshape(eta.shape)


def flat_rows(eta: np.ndarray) -> np.ndarray:
    """Predictors (..., n) as contiguous rows (batch, n), for compiled loops."""
    return np.ascontiguousarray(eta, dtype=np.float64).reshape(-1, eta.shape[-1])
