"""Errors of the machine in one line: no more memory, a disk that is full, read-only or gone."""

from __future__ import annotations

import errno

from gpmcflow.errors import GpmcflowError, out_of_memory
from gpmcflow.storage.atomic import write_error

_OF_DISKS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.ESTALE, errno.ENOTCONN, errno.EFBIG),
}


def machine_error(error: BaseException) -> GpmcflowError | None:
    """Return the one-line error for want of memory or a disk that fails, with the file; None for all others.

    >>> machine_error(KeyError("a")) is None
    True
    >>> str(machine_error(OSError(errno.ENOSPC, "No space left on device", "a.csv")))[:36]
    'a.csv: cannot be written: the disk i'
    """
    if isinstance(error, GpmcflowError):
        return error
    if isinstance(error, OSError) and error.errno in _OF_DISKS and error.filename is not None:
        return write_error(error.filename, error)
    return out_of_memory(error)
