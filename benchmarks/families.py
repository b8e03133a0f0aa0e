"""Families of responses: errors of EP's and Laplace's evidence, and what value and gradient cost.

    python benchmarks/families.py [evidence] [cost]

`evidence`: log evidence of three cases of each family of `tests/likelihoods/families.py` by quadrature, and
how far off the approximations are, in nats. `cost`: nanoseconds a row of value and gradient of 20,000 rows,
and of the Poisson likelihood's beside it in the same process: medians of 60 pairs. What depends on the
outcome alone is made anew each time, and counts. Rows go to `families_evidence.csv` and `families_cost.csv`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import gpmcflow as gp
from gpmcflow.execution import pin_blas
from gpmcflow.likelihoods import Likelihood

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.likelihoods.families import FAMILIES, log_evidence, model

EVIDENCE = Path(__file__).with_name("families_evidence.csv")
COST = Path(__file__).with_name("families_cost.csv")
N, PAIRS = 20_000, 60


def evidence() -> None:
    """Write and print `families_evidence.csv`."""
    rows = []
    for name, family in FAMILIES.items():
        own = model(family)
        exact, finer = (
            log_evidence(lambda eta, f=family: f.log_p(eta, f.y).sum(-1), nodes)
            for nodes in (50, 70)
        )
        ep, laplace = (gp.approximate(own, how).log_evidence for how in ("ep", "laplace"))
        row = {
            "family": name,
            "log_evidence": f"{finer:.8f}",
            "quadrature": f"{abs(finer - exact):.1e}",
            "ep": f"{ep - finer:.1e}",
            "laplace": f"{laplace - finer:.1e}",
        }
        print(row, flush=True)
        rows.append(row)
    pd.DataFrame(rows).to_csv(EVIDENCE, index=False)


def cases() -> dict[str, tuple[Likelihood, np.ndarray]]:
    """A likelihood and `N` outcomes simulated from it, by name; the Poisson one first."""
    rng = np.random.default_rng(0)
    event = (rng.random(N) < 0.7).astype(float)
    known = {
        "Poisson": gp.Poisson(),
        "Weibull times": gp.Survival("weibull", 0.6, event=event),
        "log-logistic times": gp.Survival("loglogistic", 0.6, event=event),
        "log-normal times": gp.Survival("lognormal", 0.6, event=event),
        "grades, logit": gp.Ordinal(cutpoints=(-0.5, 0.4, 1.5)),
        "grades, probit": gp.Ordinal(link="probit", cutpoints=(-0.5, 0.4, 1.5)),
        "limits": gp.CensoredGaussian(0.6, below=-0.5, above=1.0),
        "log-normal": gp.LogNormal(0.6),
        "gamma": gp.Gamma(2.5),
        "beta": gp.Beta(6.0),
        "beta-binomial": gp.BetaBinomial(9, 6.0),
        "zero-inflated Poisson": gp.ZeroInflated(gp.Poisson(), 0.3),
        "zero-inflated negative binomial": gp.ZeroInflated(gp.NegativeBinomial(1.5), 0.3),
        "hurdle Poisson": gp.Hurdle(gp.Poisson(), 0.3),
        "hurdle negative binomial": gp.Hurdle(gp.NegativeBinomial(1.5), 0.3),
        "negative binomial": gp.NegativeBinomial(1.5),
    }
    return {name: (own, own.simulate(rng, latents())) for name, own in known.items()}


def latents() -> np.ndarray:
    """Latent values of the rows (N,)."""
    return 0.3 + 0.8 * np.random.default_rng(1).standard_normal(N)


def cost() -> None:
    """Write and print `families_cost.csv`."""
    made, eta = cases(), latents()[None]
    poisson = made.pop("Poisson")
    rows = []

    def seconds(own: tuple[Likelihood, np.ndarray]) -> float:
        began = time.perf_counter()
        own[0].log_density_and_gradient(eta, own[1])
        return time.perf_counter() - began

    for name, own in made.items():
        seconds(own), seconds(poisson)
        pairs = np.array([(seconds(own), seconds(poisson)) for _ in range(PAIRS)])
        nanoseconds = np.median(pairs, axis=0) / N * 1e9
        ratio = np.median(pairs[:, 0] / pairs[:, 1])
        row = {
            "family": name,
            "nanoseconds": round(nanoseconds[0], 1),
            "poisson": round(nanoseconds[1], 1),
            "ratio": round(ratio, 2),
        }
        print(row, flush=True)
        rows.append(row)
    pd.DataFrame(rows).to_csv(COST, index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=["evidence", "cost", []], default=[])
    parts = parser.parse_args().parts or ["evidence", "cost"]
    pin_blas()
    for part in parts:
        {"evidence": evidence, "cost": cost}[part]()


if __name__ == "__main__":
    main()
