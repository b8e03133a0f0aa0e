"""The jobs of a config without Snakemake: in this process, and in processes that it forks.

A process of its own takes two seconds to load what a job needs, which a fork of this one has. The jobs call
the same functions, write the same files, and leave the notes that Snakemake would (`Notes`): either goes on
from what the other made.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import io
import json
import logging
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from gpmcflow.errors import GpmcflowError
from gpmcflow.execution.pools import CAN_FORK
from gpmcflow.jobs.study import PlannedJob, listed
from gpmcflow.pipeline.plan import Plan, outputs_of
from gpmcflow.storage.atomic import atomic_path
from gpmcflow.storage.machine import machine_error

RECORD_FORMAT = 6  # of Snakemake's notes, as they are written here
_LONGEST_NAME = 254  # of a file of such a note
_SIGNAL_OF_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG of prctl
# loaded once, before processes are forked
_HEAVY = ("gpmcflow.analysis.steps", "dask.array")
_OF_PAGES = ("gpmcflow.analysis.page.page", "sklearn.linear_model")  # while a core is free
_OF_DRAWS = ("arviz_stats", "distributed", "h5netcdf", "scipy.stats")  # Dask asks `distributed`


class Ended(NamedTuple):
    """How a job ended: its exit code, what it wrote to stderr, and its seconds."""

    code: int
    text: str
    seconds: float


class Failure(NamedTuple):
    """A job that failed, and how."""

    job: PlannedJob
    ended: Ended


class _Running(NamedTuple):
    """A job in a process of its own, with the cores it has, and when it began."""

    job: PlannedJob
    process: ForkProcess
    threads: int
    began: float


def takes(config: Mapping[str, Any]) -> bool:
    """Whether the jobs of a config are run here, if no options of Snakemake are given.

    Analyses alone are, by Monte Carlo where each job can be forked, and not beside threads such as those of a
    notebook: a lock that one of them holds is never released in a fork.
    """
    if config["studies"] or not config["analyses"]:
        return False
    alone = threading.active_count() == 1
    forks = CAN_FORK and alone and not config["execution"]["scheduler"]
    return (is_quick(config) or forks) and usable()


def is_quick(config: Mapping[str, Any]) -> bool:
    """Whether all that a config runs are quick analyses."""
    analyses = config["analyses"].values()
    return bool(analyses) and not config["studies"] and all(own["quick"] for own in analyses)


def usable() -> bool:
    """Whether the Snakemake of this environment keeps its notes as `Notes` does, so that none is misread."""
    found = importlib.util.find_spec("snakemake")
    if found is None or found.origin is None:
        return False
    folder = Path(found.origin).parent
    sources = [folder / "persistence.py", folder / "persistence" / "__init__.py"]
    texts = [path.read_text(encoding="utf-8") for path in sources if path.is_file()]
    stated = re.findall(r"^RECORD_FORMAT_VERSION = (\d+)$", "\n".join(texts), re.MULTILINE)
    return stated == [str(RECORD_FORMAT)]


def run_jobs(
    config: dict[str, Any], cores: int, finished: Callable[[int, int, PlannedJob, float], None]
) -> Failure | None:
    """Run the jobs of a checked config in the current folder that are not done; return the first failure.

    ``cores`` is the number of jobs at a time, or of their workers. ``finished(k, n, job, seconds)`` is called
    after the k-th of n. Small jobs of quick analyses run in this process, which loads what pages need while
    a core is free; others run in processes of their own where the system forks, so that the memory of a job,
    and what kills it, end with it.
    """
    plan = Plan(config)
    stale = _stale(plan)
    waiting, done, running = list(stale), 0, {}  # type: list[PlannedJob], int, dict[Any, _Running]
    here, cores = is_quick(config), cores if CAN_FORK else 1

    def startable() -> Iterator[tuple[PlannedJob, int]]:
        """Jobs that need no other and find a core, with the cores they ask for or their share of those left.

        Much of a draw is a pilot of one core, so that two of them side by side are quicker than one by one.
        """
        made = set(outputs_of([*waiting, *(own.job for own in running.values())]))
        ready = [job for job in waiting if not made & set(job.needs)]
        asked = [min(plan.threads(job.stage)(job.wildcards), cores) for job in ready]
        free = left = cores - sum(own.threads for own in running.values())
        for job, threads in zip(ready, asked, strict=True):
            if not left:
                return
            share = min(max(free * threads // max(sum(asked), free), 1), left)
            left -= share
            yield job, share

    failure: Failure | None = None
    others = multiprocessing.active_children()
    try:
        while running or (waiting and failure is None):
            starting = [] if failure else list(startable())
            alone = here and starting and (starting[0][0].stage.local or cores == 1)
            first = starting.pop(0) if alone else None
            for job, threads in starting:
                waiting.remove(job)
                running |= _forked(plan, job, threads)
            ended = []
            if first:
                # what is loaded for it is there for those that are forked later
                waiting.remove(first[0])
                ended.append((first[0], _called(plan, *first)))
            elif here and cores > sum(own.threads for own in running.values()):
                load(_OF_PAGES)
            for end in connection.wait(list(running), timeout=0.0 if ended else None):
                own = running.pop(end)
                ended.append((own.job, _received(end, own)))
            for job, how in ended:
                if how.code:
                    failure = failure or Failure(job, how)
                else:
                    done += 1
                    finished(done, len(stale), job, how.seconds)
    finally:
        # not those of `running`: a signal may come before one is there
        _end([process for process in multiprocessing.active_children() if process not in others])
    return failure


def _end(processes: Sequence[multiprocessing.process.BaseProcess]) -> None:
    """End the processes of jobs, each after the segment it is at; at once if a signal comes meanwhile."""
    try:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
    except BaseException:
        for process in processes:
            process.kill()
        raise


def _stale(plan: Plan) -> list[PlannedJob]:
    """Jobs that are not done, in the order of the plan: their own notes differ, or what they read is new."""
    stale: list[PlannedJob] = []
    fresh: set[str] = set()
    for job in plan.jobs:
        if fresh & set(job.needs) or not Notes(plan, job).hold():
            stale.append(job)
            fresh |= set(outputs_of([job]))
    return stale


class Notes:
    """What Snakemake notes of outputs in ``.snakemake/metadata``: it makes them again if that changes.

    The file of a note is named by the output's path in base 64, as in `snakemake.persistence`.
    """

    def __init__(self, plan: Plan, job: PlannedJob) -> None:
        self._job, self._files = job, outputs_of([job])
        inputs = plan.inputs(job.stage)(job.wildcards).values()
        self._inputs = sorted({path for files in inputs for path in listed(files)})
        self._params = sorted(map(repr, params_of(plan, job).values()))

    def hold(self) -> bool:
        """Whether all outputs are there, as their notes say, and newer than what they were made of."""
        try:
            made = min(os.stat(path).st_mtime_ns for path in self._files)
            read = max((os.stat(path).st_mtime_ns for path in self._inputs), default=0)
        except OSError:
            return False
        if read > made or any(_note("incomplete", path).exists() for path in self._files):
            return False
        return all(self._same(path) for path in self._files)

    def _same(self, path: str) -> bool:
        try:
            note = json.loads(_note("metadata", path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        own = (note.get("rule"), note.get("input"), note.get("params"))
        return own == (self._job.rule, self._inputs, self._params)

    def write(self, began: float) -> None:
        """Write the notes of outputs that have been made since a time."""
        for path in self._files:
            note = {
                "rule": self._job.rule,
                "input": self._inputs,
                "log": [self._job.log],
                "params": self._params,
                "record_format_version": RECORD_FORMAT,
                "starttime": began,
                "endtime": os.stat(path).st_mtime,
                "incomplete": False,
                "input_checksums": {},
            }
            file = _note("metadata", path)
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(file) as temporary:
                temporary.write_text(json.dumps(note), encoding="utf-8")
            _note("incomplete", path).unlink(missing_ok=True)


def _note(kind: str, path: str) -> Path:
    name = urlsafe_b64encode(path.encode()).decode()
    parts = [name[k : k + _LONGEST_NAME] for k in range(0, len(name), _LONGEST_NAME)]
    return Path(".snakemake", kind, *(f"@{part}" for part in parts[:-1]), parts[-1])


def params_of(plan: Plan, job: PlannedJob) -> dict[str, Any]:
    """What the rule of a job has as params: see `workflow/rules/stages.smk`."""
    stage, wildcards = job.stage, job.wildcards
    return {
        "entry": stage.entry,
        "settings": plan.settings(stage)(wildcards),
        "sources": plan.sources(stage)(wildcards),
        "seed": plan.config["seed"],
        "block_size": plan.config["execution"]["block_size"] if stage.in_blocks else None,
        "code": plan.code(stage)(wildcards),
    }


class Named(list):
    """A list of which some items, or some runs of them, have names, as a script of Snakemake gets them."""

    def __init__(self, values: Mapping[str, Any], *, flat: bool = False) -> None:
        super().__init__()
        self._named = {
            name: own if not flat or isinstance(own, str) else list(own)
            for name, own in values.items()
        }
        for own in self._named.values():
            self.extend([own] if not flat or isinstance(own, str) else own)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_named"][name]
        except KeyError:
            raise AttributeError(name) from None

    def keys(self) -> Any:
        """The names."""
        return self._named.keys()

    def items(self) -> Any:
        """Names and what they stand for."""
        return self._named.items()


def _as_in_a_script(plan: Plan, job: PlannedJob, threads: int) -> SimpleNamespace:
    """The object that Snakemake puts into the script of a rule."""
    stage = job.stage
    return SimpleNamespace(
        config=plan.config,
        rule=stage.rule,
        params=Named(params_of(plan, job)),
        wildcards=Named(job.wildcards),
        input=Named(plan.inputs(stage)(job.wildcards), flat=True),
        output=Named({name: path.format(**job.wildcards) for name, path in stage.files.items()}),
        log=[job.log],
        threads=threads,
    )


def call(plan: Plan, job: PlannedJob, threads: int = 1) -> None:
    """Make a job's outputs in this process, or in ``threads`` workers of it, and its notes."""
    from gpmcflow.jobs.job import run_job

    began = time.time()
    for path in [*outputs_of([job]), job.log]:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(job.log).unlink(missing_ok=True)
    run_job(_as_in_a_script(plan, job, threads))
    Notes(plan, job).write(began)


