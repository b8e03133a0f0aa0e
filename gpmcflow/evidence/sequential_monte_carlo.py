"""Sequential Monte Carlo (resample-move) estimates of the marginal likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from gpmcflow.diagnostics.importance_weights import (
    bootstrap_interval,
    effective_size,
    normalised_weights,
    standard_error,
    systematic_resample,
)
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.evidence import alarms
from gpmcflow.evidence.estimates import interval_columns, run_attributes, transition_columns
from gpmcflow.evidence.schedule import Schedule
from gpmcflow.execution import Execution, chain_generators, pin_blas, run, text_digest
from gpmcflow.execution.randomness import RandomRows
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers.adaptation.pilot import next_beta
from gpmcflow.samplers.latent.protocol import STATISTICS, LatentSampler, State
from gpmcflow.storage import with_attributes

# Sequential Monte Carlo replicates as a program: a draw is a stage, the particles an inner axis.

GROWTH = 1.2  # least growth of a particle set in a round of the adaptive rule
MEASURED = (  # what a stage gives beside its statistics
    "beta", "next_beta", "log_increment", "effective_size", "max_weight", "relative_variance", "n_particles",
    "n_transitions", "log_ratio_mean", "log_ratio_sd",
)  # fmt: skip


@dataclass(frozen=True)
class AdaptiveParticles:
    """Numbers of particles that follow the variance: M_t = sqrt(v_t / c_t) / gamma.

    v_t is the relative variance of the stage's incremental weights, c_t its cost per particle in
    gradients: for a given cost this minimises sum_t v_t / M_t. A stage starts with ``least`` (M_min)
    and grows, by 20 % or more a round, up to ``most`` (M_max). A smaller ``gamma`` is more accurate.
    Source: Fraccaro, Paquet & Winther (2016).
    """

    gamma: float = 0.001
    least: int = 64
    most: int = 4096

    def __post_init__(self) -> None:
        if not (self.gamma > 0.0 and 2 <= self.least <= self.most):
            raise InputError(
                f"adaptive particles: gamma is {self.gamma!r}, least {self.least!r}, most "
                f"{self.most!r}; allowed: gamma > 0, 2 <= least <= most"
            )


@dataclass(frozen=True, eq=False)
class ParticleProgram:
    """Resample-move along a ladder; a chain is one independent replicate.

    Stage t has M_t particles at beta_t: draws of the reference for t = 0, else ancestors resampled
    (systematic) by the weights of stage t - 1, moved ``n_moves`` times by a transition that leaves
    h_{beta_t} invariant. Their weights are w_t = exp((beta_{t+1} - beta_t) u), and log Z-hat is the
    sum of log mean w_t.

    ``waste_free``: ``n_particles`` / (n_moves + 1) ancestors, whose states on the way are all kept.

    beta_{t+1} is the schedule's, or, with ``effective_fraction``, the largest that keeps that
    conditional effective size; step sizes are the schedule's, interpolated.
    """

    path: TemperedPath
    sampler: LatentSampler
    schedule: Schedule
    n_particles: int | AdaptiveParticles
    n_moves: int = 1
    waste_free: bool = False
    effective_fraction: float | None = None

    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a run, beside its random streams."""
        settings = (self.n_particles, self.n_moves, self.waste_free, self.effective_fraction)
        return text_digest(
            self.path.digest(), self.schedule.digest(), f"{self.sampler!r} {settings!r}"
        )

    def outputs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """All scalars of a stage."""
        return {name: ((), "<f8") for name in (*MEASURED, *STATISTICS)}

    def start(self, rng) -> dict[str, np.ndarray]:
        """Before the first stage there are no particles."""
        return {"next_beta": np.zeros(len(rng))}

    def advance(self, rng, carry, start: int, stop: int):
        """Stages start..stop-1 of each replicate; nan after its last."""
        n_chains = len(rng)
        rows = {name: np.full((n_chains, stop - start), np.nan) for name in self.outputs()}
        betas, stored = carry["next_beta"].copy(), _unpack(carry)
        for c in range(n_chains):
            for k in range(start, stop):
                if betas[c] == 1.0:
                    break
                row, betas[c], stored[c] = self._stage(rng, c, k, float(betas[c]), stored[c])
                for name, value in row.items():
                    rows[name][c, k - start] = value
        return {"next_beta": betas} | _pack(stored), rows

    def _stage(self, rng, c: int, k: int, beta: float, stored):
        """One stage of one replicate: what it gives, the next beta, its weighted particles."""
        adaptive = isinstance(self.n_particles, AdaptiveParticles)
        n, next_one = self.n_particles.least if adaptive else self.n_particles, None
        state, tally = self._particles(rng, c, n, beta, stored)
        while True:
            u = self.path.log_ratio(state.predictor, state.log_likelihood)
            if next_one is None:
                next_one = self._next_beta(u, beta, k)
            log_weights = (next_one - beta) * u
            variance = self._relative_variance(log_weights, beta)
            if not adaptive:
                break
            cost = tally["n_gradient"] / n
            wanted = int(np.ceil(np.sqrt(variance / cost) / self.n_particles.gamma))
            if n >= min(wanted, self.n_particles.most):
                break
            goal = min(max(wanted, int(np.ceil(GROWTH * n))), self.n_particles.most)
            more, its_tally = self._particles(rng, c, goal - n, beta, stored)
            state = State(*(np.concatenate(pair) for pair in zip(state, more, strict=True)))
            tally = {name: tally[name] + its_tally[name] for name in tally}
            n = goal
        weights = normalised_weights(log_weights)
        row = {
            "beta": beta,
            "next_beta": next_one,
            "log_increment": logsumexp(log_weights) - np.log(n),
            "effective_size": effective_size(log_weights),
            "max_weight": weights.max(),
            "relative_variance": variance,
            "n_particles": n,
            "log_ratio_mean": u.mean(),
            "log_ratio_sd": u.std(),
        }
        moved = tally["n_transitions"]
        for name, total in tally.items():
            summed = name.startswith("n_")
            row[name] = total if summed else total / moved if moved else np.nan
        return row, next_one, (state, weights)

    def _next_beta(self, u: np.ndarray, beta: float, k: int) -> float:
        if self.effective_fraction is None:
            return float(self.schedule.betas[k + 1])
        return next_beta(u, beta, self.effective_fraction)[0]

    def _particles(self, rng, c: int, n: int, beta: float, stored) -> tuple[State, dict]:
        """Particles at one beta, equally weighted, and totals of the statistics of their moves."""
        tally = dict.fromkeys((*STATISTICS, "n_transitions"), 0.0)
        if stored is None:
            random = RandomRows(rng, n, [c])
            draws = self.path.reference_draws(random.standard_normal((self.path.model.dim,)))
            state = self.sampler.bind(Target.posterior(self.path.base)).init(random, draws)
            tally["n_gradient"] = float(n)
            return state, tally
        before, weights = stored
        n_ancestors = n // (self.n_moves + 1) if self.waste_free else n
        rows = systematic_resample(weights, rng.generator(c).random(), n_ancestors)
        state, states = State(*(field[rows] for field in before)), []
        target, sampler = self.path.target(beta), self._sampler(beta)
        random = RandomRows(rng, n_ancestors, [c])
        for _ in range(self.n_moves):
            states.append(state)
            state, info = sampler.step(random, target, state)
            for name in STATISTICS:
                tally[name] += float(np.asarray(getattr(info, name), dtype=float).sum())
            tally["n_transitions"] += n_ancestors
        if self.waste_free:  # an ancestor's states stand together: see `_relative_variance`
            whole = zip(*states, state, strict=True)
            state = State(*(np.stack(way, 1).reshape(n, *way[0].shape[1:]) for way in whole))
        return state, tally

    def _relative_variance(self, log_weights: np.ndarray, beta: float) -> float:
        """v_t = Var[w] / E[w]^2; with waste-free moves M times that of the means over ancestors."""
        weights = np.exp(log_weights - log_weights.max())
        per_ancestor = self.n_moves + 1 if self.waste_free and beta > 0.0 else 1
        means = weights.reshape(-1, per_ancestor).mean(-1)
        return float(per_ancestor * means.var(ddof=1) / weights.mean() ** 2)

    def _sampler(self, beta: float) -> LatentSampler:
        """The sampler with the schedule's settings, between its betas by interpolation."""
        schedule = self.schedule
        step_size = np.exp(np.interp(beta, schedule.betas, np.log(schedule.step_size)))
        n_steps = int(np.rint(np.interp(beta, schedule.betas, schedule.n_steps)))
        return self.sampler.with_steps(float(step_size), n_steps)


