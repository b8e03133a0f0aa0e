"""Laplace's method for several latent functions a case, with full blocks of information."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize
from scipy.special import ndtri

from gpmcflow.errors import NumericalError
from gpmcflow.execution import pin_blas
from gpmcflow.models.multi_gp_model import MultiGPModel

log = logging.getLogger(__name__)
# Fisher's scoring gains a fixed share of what is left, Newton's method far more
MAX_ITERATIONS = 500
TOLERANCE = 1e-10  # nats that a step promises
SHORTEST = 1e-10  # share of a step
WIDEST = 3.0  # standard deviations of the hyperprior, within which the maximum is looked for
N_SCREENED = 8  # places, beside the median, of which the best is where the search starts
DIFFERENCE = 1e-5  # of x, for slopes of the evidence


@dataclass(frozen=True, eq=False)
class MultiLaplace:
    """A Laplace fit of several functions at one setting of the hyperparameters.

    Attributes
    ----------
    model, theta:
        The model, and its free coordinates (d,).
    whitened_mean:
        The mode of all functions in coordinates xi ~ N(0, I) a priori, (M,).
    factor:
        Lower triangular Cholesky factor of A = I + U'WU (M, M), the precision of xi.
    log_evidence:
        In nats.
    iterations:
        Newton steps taken.
    predictor:
        eta of all functions at the mode (q, n).
    """

    model: MultiGPModel
    theta: np.ndarray
    whitened_mean: np.ndarray
    factor: np.ndarray
    log_evidence: float
    iterations: int
    predictor: np.ndarray

    def draw_latents(self, rng: np.random.Generator, n_draws: int) -> np.ndarray:
        """Draws of the latents of all functions, in pairs about the mode, (n_draws, n_latents)."""
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


def multi_laplace(
    model: MultiGPModel, theta: np.ndarray, start: np.ndarray | None = None
) -> MultiLaplace:
    """Fit a Gaussian at the mode of the latents of all functions, by Fisher's scoring.

    log Z = log p(y | eta-hat) - |xi-hat|^2 / 2 - log |I + U'WU| / 2, W the expected information of each case,
    a block (q, q), and U the map from xi to the predictors; where the likelihood has minus the Hessian for W,
    as `Softmax` does, the scoring is Newton's method. ``start`` is a whitened position (M,).

    Source: Rasmussen & Williams (2006), section 3.5, in prior-whitened coordinates.

    Raises `NumericalError` where it does not converge.
    """
    pin_blas()
    full, y = model.full(np.asarray(theta, dtype=np.float64)), model.y
    likelihood = model.likelihood_at(full)
    maps, means = _maps(model, np.asarray(theta, dtype=np.float64))
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
                factor = np.linalg.cholesky(_precision(maps, blocks))
            except np.linalg.LinAlgError:  # far from the mode, for which any step uphill will do
                try:
                    factor = np.linalg.cholesky(_precision(maps, _semidefinite(blocks)))
                except np.linalg.LinAlgError:
                    break
            step = cho_solve((factor, True), gradient)
            promise = float(gradient @ step)
            if promise < TOLERANCE:
                log_evidence = value - float(np.log(np.diagonal(factor)).sum())
                return MultiLaplace(model, theta, xi, factor, log_evidence, iteration, eta)
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


def maximise_multi_evidence(model: MultiGPModel) -> MultiLaplace:
    """The Laplace fit at the maximum of its evidence over the free hyperparameters.

    Hyperpriors do not count, but for their width: the search, L-BFGS with slopes by differences in their
    normal coordinates, stays within 3 standard deviations of the median. It starts at the best of the median
    and 8 places about it.

    Raises `NumericalError` where no fit converges.
    """
    from scipy.stats import qmc  # here: it takes long to load

    normal = model.parameters.normal
    last: dict[str, Any] = {}

    def fit_at(x: np.ndarray) -> MultiLaplace:
        fit = multi_laplace(model, normal.theta(x)[0], last.get("mean"))
        last["mean"] = fit.whitened_mean
        return fit

    def minus(x: np.ndarray) -> float:
        try:
            return -fit_at(x).log_evidence
        except NumericalError:
            last.pop("mean", None)
            return last.get("worst", 1e10)

    if not model.dim:
        return multi_laplace(model, np.empty(0))
    places = ndtri(qmc.Sobol(model.dim, seed=0).random(N_SCREENED))
    starts = np.concatenate([np.zeros((1, model.dim)), places])
    values = [minus(x) for x in starts]
    last["worst"] = max(value for value in values if value < 1e10) if min(values) < 1e10 else 1e10
    best = minimize(
        minus, starts[int(np.argmin(values))], method="L-BFGS-B", bounds=[(-WIDEST, WIDEST)] * model.dim,
        options={"eps": DIFFERENCE, "ftol": 1e-9},
    )  # fmt: skip
    at_edge = [name for name, x in zip(model.names, best.x, strict=True) if abs(x) >= WIDEST - 1e-6]
    if at_edge:
        log.warning(
            "hyperparameters: the maximum of the evidence (laplace) lies at the edge of the search, %g "
            "standard deviations from the median of the hyperprior of %s; take sample, which weighs them",
            WIDEST, ", ".join(at_edge),
        )  # fmt: skip
    return fit_at(best.x)


def _maps(model: MultiGPModel, theta: np.ndarray) -> tuple[list[np.ndarray], list[float]]:
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


def _semidefinite(blocks: np.ndarray) -> np.ndarray:
    """The positive semidefinite part of each block, (q, q, n)."""
    values, vectors = np.linalg.eigh(np.moveaxis(blocks, -1, 0))
    return np.einsum("nak,nk,nbk->abn", vectors, np.maximum(values, 0.0), vectors)


def _precision(maps: list[np.ndarray], blocks: np.ndarray) -> np.ndarray:
    """I + U'WU (M, M), W given by blocks (q, q, n)."""
    rows = []
    for a, U in enumerate(maps):
        rows.append(
            np.concatenate([U.T @ (blocks[a, b][:, None] * V) for b, V in enumerate(maps)], axis=1)
        )
    A = np.concatenate(rows)
    A.flat[:: len(A) + 1] += 1.0
    return A
