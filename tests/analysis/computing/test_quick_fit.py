"""Quick fits that average over the hyperparameters: predictions, scores, evidence, what is stored of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.special import logsumexp

import gpmcflow as gp
from gpmcflow.analysis import fitting
from gpmcflow.analysis.coefficients import straight_chances
from gpmcflow.analysis.fitting import answer, fit, quick_fit, stored_predictors
from gpmcflow.analysis.report import _near, checks
from gpmcflow.analysis.scores import Results, models_table
from gpmcflow.approximations import integrated
from gpmcflow.approximations.integrated import IntegratedApproximation, integrate
from gpmcflow.approximations.predictive import mixture

EVIDENCE = {"temperatures": 5, "particles": 8}
KEY = {"seed": 1, "key": ("x", "a")}
KINDS = {"binary": "squared_exponential(age)", "many": "matern32(age) + linear(ward)"}


@pytest.fixture(scope="module", params=KINDS)
def fitted(request, data, model):
    """Data, model, its settings, and the quick fit."""
    own = data(request.param, 24, test_fraction=0.3)
    made = model(own, KINDS[request.param])
    return own, made, integrate(made), fit(made, own, EVIDENCE, **KEY)


def moments(own, made, best):
    return mixture([each.moments(made.new_inputs(own.held_out.X)) for each in best.predictors()])


def test_held_out_rows_are_scored_by_the_mixture_of_settings(fitted):
    own, made, best, quick = fitted
    eta, rows = moments(own, made, best), own.held_out
    if own.target.kind == "binary":
        signs = np.where(rows.outcome > 0.5, 1.0, -1.0)
        each = stats.norm.logcdf(signs * eta.mean / np.sqrt(1.0 + eta.variance))
    else:
        noise = np.array([law.noise_sd**2 for law in eta.likelihoods])[:, None]
        each = stats.norm.logpdf(rows.y, eta.mean, np.sqrt(eta.variance + noise))
        each -= np.log(own.target.scale)
    right = logsumexp(each, axis=0) - np.log(len(best.theta))
    np.testing.assert_allclose(quick["held_out/log_density"], right, rtol=1e-8)


def test_the_answer_of_all_rows_begins_at_the_fit_of_some(fitted, monkeypatch):
    own, made, _, quick = fitted
    started = []

    def begun(model, start=None):
        started.append(start)
        return quick_fit(model, start)

    monkeypatch.setattr(fitting, "quick_fit", begun)
    answer(made, own, None, first=quick, **KEY)
    np.testing.assert_array_equal(started[0], quick["settings/theta"])
    at_maximum = xr.DataTree.from_dict(
        {"maximum": xr.Dataset({"theta": ("d", np.zeros(made.dim))})}
    )
    answer(made, own, None, first=at_maximum, **KEY)
    assert started[1] is None


def test_evidence_is_that_of_the_settings_with_the_error_of_ep(fitted):
    own, _, best, quick = fitted
    shift = -len(own.learning.row) * np.log(own.target.scale)
    group = quick["evidence"].to_dataset()
    assert float(group["approximate_log_evidence"]) == pytest.approx(best.log_evidence + shift)
    value = best.log_evidence + best.ep_error + shift
    assert float(group["log_evidence"]) == pytest.approx(value)
    if best.sites is None:
        assert best.ep_error == best.ep_error_se == 0.0
    else:
        assert best.ep_error != 0.0
    assert float(group["standard_error"]) == np.hypot(best.standard_error, best.ep_error_se)


def test_leave_one_out_is_that_of_the_settings(fitted):
    own, _, best, quick = fitted
    right = gp.leave_one_out(best)["elpd"] - np.log(own.target.scale)
    np.testing.assert_array_equal(quick["leave_one_out/log_density"], right)
    assert quick["leave_one_out"].attrs["by"] == ("exact" if best.sites is None else "EP")


@pytest.mark.parametrize(
    ("covariance", "kept"),
    [("linear(age) + constant()", True), ("linear(age) + matern32(age)", False)],
)
def test_straight_lines_keep_their_slopes_though_another_model_is_shown(
    data, model, covariance, kept
):
    own = data("binary", 24, test_fraction=0.3)
    tree = fit(model(own, covariance), own, EVIDENCE, scores_alone=True, **KEY)
    assert ("coefficients" in tree.children) == kept
    if kept:
        slope = tree["coefficients"].to_dataset().sel(coefficient="age")
        chance, none = straight_chances([tree], ["age", "ward"])
        z = float(slope["mean"] / slope["sd"])
        assert chance == pytest.approx(2.0 * stats.norm.sf(abs(z)))
        assert np.isnan(none)
        twice = tree.copy()
        twice["coefficients"] = xr.DataTree(tree["coefficients"].to_dataset() * 2.0)
        twice["coefficients/sd"] = tree["coefficients/sd"]
        twice["coefficients"].coords["kind"] = tree["coefficients/kind"]
        assert straight_chances([tree, twice], ["age"])[0] < chance


def test_models_are_near_that_are_at_least_a_twentieth_as_probable():
    table = pd.DataFrame(
        {"name": ["a", "b", "c", "d", "simple"], "role": ["model"] * 4 + ["simple"],
         "log_evidence": [-50.0, -52.9, -53.1, -40.0, np.nan]}
    )  # fmt: skip
    assert _near(table, "a") == ["b", "d"]
    assert _near(table.assign(log_evidence=np.nan), "a") == []


def test_what_is_stored_predicts_as_the_fit(fitted):
    own, made, best, quick = fitted
    again = mixture(
        [each.moments(made.new_inputs(own.held_out.X)) for each in stored_predictors(made, quick)]
    )
    for one, other in zip(again[:2], moments(own, made, best)[:2], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("fitted", ["many"], indirect=True)
def test_effects_of_a_regression_are_wider_than_at_one_setting(fitted, at_maximum):
    own, made, _, _ = fitted
    averaged = answer(made, own, None, **KEY)
    with at_maximum():
        single = answer(made, own, None, **KEY)
    assert "maximum" in single.children
    assert "settings" in averaged.children
    wide, narrow = (tree["effects/age/average"].std("sample").values for tree in (averaged, single))
    assert (wide > narrow).all()
    assert wide.mean() > 1.15 * narrow.mean()


def test_many_rows_are_fitted_at_the_maximum(fitted, monkeypatch, at_maximum):
    _, made, _, _ = fitted
    assert isinstance(quick_fit(made), IntegratedApproximation)
    monkeypatch.setattr(integrated, "MOST_ROWS", made.n_cases - 1)
    assert not isinstance(quick_fit(made), IntegratedApproximation)


def row(**columns):
    own = {"name": "a", "role": "model", "log_evidence_se": 0.1, "evidence_alarm": ""}
    return own | {"settings": 25.0, "settings_k": 0.3, "settings_effective": 50.0} | columns


@pytest.mark.parametrize(
    ("columns", "failed"),
    [
        ({}, []),
        ({"settings_effective": 10.0, "settings_k": 1.5}, ["effective settings"]),
        ({"settings_k": 0.8}, ["settings, Pareto k"]),
        ({"log_evidence_se": 0.6}, ["evidence, standard error"]),
    ],
)
def test_settings_that_miss_the_posterior_are_told(columns, failed):
    import pandas as pd

    made = checks(pd.DataFrame([row(**columns)]), "a", "gpmcflow run a.yaml")
    assert list(made.loc[made["alarm"], "check"]) == failed
    assert set(made.loc[made["alarm"], "settle"]) <= {"gpmcflow run a.yaml"}


def test_the_table_of_models_has_the_settings(fitted):
    own, _, best, quick = fitted
    table = models_table(own, {"a": Results("linear()", "", 1.0, quick)}, {"a": "lines"}, "a")
    first = table.iloc[0]
    assert first["settings"] == len(best.theta)
    assert first["settings_effective"] == pytest.approx(best.effective_size)
    assert np.isnan(first["evidence_beyond"])


def test_the_evidence_of_classes_at_the_maximum_is_annealed(data, model, monkeypatch):
    """As that averaged over the hyperparameters is EP's and what its draws add; few draws are an alarm."""
    own = data("classes", 24, test_fraction=0.3)
    made = model(own, "linear()")
    right = fit(made, own, EVIDENCE, **KEY)["evidence"]
    monkeypatch.setattr(fitting, "integrates", lambda model: False)
    size = {"temperatures": 20, "particles": 200}
    found = fit(made, own, size, **KEY)["evidence"]
    assert found.attrs["alarm"] == ""
    assert 0.0 < found["standard_error"] < 0.1
    gain = float(found["log_evidence"] - found["approximate_log_evidence"])
    apart = float(right["log_evidence"] - right["approximate_log_evidence"])
    assert gain == pytest.approx(apart, abs=0.15)
    assert gain != 0.0
    few = fit(made, own, {"temperatures": 2, "particles": 8}, **KEY)["evidence"]
    assert few.attrs["alarm"].startswith("effective size")
