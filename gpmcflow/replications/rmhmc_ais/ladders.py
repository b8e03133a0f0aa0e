"""The runs that a method of the evidence study makes of one problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_STAGES = 400  # of sequential Monte Carlo that chooses its own ladder


def annealing_runs(method: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return (state folder, draws) of each run a method of study rmhmc_ais makes of one problem."""
    kind = method.get("kind")
    if kind == "parallel_tempering":
        draws = method["draws"] + method["warmup"]
        return [(f"t{length:04d}", draws) for length in method["temperatures"]]
    if kind == "sequential_monte_carlo":
        own = method.get("effective_fraction") is not None  # as many stages as it turns out to need
        return [
            (f"t{length:04d}", MAX_STAGES if own else length) for length in method["temperatures"]
        ]
    runs = []
    for length in [1] if kind == "importance_sampling" else method["temperatures"]:
        for replicate in range(method["replicates"]):
            runs.append((f"t{length:04d}_r{replicate}", length))
            if method.get("reverse"):
                runs.append((f"reverse_T{length}_r{replicate}_start", 1))
                runs.append((f"reverse_T{length}_r{replicate}", length))
    return runs
