from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpmcflow.errors import StorageError
from gpmcflow.execution import Execution, array_digest, run
from gpmcflow.execution.segment_files import fault, read_arrays, read_if_whole, write_arrays
from gpmcflow.storage import atomic

SIZES = {"n_chains": 4, "length": 50, "seed": 1}
HOW = Execution(block_size=2, segment_length=10)
SETTINGS = {"sampler": {"step": 0.5}}


@pytest.fixture
def resume(walk, tmp_path, caplog):
    """Return a function that runs in `tmp_path`: digest of arrays, calls made, warnings."""

    def call(execution=None, **changes):
        caplog.clear()
        program = walk()
        how = replace(HOW, **{"settings": SETTINGS, "state_dir": tmp_path, **(execution or {})})
        digest = array_digest(run(program, **SIZES | changes, execution=how))
        found = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        return digest, sorted(program.calls), found

    return call


@pytest.fixture
def expected(walk):
    return array_digest(run(walk(), **SIZES, execution=HOW))


def test_files(resume, expected, tmp_path, files):
    digest, calls, warned = resume()
    assert (digest, len(calls), warned) == (expected, 10, [])
    names = [f"block_00000/{name}" for name in sorted(os.listdir(tmp_path / "block_00000"))]
    kept = [f"block_00000/checkpoint_{k:05d}.npz" for k in (3, 4)]
    assert names == kept + [f"block_00000/segment_{k:05d}.npz" for k in range(5)]
    before = files(tmp_path)
    assert len(before) == 14
    digest, calls, warned = resume()
    assert (digest, calls, warned) == (expected, [], [])
    assert files(tmp_path) == before


@pytest.mark.parametrize("from_segment", [1, 3, 4])
def test_later_segments_missing(resume, expected, tmp_path, files, from_segment):
    resume()
    before = files(tmp_path)
    for index in range(from_segment, 5):
        for path in tmp_path.glob(f"block_00001/*_{index:05d}.npz"):
            path.unlink()
    digest, calls, warned = resume()
    assert (digest, warned) == (expected, [])
    assert files(tmp_path) == before
    # From the checkpoint of segment 3 if it is there, else from the start.
    first = 4 if from_segment == 4 else 0
    assert calls == [(2, 10 * k, 10 * k + 10) for k in range(first, 5)]


