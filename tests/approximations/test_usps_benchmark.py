"""The published-size benchmark: USPS 3 against 5, 767 cases, four settings."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.conditional import conditional
from gpmcflow.approximations.perturbative_correction import second_order_correction


@pytest.mark.parametrize("setting", ["A", "B", "C", "D"])
def test_laplace_ep_and_correction(usps, setting):
    """Row 20: log Z by Laplace and EP, and the correction, to 2e-4, without jitter."""
    fit = usps(setting)
    assert fit.model.jitter == 0.0
    assert fit.laplace.log_evidence == pytest.approx(fit.published["laplace"], abs=2e-4)
    assert fit.ep.log_evidence == pytest.approx(fit.published["ep"], abs=2e-4)
    correction = second_order_correction(fit.ep)[[0, 1, 3]]
    np.testing.assert_allclose(correction, fit.published["correction"], atol=2e-4)
    assert fit.ep.skipped == 0


@pytest.mark.parametrize("setting", ["A", "B", "C", "D"])
def test_test_errors_of_ep(usps, setting):
    """Of 773 test cases; the table allows one more or less, as pixels have three decimals."""
    fit = usps(setting)
    probability = conditional(fit.ep.sites, fit.X_test).mean_response()
    errors = int(np.sum(np.where(probability > 0.5, 1.0, -1.0) != fit.y_test))
    assert abs(errors - fit.published["errors"]) <= 1
