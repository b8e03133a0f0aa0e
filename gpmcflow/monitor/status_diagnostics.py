"""Acceptance, R-hat and effective size of a run that goes on, from a few megabytes of its segments."""

from __future__ import annotations

import math

import numpy as np

from gpmcflow.diagnostics.importance_weights import effective_size
from gpmcflow.errors import GpmcflowError
from gpmcflow.execution.segment_files import read_arrays
from gpmcflow.monitor.state_folders import Run
from gpmcflow.monitor.unfinished_runs import array_headers

MOST_BYTES, MOST_FILES = 4_000_000, 400  # read for one output of one job
LIKELIHOODS = ("sum_log_likelihood", "lp")
WEIGHTS = "log_weight_increment"


def diagnose(run: Run) -> tuple[float | None, float | None, float | None]:
    """(acceptance, R-hat, effective size) of what a run has finished; None where there is nothing to say.

    Acceptance and R-hat are those of the later half of the finished draws; the bulk effective size of
    the log likelihood is estimated from that half and stands for all of them. An annealing run has
    the effective size of its weights at the temperature that all its blocks have reached.
    """
    try:
        first = next(k for k, times in enumerate(run.finished) if times)
        headers = array_headers(run.segment(first, 0))
        if WEIGHTS in headers:
            return _acceptance(run, headers), None, _weights_size(run, headers)
        acceptance = _acceptance(run, headers)
        name = next((name for name in LIKELIHOODS if name in headers), None)
        return (
            (acceptance, None, None) if name is None else (acceptance, *_mixing(run, name, headers))
        )
    except (GpmcflowError, OSError):  # removed, or being written again, while we look
        return None, None, None


def _acceptance(run: Run, headers: dict) -> float | None:
    if "acceptance_rate" not in headers:
        return None
    rates, _ = _read(run, "acceptance_rate", headers, later_half=True)
    known = rates[np.isfinite(rates)]
    return float(known.mean()) if known.size else None


def _weights_size(run: Run, headers: dict) -> float | None:
    """Effective size of the weights at the temperature that all blocks looked at have reached."""
    increments, share = _read(run, WEIGHTS, headers, later_half=False)
    return float(effective_size(increments.sum(axis=1))) / share


def _mixing(run: Run, name: str, headers: dict) -> tuple[float | None, float | None]:
    from arviz_stats.base import array_stats

    values, share = _read(run, name, headers, later_half=True)
    if values.shape[1] < 4 or not np.isfinite(values).all():
        return None, None
    rhat = math.nan
    with np.errstate(divide="ignore", invalid="ignore"):  # of chains that stand still: 0 / 0
        if len(values) > 1:
            rhat = float(array_stats.rhat(values, chain_axis=0, draw_axis=1))
        size = float(array_stats.ess(values, chain_axis=0, draw_axis=1, method="bulk")) / share
    return (rhat if math.isfinite(rhat) else None), (size if math.isfinite(size) else None)


def _read(run: Run, name: str, headers: dict, *, later_half: bool) -> tuple[np.ndarray, float]:
    """A scalar output (chain, draw) of finished segments, and its share of the finished draws (or,
    from the first draw on, chains).

    Blocks that are less than half as far as the first one are left out, and the others cut to the
    same draws; so are blocks, then early draws, beyond what may be read.
    """
    counts = {k: len(times) for k, times in enumerate(run.finished) if times}
    longest = max(counts.values())
    alike = [k for k, n in counts.items() if 2 * n >= longest]
    stop = min(counts[k] for k in alike)
    start = stop // 2 if later_half else 0
    shape, dtype = headers[name]
    n_bytes = math.prod(shape) * dtype.itemsize
    files = max(min(MOST_FILES, MOST_BYTES // n_bytes), 1)
    blocks = alike[: max(files // (stop - start), 1)]
    if later_half:
        start = max(start, stop - files)
    parts = [
        np.concatenate(
            [read_arrays(run.segment(k, j), [name])[name] for j in range(start, stop)], axis=1
        )
        for k in blocks
    ]
    values = np.concatenate(parts).astype(np.float64)
    chains = [high - low for low, high in run.grid.blocks]
    if not later_half:
        return values, len(values) / sum(chains[k] for k in alike)
    if stop == 1:
        values = values[:, values.shape[1] // 2 :]
    ends = [end for _, end in run.grid.segments]
    return values, values.size / sum(chains[k] * ends[n - 1] for k, n in counts.items())
