"""The default of regressions: independence Metropolis from all modes, or chains that start in each."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

import gpmcflow as gp
from gpmcflow.errors import NumericalError
from gpmcflow.execution import Execution, array_digest
from gpmcflow.samplers import sampling
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.modes_group import StartingModes

RIGHT_MEANS, RIGHT_SDS = np.array([-0.109, -0.224, -0.678]), np.array([0.65, 0.45, 0.46])


def normal(loc):
    return gp.Hyperprior("norm", {"loc": loc, "scale": 1.0})


def two_explanations():
    rng = np.random.default_rng([77, 2])
    x = np.linspace(0, 5, 30)
    y = np.sin(1.3 * x) + 0.7 * np.sin(25 * x) + 0.1 * rng.standard_normal(30)
    covariance = gp.SquaredExponential(gp.Hyperprior.log_uniform(0.02, 20.0), normal(0.0))
    return gp.GPModel(x, y, covariance, gp.Gaussian(normal(-1.0)))


def curve(**settings):
    x = np.linspace(0.0, 1.0, 10)
    y = np.sin(6.0 * x) + 0.1 * np.cos(40.0 * x)
    return gp.GPModel(x, y, gp.SquaredExponential(), gp.Gaussian(), **settings)


def many_columns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 8))
    return gp.GPModel(X, X[:, 0], gp.SquaredExponential(ard=True), gp.Gaussian())


def digest(tree):
    groups = [tree[name].to_dataset() for name in ("posterior", "sample_stats")]
    return array_digest({name: group[name].values for group in groups for name in group.data_vars})


def sampler_of(tree):
    return json.loads(tree.attrs["settings"])["sampler"].split("(")[0]


def test_two_explanations_have_the_moments_of_quadrature():
    """Chains of trajectories find -0.57 for the last mean, and 0.15 for the last sd."""
    draws = gp.sample(two_explanations(), n_draws=300, predictive=False, seed=1)
    theta = draws["posterior/theta"].values.reshape(-1, 3)
    assert sampler_of(draws) == "JointIndependence"
    np.testing.assert_allclose(theta.mean(0), RIGHT_MEANS, atol=0.1)
    np.testing.assert_allclose(theta.std(0), RIGHT_SDS, atol=0.1)
    assert draws.attrs["modes"].startswith("two explanations: 9")
    assert np.all(draws.modes["visits"] > 5)


def test_each_draw_has_latents_of_its_own():
    """f given y and theta, less its mean, in units of its standard deviation."""
    model = curve()
    draws = gp.sample(model, n_draws=100, n_chains=2, predictive=False, seed=3)
    latents = draws["posterior/latent"].values.reshape(-1, 10)
    scaled = []
    for theta, f in zip(draws["posterior/theta"].values.reshape(-1, 3), latents, strict=True):
        own = model.natural(theta)
        apart = (model.X - model.X.T) / own["length_scale"]
        K = own["signal_sd"] ** 2 * np.exp(-0.5 * apart**2)
        gain = np.linalg.solve(K + own["noise_sd"] ** 2 * np.eye(10), K).T
        variance = np.diag(K - gain @ K)
        scaled.append((f - gain @ model.y) / np.sqrt(variance))
    size = np.sqrt(len(scaled))
    assert np.abs(np.mean(scaled, axis=0)).max() < 3.5 / size
    assert np.abs(np.std(scaled, axis=0) - 1.0).max() < 3.5 / size
    assert len(np.unique(latents[:, 0])) == 200  # also where theta stays


def test_same_numbers_however_it_is_cut_and_scheduled(tmp_path):
    sizes = {"n_chains": 3, "n_draws": 10, "n_warmup": 3, "seed": 4, "predictive": False}

    def run(**how):
        changed = {"n_chains": how.pop("n_chains", 3)}
        return gp.sample(curve(), **sizes | changed, execution=Execution(progress=False, **how))

    tree = run(segment_length=13)
    cut = run(segment_length=4, scheduler="threads", workers=2)
    stored, again = (run(segment_length=5, state_dir=tmp_path) for _ in range(2))
    lazy = run(compute=False)
    assert sampler_of(tree) == "JointIndependence"
    assert len({digest(own) for own in (tree, cut, stored.load(), again.load(), lazy.load())}) == 1
    one = run(n_chains=1)
    np.testing.assert_array_equal(one.posterior.theta[0], tree.posterior.theta[0])
    assert digest(tree) != digest(gp.sample(curve(), **sizes | {"seed": 5}))


def test_goes_on_where_a_run_was_killed(tmp_path):
    sizes = {"n_chains": 2, "n_draws": 12, "n_warmup": 0, "seed": 1, "predictive": False}
    how = Execution(segment_length=4, state_dir=tmp_path, progress=False)
    whole = digest(gp.sample(curve(), **sizes, execution=how).load())
    segments = sorted(path for path in tmp_path.rglob("*") if path.is_file() and "8" in path.name)
    for path in segments:
        path.unlink()
    assert digest(gp.sample(curve(), **sizes, execution=how).load()) == whole


def test_layout_of_what_is_kept():
    few = {"n_chains": 2, "n_draws": 6, "n_warmup": 0, "seed": 2}
    draws = gp.sample(curve(), **few)
    usual = gp.sample(curve(), gp.JointSplitHMC(rounds=(6, 6)), **few)
    assert set(draws.children) == set(usual.children) - {"pilot"}
    assert set(draws.posterior.data_vars) == set(usual.posterior.data_vars)
    shared = {"lp", "sum_log_likelihood", "complete_log_likelihood", "acceptance_rate"}
    assert shared <= set(draws.sample_stats.data_vars)
    assert np.all(draws.sample_stats["n_fit"] == 6)
    model, at = curve(), draws.posterior.isel(chain=1, draw=2)
    theta, f = at["theta"].values, at["latent"].values
    log_likelihood = draws.sample_stats["sum_log_likelihood"].values[1, 2]
    assert log_likelihood == pytest.approx(model.log_likelihood(f, theta))
    thinned = gp.sample(curve(), thin=3, keep_latents=False, **few)
    assert "latent" not in thinned.posterior
    assert thinned.trace.sizes["iteration"] == 18
    by_weights = gp.sample(curve(structure="basis"), **few)
    assert "weight" in by_weights.posterior
    assert sampler_of(by_weights) == "JointIndependence"


def test_starts_are_where_chains_begin():
    model, given = curve(), np.array([[-1.0, 0.5, -2.0], [0.2, -0.3, -1.0]])
    problem = JointProblem.of(model, given)
    sampler, problem, _ = sampling.choose(problem, seed=0, key=())
    assert isinstance(sampler, gp.JointIndependence)
    chains = sampler.adapt(problem, n_chains=2, seed=0, key=(), execution=None).problem
    rng = np.random.default_rng(0)
    for k in range(2):
        state = sampler.bind(model).init(rng, chains.start(rng, k))
        np.testing.assert_array_equal(state.theta, given[k])
        wanted = gp.RegressionDensity(model)(given[k]) - sampler.proposal.evaluate(given[k])
        assert state.log_weight == pytest.approx(wanted)
    with pytest.raises(NumericalError, match="not finite at"):
        gp.sample(model, start=np.array([0.0, 400.0, 0.0]), n_draws=5)


def test_many_hyperparameters_are_not_searched(monkeypatch):
    monkeypatch.setattr(sampling, "modes_or_warning", lambda *_: pytest.fail("a search"))
    problem = JointProblem.of(many_columns(), None)
    sampler, same, modes = sampling.choose(problem, seed=0, key=())
    assert sampler == gp.JointSplitHMC()
    assert same is problem
    assert modes is None


@pytest.mark.parametrize(("name", "limit"), [("LEAST_SHARE", 1.1), ("LARGEST_K", -9.0)])
def test_a_poor_mixture_gives_way_to_trajectories_that_start_in_every_mode(
    monkeypatch, name, limit
):
    monkeypatch.setattr(sampling, name, limit)
    model = two_explanations()
    sampler, problem, modes = sampling.choose(JointProblem.of(model, None), seed=0, key=())
    assert sampler == gp.JointSplitHMC()
    assert problem.modes.theta.shape == (2, 3)
    np.testing.assert_array_less(problem.modes.mass[1:], problem.modes.mass[:-1])
    np.testing.assert_allclose(np.sort(problem.modes.mass), np.sort(modes.masses))
    assert problem.digest() != JointProblem.of(model, None).digest()
    given = JointProblem.of(model, model.prior_median())
    assert sampling.choose(given, seed=0, key=())[1] is given


def test_chains_start_in_every_mode(monkeypatch, caplog):
    """Two of the usual pilots, both at the heavier mode, would see no noise level of 1."""
    monkeypatch.setattr(sampling, "LEAST_SHARE", 1.1)
    monkeypatch.setattr(sampling, "JointSplitHMC", lambda: gp.JointSplitHMC(rounds=(30, 60)))
    with caplog.at_level(logging.WARNING):
        draws = gp.sample(two_explanations(), n_draws=40, n_chains=3, predictive=False, seed=1)
    visits = draws.modes["visits"].values
    assert sampler_of(draws) == "JointSplitHMC"
    assert visits[[0, 2], 0].min() > 20
    assert visits[1, 1] > 30
    assert "chain 1 never visits a mode that has 9" in caplog.text
    assert "R-hat" in caplog.text


def test_modes_of_chains_do_not_depend_on_their_number():
    modes = StartingModes(np.zeros((3, 1)), np.array([0.7, 0.25, 0.05]))
    all_chains = modes.of_chains(20)
    np.testing.assert_array_equal(all_chains[:4], [0, 1, 2, 0])
    np.testing.assert_array_equal(np.bincount(all_chains), [14, 5, 1])
    for n in range(1, 20):
        np.testing.assert_array_equal(modes.of_chains(n), all_chains[:n])


def test_a_search_that_fails_is_told(monkeypatch, caplog):
    def fails(*_):
        raise NumericalError("modes: the density is zero")

    monkeypatch.setattr("gpmcflow.samplers.modes_group.fit_mixture", fails)
    sampler, _, modes = sampling.choose(JointProblem.of(curve(), None), seed=0, key=())
    assert sampler == gp.JointSplitHMC()
    assert modes is None
    assert "the search for modes failed: modes: the density is zero" in caplog.text
