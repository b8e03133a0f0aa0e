"""Pseudo-marginal Hamiltonian Monte Carlo: hyperparameters on EP's evidence, latents by its draws.

Its pilot finds the modes of EP's evidence, a mixture there, and a frame to move in.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import xarray as xr

from gpmcflow.approximations.integrated import WarmEvidence, climbed_modes, weighted_draws
from gpmcflow.approximations.mixture import Mixture, Mode, has_normal_coordinates
from gpmcflow.approximations.site_draws import N_TRIALS, Draws, SettingFit
from gpmcflow.diagnostics.importance_weights import (
    effective_size,
    normalised_weights,
    smooth_weights,
    systematic_resample,
)
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import array_digest, chain_generators
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.samplers.adaptation.step_sizes import StepSize
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.protocol import (
    JOINT,
    NO_FIT,
    Sampler,
    Tuned,
    require_count,
    require_share,
)

N_STARTS = 60  # fits of which the nearest lends its sites to a new one, and starts of chains
FIRST_STEP, LARGEST_STEP = 0.7, 1.5
ANGLE = 1.6  # of trajectories: a quarter of a turn
MOST_STEPS = 16
FEW_CASES = 150  # of Student-t: with 200 its noise is known so well that frozen sites are faster
# Times the scale matrices. Of four models with 2 to 4 hyperparameters the worst tail of one has 37 to 81 % of
# the proposals effective, unless widened 28 to 73 %, and 24 to 73 % without the component by the fall.
WIDER = 1.3
SETTLING = 30  # transitions of each round of the pilot, and 5 for each hyperparameter in the first


class EvidenceFrame(NamedTuple):
    """What transitions need, frozen; coordinates are normal, x = center + scale u."""

    mixture: Mixture  #: that jumps are proposed from
    center: np.ndarray  #: (d,)
    scale: np.ndarray  #: (d, d)
    step_size: float  #: of u
    x: np.ndarray  #: settings (k, d) of fits nearby
    precision: np.ndarray  #: of their sites (k, n)
    shift: np.ndarray  #: (k, n)
    trials: np.ndarray  #: normal numbers (k, n) that choose the levels of a setting

    @property
    def n_steps(self) -> int:
        """Steps of a trajectory of angle `ANGLE`."""
        return int(np.clip(round(ANGLE / self.step_size), 1, MOST_STEPS))

    def start(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Precisions and shifts (n,) of the nearest fit, for one at x (d,)."""
        nearest = int(np.square(self.x - x).sum(1).argmin())
        return self.precision[nearest], self.shift[nearest]

    def refitted(self, draws: np.ndarray) -> EvidenceFrame:
        """The same with center and scale of draws x (m, d); the old ones count as d + 1 draws."""
        m, d = draws.shape
        return self._replace(
            **_moments(draws, np.full(m, 1.0 / m), m, self.scale @ self.scale.T, d + 1)
        )

    def digest(self) -> str:
        """SHA-256 of all numbers."""
        arrays = {
            name: np.asarray(value) for name, value in self._asdict().items() if name != "mixture"
        }
        mixture = self.mixture
        arrays |= {
            "masses": mixture.masses,
            "locations": mixture.locations,
            "scales": mixture.scales,
            "sides": np.empty(0) if mixture.sides is None else mixture.sides,
        }
        return array_digest(arrays)


def first_frame(
    model: GPModel, rng: np.random.Generator
) -> tuple[EvidenceFrame, np.ndarray, xr.Dataset]:
    """A frame by weighted draws of a mixture at the modes, starts x (k, d) of chains, and a report of both.

    Raises `NumericalError` where no mode is found.
    """
    density = WarmEvidence(model)
    modes = climbed_modes(model, density, rng)
    first = Mixture.at_modes(modes, density)
    x, log_weights = weighted_draws(density, first, rng)
    usable = np.isfinite(log_weights)
    x, log_weights = x[usable], log_weights[usable]
    smoothed, k = smooth_weights(log_weights)
    shares, size = normalised_weights(smoothed), float(effective_size(log_weights))
    chosen = np.unique(systematic_resample(shares, rng.random(), N_STARTS))
    fits = [density.fitted(theta) for theta in density.theta(x[chosen])]
    curvature = np.linalg.inv(modes[0].precision)
    frame = EvidenceFrame(
        mixture=first.wider(WIDER),
        step_size=FIRST_STEP,
        trials=rng.standard_normal((N_TRIALS, model.n_cases)),
        x=x[chosen],
        precision=np.array([fit.precision for fit in fits]),
        shift=np.array([fit.shift for fit in fits]),
        **_moments(x, shares, size, curvature, model.dim + 1),
    )
    return frame, x[:N_STARTS], _report(modes, size, k, len(density.fits))


