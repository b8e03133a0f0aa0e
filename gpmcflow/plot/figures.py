"""The pictures of `gpmcflow.plot`: what results hold, drawn on axes of the user's or on new ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes

from gpmcflow.approximations.draws import read_draws
from gpmcflow.contrasts.hyperparameters import prior_and_posterior
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.models.gp_model import GPModel
from gpmcflow.plot import curves, judged, maps, rows
from gpmcflow.plot.judged import judged_rows
from gpmcflow.plot.numbers import label, natural
from gpmcflow.plot.style import axes_or_new


def effects(effect: Any, column: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the average response at values of a column, with its 95 % band; or comparisons of such averages.

    Parameters
    ----------
    effect:
        A result of `effects`: averages by a column, also by a second one, or comparisons; or
        ``analysis.effects``.
    column:
        Which column of an analysis; without it the first.
    ax:
        Axes to draw on; without them, those of a new figure.

    Returns
    -------
    The axes.

    Raises
    ------
    InputError:
        For anything else, and a column that an analysis has no effect of.

    Examples
    --------
    >>> import gpmcflow as gp
    >>> trial = {"dose": [0.0, 1.0, 2.0, 3.0] * 4, "sex": ["f"] * 8 + ["m"] * 8}
    >>> trial["gain"] = [0.1, 1.1, 1.9, 3.2, 0.0, 0.9, 2.1, 2.9, 1.1, 2.0, 3.1, 3.9, 0.9, 2.1, 2.9, 4.1]
    >>> model = gp.GPModel.from_frame(trial, "gain", "linear(dose) + group(sex)", mean=1.5)
    >>> averages = gp.effects(gp.approximate(model), "dose", by="sex")
    >>> gp.plot.effects(averages).get_xlabel()
    'dose'
    """
    if isinstance(effect, xr.Dataset) and "contrast" in effect.dims:
        return _comparisons(effect, ax)
    if isinstance(effect, pd.DataFrame) and {"column", "value", "mean"} <= set(effect):
        names = list(dict.fromkeys(effect["column"]))
        column = names[0] if column is None and names else column
        if column not in names:
            raise unknown_name("plot.effects: column", str(column), names)
        part, dims = effect[effect["column"] == column], [str(column)]
        levels = curves.positions(part["value"]) is None
    elif isinstance(effect, xr.Dataset) and {"mean", "low", "high"} <= set(effect):
        part, dims = _table(effect), [str(name) for name in effect["mean"].dims]
        levels = effect[dims[0]].dtype.kind not in "fiuM"
    else:
        raise InputError(
            f"plot.effects: found {_kind(effect)}; allowed: a result of gp.effects, or analysis.effects"
        )
    share = _is_share(effect.attrs)
    settings: dict[str, Any] = {
        **{"levels": levels, "name": label(dims[0]), "response": _response(effect.attrs)},
        **{"share": share, "whole": share, "limits": (-0.04, 1.04) if share else None},
    }
    if len(dims) == 1:
        with axes_or_new(ax, curves.effect_frame(part, levels=levels)) as axes:
            curves.effect(axes, part, **settings)
        return axes
    with axes_or_new(ax, curves.effect_by_frame(part, levels=levels)) as axes:
        curves.effect_by(axes, part, by=label(dims[1]), **settings)
    return axes


