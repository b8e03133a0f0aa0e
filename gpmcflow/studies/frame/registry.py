"""The studies in the frame. A new one is its folder, a line here, its schema, rule file and tests."""

from __future__ import annotations

from gpmcflow.studies.analysis.study import ANALYSIS
from gpmcflow.studies.frame.study import Study

STUDIES: tuple[Study, ...] = (ANALYSIS,)
