"""New, check and a quick run of files of 10^3 to 10^6 rows, 10 to 1,000 columns and up to 5,000 categories.

    python benchmarks/large_files.py [--only 1000x10 ...]

Each command has a terminal, on which its longest silence is measured. Seconds are of CPU, with those of its
children; memory is the peak of the largest process, on one core. A run is made where `check --quick` expects
at most five minutes. A row of `large_files.csv` is written as soon as a file is done.
"""

from __future__ import annotations

import argparse
import csv
import errno
import os
import pty
import re
import select
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

ROWS = Path(__file__).with_name("large_files.csv")
GPMCFLOW = [sys.executable, "-c", "import sys; from gpmcflow.cli import main; sys.exit(main())"]
MOST_SECONDS = 300.0  # of a run that is made
# rows, columns of numbers, categories of one more column
FILES = (
    *((1_000, 10, 0), (10_000, 10, 0), (100_000, 10, 0), (1_000_000, 10, 0)),
    *((1_000, 100, 0), (10_000, 100, 0), (100_000, 100, 0), (300, 1_000, 0), (1_000, 1_000, 0)),
    *((10_000, 1_000, 0), (10_000, 3, 500), (10_000, 3, 5_000), (100_000, 3, 5_000)),
)
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "MB": 1.0, "GB": 1000.0, "kB": 1e-3}


class Done(NamedTuple):
    """What a command took, and what it said."""

    code: int
    cpu: float  #: seconds, of its children, too
    megabytes: float  #: of the largest process
    silence: float  #: longest, in seconds by the clock
    text: str


def command(folder: Path, *words: str) -> Done:
    """Run a command of gpmcflow on a terminal."""
    last = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execv(GPMCFLOW[0], [*GPMCFLOW, *words])
    said, silence = [], 0.0
    while True:
        select.select([terminal], [], [], 1.0)
        try:
            text = os.read(terminal, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            break
        now = time.monotonic()
        silence, last = max(silence, now - last), now
        if not text:
            break
        said.append(text)
    _, status, used = os.wait4(pid, 0)
    os.close(terminal)
    text = b"".join(said).decode(errors="replace")
    cpu = used.ru_utime + used.ru_stime
    return Done(os.waitstatus_to_exitcode(status), cpu, used.ru_maxrss / 1000, silence, text)


def write_file(folder: Path, n: int, columns: int, categories: int) -> None:
    """A table whose outcome is a curve of the first column, lines of the others, and a value a category."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        np.round(rng.standard_normal((n, columns)), 3),
        columns=[f"x{k}" for k in range(columns)],
    )
    y = np.sin(2 * frame["x0"]) + 0.3 * frame.iloc[:, 1:].sum(axis=1) / np.sqrt(columns)
    if categories:
        levels = rng.integers(categories, size=n)
        levels[: min(n, categories)] = np.arange(min(n, categories))
        frame["site"] = [f"s{level}" for level in levels]
        y += rng.standard_normal(categories)[levels]
    frame["y"] = np.round(y + 0.3 * rng.standard_normal(n), 3)
    frame.to_csv(folder / "t.csv", index=False)


def row_of(n: int, columns: int, categories: int) -> dict:
    """Measure the three commands on one file."""
    row = {"rows": n, "columns": columns, "categories": categories}
    with tempfile.TemporaryDirectory(prefix="large-") as name:
        folder = Path(name)
        write_file(folder, n, columns, categories)
        row["megabytes"] = round((folder / "t.csv").stat().st_size / 1e6, 2)
        silences = {}
        for what, words in {
            "new": ["new", "t.csv", "--target", "y"],
            "check": ["check", "t.yaml", "--quick", "--cores", "1"],
            "run": ["run", "t.yaml", "--quick", "--cores", "1"],
        }.items():
            done = command(folder, *words)
            row |= {f"{what}_s": round(done.cpu, 1), f"{what}_mb": round(done.megabytes)}
            silences[what] = round(done.silence, 1)
            if what == "check":
                row |= forecast(done.text)
            if done.code:
                lines = [line for line in re.split(r"[\r\n]+", done.text) if line.strip()]
                row["said"] = f"{what}: {lines[-1] if lines else done.code}"[:300]
                break
            if what == "check" and row["expected_s"] > MOST_SECONDS:
                row["said"] = "not run: more than five minutes are expected"
                break
        row["silence_s"] = " ".join(f"{what} {seconds}" for what, seconds in silences.items())
    return row


def forecast(text: str) -> dict:
    """Seconds and MB that `check` expects."""
    found = re.search(r"about ([\d.]+) (s|min|h) on 1 core.*?, ([\d.]+) (kB|MB|GB)", text)
    if not found:
        return {}
    return {
        "expected_s": float(found[1]) * UNITS[found[2]],
        "expected_mb": float(found[3]) * UNITS[found[4]],
    }


def main() -> None:
    """Measure what has no row yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="such as 1000x10, or 10000x3x500")
    options = parser.parse_args()
    columns = [
        "rows",
        "columns",
        "categories",
        "megabytes",
        "new_s",
        "new_mb",
        "check_s",
        "check_mb",
    ]
    columns += ["expected_s", "run_s", "expected_mb", "run_mb", "silence_s", "said"]
    rows = list(csv.DictReader(ROWS.open())) if ROWS.exists() else []
    for size in FILES:
        name = "x".join(str(number) for number in size if number)
        if options.only and name not in options.only:
            continue
        key = [str(number) for number in size]
        made = row_of(*size)
        print(made, flush=True)
        rows = [r for r in rows if [r["rows"], r["columns"], r["categories"]] != key]
        rows.append({column: made.get(column, "") for column in columns})
        rows.sort(key=lambda r: [int(r[name]) for name in ("categories", "columns", "rows")])
        with ROWS.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
