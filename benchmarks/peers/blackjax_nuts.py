"""BlackJAX's NUTS after window adaptation, logistic regression: script PROBLEM.npz DRAWS.npz SETTINGS.

The problem has design (n, d), y of -1 and 1 and the prior's sd. Settings: target (acceptance); dense (mass
matrix); chains, half of them on each core, as one batch; bits (64 or 32); warmup, steps of the adaptation of
one chain, whose step size and mass matrix all chains take, and two rounds of each, which are dropped;
seconds, round and draws as in `numpyro_nuts.py`. Compilation counts as warm-up.
"""

from __future__ import annotations

import json
import os
import sys
import time

SETTINGS = json.loads(sys.argv[3])
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax  # noqa: E402

jax.config.update("jax_enable_x64", SETTINGS.get("bits", 64) == 64)

import blackjax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402


def main() -> None:
    own, problem = SETTINGS, dict(np.load(sys.argv[1]))
    design, y = jnp.asarray(problem["design"]), jnp.asarray(problem["y"])
    prior_sd, d = float(problem["sd"]), design.shape[1]

    def log_likelihood(slopes):
        return -jnp.logaddexp(0.0, -y * (design @ slopes)).sum()

    def log_density(slopes):
        return log_likelihood(slopes) - 0.5 * (slopes @ slopes) / prior_sd**2

    began, keys = time.perf_counter(), jax.random.split(jax.random.PRNGKey(own.get("seed", 0)), 3)
    adaptation = blackjax.window_adaptation(
        blackjax.nuts, log_density, is_mass_matrix_diagonal=not own["dense"],
        target_acceptance_rate=own["target"],
    )  # fmt: skip
    (first, parameters), _ = adaptation.run(keys[0], jnp.zeros(d), num_steps=own["warmup"])
    nuts = blackjax.nuts(log_density, **parameters)
    n, half = own["round"], own["chains"] // 2

    def chain(key, state):
        def step(state, key):
            state, info = nuts.step(key, state)
            kept = state.position, log_likelihood(state.position)
            return state, (*kept, info.num_integration_steps)

        return jax.lax.scan(step, state, jax.random.split(key, n))

    rounds_of = jax.pmap(jax.vmap(chain))
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (2, half, *leaf.shape)), first)
    rounds = []
    while True:
        own_keys = jax.random.split(jax.random.fold_in(keys[1], len(rounds)), 2 * half)
        states, out = rounds_of(own_keys.reshape(2, half, *own_keys.shape[1:]), states)
        rounds.append([np.asarray(part).reshape(2 * half, n, *part.shape[3:]) for part in out])
        if len(rounds) <= 2:  # the second compiles anew, for states that are on both cores already
            warm, since = time.perf_counter() - began, time.perf_counter()
            continue
        if n * (len(rounds) - 2) >= own["draws"] or time.perf_counter() - since > own["seconds"]:
            break
    sampling = time.perf_counter() - since
    slopes, values, steps = (np.concatenate(part, axis=1) for part in zip(*rounds[2:], strict=True))
    np.savez(
        sys.argv[2], slopes=slopes, **{"log likelihood": values}, seconds_warmup=warm,
        seconds_sampling=sampling, version=f"BlackJAX {blackjax.__version__}, JAX {jax.__version__}",
    )  # fmt: skip
    print(
        f"  BlackJAX: warm-up {warm:.1f} s, {slopes.shape[1]} draws of {own['chains']} chains in "
        f"{sampling:.1f} s, {steps.mean():.0f} steps a draw",
        flush=True,
    )


if __name__ == "__main__":
    main()
