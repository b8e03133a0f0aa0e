from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.colors import to_hex

from gpmcflow.diagnostics.autocorrelation import autocorrelation
from gpmcflow.replications.figures.style import looks
from gpmcflow.replications.split_hmc.figures import (
    autocorrelations,
    cost_comparison,
    data_and_line,
    data_split,
    normal_split,
    traces,
    trajectories,
)
from gpmcflow.storage import write_figure

MEAN, COVARIANCE = np.array([3.0, 1.0]), np.array([[1.0, 0.9], [0.9, 4.0]])
THETA = np.array([0.5, 1.0, -2.0])
METHODS = ["HMC", "normal", "data"]


@pytest.fixture
def cases():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2))
    y = (rng.random(100) < 1 / (1 + np.exp(-THETA[0] - x @ THETA[1:]))).astype(int)
    fast = np.zeros(100, bool)
    fast[np.argsort(np.abs(THETA[0] + x @ THETA[1:]))[:30]] = True
    return x, y, fast


@pytest.fixture
def curves():
    grid = np.linspace(-1.0, 3.0, 41)
    bend = np.log(np.cosh(grid - 1.0))
    return grid, 10 * bend, 5 * (grid - 1.0) ** 2, 10 * np.tanh(grid - 1.0), 10 * (grid - 1.0)


@pytest.fixture
def costs():
    rows = [
        {"problem": p, "method": m, "tau_g": t, "tau_g_mcse": t / 10}
        | {"tau_beta_g": 2 * t, "tau_beta_g_mcse": t / 5}
        | {"printed_tau_g": 1.1 * t, "printed_tau_beta_g": np.nan if m == "normal" else 3 * t}
        for p, scale in (("StatLog", 1.0), ("chess", 2.0))
        for m, t in zip(METHODS, scale * np.array([112.0, 84.0, 55.0]), strict=True)
    ]
    return pd.DataFrame(rows)


@pytest.fixture
def series():
    rng = np.random.default_rng(2)
    walks = rng.normal(size=(3, 6, 800))
    for t in range(1, 800):
        walks[..., t] += np.array([0.8, 0.6, 0.3])[:, None] * walks[..., t - 1]
    return dict(zip(METHODS, -130 + walks, strict=True))


def drawn(line):
    return np.column_stack(line.get_data())


def has(axes, points, marker=None):
    """Whether a line of the axes is drawn through exactly these points."""
    found = [drawn(line) for line in axes.lines if marker in (None, line.get_marker())]
    return any(d.shape == np.shape(points) and np.allclose(d, points) for d in found)


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def on_line(points, level=0.0):
    np.testing.assert_allclose(THETA[0] + points @ THETA[1:], level, atol=1e-9)


def test_trajectories_show_all_states_in_order():
    states = np.random.default_rng(1).normal(size=(2, 30, 2))
    figure = trajectories(*states, MEAN, COVARIANCE)
    for axes, path, name in zip(figure.axes, states, ("HMC", "random walk"), strict=True):
        assert has(axes, path)
        assert has(axes, path[:1], "*")
        assert axes.get_title().startswith(name)
        assert axes.get_title().endswith("30 states")
        assert axes.get_xlabel() == "$q_1$"
    assert figure.axes[0].get_ylabel() == "$q_2$"
    assert figure.axes[0].get_aspect() == 1.0


def test_the_contour_holds_95_percent_of_the_normal():
    states = np.zeros((2, 3, 2))
    for axes in trajectories(*states, MEAN, COVARIANCE).axes:
        contour = max((drawn(line) for line in axes.lines), key=len) - MEAN
        radius = np.einsum("ij,jk,ik->i", contour, np.linalg.inv(COVARIANCE), contour)
        np.testing.assert_allclose(radius, -2.0 * np.log(0.05), rtol=1e-10)
        assert np.ptp(contour[:, 1]) == pytest.approx(2 * np.sqrt(4.0 * 5.9915), rel=1e-3)


def test_cases_stand_by_class_and_the_line_where_both_are_equal(cases):
    x, y, _ = cases
    figure = data_and_line(x, y, THETA)
    (axes,) = figure.axes
    assert has(axes, x[y == 1], "o")
    assert has(axes, x[y == 0], "^")
    line = next(drawn(line) for line in axes.lines if line.get_marker() == "None")
    on_line(line)
    assert np.ptp(line, axis=0).max() > np.diff(axes.get_xlim())[0]  # crosses the whole panel
    low, high = axes.get_xlim()
    assert ((x > low) & (x < high)).all()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("$x_1$", "$x_2$")
    assert len(legend(figure)) == 3


