"""What a certificate that is there says of quick answers to data like those of an analysis."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpmcflow.execution import text_digest
from gpmcflow.storage import read_csv

PREDICTOR = "predictor"  # the first word of quantities of it, behind the name of its function
OF_PREDICTOR = re.compile(rf"(?:[^:]*: )?{PREDICTOR}(?:, | of row )")


def is_of_predictor(quantity: str) -> bool:
    """Whether a quantity of a certificate is a value of the predictor, or an effect on it."""
    return OF_PREDICTOR.match(quantity) is not None


def certified_digest(checksum: str, statement: Mapping[str, Any]) -> str:
    """Digest of a table with this checksum and a model as it is stated: column ``certified`` of the table."""
    return text_digest(checksum, json.dumps(statement, sort_keys=True, default=str))


def quick_answers_in_words(path: Path, checksum: str, statement: Mapping[str, Any]) -> str:
    """How far quick answers of a model were from draws, by certificate.csv at ``path``; "" where it has none.

    A certificate of other data or of another model of the same name says nothing.
    """
    if not path.exists():
        return ""
    table = read_csv(path)
    if not {"quick_worst", "certified"} <= set(table):  # of quick answers, or by an older version
        return ""
    of_predictor = table["quantity"].astype(str).map(is_of_predictor)
    same = table["certified"] == certified_digest(checksum, statement)
    rows = table[of_predictor & same & table["quick_worst"].notna()]
    if rows.empty:
        return ""
    return (
        f"Quick answers to data like yours were off by {rows['quick_median'].median():.1g} sd in the median, "
        f"{rows['quick_worst'].max():.1g} in the worst of {int(rows['quick_data_sets'].max())}."
    )
