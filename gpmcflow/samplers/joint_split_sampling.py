"""Runs of `JointSplitHMC`: a pilot for each chain, then the chains."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError
from gpmcflow.execution import run
from gpmcflow.models.gp_model import GPModel
from gpmcflow.samplers.joint_results import results_tree, run_attributes
from gpmcflow.samplers.joint_split_hmc import JointSplitHMC
from gpmcflow.samplers.joint_split_pilot import PilotProgram
from gpmcflow.samplers.joint_split_program import JointSplitProgram
from gpmcflow.storage import with_attributes

log = logging.getLogger(__name__)
ALARM = 1e-3  # share of trajectories that end without a density
LARGEST_RHAT = 1.01
LOW_ACCEPTANCE = 0.4  # of a chain that stands in narrower places than its pilot saw
_SITES = {"precision": ("chain", "case"), "shift": ("chain", "case")}


def sample_split(
    model: GPModel,
    sampler: JointSplitHMC,
    start_theta: np.ndarray | None,
    start_latents: np.ndarray | None,
    *,
    n_draws: int,
    n_warmup: int,
    thin: int,
    X_new: np.ndarray | None,
    keep_latents: bool,
    key: tuple[str | int, ...],
    segment_length: int,
    state_dir: Any,
    compute: bool,
    execution: dict[str, Any],
) -> xr.DataTree:
    """Draw from p(theta, f | y) by `JointSplitHMC`, for `sample_joint`, whose settings these are.

    Each chain runs its own pilot, which has run even with ``compute=False``. With Gaussian noise only theta
    moves: latents are integrated out, and drawn exactly given each theta that is kept. Beside the groups of
    `sample_joint`, ``sample_stats`` has energy_error, diverging (trajectories that ended in a failed
    factorisation or without a finite energy, and were rejected), n_gradient; and
    ``pilot`` says what the pilots chose and cost: by round step_size, n_steps, acceptance_rate, n_gradient,
    n_diverging, and the frozen center, scale (of normal coordinates x = center + scale y) and sites
    (precision, shift) of each chain. Warns where R-hat of a hyperparameter or of the density is above 1.01,
    and where trajectories end without a density.

    Raises `InputError` for hyperpriors with no transform to a normal, `NumericalError` where the covariance
    does not factorise, or expectation propagation fails, at a start.
    """
    _ = model.parameters.normal  # refuse hyperpriors here, not in a worker
    if model.likelihood.conjugate:  # draws of the latents need a factor of their own covariance
        model.filled_factor(model.full(model.prior_median()))
    _require_density(model, start_theta)
    pilot = PilotProgram(model, sampler, start_theta, start_latents)
    rounds = run(
        pilot,
        length=len(sampler.rounds),
        segment_length=1,
        key=(*key, "sample_joint", "pilot"),
        state_dir=None if state_dir is None else Path(state_dir) / "pilot",
        **execution,
    )
    rounds = {
        name: np.asarray(values.compute(scheduler="synchronous")) for name, values in rounds.items()
    }
    last = {name: values[:, -1] for name, values in rounds.items()}
    program = JointSplitProgram(model, sampler, pilot, last, thin, X_new, keep_latents)
    arrays = run(
        program,
        length=n_warmup + n_draws,
        segment_length=segment_length,
        key=(*key, "sample_joint"),
        state_dir=state_dir,
        compute=compute,
        **execution,
    )
    attributes = run_attributes(program, execution["seed"], key, sampler=repr(sampler))
    tree = results_tree(arrays, n_warmup, program)
    tree["pilot"] = xr.DataTree(_pilot_group(model, rounds))
    tree = with_attributes(tree, attributes)
    if compute:
        _warn(tree)
    return tree.load(scheduler="synchronous") if compute and state_dir is None else tree


def _require_density(model: GPModel, start_theta: np.ndarray | None) -> None:
    for row in () if start_theta is None else start_theta:
        for name, prior, value in zip(model.names, model.parameters.free_priors, row, strict=True):
            if not np.isfinite(prior.to_normal(value)):
                raise InputError(
                    f"model: start of {name} is {value:g}, where its hyperprior {prior!r} has no density; "
                    f"start between {prior.support[0]:g} and {prior.support[1]:g}"
                )


def _pilot_group(model: GPModel, rounds: dict[str, np.ndarray]) -> xr.Dataset:
    by_round = ("step_size", "n_steps", "acceptance_rate", "n_gradient", "n_diverging")
    values: dict[str, Any] = {name: (("chain", "round"), rounds[name]) for name in by_round}
    values["center"] = (("chain", "theta_dim"), rounds["center"][:, -1])
    values["scale"] = (("chain", "theta_dim", "scale_dim"), rounds["scale"][:, -1])
    values |= {name: (dims, rounds[name][:, -1]) for name, dims in _SITES.items()}
    n_chains, n_rounds = rounds["step_size"].shape
    coords = {"chain": np.arange(n_chains), "round": np.arange(n_rounds)}
    coords |= {"theta_dim": np.array(model.names), "scale_dim": np.arange(model.dim)}
    return xr.Dataset(values, coords | {"case": np.arange(model.n_cases)})


def _warn(tree: xr.DataTree) -> None:
    """Say so where chains do not agree, and where trajectories ended without a density."""
    import arviz_stats  # here: it takes long to load

    stats = tree["sample_stats"].to_dataset().compute(scheduler="synchronous")
    theta = tree["posterior"]["theta"].compute(scheduler="synchronous")
    n_chains, n_draws = theta.shape[:2]
    if n_chains > 1 and n_draws >= 4:
        traces = {name: theta.sel(theta_dim=name, drop=True) for name in theta["theta_dim"].values}
        traces["lp"] = stats["lp"]
        found = arviz_stats.rhat(xr.Dataset(traces))
        worst = max(found.data_vars, key=lambda name: np.nan_to_num(float(found[name]), nan=np.inf))
        if not float(found[worst]) <= LARGEST_RHAT:
            log.warning(
                "sample_joint: R-hat of %s is %.3f over %d chains, above %g: they do not agree yet; take "
                "more draws, or longer pilots (rounds)", worst, float(found[worst]), n_chains, LARGEST_RHAT,
            )  # fmt: skip
    failed, spent = int(stats["diverging"].sum()), n_chains * n_draws
    if failed > ALARM * spent:
        log.warning(
            "sample_joint: %d trajectories in %d draws ended in a failed factorisation or without a finite "
            "energy (they were rejected); give the model a larger jitter, or narrower hyperpriors",
            failed, spent,
        )  # fmt: skip
    rates = stats["acceptance_rate"].mean("draw")
    if float(rates.min()) < LOW_ACCEPTANCE:
        log.warning(
            "sample_joint: chain %d accepts %.0f %% of its trajectories, far fewer than in its pilot; take "
            "longer pilots (rounds)", int(rates.values.argmin()), 100 * float(rates.min()),
        )  # fmt: skip
