from __future__ import annotations

import errno
import os
import subprocess
import sys
from types import SimpleNamespace

import matplotlib.figure
import pandas as pd
import pytest

from gpmcflow.errors import InputError, StorageError
from gpmcflow.storage import atomic, csv_text, read_csv, write_csv, write_figure, write_text


def test_write_text_and_csv(tmp_path):
    write_text("é\r\nb\n", tmp_path / "new" / "a.txt")
    assert (tmp_path / "new" / "a.txt").read_bytes() == "é\r\nb\n".encode()
    frame = pd.DataFrame({"study": ["pima"], "ours": [0.1 + 0.2]}, index=["row"])
    write_csv(frame, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes() == b"study,ours\npima,0.30000000000000004\n"
    assert sorted(os.listdir(tmp_path)) == [".a.csv.sha256", "a.csv", "new"]


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_write_figure_is_deterministic(tmp_path, kind, monkeypatch):
    def draw(path):
        figure = matplotlib.figure.Figure(figsize=(2, 2))
        figure.add_subplot().plot([0, 1], [1, 0], label="x")
        write_figure(figure, path)
        return path.read_bytes()

    first = draw(tmp_path / f"a.{kind}")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")  # stands for another day
    assert draw(tmp_path / f"b.{kind}") == first
    assert b"Matplotlib v" not in first
    assert len(os.listdir(tmp_path)) == 4  # with the checksums


def test_write_figure_refuses_other_suffixes(tmp_path):
    with pytest.raises(InputError, match=r"'gif' is unknown \(allowed: png, pdf, svg\)"):
        write_figure(matplotlib.figure.Figure(), tmp_path / "a.gif")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    write_text("old", path)

    def fail(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(atomic.os, "replace", fail)
    with pytest.raises(StorageError, match=r"a\.csv: cannot be written: the folder is read-only"):
        write_text("new", path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_file_where_a_folder_should_be(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        write_text("x", tmp_path / "a" / "b.txt")


def test_other_errors_come_out_as_they_are_and_leave_nothing(tmp_path):
    def write():
        with atomic.atomic_path(tmp_path / "a.txt") as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert os.listdir(tmp_path) == []


def test_leftovers_of_dead_processes_only_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic.socket, "gethostname", lambda: "here")
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = [
        f".a.txt.here-{dead.pid}-0.tmp",
        f".a.txt.here-{os.getppid()}-0.tmp",
        f".a.txt.there-{dead.pid}-0.tmp",
        f".b.txt.here-{dead.pid}-0.tmp",
    ]
    for name in names:
        (tmp_path / name).write_text("half")
    write_text("new", tmp_path / "a.txt")
    assert sorted(os.listdir(tmp_path)) == sorted(["a.txt", *names[1:]])


def test_workers_load_no_xarray_for_a_segment():
    code = (
        "import sys; from gpmcflow.execution import tasks;"
        "print([m for m in ('xarray', 'h5py', 'h5netcdf', 'netCDF4', 'dask') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_file_and_folder_are_on_disk_in_the_order_that_survives_a_power_loss(tmp_path, monkeypatch):
    """File before its name, name before the next file; a new folder before what is put into it."""
    steps = []
    sync, replace = atomic._sync, os.replace

    def told_sync(path):
        steps.append(f"sync {path.name if path.suffix != '.tmp' else 'temporary'}")
        sync(path)

    def told_replace(source, target):
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(atomic, "_sync", told_sync)
    monkeypatch.setattr(atomic.os, "replace", told_replace)
    (tmp_path / "top").mkdir()
    write_text("x", tmp_path / "top" / "new" / "newer" / "a.txt")
    folders = ["sync top", "sync new"]
    assert steps == [*folders, "sync temporary", "rename", "sync newer"]


def test_a_pipe_or_a_device_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(StorageError, match="it is a device, a pipe or a socket"):
            write_text("a", tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


def test_text_that_a_spreadsheet_would_run_has_an_apostrophe_and_comes_back(tmp_path):
    texts = ["=1+1", "+cmd", "-A1", "@x", "\tx", "\x1bx", "'=x", "''=x", "\uff1d1", "=a\nb"]
    plain = ["-5", "+1e5", "-1,5", "-", "=", "a=b", "'a", "", "-inf", "-3%"]
    table = pd.DataFrame({"=n": range(10), "texts": texts, "plain": plain})
    table["codes"] = table["texts"].astype("category")
    table["mixed"] = [1, "=x", True, None, "1", 0.5, "a", "b", "c", "d"]
    before = table.copy()
    write_csv(table, tmp_path / "a.csv")
    seen = pd.read_csv(tmp_path / "a.csv", dtype=str, keep_default_na=False)
    assert list(seen.columns) == ["'=n", "texts", "plain", "codes", "mixed"]
    assert list(seen["texts"]) == list(seen["codes"]) == [f"'{text}" for text in texts]
    assert list(seen["plain"]) == plain
    assert list(seen["mixed"])[:4] == ["1", "'=x", "True", ""]
    back = read_csv(tmp_path / "a.csv", dtype=str, na_values=[])
    assert list(back.columns) == list(table.columns)
    assert list(back["texts"]) == texts
    assert list(back["plain"]) == plain
    assert csv_text(table, raw=True) == table.to_csv(index=False)
    pd.testing.assert_frame_equal(table, before)


def test_a_disk_without_inodes_is_not_called_full(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "replace", full)
    disk = SimpleNamespace(f_files=20, f_favail=0)
    for path, told in ((tmp_path / "a", "no more files"), (tmp_path / "b", "the disk is full")):
        monkeypatch.setattr(atomic.os, "statvfs", lambda _: disk)  # noqa: B023
        with pytest.raises(StorageError, match=told):
            write_text("a", path)
        disk = SimpleNamespace(f_files=0, f_favail=0)  # of a file system without inodes
