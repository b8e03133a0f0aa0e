from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.errors import InputError
from gpmcflow.execution import chain_generators
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers import (
    HMC,
    LATENT_SAMPLERS,
    RMHMC,
    DataSplitHMC,
    EllipticalSlice,
    IndependenceMetropolis,
    LatentHMC,
    PreconditionedSplitHMC,
    RandomWalkMetropolis,
    SplitHMC,
)
from gpmcflow.samplers.adaptation.step_sizes import StepSizeTuner, TuningSettings


@pytest.fixture(scope="module")
def target(gp):
    return Target.posterior(expectation_propagation(gp(n=30, signal_sd=4.0)).sites)


def suited(sampler, target):
    """The target in the sampler's coordinates."""
    return target.in_coordinates(sampler.coordinates(target.base))


def start(sampler, target, rng):
    """The target in the sampler's coordinates, and draws of its Gaussian part there."""
    there = suited(sampler, target)
    path = TemperedPath(target.base).in_coordinates(there.base)
    draws = path.reference_draws(rng.standard_normal((target.dim,)))
    return there, sampler.init(there, draws)


def tune_at(target, sampler, settings, *, seed):
    """The sampler tuned at one target, by particles that start from its Gaussian part."""
    rng = chain_generators(seed, chains=range(settings.n_particles))
    tuner = StepSizeTuner(settings, sampler)
    target, state = start(sampler, target, rng)
    for _ in range(3):
        state = tuner.tune(rng, target, state)
    assert tuner.n_gradient > 0
    assert 0.0 < tuner.acceptance_rate <= 1.0
    return tuner.sampler


def acceptance(sampler, target, seed=1):
    """Mean acceptance rate of fresh chains, once they are near the posterior."""
    rng = chain_generators(seed, chains=range(300))
    target, state = start(sampler, target, rng)
    rates = []
    for _ in range(15):
        state, info = sampler.step(rng, target, state)
        rates.append(info.acceptance_rate.mean())
    return np.mean(rates[5:])


# independence_metropolis has nothing to tune: its proposals are whole draws of the Gaussian
TUNED = [
    kind
    for kind in LATENT_SAMPLERS.values()
    if "step_size" in kind.__dataclass_fields__ and kind is not RMHMC  # has a test of its own
]


@pytest.mark.parametrize("kind", TUNED)
@pytest.mark.parametrize("wanted", [0.65, 0.9])
def test_the_step_size_reaches_the_wanted_acceptance(target, kind, wanted):
    settings = TuningSettings(target_acceptance=wanted, max_step_size=10.0)
    sampler = tune_at(target, kind(), settings, seed=0)
    assert acceptance(sampler, target) == pytest.approx(wanted, abs=0.08)


def test_implicit_equations_that_are_not_solved_hold_the_step_size_down(target):
    """At this model equations fail before acceptance falls to what is wanted."""
    settings = TuningSettings(n_particles=24, target_acceptance=0.5, n_steps=3, max_step_size=10.0)
    sampler = tune_at(target, RMHMC(), settings, seed=0)
    rng = chain_generators(1, chains=range(100))
    there, state = start(sampler, target, rng)
    infos = []
    for _ in range(5):
        state, info = sampler.step(rng, there, state)
        infos.append(info)
    assert np.mean([info.unsolved.mean() for info in infos]) < 0.03
    assert np.mean([info.acceptance_rate.mean() for info in infos]) > 0.7
    _, info = sampler.with_steps(4.0 * sampler.step_size, 3).step(rng, there, state)
    assert info.unsolved.mean() > 0.2  # what stands in the way of larger steps


def test_trajectory_length_and_its_limits(target):
    tuned = tune_at(target, HMC(), TuningSettings(trajectory_length=3.0), seed=0)
    assert 3.0 <= tuned.step_size * tuned.n_steps < 3.0 + tuned.step_size
    assert tune_at(target, HMC(), TuningSettings(max_steps=2), seed=0).n_steps == 2
    capped = tune_at(target, PreconditionedSplitHMC(), TuningSettings(max_step_size=0.05), seed=0)
    assert capped.step_size == pytest.approx(0.05)


def test_lengths_are_measured_in_the_samplers_own_unit(target):
    """Unit mass on theta moves in units of theta: the trajectory length is in standard deviations."""
    assert set(LATENT_SAMPLERS.values()) - set(TUNED) == {
        EllipticalSlice,
        IndependenceMetropolis,
        RMHMC,
    }
    C = target.base.factor
    unit = np.sqrt(np.trace(C @ C.T) / len(C))
    for kind in (LatentHMC, SplitHMC, DataSplitHMC, RandomWalkMetropolis):
        assert kind().length_unit(suited(kind(), target)) == pytest.approx(unit)
    assert IndependenceMetropolis().length_unit(target) == 1.0
    assert HMC().length_unit(target) == PreconditionedSplitHMC().length_unit(target) == 1.0
    tuned = tune_at(
        target, LatentHMC(), TuningSettings(trajectory_length=1.5, max_steps=500), seed=0
    )
    assert 1.5 * unit <= tuned.step_size * tuned.n_steps * (1 + 1e-9) < 1.5 * unit + tuned.step_size


def test_other_settings_of_the_sampler_are_kept(target):
    assert tune_at(target, HMC(jitter=0.3), TuningSettings(), seed=0).jitter == 0.3


def test_the_same_seed_gives_the_same_settings(target):
    one, two, other = (tune_at(target, HMC(), TuningSettings(), seed=s) for s in (4, 4, 5))
    assert one == two
    assert one != other


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target_acceptance", 0.0),
        ("target_acceptance", 1.0),
        ("n_particles", 0),
        ("trajectory_length", -1.0),
        ("max_steps", 0),
        ("max_step_size", 0.0),
        ("rounds", 0),
    ],
)
def test_wrong_settings_are_refused(name, value):
    with pytest.raises(InputError, match=f"tuning: {name} is .* allowed: "):
        TuningSettings(**{name: value})
