"""Simulation-based calibration of `JointSplitHMC` under every structure of the prior.

    python benchmarks/calibration.py [--structures dense kronecker ..] [--data-sets 200] [--first 0]

Hyperparameters, latents and data are drawn from the model, then sampled given the data: among draws of the
posterior the truth has a rank that is uniform if the sampler is exact (Talts et al. 2018). Of each data set
99 draws are used, spread over two chains of 400. Rows go to `calibration.csv` as they finish, data set by
data set, and those that are there are not made again; the table has a chi-squared p-value over 20 bins for
each function: hyperparameters, the predictor of the first case, the log likelihood.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import chisquare

import gpmcflow as gp
from gpmcflow.execution import Execution

ROWS = Path(__file__).with_name("calibration.csv")
N_DRAWS, N_RANKED, BINS = 400, 99, 20
LENGTH = gp.Hyperprior("norm", {"loc": -1.0, "scale": 0.4})
SIGNAL = gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.5})
MEAN = gp.Hyperprior("norm", {"loc": 0.5, "scale": 0.5})
SIDE = np.linspace(-1.0, 1.0, 7)
GRID = np.stack(np.meshgrid(SIDE, SIDE, indexing="ij"), -1).reshape(-1, 2)


def models() -> dict[str, gp.GPModel]:
    """A model of each structure; its data are put in later."""
    rng = np.random.default_rng(0)
    few, many = rng.uniform(-1.0, 1.0, 40), rng.uniform(-1.0, 1.0, 300)
    se, free_noise = (
        gp.SquaredExponential(LENGTH, SIGNAL),
        gp.Hyperprior("norm", {"loc": -1.0, "scale": 0.4}),
    )
    ard = gp.SquaredExponential(LENGTH, SIGNAL, ard=True)
    return {
        "dense": gp.GPModel(few, np.ones(40), se, gp.Poisson(), MEAN),
        "dense, labels": gp.GPModel(few, np.ones(40), se, gp.Probit()),
        "collapsed": gp.GPModel(few, np.ones(40), se, gp.Gaussian(free_noise)),
        "kronecker": gp.GPModel(GRID, np.ones(49), ard, gp.Poisson(), MEAN, structure="kronecker"),
        "basis": gp.GPModel(many, np.ones(300), se, gp.Logistic(), structure=gp.BasisFunctions()),
        "basis, collapsed": gp.GPModel(
            many, np.ones(300), se, gp.Gaussian(free_noise), structure=gp.BasisFunctions()
        ),
    }  # fmt: skip


def ranks(model: gp.GPModel, seed: int) -> Iterator[tuple[str, int]]:
    """Function and rank of the truth, from 0 to `N_RANKED`."""
    rng = np.random.default_rng([seed, 5])
    theta = model.draw_prior(rng)
    latents, y = model.simulate(rng, theta)
    own = model.with_y(y)
    tree = gp.sample(
        own, n_chains=2, n_draws=N_DRAWS, seed=seed, execution=Execution(progress=False)
    )
    posterior = tree["posterior"]
    rows = np.linspace(0, 2 * N_DRAWS - 1, N_RANKED).astype(int)
    thetas = posterior["theta"].values.reshape(-1, model.dim)[rows]
    drawn = posterior[model.latent_variable].values.reshape(-1, model.n_latents)[rows]
    for k, name in enumerate(model.names):
        yield name, int((thetas[:, k] < theta[k]).sum())
    pairs = [(theta, latents), *zip(thetas, drawn, strict=True)]
    first = [own.predictor(t, u)[0] for t, u in pairs]
    yield "predictor", int((np.array(first[1:]) < first[0]).sum())
    logs = [float(own.log_likelihood(u, t)) for t, u in pairs]
    yield "log likelihood", int((np.array(logs[1:]) < logs[0]).sum())


def table(rows: pd.DataFrame) -> None:
    """p-values of uniform ranks."""
    print("| structure | data sets | p-values |")
    for structure, part in rows.groupby("structure", sort=False):
        told = []
        for function, own in part.groupby("function", sort=False):
            counts = np.histogram(own["rank"], BINS, (-0.5, N_RANKED + 0.5))[0]
            told.append(f"{function} {chisquare(counts).pvalue:.2f}")
        print(f"| {structure} | {part['data_set'].nunique()} | {', '.join(told)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--structures", nargs="+", default=list(models()))
    parser.add_argument("--data-sets", type=int, default=200)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # short chains that do not agree to 0.01 are enough for ranks
    done = pd.read_csv(ROWS) if ROWS.exists() else pd.DataFrame(columns=["structure", "data_set"])
    known = set(zip(done["structure"], done["data_set"], strict=True))
    for name in options.structures:
        model = models()[name]
        for k in range(options.data_sets):
            if (name, k) in known:
                continue
            new = [(name, k, function, rank) for function, rank in ranks(model, k)]
            frame = pd.DataFrame(new, columns=["structure", "data_set", "function", "rank"])
            frame.to_csv(ROWS, mode="a", header=not ROWS.exists(), index=False)
    table(pd.read_csv(ROWS))


if __name__ == "__main__":
    main()
