"""A wheel holds the workflow: it runs where there is no clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from gpmcflow.errors import InputError
from gpmcflow.studies.frame.installation import workflow_home

ROOT = Path(__file__).parents[2]
PARTS = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "Snakefile", "MANIFEST.in")
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
    """What Numba has compiled of the same sources, which it knows by their time and size."""
    for loops in (ROOT / "gpmcflow").rglob("__pycache__/*.nb?"):
        cache = site / loops.parent.relative_to(ROOT)
        cache.mkdir(exist_ok=True)
        shutil.copy(loops, cache)
        for source in loops.parents[1].glob("*.py"):
            stat = source.stat()
            os.utime(cache.parent / source.name, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def in_wheel(unpacked: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run Python on the wheel's package in a folder."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SNAKEMAKE")}
    environment["PYTHONPATH"] = str(unpacked)
    return subprocess.run(
        [sys.executable, *arguments],
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
    assert (unpacked / "gpmcflow" / "report" / "template.html").is_file()


def test_commands_of_the_wheel_run_in_an_empty_folder(unpacked, tmp_path):
    where = in_wheel(unpacked, tmp_path, "-c", "import gpmcflow; print(gpmcflow.__file__)")
    assert where.stdout.startswith(str(unpacked))
    shutil.copy(ROOT / "tests" / "workflow" / "small.yaml", tmp_path / "mine.yaml")
    checked = in_wheel(unpacked, tmp_path, "-c", CODE, "check", "mine.yaml")
    said = (
        "mine.yaml: ok, 3 problems of studies, 15 runs of a method\nmine.yaml: no problems; about "
    )
    assert checked.stdout.startswith(said), checked.stderr
    dry = in_wheel(
        unpacked, tmp_path, "-c", CODE, "run", "mine.yaml", "--", "-n", "--quiet", "rules"
    )
    assert dry.returncode == 0, dry.stderr
    assert "build_report" in dry.stdout + dry.stderr
    assert str(ROOT) not in dry.stdout + dry.stderr
    table = ROOT / "docs" / "results" / "split_hmc" / "parts"
    verdict = in_wheel(unpacked, tmp_path, "-c", CODE, "verdict", "split_hmc", str(table))
    assert verdict.stdout.startswith("study,table,row"), verdict.stderr


def test_own_data_from_a_file_to_predictions(unpacked, tmp_path):
    rows = [f"{k},{k % 7},{'yes' if k % 7 > 3 or k % 5 == 0 else 'no'}" for k in range(60)]
    (tmp_path / "visits.csv").write_text("week,dose,ill\n" + "\n".join(rows) + "\n")
    (tmp_path / "next.csv").write_text("week,dose\n61,2\n62,6\n")
    for command in (
        ["new", "visits.csv", "--target", "ill"],
        ["run", "visits.yaml", "--cores", "2", "--quick"],
        ["predict", "visits", "next.csv", "-o", "next_predicted.csv"],
    ):
        done = in_wheel(unpacked, tmp_path, "-c", CODE, *command)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rows read, 2 predicted" in done.stdout
    assert len((tmp_path / "next_predicted.csv").read_text().splitlines()) == 3
    assert (tmp_path / "results" / "visits" / "report.html").is_file()


def test_snakemake_on_the_bundled_workflow_makes_a_file(unpacked, tmp_path):
    snakefile = str(unpacked / "gpmcflow" / "bundled" / "Snakefile")
    done = in_wheel(
        unpacked, tmp_path,
        "-m", "snakemake", "--snakefile", snakefile, "--cores", "1", "results/data/digits-3v5.nc",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "results" / "data" / "digits-3v5.nc").is_file()


def test_clone_has_its_own_workflow_and_a_package_without_one_says_so(tmp_path, monkeypatch):
    assert workflow_home() == ROOT
    monkeypatch.setattr("gpmcflow.studies.frame.installation.PACKAGE", tmp_path / "gpmcflow")
    with pytest.raises(InputError, match=r"no workflow found.*install it again"):
        workflow_home()
    (tmp_path / "gpmcflow" / "bundled" / "workflow").mkdir(parents=True)
    (tmp_path / "gpmcflow" / "bundled" / "Snakefile").touch()
    assert workflow_home() == tmp_path / "gpmcflow" / "bundled"
