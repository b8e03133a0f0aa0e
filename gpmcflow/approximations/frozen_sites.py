"""Gaussian sites for a joint sampler, fitted once at given hyperparameters and then frozen."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpmcflow.approximations.basis_sites import basis_sites, positive
from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.independent_sites import StandardSites
from gpmcflow.approximations.multi_laplace import multi_laplace
from gpmcflow.errors import NumericalError
from gpmcflow.likelihoods import Likelihood
from gpmcflow.likelihoods.sites import LARGEST_VARIANCE
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.joint_density import structure_of
from gpmcflow.models.kronecker_structure import KroneckerStructure, SiteSpectrum, rank_one
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.models.multi_structure import MultiStructure
from gpmcflow.models.prior_structure import FrozenSites

# Gaussian sites of rank-one precision for latents on a grid: O(n^1.5) a sweep, never an n x n matrix.

MAX_SWEEPS = 60  # any positive sites are exact; these decide how well the sampler mixes
SWEEP_TOLERANCE = 1e-2  # of a sweep's move of the means, in their standard deviations
UNDAMPED = 6  # sweeps before precisions go half of their way in logs
HALVINGS = 20
INNER, INNER_TOLERANCE = 20, 0.1  # of conjugate gradients
SUFFICIENT = 1e-4  # share of the ascent that the slope promises
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class Expected(NamedTuple):
    """Means under h_i ~ N(m_i, v_i)."""

    value: float  #: of the sum of log p(y_i | h_i)
    slope: np.ndarray  #: of its derivatives, shape of m


def rank_one_sites(
    model: GPModel, theta: np.ndarray, start: FrozenSites | None = None
) -> FrozenSites:
    """Fit sites w = r_1 x r_2, b at theta, in the units of `FrozenSites`.

    The means m of h = f + c under prior and sites maximise sum_i E log p(y_i | h_i) less
    (m - c)'K^-1 (m - c) / 2, h_i ~ N(m_i, v_i), with the variances v under the sites; the precision has the
    row and column means of the expected information, which is 0 in a cell without a case. Each sweep is a
    Newton step with line search; they end when m stays, or with the 60th: b then carries the mean that was
    reached.

    Parameters
    ----------
    model:
        A `GPModel` on a grid, n_1 x n_2.
    theta:
        Free coordinates (d,).
    start:
        Sites of another theta; without them those of each case alone.

    Raises
    ------
    NumericalError:
        Where the covariance of an axis or an expectation is not finite.
    """
    full, buffers = model.full(np.asarray(theta, dtype=np.float64)), model.covariance_buffers()
    likelihood, c = model.likelihood_at(full), model.mean_at(full)
    K, y = buffers.fill_axes(full), model.y
    variance = math.prod(float(axis.trace()) for axis in K) / model.n_sites
    amplitude = math.sqrt(variance) if model.likelihood.relative_sites else 1.0
    try:
        if start is None:
            w, b, _ = StandardSites()(likelihood, y, variance, c)
            w, b = (_by_cell(model, values) for values in (w, b))
            pseudo = np.divide(b, w, out=np.zeros_like(b), where=w > 0.0)  # of f
        else:
            w, pseudo = (
                start.precision / amplitude**2,
                amplitude * start.shift / start.precision - c,
            )
        fit = _Fit(model, K, likelihood, c)
        w, b = fit.run(w.reshape(buffers.shape), pseudo.reshape(buffers.shape))
        return FrozenSites(amplitude**2 * w.ravel(), amplitude * b.ravel()).checked()
    except np.linalg.LinAlgError:
        raise NumericalError(
            f"sites on a grid: the covariance of an axis is not finite at {np.round(full, 3).tolist()}; take "
            "narrower hyperpriors"
        ) from None


def _by_cell(model: GPModel, values: np.ndarray) -> np.ndarray:
    """Values (n,) of the cases, summed over those of each cell; 0 where there is none."""
    if model.cells is None:
        return values
    return np.bincount(model.cells, values, model.n_sites)


class _Fit:
    """One fit; the mean is m = c + K a."""

    def __init__(
        self, model: GPModel, K: list[np.ndarray], likelihood: Likelihood, c: float
    ) -> None:
        self.model, self.K, self.likelihood, self.c = model, K, likelihood, c

    def run(self, w: np.ndarray, pseudo: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Precision and shift from a precision and pseudo-data of f."""
        self.set_precision(w)
        omega = np.sqrt(self.w)
        a = omega * self.B.solve(omega * pseudo)
        for sweep in range(MAX_SWEEPS):
            m, v, own = self.c + self.prior(a), self.variance, self.likelihood
            at, weights = self.expected(m, v), self.mean_of(own.majorising_precision, m, v)
            w = weights if own.log_concave else self.mean_of(own.information, m, v)
            # variances and precisions can swing around their fixed point
            self.set_precision(w if sweep < UNDAMPED else np.sqrt(w * self.w))
            step = self.newton_step(at.slope - a, weights)
            share = self.line_search(a, step, m, v, at)
            a = a + share * step
            if share == 0.0 or np.all(np.abs(self.prior(step)) <= SWEEP_TOLERANCE * np.sqrt(v)):
                break
        return self.w, a + self.w * (self.c + self.prior(a))

    def set_precision(self, w: np.ndarray) -> None:
        """The rank-one form of a precision, and the variances v of h under it."""
        axes = rank_one(positive(w))
        self.w = np.outer(*axes)
        self.B = SiteSpectrum(self.K, [np.sqrt(axis) for axis in axes])
        self.variance = np.maximum(self.B.variance(), 1e-300) / self.w

    def prior(self, a: np.ndarray) -> np.ndarray:
        """Product K_1 a K_2 of the prior covariance with latents a on the grid (n_1, n_2)."""
        return self.K[0] @ a @ self.K[1]

    def newton_step(self, residual: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(I + W K)^-1 residual, W the ``weights``, near enough, by conjugate gradients.

        In the inner product of K, preconditioned by the same with the rank-one precision.
        """
        step, direction, size = np.zeros_like(residual), 0.0, np.inf
        goal = None
        for _ in range(INNER):
            moved = self.prior(residual)
            omega = np.sqrt(self.w)
            better = residual - omega * self.B.solve(omega * moved)
            before, size = size, float(np.vdot(better, moved))
            goal = INNER_TOLERANCE**2 * size if goal is None else goal
            if not size > goal:
                break
            direction = better + (size / before) * direction
            image = self.prior(direction)
            change = direction + weights * image
            length = size / float(np.vdot(image, change))
            step = step + length * direction
            residual = residual - length * change
        return step

    def line_search(self, a, step, m, v, at: Expected) -> float:
        """Share of a step that raises the objective at these variances: 1, a half, ..; 0 if none does."""
        move, before = self.prior(step), at.value - 0.5 * float(np.vdot(a, m - self.c))
        ascent, share = float(np.vdot(at.slope - a, move)), 1.0
        for _ in range(HALVINGS):
            quadratic = 0.5 * float(np.vdot(a + share * step, m - self.c + share * move))
            value = self.expected(m + share * move, v).value - quadratic
            if value >= before + SUFFICIENT * share * ascent:
                return share
            share *= 0.5
        return 0.0

    def nodes(self, m: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Gauss-Hermite nodes of N(m, v) at the cases, (21, n)."""
        m, v = (self.model.at_cases(values.ravel()) for values in (m, v))
        return m + _NODES[:, None] * np.sqrt(v)

    def expected(self, m: np.ndarray, v: np.ndarray) -> Expected:
        """Mean of the log likelihood, and of its derivatives."""
        with np.errstate(over="ignore", invalid="ignore"):
            value, slope, *_ = self.likelihood.derivatives(self.nodes(m, v), self.model.y)
            by_cell = _by_cell(self.model, _WEIGHTS @ slope)
            return Expected(float((_WEIGHTS @ value).sum()), by_cell.reshape(m.shape))

    def mean_of(self, of: Callable, m: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Mean of a function of predictors and observations."""
        with np.errstate(over="ignore", invalid="ignore"):
            by_case = _WEIGHTS @ of(self.nodes(m, v), self.model.y)
            return _by_cell(self.model, by_case).reshape(m.shape)


logger = logging.getLogger(__name__)
N_PAIRS, N_AVERAGED = 6, 4  # draws and their mirror images, and sweeps with averages over them
N_ALONE = 12  # sweeps where no mode comes first
CENTRE_LOSS = 3.0  # nats at z = 0 that averaged sites may lose: more is far off
EP_TOLERANCE = 1e-6  # any positive sites are exact; these decide how well the sampler mixes


def multi_sites(
    model: MultiGPModel, theta: np.ndarray, start: FrozenSites | None = None
) -> FrozenSites:
    """Sites of several functions at theta, one for each function and case.

    The first are those of the mode, with the diagonal of the expected information there. Then slope and
    information are averaged over draws of h under the sites, the same in each sweep, and precisions go half
    of their way in logs: where classes are far apart, the information at the mode alone is next to nothing.
    The averages are kept where the density at z = 0 is not far below that with the former. Sites on a grid,
    where precisions have rank one, and those where no mode is found, start from ``start``, or from next to
    nothing.

    Raises `NumericalError` where the covariance does not factorise.
    """
    theta = np.asarray(theta, dtype=np.float64)
    full, y = model.full(theta), model.y
    likelihood, least = model.likelihood_at(full), model.likelihood.least_information
    if start is None:
        start = FrozenSites(*(np.full(len(model.parts) * model.n_cases, v) for v in (1e-6, 0.0)))
    structure = structure_of(model, start)
    if not math.isfinite(structure.place(full, np.zeros(structure.n_z))):
        raise NumericalError(
            f"joint split HMC: the covariance is not positive definite at {np.round(full, 3).tolist()}; take "
            "narrower hyperpriors"
        )
    with np.errstate(all="ignore"):
        sites, at_mode = start, None
        try:
            eta = None if model.kronecker else multi_laplace(model, theta).predictor
        except NumericalError:
            eta = None
        if eta is not None:
            precision = np.maximum(likelihood.information(eta, y), least)
            slope = likelihood.log_density_and_gradient(eta, y)[1]
            sites = at_mode = _in_units(structure, eta, slope, precision)
        half = np.random.default_rng(0).standard_normal((N_PAIRS, structure.n_z))
        draws = np.concatenate([half, -half])
        for sweep in range(N_ALONE if at_mode is None else N_AVERAGED):
            structure.sites = sites
            eta = np.stack([_drawn(structure, full, z) for z in draws])
            found = np.maximum(likelihood.information(eta, y).mean(0), least)
            slope = likelihood.log_density_and_gradient(eta, y)[1].mean(0)
            # variances and precisions can swing around their fixed point
            precision = found if sweep == 0 else np.sqrt(precision * found)
            sites = _in_units(structure, eta.mean(0), slope, precision)
        if at_mode is not None:
            of_both = [_at_centre(model, structure, full, own) for own in (at_mode, sites)]
            if not of_both[1] >= of_both[0] - CENTRE_LOSS:
                sites = at_mode  # averages over draws that are far too wide
    return sites.checked()


def _at_centre(
    model: MultiGPModel, structure: MultiStructure, full: np.ndarray, sites: FrozenSites
) -> float:
    """Density at z = 0, where sites say that its mode is, up to a constant."""
    structure.sites = sites
    value = structure.place(full, np.zeros(structure.n_z)) + structure.log_constant()
    likelihood = model.likelihood_at(full)
    value += float(likelihood.log_density(structure.predictor, model.y))
    return value - structure.log_sites()


def _drawn(structure: MultiStructure, full: np.ndarray, z: np.ndarray) -> np.ndarray:
    structure.place(full, z)
    return structure.predictor


def _in_units(
    structure: MultiStructure, eta: np.ndarray, slope: np.ndarray, precision: np.ndarray
) -> FrozenSites:
    """Sites of these slopes and precisions at eta, all (q, n), in the units of `FrozenSites`."""
    rows = []
    parts = [part for part in structure.parts for _ in range(part.n_functions)]
    for part, h, g, w in zip(parts, eta, slope, precision, strict=True):
        if isinstance(part, KroneckerStructure):
            w = np.outer(*rank_one(w.reshape(part.shape))).ravel()
        a = part.amplitude
        rows.append((a * a * w, a * (g + w * h)))
    return FrozenSites(*(np.concatenate(values) for values in zip(*rows, strict=True)))


def frozen_sites(
    model: GPModel | MultiGPModel,
    theta: np.ndarray,
    start: FrozenSites | None = None,
    *,
    quiet: bool = True,
) -> FrozenSites:
    """Sites at theta (d,), in the units of `FrozenSites`; a fit that iterates begins at ``start``.

    Those of rank-one precision on a grid, of Newton's method where the prior is made of basis functions,
    else of expectation propagation; where that does not converge, those of one case at a time, with a warning
    unless ``quiet``.

    Raises `NumericalError` where the covariance does not factorise.
    """
    if isinstance(model, MultiGPModel):
        return multi_sites(model, theta, start)
    if model.kronecker:
        return rank_one_sites(model, theta, start)
    if model.basis:
        return basis_sites(model, theta, start)
    latent = model.at(theta)
    try:
        own = expectation_propagation(latent, tolerance=EP_TOLERANCE).sites
        # a zero of a hurdle likelihood says nothing of its latent value: EP's site has no precision
        flat = own.precision == 0.0
        sites = FrozenSites(np.where(flat, 1.0 / LARGEST_VARIANCE, own.precision), own.shift)
    except NumericalError as error:
        if not quiet:
            logger.warning(
                "joint split HMC: sites are those of one case at a time, with which chains mix less well: %s",
                error,
            )
        sites = _single_sites(model, theta)
    if not model.likelihood.relative_sites:
        return sites
    variance = float(model.prior_variance(model.full(theta), model.X).mean())
    return FrozenSites(sites.precision * variance, sites.shift * np.sqrt(variance))


def _single_sites(model: GPModel, theta: np.ndarray) -> FrozenSites:
    """Sites of each case under its prior variance alone, which always exist; the sampler mixes less well."""
    full = model.full(theta)
    c, variance = model.mean_at(full), np.asarray(model.prior_variance(full, model.X))
    precision, shift, _ = StandardSites()(model.likelihood_at(full), model.y, variance, c)
    return FrozenSites(precision, shift + c * precision)  # over f + c
