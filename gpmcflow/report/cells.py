"""Cells of the tables of a report, and how numbers are written in them."""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

import pandas as pd


def kind_of(column: pd.Series) -> str:
    """What the cells of a column are: number, name, or note, which is long."""
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return "number"
    return "note" if column.dropna().astype(str).str.len().max() > 40 else "name"


def columns_of(*labels: str, kind: str = "name") -> list[dict[str, str]]:
    """Heads of columns of a kind."""
    return [{"label": label, "kind": kind} for label in labels]


def cell(text: str, kind: str = "name", mark: str = "") -> dict[str, str]:
    """Text of a kind (name, number, note), after a word that stands out."""
    return {"text": text, "kind": kind, "mark": mark}


def grouped(rows: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Neighbouring rows of one ``group``, by its name."""
    return [(name, list(some)) for name, some in groupby(rows, key=lambda row: row["group"])]


def text_of(value: Any) -> str:
    """Text of a value, empty for none."""
    return "" if pd.isna(value) else str(value)


def decimals_of(error: Any) -> int | None:
    """Decimals that show two digits of a standard error; None (all that matter) without one."""
    try:
        error = float(error)
    except (TypeError, ValueError):
        return None
    if not math.isfinite(error) or error <= 0.0:
        return None
    return min(max(1 - math.floor(math.log10(error)), 0), 6)


def number_text(value: Any, decimals: int | None = None, digits: int = 7) -> str:
    """Number with that many decimals, or with that many significant digits; text stays text."""
    if isinstance(value, bool):
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return text_of(value)
    if math.isnan(number):
        return ""
    if not math.isfinite(number):
        return "-∞" if number < 0 else "∞"
    if decimals is not None:
        return f"{number:.{decimals}f}"
    text = f"{number:.{digits}g}"
    return f"{number:.0f}" if "e" in text and 1.0 <= abs(number) < 1e9 else text
