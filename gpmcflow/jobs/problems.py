"""A problem of the config: a data set with a covariance, a likelihood and hyperparameters."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.hyperparameters import maximise_evidence
from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.data import load_csv, load_dataset
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import require_memory
from gpmcflow.jobs.resources import fit_numbers, run_numbers
from gpmcflow.jobs.stated_models import likelihood_of
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.multinomial import MultinomialLogit

# Keys of a data set in the config -> the entry of the catalogue that takes the options below them.
_OPTIONED = ("coal", "ionosphere", "redwood", "shahbaba-simulated", "simulated-cox")
WITH_OPTIONS = {name.replace("-", "_"): name for name in (*_OPTIONED, "synthetic-regression")}
WITH_OPTIONS["synthetic"] = "synthetic-gpc"


def prepare_data(
    name: str, settings: dict | None = None, data_dir: str | None = None
) -> xr.Dataset:
    """Return a data set of the catalogue, or the user's own one that ``settings`` describe.

    ``settings`` is None (a catalogue name), {"csv": path, "target": column, ...} (see
    `gpmcflow.data.load_csv`), or {key: options} with a key of `WITH_OPTIONS`.
    """
    if settings is None:
        return load_dataset(name, data_dir=data_dir)
    for key, source in WITH_OPTIONS.items():
        if key in settings:
            dataset = load_dataset(source, data_dir=data_dir, **settings[key])
            return dataset.assign_attrs(name=name)
    options = {key: value for key, value in settings.items() if key not in ("csv", "target")}
    dataset = load_csv(settings["csv"], settings["target"], **options)
    return dataset.assign_attrs(name=name)


def choose_hyperparameters(
    dataset: xr.Dataset, problem: dict
) -> tuple[float | np.ndarray, float, np.ndarray | None]:
    """(log length scale, log signal sd) of a problem, and the evidence grid if it was asked for.

    They are stated, or found at the maximum of the EP evidence (``select: maximum``) or at the best
    point of a grid (``select: grid``). Natural logs, in units of the features and of the latent.
    """
    wanted = problem["hyperparameters"]
    select = wanted.get("select", "stated")
    if select == "stated":
        return wanted["log_length_scale"], float(wanted["log_signal_sd"]), None
    if select == "maximum":
        ard = bool(wanted.get("ard", False))
        theta = maximise_evidence(_gp_model(dataset, problem, SquaredExponential(ard=ard))).theta
        return (theta[:-1] if ard else float(theta[0])), float(theta[-1]), None
    lengths, signals = wanted["log_length_scale"], wanted["log_signal_sd"]
    grid = evidence_grid(dataset, problem, lengths, signals)
    if not np.isfinite(grid).any():
        raise InputError("hyperparameters: EP converges nowhere on the grid; choose another range")
    i, j = np.unravel_index(np.nanargmax(grid), grid.shape)
    return float(lengths[i]), float(signals[j]), grid


def evidence_grid(
    dataset: xr.Dataset, problem: dict, lengths: Sequence[float], signals: Sequence[float]
) -> np.ndarray:
    """log Z_EP over a grid of log length scales and log signal sds; NaN where EP does not converge."""
    grid = np.full((len(lengths), len(signals)), np.nan)
    for i, length in enumerate(lengths):
        for j, signal in enumerate(signals):
            with contextlib.suppress(NumericalError):
                model = build_model(dataset, problem, length, signal)
                grid[i, j] = expectation_propagation(model).log_evidence
    return grid


def _gp_model(dataset: xr.Dataset, problem: dict, covariance: SquaredExponential) -> GPModel:
    # dense, so that the jitter of fixed hyperparameters is the least that is needed, on grids too
    X, y = dataset["X"], dataset["y"].values
    return GPModel(X, y, covariance, likelihood_of(problem), structure="dense")


def build_model(
    dataset: xr.Dataset, problem: dict, log_length_scale: Any, log_signal_sd: float
) -> LatentGaussianModel:
    """GP model of a problem with a squared-exponential covariance."""
    scale = np.exp(np.asarray(log_length_scale, dtype=np.float64))
    covariance = SquaredExponential(
        float(scale) if scale.ndim == 0 else tuple(scale), float(np.exp(log_signal_sd))
    )
    return _gp_model(dataset, problem, covariance).at()


def build_linear_model(
    dataset: xr.Dataset, problem: dict
) -> LatentGaussianModel | MultinomialLogit:
    """Generalised linear model of a problem: intercept and slopes ~ N(0, prior_sd^2)."""
    design = np.column_stack([np.ones(dataset.sizes["case"]), dataset["X"].values])
    y, prior_sd = dataset["y"].values, float(problem.get("prior_sd", 5.0))
    if problem["likelihood"] == "multinomial":
        return MultinomialLogit(design, y, prior_sd)
    return LatentGaussianModel.from_design(design, prior_sd, likelihood_of(problem), y)


def require_fit_memory(
    dataset: xr.Dataset, problem: dict, memory_limit_gb: float | None, what: str
) -> None:
    """Refuse, before work starts, a data set whose matrices would not fit."""
    numbers = fit_numbers(problem, dataset.sizes["case"], dataset.sizes["feature"])
    require_memory(8 * numbers, limit_bytes(memory_limit_gb), what)


def require_run_memory(
    dataset: xr.Dataset,
    problem: dict,
    method: dict,
    execution: dict,
    memory_limit_gb: float | None,
    what: str,
) -> None:
    """Refuse, before work starts, chains that would not fit."""
    sizes, processes = (
        (dataset.sizes["case"], dataset.sizes["feature"]),
        execution.get("workers", 1),
    )
    numbers = run_numbers(problem, execution, *sizes, method, int(processes))
    require_memory(8 * numbers, limit_bytes(memory_limit_gb), what)


def limit_bytes(memory_limit_gb: float | None) -> int | None:
    """Bytes of a limit in the config; None for the default."""
    return None if memory_limit_gb is None else int(memory_limit_gb * 1e9)


def model_of(dataset: xr.Dataset, approximation: xr.DataTree, problem: dict) -> LatentGaussianModel:
    """Rebuild the model from the hyperparameters that an approximation file holds."""
    chosen = approximation["hyperparameters"]
    return build_model(
        dataset, problem, chosen["log_length_scale"].values, float(chosen["log_signal_sd"])
    )


def reference_of(
    approximation: xr.DataTree, model: LatentGaussianModel, name: str
) -> GaussianSites:
    """Return the Gaussian at beta = 0: "prior", or the "ep" or "laplace" fit of the file."""
    if name == "prior":
        return GaussianSites.prior(model)
    fit = approximation["approximation"].to_dataset().sel({"method": name})
    return GaussianSites(model, fit["site_precision"].values, fit["site_shift"].values)
