"""The sentence of a report on quick answers, from a certificate in its folder."""

from __future__ import annotations

import pandas as pd
import pytest

from gpmcflow.certificate.quick_answers import (
    certified_digest,
    is_of_predictor,
    quick_answers_in_words,
)
from gpmcflow.storage import write_csv

STATEMENT = {"covariance": "matern32(rain)", "likelihood": "gaussian"}


@pytest.fixture
def table(tmp_path):
    frame = pd.DataFrame({
        "model": "curve", "certified": certified_digest("abc", STATEMENT),
        "quantity": ["sd", "predictor, mean over rows", "predictor of row 0", "log evidence"],
        "quick_median": [3.0, 0.1, 0.1, 9.0], "quick_worst": [4.0, 0.2, 0.4, 9.0],
        "quick_data_sets": 20,
    })  # fmt: skip
    write_csv(frame, tmp_path / "certificate.csv")
    return tmp_path / "certificate.csv"


@pytest.mark.parametrize(
    ("quantity", "told"),
    [
        ("predictor, mean over rows", True),
        ("contrast[1]: predictor of row 9", True),
        ("predictor, high less low a: b", True),
        ("length_scale[predictor]", False),  # of a column of that name
        ("log likelihood", False),
    ],
)
def test_quantities_of_the_predictor_are_known_by_their_names(quantity, told):
    assert is_of_predictor(quantity) is told


def test_the_predictor_is_told(table):
    assert quick_answers_in_words(table, "abc", STATEMENT) == (
        "Quick answers to data like yours were off by 0.1 sd in the median, 0.4 in the worst of 20."
    )


@pytest.mark.parametrize(
    ("checksum", "statement"), [("other data", STATEMENT), ("abc", STATEMENT | {"priors": {}})]
)
def test_other_data_and_other_models_have_no_sentence(table, checksum, statement):
    assert quick_answers_in_words(table, checksum, statement) == ""


def test_without_a_certificate_there_is_none(tmp_path):
    assert quick_answers_in_words(tmp_path / "certificate.csv", "abc", STATEMENT) == ""


def test_a_certificate_of_quick_answers_has_none(table):
    frame = pd.read_csv(table).drop(columns=["quick_median", "quick_worst", "quick_data_sets"])
    write_csv(frame, table)
    assert quick_answers_in_words(table, "abc", STATEMENT) == ""
