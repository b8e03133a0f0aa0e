"""Files of one's own that are wrong, by the commands of the README."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpmcflow.cli import main

WRONG = {
    "a column that is not there": ("a,b,y\n1,2,0\n", "z", 'no column "z"'),
    "thirty classes": (
        "a,y\n" + "".join(f"{k},c{k % 30}\n" for k in range(60)),
        "y",
        "choose another",
    ),
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
