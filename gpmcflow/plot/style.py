"""Colours, sizes, ticks and labels that all pictures share, on the page and on axes of a user's own."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from matplotlib.transforms import blended_transform_factory

from gpmcflow.plot.numbers import number

WIDTH = 360  # pixels; 5 inches at 72 to the inch
FONT = 10.5
# The page's light colours, each once: its SVG takes them as the names of CSS variables.
INK, MUTED, LINE, PAPER, ACCENT = "#1b1d20", "#5c6269", "#dcdfe3", "#ffffff", "#0b5fa5"
STEPS = ["#f3f6fa", "#d9e5f1", "#b5cee4", "#86b1d4", "#548fc0", "#2a699f", "#103f6d"]
DASHES = (0, (4, 3))
SETTINGS = {
    **{"svg.fonttype": "none", "font.size": FONT, "font.family": "DejaVu Sans"},
    **{"text.color": INK, "axes.labelcolor": INK, "xtick.color": MUTED, "ytick.color": MUTED},
    **{"xtick.labelcolor": INK, "ytick.labelcolor": INK, "axes.edgecolor": MUTED},
    **{"xtick.labelsize": FONT, "ytick.labelsize": FONT, "axes.labelsize": FONT},
    **{"axes.linewidth": 0.8, "xtick.major.size": 3, "ytick.major.size": 3},
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.unicode_minus": True},
    **{"hatch.linewidth": 0.7, "hatch.color": INK, "path.simplify": False},
    **{"axes.formatter.useoffset": False, "axes.formatter.limits": (-4, 6)},
    **{"axes.formatter.use_mathtext": False},
}


class Frame(NamedTuple):
    """Height of a picture and the margins of its axes, in pixels."""

    height: float
    left: float = 50
    top: float = 26
    right: float = 12
    bottom: float = 44

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of the axes, as shares of the picture."""
        width = WIDTH - self.left - self.right
        height = self.height - self.top - self.bottom
        return self.left / WIDTH, self.bottom / self.height, width / WIDTH, height / self.height


def new_axes(figure: Figure, frame: Frame) -> Axes:
    """Axes of a figure at their place in the frame."""
    axes = figure.add_axes(frame.box)
    axes.set_axisbelow(True)
    return axes


@contextmanager
def axes_or_new(axes: Axes | None, frame: Frame) -> Iterator[Axes]:
    """The axes given; without any, axes of a new figure that looks as on the page."""
    if axes is not None:
        yield axes
        return
    from matplotlib import pyplot as plt  # which chooses how figures are shown

    # outside the context, which would undo what a notebook's backend sets with its first figure
    figure = plt.figure(figsize=(WIDTH / 72, frame.height / 72))
    with mpl.rc_context(SETTINGS):
        yield new_axes(figure, frame)
        thin(figure)


def stands_alone(axes: Axes) -> bool:
    """Whether labels may be placed by the edges of the figure, which holds no other axes."""
    return axes.get_subplotspec() is None


def plain(text: object) -> str:
    """Text that matplotlib takes as it is, dollar signs too."""
    return str(text).replace("$", r"\$")


def wrapped(text: str, width: int = 20, lines: int = 2) -> str:
    """Text in at most so many lines, the rest an ellipsis; the tables hold it whole."""
    if lines == 1:
        return plain(text if len(text) <= width else text[: width - 1].rstrip() + "…")
    return plain(textwrap.fill(text, width, max_lines=lines, placeholder=" …"))


def few_ticks(axes: Axes, x: int | None = 6, y: int | None = 6) -> None:
    """About so many ticks at round numbers."""
    if x:
        axes.xaxis.set_major_locator(MaxNLocator(x, steps=[1, 2, 2.5, 5, 10]))
    if y:
        axes.yaxis.set_major_locator(MaxNLocator(y, steps=[1, 2, 2.5, 5, 10]))


def percent_axis(axis) -> None:
    """Ticks of shares as percent."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.10g}\u00a0%".replace("-", "\u2212"))


def top_left(axes: Axes, text: str) -> None:
    """What the vertical axis shows, written over it in place of a turned label."""
    place: Any = axes.transAxes
    if alone := stands_alone(axes):
        place = blended_transform_factory(axes.figure.dpi_scale_trans, axes.transAxes)
    axes.annotate(
        wrapped(text, 52, 1),
        xy=(6 / 72 if alone else 0, 1),
        xycoords=place,
        xytext=(0, 8),
        textcoords="offset points",
        ha="left",
        va="bottom",
        color=MUTED,
    )


_DECADES = [
    *(((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), 1), ((1, 1.5, 2, 3, 4, 5, 7), 1)),
    *(((1, 1.5, 2, 3, 5), 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 5)),
]


def log_ticks(axis: Axis) -> None:
    """At most six ticks: as many round numbers a decade as fit, or every few decades one."""
    low, high = axis.get_view_interval()
    exponents = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks: list[float] = []
    for mantissas, stride in _DECADES:
        ticks = [m * 10.0**e for e in exponents if e % stride == 0 for m in mantissas]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= 6:
            break
    axis.set_minor_locator(NullLocator())
    axis.set_ticks(ticks, [number(tick) for tick in ticks])


def thin(figure: Figure) -> None:
    """Leave out every other tick label of an axis until none overlaps its neighbour."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    for axes in [axes for outer in figure.axes for axes in (outer, *outer.child_axes)]:
        for axis, (start, end) in ((axes.xaxis, ("x0", "x1")), (axes.yaxis, ("y0", "y1"))):
            labels = [text for text in axis.get_ticklabels() if text.get_text()]
            step = 1
            while step < len(labels):
                boxes = [text.get_window_extent(renderer) for text in labels[::step]]
                boxes.sort(key=lambda box: getattr(box, start))
                if all(getattr(a, end) + 2 <= getattr(b, start) for a, b in pairwise(boxes)):
                    break
                step += 1
            if step > 1:
                kept = {id(text) for text in labels[::step]}
                ticks = axis.get_majorticklocs()
                shown = [text.get_text() if id(text) in kept else "" for text in labels]
                if len(ticks) == len(labels):
                    axis.set_ticks(ticks, shown)
