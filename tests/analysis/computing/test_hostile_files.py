"""Reports of files whose headers, cells and names are markup: it is shown as text and is never markup."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser
from itertools import product

import pytest

from gpmcflow.analysis.page import answers, canvas, html
from gpmcflow.plot.style import Frame, plain, top_left
from gpmcflow.run_page.page import Answer, build_report
from tests.each import for_each

EVIL = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "]]><svg onload=alert(1)>",
    "</style></svg></title><iframe src=javascript:alert(1)>",
    "javascript:alert(1)",
    "<!-- &lt;b&gt; {{ 7 * 7 }} {% raw %}",
    "$\\frac{1}$ <b>",
)  # fmt: skip
SILENT = {
    "script",
    "img",
    "iframe",
    "object",
    "embed",
    "link",
    "base",
    "form",
    "input",
    "foreignobject",
}


class Page(HTMLParser):
    """Tags with their attributes, and the words a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.text, self.comments = set(), [], "", 0
        self.feed(str(text))  # a Markup would escape what it is joined with
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        self.comments += 1


def require_harmless(page: Page, plain: Page) -> None:
    """No element or attribute that the same page of plain names does not have, no link elsewhere."""
    assert page.tags <= plain.tags
    assert not page.tags & SILENT
    assert {name for name, _ in page.attributes} <= {name for name, _ in plain.attributes}
    for name, value in page.attributes:
        assert not name.startswith("on"), (name, value)
        if name in ("href", "src", "xlink:href"):
            assert (value or "").startswith("#") or (value or "").endswith((".csv", ".html"))
            assert ":" not in (value or "")
    assert page.comments == plain.comments
    assert "49" not in [word.strip("{} ") for word in page.text.split("7 * 7")]


def made(folder, analysis, table, kind, names, config):
    """A quick analysis of a file whose columns, categories and ids are so named; and new rows of it."""
    folder.mkdir()
    frame = table(kind, 40).rename(columns=lambda name: names.get(name, name))
    frame = frame.map(lambda cell: names.get(cell, cell) if isinstance(cell, str) else cell)
    frame.to_csv(folder / config["data"]["csv"], index=False)
    frame.head(5).to_csv(folder / config["data"]["new"], index=False)
    return analysis(folder, config)


def config_of(kind, names, file):
    def name(word):
        return names.get(word, word)

    data = {
        "binary": {"target": name("ill"), "positive": name("yes"), "categorical": [name("ward")]},
        "counts": {"target": name("count"), "exposure": name("hours")},
        "real": {"target": name("yield")},
    }[kind]
    if kind == "counts":
        data["coordinates"] = [name("east"), name("north")]
    return {
        "title": name("a title"),
        "quick": True,
        "units": {name("age"): name("years"), name("hours"): name("hour"), name("dose"): name("mg")},
        "data": {"csv": f"{file}.csv", "new": f"{file} new.csv", "test_fraction": 0.3, **data},
        "models": {"a": {"covariance": "squared_exponential(ard=True)"}, "b": {"covariance": "linear()"}},
    }  # fmt: skip


WORDS = (
    *(
        "id",
        "age",
        "ward",
        "smoker",
        "day",
        "ill",
        "count",
        "hours",
        "east",
        "north",
        "dose",
        "yield",
    ),
    *("yes", "no", "south", "west", "P000", "P001", "a title", "years", "hour", "mg"),
)


@pytest.mark.parametrize("kind", ["binary", "counts", "real"])
def test_a_report_shows_markup_as_text(tmp_path, analysis, table, kind):
    evil = {word: f"{word} {EVIL[k % len(EVIL)]}" for k, word in enumerate(WORDS)}
    file = EVIL[0].replace("/", "") + EVIL[1]
    hostile = made(tmp_path / "a", analysis, table, kind, evil, config_of(kind, evil, file))
    harmless = made(tmp_path / "b", analysis, table, kind, {}, config_of(kind, {}, "file"))
    page = Page((hostile.folder / "report.html").read_text(encoding="utf-8"))
    plain = Page((harmless.folder / "report.html").read_text(encoding="utf-8"))
    require_harmless(page, plain)
    target = {"binary": "ill", "counts": "count", "real": "yield"}[kind]
    for shown in (evil["a title"], file, evil[target].replace("_", " ")):
        assert " ".join(shown.split()) in " ".join(page.text.split())
    first = {}
    for name, one in (("a", hostile), ("b", harmless)):
        config = {"analyses": {"mine": one.settings}}
        found = [Answer(*answer) for answer in answers(config, tmp_path / name)]
        first[name] = Page(build_report({}, title=evil["a title"], config=config, answers=found))
    require_harmless(first["a"], first["b"])
    assert evil["a title"] in first["a"].text


@pytest.mark.parametrize("evil", EVIL)
def test_tables_and_figures_of_studies_show_markup_as_text(tmp_path, evil):
    def report(word):
        folder = tmp_path / "results" / "study"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        cell = '"' + word.replace('"', '""') + '"'
        path = folder / "table.csv"
        path.write_text(f"problem,method,{cell},value\n{cell},{cell},{cell},1\nb,c,d,2\n")
        study = {"title": word, "frames": {word: str(path)}, "figures": [], "files": [word]}
        config = {"seed": 1, "problems": {word: {"dataset": word}}}
        return Page(build_report({word: study}, title=word, config=config))

    page = report(evil)
    require_harmless(page, report("plain"))
    assert page.text.count(evil) >= 5


def drawn(text):
    """A picture with the text in its axis, its title, its ticks and its caption."""

    def draw(axes):
        axes.bar([plain(text), "b"], [1.0, 2.0])
        axes.set_title(plain(text))
        top_left(axes, text)

    return canvas.drawn("key", text, Frame(120, 40, 20, 10, 20), draw)


PIECES = {
    **{make.__name__: make for make in (html.italic, html.bold, html.code, html.quiet)},
    "paragraph": html.paragraph,
    "table": lambda text: html.table([html.Head(text), html.Head(text)], [[text, text]]),
    "figure": lambda text: html.figure([], text),
    "folded": lambda text: html.folded(text, html.quiet(text)),
    "join": lambda text: html.join(html.quiet("a"), text),
    "sentences": lambda text: html.sentences(html.quiet("a"), text),
    "picture": drawn,
}


@for_each("piece, evil", product(PIECES, EVIL))
def test_each_piece_of_a_page_shows_markup_as_text(piece, evil):
    page = Page(PIECES[piece](evil))
    require_harmless(page, Page(PIECES[piece]("plain" + "n" * (len(evil) - 5))))
    assert evil[:12] in page.text or piece == "picture"
