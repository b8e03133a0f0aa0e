from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.hyperparameters import (
    evidence_gradient,
    evidence_grid,
    fit_ep,
    maximise_evidence,
)
from gpmcflow.errors import NumericalError
from gpmcflow.likelihoods import Logistic, Probit
from gpmcflow.models.covariances import SquaredExponential
from gpmcflow.models.latent_gaussian import LatentGaussianModel


@pytest.fixture(scope="module")
def data():
    """Labels of a GP draw over two features, of which the second matters less."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-3.0, 3.0, (60, 2))
    K = SquaredExponential((1.0, 4.0), 1.5)(X) + 1e-8 * np.eye(60)
    f = np.linalg.cholesky(K) @ rng.standard_normal(60)
    return X, Probit().simulate(rng, f)


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()])
@pytest.mark.parametrize("log_length", [0.3, np.array([0.1, 1.1])])
@pytest.mark.parametrize("mean", [0.0, 0.4])
def test_gradient_against_central_differences(data, likelihood, log_length, mean):
    X, y = data

    def fit(parameters):
        scale = np.exp(parameters[:-1])
        covariance = SquaredExponential(
            float(scale[0]) if scale.size == 1 else tuple(scale), float(np.exp(parameters[-1]))
        )
        model = LatentGaussianModel.from_gp(covariance, X, likelihood, y, mean=mean)
        return expectation_propagation(model, tolerance=1e-12)

    at = np.append(log_length, 0.7)
    gradient = evidence_gradient(fit(at))
    for j in range(len(at)):
        step = np.zeros(len(at))
        step[j] = 1e-4
        difference = (fit(at + step).log_evidence - fit(at - step).log_evidence) / 2e-4
        assert gradient[j] == pytest.approx(difference, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("ard", [False, True])
def test_the_maximum_is_one(data, ard):
    X, y = data
    length, signal = maximise_evidence(X, y, Probit(), ard=ard)
    assert np.shape(length) == ((2,) if ard else ())
    best = fit_ep(X, y, Probit(), length, signal)
    assert np.abs(evidence_gradient(best)).max() < 0.05
    for step in (-0.2, 0.2):
        assert fit_ep(X, y, Probit(), length + step, signal).log_evidence < best.log_evidence
        assert fit_ep(X, y, Probit(), length, signal + step).log_evidence < best.log_evidence
    if ard:
        assert length[1] > length[0]


def test_grid(data, monkeypatch):
    X, y = data
    grid = evidence_grid(X, y, Probit(), [0.0, 1.0], [0.5, 1.0, 1.5])
    assert grid.shape == (2, 3)
    assert grid[1, 2] == pytest.approx(fit_ep(X, y, Probit(), 1.0, 1.5).log_evidence)

    def fails(X, y, likelihood, length, signal):
        raise NumericalError("expectation propagation: no")

    monkeypatch.setattr("gpmcflow.approximations.hyperparameters.fit_ep", fails)
    assert np.isnan(evidence_grid(X, y, Probit(), [0.0], [0.5])).all()
    with pytest.raises(NumericalError, match="no EP fit converged"):
        maximise_evidence(X, y, Probit())


def test_a_maximum_at_the_edge_is_said(caplog):
    """Labels that a line separates want a signal without end."""
    X = np.random.default_rng(0).normal(size=(30, 1))
    _, signal = maximise_evidence(X, np.where(X[:, 0] > 0, 1.0, -1.0), Probit())
    assert signal == pytest.approx(6.0)
    assert "edge of the search" in caplog.text


class Breaking(Probit):
    """EP fails where a prior variance is outside (low, high)."""

    low, high = 0.0, np.inf

    def tilted(self, y, mean, variance):
        if variance.max() > self.high or variance.max() < self.low:
            raise NumericalError("expectation propagation: no")
        return super().tilted(y, mean, variance)


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, np.exp(1.3)), (np.exp(-2.5), np.inf), (np.exp(-1.0), np.exp(2.1))]
)
def test_the_search_steps_back_from_fits_that_fail_and_goes_on(data, caplog, low, high):
    """The start fails, or the second point does, or several: the maximum is the same, and it is said."""

    class Likelihood(Breaking):
        pass

    Likelihood.low, Likelihood.high = low, high
    X, y = data
    exact = maximise_evidence(X, y, Probit())
    assert not caplog.text
    assert maximise_evidence(X, y, Likelihood()) == pytest.approx(exact, abs=2e-3)
    assert (
        "EP fits failed and the search stepped back; the first at log length scale" in caplog.text
    )
    assert "expectation propagation: no" in caplog.text


def test_a_maximum_beyond_fits_that_fail_is_approached(data, caplog):
    class Likelihood(Breaking):
        high = np.exp(2 * 0.5)  # the maximum is at 0.64

    X, y = data
    length, signal = maximise_evidence(X, y, Likelihood())
    assert 0.45 < signal <= 0.5
    assert abs(evidence_gradient(fit_ep(X, y, Probit(), length, signal))[0]) < 0.1
    assert "EP fits failed" in caplog.text


def test_clipped_sites_are_said(outliers, caplog):
    model = outliers()
    length, signal = maximise_evidence(model.X, model.y, model.likelihood)
    fit = fit_ep(model.X, model.y, model.likelihood, length, signal)
    assert fit.clipped > 0
    assert f"{fit.clipped} sites of the EP fit are clipped" in caplog.text


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()])
def test_gradient_with_a_jitter_that_matters(data, likelihood):
    """A jitter of 2 % of the diagonal that stays while the covariance moves; Richardson differences."""
    X, y = data
    jitter = 0.02 * np.exp(1.4)

    def fit(parameters):
        covariance = SquaredExponential(float(np.exp(parameters[0])), float(np.exp(parameters[1])))
        model = LatentGaussianModel(
            likelihood,
            y,
            np.full(len(y), 0.3),
            np.linalg.cholesky(covariance(X) + jitter * np.eye(len(y))),
            jitter,
            None,
            covariance,
            X,
        )
        return expectation_propagation(model, tolerance=1e-13, damping=1.0)

    at = np.array([0.3, 0.7])
    gradient = evidence_gradient(fit(at))
    for j in range(2):
        step = 1e-3 * np.eye(2)[j]
        coarse, fine = (
            (fit(at + k * step).log_evidence - fit(at - k * step).log_evidence) / (2e-3 * k)
            for k in (2, 1)
        )
        assert gradient[j] == pytest.approx((4.0 * fine - coarse) / 3.0, rel=1e-7)
