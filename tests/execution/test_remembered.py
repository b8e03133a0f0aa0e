from __future__ import annotations

import socket
import subprocess
import sys

import numpy as np
import pytest

from gpmcflow.errors import InputError
from gpmcflow.execution import remember

IDENTITY = {"seed": 1, "key": ["pima", 0]}


def test_what_is_remembered_is_not_computed_again(tmp_path, caplog):
    calls = []

    def compute():
        calls.append(1)
        return {"betas": np.linspace(0, 1, 5), "ratio_sd": 0.1 + 0.2, "mode_bases": True}

    for folder in (None, tmp_path / "new", tmp_path / "new"):
        arrays = remember(folder, "pilot", IDENTITY, compute)
        assert list(arrays) == ["betas", "mode_bases", "ratio_sd"]
        np.testing.assert_array_equal(arrays["betas"], np.linspace(0, 1, 5))
        assert arrays["ratio_sd"].item() == 0.1 + 0.2
        assert arrays["mode_bases"].item() is True
    assert len(calls) == 2
    assert caplog.text == ""
    remember(tmp_path / "new", "pilot", {**IDENTITY, "seed": 2}, compute)
    assert "belongs to other settings; it is computed again" in caplog.text
    path = tmp_path / "new" / "pilot.npz"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    remember(tmp_path / "new", "pilot", {**IDENTITY, "seed": 2}, compute)
    assert "it is damaged" in caplog.text
    assert len(calls) == 4
    assert path.read_bytes() == data


def test_what_a_killed_write_left_is_removed(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = tmp_path / f".pilot.npz.{socket.gethostname()}-{dead.pid}-0.tmp"
    left.write_text("half")
    remember(tmp_path, "pilot", IDENTITY, lambda: {"betas": np.ones(2)})
    assert [path.name for path in tmp_path.iterdir()] == ["pilot.npz"]


def test_an_identity_must_be_plain(tmp_path):
    with pytest.raises(InputError, match=r"settings\.seed: numpy\.int64"):
        remember(tmp_path, "pilot", {"seed": np.int64(1)}, dict)
    assert list(tmp_path.iterdir()) == []
