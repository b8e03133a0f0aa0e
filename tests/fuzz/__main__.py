"""Fuzz readers and print a table: ``python -m tests.fuzz [--examples 2000] [reader ...]``.

All failures are counted, and the first of each kind is shown.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, given, settings

from .outcome import MOST_SECONDS, TooSlowError, outcome
from .readers import IN_A_CHILD, readers


class Count(NamedTuple):
    """What became of the inputs of one reader."""

    read: int
    refused: int
    failed: int
    seconds: float  #: of CPU, the slowest input
    shown: list[str]  #: the first failure of each kind

    @property
    def inputs(self) -> int:
        """All of them."""
        return self.read + self.refused + self.failed


def count(name: str, examples: int) -> Count:
    """Give a reader that many changed inputs, the same ones each time."""
    reader, seen, kinds, slowest = readers()[name], Counter(), {}, [0.0]
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as place:

        @settings(
            max_examples=examples,
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(reader.inputs)
        def one(value):
            faulthandler.dump_traceback_later(2 * MOST_SECONDS, exit=True)  # a hang within C
            try:
                made = outcome(reader.read, value, Path(place))
                seen["read" if made.read else "refused"] += 1
                slowest[0] = max(slowest[0], made.seconds)
            except (Exception, TooSlowError) as error:
                seen["failed"] += 1
                where = traceback.extract_tb(error.__traceback__)[-1]
                kind = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
                if kind not in kinds:
                    trace = "".join(traceback.format_exception(error)[-6:])
                    kinds[kind] = (
                        f"{kind}: {str(error)[:200]}\n  input {repr(value)[:600]}\n{trace}"
                    )
            finally:
                faulthandler.cancel_dump_traceback_later()

        try:
            one()
        finally:
            os.chdir(home)
    return Count(seen["read"], seen["refused"], seen["failed"], slowest[0], list(kinds.values()))


def main(words: list[str] | None = None) -> int:
    """Print the table; return 1 if any input failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readers", nargs="*", help="default: all")
    parser.add_argument("--examples", type=int, default=2000, help="inputs of each; default: 2000")
    parser.add_argument("--here", action="store_true", help="no child process for any reader")
    options = parser.parse_args(words)
    failed = 0
    print("| reader | inputs | read | refused in one line | failed | slowest |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for name in options.readers or readers():
        if name in IN_A_CHILD and not options.here:
            failed += in_a_child(name, options.examples).returncode != 0
            continue
        found = count(name, options.examples)
        print(
            f"| {name} | {found.inputs} | {found.read} | {found.refused} | {found.failed} | "
            f"{found.seconds:.2f} s |",
            flush=True,
        )
        print(*found.shown, sep="\n", file=sys.stderr, flush=True)
        failed += found.failed
    return int(failed > 0)


def in_a_child(name: str, examples: int) -> subprocess.CompletedProcess:
    """Fuzz one reader in a process of its own, and print its row."""
    root = Path(__file__).parents[2]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); from tests.fuzz.__main__ import main; "
    code += f"sys.exit(main([{name!r}, '--examples', '{examples}', '--here']))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    rows = child.stdout.splitlines()[2:]
    print(*(rows or [f"| {name} | ended with code {child.returncode} | | | | |"]), sep="\n")
    print(child.stderr, file=sys.stderr, end="", flush=True)
    return child


if __name__ == "__main__":
    sys.exit(main())
