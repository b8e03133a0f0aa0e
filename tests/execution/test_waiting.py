"""A scheduler that is not there yet and a lock that is held are waited for, in lines and not for ever."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from gpmcflow.errors import UnavailableError
from gpmcflow.execution import Execution, array_digest, graceful_stop, patience, run, waiting
from gpmcflow.execution.lock import state_lock
from gpmcflow.execution.signals import Stopped

SIZES = {"n_chains": 4, "length": 50, "seed": 1}
HOW = Execution(block_size=2, segment_length=10)


@pytest.fixture(autouse=True)
def _short_minutes(monkeypatch):
    monkeypatch.setattr(waiting, "LINE_EVERY", 0.2)


@pytest.fixture
def later():
    """Return a function that calls another one after some seconds."""
    timers = []

    def start(seconds, function, *arguments):
        timers.append(threading.Timer(seconds, function, arguments))
        timers[-1].start()

    yield start
    for timer in timers:
        timer.join()


@pytest.fixture
def held(tmp_path):
    """Hold the lock of tmp_path; gives what lets it go."""
    lock = state_lock(tmp_path)
    lock.__enter__()
    ended = []

    def end():
        if not ended:
            ended.append(lock.__exit__(None, None, None))

    yield end
    end()


def test_a_scheduler_that_comes_late_is_taken(walk, tmp_path, later, caplog):
    from distributed import LocalCluster

    file = tmp_path / "scheduler.json"
    with LocalCluster(
        processes=False, n_workers=1, protocol="tcp", host="127.0.0.1", dashboard_address=None
    ) as cluster:
        text = f'{{"address": "{cluster.scheduler_address}"}}'
        later(1.5, file.write_text, text)
        with patience(20):
            arrays = run(walk(), **SIZES, execution=replace(HOW, scheduler=str(file)))
    assert array_digest(arrays) == array_digest(run(walk(), **SIZES, execution=HOW))
    assert f"waiting for the Dask scheduler at {file}: 0 min" in caplog.text


def test_a_lock_that_is_let_go_is_taken(walk, tmp_path, held, later, caplog):
    later(1.5, held)
    with patience(20):
        arrays = run(walk(), **SIZES, execution=replace(HOW, state_dir=tmp_path))
    assert array_digest(arrays) == array_digest(run(walk(), **SIZES, execution=HOW))
    assert f"waiting for the end of another run in {tmp_path}: 0 min" in caplog.text


@pytest.mark.parametrize("what", ["scheduler", "lock"])
def test_patience_ends_and_a_library_has_a_second(walk, tmp_path, held, what):
    file = str(tmp_path / "scheduler.json")
    how = {"scheduler": {"scheduler": file}, "lock": {"state_dir": tmp_path}}[what]
    for seconds, within in ((1.0, contextlib.nullcontext()), (2.0, patience(2.0))):
        began = time.monotonic()
        with (
            within,
            pytest.raises(UnavailableError, match=r"no Dask scheduler file|another run is at work"),
        ):
            run(walk(), **SIZES, execution=replace(HOW, **how))
        assert seconds <= time.monotonic() - began < seconds + 2


@pytest.mark.parametrize("what", ["scheduler", "lock"])
def test_a_signal_is_heeded_while_it_waits(walk, tmp_path, held, later, what):
    file = str(tmp_path / "scheduler.json")
    how = {"scheduler": {"scheduler": file}, "lock": {"state_dir": tmp_path}}[what]
    later(0.5, os.kill, os.getpid(), signal.SIGTERM)
    began = time.monotonic()
    with pytest.raises(Stopped, match="SIGTERM"), graceful_stop(), patience(20):
        run(walk(), **SIZES, execution=replace(HOW, **how))
    assert time.monotonic() - began < 3
