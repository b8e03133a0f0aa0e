"""How split HMC works, on two parameters: Figures 1 to 4 of the split HMC paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.stats import chi2

from gpmcflow.errors import InputError
from gpmcflow.figures.style import Look, legend_below, looks, new_figure, styled

CONTOUR = 0.95  # probability inside the contour of the normal
_CLASSES = {1: Look("#0072B2", "o", "none"), 0: Look("#D55E00", "^", "none")}
_FULL, _PART = {"color": "black"}, {"color": "#D55E00", "linestyle": (0, (5, 1.5))}
_LINE = {"color": "black", "linewidth": 1.5}
_STRIP = "0.86"


@styled
def trajectories(
    hmc_states: np.ndarray, rwm_states: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> Figure:
    """States of HMC and of random walk Metropolis on a bivariate normal, each joined to the next.

    The ellipse holds 95 % of N(``mean`` (2,), ``covariance`` (2, 2)). States are (n, 2), the first
    one the start; the paper shows 30 of each, those of random walk Metropolis one in 20 updates.
    Raises `InputError` for other shapes, values not finite, or a covariance not positive definite.

    Source: the paper's Figure 1.
    """
    states = {
        "HMC": _array(hmc_states, (None, 2), "trajectories: hmc_states"),
        "random walk Metropolis": _array(rwm_states, (None, 2), "trajectories: rwm_states"),
    }
    contour = _contour(mean, covariance)
    figure = new_figure(4.1)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, (name, look) in zip(panels, looks(list(states)).items(), strict=True):
        path = states[name]
        axes.plot(*contour.T, color="0.45", linewidth=1.5)
        axes.plot(*path.T, **look.points(), color=look.color, linewidth=0.8, markersize=4)
        axes.plot(*path[0], **_start(), zorder=4)
        axes.set(title=f"{name}: {len(path)} states", xlabel="$q_1$", aspect="equal")
    panels[0].set_ylabel("$q_2$")
    handles = [
        Line2D(
            [], [], color="0.45", linewidth=1.5, label=f"holds {100 * CONTOUR:g} % of the normal"
        ),
        Line2D([], [], linestyle="none", label="start", **_start()),
    ]
    legend_below(figure, handles)
    return figure


@styled
def data_and_line(x: np.ndarray, y: np.ndarray, theta_map: np.ndarray) -> Figure:
    """Cases of two classes, and the line on which both have probability 1/2 at the MAP.

    ``x`` (n, 2) features, ``y`` (n,) of 0 and 1, ``theta_map`` (3,) = (alpha, beta_1, beta_2); the
    line is alpha + beta_1 x_1 + beta_2 x_2 = 0. Raises `InputError` for anything else, and for
    beta_1 = beta_2 = 0, which has no line.

    Source: the paper's Figure 2.
    """
    x, y, theta_map = _cases(x, y, theta_map, "data_and_line")
    figure = new_figure(4.6)
    axes = figure.subplots()
    _case_axes(axes, x)
    _map_line(axes, x, theta_map)
    for label, look in _CLASSES.items():
        axes.plot(*x[y == label].T, linestyle="none", **look.points(hollow=label == 0))
    handles = [_class_handle(1), _class_handle(0, hollow=True), _line_handle()]
    legend_below(figure, handles, columns=3)
    return figure


@styled
def normal_split(
    grid: np.ndarray,
    energy: np.ndarray,
    gaussian_energy: np.ndarray,
    slope: np.ndarray,
    gaussian_slope: np.ndarray,
    mode: float,
) -> Figure:
    """Energy U and its Gaussian part U_0 (nats) against beta_1, and their derivatives.

    All arrays are (g,): values at the ``grid`` of beta_1, the other parameters at the MAP; ``mode``
    is beta_1 there. U_0 has a constant of its own: with U(MAP) added it touches U at the mode. The
    derivative of U_0 is a straight line through zero at the mode. Raises `InputError` for arrays of
    different lengths, values not finite, or a mode outside the grid.

    Source: the paper's Figure 3.
    """
    where = "normal_split"
    grid, mode = _grid(grid, mode, where)
    figure = new_figure(3.4)
    left, right = figure.subplots(1, 2)
    shape, label = (len(grid),), "$U_0$, normal"
    pair = [_array(energy, shape, f"{where}: energy")]
    pair.append(_array(gaussian_energy, shape, f"{where}: gaussian_energy"))
    _curves(left, grid, pair, mode)
    left.set_ylabel("energy (nats)")
    pair = [_array(slope, shape, f"{where}: slope")]
    pair.append(_array(gaussian_slope, shape, f"{where}: gaussian_slope"))
    _slopes(right, grid, pair, mode)
    legend_below(figure, _curve_handles(label), columns=3)
    return figure


@styled
def data_split(
    x: np.ndarray,
    y: np.ndarray,
    theta_map: np.ndarray,
    fast: np.ndarray,
    grid: np.ndarray,
    slope: np.ndarray,
    fast_slope: np.ndarray,
    mode: float,
) -> Figure:
    """The fast cases R_0 nearest to the MAP line, and derivatives of U and of their part U_0.

    ``x``, ``y``, ``theta_map`` as in `data_and_line`; ``fast`` (n,) is true for the cases in R_0,
    which are filled, and lie in the shaded strip |alpha + beta_1 x_1 + beta_2 x_2| <= the largest
    such value of theirs. Right: ``slope`` and ``fast_slope`` (g,) at the ``grid`` of beta_1, in nats
    per unit of beta_1, the other parameters at the MAP; ``mode`` is beta_1 there. Raises
    `InputError` as `data_and_line` and `normal_split` do, and where a slow case lies in the strip.

    Source: the paper's Figure 4.
    """
    where = "data_split"
    x, y, theta_map = _cases(x, y, theta_map, where)
    fast, reach = _strip(x, theta_map, fast, where)
    grid, mode = _grid(grid, mode, where)
    shape = (len(grid),)
    pair = [_array(slope, shape, f"{where}: slope")]
    pair.append(_array(fast_slope, shape, f"{where}: fast_slope"))
    figure = new_figure(4.35)
    left, right = figure.subplots(1, 2)
    _case_axes(left, x)
    edges = [_segment(x, theta_map, side * reach) for side in (-1.0, 1.0)]
    left.fill(*np.concatenate([edges[0], edges[1][::-1]]).T, color=_STRIP, zorder=0.5)
    _map_line(left, x, theta_map)
    for label, look in _CLASSES.items():
        for some, hollow in ((fast, False), (~fast, True)):
            shown = x[(y == label) & some]
            left.plot(*shown.T, linestyle="none", **look.points(hollow), markersize=5)
    _slopes(right, grid, pair, mode)
    right.set_box_aspect(1.0)
    strip = Patch(color=_STRIP, label=f"fast: {fast.sum()} of {len(x)} cases, filled")
    # Columns fill downwards: what the left panel shows stands under it.
    handles = [_class_handle(1), _class_handle(0), _line_handle(), strip]
    legend_below(figure, [*handles, *_curve_handles("$U_0$, fast cases")])
    return figure


def _array(values: np.ndarray, shape: Sequence[int | None], where: str) -> np.ndarray:
    """Finite float64 array of the shape (None: any length but zero), or `InputError`."""
    values = np.asarray(values, dtype=np.float64)
    fits = values.ndim == len(shape) and values.size > 0
    if not fits or any(n not in (None, m) for n, m in zip(shape, values.shape, strict=True)):
        expected = ", ".join("n" if n is None else str(n) for n in shape)
        raise InputError(f"{where}: found shape {values.shape}, expected ({expected}).")
    if not np.isfinite(values).all():
        count = int((~np.isfinite(values)).sum())
        raise InputError(
            f"{where}: {count} of {values.size} values are not finite; give finite ones."
        )
    return values


def _contour(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    mean = _array(mean, (2,), "trajectories: mean")
    covariance = _array(covariance, (2, 2), "trajectories: covariance")
    if not np.allclose(covariance, covariance.T) or np.linalg.eigvalsh(covariance)[0] <= 0.0:
        raise InputError(
            f"trajectories: covariance {covariance.tolist()} is not symmetric positive definite."
        )
    angle = np.linspace(0.0, 2.0 * np.pi, 241)
    circle = np.sqrt(chi2.ppf(CONTOUR, 2)) * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return mean + circle @ np.linalg.cholesky(covariance).T


def _start() -> dict:
    return {
        "marker": "*",
        "markersize": 13,
        "markerfacecolor": "white",
        "markeredgecolor": "black",
        "markeredgewidth": 1.2,
    }


def _cases(
    x: np.ndarray, y: np.ndarray, theta_map: np.ndarray, where: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = _array(x, (None, 2), f"{where}: x")
    y = _array(y, (len(x),), f"{where}: y")
    theta_map = _array(theta_map, (3,), f"{where}: theta_map")
    if not np.isin(y, (0.0, 1.0)).all():
        raise InputError(f"{where}: y holds {np.unique(y)[:4].tolist()}, allowed are 0 and 1.")
    if not theta_map[1:].any():
        raise InputError(
            f"{where}: both slopes of theta_map are 0, so no line has probability 1/2."
        )
    return x, y, theta_map


def _strip(
    x: np.ndarray, theta_map: np.ndarray, fast: np.ndarray, where: str
) -> tuple[np.ndarray, float]:
    """Fast cases as booleans, and the largest |eta| among them; no slow case may be nearer."""
    fast = np.asarray(fast)
    if fast.dtype != bool or fast.shape != (len(x),) or not fast.any():
        raise InputError(
            f"{where}: fast is {fast.dtype} of shape {fast.shape}; give ({len(x)},) booleans, at "
            "least one true."
        )
    distance = np.abs(theta_map[0] + x @ theta_map[1:])
    reach = distance[fast].max()
    nearer = int((distance[~fast] < reach).sum())
    if nearer:
        raise InputError(
            f"{where}: {nearer} slow cases lie nearer to the MAP line than the farthest fast one; "
            "mark the nearest cases as fast."
        )
    return fast, float(reach)


def _grid(grid: np.ndarray, mode: float, where: str) -> tuple[np.ndarray, float]:
    grid = _array(grid, (None,), f"{where}: grid")
    mode = float(_array(mode, (), f"{where}: mode"))
    if not grid.min() <= mode <= grid.max():
        raise InputError(
            f"{where}: mode {mode:g} lies outside the grid, {grid.min():g} to {grid.max():g}."
        )
    return grid, mode


def _case_axes(axes: Axes, x: np.ndarray) -> None:
    """Square panel around the cases: lines may then run to any length."""
    centre, half = 0.5 * (x.min(axis=0) + x.max(axis=0)), 0.56 * _extent(x)
    axes.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
    axes.set_xlim(centre[0] - half, centre[0] + half)
    axes.set_ylim(centre[1] - half, centre[1] + half)


def _extent(x: np.ndarray) -> float:
    return max(float(np.ptp(x, axis=0).max()), 1e-9)


def _segment(x: np.ndarray, theta_map: np.ndarray, level: float) -> np.ndarray:
    """Ends (2, 2) of alpha + beta x = level, beyond the panel on both sides."""
    slope = theta_map[1:]
    middle = x.mean(axis=0)
    nearest = middle + slope * (level - theta_map[0] - slope @ middle) / (slope @ slope)
    along = np.array([-slope[1], slope[0]]) / np.hypot(*slope)
    return nearest + 4.0 * _extent(x) * np.array([[-1.0], [1.0]]) * along


def _map_line(axes: Axes, x: np.ndarray, theta_map: np.ndarray) -> None:
    axes.plot(*_segment(x, theta_map, 0.0).T, **_LINE)


def _curves(axes: Axes, grid: np.ndarray, pair: Sequence[np.ndarray], mode: float) -> None:
    for values, style in zip(pair, (_FULL, _PART), strict=True):
        axes.plot(grid, values, **style)
    axes.axvline(mode, **_mode_line())
    axes.set(xlabel=r"$\beta_1$", xmargin=0.02)


def _slopes(axes: Axes, grid: np.ndarray, pair: Sequence[np.ndarray], mode: float) -> None:
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    _curves(axes, grid, pair, mode)
    axes.set_ylabel(r"derivative by $\beta_1$ (nats per unit)")


def _mode_line() -> dict:
    return {"color": "0.35", "linestyle": ":", "linewidth": 1.2}


def _curve_handles(label: str) -> list[Line2D]:
    return [
        Line2D([], [], label="$U$, all", **_FULL),
        Line2D([], [], label=label, **_PART),
        Line2D([], [], label=r"MAP of $\beta_1$", **_mode_line()),
    ]


def _class_handle(label: int, hollow: bool = False) -> Line2D:
    points = _CLASSES[label].points(hollow)
    return Line2D([], [], linestyle="none", label=f"$y = {label}$", **points)


def _line_handle() -> Line2D:
    return Line2D([], [], label="probability 1/2 at the MAP", **_LINE)
