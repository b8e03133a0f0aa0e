"""Disturbs a small run as machines and users do, gives the same command again, and compares the bytes.

    python benchmarks/chaos.py [--only KIND] [--cases 80]      # as root; apt-get install faketime
    python benchmarks/chaos.py --table

Kinds: inputs that are replaced, with any time of the file; a changed config; a clock that jumps; another
version that meets the state of an unfinished run; too little memory, by cgroup or by address space; a Dask
worker that is killed for memory; a disk without bytes or without inodes in each stage. A row of `chaos.csv`
is written as soon as a case has ended; what has a row is not done again. A case is passed if the same command
ends in the bytes of an undisturbed run of the same inputs and config, each file by the version that made it,
or in a refusal that names the file and in those bytes when that file is deleted; and if nothing printed a
traceback. Faults of before are in `faults.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import hashlib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from faults import CONFIG as STUDY
from faults import GPMCFLOW, Cluster, ended

import gpmcflow
from gpmcflow.jobs.installation import workflow_home
from gpmcflow.pipeline.verify import verify

ROWS = Path(__file__).with_name("chaos.csv")
COLUMNS = ("case", "kind", "workflow", "what", "disturbed", "told", "outcome", "seconds")
NUMBERS = {
    "replaced input": 12,
    "changed config": 12,
    "clock jumps": 12,
    "another version": 12,
    "memory, cgroup": 10,
    "memory, address space": 8,
    "memory, Dask worker": 2,
    "full disk": 12,
}
PASSED = ("same bytes", "refused by name, then same bytes")
HANGS = 600.0  # seconds
ended_in_time = functools.partial(ended, seconds=HANGS)
MEMORY = Path("/sys/fs/cgroup/memory")  # version 1
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
QUICK = """\
seed: {seed}
data: {{csv: t.csv, target: y}}
likelihood: gaussian
models:
  lines: {{covariance: "{covariance}"}}
