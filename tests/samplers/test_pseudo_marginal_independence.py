"""Blocks of independent proposals: the mean that is integrated out, their draws, and who takes them."""

from __future__ import annotations

import json

import arviz_stats
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import gpmcflow as gp
from gpmcflow.approximations.site_draws import SettingFit
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import Execution, array_digest
from gpmcflow.samplers import sampling
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.pseudo_marginal_independence import WithoutMean, suits_independence

NORMAL = gp.Hyperprior("norm", {"loc": 0.0, "scale": 1.0})
MEAN = gp.Hyperprior("norm", {"loc": 0.4, "scale": 1.5})
SMALL = {"n_chains": 2, "n_draws": 40, "n_warmup": 2, "predictive": False}
QUIET = Execution(progress=False)


def counts(n=7, likelihood=None, mean=MEAN, **settings):
    x = np.linspace(0.0, 2.0, n)
    y = np.round(2.0 + np.cos(3.0 * x))
    covariance = gp.SquaredExponential(NORMAL, NORMAL)
    return gp.GPModel(x, y, covariance, likelihood or gp.Poisson(), mean, **settings)


def many_parameters(n=8):
    X = np.random.default_rng(0).standard_normal((n, 9))
    return gp.GPModel(X, np.ones(n), gp.SquaredExponential(ard=True), gp.Poisson())


def sampler_of(tree):
    return json.loads(tree.attrs["settings"])["sampler"].split("(")[0]


def digest(tree):
    groups = [tree[name].to_dataset() for name in ("posterior", "sample_stats")]
    return array_digest({name: group[name].values for group in groups for name in group.data_vars})


# -- the mean --------------------------------------------------------------------------------------


def test_predictors_without_the_mean_have_its_variance_beside_the_covariance():
    model = counts()
    inner = WithoutMean(model).model
    theta = np.array([0.2, -0.3])
    K = model.at(np.array([0.2, -0.3, 0.0])).predictor_covariance
    np.testing.assert_allclose(inner.at(theta).predictor_covariance, K + 1.5**2, atol=1e-9)
    np.testing.assert_allclose(inner.at(theta).predictor_mean, 0.4)
    x = WithoutMean(model).normal(np.array([0.2, -0.3, 1.9]))
    np.testing.assert_allclose(x, inner.parameters.to_normal(theta))


def test_the_mean_given_predictors_is_that_of_the_joint_normal():
    """Mean and variance of c given eta by blocks of the covariance of (c, eta), over 20,000 draws."""
    model = counts()
    without = WithoutMean(model)
    none = np.zeros(7)
    at = SettingFit(without.model, np.array([0.2, -0.3]), (none, none))
    eta, rng = np.linspace(-1.0, 2.0, 7), np.random.default_rng(0)
    S = model.at(np.append(at.theta, 0.0)).predictor_covariance + 1.5**2
    weights = np.linalg.solve(S, np.full(7, 1.5**2))
    mean, variance = 0.4 + weights @ (eta - 0.4), 1.5**2 - 1.5**2 * weights.sum()
    found = np.array([without.drawn(rng, at, eta)[0][2] for _ in range(20_000)])
    assert found.mean() == pytest.approx(mean, abs=4.0 * np.sqrt(variance / 20_000))
    assert found.var() == pytest.approx(variance, rel=4.0 * np.sqrt(2.0 / 20_000))


def test_the_density_of_latents_beside_a_drawn_mean_is_the_prior_written_out():
    model = counts()
    without, none = WithoutMean(model), np.zeros(7)
    at = SettingFit(without.model, np.array([0.2, -0.3]), (none, none))
    theta, f, log_normal = without.drawn(np.random.default_rng(1), at, np.linspace(-1.0, 2.0, 7))
    K = model.at(theta).predictor_covariance
    assert log_normal == pytest.approx(multivariate_normal(np.zeros(7), K).logpdf(f), abs=1e-5)
    np.testing.assert_allclose(f + theta[2], np.linspace(-1.0, 2.0, 7))


@pytest.mark.parametrize("mean", [0.3, gp.Hyperprior("t", {"df": 5.0, "loc": 0.0, "scale": 1.0})])
def test_a_mean_that_is_fixed_or_not_normal_stays(mean):
    without = WithoutMean(counts(mean=mean))
    assert without.place is None
    assert without.model.names == counts(mean=mean).names


