"""Disturbs a whole workflow in a random way, gives the same command again, and compares the bytes.

    python benchmarks/faults.py --faults 200 [--lanes 2] [--first 0]
    python benchmarks/faults.py --faults 20 --disk                      # as root: full disk, vanished mount
    python benchmarks/faults.py --table
    python benchmarks/faults.py --flips 1000 --results results    # of a finished run: does verify see each

Each fault is drawn from its number: of which kind it is, when it comes, what it hits. Its row goes to
`faults.jsonl` as soon as it has ended; what has a row is not done again, so that the run goes on where it was
stopped. A fault is passed if the same command ends in the bytes of an undisturbed run, or in a refusal that
names the damaged file, and in those bytes when that file is deleted, as the refusal says. A command that is
still at work after seven minutes hangs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from gpmcflow.monitor.status import job_statuses
from gpmcflow.pipeline.verify import verify

ROWS = Path(__file__).with_name("faults.jsonl")
KILLS = ("kill job", "kill worker", "kill scheduler", "kill Snakemake", "stop job")
DAMAGE = ("flip segment", "flip checkpoint", "flip result", "flip sidecar", "delete file")
AFTER_THE_END = ("flip result", "flip sidecar", "delete file")  # may come then, too
DISK = ("full disk", "vanished mount")
HANGS = 420.0  # seconds; a job waits five minutes for a scheduler
GPMCFLOW = [sys.executable, "-c", "import sys; from gpmcflow.cli import main; sys.exit(main())"]
CONFIG = """
seed: 3
execution: {{block_size: 8, segment_length: 2, scheduler: {scheduler}}}
datasets:
  drawn: {{shahbaba_simulated: {{n: 150}}}}
problems:
  drawn: {{dataset: drawn, hyperparameters: {{log_length_scale: 1.0, log_signal_sd: 0.0}}}}
studies:
  rmhmc_ais:
    problems: [drawn]
    illustrations: false
    methods:
      hmc_prior: {{sampler: hmc, reference: prior, ladder: power, temperatures: [60],
        particles: 16, replicates: 1,
        step_size: 0.1, n_steps: 60}}
      is_ep: {{kind: importance_sampling, particles: 50, replicates: 1}}
"""


def ended(process: subprocess.Popen, seconds: float) -> int | None:
    """Exit code, None after a hang, which is ended with all that it started."""
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        for victim in [*psutil.Process(process.pid).children(recursive=True), process]:
            with contextlib.suppress(psutil.Error):
                victim.kill()
        process.wait()
        return None


@dataclass
class Folder:
    """One run's folder, the cluster it uses if any, and what hit it."""

    path: Path
    cluster: Cluster | None = None
    damaged: list[Path] = field(default_factory=list)

    def prepare(self) -> None:
        """Write the config."""
        scheduler = "null" if self.cluster is None else str(self.cluster.file)
        (self.path / "c.yaml").write_text(CONFIG.format(scheduler=scheduler))

    def start(self) -> subprocess.Popen:
        """Give the command."""
        return subprocess.Popen(
            [*GPMCFLOW, "run", "c.yaml", "--cores", "2"],
            cwd=self.path, stdout=open(self.path / "output", "w"), stderr=subprocess.STDOUT,
        )  # fmt: skip

    def wait(self, process: subprocess.Popen) -> int:
        """Return the exit code, -1 after a hang, which is ended with all that it started."""
        code = ended(process, HANGS)
        return -1 if code is None else code

    def digests(self) -> dict[str, str]:
        """SHA-256 of each NetCDF file of the results."""
        paths = sorted(p for p in (self.path / "results").rglob("*.nc") if ".state" not in p.parts)
        return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}

    def whole(self, expected: dict[str, str]) -> bool:
        """Whether the results are those of an undisturbed run, and their checksums hold."""
        return self.digests() == expected and not verify(self.path / "results").problems

    def files(self, kind: str) -> list[Path]:
        """Files that damage of a kind may hit."""
        results = self.path / "results"
        if kind in ("flip segment", "flip checkpoint"):
            return sorted(results.glob(f".state/**/{kind.removeprefix('flip ')}_*.npz"))
        seen = (
            p for p in results.rglob("*") if not {".state", "logs", "benchmarks"} & set(p.parts)
        )
        files = sorted(p for p in seen if p.is_file() and p.suffix != ".tmp")
        sidecars = [p for p in files if p.suffix == ".sha256" or p.name.endswith(".nc.json")]
        if kind == "flip sidecar":
            return sidecars
        if kind == "flip result":
            return [p for p in files if p not in sidecars]
        return files + self.files("flip segment") + self.files("flip checkpoint")

    def jobs(self, process: subprocess.Popen) -> list[psutil.Process]:
        """Scripts that Snakemake runs at the moment."""
        found = []
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if any(".snakemake/scripts" in word for word in child.cmdline()):
                        found.append(child)
        return [job for job in found if "bin/sh" not in job.cmdline()[0]]