"""
CONFIGS = (
    {"seed": 3, "covariance": "linear(a)"},
    {"seed": 4, "covariance": "linear(a)"},
    {"seed": 3, "covariance": "linear(a, sd=2.0)"},
)
TIMES = {  # what replaces a file has this time, None: that of the file before
    "same time": None,
    "1970": 0.0,
    "older by a year": -365.0 * 86400.0,
    "newer by ten years": 3650.0 * 86400.0,
}


def table_of(variant: int) -> str:
    """Data; the variants differ in a digit of one row, or have a row more."""
    rows = [f"{0.07 * k:.2f},{0.3 * k + 0.1 * (k * k % 7):.2f}" for k in range(40 + variant // 2)]
    if variant == 1:
        rows[20] = rows[20][:-1] + ("1" if rows[20][-1] != "1" else "2")
    return "a,y\n" + "\n".join(rows) + "\n"


class Place:
    """A folder with a run in it: which workflow, inputs and config, and which package runs it."""

    def __init__(self, folder: Path, workflow: str, package: Path):
        self.folder, self.workflow, self.package = folder, workflow, package
        self.output = folder.parent / f"{folder.name}.output"
        self.data, self.config = 0, 0
        self.cluster: Cluster | None = None

    def write(self) -> None:
        """Write inputs and config."""
        if self.workflow == "quick":
            (self.folder / "t.csv").write_text(table_of(self.data))
            (self.folder / "c.yaml").write_text(QUICK.format(**CONFIGS[self.config]))
        else:
            scheduler = "null" if self.cluster is None else str(self.cluster.file)
            text = STUDY.format(scheduler=scheduler)
            (self.folder / "c.yaml").write_text(
                text.replace("seed: 3", f"seed: {CONFIGS[self.config]['seed']}")
            )

    def start(
        self, environment: dict | None = None, limit: Callable[[], None] | None = None
    ) -> subprocess.Popen:
        """Give the command."""
        quick = ["--quick"] if self.workflow == "quick" else []
        own = {"PYTHONPATH": str(self.package), "NUMBA_CACHE_DIR": str(self.package / "numba")}
        return subprocess.Popen(
            [*GPMCFLOW, "run", "c.yaml", "--cores", "1", *quick],
            cwd=self.folder, stdout=open(self.output, "w"), stderr=subprocess.STDOUT,
            env={**os.environ, **own, **(environment or {})}, preexec_fn=limit,
        )  # fmt: skip

    def text(self) -> str:
        """What the command has printed."""
        return self.output.read_text(errors="replace")

    def digests(self) -> dict[str, str]:
        """SHA-256 of each NetCDF file and each table of the results, without measured seconds."""
        left_out, results = {".state", "logs", "benchmarks"}, self.folder / "results"
        paths = (p for p in results.rglob("*") if not left_out & set(p.parts))
        return {
            str(p.relative_to(results)): hashlib.sha256(_content(p)).hexdigest()
            for p in paths
            if p.suffix in (".nc", ".csv")
        }


def _content(path: Path) -> bytes:
    """Bytes of a file; of a table without columns of seconds."""
    if path.suffix != ".csv":
        return path.read_bytes()
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return repr([{k: v for k, v in row.items() if "seconds" not in k} for row in rows]).encode()


class Runs:
    """Undisturbed runs of each kind, and the two versions of the package."""

    def __init__(self, base: Path):
        self.base = base
        source = Path(gpmcflow.__file__).parent
        self.versions = []
        for number in range(2):
            folder = base / f"version_{number}"
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / "gpmcflow", ignore=ignore)
            shutil.copy(workflow_home() / "Snakefile", folder)
            for name in ("workflow", "config"):
                shutil.copytree(workflow_home() / name, folder / name)
            if number:
                path = folder / "gpmcflow" / "__init__.py"
                path.write_text(path.read_text().replace(gpmcflow.__version__, "99.0.0"))
            self.versions.append(folder)

    def place(self, workflow: str, folder: Path | None = None) -> Place:
        """An empty folder for a run by the first version."""
        folder = folder or Path(tempfile.mkdtemp(dir=self.base))
        return Place(folder, workflow, self.versions[0])

    @functools.cache  # noqa: B019
    def undisturbed(
        self, workflow: str, data: int, config: int, version: int
    ) -> tuple[dict, float]:
        """Digests of an undisturbed run, and its seconds, those of a second run, with compiled code."""
        for _ in range(2):
            place = self.place(workflow)
            place.data, place.config, place.package = data, config, self.versions[version]
            place.write()
            began = time.monotonic()
            if ended_in_time(place.start()) != 0:
                sys.exit(f"the undisturbed run failed:\n{place.text()}")
            seconds = time.monotonic() - began
            if version or data or config:
                break
        return place.digests(), seconds

    def expected(self, place: Place) -> list[dict[str, str]]:
        """Digests that each file should have one of: those of the version that made it."""
        versions = range(1 + self.versions.index(place.package))
        inputs = place.workflow, place.data, place.config
        return [self.undisturbed(*inputs, version)[0] for version in versions]

    def cut(self, place: Place, rng: random.Random, environment: dict | None = None) -> str:
        """Run a folder to its end, or kill it with its jobs at a random moment; say which."""
        seconds = self.undisturbed(place.workflow, 0, 0, 0)[1]
        process = place.start(environment)
        if rng.random() < 0.3:
            ended_in_time(process)
            return "after the end"
        time.sleep(rng.uniform(0.25, 0.95) * seconds)
        for victim in [*psutil.Process(process.pid).children(recursive=True), process]:
            with contextlib.suppress(psutil.Error):
                victim.kill()
        process.wait()
        return "after a kill"


def outcome(runs: Runs, place: Place, environment: dict | None = None) -> str:
    """Give the same command; if it refuses a file by name, delete that and give it again."""
    expected = runs.expected(place)
    code = ended_in_time(place.start(environment))
    if "Traceback" in place.text():
        return "TRACEBACK: " + place.text()[-600:]
    if code == 0:
        return _compared(place, expected)
    if code is None:
        return "HANGS: " + place.text()[-300:]
    named = [
        place.folder / word.rstrip(":;,")
        for word in re.findall(r"results/[^\s:;,]+", place.text())
        if (place.folder / word.rstrip(":;,")).is_file() and "/logs/" not in word
    ]
    if not named:
        return "FAILED: " + place.text()[-600:]
    for path in named:
        path.unlink(missing_ok=True)
    if ended_in_time(place.start(environment)) != 0:
        return "REFUSED FOR EVER: " + place.text()[-600:]
    same = _compared(place, expected)
    return PASSED[1] if same == PASSED[0] else same


def _compared(place: Place, expected: list[dict[str, str]]) -> str:
    found = place.digests()
    names = {*found, *(name for each in expected for name in each)}
    other = sorted(k for k in names if all(found.get(k) != each.get(k) for each in expected))
    problems = verify(place.folder / "results").problems
    if other or problems:
        return f"OTHER BYTES: {', '.join(other)} {problems}"
    return PASSED[0]


def replaced_input(runs: Runs, rng: random.Random, number: int) -> dict:
    """Replace the table by another one, in some cases during the run."""
    place = runs.place("quick")
    place.write()
    path, how = place.folder / "t.csv", list(TIMES)[number % len(TIMES)]
    seen = path.stat().st_mtime
    if number % 3 == 0:
        process = place.start()
        time.sleep(rng.uniform(0.2, 0.9) * runs.undisturbed("quick", 0, 0, 0)[1])
        when = "at work"
    else:
        process, when = None, runs.cut(place, rng)
    place.data = 1 + number % 2
    if number % 2:
        path.write_text(table_of(place.data))
    else:
        other = path.with_suffix(".new")
        other.write_text(table_of(place.data))
        os.replace(other, path)
    past = TIMES[how]
    stamp = seen if past is None else 0.0 if how == "1970" else seen + past
    os.utime(path, (stamp, stamp))
    code = ended_in_time(process) if process else ""
    told = place.text()
    what = f"variant {place.data}, {how}, {when}"
    return _row(place, what, code, told) | {"outcome": outcome(runs, place)}


def changed_config(runs: Runs, rng: random.Random, number: int) -> dict:
    """Another seed or covariance; the file's time may stay."""
    place = runs.place("quick")
    place.write()
    seen = (place.folder / "c.yaml").stat().st_mtime
    when = runs.cut(place, rng)
    told = place.text()
    place.config = 1 + number % 2
    place.write()
    if number % 4 < 2:
        os.utime(place.folder / "c.yaml", (seen, seen))
    what = f"{('seed', 'covariance')[place.config - 1]}, {when}"
    what += ", same time" if number % 4 < 2 else ""
    return _row(place, what, "", told) | {"outcome": outcome(runs, place)}


