from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.diagnostics.importance_weights import conditional_effective_size, systematic_resample
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import array_digest, chain_generators
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import HMC, PreconditionedSplitHMC
from gpmcflow.samplers.adaptation.pilot import find_pilot, next_beta
from gpmcflow.samplers.adaptation.step_sizes import TuningSettings


@pytest.fixture(scope="module")
def prior_path(gp):
    return TemperedPath(GaussianSites.prior(gp(n=30, signal_sd=4.0)))


@pytest.fixture(scope="module")
def ep_path(gp):
    return TemperedPath(expectation_propagation(gp(n=30, signal_sd=4.0)).sites)


@pytest.mark.parametrize("coordinates", ["reference", "mode"])
def test_stages_go_from_the_reference_to_the_posterior(prior_path, coordinates):
    settings = TuningSettings(n_particles=100, max_step_size=2.0)
    pilot = find_pilot(prior_path, HMC(), coordinates, settings, seed=1)
    stages = len(pilot.betas)
    assert stages > 4
    assert pilot.betas[0] == pilot.distance[0] == 0.0
    assert pilot.betas[-1] == 1.0
    for increasing in (pilot.betas, pilot.distance):
        assert np.all(np.diff(increasing) > 0.0)
    for field in (pilot.step_size, pilot.n_steps, pilot.acceptance_rate):
        assert field.shape == (stages,)
    assert np.all(pilot.n_steps >= 1)
    assert np.all(np.abs(pilot.acceptance_rate[3:] - 0.8) < 0.15)
    assert pilot.mode_bases == (coordinates == "mode")
    assert pilot.n_gradient > 100 * 6 * stages
    # all stages but the last were chosen to keep 0.7 of the particles
    np.testing.assert_allclose(np.diff(pilot.distance)[:-1], np.sqrt(-np.log(0.7)), rtol=1e-3)


def test_mode_coordinates_take_longer_steps_than_the_prior(prior_path):
    """The reason for them: in the prior's coordinates the posterior is narrow and steps are small."""
    prior, mode = (
        find_pilot(prior_path, HMC(), kind, TuningSettings(max_step_size=3.0), seed=1)
        for kind in ("reference", "mode")
    )
    assert mode.step_size[-1] > 1.5 * prior.step_size[-1]


def test_final_particles_are_near_the_posterior(gp):
    """For a Gaussian-like posterior their mean lies within sampling error of the EP mean."""
    fit = expectation_propagation(gp(n=30, signal_sd=4.0))
    prior = TemperedPath(GaussianSites.prior(fit.sites.model))
    settings = TuningSettings(n_particles=300)
    for coordinates in ("reference", "mode"):
        latents = find_pilot(prior, PreconditionedSplitHMC(), coordinates, settings, seed=0).latents
        assert latents.shape == (300, 30)
        zeta = fit.sites.from_latent(latents)
        assert np.abs(zeta.mean(0)).max() < 0.5
        assert 0.6 < zeta.std() < 1.4


def test_a_pilot_is_deterministic_and_follows_its_seed_and_key(ep_path):
    def digest(**key):
        pilot = find_pilot(
            ep_path, PreconditionedSplitHMC(), tuning=TuningSettings(n_particles=20), **key
        )
        names = ("betas", "step_size", "n_steps", "distance", "latents")
        return array_digest({name: getattr(pilot, name) for name in names})

    assert digest(seed=3, key=("a",)) == digest(seed=3, key=("a",))
    assert digest(seed=3, key=("a",)) != digest(seed=4, key=("a",))
    assert digest(seed=3, key=("a",)) != digest(seed=3, key=("b",))


def test_a_good_reference_needs_few_stages(ep_path, prior_path):
    near, far = (
        find_pilot(path, PreconditionedSplitHMC(), seed=0) for path in (ep_path, prior_path)
    )
    assert len(near.betas) < len(far.betas)
    assert near.ratio_sd < far.ratio_sd


