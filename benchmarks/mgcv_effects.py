"""Areas, slopes by group, a trend and curves by group beside R's mgcv: seconds, log scores, coverage.

    python benchmarks/mgcv_effects.py [--problems areas slopes trend curves] [--repeats 3] [--exact]

Each problem is simulated, so that the predictor at the rows held out is known. mgcv fits it
(`peers/mgcv_effects.R`), `gp.approximate` does, and with ``--exact`` `gp.sample` (4 chains of 250 draws),
each in a process of its own from the CSV files to predictions. Seconds are CPU seconds of the process,
medians of rounds in turn after one that is not counted; exact fits run once, and end after five minutes. The
log score is the mean log density of the outcomes held out, the predictor integrated out as a Gaussian of the
mean and the standard deviation that a package gives; coverage is the share of rows whose true predictor lies
within 1.96 of these. With ``--exact`` the rows go to `mgcv_effects.csv`. Without R or mgcv the script says so
in one line.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import gammaln, log_expit, logsumexp

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from first_answer import Work, has_mgcv, seconds  # noqa: E402 # beside this script

FILE = HERE / "mgcv_effects.csv"
LIMIT = 300  # seconds of an exact fit
SIDE = 20  # of the lattice of areas
COVARIANCES = {
    "areas": "areal(area) + linear(x, sd=1.0)",
    "slopes": "linear(x, sd=3.0) + group(g) + linear(x) * group(g, signal_sd=1.0)",
    "trend": "matern52(t)",
    "curves": "matern52(x) + matern52(x) * group(g, signal_sd=1.0)",
}


def areas(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Counts of 400 areas in five years, about a fifth of the areas without rows to learn from; pairs."""
    place = np.array([(x, y) for x in range(SIDE) for y in range(SIDE)])
    names = np.array([f"a{x:02d}{y:02d}" for x, y in place])
    effect = 0.5 * np.sin(place[:, 0] / 3.0) * np.cos(place[:, 1] / 4.0)
    effect += 0.15 * rng.standard_normal(len(place))
    at = np.repeat(np.arange(len(place)), 5)
    table = pd.DataFrame({"area": names[at], "x": rng.standard_normal(len(at))})
    table["expected"] = rng.uniform(2.0, 10.0, len(at))
    table["truth"] = effect[at] + 0.3 * table["x"]
    table["y"] = rng.poisson(table["expected"] * np.exp(table["truth"]))
    table["held_out"] = np.isin(at, rng.choice(len(place), 80, replace=False)) | (
        rng.random(len(at)) < 0.1
    )
    pairs = [
        (names[i], names[j])
        for i, (x, y) in enumerate(place)
        for j in (i + SIDE if x + 1 < SIDE else None, i + 1 if y + 1 < SIDE else None)
        if j is not None
    ]
    return table, pd.DataFrame(pairs, columns=["area", "neighbour"])


def slopes(rng: np.random.Generator) -> tuple[pd.DataFrame, None]:
    """5,000 measurements in 200 groups with levels and slopes, and as many held out."""
    g = np.tile(np.arange(200), 50)
    x, level, slope = (
        rng.standard_normal(len(g)),
        rng.standard_normal(200),
        0.5 * rng.standard_normal(200),
    )
    truth = 1.0 + (1.0 + slope[g]) * x + level[g]
    table = pd.DataFrame({"g": [f"g{k:03d}" for k in g], "x": x, "truth": truth})
    table["y"] = truth + rng.standard_normal(len(g))
    table["held_out"] = np.arange(len(g)) >= 5000
    return table, None


def trend(rng: np.random.Generator) -> tuple[pd.DataFrame, None]:
    """1,000 points of a trend with seasons, and 500 between them held out."""
    t = np.sort(rng.uniform(0.0, 10.0, 1500))
    truth = 0.3 * t + np.sin(2.0 * t) + 0.5 * np.sin(5.0 * t + 1.0)
    table = pd.DataFrame({"t": t, "truth": truth, "y": truth + 0.5 * rng.standard_normal(1500)})
    table["held_out"] = np.isin(np.arange(1500), rng.choice(1500, 500, replace=False))
    return table, None


def curves(rng: np.random.Generator) -> tuple[pd.DataFrame, None]:
    """20,000 labels with a curve of each of 20 groups beside a common one, and 5,000 held out."""
    n = 25_000
    g, x = rng.integers(20, size=n), rng.uniform(-2.0, 2.0, n)
    wave, size = rng.uniform(0.0, 2.0 * np.pi, 20), rng.uniform(0.3, 1.0, 20)
    truth = np.sin(1.5 * x) + size[g] * np.cos(2.0 * x + wave[g])
    table = pd.DataFrame({"g": [f"g{k:02d}" for k in g], "x": x, "truth": truth})
    table["y"] = (rng.random(n) < 1.0 / (1.0 + np.exp(-truth))).astype(int)
    table["held_out"] = np.arange(n) >= 20_000
    return table, None


PROBLEMS = {"areas": areas, "slopes": slopes, "trend": trend, "curves": curves}


