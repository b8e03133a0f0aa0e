"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network."""

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

WIDE = 45  # letters of TeX, above which a formula may not fit a narrow screen, and scrolls
FUNCTION = re.compile(r"(<mo>&ApplyFunction;</mo>\s*)(?=<(?!mo\b))")


def mathml(node: nodes.Element, *, as_block: bool) -> str:
    """The formula, with the thin space between a function and its argument that browsers leave out."""
    text = tex2mathml(node.astext(), as_block=as_block)
    return FUNCTION.sub(r'\1<mspace width="0.17em"></mspace>', text)


def inline(writer: nodes.NodeVisitor, node: nodes.math) -> None:
    """A formula within a line."""
    formula = mathml(node, as_block=False)
    wide = len(node.astext()) > WIDE
    writer.body.append(f'<span class="wide-math">{formula}</span>' if wide else formula)
    raise nodes.SkipNode


def block(writer: nodes.NodeVisitor, node: nodes.math_block) -> None:
    """A formula on lines of its own, which scrolls where the screen is too narrow."""
    writer.body.append(f'<div class="math">{mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    """Offer the renderer to `html_math_renderer`."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