def _called(plan: Plan, job: PlannedJob, threads: int) -> Ended:
    """How a job ended that was called in this process."""
    began, text = time.monotonic(), io.StringIO()
    try:
        with contextlib.redirect_stderr(text), _own_logging():
            call(plan, job, threads)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except (
        GpmcflowError
    ) as error:  # while a note beside a job is written: the job reports its own errors
        code = 1
        text.write(f"ERROR: {error}\n")
    except Exception as error:
        import traceback

        code = 1
        if short := machine_error(error):
            text.write(f"ERROR: {short}\n")
        else:
            traceback.print_exc(file=text)
    return Ended(code, text.getvalue(), time.monotonic() - began)


@contextlib.contextmanager
def _own_logging() -> Iterator[None]:
    """Keep what a job does to the logger of the package to the job."""
    log = logging.getLogger("gpmcflow")
    kept = log.handlers[:], log.level, log.propagate
    try:
        yield
    finally:
        log.handlers[:], log.propagate = kept[0], kept[2]
        log.setLevel(kept[1])


def load(modules: Sequence[str]) -> None:
    """Import modules by name; those that are loaded cost nothing."""
    import importlib

    for module in modules:
        importlib.import_module(module)


def _forked(plan: Plan, job: PlannedJob, threads: int) -> dict[Any, _Running]:
    """A process for a job, by the end of the pipe that tells how it ended."""
    load((*_HEAVY, *(() if is_quick(plan.config) else _OF_DRAWS)))
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(plan, job, threads, there))
    process.start()
    there.close()
    return {here: _Running(job, process, threads, time.monotonic())}


