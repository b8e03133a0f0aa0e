"""Pseudo-marginal HMC, the default of labels with many hyperparameters: its parts and its runs."""

from __future__ import annotations

import json

import arviz_stats
import numpy as np
import pytest
from scipy.special import log_expit, log_ndtr, logsumexp
from scipy.stats import multivariate_normal
from scipy.stats import t as student_t

import gpmcflow as gp
from gpmcflow.approximations import expectation_propagation, site_draws
from gpmcflow.approximations.site_draws import SettingFit
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import Execution, array_digest
from gpmcflow.samplers import sampling
from gpmcflow.samplers.joint import pseudo_marginal
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.pseudo_marginal import prefers_pseudo_marginal

NORMAL = gp.Hyperprior("norm", {"loc": 0.0, "scale": 1.0})
SMALL = {"n_chains": 2, "n_draws": 12, "n_warmup": 2, "predictive": False}


def labels(n=6, likelihood=None, **settings):
    x = np.linspace(0.0, 2.0, n)
    y = np.where(np.cos(2.0 * x) > 0, 1.0, -1.0)
    covariance = gp.SquaredExponential(NORMAL, NORMAL)
    return gp.GPModel(x, y, covariance, likelihood or gp.Logistic(), 0.3, **settings)


def fit_at(model, x):
    none = np.zeros(model.n_cases)
    return SettingFit(model, np.array(x), (none, none))


def digest(tree):
    groups = [tree[name].to_dataset() for name in ("posterior", "sample_stats")]
    return array_digest({name: group[name].values for group in groups for name in group.data_vars})


def sampler_of(tree):
    return json.loads(tree.attrs["settings"])["sampler"].split("(")[0]


@pytest.fixture
def without_blocks(monkeypatch):
    """Models of so few hyperparameters as here would take `PseudoMarginalIndependence`."""
    monkeypatch.setattr(sampling, "suits_independence", lambda model: False)


# -- draws of one fit ------------------------------------------------------------------------------


def test_draws_have_mean_and_covariance_of_the_fit():
    model = labels()
    at = fit_at(model, [0.2, 0.7])
    sites = expectation_propagation.expectation_propagation(
        model.at(at.theta), tolerance=site_draws.TOLERANCE
    ).sites
    np.testing.assert_allclose(at.mean, sites.predictor_mean, atol=1e-9)
    unit = at._away(np.eye(6))
    np.testing.assert_allclose(
        unit.T @ unit, sites.predictor_factor @ sites.predictor_factor.T, atol=1e-9
    )


def test_weights_are_ratios_of_densities_written_out():
    """log p(y | eta) N(eta; c, K) / N(eta; m, V)."""
    model = labels()
    at = fit_at(model, [-0.4, 0.9])
    eta = np.random.default_rng(1).standard_normal((3, 6))
    log_likelihood, log_w = at._log_weights(eta - at.mean)
    K, tau = at.prior.predictor_covariance, at.fit.precision
    V = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    prior = multivariate_normal(np.full(6, 0.3), K).logpdf(eta)
    labelled = log_expit(model.y * eta).sum(1)
    np.testing.assert_allclose(log_likelihood, labelled)
    expected = labelled + prior - multivariate_normal(at.mean, V).logpdf(eta)
    np.testing.assert_allclose(log_w, expected, atol=1e-6)
    np.testing.assert_allclose([at.log_prior_of(own) for own in eta], prior, atol=1e-6)


@pytest.mark.parametrize("poor", ["", "no sweep", "unsettled"])
@pytest.mark.parametrize("n_levels", [1, 3])
def test_estimates_average_to_the_evidence(n_levels, poor, monkeypatch):
    """Z of two labels is an orthant probability; 4,000 estimates of two draws each, n = 2."""
    if poor == "no sweep":
        monkeypatch.setattr(site_draws, "TOLERANCE", np.inf)
    if poor == "unsettled":
        monkeypatch.setattr(site_draws, "TOLERANCE", 0.0)
        monkeypatch.setattr(site_draws, "MOST_SWEEPS", 2)
    x, y = np.array([0.0, 1.0]), np.array([1.0, -1.0])
    model = gp.GPModel(x, y, gp.SquaredExponential(NORMAL, NORMAL), gp.Probit())
    at, rng = fit_at(model, [0.1, 1.2]), np.random.default_rng(2)
    signed = y[:, None] * at.prior.predictor_covariance * y + np.eye(2)
    exact = multivariate_normal(np.zeros(2), signed).logcdf(np.zeros(2))
    found = [at.draws(rng, 2, n_levels).log_ratio for _ in range(4_000)]
    ratios = np.array(found) + at.fit.log_evidence
    error = np.std(np.exp(ratios)) / np.mean(np.exp(ratios)) / np.sqrt(len(ratios))
    assert logsumexp(ratios) - np.log(len(ratios)) == pytest.approx(exact, abs=4.0 * error + 1e-12)
    assert error < (0.02 if poor else 5e-3)


