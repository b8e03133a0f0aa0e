"""What a reader makes of an input: success or one line; all else, too slow or too large, is a failure."""

from __future__ import annotations

import contextlib
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gpmcflow.errors import GpmcflowError

SECONDS = 5.0  # of CPU time, as the machine may be busy
MOST_SECONDS = 30.0  # by the clock, for what waits
MEMORY = 2 * 1024**3  # bytes beside what the process has
LONGEST = 2500  # characters of a message


class TooSlowError(BaseException):
    """No `Exception`, so that no reader takes it for an error of its own."""


class Outcome(NamedTuple):
    """Whether the input was read, and the CPU seconds that took."""

    read: bool
    seconds: float


def outcome(read: Callable[[Any, Path], Any], value: Any, folder: Path) -> Outcome:
    """Read a value; raise what is no `GpmcflowError` of one line, and `TooSlowError`."""
    began = time.process_time()
    with limited(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read(value, folder)
        except GpmcflowError as error:
            for line in (str(error), *getattr(error, "problems", ())):
                assert len(line.splitlines()) == 1, f"not one line: {line!r}"
                assert len(line) <= LONGEST, f"{len(line)} characters: {line[:200]!r} ..."
            return Outcome(False, time.process_time() - began)
    return Outcome(True, time.process_time() - began)


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Limit time and address space of the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    timers = {
        signal.ITIMER_PROF: (signal.SIGPROF, SECONDS),
        signal.ITIMER_REAL: (signal.SIGALRM, MOST_SECONDS),
    }
    before = {number: signal.signal(number, _too_slow) for number, _ in timers.values()}
    for timer, (_, seconds) in timers.items():
        signal.setitimer(timer, seconds, 1.0)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0.0)
        for number, handler in before.items():
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _too_slow(*_: object) -> None:
    raise TooSlowError(f"no end after {SECONDS:g} s")
