"""Models of shares, overdispersed k of n, and counts with many zeros: every verb, simulation, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import gpmcflow as gp
from gpmcflow.errors import InputError

X = np.linspace(0.0, 1.0, 15)
MEAN = gp.Hyperprior("norm", {"loc": 0.0, "scale": 1.0})
SHORT = {"n_draws": 100, "n_replicates": 2}
LIKELIHOODS = {"beta": (gp.Beta(), ("precision",), gp.Beta(8.0))}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_every_verb_takes_the_model(name):
    likelihood, names, known = LIKELIHOODS[name]
    rng = np.random.default_rng(1)
    y = known.simulate(rng, 1.0 + np.sin(6.0 * X))
    model = gp.GPModel(X, y, gp.SquaredExponential(), likelihood, MEAN)
    assert model.names == ("length_scale", "signal_sd", "mean", *names)
    fixed = gp.GPModel(X, y, gp.SquaredExponential(0.5, 0.7), known, 1.0)
    ep, laplace = gp.approximate(fixed), gp.approximate(fixed, "laplace")
    assert ep.log_evidence == pytest.approx(laplace.log_evidence, abs=0.2)
    annealed = gp.log_evidence(ep, "annealing", n_particles=100, n_temperatures=8, seed=1).evidence
    error = float(annealed["standard_error"])
    assert float(annealed["log_evidence"]) == pytest.approx(ep.log_evidence, abs=4 * error + 0.1)
    assert np.isfinite(gp.approximate(model).log_evidence)
    draws = gp.sample(model, n_chains=2, n_draws=40, seed=1)
    assert np.all(np.isfinite(draws.log_likelihood["y"]))
    found = gp.predict(draws, np.array([0.3, 0.8]))
    assert np.all(found["response_quantile"][0] <= found["response_mean"])
    assert np.all(found["response_mean"] <= found["response_quantile"][-1])
    replicates = gp.simulate(draws, n_draws=5).posterior_predictive["y"].values
    for replicate in replicates.reshape(-1, len(X)):
        likelihood.validate(replicate)
    averaged = gp.model_evidence(model, seed=1, **SHORT).evidence["log_evidence"]
    assert np.all(np.isfinite(averaged))


def test_shares_of_0_and_1_are_refused_in_one_line():
    for value in (0.0, 1.0):
        y = np.full(15, 0.5)
        y[4] = value
        with pytest.raises(InputError) as error:
            gp.GPModel(X, y, gp.Matern32(), gp.Beta())
        assert str(error.value) == (
            f"beta likelihood: y[4] is {value:g}; allowed: numbers above 0 and below 1; leave such cases "
            "out, shrink y to (y (n - 1) + 0.5) / n, or take binomial where y is k of n"
        )


def test_simulated_shares_have_the_density():
    """Frequencies in 20 cells, with mass near both ends."""
    likelihood, n = gp.Beta(0.7), 40_000
    y = likelihood.simulate(np.random.default_rng(0), np.full(n, 0.4))
    ends = np.linspace(0.0, 1.0, 21)
    x, weight = np.polynomial.legendre.leggauss(60)
    inner = 0.5 * (ends[1:-2, None] + ends[2:-1, None]) + 0.025 * x
    density = np.exp(likelihood.derivatives(np.full_like(inner, 0.4), inner)[0])
    expected = n * 0.025 * density @ weight
    seen = np.histogram(y, ends)[0][1:-1]
    assert np.all(np.abs(seen - expected) < 4.5 * np.sqrt(expected))
