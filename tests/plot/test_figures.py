"""Pictures on axes of matplotlib: what they draw is what the tables hold, and is what the page draws."""

from __future__ import annotations

import io
import re

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib import pyplot as plt
from scipy import stats

import gpmcflow as gp
from gpmcflow.analysis.page import build_page
from gpmcflow.analysis.page.canvas import _for_the_page
from gpmcflow.errors import InputError
from gpmcflow.plot.style import SETTINGS
from tests.analysis.made_up import MADE


@pytest.fixture(autouse=True)
def _without_a_screen():
    mpl.use("agg")


def _averages(dims, coords, **attributes):
    shape = tuple(len(coords[name]) for name in dims)
    mean = 0.2 + 0.5 * np.random.default_rng(0).random(shape)
    variables = {"mean": mean, "low": mean - 0.1, "high": mean + 0.2, "median": mean}
    return xr.Dataset({n: (dims, v) for n, v in variables.items()}, coords, attributes)


AGES = np.linspace(20.0, 80.0, 11)


def test_an_effect_is_its_mean_and_its_band():
    effect = _averages(["age"], {"age": AGES}, long_name="P(ill = yes)")
    axes = gp.plot.effects(effect)
    np.testing.assert_array_equal(
        axes.lines[0].get_xydata(), np.column_stack([AGES, effect["mean"]])
    )
    band = axes.collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == pytest.approx((float(effect.low.min()), float(effect.high.max())))
    assert axes.yaxis.get_major_formatter()(0.25) == "25\u00a0%"
    assert axes.get_xlabel() == "age"


def test_levels_are_dots_at_their_names():
    axes = gp.plot.effects(_averages(["ward"], {"ward": ["a", "b", "c"]}, long_name="visits"))
    assert [text.get_text() for text in axes.get_xticklabels()] == ["a", "b", "c"]
    assert axes.lines[0].get_marker() == "o"


def test_dates_are_told_by_month():
    days = pd.date_range("2023-01-01", "2024-06-01", 11)
    axes = gp.plot.effects(_averages(["day"], {"day": days}, long_name="visits"))
    assert axes.xaxis.get_major_formatter()(19723.0) == "2024-01"


def test_a_second_column_is_a_line_for_each_value_with_its_name():
    effect = _averages(["age", "sex"], {"age": AGES, "sex": ["f", "m"]})
    axes = gp.plot.effects(effect)
    for line, sex in zip(axes.lines, "fm", strict=True):
        np.testing.assert_array_equal(line.get_ydata(), effect["mean"].sel(sex=sex))
    last = effect["mean"].isel(age=-1)
    lower_first = [str(sex) for sex in last.sortby(last).sex.values]
    assert [text.get_text() for text in axes.texts[:2]] == lower_first
    many = _averages(["sex", "age"], {"sex": ["f", "m"], "age": AGES})
    assert [text.get_text() for text in gp.plot.effects(many).texts[:3]] != []
    assert len(gp.plot.effects(many).lines) == 3  # both ends and the middle


def test_comparisons_are_rows_about_no_effect():
    ratio = _averages(
        ["contrast"], {"contrast": ["b / a", "c / a"]}, scale="ratio", long_name="visits"
    )
    axes = gp.plot.effects(ratio)
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_yticklabels()] == ["b / a", "c / a"]
    dashes = axes.lines[-1]
    assert list(dashes.get_xdata()) == [1.0, 1.0]
    bars = [line for line in axes.lines if line.get_marker() == "o"]
    np.testing.assert_array_equal([bar.get_xdata()[0] for bar in bars], ratio["median"])


def test_an_analysis_gives_the_effect_of_one_of_its_columns():
    table = pd.DataFrame({"column": ["a"] * 3 + ["b"] * 3, "value": [0.0, 0.5, 2.0] * 2})
    table = table.assign(mean=np.arange(6.0), low=np.arange(6.0) - 1.0, high=np.arange(6.0) + 1.0)
    table.attrs = {"long_name": "expected visits", "share": False}
    assert list(gp.plot.effects(table).lines[0].get_ydata()) == [0.0, 1.0, 2.0]
    assert list(gp.plot.effects(table, "b").lines[0].get_ydata()) == [3.0, 4.0, 5.0]
    with pytest.raises(InputError, match=r'"?c"?.*a.*b'):
        gp.plot.effects(table, "c")
    with pytest.raises(InputError, match=r"allowed: a result of gp\.effects"):
        gp.plot.effects(table[["value"]])