class Cluster:
    """A Dask scheduler and two workers, each a process of its own."""

    def __init__(self, folder: Path):
        self.file = folder / "scheduler.json"
        self.scheduler: subprocess.Popen | None = None
        self.workers: list[subprocess.Popen] = []

    def start(self) -> None:
        """Start what is not at work."""
        log = open(self.file.with_name("cluster.log"), "a")  # noqa: SIM115
        dask = [sys.executable, "-m", "dask"]
        if self.scheduler is None or self.scheduler.poll() is not None:
            self.file.unlink(missing_ok=True)
            self.stop()
            options = [
                "--scheduler-file",
                self.file,
                "--host",
                "127.0.0.1",
                "--port",
                "0",
                "--no-dashboard",
            ]
            self.scheduler = subprocess.Popen(
                [*dask, "scheduler", *options], stdout=log, stderr=log
            )
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) < 2:
            options = [
                "--scheduler-file",
                self.file,
                "--nthreads",
                "1",
                "--no-nanny",
                "--no-dashboard",
            ]
            self.workers.append(
                subprocess.Popen([*dask, "worker", *options], stdout=log, stderr=log)
            )

    def stop(self) -> None:
        """Kill all of it."""
        for process in (*self.workers, *filter(None, [self.scheduler])):
            process.kill()
            process.wait()


def hit(kind: str, folder: Folder, process: subprocess.Popen, rng: random.Random) -> str | None:
    """Do the damage; return what was hit, None if there is nothing to hit yet, or it has just gone."""
    try:
        return _hit(kind, folder, process, rng)
    except (psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError):
        return None


def _hit(kind: str, folder: Folder, process: subprocess.Popen, rng: random.Random) -> str | None:
    if kind in DAMAGE:
        files = folder.files(kind)
        if not files:
            return None
        path = rng.choice(files)
        folder.damaged.append(path)
        if kind == "delete file":
            path.unlink()
        else:
            flip(path, rng)
        return str(path.relative_to(folder.path / "results"))
    if kind == "kill Snakemake":
        children = psutil.Process(process.pid).children()
        if not children:
            return None
        with_jobs = rng.random() < 0.5
        if with_jobs:
            os.killpg(children[0].pid, signal.SIGKILL)
        else:
            children[0].kill()
        return "with its jobs" if with_jobs else "alone"
    if kind in ("kill worker", "kill scheduler"):
        if not folder.jobs(process):
            return None
        victim = (
            folder.cluster.scheduler if "scheduler" in kind else rng.choice(folder.cluster.workers)
        )
        victim.kill()
        return "the scheduler" if "scheduler" in kind else "one of two"
    jobs = folder.jobs(process)
    if kind == "stop job":
        return stop(folder, jobs)
    if not jobs:
        return None
    job = rng.choice(jobs)
    name = job.cmdline()[-1].split(".")[-2]
    job.kill()
    return name


def flip(path: Path, rng: random.Random) -> None:
    """Change eight neighbouring bytes in place; half of the times the file's times stay, as on a bad disk."""
    seen = path.stat()
    at = rng.randrange(max(seen.st_size - 7, 1))
    with open(path, "r+b") as stream:
        stream.seek(at)
        before = stream.read(8)
        stream.seek(at)
        stream.write(bytes(byte ^ rng.randrange(1, 256) for byte in before))
    if rng.random() < 0.5:
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def stop(folder: Folder, jobs: list[psutil.Process]) -> str | None:
    """Stop a job that has written segments; kill it when `gpmcflow status` calls it stalled."""
    pids = {job.pid: job for job in jobs}
    with contextlib.suppress(OSError):
        for status in job_statuses(folder.path / "results"):
            if status.pid in pids and status.seconds_per_segment and status.state == "running":
                pids[status.pid].suspend()
                began = time.monotonic()
                while time.monotonic() - began < HANGS:
                    time.sleep(1)
                    told = [s for s in job_statuses(folder.path / "results") if s.pid == status.pid]
                    if told and told[0].state == "stalled":
                        pids[status.pid].kill()
                        return f"stalled after {time.monotonic() - began:.0f} s"
                raise RuntimeError("a stopped job is never called stalled")
    return None


