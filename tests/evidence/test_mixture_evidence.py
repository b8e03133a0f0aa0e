"""log p(y) of regressions by the mixture, against quadrature and symmetry, and what breaks it."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp
from scipy.stats import norm
from scipy.stats import t as student_t

import gpmcflow as gp
from gpmcflow.approximations import mixture as mixtures
from gpmcflow.approximations.evidence_density import NormalEvidenceDensity
from gpmcflow.approximations.mixture import Mixture
from gpmcflow.errors import InputError
from gpmcflow.evidence import mixture_evidence
from gpmcflow.evidence.mixture_evidence import weighted_draws
from gpmcflow.evidence.model_evidence_group import Ends
from gpmcflow.execution import Execution

QUIET = Execution(progress=False)
LENGTH, SIGNAL = gp.Hyperprior.log_uniform(0.03, 1.0), gp.Hyperprior.log_uniform(0.2, 5.0)


def normal(loc: float) -> gp.Hyperprior:
    return gp.Hyperprior("norm", {"loc": loc, "scale": 1.0})


@cache
def curve(likelihood: type = gp.Gaussian) -> gp.GPModel:
    rng = np.random.default_rng(0)
    x = np.sort(rng.random(30))
    y = np.sin(6.0 * x) + 0.3 * rng.standard_normal(30)
    y = np.exp(y) if likelihood is gp.LogNormal else y
    return gp.GPModel(x, y, gp.SquaredExponential(LENGTH, SIGNAL), likelihood(0.3))


@cache
def two_explanations() -> gp.GPModel:
    """A fast wave under a slow one: a short length scale, or noise. Log evidence -34.927; 8.3 % are short."""
    rng = np.random.default_rng([77, 2])
    x = np.linspace(0.0, 5.0, 30)
    y = np.sin(1.3 * x) + 0.7 * np.sin(25.0 * x) + 0.1 * rng.standard_normal(30)
    covariance = gp.SquaredExponential(gp.Hyperprior.log_uniform(0.02, 20.0), normal(0.0))
    return gp.GPModel(x, y, covariance, gp.Gaussian(normal(-1.0)))


def teeth(n: int = 25) -> gp.GPModel:
    """A period that is known but for aliases: a comb, by one hyperparameter."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0.0, 10.0, n))
    y = np.sin(2.0 * np.pi * x / 0.83) + 0.6 * rng.standard_normal(n)
    period = gp.Hyperprior.log_uniform(0.4, 2.0)
    return gp.GPModel(x, y, gp.Periodic(1.5, period=period, signal_sd=1.0), gp.Gaussian(0.6))


def over_theta(model: gp.GPModel, n_nodes: int, log_likelihood=None) -> float:
    """Log evidence under log-uniform hyperpriors by Gauss and Legendre."""
    nodes, weights = leggauss(n_nodes)
    log_likelihood = log_likelihood or gp.RegressionDensity(model).log_likelihood
    axes = [
        low + 0.5 * (nodes + 1.0) * (high - low)
        for low, high in (prior.support for prior in model.parameters.free_priors)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, model.dim)
    each = np.stack(np.meshgrid(*[0.5 * weights] * model.dim, indexing="ij"), -1).prod(-1).ravel()
    return float(logsumexp([log_likelihood(theta) for theta in grid], b=each))


def estimate(run) -> tuple[float, float]:
    first = run["evidence"].to_dataset().isel(estimator=0)
    return float(first["log_evidence"]), float(first["standard_error"])


def alarm(run) -> str:
    return str(run["evidence/alarm"].values)


@pytest.mark.parametrize(
    ("model", "n_nodes"),
    [(curve(), 32), (curve(gp.LogNormal), 32), (teeth(), 1500)],
    ids=["gaussian", "log_normal", "comb"],
)
def test_against_quadrature(model, n_nodes):
    exact = over_theta(model, n_nodes)
    for seed in range(3):
        run = gp.model_evidence(model, seed=seed, predictive=False)
        value, error = estimate(run)
        assert run.evidence.attrs["route"] == "mixture"
        assert error < 0.05
        assert abs(value - exact) < 4.0 * error
        assert not alarm(run)


