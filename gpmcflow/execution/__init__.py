"""How work runs, knowing nothing of what it is: blocks, random streams, checkpoints, threads, Dask.

Names are imported on first use, so that a Snakefile can take `code_digest` without loading NumPy.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "ChainGenerators": "randomness",
    "Execution": "settings",
    "Program": "blocks",
    "Progress": "progress",
    "Workers": "pools",
    "array_digest": "digest",
    "chain_generators": "randomness",
    "code_digest": "code",
    "default_memory_limit": "memory",
    "finish_first": "signals",
    "graceful_stop": "signals",
    "lock_owner": "lock",
    "patience": "waiting",
    "pin_blas": "threads",
    "remember": "remembered",
    "require_memory": "memory",
    "run": "runner",
    "settings_digest": "digest",
    "stable_key": "randomness",
    "text_digest": "digest",
    "workers": "pools",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