def test_a_map_hatches_what_is_uncertain():
    x, y = np.linspace(0.0, 4.0, 9), np.linspace(0.0, 2.0, 5)
    mean = x[:, None] + 0.0 * y
    half = np.where((x[:, None] > 3.0) & (y > 1.0), 9.0, 0.1)
    surface = xr.Dataset(
        {
            n: (("east", "north"), mean + side * half)
            for n, side in (("mean", 0), ("low", -1), ("high", 1))
        },
        {"east": x, "north": y},
        {"long_name": "gain"},
    )
    axes = gp.plot.map(surface, points={"east": [1.0], "north": [1.5]})
    values, doubts = axes.collections
    assert values.get_hatch() is None
    assert doubts.get_hatch() or any(doubts.hatches)
    assert axes.lines[0].get_xydata().tolist() == [[1.0, 1.5]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("east", "north")
    assert len(axes.child_axes) == 1  # the bar of colours
    sure = gp.plot.map(surface.assign(low=surface["mean"] - 0.1, high=surface["mean"] + 0.1))
    assert len(sure.collections) == 1
    with pytest.raises(InputError, match=r"plot\.effects"):
        gp.plot.map(_averages(["age", "sex"], {"age": AGES, "sex": ["f", "m"]}))


def _predicted(mean, low, high):
    levels = [0.025, 0.25, 0.5, 0.75, 0.975]
    ends = np.array([low, 0.5 * (low + mean), mean, 0.5 * (mean + high), high])
    return xr.Dataset(
        {
            "response_mean": ("new_case", mean),
            "response_sd": ("new_case", 0.25 * (high - low)),
            "response_quantile": (("quantile", "new_case"), ends),
        },
        {"quantile": levels},
    )


def test_probabilities_are_judged_in_groups():
    p = np.repeat([0.1, 0.5, 0.9], 10)
    yes = np.concatenate([np.arange(10) < n for n in (1, 4, 9)])
    axes = gp.plot.calibration(_predicted(p, p, p), yes)
    dots = np.array([line.get_xydata()[0] for line in axes.lines if line.get_marker() == "o"])
    np.testing.assert_allclose(dots.mean(0), [p.mean(), yes.mean()])
    signed = gp.plot.calibration(_predicted(p, p, p), np.where(yes, 1.0, -1.0))
    again = np.array([line.get_xydata()[0] for line in signed.lines if line.get_marker() == "o"])
    np.testing.assert_array_equal(again, dots)
    for wrong in (None, yes[:4], np.where(yes, "yes", "no")):
        with pytest.raises(InputError, match="allowed: a number or a boolean for each of 30 rows"):
            gp.plot.calibration(_predicted(p, p, p), wrong)


def test_residuals_are_outcomes_less_predictions():
    mean = np.arange(10.0)
    y = mean + np.where(mean == 3.0, 5.0, 0.5)
    axes = gp.plot.residuals(_predicted(mean, mean - 1.0, mean + 1.0), y)
    inside, outside = axes.lines[1], axes.lines[2]
    np.testing.assert_allclose(inside.get_ydata(), 0.5)
    np.testing.assert_allclose(outside.get_xydata(), [[3.0, 5.0]])
    with pytest.raises(InputError, match="calibration"):
        gp.plot.residuals(_predicted(mean / 10, mean / 10, mean / 10), y > 4.0)


def _replicates(rng, drawn, observed):
    return xr.DataTree.from_dict(
        {
            "posterior_predictive": xr.Dataset({"y": (("chain", "draw", "case"), drawn)}),
            "observed_data": xr.Dataset({"y": ("case", observed)}),
        }
    )


def test_counts_are_held_against_the_number_expected():
    rng = np.random.default_rng(1)
    observed = rng.poisson(2.0, 60).astype(float)
    tree = _replicates(rng, rng.poisson(2.0, (2, 500, 60)).astype(float), observed)
    axes = gp.plot.predictive_check(tree)
    seen = axes.lines[0].get_ydata() ** 2
    most = int(observed.max())
    np.testing.assert_allclose(seen[: most + 1], np.bincount(observed.astype(int)))
    expected = np.array([part[0, 1] for part in axes.collections[0].get_segments()]) ** 2
    np.testing.assert_allclose(expected[:4], 60 * stats.poisson.pmf(range(4), 2.0), rtol=0.05)
    with pytest.raises(InputError, match="predictive_check"):
        gp.plot.calibration(tree)


def test_replicates_of_labels_are_probabilities():
    rng = np.random.default_rng(2)
    drawn = np.where(rng.random((1, 400, 50)) < 0.3, 1.0, -1.0)
    axes = gp.plot.predictive_check(_replicates(rng, drawn, drawn[0, 0]))
    assert axes.get_xlabel() == "probability the model gave"


def test_priors_and_posteriors_are_those_of_the_model_and_the_draws():
    x = np.linspace(0.0, 1.0, 20)
    prior = gp.Hyperprior.log_uniform(0.1, 10.0)
    model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(prior, 1.0), gp.Gaussian(0.1))
    draws = gp.sample(model, n_draws=60, n_chains=2)
    axes = gp.plot.prior_posterior(draws)
    broad, bar, dot = axes.lines[1:4]
    own = draws["posterior"]["length_scale"].values
    np.testing.assert_allclose(bar.get_xdata(), np.quantile(own, [0.025, 0.975]))
    assert dot.get_xdata()[0] == pytest.approx(np.median(own))
    low = 0.1 * 100.0**0.025
    assert broad.get_xdata() == pytest.approx([low, 1.0 / low])
    with pytest.raises(InputError, match="length_scal"):
        gp.plot.prior_posterior(draws, ["length_scal"])


