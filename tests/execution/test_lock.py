"""One run at a time in a state folder, and no lock that outlives its run."""

from __future__ import annotations

import errno
import json
import os
import socket
from dataclasses import replace

import pytest

from gpmcflow.errors import ResourceError, StorageError
from gpmcflow.execution import Execution, array_digest, lock, lock_owner, patience, run
from gpmcflow.execution.lock import state_lock

SIZES = {"n_chains": 4, "length": 50, "seed": 1}
HOW = Execution(block_size=2, segment_length=10)


@pytest.fixture(autouse=True)
def _little_patience():
    with patience(0.1):
        yield


class Twice:
    """Starts the same run once more in the middle of it."""

    def __init__(self, program, folder):
        self.program, self.folder, self.error = program, folder, None
        self.start, self.outputs = program.start, program.outputs

    def advance(self, rng, carry, start, stop):
        if start == 20 and self.error is None:
            with pytest.raises(ResourceError) as error:
                run(self.program, **SIZES, execution=replace(HOW, state_dir=self.folder))
            self.error = str(error.value)
        return self.program.advance(rng, carry, start, stop)


def test_a_second_run_ends_with_process_and_host_of_the_first(walk, tmp_path, files):
    program = Twice(walk(), tmp_path)
    digest = array_digest(run(program, **SIZES, execution=replace(HOW, state_dir=tmp_path)))
    assert f"process {os.getpid()} on {socket.gethostname()}" in program.error
    assert program.error.startswith(f"{tmp_path}: another run is at work on it")
    assert "\n" not in program.error
    assert digest == array_digest(run(walk(), **SIZES, execution=HOW))
    assert len(program.program.calls) == 10  # the second did none of it
    kept = files(tmp_path)
    run(walk(), **SIZES, execution=replace(HOW, state_dir=tmp_path))
    assert files(tmp_path) == kept


def test_what_a_dead_run_left_in_the_file_is_no_lock(walk, tmp_path):
    (tmp_path / "lock").write_text(json.dumps({"pid": 1, "host": "gone"}))
    assert lock_owner(tmp_path) is None
    run(walk(), **SIZES, execution=replace(HOW, state_dir=tmp_path))
    assert (tmp_path / "lock").read_text() == ""


def test_the_owner_is_told_while_there_is_one(tmp_path):
    assert lock_owner(tmp_path / "none") is None
    with state_lock(tmp_path):
        owner = lock_owner(tmp_path)
        assert owner["pid"] == os.getpid()
        assert owner["started_at"].endswith("+00:00")
    assert lock_owner(tmp_path) is None


def test_a_file_system_without_locks_is_said_and_works(walk, tmp_path, monkeypatch, caplog):
    def none(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock.fcntl, "flock", none)
    digest = array_digest(run(walk(), **SIZES, execution=replace(HOW, state_dir=tmp_path)))
    assert digest == array_digest(run(walk(), **SIZES, execution=HOW))
    assert "has no locks; start no second run" in caplog.text


def test_a_folder_that_cannot_be_made_is_said(walk, tmp_path, monkeypatch):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(lock.Path, "mkdir", read_only)
    with pytest.raises(StorageError, match="lock: cannot be written: the folder is read-only"):
        run(walk(), **SIZES, execution=replace(HOW, state_dir=tmp_path / "new"))
