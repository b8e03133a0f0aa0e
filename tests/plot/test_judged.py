"""Verdicts on calibration, coverage and counts against exact numbers and wrong models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gpmcflow.plot import judged


def _rows(n=400, bend=1.0, seed=0):
    rng = np.random.default_rng(seed)
    logit = rng.normal(0, 1.2, n)
    truth = 1 / (1 + np.exp(-logit))
    said = 1 / (1 + np.exp(-bend * logit))
    return pd.DataFrame({"outcome": (rng.random(n) < truth).astype(int), "probability": said})


def test_groups_hold_every_row_once_and_are_ordered():
    frame = _rows(118)
    groups = judged.probability_groups(frame)
    assert [group.n for group in groups] == [24, 24, 24, 23, 23]
    assert sum(group.seen for group in groups) == frame["outcome"].sum()
    assert np.all(np.diff([group.promised for group in groups]) > 0)
    assert all(group.low <= group.share <= group.high for group in groups)


def test_calibrated_probabilities_pass_and_overconfident_ones_do_not():
    right = [judged.probabilities_fit(_rows(seed=seed))[0] for seed in range(40)]
    assert sum(right) >= 34  # 38 expected
    wrong = [judged.probabilities_fit(_rows(bend=3.0, seed=seed))[0] for seed in range(10)]
    assert sum(wrong) == 0


def test_the_group_named_is_the_one_that_is_off():
    frame = pd.DataFrame({"probability": np.repeat([0.1, 0.3, 0.5, 0.7, 0.9], 40)})
    frame["outcome"] = np.concatenate(
        [np.arange(40) < n for n in (4, 12, 20, 10, 36)]  # 28 of the fourth were promised
    ).astype(int)
    good, worst = judged.probabilities_fit(frame)
    assert not good
    assert worst == 3


def test_coverage_is_judged_by_the_binomial():
    assert judged.inside_as_promised(287, 300, 0.95)
    assert not judged.inside_as_promised(270, 300, 0.95)
    assert not judged.inside_as_promised(300, 300, 0.95)
    # the interval of a count may hold more than it promises
    assert judged.inside_as_promised(300, 300, 0.95, discrete=True)
    assert not judged.inside_as_promised(270, 300, 0.95, discrete=True)


def test_ends_of_an_interval_belong_to_it():
    frame = pd.DataFrame({"outcome": [0, 2, 3], "q025": [0, 0, 0], "q975": [2, 2, 2]})
    assert judged.n_inside(frame, "q025", "q975") == 2


def test_expected_counts_are_the_sum_of_the_rows_chances():
    mean = np.linspace(0.2, 4, 60)
    frame = pd.DataFrame({f"p_{k}": stats.poisson.pmf(k, mean) for k in range(7)})
    frame["p_more"] = stats.poisson.sf(6, mean)
    frame["outcome"] = np.repeat([0, 1, 2, 3, 6, 9], 10)
    bins = judged.count_bins(frame)
    assert [one.name for one in bins] == ["0", "1", "2", "3", "4", "5", "6", "7+"]
    assert [one.seen for one in bins] == [10, 10, 10, 10, 0, 0, 10, 10]
    assert sum(one.expected for one in bins) == pytest.approx(60)
    assert bins[-1].outside
    draws = np.random.default_rng(0).random((20000, 60)) < frame["p_0"].to_numpy()
    low, high = np.quantile(draws.sum(axis=1), [0.025, 0.975])
    assert abs(bins[0].low - low) <= 1
    assert abs(bins[0].high - high) <= 1


def test_equal_chances_give_the_binomial_interval():
    frame = pd.DataFrame({"p_0": np.full(80, 0.3), "p_more": 0.7, "outcome": 0})
    zero = judged.count_bins(frame)[0]
    assert (zero.low, zero.high) == tuple(stats.binom.interval(0.95, 80, 0.3))
    assert zero.seen == 80
    assert zero.outside


def test_quantile_shares_of_a_right_model_lie_on_the_line():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"outcome": rng.standard_normal(5000)})
    for column, level in (
        ("q025", 0.025),
        ("q25", 0.25),
        ("q50", 0.5),
        ("q75", 0.75),
        ("q975", 0.975),
    ):
        frame[column] = stats.norm.ppf(level)
    for share in judged.quantile_shares(frame):
        assert share.low <= share.level <= share.high
        assert share.share == pytest.approx(share.level, abs=0.02)