def map(surface: Any, *, points: Any = None, ax: Axes | None = None) -> Axes:
    """Draw a response over a plane in seven steps, hatched where it is uncertain.

    Hatched is the least certain fifth, as far as it is uncertain enough to matter: by more than a factor of 2
    of counts, 15 points of probability, or the map's own standard deviation.

    Parameters
    ----------
    surface:
        Averages of `effects` by two columns of numbers, such as ``gp.effects(draws, "east", by="north")``; or
        ``analysis.map``.
    points:
        A table with the two columns, or x and y, whose places are dots.
    ax:
        Axes to draw on; without them, those of a new figure.

    Returns
    -------
    The axes; the bar of colours is a child of them.

    Raises
    ------
    InputError:
        For anything else, and words in the place of numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> rng = np.random.default_rng(0)
    >>> plots = {"east": rng.uniform(0, 9, 30), "north": rng.uniform(0, 9, 30)}
    >>> plots["yield"] = np.sin(plots["east"]) + 0.3 * plots["north"]
    >>> model = gp.GPModel.from_frame(plots, "yield", "matern52(east, north)")
    >>> surface = gp.effects(gp.approximate(model), "east", by="north")
    >>> gp.plot.map(surface, points=plots).get_ylabel()
    'north'
    """
    if isinstance(surface, pd.DataFrame) and {"x", "y", "mean", "low", "high"} <= set(surface):
        table = surface
        names = tuple(str(name) for name in surface.attrs.get("names", ("x", "y")))
    elif isinstance(surface, xr.Dataset) and surface.get("mean", xr.DataArray()).ndim == 2:
        names = tuple(str(name) for name in surface["mean"].dims)
        if any(surface[name].dtype.kind not in "fiu" for name in names):
            raise InputError(
                f"plot.map: {names[0]!r} and {names[1]!r} are not both numbers; draw them by plot.effects"
            )
        table = surface[["mean", "low", "high"]].to_dataframe().reset_index()
        table = table.rename(columns=dict(zip(names, "xy", strict=True)))
    else:
        raise InputError(
            f"plot.map: found {_kind(surface)}; allowed: gp.effects by two columns of numbers, or "
            "analysis.map"
        )
    kind = surface.attrs.get("kind", "binary" if _is_share(surface.attrs) else "real")
    grid = maps.grid_of(table, kind)
    places = pd.DataFrame({"x": [], "y": []})
    if points is not None:
        frame = pd.DataFrame(points)
        own = ["x", "y"] if {"x", "y"} <= set(frame) else list(names)
        places = frame[own].set_axis(["x", "y"], axis=1)
    with axes_or_new(ax, maps.map_frame(grid)) as axes:
        maps.draw_map(
            *(axes, grid, grid.mean, places),
            share=_is_share(surface.attrs),
            title=_response(surface.attrs),
            names=(label(names[0]), label(names[1])),
            unsure=maps.unsure_above(grid, kind),
        )
    return axes


def calibration(predictions: Any, y: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw whether predictions hold what they promise: probabilities in groups, or quantiles.

    Of labels: the share seen against the probability given, in up to five groups, with 95 % intervals. Of
    numbers: the share of outcomes below each predicted quantile, with two standard errors.

    Parameters
    ----------
    predictions:
        A result of `predict`; or draws with replicates, such as those of `sample` or `simulate`; or
        ``analysis.predictions``. Judge by rows that were not learnt from.
    y:
        The outcomes of the rows predicted, where the predictions do not hold them. Labels are numbers, those
        above 0 the positive ones, or booleans.
    ax:
        Axes to draw on; without them, those of a new figure.

    Returns
    -------
    The axes.

    Raises
    ------
    InputError:
        For other predictions, outcomes of other rows, and counts with replicates (see `predictive_check`).

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 40)
    >>> y = np.sin(6.0 * x) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> model = gp.GPModel(x[::2], y[::2], gp.SquaredExponential(0.3, 1.0), gp.Gaussian(0.1))
    >>> gp.plot.calibration(gp.predict(gp.approximate(model), x[1::2]), y[1::2]).get_xlabel()
    'predicted quantile'
    """
    rows_of = judged_rows(predictions, y, "plot.calibration")
    if "probability" in rows_of:
        groups = judged.probability_groups(rows_of)
        with axes_or_new(ax, judged.CALIBRATION) as axes:
            judged.calibration(axes, groups, "share seen")
        return axes
    if "p_0" in rows_of:
        raise InputError("plot.calibration: these are counts; draw them by plot.predictive_check")
    with axes_or_new(ax, judged.QUANTILES) as axes:
        judged.quantiles(axes, judged.quantile_shares(rows_of))
    return axes


def residuals(predictions: Any, y: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw outcomes less their predictions, with the 95 % interval of each row; open circles lie outside.

    Parameters
    ----------
    predictions, y, ax:
        As of `calibration`, of numbers.

    Returns
    -------
    The axes.

    Raises
    ------
    InputError:
        As `calibration`, and for labels.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 40)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(0.3, 1.0), gp.Gaussian(0.1))
    >>> gp.plot.residuals(gp.predict(gp.approximate(model), x), np.sin(6.0 * x)).get_xlabel()
    'predicted outcome'
    """
    rows_of = judged_rows(predictions, y, "plot.residuals")
    if "probability" in rows_of:
        raise InputError("plot.residuals: these are labels; draw them by plot.calibration")
    with axes_or_new(ax, judged.SCATTER) as axes:
        judged.scatter(axes, rows_of, "outcome", counted="p_0" in rows_of, residual=True)
    return axes


