"""Panels of 360 pixels: drawn by matplotlib, written as SVG that takes its colours from the page.

The colours of each drawing become CSS variables, so that light, dark and print follow the page. Text stays
text. The same drawing gives the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure

from gpmcflow.analysis.page.html import figure
from gpmcflow.analysis.page.results import Analysis
from gpmcflow.plot import style

_COLOURS = {
    **{
        "ink": style.INK,
        "muted": style.MUTED,
        "line": style.LINE,
        "paper": style.PAPER,
        "accent": style.ACCENT,
    },
    **{f"m{step}": colour for step, colour in enumerate(style.STEPS)},
}


def drawn(
    key: str,
    caption: str,
    frame: style.Frame,
    draw: Callable[..., Any],
    *args: Any,
    **settings: Any,
) -> Markup:
    """SVG for the page of what ``draw(axes, *args, **settings)`` draws.

    ``key`` keeps its ids apart, the caption's first sentence is read out.
    """
    with mpl.rc_context(style.SETTINGS):
        drawing = Figure(figsize=(style.WIDTH / 72, frame.height / 72), dpi=72)
        draw(style.new_axes(drawing, frame), *args, **settings)
        style.thin(drawing)
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        with mpl.rc_context({"svg.hashsalt": key}):
            drawing.savefig(buffer, format="svg", metadata=nothing, transparent=True)
        return Markup(_for_the_page(buffer.getvalue(), caption, frame.height))


def panel(analysis: Analysis, key: str, *args: Any, **settings: Any) -> Markup:
    """`drawn` for the page of an analysis."""
    return drawn(f"{analysis.info['name']}-{key}", *args, **settings)


def one_panel(
    analysis: Analysis, key: str, caption: str, frame: style.Frame, *args: Any, **settings: Any
) -> Markup:
    """A figure of one such panel."""
    return figure([panel(analysis, key, caption, frame, *args, **settings)], caption)


def _for_the_page(svg: str, caption: str, height: float) -> str:
    body = svg[svg.index("<svg") :]
    body = body[body.index(">") + 1 : body.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    body = body.replace("xlink:href", "href").replace('xml:space="preserve"', "")
    used = set(re.findall(r"#([\w-]+)", body))  # names that nothing refers to would collide
    body = re.sub(r' id="([^"]*)"', lambda name: name[0] if name[1] in used else "", body)
    body = re.sub(r"font-family: [^;\"]*", "font-family: var(--font)", body)
    body = re.sub(r"<[^>]*>", lambda tag: _shorter(tag[0]), body)
    for name, colour in _COLOURS.items():
        body = body.replace(colour, f"var(--{name})")
    # the default black of strokes and fills that matplotlib leaves unsaid follows the page too
    body = body.replace("#000000", "var(--ink)")
    body = re.sub(r">\s+<", "><", body)
    first = re.split(r"(?<=[a-z)%])\.(?:\s|$)", caption, maxsplit=1)[0]
    return (
        f'<svg role="img" aria-label="{escape(first)}" viewBox="0 0 {style.WIDTH} {height:g}">'
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
