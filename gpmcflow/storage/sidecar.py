"""The JSON file beside a results file: what may differ between two runs of the same config."""

from __future__ import annotations

import json
import os
import platform
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import threadpoolctl

from gpmcflow.storage.checksums import OF_FILE, parse_sidecar, sidecar_of, sidecar_text
from gpmcflow.storage.files import write_text

_PACKAGES = ("gpmcflow", "numpy", "scipy", "xarray", "dask", "h5netcdf", "h5py")


def write_sidecar(path: str | os.PathLike, facts: dict, checksum: str) -> None:
    """Write `<path>.json`, atomically: `facts` (timings and the like), the SHA-256 of the results
    file, versions, threads, host, and a SHA-256 of its own."""
    write_text(sidecar_text({**environment(), **facts, OF_FILE: checksum}), sidecar_of(path))


def read_sidecar(path: str | os.PathLike) -> dict:
    """Content of `<path>.json`. Raises `StorageError` if it is missing or not what was written."""
    return parse_sidecar(sidecar_of(path))


def origin(attributes: Mapping[str, Any], facts: dict) -> dict:
    """Where the numbers of a results file come from: seed, data, settings, and its sidecar's facts."""
    note = {"seed": int(attributes["seed"]), "data_checksum": attributes["data_checksum"]}
    return note | {"settings": json.loads(attributes["settings"]), "facts": facts}


def environment() -> dict:
    """Return host, platform, time, versions and thread counts of this process."""
    return {
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **_versions()},
        "threads": {
            f"{pool.get('user_api')}:{pool.get('internal_api')}:{pool.get('version')}": pool.get(
                "num_threads"
            )
            for pool in threadpoolctl.threadpool_info()
        },
        "cpus": os.cpu_count(),
    }


def _versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return versions
