"""Whitened factors and the six representations against dense formulas, some of them with 60 digits."""

from __future__ import annotations

from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from gpmcflow.approximations.independent_sites import (
    ConstantSites,
    LaplaceSites,
    Sites,
    TaylorSites,
)
from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.likelihoods import Gaussian, Logistic, Poisson, Probit
from gpmcflow.likelihoods.compiled import likelihood_code
from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers.joint.representations import (
    REPRESENTATIONS,
    Fixed,
    Frozen,
    Point,
    PosteriorWhite,
    PriorWhite,
    Surrogate,
    representation,
)
from gpmcflow.samplers.joint.workspace import JointWorkspace, WhitenedFactors

LENGTH = Hyperprior.log_uniform(0.1, 10.0)
OFFSET = Hyperprior("norm", {"loc": 0.5, "scale": 0.4})
LIKELIHOODS = {
    "gaussian": Gaussian(0.5),
    "logistic": Logistic(),
    "probit": Probit(),
    "poisson": Poisson(exposure=1.7),
}
BINARY = ("logistic", "probit")


def problem(name="poisson", n=10, p=1, jitter=1e-3, seed=0):
    """Model, theta, latents."""
    rng = np.random.default_rng(seed)
    likelihood = LIKELIHOODS[name]
    given = {"mean": OFFSET} if name == "poisson" else {}
    X = np.linspace(0, 1, n)[:, None] if p == 1 else rng.random((n, p))
    covariance = SquaredExponential(LENGTH, LENGTH, ard=True)
    model = GPModel(X, np.ones(n), covariance, likelihood, jitter=jitter, **given)
    theta = np.concatenate([np.full(p, np.log(0.4)), [0.2], [0.6] * len(given)])
    f, y = model.simulate(rng, theta)
    return model.with_y(y), theta, f


def frozen_chain(model, theta, f, rep, seed=1):
    chain = JointWorkspace(model, rep)
    chain.start(theta, f)
    chain.begin_sweep(np.random.default_rng(seed))
    return chain


CASES = [
    (name, rep)
    for name in LIKELIHOODS
    for rep in REPRESENTATIONS
    if not (name in BINARY and rep.endswith("taylor"))
]


# -- linear algebra: row 1 of the verification list ------------------------------------------------


@dataclass
class Exact:
    """L_R, m, f' and densities with 60 digits."""

    f: np.ndarray
    log_evidence: float
    log_det: float


def exact(x, length, jitter, s, g, eta):
    n = len(x)
    with mp.workdps(60):
        X = [mp.mpf(float(v)) for v in x]
        K = mp.matrix(n, n)
        for i in range(n):
            for j in range(n):
                K[i, j] = mp.exp(-((X[i] - X[j]) ** 2) / (2 * mp.mpf(length) ** 2))
            K[i, i] += mp.mpf(jitter)
        S = mp.diag([mp.mpf(float(v)) for v in s])
        G, E = mp.matrix(g.tolist()), mp.matrix(eta.tolist())
        C = mp.cholesky(K + S)
        # R = S - S (S + Sigma)^-1 S, m = Sigma (S + Sigma)^-1 g: 60 digits can afford the cancellation
        half = mp.matrix(n, n)
        for j in range(n):
            column = mp.matrix([S[i, j] for i in range(n)])
            half[:, j] = forward(C, column)
        R = S - half.T * half
        L = mp.cholesky((R + R.T) / 2)
        z = forward(C, G)
        m = G - half.T * z
        f = m + L * E
        log_det_C = sum(mp.log(C[i, i]) for i in range(n))
        evidence = -(z.T * z)[0] / 2 - log_det_C - n * mp.log(2 * mp.pi) / 2
        log_det = sum(mp.log(L[i, i]) for i in range(n))
        return Exact(np.array([float(v) for v in f]), float(evidence), float(log_det))


def forward(C, b):
    x = mp.matrix(len(b), 1)
    for i in range(len(b)):
        x[i] = (b[i] - sum(C[i, k] * x[k] for k in range(i))) / C[i, i]
    return x


@pytest.mark.parametrize("kind", ["1", "1e-8", "1e8", "mixed"])
def test_accuracy_for_all_site_variances(kind):
    n, length, jitter = 40, 0.3, 1e-6
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, n)
    s = np.logspace(-8, 8, n)[rng.permutation(n)] if kind == "mixed" else np.full(n, float(kind))
    covariance = SquaredExponential(length, 1.0)
    factor = GPModel(x, np.ones(n), covariance, Poisson(), jitter=jitter).filled_factor(
        np.array([np.log(length), 0.0, 0.0])
    )
    f = factor.multiply(rng.standard_normal(n))
    g, eta = f + np.sqrt(s) * rng.standard_normal(n), rng.standard_normal(n)
    expected = exact(x, length, jitter, s, g, eta)
    whitened = WhitenedFactors(n)
    sites = Sites(1.0 / s, g / s, False)
    assert whitened.fill(factor, 1.0, sites)
    point = Point(None, 1.0, 0.0, factor, likelihood_code(Poisson(), np.ones(n)), sites, whitened)
    value = Surrogate().place(Frozen(g, eta), point) - point.log_likelihood
    assert np.abs(point.f - expected.f).max() <= 1e-7
    assert value - 0.5 * n * np.log(2 * np.pi) == pytest.approx(expected.log_evidence, abs=1e-7)
    assert factor.log_det - whitened.log_det == pytest.approx(expected.log_det, abs=1e-7)


