"""Plain importance sampling from the reference, with Pareto-smoothed weights and their diagnostic."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from gpmcflow.approximations.expectation_propagation import as_sites
from gpmcflow.diagnostics.importance_weights import (
    bootstrap_interval,
    effective_size,
    normalised_weights,
    smooth_weights,
    standard_error,
)
from gpmcflow.evidence import alarms
from gpmcflow.evidence.annealing import anneal
from gpmcflow.evidence.estimates import interval_columns
from gpmcflow.evidence.schedule import Schedule, linear
from gpmcflow.execution import chain_generators
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import IndependenceMetropolis
from gpmcflow.storage import with_attributes

ESTIMATORS = ("plain", "pareto_smoothed")


def importance_sampling(
    reference: GaussianSites | LatentGaussianModel, *, n_draws: int = 10_000, **run: Any
) -> xr.DataTree:
    """Z = E_q[w], w = exp(u(f)) = p(y, f) / q(f), from draws of the reference q.

    ``reference`` as in `log_evidence`; this is annealing in one step;
    ``run`` takes seed, key and execution.

    Returns groups ``importance`` (chain: log_weight, sum_log_likelihood; a chain is one draw) and, when
    computed, ``evidence`` (see `importance_evidence`).
    """
    path, sampler = (
        TemperedPath(as_sites(reference, "importance sampling")),
        IndependenceMetropolis(),
    )
    one_step = Schedule.constant(linear(1), sampler)
    tree = anneal(path, sampler, one_step, n_particles=n_draws, **run)
    draws = tree["annealing"].to_dataset().isel(temperature=0, drop=True)
    draws = draws.rename(log_weight_increment="log_weight")[["log_weight", "sum_log_likelihood"]]
    groups = {"importance": draws.drop_vars(["beta", "step_size", "n_steps"], errors="ignore")}
    groups["importance"].attrs = {}
    if "evidence" in tree.children:
        own = {name: run[name] for name in ("seed", "key") if name in run}
        groups["evidence"] = importance_evidence(groups["importance"], **own)
    return with_attributes(xr.DataTree.from_dict(groups), tree.attrs)


def importance_evidence(
    draws: xr.Dataset, *, seed: int = 0, key: tuple[str | int, ...] = ()
) -> xr.Dataset:
    """Evidence by ``estimator``: plain mean of the weights, and with their tail smoothed.

    ``pareto_k`` is the shape of the generalised Pareto distribution fitted to the largest weights:
    above 0.5 their variance is infinite, above 0.7 (or 1 - 1 / log10 S for few draws) no number of
    draws that can be had is enough, and an alarm says so, unless nine of ten draws are effective.
    Standard errors by the delta method, 95 % intervals from them and by the bootstrap, its random
    numbers keyed by ``seed`` and ``key``.

    Source: Vehtari, Simpson, Gelman, Yao & Gabry (2024), JMLR 25(72).
    """
    log_weights = np.asarray(draws["log_weight"].values, dtype=np.float64)
    n = len(log_weights)
    smoothed, pareto_k = smooth_weights(log_weights)
    both = np.stack([log_weights, smoothed])
    sizes = effective_size(both)
    values = logsumexp(both, axis=-1) - np.log(n)
    largest = float(normalised_weights(log_weights).max())
    errors = standard_error(both)
    rng = chain_generators(seed, *key, "bootstrap", chains=[0]).generator(0)
    resampled = np.array([bootstrap_interval(row, rng) for row in both])
    by_estimator = {
        "log_evidence": values,
        "standard_error": errors,
        **interval_columns(values, errors, n - 1),
        "bootstrap_low": resampled[:, 0],
        "bootstrap_high": resampled[:, 1],
        "effective_size": sizes,
    }
    scalars = {
        "pareto_k": pareto_k,
        "max_weight": largest,
        "n_particles": n,
        "n_gradient": 0.0,
        "n_likelihood": float(n),
        "n_factorisation": 0.0,
        "acceptance_rate": np.nan,
        "diverging": 0.0,
        "unsolved": 0.0,
        "alarm": alarms.join(
            alarms.not_finite_alarms(float(values[0])),
            alarms.weight_alarms(float(sizes[0]), largest),
            alarms.pareto_alarms(pareto_k, n, float(sizes[0])),
        ),
    }
    return xr.Dataset(
        {name: ("estimator", column) for name, column in by_estimator.items()}
        | {name: ((), value) for name, value in scalars.items()},
        {"estimator": list(ESTIMATORS)},
    )
