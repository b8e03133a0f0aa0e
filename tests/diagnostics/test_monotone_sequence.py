from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from gpmcflow.diagnostics.autocorrelation import autocorrelation
from gpmcflow.errors import InputError
from gpmcflow.replications.fast_likelihood.runs import (
    initial_monotone_sequence_time,
    run_rule_time,
)

# Mean and sd of one estimate from 1334 draws of AR(1), by true time: initial monotone sequence, run rule
MEASURED = {
    1.5: ((1.53, 0.15), (1.44, 0.15)),
    3.0: ((3.08, 0.42), (2.92, 0.43)),
    6.0: ((6.10, 1.17), (5.75, 1.19)),
    16.0: ((15.9, 4.0), (15.4, 4.4)),
    30.0: ((28.6, 9.0), (28.1, 9.6)),
}


def ar1(tau: float, n_series: int, n_draws: int = 1334, seed: int = 0) -> np.ndarray:
    rng, phi = np.random.default_rng([seed, int(10 * tau)]), (tau - 1.0) / (tau + 1.0)
    noise = rng.standard_normal((n_series, n_draws)) * np.sqrt(1.0 - phi**2)
    noise[:, 0] /= np.sqrt(1.0 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=-1)


@pytest.mark.parametrize("tau", MEASURED)
def test_means_and_spreads_on_ar1(tau):
    series = ar1(tau, 600)
    for estimate, (mean, sd) in zip(
        (initial_monotone_sequence_time, run_rule_time), MEASURED[tau], strict=True
    ):
        found = estimate(series)
        error = sd * np.sqrt(2.0 / 600)  # both means are of 600 series
        # twice the error, and what two or three printed digits leave open
        assert abs(found.mean() - mean) < 3.0 * error + 0.5 * 10.0 ** (-2 if mean < 10 else -1)
        assert found.std() == pytest.approx(sd, rel=0.2)


def test_white_noise_and_constant():
    found = initial_monotone_sequence_time(np.random.default_rng(0).standard_normal((600, 1334)))
    assert found.mean() == pytest.approx(1.04, abs=0.012)
    assert found.std() == pytest.approx(0.08, abs=0.015)
    for estimate in (initial_monotone_sequence_time, run_rule_time):
        assert estimate(np.full(100, 3.3)) == np.inf
        np.testing.assert_array_equal(
            np.isinf(estimate(np.stack([np.arange(9.0), np.ones(9)]))), [0, 1]
        )


def test_definitions_written_out():
    for series in ar1(6.0, 5, 300):
        rho = autocorrelation(series, 299)
        total, least = 0.0, np.inf
        for j in range(150):
            pair = rho[2 * j] + rho[2 * j + 1]
            if pair <= 0:
                break
            least = min(least, pair)
            total += least
        assert initial_monotone_sequence_time(series) == pytest.approx(2 * total - 1, rel=1e-12)
        limit, last, quiet = 1.96 / np.sqrt(300), 0, 0
        for lag in range(1, 300):
            quiet = 0 if abs(rho[lag]) >= limit else quiet + 1
            last = lag if quiet == 0 else last
            if quiet == 5:
                break
        want = 1 + 2 * rho[1 : last + 1].sum()
        assert run_rule_time(series) == pytest.approx(want, rel=1e-12)


def test_bad_series():
    for estimate in (initial_monotone_sequence_time, run_rule_time):
        with pytest.raises(InputError, match="found 3 draws"):
            estimate(np.zeros(3))
        with pytest.raises(InputError, match="not finite"):
            estimate(np.array([1.0, np.nan, 2.0, 3.0]))
