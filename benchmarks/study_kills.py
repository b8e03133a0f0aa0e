"""Kills each study's smallest workflow again and again, and compares the bytes of all its results.

    python benchmarks/study_kills.py [--kills 5] [--studies rmhmc_ais split_hmc]

The config is that of the workflow's tests, one study at a time. The reference runs undisturbed; the
other is killed by SIGKILL, Snakemake with all its jobs, at random times, and the same command is given
again after each kill. Prints a row a study: kills, finished jobs found at each, equal files of all.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


def start(folder: Path, config: Path) -> subprocess.Popen:
    """Give the workflow's command in a folder, in a new group of processes."""
    command = [
        sys.executable, "-m", "snakemake", "--cores", "2", "--nolock", "--rerun-incomplete",
        "--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder),
        "--configfile", str(config),
    ]  # fmt: skip
    with open(folder / "output", "ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each NetCDF file below the results."""
    paths = sorted((folder / "results").rglob("*.nc"))
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def finish(folder: Path, config: Path) -> float:
    """Run to the end; return the seconds it took."""
    began = time.monotonic()
    code = start(folder, config).wait()
    if code:
        sys.exit(f"{folder / 'output'}: the workflow ended with code {code}")
    return time.monotonic() - began


def kill_once(folder: Path, config: Path, seconds: float) -> int:
    """Start, kill the whole group after that time, return how many files were finished by then."""
    job = start(folder, config)
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.wait(timeout=seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    return len(digests(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--studies", nargs="+", default=["rmhmc_ais", "split_hmc"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    whole = yaml.safe_load((ROOT / "tests" / "workflow" / "small.yaml").read_text())
    rng = random.Random(options.seed)
    print("| study | kills | files finished at each kill | equal files at the end |")
    print("| --- | --- | --- | --- |")
    for study in options.studies:
        with tempfile.TemporaryDirectory() as place:
            config = Path(place) / "config.yaml"
            config.write_text(yaml.safe_dump(whole | {"studies": {study: whole["studies"][study]}}))
            undisturbed, killed = Path(place) / "undisturbed", Path(place) / "killed"
            undisturbed.mkdir(), killed.mkdir()
            seconds = finish(undisturbed, config)
            found = []
            for kill in range(options.kills):
                # spread over the whole run, which goes on from where it was each time
                share = (kill + rng.random()) / options.kills
                found.append(kill_once(killed, config, 3.0 + share * seconds / 2.0))
            finish(killed, config)
            wanted, got = digests(undisturbed), digests(killed)
            equal = sum(got.get(name) == digest for name, digest in wanted.items())
            print(f"| {study} | {options.kills} | {', '.join(map(str, found))} | "
                  f"{equal}/{len(wanted)} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
