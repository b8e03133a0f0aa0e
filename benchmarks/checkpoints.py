"""What checkpoints cost: seconds until a run of many segments goes on, and seconds spent on them.

    python benchmarks/checkpoints.py [--segments 10000] [--seconds 300]

The first run is killed (its last segment removed, and its process gone); the second one's first
step of computing is timed from the call of `run` on. Then a job of about `--seconds` (256 particles
at n = 767, a checkpoint every 25 temperatures, as in config/replications.yaml) tells the seconds inside
the code that writes segments and checkpoints, of which most is waiting for the disk.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from gpmcflow.execution import Execution, pin_blas, run, tasks


class Walk:
    """A walk in ten dimensions; `first` is when it was first advanced."""

    first: float | None = None

    def outputs(self):
        """Trailing shapes and types."""
        return {"x": ((10,), "float64"), "acceptance_rate": ((), "float64")}

    def digest(self) -> str:
        """The same for all."""
        return "walk"

    def start(self, rng):
        """Return the origin."""
        return {"x": np.zeros((len(rng), 10))}

    def advance(self, rng, carry, start, stop):
        """Return the walk from start to stop."""
        self.first = self.first or time.perf_counter()
        steps = rng.standard_normal((stop - start, 10))
        path = carry["x"][:, None] + steps.cumsum(axis=1)
        rates = np.exp(-(steps[..., 0] ** 2))
        return {"x": path[:, -1]}, {"x": path, "acceptance_rate": rates}


def seconds_to_go_on(n_segments: int, n_blocks: int) -> tuple[float, float]:
    """Seconds of the first run, and from the call of the second to its first step."""
    sizes = {"n_chains": 4 * n_blocks, "length": 5 * (n_segments // n_blocks), "seed": 1}
    settings = {"problem": {f"name_{k}": [k, 0.5, None] for k in range(20)}}
    with tempfile.TemporaryDirectory() as folder:
        how = Execution(block_size=4, segment_length=5, settings=settings, state_dir=folder)
        began = time.perf_counter()
        run(Walk(), **sizes, execution=how)
        whole = time.perf_counter() - began
        sorted(Path(folder).glob("block_*/segment_*.npz"))[-1].unlink()
        again = Walk()
        began = time.perf_counter()
        run(again, **sizes, execution=how)
        print(f"  to the end of the second run: {time.perf_counter() - began:.2f} s")
        return whole, again.first - began


def share_of_checkpoints(seconds: float) -> tuple[float, float, int]:
    """Seconds of a job, of these inside the code of checkpoints, and its number of segments."""
    from leapfrog import build

    from gpmcflow.evidence.annealing import anneal
    from gpmcflow.evidence.schedule import Schedule, linear
    from gpmcflow.samplers import PreconditionedSplitHMC

    path, sampler = build(767, "probit"), PreconditionedSplitHMC(step_size=0.2, n_steps=12)
    spent = []
    code = {name: getattr(tasks, name) for name in ("write_arrays", "read_if_whole", "fault")}

    def timed(function):
        def call(*arguments):
            began = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                spent.append(time.perf_counter() - began)

        return call

    def job(length: int) -> float:
        schedule = Schedule.constant(linear(length), sampler)
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            anneal(
                path,
                sampler,
                schedule,
                n_particles=256,
                execution=Execution(state_dir=folder, settings={"a": 1}),
            )
            return time.perf_counter() - began

    job(10)
    per_temperature = job(25) / 25
    length = max(50, int(seconds / per_temperature))
    vars(tasks).update({name: timed(function) for name, function in code.items()})
    try:
        whole = job(length)
    finally:
        vars(tasks).update(code)
    return whole, sum(spent), -(-length // 25)


def main() -> None:
    """Print both measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    pin_blas()
    for n_blocks in (1, 100):
        whole, wait = seconds_to_go_on(options.segments, n_blocks)
        print(
            f"{options.segments} segments in {n_blocks} blocks: written in {whole:.1f} s; "
            f"a run that goes on computes after {wait:.2f} s"
        )
    if options.seconds:
        whole, spent, n = share_of_checkpoints(options.seconds)
        print(
            f"a job of {whole:.0f} s: {spent:.2f} s ({spent / whole:.2%}) in the checkpoints of "
            f"{n} segments"
        )


if __name__ == "__main__":
    main()
