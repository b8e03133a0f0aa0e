"""Expectation propagation for several latent functions a case, with sites over all functions of a case."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from gpmcflow.approximations.mixture import symmetric_roots
from gpmcflow.approximations.multi_laplace import FunctionsFit, maps_at, positive_part, precision
from gpmcflow.errors import NumericalError
from gpmcflow.execution import pin_blas
from gpmcflow.likelihoods.multi import MultiLikelihood, sobol_nodes
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.numerics.exponentials import exponentials

TOLERANCE = 1e-4  # of what is left to go, in units of the marginals
MOST_SWEEPS, WARM_SWEEPS = 100, 40  # the latter of fits that begin at the sites of one nearby
# Far from the fixed point sites go all of their way in the first sweep, half of it in others, and less where
# they swing, down to a tenth; near it Anderson's method takes the last sweeps together, and forgets them when
# a step is longer than the one before.
HALF, LEAST_SHARE, GROWTH = 0.5, 0.1, 1.5
NEAR, REMEMBERED, RIDGE = 0.3, 5, 1e-8
NARROWEST = 1e-6  # variance of a tilted distribution over that of its cavity
N_RADII, N_ANGLES = 8, 18  # nodes of two functions
PER_FUNCTION = {1: 160, 3: 7}  # of one and three
N_NODES = 512  # of more
NEGLIGIBLE = 1e-9  # weight of a node


class FunctionsSites(NamedTuple):
    """Sites of several functions, or a step of them."""

    precision: np.ndarray  #: (q, q, n)
    shift: np.ndarray  #: (q, n)

    def __add__(self, other: FunctionsSites) -> FunctionsSites:  # type: ignore[override]
        return FunctionsSites(self.precision + other.precision, self.shift + other.shift)

    def __mul__(self, factor: float) -> FunctionsSites:  # type: ignore[override]
        return FunctionsSites(factor * self.precision, factor * self.shift)

    def __sub__(self, other: FunctionsSites) -> FunctionsSites:
        return self + other * -1.0

    def in_units(self, sd: np.ndarray) -> np.ndarray:
        """All numbers in units of standard deviations (q, n) of the predictors."""
        return np.concatenate(
            [(self.precision * sd[:, None] * sd).ravel(), (self.shift * sd).ravel()]
        )

    def semidefinite(self) -> FunctionsSites:
        """The same with the positive semidefinite part of each precision."""
        return self._replace(precision=positive_part(self.precision))


@dataclass(frozen=True, eq=False)
class MultiEP(FunctionsFit):
    """An EP fit of several functions at one setting of the hyperparameters.

    Attributes
    ----------
    precision, shift:
        Of the sites, Lambda (q, q, n) and h (q, n): exp(h'eta - eta'Lambda eta / 2) for each case.
    cavity_mean, cavity_covariance:
        Of the predictors without their own site, (q, n) and (n, q, q).
    log_left_out:
        log p(y_i | y_-i) by the cavities, (n,).
    """

    precision: np.ndarray
    shift: np.ndarray
    cavity_mean: np.ndarray
    cavity_covariance: np.ndarray
    log_left_out: np.ndarray

    method = "ep"

    @property
    def sites(self) -> FunctionsSites:
        """What a fit nearby begins with."""
        return FunctionsSites(self.precision, self.shift)


class _Path:
    """The last sites with the steps that sweeps asked for, and where they lead together.

    Sources: Anderson (1965); Walker & Ni (2011), "Anderson acceleration for fixed-point iterations".
    """

    def __init__(self) -> None:
        self.sites: list[FunctionsSites] = []
        self.steps: list[FunctionsSites] = []

    def next(self, sites: FunctionsSites, step: FunctionsSites, sd: np.ndarray) -> FunctionsSites:
        """Where the combination of sites whose step is the shortest goes with half of its step."""
        self.sites = [*self.sites[-REMEMBERED:], sites]
        self.steps = [*self.steps[-REMEMBERED:], step]
        there = sites + step * HALF
        moves = [b - a for a, b in pairwise(self.sites)]
        turns = [b - a for a, b in pairwise(self.steps)]
        if not turns:
            return there
        seen = np.stack([turn.in_units(sd) for turn in turns], axis=1)
        gram = seen.T @ seen
        gram.flat[:: len(gram) + 1] += RIDGE * np.trace(gram)
        for weight, move, turn in zip(
            np.linalg.solve(gram, seen.T @ step.in_units(sd)), moves, turns, strict=True
        ):
            there = there - (move + turn * HALF) * float(weight)
        return there


class _Gaussian:
    """Prior times sites in coordinates xi ~ N(0, I) a priori, and the marginals of the predictors."""

    def __init__(
        self, maps: list[np.ndarray], c: np.ndarray, precision_: np.ndarray, shift: np.ndarray
    ) -> None:
        sizes = [U.shape[1] for U in maps]
        ends = np.cumsum([0, *sizes])
        self.factor = np.linalg.cholesky(precision(maps, precision_))
        pull = shift - np.einsum("abn,bn->an", precision_, c)
        self.pulled = np.concatenate([U.T @ row for U, row in zip(maps, pull, strict=True)])
        self.xi = lapack.dpotrs(self.factor.T, self.pulled)[0]  # in Fortran order, as LAPACK has it
        parts = zip(maps, np.split(self.xi, ends[1:-1]), strict=True)
        self.mean = np.stack([U @ part for U, part in parts]) + c
        halves = []  # F^-1 U_a' of A = F F', from the rows that are not zero on
        for a, U in enumerate(maps):
            rows = np.zeros((len(U), ends[-1] - ends[a]))
            rows[:, : sizes[a]] = U
            own = self.factor[ends[a] :, ends[a] :].T
            halves.append(lapack.dtrtrs(own, rows.T, trans=1, overwrite_b=1)[0].T)
        q, n = c.shape
        self.covariance = np.empty((n, q, q))
        for a in range(q):
            for b in range(a + 1):
                both = halves[b][:, ends[a] - ends[b] :]
                self.covariance[:, a, b] = np.einsum("nk,nk->n", halves[a], both)
                self.covariance[:, b, a] = self.covariance[:, a, b]


def multi_expectation_propagation(
    model: MultiGPModel,
    theta: np.ndarray,
    start: FunctionsSites | None = None,
    *,
    tolerance: float = TOLERANCE,
    enough: float = TOLERANCE,
    most: int = MOST_SWEEPS,
) -> MultiEP:
    """Fit a Gaussian to the latents of all functions by expectation propagation.

    The site of a case is a Gaussian of its q predictors, q x q precision included. A sweep finds where all
    sites would have the mean and the covariance of cavity times likelihood; they go a part of that way, near
    the fixed point by Anderson's method. The moments are averages over nodes of the cavity: a product
    rule for up to three functions, a Sobol sequence for more. ``start`` are sites of a fit nearby. After
    ``most`` sweeps a step of less than ``enough`` will do in place of ``tolerance``.

    Source: Minka (2001); Rasmussen & Williams (2006), section 3.6, for one function; Seeger & Jordan (2004)
    and Riihimaki, Jylanki & Vehtari (2013), "Nested expectation propagation for Gaussian process
    classification with a multinomial probit likelihood", for classes.

    Raises `NumericalError` where it does not converge.
    """
    pin_blas()
    theta = np.asarray(theta, dtype=np.float64)
    full, y = model.full(theta), model.y
    likelihood = model.likelihood_at(full)
    maps, means = maps_at(model, theta)
    q, n = len(maps), len(y)
    c = np.repeat(np.array(means)[:, None], n, axis=1)
    sites = FunctionsSites(np.zeros((q, q, n)), np.zeros((q, n))) if start is None else start
    short, path, last, share = _with_fewest_columns(maps), _Path(), np.inf, HALF
    astray = contextlib.suppress(np.linalg.LinAlgError)  # sites without a covariance
    with np.errstate(all="ignore"), astray:
        for sweep in range(1, most + 1):
            now = _Gaussian(short, c, *sites)
            step = _matching(likelihood, y, *_cavities(now, *sites)) - sites
            sd = np.sqrt(np.einsum("naa->an", now.covariance))
            left = step.in_units(sd)
            away = float(np.abs(left).max())
            if not np.isfinite(away):
                break
            if away < tolerance or (sweep == most and away < enough):
                whole = now if short is maps else _Gaussian(maps, c, *sites)
                return _fit(model, theta, whole, sites, c, sweep)
            if away < NEAR:
                path = _Path() if away > last else path
                last = away
                sites = path.next(sites, step, sd).semidefinite()
                continue
            path = _Path()
            share = max(HALF * share, LEAST_SHARE) if away > last else min(GROWTH * share, HALF)
            sites, last = sites + step * (1.0 if sweep == 1 else share), away
    raise NumericalError(
        f"EP of several functions: no convergence at {np.round(full, 3).tolist()}; take narrower hyperpriors"
    )


def warm_fit(
    model: MultiGPModel,
    theta: np.ndarray,
    sites: FunctionsSites | None,
    **of_fits: float,
) -> MultiEP:
    """The fit that begins at the sites of one nearby, if there is one, or anew if it does not converge."""
    if sites is not None:
        with contextlib.suppress(NumericalError):
            return multi_expectation_propagation(model, theta, sites, **of_fits, most=WARM_SWEEPS)
    return multi_expectation_propagation(model, theta, **of_fits)


def _with_fewest_columns(maps: list[np.ndarray]) -> list[np.ndarray]:
    """Maps of the same U U', (n, n) in the place of those with more columns; these very ones if none has."""
    n = len(maps[0])
    wide = {id(U): U for U in maps if U.shape[1] > n}
    if not wide:
        return maps
    short = {key: np.ascontiguousarray(np.linalg.qr(U.T, mode="r").T) for key, U in wide.items()}
    return [short.get(id(U), U) for U in maps]


