"""The stages every study shares: data, approximations, posterior draws."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.approximations.conditional import State, conditional
from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.laplace import laplace
from gpmcflow.approximations.perturbative_correction import DEFAULT_ORDER, second_order_correction
from gpmcflow.execution import Execution, require_memory
from gpmcflow.jobs.job import Job
from gpmcflow.jobs.problems import (
    build_model,
    choose_hyperparameters,
    limit_bytes,
    model_of,
    prepare_data,
    reference_of,
    require_fit_memory,
)
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.samplers import make_sampler
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings
from gpmcflow.samplers.sampling import sample
from gpmcflow.storage import load_results, standard_attributes, with_attributes

__all__ = ["approximate", "execution_of", "posterior", "prepare_data", "result_attributes"]


def prepare_job(job: Job) -> xr.DataTree:
    """A data set by name, or the user's own."""
    settings = job.settings["dataset"]
    dataset = prepare_data(job.wildcards.dataset, settings, job.config["data_dir"])
    # Which file it was is told by `source` and its checksum; its path is the machine's.
    stated = {key: value for key, value in (settings or {}).items() if key != "csv"}
    standard = standard_attributes(
        settings=stated,
        seed=stated.get("synthetic", stated).get("seed", 0),
        data_checksum=dataset.attrs["checksum"],
    )
    return xr.DataTree(dataset.assign_attrs(standard | dataset.attrs))


def approximate_job(job: Job) -> tuple[xr.DataTree, dict]:
    """`approximate` of the data of a job."""
    limit = job.memory_limit_gb
    return approximate(job.dataset(), job.settings["problem"], seed=job.seed, memory_limit_gb=limit)


def posterior_job(job: Job) -> tuple[xr.DataTree, dict]:
    """`posterior` of the data and the EP fit of a job."""
    dataset, fitted = job.dataset(), load_results(job.input.approximation)
    return posterior(dataset, fitted, **job.settings, **job.names, **job.run_settings(dataset))


def approximate(
    dataset: xr.Dataset, problem: dict, *, seed: int, memory_limit_gb: float | None = None
) -> tuple[xr.DataTree, dict]:
    """Laplace and EP fits of a problem, the second-order correction and predictions.

    Groups: ``hyperparameters``; ``approximation`` (method laplace, ep: log_evidence, sites and
    predictor moments of each case; correction by order); ``predictions`` (method, test_case) for data
    with a test set. The sidecar has the seconds of each fit.
    """
    require_fit_memory(dataset, problem, memory_limit_gb, f"approximate {dataset.attrs['name']}")
    clock = _Clock()
    log_length, log_signal, grid = choose_hyperparameters(dataset, problem)
    clock("hyperparameters")
    model = build_model(dataset, problem, log_length, log_signal)
    clock("model")
    fits = {"laplace": laplace(model)}
    clock("laplace")
    fits["ep"] = expectation_propagation(model)
    clock("ep")
    correction = second_order_correction(fits["ep"])
    clock("correction")
    sites = [fit.sites for fit in fits.values()]
    by_case = ("method", "case")
    approximation = xr.Dataset(
        {
            "log_evidence": ("method", [fit.log_evidence for fit in fits.values()]),
            "iterations": ("method", [fit.iterations for fit in fits.values()]),
            "site_precision": (by_case, np.stack([q.precision for q in sites])),
            "site_shift": (by_case, np.stack([q.shift for q in sites])),
            "predictor_mean": (by_case, np.stack([q.predictor_mean for q in sites])),
            "predictor_variance": (by_case, np.stack([q.predictor_variance for q in sites])),
            "correction": ("order", correction),
            "skipped": ((), fits["ep"].skipped),
        },
        {"method": list(fits), "case": dataset["case"], "order": np.arange(3, DEFAULT_ORDER + 1)},
    )
    groups = {
        "hyperparameters": _hyperparameters(dataset, problem, log_length, log_signal, grid, model),
        "approximation": approximation,
    }
    if "X_test" in dataset and model.likelihood.binary:
        X_test = dataset["X_test"].values
        probability = np.stack([conditional(q, X_test).mean_response() for q in sites])
        groups["predictions"] = _predictions(dataset, probability, fits)
    attributes = result_attributes(dataset, seed, problem=problem)
    return with_attributes(xr.DataTree.from_dict(groups), attributes), {"seconds": clock.seconds}


