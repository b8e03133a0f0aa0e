"""Docstrings of this package as reStructuredText: formulas in plain text stay as they are typed."""

import re

from sphinx.application import Sphinx

LITERAL = re.compile(r"(``.+?``|`[^`]+`)")
LISTS = {"Attributes": "Parameters", "Parameters": "Parameters", "Raises": "Raises"}


def escaped(line: str) -> str:
    """The line with |x|, a*b and names such as s_ kept, outside of code."""
    parts = LITERAL.split(line)
    parts[::2] = (re.sub(r"([*|\\]|_(?!\w))", r"\\\1", part) for part in parts[::2])
    return "".join(parts)


def prepare(app: Sphinx, what: str, name: str, thing: object, options: dict, lines: list) -> None:
    """Name all lists of settings "Parameters", make indented paragraphs, which are formulas, literal
    blocks, and escape the rest, but for examples."""
    text, section, formula = [], "", False
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if after and not after.strip("-"):
            section = line
            line = LISTS.get(line, line)
            after = "-" * len(line)
        indented = line.startswith("    ")
        if section == "Examples" or not line.strip("-"):
            text.append(line if section == "Examples" else "-" * len(text[-1]) if line else line)
            continue
        if indented and not section and not (formula or text[-1]):
            text += ["::", ""]
        formula = indented and not section
        if formula:
            text.append(line)
        elif section in LISTS and not indented:
            text.append(line.removesuffix(":"))
        else:
            text.append(escaped(line))
    lines[:] = text


def setup(app: Sphinx) -> dict:
    """Go before napoleon, which reads the sections."""
    app.connect("autodoc-process-docstring", prepare, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