def _pack(stored: list) -> dict[str, np.ndarray]:
    """Weighted particles of all chains as arrays (chain, particle, ...), zeros after the last."""
    n = max(len(weights) for _, weights in stored)

    def padded(arrays: list[np.ndarray]) -> np.ndarray:
        out = np.zeros((len(arrays), n, *arrays[0].shape[1:]))
        for row, array in zip(out, arrays, strict=True):
            row[: len(array)] = array
        return out

    fields = {name: padded([getattr(state, name) for state, _ in stored]) for name in State._fields}
    sizes = np.array([len(weights) for _, weights in stored])
    return fields | {"weight": padded([weights for _, weights in stored]), "size": sizes}


def _unpack(carry: dict[str, np.ndarray]) -> list:
    """Weighted particles of each chain, None before the first stage."""
    if "size" not in carry:
        return [None] * len(carry["next_beta"])
    return [
        (State(*(carry[name][c, :n] for name in State._fields)), carry["weight"][c, :n])
        for c, n in enumerate(carry["size"])
    ]


MIN_REPLICATES = 8  # from whose spread a standard error is taken


def resample_move(
    path: TemperedPath,
    sampler: LatentSampler,
    schedule: Schedule,
    *,
    n_particles: int | AdaptiveParticles = 256,
    n_moves: int = 1,
    waste_free: bool = False,
    effective_fraction: float | None = None,
    max_stages: int = 400,
    n_replicates: int = 8,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    execution: Execution | None = None,
) -> xr.DataTree:
    """Sequential Monte Carlo along a schedule; a chain is one independent replicate.

    See `ParticleProgram` for what a stage does. With ``n_particles`` a number and no
    ``effective_fraction`` the estimate of Z is unbiased; with `AdaptiveParticles` or an online ladder
    (at most ``max_stages``) it has a bias O(1 / M). ``waste_free`` keeps all states of the moves:
    ``n_particles`` is then a multiple of n_moves + 1.

    Returns groups ``sequential_monte_carlo`` (chain, stage: beta, next_beta, log_increment, effective_size,
    max_weight, relative_variance v_t, n_particles M_t, mean and sd of u before the increment, and the
    mean statistics of the moves before it; nan after a replicate's last stage) and, when computed,
    ``evidence`` (see `particle_evidence`).

    Sources: Del Moral, Doucet & Jasra (2006), JRSS B 68, 411; Fraccaro, Paquet & Winther (2016),
    Adaptive Resample-Move; Dau & Chopin (2022), JRSS B 84, 114 (waste-free).
    """
    pin_blas()
    how = Execution.of(
        execution, block_size=1, segment_length=25, progress="sequential Monte Carlo"
    )
    _require(schedule, n_particles, n_moves, waste_free, effective_fraction)
    path = path.in_coordinates(sampler.coordinates(path.reference))
    program = ParticleProgram(
        path, sampler, schedule, n_particles, n_moves, waste_free, effective_fraction
    )
    arrays = run(
        program,
        n_chains=n_replicates,
        length=schedule.n_temperatures if effective_fraction is None else max_stages,
        seed=seed,
        key=(*key, "resample_move"),
        execution=how,
    )
    stages = xr.Dataset(
        {name: (("chain", "stage"), array) for name, array in arrays.items()},
        {"chain": np.arange(n_replicates), "stage": np.arange(arrays["beta"].shape[1])},
    )
    fixed = effective_fraction is None and not isinstance(n_particles, AdaptiveParticles)
    stages.attrs["unbiased"] = int(fixed)
    groups = {"sequential_monte_carlo": stages}
    if how.compute:
        groups["sequential_monte_carlo"] = stages = _until_the_end(
            stages.load(scheduler="synchronous")
        )
        groups["evidence"] = particle_evidence(stages, seed=seed, key=key)
    attributes = run_attributes(path, sampler, seed, key)
    return with_attributes(xr.DataTree.from_dict(groups), attributes)


