"""Elliptical slice sampling: updates of a Gaussian's coordinates that need no tuning and no gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpmcflow.errors import InputError
from gpmcflow.likelihoods.compiled import TemperedCode, elliptical_updates, likelihood_code
from gpmcflow.models.tempered import Target
from gpmcflow.samplers.latent.protocol import Info, LatentSampler, State
from gpmcflow.samplers.protocol import ChainRandom, require_count


@dataclass(frozen=True)
class EllipticalSlice(LatentSampler):
    """Elliptical slice sampling for latents: no tuning and no gradients, and every update is accepted.

    In the coordinates of a Gaussian, a prior, EP or Laplace fit, that is N(0, I), and what is left
    of the likelihood, beta r, takes the place of log L. All draws are one product with the predictor's
    factor; each evaluation then costs O(n). A likelihood value counts as half a gradient in ``n_gradient``.

    Source: Murray, Adams & MacKay (2010); `likelihoods.compiled.elliptical_updates`.

    Attributes
    ----------
    n_steps:
        Updates of a transition, 1 or more.

    Raises
    ------
    InputError:
        For settings out of range, and on a ladder in coordinates of another Gaussian.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> model = gp.GPModel(x, np.sign(x - 0.4), gp.SquaredExponential(0.3, 2.0), gp.Probit())
    >>> draws = gp.sample(model, gp.EllipticalSlice(n_steps=2), n_chains=1, n_draws=50)
    >>> bool((draws.sample_stats["n_gradient"] >= 1.0).all())
    True
    """

    n_steps: int = 1

    def __post_init__(self) -> None:
        require_count("EllipticalSlice", "n_steps", self.n_steps)

    def init(self, target: Target, position: np.ndarray) -> State:
        """Evaluate the target at positions (chain, dim); there is no gradient, (chain, 0)."""
        if np.ndim(target.precision) > 1:
            raise InputError(
                "EllipticalSlice: a ladder in coordinates of another Gaussian is not supported; take "
                "those of its reference"
            )
        return State(position, *target.value(position), np.empty((len(position), 0)))

    def step(self, rng: ChainRandom, target: Target, state: State) -> tuple[State, Info]:
        """``n_steps`` updates of every chain, with its own generator."""
        (n_chains, n), base = state.predictor.shape, target.base
        likelihood, y, mean = target.model.likelihood, target.model.y, base.predictor_mean
        beta = np.broadcast_to(np.asarray(target.beta, dtype=np.float64), (n_chains,))
        generators = [rng.generator(chain) for chain in range(n_chains)]
        z = np.stack([g.standard_normal((self.n_steps, target.dim)) for g in generators])
        draws = np.concatenate([base.predictor(z) - mean, z], axis=-1)
        places = np.concatenate([state.predictor - mean, state.position], axis=-1)
        code, sites = likelihood_code(likelihood, y), (target.precision, target.shift)
        scratch, counts = np.empty(n + target.dim), np.empty(n_chains)
        for k, generator in enumerate(generators):
            tempered = TemperedCode(code, mean, *sites, float(beta[k]))
            value = beta[k] * state.residual[k] if beta[k] > 0.0 else 0.0
            _, counts[k] = elliptical_updates(
                generator, tempered, 0.0, places[k], value, draws[k], scratch
            )
        predictor, position = places[:, :n] + mean, places[:, n:]
        log_likelihood = likelihood.log_density(predictor, y)
        residual = target.residual(position, predictor, log_likelihood)
        moved = np.any(position != state.position, axis=1)
        state = State(position, predictor, log_likelihood, residual, state.gradient)
        zero, flags = np.zeros(n_chains), np.zeros(n_chains, dtype=bool)
        return state, Info.explicit(moved, np.ones(n_chains), zero, flags, 0.5 * counts)
