from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from gpmcflow.approximations.fitted_density import FittedStudent
from gpmcflow.approximations.stand_ins import (
    Nystrom,
    SubsetOfData,
    farthest_point_cases,
    nested_subsets,
)
from gpmcflow.covariances.leaves import Constant, SquaredExponential
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import Execution, array_digest
from gpmcflow.likelihoods import Gaussian
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.log_density import FunctionDensity
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.parameters.hyperpriors import Hyperprior
from gpmcflow.replications.fast_likelihood.costs import (
    seconds_per_evaluation,
    seconds_per_iteration,
)
from gpmcflow.replications.fast_likelihood.pilots import (
    ROUNDS,
    effective_number,
    find_student,
    find_widths,
)
from gpmcflow.samplers.density.collapsed_scale import CollapsedScale
from gpmcflow.samplers.density.discretizing_chain import DiscretizingChain, IndependentDraws
from gpmcflow.samplers.density.fitted_independence import FittedIndependence
from gpmcflow.samplers.density.hmc import DensityHMC
from gpmcflow.samplers.density.tempered_transitions import TemperedTransitions
from gpmcflow.samplers.density.univariate_slice import SliceSweep, UnivariateSlice
from gpmcflow.samplers.sampling import sample
from gpmcflow.storage import load_results, write_results

START = np.log([0.2, 2.0, 0.3])  # length scale, signal_sd, noise_sd
SWEEP = SliceSweep((0.7, 0.8, 0.6))


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(11)
    length, amplitude, noise = (Hyperprior("norm", {"loc": m}) for m in START)
    covariance = SquaredExponential(length, amplitude) + Constant(3.0)
    empty = GPModel(rng.random(25), np.zeros(25), covariance, Gaussian(noise), jitter=0.0)
    return empty.with_y(RegressionDensity(empty).draw_responses(rng, START))


@pytest.fixture(scope="module")
def methods(model):
    exact = RegressionDensity(model)
    large, small = (
        SubsetOfData(model, c) for c in nested_subsets(25, [12, 6], np.random.default_rng(0))
    )
    nystrom = Nystrom(model, farthest_point_cases(model.X, 10))
    student = FittedStudent(START, 0.3 * np.eye(3), 6.0, model.names)
    return {
        "univariate_slice": ([exact], UnivariateSlice(SWEEP)),
        "discretizing_chain": ([exact, large], DiscretizingChain(SWEEP, r=3)),
        "nystrom": ([exact, nystrom], DiscretizingChain(SWEEP)),
        "student": ([exact, student], DiscretizingChain(IndependentDraws())),
        "tempered_transitions": ([exact, large, small], TemperedTransitions((SWEEP,))),
        "collapsed_scale": ([exact], CollapsedScale(SliceSweep((1.0, 0.7)))),
        "density_hmc": ([exact], DensityHMC(0.4, 3, (0.4, 0.5, 0.4))),
        "fitted_independence": ([exact], FittedIndependence()),
    }  # fmt: skip


def digest(tree) -> str:
    groups = [tree[name].to_dataset() for name in ("posterior", "sample_stats")]
    return array_digest({name: group[name].values for group in groups for name in group.data_vars})


@pytest.mark.parametrize(
    "name",
    ["univariate_slice", "discretizing_chain", "nystrom", "student", "tempered_transitions",
     "collapsed_scale", "density_hmc", "fitted_independence"],
)  # fmt: skip
def test_same_numbers_however_it_is_cut_and_scheduled(methods, name, tmp_path):
    densities, sampler = methods[name]
    sizes = {"n_chains": 3, "n_draws": 12, "n_warmup": 3, "seed": 4}
    tree = sample(densities, sampler, **sizes, execution=Execution(segment_length=15), start=START)
    assert digest(tree) == digest(sample(densities, sampler, **sizes, start=START))
    threads = sample(
        densities,
        sampler,
        **sizes,
        execution=Execution(segment_length=4, scheduler="threads", workers=2),
        start=START,
    )
    assert digest(tree) == digest(threads)
    stored = sample(
        densities,
        sampler,
        **sizes,
        execution=Execution(segment_length=5, block_size=2, state_dir=tmp_path),
        start=START,
    )
    assert digest(tree) == digest(stored.load())
    one = sample(densities, sampler, **{**sizes, "n_chains": 1}, start=START)
    np.testing.assert_array_equal(one.posterior["theta"][0], tree.posterior["theta"][0])
    other = sample(densities, sampler, **{**sizes, "seed": 5}, start=START)
    assert digest(tree) != digest(other)


def test_processes_give_the_same(methods):
    densities, sampler = methods["tempered_transitions"]
    sizes = {"n_chains": 2, "n_draws": 6}
    tree = sample(densities, sampler, **sizes, start=START)
    again = sample(
        densities,
        sampler,
        **sizes,
        execution=Execution(scheduler="processes", workers=2),
        start=START,
    )
    assert digest(tree) == digest(again)


