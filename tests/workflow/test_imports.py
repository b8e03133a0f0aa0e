"""What a command does not use it does not load: half of the seconds of a short one are imports."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpmcflow.cli import main

ROOT = Path(__file__).parents[2]
PROGRAM = "import sys; from gpmcflow.cli import main; main(sys.argv[1:]); print(list(sys.modules))"
PICTURES = {"matplotlib"}
STATISTICS = {"scipy.stats", "sklearn", "arviz_stats", "arviz_base", "dask.array"}
NUMBERS = {"scipy.optimize", "scipy.spatial", "numba", "xarray", "h5py"}
CONFIG = """
data: {csv: own.csv, target: y}
likelihood: gaussian
models: {straight: {covariance: "linear() + constant()"}}
"""


def loaded(folder: Path, *words: str, of: set[str]) -> set[str]:
    """Those of some modules that a process has loaded after a command."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return of & set(ast.literal_eval(done.stdout.splitlines()[-1]))


@pytest.fixture
def folder(tmp_path):
    x = np.arange(40.0)
    rows = [f"{a},{b:.3f}" for a, b in zip(x, x + np.sin(9.0 * x), strict=True)]
    (tmp_path / "own.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    (tmp_path / "own.yaml").write_text(CONFIG)
    (tmp_path / "results").mkdir()
    return tmp_path


@pytest.mark.parametrize("command", ["status", "clean", "verify"])
def test_commands_about_files_load_no_models(folder, command):
    assert loaded(folder, command, of={"pandas"} | NUMBERS | STATISTICS | PICTURES) == set()


def test_new_loads_no_models(folder):
    (folder / "own.yaml").unlink()
    words = ("new", "own.csv", "--target", "y")
    assert loaded(folder, *words, of=NUMBERS | STATISTICS | PICTURES) == set()


def test_check_loads_no_page_and_no_statistics(folder):
    assert loaded(folder, "check", "own.yaml", "--cores", "1", of=STATISTICS | PICTURES) == set()


def test_predict_loads_no_page_and_no_statistics(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert main(["run", "own.yaml", "--quick", "--cores", "1"]) == 0
    of = STATISTICS | PICTURES
    assert loaded(folder, "predict", "own", "own.csv", of=of) <= {"dask.array"}


def test_writing_results_does_not_load_the_scheduler_of_clusters(tmp_path):
    """xarray and Dask ask it whether it is in use; importing it still works afterwards."""
    program = """
import sys
import numpy as np
import xarray as xr
from gpmcflow.storage import write_results
draws = xr.Dataset({"theta": (("chain", "draw"), np.ones((1, 2)))}, {"chain": [0], "draw": [0, 1]})
write_results(xr.DataTree.from_dict({"posterior": draws}), "a.nc")
assert "distributed" not in sys.modules
from dask.distributed import Client
write_results(xr.DataTree.from_dict({"posterior": draws}), "b.nc")
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
    assert (tmp_path / "a.nc").read_bytes() == (tmp_path / "b.nc").read_bytes()
