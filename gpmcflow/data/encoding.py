"""Columns of a table as inputs of a model, by codes that the learning rows fix."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from gpmcflow.data.cells import missing_cells
from gpmcflow.data.codes import CategoryCode, Code, GroupCode, NumberCode
from gpmcflow.data.columns import is_time
from gpmcflow.data.csv_table import CsvTable
from gpmcflow.data.target import Target
from gpmcflow.errors import InputError, InputErrors, unknown_name


@dataclass(frozen=True)
class Encoding:
    """What is kept of the learning rows, to make inputs of any other rows.

    `codes` are those of the columns used, in the order of the file; `ids` name columns that go
    beside predictions; `missing`, `separator` and `decimal` say how a file is read.
    """

    target: Target
    codes: tuple[Code, ...]
    ids: tuple[str, ...] = ()
    coordinates: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    separator: str = ","
    decimal: str = "."

    @property
    def names(self) -> list[str]:
        """Names of the inputs."""
        return [name for code in self.codes for name in code.inputs]

    @property
    def columns(self) -> list[str]:
        """Names of the columns that inputs are made of."""
        return [code.column for code in self.codes]

    @property
    def groups(self) -> list[str]:
        """Names of the columns that only terms of groups use."""
        return [code.column for code in self.codes if isinstance(code, GroupCode)]

    @property
    def explaining(self) -> list[str]:
        """Names of the columns used, but for those of groups."""
        return [code.column for code in self.codes if not isinstance(code, GroupCode)]

    @property
    def times(self) -> list[str]:
        """Names of the columns used that hold times: dates, and numbers that are named so."""
        numbers = [code for code in self.codes if isinstance(code, NumberCode)]
        return [code.column for code in numbers if code.date_format or is_time(code.column)]

    def code(self, column: str) -> Code:
        """Return the code of a column; raise InputError for one that is not used."""
        for code in self.codes:
            if code.column == column:
                return code
        raise unknown_name("encoding: column", column, self.columns)

    def inputs_of(self, column: str) -> list[str]:
        """Return the names of the inputs made of a column."""
        return self.code(column).inputs

    def natural(self, column: str, standardised: np.ndarray | float) -> np.ndarray:
        """Return values of a number or date column in its units (dates: days since the first)."""
        code = self._number(column)
        return np.asarray(standardised, dtype=float) * code.scale + code.mean

    def standardised(self, column: str, natural: np.ndarray | float) -> np.ndarray:
        """Return the input that values of a number or date column become."""
        code = self._number(column)
        return (np.asarray(natural, dtype=float) - code.mean) / code.scale

    def encode(self, table: CsvTable) -> tuple[pd.DataFrame, list[str]]:
        """Return the inputs of all cases of a table, and a note for each ("" for nothing to say).

        A note names cells that are empty, outside of the range of the learning rows, or of a level
        that they do not have. Raises InputErrors for cells that cannot be read.
        """
        notes: list[list[str]] = [[] for _ in table.rows]
        problems: list[str] = []
        inputs: dict[str, np.ndarray] = {}
        for code in self.codes:
            empty = missing_cells(table.columns[code.column], self.missing, self.decimal)
            columns, wrong = code.encode(table, empty, self.decimal, notes)
            problems += [f"{table.path.name}: {line}" for line in wrong]
            inputs.update(zip(code.inputs, columns, strict=True))
        if problems:
            raise InputErrors(problems)
        frame = pd.DataFrame(inputs, index=pd.RangeIndex(len(table.rows)), dtype=float)
        return frame, ["; ".join(parts) for parts in notes]

    def to_json(self) -> str:
        """Return the encoding as JSON text, every number to the last bit."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Encoding:
        """Return the encoding that `to_json` wrote."""
        stored = json.loads(text)
        target = stored["target"]
        stored["target"] = Target(**{**target, "levels": tuple(target.get("levels", ()))})
        stored["codes"] = tuple(_code(code) for code in stored["codes"])
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()})

    def _number(self, column: str) -> NumberCode:
        code = self.code(column)
        if not isinstance(code, NumberCode):
            raise InputError(f"encoding: column {column!r} holds names, which have no scale")
        return code


def _code(stored: dict) -> Code:
    kinds = {"category": CategoryCode, "group": GroupCode}
    kind = kinds.get(stored["kind"], NumberCode)
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()})
