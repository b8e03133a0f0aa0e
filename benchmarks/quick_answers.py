"""Answers averaged over the hyperparameters by fits, and at their maximum, beside those by long chains.

    python benchmarks/quick_answers.py [--problems labels ..]
    python benchmarks/quick_answers.py --table

Ten models of simulated data, of all kinds of response. The reference is `sample` with four chains of
1,000 draws, `leave_one_out` of them, and `model_evidence`. A row holds, for `approximate` at the maximum and
with ``integrated``, the ratio of the widths of 95 % intervals at 100 new inputs, of latents, or probabilities
of labels (median, and central 80 %), the differences of their means in standard deviations of the reference
(root of the mean square), the differences of log evidence and of the sum of leave-one-out log densities, in
nats, and CPU seconds. Rows go to `quick_answers.csv`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import gpmcflow as gp
from gpmcflow.approximations.leave_one_out import at_theta

ROWS = Path(__file__).with_name("quick_answers.csv")
N_NEW = 100
LEVELS = (0.025, 0.975)
N_LEFT_OUT = 400

Problem = tuple[gp.GPModel, np.ndarray]


def inputs(rng: np.random.Generator, n: int, p: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs (n, p), new ones, and a function of the first two columns at the former."""
    X, new = rng.standard_normal((n, p)), rng.standard_normal((N_NEW, p))
    return X, new, np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1 % p]


def simulated(
    n: int, p: int, law: Any, likelihood: Any, covariance: Any, seed: int, level: float = 0.0
) -> Problem:
    """A model of responses drawn from ``law`` at a curve, fitted with ``likelihood``."""
    rng = np.random.default_rng(seed)
    X, new, f = inputs(rng, n, p)
    return gp.GPModel(X, law.simulate(rng, f + level), covariance, likelihood), new


def labels(n: int, p: int, ard: bool, seed: int) -> Problem:
    return simulated(n, p, gp.Probit(), gp.Probit(), gp.SquaredExponential(ard=ard), seed)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "labels": lambda: labels(150, 2, False, 1),
    "labels, weak": lambda: labels(40, 5, True, 2),
    "labels, 10 columns": lambda: labels(150, 10, True, 3),
    "counts": lambda: simulated(150, 2, gp.Poisson(), gp.Poisson(), gp.Matern32(), 4, 1.0),
    "counts, overdispersed": lambda: simulated(
        150, 2, gp.NegativeBinomial(size=2.0), gp.NegativeBinomial(), gp.Matern32(), 5, 1.0
    ),
    "measurements": lambda: simulated(60, 2, gp.Gaussian(0.5), gp.Gaussian(), gp.Matern52(), 6),
    "measurements, 10 columns": lambda: simulated(
        150, 10, gp.Gaussian(0.5), gp.Gaussian(), gp.SquaredExponential(ard=True), 7
    ),
    "outliers": lambda: simulated(
        100, 2, gp.StudentT(scale=0.4, df=3.0), gp.StudentT(), gp.Matern52(), 8
    ),
    "durations": lambda: simulated(100, 2, gp.Gamma(shape=2.0), gp.Gamma(), gp.Matern52(), 9),
    "shares": lambda: simulated(100, 2, gp.Beta(precision=10.0), gp.Beta(), gp.Matern52(), 10),
}


def answers(fit: Any, new: np.ndarray, binary: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, standard deviations and widths (m,) of what is predicted at new inputs.

    Of labels these are probabilities, of others latents: the responses' own spread would hide differences.
    """
    found = gp.predict(fit, new, quantiles=LEVELS)
    of = "response" if binary else "latent"
    low, high = found[f"{of}_quantile"].values
    return found[f"{of}_mean"].values, found[f"{of}_sd"].values, high - low


def row(name: str) -> dict[str, Any]:
    """Both quick answers beside the reference."""
    model, new = PROBLEMS[name]()
    began = time.process_time()
    draws = gp.sample(model, n_chains=4, n_draws=1000, seed=1)
    evidence = gp.model_evidence(model, draws=draws, seed=1)
    seconds = time.process_time() - began
    by_chains = evidence["evidence"].to_dataset()
    exact, error = (
        float(by_chains[key].values.ravel()[0]) for key in ("log_evidence", "standard_error")
    )
    left_out = gp.leave_one_out(draws, n_draws=N_LEFT_OUT).attrs["elpd"]
    mean, sd, width = answers(draws, new, model.likelihood.binary)
    out: dict[str, Any] = {
        "problem": name, "n": model.n_cases, "d": model.dim, "log_evidence": exact, "error": error,
        "alarm": bool(str(by_chains["alarm"].values.ravel()[0])), "seconds_chains": seconds,
    }  # fmt: skip
    for how in ("maximum", "integrated"):
        began = time.process_time()
        fit = gp.approximate(model, integrated=how == "integrated")
        seconds = time.process_time() - began
        own_mean, _, own_width = answers(fit, new, model.likelihood.binary)
        ratio = own_width / width
        if how == "integrated":
            elpd = gp.leave_one_out(fit).attrs["elpd"]
            value = fit.log_evidence + fit.ep_error
            out |= {
                "effective": fit.effective_size,
                "pareto_k": fit.pareto_k,
                "ep_error": fit.ep_error,
            }
        else:
            elpd, value = at_theta(model, fit.theta).sum(), fit.log_evidence
        out |= {
            f"width_{how}": np.median(ratio),
            f"width_low_{how}": np.quantile(ratio, 0.1),
            f"width_high_{how}": np.quantile(ratio, 0.9),
            f"mean_{how}": np.sqrt(np.mean(np.square((own_mean - mean) / sd))),
            f"evidence_{how}": value - exact,
            f"left_out_{how}": elpd - left_out,
            f"seconds_{how}": seconds,
        }
    return out


def main() -> None:
    """Rows as they finish."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if not options.table:
        for name in options.problems:
            found = pd.DataFrame([row(name)])
            if ROWS.exists():
                kept = pd.read_csv(ROWS)
                found = pd.concat([kept[kept["problem"] != name], found])
            found.to_csv(ROWS, index=False, float_format="%.4g")
    table = pd.read_csv(ROWS).drop(columns=["log_evidence"])
    print(table.round(3).T.to_string(header=False))


if __name__ == "__main__":
    main()
