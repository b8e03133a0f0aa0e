"""Sequential Monte Carlo replicates as a program: a draw is a stage, the particles an inner axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from gpmcflow.diagnostics.importance_weights import effective_size, normalised_weights
from gpmcflow.errors import InputError
from gpmcflow.evidence.random_rows import RandomRows
from gpmcflow.evidence.schedule import Schedule
from gpmcflow.execution import text_digest
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers.adaptation.pilot import next_beta, systematic_resample
from gpmcflow.samplers.latent.protocol import STATISTICS, LatentSampler, State

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
