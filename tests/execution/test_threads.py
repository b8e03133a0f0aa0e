from __future__ import annotations

import os
import platform
import subprocess
import sys
import time

import pytest

from gpmcflow.execution import pin_blas

REPORT = """
import os, threadpoolctl
from gpmcflow.execution.threads import pin_blas
{before}
pin_blas()
{after}
import numpy, scipy.linalg
info = threadpoolctl.threadpool_info()
print(sorted({{pool["num_threads"] for pool in info}}), len(info), os.environ["OMP_NUM_THREADS"])
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ("import numpy", ""), ("import scipy.linalg", ""), ("", "import scipy.stats")],
)
def test_pin_blas_undoes_the_environment(before, after):
    two = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    script = REPORT.format(before=before, after=after)
    run = subprocess.run([sys.executable, "-c", script], env=two, capture_output=True, text=True)
    threads, libraries, variable = run.stdout.rsplit(maxsplit=2)
    assert threads == "[1]"
    assert int(libraries) >= 2  # NumPy and SciPy each bring one
    assert variable == "1"


def test_without_pin_blas_there_are_two_threads():
    two = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    script = REPORT.format(before="pin_blas = lambda: None", after="")
    run = subprocess.run([sys.executable, "-c", script], env=two, capture_output=True, text=True)
    if os.cpu_count() < 2:
        pytest.skip("one core: BLAS has one thread anyway")
    assert run.stdout.startswith("[2]")


def test_later_calls_are_cheap():
    pin_blas()
    begin = time.perf_counter()
    for _ in range(1000):
        pin_blas()
    assert time.perf_counter() - begin < 0.05


FAULTS = """
import resource
import numpy as np
from gpmcflow.execution import pin_blas
{before}
for _ in range(3):
    np.ones(250_000) + np.ones(250_000)
began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    np.ones(250_000) + np.ones(250_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - began)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_matrices_are_kept_for_the_next_ones():
    """A matrix of 2 MB is 488 pages: 50 rounds of three would be made of 73,000 that the system clears."""

    def faults(before: str) -> int:
        run = [sys.executable, "-c", FAULTS.format(before=before)]
        return int(subprocess.run(run, capture_output=True, text=True, check=True).stdout)

    assert faults("pin_blas()") < 2_000