def test_levels_raise_the_effective_share_where_ep_is_poor(monkeypatch):
    monkeypatch.setattr(site_draws, "TOLERANCE", np.inf)
    at, rng = fit_at(labels(8), [0.0, 0.5]), np.random.default_rng(4)
    shares = [np.mean([at.draws(rng, 16, k).share for _ in range(40)]) for k in (1, 4, 16)]
    assert shares[0] < 0.25 < shares[1] < 0.45 < shares[2]


@pytest.mark.parametrize("n_levels", [1, 3])
def test_draws_beside_a_kept_one_keep_the_posterior(n_levels, monkeypatch):
    """One label, EP ending at the prior: mean and mean of squares of f given theta by quadrature."""
    monkeypatch.setattr(site_draws, "TOLERANCE", np.inf)
    covariance = gp.SquaredExponential(NORMAL, NORMAL)
    at = fit_at(gp.GPModel(np.zeros(1), np.ones(1), covariance, gp.Probit(), -1.0), [0.0, 1.0])
    grid = np.linspace(-25.0, 25.0, 5001)
    sd = np.sqrt(at.prior.predictor_covariance[0, 0])
    weights = np.exp(log_ndtr(grid) - 0.5 * ((grid + 1.0) / sd) ** 2)
    weights /= weights.sum()
    rng, eta, found = np.random.default_rng(3), np.zeros(1), []
    for _ in range(4_000):
        draws = at.draws(rng, 2, n_levels, eta)
        eta = draws.predictor[draws.pick(rng)]
        found.append(eta[0])
    powers = np.stack([found, np.square(found)], -1).reshape(40, -1, 2).mean(1)
    errors = powers.std(0) / np.sqrt(40)
    assert np.all(np.abs(powers.mean(0) - [weights @ grid, weights @ grid**2]) < 4.0 * errors)
    assert np.all(errors < [0.1, 0.5])


def test_levels_grow_with_the_variance_of_log_weights():
    model = labels()
    frame = gp.PseudoMarginalHMC().adapt(JointProblem.of(model, None), seed=0, key=()).sampler.frame
    small, middle, large = (fit_at(model, [0.0, log_sd]) for log_sd in (-3.0, 3.0, 6.0))
    assert small.n_levels(frame.trials) == 1
    log_w = middle._log_weights(middle._away(frame.trials))[1]
    assert middle.n_levels(frame.trials) == np.ceil(np.var(log_w) / 0.5)
    assert 1 < middle.n_levels(frame.trials) < large.n_levels(frame.trials) == 32  # the most


def test_gradient_of_the_log_density_by_differences():
    model, x, step = labels(likelihood=gp.Probit()), np.array([0.3, -0.2]), 1e-4
    fine = []
    for move in step * np.eye(2):
        ends = [fit_at(model, x + sign * move) for sign in (1, -1)]
        fine.append((ends[0].log_density - ends[1].log_density) / (2.0 * step))
    np.testing.assert_allclose(fit_at(model, x).gradient, fine, atol=5e-3)


# -- posteriors ------------------------------------------------------------------------------------


def test_moments_of_one_label_by_quadrature():
    """n = 1: theta is the log amplitude s, p(s | y) is prop. to N(s; 0, 1) E Phi(c + e^s z)."""
    covariance = gp.SquaredExponential(1.0, NORMAL)
    model = gp.GPModel(np.zeros(1), np.ones(1), covariance, gp.Probit(), -1.0)
    draws = gp.sample(
        model, gp.PseudoMarginalHMC(n_latents=4), n_chains=4, n_draws=600, predictive=False
    )
    s, z = np.linspace(-6, 6, 1201)[:, None], np.linspace(-8, 8, 1601)
    eta = -1.0 + np.exp(s) * z
    log_joint = log_ndtr(eta) - 0.5 * z**2 - 0.5 * s**2
    weights = np.exp(log_joint - log_joint.max())
    weights /= weights.sum()
    theta = draws["posterior/theta"].values.ravel()
    f = draws["posterior/latent"].values.ravel()
    for found, expected in (
        (theta, (weights * s).sum()),
        (np.tanh(f), (weights * np.tanh(eta + 1.0)).sum()),
        (theta * np.tanh(f), (weights * s * np.tanh(eta + 1.0)).sum()),
    ):
        blocks = found.reshape(40, -1).mean(1)
        assert found.mean() == pytest.approx(expected, abs=4.0 * blocks.std() / np.sqrt(40))


