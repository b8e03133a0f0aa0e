"""The judgement of verdicts, by simulation: no claim is made falsely in more than 5 % of cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpmcflow.replications.judgement import (
    ALARM,
    NOT_RESOLVED,
    NUMBER,
    Estimate,
    all_equal,
    combined,
    is_zero,
    near,
    side,
    verdict,
    within,
)

REPLICATES = 4000
ROOM = 4.0 * math.sqrt(0.05 * 0.95 / REPLICATES)  # of a rate of 5 %


def means(rng: np.random.Generator, truth: float, n: int, sd: float = 1.0) -> list[Estimate]:
    """Means of n normal values, many times."""
    return [Estimate.of(row) for row in truth + sd * rng.standard_normal((REPLICATES, n))]


def rate(verdicts: list[str], word: str) -> float:
    return float(np.mean([judged == word for judged in verdicts]))


@pytest.mark.parametrize("n", [2, 4, 16])
def test_an_order_is_claimed_falsely_in_at_most_5_percent(n):
    """At the limit, the least favourable place; far from it the order is seen."""
    rng = np.random.default_rng(n)
    found = [verdict((side(mean, 0.0), "above")) for mean in means(rng, 0.0, n)]
    assert abs(rate(found, "holds") - 0.025) < ROOM
    assert abs(rate(found, "does not hold") - 0.025) < ROOM
    far = [verdict((side(mean, 0.0), "above")) for mean in means(rng, 40.0, n)]
    assert rate(far, "holds") > 0.95


@pytest.mark.parametrize("n", [2, 4, 16])
@pytest.mark.parametrize("sd", [0.01, 0.2, 1.0])
def test_a_number_agrees_falsely_in_at_most_5_percent(n, sd):
    """The truth is on the border of the tolerance, whatever the error; relative errors do not matter here."""
    rng = np.random.default_rng(n)
    estimates = means(rng, 10.5, n, sd)
    found = [verdict((near(e, 10.0, tolerance=0.5), "within"), words=NUMBER) for e in estimates]
    assert rate(found, "agrees") <= 0.025 + ROOM
    assert rate(found, "differs") <= 0.025 + ROOM
    by_factor = [near(estimate, 10.5 / 2.0, factor=2.0) for estimate in estimates]
    assert rate(by_factor, "within") <= 0.03 + ROOM


@pytest.mark.parametrize("sd", [0.01, 0.2, 1.0, 5.0])
def test_equality_is_claimed_falsely_in_at_most_5_percent(sd):
    rng = np.random.default_rng(7)
    off = [verdict((is_zero(mean, 1.0), "equal")) for mean in means(rng, 1.0, 8, sd)]
    assert rate(off, "holds") <= 0.025 + ROOM
    same = [is_zero(mean, 1.0) for mean in means(rng, 0.0, 8, sd)]
    assert rate(same, "above") + rate(same, "below") <= 4.0 * ALARM
    assert (rate(same, "equal") > 0.9) == (sd <= 0.2)


def test_many_equalities_at_once():
    """Twenty differences: one that is off by the scale is not called equal, and none is called different."""
    rng = np.random.default_rng(1)
    noise = 0.1 * rng.standard_normal((500, 20))

    def judged(shift: float) -> list[str]:
        return [
            all_equal([Estimate(v, 0.1) for v in [row[0] + shift, *row[1:]]], [1.0] * 20, True).verdict
            for row in noise
        ]  # fmt: skip

    assert rate(judged(0.0), "holds") > 0.98
    assert rate(judged(1.0), "does not hold") > 0.98
    rough = all_equal([Estimate(0.0, 1.0)], [1.0], True)
    assert rough.verdict == NOT_RESOLVED
    assert all_equal([Estimate(9.0, 1.0)], [1.0], False).verdict == NOT_RESOLVED


@pytest.mark.parametrize("sizes", [(3, 3), (10, 6), (2, 16)])
def test_the_order_of_two_costs_is_claimed_falsely_in_at_most_5_percent(sizes):
    """Autocorrelation times that vary by a third between chains, with the same mean."""
    rng = np.random.default_rng(3)
    first, second = (
        [Estimate.of(row).log() for row in rng.gamma(9.0, 1.0, (REPLICATES, n))] for n in sizes
    )
    found = [side(a.minus(b), 0.0) for a, b in zip(first, second, strict=True)]
    assert rate(found, "above") <= 0.05 + ROOM
    assert rate(found, "below") <= 0.05 + ROOM


def test_the_interval_of_a_difference_covers_the_truth():
    """Welch's degrees of freedom: unequal errors of few values each."""
    rng = np.random.default_rng(5)
    pairs = zip(means(rng, 1.0, 4, 1.0), means(rng, 3.0, 8, 0.3), strict=True)
    inside = [low < -2.0 < high for low, high in (a.minus(b).interval() for a, b in pairs)]
    assert abs(np.mean(inside) - 0.95) < ROOM


def test_errors_of_a_sum_add_up_in_squares():
    one, two = Estimate(1.0, 0.3, 4), Estimate(2.0, 0.4, 9)
    difference = combined((one, 1.0), (two, -1.0))
    assert (difference.centre, difference.error) == pytest.approx((-1.0, 0.5))
    assert difference.freedom == 2 * 4  # by Welch 12.8
    one = Estimate(1.0, 0.1, 8)
    assert one.minus(two).freedom == pytest.approx(0.17**2 / (0.1**4 / 8 + 0.4**4 / 9))
    assert one.minus(Estimate(0.0, math.nan, 0)).interval() == (-math.inf, math.inf)
    assert Estimate(4.0, 0.4, 3).log().exp() == Estimate(pytest.approx(4.0), pytest.approx(0.4), 3)


def test_what_has_no_error_and_what_has_none_that_is_known():
    assert side(Estimate(1.5), 1.0) == "above"
    assert within(Estimate(0.0), 0.0, 0.0) == "within"
    assert within(Estimate(1e-9), 0.0, 0.0) == "above"
    assert side(Estimate.of([5.0]), 1.0) == NOT_RESOLVED
    assert side(Estimate(5.0, math.nan), 1.0) == NOT_RESOLVED
    assert side(Estimate.of([math.inf, 3.0]), 1.0) == "above"  # a chain that never moved
    assert side(Estimate(math.nan), 1.0) == NOT_RESOLVED
    assert side(Estimate(0.0).log(), 0.0) == "below"


def test_agreement_needs_precision():
    assert near(Estimate(10.0, 0.9), 10.0, tolerance=5.0) == "within"
    assert near(Estimate(10.0, 1.1), 10.0, tolerance=5.0) == NOT_RESOLVED
    assert near(Estimate(10.0, 1.1), 10.0, factor=2.0, precision=0.15) == "within"
    assert (
        near(Estimate(30.0, 3.1), 10.0, factor=2.0) == "above"
    )  # a difference is seen all the same


def test_words_of_several_claims():
    sure, open_, wrong = ("above", "above"), (NOT_RESOLVED, "above"), ("below", "above")
    assert verdict(sure, sure, True) == "holds"
    assert verdict(sure, open_, True) == NOT_RESOLVED
    assert verdict(wrong, open_) == "does not hold"
    assert verdict(sure, False) == "does not hold"
    assert verdict(("above", "within"), words=NUMBER) == "differs"
