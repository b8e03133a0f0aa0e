"""Predictors at new inputs at one setting of the hyperparameters, and mixtures of them over draws."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, qr, solve_triangular
from scipy.special import ndtr, ndtri

from gpmcflow.covariances.basis_design import BasisDesign
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Likelihood
from gpmcflow.models.basis_regression import CollapsedBasisDensity
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.latent_prior import CovarianceAt
from gpmcflow.models.linear_maps import solve
from gpmcflow.models.marginal_likelihood import MarginalLikelihood
from gpmcflow.models.weight_posterior import WeightPosterior

FEWEST_DRAWS = 20
LARGEST_SHARE = 1.0 / 3.0  # of a mean, that its largest hundredth of draws may carry
LEAST_VARIANCE = 1e-11  # relative; what is left of a joint covariance below it is not drawn
_ITERATIONS, _RELATIVE = 200, 1e-14  # of quantiles: most steps, and a step that ends them
_ROOT_2PI = np.sqrt(2.0 * np.pi)
_BLOCK = 1_000_000  # numbers at a time


class Conditional(NamedTuple):
    """Predictors eta = f + c at new inputs as a mixture of normals of equal weights, one a draw."""

    mean: np.ndarray  #: (draw, m)
    variance: np.ndarray  #: (draw, m)
    likelihoods: Sequence[Likelihood]  #: one for each draw, or one for all

    def mean_response(self) -> np.ndarray:
        """E[y] at each input for one unit of exposure, or one trial, (m,); of labels P(y = +1).

        Where it grows like exp(eta), nan where it rests on few draws, see `mean_of_draws`: that mean is
        infinite where the amplitude is log-normal.
        """
        if len(self.likelihoods) == 1:
            by_draw = self.likelihoods[0].mean_response(self.mean, self.variance)
        else:
            rows = zip(self.likelihoods, self.mean, self.variance, strict=True)
            by_draw = np.array([own.mean_response(m, v) for own, m, v in rows])
        unbounded = any(own.log_link or own.exponential_mean for own in self.likelihoods)
        return mean_of_draws(by_draw) if unbounded else by_draw.mean(0)

    def class_probabilities(self) -> np.ndarray | None:
        """P(y = each class) at each input, (class, m); None unless y has classes."""
        if not self.likelihoods[0].classes:
            return None
        n = len(self.mean)
        own = self.likelihoods * (n if len(self.likelihoods) == 1 else 1)
        rows = zip(own, self.mean, self.variance, strict=True)
        return np.mean([each.class_probabilities(m, v) for each, m, v in rows], axis=0)

    def quantiles(self, levels: Sequence[float]) -> np.ndarray:
        """Quantiles of eta (level, m); of points the least that reaches a level."""
        levels, sd = np.asarray(levels)[:, None], np.sqrt(self.variance)
        if len(self.mean) == 1:
            return self.mean + sd * ndtri(levels)
        quantiles = np.empty((len(levels), self.mean.shape[1]))
        points = ~sd.any(axis=0)
        at = self.mean[:, points]
        quantiles[:, points] = np.quantile(at, levels[:, 0], axis=0, method="inverted_cdf")
        spread = np.flatnonzero(~points)
        block = max(1, _BLOCK // (len(levels) * len(self.mean)))
        for first in range(0, len(spread), block):
            own = spread[first : first + block]
            quantiles[:, own] = _mixture_quantiles(self.mean[:, own], sd[:, own], levels)
        return quantiles

    def response_quantiles(self, levels: Sequence[float]) -> np.ndarray | None:
        """Exact quantiles of y (level, m) where to_eta(y) is a mixture of normals; None where it is y.

        Of labels they are those of E[y | eta], which rises with eta.
        """
        own = self.likelihoods[0]
        if own.binary and len(self.likelihoods) == 1:
            return own.conditional_mean(self.quantiles(levels))
        conjugate = all(each.conjugate and each.eta_of == own.eta_of for each in self.likelihoods)
        if not conjugate or own.eta_of == "y":
            return None
        n = self.mean.shape[1]
        noise = np.array([each.noise_variances(n) for each in self.likelihoods])
        return own.from_eta(self._replace(variance=self.variance + noise).quantiles(levels))

    def take(self, rows: slice) -> Conditional:
        """Those at some of the new inputs."""
        own = [likelihood.take(rows) for likelihood in self.likelihoods]
        return Conditional(self.mean[:, rows], self.variance[:, rows], own)

    def simulate(self, rng: np.random.Generator, n: int) -> Iterable[tuple[Likelihood, np.ndarray]]:
        """Draws of eta with their likelihood, at least ``n`` of each input in all."""
        shape = (-(-n // len(self.mean)), self.mean.shape[1])
        own = self.likelihoods * (len(self.mean) if len(self.likelihoods) == 1 else 1)
        for likelihood, mean, variance in zip(own, self.mean, self.variance, strict=True):
            yield likelihood, mean + np.sqrt(variance) * rng.standard_normal(shape)


def _mixture_quantiles(mean: np.ndarray, sd: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles (level, m) of mixtures of normals, means and sds (draw, m), at ``levels`` (level, 1).

    Newton's method inside a bracket, which is halved wherever a step is not half of the last one.
    """
    sd = np.maximum(sd, 1e-300)
    ends = mean + sd * ndtri(levels[:, None])  # of the draws' own: theirs lie between
    low, high = ends.min(1), ends.max(1)
    x = mean.mean(0) + np.sqrt(mean.var(0) + np.square(sd).mean(0)) * ndtri(levels)
    x = np.clip(x, low, high)
    last = width = high - low
    tolerance = _RELATIVE * np.maximum(width, np.abs(low + high))
    for _ in range(_ITERATIONS):
        z = (x[:, None] - mean) / sd
        excess = ndtr(z).mean(1) - levels
        below = excess < 0.0
        low, high = np.where(below, x, low), np.where(below, high, x)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            density = (np.exp(-0.5 * z * z) / sd).mean(1) / _ROOT_2PI
            step = x - excess / density
        small = np.abs(step - x) <= np.maximum(0.5 * last, tolerance)
        newton = small & (step >= low) & (step <= high)
        following = np.where(newton, step, 0.5 * (low + high))
        last, x = np.abs(following - x), following
        if np.all(last <= tolerance):
            break
    return x


