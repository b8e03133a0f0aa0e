from __future__ import annotations

from pathlib import Path

import pytest

from gpmcflow.errors import ResourceError
from gpmcflow.execution import default_memory_limit, memory, require_memory


def test_what_fits_passes():
    require_memory(8_000_000_000, 8_000_000_000, "sample")
    require_memory(1000, None, "sample")


def test_what_does_not_fit_is_said_with_numbers():
    with pytest.raises(ResourceError) as error:
        require_memory(12_340_000_000, 8_000_000_000, "sample digits-3v5")
    text = str(error.value)
    assert text.startswith("sample digits-3v5: needs 12.3 GB, over the limit of 8.0 GB; ")
    assert "store_latents: false" in text
    assert "\n" not in text
    with pytest.raises(ResourceError):
        require_memory(10**18, None, "sample")


def test_the_lower_of_machine_and_cgroup_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_machine_available", lambda: 10_000)
    monkeypatch.setattr(memory, "_cgroup_rooms", lambda: [])
    assert default_memory_limit() == 8000
    monkeypatch.setattr(memory, "_cgroup_rooms", lambda: [20_000, 5000])
    assert default_memory_limit() == 4000


def test_cgroup_room(monkeypatch, tmp_path):
    own = tmp_path / "job"
    own.mkdir()
    (own / "memory.max").write_text("1000\n")
    (own / "memory.current").write_text("700\n")
    (own / "memory.stat").write_text("anon 400\ninactive_file 300\n")
    names = ("memory.max", "memory.current", "inactive_file")
    (tmp_path / "memory.max").write_text("max\n")
    folders = [(own, *names), (tmp_path, *names)]
    monkeypatch.setattr(memory, "_cgroup_folders", lambda: folders)
    assert memory._cgroup_rooms() == [600]


def test_the_machine_has_memory():
    assert default_memory_limit() > 1_000_000


def test_kills_for_memory_are_those_of_the_own_cgroup_if_it_counts(tmp_path, monkeypatch):
    """The cgroups above, and the machine, count processes of others."""
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "memory.events").write_text("low 0\noom 5\noom_kill 20\noom_group_kill 7\n")
    folders = [(own, "", "", ""), (tmp_path, "", "", "")]
    monkeypatch.setattr(memory, "_cgroup_folders", lambda: folders)
    assert memory.kills_for_memory() == 20
    (own / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    assert memory.kills_for_memory() == 3
    (own / "memory.events").write_text("low 0\noom 5\noom_kill 2\noom_group_kill 7\n")
    assert memory.kills_for_memory() == 2
    for text in ("oom_kill\nnonsense", "oom_kill_disable 0\nunder_oom 0\n"):  # or an old kernel
        (own / "memory.events").write_text(text)
        assert memory.kills_for_memory() == 3
    monkeypatch.setattr(memory, "_cgroup_folders", lambda: [])
    assert memory.kills_for_memory() == (memory._kills_in(Path("/proc/vmstat")) or 0)
