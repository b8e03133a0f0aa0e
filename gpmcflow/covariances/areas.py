"""Covariance of areas that have neighbours: BYM2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from gpmcflow.covariances.known_levels import KnownLevels, level_name
from gpmcflow.errors import InputError
from gpmcflow.parameters.parameter import Setting

Graph = tuple[tuple[str, str], ...]
_ALLOWED = (
    "pairs of neighbours, such as [('north', 'east'), ('east', 'south')], or a square table of 0 and 1 with "
    "the areas' names"
)


def graph_of(value: Any) -> Graph:
    """Pairs of neighbours, each once, of pairs, a square table of 0 and 1, or {area: its neighbours}.

    Raises `InputError` for a graph without an edge, an area that is its own neighbour, and a table that is
    not symmetric.
    """
    pairs: Iterable
    if isinstance(value, pd.DataFrame) and value.shape[0] == value.shape[1] != 2:
        names, beside = [str(name) for name in value.columns], value.to_numpy(dtype=np.float64)
        if [str(name) for name in value.index] != names:
            raise InputError(
                "Areal: graph has other names in its rows than in its columns; give the same"
            )
        wrong = np.argwhere((beside != beside.T) | ~np.isin(beside, (0.0, 1.0)))
        if wrong.size:
            i, j = (int(k) for k in wrong[0])
            raise InputError(
                f"Areal: graph has {beside[i, j]:g} for {names[i]!r} beside {names[j]!r} and "
                f"{beside[j, i]:g} for {names[j]!r} beside {names[i]!r}; allowed: 0 or 1, the same for both"
            )
        pairs = [(names[i], names[j]) for i, j in np.argwhere(beside == 1.0)]
    elif isinstance(value, Mapping):
        pairs = [(area, other) for area, others in value.items() for other in others]
    else:
        pairs = value.to_numpy() if isinstance(value, pd.DataFrame) else value
    found: set[tuple[str, str]] = set()
    try:
        for first, second in pairs:
            low, high = sorted((level_name(first), level_name(second)))
            found.add((low, high))
    except (TypeError, ValueError):
        raise InputError(f"Areal: graph is {value!r}; allowed: {_ALLOWED}") from None
    own = next((first for first, second in found if first == second), None)
    if own is not None:
        raise InputError(f"Areal: graph has {own!r} as its own neighbour; drop that pair")
    if not found:
        raise InputError(
            f"Areal: graph has no pair of neighbours; allowed: {_ALLOWED}; or take Group"
        )
    return tuple(sorted(found))


@lru_cache(maxsize=8)  # a model is made again for each part of its data, of the same map
def scaled_structure(n: int, pairs: tuple[tuple[int, int], ...]) -> np.ndarray:
    """C (n, n), the generalised inverse of the graph's Laplacian, scaled in each connected component.

    There the geometric mean of its diagonal is 1; an area without neighbours has variance 1.

    Source: Sorbye & Rue (2014); Freni-Sterrantino, Ventrucci & Rue (2018).
    """
    i, j = np.array(pairs).T
    W = coo_matrix((np.ones(len(i)), (i, j)), shape=(n, n)).toarray()
    W += W.T
    n_parts, part = connected_components(W)
    C = np.eye(n)
    for k in range(n_parts):
        own = np.flatnonzero(part == k)
        if len(own) > 1:
            at = np.ix_(own, own)
            laplacian = np.diag(W[at].sum(1)) - W[at]
            ones = np.full((len(own),) * 2, 1.0 / len(own))
            inverse = np.linalg.inv(laplacian + ones) - ones  # on what sums to 0
            C[at] = inverse / np.exp(np.mean(np.log(np.diag(inverse))))
    return C


@dataclass(frozen=True, repr=False)
class Areal(KnownLevels):
    """Effect of areas that resemble their neighbours (BYM2): disease maps, districts, a grid with holes.

    k = s^2 ((1 - mix) [x = x'] + mix C[x, x']), C the generalised inverse of the neighbours' graph Laplacian,
    scaled so that a typical area has variance s^2. With mix = 1 it is the scaled intrinsic autoregression
    (ICAR), with mix = 0 it is `Group`. Each connected part of the map sums to 0 where mix is 1: add
    `Constant`, or a free mean. Areas in the data that have no neighbours are islands of variance s^2, and
    areas of the graph that are not in the data can be predicted.

    Source: Riebler, Sorbye, Simpson & Rue (2016); Freni-Sterrantino, Ventrucci & Rue (2018).

    Attributes
    ----------
    graph:
        Neighbours: pairs of areas, {area: its neighbours}, or a square DataFrame of 0 and 1.
    mix:
        Share of the variance that neighbours explain, between 0 and 1: a number, or a hyperprior on the scale
        "logit" or "probability"; by default logit mix ~ N(0, 1.5^2).
    signal_sd:
        s > 0, in the units of the latent function; by default log s ~ N(0, 1). In a product one factor has an
        amplitude, the others have s = 1 unless it is given.
    columns:
        The column with the areas' names or codes; there is no default.
    name:
        Prefix of its parameters in the names of a model of several terms; by default "areal".

    Raises
    ------
    InputError:
        For a graph without neighbours or that cannot be read, and for a wrong parameter.

    Examples
    --------
    >>> import pandas as pd
    >>> import gpmcflow as gp
    >>> homes = pd.DataFrame({"district": ["north", "south", "isle"]})
    >>> effect = gp.Areal([("north", "south")], mix=0.5, signal_sd=2.0, columns="district")
    >>> effect(homes)
    array([[ 4., -2.,  0.],
           [-2.,  4.,  0.],
           [ 0.,  0.,  4.]])
    """

    graph: Any = None
    mix: Setting | None = None
    signal_sd: Setting | None = None

    term, extra, probabilities = "areal", "mix", ("mix",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.graph is None:
            raise InputError(f"Areal: graph is missing; allowed: {_ALLOWED}")
        object.__setattr__(self, "graph", graph_of(self.graph))

    def __repr__(self) -> str:
        short = {k: v for k, v in self._settings().items() if k != "graph"}
        settings = [
            f"{key}={value!r}" for key, value in [*short.items(), ("columns", self.columns)]
        ]
        return f"Areal(<{len(self.graph)} pairs of neighbours>, {', '.join(settings)})"

    who, table_name = "Areal", "graph"

    def known(self) -> set[str]:
        """Areas of the graph."""
        return {area for pair in self.graph for area in pair}

    def renamed(self, names: Mapping[str, str]) -> Areal:
        """The same with other names of its areas."""
        pairs = tuple((names[first], names[second]) for first, second in self.graph)
        return replace(self, graph=pairs)

    def structure_of(self, places: Mapping[str, int]) -> np.ndarray:
        """C (L, L)."""
        pairs = tuple((places[first], places[second]) for first, second in self.graph)
        return scaled_structure(len(places), pairs)

    def variances(self, c: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """1 - mix + mix c, and the slope by logit mix."""
        phi = expit(own[0])
        return 1.0 - phi + phi * c, [phi * (1.0 - phi) * (c - 1.0)]

    def matrix(self, X: np.ndarray, X2: np.ndarray, own: np.ndarray) -> np.ndarray:
        """k / s^2; an area that is neither in the data nor in the graph is an island."""
        (structure, same), phi = self.between(X, X2), expit(own[0])
        return (1.0 - phi) * same + phi * structure

    def slopes(self, X: np.ndarray, own: np.ndarray) -> list[np.ndarray]:
        """The derivative by logit mix."""
        (structure, same), phi = self.between(X, X), expit(own[0])
        return [phi * (1.0 - phi) * (structure - same)]

    def diagonal_of(self, X: np.ndarray, own: np.ndarray) -> np.ndarray:
        """k(x, x) / s^2, (n,)."""
        phi = expit(own[0])
        return 1.0 - phi + phi * self.own_variance(X)
