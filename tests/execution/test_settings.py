from __future__ import annotations

import os
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.execution import Execution, array_digest, run

GIVEN = {
    "workers": 3,
    "scheduler": "threads",
    "block_size": 5,
    "segment_length": 7,
    "state_dir": "chains",
    "settings": {"a": 1},
    "compute": False,
    "progress": "mine",
}
OTHER = {
    "workers": 4,
    "scheduler": "synchronous",
    "block_size": 6,
    "segment_length": 8,
    "state_dir": "elsewhere",
    "settings": {"b": 2},
    "compute": True,
    "progress": "verb",
}


def test_settings_that_were_given_are_kept():
    assert set(GIVEN) == {field.name for field in fields(Execution)}
    assert Execution(**GIVEN).with_defaults(**OTHER) == Execution(**GIVEN)


@pytest.mark.parametrize("name", [name for name in GIVEN if name != "compute"])
def test_each_that_was_left_out_is_filled_and_nothing_else(name):
    how = Execution(**{key: value for key, value in GIVEN.items() if key != name})
    filled = how.with_defaults(**OTHER)
    assert filled == Execution(**GIVEN | {name: OTHER[name]})
    assert getattr(how, name) == getattr(Execution(), name)  # the one it came from is as it was
    unnamed = {key: value for key, value in OTHER.items() if key != name}
    assert how.with_defaults(**unnamed) == how


def test_silence_is_no_setting_that_was_left_out():
    assert Execution(progress=False).with_defaults(progress="sample").progress is False
    assert Execution(progress=True).with_defaults(progress="sample").progress == "sample"


def test_settings_that_are_no_plain_values_are_refused_and_not_compared(walk):
    how = Execution(settings=np.arange(2))
    with pytest.raises(InputError, match=r"settings: numpy\.ndarray"):
        run(walk(), n_chains=2, length=5, seed=1, execution=how)


def test_it_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Execution().workers = 2


@pytest.mark.parametrize(
    ("workers", "scheduler", "pool"),
    [
        (1, None, "synchronous"),
        (2, None, "processes"),
        (3, None, "processes"),
        (1, "processes", "processes"),
        (2, "threads", "threads"),
        (2, "synchronous", "synchronous"),
    ],
)
def test_the_pool_is_chosen_by_the_workers_unless_it_is_given(workers, scheduler, pool):
    assert Execution(workers=workers, scheduler=scheduler).pool == pool


def test_a_scheduler_that_is_an_object_is_passed_on():
    client = object()
    assert Execution(workers=2, scheduler=client).pool is client


def test_inside_gives_a_folder_of_its_own_and_changes_nothing_else():
    how = Execution(**GIVEN)
    assert how.inside("pilot") == Execution(
        **GIVEN | {"state_dir": os.path.join("chains", "pilot")}
    )
    assert how.state_dir == "chains"
    twice = Execution(state_dir=Path("/data/chains")).inside("a").inside("b")
    assert Path(twice.state_dir) == Path("/data/chains/a/b")


def test_inside_of_nothing_is_nothing():
    how = Execution(workers=2, progress=False)
    assert how.inside("pilot") == how


@pytest.mark.parametrize(
    ("state_dir", "compute", "expected"),
    [(None, True, True), ("chains", True, False), (None, False, False), ("chains", False, False)],
)
def test_results_are_in_memory_if_computed_and_kept_nowhere(state_dir, compute, expected):
    assert Execution(state_dir=state_dir, compute=compute).in_memory is expected


@pytest.mark.parametrize(
    ("progress", "label"), [(True, None), (False, None), ("sample pima", "sample pima")]
)
def test_a_label_is_a_text(progress, label):
    """True waits for the verb's own: a bare `run`, which has none, is silent."""
    assert Execution(progress=progress).label == label


def test_a_bare_run_takes_all_chains_in_one_block_and_a_hundred_draws_in_a_segment(walk):
    program = walk()
    sizes = {"n_chains": 5, "length": 230, "seed": 1}
    arrays = run(program, **sizes)
    assert program.calls == [(0, 0, 100), (0, 100, 200), (0, 200, 230)]
    how = Execution(block_size=5, segment_length=100)
    assert array_digest(arrays) == array_digest(run(walk(), **sizes, execution=how))
    cut = walk()
    run(cut, **sizes, execution=Execution(block_size=2))
    assert {chain for chain, _, _ in cut.calls} == {0, 2, 4}
    assert len(cut.calls) == 9


def test_two_workers_work_in_processes(walk, by_value):
    program = walk()
    arrays = run(
        program, n_chains=2, length=5, seed=1, execution=Execution(workers=2, block_size=1)
    )
    assert program.calls == []  # none of it in this process
    one = run(walk(), n_chains=2, length=5, seed=1, execution=Execution(block_size=1))
    np.testing.assert_array_equal(arrays["x"], one["x"])


def test_a_size_of_nothing_is_not_one_that_was_left_out():
    with pytest.raises(InputError, match="block_size is 0"):
        run(None, n_chains=2, length=5, seed=1, execution=Execution(block_size=0))
