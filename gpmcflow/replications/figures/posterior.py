"""Whether posterior draws can be trusted, on one page."""

from __future__ import annotations

import warnings

import arviz_stats
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpmcflow.replications.figures.style import looks, new_figure, styled, unused

MAX_RHAT = 1.01
MIN_EFFECTIVE_SIZE = 400.0
_DRAWN_CHAINS = 8
_DRAWN_POINTS = 2000


@styled
def posterior_summary(tree: xr.DataTree, title: str) -> Figure:
    """Rank-normalised R-hat, effective sizes over all latents, and traces of the log likelihood.

    ``tree`` follows ArviZ's schema: ``posterior`` (chain, draw, ...) and ``sample_stats`` with
    sum_log_likelihood (chain, draw). Effective sizes are those of bulk and tail. Dashed lines: R-hat
    1.01 and effective size 400.

    Source: Vehtari, Gelman, Simpson, Carpenter & Burkner (2021), computed by arviz_stats.
    """
    posterior = tree["posterior"].to_dataset().load()
    trace = tree["sample_stats/sum_log_likelihood"].transpose("chain", "draw").load()
    figure = new_figure(4.9)
    grid = figure.add_gridspec(2, 2)
    _rhat_panel(figure.add_subplot(grid[0, 0]), posterior)
    _effective_size_panel(figure.add_subplot(grid[0, 1]), posterior)
    _trace_panel(figure.add_subplot(grid[1, :]), trace)
    figure.suptitle(title)
    return figure


def _values(statistic: xr.Dataset) -> np.ndarray:
    return np.concatenate([np.ravel(array.values) for array in statistic.data_vars.values()])


def _rhat_panel(axes: Axes, posterior: xr.Dataset) -> None:
    axes.set(xlabel="R-hat (rank-normalised)", ylabel="latents")
    if posterior.sizes["chain"] < 2:
        unused(axes, "R-hat needs two chains or more")
        return
    values = _values(arviz_stats.rhat(posterior))
    values = values[np.isfinite(values)]
    if not len(values):
        unused(axes, "R-hat could not be computed")
        return
    above = int((values > MAX_RHAT).sum())
    axes.hist(values, 30, color="#0072B2")
    axes.axvline(MAX_RHAT, color="black", linestyle=(0, (4, 2)), linewidth=1.2)
    axes.set_xlim(min(values.min(), 1.0) - 0.001, max(values.max(), MAX_RHAT) + 0.001)
    axes.locator_params(axis="x", nbins=5)
    axes.set_title(
        f"largest {values.max():.4f}; {above} of {len(values)} above {MAX_RHAT}", fontsize=9
    )


def _effective_size_panel(axes: Axes, posterior: xr.Dataset) -> None:
    axes.set(xlabel="effective size (draws)", ylabel="latents")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # latents that did not move
        bulk = _values(arviz_stats.ess(posterior, method="bulk"))
        tail = _values(arviz_stats.ess(posterior, method="tail"))
    bulk, tail = bulk[np.isfinite(bulk)], tail[np.isfinite(tail)]
    if not len(bulk) or not len(tail):
        unused(axes, "effective sizes could not be computed")
        return
    edges = np.linspace(0.0, max(bulk.max(), tail.max(), 1.2 * MIN_EFFECTIVE_SIZE), 31)
    axes.hist(bulk, edges, color="#56B4E9", label="bulk")
    axes.hist(tail, edges, histtype="step", color="black", linewidth=1.3, label="tail")
    axes.axvline(MIN_EFFECTIVE_SIZE, color="black", linestyle=(0, (4, 2)), linewidth=1.2)
    axes.locator_params(axis="x", nbins=5)
    total = posterior.sizes["chain"] * posterior.sizes["draw"]
    smallest = min(bulk.min(), tail.min())
    axes.set_title(f"smallest {smallest:.0f} of {total} draws", fontsize=9)
    axes.legend(loc="best")


def _trace_panel(axes: Axes, trace: xr.DataArray) -> None:
    """Chains one over the other; long ones are thinned, as a page has no more points."""
    n_chains, n_draws = trace.shape
    every = max(1, -(-n_draws // _DRAWN_POINTS))
    shown = min(n_chains, _DRAWN_CHAINS)
    for k, look in enumerate(looks(list(map(str, range(shown)))).values()):
        chain = trace.isel(chain=k, draw=slice(None, None, every))
        axes.plot(chain["draw"], chain, color=look.color, linewidth=0.7, alpha=0.8)
    number = f"{shown} chains" if shown == n_chains else f"{shown} of {n_chains} chains"
    thinned = "" if every == 1 else f", one draw in {every}"
    axes.set(xlabel="draw", ylabel="log likelihood (nats)", xmargin=0.01)
    axes.set_title(f"{number}{thinned}", fontsize=9)
