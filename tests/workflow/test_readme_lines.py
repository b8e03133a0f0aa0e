"""The lines of the README for own data, run as printed; and files that are wrong, by the same commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from gpmcflow.cli import main

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def lines_of_readme() -> str:
    section = (ROOT / "README.md").read_text().partition("## Your own data, in five lines")[2]
    (block, *_) = re.findall(r"```bash\n(.*?)```", section, flags=re.DOTALL)
    return block


@pytest.mark.skipif(shutil.which("gpmcflow", path=BIN) is None, reason="gpmcflow is not installed")
def test_own_data_in_five_lines_as_printed(tmp_path):
    assert len(lines_of_readme().splitlines()) == 5
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SNAKEMAKE")}
    environment |= {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    script = lines_of_readme().replace("--quick ", "--quick --cores 2 ")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no problems; about" in done.stdout
    table = pd.read_csv(tmp_path / "predictions.csv")
    assert len(table) == len(pd.read_csv(tmp_path / "new_patients.csv"))
    assert table["probability"].between(0.0, 1.0).all()
    assert table["note"].str.contains("geriatrics", na=False).sum() == 2
    folder = tmp_path / "results" / "patients"
    assert "<svg" in (folder / "report.html").read_text()
    assert len(pd.read_csv(folder / "rows.csv")) == len(pd.read_csv(tmp_path / "patients.csv"))


WRONG = {
    "a column that is not there": ("a,b,y\n1,2,0\n", "z", 'no column "z"'),
    "three classes": ("a,y\n" + "1,red\n2,blue\n3,green\n" * 5, "y", "positive"),
    "an empty file": ("", "y", "empty"),
    "a constant target": ("a,y\n" + "1,1\n2,1\n" * 8, "y", 'always "1"'),
    "few rows": ("a,y\n1,0\n2,1\n3,1\n", "y", "10"),
    "columns of one name": ("a,a,y\n" + "1,2,0\n2,1,1\n" * 8, "y", "named 'a'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_told_in_a_line_and_nothing_is_run(case, tmp_path, monkeypatch, capsys):
    text, target, word = WRONG[case]
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text(text)
    code = main(["new", "mine.csv", "--target", target])
    if code == 0:
        capsys.readouterr()
        code = main(["check", "mine.yaml"])
    assert code == 1
    printed = capsys.readouterr()
    assert word in printed.err
    assert "Traceback" not in printed.err
    assert not Path("results").exists()
