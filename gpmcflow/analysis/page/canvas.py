"""Axes, colours and intervals that all panels share."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from matplotlib.transforms import blended_transform_factory

from gpmcflow.analysis.page.words import number

# Panels of 360 pixels: drawn by matplotlib, written as SVG that takes its colours from the page.
#
# Each panel is drawn with stand-in colours, which become CSS variables, so that light, dark and print
# follow the page. Text stays text. The same drawing gives the same bytes.

WIDTH = 360  # pixels; 5 inches at 72 to the inch
FONT = 10.5
_NAMES = ["ink", "muted", "line", "paper", "accent", *(f"m{step}" for step in range(7))]
_STAND_IN = {name: f"#01f0{index:02x}" for index, name in enumerate(_NAMES)}
INK, MUTED, LINE, PAPER, ACCENT = (_STAND_IN[name] for name in _NAMES[:5])
STEPS = [_STAND_IN[f"m{step}"] for step in range(7)]
_SETTINGS = {
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


class Canvas:
    """One figure, its axes in pixels from the top left; used as ``with Canvas(250) as canvas``."""

    def __init__(self, height: float) -> None:
        self.height = height
        self._context = mpl.rc_context(_SETTINGS)

    def __enter__(self) -> Canvas:
        self._context.__enter__()
        self.figure = Figure(figsize=(WIDTH / 72, self.height / 72), dpi=72)
        return self

    def __exit__(self, *problem: object) -> None:
        self._context.__exit__(*problem)

    def axes(self, left: float, top: float, right: float, bottom: float) -> Axes:
        """Axes with these margins to the edges of the panel, in pixels."""
        box = (left, bottom, WIDTH - left - right, self.height - top - bottom)
        scale = (WIDTH, self.height, WIDTH, self.height)
        axes = self.figure.add_axes(tuple(a / b for a, b in zip(box, scale, strict=True)))
        axes.set_axisbelow(True)
        return axes

    def svg(self, key: str, caption: str) -> Markup:
        """SVG for the page; ``key`` keeps its ids apart, the caption's first sentence is read out."""
        _thin(self.figure)
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        with mpl.rc_context({"svg.hashsalt": key}):
            self.figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
        return Markup(_for_the_page(buffer.getvalue(), caption, self.height))


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
    pixels = blended_transform_factory(axes.figure.dpi_scale_trans, axes.transAxes)
    axes.annotate(
        wrapped(text, 52, 1),
        xy=(6 / 72, 1),
        xycoords=pixels,
        xytext=(0, 8),
        textcoords="offset points",
        ha="left",
        va="bottom",
        color=MUTED,
    )


def _thin(figure: Figure) -> None:
    """Leave out every other tick label of an axis until none overlaps its neighbour."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    for axes in figure.axes:
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


def _for_the_page(svg: str, caption: str, height: float) -> str:
    body = svg[svg.index("<svg") :]
    body = body[body.index(">") + 1 : body.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    body = body.replace("xlink:href", "href").replace('xml:space="preserve"', "")
    used = set(re.findall(r"#([\w-]+)", body))  # names that nothing refers to would collide
    body = re.sub(r' id="([^"]*)"', lambda name: name[0] if name[1] in used else "", body)
    body = re.sub(r"font-family: [^;\"]*", "font-family: var(--font)", body)
    body = re.sub(r"<[^>]*>", lambda tag: _shorter(tag[0]), body)
    for name, colour in _STAND_IN.items():
        body = body.replace(colour, f"var(--{name})")
    # the default black of strokes and fills that matplotlib leaves unsaid follows the page too
    body = body.replace("#000000", "var(--ink)")
    body = re.sub(r">\s+<", "><", body)
    first = re.split(r"(?<=[a-z)%])\.(?:\s|$)", caption, maxsplit=1)[0]
    return (
        f'<svg role="img" aria-label="{escape(first)}" viewBox="0 0 {WIDTH} {height:g}">'
        f"{body.strip()}</svg>"
    )


def _shorter(tag: str) -> str:
    """A tag on one line, its numbers with two decimals."""
    tag = re.sub(
        r"-?\d+\.\d{3,}(?:e-?\d+)?",
        lambda text: f"{float(text[0]):.2f}".rstrip("0").rstrip("."),
        tag,
    )
    return " ".join(tag.split())


# Rows of dots with bars: differences of scores, changes by column, prior against posterior.

_DECADES = [
    *(((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), 1), ((1, 1.5, 2, 3, 4, 5, 7), 1)),
    *(((1, 1.5, 2, 3, 5), 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 5)),
]


class Bar(NamedTuple):
    """One row of an interval picture."""

    label: str
    value: float
    low: float
    high: float
    accent: bool = True


def interval_rows(
    key: str,
    bars: Sequence[Bar],
    xlabel: str,
    caption: str,
    *,
    at: float | None = 0.0,
    logarithmic: bool = False,
    prior: Sequence[tuple[float, float]] | None = None,
) -> Markup:
    """Dots with bars, one row each, first on top; dashes at ``at``, a broad line for each prior."""
    labels = [wrapped(bar.label) for bar in bars]
    longest = max(len(line) for text in labels for line in text.split("\n"))
    left = min(16 + 6.6 * longest, 158)
    pitch = 30 if any("\n" in text for text in labels) else 25
    with Canvas(pitch * len(bars) + 60) as canvas:
        axes = canvas.axes(left, 10, 14, 44)
        if logarithmic:
            axes.set_xscale("log")
        for row, bar in enumerate(bars):
            axes.axhline(row, color=LINE, linewidth=0.8, zorder=0)
            colour, shape = (ACCENT, "o") if bar.accent else (INK, "s")
            if prior is not None:
                axes.plot(prior[row], [row, row], color=MUTED, alpha=0.35, linewidth=7)
            axes.plot([bar.low, bar.high], [row, row], color=colour, linewidth=1.8)
            axes.plot(bar.value, row, shape, color=colour, markersize=5.5 if bar.accent else 4.5)
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.set_yticks(range(len(bars)), labels, ma="right")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        if logarithmic:
            log_ticks(axes.xaxis)
        else:
            axes.margins(x=0.06)
            few_ticks(axes, x=6, y=None)
        if at is not None:
            axes.axvline(at, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.set_xlabel(plain(xlabel))
        _centre_label(axes, xlabel)
        return canvas.svg(key, caption)


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


def _centre_label(axes: Axes, text: str) -> None:
    """Axis label kept inside the panel where it is wider than the axes."""
    box = axes.get_position()
    half = 3.1 * len(text) / 360
    centre = min(max((box.x0 + box.x1) / 2, half + 0.02), max(1 - half - 0.02, 0.5))
    axes.xaxis.set_label_coords(
        (centre - box.x0) / (box.x1 - box.x0), -20 / (box.height * axes.figure.bbox.height)
    )
