from __future__ import annotations

import contextlib
import errno
import os
import pty
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from gpmcflow.cli import commands, main, streams
from gpmcflow.data import CATALOGUE
from gpmcflow.pipeline import new as first_look
from gpmcflow.storage import standard_attributes, write_results
from gpmcflow.storage.input_files import load_yaml
from gpmcflow.storage.machine import machine_error


def test_datasets_lists_the_catalogue(capsys):
    assert main(["datasets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(CATALOGUE)


def test_check_of_a_good_and_of_a_wrong_config(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    text = "problems: {a: {dataset: pima, hyperparameters: {select: maximum}}}\n"
    text += "studies: {rmhmc_ais: {problems: [a], methods: {m: {}}}}\n"
    path.write_text(text)
    assert main(["check", str(path)]) == 0
    assert "ok" in capsys.readouterr().out
    path.write_text(text.replace("pima", "pyma"))
    assert main(["check", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert (
        "mine.yaml: problems.a.dataset: unknown name 'pyma'; did you mean 'pima'?" in captured.err
    )
    path.write_text(text.replace("pima,", "pima, likelihood: {gaussian: {noise: 1.0}},"))
    assert main(["check", str(path)]) == 1
    captured = capsys.readouterr()
    assert "mine.yaml: problems.a.likelihood: gaussian: setting: unknown name" in captured.err
    assert captured.err.count("\n") == 1


def test_show_names_groups_sizes_and_settings(tmp_path, capsys):
    root = xr.Dataset(attrs=standard_attributes(settings={"a": 7}, seed=1, data_checksum="x"))
    posterior = xr.Dataset({"latent": (("chain", "draw"), np.zeros((2, 3)))})
    path = tmp_path / "file.nc"
    write_results(xr.DataTree.from_dict({"/": root, "posterior": posterior}), path)
    assert main(["show", str(path)]) == 0
    out = capsys.readouterr().out
    assert "/posterior  (chain 2, draw 3)" in out
    assert "latent (chain, draw)" in out
    assert '"a": 7' in out


def test_show_of_a_truncated_file_is_one_line(tmp_path, capsys):
    path = tmp_path / "file.nc"
    write_results(xr.DataTree(xr.Dataset({"a": ("x", np.arange(1000.0))})), path)
    path.write_bytes(path.read_bytes()[:3000])
    assert main(["show", str(path)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "file.nc" in error


def test_no_command_is_an_error(capsys):
    with pytest.raises(SystemExit):
        main([])
    assert "command" in capsys.readouterr().err


NAME = "a\x1b[2J\u202eb"  # clears the screen, then turns the text around


def test_hidden_characters_of_names_do_not_reach_the_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{k % 7},x{k % 3},{k % 2}\n" for k in range(60))
    Path("mine.csv").write_text(f"{NAME},ward,y\n{rows}".replace("x1", NAME))
    assert main(["new", "mine.csv", "--target", "y"]) == 0
    captured = capsys.readouterr()
    assert "a\\x1b[2J" in captured.out
    tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs={"name": NAME})})
    write_results(tree, "own.nc")
    assert main(["show", "own.nc"]) == 0
    shown = capsys.readouterr()
    assert "name: a\\x1b[2J\\u202eb" in shown.out
    for text in (captured.out, captured.err, shown.out, shown.err):
        assert not set(text) & {"\x1b", "\u202e"}


def test_a_key_that_stands_twice_is_refused_with_its_lines(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text("data:\n  csv: a.csv\n  target: y\n  csv: b.csv\n")
    for command in ("check", "run"):
        assert main([command, str(path)]) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "key 'csv' in line 2 and in line 4: keep one of them" in error
    path.write_text("a: &a {x: 1}\nb: {<<: *a, x: 2}\n")  # a merge is no second key
    assert load_yaml(path)["b"] == {"x": 2}


@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        (">&-", "gpmcflow: standard output is closed; send it to a file, or to /dev/null\n"),
        (">/dev/full", "gpmcflow: standard output: cannot be written: the disk is full;"),
        (">/dev/full 2>&-", ""),
        ("2>&- <&-", ""),
    ],
)
def test_standard_streams_that_cannot_be_used_are_one_line(redirection, message):
    command = f"{sys.executable} -c 'import sys; from gpmcflow.cli import main; sys.exit(main())'"
    done = subprocess.run(
        f"{command} datasets {redirection}", shell=True, capture_output=True, text=True
    )
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == bool(message)
    assert done.returncode == (1 if ">/" in redirection or redirection == ">&-" else 0)


@pytest.mark.parametrize(
    ("loaded", "megabytes"), [("", 150), ("import gpmcflow.pipeline.new, pandas, numba", 4)]
)
def test_too_little_address_space_is_one_line(tmp_path, loaded, megabytes):
    """No room for libraries, of which OpenBLAS may end the process with its own line; none for the table."""
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{k},{k % 97}\n" for k in range(300_000)))
    program = f"""if True:
        import resource, sys
        from gpmcflow.cli import main
        {loaded}
        taken = {bool(loaded)} * 4096 * int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, 2 * [taken + {megabytes} * 2**20])
        sys.exit(main())"""
    done = subprocess.run(
        [sys.executable, "-c", program, "new", "t.csv", "--target", "y"],
        cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    own, of_blas = (
        "gpmcflow: this process was given no more memory (",
        "OpenBLAS error: Memory allocation",
    )
    assert done.stderr.startswith(own if loaded else (own, of_blas))


def test_too_little_memory_is_found_behind_the_error_of_a_library():
    """llvmlite says that its library cannot be found where it could not be mapped into memory."""
    try:
        try:
            raise OSError("libllvmlite.so: failed to map segment from shared object")
        except OSError:
            raise OSError("Could not find/load shared object file") from None
    except OSError as error:
        told = str(machine_error(error))
    assert told.startswith("this process was given no more memory (libllvmlite.so: failed to map")
    unrelated = OSError("Could not find/load shared object file")
    unrelated.__context__ = KeyError("a")
    assert machine_error(unrelated) is None


def test_a_command_that_takes_long_says_what_it_is_at(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(streams, "FIRST_LINE", 0.3)
    monkeypatch.setattr(streams, "TICK", 0.01)
    (tmp_path / "mine.csv").write_text("a,y\n" * 50_000)

    def new(options) -> None:
        time.sleep(0.6)
        print("found")
        time.sleep(0.6)

    monkeypatch.setattr(commands, "new", new)
    assert main(["new", str(tmp_path / "mine.csv"), "--target", "y"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "found\n"
    line = f"gpmcflow new: at work on {tmp_path / 'mine.csv'} (0.2 MB): "
    assert captured.err == f"{line}0 s so far\n{line}1 s so far\n"


def test_cells_beyond_all_squares_are_told_and_warn_of_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{k},{(k + 1) * 1e306 * (-1) ** k}\n" for k in range(30))
    Path("t.csv").write_text("x,y\n" + rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        main(["new", "t.csv", "--target", "y"])
    assert "beyond 1e+150" in "".join(capsys.readouterr())


def test_more_columns_than_a_config_can_name_are_refused_by_new(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(first_look, "MOST_BYTES", 500)
    rows = "".join(f"{k % 7},{k % 3},{0.5 * k}\n" for k in range(30))
    Path("t.csv").write_text("a,b,y\n" + rows)
    assert main(["new", "t.csv", "--target", "y"]) == 1
    assert "allowed: 500; keep a few thousand columns" in capsys.readouterr().err
    assert not Path("t.yaml").exists()


@pytest.mark.parametrize(
    ("number", "told"),
    [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "cannot be written")],
)
def test_a_disk_that_takes_no_folder_is_one_line(capsys, monkeypatch, number, told):
    def run(options) -> None:
        raise OSError(number, os.strerror(number), "/data/.snakemake")

    monkeypatch.setattr(commands, "run", run)
    assert main(["run", "mine.yaml"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("gpmcflow: /data/.snakemake: cannot be written: ")
    assert told in error
    assert error.count("\n") == 1


# A command of two words and a bar, on a terminal that it has from `pty.spawn`.
ON_A_TERMINAL = """
import time
from gpmcflow.cli import main, commands, streams
from gpmcflow.execution import progress
streams.FIRST_LINE = streams.TICK = 0.1
progress._SILENT = 0.0
def check(options):
    time.sleep(1.3)
    bar = progress.Progress("forecast", 1)
    bar.update()
    bar.close()
    print("ok")
commands.check = check
main(["check", "a\x1b.yaml"])
"""


def test_a_terminal_counts_the_seconds_in_one_line_and_shows_a_bar():
    written = []

    def read(descriptor: int) -> bytes:
        written.append(os.read(descriptor, 1024))
        return written[-1]

    master, own = pty.openpty()
    done = subprocess.Popen([sys.executable, "-c", ON_A_TERMINAL], stdout=own, stderr=own)
    os.close(own)
    with contextlib.suppress(OSError):  # as the terminal's last user has gone
        while read(master):
            pass
    assert done.wait() == 0
    text = b"".join(written).decode()
    first, second, *rest = text.split("\r")[1:]
    assert first.startswith("gpmcflow check: reading the data of a\\x1b.yaml")
    assert first.endswith(": 0 s so far\x1b[K")
    assert second.endswith(": 1 s so far\x1b[K")
    assert rest[0] == "\x1b[K"  # wiped
    assert rest[1].startswith("forecast [########################] 1/1 segments")
    assert rest[1].endswith("\x1b[K")
    assert rest[-2:] == ["\nok", "\n"]
