"""Forecast of memory, before work starts."""

from __future__ import annotations

import os
from pathlib import Path

from gpmcflow.errors import ResourceError

_SHARE = 0.8
_CGROUPS = Path("/sys/fs/cgroup")


OF_CHAINS = "use fewer chains per block, or store_latents: false, or raise memory_limit_gb."


def require_memory(
    n_bytes: int, limit_bytes: int | None, what: str, remedy: str = OF_CHAINS
) -> None:
    """Raise `ResourceError` when `what` needs `n_bytes` and the limit is lower, with what to do.

    `limit_bytes=None` stands for `default_memory_limit()`.
    """
    limit = default_memory_limit() if limit_bytes is None else limit_bytes
    if n_bytes > limit:
        raise ResourceError(
            f"{what}: needs {_gigabytes(n_bytes)}, over the limit of {_gigabytes(limit)}; {remedy}"
        )


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.3g} MB"


def default_memory_limit() -> int:
    """Return 80 % of the bytes this process can still get from the machine and its cgroup."""
    available = _machine_available()
    for room in _cgroup_rooms():
        available = min(available, room)
    return int(_SHARE * max(available, 0))


def _machine_available() -> int:
    try:  # MemAvailable counts the page cache that can be dropped; free pages alone do not.
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    names = os.sysconf_names
    pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in names else "SC_PHYS_PAGES"
    return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")


def _cgroup_rooms() -> list[int]:
    """Return limit minus use of the cgroups this process is in, from its own up to the root."""
    rooms = []
    for folder, limit, use, reclaimable in _cgroup_folders():
        try:
            most = int((folder / limit).read_text())
            used = int((folder / use).read_text())
            stat = (folder / "memory.stat").read_text().splitlines()
        except (OSError, ValueError):  # no such level, or its limit is "max"
            continue
        cache = sum(int(line.split()[1]) for line in stat if line.split()[0] == reclaimable)
        rooms.append(most - max(used - cache, 0))
    return rooms


def _cgroup_folders() -> list[tuple[Path, str, str, str]]:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    folders = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            root = _CGROUPS
            names = ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = _CGROUPS / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        own = Path(path.lstrip("/"))
        folders += [(root / level, *names) for level in (own, *own.parents)]
    return folders


def kills_for_memory() -> int:
    """Return how many processes the kernel has ended for want of memory, of this cgroup, else of the machine.

    Counted since the cgroup or the machine started: what happened meanwhile is the difference of two calls.
    The machine's count has the processes of others in it.
    """
    files = [
        folder / name
        for folder, *_ in _cgroup_folders()
        for name in ("memory.events", "memory.oom_control")
    ]
    counts = (_kills_in(path) for path in (*files, Path("/proc/vmstat")))
    return next((count for count in counts if count is not None), 0)


def _kills_in(path: Path) -> int | None:
    """The count in a file; None where there is none."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
        return next((int(words[1]) for words in lines if words[:1] == ["oom_kill"]), None)
    except (OSError, ValueError, IndexError):
        return None