@pytest.mark.parametrize("theta", np.array([[40.0, 0.5, 0.0], [0.3, 0.0, 2.0], [0.0, -1.0, 0.0]]))
def test_lines_along_an_axis_or_far_away(cases, theta):
    x, y, _ = cases
    axes = data_and_line(x, y, theta).axes[0]
    line = next(drawn(line) for line in axes.lines if line.get_marker() == "None")
    np.testing.assert_allclose(theta[0] + line @ theta[1:], 0.0, atol=1e-9)
    assert max(axes.get_xlim()) < 5.0  # the cases set the range, not the line


def test_features_far_from_each_other_still_fill_the_panel(cases):
    x, y, _ = cases
    moved = x + np.array([1000.0, 0.0])
    axes = data_and_line(moved, y, THETA - np.array([1000.0, 0.0, 0.0])).axes[0]
    for limits, values in ((axes.get_xlim(), moved[:, 0]), (axes.get_ylim(), moved[:, 1])):
        assert limits[0] < values.min()
        assert values.max() < limits[1]
        assert limits[1] - limits[0] < 1.2 * np.ptp(x, axis=0).max()
    line = next(drawn(line) for line in axes.lines if line.get_marker() == "None")
    on_line(line - np.array([1000.0, 0.0]))


def test_normal_split_shows_both_pairs_of_curves(curves):
    grid, *values = curves
    figure = normal_split(grid, *values, 1.0)
    left, right = figure.axes
    for axes, pair in ((left, values[:2]), (right, values[2:])):
        shown = [line for line in axes.lines if len(line.get_xdata()) == 41]
        for line, expected in zip(shown, pair, strict=True):
            np.testing.assert_array_equal(drawn(line), np.column_stack([grid, expected]))
        assert shown[0].get_linestyle() != shown[1].get_linestyle()
        assert 1.0 in {line.get_xdata()[0] for line in axes.lines}
        assert axes.get_xlabel() == r"$\beta_1$"
    assert left.get_ylabel() == "energy (nats)"
    assert "nats per unit" in right.get_ylabel()
    assert len(legend(figure)) == 3


def test_data_split_marks_and_shades_the_fast_cases(cases, curves):
    x, y, fast = cases
    grid, *_, slope, fast_slope = curves
    figure = data_split(x, y, THETA, fast, grid, slope, fast_slope, 1.0)
    left, right = figure.axes
    for label, marker in ((1, "o"), (0, "^")):
        assert has(left, x[(y == label) & fast], marker)
        assert has(left, x[(y == label) & ~fast], marker)
    hollow = [len(m.get_xdata()) for m in left.lines if to_hex(m.get_mfc()) == "#ffffff"]
    assert sum(hollow) == 70
    (strip,) = left.patches
    corners = strip.get_xy()[:4]
    reach = np.sort(np.abs(THETA[0] + x @ THETA[1:]))[29]
    on_line(corners[:2], -reach)
    on_line(corners[2:], reach)
    inside = strip.get_path().contains_points(x, radius=1e-9)
    assert (inside | (np.abs(THETA[0] + x @ THETA[1:]) >= reach - 1e-9)).all()
    assert inside.sum() >= 29
    assert has(right, np.column_stack([grid, slope]))
    assert has(right, np.column_stack([grid, fast_slope]))
    assert "fast: 30 of 100 cases, filled" in legend(figure)


def test_costs_of_ours_and_the_paper_stand_in_both_panels(costs):
    figure = cost_comparison(costs)
    look = looks(METHODS)
    for axes, cost in zip(figure.axes, ("tau_g", "tau_beta_g"), strict=True):
        assert axes.get_xscale() == "log"
        assert "gradients per effective draw" in axes.get_xlabel()
        for method, rows in costs.groupby("method"):
            marks = [m for m in axes.lines if m.get_marker() == look[method].marker]
            values = {
                hollow: sorted(
                    m.get_xdata()[0] for m in marks if (to_hex(m.get_mfc()) == "#ffffff") == hollow
                )
                for hollow in (False, True)
            }
            np.testing.assert_allclose(values[False], sorted(rows[cost]))
            np.testing.assert_allclose(values[True], sorted(rows[f"printed_{cost}"].dropna()))
    assert legend(figure) == [*METHODS, "ours, 95 % interval", "printed"]