def test_what_is_returned(methods, tmp_path):
    densities, sampler = methods["discretizing_chain"]
    exact = densities[0]
    tree = sample(densities, sampler, n_chains=2, n_draws=9, start=START, n_warmup=0)
    assert tree.posterior["theta"].dims == ("chain", "draw", "theta_dim")
    assert tree.posterior["theta_dim"].values.tolist() == list(exact.names)
    stats = tree.sample_stats
    for chain in range(2):
        for draw in range(9):
            theta = tree.posterior["theta"].values[chain, draw]
            lp, likelihood = exact(theta), exact.log_likelihood(theta)
            assert float(stats["lp"][chain, draw]) == lp
            assert float(stats["sum_log_likelihood"][chain, draw]) == pytest.approx(likelihood)
    assert stats["n_calls"].sizes == {"chain": 2, "draw": 9, "density": 2}
    assert set(np.unique(stats["n_calls"].values[..., 0])) <= {1, 2, 3}
    assert not stats["n_failed"].values.any()
    write_results(tree, tmp_path / "results.nc")
    back = load_results(tmp_path / "results.nc")
    np.testing.assert_array_equal(back["posterior"]["theta"], tree.posterior["theta"])


def test_counts_of_each_method(methods):
    mean = {}
    for name, (densities, sampler) in methods.items():
        stats = sample(
            densities, sampler, n_chains=1, n_draws=50, start=START, n_warmup=0
        ).sample_stats
        mean[name] = stats["n_calls"].mean(["chain", "draw"]).values
        if name == "density_hmc":
            assert set(stats["n_gradients"].values.ravel()) == {3}
    assert mean["univariate_slice"][0] >= 3
    for name in ("nystrom", "student", "tempered_transitions"):
        assert mean[name][0] == 1.0
    assert (mean["tempered_transitions"][1:] >= 6).all()
    assert mean["student"][1] == 1.0
    assert 2 <= mean["collapsed_scale"][0] < mean["univariate_slice"][0]


def test_chains_start_from_their_rows(methods):
    densities, sampler = methods["student"]
    still = FunctionDensity(lambda t: 0.0 if t[0] in (1.0, 2.0) else -np.inf, ("a",))
    tree = sample(
        still,
        UnivariateSlice(SliceSweep((1.0,))),
        n_chains=3,
        n_draws=1,
        start=[[1.0], [2.0]],
        n_warmup=0,
    )
    assert tree.posterior["theta"].values.ravel().tolist() == [1.0, 2.0, 1.0]
    with pytest.raises(
        InputError, match=r"noise_sd has shape \(2,\); allowed: finite numbers \(3,\)"
    ):
        sample(densities, sampler, start=START[:2], n_warmup=0)
    with pytest.raises(InputError, match="n_draws is 0"):
        sample(densities, sampler, n_draws=0, start=START, n_warmup=0)
    with pytest.raises(NumericalError, match=r"the exact density .* is -inf"):
        sample(densities, sampler, start=START + 500.0, n_warmup=0)


STILL = DensityHMC(1e-9, 1, (1.0, 1.0, 1.0))


def test_chains_of_a_model_start_apart_in_the_central_half_of_its_hyperprior(model):
    """So that R-hat can see modes: by default each chain at a draw of its own, not all at the median."""
    sizes = {"n_chains": 60, "n_draws": 1, "n_warmup": 0}
    for density in (model, RegressionDensity(model), [RegressionDensity(model)]):
        first = sample(density, STILL, **sizes).posterior["theta"].values[:, 0]
        scores = np.array([model.parameters.to_normal(theta) for theta in first])
        assert np.abs(scores).max() < norm.ppf(0.75) + 1e-6
        assert (np.ptp(scores, axis=0) > 1.1).all()  # of 1.35
        assert len(np.unique(scores)) == scores.size


def test_starts_by_name(model):
    natural = dict(zip(model.names, (0.4, 0.25, 2.0), strict=True))
    sizes = {"n_chains": 2, "n_draws": 1, "n_warmup": 0}
    for start in (natural, {"theta": np.log(list(natural.values()))}):
        tree = sample(model, STILL, **sizes, start=start)
        for name, value in natural.items():
            np.testing.assert_allclose(tree.posterior[name], value, rtol=1e-6)
    with pytest.raises(InputError, match="unknown name 'latent'"):
        sample(model, STILL, **sizes, start={**natural, "latent": np.zeros(25)})


def test_a_summary_of_latents_that_are_not_drawn_is_refused(model):
    message = (
        "sample: keep_latents is 'mean', .* these draws hold hyperparameters alone; leave it out"
    )
    with pytest.raises(InputError, match=message):
        sample(model, STILL, keep_latents="mean", n_warmup=0)
    basis = GPModel(model.X, model.y, model.covariance, Gaussian(0.3), structure="basis")
    with pytest.raises(InputError, match="these draws hold weights of basis functions"):
        sample(basis, keep_latents="mean")


