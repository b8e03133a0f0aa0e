"""What the page says of models by their evidence: who is favoured, by how much, and where it says nothing."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from gpmcflow.analysis.page import build_page

from .made_up_evidence import ALARM, PLAIN, RELEVANCE, SMOOTH, ladder_of, rough
from .reading import edit, section_of, text_of


def evidence_rows(page: str) -> list[list[str]]:
    """Cells of the table of evidences."""
    tables = re.findall(r"<table>.*?</table>", page, re.S)
    (table,) = (table for table in tables if "complexity*" in table)
    return [
        [cell.strip() for cell in text_of(row).split("|")][:-1]
        for row in re.findall(r"<tr.*?</tr>", table, re.S)[1:]
    ]


def number(cell: str) -> float:
    return float(re.search(r"[−-]?[\d.]+", cell)[0].replace("−", "-"))


def test_the_favoured_model_is_named_with_by_how_much(compared):
    page = compared(RELEVANCE, SMOOTH, PLAIN)
    models = section_of(page, "models")
    assert (
        "By the evidence the data favour relevance: it is about 1100 times as probable as smooth "
        "and e51 times "
        "as probable as plain, beyond doubt."
    ) in models
    assert "all 470 rows together before it saw any; leave-one-out asks how well" in models
    assert "rough" not in models
    assert "‡" not in models
    assert "odds" not in models
    assert "best settings" not in models


def test_the_table_is_in_the_order_of_the_evidence_the_favoured_first(compared):
    """Fails where the order of rows, the accent and the sentence disagree with the numbers."""
    page = compared(RELEVANCE, SMOOTH, PLAIN)
    rows = evidence_rows(page)
    assert [row[0] for row in rows] == ["relevance", "smooth", "plain"]
    values = [number(row[1]) for row in rows]
    assert values == sorted(values, reverse=True)
    assert rows[0][1:] == [
        "−283.40 ± 0.10",
        "−250.1",
        "33.3",
        ">99.9 % (99.8 to >99.9 %)",
    ]
    assert rows[1][4] == "<0.1 % (<0.1 to 0.1 %)"
    assert rows[2][1] == "−334.30 ± 0.01"  # no error is said to be zero
    same = ("smooth", -290.4, 0.1, -262.1, 28.3, -7.0, 0.211, 0.209, 0.213, "worse")
    assert evidence_rows(compared(RELEVANCE, same))[1][4] == "21 %"
    for row, (_, value, _, fit, complexity, *_) in zip(
        rows, (RELEVANCE, SMOOTH, PLAIN), strict=True
    ):
        shown = [number(cell) for cell in row[1:4]]
        np.testing.assert_allclose(shown, [value, fit, complexity], atol=0.051)
    best = re.findall(r'<tr class="best">.*?</tr>', page, re.S)
    assert any("−283.4" in row and "relevance" in row for row in best)


def test_models_that_cannot_be_told_apart_are_not_ordered(compared):
    smooth = ("smooth", -283.5, 0.1, -262.1, 21.4, -0.1, 0.47, 0.42, 0.52, "not resolved")
    plain = ("plain", -284.1, 0.01, -276.1, 8.0, -0.7, 0.26, 0.22, 0.3, "no preference")
    models = section_of(compared(RELEVANCE, smooth, plain), "models")
    assert "relevance and smooth cannot be told apart by the evidence." in models
    assert "leans towards relevance, which is only 2 times as probable as plain." in models
    assert "favour" not in models


def test_a_factor_is_said_with_its_size(compared):
    smooth = ("smooth", -284.9, 0.1, -262.1, 22.8, -1.5, 0.18, 0.15, 0.21, "worse")
    models = section_of(compared(RELEVANCE, smooth), "models")
    assert "it is about 4.5 times as probable as smooth." in models


def test_a_rough_evidence_claims_no_order(compared):
    page = compared((*SMOOTH[:5], 0.0, 0.99, 0.98, 1.0, "best"), PLAIN, rough(RELEVANCE))
    models = section_of(page, "models")
    assert "By the evidence the data favour smooth" in models
    assert not re.search(r"times as probable as relevance|favour relevance", models)
    assert (
        "The evidence of relevance is rough, and it has no place in the order; for a better one write "
        "evidence: {route: auto} in patients.yaml, and gpmcflow check patients.yaml tells what that costs."
    ) in models
    rows = evidence_rows(page)
    assert [row[0] for row in rows] == ["smooth", "plain", "relevance"]
    assert rows[2][1] == "about −283 ‡"
    assert rows[2][4] == ""
    assert ALARM in section_of(page, "technical")


def test_a_number_that_says_nothing_is_not_shown(compared):
    for error in (15180.0, np.nan):
        lost = rough(("relevance", 14873.9, error, -290.9, -15164.9))
        rows = evidence_rows(compared((*SMOOTH[:5], 0.0, 0.99, 0.98, 1.0, "best"), PLAIN, lost))
        assert rows[2] == ["relevance", "unknown ‡", "−291", "", ""]


def test_two_models_of_which_one_is_rough_are_not_compared(compared):
    page = compared((*SMOOTH[:5], *(np.nan,) * 5), rough(RELEVANCE))
    models = section_of(page, "models")
    assert "is rough, and no order is claimed from it" in models
    assert not re.search(r"favour|times as probable|told apart by|leans towards", models)
    assert [row[4] for row in evidence_rows(page)] == ["", ""]
    assert not re.search(r'<tr class="best">(?:(?!</tr>).)*−290', page, re.S)


def test_rough_evidences_that_one_thing_settles_are_said_once(compared):
    models = section_of(compared(PLAIN, rough(RELEVANCE), rough(SMOOTH)), "models")
    assert (
        "The evidence of relevance and smooth is rough, and no order is claimed from them" in models
    )
    assert models.count("route: auto") == 1


def test_another_model_may_be_favoured_than_the_one_that_predicts_best(compared):
    best = ("smooth", -280.4, 0.1, -250.1, 30.3, 0.0, 0.95, 0.93, 0.97, "best")
    behind = ("relevance", -283.4, 0.1, -250.1, 33.3, -3.0, 0.05, 0.03, 0.07, "worse")
    models = section_of(compared(best, behind), "models")
    assert "favour smooth: it is about 20 times as probable as relevance." in models
    assert "This page shows relevance all the same, for its predictions." in models


def test_hyperpriors_stand_beside_the_table(compared):
    models = section_of(compared(RELEVANCE, SMOOTH), "models")
    assert "The hyperpriors are part of the models" in models
    assert "length scale 0.14 to 7.1 (relevance); variance 0.14 to 7.1." in models


def test_hyperpriors_of_all_terms_are_said_once(compared):
    def terms(table):
        smooth = table[table["model"] == "smooth"]
        more = smooth.assign(parameter="ward.length_scale[ward]")
        wider = smooth.assign(parameter="matern32.length_scale", prior_q975=20.0)
        return pd.concat([table, more, wider])

    page = section_of(compared(RELEVANCE, SMOOTH, change=("hyperparameters", terms)), "models")
    assert (
        "length scale 0.14 to 7.1; variance 0.14 to 7.1; length scale 0.14 to 20 (smooth)." in page
    )


def test_a_doubtful_evidence_does_not_make_the_answer_provisional(finished):
    folder, info = finished("patients")

    def alarm(checks):
        checks["model"] = checks["model"].astype(object)
        checks["touches"] = checks["settle"] = checks["reason"] = ""
        checks.loc[len(checks)] = [
            *("evidence, alarms", "relevance", 0, 1, True, "little overlap"),
            *("only its place by the evidence", "write evidence: {route: auto} in the config"),
        ]

    edit(folder, "checks", alarm)
    page = build_page(folder, info)
    assert "Provisional" not in section_of(page, "answer")
    assert "‡" not in section_of(page, "models")
    trust = section_of(page, "trust")
    assert (
        "Yes, except for the evidence of relevance. One check failed: the evidence of relevance raised "
        "an alarm: little overlap. It touches only its place by the evidence. To settle it: write evid"
    ) in trust


def test_a_ladder_is_drawn_with_both_its_ends(compared):
    bridged = compared(RELEVANCE, SMOOTH)
    assert "inverse temperature" not in bridged
    page = compared(RELEVANCE, SMOOTH, ladder=ladder_of(reference=-301.0))
    (picture,) = (svg for svg in re.findall(r"<svg.*?</svg>", page, re.S) if "inverse temp" in svg)
    assert "relevance: u, nats" in picture
    assert "u, the log of the joint density" in re.search(r'aria-label="([^"]*)"', picture)[1]
    assert not re.search(r"#[0-9a-f]{6}\b", picture)
    assert "−301" not in picture  # near the ladder it is a point as any other
    far = compared(RELEVANCE, SMOOTH, ladder=ladder_of(reference=-5400.0))
    (picture,) = (svg for svg in re.findall(r"<svg.*?</svg>", far, re.S) if "inverse temp" in svg)
    assert "−5400" in picture  # at the edge, with its mean
    assert not re.search(r">−[1-9]\d\d\d\.?\d*<", picture.replace("−5400", ""))


def test_quick_mode_says_that_the_evidence_is_at_the_maximum(finished):
    folder, info = finished("patients", quick=True)
    models = section_of(build_page(folder, info), "models")
    assert (
        "It favours models with more settings somewhat, as it is not averaged over them." in models
    )
    assert "odds by the evidence" in models
    assert "leave-one-out, at each model’s best settings" in models


def test_quick_mode_says_that_it_averages_over_settings(finished):
    folder, info = finished("patients", quick=True)

    def averaged(models):
        models["evidence_averaged"] = True
        models["settings"], models["ep_error"] = 31, 0.02
        models["settings_effective"], models["settings_k"] = 60.0, 0.2

    edit(folder, "models", averaged)
    page = build_page(folder, info)
    models, trust = section_of(page, "models"), section_of(page, "trust")
    assert "averaged over its settings as its priors weigh them" in models
    assert "leave-one-out, hyperparameters averaged over" in models
    assert "best settings" not in page
    assert "too narrow" not in trust
    assert "averages over 31 settings" in trust
    assert "changes the probability of the data by 2 %" in trust
    assert "by an approximation that the full run does without" in section_of(page, "answer")
