"""A mixture of Student-t densities at the modes of a posterior, and the search that finds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri

from gpmcflow.approximations.stand_ins import array_text
from gpmcflow.diagnostics.importance_weights import normalised_weights
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.parameters.space import ParameterSpace

# All modes of a density whose coordinates are standard normal a priori.
#
# The density is screened at Sobol points. Climbs begin at points that lie above their neighbours, and at a
# few others; one that comes close to a mode that is known already ends there. A single climb finds one
# mode, several climbs from the centre of the prior often find the same one. Teeth of a comb, as the
# likelihood of a period has, need the screen.
#
# Source: Boender & Rinnooy Kan (1987), Math. Program. 37, for clustered starts.

MOST_COORDINATES = 8  # of more, a mixture has few effective draws
MOST_FITTED = 300  # rows up to which 2,000 EP fits take less than minutes
MOST_CAREFUL = 100  # of factors that are not log-concave, whose fits are damped
SCREENED, FEW_SCREENED = 256, 128  # Sobol points, and of a dear density
CENTRAL = 0.98  # share of each coordinate's prior that they fill
OTHERS = 4  # climbs from points that are no local maxima
CLOSE = 0.5  # standard deviations from a known mode at which a climb ends
MERGED, SAME_HEIGHT = 1.5, 1.0  # standard deviations and nats within which two modes are one
LEAST_CURVATURE = 0.25  # the prior's own is 1
REACH, LEAST_FALL, SIDES = 1.5, 1e-3, (0.5, 2.0)  # sds, nats, and bounds of a mode's sides
STEP = 1e-3  # of the differences of gradients
MOST_STEPS = 100  # of a climb
STANDSTILL = 2e-9  # gain of a step over the value, at which a climb ends
DEAR_STANDSTILL = 1e-6  # of a dear density: what its fits can tell
# nats per prior standard deviation at which a climb ends: the latter stands for 0.001 nats at most
SLOPE, DEAR_SLOPE = 1e-3, 0.03
# stands for the negative log density where there is none: a line search needs a number
NOWHERE = 1e10


def suits(model: GPModel) -> bool:
    """Whether a search is cheap and a mixture good: latents integrated out, up to 8 hyperparameters."""
    return model.likelihood.conjugate and _has_few_coordinates(model)


def suits_by_ep(model: GPModel | MultiGPModel) -> bool:
    """Whether a search by EP's evidence is: quick fits, up to 8 hyperparameters and 300 rows.

    On a grid a fit is far slower than a gradient.
    """
    quick = has_quick_fits(model) and not model.likelihood.conjugate and not model.kronecker
    quick &= model.n_cases <= MOST_FITTED
    return quick and _has_few_coordinates(model)


def has_quick_fits(model: GPModel | MultiGPModel) -> bool:
    """Whether EP takes few sweeps, of log-concave factors, or quick ones, of Student-t."""
    return model.likelihood.log_concave or not model.likelihood.frozen_sites


def suits_by_careful_ep(model: GPModel | MultiGPModel) -> bool:
    """Whether EP's evidence is searched in seconds for factors that are not log-concave: up to 100 rows.

    EP takes many sweeps for them, so that chains, which are cheaper, come first.
    """
    quick = not (model.likelihood.log_concave or model.kronecker or model.basis)
    return quick and model.n_cases <= MOST_CAREFUL and _has_few_coordinates(model)


def _has_few_coordinates(model: GPModel | MultiGPModel) -> bool:
    if isinstance(model, MultiGPModel):  # no evidence is made of their mixtures
        return False
    return 0 < model.dim <= MOST_COORDINATES and has_normal_coordinates(model)


def has_normal_coordinates(model: GPModel | MultiGPModel) -> bool:
    """Whether each hyperprior has a transform to a normal."""
    try:
        return bool(model.parameters.normal)
    except InputError:
        return False


def symmetric_roots(matrices: np.ndarray) -> np.ndarray:
    """R (..., d, d), symmetric, R R = S positive definite."""
    values, vectors = np.linalg.eigh(matrices)
    return (vectors * np.sqrt(values)[..., None, :]) @ vectors.swapaxes(-1, -2)


class Mode(NamedTuple):
    """A local maximum x (d,) of a density, and its curvature there."""

    x: np.ndarray
    log_density: float
    precision: np.ndarray  #: negative Hessian (d, d), eigenvalues 0.25 at least

    @property
    def log_mass(self) -> float:
        """Log integral of the density around the mode by Laplace's approximation."""
        log_det = float(np.linalg.slogdet(self.precision)[1])
        return self.log_density + 0.5 * (len(self.x) * np.log(2.0 * np.pi) - log_det)

    def sides(self, density: LogDensity) -> np.ndarray:
        """Lengths (2, d) of a Gaussian's sides that falls as the density does, below and above the mode.

        In units of the standard deviations by the curvature, along the columns of its symmetric root.
        """
        steps = REACH * symmetric_roots(np.linalg.inv(self.precision))
        fall = np.array(
            [self.log_density - density.values(self.x + way * steps) for way in (-1, 1)]
        )
        return np.clip(REACH / np.sqrt(2.0 * np.maximum(fall, LEAST_FALL)), *SIDES)

    def distance(self, x: np.ndarray) -> float:
        """Distance of x in standard deviations of this mode."""
        way = x - self.x
        return float(np.sqrt(way @ self.precision @ way))


