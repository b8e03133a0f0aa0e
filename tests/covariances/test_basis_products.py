"""Products in basis functions: slopes and curves of groups, varying coefficients, polynomials."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gpmcflow as gp
from gpmcflow.covariances.basis_design import BasisDesign
from gpmcflow.covariances.basis_functions import BasisFunctions
from gpmcflow.covariances.leaves import (
    Categorical,
    Constant,
    Group,
    Linear,
    Matern52,
    Periodic,
    Polynomial,
    SquaredExponential,
)
from gpmcflow.covariances.tape import CovarianceBuffers
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import Gaussian
from gpmcflow.models.gp_model import GPModel

N = 60
RNG = np.random.default_rng(4)
FRAME = pd.DataFrame({
    "day": RNG.uniform(-1.0, 1.0, N), "dose": RNG.standard_normal(N), "time": RNG.uniform(0.0, 2.0, N),
    "subject": RNG.choice(list("abcde"), N), "ward": RNG.choice(list("xyz"), N),
})  # fmt: skip
DAY, DOSE = Linear(columns="day"), Linear(columns=("day", "dose"), ard=True)
SUBJECT, WARD = Group(columns="subject"), Group(columns="ward")
EXACT = {
    "intercepts and slopes": SUBJECT + DAY * SUBJECT,
    "intercepts and slopes in one": (Constant() + DAY) * SUBJECT,
    "several slopes": DOSE * SUBJECT,
    "interaction": Linear(columns="day") * Linear(columns="dose"),
    "a slope a level": DAY * Categorical(columns="ward"),
    "nested": SUBJECT + SUBJECT * WARD,
    "crossed slopes": DAY * SUBJECT * WARD + Categorical(columns="ward"),
    "polynomial": Polynomial(3, columns=("day", "dose")),
    "polynomial of each": Polynomial(2, columns="day") * SUBJECT,
}
SMOOTH = {
    "curve of each": Matern52(columns="day") * SUBJECT,
    "curve of each level": SquaredExponential(columns="day")
    + Matern52(columns="day") * Categorical(columns="ward"),
    "varying slope": Linear(columns="dose") * SquaredExponential(columns="time"),
    "space by time": SquaredExponential(columns="day") * SquaredExponential(columns="time"),
    "season of each": Periodic(period=0.7, columns="time") * WARD,
}  # fmt: skip


def model_of(covariance, structure="auto"):
    return GPModel(FRAME, np.zeros(N), covariance, Gaussian(), structure=structure)


def settings(model, seed=0):
    rng = np.random.default_rng(seed)
    return model.full(model.prior_median() + 0.3 * rng.standard_normal(model.dim))


@pytest.mark.parametrize("name", EXACT)
def test_finite_products_are_exact_and_chosen(name):
    model = model_of(EXACT[name])
    assert model.basis, model.structure_reason
    full = settings(model)
    s, _ = model.basis.scales(full)
    Phi = model.basis_design.matrix() * s
    K = CovarianceBuffers(model_of(EXACT[name], "dense")._tape).matrix(full)
    np.testing.assert_allclose(Phi @ Phi.T, K, rtol=1e-12, atol=1e-12 * K.max())


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_products_are_as_near_as_their_factors(name):
    """Within 2 % of the largest covariance; a wrong product is off by order 1."""
    model = model_of(SMOOTH[name], BasisFunctions(m=(40 if "by" not in name else 18), boundary=3.0))
    full = model.full(model.theta_of({key: 1.0 for key in model.names}))
    s, _ = model.basis.scales(full)
    Phi = model.basis_design.matrix() * s
    K = CovarianceBuffers(model_of(SMOOTH[name], "dense")._tape).matrix(full)
    assert np.abs(Phi @ Phi.T - K).max() < 0.02 * np.abs(K).max()


@pytest.mark.parametrize("name", [*EXACT, *SMOOTH])
def test_sums_of_a_design_are_those_of_its_matrix(name):
    structure = BasisFunctions(m=7, boundary=1.5)
    model = model_of({**EXACT, **SMOOTH}[name], structure)
    design, rng = model.basis_design, np.random.default_rng(1)
    Phi, w = design.matrix(), rng.uniform(0.5, 2.0, N)
    b, v = rng.standard_normal(design.m), rng.standard_normal(N)
    np.testing.assert_allclose(design.multiply(b, np.empty(N)), Phi @ b, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(design.pull_back(v), Phi.T @ v, rtol=1e-9, atol=1e-10)
    gram = (Phi.T * w) @ Phi
    np.testing.assert_allclose(design.gram(w).dense(), gram, rtol=1e-9, atol=1e-9)
    full = settings(model)
    _, slopes = model.basis.scales(full)
    found = np.zeros((design.m, len(full)))
    for own, (place, slope) in slopes:
        found[own, place] += slope
    by_differences = np.stack(
        [
            (np.log(model.basis.scales(full + h)[0]) - np.log(model.basis.scales(full - h)[0])) / 2e-5
            for h in 1e-5 * np.eye(len(full))
        ],
        1,
    )  # fmt: skip
    np.testing.assert_allclose(found, by_differences, rtol=1e-6, atol=1e-8)


def test_a_new_level_has_the_prior_variance_of_its_slope():
    model = model_of(SUBJECT + DAY * SUBJECT)
    full = model.full(model.theta_of({"group_1.signal_sd": 2.0, "linear.sd": 3.0, "noise_sd": 1.0}))
    new = FRAME.iloc[:3].assign(subject=["a", "new", "other"], day=[0.5, 0.5, -1.0])
    design = BasisDesign(model.basis, model.new_inputs(new))
    np.testing.assert_allclose(design.unknown_variance(full), [0.0, 4 + 9 / 4, 4 + 9], rtol=1e-12)
    assert not design.matrix()[1:].any()


def test_rows_of_a_new_level_share_its_slope_and_its_intercept():
    """Covariances of 40,000 draws of the prior, within 5 %; independent rows would have none."""
    model = model_of(SUBJECT + DAY * SUBJECT)
    full = model.full(model.theta_of({"group_1.signal_sd": 2.0, "linear.sd": 3.0, "noise_sd": 1.0}))
    new = FRAME.iloc[:3].assign(subject=["new", "new", "other"], day=[0.5, -1.0, 1.0])
    design, rng = BasisDesign(model.basis, model.new_inputs(new)), np.random.default_rng(2)
    drawn = sum(block.unknown_draws(full, X, rng, 40_000) for block, _, X in design.unknown)
    exact = [[4 + 9 / 4, 4 - 9 / 2, 0], [4 - 9 / 2, 4 + 9, 0], [0, 0, 4 + 9]]
    np.testing.assert_allclose(np.cov(drawn.T), exact, atol=0.35)


def test_outside_the_box_of_a_curve_its_prior_is_left():
    model = model_of(
        Linear(2.0, columns="dose") * SquaredExponential(0.5, 1.0, columns="time"),
        BasisFunctions(m=10, boundary=1.5),
    )
    far = FRAME.iloc[:1].assign(dose=3.0, time=50.0)
    design = BasisDesign(model.basis, model.new_inputs(far))
    np.testing.assert_allclose(
        design.unknown_variance(model.full(model.prior_median())), [36.0], rtol=1e-12
    )


def test_products_of_too_many_functions_are_refused_in_words():
    frame = pd.DataFrame({"x": np.linspace(0, 1, 900), "g": [f"g{k % 300}" for k in range(900)]})
    covariance = Matern52(0.02, columns="x") * Group(columns="g")
    with pytest.raises(InputError, match="allowed: at most 2000 in all"):
        GPModel(frame, np.zeros(900), covariance, Gaussian(), structure="basis")


@pytest.mark.parametrize("sizes", [(3, 9), (3, 20), (40, 9)])
def test_a_gram_of_curves_by_level_is_that_of_the_matrix(sizes):
    """Beside a common curve, a slope and a group that has fewer or more levels than there are functions."""
    rng, (levels, m) = np.random.default_rng(4), sizes
    frame = pd.DataFrame({
        "x": rng.uniform(-1.0, 1.0, 700), "z": rng.standard_normal(700),
        "g": rng.integers(3, size=700), "h": rng.integers(levels, size=700),
    })  # fmt: skip
    curve = gp.Matern52(columns="x")
    covariance = (
        curve + gp.Linear(columns="z") + curve * gp.Group(1.0, columns="g") + gp.Group(columns="h")
    )
    model = gp.GPModel(
        frame,
        rng.standard_normal(700),
        covariance,
        gp.Gaussian(),
        structure=BasisFunctions(m=m, boundary=1.5),
    )
    Phi, w = model.basis_design.matrix(), rng.uniform(0.5, 2.0, 700)
    gram = model.basis_design.gram(w)
    assert gram.D.shape[:2] == ((40, 1) if levels > 3 * m else (3, m))  # those that save most
    np.testing.assert_allclose(gram.dense(), (Phi.T * w) @ Phi, rtol=1e-9, atol=1e-9)


def test_curves_of_large_levels_are_summed_as_by_the_matrix():
    """By recurrences, level by level; rows of a new level, and outside the box of the curve, have nothing."""
    rng, n = np.random.default_rng(6), 1300
    frame = pd.DataFrame(
        {"x": rng.uniform(-1.0, 1.0, n), "g": rng.choice(list("ab"), n, p=[0.3, 0.7])}
    )
    curve = gp.Matern52(columns="x")
    covariance = curve + curve * gp.Group(1.0, columns="g")
    structure = BasisFunctions(m=9, boundary=1.5)
    model = gp.GPModel(frame, np.zeros(n), covariance, gp.Gaussian(), structure=structure)
    new = frame.assign(g=np.where(np.arange(n) % 100 == 7, "new", frame["g"]))
    new.loc[5, "x"] = 30.0
    for X in (frame, new):
        design = BasisDesign(model.basis, model.new_inputs(X, "new"))
        (levels,) = design._levels
        assert len(levels.series) == 2
        Phi, b, v = design.matrix(), rng.standard_normal(design.m), rng.standard_normal(n)
        product = design.multiply(b, np.empty(n))
        np.testing.assert_allclose(product, Phi @ b, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(design.pull_back(v), Phi.T @ v, rtol=1e-9, atol=1e-10)
    assert product[5] == 0.0
    assert not Phi[107, 9:].any()


@pytest.mark.parametrize("name", ["curve of each level", "intercepts and slopes"])
def test_a_design_that_is_held_in_full_gives_the_same_bytes(name, monkeypatch):
    """So do prior variances by its scaled rows, beside those of a posterior without data."""
    model = model_of({**SMOOTH, **EXACT}[name], BasisFunctions())
    weights, at = np.linspace(0.1, 2.0, N), model.at(model.prior_median())
    tau = np.zeros(N)
    expected = at.variances(at.posterior(tau, tau))
    held = model.basis_design.gram(weights)
    assert model.basis_design._kept
    assert np.array_equal(at.predictor_variance, expected)
    monkeypatch.setattr("gpmcflow.covariances.basis_design.MOST_KEPT", -1)
    made = model_of({**SMOOTH, **EXACT}[name], BasisFunctions()).basis_design
    assert all(np.array_equal(a, b) for a, b in zip(held, made.gram(weights), strict=True))
    assert not made._kept
