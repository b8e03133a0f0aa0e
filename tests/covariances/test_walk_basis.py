"""Basis functions of random walks and smoothing splines: sines of the interval, and their integrals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gpmcflow as gp
from gpmcflow.covariances.basis_functions import walk_size
from gpmcflow.covariances.tape import CovarianceBuffers

KINDS = {"wiener": gp.Wiener, "integrated": gp.IntegratedWiener}
X = np.linspace(2.0, 12.0, 81)


def build(covariance, structure, x=X, likelihood=None):
    """Data of a walk beside a constant, which has a variance at the start."""
    y = np.sin(np.arange(len(x)) / 9.0)
    return gp.GPModel(
        x, y, covariance + gp.Constant(2.0), likelihood or gp.Gaussian(0.3), structure=structure
    )


def largest_gap(covariance, settings, x=X):
    """Between the covariance by functions and the dense one, over the largest variance."""
    own, dense = (build(covariance, s, x) for s in (settings, "dense"))
    full = own.full(own.prior_median() + 0.3)
    Phi = own.basis_design.matrix() * own.basis.scales(full)[0]
    K = CovarianceBuffers(dense._tape).matrix(full)
    walk = K - 4.0  # less the constant
    return np.abs(Phi @ Phi.T - K).max() / walk.max()


@pytest.mark.parametrize("error", [0.05, 0.01, 0.001])
@pytest.mark.parametrize("kind", KINDS)
def test_the_error_is_what_was_asked_for(kind, error):
    gap = largest_gap(KINDS[kind](), gp.BasisFunctions(error=error))
    assert gap < 1.05 * error
    if kind == "wiener":
        assert gap > 0.3 * error  # and no more functions than it takes
    else:
        assert gap < 0.02 * error


@pytest.mark.parametrize("kind", KINDS)
def test_more_functions_are_nearer(kind):
    rate = {"wiener": 1.0, "integrated": 3.0}[kind]
    gaps = [largest_gap(KINDS[kind](), gp.BasisFunctions(m=m)) for m in (10, 20, 40)]
    assert np.log2(gaps[0] / gaps[1]) == pytest.approx(rate, abs=0.25)
    assert np.log2(gaps[1] / gaps[2]) == pytest.approx(rate, abs=0.25)


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_of_a_start(kind):
    covariance = KINDS[kind](start=6.0, span=3.0)
    own = build(covariance, gp.BasisFunctions(error=0.01))
    assert own.n_latents == 2 * walk_size(1.5, 0.01) + 1
    assert largest_gap(covariance, gp.BasisFunctions(error=0.01)) < 0.0105


def test_a_walk_of_each_group():
    frame = pd.DataFrame({"time": np.tile(X, 3), "group": np.repeat(["a", "b", "c"], len(X))})
    covariance = gp.Wiener(columns="time") * gp.Group(1.0, columns="group") + gp.Constant(2.0)
    y = np.random.default_rng(0).standard_normal(len(frame))
    own, dense = (
        gp.GPModel(frame, y, covariance, gp.Gaussian(0.3), structure=s)
        for s in (gp.BasisFunctions(error=0.002), "dense")
    )
    full = own.full(own.prior_median())
    Phi = own.basis_design.matrix() * own.basis.scales(full)[0]
    K = CovarianceBuffers(dense._tape).matrix(full)
    assert np.abs(Phi @ Phi.T - K).max() < 0.0022


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_is_near_the_dense_one(kind):
    """On the data and in the half of a span beyond them; farther away the prior is left."""
    new = np.array([2.0, 5.1, 12.0, 14.0, 16.9])
    y = np.random.default_rng(1).poisson(np.exp(np.sin(X)))
    covariance = KINDS[kind](3.0) + gp.Constant(1.0)
    own, dense = (
        gp.GPModel(X, y, covariance, gp.Poisson(), structure=s)
        for s in (gp.BasisFunctions(error=1e-3), "dense")
    )
    fits = [gp.approximate(model, method="laplace") for model in (own, dense)]
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, abs=0.05)
    found = [gp.predict(fit, new) for fit in fits]
    gap = np.abs(found[0]["latent_mean"] - found[1]["latent_mean"]).values
    assert np.all(gap < 0.02 * found[1]["latent_sd"].values)
    assert np.allclose(found[0]["latent_sd"], found[1]["latent_sd"], rtol=0.02)
    beyond = [gp.predict(fit, [17.5])["latent_sd"].item() for fit in fits]
    prior = np.sqrt(own.prior_variance(own.full(own.prior_median()), np.array([[17.5]])).item())
    assert beyond[0] == pytest.approx(prior, rel=0.15)


def test_auto_takes_them_of_many_cases():
    x = np.linspace(0.0, 1.0, 2500)
    covariance = gp.Wiener() + gp.IntegratedWiener() + gp.Constant(1.0)
    model = gp.GPModel(x, np.ones(2500), covariance, gp.Poisson())
    assert model.structure_name == "basis"
    assert model.approximate_basis
    assert "63 functions for 2500 cases, with errors of up to 2.5 %" in model.structure_in_words
