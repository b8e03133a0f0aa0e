"""A Snakemake in a job of SLURM ends when what started it is gone, also where it waits for its own lock."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from gpmcflow.pipeline.parent import FRONT_END, end_without_parent

ROOT = Path(__file__).parents[2]
# The child hangs in a handler of SIGTERM, as Snakemake's does; its own child is a job.
CHILD = """
import os, signal, subprocess, sys, threading
from gpmcflow.pipeline.parent import end_without_parent
lock = threading.Lock()
signal.signal(signal.SIGTERM, lambda *_: lock.acquire())
end_without_parent(False, {"SLURM_JOB_ID": "7"})
job = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
lock.acquire()
print(os.getpid(), job.pid, flush=True)
lock.acquire()
"""
PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], start_new_session=True)
time.sleep(60)
"""


def test_it_ends_with_its_job():
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    own = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
    assert len(own) == 2
    parent.kill()
    parent.wait()
    assert not psutil.wait_procs(own, timeout=20)[1]
    parent.stdout.close()


@pytest.mark.parametrize(
    ("main", "environment"), [(True, {"SLURM_JOB_ID": "7"}), (False, {FRONT_END: "1"}), (True, {})]
)
def test_one_that_is_started_by_hand_outlives_its_shell(main, environment):
    before = threading.active_count()
    end_without_parent(main, environment)
    assert threading.active_count() == before
