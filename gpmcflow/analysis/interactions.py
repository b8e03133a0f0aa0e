"""Columns that act together: how far the effect of one depends on the value of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.analysis import effects
from gpmcflow.analysis.data import Data
from gpmcflow.analysis.models import functions_of
from gpmcflow.approximations.conditional import Predictor
from gpmcflow.contrasts.flat_curves import flat_chance
from gpmcflow.contrasts.terms import terms_of
from gpmcflow.covariances.leaves import Linear
from gpmcflow.data.outcome_kinds import KINDS

N_PAIRS = 2  # whose averages are drawn: those that differ most at the first setting
MOST_COLUMNS = 12  # among whose pairs these are looked for
N_VALUES = 5  # of each column of a pair
_ENDS = [f"{n}{end}" for n in ("at_low", "at_high", "difference") for end in ("", "_low", "_high")]
_COLUMNS = ("column", "by", "low", "high", "by_low", "by_high", *_ENDS, "chance")


def joined(model: Any, data: Data) -> list[tuple[str, str]]:
    """Pairs of columns that share a term of the covariance, in which they may act together."""
    encoding, pairs = data.encoding, set()
    of_input = {n: c for c in encoding.explaining for n in (c, *encoding.inputs_of(c))}
    for own in dict.fromkeys(functions_of(model)[0]):
        bound = iter(own._columns)
        for term in terms_of(own):
            leaves = list(term.leaves())
            places = [next(bound) for _ in leaves]
            if len(leaves) == 1 and isinstance(leaves[0], Linear):
                continue  # a sum of slopes
            names = {own.inputs.names[place] for its in places for place in its}
            own_columns = {of_input.get(name) for name in names}
            pairs |= set(combinations([c for c in encoding.explaining if c in own_columns], 2))
    return [pair for pair in combinations(encoding.explaining, 2) if pair in pairs]


def pair_sweep(
    first: effects.Sweep, second: effects.Sweep, n_values: int = N_VALUES
) -> effects.Sweep:
    """Both columns set to some of their values at once, those of the second in turn for each of the first."""
    chosen = [[(s.values[k], s.settings[k]) for k in _places(s, n_values)] for s in (first, second)]
    both = list(product(*chosen))
    values = tuple((a, b) for (a, _), (b, _) in both)
    settings = tuple({**a, **b} for (_, a), (_, b) in both)
    return effects.Sweep(
        f"{first.column}, {second.column}", "pair", values, (0, 0), first.rows, settings
    )


def _places(sweep: effects.Sweep, n_values: int) -> np.ndarray:
    """Places of the usual ends and some between; the most frequent levels."""
    if sweep.kind == "category":
        return np.arange(min(n_values, len(sweep.values)))
    return np.unique(np.linspace(*sweep.usual, n_values).round().astype(int))


class Pairs:
    """The pairs of columns that are drawn, chosen at the first setting of a model, and their draws.

    Random numbers are their own, so that nothing else depends on them.
    """

    def __init__(
        self,
        predictor: Predictor,
        model: Any,
        swept: Sequence[effects.Sweep],
        data: Data,
        *,
        linear: bool,
    ) -> None:
        self._kind, self._linear = data.target.kind, linear
        by_name = {s.column: s for s in swept if s.kind != "place" and len(s.values) > 1}
        names = list(by_name)[:MOST_COLUMNS]
        every = [pair for pair in joined(model, data) if set(pair) <= set(names)]
        self.n_possible = len(every)
        corners = [pair_sweep(*(by_name[c] for c in pair), n_values=2) for pair in every]
        coded = effects.CodedInputs(model, corners, joint=True)
        sizes = [
            abs(_second(effects.average_level(predictor, sweep, X, linear=linear).reshape(2, 2)))
            for sweep, X in zip(corners, coded, strict=True)
        ]
        kept = sorted(np.argsort(sizes, kind="stable")[::-1][:N_PAIRS])
        self._pairs = [every[k] for k in kept]
        self._swept = [pair_sweep(*(by_name[c] for c in pair)) for pair in self._pairs]
        self._coded = effects.CodedInputs(model, self._swept, joint=True)
        self._draws: list[list[np.ndarray]] = [[] for _ in self._pairs]
        self._rng = np.random.default_rng(0)

    def draw(self, predictor: Predictor, n: int) -> None:
        """Draws of averages at one more setting."""
        for draws, sweep, X in zip(self._draws, self._swept, self._coded, strict=True):
            draws.append(
                effects.sampled_averages(predictor, sweep, X, self._rng, n, linear=self._linear)
            )

    def groups(self, data: Data) -> Iterator[tuple[str, xr.Dataset]]:
        """Groups of results: averages (sample, value) in natural units."""
        for k, (draws, (first, second)) in enumerate(zip(self._draws, self._pairs, strict=True)):
            average = ("sample", "value"), data.natural(np.concatenate(draws))
            attributes = {"column": first, "by": second, "n_possible": self.n_possible}
            yield f"pairs/{k}", xr.Dataset({"average": average}, attrs=attributes)


def _second(corners: np.ndarray) -> float:
    return float(corners[1, 1] - corners[1, 0] - corners[0, 1] + corners[0, 0])


def interaction_tables(
    answer: xr.DataTree, swept: Sequence[effects.Sweep], data: Data, texts: Mapping[str, object]
) -> dict[str, pd.DataFrame]:
    """Tables ``interactions``, how the change with one column differs between values of another, and
    ``pairs``, the averages at both; none where no pair was drawn.

    ``texts`` writes the values of a column.
    """
    by_name, kind = {sweep.column: sweep for sweep in swept}, data.target.kind
    rows, surfaces = [], []
    for group in answer["pairs"].children.values() if "pairs" in answer.children else ():
        first, second = (by_name[group.attrs[name]] for name in ("column", "by"))
        at = [_places(sweep, N_VALUES) for sweep in (first, second)]
        shape = tuple(len(places) for places in at)
        averages = group["average"].values.reshape(-1, *shape)
        judged = [
            _judged(sweep, len(places)) for sweep, places in zip((first, second), at, strict=True)
        ]
        i, j, chance = _largest(effects.on_link(averages[(slice(None), *np.ix_(*judged))], kind))
        i, j = int(judged[0][i]), int(judged[1][j])
        names = [
            [texts[s.column](s.values[k]) for k in places]  # type: ignore[operator]
            for s, places in zip((first, second), at, strict=True)
        ]
        changes = [_change(averages[:, i, k], averages[:, 0, k], kind) for k in (0, j)]
        between = changes[1] / changes[0] if KINDS[kind].ratios else changes[1] - changes[0]
        summaries = [np.quantile(v, [0.5, 0.025, 0.975]) for v in (*changes, between)]
        ends = (names[0][0], names[0][i], names[1][0], names[1][j])
        chance = min(1.0, chance * group.attrs["n_possible"])
        rows.append((first.column, second.column, *ends, *np.concatenate(summaries), chance))
        low, middle, high = np.quantile(averages, [0.025, 0.5, 0.975], axis=0)
        for a, b in product(range(shape[0]), range(shape[1])):
            own = middle[a, b], low[a, b], high[a, b]
            surfaces.append((first.column, second.column, names[0][a], names[1][b], *own))
    if not rows:
        return {}
    head = ["column", "by", "value", "by_value", "mean", "low", "high"]
    return {
        "interactions": pd.DataFrame(rows, columns=list(_COLUMNS)),
        "pairs": pd.DataFrame(surfaces, columns=head),
    }


def _judged(sweep: effects.Sweep, n: int) -> np.ndarray:
    """Which values of a pair are compared: all levels, of numbers the ends and the middle."""
    return np.arange(n) if sweep.kind == "category" else np.unique([0, n // 2, n - 1])


def _change(end: np.ndarray, start: np.ndarray, kind: str) -> np.ndarray:
    return end / start if KINDS[kind].ratios else end - start


def _largest(scaled: np.ndarray) -> tuple[int, int, float]:
    """Of draws (draw, a, b) on the link's scale: the values whose second difference is clearest, and the
    chance of so large a one, were all zero."""
    second = scaled[:, 1:, 1:] - scaled[:, 1:, :1] - scaled[:, :1, 1:] + scaled[:, :1, :1]
    flat = second.reshape(len(second), -1)
    spread = flat.std(0, ddof=1)
    sizes = np.abs(flat.mean(0)) / np.where(spread > 0.0, spread, np.inf)
    i, j = np.unravel_index(int(sizes.argmax()), second.shape[1:])
    chance = flat_chance(np.column_stack([np.zeros(len(flat)), flat]))
    return int(i) + 1, int(j) + 1, chance
