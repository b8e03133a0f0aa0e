"""What is said of a curve, by its shape within the learning rows."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from gpmcflow.analysis.page import build_page
from gpmcflow.analysis.page.columns import shape_of

from .reading import edit, section_of

X = np.linspace(0.0, 10.0, 41)


def curve_of(mean, half=0.5) -> pd.DataFrame:
    return pd.DataFrame({"value": X, "mean": mean, "low": mean - half, "high": mean + half})


@pytest.mark.parametrize(
    ("mean", "half", "trend", "places"),
    [
        (X, 0.5, "rising", {}),
        (-X, 0.5, "falling", {}),
        (np.where(X < 9.5, 0.0, 2.0), 0.5, "rising", {}),  # late, with no place that stands out
        (4 - (X - 5) ** 2 / 10, 0.5, "", {"highest": 5.0}),
        ((X - 2.5) ** 2 / 5, 0.3, "rising", {"lowest": 2.5}),
        (np.sin(2 * np.pi * X / 10), 0.2, "", {"highest": 2.5, "lowest": 7.5}),
        (0.2 * np.sin(X), 0.5, "", {}),  # flat within its band
        (3 * np.sin(np.pi * X / 4) + 0.1 * X, 0.3, "", {"lowest": 6.0}),
        (X + 2 * np.sin(np.pi * X), 0.2, "rising", {"highest": 8.5, "lowest": 1.5}),
    ],
)
def test_the_shape_of_a_curve(mean, half, trend, places):
    found, rows = shape_of(curve_of(mean, half))
    assert found == trend
    assert {side: row["value"] for side, row in rows.items()} == places


def test_wide_ends_do_not_hide_a_change_in_between():
    wide = 0.2 + 3 * (np.abs(X - 5) > 4.5)
    trend, rows = shape_of(curve_of(np.sin(2 * np.pi * X / 10), wide))
    assert trend == ""
    assert {side: row["value"] for side, row in rows.items()} == {"highest": 2.5, "lowest": 7.5}


def answer_to(finished, curve: pd.DataFrame, **facts) -> str:
    """The answer of a page with this curve as its only input, seen from 1 to 9."""
    folder, info = finished("machine")
    info |= facts
    curve = curve.assign(predictive_low=curve["low"] - 1, predictive_high=curve["high"] + 1)
    curve.to_csv(folder / "curve.csv", index=False)
    edit(folder, "relevance", lambda t: t.head(1))
    ends = curve["value"].iloc[[36, 16, 4]]
    rug = pd.DataFrame({"column": "speed", "value": ends, "outcome": 4.0})
    rug.to_csv(folder / "rug.csv", index=False)
    return section_of(build_page(folder, info), "answer")


def test_only_places_within_the_data_are_quoted(finished):
    answer = answer_to(finished, curve_of((X - 5) ** 2 / 5))
    assert "vibration is lowest near speed 5 rpm, with 0.0 mm/s (95 % interval" in answer
    assert "At 1 it is 3.2 mm/s (2.7 to 3.7), at 9 it is 3.2 mm/s" in answer


def test_highest_and_lowest_are_both_said(finished):
    answer = answer_to(finished, curve_of(4 * np.sin(np.pi * (X - 1) / 4), 0.2))
    assert "is highest near speed 3 rpm, with 4.00 mm/s (95 % interval 3.80 to 4.20)" in answer
    assert ", and lowest near 7 rpm, with −4.00 mm/s (−4.20 to −3.80). At 1 it is" in answer


def test_a_trend_with_a_season_rises(finished):
    answer = answer_to(finished, curve_of(X + 2 * np.sin(np.pi * X), 0.2))
    assert "vibration rises with speed. At 1 it is 1.00 mm/s (95 % interval 0.80 to 1.20)" in answer
    assert "In between it is highest near 8.5 rpm, with 10.50 mm/s (10.30 to 10.70), and" in answer


def test_days_are_told_by_their_month(finished):
    days = pd.date_range("2015-01-01", periods=41, freq="33D").strftime("%Y-%m-%d")
    folder, info = finished("machine")
    curve = curve_of(4 * np.sin(np.pi * (X - 1) / 4), 0.2).assign(value=days)
    curve = curve.assign(predictive_low=curve["low"] - 1, predictive_high=curve["high"] + 1)
    curve.to_csv(folder / "curve.csv", index=False)
    edit(folder, "relevance", lambda t: t.head(1))
    rug = pd.DataFrame({"column": "speed", "value": days[[4, 20, 36]], "outcome": 4.0})
    rug.to_csv(folder / "rug.csv", index=False)
    page = build_page(folder, info)
    answer = section_of(page, "answer")
    assert "is highest near speed 2016-02," in answer
    assert ", and lowest near 2017-07," in answer
    assert "At 2015-05 it is" in answer
    assert "at 2018-04 it is" in answer
    assert len(set(re.findall(r">\s*(201\d-\d\d)\s*<", page))) >= 2


def test_a_flat_curve_does_not_clearly_change(finished):
    answer = answer_to(finished, curve_of(0.2 * np.sin(X)))
    assert "vibration does not clearly change with speed. At 1 it is" in answer
    assert "In between" not in answer


def yearly(values, months) -> pd.DataFrame:
    mean = 10.0 - 5.0 * np.cos(
        2.0 * np.pi * (np.asarray(months) - 1.0) / 12.0
    )  # lowest in February
    return pd.DataFrame({"value": values, "mean": mean, "low": mean - 0.5, "high": mean + 0.5})


def test_a_season_is_told_by_its_months(finished):
    months = np.arange(120)
    season = {"column": "speed", "period": 1.0, "name": "year"}
    rounded = np.round(1950.0 + months / 12.0, 3)  # as files have them: 1950.083
    curve = yearly(rounded, months)
    answer = answer_to(finished, curve, season=season)
    assert (
        "vibration repeats every year: on average it is highest in August, with 15.0 mm/s" in answer
    )
    assert (
        "(95 % interval 14.5 to 15.5), and lowest in February, with 5.0 mm/s (4.5 to 5.5)" in answer
    )
    assert "Apart from the season it does not clearly change." in answer
    assert " near " not in answer
    risen = curve.assign(**{name: curve[name] + months / 10 for name in ("mean", "low", "high")})
    answer = answer_to(finished, risen, season=season)
    assert "Apart from the season it rises: from" in answer
    days = pd.Timestamp("1950-01-01") + pd.to_timedelta(30.4375 * months + 15, unit="D")
    dates = yearly(days.strftime("%Y-%m-%d"), months)
    season |= {"period": 365.25}
    assert "highest in August" in answer_to(finished, dates, season=season)
    flat = dates.assign(low=0.0, high=20.0)
    answer = answer_to(finished, flat, season=season)
    assert "vibration repeats every year of speed." in answer
    assert "August" not in answer


def test_the_table_of_columns_tells_a_season_by_its_months(finished):
    """Not as a rise from one year to another, which the answer denies."""
    folder, info = finished("machine")
    info["season"] = {"column": "speed", "period": 1.0, "name": "year"}
    edit(folder, "relevance", lambda t: t.assign(low="1922.083", high="1937.571811").head(1))
    relevance = section_of(build_page(folder, info), "relevance")
    assert "| speed | February to July |" in relevance
    assert "1922" not in relevance
    info["season"]["name"] = ""
    assert "1922" in section_of(build_page(folder, info), "relevance")


def test_months_that_cannot_be_told_apart_are_a_range(finished):
    """A winter as cold in December as in February, over the end of the year."""
    months = np.arange(120)
    mean = np.where(np.isin(months % 12, [11, 0, 1]), 2.0, np.where(months % 12 == 6, 9.0, 5.0))
    curve = pd.DataFrame({"value": np.round(1950 + months / 12, 3), "mean": mean})
    curve = curve.assign(low=mean - 0.5, high=mean + 0.5)
    season = {"column": "speed", "period": 1.0, "name": "year"}
    answer = answer_to(finished, curve, season=season)
    assert "it is highest in July, with 9.0 mm/s" in answer
    assert "and lowest from December to February, with 2.0 mm/s" in answer
    pair = curve.assign(**{n: curve[n] + 4.0 * (months % 12 == 5) for n in ("mean", "low", "high")})
    assert "highest in June and July" in answer_to(finished, pair, season=season)


def test_a_season_of_the_week_is_told_by_its_days(finished):
    days = pd.date_range("2024-01-01", periods=70)  # a Monday
    mean = np.where(days.day_of_week == 6, 3.0, 1.0) - (days.day_of_week == 2)
    curve = pd.DataFrame({"value": days.strftime("%Y-%m-%d"), "mean": mean})
    curve = curve.assign(low=mean - 0.1, high=mean + 0.1)
    season = {"column": "speed", "period": 7.0, "name": "week"}
    answer = answer_to(finished, curve, season=season)
    assert "highest on Sundays, with 3.00" in answer
    assert "lowest on Wednesdays, with 0.00" in answer
    season = {"column": "speed", "period": 9.0, "name": ""}
    assert "repeats every 9 of speed" in answer_to(finished, curve, season=season)


def test_what_a_page_warns_of_stands_first_and_a_season_that_is_left_is_told(finished):
    left = {"column": "speed", "period": 365.25, "name": "year"}
    leak = {"column": "run_no", "in_order": True}
    answer = answer_to(finished, curve_of(X), left_over=left, leak=leak)
    assert answer.index("Check the column run no") < answer.index("The expected vibration")
    assert "leave it out (drop: [run_no]) and run again" in answer
    assert "still repeats every year of speed" in answer
    assert "add periodic(speed, period=365.25) to its covariance" in answer
    assert "it follows the order of the file and almost determines" in answer
    answer = answer_to(finished, curve_of(X), leak=leak | {"in_order": False})
    assert (
        "Check the column run no: alone it almost determines vibration. If it is made from"
        in answer
    )


def test_several_explanations_have_a_curve_and_a_share_each(finished):
    folder, info = finished("machine")
    assert "explanations of these rows" not in build_page(folder, info)
    words = "92 % with slower change, more noise; 8 % with faster change, less noise"
    parts = [
        pd.DataFrame({"column": "speed", "value": X, "by": share, "mean": mean})
        for share, mean in (("92 %", 0.1 * X), ("8 %", np.sin(X)))
    ]
    table = pd.concat(parts).assign(low=-2.0, high=2.0, in_words=words)
    table.to_csv(folder / "explanations.csv", index=False)
    page = build_page(folder, info)
    told = f"Two explanations of these rows are left: {words}."
    assert told in section_of(page, "picture").replace("\u00a0", " ")
    assert all(f">{share}\u00a0%<" in page for share in (92, 8))  # beside the lines
