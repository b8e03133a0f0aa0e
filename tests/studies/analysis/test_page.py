"""The page of the three kinds of outcome: order, words of special cases, nothing from elsewhere."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pandas as pd
import pytest

from gpmcflow.errors import InputError, StorageError
from gpmcflow.studies.analysis.page import answer_of, build_page

NAMES = ["patients", "birds", "machine"]


def _text(page: str) -> str:
    """Words of the page, without style, pictures and tags."""
    page = re.sub(r"<style>.*?</style>|<svg.*?</svg>", " ", page, flags=re.S)
    page = re.sub(r"</t[dh]>", " | ", page)
    return " ".join(unescape(re.sub(r"<[^>]+>", "", page)).split())


def _edit(folder, table, change):
    frame = pd.read_csv(folder / f"{table}.csv")
    changed = change(frame)
    (frame if changed is None else changed).to_csv(folder / f"{table}.csv", index=False)


def _section(page: str, key: str) -> str:
    return _text(re.search(rf'<section id="{key}">.*?</section>', page, re.S)[0])


@pytest.mark.parametrize("name", NAMES)
def test_pages_stand_alone_and_are_the_same_each_time(finished, name):
    folder, info = finished(name)
    page = build_page(folder, info)
    assert page == build_page(folder, info)
    assert len(page.encode()) < 1_500_000
    assert not re.search(r"<script|<img|<iframe|https?:|@import|src=|onload", page)
    assert all(url.startswith("#") for url in re.findall(r"url\(([^)]*)\)", page))
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    hrefs = re.findall(r'href="#([^"]+)"', page)
    assert set(hrefs) <= set(ids)
    assert str(folder) not in page


@pytest.mark.parametrize("name", NAMES)
def test_pictures_take_their_colours_from_the_page_and_keep_text_as_text(finished, name):
    folder, info = finished(name)
    svgs = re.findall(r"<svg.*?</svg>", build_page(folder, info), re.S)
    assert len(svgs) >= 5
    for svg in svgs:
        assert not re.search(r"#[0-9a-f]{6}\b", svg)
        assert "<text" in svg
        assert re.search(r'aria-label="[^"]{10,}"', svg)
        assert "DejaVu" not in svg
        assert 'viewBox="0 0 360 ' in svg


@pytest.mark.parametrize(
    ("name", "middle"),
    [
        ("patients", ["Can the probabilities be taken at face value?", "Which columns matter?"]),
        ("birds", ["Are the counts of the right kind?", "How far does similarity reach?"]),
        ("machine", ["Do the intervals hold what they promise?", "Which columns matter?"]),
    ],
)
def test_sections_are_the_readers_questions_in_order(finished, name, middle):
    folder, info = finished(name)
    headings = re.findall(r"<h2>(.*?)</h2>", build_page(folder, info))
    assert headings == [
        *("The answer", "The picture", "How good is it?", *middle, "Which model?", "Predictions"),
        *("Can I trust the computation?", "Your data", "Did the data teach the model anything?"),
        *("Do it again", "Technical tables"),
    ]


def test_the_answer_of_patients_is_filled_from_the_tables(finished):
    folder, info = finished("patients")
    answer = _section(build_page(folder, info), "answer")
    assert "Two columns stand out: creatinine and prior admissions." in answer
    assert (
        "With creatinine at 131 instead of 57 the probability that readmitted is yes is 34 points "
        "higher (95 % interval 20 to 46), all else as it is; with prior admissions at 3 instead of 0 "
        "it is 28 points higher (17 to 39)."
    ) in answer
    assert "wrong for 32; always answering “no” is wrong for 52." in answer
    assert "Whether the model beats logistic regression (wrong for 34) is not resolved" in answer


def test_the_answer_of_birds_names_the_centres_of_the_map(finished):
    folder, info = finished("birds")
    page = build_page(folder, info)
    answer = _section(page, "answer")
    assert "The map finds two centres: near easting 8.2 km, northing 20 km with 3.1" in answer
    assert "against 1.1 on average" in answer
    assert "is resolved, but only just: it gave what was counted 23 % (± 11) more" in answer
    assert "Hatched: uncertain by more than a factor of 2." in _section(page, "picture")
    models = _section(page, "models")
    assert "not resolved §" in models
    assert "The evidence of round raised an alarm" in models
    assert "For map and trend, yes. One check failed" in _section(page, "trust")


def test_the_answer_of_machine_ranks_the_columns(finished):
    folder, info = finished("machine")
    page = build_page(folder, info)
    answer = _section(page, "answer")
    assert (
        "Five of the eight columns matter for vibration: speed (highest near 2020 rpm) most, then "
        "load (rising) and tool age (rising), less coolant (highest near 32) and feed."
    ) in answer
    assert "changes by 1.41 mm/s (95 % interval 1.33 to 1.49)" in answer
    assert "For pressure, humidity and batch no, 1200 rows reveal no influence." in answer
    assert "The model beats linear regression" in answer
    assert "0.030 (0.003 to 0.060), none seen" in _section(page, "relevance")
    assert "14 are unlike the learning data" in _section(page, "trust")


def test_no_relevant_column_is_said(finished):
    folder, info = finished("patients")
    _edit(folder, "relevance", lambda t: t.assign(change_low=-0.1, change_high=0.1, change=0.01))
    page = build_page(folder, info)
    assert "These columns do not predict the outcome readmitted" in _section(page, "answer")
    assert 'id="picture"' in page
    assert "All ten bars cross the dashes" in _section(page, "relevance")


def test_worse_than_the_base_rate_is_said(finished):
    folder, info = finished("patients")
    _edit(
        folder, "models", lambda t: t.assign(test_score=np.where(t["role"] == "model", -1, -0.68))
    )
    answer = _section(build_page(folder, info), "answer")
    assert "do not predict the outcome readmitted (the model did worse than" in answer


def test_a_better_simple_model_is_said(finished):
    folder, info = finished("machine")
    _edit(folder, "models", lambda t: t.assign(difference=-0.2, difference_se=0.04))
    answer = _section(build_page(folder, info), "answer")
    assert "Linear regression (typical error 0.585 mm/s), which is simpler, does better" in answer


def test_an_alarm_of_the_shown_model_makes_the_answer_provisional(finished):
    folder, info = finished("patients")

    def alarm(checks):
        checks["model"] = checks["model"].astype(object)
        checks["touches"] = checks["settle"] = ""
        checks.loc[0, ["model", "worst", "alarm"]] = ["relevance", 1.08, True]
        checks.loc[0, "touches"] = "every number of relevance"
        checks.loc[0, "settle"] = "gpmcflow run patients.yaml --effort 4"

    _edit(folder, "checks", alarm)
    page = build_page(folder, info)
    assert "Provisional: one check failed" in _section(page, "answer")
    trust = _section(page, "trust")
    assert "One check failed: “R-hat” of relevance is 1.08, where 1.01 is allowed." in trust
    assert "What it touches: every number of relevance. To settle it, run gpmcflow run" in trust
    assert "agreed" not in trust
    assert _section(page, "models").count("not resolved ‡") == 4


def test_one_model_has_no_odds(finished):
    folder, info = finished("patients")
    _edit(folder, "models", lambda t: t[~t["name"].isin(["smooth", "plain"])])
    models = _section(build_page(folder, info), "models")
    assert "One model was run, relevance" in models
    assert "under models: in patients.yaml" in models
    assert "odds" not in models


def test_the_evidence_may_prefer_another_model(finished):
    folder, info = finished("patients")
    _edit(
        folder, "models", lambda t: t.assign(log_evidence=t["log_evidence"].replace(-291.4, -277))
    )
    models = _section(build_page(folder, info), "models")
    assert "prefers smooth (about e6 to 1, that is 400 to 1); leave-one-out" in models
    assert "e6 = 400 to 1 the other way" in models


def test_quick_mode_says_what_was_not_checked(finished):
    folder, info = finished("patients", quick=True)
    page = build_page(folder, info)
    assert "quick: approximations only" in page
    assert "its intervals may be too narrow" in _section(page, "answer")
    assert "The full answer: gpmcflow run patients.yaml --cores 2" in _section(page, "trust")
    assert "R-hat, effective sizes" not in page


def test_leave_one_out_is_said_first_without_held_out_rows(finished):
    uses = {"learning": 588, "no outcome": 12}
    folder, info = finished(
        "patients", uses=uses, n_learning=588, n_test=0, score_by="leave-one-out", new_csv=None
    )
    (folder / "predictions_test.csv").rename(folder / "predictions_loo.csv")
    (folder / "predictions_new.csv").unlink()
    page = build_page(folder, info)
    assert "Scores by leave-one-out, because no rows were held out" in _section(page, "score")
    assert "By leave-one-out, because" in _section(page, "reliability")
    assert "gpmcflow predict patients new.csv" in _section(page, "predictions")
    assert "588 + 12 = 600." in _section(page, "data")


def test_few_held_out_rows_are_too_few_to_judge_by(finished):
    folder, info = finished("patients", n_test=20, n_learning=568)
    info["uses"] = {"learning": 568, "held out": 20, "no outcome": 12}
    _edit(folder, "predictions_test", lambda t: t.head(20))
    page = build_page(folder, info)
    assert "too few to judge by" in _section(page, "score")
    assert "20 rows are too few to judge by" in _section(page, "reliability")


def test_without_a_new_file_held_out_rows_are_shown(finished):
    folder, info = finished("machine", new_csv=None)
    predictions = _section(build_page(folder, info), "predictions")
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


def test_rows_that_do_not_add_up_are_refused(finished):
    folder, info = finished("patients")
    info["uses"] = {**info["uses"], "held out": 117}
    with pytest.raises(InputError, match="add up to 599, the file has 600"):
        build_page(folder, info)


def test_missing_tables_and_columns_are_named(finished):
    folder, info = finished("patients")
    _edit(folder, "effects", lambda t: t.drop(columns="low"))
    with pytest.raises(InputError, match=r"effects\.csv: no column 'low'"):
        build_page(folder, info)
    (folder / "models.csv").unlink()
    with pytest.raises(StorageError, match=r"models\.csv: no such file"):
        build_page(folder, info)


def test_names_from_the_file_are_escaped_everywhere(finished):
    folder, info = finished("patients")
    evil = 'a<b>&$x$"_{2}'
    for table in ("relevance", "effects", "rug", "columns"):
        _edit(folder, table, lambda t: t.assign(column=t["column"].replace("creatinine", evil)))
    info["target"] = {**info["target"], "name": "y<script>", "positive": "<yes>"}
    page = build_page(folder, info)
    assert "<script" not in page
    assert "<yes>" not in page
    assert "a<b>&" not in page
    assert "a&lt;b&gt;&amp;$x$&#34; {2}" in page


@pytest.mark.parametrize("name", NAMES)
def test_the_front_page_gets_the_answer_and_one_picture(finished, name):
    folder, info = finished(name)
    title, body = answer_of(folder, info)
    assert title == (info["title"] or "readmitted, from patients.csv")
    assert body.count('class="answer"') == 1
    assert body.count("<figure") == 1
    assert "<table" not in body
    assert body.split("</p>")[0] in build_page(folder, info)


def test_one_input_is_drawn_as_a_curve(finished):
    folder, info = finished("machine")
    x = np.linspace(800, 3200, 60)
    mean = 4.2 + 1.3 * np.exp(-(((x - 2030) / 420) ** 2))
    curve = pd.DataFrame({"value": x, "mean": mean, "low": mean - 0.1, "high": mean + 0.1})
    curve["predictive_low"], curve["predictive_high"] = mean - 0.7, mean + 0.7
    curve.to_csv(folder / "curve.csv", index=False)
    _edit(folder, "relevance", lambda t: t.head(1))
    page = build_page(folder, info)
    assert "expected vibration is highest near speed 2020 rpm, with 5.50 mm/s" in _section(
        page, "answer"
    )
    assert "Outer band: 95 % interval of one new row" in _section(page, "picture")


def test_a_flat_map_has_no_centre(finished):
    folder, info = finished("birds")
    _edit(folder, "map", lambda t: t.assign(mean=1.07, low=0.8, high=1.4, factor=1.3))
    page = build_page(folder, info)
    answer = _section(page, "answer")
    assert "is not seen to differ from place to place" in answer
    assert "centre" not in answer
    assert "Hatched" not in _section(page, "picture")


def test_trials_are_shown_as_shares(finished):
    folder, info = finished("patients", new_csv=None)
    info["target"] = {**info["target"], "name": "sprouted", "kind": "binomial", "unit": "seeds"}
    _edit(
        folder,
        "predictions_test",
        lambda t: t.assign(mean=10.0, outcome=10, q025=6, q25=8, q50=10, q75=12, q975=14),
    )
    page = build_page(folder, info)
    assert "the expected share of sprouted among seeds is 34 points higher" in _section(
        page, "answer"
    )
    assert "118 (100 %) lie inside their 95 % interval" in _section(page, "reliability")


def test_a_map_with_other_columns_shows_both(finished):
    folder, info = finished("birds")
    rows = [("easting", 1.9, 1.4, 2.5), ("tide", 2.4, 1.8, 3.2), ("cloud", 1.1, 0.8, 1.4)]
    relevance = pd.DataFrame(rows, columns=["column", "change", "change_low", "change_high"])
    relevance.assign(kind="number", low=1, high=5).to_csv(folder / "relevance.csv", index=False)
    page = build_page(folder, info)
    assert "Beside the place, tide stands out." in _section(page, "answer")
    assert "tide | 1 to 5 | 2.4 (1.8 to 3.2)" in _section(page, "relevance")
    assert "easting |" not in _section(page, "relevance")
    assert 'id="reach"' in page


def test_tables_with_a_header_only_are_no_error(finished):
    folder, info = finished("birds")
    for table in ("checks", "points", "hyperparameters", "reach"):
        _edit(folder, table, lambda t: t.head(0))
    page = build_page(folder, info)
    assert "No check applies to this run." in _text(page)
    assert 'id="learned"' not in page
    assert 'id="reach"' not in page


def test_several_failed_checks_are_counted(finished):
    folder, info = finished("birds")
    _edit(folder, "checks", lambda t: t.assign(model="map", alarm=t.index < 2))
    page = build_page(folder, info)
    assert "Provisional: two checks failed" in _section(page, "answer")
    assert "Two checks failed. “R-hat” of map is 1.01" in _section(page, "trust")
    assert "The other three checks passed." in _section(page, "trust")


def test_rows_that_leave_one_out_cannot_score_are_said(finished):
    folder, info = finished("machine")
    _edit(folder, "models", lambda t: t.assign(loo_bad_share=[0.0, 0.06, 0.05, 0, None, None]))
    models = _section(build_page(folder, info), "models")
    assert models.count("not resolved ‡") == 2  # in the table and in the text, for one model
    assert "A check of very smooth failed, or its leave-one-out cannot be relied on" in models


def test_tables_hold_the_stored_numbers(finished):
    folder, info = finished("patients")
    page = build_page(folder, info)
    assert "relevance | 55.9 ± 2.0 | 32 | −0.4 ± 1.8 |" in _section(page, "score")
    assert "base rate | 50.3 ± 1.5 | 52 | −10.4 ± 3.1 |" in _section(page, "score")
    relevance = _section(page, "relevance")
    assert "creatinine | 57 to 131 | +34 (+20 to +46) |" in relevance
    assert "ward | medicine to surgery | +8 (+1 to +16), only just |" in relevance
    assert "bmi | 21.6 to 32.6 | −5 (−15 to +4), not resolved |" in relevance
    models = _section(page, "models")
    # 470 rows: exp(7.5 / 470) is 1.6 % more, 2.2 / 470 its error
    assert "it gave them 1.6 % (± 0.5) more probability than plain" in models
    assert "plain | straight lines | +1.6 ± 0.5 | e11 = 60 000 to 1 |" in models
    assert "its lead over smooth is not resolved" in models
    data = _section(page, "data")
    assert "470 to learn from, 118 held out and 12 without an outcome" in data
    assert "470 + 118 + 12 = 600. Of the rows to learn from, 202 have “yes” and 268" in data
    assert "It has 12 columns: the outcome, 2 dropped, 9 used." in data
    predicted = pd.read_csv(folder / "predictions_new.csv").iloc[0]
    low, high = (round(100 * predicted[end]) for end in ("q025", "q975"))
    assert (
        f"P-0601 | {round(100 * predicted['probability'])} % | {low} to {high} % |"
    ) in _section(page, "predictions")
    assert "rests on the equivalent of at least 1900 independent samples" in _section(page, "trust")


def test_a_model_ahead_of_the_shown_one_is_said(finished):
    folder, info = finished("machine", shown="one_length")
    _edit(folder, "models", lambda t: t.assign(loo_difference_se=20.0))
    models = _section(build_page(folder, info), "models")
    assert "are predicted by one length" in models
    assert "predicted best" not in models
    assert "decides here" not in models
    assert "best leave-one-out" not in _section(build_page(folder, info), "score")
    assert "relevance gave them 50.7 %" in models
    assert "relevance | curves that may bend sharply | −33.6" in models
