from __future__ import annotations

import logging

import arviz_stats
import numpy as np
import pytest
import xarray as xr

import gpmcflow
import gpmcflow as gp
from gpmcflow.approximations.prediction import predict
from gpmcflow.covariances.leaves import Linear, Periodic, SquaredExponential
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import Execution, array_digest
from gpmcflow.likelihoods import Gaussian, Logistic, Poisson
from gpmcflow.models.gp_model import GPModel
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.samplers import JointSplitHMC
from gpmcflow.samplers.adaptation.joint_pilot import Earlier, PilotProgram
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings
from gpmcflow.samplers.joint import split_hmc
from gpmcflow.samplers.joint.problem import JointProblem
from gpmcflow.samplers.joint.split_hmc import (
    NARROWER,
    RESTARTS,
    SETTLING,
    SPREAD,
    SplitTransition,
)
from gpmcflow.samplers.sampling import sample
from gpmcflow.storage import load_results, write_results

LENGTH = Hyperprior.log_uniform(0.1, 10.0)
NORMAL = Hyperprior("norm", {"scale": 0.5})
OFFSET = Hyperprior("norm", {"loc": 0.5, "scale": 0.4})
SHORT = JointSplitHMC(rounds=(8, 9, 6), max_steps=6)


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    covariance = SquaredExponential(LENGTH, NORMAL, ard=True)
    return GPModel(rng.random((15, 2)), rng.poisson(2.0, 15), covariance, Poisson(), OFFSET)


@pytest.fixture(scope="module")
def labels():
    X = np.random.default_rng(1).random((15, 6))
    covariance = SquaredExponential(LENGTH, NORMAL, ard=True)
    return GPModel(X, np.where(X[:, 0] > 0.5, 1.0, -1.0), covariance, Logistic())


def digest(tree):
    groups = [tree[name].to_dataset() for name in ("posterior", "sample_stats", "pilot")]
    return array_digest({name: group[name].values for group in groups for name in group.data_vars})


@pytest.mark.parametrize("name", ["counts", "labels"])
def test_same_numbers_however_it_is_cut_and_scheduled(name, request, tmp_path):
    model = request.getfixturevalue(name)
    sizes = {"n_chains": 3, "n_draws": 10, "n_warmup": 3, "seed": 4}
    tree = sample(model, SHORT, **sizes, execution=Execution(segment_length=13))
    cut = sample(
        model, SHORT, **sizes, execution=Execution(segment_length=4, scheduler="threads", workers=2)
    )
    stored = sample(
        model,
        SHORT,
        **sizes,
        execution=Execution(segment_length=5, block_size=2, state_dir=tmp_path),
    )
    again = sample(
        model,
        SHORT,
        **sizes,
        execution=Execution(segment_length=5, block_size=2, state_dir=tmp_path),
    )
    assert digest(tree) == digest(cut) == digest(stored.load()) == digest(again.load())
    one = sample(model, SHORT, **sizes | {"n_chains": 1})  # the pilot is the same, bit for bit
    assert np.array_equal(one.posterior.theta[0], tree.posterior.theta[0])
    assert all(
        np.array_equal(one.pilot[v], tree.pilot[v], equal_nan=True) for v in tree.pilot.data_vars
    )
    assert digest(tree) != digest(sample(model, SHORT, **sizes | {"seed": 5}))


def test_goes_on_where_a_run_was_killed(counts, tmp_path):
    sizes = {"n_chains": 2, "n_draws": 12, "n_warmup": 0, "seed": 1}
    whole = sample(counts, SHORT, **sizes)
    how = Execution(segment_length=4, state_dir=tmp_path)
    sample(counts, SHORT, **sizes | {"n_draws": 4}, execution=how)
    rounds = sorted((tmp_path / "pilot").rglob("*.npz"))
    rounds[-1].unlink()  # the last round of a pilot, and more draws than there are
    assert digest(sample(counts, SHORT, **sizes, execution=how).load()) == digest(whole)


