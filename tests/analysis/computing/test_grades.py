"""Ordered grades: from the words of a file to bands, calibration by grade and one probability each."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.optimize import minimize
from scipy.special import expit, logit

import gpmcflow as gp
from gpmcflow.analysis.baselines import baselines
from gpmcflow.analysis.scores import _constant, _error
from gpmcflow.analysis.summaries import predictions_of
from gpmcflow.analysis.tables import predictions
from gpmcflow.approximations.prediction import predictors
from gpmcflow.data.grades import grade_order, grades_above, grades_below
from gpmcflow.data.suggestions import suggest
from gpmcflow.errors import InputError, InputErrors
from gpmcflow.pipeline.predict import predict_file
from gpmcflow.plot.judged import grade_bins

from ..reading import text_of

PLAIN = "linear() + constant(signal_sd=2.0)"
LEVELS = ("poor", "fair", "good", "very good")


def read(run, name, **options):
    return pd.read_csv(run.folder / f"{name}.csv", **options)


@pytest.fixture(scope="module")
def done(analysis, table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("grades")
    rows = table("grades", 160)
    rows.to_csv(folder / "mine.csv", index=False)
    pd.DataFrame({"dose": [30.0, 50.0, 70.0], "arm": ["old", "new", "old"]}).to_csv(
        folder / "new.csv", index=False
    )
    made = yaml.safe_load(suggest(folder / "mine.csv", "rating").text("mine"))
    plain = {"covariance": made["models"]["plain"]["covariance"]}
    config = {**made, "quick": True, "models": {"plain": plain}}
    config.pop("priors", None)
    config["data"] |= {"new": "new.csv"}
    return folder, analysis(folder, config), rows


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        (["high", "low", "Medium"], ("low", "Medium", "high")),
        (["10", "9", "2.5"], ("2.5", "9", "10")),
        (["2 - fair", "1 - poor", "3 - good"], ("1 - poor", "2 - fair", "3 - good")),
        (["2 - fair", "1 - poor", "4 - good"], None),
        (["high", "low", "unheard of"], None),
        (["StronglyAgree", "Disagree", "Agree"], ("Disagree", "Agree", "StronglyAgree")),
        (["Average", "Fairly Low", "Very High"], ("Fairly Low", "Average", "Very High")),
        (["BACHELOR", "HIGH SCHOOL", "GRADUATE"], ("HIGH SCHOOL", "BACHELOR", "GRADUATE")),
        (["Low risk", "High risk", "Medium risk"], ("Low risk", "Medium risk", "High risk")),
        (["LowRisk", "HighTide", "MediumSize"], None),
        (["north", "south", "west"], None),
    ],
)
def test_order_of_grades(labels, order):
    assert grade_order(labels) == order


def test_words_for_some_of_the_grades():
    assert (grades_below(LEVELS, 2), grades_above(LEVELS, 2)) == ("poor", "fair or above")
    assert (grades_below(LEVELS, 3), grades_above(LEVELS, 3)) == (
        "poor or fair",
        "good or very good",
    )


def test_the_config_of_new_has_the_grades_in_order(done):
    folder, _, rows = done
    found = suggest(folder / "mine.csv", "rating")
    loaded = yaml.safe_load(found.text("mine"))
    assert tuple(loaded["data"]["levels"]) == LEVELS
    assert (loaded["data"]["outcome"], loaded["likelihood"]) == ("grades", "ordinal")
    counts = ", ".join(f"{level} {(rows['rating'] == level).sum()}" for level in LEVELS)
    assert f"rating ({counts})" in found.summary()


@pytest.mark.parametrize(
    ("change", "settings", "line"),
    [
        ({"rating": "great"}, {"levels": list(LEVELS)},
         'row 6, column rating: "great" is not among the grades; correct it, or add it at its place: levels: '
         "[poor, fair, good, very good, great]"),
        ({"rating": "great"}, {}, "data.levels: the order of the 5 grades of column rating is not known; "
         "write them from low to high: levels: [fair, good, great, poor, very good]"),
        ({"rating": ["good"] * 40}, {}, 'data.target: column rating is always "good"'),
        ({}, {"levels": ["poor", "fair", "good", "very good", "good"]}, "data.levels: found good twice"),
        ({}, {"outcome": "binary", "levels": list(LEVELS), "positive": "good"},
         "data.levels: the outcome is binary, and only grades and classes have levels"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_grades_gets_a_line(data, table, change, settings, line):
    rows = table("grades", 40)
    for name, value in change.items():
        rows[name] = value if isinstance(value, list) else rows[name].where(rows.index != 4, value)
    with pytest.raises(InputErrors) as error:
        data("grades", rows=rows, **settings)
    assert any(problem.startswith(line) for problem in error.value.problems), error.value.problems


def test_outcomes_are_places_and_the_split_halves_the_rows(data, table):
    rows = table("grades", 60)
    own = data("grades", rows=rows, test_fraction=0.0)
    places = np.array([LEVELS.index(grade) + 1.0 for grade in rows["rating"]])
    np.testing.assert_array_equal(own.learning.outcome, places)
    np.testing.assert_array_equal(own.learning.y, places)
    shares = [abs((places >= k).mean() - 0.5) for k in (2, 3, 4)]
    assert own.target.split == 2 + int(np.argmin(shares))
    turned = data("grades", rows=rows, test_fraction=0.0, levels=[*LEVELS[::-1]])
    np.testing.assert_array_equal(turned.learning.outcome, 5.0 - places)


def test_levels_that_no_row_has_are_kept(data):
    own = data("grades", levels=["awful", *LEVELS])
    assert own.target.levels == ("awful", *LEVELS)
    assert own.learning.outcome.min() >= 2.0
    density = baselines(own, own.held_out)[0].log_density
    assert np.isfinite(density).all()


def test_probabilities_are_the_average_over_draws_and_sum_to_one(done):
    _, run, _ = done
    held, levels = run.data.held_out, list(LEVELS)
    table = read(run, "predictions_test")
    found = table[[f"p_{level}" for level in levels]].to_numpy()
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-9)
    fit = gp.load_results(run.folder / "plain" / "fit.nc")
    # the actual grade's is what the score is of
    seen = found[np.arange(len(found)), held.outcome.astype(int) - 1]
    np.testing.assert_allclose(fit["held_out/log_density"], np.log(seen), atol=2e-3)
    assert list(table["grade"]) == [levels[k] for k in found.argmax(1)]
    assert list(table["outcome"]) == [levels[int(k) - 1] for k in held.outcome]
    upper = found[:, run.data.target.split - 1 :].sum(1)
    np.testing.assert_allclose(table["probability"], upper, atol=1e-9)
    assert ((table["q025"] < upper) & (upper < table["q975"])).all()


def test_probabilities_at_one_setting_by_quadrature(data, model):
    own = data("grades", 60)
    made = model(own, PLAIN).at(np.zeros(model(own, PLAIN).dim))
    (predictor,) = predictors(gp.approximate(made), n_draws=1)
    eta = predictor.moments(made.covariance_function.model.new_inputs(own.held_out.X))
    cuts = np.r_[-np.inf, made.likelihood.cutpoints, np.inf]
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    at = eta.mean[0][:, None] + np.sqrt(eta.variance[0])[:, None] * nodes
    chances = np.diff([expit(cut - at) for cut in cuts], axis=0) @ (weights / weights.sum())
    table = predictions(predictions_of(eta, own.held_out, own), own, own.held_out.row)
    np.testing.assert_allclose(table[[f"p_{level}" for level in LEVELS]].T, chances, atol=1e-4)


def test_bands_are_probabilities_that_agree_with_the_effects(done):
    _, run, _ = done
    bands = read(run, "grades", dtype={"value": str})
    np.testing.assert_allclose(bands.groupby(["column", "value"])["probability"].sum(), 1.0)
    effects = read(run, "effects", dtype={"value": str}).set_index(["column", "value"])
    upper = bands[bands["grade"].isin(LEVELS[run.data.target.split - 1 :])]
    upper = upper.groupby(["column", "value"])["probability"].sum()
    np.testing.assert_allclose(upper, effects["mean"].reindex(upper.index), atol=0.02)
    dose = bands[(bands["column"] == "dose") & (bands["grade"] == "very good")]
    assert (np.diff(dose["probability"]) > 0.0).all()


def test_the_simple_model_is_an_ordered_logit(data):
    own = data("grades", 150)
    learning, held = own.learning, own.held_out
    found = {baseline.role: baseline for baseline in baselines(own, held)}
    X, X_new = learning.X.to_numpy(), held.X.to_numpy()
    p = X.shape[1]

    def chances(at, X):
        cuts = np.cumsum([at[p], *np.exp(at[p + 1 :])])
        edges = np.vstack([expit(cut - X @ at[:p]) for cut in cuts])
        return np.diff(np.vstack([np.zeros(len(X)), edges, np.ones(len(X))]), axis=0)

    def of_seen(at, X, outcome):
        return chances(at, X)[outcome.astype(int) - 1, np.arange(len(X))]

    def loss(at):
        return -np.log(of_seen(at, X, learning.outcome)).mean() + 0.5e-3 * (at[:p] ** 2).sum()

    at = minimize(loss, [*[0.0] * p, -1.0, 0.0, 0.0], method="BFGS").x
    expected = np.log(of_seen(at, X_new, held.outcome))
    np.testing.assert_allclose(found["simple"].log_density, expected, atol=1e-4)
    np.testing.assert_array_equal(found["simple"].mean, 1 + chances(at, X_new).argmax(0))
    shares = np.bincount(learning.outcome.astype(int), minlength=5)[1:] / len(X)
    np.testing.assert_allclose(
        found["base"].log_density, np.log(shares)[held.outcome.astype(int) - 1], atol=1e-3
    )
    assert (
        _error("grades", held, found["base"].mean)["error"]
        == (held.outcome != 1 + shares.argmax()).sum()
    )
    best = np.log(shares)[learning.outcome.astype(int) - 1]
    np.testing.assert_allclose(_constant(own, "ordinal"), best, atol=1e-3)


def test_bins_by_grade_by_hand():
    judged = pd.DataFrame(
        {"outcome": ["a", "b", "a", "a"], "p_a": [0.5, 0.5, 1.0, 1.0], "p_b": [0.5, 0.5, 0.0, 0.0]}
    )
    first, second = grade_bins(judged, ["a", "b"])
    assert (first.name, first.seen, first.expected, first.low, first.high) == ("a", 3, 3.0, 2, 4)
    assert (second.seen, second.expected, second.low, second.high) == (1, 1.0, 0, 2)
    judged["outcome"] = "b"
    assert all(one.outside for one in grade_bins(judged, ["a", "b"]))


def test_sentences_of_the_report(done):
    _, run, rows = done
    text = text_of((run.folder / "report.html").read_text(encoding="utf-8"))
    upper = run.data.target.positive
    change = read(run, "relevance").set_index("column").loc["dose"]
    assert f"Rating is likelier to be {upper} as dose rises: " in text
    assert f"({100 * change['change']:.0f} points higher, 95 % interval" in text
    assert "outcome: rating, grades poor, fair, good and very good" in text
    usual = rows["rating"].value_counts().idxmax()
    assert f"; always answering “{usual}” misclassifies" in text
    assert "guessing among all four gives 25 %" in text
    assert "ordered logistic regression" in text
    assert "Are the grade probabilities calibrated?" in text
    assert "Each prediction is the most probable grade" in text


def test_predictions_of_a_file(done, monkeypatch):
    folder, run, _ = done
    monkeypatch.chdir(folder)
    told = predict_file("mine", "new.csv", "mine_new.csv")
    found, report = pd.read_csv("mine_new.csv"), read(run, "predictions_new")
    names = ["grade", *(f"p_{level}" for level in LEVELS)]
    assert list(found.columns[1:6]) == names
    np.testing.assert_allclose(found[names[1:]], report[names[1:]], rtol=1e-6)
    assert found["p_very good"].is_monotonic_increasing
    first = found.loc[0, "grade"]
    assert any(f"rating {first} ({found.loc[0, f'p_{first}']:.0%})" in line for line in told)


def test_settings_of_the_likelihood(data, model):
    own = data("grades", 40)
    made = model(own, PLAIN)
    assert (made.likelihood.n_levels, made.likelihood.link) == (4, "logit")
    assert model(own, PLAIN, likelihood={"ordinal": {"link": "probit"}}).likelihood.link == "probit"
    first = (own.learning.outcome == 1.0).mean()
    loc = model(own, "linear()").mean.parameters["loc"]
    assert loc == pytest.approx(-logit(first))
    with pytest.raises(InputError, match="found levels among the settings of ordinal"):
        model(own, PLAIN, likelihood={"ordinal": {"levels": 4}})
    with pytest.raises(InputError, match="1 cutpoints for 4 levels"):
        model(own, PLAIN, likelihood={"ordinal": {"cutpoints": [0.0]}})
    with pytest.raises(InputError, match="outcome that is grades; allowed: ordinal"):
        model(own, PLAIN, likelihood="gaussian")
