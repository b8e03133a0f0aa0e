"""Job 2: hyperparameters and latents together, beside NumPyro's NUTS, and nutpie through PyMC on mining.

    python -m benchmarks.peers.latents --peers FOLDER [--problems coal ionosphere digits redwoods]

`JointSplitHMC` with its defaults, two chains on two cores for all. The search over the peer's tuning goes
through the form of the latents (whitened, centred; on a grid whitened along its axes, too), the target
acceptance, and how chains share the cores.
"""

from __future__ import annotations

import os

import numpy as np

import gpmcflow as gp

from .common import Run, parser, peer_run, rate_rows, search, timed, words, write_rows
from .problems import load, stated

DRAWS = {"coal": 8000, "ionosphere": 2000, "digits": 3000, "redwoods": 4000}
# of the final run of the peer: warm-up, seconds of sampling; of a trial of the search: warm-up, seconds
LENGTHS = {
    "coal": (500, 40, 150, 6),
    "ionosphere": (400, 70, 100, 8),
    "digits": (400, 60, 100, 8),
    "redwoods": (300, 60, 100, 8),
}
PROBLEMS = {"coal": "coal mining, n = 112", "ionosphere": "ionosphere, n = 200",
            "digits": "digits, n = 243", "redwoods": "redwoods, n = 625"}  # fmt: skip
GOALS = {name: {"T": 20.0, "hyperparameters": 20.0, "latents": 20.0} for name in PROBLEMS}
GOALS["ionosphere"]["latents"] = 15.0
GOALS["digits"] = dict.fromkeys(GOALS["digits"], np.nan)
WHY = "labels say little of each latent value: whitened by the prior, NUTS has a nearly isotropic target"


def draws_of(tree) -> dict:
    return {
        "T": tree["sample_stats/complete_log_likelihood"].values,
        "hyperparameters": tree["posterior/theta"].values,
        "latents": tree["posterior/latent"].values,
    }


def beside_numpyro(name: str, model: gp.GPModel, folder: str) -> tuple[Run, Run, dict]:
    """Our run, the peer's, and what the rows say of the search."""
    problem, (warmup, seconds, short_warmup, short) = stated(model), LENGTHS[name]
    base = {"model": "joint", "form": "white", "target": 0.8, "dense": "theta", "chains": 2,
            "method": "parallel", "round": 10}  # fmt: skip
    if model.kronecker:
        base["form"] = "grid"
    forms = ["grid", "white"] if model.kronecker else ["white", "centred"]
    stages = [("form", forms), ("target", [0.8, 0.9]), ("method", ["parallel", "vectorized"])]

    def trial(settings: dict) -> Run | None:
        lengths = {"warmup": short_warmup, "seconds": short, "draws": 1000}
        return peer_run(folder, "numpyro_nuts.py", problem, settings | lengths, limit=120.0)

    best, spent = search(trial, base, stages)
    load_before = os.getloadavg()[0]
    mine = timed(model, DRAWS[name], draws_of)
    lengths = {"warmup": warmup, "seconds": seconds, "draws": 20_000}
    theirs = peer_run(folder, "numpyro_nuts.py", problem, best | lengths)
    about = {"settings": words(best), "search_seconds": spent, "load": load_before}
    return mine, theirs, about


def main() -> None:
    options = parser(__doc__, PROBLEMS).parse_args()
    for name in options.problems:
        model = load(name)
        mine, theirs, about = beside_numpyro(name, model, f"{options.peers}/numpyro")
        names = {
            "job": 2,
            "problem": PROBLEMS[name],
            "ours": "JointSplitHMC",
            "peer": "NumPyro NUTS",
        }
        write_rows(rate_rows(names | about, mine, theirs, GOALS[name], WHY * (name == "digits")))


if __name__ == "__main__":
    main()