def _moments(
    x: np.ndarray, shares: np.ndarray, size: float, before: np.ndarray, weight: float
) -> dict[str, Any]:
    """Mean, and factor of the covariance, of weighted draws; ``before`` counts as ``weight`` of them."""
    center = shares @ x
    away = x - center
    covariance = size * (away * shares[:, None]).T @ away + weight * before
    return {"center": center, "scale": np.linalg.cholesky(covariance / (size + weight))}


def _report(modes: list[Mode], size: float, k: float, n_fits: int) -> xr.Dataset:
    masses = normalised_weights(np.array([mode.log_mass for mode in modes]))
    return xr.Dataset(
        {"mode_mass": ("mode", masses), "effective_size": size, "pareto_k": k, "n_fit": n_fits}
    )


def prefers_pseudo_marginal(model: GPModel | MultiGPModel) -> bool:
    """Whether `PseudoMarginalHMC` is tried before joint split HMC, whose sites are frozen.

    Of labels, and of likelihoods whose sites change with the hyperparameters as long as cases are few.
    """
    if isinstance(model, MultiGPModel) or refused(model):
        return False
    few = model.n_cases <= FEW_CASES
    return model.likelihood.relative_sites or (few and not model.likelihood.frozen_sites)


class PseudoMarginalState(NamedTuple):
    """Where a chain stands."""

    x: np.ndarray  #: hyperparameters in normal coordinates (d,)
    latent: np.ndarray  #: f (n,)
    log_likelihood: float  #: log p(y | f, theta)


class PseudoMarginalInfo(NamedTuple):
    """What a transition tells."""

    acceptance_rate: float  #: of the trajectory, both decisions together
    jump_rate: float  #: of the proposal of the mixture
    energy_error: float  #: of the trajectory, on EP's evidence
    latent_share: float  #: effective share of the draws of the latents
    n_levels: int  #: that they climbed
    n_fit: int  #: EP fits
    n_failed: int  #: proposals without one


class OnEvidence(Sampler):
    """What samplers share whose hyperparameters move on EP's evidence, with latents by annealing."""

    n_latents: int
    frame: EvidenceFrame | None
    pilot: xr.Dataset | None

    samples = JOINT
    moves_weights = False
    traced = ("complete_log_likelihood", "theta")
    failures = NO_FIT
    least_acceptance = 0.1

    def _check_latents(self) -> None:
        where = type(self).__name__
        require_count(where, "n_latents", self.n_latents)
        if self.n_latents < 2:
            raise InputError(f"{where}: n_latents is {self.n_latents}; allowed: 2 or more")

    def digest(self) -> str:
        """Settings, and the frame."""
        return repr(self) if self.frame is None else f"{self!r} {self.frame.digest()}"

    def adapt(self, problem: JointProblem, *, seed: int, key: Sequence[Any], **run: Any) -> Tuned:
        """Run the pilot unless a frame is given, in which chains start, too."""
        if self.frame is not None:
            return Tuned(self, problem, {} if self.pilot is None else {"pilot": self.pilot})
        if why := refused(problem.target):
            raise InputError(f"{type(self).__name__}: {why}; take JointSplitHMC()")
        return self._piloted(problem, seed, key)

    @abstractmethod
    def _piloted(self, problem: JointProblem, seed: int, key: Sequence[Any]) -> Tuned:
        """The sampler with a frame, a problem with starts, and the report."""

    def _known_frame(self) -> EvidenceFrame:
        if self.frame is None:
            raise InputError(f"{type(self).__name__}: its pilot has not run; give it to sample")
        return self.frame


