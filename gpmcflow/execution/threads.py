"""One BLAS thread per task: the last bits of `cholesky` and `@` change with that number."""

from __future__ import annotations

import os
import threading

_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_pinned = threading.local()


def pin_blas() -> None:
    """Limit BLAS and OpenMP to one thread in this process, and in children through the environment.

    Undoes `OMP_NUM_THREADS` and its like, which Snakemake sets to the threads of the rule. NumPy
    and SciPy are imported first since each brings its own OpenBLAS. Later calls return at once;
    OpenMP's limit belongs to the calling thread, so each thread of a pool is pinned once.
    """
    if getattr(_pinned, "pid", None) == os.getpid():
        return
    for variable in _VARIABLES:
        os.environ[variable] = "1"
    import numpy  # noqa: F401
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=1)
    _pinned.pid = os.getpid()
