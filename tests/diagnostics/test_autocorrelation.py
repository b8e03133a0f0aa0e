from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from gpmcflow.diagnostics.autocorrelation import (
    autocorrelation,
    batch_length,
    batch_means_time,
    initial_positive_sequence_time,
    is_too_short,
    is_underestimate,
    mean_and_error,
)
from gpmcflow.errors import InputError

TIMES = [batch_means_time, initial_positive_sequence_time]


def ar1(rho, shape, seed=0):
    """x_t = rho x_(t-1) + e_t from its stationary law, over the last axis."""
    noise = np.random.default_rng(seed).normal(size=shape)
    noise[..., 0] /= np.sqrt(1.0 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise)


@pytest.fixture(scope="module")
def long_series():
    return ar1(0.8, (100, 50_000), seed=11)


@pytest.fixture
def series():
    return ar1(0.6, (2, 3, 1200), seed=4)


def batch_means_loop(x):
    """One series; the sizes by search among whole numbers."""
    n = len(x)
    n_batches = max(k for k in range(1, n) if k**3 <= n)
    size = max(b for b in range(1, n) if b**3 <= n**2)
    means = [sum(x[i * size + j] for j in range(size)) / size for i in range(n_batches)]
    middle, mean = sum(means) / n_batches, sum(x) / n
    between = sum((m - middle) ** 2 for m in means) / (n_batches - 1)
    return size * between / (sum((v - mean) ** 2 for v in x) / (n - 1))


def autocorrelation_loop(x, max_lag):
    y, n = x - x.mean(), len(x)
    products = [sum(y[t] * y[t + k] for t in range(n - k)) for k in range(max_lag + 1)]
    return np.array(products) / products[0]


def positive_sequence_loop(x):
    rho, total = autocorrelation_loop(x, len(x) - 1), -1.0
    for k in range(0, len(x) - 1, 2):
        if rho[k] + rho[k + 1] <= 0:
            break
        total += 2.0 * (rho[k] + rho[k + 1])
    return total


def test_batch_means_of_an_autoregression(long_series):
    """Spec: (1 + rho) / (1 - rho) = 9, and 36 batches give a relative sd of sqrt(2 / 35)."""
    tau = batch_means_time(long_series)
    assert tau.mean() == pytest.approx(9.0, abs=0.5)
    assert tau.std(ddof=1) / tau.mean() == pytest.approx(0.24, abs=0.04)


def test_initial_positive_sequence_of_an_autoregression(long_series):
    tau = initial_positive_sequence_time(long_series)
    assert tau.mean() == pytest.approx(9.0, abs=0.4)  # positive by its noise
    assert tau.std(ddof=1) / tau.mean() < 0.1  # far more precise than batch means


def test_times_of_short_chains_are_corrected_for_their_own_means():
    """True time 19: chains of 150 draws say 13.7, corrected 18.1."""
    x = ar1(0.9, (2000, 150), seed=5)
    assert initial_positive_sequence_time(x).mean() < 14.5
    corrected = initial_positive_sequence_time(x, of_short_chains=True)
    assert corrected.mean() == pytest.approx(19.0, rel=0.08)


@pytest.mark.parametrize(("rho", "expected"), [(0.0, 1.0), (-0.5, 1 / 3), (0.95, 39.0)])
def test_other_autoregressions(rho, expected):
    x = ar1(rho, (200, 20_000), seed=2)
    for time, tolerance in ((batch_means_time, 0.06), (initial_positive_sequence_time, 0.06)):
        assert time(x).mean() == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize(
    ("n", "n_batches", "size"),
    [
        (50_000, 36, 1357),
        (512, 8, 64),
        (1000, 10, 100),
        (8000, 20, 400),
        (27_000, 30, 900),
        (64_000, 40, 1600),
        (125_000, 50, 2500),
        (124_999, 49, 2499),
        (1001, 10, 100),
    ],
)
def test_number_and_size_of_batches(n, n_batches, size):
    """A series that counts the batches: 0..batches-1 within them and zero in the tail.

    Its batch means are known, so tau tells both numbers; one batch or one draw more would not.
    """
    x = np.zeros(n)
    x[: n_batches * size] = np.repeat(np.arange(n_batches), size)
    expected = size * np.var(np.arange(n_batches), ddof=1) / np.var(x, ddof=1)
    assert batch_means_time(x) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [512, 700, 999, 1000, 1200])
