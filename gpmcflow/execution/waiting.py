"""Waiting for what others have to give: a lock, a Dask scheduler, its workers."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from contextvars import ContextVar

from gpmcflow.execution.signals import Stopped, stop_if_asked

log = logging.getLogger(__name__)
LINE_EVERY = 60.0  # seconds between two lines of the log
_patience = ContextVar("patience", default=1.0)


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Let runs inside wait so long for a Dask scheduler, and for a state folder another run works in.

    Elsewhere they wait for a second. Either way the error comes then, and a line is logged each minute.
    """
    token = _patience.set(seconds)
    try:
        yield
    finally:
        _patience.reset(token)


class Waiting:
    """One wait, from now on, for `what`, a few words; `look` is to be called again and again."""

    def __init__(self, what: str):
        self.what = what
        self._began = time.monotonic()
        self._next_line = self._began + LINE_EVERY

    @property
    def seconds(self) -> float:
        """Time waited so far."""
        return time.monotonic() - self._began

    @property
    def over(self) -> bool:
        """Whether patience is at its end."""
        return self.seconds >= _patience.get()

    def look(self) -> None:
        """Raise `Stopped` if a signal has come; log a line if it is time for one."""
        try:
            stop_if_asked()
        except Stopped as stopped:
            raise Stopped(f"{stopped} while waiting for {self.what}") from None
        if time.monotonic() >= self._next_line:
            self._next_line += LINE_EVERY
            log.warning("waiting for %s: %d min", self.what, round(self.seconds / 60))