def truncate(data: bytes) -> bytes:
    return data[: len(data) // 2]


def empty(data: bytes) -> bytes:
    return b""


def flip(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[len(data) // 2] ^= 1
    return bytes(changed)


@pytest.mark.parametrize("damage", [truncate, empty, flip])
@pytest.mark.parametrize("name", ["segment_00001.npz", "segment_00004.npz"])
def test_a_damaged_segment_is_computed_again(resume, expected, tmp_path, files, damage, name):
    resume()
    path = tmp_path / "block_00000" / name
    before = files(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    digest, _, warned = resume()
    assert digest == expected
    assert len(warned) == 1
    assert name in warned[0]
    assert "computed again" in warned[0]
    after = files(tmp_path)
    assert {key: after[key] for key in before} == before


def test_a_damaged_checkpoint_is_passed_over(resume, expected, tmp_path):
    resume()
    folder = tmp_path / "block_00000"
    (folder / "segment_00004.npz").unlink()
    checkpoint = folder / "checkpoint_00003.npz"
    checkpoint.write_bytes(flip(checkpoint.read_bytes()))
    digest, calls, warned = resume()
    assert digest == expected
    assert calls[0] == (0, 0, 10)
    assert len(warned) == 1
    assert "an earlier one is used" in warned[0]


def test_every_bit_that_matters_is_checked(tmp_path):
    path = tmp_path / "x.npz"
    arrays = {"x": np.arange(6.0), "n": np.arange(3)}
    write_arrays(path, arrays, "me")
    data = path.read_bytes()
    assert fault(path, "me") is None
    assert "other settings" in fault(path, "you")
    assert read_if_whole(path, "you") == ({}, fault(path, "you"))
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 0x10
        path.write_bytes(changed)
        if fault(path, "me") is None:  # a time stamp, say: then the arrays are what they were
            assert array_digest(read_arrays(path)) == array_digest(arrays)
        found, wrong = read_if_whole(path, "me")
        assert (wrong is None) == (fault(path, "me") is None)
        assert array_digest(found) == array_digest({} if wrong else arrays)


@pytest.mark.parametrize("size", [6, 60_000])
def test_a_damaged_shape_is_not_taken(tmp_path, size):
    """Fewer numbers are read then, and the checksum at the end of them all may not be reached."""
    path = tmp_path / "x.npz"
    write_arrays(path, {"x": np.arange(float(size))}, "me")
    data = path.read_bytes()
    shape = f"({size},)".encode()
    assert data.count(shape) == 1
    path.write_bytes(data.replace(shape, shape.replace(b"6", b"4")))
    with pytest.raises(StorageError, match=r"Bad CRC-32|longer than its shape"):
        read_arrays(path, ["x"])
    assert "it is damaged" in read_if_whole(path, "me")[1]


@pytest.mark.parametrize(
    ("change", "settings"),
    [({"seed": 2}, SETTINGS), ({"key": ("b",)}, SETTINGS), ({}, {"sampler": {"step": 0.6}})],
)
def test_segments_of_other_settings_are_not_taken(resume, walk, tmp_path, change, settings):
    resume()
    digest, calls, warned = resume({"settings": settings}, **change)
    assert digest == array_digest(run(walk(), **SIZES | change, execution=HOW))
    assert len(calls) == 10
    assert all("other settings" in line for line in warned)
    assert len([line for line in warned if "segment_" in line]) == 10


def test_more_draws_and_more_chains_go_on_from_what_is_there(resume, walk):
    resume()
    digest, calls, warned = resume(length=70)
    assert digest == array_digest(run(walk(), **SIZES | {"length": 70}, execution=HOW))
    assert calls == [(chain, start, start + 10) for chain in (0, 2) for start in (50, 60)]
    assert warned == []
    digest, calls, warned = resume(length=70, n_chains=6)
    sizes = SIZES | {"length": 70, "n_chains": 6}
    assert digest == array_digest(run(walk(), **sizes, execution=HOW))
    assert {call[0] for call in calls} == {4}
    digest, calls, _ = resume(n_chains=2, first_chain=4)
    assert calls == []
    resume(length=73)  # whose last segment is short
    digest, calls, warned = resume(length=85)
    assert digest == array_digest(run(walk(), **SIZES | {"length": 85}, execution=HOW))
    assert calls == [(chain, *ends) for chain in (0, 2) for ends in ((70, 80), (80, 85))]
    assert warned == []


def test_another_segment_length_still_ends_in_the_same_numbers(resume, expected):
    resume()
    assert resume({"segment_length": 7})[0] == expected
    assert resume()[0] == expected


def test_an_interrupted_run_goes_on(walk, resume, expected, tmp_path, files):
    with pytest.raises(KeyboardInterrupt):
        run(
            walk(stop_at=30), **SIZES, execution=replace(HOW, settings=SETTINGS, state_dir=tmp_path)
        )
    n_files = len(list(tmp_path.rglob("segment_*.npz")))
    digest, calls, warned = resume()
    assert (digest, warned) == (expected, [])
    assert 0 < n_files == 10 - len(calls)
    assert [path for path in files(tmp_path) if path.endswith(".tmp")] == []


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from conftest import Walk
from gpmcflow.execution import Execution, run, segment_files

write = segment_files.np.savez
def killed(stream, **arrays):
    write(stream, **arrays)
    stream.flush()
    if stream.name.endswith(".tmp") and ".segment_00002.npz" in stream.name:
        os.kill(os.getpid(), signal.SIGKILL)
segment_files.np.savez = killed
settings = {"sampler": {"step": 0.5}}
how = Execution(block_size=2, segment_length=10, settings=settings, state_dir=sys.argv[2])
run(Walk(), n_chains=4, length=50, seed=1, execution=how)
"""


def test_a_run_killed_in_the_middle_of_a_write_goes_on(resume, expected, tmp_path, files):
    here = str(Path(__file__).parent)
    killed = subprocess.run([sys.executable, "-c", KILLED, here, str(tmp_path)])
    assert killed.returncode == -signal.SIGKILL
    left = files(tmp_path)
    assert len([name for name in left if name.endswith(".tmp")]) == 1
    digest, calls, warned = resume()
    assert (digest, warned) == (expected, [])
    assert len(calls) < 10
    assert [name for name in files(tmp_path) if name.endswith(".tmp")] == []


def test_a_full_disk_is_said_in_one_line(walk, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "replace", full)
    with pytest.raises(StorageError, match="the disk is full") as error:
        run(walk(), **SIZES, execution=replace(HOW, state_dir=tmp_path))
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.rglob("*.*")] == []


def test_a_segment_lost_after_the_run_is_said(walk, tmp_path):
    arrays = run(walk(), **SIZES, execution=replace(HOW, state_dir=tmp_path))
    (tmp_path / "block_00001" / "segment_00002.npz").unlink()
    with pytest.raises(StorageError, match=r"segment_00002\.npz: cannot be read"):
        arrays["x"].compute(scheduler="synchronous")
