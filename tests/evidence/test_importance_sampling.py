"""Importance sampling from the reference: closed forms, the smoothed tail, and its shape."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.special import logsumexp
from scipy.stats import genpareto

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.laplace import laplace
from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.diagnostics import importance_weights
from gpmcflow.diagnostics.importance_weights import smooth_weights
from gpmcflow.evidence.alarms import max_pareto_k
from gpmcflow.evidence.importance_sampling import importance_evidence, importance_sampling
from gpmcflow.evidence.log_evidence import log_evidence
from gpmcflow.execution import Execution, array_digest
from gpmcflow.likelihoods import Gaussian, StudentT
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.gp_model import GPModel

COMMON = {  # in the evidence group of every route; nan where it has no meaning
    "log_evidence", "standard_error", "effective_size", "n_gradient", "n_likelihood",
    "n_factorisation", "acceptance_rate", "diverging", "unsolved", "alarm",
}  # fmt: skip

RUN = {"n_draws": 4000, "execution": Execution(block_size=1000)}


@pytest.mark.parametrize("n", [3, 50])
@pytest.mark.parametrize("reference", ["ep", "laplace"])
def test_closed_forms(one_factor, n, reference):
    """n = 3, 50. With few cases a fit has lighter tails than a probit posterior, which does no harm."""
    model, exact = one_factor(n, 30 * n // 50)
    fit = expectation_propagation if reference == "ep" else laplace
    tree = importance_sampling(fit(model).sites, **RUN, seed=n)
    evidence = tree["evidence"]
    distance = np.abs(evidence["log_evidence"] - exact) / evidence["standard_error"]
    assert np.all(distance < 3.0)
    assert np.all(evidence["standard_error"] < 0.02)
    alarm = str(evidence["alarm"].values)
    assert not alarm or (n == 3 and float(evidence["effective_size"][0]) < 0.9 * 4000)
    assert set(evidence.data_vars) >= COMMON
    log_weight = tree["importance/log_weight"].values
    assert log_weight.shape == (4000,)
    plain = float(evidence["log_evidence"].sel(estimator="plain"))
    assert plain == pytest.approx(logsumexp(log_weight) - np.log(4000), abs=1e-12)
    assert int(evidence["n_likelihood"]) == 4000


def test_few_cases_raise_no_alarm_where_nearly_all_draws_are_effective(one_factor):
    """Probit, exact log Z: the tail of weights that are almost equal has any shape, k up to 3."""
    largest = -np.inf
    for n in (1, 2, 3, 5, 10, 20):
        for seed in range(3):
            model, exact = one_factor(n, n // 2)
            fit = expectation_propagation(model).sites
            evidence = importance_sampling(fit, n_draws=400, seed=seed)["evidence"]
            off = float(evidence["log_evidence"][0]) - exact
            assert abs(off) < 4.0 * float(evidence["standard_error"][0]) < 0.1, (n, seed)
            if float(evidence["effective_size"][0]) >= 360.0:
                assert not str(evidence["alarm"].values), (n, seed)
                largest = max(largest, float(evidence["pareto_k"]))
    assert largest > max_pareto_k(400)


def test_a_prior_too_wide_raises_the_alarms(one_factor):
    tree = importance_sampling(GaussianSites.prior(one_factor(50, 30)[0]), **RUN)
    alarm = str(tree["evidence/alarm"].values)
    assert "Pareto k" in alarm
    assert "effective size" in alarm
    assert float(tree["evidence/pareto_k"]) > 0.7


def test_the_posterior_as_reference(gp):
    tree = importance_sampling(laplace(gp(Gaussian(noise_sd=0.8))).sites, n_draws=100)
    assert float(tree["evidence/pareto_k"]) == -np.inf
    np.testing.assert_allclose(np.ptp(tree["evidence/log_evidence"].values), 0.0, atol=1e-9)
    assert not str(tree["evidence/alarm"].values)


@pytest.mark.parametrize("shape", [0.1, 0.4, 0.8])
def test_shape_of_a_known_tail(shape):
    weights = genpareto.rvs(shape, size=40_000, random_state=3)
    assert smooth_weights(np.log(weights))[1] == pytest.approx(shape, abs=0.1)


def test_smoothing_touches_only_the_tail_and_is_better_where_weights_are_heavy():
    """Pareto weights of shape 0.6, mean 2.5: the plain mean has infinite variance."""
    errors = []
    for seed in range(200):
        log_weights = np.log(genpareto.rvs(0.6, size=400, random_state=seed))
        smoothed, _ = smooth_weights(log_weights)
        changed = np.abs(smoothed - log_weights) > 1e-12
        assert changed.sum() <= 60  # 3 sqrt(400)
        assert log_weights[changed].min() >= np.sort(log_weights)[-60]
        errors.append([np.exp(x).mean() - 2.5 for x in (log_weights, smoothed)])
    plain, smooth = np.sqrt(np.mean(np.square(errors), axis=0))
    assert smooth < 0.9 * plain


def test_weights_that_cannot_be_smoothed():
    rng = np.random.default_rng(0)
    few = rng.standard_normal(24)
    smoothed, k = smooth_weights(few)
    np.testing.assert_array_equal(smoothed, few)
    assert np.isnan(k)
    collapsed = 1e5 * rng.standard_normal(1000)
    smoothed, k = smooth_weights(collapsed)
    np.testing.assert_array_equal(smoothed, collapsed)
    assert k == np.inf
    with_zero = np.append(rng.standard_normal(500), -np.inf)
    assert np.isfinite(smooth_weights(with_zero)[1])


@pytest.mark.parametrize("n", [25, 40, 225, 226, 4000])
def test_rows_of_weights_are_smoothed_as_the_library_does_each(n):
    """Also in blocks. The library takes logs of inverse weights, and gives normalised ones."""
    log_weights = 1.5 * np.random.default_rng(n).standard_t(3, (2, 10, n))
    smoothed, k = smooth_weights(log_weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importance_weights, "MOST_GRID", 1)
        np.testing.assert_allclose(smooth_weights(log_weights)[0], smoothed, atol=1e-12)
    right, right_k = array_stats.psislw(-log_weights)
    np.testing.assert_allclose(k, right_k, rtol=1e-12)
    normalised = smoothed - logsumexp(smoothed, axis=-1, keepdims=True)
    np.testing.assert_allclose(normalised, right, atol=1e-12)


def test_each_row_of_weights_is_smoothed_or_not_by_itself():
    rng = np.random.default_rng(1)
    rows = np.stack([rng.standard_normal(100), np.zeros(100), 1e5 * rng.standard_normal(100)])
    smoothed, k = smooth_weights(rows)
    assert np.isfinite(k[0])
    assert list(k[1:]) == [-np.inf, np.inf]
    np.testing.assert_array_equal(smoothed[1:], rows[1:])
    np.testing.assert_array_equal(smoothed[0], smooth_weights(rows[0])[0])


def test_runs(one_factor, tmp_path):
    q = expectation_propagation(one_factor(20, 12)[0]).sites

    def digest(seed=0, **how):
        execution = Execution(block_size=20, **how)
        tree = importance_sampling(q, n_draws=50, seed=seed, execution=execution)
        return array_digest({k: np.asarray(v.values) for k, v in tree["importance"].items()})

    expected = digest()
    assert digest(scheduler="threads", workers=2) == expected
    assert digest(state_dir=tmp_path, settings={}) == expected
    assert digest(compute=False) == expected
    assert digest(seed=1) != expected
    lazy = importance_sampling(q, n_draws=50, execution=Execution(block_size=20, compute=False))
    assert "evidence" not in lazy.children
    assert np.isfinite(importance_evidence(lazy["importance"].to_dataset())["log_evidence"]).all()


def test_annealing_and_importance_sampling_agree_from_clipped_sites():
    """Student-t data with outliers: not log-concave, EP's sites clipped, both estimators exact."""
    rng = np.random.default_rng(7)
    X = np.sort(rng.uniform(0.0, 10.0, 60))
    y = np.sin(X) + 0.15 * rng.standard_normal(60)
    y[rng.permutation(60)[:6]] += 2.0 * rng.choice([-1.0, 1.0], 6)
    model = GPModel(X, y, SquaredExponential(1.2, 1.1), StudentT(0.15, 4.0)).at()
    fit = expectation_propagation(model)
    assert fit.clipped >= 3
    annealed = log_evidence(fit.sites, "annealing", n_temperatures=40, n_particles=128, seed=1)
    weighted = importance_sampling(fit.sites, n_draws=20_000, seed=2)
    (a, a_error), (b, b_error) = (
        [float(np.ravel(tree["evidence"][name])[0]) for name in ("log_evidence", "standard_error")]
        for tree in (annealed, weighted)
    )
    assert a_error < 0.02
    assert b_error < 0.01
    assert abs(a - b) < 3.0 * np.hypot(a_error, b_error)
