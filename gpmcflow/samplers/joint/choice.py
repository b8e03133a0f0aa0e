"""Which sampler draws hyperparameters and latents of a model, where none is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpmcflow.approximations.mixture import ModeProposal, suits
from gpmcflow.diagnostics.importance_weights import effective_size, smooth_weights
from gpmcflow.execution import chain_generators
from gpmcflow.samplers.joint.fitted_independence import JointIndependence
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.pseudo_marginal import PseudoMarginalHMC, suits_pseudo_marginal
from gpmcflow.samplers.joint.split_hmc import JointSplitHMC
from gpmcflow.samplers.modes_group import Modes, modes_or_warning
from gpmcflow.samplers.protocol import Sampler

LEAST_SHARE = 0.3  # effective draws of the mixture: with fewer, trajectories are faster
LEAST_LATENT_SHARE = 0.5  # effective draws of EP's latents: with fewer, chains linger
LARGEST_K = 0.7  # Pareto k of its weights: above, a chain stands still for long now and then


def choose(
    problem: JointProblem, *, seed: int, key: Sequence[Any]
) -> tuple[Sampler, JointProblem, Modes | None]:
    """Independence Metropolis where a mixture at the modes is a good proposal, else split HMC.

    Chains of the latter start in every mode of more than 1 % of the posterior, unless starts are given. Modes
    are looked for where that is cheap (`suits`). Labels, which say little about their latent function, take
    pseudo-marginal HMC where its pilot finds that EP's draws of the latents are good ones.
    """
    model = problem.target
    if model.likelihood.relative_sites and suits_pseudo_marginal(model):
        tuned = PseudoMarginalHMC().adapt(problem, seed=seed, key=key)
        if float(tuned.groups["pilot"]["latent_share"]) >= LEAST_LATENT_SHARE:
            return tuned.sampler, tuned.problem, None
    if not suits(model):
        return JointSplitHMC(), problem, None
    rng = chain_generators(seed, *key, problem.stream, "modes", chains=[0]).generator(0)
    modes = modes_or_warning(model, rng)
    if modes is None:
        return JointSplitHMC(), problem, None
    share = effective_size(modes.log_weights) / len(modes.log_weights)
    if share >= LEAST_SHARE and smooth_weights(modes.log_weights)[1] <= LARGEST_K:
        proposal = ModeProposal(modes.mixture, model.parameters)
        return JointIndependence(proposal=proposal), problem, modes
    if "theta" not in problem.starts:
        problem = replace(problem, modes=modes.starting(model))
    return JointSplitHMC(), problem, modes
