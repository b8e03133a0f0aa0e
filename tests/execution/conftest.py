from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


class Walk:
    """Random-walk Metropolis on N(0, I), elementwise over chains; `calls` are the segments run."""

    def __init__(self, dim: int = 3, stop_at: int | None = None):
        self.dim = dim
        self.stop_at = stop_at
        self.calls: list[tuple[int, int, int]] = []

    def outputs(self):
        return {
            "x": ((self.dim,), "float64"),
            "acceptance_rate": ((), "float64"),
            "accepted": ((), "bool"),
        }

    def start(self, rng):
        return {"x": rng.standard_normal(self.dim)}

    def advance(self, rng, carry, start, stop):
        self.calls.append((rng.chains[0], start, stop))
        if self.stop_at is not None and stop > self.stop_at:
            raise KeyboardInterrupt
        n = len(rng)
        outputs = {
            "x": np.empty((n, stop - start, self.dim)),
            "acceptance_rate": np.empty((n, stop - start)),
            "accepted": np.empty((n, stop - start), bool),
        }
        x = carry["x"]
        for i in range(stop - start):
            proposal = x + rng.standard_normal(self.dim)
            log_ratio = 0.5 * (x**2 - proposal**2).sum(axis=1)
            accepted = np.log(rng.uniform()) < log_ratio
            x[accepted] = proposal[accepted]  # in place: a task must not harm the one before
            outputs["x"][:, i] = x
            outputs["accepted"][:, i] = accepted
            outputs["acceptance_rate"][:, i] = np.exp(np.minimum(log_ratio, 0))
        return {"x": x}, outputs


@pytest.fixture
def walk() -> type[Walk]:
    return Walk


@pytest.fixture
def by_value():
    """Let workers, which cannot import tests, have the classes of this file."""
    import sys

    import cloudpickle

    module = sys.modules[Walk.__module__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture
def files():
    """Return a function: folder -> {relative path: bytes} of all files below it.

    Left out are those that tell of the run and its process, not of its numbers.
    """
    of_the_run = ("lock", "ledger.txt", "run.json")

    def read(folder: Path) -> dict[str, bytes]:
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file() and path.name not in of_the_run
        }

    return read
