"""Cost of tasks, files and Snakemake jobs at small sizes: what docs/scaling.md extrapolates.

    python benchmarks/scaling.py tasks|cluster|files|jobs [sizes ...]

CPU seconds, which a busy machine changes little.
"""

from __future__ import annotations

import argparse
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml

from gpmcflow.execution import Execution, run

ROOT = Path(__file__).parents[1]


class Nothing:
    """One number a draw, at no cost."""

    def outputs(self):
        """One number."""
        return {"x": ((), "<f8")}

    def start(self, rng):
        """Zeros."""
        return {"x": np.zeros(len(rng))}

    def advance(self, rng, carry, start, stop):
        """Zeros."""
        return carry, {"x": np.zeros((len(rng), stop - start))}


def cpu() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def sizes_of(n_tasks: int) -> dict:
    """Ten draws of each chain: with pieces of one, so many tasks."""
    return {"n_chains": n_tasks // 10, "length": 10, "seed": 1}


PIECES = Execution(block_size=1, segment_length=1)


def tasks(n: int) -> None:
    sizes = sizes_of(n)
    began = cpu()
    run(Nothing(), **sizes, execution=replace(PIECES, compute=False))
    graph = cpu() - began
    began = cpu()
    run(Nothing(), **sizes, execution=PIECES)
    memory = cpu() - began
    with tempfile.TemporaryDirectory() as folder:
        how = replace(PIECES, state_dir=Path(folder) / "s", settings={})
        began, wall = cpu(), time.perf_counter()
        run(Nothing(), **sizes, execution=how)
        disk, wall = cpu() - began, time.perf_counter() - wall
        files = [p for p in Path(folder).rglob("*") if p.is_file()]
        used = sum(p.stat().st_size for p in files)
        began, again = cpu(), time.perf_counter()
        run(Nothing(), **sizes, execution=how)
        resume, again = cpu() - began, time.perf_counter() - again
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{n} tasks: graph {1e3 * graph / n:.3f} ms, in memory {1e3 * memory / n:.3f} ms, on disk "
        f"{1e3 * disk / n:.3f} ms a task ({wall:.1f} s wall); done already {1e3 * resume / n:.3f} ms "
        f"({again:.1f} s wall); {len(files)} files, {used / len(files):.0f} B each; peak {peak:.0f} MB",
        flush=True,
    )


def cluster(n: int) -> None:
    from distributed import Client, LocalCluster

    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(processes=True, **options) as local, Client(local) as client:
        how = replace(PIECES, scheduler=client)
        run(Nothing(), **sizes_of(100), execution=how)
        own, wall = time.process_time(), time.perf_counter()
        run(Nothing(), **sizes_of(n), execution=how)
        own, wall = time.process_time() - own, time.perf_counter() - wall
    lazy = run(Nothing(), **sizes_of(n), execution=replace(PIECES, compute=False))
    graph = lazy["x"].__dask_graph__()
    size = len(pickle.dumps(list(dict(graph).items()), protocol=5)) if n <= 1000 else 0
    print(
        f"{n} tasks on a cluster: client and scheduler {1e3 * own / n:.3f} ms a task, {wall:.1f} s wall, "
        f"{size / n:.0f} B of graph a task",
        flush=True,
    )


def files(n_numbers: int) -> None:
    """Bytes of a segment beside its numbers, for 64 chains of 25 draws of so many numbers."""

    class Wide(Nothing):
        def outputs(self):
            return {"latent": ((n_numbers,), "<f8"), "lp": ((), "<f8")}

        def advance(self, rng, carry, start, stop):
            shape = (len(rng), stop - start)
            return carry, {"latent": np.zeros((*shape, n_numbers)), "lp": np.zeros(shape)}

    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "s"
        how = Execution(segment_length=25, state_dir=state, settings={})
        run(Wide(), n_chains=64, length=50, seed=1, execution=how)
        segment = (state / "block_00000" / "segment_00000.npz").stat().st_size
    numbers = 8 * 64 * 25 * (n_numbers + 1)
    print(
        f"{n_numbers} numbers a draw: {segment} B a segment, {segment - numbers} B over its numbers"
    )


def jobs(n: int) -> None:
    """Dry run of n sample jobs: n / 10 problems with ten methods each."""
    methods = {f"m{k}": {"sampler": "latent_hmc", "n_steps": k + 1} for k in range(10)}
    names = [f"p{k}" for k in range(n // 10)]
    config = {
        "problems": {
            name: {"dataset": "breast-cancer", "model": "linear", "likelihood": "logistic"}
            for name in names
        },
        "studies": {"split_hmc": {"problems": dict.fromkeys(names, methods)}},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(yaml.dump(config, Dumper=_NoAliases))
        command = [sys.executable, "-m", "snakemake", "-n", "--quiet", "all", "--cores", "1"]
        command += ["-s", str(ROOT / "Snakefile"), "-d", folder, "--configfile", str(path)]
        began, wall = cpu(), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        used, wall = cpu() - began, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"{n} sample jobs: dry run {used:.1f} s of CPU, {wall:.1f} s wall, {peak:.0f} MB, config "
        f"{len(yaml.dump(config, Dumper=_NoAliases)) / 1e6:.2f} MB",
        flush=True,
    )


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = {"tasks": tasks, "cluster": cluster, "files": files, "jobs": jobs}
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("sizes", type=int, nargs="*", default=[100, 1000, 10000])
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for size in options.sizes:
        kinds[options.kind](size)


if __name__ == "__main__":
    main()
