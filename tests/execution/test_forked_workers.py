"""Workers that begin as copies of a program with one thread, as those of the workflow's jobs do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from gpmcflow.execution import lock_owner, patience
from gpmcflow.execution.lock import state_lock

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="processes are forked on Linux alone"
)

COPIES = """
import threading
from gpmcflow.execution import forked_workers, workers

mark = 0

def seen():
    return mark

if __name__ == "__main__":
    mark = 1

    def asked():
        with workers("processes", 2) as pool:
            return pool.pool.submit(seen).result()

    told = [asked()]
    with forked_workers():
        told.append(asked())
        end = threading.Event()
        thread = threading.Thread(target=end.wait)
        thread.start()
        told.append(asked())
        end.set()
        thread.join()
    print([*told, asked()])
"""

RUNS = """
import sys
import numpy as np
import gpmcflow as gp
from gpmcflow.execution import array_digest, forked_workers, patience, workers

if __name__ == "__main__":
    model = gp.GPModel(np.arange(6.0), np.ones(6), gp.Matern32(1.0, 1.0), gp.Poisson())

    def digest(n_draws, **how):
        how = gp.Execution(block_size=1, segment_length=10, **how)
        draws = gp.sample(model, gp.EllipticalSlice(), n_chains=2, n_draws=n_draws, seed=1, execution=how)
        return array_digest(draws["posterior"].to_dataset().load().variables)

    with forked_workers(), patience(0.0), workers("processes", 2) as pool:
        found = [digest(n, scheduler=pool, state_dir=sys.argv[1]) for n in (20, 40)]
    print(found == [digest(20), digest(40)])
"""

KILLED = """
import sys, time
from gpmcflow.execution import forked_workers, workers
from gpmcflow.execution.lock import state_lock
from pathlib import Path

with state_lock(Path(sys.argv[1])), forked_workers(), workers("processes", 2) as pool:
    tasks = [pool.pool.submit(time.sleep, 60.0) for _ in range(2)]
    print(*pool.pool._processes, flush=True)
    tasks[0].result()
"""

BROKEN = """
import os, time
from concurrent.futures.process import BrokenProcessPool
from gpmcflow.execution import forked_workers, workers

with forked_workers(), workers("processes", 2) as pool:
    pool.pool.submit(time.sleep, 300.0)
    try:
        pool.pool.submit(os._exit, 9).result()
    except BrokenProcessPool:
        print("broken")
"""


def _script(tmp_path, text, *arguments):
    path = tmp_path / "script.py"
    path.write_text(text)
    return [sys.executable, str(path), *map(str, arguments)]


def _printed(command):
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_workers_are_copies_where_that_is_asked_for_and_no_other_thread_is_alive(tmp_path):
    assert _printed(_script(tmp_path, COPIES)) == "[0, 1, 0, 0]"


def test_copies_make_the_same_numbers_and_keep_no_lock_of_a_folder(tmp_path):
    assert _printed(_script(tmp_path, RUNS, tmp_path / "state")) == "True"


def test_copies_end_with_a_parent_that_is_killed_and_free_its_lock(tmp_path):
    folder = tmp_path / "state"
    command = _script(tmp_path, KILLED, folder)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        copies = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        assert [copy.ppid() for copy in copies] == [parent.pid] * 2
        assert lock_owner(folder)["pid"] == parent.pid
        os.kill(parent.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(copies, timeout=30.0)
    assert not alive
    with patience(0.0), state_lock(folder):
        pass


def test_a_copy_that_dies_takes_the_others_with_it(tmp_path):
    """They are deaf to SIGTERM: a pool that sent no more would wait for the longest task."""
    assert _printed(_script(tmp_path, BROKEN)) == "broken"
