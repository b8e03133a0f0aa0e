"""Pieces of the page: a section, a table, a figure. Text is escaped unless it is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from gpmcflow.analysis.page import words
from gpmcflow.plot.numbers import label

_LONG_WORD = 22  # letters


class Section(NamedTuple):
    """One section: its anchor, the reader's question, and what answers it."""

    key: str
    heading: str
    body: Markup


class Head(NamedTuple):
    """Heading of a table's column: ``number`` sets it right, ``wide`` hides it on a phone.

    Numbers do not break; ``wrap`` lets them, for cells that are half words.
    """

    text: str
    number: bool = False
    wide: bool = False
    wrap: bool = False

    @property
    def attribute(self) -> Markup:
        """Class attribute of its cells."""
        names = ["num"] * self.number + ["opt"] * self.wide + ["wrap"] * self.wrap
        return Markup(' class="{}"').format(" ".join(names)) if names else Markup("")


def heads(*texts: str) -> list[Head]:
    """Headings, "sd #~": the marks at the end say that it is a number (#), wide (~) or wrapped (&)."""
    found = [re.fullmatch(r"(.*?)(?: ([#~&]+))?", text) for text in texts]
    return [Head(own[1], *(mark in (own[2] or "") for mark in "#~&")) for own in found if own]


def section(key: str, heading: str, *parts: Markup | str) -> Section:
    """A section of these parts."""
    return Section(key, heading, join(*parts))


def join(*parts: Markup | str) -> Markup:
    """Parts one after the other, each on a line of its own; empty ones are left out."""
    return Markup("\n").join(part for part in parts if part)


def sentences(*parts: Markup | str) -> Markup:
    """Sentences with a space between them; empty ones are left out."""
    return Markup(" ").join(part for part in parts if part)


def paragraph(*parts: Markup | str, kind: str = "") -> Markup:
    """A paragraph of sentences; nothing if all are empty."""
    if not (text := sentences(*parts)):
        return Markup("")
    name = Markup(' class="{}"').format(kind) if kind else Markup("")
    return Markup("<p{}>{}</p>").format(name, text)


def quiet(*parts: Markup | str) -> Markup:
    """A paragraph in small grey type."""
    return paragraph(*parts, kind="quiet")


def bold(text: str) -> Markup:
    """Text that stands out."""
    return Markup("<b>{}</b>").format(text)


def italic(text: str) -> Markup:
    """A name within a sentence."""
    return Markup("<i>{}</i>").format(text)


def naming(template: str, items: Sequence[Markup | str], conjunction: str = "and") -> Markup:
    """A template with the series of some items; nothing without any."""
    return Markup(template).format(words.series(items, conjunction)) if items else Markup("")


def names(columns: Iterable[object]) -> list[Markup]:
    """Names of columns or models within a sentence."""
    return [italic(label(str(column))) for column in columns]


def code(text: str) -> Markup:
    """A file, a column or a command as typed."""
    return Markup("<code>{}</code>").format(text)


def link(name: str) -> Markup:
    """Link to a file beside the page."""
    return Markup('<a href="{0}">{0}</a>').format(name)


def table(heads: Sequence[Head], rows: Iterable[Sequence[object]], *, best: int = -1) -> Markup:
    """Table whose first cells are row headings; the row ``best`` is set in the accent."""
    head = Markup("").join(
        Markup("<th{}>{}</th>").format(column.attribute, column.text) for column in heads
    )
    lines = []
    for index, row in enumerate(rows):
        cells = Markup('<th scope="row"{}>{}</th>').format(heads[0].attribute, _breakable(row[0]))
        cells += Markup("").join(
            Markup("<td{}>{}</td>").format(column.attribute, _breakable(cell))
            for column, cell in zip(heads[1:], row[1:], strict=True)
        )
        mark = Markup(' class="best"') if index == best else Markup("")
        lines.append(Markup("<tr{}>{}</tr>").format(mark, cells))
    body = Markup("\n").join(lines)
    return Markup(
        '<div class="tw"><table><thead><tr>{}</tr></thead><tbody>\n{}\n</tbody></table></div>'
    ).format(head, body)


def _breakable(cell: object) -> object:
    """Cell that may be broken within a word where the word alone would fill a phone."""
    if isinstance(cell, str) and any(len(word) > _LONG_WORD for word in str(cell).split()):
        return Markup('<span class="long">{}</span>').format(cell)
    return cell


def figure(panels: Sequence[Markup], caption: Markup | str) -> Markup:
    """Panels side by side where there is room, with their caption."""
    columns = 1 if len(panels) == 1 else 2
    return Markup(
        '<figure class="n{}"><div class="panels">\n{}\n</div><figcaption>{}</figcaption></figure>'
    ).format(columns, Markup("\n").join(panels), caption)


def folded(summary: str, body: Markup) -> Markup:
    """A part that the reader opens."""
    return Markup("<details><summary>{}</summary>{}</details>").format(escape(summary), body)
