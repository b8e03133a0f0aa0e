"""Parallel tempering: chains at all inverse temperatures that swap states, and their evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from gpmcflow.diagnostics.autocorrelation import (
    MIN_BATCHES,
    initial_positive_sequence_time,
    mean_and_error,
)
from gpmcflow.errors import InputError
from gpmcflow.evidence import alarms, ladder_estimates
from gpmcflow.evidence.estimates import interval_columns, run_attributes, transition_columns
from gpmcflow.evidence.schedule import Schedule
from gpmcflow.execution import Execution, array_digest, chain_generators, pin_blas, run, text_digest
from gpmcflow.execution.randomness import RandomRows
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers.latent.protocol import STATISTICS, Info, LatentSampler, State, statistics
from gpmcflow.storage import with_attributes

# Parallel tempering for a block of chains, each a ladder, as a program of segments of draws.

NOT_PROPOSED = -1


@dataclass(frozen=True, eq=False)
class TemperingProgram:
    """Chains at all inverse temperatures at once, which now and then swap their states.

    An iteration moves all temperatures beta_1..beta_T of all chains of the block as one batch, with
    ``n_steps`` steps of ``step_size`` (T,) each, and takes a fresh exact draw of the reference at
    beta_0 = 0; what it gives is recorded there. Then neighbours (t, t + 1), of even t in even
    iterations and of odd t in odd ones, swap with the probability of `swap_log_probability`.

    Row t starts where an annealing run of one particle stands after its transition at beta_t. What
    that costs is counted with the first draw.
    """

    path: TemperedPath
    sampler: LatentSampler
    betas: np.ndarray
    step_size: np.ndarray
    n_steps: int
    store_latents: bool = False

    @property
    def n_moved(self) -> int:
        """T, the number of temperatures the sampler moves."""
        return len(self.betas) - 1

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        arrays = {"betas": self.betas, "step_size": self.step_size}
        settings = f"{self.sampler!r} {self.n_steps}"
        return text_digest(self.path.digest(), array_digest(arrays), settings)

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Trailing shapes and types of what each draw gives."""
        types = {
            "log_ratio": "<f8",
            "sum_log_likelihood": "<f8",
            "swap_accepted": "|i1",
            "walker": "<i4",
            **STATISTICS,
        }
        arrays = {name: ((len(self.betas),), kind) for name, kind in types.items()}
        if self.store_latents:
            arrays["latent"] = ((self.path.model.dim,), "<f8")
        return arrays

    def start(self, rng) -> dict[str, np.ndarray]:
        """States of all temperatures, walkers in order."""
        reference = Target.posterior(self.path.base)
        state = self.sampler.bind(reference).init(rng, self._reference(rng))
        rows, spent = [], [(np.ones(len(state.position)), np.zeros(len(state.position)))]
        for beta, step_size in zip(self.betas[1:], self.step_size, strict=True):
            sampler = self.sampler.with_steps(float(step_size), self.n_steps)
            state, info = sampler.step(rng, self.path.target(float(beta)), state)
            rows.append(state)
            spent.append((info.n_gradient, info.n_factorisation))
        fields = {
            name: np.stack([getattr(row, name) for row in rows], axis=1) for name in State._fields
        }
        walker = np.tile(np.arange(len(self.betas), dtype=np.int32), (len(state.position), 1))
        return fields | {"walker": walker, "spent": np.stack(spent, axis=1).T}

    def advance(self, rng, carry, start: int, stop: int):
        """Draws start..stop-1."""
        n_chains, T = len(carry["walker"]), self.n_moved
        fields = {name: carry[name] for name in State._fields}
        walker, spent, rows = carry["walker"], carry["spent"], []
        target = self.path.target(np.tile(self.betas[1:], n_chains))
        sampler = self.sampler.with_steps(np.tile(self.step_size, n_chains), self.n_steps)
        random = RandomRows(rng, T)
        for k in range(start, stop):
            state = State(
                *(field.reshape(n_chains * T, *field.shape[2:]) for field in fields.values())
            )
            state, info = sampler.step(random, target, state)
            fresh = self.sampler.init(Target.posterior(self.path.base), self._reference(rng))
            fields = {
                name: np.concatenate(
                    [first[:, None], rest.reshape(n_chains, T, *rest.shape[1:])], axis=1
                )
                for name, first, rest in zip(State._fields, fresh, state, strict=True)
            }
            u = self.path.log_ratio(fields["predictor"], fields["log_likelihood"])
            accepted, order = swap(self.betas, u, rng.uniform((T,)), k)
            row = {
                "log_ratio": u,
                "sum_log_likelihood": fields["log_likelihood"],
                "swap_accepted": accepted,
                "walker": walker,
                **self._statistics(info, n_chains, spent),
            }
            if self.store_latents:
                row["latent"] = self.path.base.latent(fields["position"][:, -1])
            rows.append(row)
            chains = np.arange(n_chains)[:, None]
            walker = walker[chains, order]
            fields = {name: field[chains, order[:, 1:]] for name, field in fields.items()}
            spent = np.zeros_like(spent)
        outputs = {name: np.stack([row[name] for row in rows], axis=1) for name in rows[0]}
        return fields | {"walker": walker, "spent": spent}, outputs

    def _reference(self, rng) -> np.ndarray:
        """Draws of the reference, one a chain."""
        return self.path.reference_draws(rng.standard_normal((self.path.model.dim,)))

    def _statistics(self, info: Info, n_chains: int, spent: np.ndarray) -> dict[str, np.ndarray]:
        """Statistics of all temperatures (chain, T + 1); a draw of the reference is one gradient."""
        fixed = {"acceptance_rate": np.nan, "energy_error": np.nan, "n_gradient": 1.0}
        totals = {}
        for name, values in statistics(info).items():
            moved = values.reshape(n_chains, self.n_moved)
            first = np.full((n_chains, 1), fixed.get(name, 0), dtype=values.dtype)
            totals[name] = np.concatenate([first, moved], axis=1)
        totals["n_gradient"] += spent[:, :, 0]
        totals["n_factorisation"] += spent[:, :, 1]
        return totals