@dataclass(frozen=True)
class PseudoMarginalHMC(OnEvidence):
    """Pseudo-marginal Hamiltonian Monte Carlo of hyperparameters, with latents by annealing.

    Labels say little about their latent function, which makes chains over (theta, f) slow. Here theta moves
    alone: a trajectory follows the gradient of log Z_EP(theta) + log p_h(theta), Z_EP the evidence of
    expectation propagation, and a proposal from a mixture of Student-t densities at its modes jumps between
    them. What EP leaves out is made up for exactly: Z = mean_j w_j, the weights of draws f_j that annealed
    importance sampling takes from the EP fit to p(f | y, theta), is an unbiased estimate of p(y | theta), and
    a proposal that EP's evidence accepts is accepted with probability min(1, [Z' / Z_EP(theta')] / [Z /
    Z_EP(theta)]). The latents of a state are one of the f_j, picked by weight; all others are drawn anew in
    each transition, so that a lucky Z does not hold a chain. A transition costs 3 or 4 EP fits and as many
    gradients, each of order n^3. Annealing takes the more levels, the poorer EP is; where it is good, one.

    The posterior is sampled exactly, whatever EP does; the effective share of the f_j (``latent_share``)
    tells how near it is. For models without a grid or basis functions.

    Source: pseudo-marginal MCMC for Gaussian processes: Filippone & Girolami (2014); a decision in two
    stages: Christen & Fox (2005); redrawing with one draw kept: Andrieu, Doucet & Holenstein (2010); annealed
    importance sampling: Neal (2001).

    Attributes
    ----------
    n_latents:
        Draws of the latents of each estimate, 2 or more.
    target_acceptance:
        Mean acceptance rate by EP's evidence that the step size is tuned to, above 0 and below 1.
    jitter:
        Step sizes are multiplied by a uniform number within 1 +- jitter, drawn for each trajectory; from 0 to
        below 1.
    frame, pilot:
        What a pilot found, and its report; None runs one before the first draw.

    Raises
    ------
    InputError:
        For settings out of range, and models that it does not take.
    NumericalError:
        Where no mode is found.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.SquaredExponential(), gp.Probit())
    >>> draws = gp.sample(model, gp.PseudoMarginalHMC(), n_chains=1, n_draws=50)
    >>> bool(draws.sample_stats["latent_share"].mean() > 0.5)
    True
    """

    n_latents: int = 16
    target_acceptance: float = 0.8
    jitter: float = 0.2
    frame: EvidenceFrame | None = field(default=None, repr=False)
    pilot: xr.Dataset | None = field(default=None, repr=False, compare=False)

    state = PseudoMarginalState
    statistics: ClassVar[Mapping[str, str]] = {
        "acceptance_rate": "<f8", "jump_rate": "<f8", "energy_error": "<f8", "latent_share": "<f8",
        "n_levels": "<i8", "n_fit": "<i8", "n_failed": "<i8",
    }  # fmt: skip
    n_warmup = 30  # chains begin at draws of the mixture

    def __post_init__(self) -> None:
        self._check_latents()
        require_share("PseudoMarginalHMC", "target_acceptance", self.target_acceptance)
        require_share("PseudoMarginalHMC", "jitter", self.jitter, zero=True)

    def transitions_before_draws(self, model: GPModel, n_chains: int) -> int:
        """Transitions of the pilot; its climbs to modes cost as much as some 30 more."""
        return 3 * SETTLING + 5 * model.dim

    def _piloted(self, problem: JointProblem, seed: int, key: Sequence[Any]) -> Tuned:
        """Find modes, mixture and frame, and the step in it; chains start at draws of the mixture."""
        model = problem.target
        rng = chain_generators(seed, *key, "pseudo_marginal", chains=range(1)).generator(0)
        frame, starts, report = first_frame(model, rng)
        frame, spent, (share, levels) = self._settled(model, frame, rng)
        report = report.assign(
            latent_share=share, n_levels=levels, step_size=frame.step_size, n_steps=frame.n_steps,
            n_fit=int(report["n_fit"]) + spent,
            center=("theta_dim", frame.center), scale=(("theta_dim", "scale_dim"), frame.scale),
        ).assign_coords(theta_dim=list(model.names))  # fmt: skip
        words = f"{frame.n_steps} steps of {frame.step_size:.3g} on EP's evidence"
        report = report.assign_attrs(
            chosen=f"{words}; latents by {self.n_latents} annealed draws of its fits"
        )
        if "theta" not in problem.starts:
            thetas = model.parameters.normal.theta(starts)[0]
            problem = replace(problem, starts={**problem.starts, "theta": thetas})
        return Tuned(replace(self, frame=frame, pilot=report), problem, {"pilot": report})

    def _settled(
        self, model: GPModel, frame: EvidenceFrame, rng: np.random.Generator
    ) -> tuple[EvidenceFrame, int, np.ndarray]:
        """The frame after two rounds of transitions, their fits, and mean share and levels of the second."""
        state, spent = None, 0
        for length in (SETTLING + 5 * model.dim, SETTLING):
            transition = PseudoMarginalTransition(model, replace(self, frame=frame))
            if state is None:
                theta = model.parameters.normal.theta(frame.x[0])[0]
                state = transition.init(rng, {"theta": theta})
            tuner, draws = StepSize(frame.step_size, self.target_acceptance, LARGEST_STEP), []
            told = []
            for _ in range(length):
                transition.frame = frame = frame._replace(step_size=tuner.step)
                state, info = transition.step(rng, state)
                tuner.update(float(np.exp(min(0.0, -info.energy_error))))
                draws.append(state.x)
                spent += info.n_fit
                told.append((info.latent_share, info.n_levels))
            frame = frame._replace(step_size=tuner.average)
            if length > SETTLING:
                frame = frame.refitted(np.array(draws))
        return frame, spent, np.mean(told, 0)

    def bind(self, target: GPModel, chain: int = 0) -> PseudoMarginalTransition:
        """Transitions on a model."""
        return PseudoMarginalTransition(target, self)