def posterior(
    dataset: xr.Dataset,
    approximation: xr.DataTree,
    problem: dict,
    sampling: dict,
    *,
    problem_name: str,
    seed: int,
    execution: dict,
    state_dir: Any = None,
    memory_limit_gb: float | None = None,
) -> tuple[xr.DataTree, dict]:
    """Posterior draws in the coordinates of the EP fit, and predictions averaged over them."""
    n, draws = dataset.sizes["case"], sampling["chains"] * sampling["draws"]
    require_fit_memory(dataset, problem, memory_limit_gb, f"posterior of {problem_name}")
    if state_dir is None:
        require_memory(2 * 8 * n * draws, limit_bytes(memory_limit_gb), f"draws of {problem_name}")
    clock = _Clock()
    model = model_of(dataset, approximation, problem)
    tree = sample(
        reference_of(approximation, model, "ep"),
        make_sampler(sampling["sampler"]),
        n_chains=sampling["chains"],
        n_draws=sampling["draws"],
        n_warmup=sampling["warmup"],
        tuning=TuningSettings(**(sampling.get("tuning") or {})),
        seed=seed,
        key=(dataset.attrs["name"], problem_name, "posterior", sampling["sampler"]),
        execution=execution_of(
            execution,
            state_dir=state_dir,
            settings={"problem": problem, "sampling": sampling, "data": dataset.attrs["checksum"]},
            progress=f"{problem_name}: posterior",
        ),
    )
    clock("sample")
    attributes = result_attributes(dataset, seed, problem=problem, sampling=sampling)
    if "X_test" in dataset and model.likelihood.binary:
        latents = tree["posterior/latent"]
        thin = max(1, draws // 1000)  # enough draws to average a probability; bounds the memory
        thinned = latents.stack(sample=("chain", "draw")).transpose("sample", ...)[::thin]
        state = State(model, np.asarray(thinned.values))
        probability = conditional(state, dataset["X_test"].values).mean_response()
        tree["predictions"] = xr.DataTree(_predictions(dataset, probability))
        clock("predict")
    return with_attributes(tree, attributes), {"seconds": clock.seconds}


def execution_of(execution: Mapping, **run: Any) -> Execution:
    """Settings of a run from those of the config, and what is the job's own."""
    return Execution(
        workers=int(execution.get("workers", 1)),
        scheduler=execution.get("scheduler") or None,
        block_size=int(execution["block_size"]),
        segment_length=int(execution["segment_length"]),
        **run,
    )


def result_attributes(
    dataset: xr.Dataset, seed: int, run: tuple[str, str, str] | None = None, **settings: Any
) -> dict:
    """Attributes of a results file: library, settings, seed, data set and its checksum.

    ``run`` names the study, problem and method that it is a run of.
    """
    names = dict(zip(("study", "problem", "method"), run or (), strict=False))
    return standard_attributes(
        settings=settings,
        seed=seed,
        data_checksum=dataset.attrs["checksum"],
        dataset=dataset.attrs["name"],
        **names,
    )


def _predictions(
    dataset: xr.Dataset, probability: np.ndarray, methods: Mapping[str, Any] | None = None
) -> xr.Dataset:
    """Probability of each test case, by method if there are several."""
    dims = ("test_case",) if methods is None else ("method", "test_case")
    names = {} if methods is None else {"method": list(methods)}
    return xr.Dataset(
        {"probability": (dims, probability), "y_test": ("test_case", dataset["y_test"].values)},
        names | {"test_case": dataset["test_case"]},
    )


def _hyperparameters(
    dataset: xr.Dataset,
    problem: dict,
    log_length: float | np.ndarray,
    log_signal: float,
    grid: np.ndarray | None,
    model: LatentGaussianModel,
) -> xr.Dataset:
    length = np.asarray(log_length, dtype=np.float64)
    table = xr.Dataset(
        {
            "log_length_scale": ("feature" if length.ndim else (), length),
            "log_signal_sd": ((), float(log_signal)),
            "jitter": ((), model.jitter),
        },
        {"feature": dataset["feature"]} if length.ndim else {},
        {"select": problem["hyperparameters"].get("select", "stated")},
    )
    if grid is not None:
        wanted = problem["hyperparameters"]
        table["grid_log_evidence"] = (("grid_length", "grid_signal"), grid)
        table = table.assign_coords(
            grid_length=wanted["log_length_scale"], grid_signal=wanted["log_signal_sd"]
        )
    return table


class _Clock:
    """Seconds between calls, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def __call__(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now
