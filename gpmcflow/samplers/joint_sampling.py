"""Chains over hyperparameters and latents as an ArviZ DataTree, with what each draw cost."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from gpmcflow.errors import InputError
from gpmcflow.execution import pin_blas, run
from gpmcflow.models.gp_model import GPModel
from gpmcflow.samplers.hyperparameter_updates import HyperparameterUpdate, SliceUpdate
from gpmcflow.samplers.joint_program import JointProgram
from gpmcflow.samplers.joint_results import results_tree, run_attributes
from gpmcflow.samplers.joint_split_hmc import JointSplitHMC
from gpmcflow.samplers.joint_split_sampling import sample_split
from gpmcflow.samplers.representations import Representation, representation
from gpmcflow.samplers.univariate_slice import require_count
from gpmcflow.storage import with_attributes

log = logging.getLogger(__name__)
ALARM = 1e-3  # share of proposals whose covariance does not factorise


def sample_joint(
    model: GPModel,
    representation_: Representation | JointSplitHMC | str = "surr-site",
    update: HyperparameterUpdate | None = None,
    *,
    n_elliptical: int = 10,
    n_chains: int = 4,
    n_draws: int = 1000,
    n_warmup: int = 100,
    thin: int = 1,
    start_theta: np.ndarray | Mapping[str, float] | None = None,
    start_latents: np.ndarray | None = None,
    X_new: Any = None,
    unseen: str = "error",
    keep_latents: bool = True,
    seed: int = 0,
    key: tuple[str | int, ...] = (),
    block_size: int = 1,
    segment_length: int = 500,
    scheduler: Any = "synchronous",
    n_workers: int = 1,
    state_dir: Any = None,
    settings: Any = None,
    compute: bool = True,
    progress: str | None = None,
) -> xr.DataTree:
    """Draw from the posterior of hyperparameters and latents, p(theta, f | y).

    ``representation_`` is one of `REPRESENTATIONS` or its name, ``update`` a `SliceUpdate` unless given. An
    iteration is one sweep over theta, then ``n_elliptical`` elliptical slice updates of f; a draw is the
    last of ``thin`` iterations. With 0 elliptical updates only the surrogates are ergodic. The first
    ``n_warmup`` draws are dropped. ``start_theta`` is (d,), (pool, d), or values of parameters by name, in
    their own units; by default chains start in the hyperprior's central half, with f = 0. Given a
    `JointSplitHMC`, ``update`` and ``n_elliptical`` have no use: see `sample_split` for what differs.
    ``X_new`` are new inputs, an array or a table with the model's columns; ``unseen`` as in
    `covariances.inputs.new_inputs`. For the settings of execution see `gpmcflow.execution.run`.

    Returns groups ``posterior`` (theta, the coordinates: chain, draw, theta_dim; each free parameter by its
    name, in its own units: chain, draw; latent: chain, draw, latent_dim), ``sample_stats``
    (complete_log_likelihood T = log p(y | f, theta) + log N(f; 0, K), log_likelihood, lp = T + log
    hyperprior, acceptance_rate, and counters of the draw: n_hyp settings of theta asked for, n_cov of them
    with another covariance, n_lik likelihood evaluations, n_failed factorisations), ``observed_data``; with
    ``thin`` > 1 ``trace`` (every iteration), and with ``X_new`` (m, p) ``predictions``: latent_mean,
    latent_sd and response_mean for one unit of exposure or one trial, averaged over the posterior (a
    triangular solve for each draw: thin).

    Raises `InputError` for wrong sizes and names, and where a hyperprior gives the start no density,
    `NumericalError` where the covariance does not factorise at the start.
    """
    pin_blas()
    for name, value in (("n_draws", n_draws), ("thin", thin)):
        require_count("sample_joint", name, value)
    for name, value in (("n_warmup", n_warmup), ("n_elliptical", n_elliptical)):
        if value != 0:
            require_count("sample_joint", name, value)
    if not model.dim:
        raise InputError(
            "sample_joint: no parameter is free; sample model.at() for the latents alone"
        )
    starts = (
        _pool("start_theta", _by_name(model, start_theta), model.dim),
        _pool("start_latents", start_latents, model.n_cases),
    )
    if X_new is not None:
        X_new = model.new_inputs(X_new, unseen)
        model.likelihood_at(model.full(model.prior_median())).conditional_mean(
            np.zeros(1)
        )  # or refuses
    execution = {
        "n_chains": n_chains, "block_size": block_size, "seed": seed, "scheduler": scheduler,
        "n_workers": n_workers, "settings": settings, "progress": progress,
    }  # fmt: skip
    if isinstance(representation_, JointSplitHMC):
        if update is not None:
            raise InputError(
                f"sample_joint: update is {update!r} with JointSplitHMC; allowed: none, as it moves "
                "hyperparameters and latents at once; leave it out"
            )
        return sample_split(
            model, representation_, *starts, n_draws=n_draws, n_warmup=n_warmup, thin=thin, X_new=X_new,
            keep_latents=keep_latents, key=tuple(key), segment_length=segment_length,
            state_dir=state_dir, compute=compute, execution=execution,
        )  # fmt: skip
    chosen = (
        representation(representation_) if isinstance(representation_, str) else representation_
    )
    program = JointProgram(
        model, chosen, SliceUpdate() if update is None else update, n_elliptical, thin, *starts,
        X_new, keep_latents,
    )  # fmt: skip
    _try_start(program, n_chains)
    arrays = run(
        program,
        length=n_warmup + n_draws,
        segment_length=segment_length,
        key=(*key, "sample_joint"),
        state_dir=state_dir,
        compute=compute,
        **execution,
    )
    attributes = run_attributes(
        program, seed, key, representation=chosen.name, site_rule=repr(chosen.rule),
        update=repr(program.update), n_elliptical=n_elliptical,
    )  # fmt: skip
    tree = with_attributes(results_tree(arrays, n_warmup, program), attributes)
    if compute:
        _warn(tree["sample_stats"].to_dataset().compute(scheduler="synchronous"), chosen.name)
    return tree.load(scheduler="synchronous") if compute and state_dir is None else tree


def _by_name(model: GPModel, start: Any) -> Any:
    return model.theta_of(start) if isinstance(start, Mapping) else start


def _pool(name: str, values: Any, width: int) -> np.ndarray | None:
    if values is None:
        return None
    rows = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if rows.ndim != 2 or rows.shape[1] != width or not np.all(np.isfinite(rows)):
        raise InputError(
            f"sample_joint: {name} has shape {np.shape(values)}; allowed: finite numbers ({width},) or "
            f"(pool, {width})"
        )
    return rows


def _try_start(program: JointProgram, n_chains: int) -> None:
    """Raise here, not in a worker, what a start would."""
    model = program.model
    given = program.start_theta
    starts = [model.prior_median()] if given is None else given[:n_chains]
    latents = [np.zeros(model.n_cases)] if program.start_latents is None else program.start_latents
    for k, theta in enumerate(starts):
        program.workspace().start(theta, latents[k % len(latents)])


def _warn(stats: xr.Dataset, name: str) -> None:
    """Say so where chains never moved, and where many factorisations failed."""
    stuck = int((stats["lp"].std("draw") == 0.0).sum()) if stats.sizes["draw"] > 1 else 0
    if stuck:
        log.warning(
            "sample_joint: %d of %d chains never moved under %s; start elsewhere, or look at the prior's "
            "scale", stuck, stats.sizes["chain"], name,
        )  # fmt: skip
    failed, asked = float(stats["n_failed"].sum()), float(stats["n_hyp"].sum())
    if failed > ALARM * max(asked, 1.0):
        log.warning(
            "sample_joint: %d of %d proposals had a covariance that does not factorise (they were "
            "rejected); give the model a larger jitter", failed, asked,
        )  # fmt: skip