class _Point(NamedTuple):
    """A setting with draws of the latents there."""

    at: SettingFit
    draws: Draws
    n_levels: int


class PseudoMarginalTransition:
    """Jumps and trajectories of one chain."""

    def __init__(self, model: GPModel, settings: PseudoMarginalHMC) -> None:
        self.model, self.settings, self.frame = model, settings, settings._known_frame()
        self._last: SettingFit | None = None

    def _fit(self, x: np.ndarray) -> SettingFit:
        """The fit at x; that of the state is kept, and follows from x, so nothing depends on it."""
        if self._last is not None and np.array_equal(self._last.x, x):
            return self._last
        return SettingFit(self.model, x, self.frame.start(x))

    def init(
        self, rng: np.random.Generator, start: Mapping[str, np.ndarray]
    ) -> PseudoMarginalState:
        """State at ``start["theta"]`` and "latent", a draw of the EP fit unless given.

        Raises `NumericalError` where EP does not converge there.
        """
        at = self._fit(
            self.model.parameters.to_normal(np.asarray(start["theta"], dtype=np.float64))
        )
        latent = start.get("latent")
        kept = None if latent is None else latent + at.prior.predictor_mean
        return self._state(rng, self._point(rng, at, kept))

    def _point(
        self, rng: np.random.Generator, at: SettingFit, kept: np.ndarray | None = None
    ) -> _Point:
        """New draws at a setting, one of them the predictors ``kept`` (n,), if given."""
        n_levels = at.n_levels(self.frame.trials)
        return _Point(at, at.draws(rng, self.settings.n_latents, n_levels, kept), n_levels)

    def _state(self, rng: np.random.Generator, point: _Point) -> PseudoMarginalState:
        self._last, draws = point.at, point.draws
        k = draws.pick(rng)
        latent = draws.predictor[k] - point.at.prior.predictor_mean
        return PseudoMarginalState(point.at.x, latent, float(draws.log_likelihood[k]))

    def step(
        self, rng: np.random.Generator, state: PseudoMarginalState
    ) -> tuple[PseudoMarginalState, PseudoMarginalInfo]:
        """New latents beside the state's, a jump, and a trajectory."""
        at = self._fit(state.x)
        kept = state.latent + at.prior.predictor_mean
        point = self._point(rng, at, kept)
        share, n_levels = point.draws.share, point.n_levels
        point, jump_rate, jump_failed = self._jump(rng, point)
        point, rate, error, n_fit, failed = self._trajectory(rng, point)
        info = PseudoMarginalInfo(
            rate, jump_rate, error, share, n_levels, n_fit + 1, int(jump_failed) + int(failed)
        )
        return self._state(rng, point), info

    def _jump(self, rng: np.random.Generator, point: _Point) -> tuple[_Point, float, bool]:
        """A proposal of the mixture; its acceptance rate, and whether it has no fit."""
        x = self.frame.mixture.draw(rng, 1)[0]
        try:
            proposed = self._fit(x)
        except NumericalError:
            return point, 0.0, True
        there, here = self.frame.mixture.log_density(np.array([x, point.at.x]))
        change = proposed.log_density - there - (point.at.log_density - here)
        return *self._decide(rng, point, proposed, float(change)), False

    def _trajectory(
        self, rng: np.random.Generator, point: _Point
    ) -> tuple[_Point, float, float, int, bool]:
        """A leapfrog trajectory: its acceptance rate, error, fits, and whether it ended without one."""
        frame, jitter = self.frame, self.settings.jitter
        step = frame.step_size * (1.0 + jitter * (2.0 * rng.random() - 1.0))
        momentum = rng.standard_normal(len(frame.center))
        at, energy = point.at, 0.5 * float(momentum @ momentum) - point.at.log_density
        momentum = momentum + 0.5 * step * (at.gradient @ frame.scale)
        for k in range(1, frame.n_steps + 1):
            try:
                at = self._fit(at.x + step * frame.scale @ momentum)
            except NumericalError:
                return point, 0.0, np.inf, k, True
            last = k == frame.n_steps
            momentum = momentum + (0.5 if last else 1.0) * step * (at.gradient @ frame.scale)
        error = 0.5 * float(momentum @ momentum) - at.log_density - energy
        if not np.isfinite(error):
            return point, 0.0, np.inf, frame.n_steps, True
        return *self._decide(rng, point, at, -error), error, frame.n_steps, False

    def _decide(
        self, rng: np.random.Generator, point: _Point, proposed: SettingFit, change: float
    ) -> tuple[_Point, float]:
        """The next point, by EP's evidence first, then by the estimates; and the acceptance rate."""
        rate = float(np.exp(min(0.0, change)))
        if rng.random() >= rate:
            return point, rate
        try:
            found = self._point(rng, proposed)
        except NumericalError:
            return point, 0.0
        second = float(np.exp(min(0.0, found.draws.log_ratio - point.draws.log_ratio)))
        if rng.random() < second:
            return found, rate * second
        return point, rate * second

    def record(self, rng: np.random.Generator, state: PseudoMarginalState) -> dict[str, Any]:
        """theta, latents, log likelihood, T, and lp = T + log p_h(theta)."""
        at = self._fit(state.x)
        log_prior = at.log_prior_of(state.latent + at.prior.predictor_mean)
        complete = state.log_likelihood + log_prior
        return {
            "theta": at.theta,
            "latent": state.latent,
            "complete_log_likelihood": complete,
            "sum_log_likelihood": state.log_likelihood,
            "lp": complete + self.model.log_prior(at.theta),
        }


def refused(model: GPModel) -> str:
    """What keeps a model from EP's evidence and annealed latents, in words; nothing where it can be drawn."""
    if model.likelihood.conjugate:
        return "the latents of a regression are integrated out exactly"
    if model.basis or model.kronecker:
        return f"the model has structure {model.structure_name!r}, where a fit has another form"
    if not has_normal_coordinates(model):
        return "a hyperprior has no transform to a normal"
    return ""