def particle_evidence(
    stages: xr.Dataset, *, seed: int = 0, key: tuple[str | int, ...] = ()
) -> xr.Dataset:
    """Evidence of sequential Monte Carlo replicates, its error, costs and diagnostics.

    ``log_evidence`` is the log of the mean of the replicates' Z-hat, ``chain_log_evidence`` (chain)
    of each. ``replicate_error`` is the delta method's sqrt((R / ESS - 1) / (R - 1)) with the
    replicates as weights; ``formula_error`` the root of mean_r sum_t (v_t / M_t) / R, which is
    optimistic, as it takes the particles of all stages for independent. ``standard_error`` is the
    first where there are 8 replicates or more, else the larger of the two; the 95 % interval is Student's t
    with R - 1 degrees of freedom, and beside it that of a bootstrap of the replicates (too narrow for fewer
    than 20 of them), keyed by ``seed`` and ``key``. ``effective_size`` is the smallest of any stage.
    ``unbiased`` says whether E[Z-hat] = Z.
    """
    log_weights = stages["log_increment"].sum("stage").values
    n = len(log_weights)
    log_evidence = float(logsumexp(log_weights) - np.log(n))
    spread = np.nan if n < 2 else float(standard_error(log_weights))
    variance = (stages["relative_variance"] / stages["n_particles"]).sum("stage")
    formula = float(np.sqrt(variance.mean() / n))
    sizes, largest = stages["effective_size"], stages["max_weight"]
    costs = transition_columns(stages, np.nan_to_num(stages["n_transitions"].values))
    jumps = [
        message
        for mean, sd in zip(
            stages["log_ratio_mean"].values, stages["log_ratio_sd"].values, strict=True
        )
        for message in alarms.jump_alarms(mean, sd, "u")
    ]
    error = float(spread if n >= MIN_REPLICATES else np.fmax(spread, formula))
    rng = chain_generators(seed, *key, "bootstrap", chains=[0]).generator(0)
    low, high = bootstrap_interval(log_weights, rng)
    scalars = {
        "log_evidence": log_evidence,
        "standard_error": error,
        **interval_columns(log_evidence, error, n - 1 if n > 1 else np.inf),
        "bootstrap_low": low,
        "bootstrap_high": high,
        "replicate_error": float(spread),
        "formula_error": formula,
        "effective_size": float(sizes.min()),
        "max_weight": float(largest.max()),
        "n_particles": float(stages["n_particles"].mean()),
        "unbiased": np.int8(stages.attrs["unbiased"]),
        **costs,
        "n_likelihood": costs["n_gradient"],
        "alarm": alarms.join(
            alarms.not_finite_alarms(log_evidence),
            alarms.weight_alarms(float(sizes.min()), float(largest.max())),
            alarms.transition_alarms(costs["diverging"], costs["unsolved"]),
            jumps[:1],
            alarms.spread_alarms(float(spread), formula, n),
        ),
    }
    variables = {name: ((), value) for name, value in scalars.items()}
    return xr.Dataset(
        variables | {"chain_log_evidence": ("chain", log_weights)},
        {"chain": stages["chain"].values},
    )


