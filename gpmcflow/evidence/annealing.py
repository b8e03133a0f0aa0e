"""Annealed importance sampling of the marginal likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from gpmcflow.diagnostics.importance_weights import EvidenceEstimate, estimate_evidence
from gpmcflow.errors import InputError
from gpmcflow.evidence import alarms
from gpmcflow.evidence.estimates import interval_columns, run_attributes, transition_columns
from gpmcflow.evidence.schedule import Schedule
from gpmcflow.execution import Execution, array_digest, chain_generators, pin_blas, run, text_digest
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers.latent.protocol import STATISTICS, LatentSampler, State, statistics
from gpmcflow.storage import with_attributes

# One annealing run for a block of particles, as a program of segments along the ladder.


@dataclass(frozen=True, eq=False)
class AnnealingProgram:
    """Annealed importance sampling along a frozen schedule. Source: Neal (2001).

    Forward: f_0 ~ q; for t = 1..T the log weight grows by (beta_t - beta_{t-1}) u(f_{t-1}) and, if
    t < T, a transition that leaves h_{beta_t} invariant gives f_t. Reverse, from draws of the
    posterior in ``start_latents`` (chain, d): for t = T..1 the same increment, then, if t > 1, a
    transition at beta_{t-1}; the mean of exp(-sum) is an unbiased estimate of 1 / Z, as the
    transitions are reversible.

    Draw k of the output is increment k in the order of the run: its statistics are those of the
    transition after it (nan for the last, which has none), its latent is the state it was computed
    at, so that latent k of a forward run, with the weights summed up to k, is a weighted draw of the
    temperature the increment leads to.
    """

    path: TemperedPath
    sampler: LatentSampler
    schedule: Schedule
    store_latents: bool = False
    start_latents: np.ndarray | None = None

    @property
    def reverse(self) -> bool:
        """Whether the run goes from the posterior to the reference."""
        return self.start_latents is not None

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        start = {} if self.start_latents is None else {"start": self.start_latents}
        return text_digest(
            self.path.digest(),
            self.schedule.digest(),
            repr(self.sampler),
            array_digest(start),
        )

    @property
    def order(self) -> np.ndarray:
        """Index t of each increment in the order of the run (T,)."""
        t = np.arange(1, self.schedule.n_temperatures + 1)
        return t[::-1] if self.reverse else t

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each temperature gives."""
        scalar = {"log_weight_increment": "<f8", "sum_log_likelihood": "<f8", **STATISTICS}
        arrays = {name: ((), dtype) for name, dtype in scalar.items()}
        if self.store_latents:
            arrays["latent"] = ((self.path.model.dim,), "<f8")
        return arrays

    def start(self, rng) -> dict[str, np.ndarray]:
        """States before the first increment."""
        if self.reverse:
            base = self._base(self.schedule.n_temperatures)
            latents = self.start_latents[list(rng.chains)]
            position = base.from_latent(latents)
        else:
            base = self._base(0)
            draws = rng.standard_normal((self.path.model.dim,))
            position = self.path.in_coordinates(base).reference_draws(draws)
        return self.sampler.bind(Target.posterior(base)).init(rng, position)._asdict()

    def advance(self, rng, carry, start: int, stop: int):
        """Increments start..stop-1 of the run, and the transitions after them."""
        rows: list[dict[str, np.ndarray]] = []
        state = State(**carry)
        order = self.order
        here = order[start] if self.reverse else order[start] - 1  # temperature of the state
        base = self._base(here)
        for k in range(start, stop):
            t = order[k]
            u = self.path.log_ratio(state.predictor, state.log_likelihood)
            row = {
                "log_weight_increment": (self.schedule.betas[t] - self.schedule.betas[t - 1]) * u,
                "sum_log_likelihood": state.log_likelihood,
            }
            if self.store_latents:
                row["latent"] = base.latent(state.position)
            there = t - 1 if self.reverse else t
            if 0 < there < self.schedule.n_temperatures:
                base, state, info = self._move(rng, base, state, here, there)
                here = there
                row |= statistics(info)
            else:
                unknown = {"<f8": np.full(len(u), np.nan), "|i1": np.zeros(len(u), np.int8)}
                row |= {name: unknown[kind] for name, kind in STATISTICS.items()}
                row |= {name: np.zeros(len(u)) for name in ("n_gradient", "n_factorisation")}
            rows.append(row)
        outputs = {name: np.stack([row[name] for row in rows], axis=1) for name in rows[0]}
        return state._asdict(), outputs

    def _base(self, index: int):
        base = self.schedule.base(self.path, index)
        return self.path.base if base is None else self.sampler.coordinates(base)

    def _move(self, rng, base, state: State, here: int, there: int):
        """One transition at temperature ``there``, from a state in the coordinates of ``here``."""
        schedule = self.schedule
        sampler = schedule.sampler(self.sampler, there)
        if schedule.bases is None:
            return base, *sampler.step(rng, self.path.target(float(schedule.betas[there])), state)
        if schedule.base_index[here] != schedule.base_index[there]:
            new = self._base(there)
            position = new.from_whitened(base.to_whitened(state.position))
            base = new
        else:
            position = state.position
        # the residual's sites depend on beta here, so the cached evaluation does not carry over
        target = self.path.target(float(schedule.betas[there]), base)
        state, info = sampler.step(rng, target, sampler.init(target, position))
        return base, state, info._replace(n_gradient=info.n_gradient + 1)


