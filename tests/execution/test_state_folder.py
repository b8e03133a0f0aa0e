"""What lies beside the blocks: manifest, ledger, and what killed writes left."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from gpmcflow.execution import Execution, array_digest, run, settings_digest
from gpmcflow.execution.state_folder import Entry, Ledger, RunIdentity

SIZES = {"n_chains": 4, "length": 50, "seed": 1}
HOW = Execution(block_size=2, segment_length=10)
SETTINGS = {"sampler": {"step": 0.5}}


def test_manifest(walk, tmp_path):
    sizes = {**SIZES, "n_chains": 5, "length": 45}
    how = replace(HOW, settings=SETTINGS, state_dir=tmp_path, progress="sample pima")
    run(walk(), **sizes, execution=how)
    manifest = json.loads((tmp_path / "run.json").read_text())
    assert datetime.fromisoformat(manifest.pop("started_at")).utcoffset().total_seconds() == 0
    assert manifest == {
        "label": "sample pima",
        "first_chain": 0,
        "n_chains": 5,
        "length": 45,
        "block_size": 2,
        "segment_length": 10,
        "n_blocks": 3,
        "n_segments": 5,
        "settings": SETTINGS,
        "outputs": ["acceptance_rate", "accepted", "x"],
        "pid": os.getpid(),
        "host": socket.gethostname(),
    }


def test_identity_is_the_settings_digest_of_what_it_is_made_of(walk):
    program = walk()
    program.digest = lambda: "abc"
    identity = RunIdentity.of(program, 3, ("é", 2**40), {"b": [1, None], "a": '"\n'})
    whole = {
        "kind": "segment",
        "seed": 3,
        "key": ["é", 2**40],
        "settings": {"b": [1, None], "a": '"\n'},
        "program": "abc",
        "chains": [2, 4],
        "draws": [10, 20],
        "outputs": {
            "x": [[3], "<f8"],
            "acceptance_rate": [[], "<f8"],
            "accepted": [[], "|b1"],
        },
    }
    assert identity.of_file("segment", (2, 4), 10, 20) == settings_digest(whole)


def test_a_program_is_digested_once_though_it_has_many_files(walk, tmp_path):
    program, asked = walk(), []
    program.digest = lambda: asked.append(1) or "abc"
    run(program, **SIZES, execution=replace(HOW, state_dir=tmp_path))
    assert len(asked) == 1


def test_segments_in_the_ledger_are_read_after_the_rest_was_computed(walk, tmp_path, monkeypatch):
    from gpmcflow.execution import tasks

    run(walk(), **SIZES, execution=replace(HOW, state_dir=tmp_path))
    (tmp_path / "block_00000" / "segment_00004.npz").unlink()
    order, real = [], tasks.fault

    def fault(path, identity):
        order.append(path.name)
        return real(path, identity)

    class Told(walk):
        def advance(self, *arguments):
            order.append("computed")
            return super().advance(*arguments)

    monkeypatch.setattr(tasks, "fault", fault)
    run(Told(), **SIZES, execution=replace(HOW, state_dir=tmp_path))
    assert order[:2] == ["segment_00004.npz", "computed"]
    assert len(order) == 2 + 9
    assert order.count("segment_00000.npz") == 2


@pytest.mark.parametrize("damage", ["lose", "cut", "flip", "old"])
def test_a_damaged_ledger_costs_no_more_than_a_look(walk, tmp_path, damage):
    how = replace(HOW, state_dir=tmp_path)
    expected = array_digest(run(walk(), **SIZES, execution=how))
    path = tmp_path / "ledger.txt"
    data = path.read_bytes()
    assert data.count(b"\n") == 10
    path.write_bytes(
        {
            "lose": b"",
            "cut": data[: len(data) // 2],
            "flip": data[:200] + bytes([data[200] ^ 1]) + data[201:],
            "old": data * 5 + b"rubbish",
        }[damage]
    )
    program = walk()
    assert array_digest(run(program, **SIZES, execution=how)) == expected
    assert program.calls == []
    entries = Ledger(tmp_path).read()
    assert len(entries) == 10
    assert path.read_bytes().count(b"\n") <= 11


def test_ledger_entries(tmp_path):
    ledger = Ledger(tmp_path)
    assert ledger.read() == {}
    first, second = Entry("ab", 10, 2**60, 0.1), Entry("cd", 11, 5, float("nan"))
    ledger.add("block_0/a", first)
    ledger.add("block_0/b", second)
    ledger.add("block_0/b", first)
    ledger.close()
    assert Ledger(tmp_path).read() == {"block_0/a": first, "block_0/b": first}
    found = os.stat_result((0, 0, 0, 0, 0, 0, 10, 0, 0, 0))
    assert not first.fits(found, "ab")  # another time
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    stat = os.stat(path)
    entry = Entry("ab", 5, stat.st_mtime_ns, 0.5)
    assert entry.fits(stat, "ab")
    assert not entry.fits(stat, "ac")
    assert not entry._replace(size=6).fits(stat, "ab")


def test_temporary_files_of_killed_writes_are_removed_from_whatever_host(walk, tmp_path):
    run(walk(), **SIZES, execution=replace(HOW, state_dir=tmp_path))
    left = [
        tmp_path / "block_00000" / ".segment_00003.npz.elsewhere-12-0.tmp",
        tmp_path / "block_00001" / f".checkpoint_00003.npz.here-{os.getpid()}-0.tmp",
        tmp_path / ".run.json.elsewhere-12-0.tmp",
    ]
    kept = tmp_path / "block_00000" / "notes.tmp"
    for path in (*left, kept):
        path.write_text("half")
    run(walk(), **SIZES, execution=replace(HOW, state_dir=tmp_path))
    assert [path for path in left if path.exists()] == []
    assert kept.exists()


def test_a_file_of_same_size_and_time_but_other_bytes_is_not_taken(walk, tmp_path, caplog):
    how = replace(HOW, state_dir=tmp_path)
    expected = array_digest(run(walk(), **SIZES, execution=how))
    path = tmp_path / "block_00001" / "segment_00001.npz"
    before, data = os.stat(path), path.read_bytes()
    with np.load(path) as file:
        start = data.index(file["array:x"].tobytes())
    path.write_bytes(data[:start] + bytes([data[start] ^ 1]) + data[start + 1 :])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(path).st_mtime_ns == before.st_mtime_ns
    caplog.clear()
    program = walk()
    assert array_digest(run(program, **SIZES, execution=how)) == expected
    assert f"{path}: its part" in caplog.text
    assert "is damaged; it is computed again" in caplog.text
    assert {call[0] for call in program.calls} == {2}
    assert path.read_bytes() == data
