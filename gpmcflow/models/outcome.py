"""The outcome of a frame as a likelihood takes it: numbers, two labels as -1 and +1, ordered grades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gpmcflow.covariances.inputs import DATES, holds, require_plain
from gpmcflow.data.outcome_kinds import YES_WORDS
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods import (
    LIKELIHOODS,
    MULTI_LIKELIHOODS,
    Likelihood,
    Logistic,
    Ordinal,
    Softmax,
)

WHERE = "from_frame"
_FEW = 4  # labels that a message shows


def observed(y: Any, likelihood: Any) -> np.ndarray:
    """Observations as numbers, writable, as compiled code knows them; words as the likelihood codes them.

    Raises `InputError` for what is no number. What is no likelihood codes nothing: a model refuses it later.
    """
    require_plain("model: y", y)
    if np.asarray(y).dtype.kind not in "iufb":
        missing = np.flatnonzero(pd.isna(np.asarray(y, dtype=object).ravel()))
        if missing.size:
            raise InputError(f"model: y[{missing[0]}] is missing; leave the case out")
    try:
        coded = likelihood.coded(y) if isinstance(likelihood, Likelihood) else y
        return np.array(coded, np.float64, order="C")
    except InputError:
        raise
    except (TypeError, ValueError):
        raise InputError("model: y holds other than numbers; code it as numbers") from None


class Outcome(NamedTuple):
    """What y stands for in the user's frame."""

    name: str
    labels: tuple[str, ...] = ()  #: those coded -1 and +1; empty for other outcomes

    @classmethod
    def of(cls, plain: Sequence[Any] | None) -> Outcome | None:
        """The outcome of plain values, as results hold them."""
        return None if plain is None else cls(plain[0], tuple(plain[1]))

    @property
    def response(self) -> str:
        """What the mean response is of, such as ``P(readmitted = yes)``."""
        return f"P({self.name} = {self.labels[1]})" if self.labels else self.name


def read_outcome(
    column: pd.Series, name: str, stated: Likelihood | str | None, positive: Any
) -> tuple[Outcome, Any, Likelihood | str]:
    """The outcome, its values as the likelihood takes them, and the likelihood, stated or found."""
    where = f"{WHERE}: y: column {name!r}"
    kind = stated if isinstance(stated, str) else getattr(stated, "name", None)
    known = LIKELIHOODS | MULTI_LIKELIHOODS
    if isinstance(stated, str) and stated not in known:
        raise unknown_name(f"{WHERE}: likelihood", stated, known)
    if not isinstance(stated, Likelihood | str | None):
        raise InputError(
            f'{WHERE}: likelihood is {stated!r}; allowed: a name such as "poisson", or one such as Poisson()'
        )
    if holds(column, DATES):
        raise InputError(f"{where} holds dates; give numbers, such as days since the first one")
    levels = _ordered_levels(column)
    if len(levels) > 2 and kind in (None, "ordinal") and positive is None:
        words = column.astype(str).to_numpy(dtype=object)
        if isinstance(stated, Ordinal) and stated.cutpoints is None:
            stated = replace(stated, levels=levels)
        return Outcome(name), words, stated if isinstance(stated, Ordinal) else Ordinal(levels)
    labels = _labels(column)
    words_only = labels is not None
    several = labels is not None and len(labels) > 2 and positive is None
    if kind == "softmax" or (several and kind is None):
        return _classes_of(column, name, stated, labels)
    binary = kind is not None and LIKELIHOODS.get(kind) is not None and LIKELIHOODS[kind].binary
    if positive is not None and not (binary or kind is None):
        raise InputError(f"{where}: positive has no use with the {kind} likelihood; leave it out")
    if kind == "ordinal" and words_only:
        if isinstance(stated, Ordinal):
            return Outcome(name), column.astype(str).to_numpy(dtype=object), stated
        raise InputError(
            f"{where} holds words without an order; write likelihood=gp.Ordinal(levels=(..)) with its levels "
            "from the lowest to the highest"
        )
    if kind == "ordinal" and not isinstance(stated, Ordinal):
        stated = Ordinal(int(np.max(_numeric(column, where))))
    if not (binary or words_only or (kind is None and _zero_one(column)) or positive is not None):
        numbers = _numeric(column, where)
        if stated is None and np.all(numbers == np.floor(numbers)) and np.all(numbers >= 0.0):
            raise InputError(
                f'{where} holds whole numbers; write likelihood="poisson" or "negative_binomial" for counts, '
                '"gaussian" for measurements'
            )
        return Outcome(name), numbers, "gaussian" if stated is None else stated
    if words_only and kind is not None and not binary:
        raise InputError(f"{where} holds words; allowed with the {kind} likelihood: numbers")
    classes = labels if labels is not None else _number_labels(_numeric(column, where))
    low, high = _two_classes(classes, column, positive, where)
    cells = _label_cells(column, words_only)
    y = np.where(cells == high, 1.0, -1.0)
    return Outcome(name, (low, high)), y, Logistic() if stated is None else stated


