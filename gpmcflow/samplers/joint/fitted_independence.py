"""Independence Metropolis over hyperparameters and latents at once, from exact or EP fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from gpmcflow.approximations.evidence_density import EvidenceDensity
from gpmcflow.approximations.fitted_density import FittedStudent
from gpmcflow.approximations.mixture import ModeProposal, suits
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import chain_generators
from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.linear_maps import solve
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.samplers.adaptation.fitted_proposal import (
    N_JUDGED,
    beside,
    effective_share,
    fitted_proposal,
    warn_of_a_poor_fit,
)
from gpmcflow.samplers.adaptation.joint_mode import plain_sites
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.modes_group import search_modes
from gpmcflow.samplers.problem import pilot_starts
from gpmcflow.samplers.protocol import (
    JOINT,
    NO_FIT,
    Sampler,
    Tuned,
    require_count,
    require_positive,
)

N_STARTS = 64  # starts drawn from the proposal: chain k begins at the k-th, modulo
# Of the EP fits that latents are proposed from: any fit is exact, these are fast.
TOLERANCE, DAMPING = 1e-2, 1.0
PROPOSALS = 6  # of a transition of a regression; each costs less than a draw of its latents
PILOT_TOLERANCE = 1e-6  # of those whose evidence and its gradient are used


class IndependenceState(NamedTuple):
    """Where a chain stands. Latents that are integrated out have no place in it."""

    theta: np.ndarray  #: (d,)
    latent: np.ndarray  #: f (n,), or (0,)
    log_likelihood: float  #: log p(y | f, theta), or nan
    complete: float  #: log p(y | f, theta) + log N(f; 0, K), or nan
    log_weight: float  #: log of target over proposal, up to a constant


class IndependenceInfo(NamedTuple):
    """What a transition tells."""

    accepted: bool
    acceptance_rate: float
    n_fit: int  #: EP fits, or exact ones
    n_failed: int  #: proposals without one


@dataclass(frozen=True)
class JointIndependence(Sampler):
    """Independence Metropolis of hyperparameters and latents, proposed from exact or EP fits.

    theta' ~ q, a density fitted to the evidence times the hyperpriors, then frozen, and f' ~ N(m, V), the
    Gaussian at theta'; accepted with probability min(1, w' / w), w = p(theta) N(f; 0, K) p(y | f, theta) /
    [q(theta) N(f; m, V)]. Draws are nearly independent where theta has few coordinates. For many
    hyperparameters take `JointSplitHMC`.

    Of a regression N(m, V) is the posterior of f given theta, so that w = p(theta) p(y | theta) / q(theta): a
    transition makes six proposals, a value of the marginal likelihood each, and each draw has latents of its
    own. With up to 8 free hyperparameters q is a mixture: a search finds all modes of the posterior, and q
    has a Student-t at each and a tenth of the prior, so that chains visit every mode.

    Of other models N(m, V) is the EP fit, and a transition costs one: exact whatever EP does, and fast where
    it is good. There q is one Student-t, at the mode of most mass among those found from up to three starts.

    Source: Tierney (1994), section 2.3.3, with the EP fit of Rasmussen & Williams (2006), alg. 3.5; the fits
    of q: Cappe et al. (2008).

    Attributes
    ----------
    dof:
        Degrees of freedom of the one Student-t, above 0: few give heavy tails.
    n_pilot:
        Draws that its fit at the mode is improved with.
    proposal:
        The fitted density of theta; None fits one before the first draw.

    Raises
    ------
    InputError:
        For settings out of range.
    NumericalError:
        Where no mode is found.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.SquaredExponential(), gp.Probit())
    >>> draws = gp.sample(model, gp.JointIndependence(n_pilot=100), n_chains=1, n_draws=50)
    >>> bool(draws.sample_stats["acceptance_rate"].mean() > 0.3)
    True
    """

    dof: float = 6.0
    n_pilot: int = 200
    proposal: FittedStudent | ModeProposal | None = None

    samples = JOINT
    moves_cells = False  # fits are those of the cases
    state = IndependenceState
    statistics: ClassVar[Mapping[str, str]] = {
        "acceptance_rate": "<f8", "accepted": "|i1", "n_fit": "<i8", "n_failed": "<i8",
    }  # fmt: skip
    traced = ("complete_log_likelihood", "theta")
    failures = NO_FIT
    n_warmup = 30  # chains begin at draws of the proposal
    least_acceptance = 0.1

    def __post_init__(self) -> None:
        require_positive("JointIndependence: dof", self.dof)
        require_count("JointIndependence", "n_pilot", self.n_pilot)

    def fitted(
        self, problem: JointProblem, rng: np.random.Generator
    ) -> tuple[JointIndependence, float]:
        """The sampler with a proposal, and the effective share of joint draws of theta and f from it."""
        model = problem.target
        if suits(model):
            modes = search_modes(model, rng)
            at_modes = ModeProposal(modes.mixture, model.parameters)
            return replace(self, proposal=at_modes), effective_share(modes.log_weights)
        density: LogDensity = EvidenceDensity(model, tolerance=PILOT_TOLERANCE, damping=DAMPING)
        if model.likelihood.conjugate:
            density = RegressionDensity(model)
        starts = pilot_starts(model, beside(rng), problem.starts.get("theta"))
        proposal, share = fitted_proposal(density, starts, rng, self.n_pilot, self.dof)
        sampler = replace(self, proposal=proposal)
        if share == 0.0:
            return sampler, share
        transition = sampler.bind(model)
        proposed = [transition.propose(rng) for _ in range(N_JUDGED)]
        log_weights = np.array([-np.inf if s is None else s.log_weight for s in proposed])
        return sampler, effective_share(log_weights)

    def adapt(self, problem: JointProblem, *, seed: int, key: Sequence[Any], **run: Any) -> Tuned:
        """Fit the proposal of theta, and start chains at draws of it."""
        rng = chain_generators(seed, *key, "joint_independence", chains=range(1)).generator(0)
        sampler = self
        if self.proposal is None:
            sampler, share = self.fitted(problem, rng)
            warn_of_a_poor_fit(self, share)
        starts = problem.starts
        if "theta" not in starts:
            assert sampler.proposal is not None
            drawn = np.stack([sampler.proposal.draw(rng)[0] for _ in range(N_STARTS)])
            starts = {**starts, "theta": drawn}
        return Tuned(sampler, replace(problem, starts=starts), {})

    def bind(self, target: GPModel, chain: int = 0) -> JointIndependenceTransition:
        """Transitions on a model."""
        if self.proposal is None:
            raise InputError(
                "JointIndependence: no proposal is fitted yet; run it by sample, or give proposal"
            )
        exact = target.likelihood.conjugate
        return (ExactTransition if exact else JointIndependenceTransition)(self.proposal, target)


class JointIndependenceTransition:
    """Proposals of theta and f on one model, and the decision."""

    def __init__(self, proposal: FittedStudent | ModeProposal, model: GPModel) -> None:
        self.proposal, self.model = proposal, model
        self.density = EvidenceDensity(model, tolerance=TOLERANCE, damping=DAMPING)

    def init(self, rng: np.random.Generator, start: Mapping[str, np.ndarray]) -> IndependenceState:
        """State at ``start["theta"]`` and "latent" or "weight", a draw of the EP fit unless given.

        Raises `NumericalError` where EP does not converge there.
        """
        theta = np.array(start["theta"], dtype=np.float64)
        latent = start.get(self.model.latent_variable)
        return self._at(theta, self.proposal.evaluate(theta), rng, latent)

    def propose(self, rng: np.random.Generator) -> IndependenceState | None:
        """A state drawn from the proposal, None where it has no EP fit."""
        return self.propose_at(rng, *self.proposal.draw(rng))

    def propose_at(
        self, rng: np.random.Generator, theta: np.ndarray, log_proposal: float
    ) -> IndependenceState | None:
        """A state whose latents are drawn from the EP fit at theta, None where there is none."""
        try:
            return self._at(theta, log_proposal, rng, None)
        except NumericalError:
            return None

    def _at(
        self, theta: np.ndarray, log_proposal: float, rng: np.random.Generator, latent: Any
    ) -> IndependenceState:
        """State at theta with its weight; f is drawn from the EP fit, or given.

        With K = L L', f = L x, and x ~ N(m, (W W')^-1) under EP, z = W'(x - m): log N(x; 0, I) -
        log N(x; m, .) = (|z|^2 - |x|^2) / 2 - log|W|.
        """
        fit = self.density.fit(theta)
        sites, at = fit.sites, fit.sites.model
        W, mean = sites.whitened_factor, sites.whitened_mean
        if latent is None:
            z = rng.standard_normal(len(mean))
            x = mean + solve_triangular(W, z, trans=1, check_finite=False)
            latent = at.cholesky @ x
        else:
            x = solve(at.cholesky, np.asarray(latent, dtype=np.float64)[None])[0]
            z = W.T @ (x - mean)
        log_likelihood = float(self.model.log_likelihood(latent, theta))
        half_square = 0.5 * float(x @ x)
        log_weight = (
            log_likelihood + 0.5 * float(z @ z) - half_square - 0.5 * sites.log_det
            + self.model.log_prior(theta) - log_proposal
        )  # fmt: skip
        log_normal = -half_square - float(np.log(np.diag(at.cholesky)).sum())
        complete = log_likelihood + log_normal - 0.5 * len(x) * np.log(2.0 * np.pi)
        return IndependenceState(theta, latent, log_likelihood, complete, log_weight)

    def step(
        self, rng: np.random.Generator, state: IndependenceState
    ) -> tuple[IndependenceState, IndependenceInfo]:
        """One proposal and the decision."""
        proposed = self.propose(rng)
        if proposed is None or not np.isfinite(proposed.log_weight):
            return state, IndependenceInfo(False, 0.0, 1, 1)
        rate = float(np.exp(min(0.0, proposed.log_weight - state.log_weight)))
        if rng.random() < rate:
            return proposed, IndependenceInfo(True, rate, 1, 0)
        return state, IndependenceInfo(False, rate, 1, 0)

    def record(self, rng: np.random.Generator, state: IndependenceState) -> dict[str, Any]:
        """theta, latents, log likelihood, and the log densities of JointSplitHMC's draws."""
        return {
            "theta": state.theta,
            self.model.latent_variable: state.latent,
            "complete_log_likelihood": state.complete,
            "sum_log_likelihood": state.log_likelihood,
            "lp": state.complete + self.model.log_prior(state.theta),
        }


