"""Gaussian process models: a covariance expression, a likelihood with parameters, a mean, and the data."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from gpmcflow.covariances.basis_binding import bind_basis, far_columns, has_finite_basis
from gpmcflow.covariances.basis_blocks import BasisBlocks
from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.covariances.binding import bind, leaf_entries, with_all_levels
from gpmcflow.covariances.expressions import Covariance, Leaf, Sum
from gpmcflow.covariances.inputs import Inputs, inputs_of, new_inputs
from gpmcflow.covariances.known_levels import KnownLevels
from gpmcflow.covariances.kronecker import axis_tapes, grid_of
from gpmcflow.covariances.leaves import Constant, White
from gpmcflow.covariances.tape import CovarianceBuffers, Tape, WritableArrays
from gpmcflow.covariances.text import parse_covariance
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.execution import array_digest, pin_blas, text_digest
from gpmcflow.likelihoods import Likelihood, MultiLikelihood, with_functions
from gpmcflow.models.frame import statement
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.latent_prior import CovarianceAt, LatentPrior
from gpmcflow.models.outcome import Outcome, observed
from gpmcflow.models.printed import as_html, as_text
from gpmcflow.models.weight_model import WeightModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.parameters.parameter import IDENTITY, Entry, Parameter, Setting, checked_setting
from gpmcflow.parameters.space import ParameterSpace

if TYPE_CHECKING:
    from gpmcflow.models.joint_log_density import JointLogDensity

# What a `GPModel` cannot be, and what it had better not be.

log = logging.getLogger(__name__)
FAR = 3.0  # times what hyperpriors allow


def refuse_degenerate(
    model: GPModel, prior_variance: np.ndarray, columns: Sequence[tuple[int, ...]]
) -> None:
    """Raise `InputError` for a case without prior variance, and for duplicate inputs that need a jitter.

    ``prior_variance`` (n,) is that at the median of the hyperpriors, ``columns`` those of each leaf.
    """
    zero = np.flatnonzero(~(prior_variance > 0.0))
    if zero.size:
        raise InputError(
            f"model: the prior variance of case {zero[0]} is {prior_variance[zero[0]]:g}; add Constant() or "
            "White() to the covariance"
        )
    noisy = model.likelihood.conjugate or any(isinstance(k, White) for k in model.leaves)
    if model.jitter == 0.0 and not noisy and not model.basis:
        used = sorted({column for of_leaf in columns for column in of_leaf})
        _refuse_duplicates(model.X[:, used] if used else np.zeros((model.n_cases, 1)))


def warn_left_out(model: GPModel, columns: Sequence[tuple[int, ...]]) -> None:
    """Say which columns of words no term uses where a term takes all columns of numbers."""
    pairs = list(zip(model.leaves, columns, strict=True))
    takes_all = next((leaf for leaf, places in pairs if leaf.columns is None and places), None)
    used = {place for _, places in pairs for place in places}
    words = [name for k, name in enumerate(model.inputs.names) if k not in used]
    if takes_all is not None and words:
        log.warning(
            "model: %s takes the columns that hold numbers; left out, as they hold words: %s; add a term "
            "such as Categorical(columns=%r), or drop them",
            type(takes_all).__name__, ", ".join(words), words[0],
        )  # fmt: skip


def warn_unidentified(covariance: Covariance, free_mean: bool, free_noise: bool) -> None:
    """Say so where parameters can hardly be told apart, or a posterior has several modes."""
    terms = covariance.operands() if isinstance(covariance, Sum) else [covariance]
    alone = {type(term) for term in terms if isinstance(term, Leaf) and term.free_scales()}
    if free_mean and Constant in alone:
        log.warning("model: a free mean beside a free Constant are two names of one thing; fix one")
    if free_noise and White in alone:
        log.warning("model: free White beside free noise are two names of one thing; fix one")
    for leaf in covariance.leaves():
        period = getattr(leaf, "period", None)
        period = period.value if isinstance(period, Parameter) else period
        if isinstance(period, Hyperprior) and period.width > np.log(2.0):
            log.warning(
                "model: the period of %s is free over more than a factor of 2, where posteriors have several "
                "modes; fix it, or narrow its hyperprior", leaf.name or leaf.term,
            )  # fmt: skip


def warn_units(model: GPModel) -> None:
    """Say so where the size of y is far from all that hyperpriors allow.

    The size is the root mean square of y - c, c the nearest mean; the hyperpriors' ends are their central
    99.8 %: it may be as large as all amplitudes and the noise together, and as small as the noise.
    """
    widths = model.likelihood.in_units_of_y
    if not widths or not model.dim or model.basis:
        return
    ends = []
    for share in (0.001, 0.999):
        theta = [float(prior.quantile(share)) for prior in model.parameters.free_priors]
        full = model.full(np.array(theta))
        likelihood = model.likelihood_at(full)
        noise = sum(np.square(likelihood.number(name)) for name in widths)
        total = model.prior_variance(full, model.X) + noise
        least, most = (float(np.sqrt(np.mean(v))) for v in (noise, total))
        ends.append((model.mean_at(full), least, most))
    tell_units(model.eta_y, ends, model.likelihood.eta_of)


def tell_units(y: np.ndarray, ends: Sequence[tuple[float, float, float]], of: str) -> None:
    """Say so where the size of y is far from what both ends (mean, noise, noise and signal) allow."""
    (low, least, _), (high, _, most) = ends
    c = float(np.clip(np.mean(y), low, high))
    size = float(np.sqrt(np.mean((y - c) ** 2)))
    if size > FAR * most or 0.0 < size < least / FAR:
        remedy = "standardise y" if of == "y" else "divide y by a typical value, give a mean"
        log.warning(
            "model: %s differs from the mean %.3g by %.2g on average, and the hyperpriors allow %.2g to "
            "%.2g; %s, or state hyperpriors in its units", of, c, size, least, most, remedy,
        )  # fmt: skip


def _refuse_duplicates(X: np.ndarray) -> None:
    order = np.lexsort(X.T)
    same = np.flatnonzero(np.all(X[order[1:]] == X[order[:-1]], axis=1))
    if same.size:
        pair = sorted((int(order[same[0]]), int(order[same[0] + 1])))
        raise InputError(
            f"model: cases {pair[0]} and {pair[1]} have the same inputs and jitter is 0; give a positive "
            "jitter, or drop one"
        )


RESERVED = ("theta", "chain", "draw")  # names in the posterior of results, beside the latents'
STRUCTURES = ("auto", "dense", "kronecker", "basis")


# times as many cells as have cases, beyond which chains of the dense covariance mix better
FEWER = 2
MANY_CASES = 2000  # beyond which dense matrices take too long, where basis functions do


@dataclass(frozen=True, eq=False, repr=False)
class GPModel(WritableArrays, LatentPrior):
    """A Gaussian process model: data, a covariance, a likelihood, and priors of their parameters.

    theta ~ p_h, f | theta ~ GP(0, k), y_i ~ p(y_i | f(x_i) + c).

    The coordinates that are sampled are theta: logs of positive parameters, logits of probabilities, the mean
    c as it is, those of them that have a hyperprior; numbers are fixed. All densities are with respect to
    these coordinates.
    ``full`` is the vector of all coordinates, fixed ones included: covariance, mean, likelihood.

    Attributes
    ----------
    X, y:
        Inputs: an array (n, p) or (n,), a table of pandas, polars, pyarrow or another library (numbers are
        numbers whatever type holds them, dates are days since 1970-01-01, words are coded), an xarray
        variable with a feature coordinate; and observations (n,).
    covariance, likelihood:
        Any covariance expression, or its text as `parse_covariance` reads it, and likelihood; what they leave
        out has a default hyperprior. A likelihood of several latent functions, such as `Softmax` for classes,
        makes a `MultiGPModel`, whose covariance may be one for each function, {"mean": .., "log_sd": ..}. So
        do covariances for the mean and for parameters of another likelihood, {"mean": .., "size": ..} with
        `NegativeBinomial`: its size is then a function of the inputs, too.
    mean:
        Number or hyperprior of c, in the units of the latent function; left out, 0 unless the likelihood has
        another default, as `Ordinal` does.
    jitter:
        eps of R_ii (1 + eps), a part of the model, the same for all theta, R the terms of K that are not
        `Linear`, `Polynomial` or `Constant`: those are few functions, and need none. None is 1e-6, and for
        `at` with a covariance of fixed parameters the least that lets R factorise, zero first. Where all
        terms are few functions, R = eps v I, v the mean of their variances about the centre of the inputs;
        None is then 1e-12, and 0 where Gaussian noise stands beside it.
    structure:
        How K is computed. "auto" takes the cheapest exact form: where all terms are few functions (`Linear`,
        `Constant`, `Group`, `Categorical`), fewer than half the cases or of more than 2,000 cases, and no
        jitter is stated, the weights of these functions; where the cases are a grid and the covariance a
        product, "kronecker"; else "dense" up to 2,000 cases, and of more `BasisFunctions` where they fit the
        covariance: the model as printed says so, with their error. "kronecker" is K = K_1 x K_2 on a grid,
        with the jitter on each axis. Cells may have no case, or several, and cases may come in any order, but
        for Gaussian noise and several latent functions: draws then hold the latents of all cells, "cell".
        `BasisFunctions`, or "basis" for its defaults: latents made of m weights, for n of 100,000 and more,
        with a box about the cases of the model, and no jitter.
    outcome:
        What y stands for in a frame, as `from_frame` finds it: its name, and the labels of -1 and +1.

    Raises
    ------
    InputError:
        For inputs that are not finite, unknown columns, observations the likelihood cannot have, parameters
        that cannot be told apart or have one name, a prior variance of zero, duplicate inputs with no jitter,
        structure "kronecker" where the cases are no grid, basis functions that do not fit, and a frame X
        and a series y with other indices.

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
    covariance: Any  # a `Covariance` once the model is made
    likelihood: Likelihood
    mean: Setting | None = None
    jitter: float | None = None
    structure: str | BasisFunctions = "auto"
    outcome: Outcome | None = None

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        """A `MultiGPModel` where the likelihood has several latent functions."""
        named = dict(zip(signature(cls).parameters, arguments, strict=False)) | named
        likelihood, covariance = (named.get(name) for name in ("likelihood", "covariance"))
        functions = set(covariance) - {"mean"} if isinstance(covariance, Mapping) else set()
        if isinstance(likelihood, Likelihood) and functions:
            named["likelihood"] = likelihood = with_functions(likelihood, functions)
        if isinstance(likelihood, MultiLikelihood):
            from gpmcflow.models.multi_gp_model import MultiGPModel  # here: it is made of GPModels

            return MultiGPModel(**named)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        inputs, of_user = inputs_of(self.X), not isinstance(self.X, Inputs)
        y = observed(self.y, self.likelihood)
        if y.shape != (len(inputs.values),) or not inputs.values.size:
            raise InputError(
                f"model: X has shape {inputs.values.shape}, y {y.shape}; allowed: (n, p) and (n,)"
            )
        rows: Any = getattr(self.X, "index", None)
        of_y: Any = getattr(self.y, "index", None)
        if hasattr(rows, "equals") and hasattr(of_y, "equals") and not rows.equals(of_y):
            raise InputError(
                "model: X and y have other indices, and rows are paired by their place; give y.loc[X.index], "
                "or y.to_numpy() if the places are right"
            )
        wrong = np.flatnonzero(~np.isfinite(y))
        if wrong.size:
            raise InputError(f"model: y[{wrong[0]}] is {y[wrong[0]]}; give finite numbers")
        if isinstance(self.covariance, str):
            object.__setattr__(
                self, "covariance", parse_covariance(self.covariance, where="model: covariance")
            )
        if not isinstance(self.covariance, Covariance):
            raise InputError(
                f"model: covariance is {self.covariance!r}; allowed: covariances such as Matern32(), + and "
                '*, or their text, such as "matern32(age)"'
            )
        if not isinstance(self.likelihood, Likelihood):
            raise InputError(
                f"model: likelihood is {self.likelihood!r}; allowed: a likelihood such as Probit()"
            )
        self.likelihood.validate(y)
        inputs = with_all_levels(inputs, self.covariance)
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
        mean = self.likelihood.default_mean() if self.mean is None else self.mean
        mean = checked_setting(mean, "model: mean", IDENTITY)
        set_(self, "mean", mean)
        covariance, columns = bind(self.covariance, inputs)
        set_(self, "covariance", covariance)
        groups = leaf_entries(covariance, columns, inputs.names)
        others = ("", (Entry("mean", mean, IDENTITY),)), ("", self.likelihood.entries())
        set_(self, "parameters", ParameterSpace([*groups, *others]))
        set_(self, "_columns", columns)
        set_(self, "_places", [self.parameters.places(k) for k in range(len(groups))])
        set_(self, "_mean_place", int(self.parameters.places(len(groups))[0]))
        set_(self, "_likelihood_places", self.parameters.places(len(groups) + 1))
        basis, reason = self._exact_basis()
        set_(self, "basis", basis)
        axes, cells, on_grid = self._grid()
        many = self.structure == "auto" and self.n_cases > MANY_CASES
        crowded = cells is not None and len(np.unique(cells)) < self.n_cases
        if many and not self.basis and (axes is None or crowded):
            if not has_finite_basis(self.covariance):
                basis, reason = self._basis_of_many()
                set_(self, "basis", basis)
            if self.basis:  # whose fits take less time, too
                axes = cells = None
        set_(self, "_axes", axes)
        set_(self, "cells", cells)
        set_(self, "structure_reason", (reason or on_grid) if axes is None else on_grid)
        for name in {*RESERVED, self.latent_variable} & set(self.parameters.all_names):
            raise InputError(
                f"model: a parameter is named {name!r}, as results are; give it another name"
            )
        prior_variance = CovarianceBuffers(self._tape).diagonal(
            self.full(self.prior_median()), self.X
        )
        refuse_degenerate(self, prior_variance, self._columns)
        free_noise = self.likelihood.conjugate and not self._likelihood_is_fixed
        if of_user:  # once, not for each model made of this one
            warn_left_out(self, self._columns)
            warn_units(self)
        warn_unidentified(self.covariance, self._free[self._mean_place], free_noise)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        y: str,
        covariance: Covariance | str,
        likelihood: Likelihood | str | None = None,
        *,
        mean: Setting | None = None,
        missing: str = "error",
        positive: Any = None,
        priors: Mapping[str, Any] | None = None,
        structure: str | BasisFunctions = "auto",
        jitter: float | None = None,
        **constants: Any,
    ) -> GPModel:
        """Make a model of the columns of a frame, by their names.

        All stays in the units of the columns. What is left out has the default hyperprior in these units:
        length scales and slopes in standard deviations of their columns, amplitudes and noise in those of y
        where the latent function has its units. Columns of slopes are taken about their means. The mean, if
        left out, is N(c, w^2) about the c whose response is the average of y, w being the standard deviation
        of y or 1, and c itself beside a `Constant`; where slopes alone leave a row without prior variance, it
        is c, with a term ``constant(w)``. Terms of one kind are named like ``group(ward)``.

        Parameters
        ----------
        frame:
            A frame of pandas, polars or pyarrow, or a dict of columns.
        y:
            Name of the outcome. Two labels (words, booleans, 0 and 1) are coded as -1 and +1, +1 being yes,
            true, or the later one; ordered categories are grades.
        covariance:
            Text such as ``"matern32(age) + group(ward)"``, or an expression over named columns.
        likelihood:
            A name, such as "poisson", or a likelihood. Left out, it is logistic for two labels (where
            `gpmcflow.analyse` and configs take probit), ordinal for ordered categories, and Gaussian for
            numbers with fractions.
        mean, structure, jitter:
            As of `GPModel`.
        missing:
            "error" refuses missing cells in the columns used and counts them; "drop" leaves their rows out,
            with a warning.
        positive:
            The label that is +1, against the other one, or all others.
        priors:
            Hyperpriors by the names that the text has for them.
        constants:
            What the likelihood knows by case, such as ``exposure="hours"``: the name of a column, a number,
            or an array. Of counts ``offset``, the log of an exposure, is one, too. Any likelihood has
            ``weights``, how many equal rows each row stands for: 3 is the same as the row three times, in
            the model and in averages over its rows, and costs as much.

        Returns
        -------
        The `GPModel`.

        Raises
        ------
        InputError:
            For unknown columns, missing cells, labels that are not two, and constants that the likelihood
            does not have.

        Examples
        --------
        >>> import gpmcflow as gp
        >>> wards = {"age": [30, 45, 62, 80], "ward": ["a", "b", "a", "b"], "well": [1, 1, 0, 1]}
        >>> model = gp.GPModel.from_frame(wards, y="well", covariance="matern32(age) + group(ward)")
        >>> model.y, model.outcome.response
        (array([ 1.,  1., -1.,  1.]), 'P(well = 1)')
        >>> model.names
        ('matern32.length_scale', 'matern32.signal_sd', 'group.signal_sd', 'mean')
        """
        stated = statement(
            frame, y, covariance, likelihood,
            mean=mean, missing=missing, positive=positive, priors=priors, constants=constants,
        )  # fmt: skip
        model = cls(
            stated.X, stated.y, stated.covariance, stated.likelihood, stated.mean, jitter, structure,
            stated.outcome,
        )  # fmt: skip
        warn_left_out(model, model._columns)
        return model

    def __repr__(self) -> str:
        n, p = self.X.shape
        more = "" if self.mean == 0.0 else f", mean={_mean_text(self.mean)}"
        stated = isinstance(self.structure, BasisFunctions)
        structure = self.structure if stated else self.structure_in_words
        return (
            f"GPModel(n={n}, p={p}, {self.covariance!r}, {self.likelihood!r}{more}, "
            f"structure={structure!r})"
        )

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def __getstate__(self) -> dict:
        made = ("basis_design", "by_cases")  # large, and soon made
        return {k: v for k, v in vars(self).items() if k not in made}

    def _exact_basis(self) -> tuple[BasisBlocks | None, str]:
        """The basis that was asked for, or the exact one that "auto" takes; and why it takes or leaves it."""
        if isinstance(self.structure, BasisFunctions):
            return self.basis_of(self.structure), ""
        if self.structure != "auto" or not has_finite_basis(self.covariance):
            return None, ""
        try:
            basis = self.basis_of(BasisFunctions())
        except InputError:  # a group of one level
            return None, ""
        size = f"{basis.size} function{'s' * (basis.size > 1)} for {self.n_cases} cases"
        if self.jitter:
            return None, f"{size}, but a jitter is stated"
        if 2 * basis.size >= self.n_cases and self.n_cases <= MANY_CASES:
            return None, f"{size}: half of them or more"
        if far_columns(basis, self.X):
            return None, f"{size}, of columns too far from 0: centre them"
        return basis, f"exact: {size}"

    def _basis_of_many(self) -> tuple[BasisBlocks | None, str]:
        """What "auto" takes in place of the dense covariance of more than `MANY_CASES` cases, and why."""
        settings = BasisFunctions()
        try:
            basis = self.basis_of(settings)
        except InputError as error:
            why = str(error).removeprefix("basis functions: ").split(";")[0]
            return None, f"{self.n_cases} cases, but {why}"
        size = f"{basis.size} function{'s' * (basis.size > 1)} for {self.n_cases} cases"
        if self.jitter is not None:
            return None, f"{size} would do, but a jitter is stated"
        if far_columns(basis, self.X):
            return None, f"{size}, of columns too far from 0: centre them"
        return basis, f"{size}, with errors of up to {250.0 * settings.error:g} % of the variance"

    def _grid(self) -> tuple[tuple[Tape, Tape] | None, np.ndarray | None, str]:
        """Tapes of the axes and the cell of each case where the model is on a grid, and its size in words."""
        # the exact density of a regression factorises all of K anyway
        exact = self.structure == "auto" and self.likelihood.conjugate
        if self.structure == "dense" or exact or self.basis:
            return None, None, ""
        try:
            axes, cells = grid_of(self.X)
            own = self._columns, self._places, self._free
            tapes = axis_tapes(self.covariance, *own, axes)
            if cells is None:
                return tapes, None, ""
            if self.likelihood.conjugate or not self.likelihood.single:
                raise InputError(
                    f"Kronecker grid: {self.n_cases} cases are not the cells of the grid row by row, which "
                    'Gaussian noise and several functions ask for; take structure="dense"'
                )
        except InputError:
            if self.structure == "kronecker":
                raise
            return None, None, ""
        n_cells, n_with = len(axes[0]) * len(axes[1]), len(np.unique(cells))
        size = f"grid of {len(axes[0])} x {len(axes[1])} cells, {n_with} of {n_cells} with cases"
        if self.structure == "auto" and n_cells > FEWER * n_with:
            return None, None, f"{size}: fewer than half"
        return tapes, cells, f"exact: {size}"

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

    def with_mean_as_a_term(self, loc: float, sd: float) -> GPModel:
        """The same model with its mean c ~ N(loc, sd^2) integrated out: a constant term about loc."""
        term = Constant(signal_sd=sd, name="of_mean")
        return self._changed(covariance=self.covariance + term, mean=loc)

    def dense_if_exact(self) -> GPModel:
        """The model of values at the cases where that changes nothing but the cost, else the model itself."""
        exact = self.basis is not None and not self.approximate_basis
        return self.with_structure("dense") if exact else self.by_cases

    def take(self, cases: np.ndarray) -> GPModel:
        """The model of some of the cases, with the same parameters and hyperpriors."""
        inputs = self.inputs._replace(values=self.X[cases])
        return self._changed(X=inputs, y=self.y[cases], likelihood=self.likelihood.take(cases))

    def at(self, theta: ArrayLike = ()) -> LatentGaussianModel:
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
        if self.cells is not None:
            return self.by_cases.at(theta)
        full = self.full(np.asarray(theta, dtype=np.float64))
        if self.basis:
            return WeightModel(self, full)
        c, shared = (
            self.mean_at(full),
            {"covariance_function": CovarianceAt(self, full), "X": self.X},
        )
        likelihood = self.likelihood_at(full)
        pin_blas()
        L, jitter = self.factor_and_jitter(full, least=self.least_jitter)
        mean = np.full(self.n_cases, c)
        return LatentGaussianModel(likelihood, self.y, mean, L, jitter, **shared)

    def log_likelihood(self, f: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Log p(y | f, theta) for latents (..., n), or weights (..., m), shape (...)."""
        eta = self.predictor(theta, np.atleast_1d(np.asarray(f, dtype=np.float64)))
        return self.likelihood_at(self.full(theta)).log_density(eta, self.y)

    def predictor(self, theta: np.ndarray, f: np.ndarray) -> np.ndarray:
        """eta = f + c (..., n) of latents f (..., n_latents), or of weights (..., m)."""
        full = self.full(theta)
        if self.basis:
            coefficients = (self.basis.scales(full)[0] * f).reshape(-1, self.n_latents)
            rows = [self.basis_design.multiply(b, np.empty(self.n_cases)) for b in coefficients]
            return np.reshape(rows, (*np.shape(f)[:-1], self.n_cases)) + self.mean_at(full)
        return self.at_cases(f) + self.mean_at(full)

    def log_density(self, theta: np.ndarray, f: np.ndarray) -> float:
        """Log p_h(theta) + log N(f; 0, K) + log p(y | f, theta), the slow way; of weights f N(f; 0, I)."""
        full = self.full(theta)
        if self.basis:
            log_normal = -0.5 * float(np.dot(f, f)) - 0.5 * self.n_latents * np.log(2.0 * np.pi)
            return self.log_prior(theta) + log_normal + float(self.log_likelihood(f, theta))
        factor, n, s = self.filled_factor(full), self.n_latents, self.scale(full)
        z = factor.solve(np.asarray(f, dtype=np.float64)) / s
        log_normal = -0.5 * (z @ z) - factor.log_det - n * (np.log(s) + 0.5 * np.log(2.0 * np.pi))
        return self.log_prior(theta) + log_normal + float(self.log_likelihood(f, theta))

    def joint_log_density(self) -> JointLogDensity:
        """Return the log density of hyperparameters and latents as one function of a vector.

        For samplers of other packages: value and gradient, the order of the coordinates, a start, and what
        draws mean.

        Returns
        -------
        A `JointLogDensity`, in whitened coordinates.

        Raises
        ------
        InputError:
            For a hyperprior that has no transform from a standard normal.

        Examples
        --------
        >>> import numpy as np
        >>> import gpmcflow as gp
        >>> model = gp.GPModel(np.arange(3.0), [1, 0, 2], gp.Matern32(1.0), gp.Poisson())
        >>> density = model.joint_log_density()
        >>> density(density.start) == density.value_and_gradient(density.start)[0]
        True
        """
        from gpmcflow.models.joint_log_density import JointLogDensity  # which imports this module

        return JointLogDensity(self)

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
                kind = "known" if isinstance(leaf, KnownLevels) else leaf.term
                kinds.setdefault(self.inputs.names[column], set()).add(kind)
        X = new_inputs(X_new, self.inputs, kinds, unseen).values
        if unseen == "error":
            for leaf, columns in zip(self.leaves, self._columns, strict=True):
                if isinstance(leaf, KnownLevels):  # of numbers; words are checked above
                    self._refuse_unknown(leaf, columns[0], X)
        return X

    def _refuse_unknown(self, leaf: KnownLevels, column: int, X: np.ndarray) -> None:
        rows = np.flatnonzero(leaf.places_of(X[:, [column]]) == leaf.n_levels)
        if rows.size:
            raise InputError(
                f"new inputs: column {self.inputs.names[column]!r}, row {rows[0]} has the level "
                f"{X[rows[0], column]:g}, which {leaf.who} does not know; allowed: those of the data and of "
                f'{leaf.table_name}; or unseen="new"'
            )

    def digest(self) -> str:
        """SHA-256 of data, parameters and settings."""
        inputs = (self.inputs.names, self.inputs.levels)
        settings = self.covariance, self.likelihood.digest(), self.mean, self.jitter, self.kronecker
        structure = (self.basis_settings,) if self.basis else ()
        known = [leaf for leaf in self.leaves if isinstance(leaf, KnownLevels)]
        told = tuple(leaf.text() for leaf in known)  # which their reprs shorten
        text = repr((*settings, *inputs, *structure, *told))
        return text_digest(array_digest({"X": self.X, "y": self.y}), text)


def _mean_text(mean: Any) -> str:
    """Of a hyperprior without its scale, which is that of positive parameters: a mean is any number."""
    if isinstance(mean, Hyperprior):
        return f"Hyperprior({mean.distribution!r}, {dict(mean.parameters)!r})"
    return repr(mean)


# what `help` shows: that of the fields, which `__new__` hides
_fields = signature(GPModel.__init__)
GPModel.__signature__ = _fields.replace(parameters=list(_fields.parameters.values())[1:])  # type: ignore[attr-defined]
