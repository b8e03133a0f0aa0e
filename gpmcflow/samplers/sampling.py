"""Posterior sampling: chains of any registered sampler, tuned in a pilot, as an ArviZ DataTree."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Protocol

import dask.array as da
import numpy as np
import xarray as xr

from gpmcflow.approximations.expectation_propagation import as_sites
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import array_digest, pin_blas, run, text_digest
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers import Sampler, State, make_sampler
from gpmcflow.samplers.joint_sampling import sample_joint
from gpmcflow.samplers.joint_split_hmc import JointSplitHMC
from gpmcflow.samplers.pilot import find_pilot
from gpmcflow.samplers.protocol import STATISTICS, statistics
from gpmcflow.samplers.tuning import TuningSettings
from gpmcflow.storage import standard_attributes, with_attributes


class Summary(Protocol):
    """Functions of theta that are kept of every transition, where theta itself is thinned.

    Picklable, with a repr that tells all its settings.
    """

    names: tuple[str, ...]

    def __call__(self, latent: np.ndarray) -> np.ndarray:
        """Values (chain, len(names)) at latents (chain, d)."""


log = logging.getLogger(__name__)
STUCK = 1e-6  # acceptance rate of a chain that stands still
TRACED = ("log_likelihood", "accepted", "n_gradient")  # before those of the summary


@dataclass(frozen=True, eq=False)
class ChainProgram:
    """Markov chains as a program of segments; a draw is the last of ``thin`` transitions.

    They start from ``start_latents`` (pool, d), chain k from row k modulo its length, or, without
    it, from draws of the target's Gaussian part, or of the Gaussian ``start_from`` where that is
    another one: for a sampler that moves in other coordinates than those it was given. With a
    ``summary`` the log likelihood, acceptance, cost and the summary's values of every transition are
    kept, too.
    """

    target: Target
    sampler: Sampler
    start_latents: np.ndarray | None = None
    thin: int = 1
    summary: Summary | None = None
    start_from: GaussianSites | None = None

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        start = {} if self.start_latents is None else {"start": self.start_latents}
        settings = f"{self.sampler!r} {self.thin} {self.summary!r}"
        origin = () if self.start_from is None else (self.start_from.digest(),)
        return text_digest(self.target.digest(), array_digest(start), settings, *origin)

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each draw gives."""
        found = {
            "latent": ((self.target.dim,), "<f8"),
            "log_likelihood": ((), "<f8"),
            "lp": ((), "<f8"),
            **{name: ((), kind) for name, kind in STATISTICS.items()},
        }
        if self.summary is not None:
            found["trace"] = ((self.thin, len(self.traced)), "<f8")
        return found

    @property
    def traced(self) -> tuple[str, ...]:
        """Names of the columns of the output ``trace``."""
        return (*TRACED, *self.summary.names)

    def start(self, rng) -> dict[str, np.ndarray]:
        """States at the starting points."""
        if self.start_latents is None:
            position = rng.standard_normal((self.target.dim,))
            if self.start_from is not None:
                path = TemperedPath(self.start_from, self.target.base)
                position = path.reference_draws(position)
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
        base, beta = self.target.base, self.target.beta
        for _ in range(start, stop):
            spent, factorised, trace = 0.0, 0.0, []
            for _ in range(self.thin):
                state, info = self.sampler.step(rng, self.target, state)
                spent = spent + info.n_gradient
                factorised = factorised + info.n_factorisation
                latent = None
                if self.summary is not None:
                    latent = base.latent(state.position)
                    row = [state.log_likelihood, info.accepted, info.n_gradient]
                    trace.append(np.column_stack([*row, self.summary(latent)]))
            row = {
                "latent": base.latent(state.position) if latent is None else latent,
                "log_likelihood": state.log_likelihood,
                "lp": -0.5 * (state.position**2).sum(-1) + beta * state.residual,
                **statistics(info._replace(n_gradient=spent, n_factorisation=factorised)),
            }
            if trace:
                row["trace"] = np.stack(trace, axis=1)
            rows.append(row)
        return state._asdict(), {k: np.stack([r[k] for r in rows], axis=1) for k in rows[0]}


