"""Run the tests whose imports reach changed files, the fast ones first: ``python -m tests.affected [FILES]``.

Without files, it takes those that differ from the last commit. A test reaches what it, the helpers beside it
and the fixtures that it asks for import, and what these import in turn. Tests that start processes reach the
whole package. They, and the tests that name it, are run for a changed file that is not a module of the
package: a rule, a schema, a template.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gpmcflow.errors import InputError
from gpmcflow.execution.code import code_of, imported_modules
from tests.tiers import PLAIN

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
PACKAGE = ROOT / "gpmcflow"
PROCESSES = re.compile(r"\b(subprocess|multiprocessing|run_all_jobs|sphinx)\b")
MODULE = re.compile(r"\bgpmcflow(?:\.\w+)+")


class Source(NamedTuple):
    """A file of the tests and the part of its text that counts."""

    path: Path
    text: str


def changed_files() -> list[str]:
    """Files that differ from the last commit or are new, from the root of the clone."""
    lines = []
    for command in (
        ["diff", "--name-only", "HEAD"],
        ["ls-files", "--others", "--exclude-standard"],
    ):
        done = subprocess.run(
            ["git", *command], cwd=ROOT, capture_output=True, text=True, check=True
        )
        lines += done.stdout.splitlines()
    return lines


def affected(files: Iterable[str]) -> list[str]:
    """Test files that reach one of the files, those of the same room first, then those that reach least."""
    files = [Path(name).resolve().relative_to(ROOT).as_posix() for name in files]
    rooms = {"/".join(name.split("/")[1:-1]) for name in files}

    def order(test: str) -> tuple[bool, int, str]:
        near = any(test.startswith(f"tests/{room}/") for room in rooms if room)
        return not near, len(reached(test)), test

    return sorted((test for test in test_files() if _concerns(test, files)), key=order)


def test_files() -> list[str]:
    """All test files, from the root of the clone."""
    return sorted(path.relative_to(ROOT).as_posix() for path in TESTS.rglob("test_*.py"))


@functools.cache
def reached(test: str) -> frozenset[str]:
    """Files that a test file reaches, from the root of the clone."""
    sources = _sources(test)
    if _starts_processes(test):
        modules = {path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py")}
    else:
        entries = {entry for source in sources for entry in _entries(source.text)}
        modules = {f"gpmcflow/{path}" for entry in entries for path in _code(entry)}
    return frozenset(modules | {source.path.relative_to(ROOT).as_posix() for source in sources})


def _starts_processes(test: str) -> bool:
    return any(PROCESSES.search(source.text) for source in _sources(test))


def _concerns(test: str, files: list[str]) -> bool:
    for name in files:
        if name.endswith(".py") and name.startswith(("gpmcflow/", "tests/")):
            if name in reached(test):
                return True
        elif _starts_processes(test) or any(
            Path(name).name in source.text for source in _sources(test)
        ):
            return True
    return False


@functools.cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path))


@functools.cache
def _sources(test: str) -> tuple[Source, ...]:
    """A test file, the helpers that it imports, and the fixtures it asks for of the conftests above it."""
    found: dict[Path, Source] = {}
    waiting = [ROOT / test]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = source = Source(path, _text(path))
        waiting += _helpers(path)
        for folder in path.relative_to(TESTS).parents:
            conftest = TESTS / folder / "conftest.py"
            if conftest.is_file() and conftest != path:
                asked = _asked_for(conftest, frozenset(re.findall(r"\w+", source.text)))
                if asked:
                    found[conftest] = Source(
                        conftest, found.get(conftest, Source(conftest, "")).text + asked
                    )
    return tuple(found.values())


def _helpers(path: Path) -> Iterator[Path]:
    """Files of the tests that a file imports."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            of = node.module or ""
            names = [of, *(f"{of}.{alias.name}".removeprefix(".") for alias in node.names)]
        else:
            continue
        for name in names:
            tail = name.removeprefix("tests.").replace(".", "/")
            yield from (f for base in (path.parent, TESTS) if (f := base / f"{tail}.py").is_file())


@functools.cache
def _asked_for(conftest: Path, words: frozenset[str]) -> str:
    """The fixtures of a conftest that are among words, with the definitions and imports that these use."""
    defined = {}
    for node in _tree(conftest).body:
        for name in _bound(node):
            defined[name] = node
    fixtures = {
        name
        for name, node in defined.items()
        if isinstance(node, ast.FunctionDef)
        and any("fixture" in ast.unparse(decorator) for decorator in node.decorator_list)
    }
    always = {
        name
        for name in fixtures
        if any("autouse=True" in ast.unparse(d) for d in defined[name].decorator_list)
    }
    taken, waiting = set(), fixtures & words | always
    while waiting:
        taken |= waiting
        used = set(re.findall(r"\w+", "\n".join(ast.unparse(defined[n]) for n in waiting)))
        waiting = (used & defined.keys()) - taken
    nodes = {id(defined[name]): defined[name] for name in sorted(taken)}
    return "".join(f"{ast.unparse(node)}\n" for node in nodes.values())


def _bound(node: ast.stmt) -> list[str]:
    """Names that a statement at the top of a file binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    return [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]


def _entries(text: str) -> Iterator[str]:
    """Dotted names of the package that a source has: in imports, as attributes of the package, in texts."""
    tree = ast.parse(text)
    aliases = {"gpmcflow"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("gpmcflow."):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            aliases |= {alias.asname for alias in node.names if alias.name == "gpmcflow"} - {None}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) in aliases:
            yield f"gpmcflow.{node.attr}"
    yield from MODULE.findall(text)


@functools.cache
def _code(entry: str) -> frozenset[str]:
    """What a dotted name reaches: a module, a name that a module or a package has, or what it belongs to."""
    module, _, name = entry.rpartition(".")
    if not module:
        return frozenset()
    try:
        modules = imported_modules(PACKAGE, [(module, name)])
        return frozenset(code_of(*modules, harmless=()))
    except InputError:
        return _code(module)


def main(arguments: list[str]) -> int:
    """Run the fast tests that reach the files, then, if these pass, the slow ones."""
    parser = argparse.ArgumentParser("python -m tests.affected", description=__doc__)
    parser.add_argument("files", nargs="*", help="changed files; else those that git names")
    tests = affected(parser.parse_args(arguments).files or changed_files())
    if not tests:
        print("no test reaches these files")
        return 0
    for marks in (PLAIN, "slow"):
        code = subprocess.call([sys.executable, "-m", "pytest", "-q", "-m", marks, *tests])
        if code not in (0, 5):  # 5: no test of this tier
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
