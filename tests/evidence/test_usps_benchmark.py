"""Annealing of the USPS benchmark at a fraction of its full cost."""

from __future__ import annotations

import numpy as np
import pytest

from gpmcflow.approximations.perturbative_correction import second_order_correction
from gpmcflow.evidence.annealing import anneal
from gpmcflow.evidence.schedule import Schedule, linear
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import HMC, PreconditionedSplitHMC

# Reference values of long runs and their standard errors; the tolerance of EP plus correction.
REFERENCE = {"A": (-105.839, 0.007, 0.05), "B": (-149.3750, 0.001, 0.003)}
RUNS = [
    ("A", PreconditionedSplitHMC(0.2, 12), 60, 48, 0.1),
    ("A", HMC(0.25, 8), 60, 48, 0.1),
    ("B", PreconditionedSplitHMC(0.8, 3), 20, 96, 0.01),
    ("B", HMC(0.35, 6), 20, 96, 0.01),
]


@pytest.mark.parametrize(("setting", "sampler", "n_temperatures", "n_particles", "bound"), RUNS)
def test_annealing_from_ep(usps, setting, sampler, n_temperatures, n_particles, bound):
    """Row 21: within 3 joint standard errors of the reference."""
    value, error, _ = REFERENCE[setting]
    tree = anneal(
        TemperedPath(usps(setting).ep.sites),
        sampler,
        Schedule.constant(linear(n_temperatures), sampler),
        n_particles=n_particles,
        seed=1,
    )["evidence"]
    se = float(tree["standard_error"])
    assert se < bound
    assert abs(float(tree["log_evidence"]) - value) < 3.0 * np.hypot(se, error)
    assert not str(tree["alarm"].values)


@pytest.mark.parametrize("setting", REFERENCE)
def test_corrected_ep_is_close(usps, setting):
    """Row 21: EP plus correction within 0.05 (A) and 0.003 (B)."""
    value, _, tolerance = REFERENCE[setting]
    ep = usps(setting).ep
    assert ep.log_evidence + second_order_correction(ep)[-1] == pytest.approx(value, abs=tolerance)
