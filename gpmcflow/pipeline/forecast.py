"""Memory, disk and time of a config before anything runs: `gpmcflow forecast`."""

from __future__ import annotations

import heapq
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpmcflow.errors import ResourceError
from gpmcflow.execution import Progress, default_memory_limit, pin_blas, require_memory
from gpmcflow.execution.disk import free_disk, human_bytes, require_disk
from gpmcflow.jobs.costs import Context, Cost, share_of_core, startup
from gpmcflow.jobs.problems import limit_bytes
from gpmcflow.jobs.study import PlannedJob
from gpmcflow.monitor.status import aligned, clock
from gpmcflow.pipeline import in_process
from gpmcflow.pipeline.plan import planned_jobs
from gpmcflow.pipeline.studies import studies_of
from gpmcflow.storage.atomic import write_error

__all__ = ["Forecast", "JobForecast", "forecast", "forecast_table", "require_disk", "require_fit"]

BUSY = 0.7  # share of a core below which the time now is told, too
OF_ANALYSES = (
    'give its models "structure: basis", leave columns or rows out, or raise memory_limit_gb'
)
LONG = 600.0  # seconds above which the slowest model is named
TABLE_SECONDS, TABLE_BYTES = 2.0, 1_000_000  # of a table or a figure, beside the start of Python


def _prepare_cost(context: Context, job: PlannedJob) -> Cost | None:
    loaded = context.data(Path(job.output).stem)
    if loaded is None:
        return None
    seconds, dataset = loaded
    return context.single(seconds, 4 * dataset.nbytes, dataset.nbytes)


@dataclass(frozen=True)
class JobForecast:
    """One job and what it needs; None where its data set is not on this machine."""

    job: PlannedJob
    cost: Cost | None
    cores: int
    minor: bool = False  #: a table, a figure or a page


@dataclass(frozen=True)
class Forecast:
    """What a config needs, and what there is."""

    jobs: list[JobForecast]
    cores: int
    seconds: float  #: from the first job to the last, if the cores have nothing else to do
    share: float  #: of a core that each of so many jobs would get now
    memory: int  #: bytes of the largest jobs that fill the cores
    memory_limit: int
    disk: int
    disk_free: int | None
    folder: str
    notes: tuple[str, ...] = ()  #: models that would do better in another way

    @property
    def in_words(self) -> str:
        """Time and memory in a few words."""
        busy = self.share < BUSY
        now = f" ({_spoken(self.seconds / self.share)} while the machine is as busy as now)" * busy
        cores = f"{self.cores} core{'s' * (self.cores > 1)}"
        return f"about {_spoken(self.seconds)} on {cores}{now}, {human_bytes(self.memory)}"

    @property
    def slowest(self) -> list[str]:
        """Of what takes long: the model with the most seconds, and what the others take; else nothing."""
        seconds: dict[str, float] = {}
        for job in self.jobs:
            name = job.job.wildcards.get("model")
            if name is not None and job.cost is not None:
                seconds[name] = seconds.get(name, 0.0) + job.cost.seconds
        if self.seconds < LONG or len(seconds) < 2:
            return []
        longest = max(seconds, key=lambda name: seconds[name])
        rest = sum(seconds.values()) - seconds[longest]
        return [
            f"of the models {longest} takes most, {_spoken(seconds[longest])}, the others "
            f"{_spoken(rest)} together: delete those under models that are not worth it"
        ]

    @property
    def unknown(self) -> list[JobForecast]:
        """Jobs whose data set is not here."""
        return [job for job in self.jobs if job.cost is None]


def forecast(config: dict, *, cores: int = 1, folder: str | Path = ".") -> Forecast:
    """Forecast memory, disk and time of a checked config from short measurements on this machine.

    The data sets that are here are loaded and fitted (a subset of those with many cases), and a few
    transitions of each method are timed with one block of chains at full size. Seconds are those of a
    quiet machine, for tables and figures a few each; divided by `share` they are those of this one if
    it stays as busy as it is. Jobs whose data are not here are left out of the sums. `folder` is where
    the workflow runs.
    """
    pin_blas()
    try:
        measured = tempfile.TemporaryDirectory(dir=folder, prefix=".forecast-")
    except OSError as error:
        raise write_error(folder, error) from None
    with measured as place:
        started = in_process.takes(config)
        context = Context(config, Path(place), Path(folder), cores, started)
        jobs = _measured(context, planned_jobs(config))
    limit = limit_bytes(config["memory_limit_gb"]) or default_memory_limit()
    return Forecast(
        jobs,
        cores,
        _makespan(jobs, cores) + started * startup()[0],
        share_of_core(min(cores, os.cpu_count() or cores)),
        _peak_memory(jobs, cores),
        limit,
        sum(job.cost.disk for job in jobs if job.cost),
        free_disk(folder),
        str(folder),
        tuple(context.notes),
    )


