"""How work runs, knowing nothing of what it is: blocks, random streams, checkpoints, threads, Dask.

Names are imported on first use, so that a Snakefile can take `code_digest` without loading NumPy.
"""

from __future__ import annotations

from gpmcflow.lazy_names import lazy_names

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
    "forked_workers": "pools",
    "graceful_stop": "signals",
    "lock_owner": "lock",
    "patience": "waiting",
    "pin_blas": "threads",
    "remember": "segment_files",
    "require_memory": "memory",
    "run": "runner",
    "settings_digest": "digest",
    "stable_key": "randomness",
    "text_digest": "digest",
    "workers": "pools",
}

__all__ = sorted(_HOME)
__getattr__ = lazy_names(__name__, _HOME)
