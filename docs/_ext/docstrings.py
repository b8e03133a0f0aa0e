"""Docstrings of this package as reStructuredText: formulas are typeset, all else stays as it is typed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from formulas import formulas, tex

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LITERAL = re.compile(r"(``.+?``|`[^`]+`)")
LISTS = {"Attributes": "Parameters", "Parameters": "Parameters", "Raises": "Raises"}


def escaped(line: str) -> str:
    """The line with |x|, a*b and names such as s_ kept, outside of code."""
    parts = LITERAL.split(line)
    parts[::2] = (re.sub(r"([*|\\]|_(?!\w))", r"\\\1", part) for part in parts[::2])
    return "".join(parts)


def typeset(paragraph: str) -> str:
    """The paragraph with its formulas as TeX, and the rest escaped."""
    out, at = [], 0
    spans = [match.span() for match in LITERAL.finditer(paragraph)]
    for begin, end in formulas(paragraph):
        if not any(first < end and begin < last for first, last in spans):
            out += [escaped(paragraph[at:begin]), f":math:`{tex(paragraph[begin:end]).strip()}`"]
            at = end
    return "".join([*out, escaped(paragraph[at:])])


def displayed(lines: list[str]) -> list[str]:
    """Indented lines: formulas on lines of their own, or as they are typed."""
    own = [line.strip().rstrip(".,;") for line in lines]
    if all(formulas(line) == [(0, len(line))] for line in own):
        return [text for line in own for text in (".. math::", "", f"    {tex(line).strip()}", "")]
    return ["::", "", *lines]


def prepare(app: Sphinx, what: str, name: str, thing: object, options: dict, lines: list) -> None:
    """Name all lists of settings "Parameters", typeset what comes before the first section, and escape the
    rest, but for examples."""
    text: list[str] = []
    heads = [k for k, line in enumerate(lines) if k and line and not line.strip("-")]
    first = heads[0] - 1 if heads else len(lines)
    for block in "\n".join(lines[:first]).split("\n\n"):
        own = block.strip("\n").split("\n")
        if all(line.startswith("    ") for line in own):
            text += displayed(own)
        elif any(line.startswith(("- ", "  ")) for line in own):
            text += map(escaped, own)
        else:
            text.append(typeset(" ".join(own)))
        text.append("")
    section = ""
    for k, line in enumerate(lines[first:], first):
        if k + 1 in heads:
            section = line
            line = LISTS.get(line, line)
        elif k in heads:
            line = "-" * len(text[-1])
        elif section != "Examples":
            inside = section in LISTS and not line.startswith("    ")
            line = line.removesuffix(":") if inside else escaped(line)
        text.append(line)
    lines[:] = text


def setup(app: Sphinx) -> dict:
    """Go before napoleon, which reads the sections."""
    app.connect("autodoc-process-docstring", prepare, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