@pytest.mark.parametrize("seed", range(3))
def test_two_explanations_are_found_and_weighed(seed):
    run = gp.model_evidence(two_explanations(), seed=seed, predictive=False)
    value, error = estimate(run)
    assert error < 0.03
    assert abs(value + 34.927) < 4.0 * error
    assert not alarm(run)
    short = float((run.posterior["length_scale"] < 0.25).mean())
    assert short == pytest.approx(0.083, abs=0.03)
    assert run.modes["mass"].values == pytest.approx([0.92, 0.08], abs=0.03)
    told = r"two explanations: 9\d % with length_scale 1\.\d+, noise_sd 0\.5\d+; \d % with length_scale 0\.1"
    assert re.match(told, run.modes.attrs["in_words"])
    assert run.modes["length_scale"].values == pytest.approx([1.05, 0.165], rel=0.15)


def test_labels_that_can_be_exchanged_have_equal_masses():
    rng = np.random.default_rng(5)
    x = np.linspace(0.0, 5.0, 40)
    y = 2.0 * np.sin(1.3 * x) + 0.7 * np.sin(6.0 * x) + 0.1 * rng.standard_normal(40)
    length = gp.Hyperprior.log_uniform(0.1, 10.0)
    both = gp.SquaredExponential(length, 1.0, name="a") + gp.SquaredExponential(
        length, 1.0, name="b"
    )
    run = gp.model_evidence(gp.GPModel(x, y, both, gp.Gaussian(0.1)), predictive=False)
    theta = run.posterior["theta"].values[0]
    assert (theta[:, 0] < theta[:, 1]).mean() == pytest.approx(0.5, abs=0.06)
    masses, lengths = run.modes["mass"].values[:2], run.modes["theta"].values[:2, :2]
    assert masses[0] == pytest.approx(masses[1], abs=0.06)
    np.testing.assert_allclose(lengths[0], lengths[1, ::-1], atol=0.3)
    assert not alarm(run)


def only_the_first(modes) -> Mixture:
    """A mutant: the mixture lacks all modes but one."""
    return Mixture(np.ones(1), modes[0].x[None], np.linalg.inv(modes[0].precision)[None])


@pytest.mark.parametrize("share", [0.1, 1e-9])
def test_without_the_second_mode_and_the_share_of_the_prior_the_evidence_is_silently_wrong(
    monkeypatch, share
):
    """With the share alone the error says so, or the estimate holds."""
    monkeypatch.setattr(mixtures, "DEFENSIVE", share)
    monkeypatch.setattr(Mixture, "at_modes", only_the_first)
    monkeypatch.setattr(mixtures, "missed_modes", lambda density, modes, x, weights: modes)
    monkeypatch.setattr(mixture_evidence, "missed_modes", lambda density, modes, x, weights: modes)
    wrong = 0
    for seed in range(4):
        draws = weighted_draws(two_explanations(), 2000, 0.1, seed, ())
        gap = draws.estimate.mean + 34.927
        wrong += abs(gap) > 4.0 * draws.estimate.error and not draws.alarms()
    assert (wrong > 0) == (share < 0.1)


def test_climbs_from_heavy_draws_find_what_the_search_missed(monkeypatch):
    """The search gets one mode only; the draws of the prior's share lead to the other."""
    found = mixtures.find_modes
    monkeypatch.setattr(mixtures, "find_modes", lambda density, rng: found(density, rng)[:1])
    for seed in range(4):
        draws = weighted_draws(two_explanations(), 8000, 0.1, seed, ())
        assert len(draws.mixture.masses) == 2
        assert abs(draws.estimate.mean + 34.927) < 4.0 * draws.estimate.error


def test_draws_that_go_on_finding_modes_ring(monkeypatch):
    """Each round of draws finds one that the fit before it lacked."""
    fit = mixtures.fit_mixture
    monkeypatch.setattr(
        mixture_evidence, "fit_mixture", lambda density, rng, modes=(): fit(density, rng)
    )
    monkeypatch.setattr(
        mixture_evidence, "missed_modes", lambda density, modes, x, weights: [*modes, modes[0]]
    )
    draws = weighted_draws(curve(), 2000, 0.1, 0, ())
    assert "a mode that the search had missed" in "; ".join(draws.alarms())


def test_few_effective_draws_double_and_then_ring(monkeypatch):
    """Components a hundred times too narrow leave the prior's share alone to reach the posterior."""
    fit = mixtures.fit_mixture

    def narrow(density, rng, modes=()):
        known, own = fit(density, rng, modes)
        return known, Mixture(own.masses, own.locations, 1e-4 * own.scales)

    monkeypatch.setattr(mixture_evidence, "fit_mixture", narrow)
    draws = weighted_draws(curve(), 8000, 0.1, 1, ())
    assert len(draws.x) == 8000
    assert "effective draws of the mixture" in "; ".join(draws.alarms())


