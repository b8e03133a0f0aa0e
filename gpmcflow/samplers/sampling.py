"""Posterior sampling: chains of any registered sampler, tuned in a pilot, as an ArviZ DataTree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.approximations.expectation_propagation import as_sites
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import array_digest, pin_blas, run, text_digest, workers
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers import Sampler, State, make_sampler
from gpmcflow.samplers.pilot import find_pilot
from gpmcflow.samplers.tuning import TuningSettings
from gpmcflow.storage import standard_attributes, with_attributes


@dataclass(frozen=True, eq=False)
class ChainProgram:
    """Markov chains as a program of segments.

    They start from ``start_latents`` (pool, d), chain k from row k modulo its length, or, without
    it, from draws of the target's Gaussian part.
    """

    target: Target
    sampler: Sampler
    start_latents: np.ndarray | None = None
    thin: int = 1

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        start = {} if self.start_latents is None else {"start": self.start_latents}
        sites = {"precision": self.target.precision, "shift": self.target.shift}
        numbers = array_digest(sites | {"beta": np.asarray(self.target.beta)} | start)
        return text_digest(self.target.base.digest(), numbers, repr(self.sampler), str(self.thin))

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
            spent = 0
            for _ in range(self.thin):
                state, info = self.sampler.step(rng, self.target, state)
                spent = spent + info.n_gradient
            prior = -0.5 * (state.position**2).sum(-1)
            rows.append(
                {
                    "latent": self.target.base.latent(state.position),
                    "log_likelihood": state.log_likelihood,
                    "lp": prior + self.target.beta * state.residual,
                    "acceptance_rate": info.acceptance_rate,
                    "energy_error": info.energy_error,
                    "diverging": info.diverging.astype(np.int8),
                    "n_gradient": spent.astype(np.int32),
                }
            )
        return state._asdict(), {k: np.stack([r[k] for r in rows], axis=1) for k in rows[0]}


def sample(
    base: GaussianSites | LatentGaussianModel,
    sampler: str | Sampler = "split_hmc",
    *,
    n_chains: int = 8,
    n_draws: int = 500,
    n_warmup: int = 100,
    thin: int = 1,
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

    ``base`` is the Gaussian the sampler's coordinates are standardised by, e.g.
    ``expectation_propagation(model).sites``, for which a model given in its place stands; ``sampler``
    is a name or a sampler. With ``tuning`` (the default when a name is given) a pilot moves particles
    from the base to the posterior; step size, number of steps and starting points come from it and
    are then frozen. ``start_latents`` (pool, d) overrides the starting points; without either they are
    draws of the base. ``n_warmup`` draws are dropped; a draw is the last of ``thin`` transitions.

    For the settings of execution see `gpmcflow.execution.run`; with ``compute=False`` the arrays are
    lazy (a pilot, where one is asked for, has run).

    Returns groups ``posterior`` (latent: chain, draw, latent_dim), ``sample_stats`` and
    ``observed_data`` by ArviZ's schema.
    """
    pin_blas()
    base = as_sites(base)
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
            ChainProgram(target, sampler, start_latents, thin),
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
    described = {
        "sampler": repr(sampler),
        "likelihood": repr(target.model.likelihood),
        "key": list(key),
    }
    attributes = standard_attributes(
        settings=described, seed=seed, data_checksum=array_digest({"y": target.model.y})
    )
    tree = with_attributes(_tree(arrays, n_warmup, target, sampler), attributes)
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
