"""NumPyro's NUTS on a model of basis functions, as a peer of `large_n.py`, which writes its problem.

    PEER/bin/python benchmarks/numpyro_basis.py PROBLEM.npz DRAWS.npz [--draws 300]

Weights are whitened by the prior, in double precision; hyperparameters have a dense mass matrix, weights a
diagonal one; target acceptance 0.8; two chains on two cores, as many draws of warm-up as are kept.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import numpyro

numpyro.set_host_device_count(2)
numpyro.enable_x64()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402


def model(problem: dict) -> None:
    """h = Phi (s w) + sigma_g v of the group + c."""
    (length, signal, mean, group), squares = problem["priors"], problem["squared_frequencies"]
    d, m = squares.shape
    log_length = numpyro.sample("log_length", dist.Normal(*length).expand([d]).to_event(1))
    log_sd = numpyro.sample("log_signal_sd", dist.Normal(*signal))
    offset = numpyro.sample("offset", dist.Normal(*mean))
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([m]).to_event(1))
    spectrum = 0.5 * jnp.log(2.0 * jnp.pi) + log_length[:, None]
    spectrum -= 0.5 * jnp.exp(2.0 * log_length)[:, None] * squares
    h = problem["functions"] @ (jnp.exp(log_sd + 0.5 * spectrum.sum(0)) * w) + offset
    if problem["n_levels"]:
        log_group = numpyro.sample("log_group_sd", dist.Normal(*group))
        levels = dist.Normal(0.0, 1.0).expand([problem["n_levels"]]).to_event(1)
        h += jnp.exp(log_group) * numpyro.sample("v", levels)[problem["codes"]]
    if problem["likelihood"] == "logistic":
        numpyro.factor("likelihood", -jnp.logaddexp(0.0, -problem["y"] * h).sum())
    else:
        numpyro.factor("likelihood", (problem["y"] * h - jnp.exp(h)).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem")
    parser.add_argument("draws_file")
    parser.add_argument("--draws", type=int, default=300)
    options = parser.parse_args()
    problem = dict(np.load(options.problem))
    problem |= {"likelihood": str(problem["likelihood"]), "n_levels": int(problem["n_levels"])}
    moving = ["log_length", "log_signal_sd", "offset"]
    # the order of the parameters in the package: covariance terms, then the mean
    order = (
        ["log_length", "log_signal_sd"] + ["log_group_sd"] * bool(problem["n_levels"]) + ["offset"]
    )
    moving += ["log_group_sd"] * bool(problem["n_levels"])
    sampler = NUTS(lambda: model(problem), target_accept_prob=0.8, dense_mass=[tuple(moving)])
    mcmc = MCMC(
        sampler, num_warmup=options.draws, num_samples=options.draws, num_chains=2, chain_method="parallel",
        progress_bar=False,
    )  # fmt: skip
    keys = jax.random.split(jax.random.PRNGKey(0))
    began = time.perf_counter()
    mcmc.warmup(keys[0], extra_fields=("num_steps",), collect_warmup=True)
    jax.block_until_ready(mcmc.get_samples())
    warm = time.perf_counter() - began
    began = time.perf_counter()
    mcmc.run(keys[1], extra_fields=("num_steps",))
    draws = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    sampling = time.perf_counter() - began
    columns = [draws[k] if draws[k].ndim == 3 else draws[k][..., None] for k in order]
    weights = [draws["w"], *([draws["v"]] if problem["n_levels"] else [])]
    np.savez(
        options.draws_file,
        theta=np.concatenate(columns, axis=-1),
        weights=np.concatenate(weights, axis=-1),
        sampling=sampling,
        total=sampling + warm,
    )
    steps = np.asarray(mcmc.get_extra_fields()["num_steps"]).mean()
    print(
        f"  NUTS: warm-up {warm:.1f} s, sampling {sampling:.1f} s, {steps:.0f} steps a draw",
        flush=True,
    )


if __name__ == "__main__":
    main()
