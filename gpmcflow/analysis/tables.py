"""The tables that an analysis leaves beside its report: predictions, relevance, curves, maps, checks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr
from scipy.spatial import cKDTree
from scipy.special import expit

from gpmcflow.analysis.convergence import parameters
from gpmcflow.analysis.data import Data, Rows, beside_predictions
from gpmcflow.analysis.effects import Effect, Sweep, effect
from gpmcflow.analysis.grades import probabilities
from gpmcflow.analysis.models import units_of_parameters
from gpmcflow.analysis.scores import Results, left_out_probability, typical_response
from gpmcflow.contrasts.hyperparameters import COLUMNS, prior_and_posterior
from gpmcflow.data.codes import CategoryCode, Encoding
from gpmcflow.data.outcome_kinds import KINDS
from gpmcflow.models.gp_model import GPModel

N_CURVES = 4  # columns whose effect curves are kept for the picture
N_RUG = 300  # learning rows of a rug
LEVELS = {0.025: "q025", 0.25: "q25", 0.5: "q50", 0.75: "q75", 0.975: "q975"}


def predictions(group: xr.Dataset, data: Data, rows: np.ndarray) -> pd.DataFrame:
    """Predictions of rows of a file in natural units: a row for each, with its line in the file."""
    kind = data.target.kind
    table = pd.DataFrame({"row": rows})
    if data.target.own.leveled:
        table = table.join(probabilities(group, data.target.levels, data.target.own.level))
        table["probability"] = group["response_mean"].values
        for level in (0.025, 0.975):
            table[LEVELS[level]] = group["response_quantile"].sel(quantile=level).values
        return table
    table["mean"], table["sd"] = group["response_mean"].values, group["response_sd"].values
    for level, name in LEVELS.items():
        table[name] = group["response_quantile"].sel(quantile=level).values
    if kind == "binary":
        table["probability"] = table["mean"]
    if kind == "counts":
        table["rate_q025"] = group["rate_quantile"].sel(quantile=0.025).values
        table["rate_q975"] = group["rate_quantile"].sel(quantile=0.975).values
    return table


def predictions_test(shown: xr.DataTree, data: Data) -> pd.DataFrame:
    """Predictions of the held-out rows beside their outcomes; of counts with the probability of each."""
    rows, group = data.held_out, shown["held_out"].to_dataset()
    table = predictions(group, data, rows.row)
    levels = data.target.levels
    seen = [levels[int(grade) - 1] for grade in rows.outcome] if levels else rows.outcome
    table.insert(1, "outcome", seen)
    unit = "event" if data.target.kind == "survival" else "unit"
    beside = {unit: rows.unit, "until": rows.until}
    table = table.assign(**{name: own for name, own in beside.items() if own is not None})
    if "survival" in group:
        table["survival"] = group["survival"].values
    if "share" in group:
        shares = group["share"].values
        names = [*(f"p_{count}" for count in range(len(shares) - 1)), "p_more"]
        table = table.assign(**dict(zip(names, shares, strict=True)))
    return table


def predictions_new(group: xr.Dataset, data: Data, cells: pd.DataFrame) -> pd.DataFrame:
    """Predictions of new rows: row, ids, prediction, note, and the cells they were made from."""
    ids = map(beside_predictions, data.encoding.ids)
    table = predictions(group, data, data.new.row)
    front = cells[[name for name in ids if name in cells]]
    rest = cells.drop(columns=[*front.columns, "row", "note"])
    note = cells[["note"]]
    return pd.concat([table[["row"]], front, table.drop(columns="row"), note, rest], axis=1)


def effects_of(
    shown: xr.DataTree, swept: list[Sweep], kind: str
) -> dict[str, tuple[Sweep, Effect]]:
    """The effect of each column, those that change the response most first."""
    summaries = {}
    for sweep in swept:
        averages = shown[f"effects/{sweep.key}/average"].values
        summaries[sweep.column] = (sweep, effect(sweep, averages, kind))
    return by_size(summaries, kind)


def by_size(
    summaries: Mapping[str, tuple[Sweep, Effect]], kind: str
) -> dict[str, tuple[Sweep, Effect]]:
    """Effects of columns, those that change the response most first."""

    def size(column: str) -> float:
        change = summaries[column][1].change[0]
        return abs(np.log(change)) if KINDS[kind].ratios else abs(change)

    return {column: summaries[column] for column in sorted(summaries, key=size, reverse=True)}


def of_columns(effects: Mapping[str, tuple[Sweep, Effect]]) -> list[str]:
    """Those that are not of the place."""
    return [column for column, (sweep, _) in effects.items() if sweep.kind != "place"]


def value_text(data: Data, column: str, value: float | str | tuple) -> str:
    """A value of a column as people write it, or a place."""
    if isinstance(value, tuple):
        pairs = zip(data.encoding.coordinates, value, strict=True)
        return ", ".join(value_text(data, name, part) for name, part in pairs)
    code = data.encoding.code(column)
    return str(value) if isinstance(code, CategoryCode) else code.text(float(value))


def relevance(effects: Mapping[str, tuple[Sweep, Effect]], data: Data) -> pd.DataFrame:
    """The change that goes with each column, over its usual range or between levels.

    ``straight`` is for the chance by straight lines, of another model.
    """
    rows = []
    for column, (sweep, of_column) in effects.items():
        ends = (value_text(data, column, sweep.values[place]) for place in of_column.places)
        rows.append((column, sweep.kind, *ends, *of_column.change, of_column.chance))
    names = ["column", "kind", "low", "high", "change", "change_low", "change_high", "chance"]
    return pd.DataFrame(rows, columns=names).assign(straight=np.nan)


def curves(effects: Mapping[str, tuple[Sweep, Effect]], data: Data) -> pd.DataFrame:
    """Average response at each value of the columns that matter most."""
    rows = []
    for column in of_columns(effects)[:N_CURVES]:
        sweep, of_column = effects[column]
        for k, value in enumerate(sweep.values):
            means = {name: getattr(of_column, name)[k] for name in ("mean", "low", "high")}
            rows.append({"column": column, "value": value_text(data, column, value), **means})
    return pd.DataFrame(rows, columns=["column", "value", "mean", "low", "high"])


def grade_bands(
    shown: xr.DataTree, effects: Mapping[str, tuple[Sweep, Effect]], data: Data
) -> pd.DataFrame:
    """Probability of each grade at each value of the columns that matter most."""
    parts = []
    for column in of_columns(effects)[:N_CURVES]:
        values = [value_text(data, column, value) for value in effects[column][0].values]
        found = shown[f"grades/{effects[column][0].key}/probability"].values
        for grade, row in zip(data.target.levels, found, strict=True):
            own = {"column": column, "value": values, "grade": grade, "probability": row}
            parts.append(pd.DataFrame(own))
    names = ["column", "value", "grade", "probability"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=names)


def rug(columns: list[str], data: Data) -> pd.DataFrame:
    """Values of some columns in learning rows, beside what was seen there."""
    learning, encoding = data.learning, data.encoding
    chosen = np.unique(np.linspace(0, len(learning.row) - 1, N_RUG).astype(int))
    outcome = _seen(learning, data.target.kind)[chosen]
    parts = []
    for column in columns:
        code = encoding.code(column)
        if isinstance(code, CategoryCode):
            continue
        values = encoding.natural(column, learning.X[column].to_numpy()[chosen])
        texts = [code.text(value) for value in values]
        parts.append(pd.DataFrame({"column": column, "value": texts, "outcome": outcome}))
    return pd.concat(parts) if parts else pd.DataFrame(columns=["column", "value", "outcome"])


def _seen(rows: Rows, kind: str) -> np.ndarray:
    """Outcomes per unit (m,); of times the middle between their ends, nan where the end was not seen."""
    if kind == "survival":
        return np.where(rows.unit == 0.0, np.nan, rows.middle)
    return rows.outcome / rows.effort(kind)


def averaged_map(shown: xr.DataTree, cells: Sweep, data: Data) -> pd.DataFrame:
    """A map of averages over rows whose place is set to each cell; see `grid`."""
    places = dict(zip("xy", np.array(cells.values).T, strict=True))
    group = shown["map"].to_dataset()
    limits = {name: group[name].values for name in ("mean", "low", "high")}
    return _map(places, limits, data.target.kind)


def _map(places: dict, limits: dict, kind: str) -> pd.DataFrame:
    low, high = limits["low"], limits["high"]
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.sqrt(high / low) if KINDS[kind].ratios else (high - low) / 2.0
    return pd.DataFrame({**places, **limits, "factor": factor})


def map_average(table: pd.DataFrame, points: pd.DataFrame) -> float:
    """Mean of a map over the places of the learning rows."""
    nearest = cKDTree(table[["x", "y"]].to_numpy()).query(points[["x", "y"]].to_numpy())[1]
    return float(table["mean"].to_numpy()[nearest].mean())


def grid(shown: xr.DataTree, inputs: pd.DataFrame, data: Data) -> dict[str, pd.DataFrame]:
    """A map (x, y, mean, low, high, factor) or a curve (value, mean, low, high, predictive limits)."""
    group, kind = shown["grid"].to_dataset(), data.target.kind

    def ends_of(name: str) -> list[np.ndarray]:
        return [group[name].sel(quantile=q).values for q in (0.025, 0.975)]

    low, high = ends_of("response_quantile")
    predictive = {"predictive_low": low, "predictive_high": high}
    if kind == "counts":
        low, high = ends_of("rate_quantile")
    elif kind in ("binomial", "share"):
        low, high = map(expit, ends_of("latent_quantile"))
    elif data.target.own.scaling == "geometric":
        low, high = ends_of("level_quantile")
    elif kind == "real":
        low, high = map(data.natural, ends_of("latent_quantile"))
    mean = typical_response(group)  # which may lie outside its own quantiles
    if kind == "survival":
        mean = group["level_quantile"].sel(quantile=0.5).values
    limits = {"mean": mean, "low": np.minimum(low, mean), "high": np.maximum(high, mean)}
    coordinates = list(data.encoding.coordinates)
    if coordinates:
        places = [data.encoding.natural(name, inputs[name].to_numpy()) for name in coordinates]
        return {"map": _map(dict(zip("xy", places, strict=True)), limits, kind)}
    name = inputs.columns[0]
    value: np.ndarray | list[str] = data.encoding.natural(name, inputs[name].to_numpy())
    if data.encoding.code(name).kind == "date":
        value = [value_text(data, name, day) for day in value]
    if kind == "binomial":  # a share of how many is not said
        predictive = dict.fromkeys(predictive, np.nan)
    return {"curve": pd.DataFrame({"value": value, **limits, **predictive})}


def points(data: Data) -> pd.DataFrame:
    """Places of the learning rows, and what was seen there."""
    learning, encoding = data.learning, data.encoding
    places = [encoding.natural(n, learning.X[n].to_numpy()) for n in encoding.coordinates]
    outcome = _seen(learning, data.target.kind)
    return pd.DataFrame({"x": places[0], "y": places[1], "outcome": outcome})


def reach(shown: xr.DataTree) -> pd.DataFrame:
    """Distance at which two places have a correlation of one half, by direction."""
    group = shown["reach"].to_dataset()
    distance = np.quantile(group["distance"].values, [0.5, 0.025, 0.975], axis=0, method="nearest")
    names = dict(zip(("distance", "low", "high"), distance, strict=True))
    return pd.DataFrame({"direction": group["direction"].values, **names})


def hyperparameters(
    models: Mapping[str, GPModel], results: Mapping[str, Results], encoding: Encoding
) -> pd.DataFrame:
    """Quantiles of each free parameter before the data (prior) and after (posterior).

    Periods are in units of their column, the others in those of standardised inputs and outcomes.
    """
    each = [pd.DataFrame(columns=["model", *COLUMNS])]
    for name, model in models.items():
        if (draws := results[name].draws) is not None:
            units = units_of_parameters(model, encoding)
            table = prior_and_posterior(model, parameters(draws), units)
            table.insert(0, "model", name)
            each.append(table)
    return pd.concat(each[1:] or each, ignore_index=True)


def predictions_loo(shown: xr.DataTree, data: Data) -> pd.DataFrame:
    """Probability of each learning row of a binary outcome, had it been left out."""
    learning = data.learning
    probability = left_out_probability(shown, data)
    table = pd.DataFrame({"row": learning.row, "outcome": learning.outcome, "mean": probability})
    return table.assign(q025=np.nan, q975=np.nan, probability=probability)
