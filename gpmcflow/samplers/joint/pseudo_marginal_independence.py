"""Pseudo-marginal independence sampling: hyperparameters from a mixture at the modes of EP's evidence.

Proposals come in blocks, and all of a block serve: draws are picked from it by weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import xarray as xr
from scipy.linalg import lapack

from gpmcflow.approximations.mixture import MOST_COORDINATES
from gpmcflow.approximations.site_draws import SettingFit
from gpmcflow.diagnostics.importance_weights import (
    effective_size,
    normalised_weights,
    smooth_weights,
    systematic_resample,
)
from gpmcflow.errors import NumericalError
from gpmcflow.execution import chain_generators
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.multi_gp_model import MultiGPModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.pseudo_marginal import (
    EvidenceFrame,
    OnEvidence,
    first_frame,
    prefers_pseudo_marginal,
    refused,
)
from gpmcflow.samplers.protocol import Tuned, require_count

JUDGED = 50  # proposals of the pilot that tell how good they are; chains start at some of them
TINY = 1e-12  # of a variance that rounding would take below zero


def suits_independence(model: GPModel | MultiGPModel) -> bool:
    """Whether `PseudoMarginalIndependence` is tried before samplers that follow gradients.

    Of up to 8 hyperparameters, where EP's fits take few sweeps.
    """
    if isinstance(model, MultiGPModel) or refused(model):
        return False
    quick = model.likelihood.log_concave or prefers_pseudo_marginal(model)
    return quick and model.dim <= MOST_COORDINATES


class WithoutMean:
    """A model with its mean c ~ N(m, s^2) integrated out: a term s^2 of the covariance, about m.

    Predictors eta = f + c ~ N(m, S), S = K + s^2 1 1', which EP and annealing take. Given them

        c ~ N(m + s^2 1'S^-1 (eta - m), s^2 - s^4 1'S^-1 1),    f = eta - c.

    The larger the amplitude, the less is known of c, which a proposal of all hyperparameters at once would
    miss. A mean that is fixed, not normal a priori, or the only free parameter stays as it is.
    """

    def __init__(self, model: GPModel) -> None:
        self.model = model.with_structure("dense")
        self.place: int | None = None
        prior = model.mean
        if not isinstance(prior, Hyperprior) or not prior.is_normal or model.dim == 1:
            return
        self.loc = float(prior.parameters.get("loc", 0.0))
        self.sd = float(prior.parameters.get("scale", 1.0))
        self.place = model.names.index("mean")
        self.model = self.model.with_mean_as_a_term(self.loc, self.sd)

    def normal(self, theta: np.ndarray) -> np.ndarray:
        """Normal coordinates of what is left of theta (..., d)."""
        if self.place is not None:
            theta = np.delete(theta, self.place, axis=-1)
        return self.model.parameters.to_normal(theta)

    def drawn(
        self, rng: np.random.Generator, at: SettingFit, predictor: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """theta (d,), f (n,) and log N(f; 0, K) for predictors (n,) at a setting, with a draw of the mean."""
        log_normal = at.log_prior_of(predictor)
        if self.place is None:
            return at.theta, predictor - at.prior.predictor_mean, log_normal
        L, _ = at.prior.cholesky
        rows = np.stack([np.ones_like(predictor), predictor - self.loc], axis=1)
        ones, away = lapack.dtrtrs(L, rows, lower=1)[0].T
        mean = self.loc + self.sd**2 * float(ones @ away)
        sd = self.sd * np.sqrt(max(1.0 - self.sd**2 * float(ones @ ones), TINY))
        z = rng.standard_normal()
        c = mean + sd * z
        log_normal += 0.5 * (((c - self.loc) / self.sd) ** 2 - z**2) + np.log(self.sd / sd)
        return np.insert(at.theta, self.place, c), predictor - c, log_normal


class BlockState(NamedTuple):
    """Where a chain stands, and what is left of its block: draws that were picked, in their order."""

    theta: np.ndarray  #: (d,)
    latent: np.ndarray  #: f (n,)
    log_likelihood: float  #: log p(y | f, theta)
    log_normal: float  #: log N(f; 0, K)
    log_weight: float  #: log of target over proposal
    place: int  #: of the next draw in the block; its length where none is left
    picked_theta: np.ndarray  #: (m, d)
    picked_latent: np.ndarray  #: (m, n)
    picked: np.ndarray  #: log likelihood, log normal and log weight of each (m, 3)
    told: np.ndarray  #: of the m proposals: log weight, share of the latents, levels, failed (m, 4)
    kept: float  #: weight that the draw before the block had in it


class BlockInfo(NamedTuple):
    """What a transition tells."""

    acceptance_rate: float  #: weight of the block's proposals beside the draw before them
    log_weight: float  #: of one proposal, whether it was picked or not: the mean weight is p(y)
    latent_share: float  #: effective share of the draws of its latents
    n_levels: int  #: that they climbed
    n_fit: int  #: EP fits
    n_failed: int  #: proposals without one


@dataclass(frozen=True)
class PseudoMarginalIndependence(OnEvidence):
    """Independent proposals of hyperparameters, with latents by annealing, in blocks that are resampled.

    theta ~ q, a mixture of Student-t densities at the modes of log Z_EP(theta) + log p_h(theta), Z_EP the
    evidence of expectation propagation, with a tenth of the hyperprior; then frozen. A mean with a normal
    hyperprior is integrated out, and drawn given the rest. Annealed importance
    sampling takes draws f_j from the EP fit at theta to p(f | y, theta); the mean of their weights Z is an
    unbiased estimate of p(y | theta), and w = Z p_h(theta) / q(theta) the weight of the proposal, with one of
    the f_j, picked by weight. A block has so many proposals, and the draw before them with its own weight:
    as many draws are picked from these by systematic resampling, and put in random order. Each is exact: the
    draw before is one of the posterior's, and given all that stand in a block, which of them it is has these
    weights. A transition costs one EP fit, of order n^3, and no gradient.

    The mean of all weights w is p(y), whether they were picked or not (`model_evidence` takes it from the
    draws). With up to some 8 hyperparameters proposals are good; for more take `PseudoMarginalHMC` or
    `JointSplitHMC`. For models without a grid or basis functions.

    Sources: pseudo-marginal MCMC: Andrieu & Roberts (2009); all proposals of a block: Tjelmeland (2004),
    Calderhead (2014); annealed importance sampling: Neal (2001).

    Attributes
    ----------
    n_latents:
        Draws of the latents of each estimate, 2 or more.
    n_proposals:
        Proposals of a block.
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
    >>> model = gp.GPModel(x, np.arange(8), gp.SquaredExponential(), gp.Poisson())
    >>> draws = gp.sample(model, gp.PseudoMarginalIndependence(), n_chains=1, n_draws=50)
    >>> bool(draws.sample_stats["acceptance_rate"].mean() > 0.5)
    True
    """

    n_latents: int = 16
    n_proposals: int = 16
    frame: EvidenceFrame | None = field(default=None, repr=False)
    pilot: xr.Dataset | None = field(default=None, repr=False, compare=False)

    state = BlockState
    statistics: ClassVar[Mapping[str, str]] = {
        "acceptance_rate": "<f8", "log_weight": "<f8", "latent_share": "<f8", "n_levels": "<i8",
        "n_fit": "<i8", "n_failed": "<i8",
    }  # fmt: skip
    n_warmup = 32  # chains begin at draws that were picked already

    def __post_init__(self) -> None:
        self._check_latents()
        require_count("PseudoMarginalIndependence", "n_proposals", self.n_proposals)

    def _piloted(self, problem: JointProblem, seed: int, key: Sequence[Any]) -> Tuned:
        """Find modes and mixture, and judge proposals, at some of which chains start."""
        model = problem.target
        rng = chain_generators(seed, *key, "proposals", chains=range(1)).generator(0)
        inner = WithoutMean(model).model
        frame, _, report = first_frame(inner, rng)
        sampler = replace(self, frame=frame)
        transition = sampler.bind(model)
        tried = [transition.propose(rng) for _ in range(JUDGED)]
        found = [each for each in tried if np.isfinite(each.log_weight)]
        log_weights = np.array([each.log_weight for each in found])
        share, k = 0.0, np.inf
        if found:
            share, k = float(effective_size(log_weights)) / JUDGED, smooth_weights(log_weights)[1]
        report = report.assign(share=share, pareto_k=k, n_fit=int(report["n_fit"]) + JUDGED)
        words = f"proposals of which {share:.0%} are effective"
        report = report.assign_attrs(
            chosen=f"{words}; latents by {self.n_latents} annealed draws of EP's fits"
        )
        if "theta" not in problem.starts and found:
            chosen = systematic_resample(normalised_weights(log_weights), rng.random())
            thetas = np.stack([found[i].theta for i in rng.permutation(chosen)])
            problem = replace(problem, starts={**problem.starts, "theta": thetas})
        return Tuned(replace(sampler, pilot=report), problem, {"pilot": report})

    def bind(self, target: GPModel, chain: int = 0) -> BlockTransition:
        """Transitions on a model."""
        return BlockTransition(target, self)


class Proposal(NamedTuple):
    """A setting with one draw of the latents there, picked from all by weight."""

    theta: np.ndarray  #: (d,)
    latent: np.ndarray  #: f (n,)
    log_likelihood: float
    log_normal: float
    log_weight: float  #: -inf where the setting has no fit, and the rest is empty
    latent_share: float = 0.0
    n_levels: int = 0

    @property
    def numbers(self) -> tuple[float, float, float]:
        """Log likelihood, log N(f; 0, K) and log weight."""
        return self.log_likelihood, self.log_normal, self.log_weight

    @property
    def told(self) -> tuple[float, float, int, bool]:
        """Log weight, share of the latents, levels, and whether there is no fit."""
        return self.log_weight, self.latent_share, self.n_levels, not np.isfinite(self.log_weight)


class BlockTransition:
    """Draws of one chain, one after the other from blocks of proposals."""

    def __init__(self, model: GPModel, settings: PseudoMarginalIndependence) -> None:
        self.model, self.settings, self.frame = model, settings, settings._known_frame()
        self.without_mean = WithoutMean(model)

    def init(self, rng: np.random.Generator, start: Mapping[str, np.ndarray]) -> BlockState:
        """State at ``start["theta"]`` and "latent"; without latents these and the mean are drawn.

        Raises `NumericalError` where EP does not converge there.
        """
        theta, latent = np.asarray(start["theta"], dtype=np.float64), start.get("latent")
        kept = None if latent is None else self.model.predictor(theta, latent)
        first = self._at(rng, self.without_mean.normal(theta), kept)
        m, d, n = self.settings.n_proposals, self.model.dim, self.model.n_cases
        theta, latent, numbers, told = (np.zeros((m, k)) for k in (d, n, 3, 4))
        return BlockState(
            first.theta, first.latent, *first.numbers, m, theta, latent, numbers, told, 0.0
        )

    def propose(self, rng: np.random.Generator) -> Proposal:
        """A proposal of the mixture."""
        x = self.frame.mixture.draw(rng, 1)[0]
        try:
            return self._at(rng, x, None)
        except NumericalError:
            return Proposal(np.empty(0), np.empty(0), np.nan, np.nan, -np.inf)

    def _at(self, rng: np.random.Generator, x: np.ndarray, kept: np.ndarray | None) -> Proposal:
        """New draws of the predictors at x, one of them ``kept`` (n,) if given, and one of them picked."""
        at = SettingFit(self.without_mean.model, x, self.frame.start(x))
        n_levels = at.n_levels(self.frame.trials)
        draws = at.draws(rng, self.settings.n_latents, n_levels, kept)
        k = draws.pick(rng)
        log_proposal = float(self.frame.mixture.log_density(x[None])[0])
        log_weight = at.log_density + draws.log_ratio - log_proposal
        theta, latent, log_normal = self.without_mean.drawn(rng, at, draws.predictor[k])
        log_likelihood = float(draws.log_likelihood[k])
        return Proposal(
            theta, latent, log_likelihood, log_normal, log_weight, draws.share, n_levels
        )

    def step(self, rng: np.random.Generator, state: BlockState) -> tuple[BlockState, BlockInfo]:
        """The next draw of the block; of a new one where none is left."""
        if state.place == len(state.picked):
            state = self._block(rng, state)
        place = int(state.place)
        proposed, share, n_levels, failed = state.told[place].tolist()
        info = BlockInfo(1.0 - float(state.kept), proposed, share, int(n_levels), 1, int(failed))
        log_likelihood, log_normal, log_weight = state.picked[place].tolist()
        moved = state._replace(
            theta=state.picked_theta[place],
            latent=state.picked_latent[place],
            log_likelihood=log_likelihood,
            log_normal=log_normal,
            log_weight=log_weight,
            place=place + 1,
        )
        return moved, info

    def _block(self, rng: np.random.Generator, state: BlockState) -> BlockState:
        """The same draw with a new block: m proposals, and m draws picked from these and the draw."""
        m = self.settings.n_proposals
        proposals = [self.propose(rng) for _ in range(m)]
        now = Proposal(*state[:5])
        here = [now, *(own for own in proposals if np.isfinite(own.log_weight))]
        shares = normalised_weights(np.array([own.log_weight for own in here]))
        picked = [here[i] for i in rng.permutation(systematic_resample(shares, rng.random(), m))]
        return state._replace(
            place=0,
            picked_theta=np.array([own.theta for own in picked]),
            picked_latent=np.array([own.latent for own in picked]),
            picked=np.array([own.numbers for own in picked], dtype=np.float64),
            told=np.array([own.told for own in proposals], dtype=np.float64),
            kept=float(shares[0]),
        )

    def record(self, rng: np.random.Generator, state: BlockState) -> dict[str, Any]:
        """theta, latents, log likelihood, T, and lp = T + log p_h(theta)."""
        complete = float(state.log_likelihood + state.log_normal)
        return {
            "theta": state.theta,
            "latent": state.latent,
            "complete_log_likelihood": complete,
            "sum_log_likelihood": float(state.log_likelihood),
            "lp": complete + self.model.log_prior(state.theta),
        }
