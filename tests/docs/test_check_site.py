"""The script that checks the built site finds what is wrong, and only that."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "check_site.py"
START = '<!doctype html><meta name="viewport" content="width=device-width"><body style="margin:0">'


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("check_site", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_that_lead_nowhere_are_reported(script, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.html").write_text(
        '<a href="../two.html#x"><a href="#y"><a href="../no.html">'
    )
    (tmp_path / "two.html").write_text('<p id="x"><a href="a/one.html"><a href="https://x.y/z">')
    assert script.broken_links(tmp_path) == [
        "a/one.html: #y leads nowhere",
        "a/one.html: ../no.html leads nowhere",
    ]


def test_only_the_page_that_scrolls_sideways_is_reported(script, tmp_path, capsys):
    if not any(map(script.shutil.which, script.BROWSERS)):
        pytest.skip("needs Chromium")
    table = '<div style="width:900px" class="table">wide</div>'
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "wide.html").write_text(f"{START}<p>text</p>{table}")
    (tmp_path / "scrolls.html").write_text(f'{START}<div style="overflow-x:auto">{table}</div>')
    (tmp_path / "narrow.html").write_text(f"{START}<p>{'text ' * 400}</p>")
    assert script.main([str(tmp_path), "--widths", "400", "1200"]) == 1
    links, first, last = capsys.readouterr().out.splitlines()
    assert links == "0 links lead nowhere"
    assert first == "deep/wide.html: 900 pixels on a screen of 400: div.table: wide"
    assert last == "3 pages at [400, 1200] pixels, 1 too wide"
