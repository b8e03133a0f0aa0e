"""Progress of one job over its (block, segment) tasks."""

from __future__ import annotations

import logging
import math
import sys
import time
import warnings
from typing import Any, TextIO

from gpmcflow.errors import visible

log = logging.getLogger(__name__)
_WIDTH = 24
_SILENT = 2.0  # seconds: shorter work shows nothing


class Progress:
    """A bar in a terminal or a notebook; in a log, a line per finished segment, or other unit of work.

    Nothing in the first two seconds; then at most one line a second, and always the last, to the logger
    `gpmcflow.execution.progress` at level INFO. Used in the main process.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        stream: TextIO | None = None,
        unit: str = "segments",
    ):
        self.label, self.unit = label, unit
        self.total = total
        self._stream = sys.stderr if stream is None else stream
        self._bar = self._stream.isatty()
        self._in_notebook = not self._bar and stream is None and in_notebook()
        self._cell: Any = None  # the notebook's bar, once there is something to show
        self._period = 0.1 if self._bar or self._in_notebook else 1.0
        self._begin = time.monotonic()
        self._shown = -math.inf
        self._done = self._restored = self._rates = 0
        self._acceptance = 0.0

    def update(self, acceptance: float = math.nan, restored: bool = False) -> None:
        """Count one finished segment; `restored` is one that an earlier run had left on disk."""
        self._done += 1
        self._restored += restored
        if not math.isnan(acceptance):
            self._rates += 1
            self._acceptance += acceptance
        now = time.monotonic()
        since = now - self._shown
        if 0 <= now - self._begin < _SILENT:
            return
        # A clock that was set back must not silence the rest of the job.
        if since >= self._period or since < 0 or self._done == self.total:
            self._shown = now
            self._show()

    def close(self) -> None:
        """End the line of the bar, so that what follows starts on its own."""
        if self._bar and self._shown > -math.inf:
            self._stream.write("\n")
            self._stream.flush()
        if self._cell is not None:
            self._cell.close()

    def text(self) -> str:
        """Return the state in words: segments, mean acceptance, time left."""
        of_all = "" if self.total is None else f"/{self.total}"
        parts = [f"{self._done}{of_all} {self.unit}"]
        if self._restored:
            parts.append(f"{self._restored} found on disk")
        if self._rates:
            parts.append(f"acceptance {self._acceptance / self._rates:.2f}")
        elapsed = max(0.0, time.monotonic() - self._begin)
        computed = self._done - self._restored
        if self._done == self.total:
            parts.append(f"{_clock(elapsed)} in all")
        elif computed and self.total is not None:
            parts.append(f"{_clock(elapsed / computed * (self.total - self._done))} left")
        return ", ".join(parts)

    def _show(self) -> None:
        if self._in_notebook:
            if self._cell is None:
                self._cell = _notebook_bar(self.total)
            self._cell.n = self._done
            self._cell.set_description_str(f"{self.label}: {self.text()}")
            return
        if not self._bar:
            log.info("%s: %s", self.label, self.text())
            return
        filled = _WIDTH * self._done // (self.total or 2 * self._done)
        bar = "#" * filled + "." * (_WIDTH - filled)
        steer = getattr(self._stream, "steer", self._stream.write)  # of a command's standard error
        steer(f"\r{visible(self.label)} [{bar}] {self.text()}\x1b[K")
        self._stream.flush()


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})


def _notebook_bar(total: int | None) -> Any:
    """A bar of tqdm: a widget where the notebook has them, else a line of text."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="IProgress not found")
        from tqdm.auto import tqdm
    return tqdm(total=total, bar_format="{bar:24}| {desc}" if total else "{desc}", delay=1e-9)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
