"""Small files of each kind of outcome, what is read from them, and whole analyses of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

import gpmcflow as gp
from gpmcflow.analysis import fitting, steps
from gpmcflow.analysis.data import data_of, data_tree
from gpmcflow.analysis.models import build_model
from gpmcflow.analysis.reading import prepare, tree_of, write_rows
from gpmcflow.analysis.report import write_report
from gpmcflow.analysis.study import averages, holds_out, kinds_of
from gpmcflow.approximations import integrated
from gpmcflow.data.own_table import prepare_table
from gpmcflow.pipeline.config import check_config
from gpmcflow.storage import load_results, write_results, write_text

SETTINGS = {
    "binary": {"target": "ill"},
    "counts": {"target": "count", "exposure": "hours", "coordinates": ["east", "north"]},
    "grades": {"target": "rating", "outcome": "grades"},
    "classes": {"target": "kind"},
    "share": {"target": "cover", "outcome": "share"},
    "binomial": {"target": "sick", "trials": "tested"},
    "positive": {"target": "price", "outcome": "positive"},
    "survival": {"target": "weeks", "outcome": "survival", "event": "died"},
    "real": {"target": "yield"},
    "many": {"target": "yield"},
}


def _made(kind: str, n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng([seed, n])
    x = np.round(rng.normal(50.0, 10.0, n), 1)
    z = (x - 50.0) / 10.0
    if kind == "counts":
        east, north = np.round(rng.uniform(0.0, 20.0, (2, n)), 2)
        hours = rng.choice([0.5, 1.0, 2.0, 4.0], n)
        count = rng.poisson(hours * np.exp(0.5 + np.sin(east / 4.0)))
        return pd.DataFrame({"east": east, "north": north, "hours": hours, "count": count})
    if kind == "binomial":
        tested = rng.integers(2, 20, n)
        sick = rng.binomial(tested, 1.0 / (1.0 + np.exp(-z)))
        return pd.DataFrame({"dose": x, "tested": tested, "sick": sick})
    if kind == "positive":
        town = rng.choice(["north", "south"], n)
        price = 300 * np.exp(0.5 * z + 0.6 * (town == "north") + 0.4 * rng.standard_normal(n))
        return pd.DataFrame({"area": x, "town": town, "price": np.round(price, 1)})
    if kind == "survival":  # twice as long a standard deviation of the dose; 40 % not seen to end
        arm = rng.choice(["new", "old"], n)
        time = (
            50 * np.exp(np.log(2.0) * z + 0.5 * (arm == "new")) * rng.standard_exponential(n) ** 0.5
        )
        followed = 80 * rng.standard_exponential(n)
        weeks, died = np.minimum(time, followed), np.where(time <= followed, "yes", "no")
        return pd.DataFrame(
            {"dose": x, "arm": arm, "weeks": np.ceil(10 * weeks) / 10, "died": died}
        )
    if kind == "grades":
        arm = rng.choice(["new", "old"], n)
        cut = np.searchsorted(
            [-1.2, 0.3, 1.6], 1.5 * z + 0.5 * (arm == "new") + rng.logistic(size=n)
        )
        rating = np.array(["poor", "fair", "good", "very good"])[cut]
        return pd.DataFrame({"dose": x, "arm": arm, "rating": rating})
    if kind == "classes":  # trees told apart by height and, less well, by the width of leaves
        tree = rng.choice(3, n, p=[0.25, 0.3, 0.45])
        height = 20.0 + 4.0 * (tree == 0) - 4.0 * (tree == 2) + 2.0 * rng.standard_normal(n)
        leaf = 5.0 + 1.0 * (tree == 1) + rng.standard_normal(n)
        names = np.array(["ash", "beech", "oak"])[tree]
        return pd.DataFrame({"kind": names, "height": height.round(2), "leaf": leaf.round(2)})
    if kind == "share":
        soil = rng.choice(["clay", "sand"], n)
        mean = 1.0 / (1.0 + np.exp(1.0 - 0.8 * z - 0.5 * (soil == "sand")))
        cover = np.round(rng.beta(25.0 * mean, 25.0 * (1.0 - mean)), 3)
        return pd.DataFrame({"dose": x, "soil": soil, "cover": np.clip(cover, 0.001, 0.999)})
    if kind == "real":
        return pd.DataFrame({"dose": x, "yield": np.round(100 + 8 * z + rng.normal(0, 3, n), 2)})
    ward = rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2])
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")
    table = pd.DataFrame(
        {
            "id": [f"P{k:03d}" for k in range(n)],
            "age": x,
            "ward": ward,
            "smoker": rng.choice(["no", "yes"], n, p=[0.7, 0.3]),
            "day": day.strftime("%Y-%m-%d"),
        }
    ).astype(object)
    if kind == "many":
        noise = rng.normal(0, 3, n)
        return table.assign(**{"yield": np.round(100 + 8 * z + 5 * (ward == "west") + noise, 2)})
    table.loc[rng.choice(n, n // 8, replace=False), "age"] = ""
    table["ill"] = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-4.0 * z)), "yes", "no")
    return table


@pytest.fixture(scope="session")
def table():
    """A function: the rows of a file by kind, one of `SETTINGS`, and number."""

    def make(kind: str, n: int = 40, seed: int = 3) -> pd.DataFrame:
        return _made(kind, n, seed)

    return make


@pytest.fixture(scope="session")
def data(tmp_path_factory, table):
    """A function: the data read from such a file, by settings beside those of its kind."""

    def make(kind: str, n: int = 40, rows: pd.DataFrame | None = None, **settings):
        folder = tmp_path_factory.mktemp(kind)
        frame = table(kind, n) if rows is None else rows
        frame.to_csv(folder / "file.csv", index=False)
        stated = {"csv": "file.csv", **SETTINGS[kind], **settings}
        return data_of(data_tree(prepare_table(stated, folder)))

    return make


@pytest.fixture(scope="session")
def model():
    """A function: the model of data by the text of its covariance, and what else is stated of it."""

    def make(data, covariance: str, priors=None, **stated):
        models = {"a": {"covariance": covariance, **stated}}
        settings = {"models": models, "likelihood": None, "priors": priors or {}}
        return build_model(settings, "a", data, "mine")

    return make


@pytest.fixture(scope="session")
def draw():
    """`fitting.draw` with short pilots."""

    def make(model, n_draws: int = 30, chains: int = 2):
        sampling = {"chains": chains, "draws": n_draws, "warmup": 5}
        with _short_pilots():
            return fitting.draw(model, sampling, seed=1, key=("x", "a"))

    return make


def _short_pilots():
    """The sampler of hyperparameters and latents with two short rounds."""
    patch, sample = pytest.MonkeyPatch(), fitting.sample

    def short(model, method, **run):
        if isinstance(method, gp.JointSplitHMC):
            method = gp.JointSplitHMC(rounds=(6, 6))
        return sample(model, method, **run)

    class _Patched:
        def __enter__(self):
            patch.setattr(fitting, "sample", short)

        def __exit__(self, *_):
            patch.undo()

    return _Patched()


@pytest.fixture(scope="session")
def analysis():
    """A function: run an analysis in a folder that holds its files, step by step as the workflow does.

    Returns the folder of results, the filled settings, and a function that writes the report again.
    """

    def run(folder, config: dict, name: str = "mine"):
        write_text(yaml.safe_dump(config), folder / f"{name}.yaml")
        filled = check_config(config, folder=folder, path=f"{name}.yaml")
        settings, seed = filled["analyses"][name], filled["seed"]
        results = folder / "results" / name
        results.mkdir(parents=True, exist_ok=True)
        prepared = prepare(name, settings, folder, seed, "data")
        write_rows(results, prepared)
        write_results(tree_of(name, settings, prepared, seed), results / "data.nc", sidecar={})

        def job_of(wildcards: dict, **files):
            return SimpleNamespace(
                input=SimpleNamespace(data=results / "data.nc", **files),
                wildcards=SimpleNamespace(analysis=name, **wildcards),
                settings={**settings, "scores_alone": holds_out(settings)},
                seed=seed,
                execution={"workers": 1, "scheduler": None},
                state_dir=lambda: None,
            )

        fits = [results / model / "fit.nc" for model in settings["models"]]
        for fit in fits:
            job = job_of({"model": fit.parent.name})
            write_results(steps.fit(job), fit, sidecar={"job_seconds": 1.0})
        for model in [] if settings["quick"] else settings["models"]:
            place = results / model
            job = job_of({"model": model}, draws=place / "posterior.nc", fits=fits)
            with _short_pilots():
                draws = steps.draw(job)
            write_results(draws, place / "posterior.nc", sidecar={"job_seconds": 2.0})
            summary = steps.summarise(job)
            write_results(summary, place / "summary.nc", sidecar={"job_seconds": 4.0})
            if averages(settings):
                evidence = steps.evidence(job)
                write_results(evidence, place / "evidence.nc", sidecar={"job_seconds": 8.0})
        if holds_out(settings):
            own = [
                results / model / f"{kind}.nc"
                for model in settings["models"]
                for kind in kinds_of(settings)
            ]
            job = job_of({}, results=own, draws=results / "final_posterior.nc")
            if not settings["quick"]:
                with _short_pilots():
                    draws = steps.final_draw(job)
                write_results(draws, job.input.draws, sidecar={"job_seconds": 16.0})
            write_results(steps.final(job), results / "final.nc", sidecar={"job_seconds": 32.0})
        write_text(yaml.safe_dump(settings, sort_keys=False), results / "config.yaml")

        def report():
            write_report(results, name, settings, seed=seed, config=f"{name}.yaml")

        report()
        return SimpleNamespace(
            folder=results,
            settings=settings,
            report=report,
            data=data_of(load_results(results / "data.nc")),
        )

    return run


@contextmanager
def _at_maximum() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integrated, "MOST_ROWS", 0)
        yield


@pytest.fixture(scope="session")
def at_maximum():
    """A block in which quick fits are at the maximum of the evidence, as those of large files are."""
    return _at_maximum
