from __future__ import annotations

import pytest

from gpmcflow.errors import InputError
from gpmcflow.samplers import HMC, SAMPLERS, LatentHMC, SplitHMC, make_sampler


def test_samplers_by_name():
    assert make_sampler("split_hmc", step_size=0.3, n_steps=7) == SplitHMC(0.3, 7)
    assert make_sampler("hmc") == HMC()
    assert make_sampler("latent_hmc", jitter=0.0) == LatentHMC(jitter=0.0)
    assert all(type(make_sampler(name)) is kind for name, kind in SAMPLERS.items())


def test_unknown_names_and_settings_say_the_nearest():
    with pytest.raises(InputError, match="did you mean 'split_hmc'"):
        make_sampler("splithmc")
    with pytest.raises(InputError, match=r"sampler hmc: setting.*did you mean 'step_size'"):
        make_sampler("hmc", stepsize=0.1)


def test_negative_step_size():
    with pytest.raises(
        InputError, match=r"SplitHMC: step_size is -0.3; allowed: a positive number"
    ):
        make_sampler("split_hmc", step_size=-0.3)


@pytest.mark.parametrize("value", ["fast", None, [0.1]])
def test_a_step_size_that_is_no_number(value):
    with pytest.raises(InputError, match=r"sampler hmc|step_size"):
        make_sampler("hmc", step_size=value)
