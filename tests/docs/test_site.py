"""What the documentation says against the package and the files it is made from."""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

import gpmcflow
from tests.each import for_each

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
API = DOCS / "api"
PAGES = {"SAMPLERS": API / "samplers.md", "__version__": API / "version.md"}


@pytest.fixture(scope="module", autouse=True)
def extensions():
    """The small modules that make pages of other files."""
    sys.path.insert(0, str(DOCS / "_ext"))
    yield
    sys.path.remove(str(DOCS / "_ext"))


def test_every_public_name_has_one_api_page():
    index = (API / "index.md").read_text(encoding="utf-8")
    blocks = re.findall(r"   :toctree: generated\n\n((?:   \w+\n)+)", index)
    listed = [name for block in blocks for name in block.split()]
    linked = [name for name, page in PAGES.items() if f"{name} <{page.stem}>" in index]
    assert sorted(listed + linked) == sorted(gpmcflow.__all__)


@for_each("name", sorted(gpmcflow.__all__))
def test_every_public_name_has_an_example(name):
    """Those of docstrings are run by tests/test_docstrings.py, those of pages here."""
    if name not in PAGES:
        assert doctest.DocTestParser().get_examples(getattr(gpmcflow, name).__doc__)
        return
    text = PAGES[name].read_text(encoding="utf-8").replace("```", "")
    test = doctest.DocTestParser().get_doctest(text, {}, name, str(PAGES[name]), 0)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def test_config_reference_has_the_keys_and_defaults_of_the_readme():
    from config_reference import anchor, config_reference

    text = config_reference()
    sections = dict(re.findall(r"\((config-[^)]*)\)=\n(.*?)(?=\n\(config-|\Z)", text, re.DOTALL))
    readme = (ROOT / "config" / "README.md").read_text(encoding="utf-8").partition("## All keys")[2]
    rows = re.findall(r"^\| `([^`]+)` \| .*? \| (.*?) \| ", readme, flags=re.MULTILINE)
    assert len(rows) > 200
    for path, default in rows:
        parent, _, key = re.sub("<[a-z]+>", "<name>", path).rpartition(".")
        (row,) = re.findall(
            rf"^\| \[?`{re.escape(key)}`.*$", sections[anchor(parent)], re.MULTILINE
        )
        assert default in row, path


def test_tables_are_those_of_the_committed_files():
    import committed_tables

    ranks = committed_tables.calibration(ROOT)
    assert (ranks["data sets"] == 200).all()
    told = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| dense, counts \| 200 \| (.*) \|$", told, re.MULTILINE)
    assert re.findall(r"\d\.\d\d", row) == ranks.loc["dense", "p-value"].tolist()
    certificates = committed_tables.certificates(ROOT)
    assert len(certificates) == 6
    assert (certificates["data sets"] >= 100).all()
    wrong = committed_tables.certificates_mutants(ROOT).groupby("sampler").last()
    assert len(wrong) == 3
    assert (wrong["failed"] == wrong["certificates"]).all()
    answers = committed_tables.first_answer(ROOT)
    for name in ("patients", "birds", "machine"):
        score, apart = answers.loc[f"{name} --quick", ["log score", "less mgcv's"]]
        gap = float(score) - float(answers.loc[f"mgcv: {name}", "log score"])
        assert float(apart.split()[0]) == pytest.approx(gap, abs=2e-3)
    effects = committed_tables.mgcv_effects(ROOT)
    for problem, rows in effects.groupby(level=0):
        peer = float(rows.loc[rows["fit"] == "mgcv", "log score"].item())
        for _, row in rows[rows["fit"] != "mgcv"].iterrows():
            gap = float(row["log score"]) - peer
            assert float(row["less mgcv's"].split()[0]) == pytest.approx(gap, abs=3e-4), problem
    for problem, covered in committed_tables.coverage(ROOT)["covered"].items():
        name = {"gaussian-3": "Gaussian, d = 3"}.get(problem, problem)
        assert f"| {name} | 200 | {covered} |" in told
    for study, counts in committed_tables.verdicts(ROOT).iterrows():
        rows = pd.read_csv(DOCS / "results" / study / "verdict.csv")
        assert counts.drop("paper").sum() == len(rows)
        shown = committed_tables.disagreements(ROOT, study)
        assert len(shown) == counts[["differs", "does not hold"]].sum()


def test_citation_has_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == gpmcflow.__version__


def test_pages_name_no_module_of_the_package():
    """Modules move; public names stay."""
    inner = re.compile(r"\bgpmcflow\.(?!__version__)[a-z_]+\.[a-z_]")
    for page in DOCS.glob("*/*.md"):
        if page.parent.name != "generated":
            text = page.read_text(encoding="utf-8").replace("api/generated/gpmcflow.", "")
            assert not inner.search(text), page
