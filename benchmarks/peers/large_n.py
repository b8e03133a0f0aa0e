"""Job 5: basis functions at 10,000 and 100,000 rows, beside NumPyro's NUTS on the same reduced-rank model.

    python -m benchmarks.peers.large_n --peers FOLDER [--problems binary-10k counts-100k-groups]

`JointSplitHMC` with its defaults, two chains on two cores for all. The peer has a matrix of basis functions
made beforehand, weights whitened by the prior, and a dense mass matrix for the hyperparameters; the search
goes through its precision, target acceptance and how chains share the cores.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import gpmcflow as gp

from .common import compare, parser, peer_run, timed

LENGTH = gp.Hyperprior("norm", {"loc": -1.0, "scale": 0.4})
SIGNAL = gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.7})
GROUP = gp.Hyperprior("norm", {"loc": -1.0, "scale": 0.7})
MEAN = gp.Hyperprior("norm", {"loc": 0.0, "scale": 2.0})


def binary(n: int, columns: int) -> gp.GPModel:
    """Labels with a smooth log odds."""
    rng = np.random.default_rng(n)
    X = rng.uniform(-1.0, 1.0, (n, columns))
    f = 1.5 * np.sin(4.0 * X[:, 0]) + (np.cos(3.0 * X[:, 1]) if columns > 1 else 0.3)
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-f)), 1.0, -1.0)
    covariance = gp.SquaredExponential(LENGTH, SIGNAL, ard=columns > 1)
    return gp.GPModel(X, y, covariance, gp.Logistic(), MEAN, structure=gp.BasisFunctions())


def grouped_counts(n: int, n_groups: int) -> gp.GPModel:
    """Counts with a smooth log rate and an effect of a group."""
    rng = np.random.default_rng(n)
    X = np.column_stack([rng.uniform(-1.0, 1.0, n), rng.integers(n_groups, size=n)])
    effects = 0.4 * rng.standard_normal(n_groups)
    f = 0.5 + np.sin(5.0 * X[:, 0]) + effects[X[:, 1].astype(int)]
    covariance = gp.SquaredExponential(LENGTH, SIGNAL, columns=0) + gp.Group(GROUP, columns=1)
    y = rng.poisson(np.exp(f)).astype(float)
    return gp.GPModel(X, y, covariance, gp.Poisson(), MEAN, structure=gp.BasisFunctions())


PROBLEMS = {
    "binary-10k": lambda: binary(10_000, 1),
    "binary-50k-2d": lambda: binary(50_000, 2),
    "counts-100k-groups": lambda: grouped_counts(100_000, 50),
}
SHOWN = {"binary-10k": "10,000 labels", "binary-50k-2d": "50,000 labels, two columns",
         "counts-100k-groups": "100,000 counts, 50 groups"}  # fmt: skip
DRAWS = {"binary-10k": 20_000, "binary-50k-2d": 2_000, "counts-100k-groups": 3_000}
# of the final run of the peer: warm-up, seconds of sampling; of a trial of the search: warm-up, seconds
LENGTHS = {"binary-10k": (300, 60, 100, 10), "binary-50k-2d": (300, 200, 60, 15),
           "counts-100k-groups": (200, 150, 60, 15)}  # fmt: skip
GOALS = {"hyperparameters": 20.0, "weights": 20.0}


def stated(model: gp.GPModel) -> dict:
    """The arrays of a model that the peer states it with."""
    smooth, *groups = model.basis.blocks
    return {
        "functions": model.basis_design.matrix()[:, : smooth.size],
        "squared_frequencies": smooth.squares,
        "codes": model.X[:, 1].astype(int) if groups else np.empty(0, int),
        "n_levels": groups[0].size if groups else 0,
        "y": model.y,
        "likelihood": model.likelihood.name,
        "priors": np.array([
            [prior.parameters["loc"], prior.parameters["scale"]]
            for prior in (LENGTH, SIGNAL, MEAN, GROUP)
        ]),
    }  # fmt: skip


def draws_of(tree) -> dict:
    return {
        "hyperparameters": tree["posterior/theta"].values,
        "weights": tree["posterior/weight"].values,
    }


def main() -> None:
    options = parser(__doc__, PROBLEMS).parse_args()
    base = {"model": "basis", "bits": 64, "target": 0.8, "dense": "theta", "chains": 2, "method": "parallel",
            "round": 10}  # fmt: skip
    stages = [("bits", [64, 32]), ("target", [0.8, 0.9]), ("method", ["parallel", "vectorized"])]
    for name in options.problems:
        model = PROBLEMS[name]()
        warmup, seconds, short_warmup, short = LENGTHS[name]
        compare(
            options,
            {"job": 5, "problem": f"{SHOWN[name]}, m = {model.n_latents}", "peer": "NumPyro NUTS"},
            {"JointSplitHMC": partial(timed, model, DRAWS[name], draws_of)},
            partial(peer_run, f"{options.peers}/numpyro", "numpyro_nuts.py", stated(model)),
            base,
            stages,
            {"warmup": short_warmup, "seconds": short, "draws": 1000},
            {"warmup": warmup, "seconds": seconds, "draws": 20_000},
            120.0,
            GOALS,
        )


if __name__ == "__main__":
    main()