def test_batch_means_against_a_loop(n):
    x = ar1(0.7, n, seed=n)
    assert batch_means_time(x) == pytest.approx(batch_means_loop(x), rel=1e-11)


@pytest.mark.parametrize("n", [4, 5, 64, 301])
def test_positive_sequence_against_a_loop(n):
    x = ar1(0.7, (5, n), seed=n)
    expected = [positive_sequence_loop(row) for row in x]
    floor = 1.0 / np.log10(n)
    np.testing.assert_allclose(initial_positive_sequence_time(x), np.maximum(expected, floor))
    rho = [autocorrelation_loop(row, 3) for row in x]
    np.testing.assert_allclose(autocorrelation(x, 3), rho, atol=1e-13)


def test_autocorrelation_of_an_autoregression(long_series):
    rho = autocorrelation(long_series, 12)
    assert rho.shape == (100, 13)
    np.testing.assert_allclose(rho.mean(axis=0), 0.8 ** np.arange(13), atol=0.01)
    np.testing.assert_allclose(rho[:, 0], 1.0, rtol=1e-14)


def test_autocorrelation_does_not_wrap_round():
    """A spike at each end: they are N - 1 apart, not neighbours."""
    x = np.zeros(40)
    x[[0, -1]] = 1.0, -1.0
    rho = autocorrelation(x, 39)
    assert rho[1] == pytest.approx(0.0, abs=1e-14)
    assert rho[39] == pytest.approx(-0.5)


@pytest.mark.parametrize("time", TIMES)
def test_leading_axes_are_a_batch(time, series):
    found = time(series)
    assert found.shape == (2, 3)
    for i in np.ndindex(2, 3):
        assert found[i] == pytest.approx(time(series[i]), rel=1e-12)
    assert time(series[0, 0]).shape == ()
    order = [2, 0, 1]
    np.testing.assert_allclose(time(series[:, order]), found[:, order], rtol=1e-12)


@pytest.mark.parametrize("time", TIMES)
def test_shift_and_scale_change_nothing(time, series):
    np.testing.assert_allclose(time(-1400.0 + 37.0 * series), time(series), rtol=1e-9)
    np.testing.assert_allclose(time(-1e-6 * series), time(series), rtol=1e-12)
    rho = autocorrelation(series, 5)
    np.testing.assert_allclose(autocorrelation(5.0 - 2.0 * series, 5), rho, atol=1e-12)


@pytest.mark.parametrize("time", TIMES)
def test_the_order_of_the_draws_matters(time, series):
    shuffled = np.random.default_rng(0).permutation(series, axis=-1)
    assert time(series).mean() > 2.5 * time(shuffled).mean()


@pytest.mark.parametrize("time", TIMES)
def test_a_chain_that_never_moved_has_no_time(time, series):
    series[0, 1] = -133.24  # its mean is rounded, so its variance is not quite zero
    assert series[0, 1].var() > 0.0
    found = time(series)
    assert found[0, 1] == np.inf
    assert np.isfinite(found).sum() == 5
    rho = autocorrelation(series, 2)
    assert np.isnan(rho[0, 1]).all()
    assert np.isnan(rho).sum() == 3


def test_antithetic_chains_keep_a_positive_time():
    steps = np.random.default_rng(6).normal(size=(50, 2001))
    tau = initial_positive_sequence_time(np.diff(steps))  # true time 0
    assert tau.min() == pytest.approx(1.0 / np.log10(2000))
    assert tau.max() < 1.0