def anneal(
    path: TemperedPath,
    sampler: LatentSampler,
    schedule: Schedule,
    *,
    n_particles: int = 256,
    reverse_from: np.ndarray | None = None,
    store_latents: bool = False,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    execution: Execution | None = None,
) -> xr.DataTree:
    """Annealed importance sampling along a frozen schedule, all particles of a block as one batch.

    With ``reverse_from`` (n_particles, d), draws of the posterior, the run goes back to the
    reference and its estimate is a stochastic upper bound.

    Returns groups ``annealing`` (chain, temperature: log_weight_increment and the statistics of
    each transition; a chain is a particle) and, when computed, ``evidence`` (scalars, see
    `evidence_dataset`).
    """
    pin_blas()
    how = Execution.of(execution, block_size=256, segment_length=25, progress="annealing")
    if n_particles < 2:
        raise InputError(f"annealing: n_particles is {n_particles!r}; allowed: 2, 3, 4, ...")
    if reverse_from is not None and np.shape(reverse_from) != (n_particles, path.model.dim):
        raise InputError(
            f"annealing: reverse_from has shape {np.shape(reverse_from)}; "
            f"allowed: ({n_particles}, {path.model.dim}), one posterior draw per particle"
        )
    path = path.in_coordinates(sampler.coordinates(path.reference))
    program = AnnealingProgram(path, sampler, schedule, store_latents, reverse_from)
    direction = "reverse" if program.reverse else "forward"
    arrays = run(
        program,
        n_chains=n_particles,
        length=schedule.n_temperatures,
        seed=seed,
        key=(*key, "anneal", direction),
        execution=how,
    )
    annealing = _dataset(arrays, program)
    attributes = run_attributes(path, sampler, seed, key)
    if how.in_memory:
        annealing = annealing.load(scheduler="synchronous")
    groups = {"annealing": annealing}
    if how.compute:
        groups["evidence"] = evidence_dataset(annealing, seed=seed, key=key)
    return with_attributes(xr.DataTree.from_dict(groups), attributes)


def evidence_dataset(
    annealing: xr.Dataset, *, seed: int = 0, key: tuple[str | int, ...] = ()
) -> xr.Dataset:
    """Scalars of an annealing run: log_evidence, its error and diagnostics, and what it cost.

    For a reverse run (attribute ``direction``) the estimate is -log mean exp(-log w). ``alarm``
    lists the reasons not to trust it, empty if there is none. ``n_gradient`` and ``n_likelihood``
    are sums over particles.
    """
    sign = -1.0 if annealing.attrs["direction"] == "reverse" else 1.0
    log_weights = sign * annealing["log_weight_increment"].sum("temperature").values
    rng = chain_generators(seed, *key, "bootstrap", chains=[0]).generator(0)
    estimate = estimate_evidence(log_weights, rng)
    scalars = {name: getattr(estimate, name) for name in EvidenceEstimate.__dataclass_fields__}
    if sign < 0:
        for name in ("log_evidence", "mean_log_weight"):
            scalars[name] = -scalars[name]
        low, high = scalars["bootstrap_low"], scalars["bootstrap_high"]
        scalars["bootstrap_low"], scalars["bootstrap_high"] = -high, -low
    costs = transition_columns(annealing)
    scalars |= interval_columns(
        scalars["log_evidence"], estimate.standard_error, estimate.n_particles - 1
    )
    scalars |= {
        **costs,
        "n_likelihood": costs["n_gradient"] + estimate.n_particles,
        "alarm": alarms.join(
            alarms.not_finite_alarms(estimate.log_evidence),
            alarms.weight_alarms(estimate.effective_size, estimate.max_weight),
            alarms.tail_alarms(estimate.log_evidence, log_weights),
            alarms.transition_alarms(costs["diverging"], costs["unsolved"]),
            alarms.jump_alarms(*_ratio_moments(annealing), "u"),
        ),
    }
    return xr.Dataset({name: ((), value) for name, value in scalars.items()})


def _ratio_moments(annealing: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over particles of u at each temperature of a run (T,)."""
    betas = np.sort(np.append(annealing["beta"].values, 0.0))
    steps = np.diff(betas)[annealing["temperature"].values - 1]
    u = annealing["log_weight_increment"].transpose("chain", "temperature").values / steps
    return u.mean(0), u.std(0)


def _dataset(arrays: dict, program: AnnealingProgram) -> xr.Dataset:
    """Arrays of a run with their coordinates; temperatures in the order of the run."""
    schedule, order = program.schedule, program.order
    moved = order - 1 if program.reverse else order  # temperature of the transition that follows
    latent = {"latent": ("chain", "temperature", "latent_dim")}
    dims = {name: latent.get(name, ("chain", "temperature")) for name in arrays}
    n_particles = arrays["log_weight_increment"].shape[0]
    coords = {
        "chain": np.arange(n_particles),
        "temperature": order,
        "beta": ("temperature", schedule.betas[order]),
        "step_size": ("temperature", schedule.step_size[moved]),
        "n_steps": ("temperature", schedule.n_steps[moved]),
    }
    if "latent" in arrays:
        coords["latent_dim"] = np.arange(program.path.model.dim)
    dataset = xr.Dataset({name: (dims[name], arrays[name]) for name in arrays}, coords)
    dataset.attrs["direction"] = "reverse" if program.reverse else "forward"
    return dataset
