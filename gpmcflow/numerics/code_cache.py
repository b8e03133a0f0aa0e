"""Compiled loops, kept on disk under a digest of all sources that can be inlined into them.

Numba's own caches know the file that holds a function, not the files of what it inlines: after an edit
of those, the old code runs on. Here the folder is named by a digest of the sources, and each file by
everything else that its content depends on. So the content of a file never changes: versions of the package,
installations and processors can share a folder, and processes can write to it at the same time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
import scipy
from numba.core import config, sigutils
from numba.core.caching import NullCache
from numba.core.ccallback import CFunc
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from gpmcflow.storage.cache_folder import is_own, is_writable, user_caches

PACKAGE = Path(__file__).resolve().parents[1]
# Whole rooms, for the constants that loops take from modules without one; elsewhere the modules with loops.
ROOMS = ("numerics", "covariances", "likelihoods")
OTHER_ROOMS = ("models", "approximations", "samplers", "replications")
KEPT = 8  #: folders of other sources, the ones used last
_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_VERSIONS = (
    *(sys.implementation.cache_tag, numba.__version__, llvmlite.__version__),
    *(np.__version__, scipy.__version__),  # which constants in loops are computed with
    *(config.USING_SVML, config.OPT, config.BOUNDSCHECK),
)


def compiled(function: Callable | None = None, **options: Any) -> Any:
    """Compile a function when it is first called with arguments of new types; decorator.

    ``options`` are those of `numba.njit`. The function releases the GIL and divides as NumPy does.
    """
    if function is None:
        return functools.partial(compiled, **options)
    dispatcher = numba.njit(**_OPTIONS, **options)(function)
    dispatcher._cache = FunctionCache(function)
    return dispatcher


def compiled_elementwise(function: Callable) -> Any:
    """Compile a function of numbers into one of arrays, as `numba.vectorize` does; decorator."""
    ufunc = numba.vectorize(function)
    ufunc._dispatcher.cache = FunctionCache(function)
    return ufunc


def compiled_callback(function: Callable, signature: Any, **options: Any) -> CFunc:
    """Compile a function that is called by its address, now."""
    signature = sigutils.normalize_signature(signature)
    callback = CFunc(function, signature, locals={}, options={**_OPTIONS, **options})
    callback._cache = FunctionCache(function)
    callback.compile()
    return callback


class FunctionCache(NullCache):
    """Compiled forms of one function on disk, instead of in Numba's `FunctionCache`.

    Functions outside the package are compiled anew in each process: what they inline is not known here.
    A folder that cannot be read or written costs the time to compile, no error.
    """

    def __init__(self, function: Callable) -> None:
        code = function.__code__
        self._stem = f"{function.__module__.removeprefix('gpmcflow.')}.{function.__qualname__}"
        self._function = (self._stem, code.co_firstlineno, code.co_code.hex())
        self._is_own = Path(code.co_filename).resolve().is_relative_to(PACKAGE)

    @property
    def cache_path(self) -> str | None:
        """Folder of the compiled forms."""
        folder = code_folder() if self._is_own else None
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        """Return the compiled form for types of arguments, None where it is not there."""
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        try:
            return path and CompileResult._rebuild(target_context, *pickle.loads(path.read_bytes()))
        except Exception:  # not there, or damaged: compiled again, and written again
            return None

    def save_overload(self, sig: Any, data: CompileResult) -> None:
        """Write a compiled form, unless its sources have changed since they were imported."""
        path = self._path(sig, data.codegen)
        uncacheable = any(not loop.can_cache for loop in data.lifted)
        if path is None or uncacheable or data.library.has_dynamic_globals:
            return
        with contextlib.suppress(OSError):  # a source that is gone has changed
            if sources_digest() == SOURCES:
                _write(dumps(data._reduce()), path)

    def _path(self, sig: Any, codegen: Any) -> Path | None:
        folder = code_folder() if self._is_own else None
        if folder is None:
            return None
        key = repr((self._function, sig, codegen.magic_tuple(), _VERSIONS))
        return folder / f"{self._stem}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.nbc"


def sources_digest(package: Path = PACKAGE) -> str | None:
    """Return the SHA-256 (hex) of the sources that loops are compiled from, None if they are not there."""
    digest, marked = hashlib.sha256(), Path(__file__).stem.encode()
    paths, others = (
        [
            path
            for room in rooms
            for path in (package / room).rglob("*.py")
            if not path.name.startswith(".")  # locks of an editor, which are links to nowhere
        ]
        for rooms in (ROOMS, OTHER_ROOMS)
    )
    for path in sorted(paths + others):
        content = path.read_bytes()
        if path in paths or marked in content:
            digest.update(f"{path.relative_to(package).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest() if paths else None


SOURCES = sources_digest()  # as they are imported: an edit comes to a running process too late


@functools.cache
def code_folder() -> Path | None:
    """Folder of what was compiled from these sources; None where nothing can be written.

    It is made in $NUMBA_CACHE_DIR, in the package's own __pycache__, or in the user's caches, the first of
    them that can be written. Code is loaded from it: the first is the user's choice, the second as safe as
    the package, and in the third it must be a folder that nobody else can write to.
    """
    if SOURCES is None:
        return None
    name = f"gpmcflow-{SOURCES[:24]}"
    # Not numba's own setting, which a .numba_config.yaml beside the data changes.
    stated = os.environ.get("NUMBA_CACHE_DIR")
    places = (
        (lambda: Path(stated) if stated else None, is_writable),
        (lambda: PACKAGE / "__pycache__", is_writable),
        (user_caches, is_own),
    )
    for place, may_hold_code in places:
        if (parent := place()) and is_writable(parent):
            _remove_old(parent, name)
            if may_hold_code(parent / name):
                return parent / name
    return None


def _remove_old(parent: Path, name: str) -> None:
    """Keep the folders of the sources used last: an editor of the package makes one at each step."""
    with contextlib.suppress(OSError):
        if (parent / name).is_dir():
            os.utime(parent / name)
            return
        others = sorted(parent.glob("gpmcflow-" + "?" * 24), key=lambda path: -path.stat().st_mtime)
        for folder in others[KEPT:]:
            if folder.stat().st_mtime < time.time() - 3600.0:  # nobody compiles into it
                shutil.rmtree(folder, ignore_errors=True)


def _write(content: bytes, path: Path) -> None:
    """Write a file that appears whole or not at all; what is lost in a crash is compiled again."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}.tmp")
    with contextlib.suppress(OSError):
        try:
            temporary.write_bytes(content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