def predictive_check(predictions: Any, y: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw the data against what the model expects of them.

    Of counts: the rows with 0, 1, 2, ... as dots, expected ones as lines with 95 % bands, on a square-root
    axis. Of other numbers: measured against predicted, with the 95 % interval of each row. Of labels:
    `calibration`.

    Parameters
    ----------
    predictions, y, ax:
        As of `calibration`; counts by their number need replicates, those of `sample` or `simulate`.

    Returns
    -------
    The axes.

    Raises
    ------
    InputError:
        As `calibration`.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 30)
    >>> counts = np.random.default_rng(0).poisson(3.0, 30)
    >>> model = gp.GPModel(x, counts, gp.SquaredExponential(0.3, 0.5), gp.Poisson(), mean=1.0)
    >>> gp.plot.predictive_check(gp.sample(model, n_draws=50, n_chains=2)).get_xlabel()
    'outcome of a row'
    """
    rows_of = judged_rows(predictions, y, "plot.predictive_check")
    if "probability" in rows_of:
        return calibration(rows_of, ax=ax)
    if "p_0" in rows_of:
        with axes_or_new(ax, judged.ROOTOGRAM) as axes:
            judged.rootogram(axes, judged.count_bins(rows_of), "outcome of a row")
        return axes
    with axes_or_new(ax, judged.SCATTER) as axes:
        judged.scatter(axes, rows_of, "outcome")
    return axes


def prior_posterior(
    draws: xr.DataTree,
    parameters: Sequence[str] | None = None,
    *,
    model: GPModel | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw hyperparameters before and after the data: medians and 95 % intervals, over broad prior ones.

    Parameters
    ----------
    draws:
        Draws of `sample` with free hyperparameters.
    parameters:
        Names of those to draw; by default all positive ones, on a logarithmic axis, or where there are none
        all others.
    model:
        Of draws that do not tell theirs, as of `predict`.
    ax:
        Axes to draw on; without them, those of a new figure.

    Returns
    -------
    The axes.

    Raises
    ------
    InputError:
        For draws without free hyperparameters, and names that they do not have.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 20)
    >>> model = gp.GPModel(x, np.sin(6.0 * x), gp.SquaredExponential(), gp.Gaussian(0.1))
    >>> axes = gp.plot.prior_posterior(gp.sample(model, n_draws=100, n_chains=2))
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['length scale', 'signal sd']
    """
    if not isinstance(draws, xr.DataTree):
        raise InputError(f"plot.prior_posterior: found {_kind(draws)}; allowed: draws of gp.sample")
    own, _, _ = read_draws("plot.prior_posterior", draws, model, 1)
    posterior = draws["posterior"].to_dataset()
    if "theta" not in posterior:
        raise InputError("plot.prior_posterior: these draws have no free hyperparameters")
    table = prior_and_posterior(own, {str(name): posterior[name] for name in posterior})
    positive = (table[["prior_q025", "q025"]] > 0.0).all(axis=1)
    if parameters is None:
        table = table[positive] if positive.any() else table
    else:
        for name in parameters:
            if name not in own.names:
                raise unknown_name("plot.prior_posterior: parameter", str(name), own.names)
        table = table.set_index("parameter").loc[list(parameters)].reset_index()
    logarithmic = bool((table[["prior_q025", "q025"]] > 0.0).all(axis=None))
    with axes_or_new(ax, rows.prior_frame(table)) as axes:
        rows.prior_and_posterior(axes, table, logarithmic=logarithmic)
    return axes


