"""Effective draws a CPU second of a model whose noise varies, ours and NumPyro's NUTS's.

    python -m benchmarks.peers.varying_noise --peers FOLDER [--problems motorcycle simulated]

The model of `benchmarks/varying_noise.py`, on all rows of the motorcycle data, standardised, and on as many
simulated ones, which need no package of data: a Matern 5/2 for the mean and one for the log of the noise,
default hyperpriors on both sides. Ours is `gp.sample` with its defaults, in one process. Runs of both, of two
chains, are taken in turn; "pooled" has the chains of all. Seconds are of CPU time; ``peer_all`` counts the
peer's warm-up, not its compilation, which stands apart. A row of one hyperparameter, in the coordinate that
is sampled, has its posterior means and their errors.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from arviz_stats.base import array_stats

import gpmcflow as gp

from ..varying_noise import models, motorcycle
from .common import (
    Run,
    busy_cores,
    columns_of,
    longer,
    means,
    parser,
    peer_run,
    rate_rows,
    timed,
    words,
)

ROWS = Path(__file__).parents[1] / "varying_noise_peer.csv"
GOAL = 10.0
RUNS = 2  # of each side
DRAWS = 1000
# no search over these: a draw takes the peer about 125 gradients of 3 ms, and each trial would take minutes
SETTINGS = {"form": "white-white", "dense": "theta", "target": 0.8, "warmup": 200}
HOW = {"model": "varying_noise", "chains": 2, "method": "parallel", "round": 10, "draws": 1000,
       "seconds": 160, "clock": "process_time"}  # fmt: skip


def simulated() -> tuple[np.ndarray, np.ndarray]:
    """133 cases that are flat and quiet at first, then move and are noisy."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 60.0, 133))
    after = np.maximum(x - 14.0, 0.0)
    mean = -110.0 * np.sin(after / 6.0) * np.exp(-after / 14.0)
    return x, mean + np.exp(2.0 + 1.3 * np.tanh((x - 17.0) / 5.0)) * rng.standard_normal(133)


PROBLEMS = {"motorcycle": motorcycle, "simulated": simulated}


def stated(model: gp.MultiGPModel) -> dict:
    """Arrays of the model for the peer."""
    priors = [prior.parameters for prior in model.parameters.priors if not np.isscalar(prior)]
    loc, scale = (np.array([prior[name] for prior in priors]) for name in ("loc", "scale"))
    return {"X": model.X, "y": model.y, "jitter": model.epsilon, "loc": loc, "scale": scale}


def draws_of(tree) -> dict:
    """Hyperparameters, and the latents of each function without its mean."""
    latent = tree["posterior/latent"]
    functions = {name: latent.sel(function=name).values for name in ("mean", "log_sd")}
    return {"hyperparameters": tree["posterior/theta"].values, **functions}


def pooled(runs: list[Run]) -> Run:
    """One run of the chains of all, as long as the shortest; seconds of sampling are of what is left."""
    lengths = [run.draws["hyperparameters"].shape[1] for run in runs]
    least = min(lengths)
    draws = {
        name: np.concatenate([run.draws[name][:, :least] for run in runs]) for name in runs[0].draws
    }
    warmup, compilation = sum(run.warmup for run in runs), sum(run.compilation for run in runs)
    sampling = sum(run.sampling * least / own for run, own in zip(runs, lengths, strict=True))
    return Run(draws, warmup, sampling, runs[0].version, compilation)


def tail_size(values: np.ndarray) -> float:
    """Smallest tail effective size of (chain, draw, ..)."""
    return min(
        float(array_stats.ess(own, chain_axis=0, draw_axis=1, method="tail", prob=(0.05, 0.95)))
        for own in columns_of(values)
    )


def rows_of(names: dict, ours: Run, peer: Run, coordinates: tuple[str, ...]) -> list[dict]:
    """A row of each quantity and of each hyperparameter."""
    for run in (ours, peer):
        theta = run.draws["hyperparameters"]
        run.draws.update({name: theta[..., k] for k, name in enumerate(coordinates)})
    kept = peer._replace(warmup=peer.warmup - peer.compilation)
    rows = rate_rows(names, ours, kept, dict.fromkeys(ours.draws, GOAL))
    for row in rows:
        for side, run in (("ours", ours), ("peer", kept)):
            values = run.draws[row["quantity"]]
            row |= {
                f"{side}_chains": len(values), f"{side}_drawn": values.shape[0] * values.shape[1],
                f"{side}_tail": tail_size(values), f"{side}_sampling": run.sampling,
                f"{side}_warmup": run.warmup, f"{side}_compilation": run.compilation,
            }  # fmt: skip
            if row["quantity"] in coordinates:
                (row[f"{side}_mean"],), (row[f"{side}_error"],) = means(values)
        row["unit"] = "effective samples a CPU second"
        row["runs"] = names["runs"]
        del row["job"], row["search_seconds"]
    return rows


def main() -> None:
    """Write rows of each pair of runs, and of all together."""
    options = parser(__doc__, PROBLEMS).parse_args()
    rows = []
    for name in options.problems:
        x, y = (values - values.mean() for values in PROBLEMS[name]())
        model = models(x / x.std(), y / y.std())["noise that varies"]
        peer = partial(peer_run, f"{options.peers}/numpyro", "numpyro_nuts.py", stated(model))
        shared = {
            "job": 0, "problem": name, "ours": "JointSplitHMC", "peer": "NumPyro NUTS",
            "settings": words(SETTINGS), "search_seconds": 0.0, "load": busy_cores(),
        }  # fmt: skip
        ours, theirs = [], []
        for seed in range(RUNS):
            ours.append(
                timed(
                    model, DRAWS, draws_of, workers=1, clock=time.process_time, seed=seed,
                    predictive=False,
                )
            )  # fmt: skip
            theirs.append(peer(SETTINGS | longer(HOW, options) | {"seed": seed}))
        pairs = [("pooled", pooled(ours), pooled(theirs))]
        pairs += [(str(k + 1), *pair) for k, pair in enumerate(zip(ours, theirs, strict=True))]
        for label, mine, other in pairs:
            rows += rows_of(shared | {"runs": label}, mine, other, model.names)
    table = pd.DataFrame(rows)
    if ROWS.exists():  # rows of other problems stay
        old = pd.read_csv(ROWS)
        table = pd.concat([old[~old["problem"].isin(options.problems)], table])
    for column in table.select_dtypes("float"):
        table[column] = table[column].map(lambda value: float(f"{value:.4g}"))
    table.to_csv(ROWS, index=False)
    print(pd.DataFrame(rows)[["problem", "runs", "quantity", "ratio", "ratio_all", "gap"]])


if __name__ == "__main__":
    main()
