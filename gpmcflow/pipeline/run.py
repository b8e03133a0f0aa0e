"""`gpmcflow check`, and `gpmcflow run`: a workflow beside its config, a line for each finished step."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpmcflow.errors import InputErrors, ResourceError, StorageError
from gpmcflow.execution.lock import state_lock
from gpmcflow.execution.memory import kills_for_memory
from gpmcflow.execution.signals import EXIT_CODE
from gpmcflow.jobs.installation import workflow_home
from gpmcflow.jobs.study import PlannedJob
from gpmcflow.pipeline import in_process
from gpmcflow.pipeline.config import check_config, config_problems, load_config
from gpmcflow.pipeline.parent import FRONT_END
from gpmcflow.pipeline.plan import count_runs, optional_outputs_of, outputs_of, planned_jobs
from gpmcflow.pipeline.verify import verify
from gpmcflow.storage.cache_folder import user_caches

_STARTED = re.compile(r"(?:local)?rule (\w+):$")
_FIELD = re.compile(r"    (jobid|wildcards|log): (.+)$")
_FINISHED = re.compile(r"Finished jobid: (\d+) ")
_STEPS = re.compile(r"(\d+) of (\d+) steps")
NO_PROFILE = ("--workflow-profile", "none")
SHORT_OF_MEMORY = (
    "the kernel ended a process for want of memory; run fewer jobs at a time (--cores 1), use fewer rows or "
    "columns, or a machine with more memory (gpmcflow check names what is needed)"
)
_TAIL = 20  # last lines shown of a failure that Snakemake words in its own way


def check(path: str | Path, cores: int, *, quick: bool = False) -> list[str]:
    """Check a config file and the CSV files it names; return lines with the time and memory to expect.

    Raises `InputErrors` with all that is wrong, `StorageError` where results cannot go, and `ResourceError`
    for what cannot fit into memory or disk.
    """
    from gpmcflow.pipeline.forecast import forecast, require_fit

    folder, where = Path(path).resolve().parent, str(path)
    problems = config_problems(load_config(path, quick=quick), where=where, path=path)
    if not problems:
        config = check_for_run(path, quick=quick)
        problems = analysis_problems(config, folder)
    if problems:
        raise InputErrors([line.removeprefix(f"{where}: ") for line in problems], where)
    lines = []
    if config["studies"]:
        n, runs = len(config["problems"]), count_runs(config)
        lines.append(f"{path}: ok, {n} problems of studies, {runs} runs of a method")
    if config["analyses"]:
        cost = forecast(config, cores=cores, folder=folder)
        require_fit(cost)
        own = config["analyses"].values()
        bound = "at most " * any(_may_rule_out(settings) for settings in own)
        lines += [f"{path}: no problems; {bound}{cost.in_words}", *cost.notes, *cost.slowest]
        if all(settings["quick"] for settings in own):
            lines.append(f"next: gpmcflow run {path}{' --quick' * quick}")
        else:
            lines.append(
                f"next: gpmcflow run {path} --quick   # an answer in seconds; without --quick by Monte Carlo"
            )
    return lines


def _may_rule_out(settings: Mapping[str, Any]) -> bool:
    """Whether first fits may leave models of an analysis without draws, which the forecast counts."""
    sampled = not settings["quick"]
    return sampled and len(settings["models"]) > 1 and not settings["sampling"]["every_model"]


def check_for_run(
    path: str | Path, folder: str | Path | None = None, *, quick: bool = False
) -> dict:
    """Return the config of a file, checked as it will be run in a folder, by default its own.

    Raises `InputError` or `StorageError` in one line, as `check_config` and `check_models` do.
    """
    from gpmcflow.jobs.stated_models import check_models

    folder = Path(path).resolve().parent if folder is None else folder
    config = load_config(path, quick=quick)
    config = check_config(config, where=str(path), folder=folder, path=path)
    check_models(config, where=str(path))
    require_results_folders(config, folder)
    return config


def analysis_problems(config: Mapping, folder: Path) -> list[str]:
    """All that is wrong with the files and the models of the analyses of a checked config."""
    from gpmcflow.analysis.reading import problems_of

    analyses = config["analyses"]
    return [
        f"analyses.{name}: {line}" if len(analyses) > 1 else line
        for name, settings in analyses.items()
        for line in problems_of(name, settings, folder, config["seed"])
    ]


def checked_with_files(path: str | Path, *, quick: bool = False) -> dict:
    """As `check_for_run`, with the files and models of analyses; `InputErrors` with all that is wrong."""
    config = check_for_run(path, quick=quick)
    if problems := analysis_problems(config, Path(path).resolve().parent):
        raise InputErrors(problems, str(path))
    return config


def require_results_folders(config: Mapping, folder: str | Path) -> None:
    """Raise `StorageError` where a folder that results go into is something else."""
    results = Path(folder) / "results"
    for place in (results, *(results / name for name in config["analyses"])):
        if place.exists() and not place.is_dir():
            raise StorageError(
                f"{place}: results go into a folder of that name; move what is there"
            )


def run(
    path: str | Path,
    cores: int | None = None,
    options: Sequence[str] = (),
    *,
    quick: bool = False,
) -> int:
    """Run the workflow of a config file in the file's folder; return Snakemake's exit code.

    ``cores`` is the number of jobs at a time, None for all cores. Without ``options`` a line is
    printed for each finished step, or the error; with them Snakemake gets them and speaks for itself.
    Jobs of analyses run without Snakemake where `in_process.takes` them.
    ``quick`` runs an analysis by approximations only; else the forecast of one is printed first.
    Raises `InputErrors` with all that is wrong with the files and models of analyses, before any job runs.
    Ctrl-C, SIGTERM and SIGHUP stop the jobs; the same call goes on from there. At the end
    every file that this config makes is compared with its checksum; a damaged or missing one is a line, and
    exit code 1.
    """
    checked, config = checked_with_files(path, quick=quick), Path(path).resolve()
    here = not options and in_process.takes(checked)
    if checked["analyses"] and not in_process.is_quick(checked):
        from gpmcflow.pipeline.forecast import forecast, require_fit

        cost = forecast(checked, cores=cores or os.cpu_count() or 1, folder=config.parent)
        require_fit(cost)
        print("\n".join([cost.in_words, *cost.notes]), flush=True)
    reported = not options
    began, killed = time.monotonic(), kills_for_memory()
    messages = Messages(config.parent) if reported else None
    own = ("--config", "quick=True") if quick else ()
    if here:
        code, came = _in_process(checked, config, cores or os.cpu_count() or 1)
    else:
        command = snakemake_command(config, cores, one_config([*options, *own]))
        code, came = _snakemake(command, config.parent, messages)
    if came and code:
        print("stopped; the same command goes on from here", file=sys.stderr)
    elif code and messages is not None and not here:
        print("\n".join(messages.failure()), file=sys.stderr)
    if code and kills_for_memory() > killed:
        print(f"gpmcflow run: {SHORT_OF_MEMORY}", file=sys.stderr)
    if code == 0 and (results := config.parent / "results").is_dir():
        jobs = planned_jobs(checked)
        outputs = [*outputs_of(jobs), *optional_outputs_of(jobs)]
        problems = verify(os.path.relpath(results), outputs).problems
        for line in problems:
            print(f"gpmcflow run: {line}", file=sys.stderr)
        code = 1 if problems else 0
    if reported and code == 0:
        print(f"done in {_duration(time.monotonic() - began)}")
        for name in (*checked["analyses"], *(["."] if checked["studies"] else [])):
            report = config.parent / "results" / name / "report.html"
            print(f"report: {os.path.relpath(report)}")
    return code if code >= 0 else 128 - code


def _in_process(checked: dict, config: Path, cores: int) -> tuple[int, list]:
    """Run the jobs of a config without Snakemake; return the exit code, and the signals that came."""
    folder, relative = config.parent, os.path.relpath(config.parent)

    def finished(number: int, total: int, job: PlannedJob, seconds: float) -> None:
        print(_step(number, total, job.rule, " ".join(job.wildcards.values()), seconds), flush=True)

    checked = {**checked, "config_file": config.name}
    (folder / ".snakemake").mkdir(exist_ok=True)
    failure = None
    with _alone(folder), contextlib.chdir(folder), _stopped_by_signals(_raise_interrupt) as came:
        try:
            failure = in_process.run_jobs(checked, cores, finished)
        except KeyboardInterrupt:
            return -came[-1], came
    if failure is None:
        return 0, came
    log, errors = os.path.join(relative, failure.job.log), _errors(failure.ended.text)
    if failure.ended.code == EXIT_CODE and not errors:  # the job was sent the signal itself
        return -signal.SIGTERM, [signal.SIGTERM]
    errors = errors or failure.ended.text.splitlines()[-_TAIL:]
    lines = [*errors, f"failed: {failure.job.rule}, log: {os.path.normpath(log)}"]
    print("\n".join([*lines, _unfinished(relative)]), file=sys.stderr)
    return 1, came


def _errors(text: str) -> list[str]:
    """The errors of a job's own among what it wrote."""
    lines = text.splitlines()
    return [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]