def swap_log_probability(betas: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Log of the probability that neighbours swap, min(0, (beta_t - beta_{t+1}) (u_{t+1} - u_t)).

    ``u`` (..., T + 1) are the log density ratios at the temperatures, ``betas`` (T + 1,); the result
    is (..., T). With log h_beta = log q + beta u it is the Metropolis ratio of the exchange, which so
    leaves the product of the tempered densities invariant. Source: Swendsen & Wang (1986); Geyer
    (1991).
    """
    with np.errstate(invalid="ignore"):
        ratio = -np.diff(betas) * np.diff(u, axis=-1)
    return np.minimum(np.where(np.isnan(ratio), -np.inf, ratio), 0.0)


def swap(
    betas: np.ndarray, u: np.ndarray, uniforms: np.ndarray, iteration: int
) -> tuple[np.ndarray, np.ndarray]:
    """Swaps of one iteration: accepted (chain, T + 1) int8, and who comes to stand at each temperature.

    Entry t of ``accepted`` tells of the pair (t, t + 1): 1, 0, or -1 where none was proposed. Source
    of the alternation: Okabe et al. (2001); Syed et al. (2022).
    """
    n_chains, n = u.shape
    proposed = np.arange(n - 1) % 2 == iteration % 2
    taken = (np.log1p(-uniforms) < swap_log_probability(betas, u)) & proposed
    accepted = np.full((n_chains, n), NOT_PROPOSED, dtype=np.int8)
    accepted[:, :-1][:, proposed] = taken[:, proposed]
    order = np.tile(np.arange(n), (n_chains, 1))
    order[:, :-1] += taken
    order[:, 1:] -= taken
    return accepted, order


MIN_REPLICATES = 8  # chains from whose spread a standard error is taken
MIN_DRAWS = 4


def temper(
    path: TemperedPath,
    sampler: LatentSampler,
    schedule: Schedule,
    *,
    n_replicates: int = 8,
    n_draws: int = 1000,
    n_warmup: int = 200,
    store_latents: bool = False,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    execution: Execution | None = None,
) -> xr.DataTree:
    """Parallel tempering along a frozen schedule; the whole ladders of a block are one batch.

    A chain is one of ``n_replicates`` independent ladders; ``n_warmup`` iterations are dropped. All
    temperatures take the same number of steps, see `batch_steps`. At beta = 0 each iteration has a
    fresh exact draw of the reference. Where arrays are lazy `tempering_evidence` gives the estimates later.

    Returns groups ``tempered`` (chain, temperature, draw: log_ratio u, sum_log_likelihood, swap_accepted
    with the next temperature (-1 where none was proposed), walker, and the statistics of each
    transition), ``posterior`` with ``store_latents`` (beta = 1 only) and, when computed, ``evidence``
    (see `tempering_evidence`).

    Source: Swendsen & Wang (1986), Phys. Rev. Lett. 57, 2607; Geyer (1991).
    """
    pin_blas()
    how = Execution.of(execution, block_size=8, segment_length=100, progress="parallel tempering")
    if n_warmup < 0 or n_draws < MIN_DRAWS:
        raise InputError(
            f"parallel tempering: n_draws is {n_draws}, n_warmup is {n_warmup}; "
            f"allowed: >= {MIN_DRAWS}, >= 0"
        )
    if schedule.bases is not None:
        raise InputError(
            "parallel tempering: the schedule has coordinates of each temperature's mode; allowed: "
            "those of the reference, in which a ladder is one batch"
        )
    step_size, n_steps = batch_steps(schedule)
    path = path.in_coordinates(sampler.coordinates(path.reference))
    program = TemperingProgram(path, sampler, schedule.betas, step_size, n_steps, store_latents)
    arrays = run(
        program,
        n_chains=n_replicates,
        length=n_warmup + n_draws,
        seed=seed,
        key=(*key, "temper"),
        execution=how,
    )
    groups = _groups(arrays, program, n_warmup)
    if how.compute:
        small = groups["tempered"].load(scheduler="synchronous")
        warmup = {name: arrays[name][:, :n_warmup].sum().compute(scheduler="synchronous")
                  for name in ("n_gradient", "n_factorisation")}  # fmt: skip
        groups["evidence"] = tempering_evidence(small, seed=seed, key=key, **warmup)
        if how.in_memory and store_latents:
            groups["posterior"] = groups["posterior"].load(scheduler="synchronous")
    attributes = run_attributes(path, sampler, seed, key)
    return with_attributes(xr.DataTree.from_dict(groups), attributes)


def batch_steps(schedule: Schedule) -> tuple[np.ndarray, int]:
    """Step sizes (T,) of beta_1..beta_T and the number of steps they share.

    That number is the mean of the tuned ones, rounded up, so that the batch costs what the tuned
    trajectories would; a temperature tuned to fewer steps takes smaller ones, which keeps its
    trajectory's length, one tuned to more keeps its step size and goes less far.
    """
    tuned = schedule.n_steps[1:]
    n_steps = int(np.ceil(tuned.mean() - 1e-9))
    return schedule.step_size[1:] * np.minimum(1.0, tuned / n_steps), n_steps


def tempering_evidence(
    tempered: xr.Dataset,
    *,
    n_gradient: float = 0.0,
    n_factorisation: float = 0.0,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
) -> xr.Dataset:
    """Estimates of a run of parallel tempering, their errors, its costs and its diagnostics.

    By ``estimator`` (stepping_stones, thermodynamic_integration): ``log_evidence`` from the draws of all
    chains; ``chain_log_evidence`` (estimator, chain) of each; ``replicate_error``, sd / sqrt(n) of these,
    which are independent; ``within_error``, from batch means of each chain. ``standard_error`` is the
    replicate error where there are 8 chains or more, else the larger of the two; the 95 % interval is
    Student's t with a degree of freedom less than there are chains, and beside it that of a bootstrap of the
    chains (too narrow for fewer than 20), keyed by ``seed`` and ``key``. ``effective_size`` is the
    smallest, over temperatures, effective number of draws of u, all chains together. By ``pair``:
    ``swap_rate``. ``n_round_trips`` counts those of all chains. ``n_gradient`` and
    ``n_factorisation`` given here, of the warm-up, are added to those of the draws.
    """
    u = tempered["log_ratio"].transpose("chain", "temperature", "draw").values
    betas = tempered["beta"].values
    swaps = tempered["swap_accepted"].transpose("chain", "temperature", "draw").values
    walkers = tempered["walker"].transpose("chain", "temperature", "draw").values
    pooled = u.transpose(1, 0, 2).reshape(len(betas), -1)
    columns: dict[str, list] = {"log_evidence": [], "chain": [], "replicate": [], "within": []}
    for name in ladder_estimates.ESTIMATORS:
        estimate = getattr(ladder_estimates, name)
        columns["log_evidence"].append(float(estimate(betas, pooled)))
        columns["chain"].append(estimate(betas, u))
        columns["replicate"].append(float(mean_and_error(columns["chain"][-1])[1]))
        errors = ladder_estimates.batch_means_error(ladder_estimates.influence(betas, u, name))
        columns["within"].append(float(np.sqrt((errors**2).mean() / len(u))))
    error = columns["replicate"]
    if len(u) < MIN_REPLICATES:
        error = np.fmax(error, columns["within"])
    trips, rates = ladder_estimates.round_trips(walkers), ladder_estimates.swap_rates(swaps)
    size = smallest_effective_size(u)
    costs = transition_columns(tempered)
    costs["n_gradient"] += float(n_gradient)
    costs["n_factorisation"] += float(n_factorisation)
    values = columns["log_evidence"]
    alarm = alarms.join(
        *(alarms.not_finite_alarms(value) for value in values),
        alarms.weight_alarms(size),
        alarms.transition_alarms(costs["diverging"], costs["unsolved"]),
        alarms.jump_alarms(pooled.mean(-1), pooled.std(-1), "u"),
        alarms.swap_alarms(rates, int(trips.sum())),
        alarms.disagreement_alarms(
            ("stepping stones", values[0]),
            ("thermodynamic integration", values[1]),
            *ladder_estimates.paired_difference(betas, u),
        ),
        alarms.spread_alarms(columns["replicate"][0], columns["within"][0], len(u)),
    )
    rng = chain_generators(seed, *key, "bootstrap", chains=[0]).generator(0)
    low, high = ladder_estimates.bootstrap_intervals(betas, u, rng)
    by_estimator = {
        "log_evidence": values,
        "standard_error": error,
        **interval_columns(values, error, len(u) - 1 if len(u) > 1 else MIN_BATCHES - 1),
        "bootstrap_low": low,
        "bootstrap_high": high,
        "replicate_error": columns["replicate"],
        "within_error": columns["within"],
    }
    scalars = {
        "effective_size": size,
        **costs,
        "n_likelihood": costs["n_gradient"],
        "n_round_trips": int(trips.sum()),
        "alarm": alarm,
    }
    return xr.Dataset(
        {name: ("estimator", np.array(column)) for name, column in by_estimator.items()}
        | {name: ((), value) for name, value in scalars.items()}
        | {
            "chain_log_evidence": (("estimator", "chain"), np.stack(columns["chain"])),
            "round_trips": ("chain", trips),
            "swap_rate": ("pair", rates),
        },
        {
            "estimator": list(ladder_estimates.ESTIMATORS),
            "chain": tempered["chain"].values,
            "pair": np.arange(len(rates)),
        },
    )


def smallest_effective_size(u: np.ndarray) -> float:
    """Smallest, over temperatures above 0, effective number of draws of ``u`` (chain, T + 1, draw).

    Draws over the initial-positive-sequence time, summed over chains; nan if u is not finite. Where
    all draws of all chains are equal but for rounding, as if the reference is the posterior, each
    tells all.
    """
    moved = u[:, 1:]
    if not np.all(np.isfinite(moved)):
        return np.nan
    sizes = (u.shape[-1] / initial_positive_sequence_time(moved)).sum(0)
    equal = np.ptp(moved, axis=(0, 2)) < alarms.ROUNDING
    return float(np.where(equal, u.shape[0] * u.shape[-1], sizes).min())


def _groups(arrays: dict, program: TemperingProgram, n_warmup: int) -> dict[str, xr.Dataset]:
    n_chains, n_total = arrays["log_ratio"].shape[:2]
    draws = {"chain": np.arange(n_chains), "draw": np.arange(n_total - n_warmup)}
    betas = program.betas
    tempered = xr.Dataset(
        {
            name: (("chain", "draw", "temperature"), array[:, n_warmup:])
            for name, array in arrays.items()
            if name != "latent"
        },
        draws
        | {
            "temperature": np.arange(len(betas)),
            "beta": ("temperature", betas),
            "step_size": ("temperature", np.append(np.nan, program.step_size)),
        },
    ).transpose("chain", "temperature", "draw")
    tempered.attrs["n_steps"] = program.n_steps
    groups = {"tempered": tempered}
    if program.store_latents:
        latent_dim = {"latent_dim": np.arange(program.path.model.dim)}
        groups["posterior"] = xr.Dataset(
            {"latent": (("chain", "draw", "latent_dim"), arrays["latent"][:, n_warmup:])},
            draws | latent_dim,
        )
    return groups
