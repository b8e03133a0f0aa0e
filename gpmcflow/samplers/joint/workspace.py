"""One chain over (theta, f): its factors, the density its hyperparameters see, and what all that cost."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpmcflow.approximations.independent_sites import Sites
from gpmcflow.covariances.dense_factor import DenseFactor
from gpmcflow.covariances.kronecker import KroneckerFactor
from gpmcflow.errors import NumericalError
from gpmcflow.likelihoods.compiled import (
    elliptical_updates,
    likelihood_code,
    log_likelihood,
)
from gpmcflow.models.gp_model import GPModel
from gpmcflow.numerics.code_cache import compiled
from gpmcflow.numerics.lapack import ROUTINES, TRMV, TRSV, UPPER, factorise, on_vector
from gpmcflow.samplers.joint.representations import Fixed, Point, Representation

# The prior and its Gaussian sites in whitened form: one factorisation that every representation shares.
#
# With Sigma = L L', W = diag(w): C = I + L'WL, whose eigenvalues are >= 1, C = U U' with U upper
# triangular. Then R = (Sigma^-1 + W)^-1 = L C^-1 L' has the lower Cholesky factor L_R = L U^-T and m = R b
# = L u with u = C^-1 L'b. R itself is never formed: that would cancel for large or small site variances.
#
# Source: Murray & Adams (2010), section 3; the whitened form is ours.

_stamps = itertools.count(1)


@compiled
def _reverse_factor(routines, gram, weight, out):
    """J U'J into ``out``, for C = I + weight * gram = U U' and J the reversal of order; log |U|.

    J C J = (J U'J)'(J U'J) with an upper triangular factor: an ordinary Cholesky factorisation of C seen
    from its last element. ``gram`` (column, row) counts in its lower triangle, ``out`` in its upper.
    """
    n = gram.shape[0]
    for j in range(n):
        row, column = gram[j], out[n - 1 - j]
        for i in range(n - j):
            column[i] = weight * row[n - 1 - i]
        column[n - 1 - j] += 1.0
    return factorise(routines, UPPER, out)


@compiled
def _apply(routines, factor, routine, transposed, vector, out):
    """J op(F) J v into ``out``, F the upper triangle of ``factor``, op a product or a solve."""
    n = vector.size
    work = np.empty(n)
    for i in range(n):
        work[i] = vector[n - 1 - i]
    on_vector(routines[routine], UPPER, transposed, factor, work)
    for i in range(n):
        out[i] = work[n - 1 - i]


class WhitenedFactors:
    """U of C = I + sigma^2 L_K'W L_K, in buffers filled again; ``stamp`` changes with every filling."""

    def __init__(self, n: int) -> None:
        self.columns = np.empty((n, n))
        self._gram = np.empty((n, n))
        self.log_det = np.nan  # log |U|
        self.stamp = 0

    def fill(self, factor: DenseFactor | KroneckerFactor, sd: float, sites: Sites) -> bool:
        """Factorise for L = sd * factor; False if it fails.

        With equal precisions L_K'L_K is kept from the last time L_K was filled, so that a new sd costs one
        factorisation and no product.
        """
        if sites.equal:
            gram, weight = factor.gram(), sd * sd * sites.precision[0]
        else:
            gram, weight = self._gram, 1.0
            factor.weighted_gram(sites.precision, sd, gram)
        self.log_det = _reverse_factor(ROUTINES, gram, weight, self.columns)
        self.stamp = next(_stamps)
        return bool(np.isfinite(self.log_det))

    def solve(self, v: np.ndarray) -> np.ndarray:
        """U^-1 v."""
        return self._new(TRSV, True, v)

    def solve_transposed(self, v: np.ndarray) -> np.ndarray:
        """U^-T v."""
        return self._new(TRSV, False, v)

    def transposed(self, v: np.ndarray) -> np.ndarray:
        """U'v."""
        return self._new(TRMV, False, v)

    def dense(self) -> np.ndarray:
        """U as a matrix (n, n)."""
        return np.triu(np.triu(self.columns.T)[::-1, ::-1].T)

    def _new(self, routine: int, transposed: bool, v: np.ndarray) -> np.ndarray:
        out = np.empty(len(v))
        _apply(ROUTINES, self.columns, routine, transposed, v, out)
        return out


LARGEST = 300.0  # size of a log above which squares overflow: such a point has no density
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


class JointState(NamedTuple):
    """Where a chain stands."""

    theta: np.ndarray  #: (d,)
    latent: np.ndarray  #: f (n,)
    log_likelihood: float  #: log p(y | f, theta)


@dataclass(slots=True)
class JointInfo:
    """What an iteration tells and cost, whatever is saved of the work."""

    acceptance_rate: float = 1.0
    n_hyp: int = 0  #: settings of theta with a prior density at which phi was asked for
    n_cov: int = 0  #: those of them that change Sigma
    n_lik: int = 0  #: evaluations of log L(f)
    n_failed: int = 0  #: factorisations that failed at proposals, which were rejected


class JointWorkspace:
    """Transitions of one chain over (theta, f), with its buffers; what `hyperparameter_updates` move.

    A transition is one sweep of ``update`` over theta, then ``n_elliptical`` elliptical slice updates of f.

    A move of the covariance's amplitude, of the mean or of a parameter of the likelihood leaves the factor
    alone, products that have not moved are kept, and one length scale changes distances by O(1) a pair.
    """

    def __init__(
        self,
        model: GPModel,
        representation: Representation,
        update: Any = None,
        n_elliptical: int = 0,
    ) -> None:
        self.model, self.representation = model, representation
        self.sweeper, self.n_elliptical = update, n_elliptical
        self._state: JointState | None = None
        self.cost = JointInfo()
        self.priors, self.free = model.parameters.priors, model.free.tolist()
        self._factors = [model.factor(), model.factor()]
        sites = representation.rule is not None
        self._whitened = [WhitenedFactors(model.n_cases) for _ in range(2)] if sites else [None] * 2
        self._drifts = self._factors[0].drifts
        self.point: Any = None  # a `Point`, after `start`; so `_proposed`, and `_frozen` as it says
        self._proposed: Any = None
        self._frozen: Any = None
        self.phi = np.nan
        self._scratch = np.empty(model.n_cases)
        touches = {place: model.touches(place) for place in self.free}
        # None is a parameter that several share, the likelihood perhaps among them
        self._fixed_likelihood = all(t in ("scale", "covariance", "mean") for t in touches.values())
        # places of the mean and the likelihood's parameters, which change log L(f) while f stays
        self._outside = [p for p, t in touches.items() if t not in ("scale", "covariance")]
        self._touches: dict[int | None, str | None] = {None: None, **touches}

    # -- transitions ------------------------------------------------------------------------------

    def init(self, rng: np.random.Generator, start: dict[str, np.ndarray]) -> JointState:
        """State at ``start["theta"]`` and ``start["latent"]``, f = 0 unless given."""
        self.start(start["theta"], start.get("latent", np.zeros(self.model.n_cases)))
        return self._stand()

    def step(self, rng: np.random.Generator, state: JointState) -> tuple[JointState, JointInfo]:
        """One iteration."""
        if state is not self._state:
            self.start(state.theta, state.latent)
            # its last bit may differ between a compiled loop and a call
            self.point.log_likelihood = state.log_likelihood
        self.cost = JointInfo()
        self.cost.acceptance_rate = self.sweeper.sweep(rng, self)
        self.update_latents(rng, self.n_elliptical)
        return self._stand(), self.cost

    def record(self, rng: np.random.Generator, state: JointState) -> dict[str, Any]:
        """theta, f, T, log likelihood, and lp = T + log p_h(theta); of the last state."""
        complete = self.complete_log_likelihood()
        return {
            "theta": state.theta,
            "latent": state.latent,
            "complete_log_likelihood": complete,
            "sum_log_likelihood": state.log_likelihood,
            "lp": complete + self.model.log_prior(state.theta),
        }

    def _stand(self) -> JointState:
        point = self.point
        self._state = JointState(self.theta, point.f, point.log_likelihood)
        return self._state

    # -- state -----------------------------------------------------------------------------------

    def start(self, theta: np.ndarray, f: np.ndarray) -> None:
        """Stand at theta (d,) and latents f (n,).

        Raises `NumericalError` where the covariance does not factorise or the likelihood is not finite.
        """
        model = self.model
        self.point = None
        point = self._build(model.full(theta), None)
        if point is None:
            raise NumericalError(
                f"model: the covariance is not positive definite at the start {theta.tolist()}; give a "
                f"larger jitter than {model.epsilon:g}"
            )
        point.f = np.array(f, dtype=np.float64)
        point.log_likelihood = log_likelihood(point.code, point.f, point.offset)
        if not np.isfinite(point.log_likelihood):
            raise NumericalError(
                "model: the log likelihood is not finite at the start; give other latents"
            )
        self._take(point)

    @property
    def theta(self) -> np.ndarray:
        """Coordinates that are sampled (d,)."""
        return self.point.full[self.free]

    def complete_log_likelihood(self) -> float:
        """T = log L(f; c) + log N(f; 0, Sigma), hyperprior left out."""
        p = self.point
        z = p.whiten(p.f)
        log_normal = -0.5 * float(z @ z) - p.factor.log_det - p.n_log_sd - len(z) * _HALF_LOG_2PI
        return p.log_likelihood + log_normal

    def update_latents(self, rng: np.random.Generator, n_updates: int) -> None:
        """Elliptical slice updates of f at fixed theta; all their prior draws are one product."""
        if not n_updates:
            return
        p = self.point
        rows = rng.standard_normal((n_updates, len(p.f)))
        draws = p.factor.multiply_rows(rows, p.sd)
        p.f = p.f.copy()
        p.log_likelihood, spent = elliptical_updates(
            rng, p.code, p.offset, p.f, p.log_likelihood, draws, self._scratch
        )
        self.cost.n_lik += spent

    # -- density over theta ----------------------------------------------------------------------

    def begin_sweep(self, rng: np.random.Generator) -> None:
        """Freeze variables at the current point.

        Where distances are updated they are summed again first: rounding does not pile up, and a chain
        that goes on from (theta, f) alone has the same numbers.
        """
        if self._drifts:
            old = self.point
            self.point = None
            point = self._build(old.full, None)
            if point is None:
                raise NumericalError("model: the covariance stopped being positive definite")
            point.f, point.log_likelihood = old.f, old.log_likelihood
            self._take(point)
        self._frozen, self.phi = self.representation.freeze(rng, self.point)

    def log_prior(self, place: int, value: float) -> float:
        """Log hyperprior of one coordinate, by its place in ``full``."""
        return self.priors[place].log_density(value)

    def propose(self, full: np.ndarray, place: int | None) -> float:
        """Phi at another theta with the same frozen variables; -inf where a factorisation fails.

        ``full`` has all coordinates; ``place`` is that of the one that moved, None for several.
        `accept` moves there. Call it only where the hyperprior has a density.
        """
        touches = self._touches[place]
        self.cost.n_hyp += 1
        self.cost.n_cov += touches in (None, "scale", "covariance")
        point = self._proposed = self._build(full, place)
        if point is None:
            self.cost.n_failed += 1
            return -np.inf
        if isinstance(self.representation, Fixed) and np.array_equal(
            full[self._outside], self.point.full[self._outside]
        ):
            point.f, point.log_likelihood = self.point.f, self.point.log_likelihood
        else:
            self.cost.n_lik += 1
        value = self.representation.place(self._frozen, point)
        return value if math.isfinite(value) else -math.inf

    def accept(self, phi: float) -> None:
        """Move to the last proposal, whose phi is known."""
        self._take(self._proposed)
        self.phi = phi

    def _build(self, full: np.ndarray, place: int | None) -> Point | None:
        """Point with factors at ``full``, without latents; None where one does not factorise."""
        current, model = self.point, self.model
        if not model.in_range(full, LARGEST):
            return None
        sd, offset = model.scale(full), model.mean_at(full)
        touches = None if current is None else self._touches[place]
        if touches in (None, "covariance"):
            factor = self._factors[1]
            if touches == "covariance" and place is not None:
                sound = factor.fill_from(current.factor, full, place)
            else:
                sound = factor.fill(full)
            if not sound:
                return None
        else:
            factor = current.factor
        likelihood = model.likelihood_at(full)
        same = touches in ("scale", "covariance", "mean") or (current and self._fixed_likelihood)
        code = current.code if same else likelihood_code(likelihood, model.y)
        point = Point(full.copy(), sd, offset, factor, code, None, None)
        rule = self.representation.rule
        if rule is None:
            return point
        point.sites = rule(likelihood, model.y, sd * sd * factor.diagonal, offset)
        if (
            current is not None
            and factor is current.factor
            and sd == current.sd
            and np.array_equal(point.sites.precision, current.sites.precision)
        ):
            point.whitened = current.whitened
            return point
        point.whitened = self._whitened[1]
        sound = point.whitened.fill(factor, sd, point.sites)
        return point if sound else None

    def _take(self, point: Point) -> None:
        if point.factor is self._factors[1]:
            self._factors.reverse()
        if point.whitened is self._whitened[1]:
            self._whitened.reverse()
        self.point = point
