"""Check values from R 4.2.2 with coda 0.19-4."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from gpmcflow.errors import InputError
from gpmcflow.replications.surrogate_slice.tables import (
    effective_size,
    spectrum_at_zero,
)


def waves(n):
    t = np.arange(1, n + 1)
    return np.sin(t / 50) + ((7919 * t) % 101) / 101


def congruential(n):
    x, seed, value = np.empty(n), 12345, 0.0
    for t in range(n):
        seed = 16807 * seed % (2**31 - 1)
        x[t] = value = 0.8 * value + seed / (2**31 - 1) - 0.5
    return x


@pytest.mark.parametrize(
    ("series", "size", "spectrum", "order"),
    [
        (waves(200), 2.39896186353, 29.3137513833, 7),
        (waves(5000), 298.897708243, 9.79712013026, 36),
        (waves(20000), 6109.65393416, 1.90777014359, 43),
        (congruential(1000), 105.348611127, 2.09963702538, 2),
    ],
)
def test_values_of_coda(series, size, spectrum, order):
    assert effective_size(series) == pytest.approx(size, rel=1e-9)
    found = spectrum_at_zero(series)
    assert found.value == pytest.approx(spectrum, rel=1e-9)
    assert found.order == order


def test_autoregression_of_known_size():
    x = lfilter([1.0], [1.0, -0.5], np.random.default_rng(2).standard_normal((20, 5000)), axis=1)
    sizes = effective_size(x)
    assert sizes.shape == (20,)
    assert sizes.mean() / 5000 == pytest.approx(1 / 3, rel=0.03)
    assert np.all(np.abs(sizes / 5000 * 3 - 1) < 0.2)


def test_no_cap_at_the_number_of_draws():
    x = lfilter([1.0], [1.0, 0.5], np.random.default_rng(3).standard_normal(5000))
    assert effective_size(x) > 2 * 5000


@pytest.mark.parametrize("series", [np.arange(300.0), np.full(50, 3.7), 1e6 + np.arange(99) / 7])
def test_lines_have_no_effective_draws(series):
    assert effective_size(series) == 0.0


def test_batch_axes_stay():
    x = np.random.default_rng(4).standard_normal((2, 3, 100))
    assert effective_size(x)[1, 2] == effective_size(x[1, 2])


@pytest.mark.parametrize("series", [np.arange(3.0), np.array([1.0, 2.0, np.nan, 3.0]), 5.0])
def test_bad_series(series):
    with pytest.raises(InputError, match="effective_size: "):
        effective_size(series)
