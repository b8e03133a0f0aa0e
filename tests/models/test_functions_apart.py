"""Linear terms beside others on inputs far from 0, where K = R + V'V itself has no digits left for R."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import gpmcflow as gp
from gpmcflow.approximations.evidence_density import EvidenceDensity
from gpmcflow.models.joint_density import JointDensity
from gpmcflow.models.marginal_likelihood import MarginalLikelihood
from gpmcflow.models.prior_structure import FrozenSites
from gpmcflow.samplers.joint.representations import REPRESENTATIONS
from gpmcflow.samplers.joint.workspace import JointWorkspace

N, DAYS = 14, 20000.0  # days since 1970 are near the latter
T = np.linspace(-2.0, 2.5, N)
UNIT = gp.Hyperprior("norm")
COUNTS = np.array([1.0, 0, 2, 3, 2, 2, 3, 1, 4, 6, 3, 5, 7, 5])
LABELS = np.where(COUNTS > 2.0, 1.0, -1.0)
DATA = {"counts": (COUNTS, gp.Poisson()), "labels": (LABELS, gp.Probit())}
JITTER = 1e-6


def made(kind, slope=UNIT, offset=DAYS):
    y, likelihood = DATA[kind]
    covariance = gp.SquaredExponential(UNIT, UNIT) + gp.Linear(slope) + gp.Constant(0.5)
    return gp.GPModel(offset + T, y, covariance, likelihood, jitter=JITTER)


def exact_covariance(theta, offset=DAYS):
    """K with its jitter, of logs of length scale, amplitude and slope."""
    length, sd, slope = (mpmath.exp(v) for v in theta)
    x = [mpmath.mpf(offset) + mpmath.mpf(float(t)) for t in T]
    K = mpmath.matrix(N, N)
    for i in range(N):
        for j in range(N):
            smooth = sd**2 * mpmath.exp(-(((x[i] - x[j]) / length) ** 2) / 2)
            K[i, j] = smooth * (1 + mpmath.mpf(JITTER) * (i == j)) + slope**2 * x[i] * x[j]
            K[i, j] += mpmath.mpf("0.25")
    return K


def exact_likelihood(kind, f):
    if kind == "counts":
        return sum(
            y * v - mpmath.exp(v) - mpmath.loggamma(y + 1) for y, v in zip(COUNTS, f, strict=True)
        )
    return sum(mpmath.log(mpmath.ncdf(y * v)) for y, v in zip(LABELS, f, strict=True))


def exact_joint(kind, theta, z, sites):
    """``rest`` of `JointDensity`, log N(f; 0, K) + log p(y | f), and f, by the formulas of its docstrings."""
    K = exact_covariance(theta)
    L = mpmath.cholesky(K)
    a = mpmath.sqrt(sum(K[i, i] for i in range(N)) / N) if kind == "labels" else mpmath.mpf(1)
    w, b = ([mpmath.mpf(float(v)) for v in values] for values in sites)
    W = mpmath.diag([v / a**2 for v in w])
    gamma = mpmath.matrix([a * bi / wi for bi, wi in zip(b, w, strict=True)])
    z1, z2 = (mpmath.matrix([mpmath.mpf(v) for v in part]) for part in (z[:N], z[N:]))
    noise = mpmath.diag([a / mpmath.sqrt(v) for v in w])
    C = K + mpmath.diag([a**2 / v for v in w])
    start = L * z1
    f = start + K * mpmath.lu_solve(C, gamma - start - noise * z2)
    evidence = -(gamma.T * mpmath.lu_solve(C, gamma))[0] / 2
    evidence -= mpmath.log(mpmath.det(mpmath.eye(N) + W * K)) / 2
    s = [v / a for v in f]
    of_sites = sum(bi * si - wi * si**2 / 2 for bi, wi, si in zip(b, w, s, strict=True))
    value = exact_likelihood(kind, f)
    u = mpmath.lu_solve(L, f)
    log_normal = -sum(v * v for v in u) / 2 - sum(
        mpmath.log(L[i, i] * mpmath.sqrt(2 * mpmath.pi)) for i in range(N)
    )
    return evidence + value - of_sites, value + log_normal, f


@pytest.mark.parametrize("kind", DATA)
def test_the_joint_density_and_its_slopes(kind):
    rng, model = np.random.default_rng(0), made(kind)
    sites = FrozenSites(rng.uniform(0.5, 2.0, N), rng.standard_normal(N))
    density, x, z = (
        JointDensity(model, sites),
        0.4 * rng.standard_normal(3),
        rng.standard_normal(2 * N),
    )
    at = density.evaluate(x, z)
    with mpmath.workdps(60):

        def rest(x, z):
            return exact_joint(kind, x, z, sites)[0]

        def slope(k):
            h, own = mpmath.mpf(10) ** -15, [mpmath.mpf(float(v)) for v in [*x, *z]]
            ends = []
            for step in (h, -h):
                q = own.copy()
                q[k] += step
                ends.append(rest(q[:3], q[3:]))
            return float((ends[0] - ends[1]) / (2 * h))

        value, complete, f = exact_joint(kind, list(x), z, sites)
        by_x, by_z = [slope(k) for k in range(3)], [slope(k) for k in (3, 4, 5, 3 + N, 5 + N)]
    assert at.rest == pytest.approx(float(value), abs=1e-6)
    assert at.complete == pytest.approx(float(complete), abs=1e-5)
    np.testing.assert_allclose(at.latents, np.array(f, dtype=float).ravel(), atol=1e-6)
    np.testing.assert_allclose(at.slope_x, by_x, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(at.slope_z[[0, 1, 2, N, N + 2]], by_z, rtol=1e-5, atol=1e-5)
    value = density.value(x, z)
    assert value == pytest.approx(at.rest, abs=1e-9)


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_every_representation_of_a_chain_stands_at_the_exact_density(name):
    """log N(f; 0, K) + log p(y | f) after moves of every hyperparameter."""
    model, rng = made("counts"), np.random.default_rng(1)
    chain = JointWorkspace(model, REPRESENTATIONS[name])
    f = 0.3 * rng.standard_normal(N) + 0.5
    chain.start(np.array([0.0, 0.1, -0.3]), f)
    for place, k in enumerate(model.free):
        chain.begin_sweep(rng)
        full = chain.point.full.copy()
        full[k] += (0.05, -0.1, 0.2)[place]
        phi = chain.propose(full, int(k))
        assert np.isfinite(phi)
        chain.accept(phi)
        with mpmath.workdps(50):
            K = exact_covariance([mpmath.mpf(v) for v in chain.theta])
            L, own = mpmath.cholesky(K), [mpmath.mpf(float(v)) for v in chain.point.f]
            u = mpmath.lu_solve(L, mpmath.matrix(own))
            right = exact_likelihood("counts", own) - sum(v * v for v in u) / 2
            right -= sum(mpmath.log(L[i, i] * mpmath.sqrt(2 * mpmath.pi)) for i in range(N))
        assert chain.complete_log_likelihood() == pytest.approx(float(right), rel=1e-7)
    assert chain.cost.n_failed == 0


def test_slopes_of_the_evidence_of_expectation_propagation():
    density = EvidenceDensity(made("counts"), tolerance=1e-10)
    theta = np.array([0.1, -0.2, 0.3])
    _, slope = density.evaluate_gradient(theta)
    steps = 1e-4 * np.eye(3)
    numeric = [(density.evaluate(theta + h) - density.evaluate(theta - h)) / 2e-4 for h in steps]
    np.testing.assert_allclose(slope, numeric, rtol=1e-4, atol=1e-5)


def test_draws_are_those_of_explicit_weights(caplog):
    """Counts over days with a weight b for the line: its prior is nearly flat, and b is drawn near 5e-5."""
    prior = gp.Hyperprior("norm", {"scale": 0.3})
    covariance = gp.SquaredExponential(1.0, 0.7) + gp.Linear(prior)
    model = gp.GPModel(DAYS + T, COUNTS, covariance, gp.Poisson(), jitter=JITTER)
    run = gp.sample(model, n_chains=2, n_draws=1500, seed=1, predictive=False)
    assert "sample:" not in caplog.text
    eta = run["posterior/latent"].values.reshape(-1, N)
    rng, size = np.random.default_rng(2), 400_000
    sd, u = np.exp(0.3 * rng.standard_normal(size)), rng.standard_normal(size)
    b = 5e-5 + 8e-5 * u
    R = 0.49 * (np.exp(-0.5 * (T[:, None] - T) ** 2) + JITTER * np.eye(N))
    f = b[:, None] * (DAYS + T) + rng.standard_normal((size, N)) @ np.linalg.cholesky(R).T
    log_w = (COUNTS * f - np.exp(f)).sum(1) - 0.5 * (b / sd) ** 2 - np.log(sd) + 0.5 * u**2
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    mean = w @ f
    spread = np.sqrt(w @ (f - mean) ** 2)
    error = spread / np.sqrt(1.0 / (w**2).sum())
    from arviz_stats.base import array_stats

    effective = min(array_stats.ess(run["posterior/latent"].values[..., k]) for k in range(N))
    allowed = 4.5 * np.hypot(error, spread / np.sqrt(effective))
    assert np.all(np.abs(eta.mean(0) - mean) < allowed)


ALONE = {
    "linear and constant": (gp.Linear(UNIT) + gp.Constant(0.1), lambda x: x, 0.01),
    "constant": (gp.Constant(UNIT), np.ones_like, 0.0),
}


@pytest.mark.parametrize("jitter", [None, 1e-3])
@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("offset", [0.0, 2000.0])
def test_few_functions_alone_have_one_jitter(name, jitter, offset):
    """A share of their mean variance about the centre, in every factor, predictions and the evidence of y."""
    covariance, function, constant = ALONE[name]
    x, sd = offset + T, np.exp(0.3)
    share = 1e-12 if jitter is None else jitter
    centre = 0.5 * (x.min() + x.max())
    added = share * (sd**2 * (function(x - centre) ** 2).mean() + constant)
    K = sd**2 * np.outer(function(x), function(x)) + constant
    counts = gp.GPModel(x, COUNTS, covariance, gp.Poisson(), jitter=jitter, structure="dense")
    theta = np.array([0.3])
    full, got = counts.full(theta), {}
    got["cholesky"] = np.diag(counts.covariance_matrix(theta) - K)
    factor = counts.filled_factor(full).dense() * counts.scale(full)
    got["factor"] = np.diag(factor @ factor.T - K)
    buffers, R = counts.covariance_buffers(), np.zeros((N, N))
    buffers.fill(full, R)
    got["buffers"] = np.diag(R)
    L = counts.at(theta).cholesky
    got["at"] = np.diag(L @ L.T - K)
    got["variance"] = counts.prior_variance(full, x[:, None]) - np.diag(K)
    y = gp.GPModel(x, COUNTS, covariance, gp.Gaussian(0.5), jitter=jitter, structure="dense")
    C = MarginalLikelihood(y).dense_factor(y.full(theta))
    got["regression"] = np.diag(C @ C.T - K) - 0.25
    for where, value in got.items():
        wanted = 0.0 if where == "regression" and jitter is None else added
        np.testing.assert_allclose(value, wanted, atol=1e-15 * np.diag(K).max() * 8, err_msg=where)
    assert counts.at(theta).jitter == pytest.approx(added)


def test_a_stated_jitter_of_a_line_counts_in_a_regression_and_its_slopes():
    """log N(y; 0, K + eps v I + noise), against NumPy on centred inputs."""
    y, x = np.sin(T), T - T.mean()
    covariance = gp.Linear(UNIT) + gp.Constant(UNIT)
    model = gp.GPModel(x, y, covariance, gp.Gaussian(UNIT), jitter=0.05)
    work, theta = MarginalLikelihood(model), np.array([0.2, -0.3, -1.0])

    def value(theta):
        slope, level, noise = np.exp(2.0 * theta)
        v = (slope * (x - (x.min() + x.max()) / 2) ** 2 + level).mean()
        C = slope * np.outer(x, x) + level + (0.05 * v + noise) * np.eye(N)
        return -0.5 * y @ np.linalg.solve(C, y) - 0.5 * np.linalg.slogdet(2.0 * np.pi * C)[1]

    found, slopes = work.value_and_slopes(model.full(theta))
    assert found == pytest.approx(value(theta), rel=1e-10)
    numeric = [(value(theta + h) - value(theta - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(slopes[model.free], numeric, rtol=1e-6, atol=1e-8)


def test_a_line_in_the_joint_density_has_the_evidence_of_its_coefficient():
    """Counts over days with a line alone: `model_evidence` against quadrature over coefficient and scale."""
    prior = gp.Hyperprior("norm", {"scale": 0.5})
    model = gp.GPModel(DAYS + T, COUNTS, gp.Linear(prior), gp.Poisson(), structure="dense")
    run = gp.model_evidence(model, seed=0, n_replicates=2)
    log_sd = 0.5 * np.linspace(-6.0, 6.0, 121)
    slope = np.linspace(-1e-4, 2e-4, 4001)
    f = slope[:, None] * (DAYS + T)
    log_p = np.array(
        [sum(float(y * v - np.exp(v)) for y, v in zip(COUNTS, row, strict=True)) for row in f]
    )
    log_p -= float(sum(mpmath.loggamma(y + 1) for y in COUNTS))
    normal = np.exp(-0.5 * (slope / np.exp(log_sd)[:, None]) ** 2) / np.exp(log_sd)[:, None]
    inner = (normal * np.exp(log_p)).sum(1) * (slope[1] - slope[0]) / np.sqrt(2.0 * np.pi)
    weights = np.exp(-0.5 * (log_sd / 0.5) ** 2) / (0.5 * np.sqrt(2.0 * np.pi))
    right = np.log((weights * inner).sum() * (log_sd[1] - log_sd[0]))
    first = run["evidence"].isel(estimator=0)
    error = float(first["standard_error"])
    assert error < 0.1
    assert float(first["log_evidence"]) == pytest.approx(right, abs=4.0 * error + 0.01)


def test_predictions_from_draws_of_a_line_are_on_the_line():
    """The factor of draws and that of predictions are one: latents on a line stay on it."""
    prior = gp.Hyperprior("norm", {"scale": 0.5})
    model = gp.GPModel(DAYS + T, COUNTS, gp.Linear(prior), gp.Poisson(), structure="dense")
    run = gp.sample(model, n_chains=2, n_draws=200, seed=0, predictive=False)
    at = np.array([DAYS, DAYS + 10.0])
    found = gp.predict(run, at, model=model)
    eta = run["posterior/latent"].values.reshape(-1, N)
    slope = (eta / (DAYS + T)).mean(1)
    wanted = np.outer(slope, at).mean(0)
    np.testing.assert_allclose(found.latent_mean, wanted, rtol=1e-3)
