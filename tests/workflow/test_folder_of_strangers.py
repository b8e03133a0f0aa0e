"""A folder that came with the data holds files that Python, Numba or Snakemake would run: none is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# As the installed command starts: without the working folder on the path.
COMMAND = [
    sys.executable,
    "-P",
    "-c",
    "import sys; from gpmcflow.cli import main; sys.exit(main())",
]
MODULES = ("yaml", "random", "json", "socket", "numpy", "resource", "snakemake", "gpmcflow")
WORKERS = """
from gpmcflow.execution.pools import workers
if __name__ == "__main__":
    with workers("processes", 2) as pool:
        pool.compute({"a": (abs, -1), "b": (abs, -2)}, ["a", "b"], lambda *each: print(*each))
"""
CONFIG = """
datasets: {mine: {csv: mine.csv, target: y}}
problems: {p: {dataset: mine, hyperparameters: {select: maximum}}}
studies:
  rmhmc_ais:
    problems: [p]
    illustrations: false
    methods: {is_ep: {kind: importance_sampling, particles: 50}}
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with modules that leave a file when they are imported, and settings that run them."""
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r}); raise SystemExit({name!r})"
        )
    (tmp_path / ".numba_config.yaml").write_text(f"cache_dir: {tmp_path / 'planted'}\n")
    profile = tmp_path / "profiles" / "default" / "config.yaml"
    profile.parent.mkdir(parents=True)
    profile.write_text("executor: nobody-knows-this\n")
    (tmp_path / "mine.yaml").write_text(CONFIG)
    rows = "".join(f"{0.1 * k},{k * k % 3 == 1:d}\n" for k in range(12))
    (tmp_path / "mine.csv").write_text("a,y\n" + rows)
    return tmp_path


def started(folder: Path, *command: str) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SNAKEMAKE", "NUMBA"))}
    environment.pop("PYTHONSAFEPATH", None)
    environment |= {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


def test_a_run_through_snakemake_imports_and_reads_nothing_of_it(folder):
    done = started(folder, *COMMAND, "run", "mine.yaml", "--cores", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (folder / "ran").exists()
    assert not (folder / "planted").exists()
    assert (folder / "results" / "report.html").is_file()


def test_the_pilots_of_a_forecast_import_nothing_of_it(folder):
    program = "from gpmcflow.jobs.costs import share_of_core, startup; startup(), share_of_core(1)"
    done = started(folder, sys.executable, "-P", "-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (folder / "ran").exists()


def test_workers_import_nothing_of_it(folder, tmp_path_factory):
    script = tmp_path_factory.mktemp("own") / "script.py"  # its folder is on the path, not this one
    script.write_text(WORKERS)
    done = started(folder, sys.executable, str(script))
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["a 1", "b 2"]), done.stderr
    assert not (folder / "ran").exists()


def test_compiled_code_is_not_loaded_from_where_it_says(folder):
    program = "from gpmcflow.numerics.code_cache import code_folder; print(code_folder())"
    done = started(folder, sys.executable, "-P", "-c", program)
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).is_relative_to(folder)
