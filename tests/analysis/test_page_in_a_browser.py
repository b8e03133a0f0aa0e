"""Three pages in a headless browser, where one is installed: nothing is cut off, on phone and desk."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

from gpmcflow.analysis.page import build_page

from .made_up_evidence import PLAIN, RELEVANCE, SMOOTH, ladder_of, rough

_BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
pytestmark = pytest.mark.skipif(_BROWSER is None, reason="no headless browser (chromium, chrome)")
_FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-quic", "--no-first-run", "--hide-scrollbars", "--virtual-time-budget=2000"),
]
# a frame of the wanted width: some browsers refuse windows as narrow as a phone
_MEASURE = """
<script>
window.addEventListener("load", () => {
  const frame = document.querySelector("iframe"), page = frame.contentDocument;
  page.querySelectorAll("details").forEach(part => part.open = true);
  const width = page.documentElement.clientWidth, problems = [];
  if (page.documentElement.scrollWidth > width)
    problems.push("the page is " + page.documentElement.scrollWidth + " wide");
  page.querySelectorAll("p, h1, h2, pre, table, figcaption, summary, dd, svg").forEach(part => {
    const box = part.getBoundingClientRect();
    if (box.width && (box.right > width + 0.5 || box.left < -0.5))
      problems.push(part.tagName + " is cut off: " + part.textContent.trim().slice(0, 60));
  });
  let texts = 0;
  page.querySelectorAll("svg").forEach(svg => {
    const outer = svg.getBoundingClientRect();
    svg.querySelectorAll("text").forEach(text => {
      const box = text.getBoundingClientRect();
      texts += 1;
      if (box.left < outer.left - 1 || box.right > outer.right + 1 ||
          box.top < outer.top - 1 || box.bottom > outer.bottom + 1)
        problems.push("text outside of its picture: " + text.textContent);
    });
  });
  document.body.setAttribute("data-measured", JSON.stringify({width, texts, problems}));
});
</script>
"""


def _measure(page: str, width: int, folder) -> dict:
    quoted = page.replace("&", "&amp;").replace('"', "&quot;")
    style = f"width:{width}px;height:2000px;border:0"
    copy = folder / "measured.html"
    copy.write_text(
        f'<!doctype html><body style="margin:0"><iframe style="{style}" srcdoc="{quoted}"></iframe>'
        f"{_MEASURE}</body>",
        encoding="utf-8",
    )
    run = subprocess.run(
        [
            *(
                _BROWSER,
                *_FLAGS,
                f"--user-data-dir={folder / 'profile'}",
                "--window-size=1300,2100",
            ),
            *("--dump-dom", copy.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    answer = re.search(r'data-measured="([^"]*)"', run.stdout)
    assert answer, run.stderr[-500:]
    return json.loads(unescape(answer[1]))


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("name", ["patients", "birds", "machine"])
def test_nothing_is_cut_off(finished, tmp_path, name, width):
    folder, info = finished(name)
    measured = _measure(build_page(folder, info), width, tmp_path)
    assert measured["width"] == width
    assert measured["texts"] > 50
    assert measured["problems"] == []


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_of_the_evidence_is_cut_off(compared, tmp_path, width):
    for reference in (-301.0, -5400.0):
        page = compared(SMOOTH, PLAIN, rough(RELEVANCE), ladder=ladder_of(reference=reference))
        assert _measure(page, width, tmp_path)["problems"] == []


def test_the_measure_sees_what_is_cut_off(finished, tmp_path):
    folder, info = finished("machine")
    page = build_page(folder, info)
    wide = page.replace("<h1>", '<h1 style="width:500px">', 1)
    assert _measure(wide, 400, tmp_path)["problems"]
    moved = page.replace('<text style="', '<text style="text-anchor: end; ', 1)
    moved = re.sub(r'(<text [^>]*?)x="[\d.]+"', r'\1x="-40"', moved, count=1)
    moved = re.sub(r'(<text [^>]*?)transform="[^"]*"', r"\1", moved, count=1)
    assert _measure(moved, 400, tmp_path)["problems"]


def test_long_names_are_not_cut_off(finished, tmp_path):
    folder, info = finished("patients")
    long = "serum_creatinine_at_admission_in_micromoles_per_litre_first_of_two_measurements"
    for table in ("relevance", "effects", "rug", "columns"):
        path = folder / f"{table}.csv"
        text = (
            path.read_text()
            .replace("creatinine", long)
            .replace("medicine", "internal medicine and")
        )
        path.write_text(text.replace("surgery", "orthopaedicandtraumasurgery"))
    path = folder / "models.csv"
    path.write_text(path.read_text().replace("smooth,", "a_model_with_a_rather_long_name,"))
    info["target"] = {
        **info["target"],
        "name": f"back_{long}",
        "positive": "came back within 30 days",
    }
    for width in (400, 1200):
        assert _measure(build_page(folder, info), width, tmp_path)["problems"] == []