def test_a_mean_that_is_the_only_parameter_stays():
    x = np.arange(4.0)
    model = gp.GPModel(x, x, gp.SquaredExponential(1.0, 1.0), gp.Poisson(), MEAN)
    assert WithoutMean(model).place is None
    assert sampler_of(gp.sample(model, **SMALL)) == "PseudoMarginalIndependence"


def test_draws_of_parameters_mean_latents_and_data_stay_exact():
    """(theta, c, f, y) of the model, moved by two blocks: no function of them changes in the mean."""
    rng, changes = np.random.default_rng(5), []
    narrow = gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.5})
    mean = gp.Hyperprior("norm", {"loc": 0.4, "scale": 0.8})
    covariance = gp.SquaredExponential(narrow, narrow)
    model = gp.GPModel(np.linspace(0.0, 2.0, 4), np.ones(4), covariance, gp.Poisson(), mean)
    frame = gp.PseudoMarginalIndependence().adapt(JointProblem.of(model, None), seed=0, key=())
    settings = gp.PseudoMarginalIndependence(n_latents=2, n_proposals=3, frame=frame.sampler.frame)
    for _ in range(1_500):
        theta = model.draw_prior(rng)
        f, y = model.simulate(rng, theta)
        chain = settings.bind(model.with_y(y))
        state = chain.init(rng, {"theta": theta, "latent": f})
        for _ in range(4):
            state, _ = chain.step(rng, state)
        changes.append(functions(state.theta, state.latent, y) - functions(theta, f, y))
    z = np.mean(changes, 0) / np.std(changes, 0) * np.sqrt(len(changes))
    assert 2.0 * len(z) * norm.sf(np.abs(z).max()) > 0.001
    assert np.all(np.std(changes, 0) > 0.1)  # they move


def functions(theta, f, y):
    squashed = np.tanh(f)
    return np.array(
        [*theta, *theta**2, *(theta * np.log1p(y[0])), *squashed, theta[2] * squashed[0]]
    )


# -- draws -----------------------------------------------------------------------------------------


def test_what_is_kept_of_a_draw():
    model = counts()
    draws = gp.sample(model, "pseudo_marginal_independence", **SMALL, seed=3)
    for draw in (0, 17, 33):
        at = draws.isel(chain=1, draw=draw)
        theta, f = at["posterior/theta"].values, at["posterior/latent"].values
        stats = at["sample_stats"]
        assert float(stats["sum_log_likelihood"]) == pytest.approx(model.log_likelihood(f, theta))
        assert float(stats["lp"]) == pytest.approx(model.log_density(theta, f), rel=1e-6)


def test_posterior_is_that_of_joint_split_hmc():
    settings = {"n_chains": 4, "n_draws": 1500, "predictive": False, "execution": QUIET}
    ours = gp.sample(counts(), gp.PseudoMarginalIndependence(), seed=1, **settings)
    other = gp.sample(counts(), gp.JointSplitHMC(), seed=2, **settings)
    for name in ("length_scale", "signal_sd", "mean"):
        a, b = (np.log(np.abs(tree.posterior[name])) if name != "mean" else tree.posterior[name]
                for tree in (ours, other))  # fmt: skip
        errors = [float(own.mean("draw").std("chain")) / 2.0 for own in (a, b)]
        assert float(a.mean() - b.mean()) == pytest.approx(0.0, abs=5.0 * max(*errors, 0.02))
        assert float(a.std() / b.std()) == pytest.approx(1.0, abs=0.15)


def test_same_numbers_however_it_is_cut_and_scheduled(tmp_path):
    """Segments end inside blocks."""

    def run(**how):
        sampler = gp.PseudoMarginalIndependence()
        return gp.sample(
            counts(), sampler, **SMALL, seed=4, execution=Execution(progress=False, **how)
        )

    whole = run(segment_length=42)
    cut = run(segment_length=5, scheduler="threads", workers=2)
    stored, again = (run(segment_length=10, state_dir=tmp_path) for _ in range(2))
    assert len({digest(own) for own in (whole, cut, stored.load(), again.load())}) == 1


