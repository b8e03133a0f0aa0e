"""One row a results file of the surrogate-slice study: estimates of each chain, counts and seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats

from gpmcflow.jobs.parts import make_part
from gpmcflow.replications.surrogate_slice.coda_effective_size import effective_size
from gpmcflow.replications.surrogate_slice.settings import STUDY
from gpmcflow.storage import open_results, read_sidecar

COUNTERS = ("n_hyp", "n_cov", "n_lik")


def replicate_part(path: str | Path) -> dict:
    """Problem, method, settings, origin and, of each chain, what `chain_estimates` gives."""
    tree = open_results(path)
    seconds = read_sidecar(path)["seconds"]
    series = traces(tree)
    stats = tree["sample_stats"].to_dataset()
    chains = [
        chain_estimates(series.isel(chain=k), stats.isel(chain=k), seconds) | {"latent_ess": size}
        for k, size in enumerate(latent_sizes(tree))
    ]
    for chain, share in zip(chains, seconds.get("pilot") or (), strict=False):
        chain["pilot_seconds"] = share
    values = {
        "n_cases": int(tree["observed_data"].sizes["case"]),
        "names": [str(name) for name in series["theta_dim"].values],
        "chains": chains,
    }
    part = make_part(STUDY, "replicate", path, tree.attrs, values)
    part["settings"] = {key: part["settings"][key] for key in ("problem", "method")}
    tree.close()
    return part


def latent_sizes(tree: xr.DataTree) -> list[float]:
    """Least effective size (R-CODA's) of the kept latent values of each chain; thinning bounds it."""
    latents = tree["posterior"]["latent"].values
    return [float(np.min(effective_size(chain.T))) for chain in latents]


def traces(tree: xr.DataTree) -> xr.Dataset:
    """Theta, T and the counters of every iteration kept: (chain, iteration).

    A gradient is one setting of theta, one covariance and one evaluation of the likelihood.
    """
    if "trace" in tree:
        every = tree["trace"].to_dataset()
    else:
        stats = tree["sample_stats"].to_dataset()
        every = stats.assign(theta=tree["posterior"].to_dataset()["theta"])
        every = every.rename({"draw": "iteration"})
    if "n_gradient" in every:
        every = every.assign(dict.fromkeys(COUNTERS, every["n_gradient"]))
    return every[["complete_log_likelihood", "theta", *COUNTERS]].load()


def chain_estimates(series: xr.Dataset, stats: xr.Dataset, seconds: dict) -> dict:
    """Effective sizes of T and theta (R-CODA's; of T also ArviZ's bulk), moments, sums of the counters.

    ``seconds`` are those of one iteration; the chain's are as many times these as it kept iterations.
    ``dense_seconds`` are those with a dense covariance: the chain's own, but for a Kronecker one. Of joint
    split HMC ``n_failed`` are trajectories.
    """
    T, theta = series["complete_log_likelihood"].values, series["theta"].values
    n = len(T)
    failed = "n_failed" if "n_failed" in stats else "diverging"
    return {
        "iterations": n,
        "ess": float(effective_size(T)),
        "ess_bulk": float(array_stats.ess(T[None], chain_axis=0, draw_axis=1, method="bulk")),
        **{name: int(series[name].values.sum()) for name in COUNTERS},
        "n_failed": int(stats[failed].values.sum()),
        "acceptance": float(stats["acceptance_rate"].values.mean()),
        "seconds": n * seconds["iteration"],
        "dense_seconds": n * (seconds["dense_iteration"] or seconds["iteration"]),
        "T_mean": float(T.mean()),
        "T_sd": float(T.std(ddof=1)),
        "theta_mean": theta.mean(0).tolist(),
        "theta_sd": theta.std(0, ddof=1).tolist(),
        "theta_ess": np.asarray(effective_size(theta.T)).tolist(),
    }


READERS = {f"{STUDY}/*/*/replicate_*.nc": replicate_part}