def test_moments_of_one_number_with_heavy_tails_by_quadrature():
    """n = 1: logs s of the amplitude and t of the scale; f is integrated out on a grid."""
    covariance = gp.SquaredExponential(1.0, NORMAL)
    model = gp.GPModel(np.zeros(1), np.full(1, 1.5), covariance, gp.StudentT(NORMAL, 2.0), 0.0)
    draws = gp.sample(
        model, gp.PseudoMarginalHMC(n_latents=4), n_chains=4, n_draws=600, predictive=False
    )
    s, t = np.linspace(-5, 5, 201)[:, None, None], np.linspace(-5, 5, 201)[None, :, None]
    z = np.linspace(-8, 8, 401)
    log_joint = student_t.logpdf(1.5, 2.0, np.exp(s) * z, np.exp(t)) - 0.5 * (z**2 + s**2 + t**2)
    weights = np.exp(log_joint - log_joint.max())
    weights /= weights.sum()
    theta, f = (draws[f"posterior/{name}"].values for name in ("theta", "latent"))
    for found, expected in (
        (theta[..., 0], (weights * s).sum()),
        (theta[..., 1], (weights * t).sum()),
        (theta[..., 0] * np.tanh(f[..., 0]), (weights * s * np.tanh(np.exp(s) * z)).sum()),
        (theta[..., 1] * np.tanh(f[..., 0]), (weights * t * np.tanh(np.exp(s) * z)).sum()),
    ):
        blocks = found.reshape(40, -1).mean(1)
        assert found.mean() == pytest.approx(expected, abs=4.0 * blocks.std() / np.sqrt(40))


def test_it_is_preferred_for_labels_and_few_cases_with_heavy_tails():
    def model(n, likelihood):
        return gp.GPModel(np.arange(n, dtype=float), np.ones(n), gp.Matern32(), likelihood)

    assert prefers_pseudo_marginal(model(400, gp.Probit()))
    assert prefers_pseudo_marginal(model(150, gp.StudentT()))
    assert not prefers_pseudo_marginal(model(151, gp.StudentT()))
    assert not prefers_pseudo_marginal(model(20, gp.Poisson()))
    assert not prefers_pseudo_marginal(model(20, gp.Gaussian()))


def test_chains_of_few_cases_with_heavy_tails_agree(without_blocks):
    """Joint split HMC had R-hat 1.65 after 600 draws of these: noise and curve change places."""
    rng = np.random.default_rng([8, 43])
    x, y = np.sort(rng.uniform(-2.0, 2.0, 20)), np.ones(20)
    model = gp.GPModel(x, y, gp.SquaredExponential(), gp.StudentT())
    model = model.with_y(model.simulate(rng, model.draw_prior(rng))[1])
    draws = gp.sample(model, n_chains=2, n_draws=100, predictive=False, seed=1)
    assert sampler_of(draws) == "PseudoMarginalHMC"
    assert float(arviz_stats.rhat(draws["posterior/theta"]).max()) < 1.1


def test_labels_take_it_by_default_and_others_do_not(without_blocks):
    draws = gp.sample(labels(), **SMALL)
    assert sampler_of(draws) == "PseudoMarginalHMC"
    assert set(draws.posterior.data_vars) == {"theta", "length_scale", "signal_sd", "latent"}
    assert "steps of" in draws["pilot"].attrs["chosen"]
    shared = {"lp", "sum_log_likelihood", "complete_log_likelihood", "acceptance_rate"}
    assert shared | {"latent_share", "jump_rate"} <= set(draws.sample_stats.data_vars)
    by_functions = labels(structure="basis")
    assert sampler_of(gp.sample(by_functions, **SMALL)) == "JointSplitHMC"


def test_where_ep_draws_poor_latents_chains_over_both_take_its_place(monkeypatch, without_blocks):
    chosen = []
    for least in (0.0, 1.0):
        monkeypatch.setattr(sampling, "LEAST_LATENT_SHARE", least)
        problem = JointProblem.of(labels(), None)
        sampler, after, _ = sampling.choose(problem, seed=0, key=())
        chosen.append(type(sampler).__name__)
        assert (after is problem) == (least == 1.0)
    assert chosen == ["PseudoMarginalHMC", "JointSplitHMC"]
    monkeypatch.setattr(sampling, "LEAST_LATENT_SHARE", 0.5)
    draws = gp.sample(labels(), **SMALL)
    assert 0.7 <= float(draws["pilot/latent_share"]) <= 1.0