def test_starts_with_latents_are_kept_among_the_draws():
    model = counts()
    given = {"theta": np.array([0.5, -0.5, 0.2]), "latent": np.linspace(-1.0, 1.0, 7)}
    sampler = gp.PseudoMarginalIndependence(n_latents=2)
    chain = sampler.adapt(JointProblem.of(model, None), seed=0, key=()).sampler.bind(model)
    rng = np.random.default_rng(0)
    states = [chain.init(rng, given) for _ in range(20)]
    predictors = [state.latent + state.theta[2] for state in states]
    kept = [np.allclose(own, given["latent"] + 0.2, atol=1e-8) for own in predictors]
    assert 0 < sum(kept) < 20  # one of two, by weight
    for state in states:
        np.testing.assert_allclose(state.theta[:2], given["theta"][:2])


def test_a_block_gives_as_many_draws_as_proposals_and_goes_on_from_the_last():
    model = counts()
    adapted = gp.PseudoMarginalIndependence(n_proposals=4).adapt(
        JointProblem.of(model, None), seed=0, key=()
    )
    chain, rng = adapted.sampler.bind(model), np.random.default_rng(1)
    state = chain.init(rng, {"theta": adapted.problem.starts["theta"][0]})
    assert state.place == 4
    weights = []
    for place in (1, 2, 3, 4):
        state, info = chain.step(rng, state)
        weights.append(info.log_weight)
        assert state.place == place
        np.testing.assert_array_equal(state.theta, state.picked_theta[place - 1])
    assert len(set(weights)) == 4
    last = state
    after, _ = chain.step(rng, state)
    assert 0.0 < after.kept < 1.0
    assert not np.array_equal(after.picked_theta, last.picked_theta)


def test_proposals_without_a_fit_have_no_weight(monkeypatch):
    model = counts()
    adapted = gp.PseudoMarginalIndependence().adapt(JointProblem.of(model, None), seed=0, key=())
    chain, rng = adapted.sampler.bind(model), np.random.default_rng(1)
    state = chain.init(rng, {"theta": adapted.problem.starts["theta"][0]})

    def refuse(self, rng, x, kept):
        raise NumericalError("no fit")

    monkeypatch.setattr(type(chain), "_at", refuse)
    moved, info = chain.step(rng, state)
    np.testing.assert_array_equal(moved.theta, state.theta)
    assert (info.n_failed, info.log_weight, info.acceptance_rate) == (1, -np.inf, 0.0)


# -- evidence --------------------------------------------------------------------------------------


def test_the_mean_weight_of_all_proposals_is_the_evidence():
    model = counts()
    draws = gp.sample(
        model, gp.PseudoMarginalIndependence(), n_draws=500, predictive=False, execution=QUIET
    )
    run = gp.model_evidence(model, draws=draws, predictive=False)
    known = gp.model_evidence(model, route="mixture", seed=3, predictive=False)
    value, exact = (tree.evidence.sel(estimator="importance") for tree in (run, known))
    error = np.hypot(float(value["standard_error"]), float(exact["standard_error"]))
    assert error < 0.05
    assert abs(float(value["log_evidence"] - exact["log_evidence"])) < 4.0 * error
    assert run.evidence.attrs["route"] == "mixture"
    assert str(run.evidence["alarm"].values) == ""
    assert run.reference["log_ratio"].size == 2000
    assert "latent" not in run.posterior
    assert float(run.evidence["fit"]) == float(draws.sample_stats["sum_log_likelihood"].mean())


def test_weights_with_an_alarm_are_bridged():
    """One weight of 400 is as large as all others together."""
    model = counts()
    draws = gp.sample(
        model, gp.PseudoMarginalIndependence(), n_draws=100, predictive=False, execution=QUIET
    )
    draws.sample_stats["log_weight"][0, 0] += np.log(800.0)
    run = gp.model_evidence(model, draws=draws, n_draws=100, target_error=1.0, predictive=False)
    assert run.evidence.attrs["route"] == "two_ended"
    asked = gp.model_evidence(model, draws=draws, route="mixture", predictive=False)
    assert str(asked.evidence["alarm"].values)


# -- when it is chosen -----------------------------------------------------------------------------


