from __future__ import annotations

from pathlib import Path

import pytest

WORKFLOW = Path(__file__).parents[2] / "workflow"
SCRIPTS = sorted((WORKFLOW / "scripts").glob("*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_is_short_guarded_and_used(path):
    text = path.read_text()
    assert len(text.splitlines()) < 40
    # Worker processes import the script again: outside the guard there is only the import.
    before = text.partition('if __name__ == "__main__":\n    with workflow_job(snakemake)')[0]
    assert before != text
    assert set(before.splitlines()[1:]) <= {"", "from gpmcflow.workflow_job import workflow_job"}
    rules = "".join(file.read_text() for file in (WORKFLOW / "rules").glob("*.smk"))
    assert f'"../scripts/{path.name}"' in rules


def test_rules_have_no_run_blocks_checkpoints_or_temporary_files():
    for file in (WORKFLOW / "rules").glob("*.smk"):
        text = file.read_text()
        for word in ("run:", "checkpoint ", "temp(", "protected("):
            assert word not in text, file
