"""Compare each result file, and what it was made of, with the SHA-256 of then: `gpmcflow verify`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gpmcflow.errors import StorageError
from gpmcflow.storage.checksums import (
    OF_SIDECAR,
    parse_sidecar,
    read_sha256,
    recorded_checksum,
    require_unchanged,
)

_RESULTS = "results"  # first part of the path of every output
_NO_RESULTS = {"logs", "benchmarks"}  # Snakemake's, and our jobs' messages


class Verification(NamedTuple):
    """What became of the files below a results folder."""

    unchanged: int
    problems: list[str]  #: a line for each file that is damaged or missing, or made of other files
    unknown: list[str]  #: files that have no checksum

    @property
    def in_words(self) -> str:
        """The last line of `gpmcflow verify`."""
        total = self.unchanged + len(self.problems) + len(self.unknown)
        return (
            f"{total} files: {self.unchanged} as written, {len(self.problems)} damaged, missing or "
            f"outdated, {len(self.unknown)} without a checksum"
        )


def verify(
    results: str | os.PathLike = "results", outputs: Iterable[str] | None = None
) -> Verification:
    """Read every file below a results folder and compare it with its SHA-256.

    It also compares each file that a results file was made from, if that is still there: the user's files and
    results of earlier jobs. With ``outputs``, paths that begin with ``results/``, it compares only these
    files, and not what they were made from: a run of some jobs leaves the others as they are. State of
    unfinished jobs, logs and benchmarks are left out: a run compares the checksums of its own segments.
    Raises `StorageError` if there is no such folder.
    """
    if not Path(results).is_dir():
        raise StorageError(f"{results}: no such folder; give the one the workflow writes to.")
    folder = Path(results)
    own = None if outputs is None else {_place(path, folder) for path in outputs}
    unchanged, problems, unknown = 0, [], []
    for path in sorted(_files(folder)):
        if own is not None and path not in own:
            continue
        try:
            if path.name.endswith(".nc.json"):
                sidecar = parse_sidecar(path)
                if own is None:
                    _require_same_origin(path, sidecar.get("made_of", {}), folder)
                known = OF_SIDECAR in sidecar
            else:
                known = require_unchanged(path)
        except StorageError as error:
            problems.append(str(error))
            continue
        unchanged += known
        if not known:
            unknown.append(str(path))
    return Verification(unchanged, problems, unknown)


def _require_same_origin(sidecar: Path, made_of: dict[str, str], folder: Path) -> None:
    """Raise `StorageError` if a results file was made from other content than its source has now."""
    for path, digest in made_of.items():
        source = _place(path, folder)
        made = path.startswith(f"{_RESULTS}/") and recorded_checksum(source)
        if source.is_file() and (made or read_sha256(source)) != digest:
            raise StorageError(
                f"{sidecar.with_suffix('')}: made from a different {source} (its SHA-256 differs); run again."
            )


def _place(path: str, folder: Path) -> Path:
    """Where a path of a run is, whose results lie in this folder now."""
    parts = Path(path).parts
    return Path(folder, *parts[1:]) if parts[0] == _RESULTS else folder.parent / path


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
