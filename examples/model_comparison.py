"""Which covariance? Six of them on labels and six on counts, compared by the evidence of the whole model.

    python examples/model_comparison.py [--data tumours disasters] [--seeds 3] [--draws 500]

Hyperparameters and latents are integrated out, so that a covariance that could explain anything pays for it.
All models of a data set have the same hyperpriors for what they share: length scales, signals and slopes are
log-uniform from 0.1 to 10. Each seed is a run of its own, with pilots and draws of its own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
import pandas as pd

import gpmcflow as gp

WIDE = gp.Hyperprior.log_uniform(0.1, 10.0)
COLUMNS = ("mean radius", "mean texture", "mean smoothness", "mean concavity")
SHOWN = ("log_evidence", "standard_error", "fit", "complexity", "log_bayes_factor",
         "bayes_factor_error", "probability", "verdict")  # fmt: skip


def tumours(n: int = 120) -> dict[str, gp.GPModel]:
    """Malignant or benign, from four measurements of cells, standardised; ``n`` cases drawn from 569."""
    data = gp.load_dataset("breast-cancer")
    cases = np.random.default_rng(0).permutation(data.sizes["case"])[:n]
    rows = data.isel(case=cases)
    X = rows["X"].sel(feature=list(COLUMNS))
    covariances = {
        "straight lines": gp.Linear(WIDE),
        "smooth": gp.SquaredExponential(WIDE, WIDE),
        "smooth, a length scale a column": gp.SquaredExponential(WIDE, WIDE, ard=True),
        "rough": gp.Matern12(WIDE, WIDE),
        "many scales": gp.RationalQuadratic(WIDE, WIDE),
        "once differentiable": gp.Matern32(WIDE, WIDE),
    }
    base = gp.Hyperprior("norm", {"loc": 0.0, "scale": 2.0})
    return {
        name: gp.GPModel(X, rows["y"].values, covariance, gp.Logistic(), mean=base)
        for name, covariance in covariances.items()
    }


def disasters() -> dict[str, gp.GPModel]:
    """Coal-mining disasters a year, 1851 to 1962, time in units of the whole span."""
    data = gp.load_dataset("coal")
    y = data["y"].values.astype(float)
    trend, smooth = gp.Linear(WIDE), gp.SquaredExponential(WIDE, WIDE)
    covariances = {
        "one rate": gp.SquaredExponential(1.0, 1e-4),
        "trend": trend,
        "smooth": smooth,
        "once differentiable": gp.Matern32(WIDE, WIDE),
        "rough": gp.Matern12(WIDE, WIDE),
        "trend + smooth": trend + smooth,
    }
    base = gp.Hyperprior("uniform", {"loc": np.log(y.mean()) - 3.0, "scale": 6.0})
    return {
        name: gp.GPModel(data["X"], y, covariance, gp.Poisson(), mean=base)
        for name, covariance in covariances.items()
    }


def compare(models: dict[str, gp.GPModel], seed: int, draws: int) -> pd.DataFrame:
    """The table of `compare_models`, with the gradients and CPU seconds each model took."""
    runs, spent = {}, {}
    for name, model in models.items():
        began = time.process_time()
        runs[name] = gp.model_evidence(
            model, n_draws=draws, seed=seed, execution=gp.Execution(progress=False)
        )
        gradients = int(runs[name].evidence.n_gradient)
        spent[name] = gradients, time.process_time() - began, runs[name].evidence.attrs["route"]
    costs = pd.DataFrame.from_dict(spent, orient="index", columns=["gradients", "seconds", "route"])
    return gp.compare_models(runs).join(costs)


def told(table: pd.DataFrame) -> str:
    """What the table says, in words."""
    best, others = table.index[0], table.iloc[1:]
    sentences = [
        f"The data favour '{best}', at a probability of {table['probability'].iloc[0]:.2f} "
        f"({table['low'].iloc[0]:.2f} to {table['high'].iloc[0]:.2f}) if all six were equally likely before."
    ]
    for verdict, text in (
        ("not resolved", "Not told apart from it by runs of this length"),
        ("no preference", "Behind it by less than one nat, which is no reason to prefer either"),
        ("worse", "Worse"),
    ):
        rows = others[others["verdict"] == verdict]
        if len(rows):
            parts = (
                f"'{name}' (by {-factor:.2f} +- {error:.2f} nats)"
                for name, factor, error in zip(
                    rows.index, rows["log_bayes_factor"], rows["bayes_factor_error"], strict=True
                )
            )
            sentences.append(f"{text}: {', '.join(parts)}.")
    fitting = table["fit"].idxmax()
    if fitting != best:
        gain = table["fit"][fitting] - table["fit"][best]
        price = table["complexity"][fitting] - table["complexity"][best]
        sentences.append(
            f"'{fitting}' fits best, by {gain:.1f} nats over '{best}', and pays {price:.1f} nats more for "
            "what it learns from the data."
        )
    alarms = table.index[table["alarm"] != ""]
    if len(alarms):
        sentences.append(f"Alarms: {'; '.join(f'{name}: {table.alarm[name]}' for name in alarms)}.")
    return " ".join(sentences)


def stable(tables: Sequence[pd.DataFrame]) -> str:
    """Whether all seeds put the models in one order, and else which pairs change places."""
    first = list(tables[0].index)
    swapped = [
        f"'{a}' and '{b}' ({abs(tables[0].log_evidence[a] - tables[0].log_evidence[b]):.2f} nats apart)"
        for i, a in enumerate(first)
        for b in first[i + 1 :]
        if any(list(table.index).index(a) > list(table.index).index(b) for table in tables[1:])
    ]
    if not swapped:
        return f"the same order at {len(tables)} seeds"
    return f"the order of {len(tables)} seeds differs in {', '.join(swapped)}"


def main() -> None:
    """Run, print tables and words."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    makers = {"tumours": tumours, "disasters": disasters}
    parser.add_argument("--data", nargs="+", default=list(makers), choices=list(makers))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=500)
    settings = parser.parse_args()
    for name in settings.data:
        models, tables = makers[name](), []
        for seed in range(settings.seeds):
            table = compare(models, seed, settings.draws)
            tables.append(table)
            shown = table[[*SHOWN, "gradients", "seconds", "route"]]
            print(f"\n{name}, seed {seed}\n{shown.round(2).to_string()}\n{told(table)}", flush=True)
        if len(tables) > 1:
            print(f"\n{name}: {stable(tables)}", flush=True)


if __name__ == "__main__":
    main()
