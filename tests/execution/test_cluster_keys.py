"""A Dask cluster that lets nobody in without the key that the example makes."""

from __future__ import annotations

import json
import logging
import os
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpmcflow.execution import cluster
from gpmcflow.execution.cluster import is_open

EXAMPLE = Path(__file__).parents[2] / "examples" / "dask_tls" / "make_certificates.py"
PROGRAM = """
import sys
from gpmcflow.execution.pools import workers
with workers(sys.argv[1]) as pool:
    pool.compute({"a": (pow, 2, 5)}, ["a"], lambda key, value: print(value))
"""


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("tcp://127.0.0.1:8786", False),
        ("tcp://localhost:8786", False),
        ("tcp://[::1]:8786", False),
        ("tls://10.0.0.5:8786", False),
        ("tcp://10.0.0.5:8786", True),
        ("tcp://node1:8786", True),
    ],
)
def test_an_address_that_others_reach_without_a_key_is_open(address, found):
    assert is_open(address) is found


def test_an_open_scheduler_is_warned_of(monkeypatch, caplog):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Client", lambda *a, **k: None)
    with caplog.at_level(logging.WARNING):
        cluster._connect("tcp://127.0.0.1:8786")
        assert caplog.text == ""
        cluster._connect("tcp://node1:8786")
    assert "tcp://node1:8786 asks nobody who they are" in caplog.text


@pytest.fixture
def scheduler(tmp_path):
    """Scheduler file, and the environment with the key, of a scheduler with one worker."""
    pytest.importorskip("distributed")
    if shutil.which("openssl") is None:
        pytest.skip("the command openssl is not here")
    settings = runpy.run_path(str(EXAMPLE))["make"](tmp_path / "keys")
    assert (tmp_path / "keys").stat().st_mode & 0o077 == 0
    file, with_key = tmp_path / "dask.json", {**os.environ, "DASK_CONFIG": str(settings)}
    options = ("--scheduler-file", str(file), "--no-dashboard", "--host", "127.0.0.1")
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "dask", *command, *options],
            env=with_key,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in (("scheduler", "--port", "0"), ("worker", "--nthreads", "1"))
    ]
    try:
        end = time.monotonic() + 60.0
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.1)
        yield file, with_key
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_only_who_has_the_key_is_let_in(scheduler, monkeypatch):
    file, with_key = scheduler
    assert json.loads(file.read_text())["address"].startswith("tls://127.0.0.1:")
    command = [sys.executable, "-c", PROGRAM, str(file)]
    done = subprocess.run(command, env=with_key, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("32\n", 0), done.stderr
    without = {k: v for k, v in with_key.items() if k != "DASK_CONFIG"}
    refused = subprocess.run(command, env=without, capture_output=True, text=True, timeout=120)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "lets nobody in without its key; give it by export DASK_CONFIG=" in refused.stderr
