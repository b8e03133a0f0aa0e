"""Evidences averaged over the hyperparameters: their values, their order, and what is said of rough ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import logsumexp

import gpmcflow as gp
from gpmcflow.analysis.evidence_tables import COLUMNS, evidence_of, evidence_table, ladder_table
from gpmcflow.analysis.report import checks
from gpmcflow.evidence.mixture_evidence import FIRST_WITH_DRAWS
from gpmcflow.models.collapsed_density import density_of

BRIDGE = {"route": "two_ended", "draws": 250, "target_error": 0.2}
SETTINGS = {"evidence": BRIDGE, "sampling": {"draws": 1000, "chains": 2}}


def tree(
    value: float, error: float = 0.05, alarm: str = "", route: str = "two_ended", **more: float
) -> xr.DataTree:
    """What `model_evidence` returns, as far as tables read it."""
    numbers = {"fit": value + 5.0, "complexity": 5.0, "effective_size": 400.0, "overlap": 2.0,
               "pareto_k": 0.1, **more}  # fmt: skip
    columns = {"log_evidence": value, "standard_error": error, "degrees_of_freedom": np.inf}
    group = xr.Dataset(
        {name: ("estimator", [number]) for name, number in columns.items()},
        {"estimator": ["bridge"]},
        {"route": route},
    ).assign(**numbers, alarm=alarm)
    return xr.DataTree.from_dict({"evidence": group, "/": xr.Dataset(attrs={"data_checksum": "y"})})


@pytest.fixture(scope="module")
def real(data, model, draw):
    """A regression of 19 rows, of outcomes far from unit scale, and draws of it."""
    own = data("real", 24)
    made = model(own, "squared_exponential()")
    return own, made, gp.sample(made, gp.JointSplitHMC(), n_draws=150, n_chains=2, seed=3)


def averaged(real, given=None, **settings) -> xr.DataTree:
    own, made, its_draws = real
    run = evidence_of(
        made, its_draws if given is None else given, {**BRIDGE, **settings},
        log_units=float(own.learning.log_units(own.target).sum()), seed=1, key=("x", "a"),
    )  # fmt: skip
    return run


def test_the_evidence_is_the_mean_likelihood_over_the_hyperpriors_in_natural_units(real):
    own, made, _ = real
    density, rng = density_of(made, None), np.random.default_rng(0)
    values = [density.value(x, np.empty(0)) for x in rng.standard_normal((8000, made.dim))]
    weights = np.exp(values - logsumexp(values))
    expected = logsumexp(values) - np.log(len(values)) - made.n_cases * np.log(own.target.scale)
    error = np.sqrt((weights**2).sum())
    run = averaged(real)
    group = run["evidence"].to_dataset().sel(estimator="importance")
    assert error < 0.05
    assert abs(own.target.scale - 1.0) > 1.0  # else it would not be seen
    assert float(group["log_evidence"]) == pytest.approx(expected, abs=4 * np.hypot(error, 0.03))
    assert (
        float(group["interval_low"]) < float(group["log_evidence"]) < float(group["interval_high"])
    )
    assert group["replicate_log_evidence"].mean() == pytest.approx(float(group["log_evidence"]))
    assert float(group["fit"] - group["complexity"]) == pytest.approx(float(group["log_evidence"]))
    for name in ("sample_stats", "reference"):  # u is near the evidence where the pilot fits well
        assert abs(float(run[name]["log_ratio"].median()) - expected) < 3.0
    # outcomes themselves are standardised, and stand beside the draws, with all that is by case
    assert set(run.children) == {"evidence", "posterior", "sample_stats", "reference", "modes"}


def test_draws_of_a_regression_cost_values_alone_whatever_made_them(real):
    _, made, _ = real
    others = gp.sample(made, gp.FittedIndependence(), n_draws=400, n_chains=2, seed=5)
    runs = [averaged(real), averaged(real, others)]
    for run in runs:
        assert run["evidence"].attrs["route"] == "mixture"
        assert float(run["evidence/n_gradient"]) == 0.0
        assert float(run["evidence/n_likelihood"]) == FIRST_WITH_DRAWS
        assert "pilot" not in run.children
    apart = runs[0]["evidence/log_evidence"] - runs[1]["evidence/log_evidence"]
    assert abs(float(apart[0])) < 0.15


@pytest.mark.parametrize(
    ("route", "alarm", "asked"),
    [
        ("two_ended", "", ["mixture"]),
        ("two_ended", "heavy tail", ["mixture", "two_ended"]),
        ("auto", "heavy tail", ["auto"]),
        ("ladder", "", ["ladder"]),
    ],
)
def test_draws_are_bridged_where_their_weights_ring(real, monkeypatch, route, alarm, asked):
    """Of a mixture up to four times as many are made before."""
    routes, draws = [], []

    def estimate(model, **settings):
        routes.append(settings["route"])
        draws.append(settings["n_draws"])
        group = tree(-10.0, alarm=alarm if settings["route"] == "mixture" else "")["evidence"]
        own = xr.Dataset({name: group[name] for name in group.data_vars})
        named = ("interval_low", "interval_high", "replicate_log_evidence")
        own = own.assign({name: own["log_evidence"] for name in named})
        return xr.DataTree.from_dict({"evidence": own, "observed_data": xr.Dataset()})

    monkeypatch.setattr("gpmcflow.analysis.evidence_tables.model_evidence", estimate)
    run = averaged(real, route=route)
    assert routes == asked
    usual = draws[-1] / (4 if asked[-1] == "mixture" else 1)
    assert draws == [usual * (4 if name == "mixture" else 1) for name in asked]
    assert str(run["evidence/alarm"].values) == ""


def test_the_table_is_in_the_order_of_the_evidence(data):
    values = {"b": -101.0, "a": -99.0, "d": -120.0, "c": -99.05}
    table = evidence_table({name: tree(value) for name, value in values.items()}, SETTINGS)
    assert tuple(table.columns) == COLUMNS
    assert list(table["model"]) == sorted(values, key=values.get, reverse=True)
    assert table["probability"].is_monotonic_decreasing
    assert table["probability"].sum() == pytest.approx(1.0)
    assert list(table["verdict"]) == ["best", "not resolved", "worse", "worse"]
    assert list(table["log_evidence"]) == sorted(values.values(), reverse=True)
    assert (table["fit"] - table["complexity"]).to_numpy() == pytest.approx(table["log_evidence"])


def test_a_rough_evidence_has_no_place_and_no_probability():
    trees = {
        "rough": tree(-50.0, 1.0, "variance of the bridge's terms 60 > 20", overlap=60.0),
        "second": tree(-101.0), "first": tree(-99.0),
    }  # fmt: skip
    table = evidence_table(trees, SETTINGS).set_index("model")
    assert list(table.index) == ["first", "second", "rough"]
    assert table.loc["rough", "verdict"] == "rough"
    assert table.loc["rough", ["probability", "low", "high", "log_bayes_factor"]].isna().all()
    alone = evidence_table({name: trees[name] for name in ("first", "second")}, SETTINGS)
    np.testing.assert_allclose(table["probability"].iloc[:2], alone["probability"])
    one = evidence_table({name: trees[name] for name in ("rough", "first")}, SETTINGS)
    assert list(one["model"]) == ["first", "rough"]
    assert one["probability"].isna().all()
    assert not one["verdict"].isin(["best", "worse", "not resolved", "no preference"]).any()


@pytest.mark.parametrize(
    ("more", "settings", "settle"),
    [
        ({"overlap": 21.0}, {}, "evidence: {route: auto}"),
        ({"pareto_k": 0.8}, {}, "evidence: {route: auto}"),
        ({}, {}, "evidence: {route: two_ended, draws: 500}"),
        ({"overlap": 21.0, "route": "ladder"}, {"route": "auto"}, "evidence: {route: auto, draws: 500}"),
    ],
)  # fmt: skip
def test_what_settles_a_rough_evidence(more, settings, settle):
    trees = {"a": tree(-9.0, alarm="something", **more)}
    table = evidence_table(trees, {**SETTINGS, "evidence": BRIDGE | settings})
    assert table["settle"].item() == settle
    models = pd.DataFrame([{"role": "model", "name": "a", "log_evidence_se": 0.1, "r_hat": np.nan}])
    row = checks(models, "a", "gpmcflow run mine.yaml", table).iloc[0]
    assert row["check"].startswith("evidence")
    assert row["alarm"]
    assert row["touches"] == "only its place by the evidence"
    assert row["settle"] == f"write the line {settle} into the config, then: gpmcflow run mine.yaml"
    sound = evidence_table({"a": tree(-9.0)}, SETTINGS)
    assert not checks(models, "a", "run", sound)["alarm"].any()


def test_a_ladder_gives_the_same_evidence_and_a_table_of_u(real):
    bridge, ladder = averaged(real), averaged(real, route="ladder", draws=100)
    assert ladder_table({"a": bridge}).empty
    table = ladder_table({"a": bridge, "b": ladder})
    assert set(table["model"]) == {"b"}
    on = table[table["of"] == "ladder"]
    assert list(on["beta"]) == list(ladder["tempered/beta"].values)
    assert on["beta"].is_monotonic_increasing
    assert list(table["of"].iloc[len(on) :]) == ["reference", "posterior"]
    value, other = (float(run["evidence/log_evidence"][0]) for run in (ladder, bridge))
    assert value == pytest.approx(other, abs=0.3)
    # u in natural units: its mean over the ladder is the log evidence
    assert np.trapezoid(on["mean"], on["beta"]) == pytest.approx(value, abs=1.0)
    ends = table.set_index("of").loc[["reference", "posterior"], "mean"]
    assert np.abs(ends - on["mean"].iloc[[0, -1]].to_numpy()).max() < 1.0


def test_draws_with_weights_of_their_proposals_need_no_bridge():
    """In natural units: outcomes standardised by a scale of e lose 3 nats here."""
    x = np.linspace(0.0, 2.0, 7)
    model = gp.GPModel(x, np.round(2.0 + np.cos(3.0 * x)), gp.SquaredExponential(), gp.Poisson())
    draws = gp.sample(model, gp.PseudoMarginalIndependence(), n_chains=2, n_draws=200, seed=3)
    weights = draws["sample_stats/log_weight"].values.ravel()
    run = evidence_of(model, draws, BRIDGE, log_units=3.0, seed=1, key=("x", "a"))
    group = run["evidence"].to_dataset().sel(estimator="importance")
    expected = logsumexp(weights) - np.log(400) - 3.0
    assert group.attrs["route"] == "mixture"
    assert float(group["log_evidence"]) == pytest.approx(expected)
    np.testing.assert_allclose(run["reference/log_ratio"].values.ravel(), weights - 3.0)
    likelihood = draws["sample_stats/sum_log_likelihood"].values
    np.testing.assert_allclose(run["sample_stats/sum_log_likelihood"].values, likelihood - 3.0)