def find_modes(density: LogDensity, rng: np.random.Generator) -> list[Mode]:
    """Modes of a density t(x), x ~ N(0, I) a priori, those of most mass first.

    Parameters
    ----------
    density:
        log t with a gradient, such as `NormalDensity`.
    rng:
        Scrambles the Sobol points and picks the starts that are no local maxima.

    Raises
    ------
    NumericalError:
        Where the density is zero at all points of the screen.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> from gpmcflow.models.regression_density import NormalDensity
    >>> x = np.linspace(0.0, 1.0, 12)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian(0.1))
    >>> modes = find_modes(NormalDensity(model), np.random.default_rng(0))
    >>> len(modes), modes[0].x.round(1)
    (1, array([-1.3, -0.1]))
    """
    points = _screen(density.dim, FEW_SCREENED if density.dear else SCREENED, rng)
    values = density.values(points)
    if not np.isfinite(values).any():
        raise NumericalError(
            f"modes: the density of {', '.join(density.names)} is zero at all {len(points)} points tried; "
            "check the hyperpriors"
        )
    highest = _local_maxima(points, values)
    rest = np.setdiff1d(np.flatnonzero(np.isfinite(values)), highest)
    others = rng.choice(rest, min(OTHERS, len(rest)), replace=False)
    return more_modes(density, [], points[np.concatenate([highest, others])])


def more_modes(
    density: LogDensity, known: Sequence[Mode], starts: Sequence[np.ndarray] | np.ndarray
) -> list[Mode]:
    """Known modes, and those that climbs from ``starts`` (k, d) find; those of most mass first."""
    modes = list(known)
    for start in starts:
        top = _climb(density, start, modes)
        if top is None:
            continue
        mode = _mode_at(density, top)
        same = [
            k for k, other in enumerate(modes)
            if min(other.distance(mode.x), mode.distance(other.x)) < MERGED
            and abs(other.log_density - mode.log_density) < SAME_HEIGHT
        ]  # fmt: skip
        if not same:
            modes.append(mode)
        elif mode.log_density > modes[same[0]].log_density:
            modes[same[0]] = mode
    return sorted(modes, key=lambda mode: -mode.log_mass)


def _screen(dim: int, n: int, rng: np.random.Generator) -> np.ndarray:
    from scipy.stats import qmc  # takes long to load

    uniform = qmc.Sobol(dim, rng=rng).random(n)
    return ndtri(0.5 + CENTRAL * (uniform - 0.5))