class State(NamedTuple):
    """What is known at one setting of the hyperparameters: draws of latents, or a Gaussian."""

    model: LatentGaussianModel
    latents: np.ndarray | None = None  #: predictors eta = f + c at the cases (draw, n)
    sites: GaussianSites | None = None

    def predictor(self) -> Predictor:
        """The predictor given the latents, or under prior times sites: sites of positive precision are
        observations nu / tau of variance 1 / tau, others have a whitened factor W.

        Raises `InputError` for a model that was not made of a covariance function, or has no constant mean.
        """
        function, c = self.model.covariance_function, self.model.mean
        if function is None:
            raise InputError(
                "prediction: the model was not built from a covariance function and inputs; take GPModel.at"
            )
        if getattr(function, "model", None) is not None and function.model.basis:
            raise InputError(
                "prediction: the latent variables are weights of basis functions; take predict"
            )
        if np.ptp(c) != 0.0:
            raise InputError("prediction: the prior mean must be constant to predict at new inputs")
        factor, added, sites = self.model.cholesky, None, self.sites
        model = getattr(function, "model", None)
        apart = model is not None and model.functions is not None
        if sites is not None and not apart and sites.as_observations:
            factor, b = sites.as_observations
            return Predictor(function, self.model.likelihood, float(c[0]), factor, b[None])
        if self.latents is not None:
            coefficients = solve(factor, self.latents - c[0])
        else:
            coefficients = sites.whitened_mean[None]
            added = sites.whitened_factor if np.any(sites.precision) else np.eye(len(c))
        made = function, self.model.likelihood, float(c[0]), factor, coefficients, added
        if not apart:
            return Predictor(*made)
        return ApartPredictor(*made, model.rest_factor(function.full, least=model.least_jitter)[0])


