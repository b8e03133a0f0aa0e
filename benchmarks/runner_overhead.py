"""Share of time that is spent inside the runner (Dask, checkpoints, NetCDF) rather than the sampler.

    python benchmarks/runner_overhead.py [--seconds 60]

Anneals 256 particles at n = 767 for about that long through `anneal` with a state folder, writes
the NetCDF file, and times the same program advanced in a plain loop without the runner, in turn.
Seconds are wall time and, since neighbours on a machine disturb it, CPU time of the process.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from leapfrog import build

from gpmcflow.evidence.annealing import AnnealingProgram, anneal
from gpmcflow.evidence.schedule import Schedule, linear
from gpmcflow.execution import Execution, chain_generators, pin_blas
from gpmcflow.samplers import PreconditionedSplitHMC
from gpmcflow.storage import write_results

PARTICLES = 256


def plain_loop(program: AnnealingProgram, length: int) -> np.ndarray:
    """Wall and CPU seconds for the sampler alone."""
    rng = chain_generators(0, chains=range(PARTICLES))
    began = np.array([time.perf_counter(), time.process_time()])
    carry = program.start(rng)
    program.advance(rng, carry, 0, length)
    return np.array([time.perf_counter(), time.process_time()]) - began


def through_runner(path, sampler, schedule) -> np.ndarray:
    """Wall and CPU seconds for the same work with segments, checkpoints, Dask and the NetCDF file."""
    with tempfile.TemporaryDirectory() as folder:
        began = np.array([time.perf_counter(), time.process_time()])
        tree = anneal(
            path,
            sampler,
            schedule,
            n_particles=PARTICLES,
            execution=Execution(
                block_size=PARTICLES, state_dir=Path(folder) / "state", settings={"benchmark": 1}
            ),
        )
        write_results(tree, Path(folder) / "evidence.nc", sidecar={})
        return np.array([time.perf_counter(), time.process_time()]) - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    pin_blas()
    path, sampler = build(767, "probit"), PreconditionedSplitHMC(step_size=0.2, n_steps=12)
    warm = Schedule.constant(linear(10), sampler)
    plain_loop(AnnealingProgram(path, sampler, warm), 10)
    per_temperature = plain_loop(AnnealingProgram(path, sampler, warm), 10)[0] / 9
    length = max(10, int(options.seconds / per_temperature))
    schedule = Schedule.constant(linear(length), sampler)
    ratios = []
    for _ in range(3):
        alone = plain_loop(AnnealingProgram(path, sampler, schedule), length)
        whole = through_runner(path, sampler, schedule)
        ratios.append((whole - alone) / whole)
        print(
            f"{length} temperatures: sampler {alone[0]:.1f} s, whole {whole[0]:.1f} s; "
            f"overhead {ratios[-1][0]:+.1%} of wall, {ratios[-1][1]:+.1%} of CPU time"
        )
    wall, cpu = np.median(ratios, axis=0)
    print(f"overhead of the runner, medians: {wall:.1%} of wall, {cpu:.1%} of CPU time")


if __name__ == "__main__":
    main()
