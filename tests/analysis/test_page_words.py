"""Numbers in words, at the borders where the words change."""

from __future__ import annotations

import math

import pytest

from gpmcflow.analysis.page import words
from gpmcflow.data.outcome_kinds import KINDS

S = "\u00a0"


def test_an_end_of_a_column_has_no_rounding_noise():
    assert words.ends("4.440892099e-16", "9") == ("0", "9")
    assert words.ends("-3", "1.1e-16")[1] == "0"
    assert words.ends("1e-16", "3e-16")[0] != "0"
    assert words.ends("0", "0") == ("0", "0")
    assert words.ends("2024-01-05", "2024-03-01") == ("2024-01-05", "2024-03-01")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (3.14159, "3.14"),
        (57.0, "57"),
        (2940.4, "2940"),
        (9994.0, "9990"),
        (9999.0, f"10{S}000"),
        (12345.6, f"12{S}300"),
        (1234567.0, f"1{S}230{S}000"),
        (-0.5, "−0.5"),
        (0.00012, "0.00012"),
        (1.23e-7, f"1.23{S}×{S}10⁻⁷"),
        (-2e12, f"−2{S}×{S}10¹²"),
        (0.9999, "1"),
        (math.nan, "unknown"),
    ],
)
def test_numbers_keep_three_digits_without_an_e(value, text):
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.2624, f"26{S}%"),
        (0.0, f"0{S}%"),
        (1.0, f"100{S}%"),
        (0.0004, f"<0.1{S}%"),
        (0.004, f"0.4{S}%"),
        (0.0094, f"0.9{S}%"),
        (0.0096, f"1{S}%"),
        (0.991, f"99.1{S}%"),
        (0.9996, f">99.9{S}%"),
    ],
)
def test_percent(share, text):
    assert words.percent(share) == text


def test_every_likelihood_has_words():
    names = {name for own in KINDS.values() for name in own.likelihoods}
    laws = {"weibull", "loglogistic", "lognormal"}  # of survival, which goes by them
    assert set(words.LIKELIHOODS) == names - {"survival"} | laws


def test_intervals_of_shares_name_the_sign_once():
    text = words.percent_interval(0.2624, 0.171, 0.369, first=True)
    assert text == f"26{S}% (95 % interval 17 to 37{S}%)"
    assert words.percent_range(0.0003, 0.02) == f"<0.1 to 2{S}%"


@pytest.mark.parametrize(
    ("parts", "text"),
    [  # a mean lies outside its own quantiles where nearly all draws are 1; no model gives 100 %
        ((0.9968, 0.99999, 1.0), f"99.7{S}% (99.7 to >99.9{S}%)"),
        ((1.0, 1.0, 1.0), f">99.9{S}% (>99.9 to >99.9{S}%)"),
        ((0.0, 0.0, 0.004), f"<0.1{S}% (<0.1 to 0.4{S}%)"),
    ],
)
def test_a_probability_lies_inside_its_interval_and_is_never_certain(parts, text):
    assert words.percent_interval(*parts) == text


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((1.0, 1.0, 1.0), (">99", ">99", ">99")),
        ((0.9999, 0.9971, 1.0), (">99.9", "99.7", ">99.9")),
        ((-0.998, -1.0, -0.9), ("<−99", "<−99", "−90")),
        ((0.9, 0.95, 0.99), ("90", "90", "99")),
    ],
)
def test_points_are_never_a_hundred_and_lie_inside_their_interval(parts, text):
    assert words.points_parts(*parts) == text


def test_how_much_more_likely():
    assert words.likelier(math.log(1.23), "it") == f"23{S}% more likely under it"
    assert words.likelier(math.log(1.9), "a", "b") == "nearly twice as likely under a as under b"
    assert words.likelier(math.log(2.1), "it") == "twice as likely under it"
    assert words.likelier(math.log(12.2), "it") == "12 times as likely under it"
    assert words.likelier(math.log(1.5), "a", "b") == f"50{S}% more likely under a than under b"


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.35612, 0.0151, f"0.356{S}±{S}0.015"),
        (56.02, 2.04, f"56.0{S}±{S}2.0"),
        (23.1, 11.2, f"23{S}±{S}11"),
        (0.7321, 0.0366, f"0.73{S}±{S}0.04"),
        (-1234.0, 250.0, f"−1230{S}±{S}250"),
        (9214.0, 1488.0, f"9200{S}±{S}1500"),
        (5.0, 0.0, "5"),
        (5.0, math.nan, "5"),
    ],
)
def test_errors_decide_the_digits(value, error, text):
    assert words.plus_minus(value, error) == text


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((1.412, 1.333, 1.494), "1.41 (1.33 to 1.49)"),
        ((8.46, 4.5, 16.0), "8.5 (4.5 to 16.0)"),
        ((0.012, -0.5, 0.52), "0.0 (−0.5 to 0.5)"),
        ((120.0, 60.0, 240.0), "120 (60 to 240)"),
    ],
)
def test_interval_width_decides_the_digits(parts, text):
    assert words.interval(*parts) == text


