"""PyMC on the problems of `problems.stated`: pymc_peers.py PROBLEM.npz DRAWS.npz SETTINGS. Needs no gpmcflow.

Sampler "nutpie": NUTS on hyperparameters and whitened latents, compiled by Numba; settings target, warmup,
draws. Sampler "smc": `pm.sample_smc` on whitened latents at fixed hyperparameters; settings draws
(particles), correlation_threshold, repeats, whose log evidences are left as "values" (repeat, 1).
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import pymc as pm
import pytensor.tensor as pt


def model_of(problem: dict) -> pm.Model:
    """Hyperparameters, whitened latents and T = log L(f) + log N(f; 0, Sigma)."""
    X, y, n = problem["X"], problem["y"], len(problem["y"])
    low, high = problem["low"], problem["high"]
    squares = np.maximum((X**2).sum(1)[:, None] + (X**2).sum(1) - 2.0 * X @ X.T, 0.0)
    half_log_2pi = 0.5 * np.log(2.0 * np.pi)
    with pm.Model() as model:
        if np.all(low == high):
            log_length, log_sd, offset = low
            L = np.linalg.cholesky(
                np.exp(-0.5 * squares * np.exp(-2.0 * log_length)) + problem["jitter"] * np.eye(n)
            )
        else:
            log_length, log_sd, offset = (
                pm.Uniform(name, low[k], high[k])
                for k, name in enumerate(("log_length", "log_signal_sd", "offset"))
            )
            K = pt.exp(-0.5 * squares * pt.exp(-2.0 * log_length)) + problem["jitter"] * np.eye(n)
            L = pt.linalg.cholesky(K)
        z = pm.Normal("z", shape=n)
        f = pt.exp(log_sd) * pt.dot(L, z)
        if str(problem["likelihood"]) == "probit":
            value = pm.logcdf(pm.Normal.dist(), y * (f + offset)).sum()
        else:
            value = pm.logp(pm.Poisson.dist(pt.exp(f + offset)), y).sum()
        pm.Potential("likelihood", value)
        if not np.all(low == high):
            log_det = pt.log(pt.diag(L)).sum() + n * log_sd
            pm.Deterministic("latents", f)
            pm.Deterministic("T", value - 0.5 * pt.dot(z, z) - log_det - n * half_log_2pi)
    return model


def nutpie_draws(model: pm.Model, own: dict) -> dict:
    """Draws of two chains; compilation and warm-up apart."""
    import nutpie

    began = time.perf_counter()
    compiled = nutpie.compile_pymc_model(model)

    compiling, began = time.perf_counter() - began, time.perf_counter()
    trace = nutpie.sample(
        compiled, draws=own["draws"], tune=own["warmup"], chains=2, cores=2, seed=1,
        target_accept=own["target"], save_warmup=True, progress_bar=False,
    )  # fmt: skip
    total = time.perf_counter() - began
    tuning, drawing = (
        float(group["n_steps"].sum()) for group in (trace.warmup_sample_stats, trace.sample_stats)
    )
    sampling = total * drawing / (tuning + drawing)  # by gradients, of which the time is made
    posterior = trace.posterior
    names = ("log_length", "log_signal_sd", "offset")
    return {
        "hyperparameters": np.stack([posterior[name].values for name in names], axis=-1),
        "latents": posterior["latents"].values, "T": posterior["T"].values,
        "seconds_warmup": compiling + total - sampling, "seconds_sampling": sampling,
        "version": f"PyMC {pm.__version__}, nutpie {nutpie.__version__}",
    }  # fmt: skip


def smc_values(model: pm.Model, own: dict) -> dict:
    """Log evidences of independent runs, each on a core, and the mean wall time of one on two cores."""
    began = time.perf_counter()
    settings = {"chains": own["cores"], "cores": own["cores"], "progressbar": False}
    threshold = own["correlation_threshold"]
    with model:
        pm.sample_smc(50, random_seed=0, correlation_threshold=0.5, **settings)
        compiling = time.perf_counter() - began
        values, began = [], time.perf_counter()
        for seed in range(own["repeats"]):
            trace = pm.sample_smc(
                own["draws"], random_seed=seed + 1, correlation_threshold=threshold, **settings
            )
            stored = trace.sample_stats["log_marginal_likelihood"].values
            for chain in np.atleast_1d(stored):
                own_values = np.atleast_1d(chain).ravel()[-1]
                values.append(float(np.asarray(own_values, dtype=object).ravel()[-1]))
    seconds = (time.perf_counter() - began) / len(values)
    return {
        "values": np.array(values)[:, None], "seconds_warmup": compiling, "seconds_sampling": seconds,
        "version": f"PyMC {pm.__version__}",
    }  # fmt: skip


def main() -> None:
    own, problem = json.loads(sys.argv[3]), dict(np.load(sys.argv[1]))
    model = model_of(problem)
    results = {"nutpie": nutpie_draws, "smc": smc_values}[own["sampler"]](model, own)
    np.savez(sys.argv[2], **results)
    spent = results["seconds_warmup"], results["seconds_sampling"]
    print(f"  PyMC: warm-up {spent[0]:.1f} s, sampling {spent[1]:.1f} s", flush=True)


if __name__ == "__main__":
    main()
