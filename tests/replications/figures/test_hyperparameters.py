from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm

from gpmcflow.replications.rmhmc_ais.figures import hyperparameter_map


def mesh(axes):
    return next(item for item in axes.collections if isinstance(item, QuadMesh))


def test_three_labelled_maps_with_marks(map_tree):
    figure = hyperparameter_map(map_tree)
    panels, bars = figure.axes[:3], figure.axes[3:]
    assert [bar.get_xlabel() for bar in bars] == [
        "EP log evidence (nats)",
        "correction of EP (nats)",
        "sd of u under EP (nats)",
    ]
    assert panels[0].get_ylabel() == "log signal sd"
    for axes in panels:
        assert axes.get_xlabel() == "log length scale"
        assert [text.get_text() for text in axes.texts] == ["A", "B"]
        places = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines]
        assert places[:2] == [(4.85, 5.0), (4.85, 2.55)]


def test_values_stand_at_their_hyperparameters(map_tree):
    panels = hyperparameter_map(map_tree).axes[:3]
    data = map_tree["map"].to_dataset()
    shown = np.ma.getdata(mesh(panels[2]).get_array())
    np.testing.assert_array_equal(shown, data["ratio_sd"].values.T)
    star = panels[0].lines[-1]
    best = data["log_evidence_ep"].stack(place=data["log_evidence_ep"].dims).idxmax("place").item()
    assert (star.get_xdata()[0], star.get_ydata()[0]) == pytest.approx(best)


def test_colours_tell_apart_what_matters(map_tree):
    panels = hyperparameter_map(map_tree).axes[:3]
    norm = mesh(panels[0]).norm
    assert norm.vmax - norm.vmin == pytest.approx(100.0)  # the map itself spans more
    assert isinstance(mesh(panels[1]).norm, LogNorm)
    assert mesh(panels[0]).cmap.name == "cividis"
    assert np.ma.getmaskarray(mesh(panels[1]).get_array()).sum() == 1


def test_a_grid_may_be_one_row(map_tree):
    data = map_tree["map"].to_dataset().isel(log_signal_sd=[3])
    figure = hyperparameter_map(xr.DataTree.from_dict({"map": data}))
    assert [text.get_text() for text in figure.axes[0].texts] == ["A", "B"]
