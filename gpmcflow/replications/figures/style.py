"""Shared look of the figures: sizes, fonts, and one look per method that also reads in grey."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

WIDTH = 7.0  # inches
DPI = 150
ALARM_LABEL = "hollow: the estimate raised an alarm"

# Rules of the user's own matplotlibrc are set aside: the same results give the same figure.
_RULES = {
    "figure.dpi": DPI,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": "0.9",
    "grid.linewidth": 0.7,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "lines.linewidth": 1.4,
    "lines.markersize": 6,
}

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#AA4499", "#E69F00", "#56B4E9", "#882255")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "*", ">", "p")
_DASHES = ("-", (0, (5, 1.5)), (0, (6, 1.5, 1.2, 1.5)), (0, (1.2, 1.2)), (0, (3, 1.2, 1.2, 1.2)))


@dataclass(frozen=True)
class Look:
    """Colour, marker and line style of one method; markers differ between any eleven methods."""

    color: str
    marker: str
    linestyle: str | tuple

    def line(self) -> dict:
        """Keywords of a line without markers."""
        return {"color": self.color, "linestyle": self.linestyle}

    def points(self, hollow: bool = False) -> dict:
        """Keywords of markers without a line; hollow ones are estimates that raised an alarm."""
        return {
            "marker": self.marker,
            "markeredgecolor": self.color,
            "markerfacecolor": "white" if hollow else self.color,
            "markeredgewidth": 1.2,
        }


def looks(names: Sequence[str]) -> dict[str, Look]:
    """One look per name, by its place in the list: the same list gives the same looks."""
    return {
        name: Look(
            _COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)], _DASHES[i % len(_DASHES)]
        )
        for i, name in enumerate(dict.fromkeys(names))
    }


def handle(label: str, **style: Any) -> Line2D:
    """Entry of a legend that looks like a line with these keywords."""
    return Line2D([], [], label=label, **style)


def mark(
    marker: str, size: float, width: float, face: str = "white", edge: str = "black"
) -> dict[str, Any]:
    """Keywords of a mark with an edge of this width, and without a line."""
    colours = {"markerfacecolor": face, "markeredgecolor": edge, "markeredgewidth": width}
    return {"linestyle": "none", "marker": marker, "markersize": size, **colours}


class _StyledFigure(Figure):
    """Figure that is also drawn within our rules: matplotlib makes ticks only then."""

    def draw(self, renderer) -> None:
        with _rules():
            super().draw(renderer)


def _rules() -> contextlib.AbstractContextManager:
    return mpl.style.context(["default", _RULES])


def styled(function: Callable[..., Figure]) -> Callable[..., Figure]:
    """Draw within our rules, whatever the user's settings are, and leave those as they were."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs) -> Figure:
        with _rules():
            return function(*args, **kwargs)

    return wrapper


def new_figure(height: float) -> Figure:
    """Figure of the shared width with an Agg canvas, outside pyplot's list of open figures."""
    figure = _StyledFigure(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def legend_below(figure: Figure, handles: Sequence, columns: int = 2) -> None:
    """Put the legend under all panels, where it can hide nothing."""
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, borderaxespad=0.2)


def unused(axes: Axes, text: str) -> None:
    """Say in an empty panel why it is empty."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, wrap=True)
    axes.set(xticks=[], yticks=[])


def log_axis(axes: Axes, low: float, high: float) -> None:
    """Logarithmic horizontal axis from low to high, with room beside them and at least two labels."""
    widen = max((high / low) ** 0.09, 1.25)  # labels at the outermost marks stick out
    axes.set_xscale("log")
    axes.set_xlim(low / widen, high * widen)
    if high / low < 30.0:  # decades alone would leave an axis with a single label, or none
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(_plain_number))
    else:
        axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _plain_number(value: float, _position: int | None = None) -> str:
    """0.5, 20, 5k, 20M: short enough for three labels a decade."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"
