from __future__ import annotations

import pytest

from gpmcflow.errors import InputError
from gpmcflow.samplers import (
    HMC,
    LATENT_SAMPLERS,
    SAMPLERS,
    DataSplitHMC,
    IndependenceMetropolis,
    LatentHMC,
    PreconditionedSplitHMC,
    RandomWalkMetropolis,
    SplitHMC,
    make_sampler,
)


def test_samplers_by_name():
    assert make_sampler(
        "preconditioned_split_hmc", step_size=0.3, n_steps=7
    ) == PreconditionedSplitHMC(0.3, 7)
    assert make_sampler("hmc") == HMC()
    assert make_sampler("latent_hmc", jitter=0.0) == LatentHMC(jitter=0.0)
    assert make_sampler("split_hmc", flow="fixed") == SplitHMC(flow="fixed")
    assert make_sampler("data_split_hmc", fraction=0.3) == DataSplitHMC(fraction=0.3)
    assert make_sampler("random_walk_metropolis", n_steps=3) == RandomWalkMetropolis(n_steps=3)
    assert make_sampler("independence_metropolis") == IndependenceMetropolis(n_steps=1)
    need_settings = {"density_hmc", "discretizing_chain", "tempered_transitions"}
    assert all(
        type(make_sampler(name)) is kind
        for name, kind in SAMPLERS.items()
        if name not in need_settings
    )
    for name in need_settings:
        with pytest.raises(InputError, match=f"sampler {name}: .* missing"):
            make_sampler(name)


def test_kinds_of_samplers():
    kinds = {name: kind.samples for name, kind in SAMPLERS.items()}
    assert {name for name, kind in kinds.items() if kind == "latents"} == set(LATENT_SAMPLERS)
    assert {name for name, kind in kinds.items() if kind == "hyperparameters and latents"} == {
        "joint_independence", "joint_split_hmc", "pseudo_marginal_hmc",
        "pseudo_marginal_independence", "surrogate_slice",
    }  # fmt: skip
    assert all(kind.batched == (kind.samples == "latents") for kind in SAMPLERS.values())


def test_unknown_names_and_settings_say_the_nearest():
    with pytest.raises(InputError, match="did you mean 'split_hmc'"):
        make_sampler("splithmc")
    with pytest.raises(InputError, match=r"sampler hmc: setting.*did you mean 'step_size'"):
        make_sampler("hmc", stepsize=0.1)
    with pytest.raises(InputError, match=r"independence_metropolis: setting.*'step_size'"):
        make_sampler("independence_metropolis", step_size=0.1)


def test_negative_step_size():
    with pytest.raises(
        InputError, match=r"PreconditionedSplitHMC: step_size is -0.3; allowed: a positive number"
    ):
        make_sampler("preconditioned_split_hmc", step_size=-0.3)


@pytest.mark.parametrize("value", ["fast", None, [0.1]])
def test_a_step_size_that_is_no_number(value):
    with pytest.raises(InputError, match=r"sampler hmc|step_size"):
        make_sampler("hmc", step_size=value)
