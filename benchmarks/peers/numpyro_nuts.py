"""NumPyro's NUTS on one of `numpyro_models`: numpyro_nuts.py PROBLEM.npz DRAWS.npz SETTINGS.

Settings: model; target (acceptance); dense (whether the mass matrix is dense: "theta", of the
hyperparameters alone, "all" or "none"); chains, run "parallel" with a core each (two) or "vectorized" as one
batch; bits (64 or 32); warmup, draws of it; seconds of sampling, in rounds of ``round`` draws until they are
over or there are ``draws``; clock, a function of `time`, of wall time or of CPU time. The kernel is stepped
by a loop of our own, compiled once, as `MCMC.run` with parallel chains compiles anew whenever it is called.
Compilation and warm-up count as warm-up, and the former is stored apart, too.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import numpyro

SETTINGS = json.loads(sys.argv[3])
numpyro.set_host_device_count(2)
numpyro.enable_x64(SETTINGS.get("bits", 64) == 64)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from numpyro.infer import NUTS  # noqa: E402
from numpyro_models import MODELS  # noqa: E402


def gathered(draws: dict, names: tuple[str, ...]) -> np.ndarray:
    """Those of the names that are free, side by side (chain, draw, ..)."""
    parts = [draws[name] for name in names if name in draws]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([part if part.ndim == 3 else part[..., None] for part in parts], axis=-1)


def chains_of(sampler: NUTS, keys, own: dict) -> tuple:
    """A function that moves all chains by a round, and their states; draws are (chain, draw, ..)."""

    def step(state, _):
        state = sampler.sample(state, (), {})
        return state, (state.z, state.num_steps, state.diverging)

    def constrained(z):
        return sampler.postprocess_fn((), {})(z)

    def one_round(state):
        state, (z, steps, diverging) = jax.lax.scan(step, state, None, length=own["round"])
        if own["method"] == "vectorized":
            z, steps, diverging = jax.tree.map(
                lambda leaf: jnp.swapaxes(leaf, 0, 1), (z, steps, diverging)
            )
            return state, (jax.lax.map(jax.vmap(constrained), z), steps, diverging)
        return state, (jax.lax.map(constrained, z), steps, diverging)

    if own["method"] == "vectorized":
        return jax.jit(one_round), sampler.init(keys, own["warmup"], None, (), {})
    states = [sampler.init(key, own["warmup"], None, (), {}) for key in keys]
    return jax.pmap(one_round), jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def main() -> None:
    own = SETTINGS
    stored = dict(np.load(sys.argv[1]))
    problem = {k: str(v) if v.dtype.kind == "U" else v for k, v in stored.items()}
    stated, hyperparameters, quantities = MODELS[own["model"]]
    for name in ("functions", "design"):
        if name in problem:
            problem[name] = jnp.asarray(problem[name])
    free = [site for site in hyperparameters if site in sites(stated, problem, own)]
    mass = {"theta": [tuple(free)], "all": True, "none": False}[own["dense"]]
    sampler = NUTS(lambda: stated(problem, own), target_accept_prob=own["target"], dense_mass=mass)
    clock = getattr(time, own.get("clock", "perf_counter"))
    began = clock()
    keys = jax.random.split(jax.random.PRNGKey(own.get("seed", 0)), own["chains"])
    advance, states = chains_of(sampler, keys, own)
    advance = advance.lower(states).compile()
    compiling = clock() - began
    rounds, steps, diverging, n = [], [], 0, -own["warmup"]
    while n < own["draws"]:
        states, (drawn, taken, failed) = jax.block_until_ready(advance(states))
        n += own["round"]
        if n <= 0:  # the last round of the warm-up ends where that does
            warm, since = clock() - began, clock()
            continue
        rounds.append({k: np.asarray(v) for k, v in drawn.items()})
        steps.append(float(np.mean(taken)))
        diverging += int(np.sum(failed))
        if clock() - since > own["seconds"]:
            break
    sampling = clock() - since
    draws = {k: np.concatenate([r[k] for r in rounds], axis=1) for k in rounds[0]}
    results = {name: gathered(draws, parts) for name, parts in quantities.items()}
    if free:
        results["hyperparameters"] = gathered(draws, hyperparameters)
    np.savez(
        sys.argv[2], **results, seconds_warmup=warm, seconds_sampling=sampling,
        seconds_compilation=compiling, version=f"NumPyro {numpyro.__version__}, JAX {jax.__version__}",
    )  # fmt: skip
    print(
        f"  NUTS: warm-up {warm:.1f} s ({compiling:.1f} s to compile), {n} draws in {sampling:.1f} s, "
        f"{np.mean(steps):.0f} steps a draw, diverging {diverging}",
        flush=True,
    )


def sites(stated, problem: dict, settings: dict) -> set:
    """Names of the sampled sites."""
    seeded = numpyro.handlers.seed(lambda: stated(problem, settings), 0)
    trace = numpyro.handlers.trace(seeded).get_trace()
    return {name for name, site in trace.items() if site["type"] == "sample"}


if __name__ == "__main__":
    main()
