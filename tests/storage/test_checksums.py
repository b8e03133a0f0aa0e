"""Every result file is compared with the SHA-256 it had when it was written."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from gpmcflow.cli import main
from gpmcflow.errors import StorageError
from gpmcflow.pipeline.verify import verify
from gpmcflow.run_page.page import build_report
from gpmcflow.storage import (
    load_results,
    open_results,
    read_csv,
    read_sidecar,
    require_unchanged,
    standard_attributes,
    write_csv,
    write_figure,
    write_result_text,
    write_results,
    writing,
)
from gpmcflow.storage.checksums import sha256_of
from gpmcflow.storage.input_files import load_yaml

LIBRARY = standard_attributes(settings={}, seed=1, data_checksum="a")


def tree(value: float = 0.0) -> xr.DataTree:
    draws = xr.Dataset({"x": (("chain", "draw"), np.arange(200.0).reshape(2, 100) + value)})
    return xr.DataTree.from_dict({"/": xr.Dataset(attrs=LIBRARY), "/posterior": draws})


@pytest.fixture
def results(tmp_path) -> Path:
    """A folder with a file of each kind."""
    folder = tmp_path / "results"
    write_results(tree(), folder / "study" / "run.nc", sidecar={"seconds": 1.5, "rate": np.nan})
    write_csv(pd.DataFrame({"a": [1.0, 0.1 + 0.2]}), folder / "study" / "table.csv")
    figure, axes = plt.subplots()
    axes.plot([1, 2])
    write_figure(figure, folder / "study" / "figure.png")
    plt.close(figure)
    write_result_text("<html></html>", folder / "report.html")
    return folder


def flip(path: Path, rng: np.random.Generator, size: int = 1) -> None:
    """Change some bits of `size` neighbouring bytes; the times stay, as on a bad disk."""
    seen = path.stat()
    content = bytearray(path.read_bytes())
    at = int(rng.integers(max(len(content) - size, 0) + 1))
    for k in range(at, min(at + size, len(content))):
        content[k] ^= int(rng.integers(1, 256))
    path.write_bytes(content)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_whole_files_pass(results, capsys):
    verification = verify(results)
    assert verification == (5, [], [])
    assert main(["verify", str(results)]) == 0
    assert capsys.readouterr().out == (
        "5 files: 5 as written, 0 damaged, missing or outdated, 0 without a checksum\n"
    )


@pytest.mark.parametrize("size", [1, 8])
def test_a_thousand_flips_are_caught(results, size):
    rng = np.random.default_rng(size)
    everything = files(results)
    assert len(everything) == 8  # five, and the checksums of three
    for k in range(1000):
        path = everything[k % len(everything)]
        content = path.read_bytes()
        flip(path, rng, size)
        problems = verify(results).problems
        # A checksum that is damaged itself is told as such, or as the file it does not fit.
        name = path.name.removeprefix(".").removesuffix(".sha256").removesuffix(".json")
        assert problems
        assert all(name in line and "\n" not in line for line in problems)
        path.write_bytes(content)
    assert verify(results) == (5, [], [])


def test_what_a_file_was_made_of_is_compared_too(results, capsys):
    project, made = results.parent, results / "study" / "run.nc"
    (project / "own.csv").write_text("a\n1\n")
    sources = {"own.csv": sha256_of(project / "own.csv"), "gone.csv": "0" * 64}
    origin = sources | {"results/study/run.nc": sha256_of(made)}
    write_results(tree(1.0), results / "fit.nc", sidecar={"made_of": origin})
    assert verify(results) == (7, [], [])  # the file that has gone is not compared
    seen = (project / "own.csv").stat()
    (project / "own.csv").write_text("a\n2\n")
    os.utime(project / "own.csv", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    (problem,) = verify(results).problems
    assert problem.startswith(
        f"{results / 'fit.nc'}: made from a different {project / 'own.csv'} ("
    )
    own = ["results/study/table.csv", "results/report.html", "results/fit.nc.json"]
    assert verify(results, own) == (3, [], [])  # a run of some jobs leaves the others as they are
    (project / "own.csv").unlink()
    write_results(tree(2.0), made, sidecar={})
    assert main(["verify", str(results)]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(f"gpmcflow: {results / 'fit.nc'}: made from a different {made} (")
    assert "6 as written, 1 damaged, missing or outdated" in printed.out


def test_a_missing_file_is_told(results, capsys):
    for name in ("study/run.nc", "study/table.csv"):
        (results / name).unlink()
    assert main(["verify", str(results)]) == 1
    printed = capsys.readouterr()
    assert "3 as written, 2 damaged, missing or outdated" in printed.out
    for name in ("run.nc", "table.csv"):
        assert f"{name}: no such file, though its checksum is there" in printed.err


def test_a_file_of_others_is_no_problem(results, capsys):
    (results / "notes.txt").write_text("mine")
    (results / ".state").mkdir()
    (results / ".state" / "segment.npz").write_text("not a result")
    assert main(["verify", str(results)]) == 0
    assert f"{results / 'notes.txt'}: has no checksum" in capsys.readouterr().out


@pytest.mark.parametrize("read", [load_results, open_results])
@pytest.mark.parametrize("victim", ["run.nc", "run.nc.json"])
def test_opening_refuses_a_damaged_file(results, read, victim):
    path = results / "study" / "run.nc"
    read(path).close()
    flip(results / "study" / victim, np.random.default_rng(3))
    with pytest.raises(StorageError, match=f"{victim}: not what was written") as error:
        read(path)
    assert "delete it and run again" in str(error.value)


def test_damaged_tables_texts_and_sidecars_are_refused(results):
    readers = {"study/table.csv": read_csv, "report.html": require_unchanged}
    for name, read in readers.items():
        flip(results / name, np.random.default_rng(4))
        with pytest.raises(StorageError, match="not what was written"):
            read(results / name)
    flip(results / "study" / "run.nc.json", np.random.default_rng(4))
    with pytest.raises(StorageError, match="not what was written"):
        read_sidecar(results / "study" / "run.nc")


@pytest.mark.parametrize("name", ["table.csv", "figure.png"])
def test_no_report_of_a_damaged_file(results, name):
    study = {
        "title": "A study",
        "frames": {"other": results / "study" / "table.csv"},
        "tables": [],
        "figures": [[str(results / "study" / "figure.png"), "a line"]],
        "n_open": 0,
    }
    build_report({"study": study}, title="Results")
    flip(results / "study" / name, np.random.default_rng(5))
    with pytest.raises(StorageError, match=f"{name}: not what was written"):
        build_report({"study": study}, title="Results")


def test_the_sidecar_tells_the_checksum_and_others_can_compare(results):
    path = results / "study" / "run.nc"
    assert read_sidecar(path)["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    command = ["sha256sum", "--check", "--strict", ".table.csv.sha256"]
    assert subprocess.run(command, cwd=path.parent, capture_output=True).returncode == 0


def test_a_kill_between_file_and_checksum_leaves_no_false_alarm(results, monkeypatch):
    path = results / "study" / "run.nc"

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "write_sidecar", killed)
    with pytest.raises(KeyboardInterrupt):
        write_results(tree(1.0), path)
    assert load_results(path).posterior["x"].values[0, 0] == 1.0


def test_a_file_that_could_not_be_written_leaves_the_old_one_whole(results, monkeypatch):
    path = results / "study" / "run.nc"

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "_write", full)
    with pytest.raises(StorageError, match="disk is full"):
        write_results(tree(1.0), path)
    assert load_results(path).posterior["x"].values[0, 0] == 0.0


def test_sidecars_of_earlier_versions_are_read(results):
    sidecar = results / "study" / "run.nc.json"
    facts = json.loads(sidecar.read_text())
    del facts["sha256"], facts["sidecar_sha256"]
    sidecar.write_text(json.dumps(facts))
    assert read_sidecar(results / "study" / "run.nc")["seconds"] == 1.5
    load_results(results / "study" / "run.nc")
    assert [Path(path).name for path in verify(results).unknown] == ["run.nc", "run.nc.json"]


def test_names_without_room_for_a_checksum(tmp_path):
    """What is not ours has none, and is read or refused by its reader."""
    path = tmp_path / ("x" * 250)
    path.write_text("a: 1")
    assert not require_unchanged(path)
    assert load_yaml(path) == {"a": 1}
    assert not require_unchanged("")
    with pytest.raises(StorageError, match="cannot be read"):
        load_yaml("")
