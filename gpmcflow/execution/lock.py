"""One run at a time in a state folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from gpmcflow.errors import UnavailableError
from gpmcflow.execution.waiting import Waiting
from gpmcflow.storage.atomic import make_folder, write_error

log = logging.getLogger(__name__)
_NAME = "lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


@contextlib.contextmanager
def state_lock(folder: Path) -> Iterator[int]:
    """Hold the lock of a state folder, and give its descriptor; make the folder if it is not there.

    It is the kernel's (`flock`), which drops it when its process ends in whatever way, so that no
    stale lock is left; NFS passes it on to the other hosts. Where a file system has no locks, a
    warning is logged and the work goes on: two runs then do the same work twice, and harm nothing,
    as files appear whole and hold the same bytes from either.

    A lock that is held is waited for (see `patience`), as a killed run may take a moment to go and
    `lock_owner` looks in. Raises `UnavailableError` with the process and host of the other run.
    """
    path = folder / _NAME
    descriptor = None
    try:
        try:
            make_folder(folder)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            _take(descriptor, folder)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(this_process()).encode(), 0)
        except OSError as error:
            raise write_error(path, error) from error
        yield descriptor
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            # closing alone leaves it to processes that were forked meanwhile
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def this_process() -> dict:
    """Return pid, host and time (ISO 8601, UTC), as they stand in the lock and the manifests."""
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def lock_owner(folder: str | os.PathLike) -> dict | None:
    """Return pid, host and start of the run that is at work in a state folder, None without one."""
    try:
        descriptor = os.open(Path(folder) / _NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_owner(descriptor)
    except OSError:
        return _read_owner(descriptor) or None
    finally:
        os.close(descriptor)
    return None


def _take(descriptor: int, folder: Path) -> None:
    waiting = Waiting(f"the end of another run in {folder}")
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if waiting.over:
                raise _busy(descriptor, folder) from None
            waiting.look()
            time.sleep(min(0.05 + waiting.seconds / 20, 1.0))
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            log.warning("%s: this file system has no locks; start no second run on it.", folder)
            return


def _busy(descriptor: int, folder: Path) -> UnavailableError:
    owner = _read_owner(descriptor)
    who = f"process {owner.get('pid', '?')} on {owner.get('host', '?')}"
    return UnavailableError(
        f"{folder}: another run is at work on it ({who}, since {owner.get('started_at', '?')}); "
        "wait until it has ended, or end it, and run again."
    )


def _read_owner(descriptor: int) -> dict:
    try:
        return dict(json.loads(os.pread(descriptor, 4096, 0)))
    except (OSError, ValueError, TypeError):
        return {}