def sample(
    base: GaussianSites | LatentGaussianModel | Target | GPModel,
    sampler: str | Sampler | JointSplitHMC | None = None,
    *,
    n_chains: int = 8,
    n_draws: int = 500,
    n_warmup: int = 100,
    thin: int = 1,
    summary: Summary | None = None,
    tuning: TuningSettings | None = None,
    start_latents: np.ndarray | None = None,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    block_size: int | None = None,
    segment_length: int = 100,
    scheduler: Any = "synchronous",
    n_workers: int = 1,
    state_dir: Any = None,
    settings: Any = None,
    compute: bool = True,
    progress: str | None = None,
) -> xr.DataTree:
    """Draw from the posterior of a latent Gaussian model.

    A `GPModel` with free parameters goes to `sample_joint` with a `JointSplitHMC`; one without to
    `GPModel.at`.

    ``base`` is the Gaussian the sampler's coordinates are standardised by, e.g.
    ``expectation_propagation(model).sites``, for which a model given in its place stands (a `Target`
    is taken as it is); ``sampler`` is a name or a sampler. With ``tuning`` (the default when a name
    is given, or none) a pilot moves particles from the base to the posterior; step size, number of steps and
    starting points come from it and are then frozen. ``start_latents`` (pool, d) overrides the
    starting points; without either they are draws of the base. ``n_warmup`` draws are dropped; a draw
    is the last of ``thin`` transitions. With a `Summary` the group ``trace`` (chain, iteration) has
    the log likelihood, acceptance, gradients and the summary's values of all transitions that follow
    the warm-up.

    For the settings of execution see `gpmcflow.execution.run`; with ``compute=False`` the arrays are
    lazy (a pilot, where one is asked for, has run).

    Returns groups ``posterior`` (latent: chain, draw, latent_dim), ``sample_stats``,
    ``observed_data`` by ArviZ's schema, and ``trace``.
    """
    pin_blas()
    if isinstance(base, GPModel) and base.dim:
        unused = {"tuning": tuning, "summary": summary}
        return sample_joint(
            base, _joint_sampler(sampler, unused), n_chains=n_chains, n_draws=n_draws,
            n_warmup=n_warmup, thin=thin, start_latents=start_latents, seed=seed, key=key,
            block_size=1 if block_size is None else block_size, segment_length=segment_length,
            scheduler=scheduler, n_workers=n_workers, state_dir=state_dir, settings=settings,
            compute=compute, progress=progress,
        )  # fmt: skip
    base = base.at() if isinstance(base, GPModel) else base
    block_size = 64 if block_size is None else block_size
    sampler = "preconditioned_split_hmc" if sampler is None else sampler
    if isinstance(sampler, str):
        sampler, tuning = make_sampler(sampler), tuning or TuningSettings()
    if n_warmup < 0 or n_draws < 1:
        raise InputError(
            f"sample: n_draws is {n_draws}, n_warmup is {n_warmup}; allowed: >= 1, >= 0"
        )
    is_target = hasattr(base, "residual_gradient")
    target = base if is_target else Target.posterior(as_sites(base))
    if tuning is not None:
        path = TemperedPath(target.base)
        pilot = find_pilot(path, sampler, tuning=tuning, seed=seed, key=key, state_dir=state_dir)
        sampler = sampler.with_steps(float(pilot.step_size[-1]), int(pilot.n_steps[-1]))
        start_latents = pilot.latents if start_latents is None else start_latents
    given, coordinates = target.base, sampler.coordinates(target.base)
    other = isinstance(given, GaussianSites) and not coordinates.same_gaussian(given)
    target = target.in_coordinates(coordinates)
    start_from = given if other else None
    program = ChainProgram(target, sampler, start_latents, thin, summary, start_from)
    arrays = run(
        program,
        n_chains=n_chains,
        length=n_warmup + n_draws,
        block_size=block_size,
        segment_length=segment_length,
        seed=seed,
        key=(*key, "sample"),
        scheduler=scheduler,
        n_workers=n_workers,
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
    tree = with_attributes(_tree(arrays, n_warmup, program), attributes)
    if compute:
        _warn_if_stuck(arrays["acceptance_rate"][:, n_warmup:], sampler)
    return tree.load(scheduler="synchronous") if compute and state_dir is None else tree


def _joint_sampler(sampler: Any, unused: dict[str, Any]) -> JointSplitHMC:
    """The sampler of a `GPModel`, or `InputError`."""
    for name, value in unused.items():
        if value is not None:
            raise InputError(
                f"sample: {name} has no use for a GPModel, which its own pilot tunes; leave it out"
            )
    if sampler is not None and not isinstance(sampler, JointSplitHMC):
        raise InputError(
            f"sample: found {sampler!r} for a GPModel with free parameters; allowed: JointSplitHMC(); take "
            "sample_joint for its other samplers"
        )
    return JointSplitHMC() if sampler is None else sampler


def _warn_if_stuck(acceptance_rate: da.Array, sampler: Sampler) -> None:
    """Say so where no chain, or only some, ever had a proposal worth taking."""
    best = np.asarray(acceptance_rate.max(axis=1).compute(scheduler="synchronous"))
    stuck = int((best < STUCK).sum())
    if stuck:
        log.warning(
            "sample: %d of %d chains never moved: acceptance below %g at every draw of %r; "
            "take a smaller step size, or let the pilot tune it",
            stuck, len(best), STUCK, sampler,
        )  # fmt: skip


def _tree(arrays: dict, n_warmup: int, program: ChainProgram) -> xr.DataTree:
    model, sampler = program.target.model, program.sampler
    names = [name for name in arrays if name not in ("latent", "trace")]
    n_chains, n_total = arrays["latent"].shape[:2]
    coords = {"chain": np.arange(n_chains), "draw": np.arange(n_total - n_warmup)}
    latent = arrays["latent"][:, n_warmup:]
    stats = {name: (("chain", "draw"), arrays[name][:, n_warmup:]) for name in names}
    stats["step_size"] = ((), float(sampler.step_size))
    stats["n_steps"] = ((), int(sampler.n_steps))
    groups = {
        "posterior": xr.Dataset(
            {"latent": (("chain", "draw", "latent_dim"), latent)},
            coords | {"latent_dim": np.arange(program.target.dim)},
        ),
        "sample_stats": xr.Dataset(stats, coords),
        "observed_data": xr.Dataset({"y": ("case", model.y)}, {"case": np.arange(len(model.y))}),
    }
    if "trace" in arrays:
        trace = arrays["trace"][:, n_warmup:].reshape(n_chains, -1, len(program.traced))
        groups["trace"] = xr.Dataset(
            {
                name: (("chain", "iteration"), trace[:, :, k])
                for k, name in enumerate(program.traced)
            },
            {"chain": coords["chain"], "iteration": np.arange(trace.shape[1])},
        )
    return xr.DataTree.from_dict(groups)
