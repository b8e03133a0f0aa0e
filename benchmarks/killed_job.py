"""The short job that `kills.py` kills, in the three modes, and how it tells the phase it is in.

The package knows nothing of it: the steps of its writes are replaced, in the job's processes alone.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import time
from pathlib import Path

import numpy as np

SIZES = {"n_chains": 6, "length": 60, "seed": 1}
SECONDS = 0.02  # of each segment


class Walk:
    """Random-walk Metropolis on N(0, I), slowly."""

    def outputs(self):
        """Trailing shapes and types."""
        return {"x": ((3,), "float64"), "acceptance_rate": ((), "float64")}

    def start(self, rng):
        """Draws of the target."""
        return {"x": rng.standard_normal(3)}

    def advance(self, rng, carry, start, stop):
        """Draws start..stop-1."""
        x, draws, rates = carry["x"], [], []
        for _ in range(start, stop):
            mark("compute")
            time.sleep(SECONDS / (stop - start))
            proposal = x + rng.standard_normal(3)
            log_ratio = 0.5 * (x**2 - proposal**2).sum(axis=1)
            accepted = np.log(rng.uniform()) < log_ratio
            x = np.where(accepted[:, None], proposal, x)
            draws.append(x)
            rates.append(np.exp(np.minimum(log_ratio, 0.0)))
        return {"x": x}, {"x": np.stack(draws, 1), "acceptance_rate": np.stack(rates, 1)}


class _Watch:
    """Writes each phase the process enters to `<folder>/phases`; kills it at the one aimed at."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.stream = os.open(folder / "phases", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        aim = folder / "aim"
        phase, nth, victim = aim.read_text().split() if aim.exists() else ("", "0", "")
        self.aim, self.left, self.victim = phase, int(nth), victim
        self.assembling = False

    def enter(self, phase: str) -> None:
        phase = "assemble" if self.assembling else phase
        os.write(self.stream, f"{os.getpid()} {phase}\n".encode())
        if phase != self.aim:
            return
        self.left -= 1
        if self.left == 0:
            with contextlib.suppress(FileExistsError):  # another worker was killed before
                (self.folder / "hit").touch(exist_ok=False)
                os.write(self.stream, f"{os.getpid()} {phase} killed\n".encode())
                if self.victim == "worker" and phase != "assemble":
                    os.kill(os.getpid(), signal.SIGKILL)
                os.killpg(os.getpgrp(), signal.SIGKILL)
                time.sleep(60)


_watch: _Watch | None = None


def mark(phase: str) -> None:
    """Say that the process enters a phase."""
    if _watch is not None:
        _watch.enter(phase)


def watch(folder: str | Path) -> None:
    """Let this process tell its phases, by replacing the steps of its writes."""
    from gpmcflow.execution import segment_files
    from gpmcflow.storage import atomic, writing
    from gpmcflow.storage.writing import Sink

    global _watch
    if _watch is not None:
        return
    _watch = _Watch(Path(folder))
    savez, sync, replace = np.savez, atomic._sync, os.replace
    assemble, sink_write = writing._write, Sink.write

    def halves(stream, **arrays):
        whole = io.BytesIO()
        savez(whole, **arrays)
        data = whole.getvalue()
        stream.write(data[: len(data) // 2])
        stream.flush()
        mark("write")
        stream.write(data[len(data) // 2 :])

    def told_sync(path):
        mark("fsync")
        sync(path)

    def told_replace(source, target):
        mark("rename")
        replace(source, target)
        mark("rename")

    def told_assemble(*arguments):
        _watch.assembling = True  # up to the end of the job
        mark("assemble")
        assemble(*arguments)

    def told_sink_write(self, data):
        mark("assemble")
        return sink_write(self, data)

    segment_files.np.savez, atomic._sync, atomic.os.replace = halves, told_sync, told_replace
    writing._write, Sink.write = told_assemble, told_sink_write


def results(state_dir: str | Path, scheduler="synchronous"):
    """Return the tree of the job's results."""
    import xarray as xr

    from gpmcflow.execution import Execution, run

    pieces = {"block_size": 2, "segment_length": 5}
    how = Execution(**pieces, scheduler=scheduler, state_dir=state_dir, settings={"job": 1})
    arrays = run(Walk(), **SIZES, execution=how)
    stats = {"acceptance_rate": (("chain", "draw"), arrays["acceptance_rate"])}
    draws = {"x": (("chain", "draw", "dim"), arrays["x"])}
    return xr.DataTree.from_dict(
        {"/posterior": xr.Dataset(draws), "/sample_stats": xr.Dataset(stats)}
    )


def in_process(folder: str) -> None:
    """Do the job in this process."""
    from gpmcflow.storage import write_results

    watch(folder)
    write_results(results(Path(folder, "state")), Path(folder, "results.nc"))


def distributed(folder: str) -> None:
    """Do the job on two worker processes, which tell their phases too."""
    from distributed import Client, LocalCluster, WorkerPlugin

    from gpmcflow.storage import write_results

    class Watched(WorkerPlugin):
        def setup(self, worker):
            import killed_job

            killed_job.watch(folder)

    watch(folder)
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        client.register_plugin(Watched())
        write_results(results(Path(folder, "state"), client), Path(folder, "results.nc"))


def snakemake_job(snakemake) -> None:
    """Do the job inside a rule."""
    import xarray as xr

    from gpmcflow.jobs.job import workflow_job

    watch(".")
    with workflow_job(snakemake) as job:
        job.write(results(job.state_dir(xr.Dataset(attrs={"checksum": "none"}))))