def test_factor_of_the_site_posterior():
    model, theta, _ = problem(n=12)
    factor, whitened = model.filled_factor(model.full(theta)), WhitenedFactors(12)
    w = np.random.default_rng(0).uniform(0.1, 5.0, 12)
    sd = np.exp(theta[1])
    assert whitened.fill(factor, sd, Sites(w, w, False))
    U, L = whitened.dense(), sd * factor.dense()
    assert np.allclose(U, np.triu(U))
    assert np.allclose(U @ U.T, np.eye(12) + L.T @ np.diag(w) @ L)
    L_R = L @ np.linalg.inv(U).T
    assert np.allclose(L_R, np.tril(L_R), atol=1e-12)
    assert np.all(np.diag(L_R) > 0)
    R = np.linalg.inv(np.linalg.inv(L @ L.T) + np.diag(w))
    assert np.allclose(L_R @ L_R.T, R, atol=1e-9)
    v = np.arange(12.0)
    assert np.allclose(whitened.solve(v), np.linalg.solve(U, v))
    assert np.allclose(whitened.solve_transposed(v), np.linalg.solve(U.T, v))
    assert np.allclose(whitened.transposed(v), U.T @ v)
    assert whitened.log_det == pytest.approx(np.log(np.diag(U)).sum())


def test_equal_precisions_take_a_shortcut_to_the_same_factor():
    model, theta, _ = problem(n=12)
    factor, arrays = model.filled_factor(model.full(theta)), (np.full(12, 0.7), np.ones(12))
    short, slow = WhitenedFactors(12), WhitenedFactors(12)
    for sd in (1.3, 0.4):
        assert short.fill(factor, sd, Sites(*arrays, True))
        assert slow.fill(factor, sd, Sites(*arrays, False))
        assert np.allclose(short.dense(), slow.dense(), rtol=1e-12)


@pytest.mark.parametrize("p", [1, 6])
@pytest.mark.parametrize(("name", "rep"), CASES)
def test_round_trip(name, rep, p):
    model, theta, f = problem(name, n=30, p=p, jitter=1e-6)
    chain = frozen_chain(model, theta, f, representation(rep))
    phi, full = chain.phi, chain.point.full.copy()
    for place in (0, None):
        assert chain.propose(full, place) == pytest.approx(phi, abs=1e-8)
        assert np.abs(chain._proposed.f - f).max() <= 1e-9


# -- densities: rows 2, 4 and 5 --------------------------------------------------------------------


def jacobian_form(model, rep, frozen, full, f):
    """log L(f') + log N(f'; 0, Sigma') [+ log N(g; f', S')] [+ log |L_R'|], dense."""
    theta = full[model.free]
    Sigma = model.covariance_matrix(theta)
    n = len(f)
    value = float(model.log_likelihood(f, theta))
    if isinstance(rep, PriorWhite):
        return value
    value += multivariate_normal(np.zeros(n), Sigma).logpdf(f)
    if rep.rule is None:
        return value
    sites = rep.rule(model.likelihood, model.y, np.diag(Sigma), model.mean_at(full))
    w = sites.precision
    if isinstance(rep, Surrogate):
        value += norm.logpdf(frozen.arrays[0], f, 1 / np.sqrt(w)).sum()
    R = np.linalg.inv(np.linalg.inv(Sigma) + np.diag(w))
    return value + 0.5 * np.linalg.slogdet(R)[1]


def placed_latents(model, rep, frozen, full):
    theta = full[model.free]
    Sigma = model.covariance_matrix(theta)
    L = np.linalg.cholesky(Sigma)
    if isinstance(rep, Fixed):
        return frozen.arrays[0]
    if isinstance(rep, PriorWhite):
        return L @ frozen.arrays[0]
    sites = rep.rule(model.likelihood, model.y, np.diag(Sigma), model.mean_at(full))
    W = np.diag(sites.precision)
    R = np.linalg.inv(np.linalg.inv(Sigma) + W)
    b = W @ frozen.arrays[0] if isinstance(rep, Surrogate) else sites.shift
    return R @ b + np.linalg.cholesky(R) @ frozen.arrays[-1]


@pytest.mark.parametrize(("name", "rep"), CASES)
def test_densities_and_latents_against_dense_formulas(name, rep):
    model, theta, f = problem(name, jitter=1e-2)
    rep = representation(rep)
    chain = frozen_chain(model, theta, f, rep)
    start = chain.point.full.copy()
    expected = jacobian_form(model, rep, chain._frozen, start, f)
    rng = np.random.default_rng(3)
    moves = [(0, 0.5), (1, -0.4), (2, 0.3)] if name == "poisson" else [(0, 0.5), (1, -0.4)]
    for place, step in [*moves, (None, 0.2)]:
        full = start.copy()
        if place is None:
            full[model.free] += step * rng.standard_normal(model.dim)
        else:
            full[place] += step
        found = chain.propose(full, place) - chain.phi
        moved = chain._proposed.f
        assert np.allclose(moved, placed_latents(model, rep, chain._frozen, full), atol=1e-9)
        dense = jacobian_form(model, rep, chain._frozen, full, moved) - expected
        if isinstance(rep, Fixed) and name != "poisson":
            assert chain.cost.n_lik == 0
        assert found == pytest.approx(dense, abs=1e-9)


