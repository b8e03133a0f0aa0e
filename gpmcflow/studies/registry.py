"""All studies. A new one is its folder, a line here, its schema, its printed numbers and its tests."""

from __future__ import annotations

from gpmcflow.studies.analysis.study import ANALYSIS
from gpmcflow.studies.fast_likelihood.study import STUDY as FAST_LIKELIHOOD
from gpmcflow.studies.frame.study import Study
from gpmcflow.studies.rmhmc_ais.study import STUDY as RMHMC_AIS
from gpmcflow.studies.split_hmc.study import STUDY as SPLIT_HMC
from gpmcflow.studies.surrogate_slice.study import STUDY as SURROGATE_SLICE

PAPERS: tuple[Study, ...] = (RMHMC_AIS, SPLIT_HMC, FAST_LIKELIHOOD, SURROGATE_SLICE)
STUDIES: tuple[Study, ...] = (*PAPERS, ANALYSIS)


def studies_of(config: dict) -> list[Study]:
    """The studies that a checked config has."""
    return [s for s in STUDIES if s.name in config["studies"]] + [ANALYSIS] * bool(
        config["analyses"]
    )
