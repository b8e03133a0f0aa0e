from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from gpmcflow.replications.figures.style import looks
from gpmcflow.replications.rmhmc_ais.figures import trajectories
from gpmcflow.storage import write_figure


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    path = np.cumsum(rng.normal(size=(2, 9, 2)), axis=1)
    path[:, 0] = [-1.0, 0.5]
    by_step = ("method", "chain", "step")
    return xr.Dataset(
        {
            "trajectory": (("method", "step", "coordinate"), path),
            "acceptance_rate": (by_step, rng.uniform(0.5, 1.0, (2, 40, 9))),
            "squared_jump": (by_step, rng.uniform(0.0, 5.0, (2, 40, 9))),
            "step_size": ("method", [0.55, 0.3]),
            "weight": ("component", [0.6, 0.4]),
            "mean": (("component", "coordinate"), [[0.0, 0.0], [2.0, 1.0]]),
            "covariance": (("component", "a", "b"), [np.eye(2), [[1.0, 0.5], [0.5, 2.0]]]),
        },
        {"method": ["hmc", "rmhmc"], "step": np.arange(9)},
    )


def panels(figure):
    below, *above = figure.axes
    return above, below


def test_both_trajectories_with_their_ends(data):
    above, _ = panels(trajectories(data))
    look = looks(["hmc", "rmhmc"])
    for axes, method in zip(above, ("hmc", "rmhmc"), strict=True):
        path = data["trajectory"].sel({"method": method}).values
        whole, first, last = axes.lines
        np.testing.assert_array_equal(np.column_stack(whole.get_data()), path)
        assert whole.get_marker() == look[method].marker
        np.testing.assert_array_equal(np.ravel(first.get_data()), path[0])
        np.testing.assert_array_equal(np.ravel(last.get_data()), path[-1])
        assert first.get_marker() != last.get_marker()
        assert len(axes.collections) == 1  # contours
        for limits, values in ((axes.get_xlim(), path[:, 0]), (axes.get_ylim(), path[:, 1])):
            assert limits[0] < values.min()
            assert values.max() < limits[1]
    assert above[0].get_xlim() == above[1].get_xlim()


def test_titles_give_means_and_errors_of_whole_trajectories(data):
    above, _ = panels(trajectories(data))
    for k, axes in enumerate(above):
        jumps = data["squared_jump"].values[k, :, -1]
        error = jumps.std(ddof=1) / np.sqrt(40)
        title = axes.get_title()
        assert f"8 steps of {(0.55, 0.3)[k]:g}" in title
        assert rf"squared jump {jumps.mean():.2f} $\pm$ {error:.2f}" in title
        assert f"acceptance {data['acceptance_rate'].values[k, :, -1].mean():.2f}" in title
    assert above[0].get_title().startswith("HMC")
    assert above[1].get_title().startswith("RMHMC")


def test_jumps_by_number_of_steps(data):
    _, below = panels(trajectories(data))
    for k, bar in enumerate(below.containers):
        x, y = bar.lines[0].get_data()
        np.testing.assert_array_equal(x, np.arange(9))
        np.testing.assert_allclose(y, data["squared_jump"].values[k].mean(0))
    assert below.get_xlabel() == "steps of the trajectory"
    assert below.get_ylabel() == "squared jump"


def test_the_legend_names_everything(data):
    (legend,) = trajectories(data).legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["HMC, mass $I$", "RMHMC", "start", "end", "1, 2, 4 and 7 nats below the top"]


def test_nothing_is_cut_off(data):
    figure = trajectories(data)
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert box.x0 >= 0.0
        assert box.y0 >= 0.0
        assert box.x1 <= width
        assert box.y1 <= height


def test_same_bytes_whatever_the_users_settings(data, tmp_path):
    for name, settings in (("a", {}), ("b", {"font.size": 20, "lines.linewidth": 5})):
        with plt.rc_context(settings):
            write_figure(trajectories(data), tmp_path / f"{name}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert plt.get_fignums() == []
