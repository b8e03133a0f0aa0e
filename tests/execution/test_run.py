from __future__ import annotations

import dataclasses
import logging
import os
from dataclasses import replace
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest

from gpmcflow.errors import InputError, NumericalError, ResourceError
from gpmcflow.execution import (
    Execution,
    array_digest,
    chain_generators,
    progress,
    run,
    workers,
)
from gpmcflow.execution import (
    runner as job,
)
from gpmcflow.execution.tasks import ProgramBox, SegmentTask, advance_segment

SIZES = {"n_chains": 7, "length": 53, "seed": 1, "key": ("walk", 2)}
HOW = Execution(block_size=3)


@pytest.fixture
def expected(walk) -> str:
    """The digest of a plain loop over blocks, with nothing of `run` in it."""
    parts, program = [], walk()
    for chains in (range(0, 3), range(3, 6), range(6, 7)):
        rng = chain_generators(1, "walk", 2, chains=chains)
        parts.append(program.advance(rng, program.start(rng), 0, 53)[1])
    return array_digest({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


@pytest.mark.parametrize("segment_length", [1, 10, 53, 100])
@pytest.mark.parametrize("on_disk", [False, True])
def test_segments_do_not_change_the_numbers(walk, expected, tmp_path, segment_length, on_disk):
    state_dir = tmp_path if on_disk else None
    arrays = run(
        walk(), **SIZES, execution=replace(HOW, segment_length=segment_length, state_dir=state_dir)
    )
    assert array_digest(arrays) == expected
    x = arrays["x"]
    assert x.shape == (7, 53, 3)
    assert x.chunks[0] == (3, 3, 1)
    assert x.chunks[1][0] == min(segment_length, 53)
    assert arrays["accepted"].dtype == bool


@pytest.mark.parametrize("n_workers", [1, 2])
def test_threads(walk, expected, tmp_path, n_workers):
    how = replace(HOW, segment_length=10, scheduler="threads", workers=n_workers)
    for state_dir in (None, tmp_path):
        arrays = run(walk(), **SIZES, execution=replace(how, state_dir=state_dir))
        assert array_digest(arrays) == expected


def test_processes_keep_one_pool_over_runs(walk, expected, tmp_path, by_value):
    with workers("processes", 2) as pool:
        how = replace(HOW, segment_length=20, scheduler=pool)
        assert array_digest(run(walk(), **SIZES, execution=how)) == expected
        first = set(pool.pool._processes)
        on_disk = run(walk(), **SIZES, execution=replace(how, state_dir=tmp_path))
        assert array_digest(on_disk) == expected
        assert set(pool.pool._processes) == first
        assert os.getpid() not in first
        with pytest.raises(ResourceError, match="worker process died"):
            run(Dying(walk()), **SIZES, execution=how)


class Wrapped:
    def __init__(self, program):
        self.program = program

    def __getattr__(self, name):
        if name.startswith("__") or name == "program":
            raise AttributeError(name)
        return getattr(self.program, name)


class Dying(Wrapped):
    def advance(self, rng, carry, start, stop):
        os._exit(9)


@pytest.fixture(autouse=True)
def _this_file_by_value():
    import sys

    import cloudpickle

    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


def test_distributed(walk, expected, tmp_path, by_value):
    from distributed import Client

    with (
        Client(
            processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as client,
    ):
        how = replace(HOW, segment_length=20, scheduler=client)
        assert array_digest(run(walk(), **SIZES, execution=how)) == expected
        lazy = run(walk(), **SIZES, execution=replace(how, scheduler=None, compute=False))
        computed = client.compute(list(lazy.values()), sync=True)
        assert array_digest(dict(zip(lazy, computed, strict=True))) == expected
        on_disk = run(walk(), **SIZES, execution=replace(how, state_dir=tmp_path))
    assert array_digest(on_disk) == expected


def test_an_address_is_a_scheduler(walk, expected):
    from distributed import LocalCluster

    with LocalCluster(
        processes=False, n_workers=1, protocol="tcp", host="127.0.0.1", dashboard_address=":0"
    ) as cluster:
        arrays = run(
            walk(),
            **SIZES,
            execution=replace(HOW, segment_length=30, scheduler=cluster.scheduler_address),
        )
    assert array_digest(arrays) == expected  # here, though the connection is closed


def test_no_scheduler_at_the_address(walk):
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "200ms"}),
        pytest.raises(ResourceError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"),
    ):
        run(
            walk(),
            **SIZES,
            execution=replace(HOW, segment_length=30, scheduler="tcp://127.0.0.1:9"),
        )


def test_lazy_arrays_run_nothing_until_asked_and_then_once(walk, expected, tmp_path):
    for state_dir in (None, tmp_path):
        program = walk()
        lazy = run(
            program,
            **SIZES,
            execution=replace(HOW, segment_length=20, compute=False, state_dir=state_dir),
        )
        assert program.calls == []
        assert list(tmp_path.iterdir()) == []
        computed = dask.compute(lazy, scheduler="synchronous")[0]
        assert array_digest(computed) == expected
        assert sorted(program.calls) == [
            (chain, start, min(start + 20, 53)) for chain in (0, 3, 6) for start in (0, 20, 40)
        ]


def test_computed_arrays_hold_numpy_chunks(walk):
    program = walk()
    arrays = run(program, **SIZES, execution=replace(HOW, segment_length=20))
    assert len(program.calls) == 9
    assert all(isinstance(array, da.Array) for array in arrays.values())
    array_digest(arrays)
    array_digest(arrays)
    assert len(program.calls) == 9


def test_chain_0_alone_equals_chain_0_of_8(walk):
    sizes = {"length": 40, "seed": 1, "execution": Execution(block_size=8, segment_length=15)}
    many = run(walk(), n_chains=8, **sizes)
    one = run(walk(), n_chains=1, **sizes)
    later = run(walk(), n_chains=2, first_chain=6, **sizes)
    for name in many:
        np.testing.assert_array_equal(many[name][:1], one[name])
        np.testing.assert_array_equal(many[name][6:], later[name])


def test_a_program_may_be_a_tuple_or_a_callable(walk, expected):
    # Both mean something else to Dask when they stand bare in a graph.
    class Callable(Wrapped):
        def __call__(self):
            raise AssertionError

    class Tuple(tuple):
        __slots__ = ()
        start = property(lambda self: self[1].start)
        advance = property(lambda self: self[1].advance)
        outputs = property(lambda self: self[1].outputs)

    for program in (Callable(walk()), Tuple((print, walk()))):
        arrays = run(program, **SIZES, execution=replace(HOW, segment_length=30))
        assert array_digest(arrays) == expected


def test_carries_and_outputs_do_not_pile_up_between_tasks(walk):
    import weakref

    alive: list[weakref.ref] = []
    most = 0

    class Heavy(Wrapped):
        def advance(self, rng, carry, start, stop):
            nonlocal most
            carry, outputs = self.program.advance(rng, carry, start, stop)
            carry["x"] = carry["x"].copy()
            alive.append(weakref.ref(carry["x"]))
            most = max(most, sum(ref() is not None for ref in alive))
            return carry, outputs

    run(
        Heavy(walk()),
        n_chains=2,
        length=200,
        seed=1,
        execution=Execution(block_size=1, segment_length=5),
    )
    assert len(alive) == 80
    assert most <= 4


def test_only_the_carry_goes_from_task_to_task(walk, expected, monkeypatch):
    seen = []

    def watched(box, previous, *, task):
        seen.append(previous is None or previous.outputs == {})
        return advance_segment(box, previous, task=task)

    monkeypatch.setattr(job, "advance_segment", watched)
    assert array_digest(run(walk(), **SIZES, execution=replace(HOW, segment_length=10))) == expected
    assert len(seen) == 18
    assert all(seen)


def test_a_task_can_be_run_twice(walk):
    # Dask does so when a worker is lost; this program changes its carry in place.
    task = SegmentTask((0, 3), 0, 0, 10, 10, seed=1, key=())
    box = ProgramBox(walk())
    first = advance_segment(box, None, task=task)
    second = [
        advance_segment(box, first, task=replace(task, index=1, start=10, stop=20)).outputs
        for _ in range(2)
    ]
    assert array_digest(second[0]) == array_digest(second[1])


@pytest.mark.parametrize(("n_workers", "told"), [(1, False), (2, True)])
def test_workers_that_a_scheduler_does_not_use_are_told(walk, caplog, n_workers, told):
    run(
        walk(),
        **SIZES,
        execution=replace(HOW, segment_length=53, scheduler="synchronous", workers=n_workers),
    )
    assert ("give scheduler='processes'" in caplog.text) == told


def test_progress_is_logged(walk, caplog, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_SILENT", 0.0)
    caplog.set_level(logging.INFO, logger="gpmcflow")
    run(walk(), **SIZES, execution=replace(HOW, progress=False))
    assert caplog.records == []
    for _ in range(2):
        run(
            walk(),
            **SIZES,
            execution=replace(HOW, segment_length=20, progress="sample walk", state_dir=tmp_path),
        )
    lines = [record.getMessage() for record in caplog.records]
    arrays = run(walk(), **SIZES, execution=replace(HOW, segment_length=20))
    acceptance = arrays["acceptance_rate"].mean().compute()
    assert lines[0].startswith("sample walk: 1/9 segments, acceptance ")
    assert any(line.startswith("sample walk: 9/9 segments, acceptance ") for line in lines)
    assert "9/9 segments, 9 found on disk" in lines[-1]
    assert abs(float(lines[-1].split("acceptance ")[1].split(",")[0]) - acceptance) < 0.05


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_chains": 0}, "n_chains is 0"),
        ({"length": 2.5}, "length is 2.5"),
        ({"block_size": -1}, "block_size is -1"),
        ({"segment_length": True}, "segment_length is True"),
        ({"first_chain": -1}, "first_chain is -1"),
        ({"seed": -1}, "-1 is negative"),
        ({"key": ("a", 1.5)}, "1.5 is not a str or int"),
        ({"scheduler": "thread"}, "did you mean 'threads'"),
        ({"scheduler": "processes", "workers": 0}, "workers is 0"),
        ({"settings": {"a": np.int64(1)}}, "settings.*numpy.int64"),
    ],
)
def test_wrong_arguments(walk, change, message):
    fields = {field.name for field in dataclasses.fields(Execution)}
    how = replace(HOW, **{name: change[name] for name in fields & change.keys()})
    sizes = SIZES | {name: change[name] for name in change.keys() - fields}
    with pytest.raises(InputError, match=message) as error:
        run(walk(), **sizes, execution=how)
    assert "\n" not in str(error.value)


