"""Standard output and standard error as commands use them: there, and without hidden characters."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from gpmcflow.errors import StorageError, visible
from gpmcflow.storage.atomic import write_error

FIRST_LINE = 1.5  # seconds without a word
TICK = 0.25  # seconds between looks at the clock


class Visible(io.TextIOBase):
    """A stream that writes control characters, and those that turn text around, as Python writes them.

    Names of columns and cells come from files, and a terminal would do what they say.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.counter: _Counter | None = None  #: of the seconds without a word

    def write(self, text: str) -> int:
        """Write text to the stream below. Raises `StorageError` where it cannot be written."""
        return self.steer(visible(text))

    def steer(self, text: str) -> int:
        """As `write`, with what steers a terminal: for text that no file has had a part in."""
        if self.counter is not None:
            self.counter.wipe()
        with self._told():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream below, as `write` does."""
        with self._told():
            self._stream.flush()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())  # for what is left
            raise write_error("standard output", error) from None

    def fileno(self) -> int:
        """Return the descriptor of the stream below."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """Return whether the stream below is a terminal."""
        return self._stream.isatty()

    @property
    def buffer(self) -> Any:
        """The bytes below, for a table that goes to standard output."""
        return self._stream.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the stream below."""
        return self._stream.encoding


@contextlib.contextmanager
def visible_streams() -> Iterator[None]:
    """Show what the block prints as `Visible` does.

    Closed descriptors become the null device: else the next file that is opened would get what is printed.
    Raises `StorageError` where standard output is closed.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor
    with open(os.devnull, "w") as nowhere, contextlib.ExitStack() as streams:
        streams.enter_context(contextlib.redirect_stderr(Visible(sys.stderr or nowhere)))  # type: ignore[type-var]
        if sys.stdout is None:
            raise StorageError("standard output is closed; send it to a file, or to /dev/null")
        streams.enter_context(contextlib.redirect_stdout(Visible(sys.stdout)))  # type: ignore[type-var]
        yield


@contextlib.contextmanager
def told_to_be_at_work(what: str) -> Iterator[None]:
    """Say on standard error what the block is at, and for how long, whenever it prints nothing.

    A terminal has one line that counts the seconds, and is wiped before anything else is printed. Elsewhere a
    line comes after `FIRST_LINE` seconds without a word, the next ones after as long as it has been silent.
    """
    out, err, ended = sys.stdout, sys.stderr, threading.Event()
    streams = [stream for stream in (out, err) if isinstance(stream, Visible)]
    counter = _Counter(what, err)
    for stream in streams:
        stream.counter = counter

    def tell() -> None:
        while not ended.wait(TICK):
            counter.tell()

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        counter.wipe()
        for stream in streams:
            stream.counter = None


class _Counter:
    """The seconds of a command since it began and since it last printed something.

    It writes to a descriptor where there is one: a process that is forked meanwhile must not find a stream
    locked.
    """

    def __init__(self, what: str, err: Any) -> None:
        self._what, self._err, self._terminal = what, err, err.isatty()
        self._began = self._since = time.monotonic()
        self._due = FIRST_LINE
        self._shown = False

    def tell(self) -> None:
        """Show the seconds where it is time to."""
        now = time.monotonic()
        silent = now - self._since
        if silent < self._due:
            return
        what, seconds = visible(self._what), f": {now - self._began:.0f} s so far"
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1 - len(seconds)
            self._due, self._shown = silent + 1.0, True
            self._write(f"\r{what[:width]}{seconds}\x1b[K")
        else:
            self._due = silent + max(1.0, silent)
            self._write(f"{what}{seconds}\n")

    def wipe(self) -> None:
        """Make room for what is printed now, and count anew."""
        self._since, self._due = time.monotonic(), FIRST_LINE
        if self._shown:
            self._shown = False
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        stream = getattr(self._err, "_stream", self._err)
        with contextlib.suppress(OSError):  # a terminal that has gone ends nothing
            try:
                descriptor = stream.fileno()
            except io.UnsupportedOperation:  # a stream in memory
                stream.write(text)
            else:
                os.write(descriptor, text.encode())
