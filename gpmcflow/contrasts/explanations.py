"""Explanations of one data set: the curve of each mode of the hyperparameters, and its probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from gpmcflow.approximations.draws import evenly_spaced, read_draws
from gpmcflow.approximations.evidence_density import normal_density
from gpmcflow.approximations.mixture import Mixture, more_modes
from gpmcflow.contrasts.average import N_DRAWS, average_draws, grid_of
from gpmcflow.contrasts.responses import require_kind
from gpmcflow.contrasts.summaries import require_interval, summarised
from gpmcflow.errors import InputError, unknown_name
from gpmcflow.models.gp_model import GPModel

LEAST_SHARE = 0.03  # of the posterior, below which a mode is no explanation
FEWEST = 2  # draws of an explanation
LEAST_APART = 1.5  # ratio of parameters, or of how far curves go up and down, that words tell
MOST_TOLD = 3  # parameters in words


class Average(NamedTuple):
    """Draws of averages at values of one column."""

    curves: np.ndarray  #: (S, g)
    ordered: bool  #: whether the values are numbers


class Explanation(NamedTuple):
    """Draws that share a mode, or modes of one curve."""

    name: str  #: such as "92 %"; of equal shares the second is "50 % (2)"
    share: float  #: of the posterior
    rows: np.ndarray  #: places of its draws
    theta: np.ndarray  #: median of its coordinates (d,)


def explanations(
    draws: Any,
    column: str,
    *,
    values: Sequence[Any] | None = None,
    at: Mapping[str, Any] | None = None,
    kind: str = "mean",
    of: str | None = None,
    interval: float = 0.95,
    n_rows: int | None = None,
    n_draws: int = 2 * N_DRAWS,
    model: GPModel | None = None,
    seed: int = 0,
) -> xr.Dataset:
    """Average response as of `effects`, for each mode of the hyperparameters apart.

    With modes k = 1, .., K of p(theta | y) it is mean_i E[y | x_i with column = v, k], and the share of k is
    P(k | y), from all draws. A draw belongs to the mode whose Student-t density, of the curvature there, is
    the largest at its theta. Modes of less than 3 % are left out. Modes whose curves do not differ, as where
    two terms change places, are one explanation: curves differ if at some value the median of each lies
    outside the interval of the other.

    Parameters
    ----------
    draws:
        Draws of `sample` with a group ``modes``: those of regressions with up to 8 free parameters have one,
        and those of `JointIndependence`.
    column, values, at, kind, of, interval, n_rows, n_draws, model, seed:
        As of `effects`.

    Returns
    -------
    Variables mean, median, sd, low, high (column, explanation), the likeliest first, for `plot.effects`;
    share (explanation), and each free parameter, its median over the draws (explanation). Attribute in_words
    such as "92 % with slower change, more noise, length_scale 1.05, noise_sd 0.56; 8 % with faster ..".

    Raises
    ------
    InputError:
        For draws without a group ``modes``, and as of `effects`.

    Examples
    --------
    >>> import numpy as np
    >>> import gpmcflow as gp
    >>> x = np.linspace(0.0, 5.0, 30)
    >>> noise = 0.1 * np.random.default_rng([77, 2]).standard_normal(30)
    >>> frame = {"x": x, "y": np.sin(1.3 * x) + 0.7 * np.sin(25.0 * x) + noise}
    >>> any_scale = gp.Hyperprior.log_uniform(0.02, 20.0)
    >>> model = gp.GPModel.from_frame(frame, "y", gp.SquaredExponential(any_scale), gp.Gaussian(), mean=0.0)
    >>> found = gp.explanations(gp.sample(model), "x")
    >>> found.explanation.values.tolist()
    ['90 %', '10 %']
    """
    require_kind("explanations", kind)
    require_interval("explanations", interval)
    if not isinstance(draws, xr.DataTree) or "modes" not in draws.children:
        raise InputError(
            'explanations: found no group "modes"; allowed: draws of sample from a regression of up to 8 '
            "free parameters, such as gp.explanations(gp.sample(model), column)"
        )
    own, used = read_draws("explanations", draws, model, 1)[0], evenly_spaced(draws, n_draws)
    theta = thetas(used)

    def grids(own: GPModel, frame: Any) -> list:
        if column not in own.inputs.names:
            raise unknown_name("explanations: column", str(column), own.inputs.names)
        return [grid_of(own, column, frame, values)]

    if list(own.inputs.names) == [column]:  # all rows are one
        n_rows = 1
    averages, (grid,), attributes = average_draws(
        used, grids, at=at, kind=kind, of=of, n_rows=n_rows, n_draws=n_draws, model=own, seed=seed
    )
    labels, shares = labels_of(own, draws["modes"].to_dataset(), theta, thetas(draws))
    found = told_apart(labels, shares, theta, averages, interval)
    tables = [
        summarised(averages[each.rows], [column], {column: grid.coordinate}, interval)
        for each in found
    ]
    table = xr.concat(tables, "explanation").transpose(column, "explanation")
    natural = [own.natural(each.theta) for each in found]
    beside = {"share": [each.share for each in found]}
    beside |= {name: [values[name] for values in natural] for name in own.names}
    table = table.assign({name: ("explanation", numbers) for name, numbers in beside.items()})
    table = table.assign_coords(explanation=[each.name for each in found])
    return table.assign_attrs(
        attributes, in_words=in_words(own, found, averages if grid.is_number else None)
    )


def thetas(draws: xr.DataTree) -> np.ndarray:
    """Coordinates theta (chain * draw, d) of all draws."""
    theta = draws["posterior"]["theta"].transpose("chain", "draw", "theta_dim").values
    return theta.reshape(-1, theta.shape[-1])


def labels_of(
    model: GPModel, modes: xr.Dataset, theta: np.ndarray, every: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The mode (n,) that each theta (n, d) belongs to, and the share (K,) of each among ``every`` (N, d).

    ``modes`` is the group of results. Its modes are climbed once more, for their curvature.
    """
    coordinates = model.parameters.to_normal
    tops = more_modes(normal_density(model), [], coordinates(modes["theta"].values))
    if not tops:
        return np.zeros(len(theta), dtype=int), np.ones(1)
    mixture = Mixture.at_modes(tops)
    counts = np.bincount(mixture.nearest(coordinates(every)), minlength=len(mixture.masses))
    return mixture.nearest(coordinates(theta)), counts / counts.sum()


