"""Which file and which reading code each expected reading was written down for: `record.csv`.

A row is added once, by `python -m benchmarks.real_files --record`, before the code has read that file. A
later change of an expected reading leaves the row's first digests and says in `changed` under which code it
was made.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("record.csv")
COLUMNS = ("name", "table", "csv", "expected", "code", "changed")
CODE = Path(__file__).parents[2] / "gpmcflow" / "data"


def code_digest() -> str:
    """Return a digest of the sources of the reading code, gpmcflow/data."""
    digest = hashlib.sha256()
    for path in sorted(CODE.rglob("*.py")):
        digest.update(
            path.relative_to(CODE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0"
        )
    return digest.hexdigest()[:12]


def entry_digest(entry: Mapping[str, Any]) -> str:
    """Return a digest of an expected reading, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()[:12]


def read_record(path: Path = FILE) -> dict[str, dict[str, str]]:
    """Return the rows by name; none without a file."""
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as lines:
        return {row["name"]: row for row in csv.DictReader(lines)}


def add_rows(
    record: Mapping[str, dict[str, str]],
    tables: Mapping[str, Mapping[str, Any]],
    checksums: Mapping[str, str],
    code: str,
) -> dict[str, dict[str, str]]:
    """Return the record with a row for each entry of the tables, and a mark where an entry has changed."""
    rows = {}
    for table, entries in tables.items():
        for name, entry in entries.items():
            expected = entry_digest(entry)
            row = dict(record.get(name) or dict.fromkeys(COLUMNS, ""))
            if not row["name"]:
                row |= {"name": name, "csv": checksums[name], "expected": expected, "code": code}
            elif row["expected"] != expected and not row["changed"].endswith(expected):
                row["changed"] = f"{code} {expected}"
            rows[name] = row | {"table": table}
    return rows


def write_record(rows: Mapping[str, dict[str, str]], path: Path = FILE) -> None:
    """Write the rows, by name."""
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[name] for name in sorted(rows))
