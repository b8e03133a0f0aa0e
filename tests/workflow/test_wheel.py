"""A wheel holds the workflow: it runs where there is no clone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pandas as pd
import pytest
import yaml

from gpmcflow.errors import InputError
from gpmcflow.jobs.installation import workflow_home
from gpmcflow.numerics.code_cache import code_folder

ROOT = Path(__file__).parents[2]
PARTS = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "Snakefile", "MANIFEST.in")
BIN = Path(sys.executable).parent
CODE = "import sys; from gpmcflow.cli import main; sys.exit(main())"


def has_setuptools() -> bool:
    try:
        return int(version("setuptools").split(".")[0]) >= 77
    except PackageNotFoundError:
        return False


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Folder with the files of a wheel that was built from a copy of the clone."""
    if not has_setuptools():
        pytest.skip("needs setuptools 77 or later, which builds the wheel")
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in PARTS:
        shutil.copy(ROOT / name, source)
    for name in ("gpmcflow", "workflow", "config"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    built = subprocess.run(
        [*command, "--wheel-dir", str(folder), str(source)], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr[-2000:]
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    take_compiled_loops(folder / "site")
    return folder / "site"


def take_compiled_loops(site: Path) -> None:
    """What Numba has compiled of the same sources."""
    if loops := code_folder():
        shutil.copytree(loops, site / "gpmcflow" / "__pycache__" / loops.name)


def in_wheel(unpacked: Path, folder: Path, *command: str) -> subprocess.CompletedProcess:
    """Run a command in a folder, on the wheel's package."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SNAKEMAKE")}
    environment |= {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(unpacked)}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=600,
    )


def test_wheel_holds_every_file_of_the_workflow_and_no_other(unpacked):
    bundled = unpacked / "gpmcflow" / "bundled"
    names = {path.relative_to(bundled) for path in bundled.rglob("*") if path.is_file()}
    here = {path for path in (ROOT / "workflow").rglob("*") if path.is_file()}
    here = {path.relative_to(ROOT) for path in here if "__pycache__" not in path.parts}
    assert names == here | {Path("Snakefile"), Path("config/config.yaml")}
    assert (bundled / "Snakefile").read_bytes() == (ROOT / "Snakefile").read_bytes()
    assert (unpacked / "gpmcflow" / "run_page" / "template.html").is_file()


def test_commands_of_the_wheel_run_in_an_empty_folder(unpacked, tmp_path):
    where = in_wheel(
        unpacked, tmp_path, sys.executable, "-c", "import gpmcflow; print(gpmcflow.__file__)"
    )
    assert where.stdout.startswith(str(unpacked))
    config = yaml.safe_load((ROOT / "tests" / "workflow" / "small.yaml").read_text())
    del config["analyses"]  # which would be timed
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    checked = in_wheel(unpacked, tmp_path, sys.executable, "-c", CODE, "check", "mine.yaml")
    assert checked.stdout == "mine.yaml: ok, 3 problems of studies, 15 runs of a method\n", (
        checked.stderr
    )
    dry = in_wheel(
        unpacked,
        tmp_path,
        sys.executable,
        "-c",
        CODE,
        "run",
        "mine.yaml",
        "--",
        "-n",
        "--quiet",
        "rules",
    )
    assert dry.returncode == 0, dry.stderr
    assert "build_report" in dry.stdout + dry.stderr
    shown = (dry.stdout + dry.stderr).replace(
        sys.prefix, ""
    )  # the environment may lie in the clone
    assert str(ROOT) not in shown
    table = ROOT / "docs" / "results" / "split_hmc" / "parts.jsonl"
    verdict = in_wheel(
        unpacked, tmp_path, sys.executable, "-c", CODE, "verdict", "split_hmc", str(table)
    )
    assert verdict.stdout.startswith("study,table,row"), verdict.stderr


def lines_of_readme() -> str:
    section = (ROOT / "README.md").read_text().partition("## Your own data, in five lines")[2]
    (block, *_) = re.findall(r"```bash\n(.*?)```", section, flags=re.DOTALL)
    return block


@pytest.mark.skipif(shutil.which("gpmcflow", path=BIN) is None, reason="gpmcflow is not installed")
def test_own_data_in_five_lines_as_printed(unpacked, tmp_path):
    """By the wheel: no clone is needed but for the files to try it with."""
    assert len(lines_of_readme().splitlines()) == 5
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    script = lines_of_readme().replace("--quick ", "--quick --cores 2 ")
    done = in_wheel(unpacked, tmp_path, "bash", "-euo", "pipefail", "-c", script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no problems; at most about" in done.stdout
    table = pd.read_csv(tmp_path / "predictions.csv")
    assert len(table) == len(pd.read_csv(tmp_path / "new_patients.csv"))
    assert table["probability"].between(0.0, 1.0).all()
    assert table["note"].str.contains("geriatrics", na=False).sum() == 2
    folder = tmp_path / "results" / "patients"
    assert "<svg" in (folder / "report.html").read_text()
    assert len(pd.read_csv(folder / "rows.csv")) == len(pd.read_csv(tmp_path / "patients.csv"))


def test_snakemake_on_the_bundled_workflow_makes_a_file(unpacked, tmp_path):
    snakefile = str(unpacked / "gpmcflow" / "bundled" / "Snakefile")
    done = in_wheel(
        unpacked, tmp_path,
        sys.executable, "-m", "snakemake", "--snakefile", snakefile, "--cores", "1",
        "results/data/digits-3v5.nc",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "results" / "data" / "digits-3v5.nc").is_file()


def test_clone_has_its_own_workflow_and_a_package_without_one_says_so(tmp_path, monkeypatch):
    assert workflow_home() == ROOT
    monkeypatch.setattr("gpmcflow.jobs.installation.PACKAGE", tmp_path / "gpmcflow")
    with pytest.raises(InputError, match=r"no workflow found.*install it again"):
        workflow_home()
    (tmp_path / "gpmcflow" / "bundled" / "workflow").mkdir(parents=True)
    (tmp_path / "gpmcflow" / "bundled" / "Snakefile").touch()
    assert workflow_home() == tmp_path / "gpmcflow" / "bundled"
