"""Standard output and standard error as commands use them: there, and without hidden characters."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from gpmcflow.errors import StorageError, visible
from gpmcflow.storage.atomic import write_error

FIRST_LINE = 1.5  # seconds without a word


class Visible(io.TextIOBase):
    """A stream that writes control characters, and those that turn text around, as Python writes them.

    Names of columns and cells come from files, and a terminal would do what they say.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.written = threading.Event()  #: set when something has been

    def write(self, text: str) -> int:
        """Write text to the stream below. Raises `StorageError` where it cannot be written."""
        self.written.set()
        with self._told():
            self._stream.write(visible(text))
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
    """Say on standard error what the block is at, and for how long, until it prints something itself.

    The first line comes after `FIRST_LINE` seconds, the others after as long as it has taken so far.
    """
    out, err, ended = sys.stdout, sys.stderr, threading.Event()
    began = time.monotonic()

    def tell() -> None:
        pause = FIRST_LINE
        while not ended.wait(pause) and not getattr(out, "written", ended).is_set():
            seconds = time.monotonic() - began
            err.write(f"{what}: {seconds:.0f} s so far\n")
            err.flush()
            pause = max(1.0, seconds)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