def _classes_of(
    column: pd.Series, name: str, stated: Likelihood | str | None, labels: list[str] | None
) -> tuple[Outcome, Any, Likelihood]:
    """Classes without an order: words, or numbers as their texts."""
    cells = _label_cells(column, words=labels is not None)
    if labels is None:
        labels = _number_labels(_numeric(column, f"{WHERE}: y: column {name!r}"))
    if isinstance(stated, Softmax) and stated.levels is not None:
        return Outcome(name), cells, stated
    return Outcome(name), cells, Softmax(tuple(labels))


def _ordered_levels(column: pd.Series) -> tuple[str, ...]:
    """Levels in use of an ordered categorical column, from the lowest; empty for other columns."""
    if not (isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.ordered):
        return ()
    used = set(column.unique())
    return tuple(str(level) for level in column.cat.categories if level in used)


def _labels(column: pd.Series) -> list[str] | None:
    """The different words of a column of words, categories or booleans, in order; None for numbers."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        used = set(column.unique())
        if column.dtype.ordered or not pd.api.types.is_numeric_dtype(column.cat.categories):
            return [str(level) for level in column.cat.categories if level in used]
        return None
    if pd.api.types.is_bool_dtype(column) or all(
        isinstance(cell, bool | np.bool_) for cell in column
    ):
        return [word for word in ("False", "True") if word in set(column.astype(str))]
    if pd.api.types.is_numeric_dtype(column):
        return None
    if not np.isnan(pd.to_numeric(column.astype(object), errors="coerce").astype(float)).any():
        return None
    return sorted(set(column.astype(str)))


def _numeric(column: pd.Series, where: str) -> np.ndarray:
    numbers = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise InputError(
            f"{where}, row {column.index[wrong[0]]} is {str(column.iloc[wrong[0]])!r}; give finite numbers"
        )
    return numbers


def _zero_one(column: pd.Series) -> bool:
    if _labels(column) is not None:
        return False
    numbers = pd.to_numeric(column.astype(object), errors="coerce")
    return set(numbers.unique()) == {0, 1}


def _number_labels(numbers: np.ndarray) -> list[str]:
    return [f"{value:g}" for value in np.unique(numbers)]


def _label_cells(column: pd.Series, words: bool) -> np.ndarray:
    if words:
        return column.astype(str).to_numpy(dtype=object)
    return np.array([f"{value:g}" for value in pd.to_numeric(column.astype(object))], dtype=object)


def _two_classes(
    classes: list[str], column: pd.Series, positive: Any, where: str
) -> tuple[str, str]:
    """Labels coded -1 and +1: the stated one is +1, else yes or true, else the later one."""
    shown = ", ".join(classes[:_FEW]) + (", .." if len(classes) > _FEW else "")
    if positive is not None:
        numeric = isinstance(positive, int | float) and not isinstance(positive, bool)
        high = f"{positive:g}" if numeric else str(positive)
        if high not in classes:
            raise unknown_name(f"{where}: positive", high, classes)
        others = [label for label in classes if label != high]
        return (others[0] if len(others) == 1 else f"not {high}"), high
    if len(classes) == 1 and classes[0] in ("0", "1", "-1"):
        return ("-1", "1") if classes[0] == "-1" else ("0", "1")
    if len(classes) != 2:
        one = f'; or positive="{classes[0]}" for one against the rest' if len(classes) > 2 else ""
        found = f"{len(classes)} different labels" if len(classes) > 1 else "one label"
        raise InputError(
            f"{where} has {found} ({shown}); allowed: two, or ordered categories, "
            f'pd.Categorical(.., ordered=True); or likelihood="softmax" for classes without an order{one}'
        )
    yes = [label for label in classes if label.lower() in YES_WORDS]
    ordered = isinstance(column.dtype, pd.CategoricalDtype)
    high = yes[0] if len(yes) == 1 and not ordered else classes[1]
    return next(label for label in classes if label != high), high
