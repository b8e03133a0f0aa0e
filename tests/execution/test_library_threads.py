"""The library's calls give one result whatever number of BLAS threads the caller was given."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import numpy, scipy.linalg  # loaded before the library could set a variable
import numpy as np
from gpmcflow import (
    GPModel, Probit, SquaredExponential, expectation_propagation, load_dataset, log_evidence,
)
from gpmcflow.execution import array_digest
data = load_dataset("digits-3v5")

def digest():
    covariance = SquaredExponential(np.exp(1.0), np.exp(4.0))
    model = GPModel(data["X"], data["y"].values, covariance, Probit()).at()
    fit = expectation_propagation(model)
    tree = log_evidence(fit, coordinates="mode", n_temperatures=4, n_particles=8)
    arrays = {f"annealing/{k}": v for k, v in tree["annealing"].to_dataset().variables.items()}
    numbers = {k: v for k, v in tree["evidence"].to_dataset().items() if v.dtype.kind in "fi"}
    sites = {"precision": fit.sites.precision, "shift": fit.sites.shift, "factor": fit.sites.factor}
    fit_numbers = {"ep": np.array(fit.log_evidence), "cholesky": model.cholesky}
    for name, group in [("fit", fit_numbers), ("sites", sites), ("annealing", arrays | numbers)]:
        print(name, array_digest(group))

for _ in range(2):
    digest()
"""


def digests(threads: int) -> list[list[str]]:
    """Digests of the first and the second call in a new process."""
    variables = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == 6
    return [lines[:3], lines[3:]]


def test_two_threads_give_the_numbers_of_one():
    """The first call counts most: nothing ran before it that could have set the threads."""
    first, second = digests(2)
    assert first == second
    assert digests(1) == [first, second]
