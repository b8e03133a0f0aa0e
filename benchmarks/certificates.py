"""Certificates of models, of samplers with a mistake, and what they cost: `certificates*.csv`.

    python -m benchmarks.certificates models [--n 100] [--state FOLDER] [--models beta ..]
    python -m benchmarks.certificates mutants [--n 40] [--seeds 20] [--samplers "accepts always" ..]
    python -m benchmarks.certificates cost [--n 4] [--turns 2]

`models` certifies the default sampler, 2 chains of 300 draws, on models of labels, counts and positive
numbers, one of basis functions, one on a grid and one with free noise; and 2 chains of 200 draws on 20 rows
of each other family of responses, on 24 rows of each effect of groups, areas and times, and on 18 rows of
three classes and of noise that varies, which have two latent functions a case. Rows of models that are there
are not made again. Times are censored at 2, as `Survival` takes them with `event`; of grouped values the
whole number below is known.
`mutants` certifies the wrong samplers of `tests/certificate/models.py`, and the right one.
`cost` is the CPU time of `gpmcflow run --quick` and `certify --quick` on the four models that `gpmcflow new`
writes for 600 labels and three columns, less that of their imports, in turns: medians of n
data sets, and of 100 by the time of a fit. What a certificate takes beside its fits, such as its page, is
what the same command given again takes.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import gpmcflow as gp
from tests.certificate.models import MUTANTS, RIGHT, SIZES, counts

ROWS = Path(__file__).with_name("certificates.csv")
MUTANT_ROWS = Path(__file__).with_name("certificates_mutants.csv")
COST_ROWS = Path(__file__).with_name("certificates_cost.csv")
LENGTH = gp.Hyperprior("norm", {"loc": -1.0, "scale": 0.4})
SIGNAL = gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.5})
MEAN = gp.Hyperprior("norm", {"loc": 0.0, "scale": 1.0})
LIMIT = 2.0  # of times
SEVERAL = ("three classes", "noise that varies")  # models of several latent functions
NOISE = gp.Hyperprior("norm", {"loc": -1.0, "scale": 0.4})


class Censored(gp.Survival):
    """Times that are watched until `LIMIT`: those that reach it are censored there."""

    def ends(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of `Survival` whose ``event`` is 0 at the limit."""
        return np.log(y), np.where(y < LIMIT, np.log(y), np.inf)

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Times up to the limit."""
        return np.minimum(super().simulate(rng, eta), LIMIT)


class Grouped(gp.CensoredGaussian):
    """Measurements of which the whole number below is known."""

    def ends(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of `CensoredGaussian` with ``until`` one higher."""
        return y, y + 1.0

    def simulate(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """Whole numbers below."""
        return np.floor(super().simulate(rng, eta))


def families() -> dict[str, gp.Likelihood]:
    """Likelihoods by name, with their default hyperpriors."""
    poisson, size = gp.Poisson(), gp.NegativeBinomial()
    return {
        "Weibull times": Censored("weibull"),
        "log-logistic times": Censored("loglogistic"),
        "log-normal times": Censored("lognormal"),
        "grades, logit": gp.Ordinal(4),
        "grades, probit": gp.Ordinal(4, "probit"),
        "limits": gp.CensoredGaussian(below=-0.5, above=1.5),
        "grouped": Grouped(),
        "log-normal": gp.LogNormal(),
        "beta": gp.Beta(),
        "beta-binomial": gp.BetaBinomial(10),
        "zero-inflated Poisson": gp.ZeroInflated(poisson),
        "zero-inflated negative binomial": gp.ZeroInflated(size),
        "hurdle Poisson": gp.Hurdle(poisson),
        "hurdle negative binomial": gp.Hurdle(size),
        "negative binomial": size,
        "Student-t": gp.StudentT(),
    }


def effects() -> dict[str, gp.GPModel]:
    """Models of groups, areas with neighbours and walks, 24 rows each, by name."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({
        "x": rng.uniform(-1.0, 1.0, 24), "group": np.tile(list("abcd"), 6),
        "area": np.tile([f"a{k}" for k in range(8)], 3), "year": np.arange(24.0),
    })  # fmt: skip
    ring = [(f"a{k}", f"a{(k + 1) % 6}") for k in range(6)] + [("a6", "a7")]
    related = np.array(
        [[1.0, 0.5, 0.25, 0.0], [0.5, 1.0, 0.25, 0.0], [0.25, 0.25, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    )
    kinship = pd.DataFrame(related, list("abcd"), list("abcd"))
    line, group = gp.Linear(SIGNAL, columns="x"), gp.Group(SIGNAL, columns="group")
    curve = gp.Matern52(LENGTH, SIGNAL, columns="x")
    counts, noise, y = gp.Poisson(), gp.Gaussian(NOISE), np.ones(24)
    of = {
        "areas with neighbours": (gp.Areal(ring, signal_sd=SIGNAL, columns="area"), counts),
        "known correlation": (gp.Group(SIGNAL, kinship, columns="group"), counts),
        "slopes by group": (group + line * gp.Group(1.0, columns="group"), counts),
        "curves by group": (curve * gp.Group(1.0, columns="group"), counts),
        "random walk": (gp.Wiener(SIGNAL, start=-1.0, columns="year"), noise),
        "smoothing spline": (gp.IntegratedWiener(SIGNAL, start=-1.0, columns="year"), noise),
        "AR(1)": (gp.AR1(signal_sd=SIGNAL, columns="year"), noise),
    }
    basis = {"curves by group": gp.BasisFunctions()}
    return {
        name: gp.GPModel(frame, y, covariance, likelihood, MEAN, structure=basis.get(name, "auto"))
        for name, (covariance, likelihood) in of.items()
    }


def models() -> dict[str, gp.GPModel]:
    """Models by name; their outcomes do not count."""
    rng = np.random.default_rng(0)
    few, many = rng.uniform(-1.0, 1.0, 30), rng.uniform(-1.0, 1.0, 200)
    side = np.linspace(-1.0, 1.0, 6)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    se, ard = (
        gp.SquaredExponential(LENGTH, SIGNAL),
        gp.SquaredExponential(LENGTH, SIGNAL, ard=True),
    )
    signs = np.where(many > 0.0, 1.0, -1.0)
    of_families = {
        name: gp.GPModel(few[:20], np.full(20, 0.5 if name == "beta" else 1.0), se, likelihood)
        for name, likelihood in families().items()
    }
    return {
        "labels": gp.GPModel(few, np.where(few > 0.0, 1.0, -1.0), se, gp.Probit()),
        "counts": gp.GPModel(few, np.ones(30), se, gp.Poisson()),
        "positive": gp.GPModel(few, np.ones(30), se, gp.Gamma()),
        "free noise": gp.GPModel(few, few, se, gp.Gaussian(NOISE)),
        "basis": gp.GPModel(many, signs, se, gp.Logistic(), structure=gp.BasisFunctions()),
        "grid": gp.GPModel(grid, np.ones(36), ard, gp.Poisson(), structure="kronecker"),
        "three classes": gp.GPModel(few[:18], np.tile([1, 2, 3], 6), se, gp.Softmax(3)),
        "noise that varies": gp.GPModel(
            few[:18], few[:18], {"mean": se, "log_sd": se}, gp.HeteroscedasticGaussian()
        ),
        **of_families,
        **effects(),
    }


def certify_models(n: int, state: str | None, names: list[str] | None) -> None:
    """Append the rows of each model to `certificates.csv`."""
    every = models()
    for name, model in ((name, every[name]) for name in names or every):
        if ROWS.exists() and name in set(pd.read_csv(ROWS)["model"]):
            continue
        folder = None if state is None else Path(state, name.replace(" ", "_"))
        how = gp.Execution(state_dir=folder)
        n_draws = 200 if name in (*families(), *effects(), *SEVERAL) else 300
        certificate = gp.certify(model, n, n_chains=2, n_draws=n_draws, execution=how)
        print(f"{name}:\n{certificate}", flush=True)
        results, table = certificate.results, certificate.table()
        table.insert(0, "model", name)
        table["data_sets"], table["failed_fits"] = certificate.n_fitted, certificate.n_failed
        table["quick_error"] = np.abs(results["quick_error"]).median("data_set").values
        table["seconds"] = float(results["seconds"].median())
        rounded = table.round({"held_50": 3, "held_95": 3, "quick_error": 3, "seconds": 2})
        rounded.to_csv(ROWS, mode="a", header=not ROWS.exists(), index=False, float_format="%.4g")


def certify_mutants(n: int, seeds: int, names: list[str]) -> None:
    """Append to `certificates_mutants.csv` how many certificates of each sampler did not pass."""
    for name in names:
        began, failed = time.process_time(), 0
        sampler = {**MUTANTS, "right": RIGHT}[name]
        for seed in range(seeds):
            failed += not gp.certify(counts(), n, sampler, seed=seed, **SIZES).passed
            print(name, n, seed + 1, failed, flush=True)
        seconds = round((time.process_time() - began) / seeds, 1)
        row = {"sampler": name, "data_sets": n, "certificates": seeds, "failed": failed}
        frame = pd.DataFrame([row | {"cpu_seconds": seconds}])
        frame.to_csv(MUTANT_ROWS, mode="a", header=not MUTANT_ROWS.exists(), index=False)


def cost(n: int, turns: int) -> None:
    """Append a row to `certificates_cost.csv`."""
    rng = np.random.default_rng(1)
    x = {"age": rng.uniform(20.0, 80.0, 600), "dose": rng.gamma(2.0, 2.0, 600)}
    frame = pd.DataFrame(x | {"weight": rng.normal(75.0, 12.0, 600)}).round(2)
    eta = np.sin(frame["age"] / 10.0) + 0.3 * (frame["dose"] - 4.0)
    frame["cured"] = np.where(rng.random(600) < 1.0 / (1.0 + np.exp(-eta)), "yes", "no")
    command = str(Path(sys.executable).with_name("gpmcflow"))
    imports = "import dask.array, gpmcflow.analysis.steps, gpmcflow.pipeline.certify"
    of_fits = f"{imports}, arviz_stats"  # which a certificate without a fit does not load
    spent = []
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as place:
            frame.to_csv(Path(place, "cured.csv"), index=False)
            subprocess.run(
                [command, "new", "cured.csv", "--target", "cured"], cwd=place, check=True
            )
            quick = ("cured.yaml", "--quick", "--cores", "1")
            certify = (command, "certify", *quick, "-n", str(n))
            own, more = (
                cpu_seconds(place, sys.executable, "-c", text) for text in (imports, of_fits)
            )
            run = cpu_seconds(place, command, "run", *quick) - own
            whole = cpu_seconds(place, *certify)
            again = cpu_seconds(place, *certify)
        spent.append((run, whole - again - (more - own), again - own))
    run, fits, beside = np.median(spent, axis=0)
    of_100 = fits * 101.0 / (n + 1.0) + beside  # the file itself is fitted, too
    row = {"rows": 600, "quick_run": run, "data_sets": n, "certificate": fits + beside}
    row |= {"of_100": of_100, "quick_runs_of_100": of_100 / run}
    frame = pd.DataFrame([row]).round(1)
    print(spent, frame)
    frame.to_csv(COST_ROWS, mode="a", header=not COST_ROWS.exists(), index=False)


def cpu_seconds(place: str, *command: str) -> float:
    """CPU seconds of a command and its children."""

    def so_far() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = so_far()
    subprocess.run(command, cwd=place, check=True)
    return so_far() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["models", "mutants", "cost"])
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--turns", type=int, default=2, help="of a quick run and a certificate")
    parser.add_argument("--state")
    parser.add_argument("--models", nargs="+", choices=list(models()))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--samplers", nargs="+", default=[*MUTANTS, "right"])
    options = parser.parse_args()
    if options.part == "models":
        certify_models(options.n, options.state, options.models)
    elif options.part == "cost":
        cost(options.n, options.turns)
    else:
        certify_mutants(options.n, options.seeds, options.samplers)


if __name__ == "__main__":
    main()