def clock_jumps(runs: Runs, rng: random.Random, number: int) -> dict:
    """A clock that jumps within the first run or before the second one, by days or by years."""
    place = runs.place("study" if number == 2 else "quick")
    place.write()
    stamp = runs.base / f"clock {place.folder.name}"
    stamp.write_text("+0")
    fake = {
        "LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(stamp), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # else each timed wait of a thread ends at once: all spin
    }  # fmt: skip
    jump = ("-400d", "+4000d", "-2h", "+90d")[number % 4]
    if number % 2:
        process = place.start(fake)
        time.sleep(rng.uniform(0.2, 0.8) * runs.undisturbed(place.workflow, 0, 0, 0)[1])
        stamp.write_text(jump)
        code, when = ended_in_time(process), "at work"
    else:
        when, code = runs.cut(place, rng, fake), ""
        stamp.write_text(jump)
    told = place.text()
    return _row(place, f"{jump}, {when}", code, told) | {"outcome": outcome(runs, place, fake)}


def another_version(runs: Runs, rng: random.Random, number: int) -> dict:
    """A run that one version began, and another one goes on with."""
    place = runs.place("study" if number % 4 == 1 else "quick")
    place.write()
    when = runs.cut(place, rng)
    told = place.text()
    place.package = runs.versions[1]
    return _row(place, when, "", told) | {"outcome": outcome(runs, place)}


def memory_cgroup(runs: Runs, rng: random.Random, number: int) -> dict:
    """Too little memory by a control group."""
    place = runs.place("study" if number == 5 else "quick")
    place.write()
    most = rng.randrange(60, 320) if place.workflow == "quick" else rng.randrange(150, 500)
    with group(most * 2**20) as own:
        code = ended_in_time(place.start(limit=lambda: enter(own, os.getpid())))
    told = place.text()
    return _row(place, f"{most} MB", code, told) | {"outcome": outcome(runs, place)}


def enter(own: Path, pid: int) -> None:
    """Put a process into a control group."""
    (own / "cgroup.procs").write_text(str(pid))


