"""Independence Metropolis from a fitted density: its settings, its fit, its starts."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gpmcflow as gp
from gpmcflow.approximations.fitted_density import FittedStudent
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution.randomness import chain_generators
from gpmcflow.models.log_density import LogDensity
from gpmcflow.samplers.density.fitted_independence import N_STARTS, FittedIndependence
from gpmcflow.samplers.density.problem import DensityProblem

MEAN, SD = np.array([1.0, -2.0]), np.array([0.5, 2.0])
NAMES = ("a", "b")


class Normal(LogDensity):
    """N(MEAN, SD^2), or without a maximum."""

    names = NAMES

    def __init__(self, bounded=True):
        self.bounded = bounded

    def evaluate(self, theta):
        return self.value_and_gradient(theta)[0]

    def value_and_gradient(self, theta):
        z = (theta - MEAN) / SD
        return (-0.5 * z @ z, -z / SD) if self.bounded else (theta.sum(), np.ones(2))


def adapted(sampler, density=None):
    problem = DensityProblem((density or Normal(),), np.zeros((2, 2)))
    return sampler.adapt(problem, seed=1, key=("x",))


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"dof": 0.0}, "dof"), ({"dof": -1.0}, "dof"), ({"dof": np.nan}, "dof"),
     ({"n_pilot": 0}, "n_pilot"), ({"n_pilot": 2.5}, "n_pilot")],
)  # fmt: skip
def test_settings_out_of_range(settings, name):
    with pytest.raises(InputError, match=rf"FittedIndependence: .*{name}|{name}.*allowed"):
        FittedIndependence(**settings)


def test_the_fit_is_close_to_a_normal_density():
    proposal = adapted(FittedIndependence(dof=100.0)).sampler.proposal
    assert proposal.dof == 100.0
    np.testing.assert_allclose(proposal.location, MEAN, atol=0.15 * SD.max())
    spread = np.sqrt(np.diag(proposal.scale_factor @ proposal.scale_factor.T))
    np.testing.assert_allclose(spread, SD, rtol=0.15)


def test_a_given_proposal_is_kept_and_starts_are_its_draws():
    given = FittedStudent(MEAN + 30.0, np.diag([0.1, 0.2]), 5.0, NAMES)
    tuned = adapted(FittedIndependence(proposal=given))
    assert tuned.sampler.proposal is given
    starts = tuned.problem.starts
    assert starts.shape == (N_STARTS, 2)
    rng = chain_generators(1, "x", "fitted_independence", chains=range(1)).generator(0)
    np.testing.assert_array_equal(starts, [given.draw(rng)[0] for _ in range(N_STARTS)])
    assert len(np.unique(starts[:, 0])) == N_STARTS


def test_without_a_fit_there_is_no_start():
    with pytest.raises(InputError, match="no proposal is fitted yet"):
        FittedIndependence().init((Normal(),), np.zeros(2))


def test_a_density_without_a_mode_is_refused():
    with pytest.raises(NumericalError):
        adapted(FittedIndependence(), Normal(bounded=False))


def test_few_useful_pilot_draws_leave_the_fit_at_the_mode():
    at_mode = FittedStudent.at_mode(Normal(), np.zeros(2), 6.0)
    kept = adapted(FittedIndependence(n_pilot=5)).sampler.proposal
    np.testing.assert_allclose(kept.location, at_mode.location)
    refitted = adapted(FittedIndependence()).sampler.proposal
    assert not np.allclose(refitted.location, at_mode.location, rtol=0, atol=1e-6)


def test_chains_start_apart_by_sample():
    x = np.linspace(0.0, 1.0, 15)
    model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian())
    draws = gp.sample(model, "fitted_independence", n_draws=40, n_chains=3, seed=2)
    assert float(draws.sample_stats["acceptance_rate"].mean()) > 0.5
    first = draws.posterior["theta"].values[:, 0]
    assert len(np.unique(first[:, 0])) == 3


class Mixture(LogDensity):
    """Two normal densities at 0 and 5, of sd 0.02 and 0.4, the second of a given share."""

    names = ("a",)
    model = None
    sd = np.array([0.02, 0.4])

    def __init__(self, share):
        self.shares = np.array([1.0 - share, share])

    def evaluate(self, theta):
        return self.value_and_gradient(theta)[0]

    def value_and_gradient(self, theta):
        places = (theta[0] - np.array([0.0, 5.0])) / self.sd
        terms = np.log(self.shares / self.sd) - 0.5 * places**2
        value = np.logaddexp(*terms)
        return value, np.array([np.exp(terms - value) @ (-places / self.sd)])


@pytest.mark.parametrize(
    ("starts", "share", "place", "alone"),
    [
        ([0.03], 0.9999, 0.0, True),  # the other is not looked for
        ([0.03, 0.02, 4.8], 0.9999, 5.0, True),
        ([0.03, 5.1], 1e-4, 0.0, True),
        ([0.03, 5.1], 0.1, 0.0, False),
        ([0.03, 5.1], 0.8, 5.0, False),  # the lower of the two, as it is wide
        ([5.1, 0.03], 0.1, 0.0, False),
        ([0.03, -0.02, 0.01], 0.5, 0.0, True),
    ],
)
def test_the_mode_of_most_mass_and_whether_one_is_enough(starts, share, place, alone):
    problem = DensityProblem.of(Mixture(share), np.array(starts)[:, None])
    rng = chain_generators(1, "x", chains=range(1)).generator(0)
    sampler, effective = FittedIndependence().fitted(problem, rng)
    assert sampler.proposal.location[0] == pytest.approx(place, abs=0.05)
    assert effective > 0.8 if alone else effective == 0.0


def test_modes_are_apart_by_the_scales_of_both():
    """From the narrow mode the wide one is 250 standard deviations away, and it has the narrow one within."""

    class Spike(Mixture):
        sd = np.array([0.02, 4.0])

    problem = DensityProblem.of(Spike(0.5), np.array([[0.01], [6.0]]))
    rng = chain_generators(1, "x", chains=range(1)).generator(0)
    assert FittedIndependence().fitted(problem, rng)[1] > 0.0


def test_a_fit_that_misses_much_is_told(caplog):
    problem = DensityProblem.of(Mixture(0.3), np.array([[0.03], [5.1]]))
    FittedIndependence().adapt(problem, seed=1, key=("x",))
    assert "FittedIndependence: the fit misses a part of the posterior" in caplog.text
    caplog.clear()
    adapted(FittedIndependence())
    assert not caplog.text


def test_starts_leave_the_random_numbers_of_the_fit_as_they_are():
    """Also where a model gives them: a second and third start that find the same mode change no digit."""
    x = np.linspace(0.0, 1.0, 30)
    model = gp.GPModel(x, np.sin(6.0 * x) + 0.1 * np.cos(91.0 * x), gp.Matern52(), gp.Gaussian())
    density = gp.RegressionDensity(model)
    fits = []
    for start in (None, model.prior_median()):
        rng = chain_generators(1, "x", chains=range(1)).generator(0)
        fits.append(FittedIndependence().fitted(DensityProblem.of(density, start), rng)[0])
    assert repr(fits[0]) == repr(fits[1])


def two_explanations() -> gp.GPModel:
    """A fast wave under a slow one: 8.3 % of the posterior have a length scale below 0.25."""
    rng = np.random.default_rng([77, 2])
    x = np.linspace(0.0, 5.0, 30)
    y = np.sin(1.3 * x) + 0.7 * np.sin(25.0 * x) + 0.1 * rng.standard_normal(30)
    signal, noise = (gp.Hyperprior("norm", {"loc": loc, "scale": 1.0}) for loc in (0.0, -1.0))
    covariance = gp.SquaredExponential(gp.Hyperprior.log_uniform(0.02, 20.0), signal)
    return gp.GPModel(x, y, covariance, gp.Gaussian(noise))


def test_chains_visit_both_of_two_explanations(caplog):
    """Right by quadrature: means -0.109, -0.224, -0.678, sds 0.65, 0.45, 0.46."""
    draws = gp.sample(two_explanations(), "fitted_independence", seed=1, predictive=False)
    theta = draws.posterior["theta"]
    size = 4000 * 0.4  # effective draws at the acceptance that is found
    sds = np.array([0.65, 0.45, 0.46])
    error = theta.mean(("chain", "draw")).values - [-0.109, -0.224, -0.678]
    assert np.all(np.abs(error) < 4.0 * sds / np.sqrt(size))
    np.testing.assert_allclose(theta.std(("chain", "draw")), sds, rtol=0.1)
    assert draws.sample_stats["acceptance_rate"].mean() > 0.5
    assert np.all(draws.modes["visits"] > 30)
    assert draws.modes["visits"].sum("mode").values.tolist() == [1000] * 4
    assert draws.modes["mass"].values == pytest.approx([0.917, 0.083], abs=0.03)
    assert draws.attrs["modes"].startswith("two explanations: 9")
    assert "two explanations" in repr(draws)
    assert not caplog.text


def test_a_proposal_at_modes_is_a_density_of_theta_and_tells_its_numbers():
    model = two_explanations()
    rng = chain_generators(1, "x", chains=range(1)).generator(0)
    problem = DensityProblem.of(gp.RegressionDensity(model), None)
    sampler, share = FittedIndependence().fitted(problem, rng)
    assert share > 0.4
    theta, value = sampler.proposal.draw(rng)
    assert sampler.proposal.evaluate(theta) == pytest.approx(value, abs=1e-6)
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy.proposal.evaluate(theta) == sampler.proposal.evaluate(theta)
    assert copy.digest() == sampler.digest()
    again = FittedIndependence().fitted(problem, np.random.default_rng(9))[0]
    assert again.digest() != sampler.digest()


def test_chains_that_miss_an_explanation_are_told(caplog):
    model = two_explanations()
    start = model.theta_of({"length_scale": 1.0, "signal_sd": 0.8, "noise_sd": 0.57})
    draws = gp.sample(
        model, gp.UnivariateSlice(), start=start, n_chains=2, n_draws=200, predictive=False
    )
    visits = draws.modes["visits"].values
    assert visits[:, 1].min() == 0
    assert "of the posterior; take JointIndependence()" in caplog.text


def test_hyperpriors_without_a_transform_keep_one_student():
    x = np.linspace(0.0, 1.0, 15)
    flat = gp.Hyperprior("norm", {"loc": 1.0, "scale": 0.5}, scale="natural")
    model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(flat, 1.0), gp.Gaussian(0.1))
    draws = gp.sample(model, "fitted_independence", n_draws=40, n_chains=2, predictive=False)
    assert "modes" not in draws.children
    assert np.isfinite(draws.posterior["theta"]).all()
