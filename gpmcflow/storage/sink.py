"""A file that HDF5 writes to without ever hearing of an error."""

from __future__ import annotations

import io
import os
from pathlib import Path


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