def test_a_seed_is_one_result_and_another_is_another():
    runs = [gp.model_evidence(curve(), seed=seed) for seed in (4, 4, 5)]
    parallel = gp.model_evidence(curve(), seed=4, execution=Execution(workers=2, progress=False))
    for name in runs[0].children:
        assert runs[0][name].identical(runs[1][name])
        assert runs[0][name].identical(parallel[name])
    assert estimate(runs[0]) != estimate(runs[2])


def test_groups_are_those_of_the_other_routes():
    mixture = gp.model_evidence(curve(), seed=1)
    chains = gp.model_evidence(
        curve(), route="two_ended", n_draws=100, n_replicates=2, seed=1, execution=QUIET
    )
    assert set(mixture.children) == set(chains.children) - {"pilot"}
    assert set(mixture.evidence.data_vars) == set(chains.evidence.data_vars)
    for name in ("posterior", "sample_stats", "log_likelihood", "posterior_predictive"):
        assert set(mixture[name].data_vars) <= set(chains[name].data_vars)
    kept = mixture.log_likelihood["draw"].values
    assert np.array_equal(kept, np.arange(0, 2000, 10))
    total = mixture.log_likelihood["y"].sum("case").values[0]
    stats = mixture.sample_stats["sum_log_likelihood"].sel(draw=kept).values[0]
    np.testing.assert_allclose(total, stats, rtol=1e-9)
    fits = [float(run.evidence["fit"]) for run in (mixture, chains)]
    assert fits[0] == pytest.approx(fits[1], abs=1.0)
    table = gp.compare_models({"mixture": mixture, "chains": chains})
    assert list(table["verdict"])[1] in ("not resolved", "no preference")


def test_draws_of_chains_that_miss_a_mode_ring():
    model = two_explanations()
    stuck = gp.sample(
        model, gp.JointSplitHMC(), n_chains=2, n_draws=300, predictive=False, execution=QUIET,
        start=model.theta_of({"length_scale": 1.0, "signal_sd": 0.8, "noise_sd": 0.57}),
    )  # fmt: skip
    run = gp.model_evidence(model, draws=stuck, predictive=False, execution=QUIET)
    assert "a mode that has" in alarm(run)
    assert run.modes["visits"].values[:, 1].min() == 0
    assert run.modes["visits"].sum("mode").values.tolist() == [300, 300]
    run = gp.model_evidence(model, draws=stuck, route="mixture", predictive=False)
    assert "a mode that has" in alarm(run)
    without = stuck.drop_nodes("modes")
    run = gp.model_evidence(model, draws=without, route="mixture", predictive=False)
    assert "no modes stand beside the draws" in alarm(run)
    own = gp.model_evidence(curve(), draws=gp.sample(
        curve(), n_chains=2, n_draws=300, predictive=False, execution=QUIET
    ), predictive=False, execution=QUIET)  # fmt: skip
    assert "a mode that has" not in alarm(own)


# -- latents drawn from EP fits --------------------------------------------------------------------


def three_labels() -> tuple[gp.GPModel, float]:
    """Probit: p(y | theta) is an orthant probability, which three dimensions have in closed form."""
    x, y = np.array([0.1, 0.35, 0.9]), np.array([1.0, 1.0, -1.0])
    model = gp.GPModel(x, y, gp.SquaredExponential(LENGTH, SIGNAL), gp.Probit())

    def orthant(theta: np.ndarray) -> float:
        K = model.covariance_matrix(theta) + np.eye(3)
        sd = np.sqrt(np.diagonal(K))
        r = K / np.outer(sd, sd) * np.outer(y, y)
        return float(np.log(0.125 + np.arcsin(r[np.triu_indices(3, 1)]).sum() / (4.0 * np.pi)))

    return model, over_theta(model, 40, orthant)


def counts_without_a_signal() -> tuple[gp.GPModel, float]:
    """Poisson with a level alone, by an integral."""
    y = np.random.default_rng(1).poisson(3.0, 60)
    mean = gp.Hyperprior("uniform", {"loc": -2.0, "scale": 6.0})
    model = gp.GPModel(
        np.linspace(0.0, 1.0, 60), y, gp.SquaredExponential(0.3, 1e-6), gp.Poisson(), mean
    )

    def likelihood(c: float) -> float:
        return np.exp(y.sum() * c - 60 * np.exp(c) - gammaln(y + 1.0).sum() + 120.0)

    whole = quad(likelihood, -2.0, 4.0, points=[np.log(y.mean())], limit=200)[0]
    return model, float(np.log(whole / 6.0)) - 120.0


