"""A digest of the code that a job runs: all modules that its function can reach by imports.

Only the standard library is imported, since a Snakefile is parsed again for each cluster job.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gpmcflow.errors import InputError, StorageError
from gpmcflow.storage.cache_folder import is_writable, user_caches
from gpmcflow.storage.files import write_text

PACKAGE = "gpmcflow"
# What no number depends on: messages, files as such, and what surrounds a job.
HARMLESS = (
    "errors", "storage", "pipeline", "monitor", "execution.disk", "execution.progress",
    "jobs.job", "jobs.study", "replications.papers",
)  # fmt: skip
_FOLDER = Path(__file__).resolve().parents[1]
_MOST_PARSED = 2000  # sources that are remembered: of several versions, or of edits


class Source(NamedTuple):
    """A module: digest of its parsed code, the package's modules and names that it imports."""

    digest: str
    imports: tuple[tuple[str, str], ...]  #: (module, name, "" for the module itself)


def code_digest(*entries: str, root: str | Path | None = None) -> str:
    """Return the SHA-256 (hex) of the parsed code that functions can reach, docstrings and comments left out.

    ``entries`` are modules, or functions in them, such as "gpmcflow.analysis.steps:fit". What they
    reach is the closure of their modules under imports, at the top of a module or inside a function; names
    that a package takes from its modules lead to these. `HARMLESS` modules do not count. The digest is of
    `ast.dump`, so it holds for one minor version of Python. ``root`` is the folder of the package (its own by
    default). What was parsed once is not parsed again by the same Python: among the user's caches lies what
    became of which bytes. Raises `InputError` for a module that is not there.
    """
    digest, n_parsed = hashlib.sha256(), len(_parsed())
    for path, source in code_of(*entries, root=root).items():
        digest.update(f"{path}\0{source.digest}\0".encode())
    if len(_parsed()) > n_parsed and (cache := _cache()) is not None:
        kept = list(_parsed().items())[-_MOST_PARSED:]
        with contextlib.suppress(StorageError):
            write_text(json.dumps(dict(kept)), cache)
    return digest.hexdigest()


def code_of(
    *entries: str, root: str | Path | None = None, harmless: tuple[str, ...] = HARMLESS
) -> dict[str, Source]:
    """The modules that entries reach, without ``harmless`` ones, by their path in the package, in order."""
    folder = _FOLDER if root is None else Path(root)
    waiting = [_parts(entry.partition(":")[0]) for entry in entries]
    reached: dict[str, Source] = {}
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        path = _file(folder, module)
        reached[path.relative_to(folder).as_posix()] = source = _source(path)
        waiting += _reached(folder, source.imports, harmless)
    return dict(sorted(reached.items()))


def _parts(module: str) -> str:
    """Name below the package."""
    return module.removeprefix(PACKAGE).removeprefix(".")


def _file(folder: Path, module: str) -> Path:
    base = folder.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    raise InputError(f"code_digest: no module {PACKAGE}.{module}; name one of the package")


@functools.cache
def _reached(
    folder: Path, imports: tuple[tuple[str, str], ...], harmless: tuple[str, ...]
) -> list[str]:
    """The modules that imports lead to and that count, for the digests of many rules."""
    left_out = tuple(f"{name}." for name in harmless)
    return [m for m in imported_modules(folder, imports) if not f"{m}.".startswith(left_out)]


def imported_modules(folder: Path, imports: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The modules that imports lead to: through a package to the one that a name is from."""
    for module, name in imports:
        module = _parts(module)
        package = folder.joinpath(*module.split(".")) if module else folder
        if not (package / "__init__.py").is_file():
            yield module
        elif not name:
            continue  # the package alone; what is used of it is imported by its modules' names
        elif (package / f"{name}.py").is_file() or (package / name / "__init__.py").is_file():
            yield f"{module}.{name}".removeprefix(".")
        else:
            yield from _from_package(folder, package, module, name)


def _from_package(folder: Path, package: Path, module: str, name: str) -> Iterator[str]:
    """Where a package has a name from: one of its imports, a table of lazy ones, or its own code."""
    path = package / "__init__.py"
    for source, imported in _source(path).imports:
        if imported == name:
            yield from imported_modules(folder, [(source, name)])
            return
    lazy = _lazy(path.read_bytes()).get(name)
    yield f"{module}.{lazy}" if lazy else module


def _source(path: Path) -> Source:
    stat = path.stat()
    return _read(path, stat.st_mtime_ns, stat.st_size)


@functools.cache
def _read(path: Path, mtime_ns: int, size: int) -> Source:
    """A module in one state of its file, which the digests of many rules share."""
    content = path.read_bytes()
    key = f"{sys.version_info[0]}.{sys.version_info[1]} {hashlib.sha256(content).hexdigest()}"
    if key not in _parsed():
        tree = _without_docstrings(ast.parse(content))
        digest = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
        _parsed()[key] = [digest, list(_imports(tree))]
    digest, imports = _parsed()[key]
    return Source(digest, tuple((module, name) for module, name in imports))


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{PACKAGE}."):
            for alias in node.names:
                yield str(node.module), alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if f"{alias.name}.".startswith(f"{PACKAGE}."):
                    yield alias.name, ""


def _lazy(content: bytes) -> dict[str, str]:
    """Name -> module of the first mapping of texts at the top of a package that imports on first use."""
    for node in ast.parse(content).body:
        value = getattr(node, "value", None)
        if isinstance(value, ast.Dict):
            with contextlib.suppress(ValueError):
                table = ast.literal_eval(value)
                if all(isinstance(item, str) for pair in table.items() for item in pair):
                    return table
    return {}


@functools.cache
def _parsed() -> dict[str, list]:
    """Python and SHA-256 of a source -> digest of its parsed code, and its imports."""
    cache = _cache()
    try:
        return dict(json.loads(cache.read_text())) if cache is not None else {}
    except (OSError, ValueError, TypeError):
        return {}


@functools.cache
def _cache() -> Path | None:
    """The file of what was parsed; None where no folder of caches can be written."""
    folder = user_caches()
    if folder is None or not is_writable(folder / PACKAGE):
        return None
    return folder / PACKAGE / "sources.json"


def _without_docstrings(tree: ast.Module) -> ast.Module:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree
