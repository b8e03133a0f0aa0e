"""Open what a run has finished so far, while it goes on."""

from __future__ import annotations

import os
import uuid
import zipfile
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from gpmcflow.errors import StorageError
from gpmcflow.execution.segment_files import read_arrays
from gpmcflow.monitor.state_folders import Run, find_runs

if TYPE_CHECKING:
    import xarray as xr


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
