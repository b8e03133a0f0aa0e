"""A real Dask cluster of two worker processes, one of which is killed midway."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gpmcflow as gp
from gpmcflow.errors import ResourceError
from gpmcflow.execution import Execution, array_digest, graceful_stop, run
from gpmcflow.execution.signals import Stopped

SIZES = {"n_chains": 8, "length": 60, "seed": 1}
HOW = Execution(block_size=2, segment_length=10)


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        processes=True,
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=":0",
        silence_logs=50,
    ) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _this_file_by_value(by_value):
    import sys

    import cloudpickle

    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


class Slow:
    """Takes a moment for each segment, and leaves the number of the process that ran it."""

    def __init__(self, program, folder):
        self.program, self.folder = program, str(folder)

    def start(self, rng):
        return self.program.start(rng)

    def outputs(self):
        return self.program.outputs()

    def advance(self, rng, carry, start, stop):
        with open(os.path.join(self.folder, f"{rng.chains[0]}-{start}-{os.getpid()}"), "w"):
            time.sleep(0.1)
        return self.program.advance(rng, carry, start, stop)


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_worker_that_is_lost_midway_changes_nothing(walk, tmp_path, cluster, on_disk):
    marks = tmp_path / "marks"
    marks.mkdir()
    killed = []

    def kill():
        while len(names := os.listdir(marks)) < 7:
            time.sleep(0.02)
        killed.append(int(max(names).split("-")[2]))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    state_dir = tmp_path / "state" if on_disk else None
    arrays = run(
        Slow(walk(), marks),
        **SIZES,
        execution=replace(HOW, scheduler=cluster.scheduler_address, state_dir=state_dir),
    )
    killer.join()
    ran = {int(name.split("-")[2]) for name in os.listdir(marks)}
    assert killed[0] in ran
    assert len(ran) >= 2
    assert array_digest(arrays) == array_digest(run(walk(), **SIZES, execution=HOW))


def test_a_signal_to_the_client_ends_the_run_and_the_next_goes_on(walk, tmp_path, cluster):
    marks = tmp_path / "marks"
    marks.mkdir()

    def ask():
        while len(os.listdir(marks)) < 5:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    program = Slow(walk(), marks)
    how = replace(HOW, scheduler=cluster.scheduler_address, state_dir=tmp_path / "state")
    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(Stopped, match=r"SIGTERM: \d+ of 24 segments are kept"), graceful_stop():
        run(program, **SIZES, execution=how)
    asking.join()
    expected = array_digest(run(walk(), **SIZES, execution=HOW))
    assert array_digest(run(program, **SIZES, execution=how)) == expected


def test_a_scheduler_file(walk, tmp_path, cluster):
    path = tmp_path / "scheduler.json"
    with pytest.raises(ResourceError, match=r"no Dask scheduler file .*scheduler\.json; start a"):
        run(walk(), **SIZES, execution=replace(HOW, scheduler=str(path)))
    path.write_text(json.dumps({"type": "Scheduler", "address": cluster.scheduler_address}))
    arrays = run(walk(), **SIZES, execution=replace(HOW, scheduler=str(path)))
    assert array_digest(arrays) == array_digest(run(walk(), **SIZES, execution=HOW))


def test_the_python_of_the_page_on_clusters_runs(tmp_path, cluster, monkeypatch):
    """As printed, but for the number of draws; it leaves the state of its chains."""
    page = Path(__file__).parents[2] / "docs" / "tutorials" / "clusters.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("dask.json").write_text(
        json.dumps({"type": "Scheduler", "address": cluster.scheduler_address})
    )
    x = np.linspace(0.0, 1.0, 8)
    model = gp.GPModel(x, np.arange(8.0), gp.Matern32(0.5, 1.0), gp.Poisson())
    short = functools.partial(gp.sample, n_draws=2, n_warmup=2)
    few = SimpleNamespace(sample=short, Execution=gp.Execution)
    exec(block, names := {"gp": few, "model": model})
    assert names["draws"].posterior.sizes["chain"] == 64
    assert any(Path("chains").iterdir())


class Deadly(Slow):
    def advance(self, rng, carry, start, stop):
        os._exit(9)


def test_a_task_that_kills_its_workers_is_said_in_one_line(walk, tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)  # 3, each of which takes seconds
    with pytest.raises(ResourceError, match="died of one task: are they short of memory") as error:
        run(
            Deadly(walk(), tmp_path),
            **SIZES,
            execution=replace(HOW, scheduler=cluster.scheduler_address),
        )
    assert "\n" not in str(error.value)
