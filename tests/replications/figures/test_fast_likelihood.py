from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from gpmcflow.diagnostics.autocorrelation import autocorrelation
from gpmcflow.replications.fast_likelihood.figures import autocorrelation_panels, cost_against_time
from gpmcflow.replications.figures.style import looks
from gpmcflow.storage import write_figure

METHODS = ["standard", "sod", "student"]


@pytest.fixture
def series():
    rng = np.random.default_rng(0)
    walks = rng.normal(size=(2, 3, 600))
    for t in range(1, 600):
        walks[..., t] += np.array([0.8, 0.3])[:, None] * walks[..., t - 1]
    return {"sod": walks[0], "tempered": walks[1]}


@pytest.fixture
def table():
    rows = [
        {"problem": p, "method": m, "ACT": tau * f, "ACT_mcse": 0.1 * tau, "pi_equivalents": each}
        for p, f in (("type-1", 1.0), ("type-2", 3.0), ("real", 2.0), ("type-9", 1.0))
        for m, tau, each in zip(METHODS, (4.0, 6.0, 1.5), (5.0, 2.0, 1.1), strict=True)
    ]
    return pd.DataFrame(rows)


def test_a_panel_shows_each_data_set_their_mean_and_the_limits(series, tmp_path):
    figure = autocorrelation_panels(series, "type-2")
    for axes, values in zip(figure.axes, series.values(), strict=True):
        lines = [line.get_ydata() for line in axes.lines]
        rho = autocorrelation(values, 40)
        for row, line in zip(rho, lines, strict=False):
            np.testing.assert_allclose(line, row)
        np.testing.assert_allclose(lines[3], rho.mean(0))
        assert {round(float(line[0]), 6) for line in lines[-2:]} == {
            round(s * 1.96 / np.sqrt(600), 6) for s in (-1, 1)
        }
        assert axes.get_xlim() == (0, 40)
    write_figure(figure, tmp_path / "a.png")
    assert not plt.get_fignums()


def test_chains_that_never_moved_are_told(series):
    series["sod"][1] = 7.0
    series["tempered"][:] = 7.0
    figure = autocorrelation_panels(series, "")
    assert figure.axes[0].get_title() == "sod (1 of 3 never moved)"
    assert len(figure.axes[0].lines) == 2 + 1 + 3
    assert figure.axes[1].texts[0].get_text() == "never moved"


def test_points_and_the_line_of_the_baseline(table, tmp_path):
    figure = cost_against_time(table, METHODS)
    look = looks(METHODS)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == ["type-1", "type-2", "real", "type-9"]
    axes = shown[1]
    markers = [line for line in axes.lines if line.get_marker() == look["sod"].marker]
    np.testing.assert_allclose(markers[0].get_xydata(), [[18.0, 2.0]])
    (solid,) = [line for line in axes.lines if line.get_color() == "0.35"]
    np.testing.assert_allclose(np.prod(solid.get_xydata(), axis=1), 12.0 * 5.0)
    write_figure(figure, tmp_path / "b.png")


def test_methods_of_infinite_cost_are_named(table):
    table.loc[table["method"] == "sod", "ACT"] = np.inf
    figure = cost_against_time(table, METHODS)
    assert figure.axes[0].texts[0].get_text() == "infinite cost:\nsod"


def test_a_type_without_any_chain_that_moved(table):
    table.loc[table["problem"] == "real", "ACT"] = np.inf
    assert "standard" in cost_against_time(table, METHODS).axes[2].texts[0].get_text()