def test_stuck_chains_are_told(caplog):
    density = FunctionDensity(lambda t: 0.0 if not t.any() else -np.inf, ("a",))
    sample(
        density,
        UnivariateSlice(SliceSweep((1.0,))),
        n_chains=2,
        n_draws=3,
        start=np.zeros(1),
        n_warmup=0,
    )
    assert "2 of 2 chains never moved" in caplog.text
    assert "had no finite value" in caplog.text


def test_pilot(model):
    density = RegressionDensity(model)
    pilot = find_widths(density, START, np.random.default_rng(0), n_sweeps=200, n_dropped=40)
    assert pilot.draws.shape == (160, 3)
    assert pilot.n_calls == density.n_calls > 200 * 3
    assert pilot.values[-1] == density(pilot.last)
    np.testing.assert_allclose(pilot.widths(2.0), 2.0 * pilot.draws.std(0, ddof=1))
    axes = np.array(pilot.principal_axes)
    np.testing.assert_allclose(axes.T @ axes, np.cov(pilot.draws.T), atol=1e-10)
    assert UnivariateSlice(SliceSweep((2.0,) * 3, directions=axes)).sweep.directions
    with pytest.raises(InputError, match="n_dropped is 200"):
        find_widths(density, START, np.random.default_rng(0), n_sweeps=200, n_dropped=200)


def test_student_pilot_fits_the_posterior_for_few_evaluations(model):
    density = RegressionDensity(model)
    pilot = find_student(density, START - 1.0, np.random.default_rng(0))
    assert pilot.n_calls == density.n_calls == 1 + sum(ROUNDS)
    assert pilot.n_gradients == density.n_gradients < 60
    assert pilot.effective_share > 0.3
    sampler = DiscretizingChain(IndependentDraws())
    tree = sample(
        [density, pilot.student], sampler, n_chains=2, start=pilot.student.location, n_warmup=0
    )
    assert float(tree.sample_stats["acceptance_rate"].mean()) > 0.5
    draws = tree.posterior["theta"].values.reshape(-1, 3)
    np.testing.assert_allclose(pilot.student.location, draws.mean(0), atol=0.15)


def test_a_pilot_that_starts_badly_is_mended():
    """A long curved ridge, where the fit at the mode is far too narrow: its weights rest on few draws."""

    def log_density(t):
        return float(-0.5 * t[0] ** 2 / (1.0 + 25.0 * np.tanh(t[0] ** 2)) - 0.5 * t[1] ** 2)

    def gradient(t, h=1e-6):
        return np.array(
            [(log_density(t + e) - log_density(t - e)) / (2 * h) for e in h * np.eye(2)]
        )

    density = FunctionDensity(log_density, ("a", "b"), gradient=gradient)
    pilot = find_student(density, np.array([0.1, 0.1]), np.random.default_rng(1))
    first = FittedStudent.at_mode(density, np.array([0.1, 0.1]))
    assert first.scale_factor[0, 0] < 1.1
    assert pilot.student.scale_factor[0, 0] > 2.5
    assert pilot.effective_share > 0.3


def test_effective_number():
    assert effective_number(np.full(7, -1e5)) == pytest.approx(7.0)
    assert effective_number(np.array([0.0, -np.inf, -800.0])) == pytest.approx(1.0)
    assert effective_number(np.full(3, -np.inf)) == 0.0


def test_timings(methods):
    densities, sampler = methods["nystrom"]
    assert 0.0 < seconds_per_iteration(densities, sampler, START) < 0.1
    thetas = START + 0.01 * np.arange(5)[:, None]
    assert 0.0 < seconds_per_evaluation(densities[0], thetas) < 0.1
    assert 0.0 < seconds_per_evaluation(densities[0], thetas, gradient=True) < 0.1


def test_energy_error_of_hmc_is_of_second_order(model):
    """Halving the step and doubling their number divides the error of the energy by four."""
    exact, losses = RegressionDensity(model), []
    start = np.log([0.14, 1.0, 0.5])
    for step, n_steps in ((0.2, 4), (0.1, 8), (0.05, 16)):
        sampler = DensityHMC(step, n_steps, (0.4, 0.5, 0.4), jitter=0.0)
        state = sampler.init([exact], start)
        rates = [
            sampler.step(np.random.default_rng(k), [exact], state)[1].acceptance_rate
            for k in range(60)
        ]
        losses.append(-np.log(rates).mean())
    assert 3.0 < losses[0] / losses[1] < 5.5
    assert 3.0 < losses[1] / losses[2] < 5.5


def test_bad_hmc_settings(model):
    for settings, message in (
        ({"step_size": 0.0}, "DensityHMC: step_size is 0.0; allowed: a positive number"),
        ({"n_steps": 0}, "n_steps is 0"),
        ({"jitter": 1.0}, "jitter is 1.0"),
    ):
        with pytest.raises(InputError, match=message):
            DensityHMC(**{"step_size": 0.1, "n_steps": 2, "scales": (1.0,), **settings})
    with pytest.raises(InputError, match="1 scales for 3 coordinates"):
        DensityHMC(0.1, 2, (1.0,)).init([RegressionDensity(model)], START)
