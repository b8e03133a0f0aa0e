"""Write results as NetCDF files: whole or not at all, the same bytes for the same numbers."""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5netcdf
import h5py
import numpy as np
import xarray as xr

from gpmcflow.errors import StorageError
from gpmcflow.storage.atomic import atomic_path
from gpmcflow.storage.checksums import sha256_of, sidecar_of
from gpmcflow.storage.files import write_sidecar
from gpmcflow.storage.schema import checked_tree

if TYPE_CHECKING:
    import dask.array as da


# A file that HDF5 writes to without ever hearing of an error.


class Sink(io.RawIOBase):
    """A new file for reading and writing, whose first failed write is kept in `error`.

    HDF5 cannot take a failed write: objects stay open, and freeing them later ends the process with
    a segmentation fault. So from the first failure on, what HDF5 writes goes into memory, HDF5
    closes as usual, and the caller looks at `error` (and stops sending chunks when it is set).
    """

    def __init__(self, path: Path):
        super().__init__()
        self.error: OSError | None = None
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        self._position = 0
        self._size = 0
        self._kept: list[tuple[int, bytes]] = []

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next read or write."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to `offset` from the start, the position or the end."""
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = origin + offset
        return self._position

    def write(self, data) -> int:
        """Write all of `data` at the position, to the file or, after an error, to memory."""
        view = memoryview(data).cast("B")
        if self.error is None:
            try:
                self._write_file(view)
            except OSError as error:
                self.error = error
        if self.error is not None:
            self._kept.append((self._position, bytes(view)))
        self._position += len(view)
        self._size = max(self._size, self._position)
        return len(view)

    def _write_file(self, view: memoryview) -> None:
        written = 0
        while written < len(view):
            written += os.pwrite(self._descriptor, view[written:], self._position + written)

    def readinto(self, buffer) -> int:
        """Fill all of `buffer` from the position; what was never written reads as zeros.

        Beyond the end too: HDF5 takes space there before it writes, and h5py would leave it what
        memory happens to hold.
        """
        view = memoryview(buffer).cast("B")
        start, count = self._position, len(view)
        view[:] = os.pread(self._descriptor, count, start).ljust(count, b"\0")
        for first, data in self._kept:
            low, high = max(first, start), min(first + len(data), start + count)
            if low < high:
                view[low - start : high - start] = data[low - first : high - first]
        self._position += count
        return count

    def truncate(self, size: int | None = None) -> int:
        """Set the size of the file."""
        self._size = self._position if size is None else size
        if self.error is None:
            try:
                os.ftruncate(self._descriptor, self._size)
            except OSError as error:
                self.error = error
        return self._size

    def flush(self) -> None:
        """Do nothing: there is no buffer, and the file is synced before it is renamed."""

    def close(self) -> None:
        """Do nothing: xarray closes what it writes to, and more is to come. See `finish`."""

    def finish(self) -> None:
        """Close the file, and raise the error if there was one."""
        os.close(self._descriptor)
        self._kept.clear()
        if self.error is not None:
            raise self.error


# Write a results tree to NetCDF-4: whole or not at all, and the same bytes each time.

_LARGEST_CHUNK = 2**30  # HDF5 takes chunks below 4 GiB
_MARGIN = 1_000_000  # bytes left on the disk beside the file


def write_results(
    tree: xr.DataTree, path: str | os.PathLike, *, sidecar: dict | None = None
) -> None:
    """Write a tree of results as NetCDF-4: whole or not at all, and with the same bytes each time.

    Dask-backed numbers are streamed: their graph runs once, in this process, one task at a time,
    and each chunk goes to disk when it is there, as one HDF5 chunk. The rest is written from
    memory. Nothing is compressed.

    Parameters
    ----------
    tree:
        Results of `sample`, `log_evidence` or `simulate`, or any `xarray.DataTree` of numbers, bools, text
        and times.
    path:
        Of the file, which may exist; its folder is made.
    sidecar:
        Plain values, such as timings, which go to ``<path>.json`` together with the machine, the versions and
        the SHA-256 of the file, which `load_results` and `open_results` compare.

    Returns
    -------
    None; the file is on the disk then.

    Raises
    ------
    InputError:
        For what NetCDF-4 cannot hold.
    StorageError:
        When the disk is full or the folder cannot be written; the old file is then still there, and no
        temporary one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> model = gp.GPModel(np.arange(4.0), np.ones(4), gp.Matern32(), gp.Poisson())
    >>> replicates = gp.simulate(model, n_draws=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "replicates.nc"
    ...     gp.write_results(replicates, path)
    ...     gp.load_results(path).equals(replicates)
    True
    """
    path = Path(path)
    tree = checked_tree(tree)
    with atomic_path(path, checksum=sidecar_of(path)) as temporary:
        _require_space(tree, path)
        sink = Sink(temporary)
        try:
            with _one_task_at_a_time(tree), _distributed_not_loaded():
                _write(tree, sink)
        finally:
            sink.finish()
        checksum = sha256_of(temporary)
    write_sidecar(path, sidecar or {}, checksum)


