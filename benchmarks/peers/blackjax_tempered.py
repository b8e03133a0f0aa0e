"""BlackJAX's adaptive tempered SMC on the whitened joint density, or on whitened latents alone.

    PEER/bin/python benchmarks/peers/blackjax_tempered.py PROBLEM.npz RESULT.json
        [--seconds 13] [--repeats 8] [--cores 1]

Runs in an environment of its own (`environment.sh`); `evidence.py` and `model_evidence.py --peer` write the
problem and read the result. Hyperparameters and latents are functions of independent standard normal
numbers, x by the distribution functions of their uniform priors and f = s L z, so that the reference at beta
= 0 is exact; hyperparameters whose ends are equal are fixed. HMC moves the particles: its step is lowered
and raised from temperature to temperature towards an acceptance of 0.8, its mass is the particles'
variances, and its steps are jittered by a fifth. The search over the rest (target effective size, moves a
temperature, leapfrog steps) takes as many particles as fit in a fifth of the time, three repeats each, and
keeps the setting whose estimates are nearest the reference, which a user would not have; the repeats that
are reported have other seeds. CPU seconds of one core, or wall time of several; compilation and search
apart.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time

if "--cores" not in sys.argv:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax

jax.config.update("jax_enable_x64", True)

import blackjax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from blackjax.smc import adaptive_tempered, extend_params, resampling  # noqa: E402
from jax.scipy.special import ndtr  # noqa: E402
from jax_likelihoods import log_likelihood  # noqa: E402

TARGET_SIZES, MOVES, STEPS = (0.5, 0.9), (1, 3), (8, 20)
SETTING = ("target_size", "moves", "steps")
ACCEPTANCE, FIRST_STEP, JITTER = 0.8, 0.2, 0.2
TRIAL = 64  # particles of the run that is timed


def clock() -> float:
    """CPU seconds on one core, wall time on more."""
    return time.perf_counter() if "--cores" in sys.argv else time.process_time()


def likelihood_of(problem: dict):
    """log p(y | f) as a function of standard normal q = (x, z), and the size of q."""
    X, y, n = jnp.asarray(problem["X"]), jnp.asarray(problem["y"]), len(problem["y"])
    low, high = problem["low"], problem["high"]
    free = np.flatnonzero(low < high)
    squares = jnp.maximum((X**2).sum(1)[:, None] + (X**2).sum(1) - 2.0 * X @ X.T, 0.0)
    d = len(free)

    def factor(log_length):
        K = jnp.exp(-0.5 * squares / jnp.exp(2.0 * log_length))
        return jnp.linalg.cholesky(K + problem["jitter"] * jnp.eye(n))

    fixed = None if d else factor(low[0])

    def value(q):
        coordinates = jnp.asarray(low).at[free].set(low[free] + (high - low)[free] * ndtr(q[:d]))
        log_length, log_sd, offset = coordinates
        L = fixed if d == 0 else factor(log_length)
        return log_likelihood(problem["likelihood"], jnp.exp(log_sd) * (L @ q[d:]) + offset, y)

    return value, d + n


class TemperedSMC:
    """Adaptive tempered SMC with one setting."""

    def __init__(self, problem: dict, target_size: float, moves: int, steps: int) -> None:
        value, self.size = likelihood_of(problem)
        hmc = blackjax.hmc.build_kernel()

        def move(key, state, logdensity, step_size, inverse_mass_matrix):
            here, there = jax.random.split(key)
            step_size = step_size * (1.0 + JITTER * jax.random.uniform(here, minval=-1.0))
            return hmc(there, state, logdensity, step_size, inverse_mass_matrix, steps)

        kernel = adaptive_tempered.build_kernel(
            lambda q: -0.5 * q @ q, value, move, blackjax.hmc.init, resampling.systematic, target_size
        )  # fmt: skip
        self.step = jax.jit(lambda key, state, given: kernel(key, state, moves, given))

    def run(self, seed: int, n_particles: int) -> tuple[float, int]:
        """log p(y), and the number of temperatures."""
        key, first = jax.random.split(jax.random.PRNGKey(seed))
        state = adaptive_tempered.init(jax.random.normal(first, (n_particles, self.size)))
        step_size, mass, total, n = FIRST_STEP, jnp.ones(self.size), 0.0, 0
        while state.tempering_param < 1.0:
            key, own = jax.random.split(key)
            given = extend_params(
                {"step_size": jnp.asarray(step_size), "inverse_mass_matrix": mass}
            )
            state, info = self.step(own, state, given)
            total, n = total + float(info.log_likelihood_increment), n + 1
            rate = float(jnp.mean(info.update_info.acceptance_rate))
            step_size = float(np.clip(step_size * np.exp(rate - ACCEPTANCE), 1e-3, 1.5))
            mean = state.weights @ state.particles
            mass = state.weights @ (state.particles - mean) ** 2 + 1e-3
        return total, n

    def particles_in(self, seconds: float) -> int:
        """As many as fit in the time, by a run of few."""
        self.run(0, TRIAL)
        began = clock()
        self.run(0, TRIAL)
        return max(32, int(TRIAL * seconds / (clock() - began)))

    def repeats(self, seeds: range, n_particles: int) -> tuple[list[float], float]:
        """Estimates, and CPU seconds of one."""
        began = clock()
        self.run(0, n_particles)  # compiles
        self.first, began = clock() - began, clock()
        values = [self.run(seed, n_particles)[0] for seed in seeds]
        return values, (clock() - began) / len(values)


def best_setting(problem: dict, seconds: float) -> tuple:
    """The setting whose estimates, with the particles that fit in the seconds, are nearest the reference."""
    misses, reference = {}, float(problem["reference"])
    for setting in itertools.product(TARGET_SIZES, MOVES, STEPS):
        smc = TemperedSMC(problem, *setting)
        n_particles = smc.particles_in(seconds)
        values, spent = smc.repeats(range(100, 103), n_particles)
        misses[setting] = float(np.sqrt(np.mean((np.array(values) - reference) ** 2)))
        print(
            f"{setting}: {n_particles} particles, {spent:.1f} s, mean {np.mean(values):.2f}, "
            f"off by {misses[setting]:.2f} (root mean square)",
            flush=True,
        )
    return min(misses, key=misses.get)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem")
    parser.add_argument("result")
    parser.add_argument("--seconds", type=float, default=13.0)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--setting", type=json.loads, help="with particles, in place of a search")
    options = parser.parse_args()
    problem = dict(np.load(options.problem))
    problem["likelihood"] = str(problem["likelihood"])
    searching = clock()
    known = options.setting
    chosen = (
        [known[key] for key in SETTING] if known else best_setting(problem, options.seconds / 5)
    )
    searching, smc = clock() - searching, TemperedSMC(problem, *chosen)
    n_particles = known["particles"] if known else smc.particles_in(options.seconds)
    values, spent = smc.repeats(range(options.repeats), n_particles)
    result = {
        "values": values, "seconds": spent, "particles": n_particles, "search_seconds": searching,
        "compilation": max(smc.first - spent, 0.0),
        "version": f"BlackJAX {blackjax.__version__}, JAX {jax.__version__}",
        "setting": dict(zip(SETTING, chosen, strict=True)),
    }  # fmt: skip
    with open(options.result, "w") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
