"""What a model is made of, read from the columns of a frame: outcome, inputs, constants by case."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gpmcflow.covariances.binding import with_all_levels
from gpmcflow.covariances.expressions import Covariance, Sum
from gpmcflow.covariances.inputs import Inputs, inputs_of, table_of
from gpmcflow.covariances.leaves import Constant, White
from gpmcflow.covariances.text import parse_covariance
from gpmcflow.data.target import MOST_REPEATED
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.likelihoods import (
    LIKELIHOODS,
    MULTI_LIKELIHOODS,
    Gaussian,
    Likelihood,
    MultiLikelihood,
    Survival,
    likelihood,
    likelihood_class,
    with_functions,
)
from gpmcflow.models.outcome import WHERE, Outcome, read_outcome
from gpmcflow.models.own_units import (
    centred,
    covariance_in_units,
    default_mean,
    has_constant,
    likelihood_in_units,
    named_by_columns,
    vanishes,
    with_constant,
)
from gpmcflow.parameters.hyperpriors import Hyperprior

log = logging.getLogger(__name__)


class Statement(NamedTuple):
    """What a `GPModel` is made of."""

    X: Inputs
    y: Any
    covariance: Any  #: a `Covariance`, or one for each latent function by its name
    likelihood: Likelihood
    mean: Any
    outcome: Outcome


def statement(
    frame: Any,
    y: str,
    covariance: Covariance | str | Mapping[str, Covariance | str],
    likelihood_: Likelihood | str | None,
    *,
    mean: Any,
    missing: str,
    positive: Any,
    priors: Mapping[str, Any] | None,
    constants: Mapping[str, Any],
) -> Statement:
    """The statement of `GPModel.from_frame`."""
    table = table_of(frame)
    if table is None:
        raise InputError(
            f"{WHERE}: frame is {type(frame).__name__}; allowed: a frame of pandas, polars or pyarrow, or a "
            "dict of columns"
        )
    table = table.rename(columns=str)
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise InputError(f"{WHERE}: two columns are named {twice[0]!r}; rename one")
    if isinstance(covariance, Mapping):
        each = {
            name: _covariance(own, priors, f"{WHERE}: covariance: {name}")
            for name, own in covariance.items()
        }
    else:
        each = {"": _covariance(covariance, priors, f"{WHERE}: covariance")}
    if missing not in ("error", "drop"):
        raise unknown_name(f"{WHERE}: missing", missing, ("error", "drop"))
    _require_column(table, y, "y")
    if table.empty:
        raise InputError(f"{WHERE}: the frame has no rows, or no columns; give both")
    by_case = (*_by_case(likelihood_), "weights")
    if "exposure" in by_case:
        by_case = (*by_case, "offset")
    named = {n: v for n, v in constants.items() if isinstance(v, str) and n in by_case}
    for name, column in named.items():
        _require_column(table, column, name)
    wanted = [_input_columns(own, table, y, set(named.values())) for own in each.values()]
    inputs = [name for name in table.columns if any(name in columns for columns in wanted)]
    arrays = {
        name: table[value] if name in named else _array(name, value, len(table))
        for name, value in constants.items()
        if value is not None
    }
    table = _complete(table, [y, *inputs, *named.values()], missing, arrays)
    if "weights" in arrays:
        places = _repeated(arrays.pop("weights"), len(table))
        table = table.iloc[places]
        arrays = {n: np.asarray(v)[places] if np.ndim(v) else v for n, v in arrays.items()}
    if "offset" in by_case and "offset" in arrays:
        arrays["exposure"] = arrays.get("exposure", 1.0) * _exposure(arrays.pop("offset"))
    outcome, values, likelihood_ = read_outcome(table[y], y, likelihood_, positive)
    made = _with_constants(likelihood_, arrays)
    X, width = inputs_of(table[inputs]), 1.0
    for own in each.values():
        X = with_all_levels(X, own)
    coded = np.asarray(made.coded(values), dtype=np.float64)
    if made.in_units_of_y and not isinstance(made, Survival):
        width = float(np.std(made.to_eta(coded))) or 1.0
        made = likelihood_in_units(made, width)
    if isinstance(made, MultiLikelihood) or len(each) > 1:
        return _of_functions(X, values, coded, width, each, made, mean, outcome)
    covariance = next(iter(each.values()))
    X = centred(X, covariance)
    covariance = covariance_in_units(named_by_columns(covariance), X, width)
    if mean is None and made.default_mean() == 0.0:
        if vanishes(covariance, X):  # the same prior of the level, as a term
            covariance = covariance + Constant(width)
        mean = default_mean(made, coded, width, covariance)
    return Statement(X, values, covariance, made, mean, outcome)


def _covariance(stated: Any, priors: Mapping[str, Any] | None, where: str) -> Covariance:
    """A covariance, or what its text says."""
    covariance = parse_covariance(stated, priors, where) if isinstance(stated, str) else stated
    if not isinstance(covariance, Covariance):
        raise InputError(
            f'{where} is {stated!r}; allowed: text such as "matern32(age) + group(ward)", or an expression '
            "such as Matern32(columns='age')"
        )
    return covariance


def _of_functions(
    X: Inputs,
    values: Any,
    y: np.ndarray,
    width: float,
    each: Mapping[str, Covariance],
    stated: Likelihood,
    mean: Any,
    outcome: Outcome,
) -> Statement:
    """The statement of a likelihood of several latent functions.

    One covariance serves all. Functions of one prior have a mean of 0, so that a covariance without a
    constant gets one, for classes of other sizes. In the units of y are the function ``mean`` and, as a shift
    of its logs, ``log_sd``. ``y`` are the values coded as numbers.
    """
    made = with_functions(stated, set(each) - {""})
    functions = ("",) if made.same_prior else made.functions
    each = dict.fromkeys(functions, each[""]) if "" in each else each
    whole = reduce(Sum, each.values())
    X = centred(X, whole)
    if made.same_prior:
        (covariance,) = each.values()
        covariance = covariance_in_units(named_by_columns(covariance), X, 1.0)
        return Statement(X, values, with_constant(covariance), made, mean, outcome)
    means: dict[str, Any] = dict(made.default_means())
    if "log_sd" in means:
        stated, width = Gaussian(), float(np.std(y)) or 1.0
        its = means["log_sd"].parameters
        means["log_sd"] = Hyperprior("norm", {**its, "loc": its["loc"] + np.log(width)})
    covariances = {}
    for name, own in each.items():
        unit = width if name == "mean" else 1.0
        own = covariance_in_units(named_by_columns(own), X, unit)
        covariances[name] = own = own + Constant(unit) if vanishes(own, X) else own
        default = means.get(name)
        if name == "mean" and default == 0.0:
            means[name] = default_mean(stated, y, width, own)
        elif has_constant(own) and isinstance(default, Hyperprior):
            means[name] = float(default.quantile(0.5))  # the constant carries its spread
    if mean is not None:
        means |= mean if isinstance(mean, Mapping) else {"mean": mean}
    return Statement(X, values, covariances, made, means, outcome)


def _by_case(stated: Any) -> tuple[str, ...]:
    """What a likelihood may know by case; nothing of one that is found by the outcome."""
    if isinstance(stated, str) and stated in LIKELIHOODS | MULTI_LIKELIHOODS:
        return likelihood_class(stated).constants
    return stated.constants if isinstance(stated, Likelihood) else ()


def _require_column(table: pd.DataFrame, column: Any, what: str) -> None:
    if not isinstance(column, str):
        raise InputError(f"{WHERE}: {what} is {column!r}; allowed: the name of a column")
    if column not in table.columns:
        raise unknown_name(f"{WHERE}: {what}: column", column, list(table.columns))


def _array(name: str, value: Any, n: int) -> Any:
    if np.ndim(value) and np.shape(value) != (n,):
        raise InputError(
            f"{WHERE}: {name} has shape {np.shape(value)} for {n} rows; allowed: the name of a column, a "
            "number, or one for each row"
        )
    return pd.Series(np.asarray(value)) if np.ndim(value) else value


def _repeated(weights: Any, n: int) -> np.ndarray:
    """Places of rows, each as often as its weight says."""
    numbers = pd.to_numeric(pd.Series(np.broadcast_to(weights, n)), errors="coerce").to_numpy(float)
    wrong = np.flatnonzero(
        ~((numbers >= 0.0) & (numbers == np.floor(numbers)) & (numbers < np.inf))
    )
    if wrong.size:
        raise InputError(
            f"{WHERE}: weights hold {np.broadcast_to(weights, n)[wrong[0]]!s}; allowed: whole numbers, how "
            "many equal rows each one stands for; a Gaussian takes noise_sd= of each row, a binomial trials="
        )
    if not numbers.any():
        raise InputError(f"{WHERE}: all weights are 0; give some rows a weight of 1 or more")
    if numbers.sum() > MOST_REPEATED:
        raise InputError(
            f"{WHERE}: weights sum to {numbers.sum():.4g} rows; allowed: up to {MOST_REPEATED:,}, as a row "
            "of weight 3 is three rows"
        )
    return np.repeat(np.arange(n), numbers.astype(np.int64))


def _exposure(offset: Any) -> Any:
    """exp of an offset of the log rate."""
    try:
        with np.errstate(over="ignore"):
            return np.exp(np.asarray(offset, dtype=np.float64))
    except (TypeError, ValueError):
        raise InputError(f"{WHERE}: offset holds words; allowed: numbers, log rates") from None


def _input_columns(
    covariance: Covariance, table: pd.DataFrame, y: str, taken: set[str]
) -> list[str]:
    """Columns that the covariance names; all but the outcome and constants where a term names none."""
    rest = [name for name in table.columns if name != y and name not in taken]
    named: set[str] = set()
    all_of_them = False
    for leaf in covariance.leaves():
        if isinstance(leaf, (Constant, White)):
            continue
        columns: Any = leaf.columns
        if columns is None or not all(isinstance(column, str) for column in columns):
            all_of_them = True
        for column in columns or ():
            if column == y:
                raise InputError(
                    f"{WHERE}: {leaf.term} takes {y!r}, which is the outcome; name another column"
                )
            if isinstance(column, str) and column not in table.columns:
                raise unknown_name(f"{WHERE}: {leaf.term}: column", column, rest)
            named.add(column)
    if not all_of_them and not named:
        raise InputError(
            f"{WHERE}: the covariance names no column; add a term of one, such as matern32({rest[0]})"
            if rest
            else f"{WHERE}: the frame has no column beside the outcome; give one"
        )
    return rest if all_of_them else [name for name in table.columns if name in named]


def _complete(
    table: pd.DataFrame, used: list[str], missing: str, arrays: dict[str, Any]
) -> pd.DataFrame:
    """The rows without a missing cell in the columns used; ``arrays`` are cut to them, too."""
    used = list(dict.fromkeys(used))
    gaps = table[used].isna()
    counts = gaps.sum()
    rows = gaps.any(axis=1).to_numpy()
    if rows.any():
        cells = ", ".join(f"{name} ({count})" for name, count in counts.items() if count)
        found = f"{rows.sum()} of {len(table)} rows have missing cells: {cells}"
        if missing == "error":
            raise InputError(
                f'{WHERE}: {found}; fill them in, or write missing="drop" to leave these rows out'
            )
        if rows.all():
            raise InputError(f"{WHERE}: {found}, and no row is left; fill some in")
        log.warning("%s: %s; they are left out", WHERE, found)
    for name, value in arrays.items():
        if np.ndim(value):
            arrays[name] = np.asarray(value)[~rows]
    return table[~rows]


def _with_constants(stated: Likelihood | str, arrays: Mapping[str, Any]) -> Likelihood:
    """The likelihood with what is known by case, such as exposure."""
    kind = likelihood_class(stated) if isinstance(stated, str) else type(stated)
    for name in arrays:
        allowed = {field.name for field in fields(kind)} if isinstance(stated, str) else ()
        if name not in (*kind.constants, *allowed):
            hint = "; counts take one" if name == "offset" else ""
            own = ", ".join(dict.fromkeys((*kind.constants, *allowed))) or "none"
            raise InputError(
                f"{WHERE}: the {kind.name} likelihood has no {name}; allowed: {own}{hint}"
            )
    plain = {name: np.asarray(v) if np.ndim(v) else v for name, v in arrays.items()}
    if isinstance(stated, str):
        return likelihood(stated, **plain)
    changed: Any = stated
    return replace(changed, **plain) if plain else stated
