"""How far each job is: `gpmcflow status`."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from gpmcflow.errors import StorageError
from gpmcflow.execution.blocks import Grid
from gpmcflow.monitor.state_folders import (
    JOB,
    MOST_PIECES,
    RUN,
    Run,
    find_runs,
    is_locked,
    process_runs,
    read_json,
    started,
    state_folders,
)
from gpmcflow.monitor.status_diagnostics import diagnose

RECENT = 20  # segments whose times tell the time left
PATIENCE, LEAST_PATIENCE = 10.0, 120.0  # a job is stalled after: times of a segment, seconds
STATES = ("running", "stalled", "interrupted", "finished")


@dataclass(frozen=True)
class JobStatus:
    """One job, by its state folder; what is not known is None."""

    job: str  #: declared output below the results folder, or the label of its run
    state: str  #: running, stalled, interrupted or finished
    segments_done: int
    segments_total: int  #: of all runs of the job
    acceptance: float | None  #: mean acceptance rate, later half of the draws so far
    rhat: float | None  #: of the log likelihood, later half of the draws so far
    effective_size: float | None  #: bulk, of all draws so far; or of the annealing weights so far
    seconds_left: float | None
    seconds_silent: float | None  #: since the last file was written
    seconds_per_segment: float | None  #: usual time of a segment
    host: str | None
    pid: int | None
    state_dir: str
    waiting_for: str | None  #: what it waits for, such as a worker of a Dask cluster
    waiting_since: str | None  #: time in ISO 8601, UTC


def job_statuses(results: str | os.PathLike = "results") -> list[JobStatus]:
    """Return the status of every job with a state folder below `results` (or of one state folder).

    *finished*: the declared output is there and newer than the state (a run outside a workflow has
    none: all its segments are there). Else *interrupted*: its process is gone; *stalled*: nothing was
    written for far longer than a segment usually takes (ten times as long, and two minutes), or it
    waits for workers of a Dask cluster; else *running*. Whether a process on another machine is alive
    cannot be asked from here: it counts as alive.

    The time left comes from the times of the last segments; R-hat and effective size (arviz_stats)
    from the later half of the finished draws, so that a warm-up is not part of them, at most 4 MB
    being read for a job. Raises `StorageError` if there is no such folder.
    """
    if not Path(results).is_dir():
        raise StorageError(f"{results}: no such folder; give the one the workflow writes to.")
    statuses = []
    for folder in state_folders(results):
        with suppress(FileNotFoundError):  # removed while we look
            statuses.append(job_status(folder, results))
    order = {state: rank for rank, state in enumerate(STATES)}
    return sorted(statuses, key=lambda status: (order[status.state], status.job))


def job_status(folder: str | os.PathLike, results: str | os.PathLike = "results") -> JobStatus:
    """Return the status of the job of one state folder; see `job_statuses`."""
    folder, now = Path(folder), time.time()
    job, runs = read_json(folder / JOB), find_runs(folder)
    latest = runs[-1].manifest if runs else {}
    owner = job or latest
    written = last_written(folder, runs)
    usual = _usual_seconds(runs)
    silent = None if written is None else max(now - written, 0.0)
    done = sum(run.n_finished for run in runs)
    total = max(sum(run.n_segments for run in runs), _planned(runs, job))
    waits = next((run.waiting for run in runs if run.waiting and is_locked([run])), {})
    if is_finished(results, job, written) or (not job and 0 < done == total):
        state = "finished"
    elif not owner or not (is_locked(runs) or process_runs(owner) is not False):
        state = "interrupted"
    elif waits:
        state = "stalled"
    else:
        patience = max(PATIENCE * usual, LEAST_PATIENCE) if usual else math.inf
        state = "stalled" if silent is not None and silent > patience else "running"
    current = next((run for run in reversed(runs) if run.n_finished), None)
    acceptance, rhat, size = (None, None, None) if current is None else diagnose(current)
    pid = owner.get("pid")
    return JobStatus(
        job=job_name(folder, job, latest),
        state=state,
        segments_done=done,
        segments_total=total,
        acceptance=acceptance,
        rhat=rhat,
        effective_size=size,
        seconds_left=_seconds_left(runs, owner, total - done) if state == "running" else None,
        seconds_silent=silent,
        seconds_per_segment=usual,
        host=owner.get("host"),
        pid=pid if isinstance(pid, int) else None,
        state_dir=str(folder),
        waiting_for=waits.get("for"),
        waiting_since=waits.get("started_at"),
    )


def job_name(folder: Path, job: dict, latest: dict) -> str:
    """Return the declared output below the results folder, the label of the run, or the digest."""
    if isinstance(job.get("output"), str):
        return job["output"].removeprefix("results/")
    return str(latest.get("label") or folder.name[:12])


def declared_output(results: str | os.PathLike, job: dict) -> Path | None:
    """Return the path of a job's output; it is relative to the folder the workflow runs in."""
    output = job.get("output")
    return (Path(results).resolve().parent / output) if isinstance(output, str) else None


