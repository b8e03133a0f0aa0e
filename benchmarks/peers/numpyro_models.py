"""The models of the jobs as NumPyro states them; `numpyro_nuts.py` samples them. Needs nothing of gpmcflow.

A model is a function of the problem's arrays and of settings; it names its free hyperparameters and what it
records. ``form`` is "white" (f = L z) or "centred"; of two functions, one each: "centred-white".
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax_likelihoods import log_likelihood

HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


def bounded(name: str, low, high):
    """Coordinates (k,), uniform between ``low`` and ``high`` (k,), or fixed where both are equal."""
    if np.all(low == high):
        return jnp.asarray(low)
    return numpyro.sample(name, dist.Uniform(low, high).to_event(1))


def squared_exponential(X, log_lengths, jitter):
    """Covariance of unit variance (n, n), with the jitter on its diagonal."""
    scaled = X / jnp.exp(log_lengths)
    squares = (scaled**2).sum(1)
    distances = jnp.maximum(squares[:, None] + squares[None, :] - 2.0 * scaled @ scaled.T, 0.0)
    K = jnp.exp(-0.5 * distances)
    n = len(X)
    return K.at[jnp.arange(n), jnp.arange(n)].set(1.0 + jitter)


def matern52(X, log_length, jitter):
    """The same of a Matern 5/2 with one length scale; X is given, so distances of 0 need no slope."""
    distances = np.sqrt(((X[:, None] - X[None, :]) ** 2).sum(-1))
    a = np.sqrt(5.0) * distances * jnp.exp(-log_length)
    return (1.0 + a + a**2 / 3.0) * jnp.exp(-a) + jitter * np.eye(len(X))


def joint(problem: dict, settings: dict) -> None:
    """Hyperparameters and latents f of a GP, with T = log L(f) + log N(f; 0, Sigma)."""
    X, y, n = problem["X"], problem["y"], len(problem["y"])
    p, low, high = len(problem["low"]) - 2, problem["low"], problem["high"]
    log_lengths = bounded("log_length", low[:p], high[:p])
    log_sd = bounded("log_signal_sd", low[p : p + 1], high[p : p + 1])[0]
    offset = bounded("offset", low[p + 1 :], high[p + 1 :])[0]
    jitter = problem["jitter"]
    if settings["form"] == "grid":  # K_1 x K_2 on a grid, row by row: f = s L_1 Z L_2'
        axes = problem["rows"], problem["columns"]
        factors = [
            jnp.linalg.cholesky(squared_exponential(axis[:, None], log_lengths[k : k + 1], jitter))
            for k, axis in enumerate(axes)
        ]
        z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([n]).to_event(1))
        shape = [len(axis) for axis in axes]
        f = jnp.exp(log_sd) * (factors[0] @ z.reshape(shape) @ factors[1].T).reshape(-1)
        logs = [jnp.log(jnp.diagonal(factor)).sum() for factor in factors]
        log_det = logs[0] * shape[1] + logs[1] * shape[0]
        density = -0.5 * (z @ z) - log_det - n * (log_sd + HALF_LOG_2PI)
    else:
        L = jnp.linalg.cholesky(squared_exponential(X, log_lengths, jitter))
        if settings["form"] == "white":
            z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([n]).to_event(1))
            f = jnp.exp(log_sd) * (L @ z)
            log_det = jnp.log(jnp.diagonal(L)).sum() + n * log_sd
            density = -0.5 * (z @ z) - log_det - n * HALF_LOG_2PI
        else:
            prior = dist.MultivariateNormal(jnp.zeros(n), scale_tril=jnp.exp(log_sd) * L)
            f = numpyro.sample("f", prior)
            density = prior.log_prob(f)
    value = log_likelihood(problem["likelihood"], f + offset, y)
    numpyro.factor("likelihood", value)
    numpyro.deterministic("latents", f)
    numpyro.deterministic("T", value + density)


def regression(problem: dict, settings: dict) -> None:
    """y ~ N(0, s^2 K + sigma^2 I), the latents integrated out; logs of all hyperparameters are normal."""
    prior = dist.Normal(problem["loc"], problem["scale"]).to_event(1)
    theta = numpyro.sample("theta", prior)
    *_, log_sd, log_noise = theta
    K = squared_exponential(problem["X"], theta[:-2], problem["jitter"])
    n = len(problem["y"])
    C = jnp.exp(2.0 * log_sd) * K + jnp.exp(2.0 * log_noise) * jnp.eye(n)
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(n), C), obs=problem["y"])


def varying_noise(problem: dict, settings: dict) -> None:
    """y ~ N(f_1, e^(2 (c + f_2))), a GP each; c and the logs of all other hyperparameters are normal."""
    prior = dist.Normal(problem["loc"], problem["scale"]).to_event(1)
    theta = numpyro.sample("theta", prior)
    n, latents = len(problem["y"]), []
    for k, form in enumerate(settings["form"].split("-")):
        L = jnp.linalg.cholesky(matern52(problem["X"], theta[2 * k], problem["jitter"]))
        L = jnp.exp(theta[2 * k + 1]) * L
        if form == "white":
            latents.append(
                L @ numpyro.sample(f"z_{k}", dist.Normal(0.0, 1.0).expand([n]).to_event(1))
            )
        else:
            latents.append(
                numpyro.sample(f"f_{k}", dist.MultivariateNormal(jnp.zeros(n), scale_tril=L))
            )
    numpyro.sample("y", dist.Normal(latents[0], jnp.exp(theta[4] + latents[1])), obs=problem["y"])
    numpyro.deterministic("mean", latents[0])
    numpyro.deterministic("log_sd", latents[1])


def logistic(problem: dict, settings: dict) -> None:
    """Slopes ~ N(0, sd^2) of a logistic regression with design (n, d)."""
    design, d = problem["design"], problem["design"].shape[1]
    slopes = numpyro.sample("slopes", dist.Normal(0.0, problem["sd"]).expand([d]).to_event(1))
    value = log_likelihood("logistic", design @ slopes, problem["y"])
    numpyro.factor("likelihood", value)
    numpyro.deterministic("log likelihood", value)


def basis(problem: dict, settings: dict) -> None:
    """h = Phi (s w) + sigma_g v of the group + c: a reduced-rank GP, with its weights whitened."""
    (length, signal, mean, group), squares = problem["priors"], problem["squared_frequencies"]
    d, m = squares.shape
    log_length = numpyro.sample("log_length", dist.Normal(*length).expand([d]).to_event(1))
    log_sd = numpyro.sample("log_signal_sd", dist.Normal(*signal))
    offset = numpyro.sample("offset", dist.Normal(*mean))
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([m]).to_event(1))
    spectrum = (
        HALF_LOG_2PI + log_length[:, None] - 0.5 * jnp.exp(2.0 * log_length)[:, None] * squares
    )
    h = problem["functions"] @ (jnp.exp(log_sd + 0.5 * spectrum.sum(0)) * w) + offset
    if problem["n_levels"]:
        log_group = numpyro.sample("log_group_sd", dist.Normal(*group))
        levels = dist.Normal(0.0, 1.0).expand([int(problem["n_levels"])]).to_event(1)
        h += jnp.exp(log_group) * numpyro.sample("v", levels)[problem["codes"]]
    numpyro.factor("likelihood", log_likelihood(problem["likelihood"], h, problem["y"]))


# of each model: hyperparameters in the order of the package, and the quantities made of which draws
MODELS = {
    "joint": (
        joint,
        ("log_length", "log_signal_sd", "offset"),
        {"T": ("T",), "latents": ("latents",)},
    ),
    "regression": (regression, ("theta",), {}),
    "varying_noise": (varying_noise, ("theta",), {"mean": ("mean",), "log_sd": ("log_sd",)}),
    "logistic": (logistic, (), {"log likelihood": ("log likelihood",), "slopes": ("slopes",)}),
    "basis": (
        basis,
        ("log_length", "log_signal_sd", "log_group_sd", "offset"),
        {"weights": ("w", "v")},
    ),
}
