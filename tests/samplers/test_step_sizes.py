"""A step size for each chain of a batch: what a ladder of temperatures as one batch needs."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.laplace import laplace
from gpmcflow.errors import InputError
from gpmcflow.execution import chain_generators
from gpmcflow.models.tempered import Target
from gpmcflow.samplers import (
    HMC,
    DataSplitHMC,
    LatentHMC,
    PreconditionedSplitHMC,
    RandomWalkMetropolis,
    SplitHMC,
)

STEPS = np.array([0.05, 0.3, 0.6])
BUILD = {
    "HMC": HMC,
    "LatentHMC": LatentHMC,
    "PreconditionedSplitHMC": PreconditionedSplitHMC,
    "SplitHMC": SplitHMC,
    "SplitHMC, fixed flow": lambda *steps: SplitHMC(*steps, flow="fixed"),
    "DataSplitHMC": DataSplitHMC,
    "RandomWalkMetropolis": RandomWalkMetropolis,
}


@pytest.mark.parametrize("kind", BUILD)
@pytest.mark.parametrize("name", ["probit", "logistic"])
def test_each_chain_takes_its_own_step(models, name, kind):
    """One batch with three step sizes equals three chains with one each."""
    fit = laplace(models[name]).sites

    def three_steps(sampler, chains):
        target = Target.posterior(sampler.coordinates(fit))
        rng = chain_generators(3, chains=chains)
        state = sampler.init(target, rng.standard_normal((target.dim,)))
        for _ in range(3):
            state, info = sampler.step(rng, target, state)
        return state.position, info.acceptance_rate

    whole = three_steps(BUILD[kind](STEPS, 3), [0, 1, 2])
    single = [three_steps(BUILD[kind](float(eps), 3), [k]) for k, eps in enumerate(STEPS)]
    for found, parts in zip(whole, zip(*single, strict=True), strict=True):
        np.testing.assert_allclose(found, np.concatenate(parts), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", BUILD)
def test_wrong_step_sizes(kind):
    for wrong in (np.array([0.1, 0.0]), np.array([0.1, np.nan]), -0.1):
        with pytest.raises(InputError, match="allowed: a positive number"):
            BUILD[kind](wrong, 2)
    with pytest.raises(InputError, match=r"step_size has shape \(2, 1\); allowed: a number, or"):
        BUILD[kind](np.ones((2, 1)), 2)


def test_the_tuned_steps_of_a_ladder_replace_those_of_the_prototype():
    sampler = HMC(0.2, 5).with_steps(STEPS, 2)
    np.testing.assert_array_equal(sampler.step_size, STEPS)
    assert sampler.n_steps == 2