def is_finished(results: str | os.PathLike, job: dict, written: float | None) -> bool:
    """Return whether the declared output is there and not older than the state."""
    output = declared_output(results, job)
    with suppress(OSError, ValueError):  # no path: it has a NUL, say
        return output is not None and output.stat().st_mtime >= (written or 0.0)
    return False


def last_written(folder: Path, runs: Iterable[Run]) -> float | None:
    """Return when the newest manifest or segment was written; None if there is none."""
    times = [moment for run in runs for block in run.finished for moment in block]
    for path in (folder / JOB, *(run.folder / RUN for run in runs)):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times, default=None)


def _planned(runs: list[Run], job: dict) -> int:
    """Segments of all runs of a job that makes several one after another, as it says, else 0."""
    planned = job.get("runs") or []
    if not runs or not isinstance(planned, list) or len(planned) > MOST_PIECES:
        return 0
    block, segment = runs[-1].grid.block_size, runs[-1].grid.segment_length
    with suppress(TypeError, ValueError):  # of a damaged file
        grids = [Grid(n_chains, length, block, segment) for n_chains, length in planned]
        return sum(grid.n_blocks * grid.n_segments for grid in grids)
    return 0


def _usual_seconds(runs: list[Run]) -> float | None:
    """Median time between one segment of a block and the next."""
    blocks = [block for run in runs for block in run.finished]
    steps = [later - earlier for block in blocks for earlier, later in pairwise(block)]
    return median(step for step in steps if step > 0) if any(s > 0 for s in steps) else None


def _seconds_left(runs: list[Run], owner: dict, remaining: int) -> float | None:
    """Segments to come times the time each of the last ones took, all blocks together."""
    times = sorted(moment for run in runs for block in run.finished for moment in block)
    began = started(owner) or 0.0
    own = [moment for moment in times if moment >= began][-RECENT:]  # none from before a kill
    if len(own) > 1:
        return remaining * (own[-1] - own[0]) / (len(own) - 1)
    usual = _usual_seconds(runs)
    return None if usual is None else remaining * usual


def as_json(status: JobStatus) -> dict:
    """Return the fields of a status as plain values."""
    return asdict(status)


def status_table(statuses: list[JobStatus]) -> str:
    """Return the statuses as a table for people, with a last line that counts them."""
    head = ("job", "state", "segments", "acceptance", "R-hat", "eff. size", "left", "")
    rows = [head, *(_row(status) for status in statuses)]
    lines = aligned(rows)
    counts = {state: sum(s.state == state for s in statuses) for state in STATES}
    lines.append(", ".join(f"{n} {state}" for state, n in counts.items()))
    return "\n".join(lines)


def _row(status: JobStatus) -> tuple[str, ...]:
    def text(value, form):
        return "-" if value is None else form.format(value)

    note = ""
    if status.state == "stalled" and status.waiting_for:
        note = f"waits for {status.waiting_for} since {status.waiting_since}, on {status.host}"
    elif status.state == "stalled":
        note = f"nothing written for {clock(status.seconds_silent)} on {status.host}"
    elif status.state == "running" and not status.segments_total:
        note = "no run has begun"
    left = "-" if status.seconds_left is None else clock(status.seconds_left)
    return (
        status.job,
        status.state,
        f"{status.segments_done}/{status.segments_total}",
        text(status.acceptance, "{:.2f}"),
        text(status.rhat, "{:.3f}"),
        text(status.effective_size, "{:.0f}"),
        left,
        note,
    )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row of cells, columns as wide as their longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def clock(seconds: float) -> str:
    """Return seconds as minutes:seconds, hours:minutes:seconds, or days and hours."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