def test_layout(counts, tmp_path):
    tree = sample(counts, SHORT, n_chains=2, n_draws=6, n_warmup=2, thin=3)
    assert tree.posterior.theta.dims == ("chain", "draw", "theta_dim")
    assert tree.posterior.theta_dim.values.tolist() == list(counts.names)
    assert tree.posterior.latent.shape == (2, 6, 15)
    assert set(tree.sample_stats) == {
        "complete_log_likelihood", "sum_log_likelihood", "lp", "acceptance_rate", "energy", "energy_error",
        "diverging", "n_gradient", "rejected_in_a_row",
    }  # fmt: skip
    assert tree.trace.complete_log_likelihood.shape == (2, 18)
    assert np.array_equal(tree.trace.theta[:, 2::3], tree.posterior.theta)
    theta, f = tree.posterior.theta.values[1, 4], tree.posterior.latent.values[1, 4]
    assert tree.sample_stats.lp.values[1, 4] == pytest.approx(counts.log_density(theta, f))
    expected = float(counts.log_likelihood(f, theta))
    assert tree.sample_stats.sum_log_likelihood.values[1, 4] == pytest.approx(expected)
    pilot = tree.pilot
    assert pilot.stage.values.tolist() == ["mode", "round 1", "round 2", "step"]
    assert pilot.step_size.shape == pilot.n_gradient.shape == (4,)
    assert np.all(pilot.precision > 0)
    assert pilot.precision.shape == (15,)
    assert "as they were fitted" in pilot.attrs["chosen"]
    assert np.all(tree.sample_stats.n_gradient == 3 * int(pilot.n_steps[-1]))
    assert '"sampler":"JointSplitHMC(' in tree.attrs["settings"]
    write_results(tree, tmp_path / "found.nc")
    loaded = load_results(tmp_path / "found.nc")
    assert arviz_stats.ess(loaded, var_names=["theta"]) is not None
    assert np.array_equal(loaded.pilot.scale, pilot.scale)
    bare = sample(counts, SHORT, n_chains=1, n_draws=2, n_warmup=0, keep_latents=False)
    assert "latent" not in bare.posterior
    lazy = sample(
        counts, SHORT, n_chains=2, n_draws=6, n_warmup=2, thin=3, execution=Execution(compute=False)
    )
    assert np.array_equal(lazy.posterior.theta.compute(), tree.posterior.theta)


def test_chains_start_apart_and_count_what_they_reject(labels, counts, monkeypatch):
    """Without the transitions that are dropped: x = mu + 1.5 A xi, whatever the strength of the sites."""
    monkeypatch.setattr(split_hmc, "SETTLING", 0)
    monkeypatch.setattr(split_hmc, "RESTARTS", 1)
    for model in (labels, counts):
        problem = JointProblem.of(model, None)
        run = {"n_chains": 1, "seed": 0, "key": (), "execution": Execution(progress=False)}
        chain = SHORT.adapt(problem, **run).sampler.bind(model)
        rng = np.random.default_rng(0)
        states = [chain.init(rng, None) for _ in range(400)]
        y = np.array([state.position[: model.dim] for state in states])
        assert abs(np.mean(y**2) - 2.25) < 0.3
        state, runs, same = states[0], [], []
        for _ in range(60):
            after, info = chain.step(rng, state)
            runs.append(info.rejected_in_a_row)
            same.append(np.array_equal(after.position, state.position))
            state = after
        expected, count = [], 0
        for stays in same:
            count = count + 1 if stays else 0
            expected.append(count)
        assert runs == expected


def test_through_sample(counts):
    tree = gpmcflow.sample(counts, SHORT, n_chains=2, n_draws=5, n_warmup=1, seed=3)
    same = sample(counts, SHORT, n_chains=2, n_draws=5, n_warmup=1, seed=3)
    assert np.array_equal(tree.posterior.theta, same.posterior.theta)
    message = r"HMC is a sampler of latents, .*model.at\(theta\).* pseudo_marginal_hmc, .*, surrogate_slice"
    with pytest.raises(InputError, match=message):
        gpmcflow.sample(counts, "hmc")


@pytest.mark.parametrize(
    ("covariance", "structure"),
    [
        (SquaredExponential(LENGTH, NORMAL, ard=True), "kronecker"),
        (SquaredExponential(LENGTH, NORMAL), "dense"),
        (SquaredExponential(LENGTH, 1.5), "dense"),
        (SquaredExponential(LENGTH) * Periodic(LENGTH, period=0.7, columns=0) + Linear(), "dense"),
    ],
    ids=["kronecker", "isotropic", "fixed amplitude", "sum"],
)
def test_other_models(covariance, structure):
    side = np.linspace(0, 1, 4)
    X = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    y = np.random.default_rng(0).poisson(1.5, 16).astype(float)
    model = GPModel(X, y, covariance, Poisson(), structure=structure)
    tree = sample(model, SHORT, n_chains=2, n_draws=20)
    assert np.all(np.isfinite(tree.posterior.theta))
    assert tree.sample_stats.acceptance_rate.mean() > 0.3