def test_cost_intervals_and_places(costs):
    axes = cost_comparison(costs).axes[1]
    for (_, row), bar in zip(costs.iterrows(), axes.containers, strict=True):
        (segment,) = bar.lines[2][0].get_segments()
        half = 1.96 * row["tau_beta_g_mcse"]
        np.testing.assert_allclose(segment[:, 0], row["tau_beta_g"] + half * np.array([-1, 1]))
        low, high = axes.get_xlim()
        assert ((low < segment[:, 0]) & (segment[:, 0] < high)).all()
    heights = [bar.lines[0].get_ydata()[0] for bar in axes.containers]
    assert heights == sorted(heights)  # the order of the table
    np.testing.assert_array_equal(np.round(heights), [0, 0, 0, 1, 1, 1])
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # from the top down
    names = [tick.get_text() for tick in axes.figure.axes[0].get_yticklabels()]
    assert names == ["StatLog", "chess"]


def test_missing_costs_are_left_out(costs):
    costs.loc[1, ["tau_g", "tau_g_mcse"]] = np.nan
    costs.loc[2, "tau_g"] = np.inf
    costs.loc[3, "tau_g_mcse"] = 1e4
    costs.loc[4, "tau_g_mcse"] = 0.9999 / 1.96 * costs.loc[4, "tau_g"]
    left, right = cost_comparison(costs).axes
    assert (len(left.containers), len(right.containers)) == (4, 6)
    assert left.get_xlim()[0] > 10.0  # intervals down to zero do not stretch the axis
    nothing = costs.assign(**{c: np.nan for c in costs.columns[2:]})
    figure = cost_comparison(nothing)
    assert [axes.texts[0].get_text() for axes in figure.axes] == ["no cost was found"] * 2
    assert legend(figure)[:3] == [f"{method} (no finite time)" for method in METHODS]
    one = costs.assign(tau_g=costs["tau_g"].where(costs["method"] != METHODS[0], np.inf))
    assert legend(cost_comparison(one))[:3] == METHODS  # of the other panel


def test_autocorrelations_are_means_over_chains_with_bands(series):
    figure = autocorrelations(series, 25)
    (axes,) = figure.axes
    lines = [line for line in axes.lines if len(line.get_xdata()) == 26]
    bands = [b for b in axes.collections if isinstance(b, FillBetweenPolyCollection)]
    for line, band, chains in zip(lines, bands, series.values(), strict=True):
        rho = autocorrelation(chains, 25)
        np.testing.assert_allclose(drawn(line), np.column_stack([range(26), rho.mean(0)]))
        corners = band.get_paths()[0].vertices
        at = corners[corners[:, 0] == 9, 1]
        half = 2.0 * rho[:, 9].std(ddof=1) / np.sqrt(6)
        np.testing.assert_allclose(
            [at.min(), at.max()], rho[:, 9].mean() + half * np.array([-1, 1])
        )
    assert len({str(line.get_linestyle()) for line in lines}) >= 2
    assert len({line.get_marker() for line in lines}) == 3
    assert axes.get_xlabel() == "lag (draws)"
    assert axes.get_ylabel() == "autocorrelation:\nlog likelihood"
    assert legend(figure) == METHODS


def test_stuck_chains_and_single_chains(series):
    series["HMC"][2] = 1.0
    series["normal"] = series["normal"][:1]
    series["data"][:] = 0.1
    figure = autocorrelations(series, 5)
    assert legend(figure) == ["HMC (1 of 6 never moved)", "normal", "data (6 of 6 never moved)"]
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 6]
    moved = np.delete(series["HMC"], 2, axis=0)
    np.testing.assert_allclose(lines[0].get_ydata(), autocorrelation(moved, 5).mean(0))
    assert len(lines) == 2
    assert len(figure.axes[0].collections) == 1


def test_traces_show_the_first_500_draws(series):
    one = {name: chains[0] for name, chains in series.items()}
    one["data"] = one["data"][:120]
    figure = traces(one, "log likelihood (nats)")
    assert [axes.get_title(loc="left") for axes in figure.axes] == METHODS
    for axes, values in zip(figure.axes, one.values(), strict=True):
        (line,) = axes.lines
        np.testing.assert_array_equal(line.get_ydata(), values[:500])
        assert axes.get_ylim() == figure.axes[0].get_ylim()
        assert axes.get_xlim() == (0, 500)
    assert figure.axes[-1].get_xlabel() == "draw"
    assert figure.get_supylabel() == "log likelihood (nats)"
    assert len(traces({"HMC": one["HMC"]}, "x").axes) == 1


def test_same_bytes_whatever_the_users_settings(cases, curves, tmp_path):
    x, y, fast = cases
    grid, *_, slope, fast_slope = curves
    for name, settings in (("a", {}), ("b", {"font.size": 20, "lines.linewidth": 5})):
        with plt.rc_context(settings):
            figure = data_split(x, y, THETA, fast, grid, slope, fast_slope, 1.0)
            write_figure(figure, tmp_path / f"{name}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert plt.get_fignums() == []
