from __future__ import annotations

from pathlib import Path

WORKFLOW = Path(__file__).parents[2] / "workflow"
RULES = sorted((WORKFLOW / "rules").rglob("*.smk"))


def test_the_one_script_is_guarded():
    """Worker processes import it again: outside the guard there is only the import."""
    (script,) = (WORKFLOW / "scripts").rglob("*.py")
    head, _, call = script.read_text().partition('\nif __name__ == "__main__":\n')
    assert head.splitlines()[1:] == ["", "from gpmcflow.jobs.job import run_job"]
    assert call == "    run_job(snakemake)\n"


def test_rules_have_no_run_blocks_checkpoints_or_temporary_files():
    assert RULES
    for file in RULES:
        text = file.read_text()
        for word in ("run:", "checkpoint ", "temp(", "protected("):
            assert word not in text, file