def _cavities(
    now: _Gaussian, precision_: np.ndarray, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (q, n) and covariance (n, q, q) of the predictors without their site.

    (I - V Lambda)^-1 V, whose marginal is V: with a site of next to no precision it is V itself.
    """
    sites = np.moveaxis(precision_, -1, 0)
    inside = np.eye(len(shift)) - now.covariance @ sites
    covariance = np.linalg.solve(inside, now.covariance)
    covariance = 0.5 * (covariance + covariance.swapaxes(1, 2))
    away = now.mean - np.einsum("nab,bn->an", now.covariance, shift)
    return np.linalg.solve(inside, away.T[..., None])[..., 0].T, covariance


def _at_nodes(
    likelihood: MultiLikelihood, y: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log Z (n,) of each case, shares (node, n) of the nodes in it, and symmetric roots of the covariance."""
    z, log_weights = _nodes(len(mean))
    roots = symmetric_roots(covariance)
    eta = (z @ roots.transpose(1, 2, 0).reshape(len(mean), -1)).reshape(-1, *mean.shape) + mean
    terms = likelihood.case_log_density(eta, y) + log_weights[:, None]
    highest = terms.max(0)
    shares = np.empty_like(terms)
    exponentials((2.0 * (highest - terms)).ravel(), shares.ravel())
    total = shares.sum(0)
    return highest + np.log(total), shares / total, roots


def log_averages(
    likelihood: MultiLikelihood, y: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> np.ndarray:
    """log of the average of p(y_i | eta_i) (n,), eta_i ~ N(mean (q, n), covariance (n, q, q))."""
    return _at_nodes(likelihood, y, mean, covariance)[0]


def _matching(
    likelihood: MultiLikelihood, y: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> FunctionsSites:
    """The sites whose tilted moments are right.

    In coordinates z ~ N(0, I) of the cavity: precision S^-1 - I and shift S^-1 m, from mean m and covariance
    S of z. Precisions stay positive semidefinite, as the tilted distribution of a log-concave likelihood is
    no wider than its cavity.
    """
    z, _ = _nodes(len(mean))
    _, shares, roots = _at_nodes(likelihood, y, mean, covariance)
    m = shares.T @ z
    second = shares.T @ (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)
    second = second.reshape(len(m), *2 * z.shape[1:])
    values, vectors = np.linalg.eigh(second - m[:, :, None] * m[:, None, :])
    values = np.clip(values, NARROWEST, 1.0)
    along = np.einsum("nak,na->nk", vectors, m) / values
    back = np.linalg.solve(roots.swapaxes(1, 2), vectors)
    precision_ = (back * (1.0 / values - 1.0)[:, None]) @ back.swapaxes(1, 2)
    precision_ = np.ascontiguousarray(precision_.transpose(1, 2, 0))
    shift = np.einsum("nak,nk->an", back, along)
    return FunctionsSites(precision_, shift + np.einsum("abn,bn->an", precision_, mean))


def fit_of_sites(model: MultiGPModel, theta: np.ndarray, sites: FunctionsSites) -> MultiEP:
    """The fit at theta (d,) whose sites these are."""
    pin_blas()
    maps, means = maps_at(model, theta)
    c = np.repeat(np.array(means)[:, None], model.n_cases, axis=1)
    return _fit(model, theta, _Gaussian(maps, c, *sites), sites, c, 0)


def _fit(
    model: MultiGPModel,
    theta: np.ndarray,
    now: _Gaussian,
    sites: FunctionsSites,
    c: np.ndarray,
    sweeps: int,
) -> MultiEP:
    """The fit at its fixed point: log Z = log of the integral of prior times scaled sites.

    Each site is scaled so that cavity times site has the integral of cavity times likelihood.
    """
    precision_, shift = sites
    likelihood = model.likelihood_at(model.full(theta))
    mean, covariance = _cavities(now, *sites)
    log_left_out = log_averages(likelihood, model.y, mean, covariance)
    # log of the integral of N(cavity) exp(h'eta - eta'Lambda eta / 2)
    by_case = np.moveaxis(precision_, -1, 0)
    inside = np.eye(len(c)) + by_case @ covariance
    pull = (shift - np.einsum("abn,bn->an", precision_, mean)).T
    moved = np.einsum("nab,nb->na", covariance, np.linalg.solve(inside, pull[..., None])[..., 0])
    of_sites = 0.5 * np.einsum("na,na->n", pull, moved) - 0.5 * np.linalg.slogdet(inside)[1]
    of_sites += _site(precision_, shift, mean)
    whole = 0.5 * float(now.pulled @ now.xi) - float(np.log(np.diagonal(now.factor)).sum())
    whole += float(_site(precision_, shift, c).sum())
    log_evidence = whole + float((log_left_out - of_sites).sum())
    if not np.isfinite(log_evidence):
        raise NumericalError(
            f"EP of several functions: the evidence is not finite at {theta.tolist()}"
        )
    return MultiEP(
        model, theta, now.xi, now.factor, log_evidence, sweeps, now.mean,
        precision_, shift, mean, covariance, log_left_out,
    )  # fmt: skip


def _site(precision_: np.ndarray, shift: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """Log value (n,) of the unscaled sites at eta (q, n)."""
    return (shift * eta).sum(0) - 0.5 * np.einsum("an,abn,bn->n", eta, precision_, eta)


@cache
def _nodes(q: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes z (k, q) of N(0, I), and logs (k,) of their weights."""
    if q == 2:
        return _polar_nodes()
    if q not in PER_FUNCTION:
        return sobol_nodes(q, N_NODES), np.full(N_NODES, -np.log(N_NODES))
    x, w = np.polynomial.hermite_e.hermegauss(PER_FUNCTION[q])
    w /= w.sum()
    z = np.array(list(product(x, repeat=q)))
    weights = np.array([np.prod(own) for own in product(w, repeat=q)])
    kept = weights > NEGLIGIBLE
    return z[kept], np.log(weights[kept] / weights[kept].sum())


def _polar_nodes() -> tuple[np.ndarray, np.ndarray]:
    """Those of two functions: Gauss-Laguerre in r^2 / 2, and angles all 20 degrees.

    Contrasts of three classes in another order are these turned by 120 degrees, or mirrored: the same nodes.
    """
    t, w = np.polynomial.laguerre.laggauss(N_RADII)
    turn = 2.0 * np.pi / N_ANGLES
    angles = turn * np.arange(N_ANGLES)[None, :] + 0.5 * turn * (np.arange(N_RADII) % 2)[:, None]
    z = np.sqrt(2.0 * t)[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return z.reshape(-1, 2), np.log(np.repeat(w / N_ANGLES, N_ANGLES))
