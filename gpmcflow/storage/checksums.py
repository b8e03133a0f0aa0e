"""The SHA-256 of each result file, written with it and compared when it is read.

A NetCDF file has it in its sidecar `<path>.json`, which has its own, too. A table, figure or page has it
in a hidden file beside it, `.<name>.sha256`, as `sha256sum --check` takes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpmcflow.errors import StorageError
from gpmcflow.storage.atomic import atomic_path

OF_FILE, OF_SIDECAR = "sha256", "sidecar_sha256"  # keys in a sidecar


def sha256_of(path: str | os.PathLike) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_sha256(path: str | os.PathLike) -> str:
    """Return `sha256_of` a file of the user's. Raises `StorageError` for one that cannot be read."""
    try:
        return sha256_of(path)
    except OSError as error:
        raise _unreadable(path, error) from error


@contextlib.contextmanager
def recorded_path(path: str | os.PathLike) -> Iterator[Path]:
    """Give a temporary path as `atomic_path` does, and keep the checksum of what is written there."""
    record = record_of(path)
    with atomic_path(path, checksum=record) as temporary:
        yield temporary
        line = f"{sha256_of(temporary)}  {Path(path).name}\n"
    with atomic_path(record) as temporary:
        temporary.write_bytes(line.encode())


def remove(path: str | os.PathLike) -> None:
    """Remove a file and its checksum, if they are there."""
    Path(path).unlink(missing_ok=True)
    record_of(path).unlink(missing_ok=True)


def record_of(path: str | os.PathLike) -> Path:
    """Return the path of the hidden file that has the checksum of a table, figure or page."""
    path = Path(path)
    return path.with_name(f".{path.name}.sha256")


def sidecar_of(path: str | os.PathLike) -> Path:
    """Return the path of the sidecar of a NetCDF file."""
    return Path(f"{os.fspath(path)}.json")


def sidecar_text(facts: Mapping[str, Any]) -> str:
    """Return the text of a sidecar with its own checksum: that of the text without it."""
    bare = _json(facts)
    return _json({**json.loads(bare), OF_SIDECAR: hashlib.sha256(bare.encode()).hexdigest()})


def parse_sidecar(path: str | os.PathLike) -> dict[str, Any]:
    """Return the content of a sidecar file, compared with its own checksum.

    Raises `StorageError` for one that is missing or not what was written. Earlier versions wrote no
    checksum: such a sidecar is taken as it is.
    """
    text = _read(path)
    try:
        content = dict(json.loads(text))
    except (ValueError, TypeError) as error:
        raise _damaged(path) from error
    if OF_FILE in content or OF_SIDECAR in content:
        facts = {key: value for key, value in content.items() if key != OF_SIDECAR}
        if text != sidecar_text(facts).encode():
            raise _damaged(path)
    return content


def recorded_checksum(path: str | os.PathLike) -> str | None:
    """Return the SHA-256 a result file had when it was written; None if nothing says so.

    Raises `StorageError` if what says so is damaged.
    """
    path = Path(path)
    if path.suffix == ".nc":
        sidecar = sidecar_of(path)
        return parse_sidecar(sidecar).get(OF_FILE) if sidecar.is_file() else None
    try:
        record = record_of(path)
        if not record.is_file():
            return None
    except (OSError, ValueError):  # a name too long for one, or none
        return None
    line = _read(record)
    digest = line[:64].decode("ascii", "replace")
    if line != f"{digest}  {path.name}\n".encode() or not set(digest) <= set("0123456789abcdef"):
        raise _damaged(record)
    return digest


def require_unchanged(path: str | os.PathLike) -> bool:
    """Compare a result file with its checksum; return False if it has none.

    Raises `StorageError`, which names the file, if it is missing or not what was written.
    """
    path = Path(path)
    digest = recorded_checksum(path)
    if digest is None:
        return False
    try:
        changed = sha256_of(path) != digest
    except FileNotFoundError:
        raise StorageError(
            f"{path}: no such file, though its checksum is there; run again, and if that does not bring it "
            "back, delete the other results of its step first."
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from error
    if changed:
        raise _damaged(path)
    return True


def _read(path: str | os.PathLike) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise StorageError(f"{path}: no such file; run the step that writes it.") from None
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str | os.PathLike, error: OSError) -> StorageError:
    return StorageError(f"{path}: cannot be read ({error.strerror}); correct that and run again.")


def _damaged(path: str | os.PathLike) -> StorageError:
    return StorageError(
        f"{path}: not what was written (its SHA-256 is another); delete it and run again."
    )


def _json(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, indent=2, sort_keys=True, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
