"""What the page says when something is missing, failed, or unlike the usual."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from gpmcflow.analysis.page import build_page
from gpmcflow.storage import write_csv

from .reading import edit, section_of, text_of

NAMES = ["patients", "birds", "machine"]


def test_no_relevant_column_is_said(finished):
    folder, info = finished("patients")
    edit(folder, "relevance", lambda t: t.assign(chance=0.3))
    page = build_page(folder, info)
    together = (
        "Together the columns predict readmitted better than the average, but no single one shows"
    )
    assert together in section_of(page, "answer")
    assert 'id="picture"' in page
    assert section_of(page, "relevance").count(" | no sign | 30 % |") == 8
    edit(folder, "models", lambda t: t.assign(unseen_difference=np.nan))
    alone = section_of(build_page(folder, info), "answer")
    assert "No single column shows a clear effect on readmitted." in alone


def test_an_effect_is_told_by_grades_and_its_chance_is_shown(finished):
    """Of eight columns: 0.1 % counts as 0.8 %, 0.5 % as 4 %; 3.4 % alone is a sign, 6 % leaves it open."""
    folder, info = finished("machine")
    chances = [0.001, 0.005, 0.034, 0.06, 0.2, 0.3, 0.42, 1.0]
    edit(folder, "relevance", lambda t: t.assign(chance=chances))
    page = build_page(folder, info)
    grades = [*("clear | 0.1 %", "likely | 0.5 %", "weak sign | 3.4 %", "open | 6 %")]
    relevance = section_of(page, "relevance")
    assert [relevance.count(f"| {grade} |") for grade in grades] == [1] * 4
    answer = section_of(page, "answer")
    assert "One of the eight columns clearly matters" in answer
    assert "it is likely that" in answer
    names = pd.read_csv(folder / "relevance.csv")["column"].str.replace("_", " ").tolist()
    assert f"There is a weak sign that {names[2]} matters, too." in answer
    assert f"It remains open whether {names[3]} matters." in answer
    edit(folder, "relevance", lambda t: t.assign(chance=[0.001, 0.06, 0.09, *[0.4] * 5]))
    answer = section_of(build_page(folder, info), "answer")
    assert f"It remains open whether {names[1]} and {names[2]} matter." in answer
    assert "weak sign" not in answer
    assert "no sign of an effect" not in answer  # five are too many to name
    edit(folder, "relevance", lambda t: t.assign(chance=[0.001] * 5 + [0.099, 0.1, 0.7]))
    answer = section_of(build_page(folder, info), "answer")
    assert f"It remains open whether {names[5]} matters." in answer
    assert f"{names[6]} and {names[7]} show no sign of an effect." in answer
    edit(folder, "relevance", lambda t: t.assign(chance=[0.034, *[0.5] * 7]))
    answer = section_of(build_page(folder, info), "answer")
    assert f"There is a weak sign that {names[0]} matters." in answer
    assert "No single column" not in answer


NOTHING = "so nothing below should be read as an effect."


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scored", [0.0, -0.3])
def test_a_model_no_better_than_the_average_says_so_and_lists_no_column(finished, name, scored):
    folder, info = finished(name)
    own = {"base_difference": scored, "base_difference_se": 0.1}
    unseen = {"unseen_difference": 0.05, "unseen_difference_se": 0.06}
    edit(folder, "models", lambda t: t.assign(**own, **unseen))
    page = build_page(folder, info)
    answer, target = section_of(page, "answer"), info["target"]["name"]
    said = "worse" if scored else "no better"
    assert answer.startswith(f"The answer The model predicts {target} {said} than ")
    assert NOTHING in answer
    assert not re.search(r"matter|differs from place|likely that|no sign of", answer)
    if name != "birds":
        assert section_of(page, "relevance").count(" | no sign | ") == 8
        assert "counts as an effect" in section_of(page, "relevance")
    better = {"base_difference": 0.0, "unseen_difference": 0.07}
    chance = {"evidence_beyond": 5.4, "evidence_limit": 5.5}  # of a quick fit
    edit(folder, "models", lambda t: t.assign(**better, **chance))
    assert NOTHING not in section_of(build_page(folder, info), "answer")
    kept = (folder / "relevance.csv").read_text()
    edit(folder, "relevance", lambda t: t.assign(chance=0.3))
    assert NOTHING in section_of(build_page(folder, info), "answer")
    edit(folder, "models", lambda t: t.assign(evidence_beyond=5.6))
    assert NOTHING not in section_of(build_page(folder, info), "answer")
    (folder / "relevance.csv").write_text(kept)
    answer = section_of(build_page(folder, info), "answer")
    assert NOTHING not in answer
    if name != "birds":  # an effect that is clear stays so
        assert "clearly matter" in answer
        assert "average, these rows cannot tell" in answer
        edit(folder, "relevance", lambda t: t.assign(chance=[0.004, *[0.5] * (len(t) - 1)]))
        answer = section_of(build_page(folder, info), "answer")
        assert answer.startswith("The answer These rows cannot tell whether the model predicts")
        assert "It is likely that" in answer
        assert "matters." in answer
        assert "clearly matter" not in answer
        assert section_of(build_page(folder, info), "relevance").count("| likely | 0.4 % |") == 1


def test_a_better_simple_model_is_said(finished):
    folder, info = finished("machine")
    edit(folder, "models", lambda t: t.assign(difference=-0.2, difference_se=0.04))
    answer = section_of(build_page(folder, info), "answer")
    simpler = "Linear regression (typical error 0.585 mm/s), which is simpler, beats the model"
    assert simpler in answer


@pytest.mark.parametrize(("straight", "open_"), [(0.004, True), (0.006, False)])
def test_straight_lines_that_are_not_ruled_out_leave_a_column_open(finished, straight, open_):
    folder, info = finished("patients")  # of nine columns a chance of 0.0056 is likely

    def slope(relevance):
        relevance.loc[relevance["column"].isin(["bmi", "ward"]), "straight"] = straight

    edit(folder, "relevance", slope)
    page = build_page(folder, info)
    relevance = section_of(page, "relevance")
    said = "bmi remains open, as straight lines, which these rows do not rule out, show an effect."
    assert (said in relevance) == open_
    assert "ward remains" not in relevance  # which has an effect anyway
    assert ("It remains open whether smoker and bmi matter." in section_of(page, "answer")) == open_
    assert ("It remains open whether smoker matters." in section_of(page, "answer")) != open_


def test_models_of_which_no_draws_were_made_are_named(finished):
    """They have the word of their first fits: in the comparison, and for their scores."""
    folder, info = finished("patients")
    of_draws = ["chains", "draws", "r_hat", "ess_bulk", "ess_tail", "acceptance"]

    def out(models, *names):
        own = models["name"].isin(names)
        models["ruled_out"] = own
        models.loc[own, of_draws] = np.nan

    edit(folder, "models", lambda models: out(models, "smooth"))
    page = build_page(folder, info)
    compared = section_of(page, "models")
    assert "No draws were made of smooth: first fits of all models leave no doubt that" in compared
    assert "What it says of it comes from that fit. For draws of every model write" in compared
    assert "sampling: {every_model: true} in patients.yaml." in compared
    assert " ¶ |" in compared
    assert "¶ By first fits of both this model and relevance." in compared
    assert "Scores of smooth are of first fits." in section_of(page, "score")
    assert "at least 1900 independent ones." in section_of(page, "trust")
    others = ("smooth", "plain")
    edit(folder, "models", lambda models: out(models, *others))
    info["choice"] = {"by": "first fits", "among": [], "without": [], "ruled_out": list(others)}
    compared = section_of(build_page(folder, info), "models")
    assert "This page shows relevance, the only model that is left." in compared
    assert (
        "that this page would not show them. What it says of them comes from those fits."
        in compared
    )


def test_an_alarm_of_the_shown_model_makes_the_answer_provisional(finished):
    folder, info = finished("patients")

    def alarm(checks):
        checks["model"] = checks["model"].astype(object)
        checks["touches"] = checks["settle"] = ""
        checks.loc[0, ["model", "worst", "alarm"]] = ["relevance", 1.08, True]
        checks.loc[0, "touches"] = "every number of relevance"
        checks.loc[0, "settle"] = "gpmcflow run patients.yaml --effort 4"

    edit(folder, "checks", alarm)
    page = build_page(folder, info)
    assert "Provisional: one check failed" in section_of(page, "answer")
    trust = section_of(page, "trust")
    assert "One check failed: “R-hat” of relevance is 1.08; the limit is 1.01." in trust
    assert "It touches every number of relevance. To settle it, run gpmcflow run" in trust
    assert "agree" not in trust
    models = section_of(page, "models")
    assert models.count("unclear ‡") == 2
    assert "its comparison with smooth ‡ and plain ‡ is unclear" in models


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (
            "simplicity",
            "cannot tell it from relevance, and none of them has fewer hyperparameters to learn.",
        ),
        (
            "evidence",
            "leave-one-out cannot tell it from relevance (one standard error), and its evidence",
        ),
        ("leave-one-out", "every other model is more than one standard error behind it."),
        ("convergence", "the only model whose draws passed their checks."),
    ],
)
def test_the_page_says_why_a_model_is_shown(finished, by, said):
    folder, info = finished("patients")
    choice = {"by": by, "among": ["plain", "relevance"], "without": ["smooth"]}
    page = build_page(folder, {**info, "shown": "plain", "choice": {"name": "plain", **choice}})
    models = section_of(page, "models")
    assert "This page shows plain" in models
    assert said in models
    excluded = "The draws of smooth failed a check, so they do not count here."
    assert (excluded in models) == (by != "convergence")
    assert "This page shows plain (“Which model?” says why)." in section_of(page, "score")


def test_an_evidence_with_an_alarm_is_not_said_to_have_had_a_say(finished):
    folder, info = finished("patients")
    choice = {"name": "plain", "by": "simplicity", "among": ["plain", "relevance"], "without": []}
    info = {**info, "shown": "plain", "choice": choice}
    known, unknown = "the evidence (a factor of three)", "The evidence has no say"
    models = section_of(build_page(folder, info), "models")
    assert known in models
    assert unknown not in models
    edit(
        folder,
        "models",
        lambda t: t.assign(evidence_alarm=t["name"].eq("plain").map({True: "alarm"})),
    )
    models = section_of(build_page(folder, info), "models")
    assert known not in models
    assert unknown in models


def test_a_lead_between_one_and_two_standard_errors_may_be_chance(finished):
    """Such a lead chooses the shown model, so that it is no tie."""
    folder, info = finished("patients")

    def lead(models):
        of = models.set_index("name").index
        models.loc[of == "smooth", ["loo_difference", "loo_difference_se"]] = [-8.0, 8.0 / 1.5]
        models.loc[of == "plain", ["loo_difference", "loo_difference_se"]] = [-7.5, 9.0]

    edit(folder, "models", lead)
    models = section_of(build_page(folder, info), "models")
    assert re.search(r"ahead of smooth, which may be chance", models)
    assert "cannot be told apart from smooth" not in models


@pytest.mark.parametrize(
    ("errors", "said"),
    [(1.5, "ahead of plain, both of which may be chance"), (2.5, "ahead of plain, both on weak")],
)
def test_leads_that_are_alike_are_doubted_once(finished, errors, said):
    folder, info = finished("patients")
    edit(
        folder,
        "models",
        lambda t: t.assign(loo_difference=t["loo_difference"].mask(t["name"] == "smooth", -8.0)),
    )
    edit(folder, "models", lambda t: t.assign(loo_difference_se=t["loo_difference"].abs() / errors))
    models = section_of(build_page(folder, info), "models")
    assert said in models
    assert "ahead of smooth and" in models


def test_one_model_has_no_odds(finished):
    folder, info = finished("patients")
    edit(folder, "models", lambda t: t[~t["name"].isin(["smooth", "plain"])])
    models = section_of(build_page(folder, info), "models")
    assert (
        "One model was run, relevance (curves, own weight for each column; yes or no, probit)"
        in models
    )
    assert "under models: in patients.yaml" in models
    assert "odds" not in models


def test_models_with_one_covariance_are_told_apart_by_their_likelihoods(finished):
    folder, info = finished("machine")
    likelihoods = ["student_t", "gaussian", *["gaussian"] * 4]
    edit(folder, "models", lambda t: t.assign(likelihood=likelihoods, covariance="matern32(speed)"))
    page = build_page(folder, info)
    technical = section_of(page, "technical")
    assert "matern32(speed); errors with heavy tails, Student-t" in technical
    assert technical.count("matern32(speed); normal errors") == 3
    assert "curves that may bend sharply; errors with heavy tails, Student-t" in section_of(
        page, "models"
    )


def test_the_evidence_may_prefer_another_model(finished):
    folder, info = finished("patients")
    edit(folder, "models", lambda t: t.assign(log_evidence=t["log_evidence"].replace(-291.4, -277)))
    choice = {"by": "leave-one-out", "among": [], "without": []}
    models = section_of(build_page(folder, {**info, "choice": choice}), "models")
    assert "prefers smooth (about 600 to 1); this page goes by leave-one" in models
    assert "| 600 to 1 the other way" in models


def test_quick_mode_says_what_was_not_checked(finished):
    folder, info = finished("patients", quick=True)
    page = build_page(folder, info)
    assert "quick: approximations only" in page
    assert "its intervals may be too narrow" in section_of(page, "answer")
    run = "For the full answer run gpmcflow run patients.yaml; "
    full = f"{run}take quick: true out of the file if it is there."
    assert full in section_of(page, "trust")
    assert "R-hat, effective sizes" not in page


@pytest.mark.parametrize(("check", "what"), [("R-hat", "for"), ("evidence", "the evidence of")])
def test_a_quick_page_with_an_alarm_is_no_surer_than_without(finished, check, what):
    folder, info = finished("patients", quick=True)
    assert "Only roughly: this is a quick run." in section_of(build_page(folder, info), "trust")
    edit(folder, "checks", lambda t: t.assign(
        check=check, model="plain", alarm=t.index == 0, reason="", touches="", settle=""))  # fmt: skip
    trust = section_of(build_page(folder, info), "trust")
    assert f"Only roughly, and not {what} plain: this is a quick run. One check failed" in trust
    assert "yes" not in trust.lower()


def test_a_column_with_a_curve_has_no_slope_on_the_page(finished):
    """Its slope is what the curve leaves of it, often nothing; a mean that no term moves is none, too."""
    folder, info = finished("patients")
    rows = [("intercept", "intercept", 0.3, 0.0), ("bmi", "slope", 0.0, 0.2), ("age", "slope", 0.7, 0.1),
            ("sd(bmi)", "sd", 1.1, 1e-17), ("share(bmi)", "share", 0.9, 0.1),
            ("share(linear(age))", "share", 0.0001, 0.0)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["name", "kind", "mean", "sd"]).assign(low=-1.0, high=1.0)
    table.to_csv(folder / "coefficients.csv", index=False)
    page = build_page(folder, info)
    said = section_of(page, "coefficients")
    assert "age | 0.7 | 0.1 | −1 to 1 |" in said
    assert "sd(bmi) | 1.1 | | at its best value |" in said
    assert "intercept |" not in said
    assert " bmi |" not in said
    assert "A column with a curve has no single slope" in said
    assert "linear(age) &lt;0.1" in page  # escaped once
    table[table["name"] != "sd(bmi)"].to_csv(folder / "coefficients.csv", index=False)
    straight = section_of(build_page(folder, info), "coefficients")
    assert " bmi | 0" in straight
    assert "sd(..)" in said
    assert "sd(..)" not in straight


def test_a_quick_page_is_made_again_by_a_quick_run(finished):
    again = section_of(build_page(*finished("patients", quick=True)), "again")
    assert "gpmcflow check patients.yaml --quick gpmcflow run patients.yaml --quick" in again
    assert "--quick" not in section_of(build_page(*finished("patients")), "again")
    several = finished("patients", quick=True, yaml="several.yaml")  # allows no --quick
    assert "--quick" not in section_of(build_page(*several), "again")


def test_leave_one_out_is_said_first_without_held_out_rows(finished):
    uses = {"learning": 588, "no outcome": 12}
    folder, info = finished(
        "patients", uses=uses, n_learning=588, n_test=0, score_by="leave-one-out", new_csv=None
    )
    (folder / "predictions_test.csv").rename(folder / "predictions_loo.csv")
    (folder / "predictions_new.csv").unlink()
    page = build_page(folder, info)
    assert "Because no rows were held out, each of the 588 rows" in section_of(page, "score")
    assert "By leave-one-out, because" in section_of(page, "reliability")
    assert "gpmcflow predict patients new.csv" in section_of(page, "predictions")
    assert "588 + 12 = 600." in section_of(page, "data")


@pytest.mark.parametrize(
    ("held_out", "said"),
    [(True, "the scores are for new rows of a known one"), (False, "the scores are for a new one")],
)
def test_scores_are_said_to_be_of_known_or_of_new_groups(finished, held_out, said):
    groups = [{"name": "doctor", "held_out": held_out, "left_out": True}]
    folder, info = finished("patients", groups=groups)
    page = build_page(folder, info)
    assert said in section_of(page, "score")
    assert "with the same doctor" in section_of(page, "score")
    assert ("unlike those of the rows held out" in page) is not held_out
    info["groups"] = []
    assert "with the same" not in section_of(build_page(folder, info), "score")


def test_errors_are_compared_only_where_the_model_has_one(finished):
    folder, info = finished("machine", score_by="leave-one-out")
    assert "typical error" in section_of(build_page(folder, info), "score")
    edit(folder, "models", lambda t: t.assign(error=t["error"].where(t["role"] != "model")))
    page = build_page(folder, info)
    assert "The model beats linear regression: what was measured was" in section_of(page, "answer")
    assert "typical error" not in section_of(page, "answer") + section_of(page, "score")


def test_few_held_out_rows_are_too_few_to_judge_by(finished):
    folder, info = finished("patients", n_test=20, n_learning=568)
    info["uses"] = {"learning": 568, "held out": 20, "no outcome": 12}
    edit(folder, "predictions_test", lambda t: t.head(20))
    page = build_page(folder, info)
    assert "These are too few to tell" in section_of(page, "score")
    assert "20 rows are too few to tell" in section_of(page, "reliability")


@pytest.mark.parametrize(
    ("outcome", "said"),
    [(0, "None of the 118 rows held out is “yes”"), (1, "All 118 rows held out are “yes”")],
)
def test_held_out_rows_of_one_class_judge_nothing(finished, outcome, said):
    folder, info = finished("patients")
    probability = abs(outcome - np.linspace(0.001, 0.02, 118))
    edit(
        folder,
        "predictions_test",
        lambda t: t.assign(outcome=outcome, mean=probability, probability=probability),
    )
    page = build_page(folder, info)
    answer = section_of(page, "answer")
    assert f"{said}, so they cannot show how well the model tells “yes” from “no”." in answer
    assert "misclassifies" not in answer
    assert f"{said}, so this cannot be judged." in section_of(page, "reliability")
    assert "Yes, as far as" not in section_of(page, "reliability")
    edit(folder, "predictions_test", lambda t: t.assign(probability=0.5))
    reliability = section_of(build_page(folder, info), "reliability")
    assert "Not quite." in reliability
    assert "to rank rows" not in reliability  # one class ranks nothing


def test_without_a_new_file_held_out_rows_are_shown(finished):
    folder, info = finished("machine", new_csv=None)
    predictions = section_of(build_page(folder, info), "predictions")
    assert "First 5 of 300 rows held out." in predictions
    assert "gpmcflow predict machine new.csv -o predictions.csv" in predictions


def test_shared_pages_have_no_ids_and_no_single_rows(finished):
    for name in NAMES:
        folder, info = finished(name)
        open_page = build_page(folder, info)
        page = build_page(folder, {**info, "share": True})
        assert len(page) < len(open_page)
        assert "First 5" not in page
        assert "P-06" not in page
        assert "Each tick is a row" not in page
        assert "Dots: the" not in page
        assert "Measured against predicted" not in page
        assert "geriatrics" not in page
    assert "P-06" in build_page(*finished("patients"))


def test_one_input_is_drawn_as_a_curve(finished):
    folder, info = finished("machine")
    x = np.linspace(800, 3200, 60)
    mean = 4.2 + 1.3 * np.exp(-(((x - 2030) / 420) ** 2))
    curve = pd.DataFrame({"value": x, "mean": mean, "low": mean - 0.1, "high": mean + 0.1})
    curve["predictive_low"], curve["predictive_high"] = mean - 0.7, mean + 0.7
    curve.to_csv(folder / "curve.csv", index=False)
    edit(folder, "relevance", lambda t: t.head(1))
    page = build_page(folder, info)
    assert "expected vibration is highest near speed 2020 rpm, with 5.50 mm/s" in section_of(
        page, "answer"
    )
    assert "Outer band: 95 % interval of one new row" in section_of(page, "picture")


def test_a_flat_map_has_no_centre(finished):
    folder, info = finished("birds")
    edit(folder, "relevance", lambda t: t.assign(chance=0.2))
    assert "shows no clear differences from place" in section_of(build_page(folder, info), "answer")
    edit(folder, "map", lambda t: t.assign(mean=1.07, low=0.8, high=1.4, factor=1.3))
    edit(folder, "relevance", lambda t: t.assign(chance=0.0))
    page = build_page(folder, info)
    answer = section_of(page, "answer")
    assert "shows no clear differences from place to place: it is 1.1 on average." in answer
    assert "centre" not in answer
    assert "Hatched" not in section_of(page, "picture")


def test_trials_are_shown_as_shares(finished):
    folder, info = finished("patients", new_csv=None)
    info["target"] = {**info["target"], "name": "sprouted", "kind": "binomial", "unit": "seeds"}
    edit(
        folder,
        "predictions_test",
        lambda t: t.assign(mean=10.0, outcome=10, q025=6, q25=8, q50=10, q75=12, q975=14),
    )
    page = build_page(folder, info)
    assert "the expected share of sprouted among seeds is 34 points higher" in section_of(
        page, "answer"
    )
    assert "118 (100 %) lie inside their 95 % interval" in section_of(page, "reliability")


@pytest.mark.parametrize(
    ("in_95", "in_50", "said"),
    [
        (30, 9, "The 50 % intervals are too narrow."),
        (30, 28, "The 50 % intervals are too wide."),
        (22, 15, "The 95 % intervals are too narrow."),
        (22, 5, "The intervals are too narrow."),
        (22, 22, "95 % intervals are too narrow. The 50 % intervals are too wide."),
    ],
)
def test_intervals_that_fail_are_too_narrow_or_too_wide_by_their_own_count(
    finished, in_95, in_50, said
):
    folder, info = finished("machine", uses={"learning": 1470, "held out": 30}, n_test=30)
    row = np.arange(30)
    outcome = np.select([row < in_50, row < in_95], [0.0, 1.5], 9.0)
    limits = {"q025": -2.0, "q25": -1.0, "q50": 0.0, "q75": 1.0, "q975": 2.0}
    edit(folder, "predictions_test", lambda t: t.head(30).assign(outcome=outcome, **limits))
    text = section_of(build_page(folder, info), "reliability")
    assert "Not quite." in text
    assert said in text
    assert text.count("intervals are") == said.count("intervals are")


def test_a_map_with_other_columns_shows_both(finished):
    folder, info = finished("birds")
    rows = [
        ("tide", "number", 1, 5, 2.4, 1.8, 3.2, 0.001, np.nan),
        ("cloud", "number", 1, 5, 1.1, 0.8, 1.4, 0.5, np.nan),
    ]

    def others(relevance):
        return pd.concat([relevance, pd.DataFrame(rows, columns=relevance.columns)])

    edit(folder, "relevance", others)
    page = build_page(folder, info)
    assert "Besides location, tide matters." in section_of(page, "answer")
    assert "tide | 1 to 5 | 2.4 (1.8 to 3.2)" in section_of(page, "relevance")
    assert "location | 28, 2 to 8, 20 | 3.1 (2.2 to 4.4)" in section_of(page, "relevance")
    assert 'id="reach"' in page


def test_a_page_opens_with_the_map_only_where_place_matters_more_than_the_columns(finished):
    folder, info = finished("birds")
    x = np.linspace(1.0, 5.0, 14)
    curve = pd.DataFrame({"column": "tide", "value": x, "mean": x, "low": x - 0.2, "high": x + 0.2})
    curve.to_csv(folder / "effects.csv", index=False)

    def with_tide(relevance, place_chance):
        row = ("tide", "number", 1, 5, 4.4, 2.8, 5.2, 0.001, np.nan)
        both = pd.concat([pd.DataFrame([row], columns=relevance.columns), relevance])
        return both.assign(chance=[0.001, place_chance])

    edit(folder, "relevance", lambda t: with_tide(t, 0.001))
    page = build_page(folder, info)
    answer = section_of(page, "answer")
    assert answer.startswith("The answer tide (rising) clearly matters for count.")
    assert "Location matters too." in answer
    picture = section_of(page, "picture")
    assert picture.index("when one column is set") < picture.index(
        "Hatched"
    )  # the map comes second
    edit(folder, "relevance", lambda t: with_tide(t[t["column"] != "tide"], 0.3))
    page = build_page(folder, info)
    assert "Location shows no sign of an effect." in section_of(page, "answer")
    assert "Hatched" not in section_of(page, "picture")


def test_tables_with_a_header_only_are_no_error(finished):
    folder, info = finished("birds")
    for table in ("checks", "points", "hyperparameters", "reach"):
        edit(folder, table, lambda t: t.head(0))
    page = build_page(folder, info)
    assert "No check applies to this run." in text_of(page)
    assert 'id="learned"' not in page
    assert 'id="reach"' not in page


def test_several_failed_checks_are_counted(finished):
    folder, info = finished("birds")
    edit(folder, "checks", lambda t: t.assign(model="map", alarm=t.index < 2))
    page = build_page(folder, info)
    assert "Provisional: two checks failed" in section_of(page, "answer")
    assert "Two checks failed. “R-hat” of map is 1.01; the limit" in section_of(page, "trust")
    assert "The other three checks passed." in section_of(page, "trust")


def test_rows_that_leave_one_out_cannot_score_are_said(finished):
    folder, info = finished("machine")
    edit(folder, "models", lambda t: t.assign(loo_bad_share=[0.0, 0.06, 0.05, 0, None, None]))
    models = section_of(build_page(folder, info), "models")
    assert models.count("unclear ‡") == 1
    assert "its comparison with very smooth ‡ is unclear" in models
    assert "A check of very smooth failed, or its leave-one-out is unreliable for more" in models


def test_a_model_ahead_of_the_shown_one_is_said(finished):
    folder, info = finished("machine", shown="one_length")
    edit(folder, "models", lambda t: t.assign(loo_difference_se=20.0))
    models = section_of(build_page(folder, info), "models")
    assert "one length is shown" in models
    assert "does best" not in models
    assert "this page goes by" not in models
    assert "best leave-one-out" not in section_of(build_page(folder, info), "score")
    assert "50.7 ± 2.5 % behind relevance" in models
    assert "relevance | curves that may bend sharply; normal errors | −33.6" in models


def test_similarity_may_reach_farther_than_any_two_places_are_apart(finished):
    folder, info = finished("birds")
    edit(folder, "reach", lambda frame: frame.assign(distance=float("inf"), high=float("inf")))
    assert "∞" in section_of(build_page(folder, info), "reach")


def test_a_reach_at_one_setting_has_no_interval(finished):
    """As in a quick run of many rows, which keeps the hyperparameters at their best values."""
    folder, info = finished("birds")
    assert "95 % interval" in section_of(build_page(folder, info), "reach")
    edit(folder, "reach", lambda frame: frame.assign(low=frame.distance, high=frame.distance))
    reach = section_of(build_page(folder, info), "reach")
    assert "interval" not in reach
    assert "at the settings that fit best" in reach


def test_where_similarity_never_fades_its_reach_is_not_told(finished):
    folder, info = finished("birds")
    edit(folder, "reach", lambda frame: frame.assign(distance=np.inf, low=np.inf, high=np.inf))
    assert 'id="reach"' not in build_page(folder, info)


def test_one_length_scale_for_both_directions_is_never_stretched(finished):
    folder, info = finished("birds")
    assert "The intervals overlap, so the reach" in section_of(build_page(folder, info), "reach")
    quick = section_of(build_page(folder, {**info, "quick": True}), "reach")
    assert "intervals" not in quick  # one setting of the length scales: no intervals
    edit(folder, "reach", lambda frame: frame.assign(distance=8.5, low=4.5, high=16.0))
    assert "intervals" not in section_of(build_page(folder, info), "reach")


def test_a_unit_is_text_and_no_markup(finished):
    folder, info = finished("machine")
    info["units"] = {**info["units"], "speed": "<u>{l}"}
    curve = pd.DataFrame({"value": np.linspace(800.0, 2500.0, 9)})
    mean = 5.0 - ((curve["value"] - 1600.0) / 400.0) ** 2
    curve = curve.assign(mean=mean, low=mean - 0.1, high=mean + 0.1)
    curve.assign(predictive_low=mean - 1, predictive_high=mean + 1).to_csv(
        folder / "curve.csv", index=False
    )
    edit(folder, "relevance", lambda t: t[t["column"] == "speed"])
    page = build_page(folder, info)
    assert "<u>" not in page
    assert "<u>{l}" in section_of(page, "answer")  # its text


def counted(page) -> int:
    """Columns that are used, as "Your data" says."""
    return int(re.search(r"(\d+) used\.", text_of(page))[1])


def test_what_holds_rows_out_is_no_column_that_is_used(finished):
    folder, info = finished("patients")
    before = counted(build_page(folder, info))

    def held_out(columns):
        last = columns.index[~columns["done"].str.startswith(("dropped", "the outcome"))][-1]
        columns.loc[last, "done"] = "not an input: it chooses the rows held out"

    edit(folder, "columns", held_out)
    assert counted(build_page(folder, info)) == before - 1


def test_levels_that_are_numbers_are_levels_and_days_have_their_own_ticks(finished):
    folder, info = finished("machine")
    first, second = pd.read_csv(folder / "effects.csv")["column"].unique()[:2]

    def levels(effects):
        part = effects["column"] == first
        effects["value"] = effects["value"].astype(str)
        effects.loc[part, "value"] = [f"{90210 + 7 * k}" for k in range(part.sum())]
        part = effects["column"] == second
        days = pd.date_range("2024-03-01", periods=part.sum(), freq="D")
        effects.loc[part, "value"] = days.strftime("%Y-%m-%d")

    edit(folder, "effects", levels)
    edit(folder, "rug", lambda t: t[~t["column"].isin([first, second])])
    plain = build_page(folder, info)
    edit(
        folder,
        "relevance",
        lambda t: t.assign(kind=t["kind"].where(t["column"] != first, "category")),
    )
    page = build_page(folder, info)
    assert ">90210<" in re.sub(r"\s", "", page)
    assert ">90210<" not in re.sub(r"\s", "", plain)  # a tick of a line is at a round number
    assert len(set(re.findall(r">\s*(0[34].\d\d)\s*<", page))) >= 3  # days, and no month alone


def together_of(folder, *sets):
    """Write the table of sets of columns: names, whether they go with each other, chance."""
    rows = [(json.dumps(names), int(alike), 0.2, 0.1, 0.3, chance) for names, alike, chance in sets]
    names = ["columns", "alike", "change", "change_low", "change_high", "chance"]
    write_csv(pd.DataFrame(rows, columns=names), folder / "together.csv")


def test_columns_that_matter_together_are_told_in_all_sections(finished):
    """None is clear, three share an effect: headline, table and slopes agree."""
    folder, info = finished("patients")
    edit(folder, "relevance", lambda t: t.assign(chance=0.3))
    names = [*pd.read_csv(folder / "relevance.csv")["column"]]
    together_of(folder, (names[:3], True, 1e-3), (names, False, 0.2))
    slopes = [(name, "slope", 0.1, 0.2, -0.3, 0.5) for name in names[:3]]
    head = ["name", "kind", "mean", "sd", "low", "high"]
    write_csv(pd.DataFrame(slopes, columns=head), folder / "coefficients.csv")
    page = build_page(folder, info)
    answer = section_of(page, "answer")
    three = "creatinine, prior admissions and ward"
    said = (
        f"Together, {three} clearly matter for readmitted, but these rows do not clearly tell which"
    )
    assert said in answer
    assert "no single one" not in answer
    assert "From low to high values" not in answer  # ward has none
    relevance = section_of(page, "relevance")
    assert relevance.count("| only together | 30 % |") == 3
    assert "creatinine and two more together" in relevance
    assert "| clear | 0.1 % |" in relevance
    assert f"{three} share an effect" in section_of(page, "coefficients")
    together_of(folder, (["creatinine", "bmi", "age"], True, 1e-3))
    answer = section_of(build_page(folder, info), "answer")
    assert "From low to high values of them, the probability" in answer
    assert "is 20 points higher (95 % interval 10 to 30), other things equal." in answer


@pytest.mark.parametrize(
    ("chance", "likely", "said"),
    [
        (0.005, [], "Together, the nine columns clearly matter for readmitted"),
        (0.03, [], "Together, the nine columns are likely to matter for readmitted"),
        (0.03, [0.004], "It is likely that creatinine matters."),
        (0.2, [], "Together the columns predict readmitted better than the average"),
    ],
)
def test_all_columns_matter_together_where_none_does_alone(finished, chance, likely, said):
    folder, info = finished("patients")
    chances = [*likely, *[0.3] * (9 - len(likely))]
    edit(folder, "relevance", lambda t: t.assign(chance=chances))
    together_of(folder, ([*pd.read_csv(folder / "relevance.csv")["column"]], False, chance))
    answer = section_of(build_page(folder, info), "answer")
    assert said in answer
    assert answer.count("likely") == (1 if chance == 0.03 else 0)


def test_one_sentence_tells_what_is_clear_and_what_matters_beside_it(finished):
    folder, info = finished("machine")
    edit(folder, "relevance", lambda t: t.assign(chance=[0.001, 0.005, *[0.4] * 6]))
    names = [*pd.read_csv(folder / "relevance.csv")["column"]]
    second = names[1].replace("_", " ")
    answer = section_of(build_page(folder, info), "answer")
    assert re.search(
        rf"clearly matters for [^.]*; it is likely that {second} matters, too\.", answer
    )
    together_of(folder, (names[2:4], True, 1e-4), (names[1:], False, 1e-4))
    answer = section_of(build_page(folder, info), "answer")
    both = " and ".join(name.replace("_", " ") for name in names[2:4])
    assert re.search(
        rf"clearly matters for [^.]*; together, {both} clearly matter, too, but", answer
    )
    assert f"It is likely that {second} matters." in answer


def test_an_effect_that_is_seen_stands_before_the_doubt_about_predictions(finished):
    folder, info = finished("patients")
    edit(folder, "relevance", lambda t: t.assign(chance=0.3))
    together_of(folder, ([*pd.read_csv(folder / "relevance.csv")["column"]], False, 0.005))
    edit(folder, "models", lambda t: t.assign(unseen_difference=0.015, unseen_difference_se=0.01))
    answer = section_of(build_page(folder, info), "answer")
    effect = answer.index("Together, the nine columns clearly matter")
    assert effect < answer.index("Whether this makes predictions of readmitted better")


def test_nothing_matters_together_where_nothing_is_learnt(finished):
    folder, info = finished("patients")
    edit(folder, "relevance", lambda t: t.assign(chance=0.3))
    together_of(folder, ([*pd.read_csv(folder / "relevance.csv")["column"]], False, 0.005))
    edit(folder, "models", lambda t: t.assign(base_difference=-0.3, base_difference_se=0.1))
    answer = section_of(build_page(folder, info), "answer")
    assert NOTHING in answer
    assert "Together" not in answer
