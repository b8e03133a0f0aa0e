"""A job of the workflow: its settings, inputs, log, and what it writes."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpmcflow.errors import GpmcflowError, StorageError, UnavailableError
from gpmcflow.execution import (
    finish_first,
    forked_workers,
    graceful_stop,
    patience,
    pin_blas,
    settings_digest,
)
from gpmcflow.execution.signals import EXIT_CODE, Stopped
from gpmcflow.execution.state_folder import write_manifest
from gpmcflow.jobs.job_errors import STATE, LastError
from gpmcflow.jobs.study import load
from gpmcflow.storage.checksums import read_sha256, recorded_checksum
from gpmcflow.storage.machine import machine_error

if TYPE_CHECKING:
    import xarray as xr


# The log of one job: a file that other jobs may remove.


class JobLog(logging.FileHandler):
    """A log file; when it has been removed, its lines go to the end of the file of that name.

    Snakemake removes the log of a job that it is about to start, even while the same job of another
    Snakemake writes it (`--nolock`).
    """

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, mode="a+", encoding="utf-8")

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        with contextlib.suppress(OSError):
            self._follow()
        super().emit(record)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._follow()
        super().close()

    def _follow(self) -> None:
        if self.stream is None or self._is_there():
            return
        self.stream.seek(0)
        lines = self.stream.read()
        self.stream.close()
        Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
        self.stream = self._open()
        self.stream.write(f"from here on by process {os.getpid()}, whose log was removed:\n{lines}")

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.baseFilename), os.fstat(self.stream.fileno()))
        except FileNotFoundError:
            return False


def configure_logging(log: logging.Logger, path: Path) -> JobLog:
    """Send the messages of `log` to a file and to stderr, and warnings to the file; return its handler."""
    to_file = JobLog(path)
    to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    to_terminal = logging.StreamHandler(sys.stderr)
    to_terminal.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    to_terminal.setLevel(logging.INFO)
    log.handlers[:] = [to_file, to_terminal]
    log.setLevel(logging.INFO)
    log.propagate = False
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").addHandler(to_file)
    return to_file


# What every job of the workflow does around the one function it calls.
#
# The script of all rules is `run_job(snakemake)`; BLAS has one thread inside, messages go to the
# rule's log and to stderr, and a user's error ends the job with one line and no traceback. SIGTERM
# and SIGUSR1 end it after the segment it is at, with exit code 75: `snakemake --retries` starts it
# again, and so does SLURM where `RequeueExit=75` is set; it then goes on from its last segment.

PATIENCE = 300.0  # seconds for a Dask scheduler, and for a state folder another run works in

log = logging.getLogger("gpmcflow")


@contextlib.contextmanager
def workflow_job(snakemake: Any) -> Iterator[Job]:
    """Run the body of a job; `snakemake` is the object that Snakemake puts into its script.

    A `GpmcflowError` becomes one line in the log and on stderr, and exit code 1, or 75 for an
    `UnavailableError`, which a retry may not meet again: a Dask scheduler, and a state folder that
    another run works in, are waited for (`PATIENCE`). After an error that no retry can mend, a retry
    ends at once with the same line (`LastError`). Any other exception is ours to mend: its traceback
    goes to both. A first SIGTERM or SIGUSR1 ends the job between two segments with exit code 75, a
    second one at once.
    """
    pin_blas()
    to_file = configure_logging(log, Path(snakemake.log[0]))
    last = LastError(snakemake)
    try:
        if line := last.line():
            log.error(line)
            raise SystemExit(1)
        with graceful_stop(), patience(PATIENCE), forked_workers():
            yield Job(snakemake)
        last.forget()
    except Stopped as stopped:
        log.warning(str(stopped))
        raise SystemExit(EXIT_CODE) from None
    except GpmcflowError as error:
        line = " ".join(str(error).split())
        log.error(line)
        last.keep(error, line)
        raise SystemExit(EXIT_CODE if isinstance(error, UnavailableError) else 1) from None
    except Exception as error:
        if short := machine_error(error):
            log.error(str(short))
            raise SystemExit(1) from None
        to_file.handle(log.makeRecord(log.name, logging.ERROR, "", 0, "bug", (), sys.exc_info()))
        raise
    finally:
        to_file.close()


def run_job(snakemake: Any) -> None:
    """Call the function that the rule names in ``params.entry``, and write what it returns."""
    with workflow_job(snakemake) as job:
        results = load(snakemake.params.entry)(job)
        job.require_same_sources()
        job.write(results)


class Job:
    """One Snakemake job: what it reads, how it runs, and where its results go."""

    def __init__(self, snakemake: Any) -> None:
        self._snakemake = snakemake
        self._began = time.perf_counter()
        self.input = snakemake.input  #: files of other jobs that it reads, by name
        #: other files it reads, by name: path -> SHA-256 when the jobs were planned
        self.sources: dict[str, dict[str, str]] = dict(snakemake.params.items()).get("sources", {})
        self.output = snakemake.output  #: files it writes, by name
        self.wildcards = snakemake.wildcards  #: what makes it one of its rule's jobs, by name

    @property
    def config(self) -> dict[str, Any]:
        """The whole config, checked."""
        return self._snakemake.config

    @property
    def settings(self) -> dict[str, Any]:
        """What the plan of its study tells it."""
        return self._snakemake.params.settings

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self._snakemake.params.seed

    @property
    def memory_limit_gb(self) -> float | None:
        """Limit in the config; None for the default. It does not change the numbers."""
        return self.config["memory_limit_gb"]

    @property
    def execution(self) -> dict:
        """Section `execution` of the config, with the cores Snakemake grants as its workers."""
        return {**self.config["execution"], "workers": self._snakemake.threads}

    @property
    def names(self) -> dict[str, str]:
        """Its wildcards as arguments, such as ``problem_name``."""
        return {f"{key}_name": value for key, value in self.wildcards.items()}

    def run_settings(
        self, dataset: xr.Dataset | None = None, runs: Sequence[tuple[int, int]] = ()
    ) -> dict[str, Any]:
        """Seed, execution, folder of segments and memory limit as arguments; see `state_dir`."""
        return {
            "seed": self.seed,
            "execution": self.execution,
            "state_dir": self.state_dir(dataset, runs),
            "memory_limit_gb": self.memory_limit_gb,
        }

    def dataset(self) -> xr.Dataset:
        """Return the data set of `input.data`."""
        from gpmcflow.storage import load_results

        return load_results(self.input.data).to_dataset()

    def state_dir(
        self, dataset: xr.Dataset | None = None, runs: Sequence[tuple[int, int]] = ()
    ) -> str:
        """Return the folder of unfinished segments: one for these params, code and data.

        A study that draws its data by itself has none to name: its params do. The folder's
        `job.json` tells which job it belongs to, and chains and length of each of its ``runs`` where
        it makes several one after another.
        """
        identity = {
            "rule": self._snakemake.rule,
            "wildcards": dict(self.wildcards.items()),
            "params": dict(self._snakemake.params.items()),
            "data": None if dataset is None else dataset.attrs["checksum"],
        }
        digest = settings_digest(identity)
        facts = {key: identity[key] for key in ("rule", "wildcards")}
        facts |= {"output": str(self.output.results), "identity_digest": digest}
        facts |= {"runs": [list(run) for run in runs]} if runs else {}
        write_manifest(STATE / digest / "job.json", facts)
        return str(STATE / digest)

    def require_same_sources(self) -> None:
        """Raise `StorageError` if a file that no job makes has changed since the jobs were planned."""
        for files in self.sources.values():
            for path, digest in files.items():
                if read_sha256(path) != digest:
                    raise StorageError(f"{path}: has changed since the run began; run again")

    def made_of(self) -> dict[str, str]:
        """Path -> SHA-256 of every file that the job reads."""
        recorded = {str(path): recorded_checksum(path) for path in self.input}
        own = {path: digest for path, digest in recorded.items() if digest is not None}
        return own | {path: d for files in self.sources.values() for path, d in files.items()}

    def write(self, results: Any) -> None:
        """Write what a function returned: see `jobs.study.Stage`."""
        if results is None:
            return
        if "results" in self.output.keys():  # noqa: SIM118 (a named list, no mapping)
            tree, facts = results if isinstance(results, tuple) else (results, {})
            self._write_tree(tree, facts)
        elif isinstance(results, Mapping):
            from gpmcflow.storage import write_csv

            for name, path in self.output.items():
                write_csv(results[name], path)
        else:
            self._write_figures(results)

    def _write_tree(self, tree: xr.DataTree, facts: Mapping[str, Any]) -> None:
        """Write `output.results` and its sidecar: timings, machine, versions, and what it is made of."""
        from gpmcflow.storage import write_results

        seconds = time.perf_counter() - self._began
        facts = {**facts, "job_seconds": seconds, "job_threads": self._snakemake.threads}
        facts |= {"made_of": self.made_of(), "code": self._snakemake.params.code}
        with finish_first():  # the job is done then, and ends as such
            write_results(tree, self.output.results, sidecar=facts)

    def _write_figures(self, figures: Iterable[tuple[str, Any]]) -> None:
        """Write each figure as soon as it is drawn, by its name below the folder figures."""
        from gpmcflow.storage import write_figure

        paths = {path.partition("/figures/")[2].removesuffix(".png"): path for path in self.output}
        for name, figure in figures:
            write_figure(figure, paths[name])
