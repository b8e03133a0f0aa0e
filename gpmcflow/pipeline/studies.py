"""What the workflow can run: the replicated papers, and analyses of a user's own data."""

from __future__ import annotations

from gpmcflow.analysis.study import ANALYSIS
from gpmcflow.jobs.study import Study
from gpmcflow.replications.papers import PAPERS

STUDIES: tuple[Study, ...] = (*PAPERS, ANALYSIS)


def studies_of(config: dict) -> list[Study]:
    """The studies that a checked config has."""
    return [s for s in STUDIES if s.name in config["studies"]] + [ANALYSIS] * bool(
        config["analyses"]
    )