def test_next_beta_keeps_the_effective_size():
    u = np.random.default_rng(0).normal(-50.0, 30.0, 200)
    beta, size = next_beta(u, 0.2, 0.7)
    assert 0.2 < beta < 1.0
    assert size == pytest.approx(0.7, abs=1e-6)
    increments = (beta - 0.2) * u
    assert conditional_effective_size(np.zeros(200), increments) == pytest.approx(size, rel=1e-9)
    assert next_beta(1e-3 * u, 0.2, 0.7)[0] == 1.0
    tiny, _ = next_beta(1e7 * u, 0.0, 0.7)
    assert 0.0 < tiny < 1e-8


@pytest.mark.parametrize("n", [1, 5, 50])
def test_systematic_resampling_is_stationary(n):
    """Over the uniform number each particle appears P w_i times on average, and floor or ceil of it."""
    weights = np.random.default_rng(n).exponential(size=n) ** 2
    weights /= weights.sum()
    grid = (np.arange(20_000) + 0.5) / 20_000
    counts = np.array([np.bincount(systematic_resample(weights, u), minlength=n) for u in grid])
    assert np.all(counts.sum(1) == n)
    np.testing.assert_allclose(counts.mean(0), n * weights, atol=2e-4)
    assert np.all(counts >= np.floor(n * weights - 1e-9))
    assert np.all(counts <= np.ceil(n * weights + 1e-9))


def test_resampling_when_rounding_leaves_the_weights_short_of_one():
    rows = systematic_resample(np.full(10, 0.1) * (1.0 - 1e-12), 1.0 - 1e-16)
    assert rows[-1] == 9
    assert np.all(np.diff(rows) >= 0)


def test_a_pilot_that_does_not_arrive_is_an_error(prior_path, monkeypatch):
    monkeypatch.setattr("gpmcflow.samplers.adaptation.pilot.MAX_STAGES", 2)
    with pytest.raises(NumericalError, match="after 2 stages; start from an EP") as caught:
        find_pilot(prior_path, PreconditionedSplitHMC(), seed=0)
    assert "\n" not in str(caught.value)


def test_unknown_coordinates(ep_path):
    with pytest.raises(InputError, match="did you mean 'mode'"):
        find_pilot(ep_path, PreconditionedSplitHMC(), "modes", seed=0)


def test_pilot_and_run_draw_different_numbers():
    """The schedule is independent of the particles it is used for."""
    pilot, run = (
        chain_generators(0, "key", *kind, chains=[0]).standard_normal((4,))
        for kind in (("pilot",), ("anneal", "forward"))
    )
    assert np.all(pilot != run)


def test_stages_resample(prior_path):
    """With particles that can hardly move, only the likely ones among the first draws are left."""
    settings = TuningSettings(n_particles=60, max_step_size=1e-9)
    rng = chain_generators(0, "pilot", chains=range(60))
    first = prior_path.reference.latent(rng.standard_normal((30,)))
    latents = find_pilot(prior_path, PreconditionedSplitHMC(), tuning=settings, seed=0).latents
    distance = np.abs(latents[:, None] - first[None]).max(-1)
    assert distance.min(1).max() < 1e-4
    survivors = np.unique(distance.argmin(1))
    assert len(survivors) < 30
    model = prior_path.model
    u = model.likelihood.log_density(first, model.y)
    assert u[survivors].min() > np.median(u)


def test_a_pilot_is_found_again(ep_path, tmp_path, monkeypatch):
    """A job that is started again has the pilot it had, to the bit, without running it."""
    settings = TuningSettings(n_particles=20)
    first = find_pilot(ep_path, HMC(), tuning=settings, seed=3, state_dir=tmp_path)

    def again(*_arguments, **_options):
        raise AssertionError("the pilot ran again")

    monkeypatch.setattr("gpmcflow.samplers.adaptation.pilot.run_pilot", again)
    second = find_pilot(ep_path, HMC(), tuning=settings, seed=3, state_dir=tmp_path)
    for name, value in vars(first).items():
        np.testing.assert_array_equal(getattr(second, name), value)
        assert type(getattr(second, name)) is type(value)
    with pytest.raises(AssertionError, match="ran again"):  # other settings, another pilot
        find_pilot(ep_path, HMC(), tuning=settings, seed=4, state_dir=tmp_path)