@pytest.mark.parametrize("case", [three_labels, counts_without_a_signal])
def test_labels_and_counts_against_integrals(case):
    model, exact = case()
    run = gp.model_evidence(model, seed=1, predictive=False)
    value, error = estimate(run)
    assert run.evidence.attrs["route"] == "mixture"
    assert error < 0.05
    assert abs(value - exact) < 4.0 * error
    assert not alarm(run)


@cache
def ordered_labels() -> gp.GPModel:
    x = np.sort(np.random.default_rng(2).random(12))
    return gp.GPModel(
        x,
        np.where(np.sin(6.0 * x) > 0.0, 1, -1),
        gp.SquaredExponential(LENGTH, SIGNAL),
        gp.Probit(),
    )


def test_draws_of_labels_have_latents_and_groups_of_the_other_routes():
    run = gp.model_evidence(ordered_labels(), route="mixture", n_draws=250, seed=3)
    chains = gp.model_evidence(
        ordered_labels(), route="two_ended", n_draws=250, target_error=1.0, seed=3, execution=QUIET
    )
    assert set(run.children) - {"modes"} == set(chains.children) - {"pilot"}
    (a, ea), (b, eb) = estimate(run), estimate(chains)
    assert abs(a - b) < 4.0 * np.hypot(ea, eb)
    fits = [float(own.evidence["fit"]) for own in (run, chains)]
    assert fits[0] == pytest.approx(fits[1], abs=0.6)
    kept = run.log_likelihood["draw"].values
    total = run.log_likelihood["y"].sum("case").values[0]
    stats = run.sample_stats["sum_log_likelihood"].sel(draw=kept).values[0]
    np.testing.assert_allclose(total, stats, rtol=1e-12, atol=1e-15)  # sums of logs next to 0


def test_an_alarm_of_the_weights_is_followed_by_chains(monkeypatch):
    monkeypatch.setattr(mixture_evidence, "LEAST_EFFECTIVE", 1e9)
    settings = {"n_draws": 500, "n_replicates": 2, "target_error": 9.0, "predictive": False}
    run = gp.model_evidence(ordered_labels(), seed=1, execution=QUIET, **settings)
    assert run.evidence.attrs["route"] in ("two_ended", "ladder")
    assert run.modes["visits"].sum("mode").values.tolist() == [run.posterior.sizes["draw"]] * 2
    few = gp.model_evidence(ordered_labels(), n_draws=100, n_replicates=1, target_error=9.0, seed=1)
    assert "modes" not in few.children  # too few draws for a mixture to be tried
    forced = gp.model_evidence(ordered_labels(), route="mixture", seed=1, **settings)
    assert "effective draws of the mixture" in alarm(forced)


def test_the_gradient_of_the_stand_in():
    density = NormalEvidenceDensity(ordered_labels(), tolerance=1e-10)
    x, step = np.array([0.3, -0.4]), 1e-5
    value, gradient = density.value_and_gradient(x)
    assert value == pytest.approx(density(x), abs=1e-8)
    differences = [(density(x + h) - density(x - h)) / (2.0 * step) for h in step * np.eye(2)]
    np.testing.assert_allclose(gradient, differences, rtol=1e-4)
    own = gp.approximate(ordered_labels().at(density.theta(x))).log_evidence
    assert value == pytest.approx(own - 0.5 * x @ x - np.log(2.0 * np.pi), abs=1e-6)


def test_evidence_with_heavy_tails_by_quadrature():
    """n = 1: logs s of the amplitude and t of the scale and the latent on a grid; the mixture by default."""
    normal = gp.Hyperprior("norm", {"loc": 0.0, "scale": 1.0})
    covariance = gp.SquaredExponential(1.0, normal)
    model = gp.GPModel(np.zeros(1), np.full(1, 4.0), covariance, gp.StudentT(normal, 2.0), 0.0)
    s, t = np.linspace(-6, 6, 97)[:, None, None], np.linspace(-6, 6, 97)[None, :, None]
    z = np.linspace(-8, 8, 321)
    log_joint = student_t.logpdf(4.0, 2.0, np.exp(s) * z, np.exp(t)) + norm.logpdf(z)
    log_joint += norm.logpdf(s) + norm.logpdf(t)
    exact = logsumexp(log_joint) + np.log((s[1, 0, 0] - s[0, 0, 0]) ** 2 * (z[1] - z[0]))
    run = gp.model_evidence(model, predictive=False)
    assert run["evidence"].attrs["route"] == "mixture"
    error = float(run["evidence/standard_error"].item())
    assert error < 0.03
    assert run["evidence/log_evidence"].item() == pytest.approx(exact, abs=4.0 * error)


