"""What ArviZ's functions make of results: leave-one-out, and six plots."""

from __future__ import annotations

import warnings

import arviz_stats
import numpy as np
import pytest
import xarray as xr


def arviz_reads(tree: xr.DataTree, **which: object) -> None:
    """Fail unless leave-one-out, its levels and all plots that ask for these groups work.

    ``which`` names the parameters of plots, as ArviZ's ``var_names`` and ``coords``.
    """
    plots = pytest.importorskip("arviz_plots", exc_type=ImportError)
    plt = pytest.importorskip("matplotlib.pyplot")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few draws
        found = arviz_stats.loo(tree, pointwise=True)
        assert found.n_data_points == tree["observed_data/y"].size
        assert np.isfinite(found.elpd_i).all()
        levels = arviz_stats.loo_pit(tree)["y"].values
        assert ((levels >= 0.0) & (levels <= 1.0)).all()
        names = {
            "plot_rank": which,
            "plot_pair": which,
            "plot_prior_posterior": which,
            "plot_ppc_dist": {},
            "plot_loo_pit": {},
            "plot_energy": {},
        }
        if "energy" not in tree["sample_stats"]:
            del names["plot_energy"]  # of trajectories alone
        if tree["posterior"].sizes["chain"] == 1:
            del names["plot_rank"]  # which compares chains
        if any(name not in tree["prior"] for name in which["var_names"]):
            del names["plot_prior_posterior"]
        for name, settings in names.items():
            assert getattr(plots, name)(tree, backend="matplotlib", **settings), name
            plt.close("all")
