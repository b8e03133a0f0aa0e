"""What a process that computes is set to: one BLAS thread per task, and memory that it keeps.

The last bits of `cholesky` and `@` change with the number of threads.
"""

from __future__ import annotations

import ctypes
import os
import threading

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # numbers of malloc.h
LARGEST_KEPT, MOST_KEPT = 2**25, 2**28  # bytes; glibc takes no larger first one
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

    Freed matrices stay with the process for the next ones (`_keep_freed_memory`).

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
    _keep_freed_memory()
    _pinned.pid = os.getpid()


def _keep_freed_memory() -> None:
    """Have glibc keep freed matrices for the next ones, up to `LARGEST_KEPT` each and `MOST_KEPT` at the top.

    Else it returns each to the system, and the next one is made of pages that the system has to clear: a
    fifth of the time of fits of some hundred rows. Other C libraries are left as they are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_M_MMAP_THRESHOLD, LARGEST_KEPT)
    mallopt(_M_TRIM_THRESHOLD, MOST_KEPT)
