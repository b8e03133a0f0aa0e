"""Times inspected at visits: an interval counts with its probability, in each number of an analysis."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import minimize

import gpmcflow as gp
from gpmcflow.analysis.baselines import baselines
from gpmcflow.analysis.fitting import fit
from gpmcflow.analysis.page.tables import _outcome
from gpmcflow.approximations.prediction import predictors
from gpmcflow.data.outcome_kinds import KINDS
from gpmcflow.data.times import ends_of
from gpmcflow.numerics.product_limit import turnbull
from gpmcflow.pipeline.predict import predict_file

from ..reading import text_of

EVIDENCE = {"temperatures": 5, "particles": 8}
KEY = {"seed": 1, "key": ("x", "a")}
UNTIL = {"target": "left", "event": None, "until": "right"}
LAWS = {  # of a time with location eta on the log scale, and scale s
    "weibull": lambda eta, s: stats.weibull_min(1.0 / s, scale=np.exp(eta)),
    "loglogistic": lambda eta, s: stats.fisk(1.0 / s, scale=np.exp(eta)),
    "lognormal": lambda eta, s: stats.lognorm(s, scale=np.exp(eta)),
}


def visited(n: int = 120) -> pd.DataFrame:
    """Weibull times, e times as long for 15 of the dose; a quarter is seen, the others between visits."""
    rng = np.random.default_rng(7)
    dose = rng.normal(50.0, 10.0, n).round(1)
    time = 50.0 * np.exp((dose - 50.0) / 15.0) * rng.standard_exponential(n) ** 0.5
    visits = np.cumsum(rng.uniform(10.0, 40.0, (n, 4)), axis=1).round(1)
    place = (time[:, None] > visits).sum(1)
    padded = np.column_stack([np.zeros(n), visits, np.full(n, np.inf)])
    left, right = padded[np.arange(n), place], padded[np.arange(n), place + 1]
    left, right = (np.where(np.arange(n) % 4 == 0, time.round(2), end) for end in (left, right))
    return pd.DataFrame({"dose": dose, "left": left, "right": right})


def log_known(law, low, high):
    """Log density of a time that was seen, log probability that it lies between its ends."""
    with np.errstate(divide="ignore"):  # at 0
        within = np.log(np.maximum(law.sf(low) - law.sf(high), 1e-300))
        return np.where(low == high, law.logpdf(low), within)


def at_most_likely(law: str, X: np.ndarray, low: np.ndarray, high: np.ndarray):
    """Coefficients, log s, and their covariance, by maximum likelihood."""

    def loss(at):
        return -log_known(LAWS[law](X @ at[:-1], np.exp(at[-1])), low, high).sum()

    start = np.zeros(X.shape[1] + 1)
    start[0], start[-1] = 4.0, -0.5
    found = minimize(loss, start, method="BFGS", options={"gtol": 1e-6})
    return found.x, found.hess_inv


@pytest.fixture(scope="module")
def own(data):
    return data("survival", rows=visited(), **UNTIL)


def test_rows_of_the_file_are_those_of_the_results(own):
    rows = visited()
    parts = [own.learning, own.held_out]
    order = np.argsort(np.concatenate([part.row for part in parts]))
    low, high = (np.concatenate([part.ends[k] for part in parts])[order] for k in range(2))
    np.testing.assert_array_equal(low, rows["left"])
    np.testing.assert_array_equal(high, rows["right"])
    whole = own.whole().learning
    np.testing.assert_array_equal(whole.ends, [low, high])
    seen = (rows["left"] == rows["right"]).to_numpy()
    np.testing.assert_array_equal(whole.seen("survival"), seen)
    np.testing.assert_array_equal(whole.log_units(own.target), seen * np.log(own.target.scale))
    assert own.learning.units("survival") == {}


@pytest.mark.parametrize("law", LAWS)
def test_the_simple_model_is_a_regression_with_intervals(own, law):
    learning, held = own.learning, own.held_out
    found = {baseline.role: baseline for baseline in baselines(own, held, law)}
    for role, kept in (("simple", slice(None)), ("base", slice(0, 0))):
        X, X_new = (
            np.insert(part.X.to_numpy()[:, kept], 0, 1.0, axis=1) for part in (learning, held)
        )
        at, _ = at_most_likely(law, X, *learning.ends)
        fitted = LAWS[law](X_new @ at[:-1], np.exp(at[-1]))
        expected = log_known(fitted, *held.ends)
        np.testing.assert_allclose(found[role].log_density, expected, atol=0.01)
        np.testing.assert_allclose(found[role].mean, fitted.median(), rtol=0.01)


@pytest.fixture(scope="module", params=list(LAWS))
def fitted(request, own, model, at_maximum):
    made = model(own, "squared_exponential(dose)", likelihood={"survival": {"law": request.param}})
    with at_maximum():
        return request.param, made, fit(made, own, EVIDENCE, **KEY)


def test_scores_of_held_out_rows_are_log_probabilities_of_their_intervals(fitted, own):
    law, made, quick = fitted
    scale, rows = own.target.scale, own.held_out
    np.testing.assert_allclose(made.likelihood.until * scale, own.learning.until)
    (predictor,) = predictors(gp.approximate(made), n_draws=1)
    eta = predictor.moments(made.new_inputs(rows.X))
    s, group = predictor.likelihood.s, quick["held_out"].to_dataset()
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights /= weights.sum()
    at = np.log(scale) + eta.mean[0][:, None] + np.sqrt(eta.variance[0])[:, None] * nodes
    low, high = (end[:, None] for end in rows.ends)
    known = np.exp(log_known(LAWS[law](at, s), low, high)) @ weights
    np.testing.assert_allclose(group["log_density"], np.log(known), atol=1e-6)
    # how likely it was to last longer: of an interval between those of its ends, elsewhere exact
    most, least = (LAWS[law](at, s).sf(end) @ weights for end in (low, high))
    longer, at_once = group["survival"].values, rows.seen("survival") | (rows.unit == 0.0)
    np.testing.assert_allclose(longer[at_once], most[at_once], rtol=1e-6)
    place = (longer - least)[~at_once] / (most - least)[~at_once]
    assert place.min() > 0.0
    assert place.max() < 1.0
    assert place.std() > 0.2  # drawn there: all in the middle would look too well calibrated


def test_an_interval_has_a_probability_in_whatever_unit(fitted, own, model, at_maximum):
    """In days instead of weeks each time that was seen costs log 7 more, an interval nothing."""
    law, _, quick = fitted
    target = replace(own.target, scale=7.0 * own.target.scale)
    longer = own._replace(
        encoding=replace(own.encoding, target=target),
        learning=own.learning._replace(until=7.0 * own.learning.until),
    )
    made = model(longer, "squared_exponential(dose)", likelihood={"survival": {"law": law}})
    with at_maximum():
        days = fit(made, own._replace(encoding=longer.encoding), EVIDENCE, **KEY)
    apart = quick["leave_one_out/log_density"] - days["leave_one_out/log_density"]
    seen = own.learning.seen("survival")
    np.testing.assert_allclose(apart, seen * np.log(7.0), atol=1e-7)
    apart = float(quick["evidence/log_evidence"] - days["evidence/log_evidence"])
    assert apart == pytest.approx(seen.sum() * np.log(7.0))


@pytest.fixture(scope="module")
def done(analysis, tmp_path_factory):
    """A quick run of straight lines with all but flat priors."""
    folder = tmp_path_factory.mktemp("intervals")
    visited().to_csv(folder / "mine.csv", index=False)
    pd.DataFrame({"dose": [35.0, 50.0, 65.0]}).to_csv(folder / "new.csv", index=False)
    config = {
        "seed": 2,
        "data": {"csv": "mine.csv", "target": "left", "outcome": "survival", "until": "right",
                 "use": ["dose"], "new": "new.csv"},
        "likelihood": "survival",
        "quick": True,
        "models": {"plain": {"covariance": "linear(sd=10.0) + constant(signal_sd=10.0)"}},
    }  # fmt: skip
    return folder, analysis(folder, config)


def read(run, name):
    return pd.read_csv(run.folder / f"{name}.csv")


def test_the_slope_is_that_of_maximum_likelihood(done):
    """Lower ends taken for times that were seen are two standard errors away."""
    _, run = done
    rows = visited()
    X = np.column_stack([np.ones(len(rows)), rows["dose"] - rows["dose"].mean()])
    at, covariance = at_most_likely("weibull", X, rows["left"], rows["right"])
    slope = read(run, "coefficients").set_index("name").loc["dose"]
    error = np.sqrt(covariance[1, 1])
    assert slope["mean"] == pytest.approx(at[1], abs=0.15 * error)
    assert slope["sd"] == pytest.approx(error, rel=0.15)
    low = np.where(rows["left"] > 0.0, rows["left"], 0.5 * rows["right"])
    as_seen, _ = at_most_likely("weibull", X, low, np.where(np.isinf(rows["right"]), np.inf, low))
    medians = read(run, "predictions_new")["q50"]
    s = np.exp(at[-1])
    expected = np.exp(at[0] + at[1] * (np.array([35.0, 50.0, 65.0]) - rows["dose"].mean()))
    np.testing.assert_allclose(medians, expected * np.log(2.0) ** s, rtol=0.04)
    assert abs(as_seen[0] - at[0]) > 2.0 * np.sqrt(covariance[0, 0])


def test_tables_hold_the_ends_of_held_out_rows(done):
    _, run = done
    table, held = read(run, "predictions_test"), run.data.held_out
    np.testing.assert_allclose(table["until"], held.until)
    np.testing.assert_array_equal(table["event"], held.unit)
    np.testing.assert_array_equal(table["outcome"], held.outcome)
    models = read(run, "models").set_index("role")
    assert abs(models.loc["model", "difference"]) < 0.05
    assert models.loc["model", "base_difference"] > 0.1
    assert models["error"].isna().all()
    curve = read(run, "survival").query("of == 'all rows'")
    ends, share = turnbull(*run.data.whole().learning.ends)
    np.testing.assert_allclose(curve["time"][1:-1], ends)
    np.testing.assert_allclose(curve["longer"][1:-1], share, atol=1e-12)
    last = np.where(np.isinf(visited()["right"]), visited()["left"], visited()["right"]).max()
    assert curve["time"].max() == pytest.approx(last)


def test_sentences_of_the_report(done):
    _, run = done
    text = text_of((run.folder / "report.html").read_text(encoding="utf-8"))
    low, high = (visited()[name].to_numpy() for name in ("left", "right"))
    exact, before, later = (low == high).sum(), (low == 0).sum(), np.isinf(high).sum()
    assert (
        f"Of 120 times {exact} were seen exactly, {120 - exact - before - later} lie in an interval, "
        f"{before} ended before they were first looked at and {later} had not ended." in text
    )
    assert "outcome: a time between left and right" in text
    assert f"Dots: the {120 - later} rows, of 120, that had ended; the others" in text
    assert "An interval is drawn at its middle." in text
    assert "all rows by Turnbull's method, which allows for intervals" in text
    assert "A time known to an interval is drawn at random there, as the model predicts it." in text
    assert "else by the probability of its interval, or of lasting longer" in text
    held = run.data.held_out
    ended = int((held.unit != 0.0).sum())
    assert f"to end while they were followed; {ended} did" in text
    for word in ("None", "nan ", "inf "):
        assert word not in text.split("Technical tables")[0]


@pytest.mark.parametrize(
    ("event", "until", "said"),
    [
        (1, np.nan, "12.5"),
        (1, 18.0, "12.5 to 18"),
        (0, np.nan, "over 12.5"),
        (-1, np.nan, "under 12.5"),
    ],
)
def test_a_held_out_row_is_shown_with_what_is_known(event, until, said):
    page = SimpleNamespace(kind="survival", own=KINDS["survival"])
    assert _outcome(page, pd.Series({"outcome": 12.5, "event": event, "until": until})) == said


def test_predictions_of_a_file_need_no_ends(done, monkeypatch):
    folder, run = done
    monkeypatch.chdir(folder)
    predict_file("mine", "new.csv", "mine_new.csv")
    found, report = pd.read_csv("mine_new.csv"), read(run, "predictions_new")
    np.testing.assert_allclose(found["q50"], report["q50"], rtol=1e-6)
    assert {"left", "right", "event", "until", "survival"}.isdisjoint(found.columns)


def test_a_model_starts_at_the_mean_of_middles(own, model):
    made, learning = model(own, "linear()"), own.learning
    low, high = ends_of(learning.y, learning.unit, learning.until / own.target.scale)
    middle = np.where(np.isinf(high), low, 0.5 * (low + high))
    level = np.log(middle.sum() / np.isfinite(high).sum())
    assert made.mean.parameters["loc"] == pytest.approx(level)