def evidence(models: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the log evidence of each model less that of the best, with two standard errors to each side.

    Parameters
    ----------
    models:
        A result of `compare_models`, or ``analysis.models``.
    ax:
        Axes to draw on; without them, those of a new figure.

    Returns
    -------
    The axes.

    Raises
    ------
    InputError:
        For a table without log evidences.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 1.0, 8)
    >>> curves = {"smooth": gp.SquaredExponential(), "rough": gp.Matern12()}
    >>> runs = {
    ...     name: gp.model_evidence(gp.GPModel(x, np.sin(6.0 * x), curve, gp.Gaussian(0.1)), n_draws=800)
    ...     for name, curve in curves.items()
    ... }
    >>> axes = gp.plot.evidence(gp.compare_models(runs))
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['smooth', 'rough']
    """
    if not isinstance(models, pd.DataFrame) or "log_evidence" not in models:
        raise InputError(
            f"plot.evidence: found {_kind(models)}; allowed: a result of gp.compare_models, or "
            "analysis.models"
        )
    table = models[np.isfinite(models["log_evidence"])]
    error = "standard_error" if "standard_error" in table else "log_evidence_se"
    bars = rows.evidence_bars(
        [str(name) for name in table.index], table["log_evidence"], table[error]
    )
    with axes_or_new(ax, rows.rows_frame(bars)) as axes:
        rows.interval_rows(axes, bars, rows.EVIDENCE)
    return axes


def _comparisons(effect: xr.Dataset, ax: Axes | None) -> Axes:
    """Rows of differences, ratios or slopes."""
    table = effect[["median", "low", "high"]].to_dataframe()
    bars = []
    for at, row in table.iterrows():
        parts = at if isinstance(at, tuple) else (at,)
        name = ", ".join(natural(str(part)) for part in parts)
        bars.append(rows.Bar(name, row["median"], row["low"], row["high"]))
    scale = effect.attrs.get("scale", "difference")
    factor = scale in ("ratio", "odds")
    text = {"ratio": "ratio", "odds": "ratio of odds"}.get(scale, str(scale))
    name = f"{text} of {_response(effect.attrs)}"
    with axes_or_new(ax, rows.rows_frame(bars)) as axes:
        rows.interval_rows(axes, bars, name, at=float(factor), logarithmic=factor)
    return axes


def _table(effect: xr.Dataset) -> pd.DataFrame:
    """Columns value, mean, low, high, and by, of averages by one or two columns."""
    dims = [str(name) for name in effect["mean"].dims]
    table = effect[["mean", "low", "high"]].to_dataframe().reset_index()
    for name in dims:
        if table[name].dtype.kind == "M":
            table[name] = table[name].dt.strftime("%Y-%m-%d")
    return table.rename(columns=dict(zip(dims, ("value", "by"), strict=False)))


def _response(attributes: Any) -> str:
    return label(attributes.get("long_name", "response"))


def _is_share(attributes: Any) -> bool:
    """Whether the response is a probability."""
    return bool(attributes.get("share", str(attributes.get("long_name", "")).startswith("P(")))


def _kind(value: Any) -> str:
    return type(value).__name__
