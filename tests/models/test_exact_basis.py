"""What "auto" takes for finitely many functions, and that every verb then has the dense model's answers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import gpmcflow as gp
from gpmcflow.approximations.evidence_density import evidence_gradient
from gpmcflow.models.description import describe
from gpmcflow.samplers.joint.fitted_independence import JointIndependenceTransition

N = 24
RNG = np.random.default_rng(3)
SCHOOLS = np.repeat(list("abcd"), 6)
TABLE = pd.DataFrame({"x": RNG.normal(size=N), "school": SCHOOLS})
NEW = pd.DataFrame({"x": [0.3, -2.0], "school": ["b", "zz"]})
ETA = 0.7 * TABLE["x"].to_numpy() + RNG.normal(size=4)[np.repeat(np.arange(4), 6)]
TERMS = {
    "intercepts": gp.Group(columns="school") + gp.Linear(columns="x") + gp.Constant(1.5),
    "groups alone": gp.Group(columns="school"),
    "slopes": gp.Group(columns="school") + gp.Linear(columns="x") * gp.Group(1.0, columns="school"),
    "levels": gp.Categorical(columns="school") + gp.Linear(0.5, columns="x"),
}
DATA = {
    "gaussian": (ETA + 0.4 * RNG.normal(size=N), gp.Gaussian()),
    "logistic": (np.where(RNG.random(N) < 1.0 / (1.0 + np.exp(-ETA)), 1.0, -1.0), gp.Logistic()),
    "poisson": (RNG.poisson(np.exp(ETA)).astype(float), gp.Poisson()),
}


def pair(terms: str, data: str) -> tuple[gp.GPModel, gp.GPModel]:
    """The model as "auto" takes it, and the dense one, whose jitter is too small to see."""
    y, likelihood = DATA[data]
    own = gp.GPModel(TABLE, y, TERMS[terms], likelihood)
    dense = gp.GPModel(TABLE, y, TERMS[terms], likelihood, jitter=1e-10, structure="dense")
    assert (own.structure_name, dense.structure_name) == ("basis", "dense")
    return own, dense


# -- the choice ------------------------------------------------------------------------------------


def test_auto_takes_few_functions_and_says_why():
    own = pair("intercepts", "logistic")[0]
    assert own.n_latents == 6
    assert repr(own).endswith("structure='basis (exact: 6 functions for 24 cases)')")
    for n, taken in ((14, True), (13, True), (12, False)):  # 6 functions: fewer than half, or half
        cases = np.concatenate([np.arange(0, N, 6), np.setdiff1d(np.arange(N), np.arange(0, N, 6))])
        part = own.take(np.sort(cases[:n]))
        assert (part.structure_name == "basis") is taken
        assert f"6 functions for {n} cases" in repr(part)


@pytest.mark.parametrize(
    ("covariance", "options", "why"),
    [
        (TERMS["intercepts"], {"jitter": 1e-6}, "dense (6 functions for 24 cases, but a jitter is stated)"),
        (TERMS["intercepts"], {"structure": "dense"}, "dense"),
        (TERMS["intercepts"] + gp.Matern32(columns="x"), {}, "dense"),
        (TERMS["intercepts"] + gp.White(), {}, "dense"),
        (
            gp.Linear(columns="far"), {},
            "dense (1 function for 24 cases, of columns too far from 0: centre them)",
        ),
    ],
)  # fmt: skip
def test_where_auto_stays_dense(covariance, options, why):
    table = TABLE.assign(far=1e6 + TABLE["x"])
    model = gp.GPModel(table, DATA["poisson"][0], covariance, gp.Poisson(), **options)
    assert model.structure_in_words == why


def test_the_choice_is_that_of_basis_functions():
    """Same digest and description: draws of either are draws of the other, and files stay as they were."""
    own = pair("intercepts", "poisson")[0]
    asked = own.with_structure("basis")
    assert own.digest() == asked.digest()
    assert describe(own) == describe(asked)
    assert not asked.structure_reason


# -- exact answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("terms", TERMS)
def test_a_regression_has_the_dense_evidence_slopes_and_predictions(terms):
    own, dense = pair(terms, "gaussian")
    theta = own.prior_median() + 0.3
    first, second = (gp.RegressionDensity(model) for model in (own, dense))
    assert first(theta) == pytest.approx(second(theta), abs=1e-6)
    slopes = [density.evaluate_gradient(theta)[1] for density in (first, second)]
    np.testing.assert_allclose(*slopes, atol=1e-6)
    best = [gp.approximate(model) for model in (own, dense)]
    assert best[0].log_evidence == pytest.approx(best[1].log_evidence, abs=1e-5)
    _same_predictions(*(gp.approximate(model.at(theta)) for model in (own, dense)))


@pytest.mark.parametrize("method", ["ep", "laplace"])
@pytest.mark.parametrize("data", ["logistic", "poisson"])
def test_fits_at_a_point_and_at_their_maximum(method, data):
    own, dense = pair("intercepts", data)
    theta = own.prior_median() + 0.3
    fits = [gp.approximate(model.at(theta), method) for model in (own, dense)]
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, abs=1e-6)
    _same_predictions(*fits)
    if method == "ep":
        slopes = [
            evidence_gradient(model, theta, fit.fit)
            for model, fit in zip((own, dense), fits, strict=True)
        ]
        np.testing.assert_allclose(*slopes, atol=1e-6)
    best = [gp.approximate(model, method) for model in (own, dense)]
    assert best[0].log_evidence == pytest.approx(best[1].log_evidence, abs=2e-4)


def _same_predictions(first, second):
    """Of a known level and of a new one."""
    got, wanted = (gp.predict(fit, NEW, unseen="new") for fit in (first, second))
    for name in ("latent_mean", "latent_sd"):
        np.testing.assert_allclose(got[name], wanted[name], atol=1e-6, err_msg=name)


def test_weights_have_the_prior_covariance():
    own, dense = pair("levels", "gaussian")
    theta = own.prior_median() + 0.3
    full = own.full(theta)
    root = own.basis_design.matrix() * own.basis.scales(full)[0]
    K = dense.cross_covariance(full, dense.X)
    np.testing.assert_allclose(root @ root.T, K, atol=1e-12)
    np.testing.assert_allclose(own.covariance_matrix(theta), K, atol=1e-5)
    w, _ = own.simulate(np.random.default_rng(0), theta)
    np.testing.assert_allclose(own.predictor(theta, w), root @ w + own.mean_at(full))


# -- verbs that need the covariance of all cases ------------------------------------------------------


def test_a_sampler_of_latents_by_case_takes_the_dense_form():
    own = pair("intercepts", "logistic")[0]
    few = {"n_chains": 1, "n_draws": 20, "seed": 1, "predictive": False}
    draws = gp.sample(own, gp.SurrogateSlice(n_elliptical=2), n_warmup=0, **few)
    assert draws.attrs["structure"] == "dense"
    assert draws["posterior/latent"].shape[-1] == N
    assert np.isfinite(gp.predict(draws, NEW, unseen="new")["latent_sd"]).all()
    settings = gp.JointSplitHMC(rounds=(20, 20))
    few["n_draws"] = 4
    started = gp.sample(own, settings, start={"latent": np.zeros(N)}, **few)
    assert started.attrs["structure"] == "dense"
    taken = gp.sample(own, settings, **few)
    assert taken["posterior/weight"].shape[-1] == 6
    words = "basis (exact: 6 functions for 24 cases)"
    assert taken["pilot"].attrs["structure"] == words
    assert taken.attrs["structure_reason"] in words


def test_samplers_and_stand_ins_of_a_regression():
    """`CollapsedScale`, Nystrom and subsets of the data work on a model that "auto" gave weights."""
    own, dense = pair("groups alone", "gaussian")
    theta = own.prior_median()
    few = {"n_chains": 1, "n_draws": 10, "seed": 1, "predictive": False}
    thetas = [
        gp.sample(m, gp.CollapsedScale(), n_warmup=0, **few)["posterior/theta"]
        for m in (own, dense)
    ]
    np.testing.assert_allclose(*thetas, atol=1e-4)
    cases = np.arange(0, N, 2)
    for made in (gp.Nystrom, gp.SubsetOfData):
        values = [made(model, cases)(theta) for model in (own, dense)]
        assert values[0] == pytest.approx(values[1], abs=1e-3), made


def test_proposals_of_weights_are_weighted_by_the_evidence():
    """`JointIndependence`: given Gaussian noise log w is the log posterior of theta for any weights."""
    own, _ = pair("intercepts", "gaussian")
    theta, rng = own.prior_median() + 0.2, np.random.default_rng(0)
    transition = JointIndependenceTransition(SimpleNamespace(fresh=lambda: None), own)
    wanted = gp.RegressionDensity(own)(theta)
    for given in (None, rng.standard_normal(own.n_latents)):
        state = transition._at(theta, 0.0, rng, given)
        assert state.log_weight == pytest.approx(wanted, abs=1e-8)
        assert transition.record(rng, state)["weight"].shape == (own.n_latents,)
