"""Times of which some had not ended yet: a censored one counts as longer than it was followed, everywhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats
from scipy.optimize import minimize

import gpmcflow as gp
from gpmcflow.analysis.baselines import baselines
from gpmcflow.analysis.fitting import fit, summarise
from gpmcflow.analysis.scores import _constant, _cross_validated, _error
from gpmcflow.analysis.summaries import Places
from gpmcflow.analysis.tables import grid
from gpmcflow.approximations.prediction import predictors
from gpmcflow.data.suggestions import suggest
from gpmcflow.errors import InputError, InputErrors
from gpmcflow.pipeline.predict import predict_file
from gpmcflow.plot.judged import survival_shares, times_fit

from ..reading import text_of

EVIDENCE = {"temperatures": 5, "particles": 8}
PLAIN = "linear() + constant(signal_sd=2.0)"
KEY = {"seed": 1, "key": ("x", "a")}
LAWS = {  # of a time with location eta on the log scale, and scale s
    "weibull": lambda eta, s: stats.weibull_min(1.0 / s, scale=np.exp(eta)),
    "loglogistic": lambda eta, s: stats.fisk(1.0 / s, scale=np.exp(eta)),
    "lognormal": lambda eta, s: stats.lognorm(s, scale=np.exp(eta)),
}


def seen(law, time, event):
    """Log density of an end, log probability of lasting longer where there was none."""
    return np.where(event > 0, law.logpdf(time), law.logsf(time))


def config_of(folder, target: str = "weeks", **data) -> dict:
    """The config that `gpmcflow new` writes, quick, with its straight lines alone."""
    made = yaml.safe_load(suggest(folder / "mine.csv", target).text("mine"))
    return {
        "seed": 2,
        "data": {**made["data"], **data},
        "likelihood": made["likelihood"],
        "quick": True,
        "models": {"plain": {"covariance": made["models"]["plain"]["covariance"]}},
    }


@pytest.fixture(scope="module")
def done(analysis, table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("survival")
    table("survival", 200).to_csv(folder / "mine.csv", index=False)
    new = pd.DataFrame({"dose": [40.0, 50.0, 60.0], "arm": ["old", "old", "new"]})
    new.to_csv(folder / "new.csv", index=False)
    return folder, analysis(folder, config_of(folder, new="new.csv"))


def read(run, name):
    return pd.read_csv(run.folder / f"{name}.csv")


def test_the_config_of_new_says_which_value_is_an_end(table, tmp_path):
    rows = table("survival", 200)
    rows.to_csv(tmp_path / "mine.csv", index=False)
    found = suggest(tmp_path / "mine.csv", "weeks")
    text, loaded = found.text("mine"), config_of(tmp_path)
    own = loaded["data"]
    assert (own["outcome"], own["event"], own["event_value"]) == ("survival", "died", "yes")
    assert (loaded["likelihood"], own["drop"]) == ("survival", [])
    ended = int((rows["died"] == "yes").sum())
    assert (
        f"# the end was seen ({ended} rows); no: it had not ended yet ({200 - ended} rows)" in text
    )
    assert "died (yes where the end was seen)" in found.summary()
    assert 0.3 < 1 - ended / 200 < 0.5


@pytest.mark.parametrize(
    ("values", "end"),
    [((0, 1), "1"), ((1, 2), "2"), (("FALSE", "TRUE"), "TRUE"), (("alive", "dead"), "dead"),
     (("died", "lost"), "died"), (("no", "yes"), "yes"), (("event", "none left"), "event")],
)  # fmt: skip
def test_an_end_is_a_word_for_it_or_the_larger_value(data, table, values, end):
    rows = table("survival", 60)
    censored = values[0] if str(values[0]) != end else values[1]
    rows["died"] = rows["died"].map({"yes": end, "no": str(censored)})
    own = data("survival", rows=rows)
    assert own.target.positive == end
    parts = [own.learning, own.held_out]
    events = np.concatenate([part.unit for part in parts])[
        np.argsort(np.concatenate([part.row for part in parts]))
    ]
    np.testing.assert_array_equal(events, rows["died"] == end)


def test_a_stated_value_turns_events_round(data, table):
    rows = table("survival", 60)
    own = data("survival", rows=rows, event_value="no", test_fraction=0.0)
    np.testing.assert_array_equal(own.learning.unit, rows["died"] == "no")


@pytest.mark.parametrize(
    ("change", "settings", "line"),
    [
        ({"weeks": 0.0}, {}, 'row 6, column weeks: "0.0" is not above 0, and a time has to be'),
        ({"died": "lost"}, {}, "data.event: column died has 3 values (yes "),
        ({}, {"event": "dead"}, 'data.event: no column "dead" in file.csv; did you mean "died"?'),
        ({}, {"event": None}, "data.event: a survival outcome needs the column that says whether"),
        ({}, {"event_value": "dead"}, "data.event_value: found 'dead', which column died does not"),
        ({"died": ["no"] * 40}, {}, 'data.event: column died is always "no"; allowed: two values'),
        ({}, {"outcome": "positive"}, "data.event: the outcome is positive, and only times to an"),
        ({}, {"event": None, "event_value": 1}, "data.event_value: found 1 without event"),
        ({}, {"exposure": "dose"}, "data: exposure and event are both given"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_times_and_events_gets_a_line(data, table, change, settings, line):
    rows = table("survival", 40)
    for name, value in change.items():
        rows.loc[:, name] = (
            value if isinstance(value, list) else rows[name].where(rows.index != 4, value)
        )
    with pytest.raises(InputErrors) as error:
        data("survival", rows=rows, **settings)
    assert any(problem.startswith(line) for problem in error.value.problems), error.value.problems


def test_learning_rows_without_an_end_are_refused(data, table):
    rows = table("survival", 40).sort_values("dose", ignore_index=True)
    rows["died"] = np.where(np.arange(40) < 35, "no", "yes")
    with pytest.raises(InputErrors, match="none of the 32 rows to learn from has ended"):
        data("survival", rows=rows, test_by="dose")


def test_effects_are_time_ratios_that_censoring_does_not_bias(done):
    """Ends alone, or censored times taken as ends, give a slope well below the one that made the data."""
    _, run = done
    changes = read(run, "relevance").set_index("column")
    ends = changes.loc["dose", ["low", "high"]].astype(float)
    ratio = 2.0 ** ((ends["high"] - ends["low"]) / 10.0)
    dose = changes.loc["dose"]
    assert dose["change_low"] < ratio < dose["change_high"]
    assert dose["change"] == pytest.approx(ratio, rel=0.25)
    curves = read(run, "effects").query("column == 'dose'").astype({"value": float})
    at_50 = np.interp(50.0, curves["value"], curves["mean"])
    assert at_50 == pytest.approx(50.0 * np.log(2.0) ** 0.5 * np.exp(0.25), rel=0.2)  # a median
    arm = changes.loc["arm", "change"]
    assert max(arm, 1.0 / arm) == pytest.approx(np.exp(0.5), rel=0.3)


def test_scores_are_densities_of_ends_and_probabilities_of_the_others(done):
    _, run = done
    models, held = read(run, "models").set_index("role"), run.data.held_out
    assert models.loc["simple", "name"] == "Weibull regression"
    assert abs(models.loc["model", "difference"]) < 0.05
    assert models.loc["model", "base_difference"] > 0.1
    assert models["error"].isna().all()
    table = read(run, "predictions_test")
    np.testing.assert_array_equal(table["event"], held.unit)
    assert table["survival"].between(0.0, 1.0).all()
    # where an end was not seen, the score is the log probability of lasting longer
    shown = gp.load_results(run.folder / "plain" / "fit.nc")["held_out/log_density"].values
    censored = held.unit == 0.0
    np.testing.assert_allclose(shown[censored], np.log(table["survival"][censored]), rtol=1e-9)
    assert (shown[~censored] < np.log(table["survival"][~censored]) + 5.0).all()


def test_curves_of_the_strongest_column_beside_all_rows(done):
    _, run = done
    shares = read(run, "survival").groupby("of", sort=False)
    low, high = read(run, "relevance").loc[0, ["low", "high"]]
    assert list(shares.groups) == [low, high, "all rows"]
    curves = {name: part.sort_values("time") for name, part in shares}
    for curve in curves.values():
        assert (np.diff(curve["longer"]) <= 0.0).all()
    assert (curves[high]["longer"].to_numpy() >= curves[low]["longer"].to_numpy()).all()
    middle = read(run, "relevance").loc[0, "change"]
    at_half = {
        name: np.interp(-0.5, -curve["longer"], curve["time"]) for name, curve in curves.items()
    }
    assert at_half[high] / at_half[low] == pytest.approx(middle, rel=0.25)
    assert at_half[low] < at_half["all rows"] < at_half[high]


def test_sentences_of_the_report(done):
    _, run = done
    text = text_of((run.folder / "report.html").read_text(encoding="utf-8"))
    assert "the median weeks is longer by a factor of" in text
    assert "what was seen was" in text
    assert "outcome: weeks, ended where died is yes" in text
    n, ended = 200, int(sum(part.unit.sum() for part in (run.data.learning, run.data.held_out)))
    assert (
        f"Of the 200 rows with a time, {ended} had ended (died yes) and {n - ended} had not."
        in text
    )
    assert f"Dots: the {ended} rows, of 200, whose end was seen" in text
    assert "Are the predicted times calibrated? Yes, as far as 40 rows can show." in text
    assert "by Kaplan-Meier" in text
    assert "over " in text
    assert "Share that lasts longer than a time" in text
    assert "times to an end, Weibull" in text
    for word in ("typically off by", "expected weeks", "exposure", "lie inside their", "measured"):
        assert word not in text.split("Technical tables")[0]


def test_predictions_of_a_file_need_no_event(done, monkeypatch):
    folder, run = done
    monkeypatch.chdir(folder)
    told = predict_file("mine", "new.csv", "mine_new.csv")
    found, report = pd.read_csv("mine_new.csv"), read(run, "predictions_new")
    np.testing.assert_allclose(found["q50"], report["q50"], rtol=1e-6)
    assert {"died", "event", "survival"}.isdisjoint(found.columns)
    truth = 50 * 2.0 ** np.array([-1.0, 0.0, 1.0]) * np.exp([0.0, 0.0, 0.5]) * np.log(2.0) ** 0.5
    np.testing.assert_allclose(found["q50"], truth, rtol=0.35)
    assert any(f"weeks {found['q50'][0]:.3g} (" in line for line in told)


@pytest.fixture(scope="module", params=list(LAWS))
def fitted(request, data, model, at_maximum):
    own = data("survival", 60, test_fraction=0.3)
    made = model(own, "squared_exponential(dose)", likelihood={"survival": {"law": request.param}})
    with at_maximum():
        return request.param, own, made, fit(made, own, EVIDENCE, **KEY)


def test_densities_have_the_jacobian_of_ends_alone(fitted):
    law, own, made, quick = fitted
    scale, rows = own.target.scale, own.held_out
    assert scale == pytest.approx(np.exp(np.log(own.learning.outcome).mean()))
    np.testing.assert_array_equal(made.likelihood.event, own.learning.unit)
    (predictor,) = predictors(gp.approximate(made), n_draws=1)
    eta = predictor.moments(made.new_inputs(rows.X))
    s, group = predictor.likelihood.s, quick["held_out"].to_dataset()
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    at = np.log(scale) + eta.mean[0][:, None] + np.sqrt(eta.variance[0])[:, None] * nodes
    density = np.exp(seen(LAWS[law](at, s), rows.outcome[:, None], rows.unit[:, None]))
    weights /= weights.sum()
    np.testing.assert_allclose(group["log_density"], np.log(density @ weights), atol=1e-6)
    longer = LAWS[law](at, s).sf(rows.outcome[:, None]) @ weights
    np.testing.assert_allclose(group["survival"], longer, rtol=1e-6)
    middle = LAWS[law](at, s).sf(group["response_quantile"].sel(quantile=0.5).values[:, None])
    np.testing.assert_allclose(middle @ weights, 0.5, atol=0.05)


def test_evidence_and_leave_one_out_are_in_the_units_of_the_file(fitted, data, model, at_maximum):
    """In days instead of weeks each end costs log 7 more, a censored time nothing."""
    law, own, _, quick = fitted
    learning = own.learning
    target = replace(own.target, scale=7.0 * own.target.scale)
    longer = own._replace(encoding=replace(own.encoding, target=target))
    made = model(longer, "squared_exponential(dose)", likelihood={"survival": {"law": law}})
    with at_maximum():
        days = fit(made, longer, EVIDENCE, **KEY)
    apart = quick["leave_one_out/log_density"] - days["leave_one_out/log_density"]
    np.testing.assert_allclose(apart, learning.unit * np.log(7.0), atol=1e-9)
    apart = float(quick["evidence/log_evidence"] - days["evidence/log_evidence"])
    assert apart == pytest.approx(learning.unit.sum() * np.log(7.0))


def test_draws_say_nearly_what_the_fit_says(data, model, draw):
    own = data("survival", 40, test_fraction=0.3)
    made = model(own, "linear(dose)", likelihood={"survival": {"scale": 0.5}})
    quick, full = fit(made, own, EVIDENCE, **KEY), summarise(made, draw(made, 40), own, **KEY)
    one, other = (tree["held_out/response_quantile"].sel(quantile=0.5) for tree in (full, quick))
    assert abs(float(np.log(one / other).mean())) < 0.3
    for group in ("held_out", "leave_one_out"):
        apart = full[f"{group}/log_density"] - quick[f"{group}/log_density"]
        assert abs(float(apart.mean())) < 0.2


def test_a_curve_is_of_medians(data, model, table):
    own = data("survival", rows=table("survival", 60)[["dose", "weeks", "died"]])
    made = model(own, "squared_exponential()")
    tree = fit(made, own, EVIDENCE, **KEY)
    curve = grid(tree, Places.of(own, np.random.default_rng(0)).grid, own)["curve"]
    assert (curve["predictive_low"] > 0.0).all()
    assert (curve["predictive_low"] < curve["low"]).all()
    assert (curve["low"] < curve["mean"]).all()
    assert (curve["mean"] < curve["high"]).all()


@pytest.mark.parametrize("law", LAWS)
def test_the_simple_model_is_a_regression_with_censoring(data, law):
    own = data("survival", 150)
    learning, held = own.learning, own.held_out
    found = {baseline.role: baseline for baseline in baselines(own, held, law)}
    for role, kept in (("simple", slice(None)), ("base", slice(0, 0))):
        X, X_new = (
            np.insert(part.X.to_numpy()[:, kept], 0, 1.0, axis=1) for part in (learning, held)
        )

        def loss(at, X=X):
            fitted = LAWS[law](X @ at[:-1], np.exp(at[-1]))
            return -seen(fitted, learning.outcome, learning.unit).mean()

        at = minimize(loss, [4.0, *[0.0] * (X.shape[1] - 1), -0.5], method="BFGS").x
        fitted = LAWS[law](X_new @ at[:-1], np.exp(at[-1]))
        expected = seen(fitted, held.outcome, held.unit)
        np.testing.assert_allclose(found[role].log_density, expected, atol=0.02)
        np.testing.assert_allclose(found[role].mean, fitted.median(), rtol=0.02)
    assert np.isnan(_error("survival", held, found["base"].mean)["error"])
    best = baselines(own, learning, law)[1].log_density
    np.testing.assert_allclose(_constant(own, law), best)
    left = _cross_validated(own, law)[1].log_density
    assert left.sum() < best.sum()


def test_calibration_allows_for_rows_not_seen_to_end():
    rng, n = np.random.default_rng(5), 4000
    time, followed = rng.standard_exponential((2, n))
    event = (time <= followed).astype(float)

    def judged(event, rate=1.0):
        y = np.minimum(time, followed)
        return pd.DataFrame({"survival": np.exp(-rate * y), "event": event})

    shares = survival_shares(judged(event))
    assert len(shares) == 4  # hardly any are followed to the last
    for one in shares:
        assert one.low - 0.01 < one.level < one.high + 0.01
    assert times_fit(judged(event))[0]
    assert not times_fit(judged(np.ones(n)))[0]  # as if all had ended
    assert not times_fit(judged(event, rate=1.2))[0]
    as_ends = survival_shares(judged(np.ones(n)))
    assert as_ends[2].low > 0.6  # half of them, if censoring is allowed for
    assert survival_shares(judged(event).head(3)) == []


def test_a_likelihood_of_other_outcomes_is_refused(data, model):
    own = data("survival")
    with pytest.raises(InputError, match="outcome that is survival; allowed: survival"):
        model(own, PLAIN, likelihood="log_normal")
    with pytest.raises(InputError, match="found event among the settings of survival"):
        model(own, PLAIN, likelihood={"survival": {"event": [1] * 32}})
    made = model(own, "linear()")
    assert (made.likelihood.name, made.likelihood.law) == ("survival", "weibull")
    level = np.log(own.learning.y.sum() / own.learning.unit.sum())
    assert made.mean.parameters["loc"] == pytest.approx(level)
