"""How many wrong programs the tests catch: ``python -m tests.mutants [--seed 0] [--n 60]``, in an hour or so.

Draws operators of the package by a seed, changes one at a time in a scratch copy of the clone, and runs the
fast tests that reach the changed file, then, if these pass, the slow ones. Prints a row for each change, and
the share that each tier catches; undecided are those whose slow tests take more than 20 minutes. A survivor
is a missing test, unless the change affects no result.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.affected import PACKAGE, ROOT, affected
from tests.tiers import PLAIN

SWAPS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.Pow: "*", ast.MatMult: "*",
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
    ast.And: "or", ast.Or: "and",
}  # fmt: skip
NEAREST = 8  #: test files that run first, as most mutants die there
MOST_SECONDS = 1200  #: a change may make a loop endless; slow tests may take as long without it
NO_END = "no end"  #: after so many


class Mutant(NamedTuple):
    """One operator in a file: its place and its replacement."""

    path: str
    line: int
    start: int  #: in bytes of the file
    end: int
    text: str

    def source(self) -> bytes:
        """The file with the change."""
        content = (ROOT / self.path).read_bytes()
        return content[: self.start] + self.text.encode() + content[self.end :]

    def __str__(self) -> str:
        before = (ROOT / self.path).read_bytes()[self.start : self.end].decode()
        shown = [" ".join(part.split()) for part in (before, self.text)]
        return f"{self.path}:{self.line}: {shown[0]} -> {shown[1]}"


def mutants() -> Iterator[Mutant]:
    """All changes of one operator in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name, content = path.relative_to(ROOT).as_posix(), path.read_bytes()
        starts = [0]
        for line in content.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))

        def place(node: ast.expr, starts: list[int] = starts) -> tuple[int, int]:
            return (
                starts[node.lineno - 1] + node.col_offset,
                starts[node.end_lineno - 1] + node.end_col_offset,
            )

        for node in ast.walk(_without_annotations(ast.parse(content))):
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
                start, end = place(node)
                text = content[start:end].decode().removeprefix("-").removeprefix("not ")
                yield Mutant(name, node.lineno, start, end, text)
                continue
            if isinstance(node, ast.BinOp):
                parts, operators = [node.left, node.right], [node.op]
            elif isinstance(node, ast.Compare):
                parts, operators = [node.left, *node.comparators], node.ops
            elif isinstance(node, ast.BoolOp):
                parts, operators = node.values, [node.op] * (len(node.values) - 1)
            else:
                continue
            if any(isinstance(p, ast.JoinedStr) or _is_text(p) for p in parts):
                continue  # a message, not a number
            for left, right, operator in zip(parts, parts[1:], operators, strict=False):
                start, end = place(left)[1], place(right)[0]
                between = content[start:end].decode()
                old = ast.unparse(_expression(operator)).split(" ", 1)[1].rsplit(" ", 1)[0]
                if type(operator) in SWAPS and between.count(old) == 1:
                    new = between.replace(old, SWAPS[type(operator)])
                    yield Mutant(name, left.end_lineno, start, end, new)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _expression(operator: ast.AST) -> ast.expr:
    a, b = ast.Name("a"), ast.Name("b")
    if isinstance(operator, ast.boolop):
        return ast.BoolOp(operator, [a, b])
    if isinstance(operator, ast.cmpop):
        return ast.Compare(a, [operator], [b])
    return ast.BinOp(a, operator, b)


def _without_annotations(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            if getattr(node, field, None) is not None:
                setattr(node, field, None)
    return tree


def killed_by(clone: Path, tests: list[str], marks: str) -> str:
    """The test that fails first in a copy of the clone; empty if none does."""
    environment = os.environ | {"PYTHONPATH": str(clone)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "--tb=no", "-m", marks]
    for some in (tests[:NEAREST], tests[NEAREST:]):
        if not some:
            continue
        with subprocess.Popen(
            [*command, *some], cwd=clone, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=MOST_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # tests start processes of their own
                return NO_END
        if process.returncode not in (0, 5):  # 5: no test of this tier
            failed = [x for x in output.splitlines() if x.startswith(("FAILED", "ERROR"))]
            return failed[0].split(" - ")[0] if failed else f"exit {process.returncode}"
    return ""


def copy_of_clone(folder: Path) -> Path:
    """The files that git knows or would know, without what it ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(lambda name: (ROOT / name).is_file(), listed.stdout.splitlines()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def main(arguments: list[str]) -> int:
    """Draw mutants, try each, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n", type=int, default=60)
    asked = parser.parse_args(arguments)
    drawn = random.Random(asked.seed).sample(list(mutants()), asked.n)
    killed = {"fast": 0, "slow": 0, "undecided": 0, "": 0}
    with tempfile.TemporaryDirectory() as folder:
        clone = copy_of_clone(Path(folder, "clone"))
        for mutant in drawn:
            began = time.perf_counter()
            (clone / mutant.path).write_bytes(mutant.source())
            tier, tests = "", affected([ROOT / mutant.path])
            for name, marks in {"fast": PLAIN, "slow": "slow"}.items():
                test = killed_by(clone, tests, marks)
                if test:
                    tier = "undecided" if (name, test) == ("slow", NO_END) else name
                    break
            shutil.copy(ROOT / mutant.path, clone / mutant.path)
            killed[tier] += 1
            seconds = time.perf_counter() - began
            print(f"{tier or 'SURVIVED'} | {mutant} | {test} | {seconds:.0f} s", flush=True)
    fast, full = killed["fast"] / asked.n, (killed["fast"] + killed["slow"]) / asked.n
    print(f"{asked.n} mutants: the fast tier kills {fast:.0%}, all tests kill {full:.0%}", end="")
    print(f"; {killed['undecided']} undecided after {MOST_SECONDS} s" * bool(killed["undecided"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
