"""Figures of the surrogate-slice study: what is drawn is what was given."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.colors import to_rgb

from gpmcflow.replications.surrogate_slice.figures import (
    FILLS,
    figure_1,
    figure_2,
    figure_3,
    intensity,
)
from gpmcflow.storage import write_figure

HEIGHTS = {"fixed": 0.1, "prior-white": 0.5, "surr-site": 1.0, "post-site": 1.4, "surr-taylor": 1.8}
COLUMNS = ("per_n_lik", "per_n_cov", "per_second")


@pytest.fixture
def efficiency():
    rows = []
    for problem, unit, methods in (("a", 2e-4, 4), ("b", 30.0, 5)):
        for name in list(HEIGHTS)[:methods]:
            row = {"problem": problem, "method": name, "representation": name, "plain": True}
            for k, column in enumerate(COLUMNS, 1):
                row[column] = HEIGHTS[name] * unit * k
                row[f"{column}_mcse"] = 0.2 * row[column]
            rows.append(row)
    return pd.DataFrame(rows)


def cox(n_features: int, events: bool = True) -> xr.DataTree:
    rng = np.random.default_rng(0)
    sides = [(np.arange(m) + 0.5) / m for m in (6, 5, 2)[:n_features]]
    X = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, n_features)
    mean = np.exp(np.sin(5.0 * X).sum(1))
    observed = {"y": ("case", rng.poisson(mean))}
    if events:
        observed["events"] = (("event", "feature"), rng.random((17, n_features)))
    rates = {"mean": mean, "lower": 0.5 * mean, "upper": 1.5 * mean + X[:, 0]}
    return xr.DataTree.from_dict(
        {
            "intensity": xr.Dataset({name: ("case", v) for name, v in rates.items()}),
            "constant_data": xr.Dataset({"X": (("case", "feature"), X)}),
            "observed_data": xr.Dataset(observed),
        }
    )


@pytest.fixture
def illustration():
    x, grid = np.linspace(0.0, 1.0, 9), np.logspace(-2.0, 1.0, 12)
    lengths = [0.1, 0.5, 2.0]
    return xr.DataTree.from_dict(
        {
            "whitened": xr.Dataset(
                {
                    "latent": (("length", "x"), np.stack([np.sin(x / v) for v in lengths])),
                    "density": (("length", "other_length"), np.full((3, 12), 1.0 / 12.0)),
                },
                {"length": lengths, "x": x, "other_length": grid},
            ),
            "proposals": xr.Dataset(
                {
                    "y": ("x", x**2),
                    "current": ("x", x),
                    "proposed": (("method", "x"), np.stack([-x, x + 0.1])),
                    "noise_sd": 0.25,
                    "lengths": ("state", [0.3, 1.5]),
                },
                {"x": x, "method": ["prior-white", "surr-site"]},
            ),
        }
    )


def drawn_bars(axes) -> dict:
    """Centre and height of each bar of one panel."""
    return {round(bar.get_x() + 0.5 * bar.get_width(), 6): bar.get_height() for bar in axes.patches}


def test_bars_are_relative_to_surr_site(efficiency):
    figure = figure_3(efficiency)
    assert len(figure.axes) == 3
    for axes in figure.axes:
        heights = list(drawn_bars(axes).values())
        expected = [*list(HEIGHTS.values())[:4], *HEIGHTS.values()]
        np.testing.assert_allclose(heights, expected)
        assert axes.get_ylim() == (0.0, 4.0)
        centres = list(drawn_bars(axes))
        assert np.diff(sorted(centres)).min() > 0.1
    ticks = [[tick.get_text() for tick in axes.get_xticklabels()] for axes in figure.axes]
    assert ticks == [["a\n0.0002", "b\n30"], ["a\n0.0004", "b\n60"], ["a\n0.0006", "b\n90"]]
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "per likelihood evaluation", "per covariance construction", "per second",
    ]  # fmt: skip
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "fixed", "prior-white", "surr-site", "post-site", "surr-taylor",
    ]  # fmt: skip


def test_error_bars_are_one_standard_error(efficiency):
    axes = figure_3(efficiency).axes[0]
    bars = [c for c in axes.containers if type(c).__name__ == "ErrorbarContainer"]
    ends = [c.lines[2][0].get_segments()[0][:, 1] for c in bars]
    np.testing.assert_allclose(ends[3], [1.4 * 0.8, 1.4 * 1.2])


def test_the_axis_grows_where_bars_do(efficiency):
    efficiency.loc[efficiency["method"] == "post-site", "per_n_lik"] *= 5.0
    first, second, _ = figure_3(efficiency).axes
    assert first.get_ylim()[1] > 7.0 * 1.0
    assert second.get_ylim()[1] == 4.0


def test_bars_that_are_too_high_are_cut_and_say_so(efficiency):
    efficiency.loc[efficiency["method"] == "post-site", "per_n_lik"] *= 25.0
    first, second, _ = figure_3(efficiency).axes
    assert first.get_ylim() == (0.0, 8.0)
    assert sorted(drawn_bars(first).values())[-2:] == [8.0, 8.0]
    assert [text.get_text() for text in first.texts] == ["35.0 ± 0.3"] * 2
    assert not second.texts


@pytest.mark.parametrize(("error", "text"), [(0.5, "7.7 ± 0.5"), (0.2, None), (np.nan, None)])
def test_a_bar_is_cut_where_its_error_reaches_too_high(efficiency, error, text):
    rows = efficiency["method"] == "post-site"
    base = efficiency.loc[rows, "per_n_lik"] / 1.4
    efficiency.loc[rows, "per_n_lik"] = 7.7 * base
    efficiency.loc[rows, "per_n_lik_mcse"] = error * base
    axes = figure_3(efficiency).axes[0]
    assert [found.get_text() for found in axes.texts] == ([text] * 2 if text else [])


def test_a_cut_bar_without_an_error_has_two_digits(efficiency):
    efficiency.loc[efficiency["method"] == "post-site", "per_n_lik"] *= 110.0
    efficiency["per_n_lik_mcse"] = np.nan
    axes = figure_3(efficiency).axes[0]
    assert [found.get_text() for found in axes.texts] == ["150"] * 2


def test_variants_are_left_out_and_plain_methods_named_by_representation(efficiency):
    efficiency.loc[efficiency["method"] == "surr-taylor", ["method", "plain"]] = ["wide", False]
    efficiency.loc[efficiency["method"] == "post-site", "method"] = "my-method"
    (legend,) = figure_3(efficiency).legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["fixed", "prior-white", "surr-site", "post-site"]


def test_what_cannot_be_shown_is_told(efficiency):
    alone = efficiency[efficiency["method"] == "fixed"]
    assert "no problem was run with surr-site" in figure_3(alone).axes[0].texts[0].get_text()
    still = efficiency.assign(per_n_cov=0.0, per_second_mcse=np.nan)
    _, second, third = figure_3(still).axes
    assert not second.patches
    assert len(third.patches) == 9


def test_fills_differ_in_lightness_or_hatch():
    def grey(fill):
        return float(np.dot(to_rgb(fill[0]), [0.299, 0.587, 0.114]))

    fills = list(FILLS.values())
    for i, a in enumerate(fills):
        for b in fills[:i]:
            assert a[1] != b[1] or abs(grey(a) - grey(b)) > 0.2


def test_intensity_along_a_line():
    tree = cox(1)
    (axes,) = intensity(tree).axes
    mean, counts = axes.lines
    np.testing.assert_allclose(mean.get_ydata(), tree["intensity/mean"].values)
    np.testing.assert_array_equal(counts.get_ydata(), tree["observed_data/y"].values)
    band, rug = axes.collections
    edges = band.get_paths()[0].vertices[:, 1]
    assert edges.min() == pytest.approx(tree["intensity/lower"].values.min())
    assert edges.max() == pytest.approx(tree["intensity/upper"].values.max())
    at = [segment[0, 0] for segment in rug.get_segments()]
    np.testing.assert_allclose(at, tree["observed_data/events"].values[:, 0])
    assert len(intensity(cox(1, events=False)).axes[0].collections) == 1


def test_intensity_in_a_plane():
    tree = cox(2)
    left, right, *bars = intensity(tree).axes
    assert len(bars) == 2
    cells, dots = left.collections
    shown = cells.get_array().reshape(5, 6)  # x_2 by x_1
    mean = tree["intensity/mean"].values.reshape(6, 5)
    np.testing.assert_allclose(shown, mean.T)
    np.testing.assert_allclose(dots.get_offsets(), tree["observed_data/events"].values)
    relative = (tree["intensity/upper"] - tree["intensity/lower"]) / tree["intensity/mean"]
    np.testing.assert_allclose(
        right.collections[0].get_array().reshape(5, 6), relative.values.reshape(6, 5).T
    )


def test_counts_in_a_plane_without_events():
    tree = cox(2, events=False)
    y = tree["observed_data/y"].values
    dots = intensity(tree).axes[0].collections[1]
    assert len(dots.get_offsets()) == (y > 0).sum()
    np.testing.assert_allclose(dots.get_sizes() / dots.get_sizes().min(), y[y > 0] / y[y > 0].min())


def test_scattered_cases_and_more_features_are_shown_too():
    tree = cox(2)
    tree["constant_data/X"][0, 0] += 0.01
    assert len(intensity(tree).axes[0].collections[0].get_offsets()) == 30
    (axes,) = intensity(cox(3)).axes
    mean = axes.lines[0].get_ydata()
    assert np.all(np.diff(mean) >= 0.0)
    assert axes.get_xlabel() == "case, by posterior mean"


def test_figure_1_shows_functions_and_densities(illustration):
    left, right = figure_1(illustration).axes
    data = illustration["whitened"].to_dataset()
    for axes, name in ((left, "latent"), (right, "density")):
        curves = [line.get_ydata() for line in axes.lines if len(line.get_ydata()) > 2]
        np.testing.assert_allclose(curves, data[name].values)
    assert right.get_xscale() == "log"
    marks = [line.get_xdata()[0] for line in right.lines if len(line.get_ydata()) == 2]
    assert marks == [0.1, 0.5, 2.0]


def test_figure_2_shows_noise_and_three_functions(illustration):
    figure = figure_2(illustration)
    (axes,) = figure.axes
    x = illustration["proposals/x"].values
    np.testing.assert_allclose([line.get_ydata() for line in axes.lines[1:]], [x, -x, x + 0.1])
    (bars,) = axes.containers
    first = bars.lines[2][0].get_segments()[-1][:, 1]
    np.testing.assert_allclose(first, [1.0 - 0.5, 1.0 + 0.5])
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert len(names) == 4
    assert "prior-white" in " ".join(names)
    assert "surrogate data" in " ".join(names)


def test_nothing_is_cut_off(efficiency, illustration):
    drawings = {
        "figure_3": figure_3(efficiency),
        "line": intensity(cox(1)),
        "plane": intensity(cox(2)),
        "figure_1": figure_1(illustration),
        "figure_2": figure_2(illustration),
    }
    for name, figure in drawings.items():
        figure.canvas.draw()
        width, height = figure.canvas.get_width_height()
        boxes = [axes.get_tightbbox() for axes in figure.axes]
        boxes += [legend.get_window_extent() for legend in figure.legends]
        for box in boxes:
            assert min(box.x0, box.y0) >= -0.5, name
            assert box.x1 <= width + 0.5, name
            assert box.y1 <= height + 0.5, name


def test_same_bytes_whatever_the_users_settings(efficiency, tmp_path):
    for name, settings in (("a", {}), ("b", {"font.size": 20, "hatch.linewidth": 5})):
        with plt.rc_context(settings):
            write_figure(figure_3(efficiency), tmp_path / f"{name}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert plt.get_fignums() == []
