"""Hyperparameters of basis functions at the maximum of Laplace's evidence."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from scipy.optimize import minimize

import gpmcflow as gp
from gpmcflow.approximations import basis_maximum
from gpmcflow.approximations.basis_sites import basis_sites
from gpmcflow.approximations.laplace import laplace
from gpmcflow.errors import NumericalError

LENGTH = gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.5})


def made(kind: str, n: int = 250, trend: float = 1.5) -> gp.GPModel:
    rng = np.random.default_rng(3)
    x = rng.uniform(-1.7, 1.7, n)
    f = trend * np.sin(2.0 * x)
    likelihood, y = {
        "binary": (gp.Probit(), np.where(f + rng.standard_normal(n) > 0, 1.0, -1.0)),
        "counts": (gp.Poisson(), rng.poisson(np.exp(f)).astype(float)),
        "real": (gp.Gaussian(), f + 0.4 * rng.standard_normal(n)),
    }[kind]
    mean = gp.Hyperprior("norm", {"loc": 0.0, "scale": 1.0})
    return gp.GPModel(x, y, gp.Matern52(LENGTH), likelihood, mean=mean, structure="basis")


@pytest.mark.parametrize("kind", ["binary", "counts", "real"])
def test_no_theta_near_by_has_more_evidence(kind):
    model = made(kind)
    best = gp.approximate(model, "laplace")
    low, high = (model.parameters.normal.theta(np.full(model.dim, x))[0] for x in (-2.3, 2.3))

    def minus(theta):
        return -laplace(model.at(theta)).log_evidence

    highest = -minimize(minus, best.theta, method="L-BFGS-B", bounds=np.stack([low, high], 1)).fun
    assert best.log_evidence > highest - 0.1
    assert best.log_evidence > -minus(model.prior_median()) + 0.3
    assert set(best.parameters) == set(model.names)


def test_a_fit_of_either_method_is_what_approximate_gives_of_a_dense_model():
    model = made("binary")
    fits = {method: gp.approximate(model, method) for method in ("ep", "laplace")}
    np.testing.assert_array_equal(fits["ep"].theta, fits["laplace"].theta)
    assert abs(fits["ep"].log_evidence - fits["laplace"].log_evidence) < 0.2
    assert fits["ep"].sites.model.design.shape == (model.n_cases, model.n_latents)
    dense = gp.approximate(model.with_structure("dense"))
    assert abs(fits["ep"].log_evidence - dense.log_evidence) < 0.5
    apart = gp.predict(fits["ep"], [0.5]).latent_mean - gp.predict(dense, [0.5]).latent_mean
    assert abs(float(apart[0])) < 0.1


def test_the_fit_moves_with_the_units_of_y():
    """p(s y) = p(y) / s^n at the maximum, of noise and of outliers."""
    model = made("real", 80)
    for likelihood in (gp.Gaussian(), gp.StudentT(df=4.0)):
        own = gp.GPModel(model.X, model.y, gp.Matern52(LENGTH), likelihood, structure="basis")
        one = gp.approximate(own, "laplace")
        for unit in (1e-3, 1e6):
            other = gp.approximate(own.with_y(unit * model.y), "laplace")
            moved = other.log_evidence + 80 * np.log(unit)
            assert moved == pytest.approx(one.log_evidence, abs=0.01), (likelihood.name, unit)


def test_a_term_that_is_not_needed_ends_at_the_edge_which_is_logged(caplog):
    with caplog.at_level(logging.WARNING):
        best = gp.approximate(made("counts", trend=0.0))
    assert best.parameters["signal_sd"] < 0.15
    (line,) = (record.getMessage() for record in caplog.records)
    assert "signal_sd 0.0498, the smallest tried (its term is not needed)" in line
    assert "length_scale 3.2, the largest tried (the end of the central 98 % of its hyper" in line


def test_the_search_stays_where_the_basis_holds():
    """Length scales of which 400 functions can do the central 80 % only."""
    wide = gp.Hyperprior("norm", {"loc": -1.0, "scale": 1.3})
    x = np.linspace(-1.0, 1.0, 120)
    y = np.random.default_rng(0).poisson(1.0, 120).astype(float)  # nothing in it: as long as can be
    model = gp.GPModel(x, y, gp.Matern32(wide), gp.Poisson(), structure="basis")
    assert model.basis.share == 0.8
    reached = model.parameters.to_normal(gp.approximate(model, "laplace").theta)
    assert reached[0] == pytest.approx(1.2816, abs=1e-3)  # an amplitude of any size is as exact


def test_a_search_whose_laplace_fit_fails_still_counts(monkeypatch):
    """Its maximum is taken where no other has a value."""
    model, whole = made("counts", 60), basis_maximum.laplace
    best = basis_maximum.maximise_basis_evidence(model)

    def refused(latent):
        raise NumericalError("Laplace: no convergence")

    monkeypatch.setattr(basis_maximum, "laplace", refused)
    found = basis_maximum.maximise_basis_evidence(model)
    assert whole(model.at(found)).log_evidence == pytest.approx(
        whole(model.at(best)).log_evidence, abs=0.1
    )


@pytest.mark.parametrize("likelihood", [gp.Logistic(), gp.Poisson(), gp.NegativeBinomial()])
def test_the_evidence_at_the_mode_is_that_of_laplaces_method(likelihood):
    rng = np.random.default_rng(6)
    X = np.column_stack([rng.uniform(-1.0, 1.0, 200), rng.integers(3, size=200)])
    counts = rng.poisson(np.exp(np.sin(4.0 * X[:, 0]) + 0.3 * X[:, 1])).astype(float)
    y = np.where(counts > 1.0, 1.0, -1.0) if isinstance(likelihood, gp.Logistic) else counts
    curve = gp.Matern52(columns=0)
    covariance = curve + curve * gp.Group(1.0, columns=1)
    model = gp.GPModel(X, y, covariance, likelihood, structure=gp.BasisFunctions(m=12))
    theta = model.prior_median() + 0.2
    expected = gp.laplace(model.at(theta)).log_evidence
    nearby = basis_sites(model, theta - 0.1)
    assert basis_maximum._laplace_evidence(model, theta, nearby) == pytest.approx(
        expected, abs=1e-3
    )