def regression_predictor(model: GPModel, theta: np.ndarray) -> Predictor:
    """The predictor of a regression with Gaussian noise D, latents integrated out.

    With C = K + D = L L', b = L^-1 (y - c): one factorisation. Source: Rasmussen & Williams (2006), eqs.
    2.25-2.26.
    """
    full = model.full(theta)
    likelihood, c = model.likelihood_at(full), model.mean_at(full)
    covariance = CovarianceAt(model, full)
    work = MarginalLikelihood(model)
    factor = work.dense_factor(full)
    made = covariance, likelihood, c, factor, solve(factor, (model.eta_y - c)[None])
    if model.functions is None:
        return Predictor(*made)
    return ApartPredictor(*made, None, work.dense_factor(full, rest=True))


@dataclass(frozen=True, eq=False)
class Predictor:
    """eta(x) at one setting of the hyperparameters, normal for each draw of coefficients b.

    With q = L^-1 k_x: mean = c + q'b, variance = k(x, x) - q'q + |W^-1 q|^2, covariances likewise.
    Source: Rasmussen & Williams (2006), eqs. 3.60-3.61, in whitened coordinates.

    Attributes
    ----------
    covariance, likelihood, mean:
        k, the likelihood, and c.
    factor:
        L, lower triangular (n, n).
    coefficients:
        b (draw, n).
    added:
        W, upper triangular (n, n), or None where what b stands for is known.
    """

    covariance: CovarianceAt
    likelihood: Likelihood
    mean: float
    factor: np.ndarray
    coefficients: np.ndarray
    added: np.ndarray | None = None

    @property
    def model(self) -> GPModel:
        """Model whose process is predicted."""
        return self.covariance.model

    def moments(self, X_new: np.ndarray) -> Conditional:
        """Means and variances at each of the coded inputs (m, p)."""
        q = solve(self.factor, self.covariance(X_new))
        variance = np.maximum(self.covariance.diagonal(X_new) - np.einsum("ij,ij->i", q, q), 0.0)
        if self.added is not None:
            spread = self._spread(q)
            variance = variance + np.einsum("ij,ij->j", spread, spread)
        mean = self.mean + self.coefficients @ q.T
        return Conditional(mean, np.broadcast_to(variance, mean.shape), [self.likelihood])

    def joint(
        self, X_new: np.ndarray, average: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means (draw, m) and covariance (m, m) at coded inputs (m, p), or of averages of them.

        ``average`` (g, m), whose rows sum to 1, puts averages in the place of the inputs, at the cost of g of
        them.
        """
        prior, q = self.covariance.among(X_new), self._whitened(X_new, average)
        if average is not None:
            prior = average @ prior @ average.T
        covariance = prior - q @ q.T
        if self.added is not None:
            spread = self._spread(q)
            covariance += spread.T @ spread
        return self.mean + self.coefficients.reshape(-1, q.shape[1]) @ q.T, covariance

    def draw(self, X_new: np.ndarray, rng: np.random.Generator, n: int) -> np.ndarray:
        """Joint draws of eta at coded inputs (m, p), n of them, or one for each of n coefficients, (n, m)."""
        mean, covariance = self.joint(X_new)
        root = root_of(covariance)
        return mean + rng.standard_normal((n, root.shape[1])) @ root.T

    def _whitened(self, X_new: np.ndarray, average: np.ndarray | None) -> np.ndarray:
        """q (m, n), or of averages (g, n)."""
        cross = self.covariance(X_new)
        return solve(self.factor, cross if average is None else average @ cross)

    def _spread(self, q: np.ndarray) -> np.ndarray:
        return solve_triangular(self.added, q.T, check_finite=False)


@dataclass(frozen=True, eq=False)
class ApartPredictor(Predictor):
    """The predictor where `GPModel.functions` stand apart, K = R + V V', and far from 0 take all digits of K.

    With r_x of the rest, F F' = R (or R + D), p = F^-1 r_x, W = F^-1 V, M = I + W'W and g = v(x) - W'p: the
    cases' weights are a = F^-T (p + W M^-1 g), q is L'a, and k(x, x) - q'q is r(x, x) - p'p + g'M^-1 g.
    Source: Rasmussen & Williams (2006), section 2.7.

    Attributes
    ----------
    rest:
        F, lower triangular (n, n).
    """

    rest: np.ndarray | None = None

    def moments(self, X_new: np.ndarray) -> Conditional:
        """Means and variances at each of the coded inputs (m, p)."""
        p, h, q = self._parts(X_new)
        own = self.covariance.rest_diagonal(X_new) - np.einsum("ij,ij->i", p, p)
        variance = np.maximum(own, 0.0) + np.einsum("ij,ij->i", h, h)
        if self.added is not None:
            spread = self._spread(q)
            variance = variance + np.einsum("ij,ij->j", spread, spread)
        mean = self.mean + self.coefficients @ q.T
        return Conditional(mean, np.broadcast_to(variance, mean.shape), [self.likelihood])

    def joint(
        self, X_new: np.ndarray, average: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means (draw, m) and covariance (m, m) at coded inputs (m, p), or of averages of them."""
        parts, own = self._parts(X_new), self.covariance.rest_among(X_new)
        if average is not None:
            parts, own = [average @ part for part in parts], average @ own @ average.T
        p, h, q = parts
        covariance = own - p @ p.T + h @ h.T
        if self.added is not None:
            spread = self._spread(q)
            covariance += spread.T @ spread
        return self.mean + self.coefficients.reshape(-1, q.shape[1]) @ q.T, covariance

    def _parts(self, X_new: np.ndarray) -> list[np.ndarray]:
        """p (m, n), h (m, k) with h'h = g'M^-1 g, and q (m, n)."""
        model, full, F = self.model, self.covariance.full, self.rest
        p = solve(F, self.covariance.rest(X_new))
        W = solve(F, model.function_values(full)).T
        g = model.function_values(full, X_new).T - p @ W
        R = qr(np.concatenate([W, np.eye(W.shape[1])]), mode="economic", check_finite=False)[1]
        h = solve_triangular(R, g.T, trans=1).T
        weights = p + solve_triangular(R, h.T).T @ W.T
        a = solve_triangular(F, weights.T, lower=True, trans=1)
        return [p, h, (self.factor.T @ a).T]


@dataclass(frozen=True, eq=False)
class GridPredictor(Predictor):
    """The predictor of a `GPModel` on a grid n_1 x n_2 given latents: q is q_1 x q_2, by L_1 and L_2.

    ``factor`` holds L_1 and L_2, ``coefficients`` L^-1 f (draw, n_1, n_2). No matrix is n x n, and of m new
    inputs the `moments` need m (n_1 + n_2) numbers.
    """

    factor: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, model: GPModel, theta: np.ndarray, eta: np.ndarray) -> GridPredictor:
        """At theta (d,), given predictors eta = f + c at the cases (draw, n).

        Raises `NumericalError` where the covariance does not factorise.
        """
        full = model.full(theta)
        covariance, c, factor = (
            CovarianceAt(model, full),
            model.mean_at(full),
            model.filled_factor(full),
        )
        first, second = (np.asfortranarray(part.dense()) for part in factor.parts)
        first *= model.scale(full)
        rows = solve(second, (eta - c).reshape(-1, *factor.shape))
        coefficients = solve(first, rows.swapaxes(1, 2)).swapaxes(1, 2)
        return cls(covariance, model.likelihood_at(full), c, (first, second), coefficients)

    def moments(self, X_new: np.ndarray) -> Conditional:
        """Means and variances at each of the coded inputs (m, p)."""
        (first, second), (rows, columns) = self._axes(X_new)
        own = self.covariance.diagonal(X_new)
        known = np.einsum("ij,ij->i", first, first)[rows]
        known *= np.einsum("ij,ij->i", second, second)[columns]
        q = second[columns]
        mean = np.array([np.einsum("ij,ij->i", (first @ b)[rows], q) for b in self.coefficients])
        variance = np.maximum(own - known, 0.0)
        return Conditional(
            self.mean + mean, np.broadcast_to(variance, mean.shape), [self.likelihood]
        )

    def _whitened(self, X_new: np.ndarray, average: np.ndarray | None) -> np.ndarray:
        (first, second), (rows, columns) = self._axes(X_new)
        q = (first[rows, :, None] * second[columns, None, :]).reshape(len(X_new), -1)
        return q if average is None else average @ q

    def _axes(self, X_new: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """q_a of the distinct coordinates of each axis, and which of them each new input has."""
        axes, places = zip(
            *(np.unique(column, return_inverse=True) for column in X_new.T), strict=True
        )
        model, full = self.covariance.model, self.covariance.full
        cross = model.covariance_buffers().cross_of_axes(full, axes)
        return [solve(L, k) for L, k in zip(self.factor, cross, strict=True)], list(places)


def root_of(covariance: np.ndarray) -> np.ndarray:
    """R (m, rank) with R R' = covariance; rows of the same inputs, for which it is singular, are equal."""
    least = LEAST_VARIANCE * max(float(np.diag(covariance).max()), 0.0)
    factor, order, rank, _ = lapack.dpstrf(covariance, tol=least, lower=1)
    root = np.empty((len(covariance), rank))
    root[order - 1] = np.tril(factor[:, :rank])
    return root


def latent_predictor(model: GPModel, theta: np.ndarray, eta: np.ndarray) -> Predictor:
    """The predictor at theta (d,) given predictors eta = f + c at the cases (draw, n)."""
    if model.kronecker:
        return GridPredictor.of(model, theta, eta)
    return State(model.at(theta), eta).predictor()


def conditional(state: State | GaussianSites, X_new: object, unseen: str = "error") -> Conditional:
    """Predictors at new inputs (m, p), or a table of them, given latents, or given a Gaussian of sites."""
    state = State(state.model, sites=state) if isinstance(state, GaussianSites) else state
    predictor = state.predictor()
    return predictor.moments(predictor.covariance.model.new_inputs(X_new, unseen))


def prior_conditionals(
    model: GPModel, X_new: object, n_draws: int, unseen: str = "error"
) -> list[Conditional]:
    """Predictors at new inputs under the prior, N(c, k_**), at draws of free hyperparameters."""
    rng, X_new = np.random.default_rng(0), model.new_inputs(X_new, unseen)
    parts = []
    for _ in range(n_draws if model.dim else 1):
        full = model.full(model.draw_prior(rng))
        variance = CovarianceAt(model, full).diagonal(X_new)[None]
        mean = np.full_like(variance, model.mean_at(full))
        parts.append(Conditional(mean, variance, [model.likelihood_at(full)]))
    return parts


def mean_of_draws(values: np.ndarray) -> np.ndarray:
    """Mean of positive values (draw, m) over draws, (m,); nan where it rests on few of them.

    There the largest hundredth, one at least, carries more than a third of the sum: the mean may be infinite,
    and more draws would give another one. Fewer than `FEWEST_DRAWS` draws are not judged.
    """
    n = len(values)
    if n < FEWEST_DRAWS:
        return values.mean(0)
    n_largest = max(1, n // 100)
    with np.errstate(invalid="ignore", over="ignore"):
        largest = np.partition(values, n - n_largest, axis=0)[n - n_largest :].sum(0)
        total = values.sum(0)
        told = np.isfinite(total) & (largest <= LARGEST_SHARE * total)
        return np.where(told, total / n, np.nan)


# Predictors at new inputs of a model with basis functions: products with them, no solve of n equations.

log = logging.getLogger(__name__)


class NewDesigns:
    """Basis functions at the new inputs that the draws of a model share, each made once.

    They are kept as long as their inputs are: who makes inputs anew for each draw has no room for all.
    Says so where there are inputs outside a box.
    """

    def __init__(self, model: GPModel) -> None:
        self.model = model
        self._known: list[tuple[weakref.ref[np.ndarray], BasisDesign]] = []

    def of(self, X_new: np.ndarray) -> BasisDesign:
        """Those at coded inputs (m, p), an array that is not changed."""
        self._known = [(X, design) for X, design in self._known if X() is not None]
        for X, design in self._known:
            if X() is X_new:
                return design
        design = BasisDesign(self.model.basis, X_new)
        self._known.append((weakref.ref(X_new), design))
        outside = np.zeros(len(X_new), dtype=bool)
        for block in self.model.basis.eigen:
            outside |= block.unknown(X_new)
        if outside.any():
            log.warning(
                "predict: %d of %d new inputs lie outside the box of the basis functions, where the prior is "
                "predicted; sample with a larger boundary to predict there", outside.sum(), len(X_new),
            )  # fmt: skip
        return design


@dataclass(frozen=True, eq=False)
class BasisPredictor:
    """eta(x) = sum_j s_j phi_j(x) w_j + c at one setting of the hyperparameters; as `Predictor`.

    Attributes
    ----------
    designs, full, likelihood:
        Basis functions at new inputs, all coordinates, and the likelihood.
    coefficients:
        Weights w, or their means (draw, m).
    posterior:
        Their Gaussian, or None where they are known.
    """

    designs: NewDesigns
    full: np.ndarray
    likelihood: Likelihood
    coefficients: np.ndarray
    posterior: WeightPosterior | None = None
    scales: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", self.model.basis.scales(self.full)[0])

    @property
    def model(self) -> GPModel:
        """Model whose process is predicted."""
        return self.designs.model

    def moments(self, X_new: np.ndarray) -> Conditional:
        """Means and variances at each of the coded inputs (m, p)."""
        design = self.designs.of(X_new)
        variance = design.unknown_variance(self.full)
        if self.posterior:
            variance += self.posterior.variances(design)
        mean = self._means(design)
        return Conditional(mean, np.broadcast_to(variance, mean.shape), [self.likelihood])

    def joint(
        self, X_new: np.ndarray, average: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means (draw, m) and covariance (m, m) at coded inputs (m, p), or of averages of them.

        As `Predictor.joint`; what no weight tells counts as independent between inputs.
        """
        design = self.designs.of(X_new)
        mean, own = self._means(design), design.unknown_variance(self.full)
        if average is None:
            covariance = np.diag(own)
        else:
            mean, covariance = mean @ average.T, (average * own) @ average.T
        if self.posterior:
            spread = np.zeros((len(covariance), len(self.scales)))
            for rows, block in self.posterior.spread(design):
                if average is None:
                    spread[rows] = block
                else:
                    spread += average[:, rows] @ block
            covariance += spread @ spread.T
        return mean, covariance

    def draw(self, X_new: np.ndarray, rng: np.random.Generator, n: int) -> np.ndarray:
        """As `Predictor.draw`: draws of the weights, and one of each level that no weight tells."""
        design = self.designs.of(X_new)
        eta = np.broadcast_to(self._means(design, self.weights(rng, n)), (n, design.n)).copy()
        for block, rows, X in design.unknown:
            eta[:, rows] += block.unknown_draws(self.full, X, rng, n)
        return eta

    def weights(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws of the weights (n, m), or those that are known (draw, m)."""
        if self.posterior is None:
            return self.coefficients
        return np.array(
            [self.posterior.weights(z) for z in rng.standard_normal((n, len(self.scales)))]
        )

    def _means(self, design: BasisDesign, weights: np.ndarray | None = None) -> np.ndarray:
        weights = self.coefficients if weights is None else weights
        means = np.empty((len(weights), design.n))
        for w, out in zip(weights, means, strict=True):
            design.multiply(self.scales * w, out)
        means += self.model.mean_at(self.full)
        return means


def basis_predictor(
    designs: NewDesigns,
    full: np.ndarray,
    weights: np.ndarray | None = None,
    sites: GaussianSites | None = None,
    regression: CollapsedBasisDensity | None = None,
) -> BasisPredictor:
    """The predictor given draws of weights (draw, m), their Gaussian of sites, or real data."""
    likelihood = designs.model.likelihood_at(full)
    if weights is not None:
        return BasisPredictor(designs, full, likelihood, weights)
    posterior = regression.posterior(full) if sites is None else sites.weight_posterior
    if posterior is None:
        s = designs.model.basis.scales(full)[0]
        posterior = WeightPosterior.of_factor(sites.whitened_factor, sites.whitened_mean, s)
    return BasisPredictor(designs, full, likelihood, posterior.mean[None], posterior)
