"""Laplace's method for several latent functions a case, with full blocks of information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from gpmcflow.errors import NumericalError
from gpmcflow.execution import pin_blas
from gpmcflow.likelihoods import MultiLikelihood
from gpmcflow.models.multi_gp_model import MultiGPModel

# Fisher's scoring gains a fixed share of what is left, Newton's method far more
MAX_ITERATIONS = 500
TOLERANCE = 1e-10  # nats that a step promises
SHORTEST = 1e-10  # share of a step


@dataclass(frozen=True, eq=False)
class FunctionsFit:
    """A Gaussian fit to the latents of several functions at one setting of the hyperparameters.

    Attributes
    ----------
    model, theta:
        The model, and its free coordinates (d,).
    whitened_mean:
        The mean of all functions in coordinates xi ~ N(0, I) a priori, (M,).
    factor:
        Lower triangular Cholesky factor of A = I + U'WU (M, M), the precision of xi; W that of the sites.
    log_evidence:
        In nats.
    iterations:
        Newton steps or sweeps taken.
    predictor:
        eta of all functions at the mean (q, n).
    """

    model: MultiGPModel
    theta: np.ndarray
    whitened_mean: np.ndarray
    factor: np.ndarray
    log_evidence: float
    iterations: int
    predictor: np.ndarray

    method: ClassVar[str]  #: that made the fit: "laplace" or "ep"

    def draw_latents(self, rng: np.random.Generator, n_draws: int) -> np.ndarray:
        """Draws of the latents of all functions, in pairs about the mean, (n_draws, n_latents)."""
        z = rng.standard_normal((-(-n_draws // 2), len(self.whitened_mean)))
        moves = solve_triangular(self.factor, z.T, lower=True, trans=1).T
        xi = self.whitened_mean + np.concatenate([moves, -moves])[:n_draws]
        rows = np.split(xi, self.model.splits, axis=1)
        thetas = self.model.thetas_of_parts(self.theta)
        for part, functions in self.model.own_parts():
            if not part.basis:
                L = part.cholesky(part.full(thetas[functions[0]]))
                for c in functions:
                    rows[c] = rows[c] @ L.T
        return np.concatenate(rows, axis=1)


@dataclass(frozen=True, eq=False)
class MultiLaplace(FunctionsFit):
    """A Laplace fit of several functions, at the mode of their latents.

    Attributes
    ----------
    semidefinite:
        Whether W is the positive semidefinite part of the information.
    """

    semidefinite: bool = False

    method = "laplace"


def multi_laplace(
    model: MultiGPModel,
    theta: np.ndarray,
    start: np.ndarray | None = None,
    *,
    semidefinite: bool = False,
) -> MultiLaplace:
    """Fit a Gaussian at the mode of the latents of all functions, by Fisher's scoring.

    log Z = log p(y | eta-hat) - |xi-hat|^2 / 2 - log |I + U'WU| / 2, W the expected information of each case,
    a block (q, q), and U the map from xi to the predictors; where the likelihood has minus the Hessian for W,
    as `Softmax` does, the scoring is Newton's method. ``start`` is a whitened position (M,). With
    ``semidefinite`` the W of |I + U'WU| is its positive semidefinite part: where log p is not concave that
    matrix may be nearly singular at some theta, and log Z as large as one likes, which a search would find.

    Source: Rasmussen & Williams (2006), section 3.5, in prior-whitened coordinates.

    Raises `NumericalError` where it does not converge.
    """
    pin_blas()
    full, y = model.full(np.asarray(theta, dtype=np.float64)), model.y
    likelihood = model.likelihood_at(full)
    maps, means = maps_at(model, np.asarray(theta, dtype=np.float64))
    sizes = np.cumsum([U.shape[1] for U in maps])
    xi = np.zeros(sizes[-1]) if start is None else start

    def predictor(at: np.ndarray) -> np.ndarray:
        rows = zip(maps, np.split(at, sizes[:-1]), means, strict=True)
        return np.stack([U @ x + c for U, x, c in rows])

    def objective(at: np.ndarray, eta: np.ndarray) -> float:
        return float(likelihood.log_density(eta, y)) - 0.5 * float(at @ at)

    with np.errstate(all="ignore"):
        eta = predictor(xi)
        value = objective(xi, eta)
        for iteration in range(1, MAX_ITERATIONS + 1):
            slope = likelihood.log_density_and_gradient(eta, y)[1]
            blocks = likelihood.information_blocks(eta, y)
            gradient = np.concatenate([U.T @ g for U, g in zip(maps, slope, strict=True)]) - xi
            if not (np.isfinite(gradient).all() and np.isfinite(blocks).all()):
                break
            try:
                factor = np.linalg.cholesky(precision(maps, blocks))
            except np.linalg.LinAlgError:  # far from the mode, for which any step uphill will do
                try:
                    factor = np.linalg.cholesky(precision(maps, positive_part(blocks)))
                except np.linalg.LinAlgError:
                    break
            step = cho_solve((factor, True), gradient)
            promise = float(gradient @ step)
            if promise < TOLERANCE:
                if semidefinite and likelihood.indefinite:
                    factor = np.linalg.cholesky(precision(maps, positive_part(blocks)))
                log_evidence = value - float(np.log(np.diagonal(factor)).sum())
                return MultiLaplace(
                    model, theta, xi, factor, log_evidence, iteration, eta, semidefinite
                )
            share = 1.0
            while True:
                trial = xi + share * step
                eta = predictor(trial)
                reached = objective(trial, eta)
                if reached >= value + 1e-4 * share * promise - 1e-12 * abs(value):
                    break
                share *= 0.5
                if share < SHORTEST:
                    break
            if share < SHORTEST:
                break
            xi, value = trial, reached
    raise NumericalError(
        f"Laplace: no mode of the {likelihood.name} likelihood at {np.round(full, 3).tolist()}; take "
        "narrower hyperpriors"
    )


def maps_at(model: MultiGPModel, theta: np.ndarray) -> tuple[list[np.ndarray], list[float]]:
    """U_c (n, m_c) and mean of each function at theta (d,); the same U where functions share it."""
    made: dict[int, np.ndarray] = {}
    maps, means = [], []
    for part, at in zip(model.parts, model.thetas_of_parts(theta), strict=True):
        full = part.full(at)
        if id(part) not in made:
            if part.basis:
                made[id(part)] = part.basis_design.matrix() * part.basis.scales(full)[0]
            else:
                made[id(part)] = part.cholesky(full)
        maps.append(made[id(part)])
        means.append(part.mean_at(full))
    return maps, means


def curvature(
    likelihood: MultiLikelihood, eta: np.ndarray, y: np.ndarray, semidefinite: bool
) -> np.ndarray:
    """The information of each case at eta (q, n), or its positive semidefinite part, (q, q, n)."""
    blocks = likelihood.information_blocks(eta, y)
    return positive_part(blocks) if semidefinite and likelihood.indefinite else blocks


def positive_part(blocks: np.ndarray) -> np.ndarray:
    """The positive semidefinite part of each block, (q, q, n)."""
    values, vectors = np.linalg.eigh(np.moveaxis(blocks, -1, 0))
    if not values.min() < 0.0:
        return blocks
    kept = (vectors * np.maximum(values, 0.0)[:, None]) @ vectors.swapaxes(1, 2)
    return np.ascontiguousarray(kept.transpose(1, 2, 0))


def precision(maps: list[np.ndarray], blocks: np.ndarray) -> np.ndarray:
    """I + U'WU (M, M), its lower triangle, W given by blocks (q, q, n)."""
    ends = np.cumsum([0, *(U.shape[1] for U in maps)])
    A = np.zeros((ends[-1], ends[-1]))
    for a, U in enumerate(maps):
        for b, V in enumerate(maps[: a + 1]):
            A[ends[a] : ends[a + 1], ends[b] : ends[b + 1]] = U.T @ (blocks[a, b][:, None] * V)
    A.flat[:: len(A) + 1] += 1.0
    return A