def test_two_explanations_with_student_t_noise():
    """Right by a grid of theta with the latents integrated by importance sampling: benchmarks/modes.csv."""
    rng = np.random.default_rng(23)
    x = np.linspace(0.0, 5.0, 14)
    y = np.sin(1.3 * x) + 0.4 * np.sin(25.0 * x) + 0.1 * rng.standard_t(4, 14)
    scale = gp.Hyperprior("norm", {"loc": -1.0, "scale": 1.0})
    covariance = gp.SquaredExponential(gp.Hyperprior.log_uniform(0.02, 20.0), 1.0)
    model = gp.GPModel(x, y, covariance, gp.StudentT(scale, 4.0))
    run = gp.model_evidence(model, route="mixture", n_draws=250, predictive=False)
    evidence = run["evidence"].to_dataset().isel(estimator=0)
    assert abs(evidence["log_evidence"] + 17.337) < 4.0 * evidence["standard_error"]
    short = float((run["posterior/length_scale"] < 0.25).mean())
    error = np.sqrt(0.24 * 0.76 / float(evidence["effective_size"]))
    assert short == pytest.approx(0.24, abs=4.0 * error)


def test_the_mixture_follows_chains_that_overlap_too_little(monkeypatch):
    """Of a likelihood that is not log-concave, where it comes before the ladder."""
    y = np.array([0.1, 0.4, 0.2, 0.9, 0.3])
    model = gp.GPModel(np.arange(5.0), y, gp.SquaredExponential(1.0, 1.0), gp.Beta())
    chains = gp.model_evidence(model, n_draws=250, predictive=False)
    monkeypatch.setattr(Ends, "poor", lambda own: ["little overlap"])
    run = gp.model_evidence(model, n_draws=250, predictive=False)
    first, second = (tree["evidence"].to_dataset().isel(estimator=0) for tree in (chains, run))
    assert (first.attrs["route"], second.attrs["route"]) == ("two_ended", "mixture")
    error = np.hypot(first["standard_error"], second["standard_error"])
    assert abs(first["log_evidence"] - second["log_evidence"]) < 4.0 * error


def test_a_heavy_tail_rings_where_one_draw_counts(monkeypatch):
    """Weights with the quantiles of a Pareto law of shape 0.9, the heaviest with 4 % of the sum."""
    log_weights = -0.9 * np.log((np.arange(2000) + 0.5) / 2000)
    share = np.exp(log_weights.max() - logsumexp(log_weights))
    assert 0.01 < share < 0.5
    draws = mixture_evidence.Weights(log_weights, [])
    assert any("Pareto k" in alarm for alarm in draws.alarms())
    monkeypatch.setattr(mixture_evidence, "HARMLESS_WEIGHT", 1.01 * share)
    assert not any("Pareto k" in alarm for alarm in draws.alarms())


def test_what_the_mixture_cannot_do_is_refused():
    x = np.linspace(0.0, 1.0, 101)
    shares = gp.GPModel(x, 0.5 + 0.4 * np.sin(6.0 * x), gp.SquaredExponential(), gp.Beta())
    with pytest.raises(InputError, match="the beta likelihood, which is not log-concave"):
        gp.model_evidence(shares, route="mixture")
    with pytest.raises(InputError, match="leave out the sampler, and draws but of a regression"):
        gp.model_evidence(curve(), gp.JointSplitHMC(), route="mixture")


def test_a_wider_mixture_keeps_its_sides():
    ones, sides = np.ones(1), np.array([[[0.5, 1.0], [2.0, 1.0]]])
    narrow, wide = (
        Mixture(ones, np.ones((1, 2)), scale * np.eye(2)[None], sides) for scale in (0.3, 0.6)
    )
    x = np.random.default_rng(0).standard_normal((20, 2))
    np.testing.assert_allclose(narrow.wider(2.0).log_density(x), wide.log_density(x))
    assert not np.allclose(wide.log_density(x), narrow.log_density(x))
