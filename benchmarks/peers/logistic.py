"""Job 3: logistic regression, beside NumPyro's NUTS and BlackJAX's NUTS after window adaptation.

    python -m benchmarks.peers.logistic --peers FOLDER [--problems ctg simulated]

`gp.sample` of a Laplace fit with its defaults, 16 chains in two processes. Quantities are the log likelihood
and the slopes, of which the worst counts. The searches go through the mass matrix, the target acceptance,
the number of chains and their method, and single precision.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

import gpmcflow as gp

from .common import Run, compare, parser, peer_run, timed

PRIOR_SD = 5.0
PROBLEMS = {
    "ctg": ("ctg", "CTG, n = 2,126, d = 22"),
    "simulated": ("shahbaba-simulated", "simulated, n = 10,000, d = 101"),
}
DRAWS = {"ctg": 4000, "simulated": 2000}
GOALS = {"log likelihood": np.nan, "slopes": np.nan}
WHY = "ours is in double precision, the peer in that which its search chose"  # where it is ahead
COMMON = {"target": 0.8, "round": 20}
PEERS = {
    "numpyro": (
        "NumPyro NUTS", "numpyro_nuts.py",
        {"model": "logistic", "dense": "all", "chains": 2, "method": "parallel", "bits": 64},
        [("dense", ["all", "none"]), ("bits", [64, 32]), ("target", [0.8, 0.9]),
         ("method", ["parallel", "vectorized"])],
    ),
    "blackjax": (
        "BlackJAX NUTS", "blackjax_nuts.py", {"dense": True, "chains": 2, "bits": 64},
        [("dense", [True, False]), ("bits", [64, 32]), ("target", [0.8, 0.9]), ("chains", [2, 16])],
    ),
}  # fmt: skip


def problem_of(name: str) -> dict:
    """Design with an intercept and standardised features, labels, and the sd of the prior."""
    data = gp.load_dataset(PROBLEMS[name][0])
    X = data["X"].values
    X = (X - X.mean(0)) / X.std(0)
    design = np.column_stack([np.ones(len(X)), X])
    return {"design": design, "y": data["y"].values, "sd": PRIOR_SD}


def ours(problem: dict, n_draws: int) -> Run:
    """Preconditioned split HMC from a Laplace fit, which is inside the warm-up."""
    began = time.perf_counter()
    model = gp.LatentGaussianModel.from_design(
        problem["design"], PRIOR_SD, gp.Logistic(), problem["y"]
    )
    fit = gp.approximate(model, "laplace")
    fitting = time.perf_counter() - began

    def draws_of(tree) -> dict:
        return {
            "log likelihood": tree["sample_stats/sum_log_likelihood"].values,
            "slopes": tree["posterior/latent"].values,
        }

    run = timed(fit, n_draws, draws_of, n_chains=16, block_size=8)
    return run._replace(warmup=run.warmup + fitting)


def main() -> None:
    options = parser(__doc__, PROBLEMS).parse_args()
    for name in options.problems:
        problem = problem_of(name)
        for peer, (shown, script, base, stages) in PEERS.items():
            compare(
                options,
                {"job": 3, "problem": PROBLEMS[name][1], "peer": shown},
                {"gp.sample(Laplace fit)": partial(ours, problem, DRAWS[name])},
                partial(peer_run, f"{options.peers}/{peer}", script, problem),
                COMMON | base,
                stages,
                {"warmup": 200, "seconds": 4, "draws": 2000},
                {"warmup": 500, "seconds": 30, "draws": 20_000},
                60.0,
                GOALS,
                WHY,
            )


if __name__ == "__main__":
    main()