def test_evidences_are_behind_the_best():
    table = pd.DataFrame(
        {"log_evidence": [-12.0, -10.0, np.nan], "standard_error": [0.3, 0.4, np.nan]},
        index=["plain", "curved", "none"],
    )
    axes = gp.plot.evidence(table)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["curved", "plain"]
    bars = [
        line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 1.8
    ]
    np.testing.assert_allclose(bars[1].get_xdata(), [-3.0, -1.0])
    with pytest.raises(InputError, match="compare_models"):
        gp.plot.evidence(table[["standard_error"]])


def test_axes_given_are_drawn_on_and_returned():
    figure, own = plt.subplots()
    effect = _averages(["age"], {"age": AGES})
    assert gp.plot.effects(effect, ax=own) is own
    assert plt.get_fignums() == [figure.number]
    assert len(own.lines) == 1


def test_a_new_figure_leaves_the_settings_of_matplotlib_as_its_backend_made_them(monkeypatch):
    """A notebook's backend turns interactive on with its first figure, which has to last."""
    before, figure = mpl.rcParams["interactive"], plt.figure

    def first(*arguments, **settings):
        mpl.interactive(True)
        return figure(*arguments, **settings)

    monkeypatch.setattr(plt, "figure", first)
    try:
        gp.plot.effects(_averages(["age"], {"age": AGES}))
        assert mpl.is_interactive()
    finally:
        mpl.interactive(before)


def _paths(svg: str) -> set[str]:
    return set(re.findall(r' d="([^"]+)"', svg))


def _as_on_the_page(axes) -> str:
    buffer = io.StringIO()
    axes.figure.set_dpi(72)
    with mpl.rc_context(SETTINGS):
        axes.figure.savefig(buffer, format="svg", transparent=True)
    return _for_the_page(buffer.getvalue(), "", axes.figure.get_figheight() * 72)


@pytest.mark.parametrize(
    ("name", "table", "draw"),
    [
        ("patients", "predictions_test", gp.plot.calibration),
        ("machine", "predictions_test", gp.plot.calibration),
        ("machine", "predictions_test", gp.plot.predictive_check),
        ("birds", "predictions_test", gp.plot.predictive_check),
    ],
)
def test_a_picture_is_the_panel_of_the_page(tmp_path, name, table, draw):
    """Each line, dot and bar that `gp.plot` draws of a table is in the page made of the same table."""
    info, tables = MADE[name]()
    for own, frame in tables.items():
        frame.to_csv(tmp_path / f"{own}.csv", index=False)
    page = build_page(tmp_path, info)
    drawn = _paths(_as_on_the_page(draw(pd.read_csv(tmp_path / f"{table}.csv"))))
    assert len(drawn) > 5
    assert drawn <= _paths(page)