def one_fault(number: int, kind: str, base: Path, finished: Path, seconds: float) -> dict:
    """Do one fault in a folder below `base`; return its row."""
    rng = random.Random(f"fault {number} {kind}")
    began = time.monotonic()
    while True:  # until something was hit
        path = Path(tempfile.mkdtemp(dir=base))
        cluster = Cluster(path) if kind in ("kill worker", "kill scheduler") else None
        folder, late = Folder(path, cluster), kind in AFTER_THE_END and rng.random() < 0.35
        try:
            if late:  # after the end of the run
                shutil.copytree(finished, path, dirs_exist_ok=True, symlinks=True)
            folder.prepare()
            if cluster is not None:
                cluster.start()
            process = folder.start() if not late else None
            moment = rng.uniform(0.0, seconds)
            what, since = None, time.monotonic()
            while what is None and (late or process.poll() is None):
                if late or time.monotonic() - since >= moment:
                    what = hit(kind, folder, process, rng)
                time.sleep(0.01)
            if what is None:
                folder.wait(process)
                continue
            row = {"fault": number, "kind": kind, "hit": what, "after_the_end": late}
            if kind == "kill scheduler":
                time.sleep(rng.uniform(0.0, 10.0))
            if cluster is not None:
                cluster.start()
            row["disturbed"] = None if late else folder.wait(process)
            row["outcome"] = outcome(folder, json.loads((finished / "digests").read_text()))
            return row | {"seconds": round(time.monotonic() - began, 1)}
        finally:
            if cluster is not None:
                cluster.stop()
            shutil.rmtree(path, ignore_errors=True)


def outcome(folder: Folder, expected: dict[str, str]) -> str:
    """Give the same command; if it refuses a file by name, delete that and give it again."""
    code = folder.wait(folder.start())
    if code == 0:
        return "same bytes" if folder.whole(expected) else "OTHER BYTES"
    text = (folder.path / "output").read_text()
    if code == -1:
        return "HANGS: " + text[-300:]
    refused = [p for p in folder.damaged if _target(p) in text]
    if not refused:
        return "FAILED: " + text[-1000:]
    for damaged in refused:
        damaged.unlink(missing_ok=True)
        if damaged.suffix == ".sha256":  # its file is what the refusal names
            damaged.with_name(_target(damaged)).unlink(missing_ok=True)
    code = folder.wait(folder.start())
    same = code == 0 and folder.whole(expected)
    return "refused by name, then same bytes" if same else "REFUSED FOR EVER: " + text[-1000:]


def _target(path: Path) -> str:
    return path.name[1:].removesuffix(".sha256") if path.suffix == ".sha256" else path.name


def disk_fault(number: int, kind: str, base: Path, finished: Path, seconds: float) -> dict:
    """Fill the disk of a run, or take its mount away; make that good, and give the same command."""
    rng = random.Random(f"fault {number} {kind}")
    began, mount = time.monotonic(), Path(tempfile.mkdtemp(dir=base))
    real = Path(tempfile.mkdtemp(dir=base))
    attach = (
        ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", mount]
        if kind == "full disk"
        else ["mount", "--bind", real, mount]
    )
    subprocess.run(attach, check=True)
    try:
        folder = Folder(mount)
        folder.prepare()
        process = folder.start()
        time.sleep(rng.uniform(1.0, seconds))
        if process.poll() is not None:
            return disk_fault(number + 1000, kind, base, finished, seconds) | {"fault": number}
        if kind == "full disk":
            with contextlib.suppress(OSError), open(mount / "filler", "wb", buffering=0) as stream:
                while True:
                    stream.write(bytes(4096))
        else:
            subprocess.run(["umount", "--lazy", mount], check=True)
        code = folder.wait(process)
        if kind == "full disk":
            (mount / "filler").unlink()
        else:
            subprocess.run(attach, check=True)
        row = {"fault": number, "kind": kind, "hit": "", "after_the_end": False, "disturbed": code}
        row["outcome"] = outcome(folder, json.loads((finished / "digests").read_text()))
        return row | {"seconds": round(time.monotonic() - began, 1)}
    finally:
        subprocess.run(["umount", "--lazy", mount], check=False)
        for place in (real, mount):  # what was written while the mount was away lies below it
            shutil.rmtree(place, ignore_errors=True)


