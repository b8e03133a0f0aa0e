"""An effect that repeats is looked at in the parts of its cycles, and told by them."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from gpmcflow.analysis.seasons import season_of, times_in_cycles

from ..reading import section_of

TERMS = "squared_exponential({0}, name='trend') + periodic({0}, period={1}) + linear(x)"


def monthly(n=96, seed=0):
    """Highest in July, lowest in January, beside a column that matters."""
    rng, month = np.random.default_rng(seed), np.arange(n)
    x = rng.normal(size=n).round(3)
    y = 8.0 * np.cos(2 * np.pi * (month - 6) / 12) + x + 0.3 * rng.normal(size=n)
    years = np.round(1950.0 + month / 12, 3)
    return pd.DataFrame({"year": years, "x": x, "yield": y.round(2)})


def test_times_are_those_of_the_rows_where_each_month_has_one(data, model):
    own = data("real", rows=monthly(), test_fraction=0.0)
    season = season_of(model(own, TERMS.format("year", "1")), own)
    assert (season["column"], season["name"]) == ("year", "year")
    assert season["period"] == pytest.approx(1.0)
    expected = np.array([1950, 1954, 1957])[:, None] + np.arange(12) / 12
    np.testing.assert_allclose(times_in_cycles(own, season), expected.ravel(), atol=6e-4)
    assert season_of(model(own, "matern32()"), own) is None
    short = data("real", rows=monthly(30), test_fraction=0.0)
    assert len(times_in_cycles(short, season)) == 0


def test_times_are_the_middles_of_parts_that_have_many_rows(data, model):
    days = pd.Timestamp("2024-01-03") + pd.to_timedelta(np.arange(0, 30, 0.25), unit="D")
    rows = monthly(120).drop(columns="year").assign(day=days.strftime("%Y-%m-%d"))
    rows["day"] = days.strftime("%Y-%m-%d %H:%M")
    own = data("real", rows=rows, test_fraction=0.0)
    season = season_of(model(own, TERMS.format("day", "7")), own)
    assert season["name"] == "week"
    dates = pd.to_datetime(times_in_cycles(own, season) + own.encoding.code("day").origin, unit="D")
    assert [*dates.day_of_week] == [*range(7)] * 3
    assert [*dates.hour] == [12] * 21
    assert dates.min() == pd.Timestamp("2024-01-08 12:00")  # a Monday


def test_a_season_beside_another_column_is_told_by_its_months(analysis, tmp_path):
    monthly().to_csv(tmp_path / "file.csv", index=False)
    models = {"seasons": {"covariance": TERMS.format("year", "1")}}
    stated = {"csv": "file.csv", "target": "yield", "test_by": "year"}
    done = analysis(tmp_path, {"data": stated, "models": models, "quick": True, "seed": 1})
    page = (done.folder / "report.html").read_text(encoding="utf-8")
    assert "(repeats every year, highest in July, lowest in January)" in section_of(page, "answer")
    relevance = section_of(page, "relevance")
    assert re.search(r"\| year \| (January to July|July to January) \|", relevance)
