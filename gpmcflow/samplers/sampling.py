"""Posterior sampling: chains of any registered sampler, tuned in a pilot, as an ArviZ DataTree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import run, workers
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers import Sampler, State, make_sampler
from gpmcflow.samplers.pilot import find_pilot
from gpmcflow.samplers.tuning import TuningSettings


@dataclass(frozen=True, eq=False)
class ChainProgram:
    """Markov chains as a program of segments.

    They start from ``start_latents`` (pool, d), chain k from row k modulo its length, or, without
    it, from draws of the target's Gaussian part.
    """

    target: Target
    sampler: Sampler
    start_latents: np.ndarray | None = None

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each draw gives."""
        return {
            "latent": ((self.target.dim,), "<f8"),
            "log_likelihood": ((), "<f8"),
            "lp": ((), "<f8"),
            "acceptance_rate": ((), "<f8"),
            "energy_error": ((), "<f8"),
            "diverging": ((), "|i1"),
            "n_gradient": ((), "<i4"),
        }

    def start(self, rng) -> dict[str, np.ndarray]:
        """States at the starting points."""
        if self.start_latents is None:
            position = rng.standard_normal((self.target.dim,))
        else:
            rows = np.array(rng.chains) % len(self.start_latents)
            position = self.target.base.from_latent(self.start_latents[rows])
        state = self.sampler.init(self.target, position)
        if not np.all(np.isfinite(state.residual)):
            raise NumericalError(
                "sample: a starting point has no finite likelihood; check the prior's scale"
            )
        return state._asdict()

    def advance(self, rng, carry, start: int, stop: int):
        """Draws start..stop-1."""
        state, rows = State(**carry), []
        for _ in range(start, stop):
            state, info = self.sampler.step(rng, self.target, state)
            prior = -0.5 * (state.position**2).sum(-1)
            rows.append(
                {
                    "latent": self.target.base.latent(state.position),
                    "log_likelihood": state.log_likelihood,
                    "lp": prior + self.target.beta * state.residual,
                    "acceptance_rate": info.acceptance_rate,
                    "energy_error": info.energy_error,
                    "diverging": info.diverging.astype(np.int8),
                    "n_gradient": info.n_gradient.astype(np.int32),
                }
            )
        return state._asdict(), {k: np.stack([r[k] for r in rows], axis=1) for k in rows[0]}


def sample(
    base: GaussianSites,
    sampler: str | Sampler = "split_hmc",
    *,
    n_chains: int = 8,
    n_draws: int = 500,
    n_warmup: int = 100,
    tuning: TuningSettings | None = None,
    start_latents: np.ndarray | None = None,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    block_size: int = 64,
    segment_length: int = 100,
    scheduler: Any = "synchronous",
    n_workers: int = 1,
    state_dir: Any = None,
    settings: Any = None,
    compute: bool = True,
    progress: str | None = None,
) -> xr.DataTree:
    """Draw from the posterior of a latent Gaussian model.

    ``base`` is the Gaussian the sampler's coordinates are standardised by and the chains start
    from, e.g. ``expectation_propagation(model).sites``; ``sampler`` a name or a sampler. With
    ``tuning`` (the default when a name is given) step size and number of steps come from a pilot at
    the posterior and are then frozen. ``n_warmup`` draws are dropped. For the settings of execution
    see `gpmcflow.execution.run`; with ``compute=False`` the arrays are lazy.

    Returns groups ``posterior`` (latent: chain, draw, latent_dim), ``sample_stats`` and
    ``observed_data`` by ArviZ's schema.
    """
    if isinstance(sampler, str):
        sampler, tuning = make_sampler(sampler), tuning or TuningSettings()
    if n_warmup < 0 or n_draws < 1:
        raise InputError(
            f"sample: n_draws is {n_draws}, n_warmup is {n_warmup}; allowed: >= 1, >= 0"
        )
    target = Target.posterior(base)
    if tuning is not None:
        pilot = find_pilot(TemperedPath(base), sampler, tuning=tuning, seed=seed, key=key)
        step_size, n_steps = float(pilot.step_size[-1]), int(pilot.n_steps[-1])
        sampler = replace(sampler, step_size=step_size, n_steps=n_steps)
        start_latents = pilot.latents if start_latents is None else start_latents
    with workers(scheduler, n_workers) as pool:
        arrays = run(
            ChainProgram(target, sampler, start_latents),
            n_chains=n_chains,
            length=n_warmup + n_draws,
            block_size=block_size,
            segment_length=segment_length,
            seed=seed,
            key=(*key, "sample"),
            scheduler=pool,
            state_dir=state_dir,
            settings=settings,
            compute=compute,
            progress=progress,
        )
    tree = _tree(arrays, n_warmup, target, sampler)
    return tree.load(scheduler="synchronous") if compute and state_dir is None else tree


def _tree(arrays: dict, n_warmup: int, target: Target, sampler: Sampler) -> xr.DataTree:
    names = [name for name in arrays if name != "latent"]
    model = target.model
    n_chains, n_total = arrays["latent"].shape[:2]
    coords = {"chain": np.arange(n_chains), "draw": np.arange(n_total - n_warmup)}
    latent = arrays["latent"][:, n_warmup:]
    stats = {name: (("chain", "draw"), arrays[name][:, n_warmup:]) for name in names}
    stats["step_size"] = ((), float(sampler.step_size))
    stats["n_steps"] = ((), int(sampler.n_steps))
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(
                {"latent": (("chain", "draw", "latent_dim"), latent)},
                coords | {"latent_dim": np.arange(model.dim)},
            ),
            "sample_stats": xr.Dataset(stats, coords),
            "observed_data": xr.Dataset(
                {"y": ("case", model.y)}, {"case": np.arange(len(model.y))}
            ),
        }
    )
