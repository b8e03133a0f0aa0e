"""A Dask scheduler of its own process that dies, and one whose workers are late, or leave."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpmcflow.errors import UnavailableError
from gpmcflow.execution import Execution, array_digest, graceful_stop, run, waiting
from gpmcflow.execution import cluster as cluster_module
from gpmcflow.execution.signals import Stopped
from gpmcflow.execution.state_folder import StateFolder
from gpmcflow.monitor.status import job_statuses, status_table

ROOT = Path(__file__).parents[2]
SIZES = {"n_chains": 4, "length": 60, "seed": 1}
HOW = Execution(block_size=2, segment_length=10)


class Cluster:
    """A Dask scheduler and its workers, each a process that can be killed."""

    def __init__(self, folder: Path):
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen] = []
        self.scheduler = self._start("dask_scheduler", "--port", "0", "--scheduler-file", self.file)
        wait_for(lambda: self.file.exists() and self.file.read_text().endswith("}"))
        self.address = json.loads(self.file.read_text())["address"]

    def add_worker(self) -> subprocess.Popen:
        return self._start("dask_worker", self.address, "--no-nanny", "--nthreads", "1")

    def _start(self, command: str, *options) -> subprocess.Popen:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", f"distributed.cli.{command}", *map(str, options)),
                *("--host", "127.0.0.1", "--no-dashboard"),
            ],
            stderr=subprocess.DEVNULL,
            cwd=self.file.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)},  # so that they can import this file
        )
        self.processes.append(process)
        return process

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    cluster = Cluster(folder)
    yield cluster
    cluster.kill()


def wait_for(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def ending_in(function):
    """Do what lets the run end, whatever a wait inside comes to."""
    with suppress(AssertionError):
        yield
    function()


class Slow:
    """Takes a moment for each segment, and leaves a file for each that has begun."""

    def __init__(self, program, folder: Path, seconds: float = 0.2):
        self.program, self.folder, self.seconds = program, str(folder), seconds
        folder.mkdir()

    def start(self, rng):
        return self.program.start(rng)

    def outputs(self):
        return self.program.outputs()

    def advance(self, rng, carry, start, stop):
        with open(os.path.join(self.folder, f"{rng.chains[0]}-{start}"), "w"):
            time.sleep(self.seconds)
        return self.program.advance(rng, carry, start, stop)


@pytest.fixture
def beside():
    """Return a function that runs another beside the test, up to its end."""
    threads = []

    def start(function):
        threads.append(threading.Thread(target=function))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()


def lost(cluster: Cluster) -> str:
    return rf"^the Dask cluster at {cluster.address} is gone, or gave up the work; start it again"


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_scheduler_that_dies_is_one_line(walk, tmp_path, cluster, beside, on_disk):
    program = Slow(walk(), tmp_path / "marks")
    cluster.add_worker()

    def kill():
        wait_for(lambda: len(os.listdir(program.folder)) > 3)
        cluster.kill()

    beside(kill)
    how = replace(HOW, state_dir=tmp_path / "state" if on_disk else None)
    with pytest.raises(UnavailableError, match=lost(cluster)) as error:
        run(program, **SIZES, execution=replace(how, scheduler=cluster.address))
    assert "\n" not in str(error.value)
    expected = array_digest(run(walk(), **SIZES, execution=HOW))
    assert array_digest(run(walk(), **SIZES, execution=how)) == expected


JOB = """
import sys, time
from types import SimpleNamespace
sys.path.insert(0, sys.argv[1])
import conftest, cloudpickle
from gpmcflow.execution import Execution, run
from gpmcflow.jobs.job import workflow_job

class Slow(conftest.Walk):
    def advance(self, rng, carry, start, stop):
        time.sleep(0.3)
        return super().advance(rng, carry, start, stop)

cloudpickle.register_pickle_by_value(conftest)
here = SimpleNamespace(log=["job.log"], input=None, output=None, wildcards=None, params={})
with workflow_job(here):
    how = Execution(scheduler=sys.argv[2], block_size=2, segment_length=10, state_dir="state")
    run(Slow(), n_chains=8, length=60, seed=1, execution=how)
