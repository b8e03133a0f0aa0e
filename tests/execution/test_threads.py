from __future__ import annotations

import os
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
