"""Full disks, read-only folders, clocks set back: one line said, nothing corrupted, and on it goes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpmcflow.errors import StorageError
from gpmcflow.execution import Execution, array_digest, progress, run
from gpmcflow.storage import atomic

SIZES = {"n_chains": 4, "length": 50, "seed": 1}
HOW = Execution(block_size=2, segment_length=10)
HERE = str(Path(__file__).parent)
STEPS = {  # the call that fails, and whether it is that one
    "write": (np, "savez", lambda stream, **_: True),
    "fsync": (atomic, "_sync", lambda path: not path.is_dir()),
    "rename": (atomic.os, "replace", lambda *_: True),
    "fsync of the folder": (atomic, "_sync", lambda path: path.is_dir()),
}


@pytest.fixture
def expected(walk):
    return array_digest(run(walk(), **SIZES, execution=HOW))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("number", "message"),
    [(28, "the disk is full"), (122, "the disk quota is used up"), (30, "the folder is read-only")],
)
def test_a_disk_that_takes_no_more(walk, tmp_path, monkeypatch, expected, step, number, message):
    owner, name, is_it = STEPS[step]
    real, calls = getattr(owner, name), []

    def failing(*arguments, **options):
        calls.extend([1] * is_it(*arguments, **options))
        if len(calls) > 6 and is_it(*arguments, **options):
            raise OSError(number, os.strerror(number))
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing)
        with pytest.raises(StorageError, match=message) as error:
            run(walk(), **SIZES, execution=replace(HOW, state_dir=tmp_path))
    assert "\n" not in str(error.value)
    assert list(tmp_path.rglob("*.tmp")) == []
    kept = len(list(tmp_path.rglob("segment_*.npz")))
    assert kept > 0
    program = walk()
    arrays = run(program, **SIZES, execution=replace(HOW, state_dir=tmp_path))
    assert array_digest(arrays) == expected
    assert len(program.calls) == 10 - kept


ON_A_SMALL_DISK = """
set -e  # in a namespace of its own, so that the mount goes with it
mount -t tmpfs -o size=64k tmpfs "$1"
"$2" -c '
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from conftest import Walk
from gpmcflow.errors import ResourceError, StorageError
from gpmcflow.execution import Execution, array_digest, run, runner
how = Execution(block_size=2, segment_length=10, state_dir=sys.argv[2])
sizes = dict(n_chains=4, seed=1, execution=how)
try:
    run(Walk(), length=1000, **sizes)
except ResourceError as error:
    print(error)
runner.require_disk = lambda *arguments: None  # somebody else fills the disk after the check
try:
    run(Walk(), length=1000, **sizes)
except StorageError as error:
    print(error)
subprocess.run(["mount", "-o", "remount,size=1m", sys.argv[2]], check=True)
print(array_digest(run(Walk(), length=50, **sizes)))
' "$3" "$1"
"""


def test_a_disk_that_is_full(tmp_path, expected):
    """A real one, of 64 kB: refused before, or found later; what is on it is whole, and of use."""
    command = ["unshare", "--mount", "sh", "-c", ON_A_SMALL_DISK, "sh"]
    try:
        done = subprocess.run(
            [*command, str(tmp_path), sys.executable, HERE], capture_output=True, text=True
        )
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip("this user may not mount")
    assert done.returncode == 0, done.stderr
    refused, said, digest = done.stdout.splitlines()
    assert "are free; free some space" in refused
    assert "cannot be written: the disk is full; free some space" in said
    assert digest == expected


class Clock:
    """Goes back an hour at every other look."""

    def __init__(self):
        self.now = 2e9

    def __call__(self) -> float:
        self.now += 0.7 if int(self.now) % 2 else -3600.3
        return self.now


def test_a_clock_that_is_set_back(walk, tmp_path, monkeypatch, caplog, expected, files):
    run(walk(), **SIZES, execution=replace(HOW, state_dir=tmp_path / "plain"))
    caplog.set_level(logging.INFO, logger="gpmcflow")
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", Clock())
        patch.setattr(progress.time, "monotonic", Clock())
        how = replace(HOW, state_dir=tmp_path / "back", progress="walk")
        assert array_digest(run(walk(), **SIZES, execution=how)) == expected
        for path in (tmp_path / "back").rglob("segment_00001.npz"):
            os.utime(path, (1e9, 1e9))  # written before the run began, says the clock
        again = walk()
        assert array_digest(run(again, **SIZES, execution=how)) == expected
    assert again.calls == []
    assert files(tmp_path / "back") == files(tmp_path / "plain")
    assert "walk: 10/10 segments" in caplog.text
    assert len(caplog.records) > 2  # it does not fall silent
    assert ":-" not in caplog.text.replace("walk: ", "")
    assert " -" not in caplog.text