class Changed(Wrapped):
    def __init__(self, program, change):
        super().__init__(program)
        self.change = change

    def advance(self, *arguments):
        carry, outputs = self.program.advance(*arguments)
        self.change(carry, outputs)
        return carry, outputs


def _drop(carry, outputs):
    del outputs["accepted"]


def _change_type(carry, outputs):
    outputs["x"] = outputs["x"].astype(np.float32)


def _change_shape(carry, outputs):
    outputs["x"] = outputs["x"][:, :, 0]


def _lose_chains(carry, outputs):
    carry["x"] = np.zeros(1000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_drop, "promises.*accepted"),
        (_change_type, "float32"),
        (_change_shape, r"\(\d, 10\), outputs\(\) promises float64 \(\d, 10, 3\)"),
        (_lose_chains, "carry 'x'"),
    ],
)
def test_a_program_that_breaks_its_promise(walk, change, message):
    with pytest.raises(InputError, match=message):
        run(Changed(walk(), change), **SIZES, execution=replace(HOW, segment_length=10))


def _fail(carry, outputs):
    raise NumericalError("no Cholesky factor.")


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_errors_of_a_program_come_out_as_they_are(walk, scheduler):
    with pytest.raises(NumericalError, match=r"^no Cholesky factor\.$"):
        run(
            Changed(walk(), partial(_fail)),
            **SIZES,
            execution=replace(HOW, segment_length=10, scheduler=scheduler),
        )