def test_what_is_kept_of_a_draw():
    model = labels()
    draws = gp.sample(model, **SMALL, seed=3)
    at = draws.isel(chain=1, draw=5)
    theta, f = at["posterior/theta"].values, at["posterior/latent"].values
    stats = at["sample_stats"]
    assert float(stats["sum_log_likelihood"]) == pytest.approx(model.log_likelihood(f, theta))
    assert float(stats["lp"]) == pytest.approx(model.log_density(theta, f), rel=1e-6)


def test_same_numbers_however_it_is_cut_and_scheduled(tmp_path):
    def run(**how):
        return gp.sample(labels(), **SMALL, seed=4, execution=Execution(progress=False, **how))

    whole = run(segment_length=14)
    cut = run(segment_length=4, scheduler="threads", workers=2)
    stored, again = (run(segment_length=5, state_dir=tmp_path) for _ in range(2))
    assert len({digest(own) for own in (whole, cut, stored.load(), again.load())}) == 1
    assert digest(whole) != digest(gp.sample(labels(), **SMALL, seed=5))


def test_chains_that_go_on_have_one_pilot_and_the_draws_of_one_run(
    tmp_path, monkeypatch, without_blocks
):
    pilots, first, seen = [], pseudo_marginal.first_frame, []
    monkeypatch.setattr(
        pseudo_marginal, "first_frame", lambda *given: pilots.append(given) or first(*given)
    )

    def wanted(draws):
        seen.append(draws.posterior.sizes["draw"])
        return {12: 15, 15: 21}.get(seen[-1], 20)

    run = SMALL | {"seed": 4}
    how = Execution(progress=False, state_dir=tmp_path, segment_length=5)
    longer = gp.sample(labels(), **run, n_wanted=wanted, execution=how)
    assert (len(pilots), seen) == (1, [12, 15, 21])
    assert digest(longer.load()) == digest(gp.sample(labels(), **run | {"n_draws": 21}))


def test_starts_are_where_chains_begin():
    model = labels()
    given = {"theta": np.array([0.5, -0.5]), "latent": np.linspace(-1.0, 1.0, 6)}
    sampler = gp.PseudoMarginalHMC(n_latents=2)
    transition = sampler.adapt(JointProblem.of(model, None), seed=0, key=()).sampler.bind(model)
    rng = np.random.default_rng(0)
    states = [transition.init(rng, given) for _ in range(12)]
    for state in states:
        np.testing.assert_allclose(model.parameters.normal.theta(state.x)[0], given["theta"])
    kept = [np.allclose(state.latent, given["latent"], atol=1e-8) for state in states]
    assert 0 < sum(kept) < 12  # one of two, by weight


def test_what_it_refuses():
    curve = gp.GPModel(np.arange(4.0), np.arange(4.0), gp.Matern32(), gp.Gaussian())
    with pytest.raises(InputError, match="regression are integrated out exactly; take Joint"):
        gp.sample(curve, gp.PseudoMarginalHMC(), **SMALL)
    with pytest.raises(InputError, match=r"structure 'basis', .*take JointSplitHMC"):
        gp.sample(labels(structure="basis"), gp.PseudoMarginalHMC(), **SMALL)
    with pytest.raises(InputError, match=r"n_latents is 1; allowed: 2 or more"):
        gp.PseudoMarginalHMC(n_latents=1)
    with pytest.raises(InputError, match="its pilot has not run"):
        gp.PseudoMarginalHMC().bind(labels())


def test_where_ep_finds_no_mode_chains_over_both_take_its_place(monkeypatch, without_blocks):
    def refuse(self, problem, **streams):
        raise NumericalError("no mode")

    monkeypatch.setattr(gp.PseudoMarginalHMC, "adapt", refuse)
    assert sampler_of(gp.sample(labels(), **SMALL)) == "JointSplitHMC"


def test_a_digest_tells_frames_apart_by_each_of_their_numbers():
    frame = (
        gp.PseudoMarginalHMC().adapt(JointProblem.of(labels(), None), seed=0, key=()).sampler.frame
    )
    mixture = frame.mixture
    sides = mixture.sides.copy()
    sides[0, 0, 0] += 0.1
    others = [
        frame._replace(step_size=frame.step_size + 0.1),
        frame._replace(trials=frame.trials + 0.1),
        frame._replace(mixture=mixture.wider(1.1)),
        frame._replace(
            mixture=type(mixture)(mixture.masses, mixture.locations, mixture.scales, sides)
        ),
    ]
    digests = {own.digest() for own in (frame, frame._replace(step_size=frame.step_size), *others)}
    assert len(digests) == 5
