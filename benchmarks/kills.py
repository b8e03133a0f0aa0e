"""Kills one short job again and again, runs it again, and compares the bytes of its results.

    python benchmarks/kills.py [--kills 50] [--aimed 5] [--modes in_process snakemake distributed]

A job writes segments and checkpoints below a state folder, then assembles a results file. It is
killed once, by SIGKILL: at a random time, or, `--aimed` times for each phase, in the middle of that
phase, by itself. Then the same command is given again. Modes: a process that calls `run`; a rule of
Snakemake, killed with Snakemake; a Dask cluster of two worker processes, of which either one worker
is killed or all with their client. The last lines are a table of the phases that were hit.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

PHASES = ("compute", "write", "fsync", "rename", "assemble")
MODES = ("in_process", "snakemake", "distributed")
HERE = Path(__file__).resolve().parent


SNAKEFILE = """
rule all:
    input: "results.nc"

rule chains:
    output:
        results="results.nc",
        sidecar="results.nc.json",
    log: "job.log"
    script: "job.py"
"""
JOB = "import killed_job\n\nkilled_job.snakemake_job(snakemake)\n"


def start(mode: str, folder: Path) -> subprocess.Popen:
    """Give the command of a mode, in a new group of processes."""
    if mode == "snakemake":
        (folder / "Snakefile").write_text(SNAKEFILE)
        (folder / "job.py").write_text(JOB)
        command = [sys.executable, "-m", "snakemake", "--directory", str(folder), "--cores", "1"]
        command += ["--snakefile", str(folder / "Snakefile"), "--nolock", "--rerun-incomplete"]
        command += ["--rerun-triggers", "params"]
    else:
        code = f"import killed_job; killed_job.{mode}({str(folder)!r})"
        command = [sys.executable, "-c", code]
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    with open(folder / "output", "ab") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )


def phases(folder: Path) -> list[list[str]]:
    """Return [process, phase] of all phases entered so far."""
    path = folder / "phases"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split() for line in lines]


def uninterrupted(mode: str, folder: Path) -> tuple[str, float]:
    """Digest of the results, and seconds from the first phase to the results."""
    process, began, ended = start(mode, folder), None, None
    while process.poll() is None:
        if began is None and phases(folder):
            began = time.monotonic()
        if ended is None and (folder / "results.nc").exists():
            ended = time.monotonic()
        time.sleep(0.01)
    now = time.monotonic()
    return digest(folder), (ended or now) - (began or now)


def digest(folder: Path) -> str:
    """SHA-256 of the results file; raises when there is none, or a temporary file is left."""
    path = folder / "results.nc"
    if not path.exists():
        raise RuntimeError(f"no results:\n{(folder / 'output').read_text()[-3000:]}")
    left = list(folder.rglob(".*.tmp"))
    if left:
        raise RuntimeError(f"temporary files are left: {left}")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def aim(folder: Path, phase: str, nth: int, victim: str) -> None:
    """Let the job kill itself (or its group) when it enters a phase for the nth time."""
    (folder / "aim").write_text(f"{phase} {nth} {victim}")


def kill_at_aim(mode: str, folder: Path) -> str | None:
    """Start the job and wait until it was killed; return the phase, None if it was not."""
    process = start(mode, folder)
    process.wait(timeout=600)
    end_group(process.pid)
    killed = [line[1] for line in phases(folder) if line[2:]]
    return killed[0] if killed else None


def kill_after(mode: str, folder: Path, delay: float, victim: str) -> str | None:
    """Start the job and kill it some seconds after its first phase; return the phase it was in."""
    process = start(mode, folder)
    while process.poll() is None and not phases(folder):
        time.sleep(0.005)
    time.sleep(delay)
    if process.poll() is not None or (folder / "results.nc").exists():
        end_group(process.pid)
        return None
    at_work = phases(folder)
    if victim == "worker":
        workers = sorted({line[0] for line in at_work} - {str(process.pid)})
        if not workers:
            victim = "group"
        else:
            who = workers[int(1000 * delay) % len(workers)]
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(who), signal.SIGKILL)
            process.wait(timeout=600)
            end_group(process.pid)
            return [line[1] for line in at_work if line[0] == who][-1]
    end_group(process.pid)
    return phases(folder)[-1][1]


def end_group(group: int) -> None:
    """Kill what is left of a group, and wait until it is gone."""
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(group, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(group, os.WNOHANG)
            time.sleep(0.01)


def finish(mode: str, folder: Path) -> str:
    """Give the same command again; return the digest of the results."""
    (folder / "aim").unlink(missing_ok=True)
    process = start(mode, folder)
    if process.wait(timeout=600) != 0:
        raise RuntimeError(f"failed:\n{(folder / 'output').read_text()[-3000:]}")
    return digest(folder)


def campaign(mode: str, kills: int, aimed: int, rng: random.Random) -> tuple[Counter, int]:
    """Number of kills in each phase, and how many of the jobs ended in other bytes."""
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    expected, seconds = uninterrupted(mode, folder)
    counts = Counter(line[1] for line in phases(folder))
    shutil.rmtree(folder)
    plan = [phase for phase in PHASES for _ in range(aimed)][:kills]
    plan += ["random"] * (kills - len(plan))
    hits, unequal = Counter(), 0
    while plan:
        folder = Path(tempfile.mkdtemp(prefix="faults-"))
        victim = rng.choice(("worker", "group")) if mode == "distributed" else "group"
        if plan[0] == "random":
            phase = kill_after(mode, folder, rng.uniform(0.0, seconds), victim)
        else:  # of two workers each enters about half of the phases
            most = counts[plan[0]] // (3 if mode == "distributed" and plan[0] != "assemble" else 1)
            aim(folder, plan[0], rng.randint(1, max(1, most)), victim)
            phase = kill_at_aim(mode, folder)
        if phase is not None:  # else the job had ended before
            same = finish(mode, folder) == expected
            hits[phase] += 1
            unequal += not same
            print(
                f"{mode}: {plan[0]}, hit {phase}: {'equal' if same else 'OTHER BYTES'}", flush=True
            )
            plan.pop(0)
        shutil.rmtree(folder)
    return hits, unequal


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--aimed", type=int, default=5)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows, failed = [], 0
    for mode in options.modes:
        rng = random.Random(f"{options.seed} {mode}")
        began = time.monotonic()
        hits, unequal = campaign(mode, options.kills, options.aimed, rng)
        failed += unequal
        numbers = [options.kills, *(hits[phase] for phase in PHASES)]
        equal = f"{options.kills - unequal}/{options.kills}"
        rows.append([mode, *map(str, numbers), equal, f"{time.monotonic() - began:.0f} s"])
    print("\n| " + " | ".join(["mode", "kills", *PHASES, "digest equal", "time"]) + " |")
    print("| --- " * len(rows[0]) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
