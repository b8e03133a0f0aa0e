"""A user's own error is told once: a retry in the same run of Snakemake ends at once with the same line.

Snakemake retries whatever fails, and tells a script neither its attempt nor who started it. So the
Snakefile names each run of Snakemake in the environment, which every job inherits, on SLURM too; a
job that fails by what no retry can mend leaves its line with that name. A new `snakemake` has a new
name, and tries again; so does a job any part of which has changed in the meantime.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpmcflow.errors import GpmcflowError, InputError, NumericalError, StorageError
from gpmcflow.execution.digest import text_digest

STATE = Path("results", ".state")
ERRORS = "errors"  #: folder in `STATE`
_RUN = "GPMCFLOW_RUN"


def name_this_run() -> None:
    """Give the jobs that this process starts, near and far, the name of one run of Snakemake."""
    os.environ[_RUN] = uuid.uuid4().hex


class LastError:
    """The line by which a job ended last, if no retry can mend it; `snakemake` as scripts have it."""

    def __init__(self, snakemake: Any):
        self._run = os.environ.get(_RUN)
        self._snakemake = snakemake

    def line(self) -> str | None:
        """Return the line, None when this is no retry, or one that may go better."""
        if self._run is None:
            return None
        with suppress(OSError, ValueError, KeyError, TypeError):
            note = json.loads(self._path.read_text(encoding="utf-8"))
            if note["run"] == self._run and note["job"] == self._job():
                return str(note["line"])
        return None

    def keep(self, error: GpmcflowError, line: str) -> None:
        """Keep the line of an error that no retry can mend."""
        if self._run is None or not self._lasts(error):
            return
        from gpmcflow.storage import write_text

        with suppress(OSError):
            note = {"run": self._run, "job": self._job(), "line": line}
            write_text(json.dumps(note, indent=1) + "\n", self._path)

    def forget(self) -> None:
        """Remove the line: the job has ended well."""
        if self._run is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _lasts(self, error: GpmcflowError) -> bool:
        """Memory, disk and cluster may be better next time; values and input files are the same."""
        if isinstance(error, StorageError):
            sources = dict(self._snakemake.params.items()).get("sources", {}).values()
            read = [*self._snakemake.input, *(path for files in sources for path in files)]
            return any(str(error).startswith(f"{path}:") for path in read)
        return isinstance(error, InputError | NumericalError)

    @property
    def _path(self) -> Path:
        wildcards = sorted(dict(self._snakemake.wildcards.items()).items())
        return STATE / ERRORS / f"{text_digest(self._snakemake.rule, repr(wildcards))}.json"

    def _job(self) -> str:
        """Return a digest of what the job depends on; params hold a digest of its code."""
        job = self._snakemake
        files = [(str(path), *_size_and_time(path)) for path in job.input]
        params = sorted(dict(job.params.items()).items())
        return text_digest(json.dumps([params, job.config, files], sort_keys=True, default=str))


def _size_and_time(path: str) -> tuple[int, int]:
    with suppress(OSError):
        file = os.stat(path)
        return file.st_size, file.st_mtime_ns
    return -1, -1