def fitted(name: str, how: str) -> None:
    """Fit a problem whose files are in this folder, and write the predictor at the rows held out."""
    import gpmcflow as gp

    train, test = pd.read_csv(f"{name}_train.csv"), pd.read_csv(f"{name}_test.csv")
    X = train.drop(columns=["y", "expected"], errors="ignore")
    covariance = gp.parse_covariance(COVARIANCES[name]) if name != "areas" else None
    if covariance is None:
        covariance = gp.Areal(pd.read_csv("areas_pairs.csv"), columns="area") + gp.Linear(
            1.0, columns="x"
        )
    mean, y = gp.Hyperprior("norm", {"loc": 0.0, "scale": 2.0}), train["y"]
    likelihood = gp.Gaussian()
    if name == "areas":
        likelihood = gp.Poisson(exposure=train["expected"].to_numpy())
    if name == "curves":
        likelihood, y = gp.Logistic(), np.where(y == 1, 1.0, -1.0)
    structure = gp.BasisFunctions() if name in ("trend", "curves") else "auto"
    model = gp.GPModel(X, y, covariance, likelihood, mean, structure=structure)
    drawn = how == "exact"
    fit = gp.sample(model, n_chains=4, n_draws=250, seed=1) if drawn else gp.approximate(model)
    found = gp.predict(fit, test[X.columns])
    parameters = fit.posterior.mean(["chain", "draw"]) if drawn else fit.parameters
    noise = float(parameters.get("noise_sd", np.nan))
    sd = found["latent_sd"].to_numpy()
    pd.DataFrame({"mean": found["latent_mean"].to_numpy(), "sd": sd, "noise": noise}).to_csv(
        f"{name}_{how}.csv", index=False
    )


def judged(name: str, how: str, folder: Path) -> dict[str, float]:
    """Mean log density of the outcomes held out, its standard error, and coverage of the true predictor."""
    test, found = (
        pd.read_csv(folder / f"{name}_truth.csv"),
        pd.read_csv(folder / f"{name}_{how}.csv"),
    )
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    eta = found["mean"].to_numpy()[:, None] + found["sd"].to_numpy()[:, None] * nodes
    y = test["y"].to_numpy()[:, None]
    if name == "areas":
        rate = np.log(test["expected"].to_numpy())[:, None] + eta
        log_p = y * rate - np.exp(rate) - gammaln(y + 1.0)
    elif name == "curves":
        log_p = log_expit(np.where(y == 1, eta, -eta))
    else:
        noise = found["noise"].to_numpy()[:, None]
        log_p = -0.5 * ((y - eta) / noise) ** 2 - np.log(noise) - 0.5 * np.log(2.0 * np.pi)
    density = logsumexp(log_p, axis=1, b=weights / weights.sum())
    inside = np.abs(test["truth"] - found["mean"]) <= 1.96 * found["sd"]
    return {"density": density, "log_score": density.mean(), "coverage": inside.mean()}


def prepare(folder: Path, problems: list[str]) -> None:
    """Files of the problems: rows to learn from, rows to predict, and what is true of these."""
    for seed, name in enumerate(PROBLEMS):
        if name not in problems:
            continue
        table, pairs = PROBLEMS[name](np.random.default_rng(seed))
        held_out = table.pop("held_out")
        table[~held_out].drop(columns="truth").to_csv(folder / f"{name}_train.csv", index=False)
        table[held_out].drop(columns=["truth", "y"]).to_csv(
            folder / f"{name}_test.csv", index=False
        )
        table[held_out].to_csv(folder / f"{name}_truth.csv", index=False)
        if pairs is not None:
            pairs.to_csv(folder / f"{name}_pairs.csv", index=False)


def measured(problems: list[str], repeats: int, exact: bool) -> pd.DataFrame:
    """A row for each problem and fit: CPU seconds, log score with ours less mgcv's, coverage."""
    here, script = str(Path(__file__).resolve()), str(HERE / "peers" / "mgcv_effects.R")
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        prepare(folder, problems)
        for name in problems:
            jobs = {
                "mgcv": Work(["Rscript", script, name]),
                "approximate": Work([sys.executable, here, "--fit", name, "approximate"]),
            }
            cpu: dict[str, list[float]] = {how: [] for how in jobs}
            for repeat in range(repeats + 1):
                for how, work in jobs.items():
                    used, _ = seconds(work, folder, HERE.parent)
                    cpu[how] += [used] if repeat else []
            if exact:
                work = Work(["timeout", str(LIMIT), sys.executable, here, "--fit", name, "exact"])
                try:
                    cpu["exact"] = [seconds(work, folder, HERE.parent)[0]]
                except SystemExit:
                    print(f"{name}: exact did not end in {LIMIT} s", file=sys.stderr)
            peer = judged(name, "mgcv", folder)
            for how, used in cpu.items():
                own = judged(name, how, folder)
                apart = own["density"] - peer["density"]
                rows.append({
                    "problem": name, "fit": how, "cpu": np.median(used),
                    "over_mgcv": np.median(used) / np.median(cpu["mgcv"]), "log_score": own["log_score"],
                    "better": apart.mean(), "error": apart.std(ddof=1) / np.sqrt(len(apart)),
                    "coverage": own["coverage"],
                })  # fmt: skip
                print(pd.DataFrame(rows[-1:]).round(4).to_string(header=len(rows) == 1), flush=True)
    return pd.DataFrame(rows).round(4)


def main() -> None:
    """Measure and print; see above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=PROBLEMS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--exact", action="store_true", help="also posterior draws")
    parser.add_argument(
        "--fit", nargs=2, metavar=("PROBLEM", "HOW"), help="one fit, in this folder"
    )
    options = parser.parse_args()
    if options.fit:
        fitted(*options.fit)
        return
    if not has_mgcv():
        return
    found = measured(options.problems, options.repeats, options.exact)
    if options.exact:  # rows of other problems stay as they were measured
        if FILE.exists():
            kept = pd.read_csv(FILE)
            found = pd.concat([found, kept[~kept["problem"].isin(options.problems)]])
        order = found["problem"].map(list(PROBLEMS).index)
        found.iloc[np.argsort(order, kind="stable")].to_csv(FILE, index=False)


if __name__ == "__main__":
    main()
