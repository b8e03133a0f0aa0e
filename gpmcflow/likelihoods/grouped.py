"""A likelihood of latents that several cases share, as with repeated inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.base import Likelihood
from gpmcflow.parameters.parameter import Entry


@dataclass(frozen=True, eq=False, repr=False)
class GroupedLikelihood(Likelihood):
    """p(y | eta) = prod_i p(y_i | eta_index[i]) for m latents, each with at least one of n cases.

    Predictors are (..., m), observations (n,); derivatives are those of the cases summed by latent, tilted
    moments come from quadrature. ``index`` (n,) holds 0 .. m - 1. Raises `InputError` for any other.
    """

    likelihood: Likelihood
    index: np.ndarray
    per_case = True  # never one solve for equal observations: a latent has several

    def __post_init__(self) -> None:
        index = np.array(self.index)
        taken = np.unique(index)
        if index.ndim != 1 or not np.array_equal(taken, np.arange(len(taken))):
            raise InputError(
                f"GroupedLikelihood: index has values {taken[:5].tolist()} in shape {index.shape}; allowed: "
                "for each case the place of its latent, 0, 1, ..., each of them taken"
            )
        index.setflags(write=False)
        object.__setattr__(self, "index", index)

    name = property(lambda self: self.likelihood.name)
    log_concave = property(lambda self: self.likelihood.log_concave)
    relative_sites = property(lambda self: self.likelihood.relative_sites)
    binary = property(lambda self: self.likelihood.binary)
    counts = property(lambda self: self.likelihood.counts)
    standard_sites = property(lambda self: self.likelihood.standard_sites)

    @cached_property
    def _order(self) -> tuple[np.ndarray, np.ndarray]:
        """Cases sorted by latent, and where each latent begins among them."""
        order = np.argsort(self.index, kind="stable")
        return order, np.flatnonzero(np.diff(self.index[order], prepend=-1))

    def _summed(self, of_cases: np.ndarray) -> np.ndarray:
        order, starts = self._order
        return np.add.reduceat(of_cases[..., order], starts, axis=-1)

    def entries(self) -> tuple[Entry, ...]:
        """Those of the likelihood of the cases."""
        return self.likelihood.entries()

    def with_values(self, values: Sequence[float]) -> GroupedLikelihood:
        """Return the same groups, the likelihood of the cases with numbers."""
        return self._changed({"likelihood": self.likelihood.with_values(values)})

    def take(self, cases: np.ndarray | slice) -> GroupedLikelihood:
        """Return the likelihood of some of the cases and of their latents, in order."""
        index = np.unique(self.index[cases], return_inverse=True)[1]
        return GroupedLikelihood(self.likelihood.take(cases), index)

    def n_latents(self, y: np.ndarray) -> int:
        """Number m of latents."""
        return len(self._order[1])

    def validate(self, y: np.ndarray) -> None:
        """Raise `InputError` for observations of the cases that cannot be."""
        if len(y) != len(self.index):
            raise InputError(
                f"GroupedLikelihood: index has {len(self.index)} entries, y has {len(y)}; allowed: one for "
                "each case"
            )
        self.likelihood.validate(y)

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Those of the cases, summed by latent, each (..., m)."""
        of_cases = self.likelihood.derivatives(eta[..., self.index], y)
        return tuple(self._summed(derivative) for derivative in of_cases)

    def log_density_and_gradient(
        self, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Value (...), and gradient (..., m)."""
        value, slope = self.likelihood.log_density_and_gradient(eta[..., self.index], y)
        return value, self._summed(slope)

    def log_density(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log p(y | eta), shape (...)."""
        return self.likelihood.log_density(eta[..., self.index], y)

    def parameter_gradient(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """That of the cases, shape (..., k)."""
        return self.likelihood.parameter_gradient(eta[..., self.index], y)

    def information(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Summed by latent (..., m)."""
        return self._summed(self.likelihood.information(eta[..., self.index], y))

    def majorising_precision(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Summed by latent (..., m)."""
        return self._summed(self.likelihood.majorising_precision(eta[..., self.index], y))

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Observations (..., n) of the cases, given predictors (..., m)."""
        return self.likelihood.simulate(rng, eta[..., self.index])

    def conditional_mean(self, eta: np.ndarray) -> np.ndarray:
        """That of one case."""
        return self.likelihood.conditional_mean(eta)

    def mean_response(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """That of one case."""
        return self.likelihood.mean_response(mean, variance)