class ExactTransition(JointIndependenceTransition):
    """As `JointIndependenceTransition`, of a regression: f is integrated out, and drawn to be kept."""

    def __init__(self, proposal: FittedStudent | ModeProposal, model: GPModel) -> None:
        self.proposal, self.model = proposal, model
        self.collapsed: Any = density_of(model, plain_sites(model))

    def init(self, rng: np.random.Generator, start: Mapping[str, np.ndarray]) -> IndependenceState:
        """State at ``start["theta"]``. Raises `NumericalError` where the likelihood is not finite there."""
        theta = np.array(start["theta"], dtype=np.float64)
        log_weight = self._log_weight(
            theta, self.proposal.evaluate(theta), self.model.log_prior(theta)
        )
        if not np.isfinite(log_weight):
            raise NumericalError(
                f"regression: the density is not finite at {theta.tolist()}; start elsewhere"
            )
        return IndependenceState(theta, np.empty(0), np.nan, np.nan, log_weight)

    def step(
        self, rng: np.random.Generator, state: IndependenceState
    ) -> tuple[IndependenceState, IndependenceInfo]:
        """`PROPOSALS` proposals, and a decision on each."""
        thetas, log_proposals = self.proposal.draws(rng, PROPOSALS)
        log_priors = self.model.parameters.log_priors(thetas)
        limits = np.log(rng.random(PROPOSALS))
        accepted, failed, rates = False, 0, 0.0
        for theta, *values, limit in zip(thetas, log_proposals, log_priors, limits, strict=True):
            log_weight = self._log_weight(theta, *values)
            failed += not np.isfinite(log_weight)
            change = log_weight - state.log_weight
            rates += float(np.exp(min(0.0, change)))
            if limit < change:
                accepted = True
                state = state._replace(theta=theta, log_weight=log_weight)
        info = IndependenceInfo(accepted, rates / PROPOSALS, PROPOSALS, failed)
        return state, info

    def _log_weight(self, theta: np.ndarray, log_proposal: float, log_prior: float) -> float:
        """log p(y | theta) + log p(theta) - log q(theta); -inf where it cannot be computed."""
        value = self.collapsed.log_likelihood(theta) + log_prior - log_proposal
        return value if np.isfinite(value) else -np.inf

    def record(self, rng: np.random.Generator, state: IndependenceState) -> dict[str, Any]:
        """As for other models, with an exact draw of the latents given theta."""
        latent, log_likelihood, complete = self.collapsed.draw_latents(rng, state.theta)
        drawn = state._replace(latent=latent, log_likelihood=log_likelihood, complete=complete)
        return super().record(rng, drawn)
