"""How split HMC works, on two parameters: Figures 1 to 4 of the split HMC paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.stats import chi2

from gpmcflow.replications.figures.style import (
    Look,
    handle,
    legend_below,
    looks,
    mark,
    new_figure,
    styled,
)

CONTOUR = 0.95  # probability inside the contour of the normal
_CLASSES = {1: Look("#0072B2", "o", "none"), 0: Look("#D55E00", "^", "none")}
_FULL, _PART = {"color": "black"}, {"color": "#D55E00", "linestyle": (0, (5, 1.5))}
_LINE = {"color": "black", "linewidth": 1.5}
_EVEN = "probability 1/2 at the MAP"  # of the line
_MODE = {"color": "0.35", "linestyle": ":", "linewidth": 1.2}
_STRIP = "0.86"
_CONTOUR_LINE = {"color": "0.45", "linewidth": 1.5}
_START = mark("*", 13, 1.2)


@styled
def trajectories(
    hmc_states: np.ndarray, rwm_states: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> Figure:
    """States of HMC and of random walk Metropolis on a bivariate normal, each joined to the next.

    The ellipse holds 95 % of N(``mean`` (2,), ``covariance`` (2, 2)). States are (n, 2), the first
    one the start; the paper shows 30 of each, those of random walk Metropolis one in 20 updates.

    Source: the paper's Figure 1.
    """
    states = {"HMC": hmc_states, "random walk Metropolis": rwm_states}
    angle = np.linspace(0.0, 2.0 * np.pi, 241)
    circle = np.sqrt(chi2.ppf(CONTOUR, 2)) * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    contour = mean + circle @ np.linalg.cholesky(covariance).T
    figure = new_figure(4.1)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, (name, look) in zip(panels, looks(list(states)).items(), strict=True):
        path = states[name]
        axes.plot(*contour.T, **_CONTOUR_LINE)
        axes.plot(*path.T, **look.points(), color=look.color, linewidth=0.8, markersize=4)
        axes.plot(*path[0], **_START, zorder=4)
        axes.set(title=f"{name}: {len(path)} states", xlabel="$q_1$", aspect="equal")
    panels[0].set_ylabel("$q_2$")
    inside = f"holds {100 * CONTOUR:g} % of the normal"
    legend_below(figure, [handle(inside, **_CONTOUR_LINE), handle("start", **_START)])
    return figure


@styled
def data_and_line(x: np.ndarray, y: np.ndarray, theta_map: np.ndarray) -> Figure:
    """Cases of two classes, and the line on which both have probability 1/2 at the MAP.

    ``x`` (n, 2) features, ``y`` (n,) of 0 and 1, ``theta_map`` (3,) = (alpha, beta_1, beta_2); the
    line is alpha + beta_1 x_1 + beta_2 x_2 = 0.

    Source: the paper's Figure 2.
    """
    figure = new_figure(4.6)
    axes = figure.subplots()
    _case_axes(axes, x)
    _map_line(axes, x, theta_map)
    for label, look in _CLASSES.items():
        axes.plot(*x[y == label].T, linestyle="none", **look.points(hollow=label == 0))
    handles = [_class_handle(1), _class_handle(0, hollow=True), handle(_EVEN, **_LINE)]
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
    derivative of U_0 is a straight line through zero at the mode.

    Source: the paper's Figure 3.
    """
    figure = new_figure(3.4)
    left, right = figure.subplots(1, 2)
    _curves(left, grid, (energy, gaussian_energy), mode)
    left.set_ylabel("energy (nats)")
    _slopes(right, grid, (slope, gaussian_slope), mode)
    legend_below(figure, _curve_handles("$U_0$, normal"), columns=3)
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
    per unit of beta_1, the other parameters at the MAP; ``mode`` is beta_1 there.

    Source: the paper's Figure 4.
    """
    reach = np.abs(theta_map[0] + x[fast] @ theta_map[1:]).max()
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
    _slopes(right, grid, (slope, fast_slope), mode)
    right.set_box_aspect(1.0)
    strip = Patch(color=_STRIP, label=f"fast: {fast.sum()} of {len(x)} cases, filled")
    # Columns fill downwards: what the left panel shows stands under it.
    handles = [_class_handle(1), _class_handle(0), handle(_EVEN, **_LINE), strip]
    legend_below(figure, [*handles, *_curve_handles("$U_0$, fast cases")])
    return figure


def _case_axes(axes: Axes, x: np.ndarray) -> None:
    """Square panel around the cases: lines may then run to any length."""
    centre, half = 0.5 * (x.min(axis=0) + x.max(axis=0)), 0.56 * np.ptp(x, axis=0).max()
    axes.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
    axes.set_xlim(centre[0] - half, centre[0] + half)
    axes.set_ylim(centre[1] - half, centre[1] + half)


def _segment(x: np.ndarray, theta_map: np.ndarray, level: float) -> np.ndarray:
    """Ends (2, 2) of alpha + beta x = level, beyond the panel on both sides."""
    slope = theta_map[1:]
    middle = x.mean(axis=0)
    nearest = middle + slope * (level - theta_map[0] - slope @ middle) / (slope @ slope)
    along = np.array([-slope[1], slope[0]]) / np.hypot(*slope)
    return nearest + 4.0 * np.ptp(x, axis=0).max() * np.array([[-1.0], [1.0]]) * along


def _map_line(axes: Axes, x: np.ndarray, theta_map: np.ndarray) -> None:
    axes.plot(*_segment(x, theta_map, 0.0).T, **_LINE)


def _curves(axes: Axes, grid: np.ndarray, pair: Sequence[np.ndarray], mode: float) -> None:
    for values, style in zip(pair, (_FULL, _PART), strict=True):
        axes.plot(grid, values, **style)
    axes.axvline(mode, **_MODE)
    axes.set(xlabel=r"$\beta_1$", xmargin=0.02)


def _slopes(axes: Axes, grid: np.ndarray, pair: Sequence[np.ndarray], mode: float) -> None:
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    _curves(axes, grid, pair, mode)
    axes.set_ylabel(r"derivative by $\beta_1$ (nats per unit)")


def _curve_handles(label: str) -> list[Line2D]:
    return [
        handle("$U$, all", **_FULL),
        handle(label, **_PART),
        handle(r"MAP of $\beta_1$", **_MODE),
    ]


def _class_handle(label: int, hollow: bool = False) -> Line2D:
    return handle(f"$y = {label}$", linestyle="none", **_CLASSES[label].points(hollow))
