"""The report of one analysis of own data: one self-contained HTML page, made from its files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from gpmcflow.analysis.page import words
from gpmcflow.analysis.page.answer import answer, title_of
from gpmcflow.analysis.page.areas import area_section
from gpmcflow.analysis.page.coefficients import coefficient_tables
from gpmcflow.analysis.page.comparison import which_model
from gpmcflow.analysis.page.html import Section
from gpmcflow.analysis.page.interactions import interactions
from gpmcflow.analysis.page.pictures import picture
from gpmcflow.analysis.page.relevance import columns_that_matter, reach
from gpmcflow.analysis.page.reliability import reliability
from gpmcflow.analysis.page.results import Analysis, label, read_analysis
from gpmcflow.analysis.page.scores import scores
from gpmcflow.analysis.page.tables import again, predictions, your_data
from gpmcflow.analysis.page.technical import learned, technical
from gpmcflow.analysis.page.trust import trust
from gpmcflow.errors import GpmcflowError, refuse_unfit, visible
from gpmcflow.storage.input_files import load_json

_ORDER = (
    *(answer, picture, area_section, scores, reliability, columns_that_matter, interactions, reach),
    *(coefficient_tables, which_model, predictions, trust, your_data, learned, again, technical),
)

_ADVICE = "delete the folder and run again"


def build_page(folder: Path, info: Mapping[str, Any]) -> str:
    """HTML of the report from the tables in ``folder`` and ``info``.

    Style and pictures are inside, nothing is loaded from elsewhere, no script runs. The same files
    give the same text. With ``info["share"]`` no ids and no single rows are on it.

    Raises `StorageError` for a missing or unreadable table, `InputError` for one that lacks a
    column or whose numbers do not add up.
    """
    with refuse_unfit(f"{folder}: a table", _ADVICE):
        analysis = read_analysis(Path(folder), info)
        return rendered(
            title_of(analysis),
            _file_line(analysis),
            [section for make in _order(analysis) if (section := make(analysis)) is not None],
            info["version"],
        )


def _order(analysis: Analysis) -> Sequence[Callable[[Analysis], Section | None]]:
    """The sections; those of commands only where there is a config."""
    return [make for make in _ORDER if analysis.info["yaml"] or make not in (predictions, again)]


def rendered(title: str, file_line: str, sections: Sequence[Section], version: str) -> str:
    """HTML of a page of sections, under the line that says what it is about."""
    template = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(_resource("template.html"))
    page = template.render(
        title=title,
        file_line=file_line,
        style=Markup(page_style()),
        sections=sections,
        version=version,
    )
    return _unbroken(page)


def answer_of(folder: Path, info: Mapping[str, Any]) -> tuple[str, str]:
    """Title of an analysis, and HTML of its answer and its picture, for a page of several.

    The pictures take their colours from the variables that `page_style` defines.
    """
    with refuse_unfit(f"{folder}: a table", _ADVICE):
        analysis = read_analysis(Path(folder), info)
        parts: list[Section | None] = [answer(analysis), picture(analysis)]
        title = title_of(analysis)
    return title, _unbroken("\n".join(str(part.body) for part in parts if part))


def answers(config: Mapping[str, Any], folder: str | Path) -> Iterator[tuple[str, str, str]]:
    """(title, link, HTML) of each analysis: its answer and its picture, and its own report.

    The analyses of the config come first, then those that other configs left in the same folder.
    """
    results, own = Path(folder, "results"), list(config["analyses"])
    left = [report.parent for report in sorted(results.glob("*/report.html"))]
    others = [f.name for f in left if f.name not in own and (f / "info.json").is_file()]
    for name in [*own, *others]:
        try:
            title, html = answer_of(results / name, load_json(results / name / "info.json"))
        except GpmcflowError:
            if name in own:
                raise
            title, html = name, ""  # of another version, or half removed: its own report stands
        yield title, f"{name}/report.html", html


def page_style() -> str:
    """CSS of the page: colours in light, dark and print, type, tables, figures."""
    return _resource("style.css")


def _file_line(analysis: Analysis) -> str:
    info, target = analysis.info, analysis.info["target"]
    name = analysis.with_unit(target["name"])
    outcome = {
        "binary": f"{analysis.target}, {target['positive']} or {target['negative']}",
        "grades": f"{analysis.target}, grades {words.series(target.get('levels') or ('',))}",
        "classes": f"{analysis.target}, one of {words.series(target.get('levels') or ('',))}",
        "positive": name,
        "survival": f"{name}, ended where {target['unit']} is {target['positive']}",
        "real": name,
    }.get(analysis.kind, analysis.target)
    if analysis.by_interval:
        outcome = f"a time between {name} and {label(target['unit'])}"
    if target.get("unit") and analysis.kind != "survival":
        unit = label(target["unit"])
        role = "offset" if target.get("log_unit") else "exposure"
        outcome += f" out of {unit}" if analysis.kind == "binomial" else f", with {unit} as {role}"
    if info.get("weights"):
        outcome += f", with {label(info['weights'])} as weights"
    parts = [info["csv"], words.rows(info["n_rows"]), f"outcome: {outcome}"]
    if info.get("quick"):
        parts.append("quick: approximations only")
    return " · ".join(parts)


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _unbroken(page: str) -> str:
    """No line break between a number and its percent sign or its error, no character that turns text."""
    page = visible(page)
    page = re.sub(r"(\d) %", f"\\1{words.SPACE}%", page)
    return re.sub(r" ± (?=\d)", f"{words.SPACE}±{words.SPACE}", page)