def _child(plan: Plan, job: PlannedJob, threads: int, there: Any) -> None:
    import dask

    dask.config.set(scheduler="synchronous")  # the threads of a pool that Dask has are not copied
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and ends this
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    _end_without_parent()
    there.send(_called(plan, job, threads))
    there.close()
    sys.stdout.flush()
    os._exit(0)  # what a process frees at its end is freed with it


def _end_without_parent() -> None:
    """Let the kernel send this process SIGTERM when its parent is gone, however that ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    ctypes.CDLL(None).prctl(_SIGNAL_OF_PARENTS_DEATH, signal.SIGTERM)
    if os.getppid() != parent.pid:  # it was gone before
        os.kill(os.getpid(), signal.SIGTERM)


def _received(end: Any, own: _Running) -> Ended:
    process = own.process
    try:
        ended = end.recv()
        process.join()
    except EOFError:
        process.join()
        assert process.exitcode is not None
        text = f"the process ended with code {process.exitcode}"
        if process.exitcode < 0:
            text = f"the process was killed by {signal.Signals(-process.exitcode).name}"
            if process.exitcode == -signal.SIGKILL:
                text += ", as the kernel does where memory is short"
        ended = Ended(1, f"ERROR: {text}", time.monotonic() - own.began)
    finally:
        end.close()
    return ended
