"""Counts with more zeros than a negative binomial law has."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import yaml

from gpmcflow.data.suggestions import suggest
from gpmcflow.data.zeros import excess_zeros

RNG = np.random.default_rng(8)
N = 300


def counts(share, size=3.0, mean=6.0, exposure=1.0):
    drawn = RNG.negative_binomial(size, size / (size + mean * exposure), N)
    return np.where(RNG.random(N) < share, 0, drawn).astype(float)


def test_the_share_of_zeros_of_another_kind():
    assert excess_zeros(counts(0.35), np.ones(N)) == pytest.approx(0.35, abs=0.1)
    exposure = RNG.uniform(0.5, 4.0, N)
    assert excess_zeros(counts(0.35, exposure=exposure), exposure) == pytest.approx(0.35, abs=0.1)


def test_overdispersion_alone_is_no_excess():
    """Half of these rows are zeros; one file in a hundred would be taken wrongly."""
    found = [excess_zeros(counts(0.0, size=0.4, mean=2.0), np.ones(N)) for _ in range(20)]
    assert found.count(None) >= 18
    assert excess_zeros(np.full(N, 3.0), np.ones(N)) is None
    assert excess_zeros((RNG.random(N) < 0.1).astype(float), np.ones(N)) is None


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_new_adds_a_model_with_the_covariance_of_the_plain_one(tmp_path, share):
    rows = {"dose": RNG.normal(size=N).round(2), "age": RNG.normal(size=N).round(2)}
    frame = pd.DataFrame({**rows, "visits": counts(share).astype(int)})
    frame.to_csv(tmp_path / "file.csv", index=False)
    found = suggest(tmp_path / "file.csv", "visits")
    text = found.text("own")
    config = yaml.safe_load(text)
    assert config["likelihood"] == "negative_binomial"
    assert ("zeros" in config["models"]) == (share > 0.0)
    if share:
        plain = config["models"]["plain"]["covariance"]
        assert config["models"]["zeros"] == {"covariance": plain, "likelihood": "zero_inflated"}
        assert f"# About {found.zeros:.0%} of the rows are zeros beyond a negative binomial" in text
