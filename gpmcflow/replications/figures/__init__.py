"""One function a published figure; each returns a matplotlib Figure and touches no global state."""

from __future__ import annotations

from gpmcflow.replications.figures.evidence import evidence_against_time
from gpmcflow.replications.figures.log_weights import log_weights
from gpmcflow.replications.figures.summaries import hyperparameter_map, posterior_summary
from gpmcflow.replications.figures.temperatures import (
    acceptance_and_step_size,
    effective_size_by_temperature,
)

__all__ = [
    "acceptance_and_step_size",
    "effective_size_by_temperature",
    "evidence_against_time",
    "hyperparameter_map",
    "log_weights",
    "posterior_summary",
]