def test_predictions_at_the_cases_are_the_latents(counts, labels):
    for model in (counts, labels):
        tree = sample(model, SHORT, n_chains=2, n_draws=20, n_warmup=0)
        found = predict(tree, model.X)
        eta = tree.posterior.latent.values.reshape(-1, 15)
        if model is counts:
            eta = eta + tree.posterior["mean"].values.reshape(-1, 1)
        assert np.allclose(found.latent_mean, eta.mean(0), atol=0.02)
        assert np.allclose(found.latent_sd, eta.std(0), atol=0.02)


def test_pilot_finds_the_posterior_from_a_poor_start():
    """Regression, where the posterior of theta is known by a grid."""
    rng = np.random.default_rng(3)
    X = np.linspace(0, 1, 25)
    y = np.sin(6 * X) + 0.1 * rng.standard_normal(25)
    model = GPModel(X, y, SquaredExponential(LENGTH, NORMAL), Gaussian(0.1))
    start = [np.log(9.0), -1.4]
    tree = sample(model, JointSplitHMC(), n_chains=2, n_draws=800, seed=5, start=start)
    axes = np.linspace(np.log(0.1), np.log(1.5), 60), np.linspace(-1.5, 2.0, 60)
    thetas = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    logs = []
    for theta in thetas:
        C = model.covariance_matrix(theta) + 0.01 * np.eye(25)
        value = -0.5 * y @ np.linalg.solve(C, y) - 0.5 * np.linalg.slogdet(C)[1]
        logs.append(value + model.log_prior(theta))
    w = np.exp(logs - np.max(logs))
    w /= w.sum()
    mean = w @ thetas
    sd = np.sqrt(w @ thetas**2 - mean**2)
    draws = tree.posterior.theta.values
    assert np.allclose(draws.mean((0, 1)), mean, atol=0.15 * sd.max())
    assert np.allclose(draws.std((0, 1)), sd, rtol=0.15)
    last = tree.pilot.isel(stage=-1)
    assert last.step_size > 0.25
    assert last.acceptance_rate > 0.65
    assert np.all(tree.sample_stats.acceptance_rate.mean("draw") > 0.6)
    assert not tree.sample_stats.diverging.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"start": [0.0, 3.0, 0.0, 0.5]}, r"start of length_scale\[x2\] is 3, .*no density"),
        ({"start": {"latent": np.zeros(3)}}, r"start of latent has shape \(3,\)"),
        ({"n_draws": 0}, r"sample: n_draws is 0"),
        ({"tuning": TuningSettings()}, r"tuning has no use with JointSplitHMC.*leave it out"),
    ],
)
def test_bad_input(counts, settings, message):
    with pytest.raises(InputError, match=message) as found:
        sample(counts, SHORT, **settings)
    assert "\n" not in str(found.value)


def test_hyperpriors_and_starts_that_cannot_be():
    X = np.linspace(0, 1, 40)
    zero = Hyperprior("uniform", {"loc": -1.0, "scale": 3.0}, scale="natural")
    model = GPModel(X, np.ones(40), SquaredExponential(LENGTH, zero), Logistic())
    with pytest.raises(InputError, match=r"of signal_sd includes zero"):
        sample(model, SHORT)
    model = GPModel(X, np.ones(40), SquaredExponential(LENGTH, 1.0), Logistic(), jitter=0.0)
    with pytest.raises(NumericalError, match=r"give a larger jitter than 0"):
        sample(model, SHORT, start=[2.0])


def test_warnings(caplog, counts):
    with caplog.at_level(logging.WARNING):
        sample(counts, SHORT, n_chains=4, n_draws=6, n_warmup=0)
    assert "R-hat of" in caplog.text
    assert "above the 1.200 that so many draws show by chance" in caplog.text
    caplog.clear()
    X = np.linspace(0, 1, 40)
    wide = Hyperprior("norm", {"loc": -5.0, "scale": 1.5})
    model = GPModel(X, np.ones(40), SquaredExponential(wide, 1.0), Logistic(), jitter=0.0)
    with caplog.at_level(logging.WARNING):
        tree = sample(model, SHORT, n_chains=2, n_draws=60, start=[-5.0])
    assert tree.sample_stats.diverging.sum() > 0
    assert "ended in a failed factorisation" in caplog.text


