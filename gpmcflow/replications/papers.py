"""The replicated papers.

A new one is its folder, a line here, its schema, its printed numbers and its tests.
"""

from __future__ import annotations

from gpmcflow.jobs.study import Study
from gpmcflow.replications.fast_likelihood.study import STUDY as FAST_LIKELIHOOD
from gpmcflow.replications.rmhmc_ais.study import STUDY as RMHMC_AIS
from gpmcflow.replications.split_hmc.study import STUDY as SPLIT_HMC
from gpmcflow.replications.surrogate_slice.study import STUDY as SURROGATE_SLICE

PAPERS: tuple[Study, ...] = (RMHMC_AIS, SPLIT_HMC, FAST_LIKELIHOOD, SURROGATE_SLICE)
