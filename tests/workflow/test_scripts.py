from __future__ import annotations

from pathlib import Path

import pytest

WORKFLOW = Path(__file__).parents[2] / "workflow"
SCRIPTS = sorted((WORKFLOW / "scripts").rglob("*.py"))
RULES = sorted((WORKFLOW / "rules").rglob("*.smk"))


def up(file: Path) -> str:
    """The way from a rule file's folder to the workflow's."""
    return "/".join([".."] * len(file.parent.relative_to(WORKFLOW).parts))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_script_is_short_guarded_and_used(path):
    text = path.read_text()
    assert len(text.splitlines()) < 40
    # Worker processes import the script again: outside the guard there is only the import.
    before = text.partition('if __name__ == "__main__":\n    with workflow_job(snakemake)')[0]
    assert before != text
    assert set(before.splitlines()[1:]) <= {"", "from gpmcflow.workflow_job import workflow_job"}
    name = path.relative_to(WORKFLOW).as_posix()
    users = [file for file in RULES if f'"{up(file)}/{name}"' in file.read_text()]
    if path.parent.name == "scripts":  # of all studies
        assert users
    else:
        assert len(users) == 1


def test_rules_have_no_run_blocks_checkpoints_or_temporary_files():
    for file in RULES:
        text = file.read_text()
        for word in ("run:", "checkpoint ", "temp(", "protected("):
            assert word not in text, file


@pytest.mark.parametrize("path", sorted((WORKFLOW / "report").rglob("*.rst")), ids=lambda p: p.stem)
def test_caption_is_used(path):
    name = path.relative_to(WORKFLOW).as_posix()
    assert any(f'"{up(file)}/{name}"' in file.read_text() for file in RULES)


@pytest.mark.parametrize("path", RULES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_rules_of_a_study_bear_its_name(path):
    parent = path.parent.name
    study = path.stem if parent == "rules" else parent
    for line in path.read_text().splitlines():
        if line.startswith("rule ") and study not in ("data", "report"):
            assert line.startswith(f"rule {study}_")