"""


def test_a_job_of_the_workflow_says_nothing_else_and_asks_for_a_retry(tmp_path, cluster):
    cluster.add_worker()
    here = str(Path(__file__).parent)
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, here, cluster.address],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    wait_for(lambda: list(tmp_path.rglob("segment_*.npz")))
    cluster.kill()
    _, err = job.communicate(timeout=30)
    assert re.fullmatch(rf"ERROR: {lost(cluster)[1:]}.*\n", err)
    assert job.returncode == 75


def test_no_segment_is_trusted_when_the_scheduler_dies_in_their_check(
    walk, tmp_path, cluster, beside
):
    how = replace(HOW, state_dir=tmp_path / "state")
    expected = array_digest(run(walk(), **SIZES, execution=how))
    segment = tmp_path / "state" / "block_00000" / "segment_00002.npz"
    damaged, times = bytearray(segment.read_bytes()), segment.stat()
    damaged[len(damaged) // 2] ^= 1
    segment.write_bytes(damaged)
    os.utime(segment, ns=(times.st_atime_ns, times.st_mtime_ns))

    def kill():  # no worker: nothing is checked before
        with ending_in(cluster.kill):
            wait_for((tmp_path / "state" / "waiting.json").exists, 10)

    beside(kill)
    with pytest.raises(UnavailableError, match=lost(cluster)):
        run(walk(), **SIZES, execution=replace(how, scheduler=cluster.address))
    assert array_digest(run(walk(), **SIZES, execution=how)) == expected


def test_a_result_that_never_comes_is_no_endless_wait(walk, cluster, beside, monkeypatch):
    import distributed

    async def broken(*_, **__):
        raise OSError("the connection broke")

    monkeypatch.setattr(distributed.Client, "_gather_remote", broken)
    monkeypatch.setattr(cluster_module, "_TRANSFER", 1.0)
    cluster.add_worker()
    ended = threading.Event()

    def bound():
        ended.wait(20)
        cluster.kill()

    beside(bound)
    began = time.monotonic()
    with pytest.raises(UnavailableError, match=lost(cluster)):
        run(walk(), **SIZES, execution=replace(HOW, scheduler=cluster.address))
    ended.set()
    assert time.monotonic() - began < 15


def test_without_workers_it_says_so_and_heeds_a_signal(
    walk, tmp_path, cluster, beside, monkeypatch, caplog
):
    monkeypatch.setattr(waiting, "LINE_EVERY", 0.1)
    caplog.set_level(logging.WARNING)
    state, tables, times = tmp_path / "state", [], []
    what = f"a worker of the Dask cluster at {cluster.address}"

    def ask():
        with ending_in(cluster.kill):
            wait_for(lambda: f"waiting for {what}: 0 min" in caplog.text, 10)
            tables.append(status_table(job_statuses(state)))
            times.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(3)

    beside(ask)
    how = replace(HOW, scheduler=cluster.address, state_dir=state, progress="walk")
    with (
        pytest.raises(Stopped, match=f"SIGTERM while waiting for {what}: 0 of 12 segments"),
        graceful_stop(),
    ):
        run(walk(), **SIZES, execution=how)
    assert time.monotonic() - times[0] < 2.5
    row = tables[0].splitlines()[1]
    assert row.startswith("walk  stalled  0/12 ")
    assert f"waits for {what} since 20" in row
    assert not (state / "waiting.json").exists()


def test_it_goes_on_when_workers_come_again(walk, tmp_path, cluster, beside):
    program, state = Slow(walk(), tmp_path / "marks"), tmp_path / "state"
    first = cluster.add_worker()
    seen = []

    def exchange():
        wait_for(lambda: len(os.listdir(program.folder)) > 3)
        first.kill()
        with ending_in(cluster.add_worker):
            wait_for((state / "waiting.json").exists, 10)
            seen.append(json.loads((state / "waiting.json").read_text()))

    beside(exchange)
    arrays = run(
        program, **SIZES, execution=replace(HOW, scheduler=cluster.address, state_dir=state)
    )
    assert seen[0]["for"] == f"a worker of the Dask cluster at {cluster.address}"
    assert not (state / "waiting.json").exists()
    assert array_digest(arrays) == array_digest(run(walk(), **SIZES, execution=HOW))


def test_a_long_task_is_no_wait(walk, tmp_path, cluster, monkeypatch):
    told = []
    monkeypatch.setattr(StateFolder, "note_waiting", lambda _, what: told.append(what))
    program = Slow(walk(), tmp_path / "marks", seconds=3.0)
    cluster.add_worker()
    wait_for(lambda: has_worker(cluster))
    how = replace(HOW, block_size=4, segment_length=60, state_dir=tmp_path / "state")
    run(program, **SIZES, execution=replace(how, scheduler=cluster.address))
    assert set(told) == {None}


def has_worker(cluster: Cluster) -> bool:
    from distributed import Client

    with Client(cluster.address, set_as_default=False) as client:
        return bool(client.nthreads())


@pytest.mark.parametrize(
    ("status", "value", "delivered"),
    [("pending", 3, [("key", 3)]), ("cancelled", asyncio.CancelledError(), [])],
)
def test_a_result_counts_though_its_worker_is_lost_a_moment_later(
    monkeypatch, status, value, delivered
):
    """Its task waits anew then; a task that was cancelled comes with an exception for a value."""
    future = SimpleNamespace(key="key", status=status)
    batches = SimpleNamespace(next_batch=lambda block: [(future, value)])
    monkeypatch.setattr("distributed.as_completed", lambda *_, **__: batches)
    client = SimpleNamespace(
        status="running", get=lambda *_, **__: [future], loop=None, scheduler=None
    )
    seen = []
    with suppress(UnavailableError) if not delivered else nullcontext():
        cluster_module.compute(
            client, {}, ["key"], lambda *pair: seen.append(pair), lambda *_: None
        )
    assert seen == delivered
