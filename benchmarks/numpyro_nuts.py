"""NumPyro's NUTS on a latent Gaussian model with unknown hyperparameters, as a peer of our samplers.

    PEER/bin/python benchmarks/numpyro_nuts.py PROBLEM.npz DRAWS.npz [--warmup 500] [--draws 500]

Runs in an environment of its own (`numpyro_environment.sh`); `joint_samplers.py` writes the problem and
reads the draws. Latents are whitened by the prior, f = L z, in double precision; hyperparameters have a
dense mass matrix, latents a diagonal one; target acceptance 0.9; two chains on two cores. The problem has X
(n, p), y (n,), likelihood, jitter, bounds of the uniform priors of log lengths, log signal sd and offset
(low, high; equal ones fix it), and noise_sd. ``--collapsed`` states real data with Gaussian noise without
latents, y ~ N(offset, Sigma + noise_sd^2 I), and draws them exactly afterwards, within the time of sampling.
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
from jax.scipy.special import gammaln, log_ndtr  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402


def log_likelihood(name: str, h, y, noise_sd: float):
    """Sum of the log likelihoods of cases with linear predictors h."""
    if name == "logistic":
        return -jnp.logaddexp(0.0, -y * h).sum()
    if name == "probit":
        return log_ndtr(y * h).sum()
    if name == "poisson":
        return (y * h - jnp.exp(h) - gammaln(y + 1.0)).sum()
    return (
        -0.5 * ((y - h) / noise_sd) ** 2 - jnp.log(noise_sd) - 0.5 * jnp.log(2.0 * jnp.pi)
    ).sum()


def bounded(name: str, bounds):
    """Coordinates (k,), uniform between rows of bounds (2, k), or fixed where both are equal."""
    low, high = np.atleast_2d(bounds[0])[0], np.atleast_2d(bounds[1])[0]
    if np.all(low == high):
        return jnp.asarray(low)
    return numpyro.sample(name, dist.Uniform(low, high).to_event(1))


def hyperparameters(problem: dict) -> tuple:
    """Cholesky factor of the unit-variance prior covariance, log signal sd, offset."""
    X, n = problem["X"], len(problem["y"])
    log_lengths = bounded("log_length", problem["length_bounds"])
    log_sd = bounded("log_signal_sd", problem["signal_bounds"])[0]
    offset = bounded("offset", problem["offset_bounds"])[0]
    scaled = X / jnp.exp(log_lengths)
    squares = (scaled**2).sum(1)
    distances = jnp.maximum(squares[:, None] + squares[None, :] - 2.0 * scaled @ scaled.T, 0.0)
    K = jnp.exp(-0.5 * distances)
    return K.at[jnp.arange(n), jnp.arange(n)].set(1.0 + problem["jitter"]), log_sd, offset


def model(problem: dict) -> None:
    """Hyperparameters, whitened latents z, and T = log L(f) + log N(f; 0, Sigma)."""
    y, n = problem["y"], len(problem["y"])
    K, log_sd, offset = hyperparameters(problem)
    z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([n]).to_event(1))
    L = jnp.linalg.cholesky(K)
    f = jnp.exp(log_sd) * (L @ z)
    value = log_likelihood(problem["likelihood"], f + offset, y, problem["noise_sd"])
    numpyro.factor("likelihood", value)
    log_det = jnp.log(jnp.diagonal(L)).sum() + n * log_sd
    density = -0.5 * (z @ z) - log_det - 0.5 * n * jnp.log(2.0 * jnp.pi)
    numpyro.deterministic("latent", f)
    numpyro.deterministic("complete_log_likelihood", value + density)


def collapsed_model(problem: dict) -> None:
    """Hyperparameters with the latents integrated out, y ~ N(offset, Sigma + noise_sd^2 I)."""
    y, n = problem["y"], len(problem["y"])
    K, log_sd, offset = hyperparameters(problem)
    C = jnp.exp(2.0 * log_sd) * K + problem["noise_sd"] ** 2 * jnp.eye(n)
    numpyro.sample("y", dist.MultivariateNormal(offset * jnp.ones(n), C), obs=y)


def draw_latents(problem: dict, draws: dict) -> dict:
    """Exact f | y, theta by Matheron's rule, and T, for draws (chain, draw, ...) of `collapsed_model`."""
    y, noise = problem["y"], problem["noise_sd"]
    n = len(y)

    def one(values):
        key, fixed = values
        with numpyro.handlers.substitute(data=fixed):
            K, log_sd, offset = hyperparameters(problem)
        Sigma = jnp.exp(2.0 * log_sd) * K
        L = jnp.linalg.cholesky(Sigma)
        z, e = jax.random.normal(key, (2, n))
        prior = L @ z
        C = jnp.linalg.cholesky(Sigma + noise**2 * jnp.eye(n))
        rest = y - offset - prior - noise * e
        f = prior + Sigma @ jax.scipy.linalg.cho_solve((C, True), rest)
        white = jax.scipy.linalg.solve_triangular(L, f, lower=True)
        density = -0.5 * (white @ white) - jnp.log(jnp.diagonal(L)).sum()
        density -= 0.5 * n * jnp.log(2.0 * jnp.pi)
        return f, density + log_likelihood("gaussian", f + offset, y, noise)

    chains, n_draws = next(iter(draws.values())).shape[:2]
    flat = {k: jnp.asarray(v.reshape(chains * n_draws, *v.shape[2:])) for k, v in draws.items()}
    keys = jax.random.split(jax.random.PRNGKey(1), chains * n_draws)
    f, T = jax.jit(lambda values: jax.lax.map(one, values))((keys, flat))
    shape = (chains, n_draws)
    return {
        "latent": np.asarray(f).reshape(*shape, n),
        "complete_log_likelihood": np.asarray(T).reshape(shape),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem")
    parser.add_argument("draws_file")
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--collapsed", action="store_true")
    options = parser.parse_args()
    problem = dict(np.load(options.problem))
    problem["likelihood"] = str(problem["likelihood"])
    names = ("length", "signal", "offset")
    sites = ("log_length", "log_signal_sd", "offset")
    moving = [
        site
        for name, site in zip(names, sites, strict=True)
        if not np.all(problem[f"{name}_bounds"][0] == problem[f"{name}_bounds"][1])
    ]
    stated = collapsed_model if options.collapsed else model
    sampler = NUTS(stated, target_accept_prob=0.9, dense_mass=[tuple(moving)])
    mcmc = MCMC(
        sampler,
        num_warmup=options.warmup,
        num_samples=options.draws,
        num_chains=2,
        chain_method="parallel",
        progress_bar=False,
    )
    began = time.perf_counter()
    fields = ("num_steps", "accept_prob", "diverging")
    keys = jax.random.split(jax.random.PRNGKey(0))
    mcmc.warmup(keys[0], problem, extra_fields=fields, collect_warmup=True)
    jax.block_until_ready(mcmc.get_samples())
    warm = time.perf_counter() - began
    began = time.perf_counter()
    mcmc.run(keys[1], problem, extra_fields=fields)
    draws = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    if options.collapsed:
        draws |= draw_latents(problem, draws)
    sampling = time.perf_counter() - began
    extra = {k: np.asarray(v) for k, v in mcmc.get_extra_fields(group_by_chain=True).items()}
    theta = [draws[site] for site in moving]
    np.savez(
        options.draws_file,
        theta=np.concatenate(theta, axis=-1),
        latent=draws["latent"],
        complete_log_likelihood=draws["complete_log_likelihood"],
        seconds_warmup=warm,
        seconds_sampling=sampling,
        n_gradient=extra["num_steps"].sum(),
    )
    print(
        f"warm-up {warm:.1f} s, sampling {sampling:.1f} s, {extra['num_steps'].mean():.0f} steps a draw, "
        f"acceptance {extra['accept_prob'].mean():.2f}, diverging {extra['diverging'].sum()}"
    )


if __name__ == "__main__":
    main()
