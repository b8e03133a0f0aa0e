"""Families against densities by scipy: evidence of three cases, and lines by maximum likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit

import gpmcflow as gp
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import likelihood as by_name

from .families import FAMILIES, X, log_evidence, model

# Of log evidence of three cases; the largest errors are 0.0032 and 0.041 (benchmarks/families_evidence.csv).
EP, LAPLACE = 0.005, 0.05


@pytest.mark.parametrize("name", FAMILIES)
def test_evidence_of_three_cases_against_quadrature(name):
    family = FAMILIES[name]
    own = model(family)
    expected = log_evidence(lambda eta: family.log_p(eta, family.y).sum(-1))
    likelihood = own.likelihood_at(own.full(np.empty(0)))
    found = log_evidence(lambda eta: likelihood.log_density(eta, own.y), 50)
    assert found == pytest.approx(expected, abs=1e-6)
    assert gp.approximate(own).log_evidence == pytest.approx(expected, abs=EP)
    assert gp.approximate(own, "laplace").log_evidence == pytest.approx(expected, abs=LAPLACE)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: gp.GPModel(X, [1.0, 0.0, 2.0], gp.Matern32(), gp.Gamma()),
            r"gamma likelihood: y\[1\] is 0; allowed: numbers above 0; leave such cases out, or take",
        ),
        (
            lambda: gp.GPModel(X, [1.0, -2.0, 2.0], gp.Matern32(), gp.Survival()),
            r"survival likelihood: y\[1\] is -2; allowed: numbers above 0; leave such cases out",
        ),
        (
            lambda: by_name("beta_binomial"),
            "likelihood beta_binomial: setting 'trials' is missing; give it",
        ),
        (
            lambda: gp.GPModel(X, [1.0, 3.0, 2.0], gp.Matern32(), gp.BetaBinomial(2)),
            r"beta_binomial likelihood: y\[1\] is 3 of 2 trials; allowed: at most all",
        ),
        (
            lambda: gp.GPModel(X, [1.0, 1.5, 2.0], gp.Matern32(), gp.Hurdle(gp.Poisson())),
            r"hurdle likelihood: y\[1\] is 1.5; allowed: counts 0, 1, 2, ...",
        ),
    ],
)
def test_outcomes_that_a_family_cannot_have_are_refused_in_one_line(make, message):
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


RNG = np.random.default_rng(11)
ROWS = RNG.standard_normal((300, 2))
LINE = 0.4 + ROWS @ [0.8, -0.5]
FREE = gp.Hyperprior("norm", {"loc": 0.0, "scale": 10.0})


def grades(at):
    """Log probabilities of grades 1 to 4 by the first cutpoint, two slopes, and logs of two gaps."""
    edges = np.array([-np.inf, 0.0, *np.cumsum(np.exp(at[3:])), np.inf])
    eta = at[0] + ROWS @ at[1:3]
    return lambda y: np.log(expit(edges[y] - eta) - expit(edges[y - 1] - eta))


def gamma(at):
    a = np.exp(at[3])
    return stats.gamma(a, scale=np.exp(at[0] + ROWS @ at[1:3]) / a).logpdf


def beta(at):
    mean, phi = expit(at[0] + ROWS @ at[1:3]), np.exp(at[3])
    return stats.beta(phi * mean, phi * (1.0 - mean)).logpdf


def beta_binomial(at):
    mean, phi = expit(at[0] + ROWS @ at[1:3]), np.exp(at[3])
    return stats.betabinom(12, phi * mean, phi * (1.0 - mean)).logpmf


def log_logistic(at):
    return stats.fisk(np.exp(-at[3]), scale=np.exp(at[0] + ROWS @ at[1:3])).logpdf


def inflated(at):
    mean, d, pi = np.exp(at[0] + ROWS @ at[1:3]), np.exp(at[3]), expit(at[4])
    base = stats.nbinom(d, d / (d + mean))
    return lambda y: np.log(pi * (y == 0) + (1.0 - pi) * base.pmf(y))


SIMULATED = {
    "ordinal": (
        gp.Ordinal(cutpoints=(0.0, 1.2, 2.0)),
        gp.Ordinal(4),
        grades,
        [0.0, 0.0, 0.0, 0.0, 0.0],
        ("gap[2]", "gap[3]"),
    ),
    "gamma": (gp.Gamma(2.5), gp.Gamma(FREE), gamma, np.zeros(4), ("shape",)),
    "beta": (gp.Beta(6.0), gp.Beta(FREE), beta, [0.0, 0.0, 0.0, 1.0], ("precision",)),
    "beta-binomial": (
        gp.BetaBinomial(12, 6.0),
        gp.BetaBinomial(12, FREE),
        beta_binomial,
        [0.0, 0.0, 0.0, 1.0],
        ("precision",),
    ),
    "log-logistic": (
        gp.Survival("loglogistic", 0.5),
        gp.Survival("loglogistic", FREE),
        log_logistic,
        np.zeros(4),
        ("scale",),
    ),
    "zero-inflated": (
        gp.ZeroInflated(gp.NegativeBinomial(4.0), 0.3),
        gp.ZeroInflated(gp.NegativeBinomial(FREE)),
        inflated,
        [1.0, 0.0, 0.0, 1.0, -1.0],
        ("size", "probability"),
    ),
}


@pytest.mark.parametrize("name", SIMULATED)
def test_lines_and_parameters_are_those_of_maximum_likelihood(name):
    """Under wide priors within half a standard error, as a regression by `scipy` finds them."""
    known, likelihood, law, start, names = SIMULATED[name]
    y = known.simulate(np.random.default_rng(2), LINE + (name == "zero-inflated"))
    outcome = y.astype(int) if name == "ordinal" else y
    best = minimize(lambda at: -law(np.asarray(at))(outcome).sum(), start, method="BFGS")
    errors = np.sqrt(np.diag(best.hess_inv))
    mean = 0.0 if name == "ordinal" else None
    covariance = gp.Linear(sd=30.0) + gp.Constant(30.0)
    own = gp.GPModel(ROWS, y, covariance, likelihood, *([] if mean is None else [mean]))
    fit = gp.approximate(own)
    eta = gp.predict(fit, [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).latent_mean.values
    line = [eta[0], eta[1] - eta[0], eta[2] - eta[0]]
    np.testing.assert_array_less(np.abs(line - best.x[:3]), 0.5 * errors[:3])
    logs = [fit.parameters[one] for one in names]
    logs = [
        np.log(v / (1 - v)) if n == "probability" else np.log(v)
        for n, v in zip(names, logs, strict=True)
    ]
    np.testing.assert_array_less(np.abs(logs - best.x[3:]), 0.5 * errors[3:])
