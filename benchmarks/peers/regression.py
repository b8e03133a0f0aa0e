"""Job 4: hyperparameters of a GP regression with n = 300, the latents integrated out, beside NumPyro's NUTS.

    python -m benchmarks.peers.regression --peers FOLDER

Ours are `gp.sample(model)`, which integrates the latents out and draws them back, and "fitted_independence",
proposals of a Student-t fitted to the density of the hyperparameters, which draws these alone as the peer
does.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import gpmcflow as gp

from .common import compare, parser, peer_run, timed

METHODS = {
    "gp.sample, latents drawn back": (None, 1500),
    "fitted_independence": ("fitted_independence", 8000),
}
LENGTH, SIGNAL, NOISE = (0.0, 1.0), (0.0, 1.0), (-1.0, 1.0)  # normal priors of the logs
PROBLEMS = {"one length scale": 1, "three length scales": 3}


def problem_of(columns: int) -> tuple[gp.GPModel, dict]:
    """300 cases of a smooth function with noise of 0.3, as a model and as arrays."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-2.0, 2.0, (300, columns))
    y = np.sin(2.0 * X[:, 0]) + (X[:, 1:] ** 2 @ [0.3, 0.05] if columns > 1 else 0.0)
    y = y - y.mean() + 0.3 * rng.standard_normal(300)
    length, signal, noise = (
        gp.Hyperprior("norm", {"loc": loc, "scale": scale})
        for loc, scale in (LENGTH, SIGNAL, NOISE)
    )
    covariance = gp.SquaredExponential(length, signal, ard=columns > 1)
    model = gp.GPModel(X, y, covariance, gp.Gaussian(noise), 0.0, jitter=1e-6)
    priors = np.array([LENGTH] * columns + [SIGNAL, NOISE])
    stated = {"X": X, "y": y, "jitter": 1e-6, "loc": priors[:, 0], "scale": priors[:, 1]}
    return model, stated


def draws_of(tree) -> dict:
    return {"hyperparameters": tree["posterior/theta"].values}


def main() -> None:
    options = parser(__doc__, PROBLEMS).parse_args()
    base = {
        "model": "regression",
        "target": 0.8,
        "dense": "theta",
        "chains": 2,
        "method": "parallel",
        "round": 20,
    }
    stages = [
        ("dense", ["theta", "none"]),
        ("target", [0.8, 0.9, 0.95]),
        ("method", ["parallel", "vectorized"]),
    ]
    for name in options.problems:
        model, stated = problem_of(PROBLEMS[name])
        compare(
            options,
            {"job": 4, "problem": f"regression, n = 300, {name}", "peer": "NumPyro NUTS"},
            {
                label: partial(timed, model, n_draws, draws_of, sampler)
                for label, (sampler, n_draws) in METHODS.items()
            },
            partial(peer_run, f"{options.peers}/numpyro", "numpyro_nuts.py", stated),
            base,
            stages,
            {"warmup": 150, "seconds": 6, "draws": 2000},
            {"warmup": 500, "seconds": 40, "draws": 20_000},
            90.0,
            {"hyperparameters": np.nan},
        )


if __name__ == "__main__":
    main()
