"""The examples at small sizes: what they are about shows."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return importlib.import_module


def test_a_season_is_forecast(example):
    series = example("time_series")
    tree, forecast, data, months = series.fit(years=6, draws=80, chains=1, ahead=1)
    held = data[data.year >= 6].y.to_numpy()
    mean = forecast.response_mean.values
    assert len(held) == len(months) == len(mean) == 12
    assert np.corrcoef(mean, held)[0, 1] > 0.85  # without the periodic part it is near 0
    assert 0.1 < float(tree.posterior["noise_sd"].mean()) < 0.5
    assert set(tree.posterior) >= {"trend.length_scale", "season.signal_sd", "short.length_scale"}


def test_a_map_is_found_behind_exposures(example):
    counts = example("counts_with_exposure")
    tree, found, _, places = counts.fit(n=100, draws=80, chains=1, side=8)
    exact = counts.TRUTH["mean"] + counts.true_map(places.east, places.north)
    log_rate = np.log(found.response_mean.values)
    assert (
        abs(np.mean(log_rate - exact)) < 0.3
    )  # the rate of one person-year, whatever the exposures
    assert np.corrcoef(log_rate, exact)[0, 1] > 0.6
    assert 1.0 < float(tree.posterior["size"].mean()) < 10.0


def test_outliers_bend_the_curve_under_gaussian_noise_only(example):
    outliers = example("outliers")
    fits, _, x = outliers.fit(n=60, draws=80, chains=1, points=21)
    errors = {name: outliers.error(found, x) for name, (_, found) in fits.items()}
    assert errors["Student-t"] < 0.12
    assert errors["Gaussian"] > 2.0 * errors["Student-t"]


def test_models_are_compared_in_words(example):
    comparison = example("model_comparison")
    models = comparison.disasters()
    few = {name: models[name] for name in ("one rate", "smooth")}
    table = comparison.compare(few, seed=0, draws=100)
    words = comparison.told(table)
    assert table.index[0] == "smooth"
    assert "favour 'smooth'" in words
    assert (
        "Worse: 'one rate' (by 28." in words
    )  # -208.14, by a one-dimensional integral, and -179.89
    assert comparison.stable([table, table]) == "the same order at 2 seeds"
    turned = table.iloc[::-1]
    assert "'smooth' and 'one rate' (28." in comparison.stable([table, turned])
