"""Basis functions at 10,000 to 100,000 rows: memory, and a grid of 10,000 cells.

    python benchmarks/large_n.py [--problems binary-10k ..]
    python benchmarks/large_n.py --grid

Shown is the growth of memory over the process before sampling, beside the matrix of basis functions, which
is never made here; the same problems beside NumPyro are in `peers/large_n.py`. ``--grid`` runs counts on 100
x 100 cells to 400 effective samples of the worst hyperparameter.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

from peers.common import sizes
from peers.large_n import PROBLEMS

import gpmcflow as gp
from gpmcflow.execution import Execution


def resident() -> int:
    """Bytes of memory this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Peak:
    """Largest growth of the process's memory while it is open."""

    def __enter__(self) -> Peak:
        self.before = self.largest = resident()
        self._open = True
        self._watch = threading.Thread(target=self._run, daemon=True)
        self._watch.start()
        return self

    def _run(self) -> None:
        while self._open:
            self.largest = max(self.largest, resident())
            time.sleep(0.01)

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._watch.join()

    @property
    def growth(self) -> int:
        """Bytes."""
        return self.largest - self.before


def memory(model: gp.GPModel) -> int:
    """Growth while two chains are sampled in this process."""
    with Peak() as peak:
        gp.sample(model, n_chains=2, n_draws=200, seed=1, execution=Execution(progress=False))
    return peak.growth


def grid() -> None:
    """Counts on a grid of 10,000 cells until the worst hyperparameter has 400 effective samples."""
    from structures import grid as counts_on

    model, draws = counts_on(100, "kronecker"), 250
    began = time.perf_counter()
    tree = gp.sample(
        model, n_chains=2, n_draws=draws, seed=1, execution=Execution(workers=2, progress=False)
    )
    spent = time.perf_counter() - began
    theta, T = tree["posterior/theta"].values, tree["sample_stats/complete_log_likelihood"].values
    print(
        f"100 x 100 counts: {spent:.0f} s for 2 chains of {draws} draws; effective samples: worst "
        f"hyperparameter {sizes(theta):.0f}, T {sizes(T):.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--grid", action="store_true")
    options = parser.parse_args()
    if options.grid:
        grid()
        return
    for problem in options.problems:
        model = PROBLEMS[problem]()
        growth, matrix = memory(model), 8 * model.n_cases * model.n_latents
        print(
            f"{problem}: n = {model.n_cases}, m = {model.n_latents}: memory grows by {growth / 1e6:.0f} MB, "
            f"the matrix of basis functions would have {matrix / 1e6:.0f} MB",
            flush=True,
        )


if __name__ == "__main__":
    main()
