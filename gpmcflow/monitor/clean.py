"""State that nothing needs any more: `gpmcflow clean`, whose --help states the rule."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpmcflow.errors import StorageError
from gpmcflow.execution.disk import human_bytes
from gpmcflow.jobs.job_errors import ERRORS, STATE
from gpmcflow.monitor.state_folders import (
    JOB,
    Run,
    find_runs,
    is_locked,
    process_exists,
    read_json,
    started,
    state_folders,
)
from gpmcflow.monitor.status import aligned, clock, is_finished, job_name, last_written

HOUR, DAY = 3600.0, 86400.0


@dataclass(frozen=True)
class StateFolder:
    """One folder below results/.state; `reason` says why it is not needed, None if it is."""

    path: Path
    job: str
    n_bytes: int
    seconds_old: float  #: since something was written
    reason: str | None


def unneeded_state(
    results: str | os.PathLike = "results", outputs: Iterable[str] | None = None
) -> list[StateFolder]:
    """Return all state folders below `results`, each with the reason why it is not needed, if so.

    `outputs` are those of a config, such as "results/split_hmc/a/hmc.nc"; None for not saying.
    Raises `StorageError` if there is no such folder.
    """
    root = Path(results)
    if not root.is_dir():
        raise StorageError(f"{root}: no such folder; give the one the workflow writes to.")
    wanted = None if outputs is None else set(outputs)
    folders = [path for path in state_folders(root) if path != root]
    jobs = {path: read_json(path / JOB) for path in folders}
    latest: dict[tuple[str, str], float] = {}
    for job in jobs.values():
        same = _same_job(job)
        latest[same] = max(latest.get(same, 0.0), started(job) or 0.0)
    return [_judge(path, job, root, wanted, latest) for path, job in jobs.items()]


def _judge(path: Path, job: dict, root: Path, wanted: set | None, latest: dict) -> StateFolder:
    runs = find_runs(path)
    owner = job or (runs[-1].manifest if runs else {})
    written = last_written(path, runs)
    n_bytes, newest = _size(path)
    old = max(time.time() - max(written or 0.0, newest), 0.0)
    reason = None
    if not _may_run(runs, owner, old) or _is_done(root, job, runs, written):
        reason = _reason(job, root, written, old, wanted, latest)
    name = job_name(path, job, runs[-1].manifest if runs else {})
    return StateFolder(path, name, n_bytes, old, reason)


def _is_done(root: Path, job: dict, runs: list[Run], written: float | None) -> bool:
    return is_finished(root, job, written) and not is_locked(runs)


def _may_run(runs: list[Run], owner: dict, old: float) -> bool:
    if is_locked(runs):
        return True
    exists = process_exists(owner) if owner else False
    return old < DAY if exists is None else exists


def _reason(job, root, written, old, wanted, latest) -> str | None:
    output = job.get("output")
    if not isinstance(output, str):
        return "belongs to no known job" if old > HOUR else None
    if is_finished(root, job, written):
        return "finished"
    if (started(job) or 0.0) < latest[_same_job(job)]:
        return "superseded by a later run of the job"
    if wanted is not None and output not in wanted:
        return "not in the config"
    return None


def _same_job(job: dict) -> tuple[str, str]:
    """What two runs of one job have in common: the certificates of several models share an output."""
    return str(job.get("output")), json.dumps(job.get("wildcards"), sort_keys=True)


def remove_state(folders: Iterable[StateFolder], results: str | os.PathLike = "results") -> int:
    """Remove the folders that are not needed, and return their bytes; each is judged once more.

    The errors that jobs have kept for their retries go, too.

    Raises `StorageError` for one that cannot be removed.
    """
    freed = 0
    shutil.rmtree(Path(results, STATE.name, ERRORS), ignore_errors=True)
    for folder in folders:
        if folder.reason is None or not folder.path.is_dir():
            continue
        job = read_json(folder.path / JOB)
        runs = find_runs(folder.path)
        owner = job or (runs[-1].manifest if runs else {})
        done = _is_done(Path(results), job, runs, last_written(folder.path, runs))
        if _may_run(runs, owner, folder.seconds_old) and not done:
            continue  # a job has taken it up since it was looked at
        try:
            shutil.rmtree(folder.path)
        except OSError as error:
            raise StorageError(
                f"{folder.path}: cannot be removed ({error.strerror}); check the folder's owner."
            ) from None
        freed += folder.n_bytes
    return freed


def _size(path: Path) -> tuple[int, float]:
    """Bytes of all files below, and the time of the newest."""
    n_bytes, newest = 0, 0.0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                stat = os.stat(os.path.join(folder, name))
                n_bytes += stat.st_size
                newest = max(newest, stat.st_mtime)
    return n_bytes, newest


def state_table(folders: list[StateFolder]) -> str:
    """Return the folders as a table for people, those that are not needed marked with the reason."""
    rows = [("state", "job", "size", "age", "")]
    for folder in sorted(folders, key=lambda f: (f.reason is None, f.job)):
        age = clock(folder.seconds_old)
        reason = f"remove: {folder.reason}" if folder.reason else "keep"
        rows.append((folder.path.name[:12], folder.job, human_bytes(folder.n_bytes), age, reason))
    lines = aligned(rows)
    unneeded = [folder for folder in folders if folder.reason]
    total = human_bytes(sum(folder.n_bytes for folder in unneeded))
    lines.append(f"{len(unneeded)} of {len(folders)} state folders are not needed: {total}")
    return "\n".join(lines)