def test_a_start_from_which_a_chain_cannot_move_is_drawn_again(counts, monkeypatch):
    """The first two starts stand still at the pilot's step, though an adapted one would move."""
    problem = JointProblem.of(counts, None)
    run = {"seed": 1, "key": (), "execution": Execution(progress=False)}
    chain = SHORT.tune(problem, 1, **run)[0].bind(counts)
    spreads, steps = [], []
    spread_start, transition = SplitTransition._spread_start, SplitTransition._transition

    def spied(self, rng, spread):
        spreads.append(spread)
        return spread_start(self, rng, spread)

    def stuck(n_starts):
        def step_of(self, rng, state, step):
            steps.append(step)
            after, info = transition(self, rng, state, step)
            fails = len(spreads) <= n_starts and step == self.pilot.step_size
            return after, info._replace(acceptance_rate=0.0) if fails else info

        return step_of

    monkeypatch.setattr(SplitTransition, "_spread_start", spied)
    monkeypatch.setattr(SplitTransition, "_transition", stuck(2))
    chain.init(np.random.default_rng(0), None)
    assert np.allclose(spreads, SPREAD * NARROWER ** np.arange(3))
    assert len(steps) == 3 * SETTLING
    spreads.clear()
    monkeypatch.setattr(SplitTransition, "_transition", stuck(100))
    chain.init(np.random.default_rng(0), None)
    assert len(spreads) == RESTARTS  # it starts all the same, and the run warns


def test_draws_given_more_rows_begin_with_what_an_earlier_pilot_found(tmp_path):
    """One round settles the step; sites are those of all rows, and the posterior is the same."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 3.0, 40)
    y = rng.poisson(np.exp(np.sin(2.0 * x)))
    part = GPModel(x[:30], y[:30], SquaredExponential(LENGTH, NORMAL), Poisson(), OFFSET)
    whole = GPModel(x, y, SquaredExponential(LENGTH, NORMAL), Poisson(), OFFSET)
    sizes = {"n_chains": 4, "n_draws": 250, "execution": Execution(progress=False)}
    earlier = sample(part, JointSplitHMC(), seed=1, **sizes)
    write_results(earlier, tmp_path / "earlier.nc")
    sampler = JointSplitHMC.after(load_results(tmp_path / "earlier.nc"))
    assert repr(sampler) == repr(JointSplitHMC())
    assert sampler.transitions_before_draws(whole, 4) == 60 + 4 * SETTLING
    draws, own = (sample(whole, s, seed=2, **sizes) for s in (sampler, JointSplitHMC()))
    assert draws.pilot.stage.values.tolist() == ["mode", "step"]
    np.testing.assert_array_equal(draws.pilot.center, earlier.pilot.center)
    np.testing.assert_array_equal(draws.pilot.scale, earlier.pilot.scale)
    assert draws.pilot.precision.shape == (40,)
    assert digest(draws) != digest(own)
    both = [
        arviz_stats.summary(tree, var_names=["theta"], kind="all", round_to=None)
        for tree in (draws, own)
    ]
    apart = both[0]["mean"] - both[1]["mean"]
    error = np.hypot(*(one["mcse_mean"].astype(float) for one in both))
    assert (np.abs(apart) < 4.0 * error).all()


def test_the_pilot_of_an_earlier_run_is_part_of_the_digest(counts):
    settings = [
        JointSplitHMC(earlier=Earlier(np.zeros(3), scale * np.eye(3), 0.3)) for scale in (1.0, 2.0)
    ]
    problem = JointProblem.of(counts, None)
    digests = {PilotProgram(problem, own).digest() for own in (*settings, JointSplitHMC())}
    assert len(digests) == 3


@pytest.mark.parametrize("n_modes", [1, 2])
def test_draws_of_several_modes_leave_a_pilot_of_its_own(counts, n_modes):
    """Only the frame of the first is stored."""
    draws = sample(counts, SHORT, n_chains=1, n_draws=2, execution=Execution(progress=False))
    draws["modes"] = xr.DataTree(xr.Dataset({"mass": ("mode", np.full(n_modes, 1.0 / n_modes))}))
    assert (JointSplitHMC.after(draws).earlier is None) == (n_modes > 1)


def test_draws_of_other_samplers_leave_a_pilot_of_its_own(counts):
    few = {"n_chains": 2, "n_draws": 4, "execution": Execution(progress=False)}
    for other in (gp.PseudoMarginalHMC(), gp.PseudoMarginalIndependence(), gp.JointIndependence()):
        assert JointSplitHMC.after(sample(counts, other, **few)).earlier is None