def require_fit(needs: Forecast) -> None:
    """Raise `ResourceError`, with the numbers, if a job cannot fit into memory or all into the disk."""
    largest = max((job for job in needs.jobs if job.cost), key=lambda job: job.cost.memory)
    remedy = {"remedy": OF_ANALYSES} if largest.job.rule.startswith("analysis_") else {}
    try:
        require_memory(largest.cost.memory, needs.memory_limit, largest.job.output, **remedy)
    except ResourceError as error:
        raise ResourceError("; ".join([str(error), *needs.notes[:1]])) from None
    if needs.memory > needs.memory_limit:
        raise ResourceError(
            f"{needs.cores} cores: the largest jobs need {human_bytes(needs.memory)} side by side, "
            f"over the limit of {human_bytes(needs.memory_limit)}; use fewer cores, or tell "
            "Snakemake with --resources mem_mb=... what may be used."
        )
    require_disk(needs.disk, needs.folder, "the results and their state")


def _costs(config: dict) -> dict[str, Callable[[Context, PlannedJob], Cost | None]]:
    """Rule -> forecast of its cost, of the studies of a config; tables, figures and pages have none."""
    own = {r: cost for study in studies_of(config) for r, cost in study.load("costs").items()}
    return {"prepare": _prepare_cost, **own}


def _measured(context: Context, planned: list[PlannedJob]) -> list[JobForecast]:
    """The forecast of each job; large configs take minutes, so a terminal shows how far it is."""
    progress, jobs = Progress("forecast", len(planned), unit="jobs"), []
    costs = _costs(context.config)
    for job in planned:
        jobs.append(_job(context, job, costs.get(job.rule)))
        progress.update()
    progress.close()
    return jobs


def _job(
    context: Context, job: PlannedJob, cost: Callable[[Context, PlannedJob], Cost | None] | None
) -> JobForecast:
    if cost is None:
        own = Cost(context.start_of_job + TABLE_SECONDS, 2 * startup()[1], TABLE_BYTES)
        return JobForecast(job, own, 1, minor=True)
    cores = min(job.stage.ask.threads(context.config, job), context.cores)
    if job.problem in context.config["problems"] and context.dataset(job.problem) is None:
        return JobForecast(job, None, cores)
    context.workers = cores
    return JobForecast(job, cost(context, job), cores)


def _makespan(jobs: list[JobForecast], cores: int) -> float:
    """Seconds until the last job ends if each starts as soon as its inputs and its cores are there."""
    outputs = {path for j in jobs for path in j.job.outputs.values()}
    ends: dict[str, float] = {}
    waiting = list(jobs)
    running: list[tuple[float, int, JobForecast]] = []
    free, now = cores, 0.0
    while waiting or running:
        ready = [
            j
            for j in waiting
            if all(ends.get(need, now + 1) <= now for need in outputs.intersection(j.job.needs))
        ]
        for job in ready:
            wanted = min(job.cores, cores)
            if wanted <= free:
                waiting.remove(job)
                free -= wanted
                seconds = job.cost.seconds if job.cost else 0.0
                heapq.heappush(running, (now + seconds, id(job), job))
        now, _, done = heapq.heappop(running)
        ends |= dict.fromkeys(done.job.outputs.values(), now)
        free += min(done.cores, cores)
    return now


def _peak_memory(jobs: list[JobForecast], cores: int) -> int:
    """Bytes of the largest jobs that run side by side."""
    total, free = 0, cores
    for job in sorted((j for j in jobs if j.cost), key=lambda j: -j.cost.memory):
        wanted = min(job.cores, cores)
        if wanted <= free:
            free -= wanted
            total += job.cost.memory
    return total


def _spoken(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5)):g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def forecast_table(needs: Forecast) -> str:
    """Return a forecast as a table for people: a row for each rule and problem, then the totals."""
    groups: dict[tuple[str, str], list[JobForecast]] = {}
    for job in needs.jobs:
        own = (job.job.rule, job.job.problem or "")
        key = ("tables, figures, report", "") if job.minor else own
        groups.setdefault(key, []).append(job)
    rows = [("rule", "problem", "jobs", "cores", "time each", "time", "memory", "disk")]
    for (rule, problem), jobs in groups.items():
        rows.append((rule, problem, str(len(jobs)), str(jobs[0].cores), *_cells(jobs)))
    lines = aligned(rows)
    free = "unknown" if needs.disk_free is None else human_bytes(needs.disk_free)
    work = sum(job.cost.seconds * job.cores for job in needs.jobs if job.cost)
    lines += [
        "",
        f"time    {clock(needs.seconds)} on {needs.cores} cores ({clock(work)} of one core), "
        f"{clock(needs.seconds / needs.share)} if they stay as busy as now ({needs.share:.0%} free)",
        f"memory  {human_bytes(needs.memory)} side by side, limit {human_bytes(needs.memory_limit)}",
        f"disk    {human_bytes(needs.disk)}, state included; free {free}",
    ]
    if needs.unknown:
        lines.append(
            f"unknown {len(needs.unknown)} jobs, whose data are not on this machine: not in the totals"
        )
    return "\n".join(lines)


def _cells(jobs: list[JobForecast]) -> tuple[str, ...]:
    costs = [job.cost for job in jobs if job.cost]
    if len(costs) < len(jobs):
        return ("unknown",) * 4
    seconds = [cost.seconds for cost in costs]
    span = clock(min(seconds))
    if clock(max(seconds)) != span:
        span += f" - {clock(max(seconds))}"
    return (
        span,
        clock(sum(seconds)),
        human_bytes(max(cost.memory for cost in costs)),
        human_bytes(sum(cost.disk for cost in costs)),
    )