def _until_the_end(stages: xr.Dataset) -> xr.Dataset:
    """Without the stages that no replicate needed; `NumericalError` if one had too few."""
    reached = stages["next_beta"].max("stage").values
    if reached.min() < 1.0:
        raise NumericalError(
            f"sequential Monte Carlo: inverse temperature is only {reached.min():.2e} after "
            f"{stages.sizes['stage']} stages; allow more (max_stages), or start from an EP or "
            "Laplace reference"
        )
    return stages.isel(stage=slice(0, int(stages["beta"].notnull().sum("stage").max())))


def _require(schedule, n_particles, n_moves, waste_free, effective_fraction) -> None:
    adaptive = isinstance(n_particles, AdaptiveParticles)
    few, unit = not adaptive and n_particles < 2, n_moves + 1
    uneven = waste_free and not adaptive and (n_particles % unit or n_particles < 2 * unit)
    for wrong, message in (
        (schedule.bases is not None,
         "the schedule has coordinates of each temperature's mode; allowed: those of the reference"),
        (n_moves < 1, f"n_moves is {n_moves!r}; allowed: 1, 2, 3, ..."),
        (effective_fraction is not None and not 0.0 < effective_fraction < 1.0,
         f"effective_fraction is {effective_fraction!r}; allowed: between 0 and 1"),
        (waste_free and adaptive, "waste_free needs a fixed n_particles; give a number"),
        (few, f"n_particles is {n_particles!r}; allowed: 2, 3, 4, ..."),
        (uneven, f"n_particles is {n_particles} with waste_free and n_moves {n_moves}; allowed: "
         f"{2 * unit}, {3 * unit}, ..."),
    ):  # fmt: skip
        if wrong:
            raise InputError(f"sequential Monte Carlo: {message}")