def _unfinished(folder: str) -> str:
    return f"gpmcflow run: not finished; what is finished stays in {folder}/results"


def _step(number: int, total: int, rule: str, names: str, seconds: float) -> str:
    """A line for a finished job."""
    what = f"{rule.replace('_', ' ')}  {names}".rstrip()
    return f"{number:>{len(str(total))}}/{total}  {what:<56}  {_duration(seconds):>8}"


def _snakemake(command: list[str], folder: Path, messages: Messages | None) -> tuple[int, list]:
    """Run Snakemake to its end; return its exit code, and the signals that came meanwhile.

    Its lines go through ``messages``, or, without, where they would go anyway.
    """
    pipe = None if messages is None else subprocess.PIPE
    with _alone(folder) as lock:
        process = subprocess.Popen(
            command,
            stdout=pipe,
            stderr=pipe and subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_hear_interrupts,
            env=_environment(),
            pass_fds=[lock],
        )
        threading.Thread(target=_end_orphans, args=[process], daemon=True).start()
        with _stopped_by_signals(lambda: _interrupt(process)) as came:
            if messages is not None:
                for line in messages.steps(process.stdout):
                    print(line, flush=True)
            return process.wait(), came


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[int]:
    """Hold the lock of the folder a workflow runs in, and give its descriptor, for Snakemake to inherit.

    Snakemake's own lock outlives a Snakemake that was killed; this one is the kernel's, and ends with the
    last process that has it. Raises `ResourceError` if another run has either.
    """
    notes = folder / ".snakemake"
    with state_lock(notes / "gpmcflow") as lock:
        if any((notes / "locks").glob("*.lock")):
            raise ResourceError(
                f"{folder}: a Snakemake without gpmcflow run is at work here, or was killed; wait until it "
                "has ended, or remove its lock: snakemake --unlock, with the options it was started with"
            )
        yield lock


