"""Acceptance, R-hat and effective size of a run that goes on, from a few megabytes of its segments."""

from __future__ import annotations

import math
import os
import uuid
import zipfile
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from gpmcflow.diagnostics.importance_weights import effective_size
from gpmcflow.errors import GpmcflowError, StorageError
from gpmcflow.execution.segment_files import read_arrays
from gpmcflow.monitor.state_folders import Run, find_runs

if TYPE_CHECKING:
    import xarray as xr


# Open what a run has finished so far, while it goes on.


def partial_results(state_dir: str | os.PathLike) -> xr.DataTree:
    """Open what the runs of a state folder have finished so far, while they go on.

    A chain appears with its first segment. Where another chain is ahead the draws that are still to come are
    NaN, integers then being floats. The arrays are lazy, a Dask chunk a segment, so that a run of any length
    opens at once; only whole segments are ever there to be read.

    Parameters
    ----------
    state_dir:
        Folder that a run was given as `Execution.state_dir`, or one above several of these.

    Returns
    -------
    A tree with a group for each run (the root, if the folder itself holds one), but for pilots of a run that
    is there itself: the outputs of its program, with dimensions chain, draw, then those of the output; a
    warm-up is among the draws. The coordinate ``n_finished`` counts the draws of each chain.

    Raises
    ------
    StorageError:
        If there is no run, or none has finished a segment; and on reading one that has been removed since.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> model = gp.GPModel(np.arange(4.0), np.ones(4), gp.Matern32(1.0, 1.0), gp.Poisson())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     how = gp.Execution(state_dir=folder, segment_length=10)
    ...     draws = gp.sample(model, gp.EllipticalSlice(), n_chains=2, n_draws=20, n_warmup=10, execution=how)
    ...     gp.partial_results(folder)["latent"].shape
    (2, 30, 4)
    """
    import xarray as xr

    root, groups = Path(state_dir), {}
    runs = {run.folder: run for run in find_runs(root) if run.n_finished}
    for folder, run in runs.items():
        # chains and draws of a pilot are not those of the run above it, which a tree would have them be
        if runs.keys().isdisjoint(folder.parents):
            name = folder.relative_to(root).as_posix()
            groups["/" if name == "." else f"/{name}"] = _dataset(run)
    if not groups:
        raise StorageError(f"{root}: holds no finished segment; wait for one, or check the path.")
    return xr.DataTree.from_dict(groups)


def array_headers(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Return {name: (shape, dtype)} of the outputs in a segment file, without reading their numbers."""
    headers = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if member.startswith("array:"):
                    name = member.removeprefix("array:").removesuffix(".npy")
                    with archive.open(member) as stream:
                        headers[name] = _header(stream)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        text = " ".join(str(error).split())
        raise StorageError(f"{path}: cannot be read ({text}); run again to rebuild it.") from error
    return headers


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    first = np.lib.format.read_magic(stream) == (1, 0)
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    return shape, dtype


def _dataset(run: Run) -> xr.Dataset:
    import xarray as xr

    counts = {block: _sound(run, block) for block, times in enumerate(run.finished) if times}
    counts = {block: n for block, n in counts.items() if n}
    n_draws = run.grid.segments[max(counts.values()) - 1][1] if counts else 0
    rows = [(k, chain) for k in counts for chain in range(*run.grid.blocks[k])]
    coords = {
        "chain": [chain for _, chain in rows],
        "draw": np.arange(n_draws),
        "n_finished": ("chain", [run.grid.segments[counts[k] - 1][1] for k, _ in rows]),
    }
    variables, whole = {}, len(set(counts.values())) == 1
    headers = array_headers(run.segment(next(iter(counts)), 0)) if counts else {}
    for name, (shape, dtype) in headers.items():
        trailing = shape[2:]
        own = [
            f"{name}_dim" if len(trailing) == 1 else f"{name}_dim_{i}" for i in range(len(trailing))
        ]
        coords |= {dim: np.arange(size) for dim, size in zip(own, trailing, strict=True)}
        dtype = dtype if whole or dtype.kind == "f" else np.dtype("<f8")
        variables[name] = (("chain", "draw", *own), _lazy(run, name, trailing, dtype, counts))
    return xr.Dataset(
        variables,
        coords,
        {
            "label": str(run.manifest.get("label") or run.folder.name),
            "n_chains": run.grid.n_chains,
            "length": run.grid.length,
        },
    )


def _sound(run: Run, block: int) -> int:
    """Segments of a block, less the last if it has another size: an earlier, shorter run left it."""
    n = len(run.finished[block])
    first, stop = run.grid.segments[n - 1]
    low, high = run.grid.blocks[block]
    shapes = {shape[:2] for shape, _ in array_headers(run.segment(block, n - 1)).values()}
    return n if shapes <= {(high - low, stop - first)} else n - 1


def _lazy(run: Run, name: str, trailing: tuple, dtype: np.dtype, counts: dict[int, int]) -> Any:
    import dask.array as da

    sizes = [run.grid.blocks[k][1] - run.grid.blocks[k][0] for k in counts]
    lengths = [stop - start for start, stop in run.grid.segments[: max(counts.values())]]
    key, zeros, layer = f"{name}-{uuid.uuid4().hex}", (0,) * len(trailing), {}
    for i, (block, n) in enumerate(counts.items()):
        for j, length in enumerate(lengths):
            shape = (sizes[i], length, *trailing)
            path = run.segment(block, j) if j < n else None
            layer[key, i, j, *zeros] = (partial(_chunk, path, name, shape, dtype),)
    chunks = (tuple(sizes), tuple(lengths), *((n,) for n in trailing))
    return da.Array(layer, key, chunks, dtype=dtype)


def _chunk(path: Path | None, name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if path is None:
        return np.full(shape, np.nan, dtype)
    chunk = read_arrays(path, [name])[name]
    if chunk.shape != shape:
        raise StorageError(f"{path}: {name!r} is {chunk.shape}, expected {shape}; open it again.")
    return chunk.astype(dtype, copy=False)


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
