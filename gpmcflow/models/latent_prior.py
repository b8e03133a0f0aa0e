"""Prior of a Gaussian process model's latents: its covariance, dense, on a grid, or of basis functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import lapack

from gpmcflow.covariances.basis_blocks import BasisBlocks
from gpmcflow.covariances.basis_design import BasisDesign
from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.covariances.dense_factor import DenseCovariance, DenseFactor
from gpmcflow.covariances.expressions import Covariance, Leaf, Sum
from gpmcflow.covariances.finite import FewFunctions, few_functions, is_finite
from gpmcflow.covariances.inputs import Inputs
from gpmcflow.covariances.known_levels import KnownLevels
from gpmcflow.covariances.kronecker import KroneckerBuffers, KroneckerFactor
from gpmcflow.covariances.leaves import Constant
from gpmcflow.covariances.tape import CovarianceBuffers, OwnJitter, Tape
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import pin_blas
from gpmcflow.models.latent_gaussian import factorise
from gpmcflow.models.linear_maps import stacked_factor
from gpmcflow.models.model_coordinates import ModelCoordinates

if TYPE_CHECKING:
    from gpmcflow.models.gp_model import GPModel

JITTER = 1e-6
SINGULAR = 1e-12  # of a covariance of few functions alone, which stand apart from it
LARGE = 100.0  # values of functions above which chains keep them apart, at up to 1.3 times the cost
_Term = tuple[Covariance, list[tuple[int, ...]], list[np.ndarray]]


class LatentPrior(ModelCoordinates):
    """What `GPModel` says of its covariance: structure, factors and buffers, scale."""

    inputs: Inputs
    X: np.ndarray
    covariance: Covariance
    jitter: float | None
    structure: str | BasisFunctions
    basis: BasisBlocks | None
    structure_reason: str  #: why "auto" takes a basis, or leaves it; empty for other models
    _columns: Sequence[tuple[int, ...]]  #: in X, of each leaf
    _axes: tuple[Tape, Tape] | None  #: of a grid
    cells: (
        np.ndarray | None
    )  #: of a grid, that of each case (n,); None where the cases are the cells, in order

    @property
    def structure_name(self) -> str:
        """What the prior is taken for: "dense", "kronecker" or "basis"."""
        return "basis" if self.basis else "dense" if self._axes is None else "kronecker"

    @property
    def structure_in_words(self) -> str:
        """The structure and, where "auto" weighed a basis, why it is that."""
        why = f" ({self.structure_reason})" if self.structure_reason else ""
        return f"{self.structure_name}{why}"

    def sees(self, column: int) -> bool:
        """Whether the covariance changes with a column of X by more than its levels."""
        each = zip(self.leaves, self._columns, strict=True)
        return any(
            column in own for leaf, own in each if not isinstance(leaf, Constant | KnownLevels)
        )

    @property
    def chose_basis(self) -> bool:
        """Whether "auto" took a basis."""
        return self.basis is not None and self.structure == "auto"

    @property
    def basis_settings(self) -> BasisFunctions:
        """Settings of the basis; those of an exact one do not matter."""
        stated = self.structure
        return stated if isinstance(stated, BasisFunctions) else BasisFunctions()

    @property
    def approximate_basis(self) -> bool:
        """Whether the basis stands for a covariance that is not its own: of eigenfunctions, or waves."""
        return self.basis is not None and not self.basis.exact

    @property
    def latent_variable(self) -> str:
        """Name of the latents in results: "latent", "weight" with basis functions, "cell" with `cells`."""
        return "weight" if self.basis else "latent" if self.cells is None else "cell"

    @property
    def n_latents(self) -> int:
        """Number of latents: n values of the process, m weights of basis functions, or one for each cell."""
        return self.basis.size if self.basis else self.n_sites

    @property
    def n_sites(self) -> int:
        """Number of sites that stand for the likelihood: one for each case, on a grid for each cell."""
        if self._axes is None:
            return self.n_cases
        return self._axes[0].n_cases * self._axes[1].n_cases

    def at_cases(self, latents: np.ndarray) -> np.ndarray:
        """Latents (..., n_latents) of the process as its values at the cases (..., n)."""
        return latents if self.cells is None else latents[..., self.cells]

    @property
    def numbers_held(self) -> int:
        """Most numbers that a chain holds at a time: 10 n^2 dense, 100 n on a grid, 30 n + 10 m^2 of weights.

        Of weights with many levels m^2 is that of an `ArrowMatrix`. An estimate; draws that are kept, and
        fits that are not made with the structure, come on top.
        """
        n = self.n_cases
        if self.basis:
            return 30 * n + 10 * self.basis_design.arrow_numbers
        return 100 * max(n, self.n_sites) if self.kronecker else 10 * n**2

    @property
    def n_cases(self) -> int:
        """Number n of cases."""
        return len(self.y)

    @cached_property
    def basis_design(self) -> BasisDesign:
        """Basis functions at the cases; made when first asked for, and not pickled."""
        pin_blas()
        assert self.basis is not None
        return BasisDesign(self.basis, self.X)

    @cached_property
    def by_cases(self) -> GPModel:
        """The same model with latents at the cases: itself, or the dense one where there are `cells`."""
        model: Any = self
        return model if self.cells is None else model.with_structure("dense")

    def refuse_basis(self) -> None:
        """Raise `InputError` where a matrix of all cases is needed, which an approximate basis has not."""
        if self.approximate_basis:
            raise InputError(
                "model: basis functions have no factor of the covariance of all cases, which is asked for "
                'here; take JointSplitHMC, model.at(theta), or with_structure("dense")'
            )

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """Leaves of the covariance."""
        return self.covariance.leaves()

    @property
    def epsilon(self) -> float:
        """eps of the jitter as samplers over theta take it, see `GPModel`."""
        if self.jitter is not None:
            return self.jitter
        return SINGULAR if self.functions is not None and not self._rest else JITTER

    @cached_property
    def _tape(self) -> Tape:
        return Tape(self.covariance, self._columns, self._places, self._free, self.X)

    @cached_property
    def scale_place(self) -> int | None:
        """Place of the amplitude that multiplies the whole covariance, or None."""
        if self._axes is None:
            return self._tape.common_scale
        used = np.concatenate(self._places).tolist()
        scales = [tape.common_scale for tape in self._axes]
        once = [place for place in scales if place is not None and used.count(place) == 1]
        return min(once, key=lambda place: not self._free[place], default=None)

    def touches(self, place: int) -> str | None:
        """What a move of the coordinate at a place of ``full`` changes.

        "scale": the covariance by a factor; "covariance"; "mean"; "likelihood"; None for several of these.
        """
        owners = self.owners(place)
        if len(owners) > 1:
            return None
        return "scale" if place == self.scale_place else owners[0]

    def scaled_covariance(
        self,
    ) -> tuple[np.ndarray, int | None, np.ndarray, CovarianceBuffers | KroneckerBuffers]:
        """K = s^2 E + constants: places in ``full`` of E, of s (or None), of the constants; buffers for E.

        E is the one term of the sum that is not constant, if it has an amplitude, else the whole.
        """
        pin_blas()
        self.refuse_basis()
        everything = np.unique(np.concatenate(self._places))
        if self._axes is not None:
            axes = KroneckerBuffers(self._axes, self.epsilon)
            return everything, None, np.empty(0, dtype=int), axes
        terms = self._terms
        inner = [own for own in terms if not isinstance(own[0], Constant)]
        if len(inner) == 1:
            tape = self._tape_of(inner)
            if tape.common_scale is not None:
                constants = [own for own in terms if isinstance(own[0], Constant)]
                at = np.array([int(places[0][0]) for _, _, places in constants], dtype=int)
                buffers = CovarianceBuffers(tape, self.epsilon)
                return np.concatenate(inner[0][2]), tape.common_scale, at, buffers
        buffers = CovarianceBuffers(self._tape, self.epsilon)
        return everything, None, np.empty(0, dtype=int), buffers

    @property
    def least_jitter(self) -> bool:
        """Whether `GPModel.at` takes the least jitter: none is given, and the covariance is fixed."""
        free = any(self._free[place] for places in self._places for place in places)
        return self.jitter is None and not free and not self.kronecker

    @cached_property
    def functions(self) -> FewFunctions | None:
        """Terms of the sum that are few functions of the inputs; None where they are constants beside others.

        They need no jitter, and are kept apart where all of K is factorised: their variance far from the
        origin of a column would leave no digits to the others.
        """
        if self.approximate_basis or self._axes is not None:
            return None
        terms = [own for own in self._terms if is_finite(own[0])]
        if self._rest and all(isinstance(term, Constant) for term, _, _ in terms):
            return None
        parts, columns, places = zip(*terms, strict=True)
        size = len(self.parameters.priors)
        bound = list(chain(*columns)), list(chain(*places))
        found = few_functions(reduce(Sum, parts), *bound, self.X.shape[1], size)
        if found is None or self._rest or self.jitter != 0.0:
            return found
        return found if len(found.constant) < self.n_cases else None  # else K itself has a factor

    @cached_property
    def _rest(self) -> list[_Term]:
        return [own for own in self._terms if not is_finite(own[0])]

    def rest_of_functions(self) -> tuple[np.ndarray, CovarianceBuffers | OwnJitter]:
        """Places in ``full`` of what the terms beside `functions` depend on, and buffers for R, their sum.

        With its jitter; where there are no other terms, R is a jitter alone.
        """
        pin_blas()
        terms = self._rest or self._terms
        places = np.unique(np.concatenate([np.concatenate(own[2]) for own in terms]))
        made = CovarianceBuffers if self._rest else OwnJitter
        return places, made(self._tape_of(terms), self.epsilon)

    def function_values(self, full: np.ndarray, X: np.ndarray | None = None) -> np.ndarray:
        """V (q, n) of K = R + V'V, R the rest, with the scales of `functions`, or of other inputs X."""
        assert self.functions is not None
        values = self._function_values if X is None else self.functions.values(X).T
        with np.errstate(over="ignore"):
            return values * np.exp(self.functions.log_scales(full))[:, None]

    @cached_property
    def _function_values(self) -> np.ndarray:
        assert self.functions is not None
        return np.ascontiguousarray(self.functions.values(self.X).T)

    @cached_property
    def _apart(self) -> bool:
        """Whether chains keep `functions` apart: where they are alone, or large. Else K has digits enough."""
        if self.functions is None:
            return False
        return not self._rest or bool(np.abs(self._function_values).max() > LARGE)

    def term_buffers(self, term: int) -> CovarianceBuffers:
        """Covariance of one term of the sum, without jitter."""
        return CovarianceBuffers(self._tape_of([self._terms[term]]))

    def terms_that(self, wanted: Callable[[Covariance], bool]) -> CovarianceBuffers | None:
        """Covariance of those terms of the sum that are wanted, without jitter; None if none is."""
        kept = [own for own in self._terms if wanted(own[0])]
        return CovarianceBuffers(self._tape_of(kept)) if kept else None

    @property
    def _terms(self) -> list[_Term]:
        """Terms of the sum, with the columns and the places in ``full`` of each of their leaves."""
        whole = self.covariance
        columns, places = iter(self._columns), iter(self._places)
        terms = []
        for term in whole.operands() if isinstance(whole, Sum) else [whole]:
            n = len(term.leaves())
            terms.append((term, list(islice(columns, n)), list(islice(places, n))))
        return terms

    def _tape_of(self, terms: Sequence[_Term]) -> Tape:
        parts, columns, places = zip(*terms, strict=True)
        bound = list(chain(*columns)), list(chain(*places))
        return Tape(reduce(Sum, parts), *bound, self._free, self.X)

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
        if not self._apart:
            return DenseFactor(CovarianceBuffers(self._tape, self.epsilon), self.scale_place)
        return DenseFactor(self.rest_of_functions()[1], self.scale_place, self.function_values)

    def covariance_buffers(self) -> DenseCovariance | KroneckerBuffers:
        """Buffers for K and its adjoint. BLAS has one thread from here on."""
        pin_blas()
        self.refuse_basis()
        if self._axes is not None:
            return KroneckerBuffers(self._axes, self.epsilon)
        if not self._apart:
            return DenseCovariance(CovarianceBuffers(self._tape, self.epsilon))
        assert self.functions is not None
        rest = self.rest_of_functions()[1]
        return DenseCovariance(rest, self.function_values, self.functions.exponents)

    def scale(self, full: np.ndarray) -> float:
        """s of K = s^2 L L'; 1 where no amplitude multiplies the whole covariance."""
        return 1.0 if self.scale_place is None else float(np.exp(full[self.scale_place]))

    def filled_factor(self, full: np.ndarray) -> DenseFactor | KroneckerFactor:
        """Factor at ``full``. Raises `NumericalError` where the covariance is not positive definite."""
        factor = self.factor()
        if not factor.fill(full):
            raise self._not_positive_definite(full)
        return factor

    def cholesky(self, full: np.ndarray) -> np.ndarray:
        """Lower factor of K with its jitter (n, n), in Fortran order."""
        if self.cells is not None:
            return self.by_cases.cholesky(full)
        if self.functions is None:
            return np.asfortranarray(self.scale(full) * self.filled_factor(full).dense())
        return self.factor_and_jitter(full)[0]

    def factor_and_jitter(
        self, full: np.ndarray, *, least: bool = False
    ) -> tuple[np.ndarray, float]:
        """Lower factor of K (n, n), in Fortran order, and the mean of the jitter in it.

        With ``least`` that is the least with which what needs one factorises, zero first.
        """
        if self.functions is None:
            if least:
                return factorise(CovarianceBuffers(self._tape).matrix(full))
            with_it = self.prior_variance(full, self.X)
            jitter = float((with_it - CovarianceBuffers(self._tape).diagonal(full, self.X)).mean())
            return self.cholesky(full), jitter
        rest, jitter = self.rest_factor(full, least=least)
        return stacked_factor(self.function_values(full), rest), jitter

    def rest_factor(self, full: np.ndarray, *, least: bool = False) -> tuple[np.ndarray, float]:
        """Lower factor of R (n, n), K = R + V'V, and the mean jitter in it; see `factor_and_jitter`."""
        _, buffers = self.rest_of_functions()
        if isinstance(buffers, OwnJitter):
            jitter = buffers.variance(full)
        elif least:
            buffers.jitter = 0.0
            return factorise(buffers.matrix(full))
        else:
            jitter = self.epsilon * float(buffers.diagonal(full, self.X).mean())
        rest, info = lapack.dpotrf(buffers.matrix(full), lower=1, clean=1)
        if info:
            raise self._not_positive_definite(full)
        return rest, jitter

    def _not_positive_definite(self, full: np.ndarray) -> NumericalError:
        return NumericalError(
            f"model: the covariance is not positive definite at {np.round(full, 3).tolist()}; give a "
            f"larger jitter than {self.epsilon:g}"
        )

    def covariance_matrix(self, theta: np.ndarray) -> np.ndarray:
        """K(theta) (n, n), with its jitter."""
        L = self.cholesky(self.full(theta))
        return L @ L.T

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

    def among(self, X_new: np.ndarray) -> np.ndarray:
        """Covariances of new inputs with each other (m, m); two rows have their own `White` each."""
        covariance = self(X_new, X_new)
        np.fill_diagonal(covariance, self.diagonal(X_new))
        return covariance

    def rest_among(self, X_new: np.ndarray) -> np.ndarray:
        """As `among`, of what stands beside `GPModel.functions`."""
        covariance = self.rest(X_new, X_new)
        np.fill_diagonal(covariance, self.rest_diagonal(X_new))
        return covariance

    def rest(self, X_new: np.ndarray, X: np.ndarray | None = None) -> np.ndarray:
        """As calling it, of what stands beside `GPModel.functions`."""
        _, buffers = self.model.rest_of_functions()
        return buffers.cross(self.full, np.ascontiguousarray(X_new), X)

    def rest_diagonal(self, X_new: np.ndarray) -> np.ndarray:
        """As `diagonal`, of what stands beside `GPModel.functions`."""
        _, buffers = self.model.rest_of_functions()
        buffers.jitter = 0.0
        return buffers.diagonal(self.full, np.ascontiguousarray(X_new))
