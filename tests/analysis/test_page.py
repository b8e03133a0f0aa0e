"""The page of the three kinds of outcome: order, numbers, nothing from elsewhere."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

from gpmcflow.analysis.page import answer_of, answers, build_page
from gpmcflow.errors import InputError, StorageError

from .reading import edit, section_of

NAMES = ["patients", "birds", "machine"]


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
        ("patients", ["Are the probabilities calibrated?", "Which columns matter?"]),
        ("birds", ["Do the counts vary as the model says?", "How far does similarity reach?"]),
        ("machine", ["Are the intervals calibrated?", "Which columns matter?"]),
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
    answer = section_of(build_page(folder, info), "answer")
    assert (
        "Two of the nine columns clearly matter for readmitted, the strongest first: creatinine (rising) and "
        "prior admissions (rising); it is likely that ward matters, too. With creatinine at 131 instead of "
        "57, the probability that readmitted is yes is 34 points higher (95 % interval 20 to 46), other "
        "things equal; with prior admissions at 3 instead of 0, it is 28 points higher (17 to 39). Of all "
        "rows, 43 % are “yes”."
    ) in answer
    assert "the model misclassifies 32; always answering “no” misclassifies 52." in answer
    assert (
        "These rows cannot tell whether the model beats logistic regression (misclassifies 34)."
        in answer
    )


def test_the_answer_of_birds_names_the_centres_of_the_map(finished):
    folder, info = finished("birds")
    page = build_page(folder, info)
    answer = section_of(page, "answer")
    assert "differs from place to place. It is high in two centres: near easting 8.2 km, " in answer
    assert "against 1.1 on average" in answer
    assert "though the evidence is weak: what was counted was 23 % more likely under it." in answer
    assert "Hatched: uncertain by more than a factor of 2." in section_of(page, "picture")
    models = section_of(page, "models")
    assert "unclear §" in models
    assert "The evidence of round raised an alarm" in models
    assert (
        "Yes, except for the evidence of round. One check failed: the evidence of round raised an "
        "alarm: two ways differ by 0.9."
    ) in section_of(page, "trust")


def test_the_answer_of_machine_ranks_the_columns(finished):
    folder, info = finished("machine")
    page = build_page(folder, info)
    answer = section_of(page, "answer")
    assert (
        "Five of the eight columns clearly matter for vibration, the strongest first: speed (highest near "
        "2020 rpm), load (rising), tool age (rising), coolant (highest near 32) and one more."
    ) in answer
    assert (
        "With speed at 2940 rpm instead of 1030, the expected vibration is 1.41 mm/s higher (95 % "
        "interval 1.33 to 1.49), other things equal; with load at 36 instead of 8.4, it is 0.82 mm/s"
    ) in answer
    assert "It remains open whether pressure matters." in answer
    assert "humidity and batch no show no sign of an effect." in answer
    assert "The model beats linear regression" in answer
    assert "0.030 (0.003 to 0.060) | open | 5 %" in section_of(page, "relevance")
    assert "14 of the 200 rows in plan.csv are unlike the rows to learn" in section_of(
        page, "trust"
    )


def test_rows_that_do_not_add_up_are_refused(finished):
    folder, info = finished("patients")
    info["uses"] = {**info["uses"], "held out": 117}
    with pytest.raises(InputError, match="add up to 599, the file has 600"):
        build_page(folder, info)


def test_missing_tables_and_columns_are_named(finished):
    folder, info = finished("patients")
    edit(folder, "effects", lambda t: t.drop(columns="low"))
    with pytest.raises(InputError, match=r"effects\.csv: no column 'low'"):
        build_page(folder, info)
    (folder / "models.csv").unlink()
    with pytest.raises(StorageError, match=r"models\.csv: no such file"):
        build_page(folder, info)


def test_names_from_the_file_are_escaped_everywhere(finished):
    folder, info = finished("patients")
    evil = 'a<b>&$x$"_{2}'
    for table in ("relevance", "effects", "rug", "columns"):
        edit(folder, table, lambda t: t.assign(column=t["column"].replace("creatinine", evil)))
    info["target"] = {**info["target"], "name": "y<script>", "positive": "<yes>"}
    page = build_page(folder, info)
    assert "<script" not in page
    assert "<yes>" not in page
    assert "a<b>&" not in page
    assert "a&lt;b&gt;&amp;$x$&#34; {2}" in page


@pytest.mark.filterwarnings("ignore:Glyph")
def test_names_from_the_file_turn_no_text_around(finished):
    folder, info = finished("patients")
    evil = "cre\u202eatinine\x1b[2J"
    for table in ("relevance", "effects", "rug", "columns"):
        edit(folder, table, lambda t: t.assign(column=t["column"].replace("creatinine", evil)))
    page, (title, body) = build_page(folder, info), answer_of(folder, info)
    assert r"cre\u202eatinine\x1b[2J" in page
    for text in (page, title, body):
        assert not set(text) & {"\x1b", "\u202e"}


@pytest.mark.parametrize("name", NAMES)
def test_the_front_page_gets_the_answer_and_one_picture(finished, name):
    folder, info = finished(name)
    title, body = answer_of(folder, info)
    assert title == (info["title"] or "readmitted, from patients.csv")
    assert body.count('class="answer"') == 1
    assert body.count("<figure") == 1
    assert "<table" not in body
    assert body.split("</p>")[0] in build_page(folder, info)


def test_tables_hold_the_stored_numbers(finished):
    folder, info = finished("patients")
    page = build_page(folder, info)
    assert "relevance | 55.9 ± 2.0 | 32 | −0.4 ± 1.8 |" in section_of(page, "score")
    assert "base rate | 50.3 ± 1.5 | 52 | −10.4 ± 3.1 |" in section_of(page, "score")
    relevance = section_of(page, "relevance")
    assert "creatinine | 57 to 131 | +34 (+20 to +46) | clear | 0.01 % |" in relevance
    assert "ward | medicine to surgery | +8 (+1 to +16) | likely | 0.4 % |" in relevance
    assert "bmi | 21.6 to 32.6 | −5 (−15 to +4) | no sign | 40 % |" in relevance
    models = section_of(page, "models")
    # 470 rows: exp(7.5 / 470) is 1.6 % more, 2.2 / 470 its error
    assert "ahead of smooth, which may be chance" in models
    assert "1.6 ± 0.5 % ahead of plain" in models
    assert "plain | straight lines; yes or no, probit | +1.6 ± 0.5 | 50 000 to 1 |" in models
    data = section_of(page, "data")
    assert "470 to learn from, 118 held out and 12 without an outcome" in data
    assert "470 + 118 + 12 = 600. Of the 588 rows with an outcome, 253 have “yes” and 335" in data
    assert "It has 12 columns: the outcome, 2 dropped, 9 used." in data
    predicted = pd.read_csv(folder / "predictions_new.csv").iloc[0]
    low, high = (round(100 * predicted[end]) for end in ("q025", "q975"))
    assert (
        f"P-0601 | {round(100 * predicted['probability'])} % | {low} to {high} % |"
    ) in section_of(page, "predictions")
    trust = section_of(page, "trust")
    assert "each parameter has draws worth at least 1900 independent ones" in trust


def test_the_first_page_lists_all_analyses_of_the_folder(finished, tmp_path):
    """Those of the config first; one that cannot be read keeps its link."""
    results = tmp_path / "results"
    for name in (*NAMES, "old"):
        folder, info = finished("birds" if name == "old" else name)
        info = {"csv": "old.csv"} if name == "old" else info
        (folder / "info.json").write_text(json.dumps(info), encoding="utf-8")
        (folder / "report.html").write_text("", encoding="utf-8")
        results.mkdir(exist_ok=True)
        folder.rename(results / name)
    listed = list(answers({"analyses": {"machine": None}}, tmp_path))
    assert [link.partition("/")[0] for _, link, _ in listed] == [
        "machine",
        "birds",
        "old",
        "patients",
    ]
    titles = {link: (title, html) for title, link, html in listed}
    assert titles["old/report.html"] == ("old", "")
    assert "<svg" in titles["patients/report.html"][1]