def test_points_are_whole_unless_small():
    assert words.points_parts(0.339, 0.197, 0.46, sign=True) == ("+34", "+20", "+46")
    assert words.points_parts(-0.004, -0.011, 0.003) == ("−0.4", "−1.1", "0.3")
    assert words.points_parts(0.001, -0.1, 0.1, sign=True)[0] == "0"


@pytest.mark.parametrize(
    ("difference", "state"),
    [
        (0.0, "not resolved"),
        (1.99, "not resolved"),
        (-1.99, "not resolved"),
        (2.0, "only just"),
        (-3.0, "only just"),
        (3.01, "clear"),
        (math.nan, "not resolved"),
    ],
)
def test_differences_are_resolved_from_two_standard_errors(difference, state):
    assert words.resolution(difference, 1.0) == state


def test_equal_scores_are_not_resolved_even_without_an_error():
    assert words.resolution(0.0, 0.0) == "not resolved"
    assert words.resolution(0.1, 0.0) == "clear"


@pytest.mark.parametrize(
    ("log_odds", "error", "text"),
    [
        (8.0, 0.1, f"3000{S}to{S}1"),
        (-8.0, 0.1, f"3000{S}to{S}1 the other way"),
        (1.09, 0.1, f"hardly: 3{S}to{S}1"),
        (1.2, 0.1, f"3.3{S}to{S}1"),
        (2.99, 0.1, f"20{S}to{S}1"),
        (3.0, 0.1, f"20{S}to{S}1"),
        (12.0, 0.1, f"200{S}000{S}to{S}1"),
        (4.3, 0.1, f"70{S}to{S}1"),
        (12.01, 0.1, f"e<sup>12</sup>{S}to{S}1"),
        (19.9, 0.1, f"e<sup>20</sup>{S}to{S}1"),
        (20.0, 0.1, "beyond doubt, e<sup>20</sup>"),
        (35.2, 0.1, "beyond doubt, e<sup>35</sup>"),
        (8.0, 4.1, "not resolved"),
        (0.0, 0.0, f"hardly: 1{S}to{S}1"),
    ],
)
def test_odds(log_odds, error, text):
    assert str(words.odds(log_odds, error)) == text


def test_odds_in_a_sentence():
    assert str(words.odds_phrase(8.02, 0.1)) == f"about 3000{S}to{S}1"
    assert str(words.odds_phrase(15.0, 0.1)) == f"about e<sup>15</sup>{S}to{S}1"
    assert str(words.odds_phrase(-25, 0.1)) == f"e<sup>25</sup>{S}to{S}1, beyond doubt"
    assert str(words.odds_phrase(1.0, 0.1)) == f"only about 2.7{S}to{S}1"


@pytest.mark.parametrize(
    ("log_factor", "times"),
    [
        (0.7, f"only 2{S}times"),
        (1.22, f"about 3.4{S}times"),
        (2.99, f"about 20{S}times"),
        (3.01, f"about 20{S}times"),
        (7.6, f"about 2000{S}times"),
        (13.0, f"about 440{S}000{S}times"),
    ],
)
def test_times_as_probable(log_factor, times):
    assert str(words.times_phrase(log_factor, "<b>")) == f"{times} as probable as &lt;b&gt;"


def test_times_without_doubt_are_a_power():
    assert str(words.times_phrase(20.1, "plain")) == (
        f"e<sup>20</sup>{S}times as probable as plain, beyond doubt"
    )


def test_more_probability_is_the_ratio_of_typical_probabilities():
    more, error = words.more_probability(math.log(1.23), 0.09)
    assert more == pytest.approx(23)
    assert error == pytest.approx(1.23 * 9)
    assert words.more_text(-0.11, 0.035) == f"−10.4{S}±{S}3.1"
    assert words.more_text(3.0, 0.1) == f"×{S}20"


def test_plural_counts_and_series():
    assert words.rows(1) == "1 row"
    assert words.rows(118) == "118 rows"
    assert words.rows(12500) == f"12{S}500 rows"
    assert words.count(0) == "no"
    assert words.count(12) == "twelve"
    assert words.count(13) == "13"
    assert str(words.series(["a", "b", "c"])) == "a, b and c"
    assert str(words.series(["<i>"])) == "&lt;i&gt;"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, f"1{S}s"),
        (59.4, f"59{S}s"),
        (60, f"1{S}min"),
        (192, f"3{S}min 12{S}s"),
        (3600, f"1{S}h"),
        (7500, f"2{S}h 5{S}min"),
    ],
)
def test_durations(seconds, text):
    assert words.duration(seconds) == text


def test_natural_cells():
    assert words.natural("0.40999") == "0.41"
    assert words.natural("2941.0") == "2941"
    assert words.natural("surgery") == "surgery"
    assert words.natural("2023-03-14") == "2023-03-14"


def test_an_interval_without_an_end():
    assert words.interval_parts(math.inf, 3.25, math.inf) == ("∞", "3.25", "∞")
    assert words.interval_parts(math.nan, 3.25, 4.0)[0] == "unknown"
