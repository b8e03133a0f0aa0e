"""Coefficients of a mixed model: intercept, slopes, effects of levels, standard deviations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from gpmcflow.contrasts.latents import N_DRAWS, Setting, settings_of
from gpmcflow.contrasts.summaries import require_interval, summarised
from gpmcflow.contrasts.terms import (
    Request,
    draw_terms,
    require_one_function,
    term_names,
    terms_of,
)
from gpmcflow.covariances import nodes
from gpmcflow.covariances.expressions import Covariance, Product, Sum
from gpmcflow.covariances.known_levels import KnownLevels
from gpmcflow.covariances.leaves import Categorical, Constant, Group, Linear
from gpmcflow.likelihoods import Gaussian, Logistic, Probit
from gpmcflow.models.gp_model import GPModel

MOST_ROWS, MOST_DRAWN = 1000, 100  # rows that variances are over; of terms without coefficients


class _Table(NamedTuple):
    """What is asked of the terms, and the names of the answers in order."""

    requests: list[Request]
    names: list[str]
    kinds: list[str]
    centres: np.ndarray  #: of the columns of slopes, 0 of all else
    parameters: dict[str, int]  #: place of each parameter that is shown, by name
    terms: dict[
        str, tuple[slice, np.ndarray | None]
    ]  #: answers of each term, and what makes rows of them


def coefficients(
    draws: Any,
    *,
    interval: float = 0.95,
    n_draws: int = N_DRAWS,
    model: GPModel | None = None,
    seed: int = 0,
) -> xr.Dataset:
    """Summarise a model of `Linear`, `Constant`, `Group` and `Categorical` terms as a mixed model.

    eta = intercept + sum_c slope_c x_c + effects of the levels: slopes per unit of their columns, the
    intercept where all columns of slopes are 0, effects by the names of the levels. A product of `Linear` of
    one column with `Group` or `Categorical` has the slope of each level, as what it has beside the common
    one. Other terms have no coefficients: of them the standard deviation is shown.

    The share of a term is the variance of its values over the rows of the data (over at most 1,000 of them,
    evenly spaced, and over 100 for a term without coefficients) in that of all terms and of what is left:
    noise_sd^2 for the Gaussian likelihood, pi^2 / 3 for the logistic one, 1 for the probit one; with other
    likelihoods in that of the terms. Where terms are correlated over the rows, a share counts none of what
    they have in common.

    Source: Nakagawa & Schielzeth (2013), of the shares.

    Parameters
    ----------
    draws, n_draws, model, seed:
        As of `draws_at`.
    interval:
        Probability of the interval, between quantiles of equal tails.

    Returns
    -------
    Variables mean, median, sd, low, high, and probability, that of a value above 0, each (coefficient); the
    coordinate kind is "intercept", "slope", "level", "sd" of a term's effects, "likelihood" for its
    parameters, such as noise_sd, or "share" of the variance. All are on the scale of the link.

    Raises
    ------
    InputError:
        As `draws_at`.

    Examples
    --------
    >>> import gpmcflow as gp
    >>> trial = {"dose": [0.0, 1.0, 2.0, 3.0] * 4, "sex": ["f"] * 8 + ["m"] * 8}
    >>> trial["gain"] = [0.1, 1.1, 1.9, 3.2, 0.0, 0.9, 2.1, 2.9, 1.1, 2.0, 3.1, 3.9, 0.9, 2.1, 2.9, 4.1]
    >>> text = "linear(dose, sd=2.0) + group(sex, signal_sd=1.0)"
    >>> model = gp.GPModel.from_frame(trial, "gain", text, gp.Gaussian(0.1), mean=1.5)
    >>> table = gp.coefficients(gp.approximate(model)).to_dataframe()
    >>> table["mean"].round(1)[:6].to_dict()
    {'intercept': 0.0, 'dose': 1.0, 'sex[f]': 0.0, 'sex[m]': 1.0, 'sd(group(sex))': 1.0, 'noise_sd': 0.1}
    >>> table["mean"].round(2)[6:].to_dict()
    {'share(linear(dose))': 0.83, 'share(group(sex))': 0.16, 'share(rest)': 0.01}
    """
    require_interval("coefficients", interval)
    rng = np.random.default_rng(seed)
    _, settings = settings_of("coefficients", draws, model, n_draws)
    table: _Table | None = None
    rows = []
    for setting in settings:
        if table is None:
            require_one_function("coefficients", setting.model)
            table = _table(setting.model)
        rows.append(_of_setting(setting, table, rng))
    assert table is not None
    n_shares = rows[0].shape[1] - 1 - len(table.names) - len(table.parameters)
    shares = [f"share({name})" for name in (*table.terms, "rest")][:n_shares]
    names = _different(["intercept", *table.names, *table.parameters, *shares])
    n_sd = sum(name.startswith("sd(") for name in table.parameters)
    kinds = [
        "intercept", *table.kinds, *["sd"] * n_sd, *["likelihood"] * (len(table.parameters) - n_sd),
        *["share"] * len(shares),
    ]  # fmt: skip
    shown = [kind not in ("constant", "rows") for kind in kinds]
    index = np.array(names, dtype=object)[shown]
    summary = summarised(
        np.concatenate(rows)[:, shown], ["coefficient"], {"coefficient": index}, interval, 0.0
    )
    return summary.assign_coords(kind=("coefficient", np.array(kinds, dtype=object)[shown]))


def _table(model: GPModel) -> _Table:
    inputs, shifts = model.inputs, model.inputs.shifts
    requests: list[Request] = []
    names: list[str] = []
    kinds: list[str] = []
    centres: list[float] = []
    parameters: dict[str, int] = {}
    terms: dict[str, tuple[slice, np.ndarray | None]] = {}
    all_terms = term_names(model)
    n_rows = min(MOST_ROWS, model.n_cases)
    chosen = model.X[np.linspace(0, model.n_cases - 1, n_rows).round().astype(int)]
    bound = iter(zip(model._columns, model._places, strict=True))
    for k, term in enumerate(terms_of(model)):
        first = len(names)
        of_rows: np.ndarray | None = None
        own = [next(bound) for _ in term.leaves()]
        columns = own[0][0]
        slope, levels_of = _slope_of_levels(term, own)
        if slope is not None:
            levels = _levels(model, zip(term.leaves(), (at for at, _ in own), strict=True))
            X = np.zeros((len(levels), len(inputs.names)))
            X[:, list(levels_of)] = levels
            X[:, slope] = 1.0
            of = ", ".join(inputs.names[column] for column in levels_of)
            words = [_words(model, levels_of, level) for level in levels]
            names += [f"{inputs.names[slope]}:{of}[{word}]" for word in words]
            kinds += ["slope"] * len(levels)
            centres += [0.0] * len(levels)
            of_rows = _same(chosen, levels_of, levels) * chosen[:, [slope]]
        elif isinstance(term, Linear):
            X = np.zeros((len(columns), len(inputs.names)))
            X[np.arange(len(columns)), list(columns)] = 1.0
            names += [inputs.names[column] for column in columns]
            kinds += ["slope"] * len(columns)
            centres += shifts[list(columns)].tolist()
            of_rows = chosen[:, list(columns)]
        elif isinstance(term, Constant):
            X = np.zeros((1, len(inputs.names)))
            names, kinds, centres = [*names, "constant"], [*kinds, "constant"], [*centres, 0.0]
        elif isinstance(term, Group | Categorical | KnownLevels):
            levels = _levels(model, [(term, columns)])
            X = np.zeros((len(levels), len(inputs.names)))
            X[:, list(columns)] = levels
            words = [_words(model, columns, level) for level in levels]
            of = ", ".join(inputs.names[column] for column in columns)
            names += [f"{of}[{word}]" for word in words]
            kinds += ["level"] * len(levels)
            centres += [0.0] * len(levels)
            of_rows = _same(chosen, columns, levels)
        elif any(leaf.kind == nodes.SAME_CASE for leaf in term.leaves()):  # noise of each case
            X = np.zeros((0, len(inputs.names)))
        else:
            X = chosen[np.linspace(0, n_rows - 1, min(MOST_DRAWN, n_rows)).round().astype(int)]
            names += [f"row {row} of {all_terms[k]}" for row in range(len(X))]
            kinds, centres = [*kinds, *["rows"] * len(X)], [*centres, *[0.0] * len(X)]
        if len(X):
            requests.append(Request(k, X))
        if len(X) and not isinstance(term, Constant):
            terms[all_terms[k]] = slice(first, len(names)), of_rows
        if slope is not None:  # one of its factors has the amplitude
            scales = [
                int(at[0 if isinstance(leaf, Linear) else -1])
                for leaf, (_, at) in zip(term.leaves(), own, strict=True)
            ]
            place = next((at for at in scales if model._free[at]), scales[0])
            parameters[f"sd({inputs.names[slope]}:{of})"] = place
        elif not isinstance(term, Linear | Constant):
            for leaf, (its, at) in zip(term.leaves(), own, strict=True):
                if leaf.has_amplitude and (len(own) == 1 or model._free[at[-1]]):
                    of = ", ".join(inputs.names[column] for column in its)
                    parameters[f"sd({leaf.name or f'{leaf.term}({of})'})"] = int(at[-1])
    for place in model._likelihood_places:
        parameters[model.parameters.all_names[place]] = int(place)
    return _Table(requests, names, kinds, np.array(centres), parameters, terms)


def _same(X: np.ndarray, columns: Sequence[int], levels: np.ndarray) -> np.ndarray:
    """1 where a row is of a level, else 0 (row, level)."""
    return (X[:, None, list(columns)] == levels).all(-1).astype(np.float64)


def _slope_of_levels(term: Covariance, own: list) -> tuple[int | None, tuple[int, ...]]:
    """Column of the slope and columns of the levels in a product of one `Linear` with levels, else None."""
    kinds = list(zip(term.leaves(), own, strict=True))
    slopes = [at for leaf, (at, _) in kinds if isinstance(leaf, Linear)]
    levels = [at for leaf, (at, _) in kinds if isinstance(leaf, Group | Categorical | KnownLevels)]
    whole = len(slopes) == 1 and len(slopes[0]) == 1 and len(levels) + 1 == len(kinds) > 1
    if (
        not whole
        or not isinstance(term, Product)
        or any(isinstance(k, Sum) for k in term.operands())
    ):
        return None, ()
    return slopes[0][0], tuple(dict.fromkeys(column for at in levels for column in at))


def _levels(model: GPModel, leaves: Iterable[tuple[Covariance, tuple[int, ...]]]) -> np.ndarray:
    """Codes of the levels of these leaves: those in the data, and those that a leaf knows of alone."""
    of_levels = [(leaf, at) for leaf, at in leaves if not isinstance(leaf, Linear)]
    if len(of_levels) == 1 and isinstance(of_levels[0][0], KnownLevels):
        return of_levels[0][0].codes[:, None]
    columns = tuple(dict.fromkeys(column for _, at in of_levels for column in at))
    return np.unique(model.X[:, columns], axis=0)


def _words(model: GPModel, columns: tuple[int, ...], level: np.ndarray) -> str:
    words = []
    for column, code in zip(columns, level, strict=True):
        own = model.inputs.levels.get(model.inputs.names[column])
        words.append(f"{code:g}" if own is None else own[int(code)])
    return ", ".join(words)


def _of_setting(setting: Setting, table: _Table, rng: np.random.Generator) -> np.ndarray:
    """Draws (draw, coefficient) in order: intercept, answers, parameters."""
    values = np.empty((setting.n, 0))
    if table.requests:
        values = draw_terms(setting, table.requests, rng).values
    constants = [k for k, kind in enumerate(table.kinds) if kind == "constant"]
    intercept = setting.mean + values[:, constants].sum(1) - values @ table.centres
    own = setting.model.parameters.own_units(setting.full, table.parameters.values())
    parameters, shares = np.tile(own, (setting.n, 1)), _shares(setting, table, values)
    return np.column_stack([intercept, values, parameters, shares])


def _shares(setting: Setting, table: _Table, values: np.ndarray) -> np.ndarray:
    """Shares of the terms, and of the rest where it has a variance (draw, share); none of a single part."""
    parts = []
    for answers, of_rows in table.terms.values():
        of_term = values[:, answers]
        if of_rows is not None:
            of_term = of_term @ of_rows.T
        parts.append(of_term.var(1))
    rest = _rest(setting)
    if rest is not None:
        parts.append(np.full(len(values), rest))
    if len(parts) < 2:
        return np.empty((len(values), 0))
    found = np.stack(parts, axis=1)
    total = found.sum(1, keepdims=True)
    return np.divide(found, total, out=np.zeros_like(found), where=total > 0.0)


def _rest(setting: Setting) -> float | None:
    """Variance of what the terms leave, on the scale of the link, if it has one."""
    likelihood = setting.likelihood
    if isinstance(likelihood, Gaussian):
        return float(likelihood.noise_sd) ** 2  # type: ignore[arg-type] # a number at a setting
    if isinstance(likelihood, Logistic):
        return np.pi**2 / 3.0
    return 1.0 if isinstance(likelihood, Probit) else None


def _different(names: list[str]) -> list[str]:
    """Names with a number where one repeats."""
    out: list[str] = []
    for name in names:
        again = sum(own == name or own.startswith(f"{name} #") for own in out)
        out.append(f"{name} #{again + 1}" if again else name)
    return out