@contextlib.contextmanager
def group(most: int) -> Iterator[Path]:
    """A control group with so many bytes; what is left in it at the end is killed."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=MEMORY))
    (folder / "memory.limit_in_bytes").write_text(str(most))
    with contextlib.suppress(OSError):
        (folder / "memory.memsw.limit_in_bytes").write_text(str(most))
    try:
        yield folder
    finally:
        for _ in range(50):
            for pid in (folder / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.1)


def memory_address_space(runs: Runs, rng: random.Random, number: int) -> dict:
    """Too little address space, as `ulimit -v` sets it."""
    place = runs.place("quick")
    place.write()
    most = rng.randrange(250, 1500) * 2**20
    code = ended_in_time(
        place.start(limit=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))
    )
    told = place.text()
    return _row(place, f"{most >> 20} MB", code, told) | {"outcome": outcome(runs, place)}


def memory_dask_worker(runs: Runs, rng: random.Random, number: int) -> dict:
    """A Dask worker that the kernel kills for memory, at a random size; whole ones take its place."""
    place = runs.place("study")
    place.cluster = cluster = Cluster(place.folder)
    most = rng.randrange(150, 280)
    try:
        with group(most * 2**20) as own:
            place.write()
            cluster.start()
            process = place.start()
            for worker in cluster.workers:
                enter(own, worker.pid)
            while process.poll() is None:
                if any(worker.poll() is not None for worker in cluster.workers):
                    break
                time.sleep(0.2)
            died = sum(worker.poll() is not None for worker in cluster.workers)
        cluster.start()
        code, told = ended_in_time(process), place.text()
        row = _row(place, f"{most} MB, {died} of 2 killed", code, told)
        return row | {"outcome": outcome(runs, place)}
    finally:
        cluster.stop()


def full_disk(runs: Runs, rng: random.Random, number: int) -> dict:
    """No bytes or no inodes after so many steps; they come back before the second command."""
    workflow = "quick" if number < 10 else "study"
    stage, inodes = (number // 2, number % 2) if number < 10 else (number - 10, 0)
    mount = Path(tempfile.mkdtemp(dir=runs.base))
    size = "size=200m,nr_inodes=3000"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", mount], check=True)
    try:
        place = runs.place(workflow, mount)
        place.write()
        process = place.start()
        while process.poll() is None and len(re.findall(r"(?m)^\d+/\d+ ", place.text())) < stage:
            time.sleep(0.005)
        time.sleep(0.3 * rng.random() + (1.5 if stage == 0 else 0.0))
        filler = mount / "filler"
        filler.mkdir()
        with contextlib.suppress(OSError):
            for k in range(10**6):
                with open(filler / str(k), "wb", buffering=0) as stream:
                    while not inodes:
                        stream.write(bytes(2**20) if k == 0 else bytes(4096))
        code = ended_in_time(process)
        told = place.text()
        shutil.rmtree(filler)
        what = f"no {'inodes' if inodes else 'bytes'} after step {stage}"
        return _row(place, what, code, told) | {"outcome": outcome(runs, place)}
    finally:
        subprocess.run(["umount", "--lazy", mount], check=False)


def _row(place: Place, what: str, code: int | str | None, told: str) -> dict:
    """What was done, and what the disturbed run said: its last line that is no step."""
    if "Traceback" in told:
        raise RuntimeError(f"a traceback: {told[-1500:]}")
    lines = [line for line in told.splitlines() if not re.match(r"\d+/\d+ |done in|report: ", line)]
    said = (lines or [""])[-1] if code not in ("", 0) else ""
    said = said.replace(str(place.folder), "FOLDER")[:200]
    return {"workflow": place.workflow, "what": what, "disturbed": code, "told": said}


KINDS = {
    "replaced input": replaced_input,
    "changed config": changed_config,
    "clock jumps": clock_jumps,
    "another version": another_version,
    "memory, cgroup": memory_cgroup,
    "memory, address space": memory_address_space,
    "memory, Dask worker": memory_dask_worker,
    "full disk": full_disk,
}


def campaign(only: str | None, most: int) -> None:
    """Do the cases that have no row yet."""
    rows = list(csv.DictReader(ROWS.open())) if ROWS.exists() else []
    done = {int(row["case"]) for row in rows}
    cases = [
        (kind, k) for k in range(max(NUMBERS.values())) for kind in NUMBERS if k < NUMBERS[kind]
    ]
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        runs = Runs(Path(name))
        for case, (kind, k) in list(enumerate(cases))[:most]:
            if case in done or (only and kind != only):
                continue
            began = time.monotonic()
            try:
                row = KINDS[kind](runs, random.Random(f"case {case}"), k)
            except Exception as error:  # a row of its own: no case is dropped
                row = {"outcome": f"FAILED: {error}"}
            row |= {"case": case, "kind": kind, "seconds": round(time.monotonic() - began, 1)}
            new = not ROWS.exists()
            with open(ROWS, "a", newline="", encoding="utf-8") as stream:
                writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
                if new:
                    writer.writeheader()
                writer.writerow(row)
            print(row, flush=True)


def table() -> str:
    """Markdown of all rows, a line for each kind."""
    groups: dict[str, Counter] = defaultdict(Counter)
    for row in csv.DictReader(ROWS.open(encoding="utf-8")):
        groups[row["kind"]][row["outcome"].split(":")[0]] += 1
    lines = [f"| kind | cases | {' | '.join(PASSED)} | passed |", "| --- | --- | --- | --- | --- |"]
    total: Counter = Counter()
    for kind in NUMBERS:
        total += groups[kind]
    for name, counts in [*((kind, groups[kind]) for kind in NUMBERS), ("all", total)]:
        number, passed = counts.total(), [counts[outcome] for outcome in PASSED]
        cells = [name, number, *passed, f"{sum(passed)}/{number}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=KINDS, help="one kind")
    parser.add_argument("--cases", type=int, default=sum(NUMBERS.values()), help="the first ones")
    parser.add_argument("--table", action="store_true", help="print the table of all rows")
    options = parser.parse_args()
    if options.table:
        print(table())
    else:
        campaign(options.only, options.cases)


if __name__ == "__main__":
    main()
