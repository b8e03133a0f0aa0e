"""Laws beside the first one: zeros of another kind, successes that vary more than chance."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import yaml

from gpmcflow.data.other_laws import other_laws, overdispersion
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
    assert ("zeros" in config["models"]) == ("hurdle" in config["models"]) == (share > 0.0)
    if share:
        plain = config["models"]["plain"]["covariance"]
        assert config["models"]["zeros"] == {"covariance": plain, "likelihood": "zero_inflated"}
        assert config["models"]["hurdle"] == {"covariance": plain, "likelihood": "hurdle"}
        said = re.search(r"# About (\d+)% of the rows are zeros beyond a negative binomial", text)
        assert int(said[1]) == pytest.approx(40, abs=12)


@pytest.mark.parametrize("precision", [None, 2.0])
def test_new_adds_a_beta_binomial_where_successes_vary_more_than_chance(tmp_path, precision):
    tested = RNG.integers(5, 30, N)
    chance = np.full(N, 0.4) if precision is None else RNG.beta(0.4 * precision, 0.6 * precision, N)
    rows = {"dose": RNG.normal(size=N).round(2), "age": RNG.normal(size=N).round(2)}
    frame = pd.DataFrame({**rows, "n_tested": tested, "ill": RNG.binomial(tested, chance)})
    frame.to_csv(tmp_path / "file.csv", index=False)
    text = suggest(tmp_path / "file.csv", "ill").text("own")
    config = yaml.safe_load(text)
    assert config["data"]["trials"] == "n_tested"
    assert config["likelihood"] == "binomial"
    assert ("varying" in config["models"]) == (precision is not None)
    if precision:
        plain = config["models"]["plain"]["covariance"]
        assert config["models"]["varying"] == {"covariance": plain, "likelihood": "beta_binomial"}
        assert "# Successes vary" in text


def test_new_offers_gamma_amounts_beside_log_normal_ones(tmp_path):
    rows = {"dose": RNG.normal(size=N).round(2), "age": RNG.normal(size=N).round(2)}
    frame = pd.DataFrame({**rows, "price": np.exp(RNG.normal(size=N)).round(3)})
    frame.to_csv(tmp_path / "file.csv", index=False)
    config = yaml.safe_load(suggest(tmp_path / "file.csv", "price").text("own"))
    assert (config["data"]["outcome"], config["likelihood"]) == ("positive", "log_normal")
    plain = config["models"]["plain"]["covariance"]
    assert config["models"]["gamma"] == {"covariance": plain, "likelihood": "gamma"}


def test_overdispersion_is_the_variance_over_that_of_one_rate_or_share():
    trials = np.array([10.0, 20.0, 10.0])
    assert overdispersion("binomial", np.array([5.0, 10.0, 5.0]), trials) == 0.0
    found = overdispersion("binomial", np.array([10.0, 10.0, 0.0]), trials)
    assert found == pytest.approx((25.0 / 2.5 + 0.0 + 25.0 / 2.5) / 3.0)
    found = overdispersion("counts", np.array([4.0, 8.0]), np.array([1.0, 3.0]))
    assert found == pytest.approx((1.0 / 3.0 + 1.0 / 9.0) / 2.0)
    assert other_laws("binomial", np.array([1.0, 0.0]), np.array([1.0, 1.0])) == {}
    assert list(other_laws("positive", np.array([1.0, 50.0]), np.ones(2))) == ["gamma"]
    assert other_laws("real", np.array([1.0, 50.0]), np.ones(2)) == {}
