"""Find, verify and fetch the files data sets are made from.

Looked up in this order: the folder given as `data_dir`, the folder named by the environment
variable GPMCFLOW_DATA, the download cache, the upstream address. A file is used only if its
sha256 is the expected one.
"""

from __future__ import annotations

import hashlib
import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpmcflow.errors import InputError, StorageError

ENVIRONMENT_VARIABLE = "GPMCFLOW_DATA"


@dataclass(frozen=True)
class SourceFile:
    """A file: `path` relative to the data folder (with /), its `sha256`, its upstream `url`."""

    path: str
    sha256: str
    url: str | None = None

    @property
    def origin(self) -> str:
        """Where the file comes from, for the attribute `source`."""
        return self.url or f"{self.path} (derived file)"


def fetch(
    files: Sequence[SourceFile],
    *,
    fallback: Sequence[SourceFile] = (),
    data_dir: str | Path | None = None,
) -> tuple[list[Path], tuple[SourceFile, ...]]:
    """Return the paths of verified files, and which files these are: `files` or `fallback`.

    `fallback` stands in where a file is found nowhere and has no upstream address.
    Raises InputError for a folder that does not exist, StorageError for a wrong checksum, an
    unreadable file or a failed download.
    """
    if not files:
        return [], ()
    folders = search_folders(data_dir)
    local = [find_local(file, folders) for file in files]
    lost = any(path is None and file.url is None for path, file in zip(local, files, strict=True))
    if lost and fallback:
        return fetch(fallback, data_dir=data_dir)
    paths = [path or download(file) for path, file in zip(local, files, strict=True)]
    return paths, tuple(files)


def search_folders(data_dir: str | Path | None = None) -> list[Path]:
    """Return the local folders to look into, first one first."""
    named = {"data_dir": data_dir, ENVIRONMENT_VARIABLE: os.environ.get(ENVIRONMENT_VARIABLE)}
    folders = []
    for origin, value in named.items():
        if value is None or not str(value):
            continue
        folder = Path(value).expanduser()
        if not folder.is_dir():
            raise InputError(
                f"{origin}: found {str(folder)!r}, which is not a folder; "
                "give an existing data folder or leave it unset"
            )
        folders.append(folder)
    return folders


def find_local(file: SourceFile, folders: Sequence[Path]) -> Path | None:
    """Return the file from the first folder that has it, None where none has.

    Raises StorageError if it is there and its checksum is wrong: a later folder must not hide it.
    """
    for folder in folders:
        path = folder / file.path
        if path.is_file():
            verify(path, file)
            return path
    cached = cache_folder() / file.path
    # A file with an address is left to `download`, which replaces a damaged copy in the cache.
    if file.url is None and cached.is_file():
        verify(cached, file)
        return cached
    return None


def download(file: SourceFile) -> Path:
    """Return the file from the cache, after downloading it where it is not there or damaged."""
    target = cache_folder() / file.path
    by_hand = (
        f"put the file (sha256 {file.sha256}) at {target} or at ${ENVIRONMENT_VARIABLE}/{file.path}"
    )
    if file.url is None:
        raise StorageError(f"{file.path}: found nowhere, and there is no download; {by_hand}")
    import pooch

    try:
        path = pooch.retrieve(
            file.url, known_hash=f"sha256:{file.sha256}", fname=target.name, path=target.parent
        )
    except ValueError as error:  # pooch: the download has another checksum
        raise StorageError(
            f"{file.url}: upstream has changed ({_one_line(error)}); {by_hand}"
        ) from None
    except OSError as error:  # the network's errors are OSErrors, and so are the disk's
        raise StorageError(f"{file.url}: download failed ({_one_line(error)}); {by_hand}") from None
    return Path(path)


def verify(path: Path, file: SourceFile) -> None:
    """Raise StorageError unless the file at `path` has the expected sha256."""
    checksum = sha256(path)
    if checksum != file.sha256:
        again = f"replace it by the one from {file.url}" if file.url else "restore the original"
        raise StorageError(
            f"{path}: found sha256 {checksum}, expected {file.sha256}; the file is damaged or another "
            f"version: {again}, or move it away"
        )


def sha256(path: Path) -> str:
    """Return the hexadecimal sha256 of a file's bytes."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror}); check the file") from None


def cache_folder() -> Path:
    """Return the folder downloads are kept in; it has the layout of a data folder."""
    import pooch

    return Path(pooch.os_cache("gpmcflow"))


def _one_line(error: Exception) -> str:
    text = textwrap.shorten(str(error), width=120, placeholder=" ...")
    return f"{type(error).__name__}: {text}"