def _environment() -> dict[str, str]:
    """The environment of Snakemake, which needs a folder of caches that it can write to.

    Python modules in the folder of the data are not imported: a `random.py` may lie there.
    """
    folder = user_caches()
    caches = {} if folder is None else {"XDG_CACHE_HOME": str(folder)}
    return dict(os.environ) | {"PYTHONSAFEPATH": "1", FRONT_END: str(os.getpid())} | caches


def _end_orphans(process: subprocess.Popen) -> None:
    """When Snakemake was killed, stop the jobs it leaves behind; they save what they have."""
    process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


def _hear_interrupts() -> None:
    """Let SIGINT stop the child also where this process ignores it, as in the background of a script."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def snakemake_command(config: Path, cores: int | None, options: Sequence[str]) -> list[str]:
    """Return the command that runs the package's own workflow beside a config file.

    Snakemake would take options, and commands, from a `profiles/default` beside the data.
    """
    profile = () if any(word.startswith("--workflow-profile") for word in options) else NO_PROFILE
    return [
        *(sys.executable, "-m", "snakemake", "--snakefile", str(workflow_home() / "Snakefile")),
        *("--configfile", str(config), "--directory", str(config.parent)),
        *(
            "--cores",
            "all" if cores is None else str(cores),
            "--rerun-incomplete",
            "--nolock",
            *profile,
            *options,
        ),
    ]


def one_config(options: Sequence[str]) -> list[str]:
    """Merge the settings of all ``--config`` options into one: Snakemake takes only the last."""
    settings, rest, inside = [], [], False
    for word in options:
        if word in ("--config", "-C"):
            inside = True
        elif word.startswith(("--config=", "-C")):
            settings.append(word.removeprefix("--config=").removeprefix("-C"))
            inside = False
        elif inside and not word.startswith("-"):
            settings.append(word)
        else:
            rest.append(word)
            inside = False
    # at the end: a target after it would be a setting
    return [*rest, "--config", *settings] if settings else rest


class Messages:
    """What Snakemake says while it runs in a folder, read line by line."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.path.relpath(folder)
        self._jobs: dict[str, tuple[str, str, float]] = {}  # jobid -> rule, wildcards, start
        self._errors: list[str] = []  # of our jobs, and which rule failed with its log
        self._last: list[str] = []

    def steps(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield a line for each finished job: its number, what it was, and how long it took."""
        rule, job, seconds, failed = "", "", 0.0, False
        for line in map(str.rstrip, lines):
            self._last = [*self._last, line][-_TAIL:]
            if started := _STARTED.match(line):
                rule, failed = started[1], False
            elif line.startswith("Error in rule "):
                self._errors.append(f"failed: {line.removeprefix('Error in rule ').rstrip(':')}")
                failed = True
            elif line.startswith("ERROR: "):  # a job's own, in one line
                self._errors.append(line.removeprefix("ERROR: "))
            elif field := _FIELD.match(line):
                key, value = field.groups()
                if key == "log" and failed:
                    log = os.path.join(self._folder, value.split(" (check log")[0])
                    self._errors[-1] += f", log: {os.path.normpath(log)}"
                elif key == "jobid" and not failed:
                    job = value
                    self._jobs[job] = rule, "", time.monotonic()
                elif key == "wildcards" and job in self._jobs:
                    names = " ".join(part.split("=", 1)[-1] for part in value.split(", "))
                    self._jobs[job] = self._jobs[job][0], names, self._jobs[job][2]
            elif finished := _FINISHED.match(line):
                job = finished[1]
                began = self._jobs.get(job, ("", "", time.monotonic()))[2]
                seconds = time.monotonic() - began
            elif steps := _STEPS.match(line):
                name, names, _ = self._jobs.get(job, ("", "", 0.0))
                if name != "all":  # the last step, which does nothing
                    yield _step(int(steps[1]), int(steps[2]) - 1, name, names, seconds)

    def failure(self) -> list[str]:
        """Return what went wrong: the jobs' own errors, else the last lines."""
        return [*(self._errors or self._last), _unfinished(self._folder)]


def _interrupt(process: subprocess.Popen) -> None:
    """Stop Snakemake's process group by SIGINT.

    Snakemake has a session of its own, so that a Ctrl-C reaches it and its jobs once, from here. Its own
    handler of SIGTERM takes a lock and hangs where it interrupts a holder of that lock.
    """
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)


def _raise_interrupt() -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _stopped_by_signals(end: Callable[[], None]) -> Iterator[list[int]]:
    """Call ``end`` on any signal that asks to stop; give a list that holds those that came."""
    came: list[int] = []

    def stop(number: int, _: object) -> None:
        came.append(number)
        end()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