def _write(tree: xr.DataTree, sink: Sink) -> None:
    small, streamed = _split(tree)
    encoding = {
        node.path: {name: {"_FillValue": None} for name in node.to_dataset(inherit=False)}
        for node in small.subtree
    }
    small.to_netcdf(sink, engine="h5netcdf", format="NETCDF4", encoding=encoding)
    if streamed and sink.error is None:
        _stream(sink, streamed)


def _one_task_at_a_time(tree: xr.DataTree) -> AbstractContextManager:
    """For the Dask arrays of a tree; without any, Dask is not even loaded."""
    if not any(array.chunks for node in tree.subtree for array in node.variables.values()):
        return nullcontext()
    import dask

    return dask.config.set(scheduler="synchronous")


@contextmanager
def _distributed_not_loaded() -> Iterator[None]:
    """xarray loads Dask's distributed, which takes half a second, to see whether it is in use: if nobody has
    loaded it before, it is not."""
    if "distributed" in sys.modules:
        yield
        return
    sys.modules["distributed"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.modules.pop("distributed", None)


def _split(tree: xr.DataTree) -> tuple[xr.DataTree, dict[tuple[str, str], xr.Variable]]:
    """Return the tree without its Dask-backed numbers, and those by (group, name)."""
    groups, streamed = {}, {}
    for node in tree.subtree:
        dataset = node.to_dataset(inherit=False)
        for name, array in dataset.data_vars.items():
            if array.chunks and array.size and array.dtype.kind in "iufb":
                streamed[node.path, str(name)] = array.variable
        dataset = dataset.drop_vars([name for group, name in streamed if group == node.path])
        groups[node.path] = dataset
    return xr.DataTree.from_dict(groups), streamed


def _stream(sink: Sink, variables: dict[tuple[str, str], xr.Variable]) -> None:
    with h5netcdf.File(sink, "r+") as file:
        sources: list[da.Array] = []
        targets: list[Any] = []
        for (group, name), variable in variables.items():
            sources.append(_as_stored(variable.data))
            targets.append(_Target(_create(file[group], name, variable), sink))
        import dask.array as da

        da.store(sources, targets, lock=False)


class _Target:
    """A variable Dask stores chunks in, which ends the work when the file cannot be written."""

    def __init__(self, variable: h5netcdf.Variable, sink: Sink):
        self._variable = variable
        self._sink = sink
        self.shape, self.dtype = variable.shape, variable.dtype

    def __setitem__(self, where: tuple[slice, ...], chunk: np.ndarray) -> None:
        self._variable[where] = chunk
        if self._sink.error is not None:
            raise self._sink.error


def _as_stored(array: da.Array) -> da.Array:
    return array.astype(np.int8) if array.dtype == bool else array


def _create(group: h5netcdf.Group, name: str, variable: xr.Variable) -> h5netcdf.Variable:
    # Space is taken now, chunk after chunk: else Dask's order, which changes with the names of its
    # tasks, would decide where in the file a chunk lies.
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    is_bool = variable.dtype == bool
    dtype = np.dtype(np.int8) if is_bool else variable.dtype
    stored = group.create_variable(
        name, variable.dims, dtype, chunks=_chunk_shape(variable), dcpl=layout
    )
    attributes = {**variable.attrs, **({"dtype": "bool"} if is_bool else {})}
    for key in sorted(attributes):
        stored.attrs[key] = attributes[key]
    return stored


def _chunk_shape(variable: xr.Variable) -> tuple[int, ...]:
    shape = [max(lengths) for lengths in variable.chunks or ()]
    while math.prod(shape) * variable.dtype.itemsize > _LARGEST_CHUNK:
        longest = shape.index(max(shape))
        shape[longest] = -(-shape[longest] // 2)
    return tuple(shape)


def _require_space(tree: xr.DataTree, path: Path) -> None:
    needed = sum(node.to_dataset(inherit=False).nbytes for node in tree.subtree) + _MARGIN
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise StorageError(
            f"{path}: cannot be written: it needs {needed / 1e6:.3g} MB and the disk has "
            f"{free / 1e6:.3g} MB free; free some space, or choose another folder."
        )