def told_apart(
    labels: np.ndarray,
    shares: np.ndarray,
    theta: np.ndarray,
    curves: np.ndarray,
    interval: float = 0.95,
) -> list[Explanation]:
    """Explanations by labels (n,) of draws theta (n, d), the likeliest first.

    ``curves`` (S, g) are S / n draws of curves for each of them. A mode whose curves do not differ from those
    of a likelier one joins it.
    """
    tail, kept = 0.5 * (1.0 - interval), []  # type: tuple[float, list[list]]
    of_curves = np.repeat(labels, len(curves) // len(labels))
    for k in np.argsort(-shares, kind="stable"):
        if shares[k] < LEAST_SHARE or (labels == k).sum() < FEWEST:
            continue
        band = np.quantile(curves[of_curves == k], [tail, 0.5, 1.0 - tail], axis=0)
        same = next((own for own in kept if not _apart(own[0], band)), None)
        if same is None:
            kept.append([band, shares[k], [k]])
        else:
            same[1] += shares[k]
            same[2].append(k)
    kept.sort(key=lambda own: -own[1])
    names = [f"{100 * share:.0f} %" for _, share, _ in kept]
    names = [
        f"{name} ({n})" if (n := names[: k + 1].count(name)) > 1 else name
        for k, name in enumerate(names)
    ]
    return [
        Explanation(
            name,
            float(share),
            np.flatnonzero(np.isin(of_curves, own)),
            np.median(theta[np.isin(labels, own[:1])], axis=0),
        )
        for name, (_, share, own) in zip(names, kept, strict=True)
    ]


def _apart(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether at some value the median of each of two bands (low, median, high) lies outside the other."""
    outside = [
        (one[1] < other[0]) | (one[1] > other[2])
        for one, other in ((first, second), (second, first))
    ]
    return bool((outside[0] & outside[1]).any())


def in_words(
    model: GPModel, found: Sequence[Explanation], curves: np.ndarray | None, *, plain: bool = False
) -> str:
    """Such as "92 % with slower change, more noise, length_scale 1.05; 8 % with faster change, less ..".

    Told are whether the ``curves`` of numbers go up and down more, or less, by a factor of 1.5, whether there
    is more noise, and unless ``plain`` at most three parameters that are as different.
    """
    if len(found) < 2:
        return "one explanation"
    theta = np.array([own.theta for own in found])
    spread = np.ptp(theta, axis=0)
    widest = sorted(np.argsort(-spread, kind="stable")[:MOST_TOLD])
    told = [k for k in widest if spread[k] >= np.log(LEAST_APART)]
    phrases: list[list[str]] = [[] for _ in found]
    if curves is not None:
        moves = [np.abs(np.diff(np.median(curves[own.rows], axis=0))).sum() for own in found]
        _compare(phrases, np.log(np.maximum(moves, 1e-300)), "slower change", "faster change")
    if model.likelihood.conjugate:
        noise = [k for k in told if "likelihood" in model.owners(model.free[k])]
        if noise:
            _compare(phrases, theta[:, noise[0]], "less noise", "more noise")
    texts = []
    for own, phrase in zip(found, phrases, strict=True):
        natural = model.natural(own.theta)
        named = [] if plain else [f"{model.names[k]} {natural[model.names[k]]:.3g}" for k in told]
        each = ", ".join([*phrase, *named])
        texts.append(f"{own.name}{' with ' if each else ''}{each}")
    return "; ".join(texts)


def _compare(phrases: list[list[str]], logs: np.ndarray, small: str, large: str) -> None:
    """Say of each number, given by its log, that it is small or large beside the others."""
    least = np.log(LEAST_APART)
    for phrase, value in zip(phrases, logs, strict=True):
        if value < max(logs) - least and value - min(logs) < least:
            phrase.append(small)
        elif value > min(logs) + least and max(logs) - value < least:
            phrase.append(large)


def explanation_groups(
    model: GPModel, draws: xr.DataTree, theta: np.ndarray, averages: Mapping[str, Average]
) -> dict[str, xr.Dataset]:
    """Curves of each explanation by name of the averages: mean (median), low, high (explanation, value).

    ``averages`` are S / n draws of each theta (n, d). There are none of draws without a group ``modes``, of
    one explanation, and of averages that no two explanations differ in.
    """
    if "modes" not in draws.children or draws["modes"].sizes["mode"] < 2:
        return {}
    labels, shares = labels_of(model, draws["modes"].to_dataset(), theta, thetas(draws))
    groups = {}
    for name, (curves, ordered) in averages.items():
        found = told_apart(labels, shares, theta, curves)
        if len(found) < 2:
            continue
        bands = [np.quantile(curves[own.rows], [0.5, 0.025, 0.975], axis=0) for own in found]
        variables = dict(zip(("mean", "low", "high"), np.stack(bands, axis=1), strict=True))
        groups[name] = xr.Dataset(
            {key: (("explanation", "value"), band) for key, band in variables.items()},
            {"explanation": [own.name for own in found]},
            {"in_words": in_words(model, found, curves if ordered else None, plain=True)},
        )
    return groups


def explanation_table(
    groups: xr.DataTree, texts: Mapping[str, tuple[str, Sequence[str]]]
) -> pd.DataFrame:
    """A row for each value of a column and each explanation: column, value, by, mean, low, high, in_words.

    ``groups`` are those of `explanation_groups`, ``texts`` the name of the column and its values in words.
    """
    parts = []
    for key, group in groups.children.items():
        column, values = texts[key]
        for own in (
            group.to_dataset().isel(explanation=k) for k in range(group.sizes["explanation"])
        ):
            ends = {name: own[name].values for name in ("mean", "low", "high")}
            about = {"column": column, "value": values, "by": str(own["explanation"].values)}
            parts.append(pd.DataFrame({**about, **ends, "in_words": group.attrs["in_words"]}))
    return pd.concat(parts, ignore_index=True)
