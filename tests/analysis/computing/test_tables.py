"""The tables beside a report: quantiles, curves, maps, priors against posteriors, checks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import special, stats

from gpmcflow.analysis import tables
from gpmcflow.analysis.fitting import fit, summarise
from gpmcflow.analysis.report import checks
from gpmcflow.analysis.scores import Results
from gpmcflow.analysis.summaries import Places

EVIDENCE = {"temperatures": 3, "particles": 8}


def fitted(data, model, covariance):
    tree = fit(model(data, covariance), data, EVIDENCE, seed=1, key=("x", "a"))
    return tree, Places.of(data, np.random.default_rng(0))


@pytest.fixture(scope="module")
def counts(data, model):
    own = data("counts", 40)
    return own, *fitted(own, model, "matern32()")


@pytest.fixture(scope="module")
def binary(data, model, at_maximum):
    own = data("binary", 40)
    with at_maximum():  # averaged over hyperparameters so few rows show no sign of an effect
        return own, *fitted(own, model, "squared_exponential(age) + linear(ward)")


def test_predictions_have_a_column_for_each_quantile(counts):
    own, tree, _ = counts
    group = tree["held_out"].to_dataset()
    table = tables.predictions_test(tree, own)
    assert list(table["row"]) == list(own.held_out.row)
    np.testing.assert_array_equal(table["outcome"], own.held_out.outcome)
    np.testing.assert_array_equal(table["unit"], own.held_out.unit)
    names = ["q025", "q25", "q50", "q75", "q975"]
    np.testing.assert_array_equal(table[names].to_numpy().T, group["response_quantile"])
    np.testing.assert_array_equal(table["mean"], group["response_mean"])
    np.testing.assert_array_equal(table["sd"], group["response_sd"])
    assert (np.diff(table[names], axis=1) >= 0).all()
    shares = table[[*(f"p_{k}" for k in range(7)), "p_more"]]
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-12)
    few = table["q975"] <= 6
    assert few.any()
    assert (table["p_more"][few] <= 0.026).all()
    latent = group["latent_quantile"].sel(quantile=[0.025, 0.975]).values
    np.testing.assert_allclose(table[["rate_q025", "rate_q975"]].to_numpy().T, np.exp(latent))


def test_probability_is_of_binary_outcomes_alone(binary, counts):
    own, tree, _ = binary
    table = tables.predictions_test(tree, own)
    np.testing.assert_array_equal(table["probability"], table["mean"])
    assert table["probability"].between(0, 1).all()
    assert "p_0" not in table
    assert "probability" not in tables.predictions_test(counts[1], counts[0])


def test_predictions_by_leave_one_out_are_probabilities_of_yes(binary):
    own, tree, _ = binary
    table = tables.predictions_loo(tree, own)
    density = tree["leave_one_out/log_density"].values
    yes = own.learning.outcome == 1.0
    np.testing.assert_allclose(table["probability"][yes], np.exp(density[yes]))
    np.testing.assert_allclose(table["probability"][~yes], -np.expm1(density[~yes]))
    assert list(table["row"]) == list(own.learning.row)


def test_new_rows_have_ids_first_and_their_cells_last(binary):
    own, tree, _ = binary
    rows = own.held_out._replace(y=None, outcome=None)
    cells = pd.DataFrame({"row": rows.row, "note": "odd", "id": "P1", "age": "50"})
    table = tables.predictions_new(tree["held_out"].to_dataset(), own._replace(new=rows), cells)
    assert list(table.columns[:3]) == ["row", "id", "mean"]
    assert list(table.columns[-2:]) == ["note", "age"]
    assert len(table) == len(rows.row)


def test_relevance_says_values_as_people_write_them(binary):
    own, tree, places = binary
    effects = tables.effects_of(tree, list(places.swept), "binary")
    table = tables.relevance(effects, own).set_index("column")
    sizes = table["change"].abs().to_numpy()
    assert (np.diff(sizes) <= 0).all()
    assert set(table.index) == {"age", "ward", "smoker", "day"}
    for column in ("smoker", "day"):  # in no term of the covariance
        assert abs(table.loc[column, "change"]) < 1e-9
    usual = next(sweep for sweep in places.swept if sweep.column == "age")
    low, high = (usual.values[place] for place in usual.usual)
    assert float(table.loc["age", "low"]) == pytest.approx(low)
    assert float(table.loc["age", "high"]) == pytest.approx(high)
    assert table.loc["age", "change"] > 0.1
    pd.Timestamp(table.loc["day", "low"])
    assert table.loc["day", "low"].startswith("2024-")
    assert table.loc["ward", "low"] == "north"
    averages = tree["effects/age/average"].values
    change = averages[:, usual.usual[1]] - averages[:, usual.usual[0]]
    assert table.loc["age", "change"] == pytest.approx(np.median(change))
    assert table.loc["age", "chance"] < 0.05
    assert table.loc["smoker", "chance"] > 0.05
    assert table.loc["age", "change_low"] == pytest.approx(np.quantile(change, 0.025))


def test_order_of_effects_of_counts_is_by_the_log_of_the_ratio(data):
    own = data("binomial", 40)
    sweep = Places.of(own, np.random.default_rng(0)).swept[0]
    g = len(sweep.values)
    down, up = np.ones((5, g)), np.ones((5, g))
    down[:, sweep.usual[1]], up[:, sweep.usual[1]] = 0.2, 3.0
    tree = xr.DataTree.from_dict(
        {f"effects/{name}": xr.Dataset({"average": (("sample", "value"), values)})
         for name, values in (("up", up), ("a_b", down))}
    )  # fmt: skip
    swept = [sweep._replace(column="up"), sweep._replace(column="a/b")]
    assert list(tables.effects_of(tree, swept, "counts")) == ["a/b", "up"]
    assert list(tables.effects_of(tree, swept, "real")) == ["up", "a/b"]


def test_curves_of_the_columns_that_matter_most(binary):
    own, tree, places = binary
    effects = tables.effects_of(tree, list(places.swept), "binary")
    table = tables.curves(effects, own)
    assert list(dict.fromkeys(table["column"])) == list(effects)[:4]
    part = table[table["column"] == "age"]
    averages = tree["effects/age/average"].values
    np.testing.assert_allclose(part["mean"], np.median(averages, axis=0))
    np.testing.assert_allclose(part["low"], np.quantile(averages, 0.025, axis=0))
    np.testing.assert_allclose(part["high"], np.quantile(averages, 0.975, axis=0))
    assert set(table[table["column"] == "ward"]["value"]) == {"north", "south", "west"}


def test_rug_has_values_and_outcomes_of_learning_rows(binary, counts):
    own = binary[0]
    table = tables.rug(["age", "ward", "day"], own)
    assert set(table["column"]) == {"age", "day"}  # no numbers of a category
    code, age = own.encoding.code("age"), table[table["column"] == "age"]
    expected = own.learning.X["age"] * code.scale + code.mean
    np.testing.assert_allclose(age["value"].astype(float), expected, rtol=1e-5)
    np.testing.assert_array_equal(age["outcome"], own.learning.outcome)
    places = tables.points(counts[0])
    learning = counts[0].learning
    np.testing.assert_allclose(places["outcome"], learning.outcome / learning.unit)
    np.testing.assert_allclose(tables.rug(["east"], counts[0])["outcome"], places["outcome"])
    np.testing.assert_allclose(
        tables.rug(["east"], counts[0])["value"].astype(float), places["x"], rtol=1e-5
    )
    assert places["x"].between(0, 20).all()
    assert tables.rug(["ward"], own).empty


def test_map_has_rates_for_one_unit(counts):
    own, tree, places = counts
    ((kind, table),) = tables.grid(tree, places.grid, own).items()
    assert kind == "map"
    latent = tree["grid/latent_quantile"]
    np.testing.assert_allclose(table["low"], np.exp(latent.sel(quantile=0.025)))
    np.testing.assert_allclose(table["high"], np.exp(latent.sel(quantile=0.975)))
    np.testing.assert_allclose(table["factor"], np.sqrt(table["high"] / table["low"]))
    assert (table["mean"] > table["low"]).all()
    points = tables.points(own)
    for name in ("x", "y"):
        assert table[name].min() == pytest.approx(points[name].min())
        assert table[name].max() == pytest.approx(points[name].max())


def test_reach_has_quantiles_of_the_draws(counts):
    own = counts[0]
    distance = np.column_stack([np.arange(1.0, 42.0), np.full(41, np.inf)])
    tree = xr.DataTree.from_dict(
        {"reach": xr.Dataset({"distance": (("sample", "direction"), distance)},
                             {"direction": list(own.encoding.coordinates)})}
    )  # fmt: skip
    table = tables.reach(tree).set_index("direction")
    assert tuple(table.loc["east"]) == (21.0, 2.0, 40.0)
    assert np.isinf(table.loc["north"]).all()


def test_curve_of_a_real_outcome_is_in_its_units(data, model):
    own = data("real", 40)
    tree, places = fitted(own, model, "matern32()")
    ((kind, table),) = tables.grid(tree, places.grid, own).items()
    assert kind == "curve"
    latent, target = tree["grid/latent_quantile"], own.target
    np.testing.assert_allclose(
        table["low"], latent.sel(quantile=0.025) * target.scale + target.shift
    )
    assert (table["predictive_low"] < table["low"]).all()
    assert (table["predictive_high"] > table["high"]).all()
    assert table["mean"].between(60, 140).all()
    doses = own.encoding.natural("dose", own.learning.X["dose"].to_numpy())
    assert table["value"].min() == pytest.approx(doses.min() - 0.05 * np.ptp(doses))


def test_a_curve_over_days_tells_them_as_dates(data, model):
    days = pd.date_range("2008-01-01", periods=48, freq="MS").strftime("%Y-%m-%d")
    season = np.sin(2.0 * np.pi * np.arange(48) / 12.0) + 0.01 * np.arange(48) % 0.03
    own = data("real", rows=pd.DataFrame({"month": days, "yield": season.round(3)}))
    tree, places = fitted(own, model, "periodic(month, period=365.25) + constant()")
    (table,) = tables.grid(tree, places.grid, own).values()
    assert table["value"].is_monotonic_increasing
    dates = pd.to_datetime(table["value"])
    for month, expected in (("2009-04-01", 1.0), ("2010-10-01", -1.0), ("2011-04-01", 1.0)):
        nearest = (dates - pd.Timestamp(month)).abs().argmin()
        assert table["mean"][nearest] == pytest.approx(expected, abs=0.15)


def test_curve_of_successes_is_of_their_share(data, model):
    own = data("binomial", 40)
    tree, places = fitted(own, model, "matern32()")
    (table,) = tables.grid(tree, places.grid, own).values()
    latent = tree["grid/latent_quantile"]
    np.testing.assert_allclose(table["low"], special.expit(latent.sel(quantile=0.025)))
    assert ((table["low"] < table["mean"]) & (table["mean"] < table["high"])).all()
    assert table["predictive_low"].isna().all()


def test_hyperparameters_before_and_after(data, model, draw):
    own = data("many", 24)
    prior = {"size": {"distribution": "gamma", "parameters": {"a": 3.0}, "scale": "natural"}}
    made = model(own, "matern32(age, signal_sd=size)", priors=prior)
    draws = draw(made, 40)
    results = {"a": Results("", "", 0.0, None, draws), "b": Results("", "", 0.0, None)}
    table = tables.hyperparameters({"a": made, "b": made}, results, own.encoding)
    assert list(table["parameter"]) == ["length_scale", "signal_sd", "noise_sd"]
    assert set(table["model"]) == {"a"}
    table = table.set_index("parameter")
    levels = [0.025, 0.5, 0.975]
    before = table.loc["signal_sd", ["prior_q025", "prior_q50", "prior_q975"]].astype(float)
    np.testing.assert_allclose(before, stats.gamma(3.0).ppf(levels))
    before = table.loc["length_scale", ["prior_q025", "prior_q50", "prior_q975"]].astype(float)
    np.testing.assert_allclose(before, stats.lognorm(1.0).ppf(levels))
    after = table.loc["noise_sd", ["q025", "q50", "q975"]].astype(float)
    np.testing.assert_allclose(after, np.quantile(draws["posterior/noise_sd"], levels))
    summarise(made, draws, own, seed=1, key=("x", "a"))


def test_prior_of_a_mean_is_no_log(data, model, draw):
    own = data("binary", 20)
    made = model(own, "linear(age)")
    results = {"a": Results("", "", 0.0, None, draw(made, 20))}
    table = tables.hyperparameters({"a": made}, results, own.encoding)
    row = table.set_index("parameter").loc["mean"]
    level = made.natural(made.prior_median())["mean"]
    prior = stats.norm(level, 1.0).ppf([0.025, 0.5, 0.975])
    np.testing.assert_allclose(row[["prior_q025", "prior_q50", "prior_q975"]].astype(float), prior)


@pytest.mark.parametrize("shape", ["periodic(day, {})", "periodic(day, {}) + linear(age)"])
def test_a_free_period_is_told_in_units_of_its_column(data, model, draw, shape):
    own = data("many", 24)
    week = {"distribution": "norm", "parameters": {"loc": np.log(7.0), "scale": 0.1}}
    made = model(own, shape.format("period=week"), priors={"week": week})
    results = {"a": Results("", "", 0.0, None, draw(made, 40))}
    table = tables.hyperparameters({"a": made}, results, own.encoding).set_index("parameter")
    row = table[table.index.str.endswith("period")].iloc[0]
    assert row["prior_q50"] == pytest.approx(7.0)
    assert 5.5 < row["q025"] < row["q975"] < 9.0
    assert table.filter(like="length_scale", axis=0)["prior_q50"].iloc[0] == pytest.approx(1.0)


def models(**changes):
    good = {"name": "a", "role": "model", "r_hat": 1.0099, "ess_bulk": 401.0, "ess_tail": 401.0,
            "loo_bad_share": 0.05, "log_evidence_se": 0.5, "evidence_alarm": "", "chains": 4.0,
            "draws": 1000.0}  # fmt: skip
    simple = {"name": "logistic regression", "role": "simple"}
    return pd.DataFrame([good | changes, good | {"name": "b"}, simple])


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"r_hat": 1.0101}, "R-hat"),
        ({"ess_bulk": 399.0}, "effective draws"),
        ({"ess_tail": 399.0}, "effective draws"),
        ({"loo_bad_share": 0.051}, "leave-one-out, share of rows with Pareto k above 0.7"),
        ({"log_evidence_se": 0.51}, "evidence, standard error"),
        ({"evidence_alarm": "two ways differ"}, "evidence, alarms"),
    ],
)
def test_alarms_are_raised_just_above_the_limits(changes, check):
    assert not checks(models(), "a", "run").alarm.any()
    table = checks(models(**changes), "a", "gpmcflow run mine.yaml")
    assert list(table.columns) == [
        *("check", "model", "limit", "worst", "alarm", "reason", "touches", "settle"),
    ]
    assert len(table) == 8 + (check == "evidence, alarms")
    raised = table[table["alarm"]]
    assert list(raised["check"]) == [check]
    assert list(raised["model"]) == ["a"]
    of_evidence = check.startswith("evidence")
    touches = "only its place by the evidence" if of_evidence else "what is shown"
    assert raised["touches"].item() == touches
    assert (raised["worst"] > raised["limit"]).item() or check == "effective draws"
    if check == "evidence, alarms":
        assert raised["reason"].item() == "two ways differ"
    if "share" not in check:
        assert raised["settle"].item().endswith("then: gpmcflow run mine.yaml")
    if check in ("R-hat", "effective draws"):
        line = "write the line sampling: {chains: 4, draws: 2000} into the config, then: "
        assert raised["settle"].item().startswith(line)
    shown = checks(models(**changes), "b", "run")
    touches = touches if of_evidence else "the comparison with a"
    assert shown[shown["alarm"]]["touches"].item() == touches


def test_the_limit_of_r_hat_is_that_of_so_many_draws():
    table = checks(models(r_hat=1.014, r_hat_limit=1.021), "a", "run")
    assert not table.alarm.any()
    assert table.limit.iloc[0] == 1.021
    assert checks(models(r_hat=1.022, r_hat_limit=1.021), "a", "run").alarm.sum() == 1


def test_a_quick_run_is_checked_for_its_evidence_alone():
    table = checks(models(r_hat=np.nan), "a", "run")
    assert list(table[table["model"] == "a"]["check"]) == ["evidence, standard error"]
