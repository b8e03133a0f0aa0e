"""Snakemake's command, whose jobs are forked from one process that has loaded what others wrote.

Python and the libraries take three seconds of CPU to start, several times what most jobs of a test take.
The package itself is imported by every job on its own, in its own order.
"""

import multiprocessing
import os
import subprocess
from contextlib import nullcontext

from snakemake.benchmark import benchmarked
from snakemake.cli import main
from snakemake.script import PythonScript

LIBRARIES = [
    "h5netcdf",
    "jinja2",
    "matplotlib.figure",
    "numba",
    "pandas",
    "scipy.optimize",
    "xarray",
]
FORKS = multiprocessing.get_context("forkserver")
JOB = """
import os, runpy, sys
for number, path in enumerate(paths, start=1):
    os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
loaded = [name for name in sys.modules if name.startswith("gpmcflow")]
assert not loaded, loaded
sys.argv[:] = [script]
sys.path.insert(0, os.path.dirname(script))
runpy.run_path(script, run_name="__main__")
"""


def command(arguments: list[str], environment: dict[str, str], paths: list[str]) -> None:
    """Run it with this environment; ``paths`` are the files of its output and of its messages."""
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate(paths, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
    FORKS.set_forkserver_preload(LIBRARIES)

    def execute_script(self, fname, edit=False):
        names = {"script": os.path.abspath(fname), "paths": paths}
        job = FORKS.Process(target=exec, args=(JOB, names))
        job.start()
        with benchmarked(job.pid, self.bench_record) if self.bench_record else nullcontext():
            job.join()
        if job.exitcode:
            raise subprocess.CalledProcessError(job.exitcode, fname)

    PythonScript.execute_script = execute_script
    main(arguments)