def test_which_models_it_suits():
    assert suits_independence(counts())
    assert suits_independence(counts(likelihood=gp.StudentT(), mean=0.0))
    assert not suits_independence(many_parameters())
    assert not suits_independence(counts(likelihood=gp.Gaussian()))
    assert not suits_independence(counts(structure="basis"))


def test_counts_of_few_hyperparameters_take_it_and_others_do_not():
    draws = gp.sample(counts(), **SMALL)
    assert sampler_of(draws) == "PseudoMarginalIndependence"
    assert "are effective; latents by 16" in draws["pilot"].attrs["chosen"]
    assert 0.5 < float(draws["pilot/share"]) <= 1.0
    assert sampler_of(gp.sample(many_parameters(), **SMALL)) == "JointSplitHMC"


def test_chains_of_few_cases_with_heavy_tails_agree():
    """Joint split HMC had R-hat 1.65 after 600 draws of these: noise and curve change places."""
    rng = np.random.default_rng([8, 43])
    x, y = np.sort(rng.uniform(-2.0, 2.0, 20)), np.ones(20)
    model = gp.GPModel(x, y, gp.SquaredExponential(), gp.StudentT())
    model = model.with_y(model.simulate(rng, model.draw_prior(rng))[1])
    draws = gp.sample(model, n_chains=2, n_draws=200, predictive=False, seed=1)
    assert sampler_of(draws).startswith(
        "PseudoMarginal"
    )  # half of the proposals are effective, about
    assert float(arviz_stats.rhat(draws["posterior/theta"]).max()) < 1.1


@pytest.mark.parametrize(("least", "k"), [(1.01, 0.7), (0.35, -9.0)])
def test_where_proposals_are_poor_trajectories_take_their_place(least, k, monkeypatch):
    monkeypatch.setattr(sampling, "LEAST_PROPOSED", least)
    monkeypatch.setattr(sampling, "LARGEST_K", k)
    problem = JointProblem.of(counts(), None)
    sampler, after, _ = sampling.choose(problem, seed=0, key=())
    assert (type(sampler).__name__, after is problem) == ("JointSplitHMC", True)


def test_beside_trajectories_on_the_evidence_more_proposals_have_to_be_good(monkeypatch):
    """Labels have both; counts are judged by the other limit."""
    x = np.linspace(0.0, 2.0, 6)
    y = np.where(np.cos(2.0 * x) > 0, 1.0, -1.0)
    labels = gp.GPModel(x, y, gp.SquaredExponential(NORMAL, NORMAL), gp.Logistic(), 0.3)
    chosen = []
    for least in (0.0, 1.01):
        monkeypatch.setattr(sampling, "LEAST_BESIDE_EVIDENCE", least)
        for model in (labels, counts()):
            sampler = sampling.choose(JointProblem.of(model, None), seed=0, key=())[0]
            chosen.append(type(sampler).__name__)
    first = "PseudoMarginalIndependence"
    assert chosen == [first, first, "PseudoMarginalHMC", first]


def test_where_ep_finds_no_mode_chains_over_both_take_its_place(monkeypatch):
    def refuse(self, problem, **streams):
        raise NumericalError("no mode")

    monkeypatch.setattr(gp.PseudoMarginalIndependence, "adapt", refuse)
    assert sampler_of(gp.sample(counts(), **SMALL)) == "JointSplitHMC"


def test_what_it_refuses():
    sampler = gp.PseudoMarginalIndependence()
    with pytest.raises(InputError, match="regression are integrated out exactly; take Joint"):
        gp.sample(counts(likelihood=gp.Gaussian()), sampler, **SMALL)
    with pytest.raises(InputError, match=r"structure 'basis', .*take JointSplitHMC"):
        gp.sample(counts(structure="basis"), sampler, **SMALL)
    for setting, allowed in {"n_latents": "2 or more", "n_proposals": "whole number"}.items():
        with pytest.raises(InputError, match=rf"{setting} is .*; allowed: .*{allowed}"):
            gp.PseudoMarginalIndependence(**{setting: 1 if setting == "n_latents" else 0})
    with pytest.raises(InputError, match="its pilot has not run"):
        sampler.bind(counts())
