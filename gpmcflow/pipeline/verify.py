"""Compare each result file with the SHA-256 it had when it was written: `gpmcflow verify`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gpmcflow.errors import StorageError
from gpmcflow.storage.checksums import OF_SIDECAR, parse_sidecar, require_unchanged

_NO_RESULTS = {"logs", "benchmarks"}  # Snakemake's, and our jobs' messages


class Verification(NamedTuple):
    """What became of the files below a results folder."""

    unchanged: int
    problems: list[str]  #: a line for each file that is damaged or missing
    unknown: list[str]  #: files that have no checksum

    @property
    def in_words(self) -> str:
        """The last line of `gpmcflow verify`."""
        total = self.unchanged + len(self.problems) + len(self.unknown)
        return (
            f"{total} files: {self.unchanged} as written, {len(self.problems)} damaged or missing, "
            f"{len(self.unknown)} without a checksum"
        )


def verify(results: str | os.PathLike = "results") -> Verification:
    """Read every file below a results folder and compare it with its SHA-256.

    State of unfinished jobs, logs and benchmarks are left out: a run compares the checksums of its own
    segments. Raises `StorageError` if there is no such folder.
    """
    if not Path(results).is_dir():
        raise StorageError(f"{results}: no such folder; give the one the workflow writes to.")
    unchanged, problems, unknown = 0, [], []
    for path in sorted(_files(Path(results))):
        try:
            if path.name.endswith(".nc.json"):
                known = OF_SIDECAR in parse_sidecar(path)
            else:
                known = require_unchanged(path)
        except StorageError as error:
            problems.append(str(error))
            continue
        unchanged += known
        if not known:
            unknown.append(str(path))
    return Verification(unchanged, problems, unknown)


def _files(folder: Path) -> Iterator[Path]:
    """Result files, and those of which only the checksum is left."""
    for entry in os.scandir(folder):
        path, name = folder / entry.name, entry.name
        if entry.is_dir():
            if not name.startswith(".") and name not in _NO_RESULTS:
                yield from _files(path)
        elif not name.startswith("."):
            yield path
            target = path.with_name(name.removesuffix(".json"))
            if name.endswith(".nc.json") and not target.exists():
                yield target
        elif name.endswith(".sha256"):
            target = path.with_name(name[1:].removesuffix(".sha256"))
            if not target.exists():
                yield target
