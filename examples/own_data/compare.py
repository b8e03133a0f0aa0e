"""Held-out scores of finished analyses beside scikit-learn's Gaussian processes on the same inputs.

python examples/own_data/compare.py FOLDER   # with results/patients, results/birds, results/machine in it
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpmcflow.analysis.data import Data, data_of
from gpmcflow.storage import load_results


def peer(data: Data) -> tuple[str, np.ndarray]:
    """Name of scikit-learn's optimised Gaussian process, and its log density of each held-out outcome."""
    learning, held_out, kind = data.learning, data.held_out, data.target.kind
    X, X_new = learning.X.to_numpy(), held_out.X.to_numpy()
    ard = ConstantKernel(1.0) * RBF(np.ones(X.shape[1]))
    if kind == "binary":
        model = GaussianProcessClassifier(ard, n_restarts_optimizer=0, random_state=0)
        probability = model.fit(X, learning.y).predict_proba(X_new)[:, 1]
        return "GaussianProcessClassifier", stats.bernoulli.logpmf(
            held_out.outcome.astype(int), probability
        )
    model = GaussianProcessRegressor(
        ard + WhiteKernel(0.1), normalize_y=True, n_restarts_optimizer=0, random_state=0
    )
    if kind == "counts":  # of log rates, with half a bird more; back to counts by 2000 draws
        model.fit(X, np.log((learning.outcome + 0.5) / learning.unit))
        mean, sd = model.predict(X_new, return_std=True)
        rng = np.random.default_rng(0)
        rates = np.exp(mean + sd * rng.standard_normal((2000, len(mean)))) * held_out.unit
        density = stats.poisson.pmf(held_out.outcome, rates).mean(0)
        return "GaussianProcessRegressor on log rates", np.log(density)
    mean, sd = model.fit(X, learning.outcome).predict(X_new, return_std=True)
    return "GaussianProcessRegressor", stats.norm.logpdf(held_out.outcome, mean, sd)


def rows(folder: Path) -> list[dict]:
    """Scores of all that is in the folder, a row each."""
    table = []
    for report in sorted(folder.glob("results/*/info.json")):
        path = report.parent / "data.nc"
        data, name = data_of(load_results(path)), path.parent.name
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            label, theirs = peer(data)
        seconds = time.perf_counter() - began
        models = pd.read_csv(path.parent / "models.csv")
        for row in models.to_dict("records"):
            ours = {"score": row["test_score"], "se": row["test_score_se"]}
            table.append(
                {"analysis": name, "model": row["name"], **ours, "seconds": row["seconds"]}
            )
        table.append(
            {
                "analysis": name, "model": f"scikit-learn {label}", "score": theirs.mean(),
                "se": stats.sem(theirs), "seconds": seconds,
            }
        )  # fmt: skip
        for model in models.loc[models["role"] == "model", "name"]:
            shown = path.parent / model / "summary.nc"
            own = load_results(shown)["held_out/log_density"].values
            apart = own - theirs
            table.append(
                {
                    "analysis": name, "model": f"{model} minus scikit-learn", "score": apart.mean(),
                    "se": stats.sem(apart),
                }
            )  # fmt: skip
        intervals = pd.read_csv(path.parent / "predictions_test.csv")
        inside = intervals["outcome"].between(intervals["q025"], intervals["q975"]).mean()
        if data.target.kind != "binary":
            table.append(
                {"analysis": name, "model": "share inside 95 % intervals", "score": inside}
            )
    return table


if __name__ == "__main__":
    print(pd.DataFrame(rows(Path(sys.argv[1]))).round(4).to_string(index=False))
