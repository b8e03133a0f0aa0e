"""Job 2: hyperparameters and latents together, beside NumPyro's NUTS, and nutpie through PyMC on mining.

    python -m benchmarks.peers.latents --peers FOLDER [--problems coal ionosphere digits redwoods]

`JointSplitHMC` with its defaults, two chains on two cores for all. The search over the peer's tuning goes
through the form of the latents (whitened, centred; on a grid whitened along its axes, too), the target
acceptance, and how chains share the cores.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import gpmcflow as gp

from .common import compare, parser, peer_run, timed
from .problems import load, stated

DRAWS = {"coal": 8000, "ionosphere": 2000, "digits": 3000, "redwoods": 4000}
# of the final run of the peer: warm-up, seconds of sampling; of a trial of the search: warm-up, seconds
LENGTHS = {
    "coal": (500, 120, 150, 6),
    "ionosphere": (400, 70, 100, 8),
    "digits": (400, 60, 100, 8),
    "redwoods": (300, 60, 100, 8),
}
LONGEST = 150.0  # seconds of a trial, above which its settings are out
PROBLEMS = {"coal": "coal mining, n = 112", "ionosphere": "ionosphere, n = 200",
            "digits": "digits, n = 243", "redwoods": "redwoods, n = 625"}  # fmt: skip
GOALS = {name: {"T": 20.0, "hyperparameters": 20.0, "latents": 20.0} for name in PROBLEMS}
GOALS["ionosphere"]["latents"] = 15.0
GOALS["digits"] = dict.fromkeys(GOALS["digits"], np.nan)
WHY = {  # where a peer is ahead, or nearer than the goal
    "ionosphere": "T and latents follow the data whatever the 34 length scales do: the peer draws them well "
    "long before those",
    "digits": "labels say little of each latent value: whitened by the prior the target is nearly isotropic",
    "coal": "T is what the peer draws best, far ahead of its hyperparameters; ours draws both about as well",
    "redwoods": "stated along the axes of the grid, by hand, the peer has the same cheap Kronecker gradient",
}


def draws_of(tree) -> dict:
    return {
        "T": tree["sample_stats/complete_log_likelihood"].values,
        "hyperparameters": tree["posterior/theta"].values,
        "latents": tree["posterior/latent"].values,
    }


def numpyro_search(name: str, model: gp.GPModel) -> tuple[dict, list, dict, dict]:
    """Settings of NumPyro to begin with, what the search tries, lengths of a trial and of the final run."""
    warmup, seconds, short_warmup, short = LENGTHS[name]
    base = {"model": "joint", "form": "white", "target": 0.8, "dense": "theta", "chains": 2,
            "method": "parallel", "round": 10}  # fmt: skip
    if model.kronecker:
        base["form"] = "grid"
    forms = ["grid", "white"] if model.kronecker else ["white", "centred"]
    stages = [("form", forms), ("target", [0.8, 0.9]), ("method", ["parallel", "vectorized"])]
    trial = {"warmup": short_warmup, "seconds": short, "draws": 1000}
    return base, stages, trial, {"warmup": warmup, "seconds": seconds, "draws": 20_000}


def nutpie_search(name: str, model: gp.GPModel) -> tuple[dict, list, dict, dict]:
    """The same of nutpie, whose runs have as many draws as are asked for."""
    base, stages = {"sampler": "nutpie", "target": 0.8}, [("target", [0.8, 0.9])]
    return base, stages, {"warmup": 200, "draws": 300}, {"warmup": 500, "draws": 1500}


PEERS = {
    "numpyro": ("NumPyro NUTS", "numpyro_nuts.py", numpyro_search, tuple(PROBLEMS)),
    "pymc": ("nutpie through PyMC", "pymc_peers.py", nutpie_search, ("coal",)),
}


def main() -> None:
    arguments = parser(__doc__, PROBLEMS)
    arguments.add_argument("--only", nargs="+", default=list(PEERS), choices=list(PEERS))
    options = arguments.parse_args()
    for name in options.problems:
        model = load(name)
        problem = stated(model)
        for peer, (shown, script, settings_of, problems) in PEERS.items():
            if name not in problems or peer not in options.only:
                continue
            compare(
                options,
                {"job": 2, "problem": PROBLEMS[name], "peer": shown},
                {"JointSplitHMC": partial(timed, model, DRAWS[name], draws_of)},
                partial(peer_run, f"{options.peers}/{peer}", script, problem),
                *settings_of(name, model),
                LONGEST,
                GOALS[name],
                WHY.get(name, ""),
            )


if __name__ == "__main__":
    main()
