"""Evidence and weights of modes by `model_evidence`, on models with one mode and several.

    python benchmarks/modes.py --references [--problems two-explanations ..]
    python benchmarks/modes.py [--problems two-explanations ..] [--seeds 5]
    python benchmarks/modes.py --table

Rows go to `modes.csv` as they finish, and those that are there are not made again. ``--references``
integrates log p(y), and the weight of a region such as short length scales, over a grid of normal coordinates
that knows nothing of modes: the whole prior, and then a finer grid around each point that is not 25 nats
below the maximum. Their error is the difference to a grid with one point less in each gap. With four
hyperparameters or more the reference is a mixture of 200,000 draws, which can share what a mixture misses;
with more than eight, of which a mixture misses a part, a long ladder of temperatures.
Of counts, labels and Student-t, p(y | theta) at each point is the mean weight of draws of the latents from
EP's Gaussian; the error is of these draws.

A run is `model_evidence` at its defaults, after one of another model that loads and compiles what is needed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp

import gpmcflow as gp
from gpmcflow.approximations.evidence_density import normal_density
from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.mixture import MOST_COORDINATES, fit_mixture, log_weights
from gpmcflow.diagnostics.autocorrelation import mean_and_error
from gpmcflow.diagnostics.importance_weights import standard_error
from gpmcflow.models.regression_density import NormalDensity
from gpmcflow.models.tempered import TemperedPath

ROWS = Path(__file__).with_name("modes.csv")
LONG_RUN, LONG_LADDER = 200_000, 4000
# of a grid, in prior sds; nats below the maximum of points that are left out
FAR, LOWEST, LATENT_LOWEST = 5.5, 25.0, 12.0
COARSE, MOST_POINTS = 36, 3e5  # nodes of a coordinate; points of the finer grid
MOST_ERRORS = 4.0
WORD = ("part", "problem", "d", "n", "seed")


class Problem(NamedTuple):
    """A model, and a region of one of its parameters, below a number."""

    build: Callable[[], gp.GPModel]
    parameter: str
    below: float


def normal(loc: float, scale: float = 1.0) -> gp.Hyperprior:
    """Of a log."""
    return gp.Hyperprior("norm", {"loc": loc, "scale": scale})


SCALES = gp.Hyperprior.log_uniform(0.02, 20.0)


def waves(n: int, fast: float, noise: float, seed: int = 2, kind: type = gp.Gaussian) -> gp.GPModel:
    """A slow wave and a fast one, which short length scales or noise explain."""
    rng = np.random.default_rng([77, seed])
    x = np.linspace(0.0, 5.0, n)
    y = np.sin(1.3 * x) + fast * np.sin(25.0 * x) + noise * rng.standard_normal(n)
    y = np.exp(y) if kind is gp.LogNormal else y
    return gp.GPModel(x, y, gp.SquaredExponential(SCALES, normal(0.0)), kind(normal(-1.0)))


def few(n: int) -> gp.GPModel:
    """A handful of points."""
    rng = np.random.default_rng([1, n])
    x = np.sort(rng.uniform(0.0, 5.0, n))
    y = np.sin(2.0 * x) + 0.4 * rng.standard_normal(n)
    return gp.GPModel(x, y, gp.SquaredExponential(SCALES, normal(0.0)), gp.Gaussian(normal(-1.0)))


def labels(fast: float) -> gp.GPModel:
    """Two terms that can change places."""
    rng = np.random.default_rng(5)
    x = np.linspace(0.0, 5.0, 30)
    y = np.sin(1.3 * x) + 0.7 * np.sin(fast * x) + 0.1 * rng.standard_normal(30)
    terms = [gp.SquaredExponential(SCALES, 0.8, name=name) for name in "ab"]
    return gp.GPModel(x, y, terms[0] + terms[1], gp.Gaussian(normal(-2.0)))


def columns(p: int, n: int, alike: float, noise: gp.Hyperprior | float) -> gp.GPModel:
    """Columns that are so far alike; the response follows the first, or its copy."""
    rng = np.random.default_rng([3, p, n])
    common = rng.standard_normal((n, 1))
    X = alike * common + np.sqrt(1.0 - alike**2) * rng.standard_normal((n, p))
    y = np.sin(1.5 * X[:, 0]) + 0.4 * rng.standard_normal(n)
    length = gp.Hyperprior.log_uniform(0.1, 100.0)
    signal = normal(0.0) if p > 2 else 1.0
    return gp.GPModel(X, y, gp.SquaredExponential(length, signal, ard=True), gp.Gaussian(noise))


def comb(n: int) -> gp.GPModel:
    """A period of which aliases are possible, and a noise level."""
    rng = np.random.default_rng([9, n])
    x = np.sort(rng.uniform(0.0, 10.0, n))
    y = np.sin(2.0 * np.pi * x / 0.83) + 0.6 * rng.standard_normal(n)
    period = gp.Hyperprior.log_uniform(0.4, 2.0)
    return gp.GPModel(
        x, y, gp.Periodic(1.5, period=period, signal_sd=1.0), gp.Gaussian(normal(-0.7, 0.5))
    )


def noise_alone() -> gp.GPModel:
    """No signal: the length scale has its prior."""
    y = np.random.default_rng(8).standard_normal(40)
    x = np.linspace(0.0, 5.0, 40)
    return gp.GPModel(x, y, gp.SquaredExponential(SCALES, normal(0.0)), gp.Gaussian(normal(0.0)))


def step() -> gp.GPModel:
    """A jump, which a short length scale or a large signal follows."""
    rng = np.random.default_rng(11)
    x = np.linspace(0.0, 5.0, 40)
    y = np.sign(x - 2.6) + 0.1 * rng.standard_normal(40)
    return gp.GPModel(x, y, gp.SquaredExponential(SCALES, normal(0.0)), gp.Gaussian(normal(-1.0)))


def outlier() -> gp.GPModel:
    """One point far off a line of points: noise, or a function that bends."""
    rng = np.random.default_rng(12)
    x = np.linspace(0.0, 5.0, 20)
    y = np.sin(1.3 * x) + 0.05 * rng.standard_normal(20)
    y[9] += 1.5
    return gp.GPModel(x, y, gp.SquaredExponential(SCALES, normal(0.0)), gp.Gaussian(normal(-2.0)))


def rough() -> gp.GPModel:
    """Matern 1/2, whose short length scales look like noise."""
    rng = np.random.default_rng(13)
    x = np.linspace(0.0, 5.0, 40)
    y = np.sin(1.3 * x) + 0.4 * rng.standard_normal(40)
    return gp.GPModel(x, y, gp.Matern12(SCALES, normal(0.0)), gp.Gaussian(normal(-1.0)))


def wide() -> gp.GPModel:
    """Hyperpriors over six decades."""
    rng = np.random.default_rng(14)
    x = np.linspace(0.0, 5.0, 25)
    y = np.sin(1.3 * x) + 0.2 * rng.standard_normal(25)
    anything = gp.Hyperprior.log_uniform(1e-3, 1e3)
    return gp.GPModel(x, y, gp.SquaredExponential(anything, anything), gp.Gaussian(anything))


def trend() -> gp.GPModel:
    """A line, or the start of a curve."""
    rng = np.random.default_rng(15)
    x = np.linspace(-1.0, 1.0, 25)
    y = 0.8 * x + 0.3 * rng.standard_normal(25)
    terms = gp.Linear(normal(-1.0)) + gp.SquaredExponential(SCALES, normal(-1.0))
    return gp.GPModel(x, y, terms, gp.Gaussian(normal(-1.0)))


def decay() -> gp.GPModel:
    """A season that changes: a period, its decay, its size, and noise."""
    rng = np.random.default_rng(16)
    x = np.linspace(0.0, 12.0, 60)
    y = np.sin(2.0 * np.pi * x / 1.7) * np.exp(-0.05 * x) + 0.3 * rng.standard_normal(60)
    period = gp.Hyperprior.log_uniform(0.8, 4.0)
    own = gp.Periodic(1.0, period=period, signal_sd=normal(0.0)) * gp.SquaredExponential(
        gp.Hyperprior.log_uniform(1.0, 100.0), 1.0
    )
    return gp.GPModel(x, y, own, gp.Gaussian(normal(-1.0)))


def three_labels() -> gp.GPModel:
    """Three terms that can change places: six modes."""
    rng = np.random.default_rng(17)
    x = np.linspace(0.0, 5.0, 40)
    y = np.sin(1.3 * x) + 0.7 * np.sin(6.0 * x) + 0.5 * np.sin(19.0 * x)
    y += 0.1 * rng.standard_normal(40)
    a, b, c = (gp.SquaredExponential(SCALES, 0.7, name=name) for name in "abc")
    return gp.GPModel(x, y, a + b + c, gp.Gaussian(0.1))


def comb_with_trend() -> gp.GPModel:
    """A period of which aliases are possible, on a line."""
    rng = np.random.default_rng(18)
    x = np.sort(rng.uniform(0.0, 10.0, 15))
    y = np.sin(2.0 * np.pi * x / 0.83) + 0.2 * x + 0.4 * rng.standard_normal(15)
    period = gp.Hyperprior.log_uniform(0.4, 2.0)
    terms = gp.Linear(normal(-1.5)) + gp.Periodic(1.5, period=period, signal_sd=1.0)
    return gp.GPModel(x, y, terms, gp.Gaussian(normal(-0.7, 0.5)))


def count_waves() -> gp.GPModel:
    """Counts that a short length scale or overdispersion explains."""
    rng = np.random.default_rng(21)
    x = np.linspace(0.0, 5.0, 30)
    y = rng.poisson(10.0 * np.exp(0.8 * np.sin(1.3 * x) + 0.7 * np.sin(25.0 * x)))
    counts = gp.NegativeBinomial(normal(1.0, 1.5))
    return gp.GPModel(x, y, gp.SquaredExponential(SCALES, 1.0), counts, mean=float(np.log(10.0)))


def count_comb() -> gp.GPModel:
    """Counts with a period of which aliases are possible."""
    rng = np.random.default_rng(22)
    x = np.sort(rng.uniform(0.0, 10.0, 12))
    y = rng.poisson(4.0 * np.exp(0.9 * np.sin(2.0 * np.pi * x / 0.83)))
    own = gp.Periodic(1.5, period=gp.Hyperprior.log_uniform(0.4, 2.0), signal_sd=normal(-0.3, 0.5))
    return gp.GPModel(x, y, own, gp.Poisson(), mean=float(np.log(4.0)))


def student_waves() -> gp.GPModel:
    """Few points with Student-t noise: a short length scale, or noise."""
    rng = np.random.default_rng(23)
    x = np.linspace(0.0, 5.0, 14)
    y = np.sin(1.3 * x) + 0.4 * np.sin(25.0 * x) + 0.1 * rng.standard_t(4, 14)
    return gp.GPModel(x, y, gp.SquaredExponential(SCALES, 1.0), gp.StudentT(normal(-1.0), 4.0))


def label_waves() -> gp.GPModel:
    """Labels that change fast, or by chance."""
    rng = np.random.default_rng(27)
    x = np.linspace(0.0, 5.0, 50)
    level = np.sin(1.3 * x) + 1.2 * np.sin(25.0 * x) + 0.5 * rng.standard_normal(50)
    y = np.where(level > 0.0, 1, -1)
    return gp.GPModel(x, y, gp.SquaredExponential(SCALES, normal(0.5)), gp.Probit())


PROBLEMS = {
    "two-explanations": Problem(lambda: waves(30, 0.7, 0.1), "length_scale", 0.25),
    "two-explanations-log": Problem(
        lambda: waves(30, 0.7, 0.1, kind=gp.LogNormal), "length_scale", 0.25
    ),
    "two-explanations-40": Problem(lambda: waves(40, 0.5, 0.2, 3), "length_scale", 0.25),
    "one-mode": Problem(lambda: waves(30, 0.0, 0.1), "length_scale", 1.2),
    "points-3": Problem(lambda: few(3), "length_scale", 1.0),
    "points-8": Problem(lambda: few(8), "length_scale", 1.0),
    "points-15": Problem(lambda: few(15), "length_scale", 0.5),
    "labels-6": Problem(lambda: labels(6.0), "a.length_scale", 0.5),
    "labels-12": Problem(lambda: labels(12.0), "a.length_scale", 0.5),
    "ard-2": Problem(lambda: columns(2, 25, 0.0, normal(-1.0)), "length_scale[x1]", 3.0),
    "ard-2-alike": Problem(lambda: columns(2, 25, 0.97, normal(-1.0)), "length_scale[x1]", 3.0),
    "ard-6": Problem(lambda: columns(6, 30, 0.6, normal(-1.0)), "length_scale[x1]", 3.0),
    "comb-9": Problem(lambda: comb(9), "period", 0.7),
    "comb-15": Problem(lambda: comb(15), "period", 0.7),
    "comb-25": Problem(lambda: comb(25), "period", 0.7),
    "comb-60": Problem(lambda: comb(60), "period", 1.2),
    "noise-alone": Problem(noise_alone, "length_scale", 0.25),
    "step": Problem(step, "length_scale", 0.7),
    "outlier": Problem(outlier, "length_scale", 0.5),
    "rough": Problem(rough, "length_scale", 1.0),
    "wide": Problem(wide, "length_scale", 1.5),
    "trend": Problem(trend, "squared_exponential.length_scale", 1.0),
    "decay": Problem(decay, "periodic.period", 1.5),
    "cases-200": Problem(lambda: waves(200, 0.0, 0.3), "length_scale", 1.3),
    "labels-three": Problem(three_labels, "a.length_scale", 0.5),
    "comb-trend": Problem(comb_with_trend, "periodic.period", 0.7),
    "counts-two": Problem(count_waves, "length_scale", 0.25),
    "counts-comb": Problem(count_comb, "period", 0.7),
    "student-two": Problem(student_waves, "length_scale", 0.25),
    "probit-two": Problem(label_waves, "length_scale", 0.25),
    "ard-16": Problem(lambda: columns(16, 40, 0.6, normal(-1.0)), "length_scale[x1]", 3.0),
    "ard-32": Problem(lambda: columns(32, 40, 0.6, normal(-1.0)), "length_scale[x1]", 3.0),
}
# of narrow teeth, and of models whose latents are not integrated out
NODES = {"comb-trend": (16, 800, 16), "comb": (2000, 30)}
LATENT_NODES = {"counts-comb": (1500, 12)}
LATENT_COARSE, LATENT_DRAWS = (60, 24), 200


def quadrature(problem: Problem, name: str) -> tuple[float, float, float]:
    """log p(y), its error, and the weight of the region."""
    model = problem.build()
    density = NormalDensity(model)
    nodes = NODES.get(name, NODES.get(name.split("-")[0], (COARSE,) * model.dim))
    axes = [np.linspace(-FAR, FAR, k) for k in nodes]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, model.dim)
    values = density.values(points)
    inside = points[values > values.max() - LOWEST]
    gaps, found = np.array([axis[1] - axis[0] for axis in axes]), []
    most = int(np.clip((MOST_POINTS / len(inside)) ** (1.0 / model.dim), 2, 6))
    for parts in (most - 1, most):
        offsets = (np.arange(parts) - 0.5 * (parts - 1)) / parts
        cells = np.stack(np.meshgrid(*(offsets * gap for gap in gaps), indexing="ij"), -1)
        fine = (inside[:, None] + cells.reshape(-1, model.dim)).reshape(-1, model.dim)
        values = density.values(fine) + np.log(gaps / parts).sum()
        found.append(float(logsumexp(values)))
    j = model.names.index(problem.parameter)
    end = model.parameters.free_priors[j].to_normal(np.log(problem.below))
    share = np.clip((end - fine[:, j]) / (gaps[j] / parts) + 0.5, 0.0, 1.0)  # of each cell
    return found[-1], abs(found[1] - found[0]), float(np.exp(values - found[-1]) @ share)


def latent_quadrature(problem: Problem, name: str) -> tuple[float, float, float]:
    """As `quadrature`, with p(y | theta) by importance sampling of the latents at each point of one grid."""
    model, rng = problem.build(), np.random.default_rng(12345)
    density = normal_density(model)
    axes = [np.linspace(-FAR, FAR, k) for k in LATENT_NODES.get(name, LATENT_COARSE)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, model.dim)
    by_ep = density.values(points)
    inside = points[by_ep > by_ep[np.isfinite(by_ep)].max() - LATENT_LOWEST]
    values, errors = np.empty((2, len(inside)))
    for k, x in enumerate(inside):
        fit = expectation_propagation(model.at(density.theta(x)))
        eta = fit.sites.predictor(rng.standard_normal((LATENT_DRAWS, fit.sites.model.dim)))
        likelihood = fit.sites.model.likelihood.log_density(eta, model.y)
        ratio = TemperedPath(fit.sites).log_ratio(eta, likelihood)
        values[k] = density.log_prior(x) + logsumexp(ratio) - np.log(LATENT_DRAWS)
        errors[k] = standard_error(ratio)
    values += sum(np.log(axis[1] - axis[0]) for axis in axes)
    value = float(logsumexp(values))
    shares = np.exp(values - value)
    j = model.names.index(problem.parameter)
    end = model.parameters.free_priors[j].to_normal(np.log(problem.below))
    inside_cell = np.clip((end - inside[:, j]) / (axes[j][1] - axes[j][0]) + 0.5, 0.0, 1.0)
    return value, float(np.sqrt(np.square(shares * errors).sum())), float(shares @ inside_cell)


def long_run(problem: Problem) -> tuple[float, float, float]:
    """As `quadrature`, by many draws of a mixture."""
    model, rng = problem.build(), np.random.default_rng(12345)
    density = NormalDensity(model)
    mixture = fit_mixture(density, rng)[1]
    for n in (5000, 20_000, LONG_RUN):
        x = mixture.draw(rng, n)
        weights = log_weights(density, mixture, x)
        if n < LONG_RUN:
            mixture = mixture.refitted(x, weights)
    value = float(logsumexp(weights) - np.log(LONG_RUN))
    shares = np.exp(weights - logsumexp(weights))
    error = float(np.sqrt(np.square(shares).sum()))
    return value, error, float(shares[_in_region(problem, model, density.theta(x))].sum())


def long_ladder(problem: Problem) -> tuple[float, float, float, float]:
    """As `quadrature`, and the error of the weight, by a ladder that is longer than that of a run."""
    model = problem.build()
    tree = gp.model_evidence(
        model, route="ladder", n_draws=LONG_LADDER, target_error=0.01, predictive=False, seed=12345
    )
    first = tree["evidence"].to_dataset().sel(estimator="bridge")
    by_chain = _in_region(problem, model, tree["posterior/theta"].values).mean(1)
    weight, weight_error = mean_and_error(by_chain)
    print("chains", by_chain.round(3))
    return float(first["log_evidence"]), float(first["standard_error"]), weight, weight_error


def _in_region(problem: Problem, model: gp.GPModel, theta: np.ndarray) -> np.ndarray:
    place = model.names.index(problem.parameter)
    return theta[..., place] < np.log(problem.below)


def reference(name: str) -> dict:
    """A reference, as a row."""
    problem = PROBLEMS[name]
    model = problem.build()
    began = time.process_time()
    weight_error = 0.0
    if not model.likelihood.conjugate:
        value, error, weight = latent_quadrature(problem, name)
    elif model.dim > MOST_COORDINATES:
        value, error, weight, weight_error = long_ladder(problem)
    else:
        value, error, weight = quadrature(problem, name) if model.dim <= 3 else long_run(problem)
    return {
        "part": "reference", "problem": name, "d": model.dim, "n": model.n_cases, "seed": -1,
        "log_evidence": f"{value:.4f}", "standard_error": f"{error:.4f}", "weight": f"{weight:.4f}",
        "weight_error": f"{weight_error:.4f}",
        "cpu_seconds": f"{time.process_time() - began:.1f}",
    }  # fmt: skip


def run(name: str, seed: int) -> dict:
    """A run, as a row."""
    problem = PROBLEMS[name]
    model = problem.build()
    began = time.process_time()
    tree = gp.model_evidence(model, seed=seed)
    seconds = time.process_time() - began
    first = tree["evidence"].to_dataset().isel(estimator=0)
    by_chain = _in_region(problem, model, tree["posterior/theta"].values).mean(1)
    weight, weight_error = mean_and_error(by_chain)
    return {
        "part": "run", "problem": name, "d": model.dim, "n": model.n_cases, "seed": seed,
        **{
            column: f"{float(first[column]):.4f}"
            for column in ("log_evidence", "standard_error", "interval_low", "interval_high")
        },
        "weight": f"{float(weight):.4f}", "weight_error": f"{float(weight_error):.4f}",
        **{
            column: f"{float(first.get(column, np.nan)):.{digits}f}"
            for column, digits in (("effective_size", 0), ("pareto_k", 2))
        },
        "draws": tree["posterior"].sizes["draw"],
        "modes": tree["modes"].sizes["mode"] if "modes" in tree.children else np.nan,
        "n_likelihood": int(first["n_likelihood"]), "n_gradient": int(first["n_gradient"]),
        "cpu_seconds": f"{seconds:.3f}", "route": tree["evidence"].attrs["route"],
        "alarm": str(first["alarm"].values),
    }  # fmt: skip


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """A row a problem: right and found, distances in errors, runs that are off without an alarm, seconds."""
    references = rows[rows["part"] == "reference"].set_index("problem")
    table = []
    for name, group in rows[rows["part"] == "run"].groupby("problem", sort=False):
        right = references.loc[name]
        joint = np.hypot(group["standard_error"], right["standard_error"])
        gap = group["log_evidence"] - right["log_evidence"]
        weight_error = np.sqrt(right["weight"] * (1.0 - right["weight"]) / group["effective_size"])
        weight_error = np.hypot(
            weight_error.fillna(group["weight_error"]), np.nan_to_num(right["weight_error"])
        )
        weight_error += 1e-4
        weight_gap = (group["weight"] - right["weight"]).abs()
        inside = (group["interval_low"] <= right["log_evidence"]) & (
            right["log_evidence"] <= group["interval_high"]
        )
        silent = group["alarm"].fillna("") == ""
        wrong = (gap.abs() > MOST_ERRORS * joint) | (weight_gap > MOST_ERRORS * weight_error)
        table.append({
            "problem": name, "d": int(right["d"]), "n": int(right["n"]),
            "right": right["log_evidence"], "mean": group["log_evidence"].mean().round(4),
            "error": group["standard_error"].mean().round(4),
            "farthest": (gap / joint).abs().max().round(2), "covered": f"{inside.sum()}/{len(group)}",
            "weight": right["weight"], "found": group["weight"].mean().round(4),
            "weight farthest": (weight_gap / weight_error).max().round(2),
            "missed": int((wrong & silent).sum()), "alarms": int((~silent).sum()),
            "CPU s": group["cpu_seconds"].median().round(2),
        })  # fmt: skip
    return pd.DataFrame(table)


def main() -> None:
    """Make what is missing, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--references", action="store_true")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print(summary(pd.read_csv(ROWS)).to_string(index=False))
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gp.model_evidence(few(5))
    for name in given.problems:
        for seed in [-1] if given.references else range(given.seeds):
            done = pd.read_csv(ROWS) if ROWS.exists() else pd.DataFrame(columns=list(WORD))
            if ((done["problem"] == name) & (done["seed"] == seed)).any():
                continue
            row = pd.DataFrame([reference(name) if given.references else run(name, seed)])
            pd.concat([done, row] if len(done) else [row]).to_csv(ROWS, index=False)
            print(row.to_string(index=False, header=False), flush=True)


if __name__ == "__main__":
    main()
