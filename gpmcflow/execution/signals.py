"""SIGTERM and SIGUSR1 end a job after the segment it is at, so that nothing of it is lost.

Batch systems send them before a job's time is over. Who wants it asks for it, with `graceful_stop`;
without it, signals do what they always do.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: not done, and worth another try
_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class Stopped(BaseException):
    """The job was asked to end, and its finished segments are on disk.

    Like `KeyboardInterrupt` no `Exception`, so that no handler of those takes it for an error.
    """


class _Request:
    """The signal that came, if one did, and how many pieces of work want to be finished first."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.unfinished = 0


_request = _Request()


@contextlib.contextmanager
def graceful_stop() -> Iterator[None]:
    """Turn SIGTERM and SIGUSR1 into `Stopped`, raised when the segments under way are on disk.

    Outside of `gpmcflow.execution.run` and `finish_first` it is raised at once. A second signal ends the
    process at once. To be entered in the main thread.
    """
    before = {number: signal.signal(number, _note) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _request.name = None


def _note(number: int, frame: object) -> None:
    name = signal.Signals(number).name
    if _request.name is not None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    _request.name = name
    if not _request.unfinished:
        raise Stopped(f"stopped by {name}; give the same command again to go on.")
    # Not by print or logging, which may be at work in the code that the signal interrupted.
    text = f"{name}: the segment under way is finished first; a second signal ends it at once.\n"
    with contextlib.suppress(OSError):
        os.write(2, text.encode())


@contextlib.contextmanager
def finish_first() -> Iterator[None]:
    """Do the work inside to its end, or up to its next `stop_if_asked`, though a signal comes."""
    _request.unfinished += 1
    try:
        yield
    finally:
        _request.unfinished -= 1


def stop_if_asked() -> None:
    """Raise `Stopped` if a signal has come."""
    if _request.name is not None:
        raise Stopped(f"stopped by {_request.name}")


@contextlib.contextmanager
def deaf_children() -> Iterator[None]:
    """Let processes that start inside never hear of the signals.

    They are sent to the whole group of processes, and a worker must live to write its segment. What
    is blocked when a process starts stays so in it; here, a signal waits until the block ends.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
