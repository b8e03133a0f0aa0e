"""The log of one job: a file that other jobs may remove."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from pathlib import Path


class JobLog(logging.FileHandler):
    """A log file; when it has been removed, its lines go to the end of the file of that name.

    Snakemake removes the log of a job that it is about to start, even while the same job of another
    Snakemake writes it (`--nolock`).
    """

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, mode="a+", encoding="utf-8")

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        with contextlib.suppress(OSError):
            self._follow()
        super().emit(record)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._follow()
        super().close()

    def _follow(self) -> None:
        if self.stream is None or self._is_there():
            return
        self.stream.seek(0)
        lines = self.stream.read()
        self.stream.close()
        Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
        self.stream = self._open()
        self.stream.write(f"from here on by process {os.getpid()}, whose log was removed:\n{lines}")

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.baseFilename), os.fstat(self.stream.fileno()))
        except FileNotFoundError:
            return False


def configure_logging(log: logging.Logger, path: Path) -> JobLog:
    """Send the messages of `log` to a file and to stderr, and warnings to the file; return its handler."""
    to_file = JobLog(path)
    to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    to_terminal = logging.StreamHandler(sys.stderr)
    to_terminal.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    to_terminal.setLevel(logging.INFO)
    log.handlers[:] = [to_file, to_terminal]
    log.setLevel(logging.INFO)
    log.propagate = False
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").addHandler(to_file)
    return to_file
