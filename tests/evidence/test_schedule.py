from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.laplace import tempered_mode
from gpmcflow.errors import InputError
from gpmcflow.evidence.schedule import Schedule, geometric, linear
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import HMC, PreconditionedSplitHMC
from gpmcflow.samplers.adaptation.pilot import find_pilot


@pytest.fixture(scope="module")
def path(gp):
    return TemperedPath(GaussianSites.prior(gp()))


def test_constant_settings(path):
    schedule = Schedule.constant(linear(4), HMC(0.3, 7))
    assert schedule.n_temperatures == 4
    assert schedule.base(path, 2) is None
    for index in range(5):
        assert schedule.sampler(HMC(jitter=0.2), index) == HMC(0.3, 7, 0.2)


@pytest.mark.parametrize("ladder", [[0.0, 0.5, 0.5, 1.0], [0.0, 0.8, 0.2, 1.0], [0.0, 0.5]])
def test_a_ladder_that_does_not_increase_is_refused(path, ladder):
    pilot = find_pilot(path, PreconditionedSplitHMC(), seed=0)
    for build in (
        lambda: Schedule.constant(np.array(ladder), HMC()),
        lambda: Schedule.from_pilot(pilot, path, np.array(ladder)),
    ):
        with pytest.raises(InputError, match="ladder: "):
            build()


def test_settings_of_a_pilot_are_interpolated(path):
    pilot = find_pilot(path, PreconditionedSplitHMC(), seed=0)
    stages = Schedule.from_pilot(pilot, path, pilot.betas)
    np.testing.assert_allclose(stages.step_size, pilot.step_size)
    np.testing.assert_array_equal(stages.n_steps, pilot.n_steps)
    middle = 0.5 * (pilot.betas[-2] + 1.0)
    between = Schedule.from_pilot(pilot, path, np.array([0.0, middle, 1.0]))
    expected = np.sqrt(pilot.step_size[-2] * pilot.step_size[-1])
    assert between.step_size[1] == pytest.approx(expected)
    assert between.n_steps.dtype.kind == "i"


def test_mode_bases_are_the_modes_of_the_stages_above(path):
    betas = geometric(6, 1e-3)
    at = np.array([0.0, 0.01, 0.1, 1.0])
    schedule = Schedule.constant(betas, HMC()).with_mode_bases(path, at)
    for index, beta in enumerate(betas):
        above = at[at >= beta * (1 - 1e-9)]
        expected, _ = tempered_mode(path, above[above > 0].min())
        base = schedule.base(path, index)
        np.testing.assert_allclose(base.precision, expected.precision, rtol=1e-4)
        np.testing.assert_allclose(base.mean, expected.mean, atol=1e-4)