def _local_maxima(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Points that no neighbour in the (d + 1)-nearest-neighbour graph exceeds, the highest first."""
    apart = np.square(points[:, None] - points).sum(-1)
    neighbours = np.argsort(apart, axis=1)[:, 1 : points.shape[1] + 2]
    is_maximum = np.isfinite(values) & (values >= values[neighbours].max(1))
    lower = values[:, None] > values[neighbours]
    is_maximum[neighbours[lower]] = False  # the graph has no direction
    maxima = np.flatnonzero(is_maximum)
    return maxima[np.argsort(-values[maxima], kind="stable")]


def _climb(density: LogDensity, start: np.ndarray, known: Sequence[Mode]) -> np.ndarray | None:
    """The top x (d,) that L-BFGS reaches, None where the way comes close to a known mode."""

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = density.value_and_gradient(x)
        return (-value, -gradient) if np.isfinite(value) else (NOWHERE, np.zeros_like(x))

    def close(x: np.ndarray) -> bool:
        return any(mode.distance(x) < CLOSE for mode in known)

    def check(intermediate_result) -> None:
        if close(intermediate_result.x):
            raise StopIteration

    if close(start):
        return None
    slope, standstill = (DEAR_SLOPE, DEAR_STANDSTILL) if density.dear else (SLOPE, STANDSTILL)
    top = minimize(
        negative, start, jac=True, method="L-BFGS-B", callback=check,
        options={"maxiter": MOST_STEPS, "gtol": slope, "ftol": standstill},
    )  # fmt: skip
    return None if top.fun >= NOWHERE or close(top.x) else top.x


def _mode_at(density: LogDensity, x: np.ndarray) -> Mode:
    """The mode at a top, its curvature by differences of gradients: central ones, or of a dear density
    forward ones, half as many."""
    value, slope = density.value_and_gradient(x)
    steps = STEP * np.eye(density.dim)
    after = np.array([density.value_and_gradient(x + h)[1] for h in steps])
    if density.dear:
        hessian = (after - slope) / STEP
    else:
        before = np.array([density.value_and_gradient(x - h)[1] for h in steps])
        hessian = (after - before) / (2.0 * STEP)
    values, vectors = np.linalg.eigh(-0.5 * (hessian + hessian.T))
    values = np.maximum(values, LEAST_CURVATURE)
    return Mode(x, value, (vectors * values) @ vectors.T)


# A mixture of Student-t densities at the modes of a posterior, with a share of the prior.
#
# q(x) = 0.1 N(x; 0, I) + 0.9 sum_k w_k t_5(x; m_k, S_k)
#
# x are normal coordinates: N(0, I) is their prior. It bounds the weights t / q where the search missed a
# mode, so that such a mode is seen in the weights instead of in nothing.

DEFENSIVE = 0.1  # share of the prior
DOF = 5.0
NEGLIGIBLE = 0.001  # mass of a mode below which it has no component
FLOOR = 0.02  # weight of a component
REFITS, REFIT_DRAWS, FEW_REFIT_DRAWS = 2, 300, 150  # the last of a dear density
LEAST_DRAWS = 5  # effective draws for each coordinate, below which a component keeps its place
ROUNDS = 5  # of a fit to draws of a posterior
HEAVIEST = 8  # draws that climbs begin at, to see whether the mixture lacks a mode
HEAVY = 3.0  # times the mean weight; no climb begins at a lighter draw
MOST_FITS = 4
_LOG_2PI = np.log(2.0 * np.pi)


class Mixture:
    """q(x), from masses (K,), locations (K, d) and scale matrices (K, d, d) of its components.

    ``masses`` are shares of the posterior, which need not sum to one; weights w_k have a floor of 0.02.
    With ``sides`` (K, 2, d) each component is longer on one side than on the other: with S = R R, R
    symmetric, coordinate i of R^-1 (x - m) is stretched by sides[0, i] below zero and by sides[1, i] above.
    Source: Fernandez & Steel (1998), J. Am. Stat. Assoc. 93, of such sides in one dimension.
    """

    def __init__(
        self,
        masses: np.ndarray,
        locations: np.ndarray,
        scales: np.ndarray,
        sides: np.ndarray | None = None,
    ) -> None:
        self.masses = masses / masses.sum()
        self.locations, self.scales = locations, scales
        floored = np.maximum(self.masses, FLOOR)
        self.weights = floored / floored.sum()
        shares = np.append(DEFENSIVE, (1.0 - DEFENSIVE) * self.weights)
        self._ends = np.cumsum(shares)[
            :-1
        ]  # of the uniform numbers that ask for the prior, or a component
        d, self.sides = self.dim, sides
        if sides is None:
            self._factors = np.linalg.cholesky(scales)
            log_dets = np.log(np.diagonal(self._factors, axis1=1, axis2=2)).sum(1)
        else:
            self._factors = symmetric_roots(scales)
            log_dets = np.linalg.slogdet(self._factors)[1] + np.log(sides.mean(1)).sum(1)
        self._inverses = np.linalg.inv(self._factors)
        of_student = math.lgamma(0.5 * (DOF + d)) - math.lgamma(0.5 * DOF)
        of_student -= 0.5 * d * math.log(DOF * math.pi)
        self._constants = np.log(self.weights) + of_student - log_dets

    @classmethod
    def at_modes(cls, modes: Sequence[Mode], density: LogDensity | None = None) -> Mixture:
        """A component at each mode of more than a thousandth of the mass by Laplace's approximation.

        With ``density`` their sides are as long as it falls on them: 2 d values at each mode.
        """
        log_masses = np.array([mode.log_mass for mode in modes])
        masses = normalised_weights(log_masses)
        kept = [mode for mode, mass in zip(modes, masses, strict=True) if mass >= NEGLIGIBLE]
        return cls(
            masses[masses >= NEGLIGIBLE],
            np.array([mode.x for mode in kept]),
            np.linalg.inv([mode.precision for mode in kept]),
            None if density is None else np.array([mode.sides(density) for mode in kept]),
        )

    @classmethod
    def of_draws(cls, x: np.ndarray) -> Mixture:
        """One component, fitted to draws x (n, d) of a posterior; the prior's if they stand at few places."""
        d = x.shape[1]
        try:
            fitted = cls(np.ones(1), x.mean(0)[None], np.cov(x.T).reshape(1, d, d))
            for _ in range(ROUNDS):
                fitted = fitted.refitted(x, np.zeros(len(x)))
        except np.linalg.LinAlgError:
            return cls(np.ones(1), np.zeros((1, d)), np.eye(d)[None])
        return fitted

    @property
    def dim(self) -> int:
        """Number d of coordinates."""
        return self.locations.shape[1]

    def wider(self, factor: float) -> Mixture:
        """The same with ``factor`` times the scale matrices."""
        return Mixture(self.masses, self.locations, factor * self.scales, self.sides)

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent draws x (n, d)."""
        component = np.searchsorted(self._ends, rng.random(n), side="right") - 1
        z = rng.standard_normal((n, self.dim))
        stretch = np.sqrt(DOF / rng.chisquare(DOF, n))
        way = z * stretch[:, None]
        if self.sides is not None:
            below, above = self.sides[component].transpose(1, 0, 2)
            up = rng.random(way.shape) < above / (below + above)
            way = np.abs(way) * np.where(up, above, -below)
        moved = (self._factors[component] @ way[..., None])[..., 0]
        return np.where(component[:, None] < 0, z, self.locations[component] + moved)

    def log_components(self, x: np.ndarray) -> np.ndarray:
        """log w_k t_5(x; m_k, S_k), (n, K), at x (n, d)."""
        distances = self._distances(x)
        tails = 0.5 * (DOF + self.dim) * np.log1p(distances / DOF)
        return self._constants - tails

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """log q(x), (n,), at x (n, d)."""
        prior = -0.5 * (np.square(x).sum(1) + self.dim * _LOG_2PI)
        terms = self.log_components(x)
        highest = terms.max(1)
        of_modes = highest + np.log(np.exp(terms - highest[:, None]).sum(1))
        return np.logaddexp(math.log(DEFENSIVE) + prior, math.log1p(-DEFENSIVE) + of_modes)

    def nearest(self, x: np.ndarray) -> np.ndarray:
        """The component (n,) that each x (n, d) most likely belongs to."""
        return self.log_components(x).argmax(1)

    def shares_of(self, x: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
        """Share (K,) of weighted draws x (n, d) that is nearest to each component."""
        shares = normalised_weights(log_weights)
        return np.bincount(self.nearest(x), shares, len(self.masses))

    def refitted(self, x: np.ndarray, log_weights: np.ndarray) -> Mixture:
        """A step of population Monte Carlo: masses, locations and scales by weighted draws x (n, d).

        A component with few effective draws keeps its location and scale.
        Source: Cappe, Douc, Guillin, Marin & Robert (2008), Stat. Comput. 18, section 3.
        """
        d = self.dim
        of_each = np.exp(self.log_components(x) - self.log_density(x)[:, None]) * (1.0 - DEFENSIVE)
        shares = normalised_weights(log_weights)[:, None] * of_each
        stretch = (DOF + d) / (DOF + self._distances(x))
        locations, scales = self.locations.copy(), self.scales.copy()
        sides = None if self.sides is None else self.sides.copy()
        for k, share in enumerate(shares.T):
            if not share.sum() ** 2 >= LEAST_DRAWS * d * np.square(share).sum() > 0.0:
                continue
            pull = share * stretch[:, k]
            locations[k] = pull @ x / pull.sum()
            residual = x - locations[k]
            scales[k] = (residual * pull[:, None]).T @ residual / share.sum()
            if sides is not None:
                sides[k] = 1.0
        return Mixture(np.maximum(shares.sum(0), 1e-12), locations, scales, sides)

    def _distances(self, x: np.ndarray) -> np.ndarray:
        """Squared distances (n, K) from the locations, in units of the scales."""
        way = (self._inverses @ (x[:, None] - self.locations)[..., None])[..., 0]
        if self.sides is not None:
            way = way / np.where(way > 0.0, self.sides[:, 1], self.sides[:, 0])
        return np.square(way).sum(-1)


class ModeProposal:
    """A `Mixture` as a density of the coordinates theta (d,) of a model, to propose from."""

    def __init__(self, mixture: Mixture, parameters: ParameterSpace) -> None:
        self.mixture, self.parameters = mixture, parameters

    def __repr__(self) -> str:
        own = self.mixture
        fitted = array_text(masses=own.masses, locations=own.locations, scales=own.scales)
        return f"ModeProposal(fit={fitted}, names={self.parameters.names})"

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """An independent draw theta (d,), and its log density."""
        thetas, values = self.draws(rng, 1)
        return thetas[0], float(values[0])

    def draws(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Independent draws theta (n, d), and their log densities (n,)."""
        return self.at(self.mixture.draw(rng, n))

    def evaluate(self, theta: np.ndarray) -> float:
        """Log density at theta (d,)."""
        return float(self.at(self.parameters.to_normal(theta)[None])[1][0])

    def at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Theta (n, d) at x (n, d), and log densities (n,)."""
        thetas, slopes = self.parameters.normal.theta(x)
        return thetas, self.mixture.log_density(x) - np.log(slopes).sum(1)


def log_weights(density: LogDensity, mixture: Mixture, x: np.ndarray) -> np.ndarray:
    """log t(x) / q(x), (n,), at x (n, d)."""
    return density.values(x) - mixture.log_density(x)


def missed_modes(
    density: LogDensity, modes: Sequence[Mode], x: np.ndarray, log_weights: np.ndarray
) -> list[Mode]:
    """All modes, with those that climbs from the heaviest of weighted draws x (n, d) add.

    In a mode of mass m that the mixture lacks k of n draws have m n / k times the mean weight: few of the
    prior reach it.
    """
    order = np.argsort(-log_weights, kind="stable")[:HEAVIEST]
    with np.errstate(invalid="ignore"):  # where the density is zero at all of them
        heavy = normalised_weights(log_weights)[order] * len(x) > HEAVY
    return more_modes(density, modes, x[order[heavy]])


def fit_mixture(
    density: LogDensity, rng: np.random.Generator, modes: Sequence[Mode] = ()
) -> tuple[list[Mode], Mixture]:
    """Modes of a density t(x), x ~ N(0, I) a priori, and the mixture fitted to it.

    Components begin at the modes with the masses of Laplace's approximation, and are refitted twice to
    weighted draws. Where climbs from the heaviest of these find a mode that the search missed, the fit begins
    again. Raises `NumericalError` where the density is zero wherever it is tried.

    Parameters
    ----------
    density:
        log t with a gradient, such as `NormalDensity`.
    rng:
        Decides the screen of the search and all draws.
    modes:
        Those that are known; none for a new search.
    """
    known = list(modes) or find_modes(density, rng)
    for _ in range(MOST_FITS):
        mixture = Mixture.at_modes(known)
        for _ in range(REFITS):
            x = mixture.draw(rng, FEW_REFIT_DRAWS if density.dear else REFIT_DRAWS)
            weights = log_weights(density, mixture, x)
            found = missed_modes(density, known, x, weights)
            if len(found) > len(known):
                break
            mixture = mixture.refitted(x, weights)
        else:
            break
        known = found
    return known, mixture