@pytest.mark.parametrize("rep", ["post-site", "post-taylor"])
def test_gaussian_data_leave_the_evidence_whatever_omega(rep):
    model, theta, f = problem("gaussian", n=12)
    values = []
    for latents in (f, -2.0 * f + 1.0):
        chain = frozen_chain(model, theta, latents, representation(rep))
        full = chain.point.full.copy()
        full[:2] += [0.3, -0.2]
        values.append(chain.propose(full, None) - chain.phi)
    noise = 0.25 * np.eye(12)

    def evidence(t):
        return multivariate_normal(np.zeros(12), model.covariance_matrix(t) + noise).logpdf(model.y)

    expected = evidence(full[:2]) - evidence(theta)
    assert values == pytest.approx([expected, expected], abs=1e-9)


@pytest.mark.parametrize(("alpha", "limit"), [(1e-12, "fixed"), (1e8, "prior-white")])
def test_limits_of_a_constant_site_variance(alpha, limit):
    model, theta, f = problem("logistic", jitter=1e-4)

    def change(rep, alpha=None):
        chain = frozen_chain(model, theta, f, rep)
        full = chain.point.full.copy()
        full[0] += 0.3
        return chain.propose(full, 0) - chain.phi

    gaps = [
        abs(change(Surrogate(ConstantSites(a))) - change(representation(limit)))
        for a in (alpha, alpha * (100 if limit == "fixed" else 0.01))
    ]
    assert gaps[0] < 1e-3
    assert gaps[1] == pytest.approx(10 * gaps[0], rel=0.5)  # O(sqrt alpha), O(1 / sqrt alpha)


def test_no_sites_make_posterior_whitening_prior_whitening():
    model, theta, f = problem("logistic")

    class Nothing:
        def __call__(self, likelihood, y, variance, offset=0.0):
            return Sites(np.zeros(len(y)), np.zeros(len(y)), True)

    changes = []
    for rep in (PosteriorWhite(Nothing()), representation("prior-white")):
        chain = frozen_chain(model, theta, f, rep)
        full = chain.point.full.copy()
        full[0] += 0.3
        nu = chain.point.whiten(f)
        plus = 0.5 * nu @ nu if isinstance(rep, PosteriorWhite) else 0.0
        changes.append((chain.propose(full, 0), chain.phi, chain._proposed.f, plus))
    (a, a0, fa, plus), (b, b0, fb, _) = changes
    assert a - a0 == pytest.approx(b - b0, abs=1e-10)
    assert a + plus == pytest.approx(b, abs=1e-10)
    assert np.allclose(fa, fb)


def test_a_failed_factorisation_is_minus_infinity_and_counted():
    rng = np.random.default_rng(0)
    y, f = np.where(rng.random(80) < 0.5, 1.0, -1.0), rng.standard_normal(80)
    wide = Hyperprior.log_uniform(1e-4, 10.0)
    covariance = SquaredExponential(wide, LENGTH)
    model = GPModel(np.linspace(0, 1, 80), y, covariance, Logistic(), jitter=0.0)
    chain = JointWorkspace(model, representation("surr-site"))
    chain.start(np.array([np.log(1e-3), 0.2]), f)
    chain.begin_sweep(np.random.default_rng(0))
    full = chain.point.full.copy()
    full[0] = 0.0
    assert chain.propose(full, 0) == -np.inf
    assert chain.cost.n_failed == 1
    with pytest.raises(NumericalError, match=r"at the start .*larger jitter than 0"):
        chain.start(np.array([0.0, 0.2]), f)


def test_names():
    assert tuple(REPRESENTATIONS) == (
        "fixed", "prior-white", "surr-site", "surr-taylor", "post-site", "post-taylor",
    )  # fmt: skip
    kinds = {name: type(representation(name)) for name in REPRESENTATIONS}
    assert list(kinds.values()) == [
        Fixed, PriorWhite, Surrogate, Surrogate, PosteriorWhite, PosteriorWhite,
    ]  # fmt: skip
    assert representation("surr-taylor").rule == representation("post-taylor").rule == TaylorSites()
    assert representation("post-site", LaplaceSites()) == PosteriorWhite(LaplaceSites())
    with pytest.raises(InputError, match=r"did you mean 'surr-site'"):
        representation("surr-sites")
    with pytest.raises(InputError, match=r"representation fixed: it has no sites"):
        representation("fixed", LaplaceSites())
    model, theta, f = problem("logistic")
    with pytest.raises(InputError, match=r"TaylorSites: the logistic likelihood"):
        frozen_chain(model, theta, f, representation("surr-taylor"))