def undisturbed(base: Path) -> tuple[Path, float]:
    """Folder of a run that nothing disturbs, with its digests, and the seconds it took."""
    folder, began = Folder(base / "finished"), time.monotonic()
    folder.path.mkdir()
    folder.prepare()
    if folder.wait(folder.start()) != 0:
        sys.exit(f"the workflow fails by itself:\n{(folder.path / 'output').read_text()}")
    (folder.path / "digests").write_text(json.dumps(folder.digests()))
    return folder.path, time.monotonic() - began


def campaign(faults: range, lanes: int, *, disk: bool) -> None:
    """Do the faults that have no row yet."""
    kinds = DISK if disk else KILLS + DAMAGE
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []
    done = {row["fault"] for row in rows if (row["kind"] in DISK) == disk}
    do = disk_fault if disk else one_fault
    with tempfile.TemporaryDirectory(prefix="faults-") as name, ThreadPoolExecutor(lanes) as pool:
        base = Path(name)
        finished, seconds = undisturbed(base)
        print(f"undisturbed: {seconds:.1f} s", flush=True)

        def run(number: int) -> None:
            kind = random.Random(f"kind of {number}").choice(kinds)
            try:
                row = do(number, kind, base, finished, seconds)
            except Exception as error:  # a row of its own: no fault is dropped
                row = {"fault": number, "kind": kind, "outcome": f"FAILED: {error!r}"}
            with open(ROWS, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)

        list(pool.map(run, [number for number in faults if number not in done]))


def flips(number: int, results: Path) -> str:
    """Change eight bytes of a random file of a copy of finished results; how often verify names it."""
    rng, caught = random.Random("flips"), Counter()
    with tempfile.TemporaryDirectory() as name:
        copy = Path(shutil.copytree(results, Path(name, "results")))
        if verify(copy).problems:
            sys.exit(f"{results}: damaged before anything was done")
        folder = Folder(copy.parent)
        groups = {
            "NetCDF": [p for p in folder.files("flip result") if p.suffix == ".nc"],
            "table": [p for p in folder.files("flip result") if p.suffix == ".csv"],
            "figure or page": [
                p for p in folder.files("flip result") if p.suffix in (".png", ".html")
            ],
            "sidecar": folder.files("flip sidecar"),
        }
        for k in range(number):
            kind = list(groups)[k % len(groups)]
            path = rng.choice(groups[kind])
            content = path.read_bytes()
            flip(path, rng)
            caught[kind] += any(_target(path) in line for line in verify(copy).problems)
            path.write_bytes(content)
    return "\n".join(f"| {kind} | {caught[kind]}/{number // len(groups)} |" for kind in groups)


def table() -> str:
    """Markdown of all rows, a line for each kind."""
    groups = defaultdict(Counter)
    for line in ROWS.read_text().splitlines():
        row = json.loads(line)
        groups[row["kind"]][row["outcome"].split(":")[0]] += 1
    head = ("same bytes", "refused by name, then same bytes")
    lines = [f"| fault | number | {' | '.join(head)} | passed |", "| --- | --- | --- | --- | --- |"]
    for kinds, name in ((KILLS + DAMAGE, "all"), (DISK, "both")):
        total = Counter()
        for kind in kinds:
            counts = groups[kind]
            total += counts
            lines.append(_line(kind, counts, head))
        lines.append(_line(name, total, head))
    return "\n".join(lines)


def _line(name: str, counts: Counter, head: tuple[str, ...]) -> str:
    number, passed = counts.total(), sum(counts[outcome] for outcome in head)
    cells = [name, number, *(counts[outcome] for outcome in head), f"{passed}/{number}"]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=0, help="number of faults")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--lanes", type=int, default=2, help="faults at a time")
    parser.add_argument("--disk", action="store_true", help="full disk and vanished mount, as root")
    parser.add_argument("--table", action="store_true", help="print the table of all rows")
    parser.add_argument("--flips", type=int, default=0, help="changes of finished results")
    parser.add_argument("--results", type=Path, default=Path("results"), help="those to change")
    options = parser.parse_args()
    if options.faults:
        faults = range(options.first, options.first + options.faults)
        campaign(faults, options.lanes, disk=options.disk)
    if options.flips:
        print(flips(options.flips, options.results))
    if options.table:
        print(table())


if __name__ == "__main__":
    main()
