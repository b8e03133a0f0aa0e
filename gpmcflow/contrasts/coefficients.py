"""Coefficients of a mixed model: intercept, slopes, effects of levels, standard deviations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from gpmcflow.contrasts.latents import N_DRAWS, Setting, settings_of
from gpmcflow.contrasts.summaries import require_interval, summarised
from gpmcflow.contrasts.terms import Request, draw_terms, require_one_function, terms_of
from gpmcflow.covariances.expressions import Covariance, Product, Sum
from gpmcflow.covariances.known_levels import KnownLevels
from gpmcflow.covariances.leaves import Categorical, Constant, Group, Linear
from gpmcflow.models.gp_model import GPModel


class _Table(NamedTuple):
    """What is asked of the terms, and the names of the answers in order."""

    requests: list[Request]
    names: list[str]
    kinds: list[str]
    centres: np.ndarray  #: of the columns of slopes, 0 of all else
    parameters: dict[str, int]  #: place of each parameter that is shown, by name


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

    Parameters
    ----------
    draws, n_draws, model, seed:
        As of `draws_at`.
    interval:
        Probability of the interval, between quantiles of equal tails.

    Returns
    -------
    Variables mean, median, sd, low, high, and probability, that of a value above 0, each (coefficient); the
    coordinate kind is "intercept", "slope", "level", "sd" of a term's effects, or "likelihood" for its
    parameters, such as noise_sd. All are on the scale of the link.

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
    >>> table["mean"].round(1).to_dict()
    {'intercept': 0.0, 'dose': 1.0, 'sex[f]': 0.0, 'sex[m]': 1.0, 'sd(group(sex))': 1.0, 'noise_sd': 0.1}
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
    names = _different(["intercept", *table.names, *table.parameters])
    n_sd = sum(name.startswith("sd(") for name in table.parameters)
    kinds = [
        "intercept", *table.kinds, *["sd"] * n_sd, *["likelihood"] * (len(table.parameters) - n_sd),
    ]  # fmt: skip
    shown = [kind != "constant" for kind in kinds]
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
    bound = iter(zip(model._columns, model._places, strict=True))
    for k, term in enumerate(terms_of(model)):
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
        elif isinstance(term, Linear):
            X = np.zeros((len(columns), len(inputs.names)))
            X[np.arange(len(columns)), list(columns)] = 1.0
            names += [inputs.names[column] for column in columns]
            kinds += ["slope"] * len(columns)
            centres += shifts[list(columns)].tolist()
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
        else:
            X = np.zeros((0, len(inputs.names)))
        if len(X):
            requests.append(Request(k, X))
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
    return _Table(requests, names, kinds, np.array(centres), parameters)


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
    return np.column_stack([intercept, values, np.tile(own, (setting.n, 1))])


def _different(names: list[str]) -> list[str]:
    """Names with a number where one repeats."""
    out: list[str] = []
    for name in names:
        again = sum(own == name or own.startswith(f"{name} #") for own in out)
        out.append(f"{name} #{again + 1}" if again else name)
    return out