def test_whole_numbers_are_read_as_draws():
    steps = np.random.default_rng(5).integers(0, 2, 600)
    assert batch_means_time(steps) == batch_means_time(steps.astype(float))


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_found(time, bad, series):
    series[1, 2, 7] = series[1, 2, 9] = bad
    with pytest.raises(InputError, match=r"2 of 7200 values are not finite.*\(1, 2, 7\)") as caught:
        time(series)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="not finite"):
        autocorrelation(series, 3)


@pytest.mark.parametrize(("time", "least"), list(zip(TIMES, (512, 4), strict=True)))
def test_too_few_draws_are_refused(time, least):
    x = np.random.default_rng(0).normal(size=(3, least))
    assert np.isfinite(time(x)).all()
    with pytest.raises(InputError, match=f"found {least - 1} draws .* needs {least} or more"):
        time(x[:, 1:])
    with pytest.raises(InputError, match="found 0 draws"):
        time(3.0)


@pytest.mark.parametrize("lag", [-1, 50])
def test_lags_beyond_the_chain_are_refused(lag):
    x = np.random.default_rng(0).normal(size=(2, 50))
    assert autocorrelation(x, 49).shape == (2, 50)
    with pytest.raises(InputError, match=f"max_lag is {lag}, allowed is 0 to 49"):
        autocorrelation(x, lag)


def test_mean_and_error_is_the_spread_of_the_mean():
    tau = np.random.default_rng(3).normal(5.0, 2.0, (4000, 16))
    mean, error = mean_and_error(tau)
    np.testing.assert_allclose(mean, tau.mean(axis=1))
    assert np.sqrt((error**2).mean()) == pytest.approx(mean.std(), rel=0.05)
    assert np.sqrt((error**2).mean()) == pytest.approx(0.5, rel=0.03)
    over_first = mean_and_error(tau.T, axis=0)
    np.testing.assert_allclose(over_first, (mean, error))


def test_mean_and_error_of_one_none_and_a_stuck_chain():
    mean, error = mean_and_error(np.array([[3.0], [4.0]]))
    np.testing.assert_array_equal(mean, [3.0, 4.0])
    assert np.isnan(error).all()
    mean, error = mean_and_error([1.0, 2.0, np.inf])
    assert mean == np.inf
    assert np.isnan(error)
    with pytest.raises(InputError, match=r"no estimate on axis -1 of shape \(3, 0\)"):
        mean_and_error(np.zeros((3, 0)))


def test_times_too_long_for_their_batches_are_told():
    """Batch means of 292 draws give two thirds of a time of 199: 132 on average."""
    rng = np.random.default_rng(1)
    slow = lfilter([1.0], [1.0, -0.99], rng.standard_normal((200, 7000)), axis=1)[:, 2000:]
    fast = lfilter([1.0], [1.0, -0.9], rng.standard_normal((200, 7000)), axis=1)[:, 2000:]
    batch = batch_length(5000)
    low, right = batch_means_time(slow), batch_means_time(fast)
    assert 0.6 < low.mean() / 199.0 < 0.75
    assert 0.85 < right.mean() / 19.0 < 1.05
    assert all(is_underestimate(time, batch) for time in low[low > 60])
    assert (low > 60).mean() > 0.95
    assert not any(is_underestimate(time, batch) for time in right)
    assert not is_underestimate(np.inf, batch)


def test_chains_too_short_for_their_time_are_told():
    """2000 draws give three quarters of a time of 199 on average; 20000, a hundred times, all of it."""
    rng = np.random.default_rng(1)
    series = lfilter([1.0], [1.0, -0.99], rng.standard_normal((200, 22_000)), axis=1)[:, 2000:]
    low, right = (initial_positive_sequence_time(series[:, :n]) for n in (2000, 20_000))
    assert 0.65 < low.mean() / 199.0 < 0.85
    assert 0.95 < right.mean() / 199.0 < 1.1
    assert all(is_too_short(2000, time) for time in low)
    assert np.mean([is_too_short(20_000, time) for time in right]) < 0.05
    assert not is_too_short(2000, np.inf)
