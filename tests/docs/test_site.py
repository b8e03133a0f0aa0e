"""What the documentation says against the package and the files it is made from."""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gpmcflow
from gpmcflow.data.outcome_kinds import KINDS
from tests.each import for_each
from tests.likelihoods.families import FAMILIES

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
    index = "".join(page.read_text(encoding="utf-8") for page in API.glob("*.md"))
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
    assert len(certificates) >= 6
    assert (certificates["data sets"] >= 100).all()
    families = committed_tables.families_evidence(ROOT)
    assert set(FAMILIES) == set(families.index)
    assert families["EP is off by"].astype(float).abs().max() < 0.005
    wrong = committed_tables.certificates_mutants(ROOT).groupby("sampler").last()
    assert len(wrong) == 3
    assert (wrong["failed"] == wrong["certificates"]).all()
    answers = committed_tables.first_answer(ROOT)
    for name in ("patients", "birds", "machine"):
        ours = float(answers.loc[f"{name} --quick", "log score"])
        for peer in ("mgcv", "GPBoost"):
            score, apart = answers.loc[f"{peer}: {name}", ["log score", "ours is better by"]]
            gap = ours - float(score)
            assert float(apart.split()[0]) == pytest.approx(gap, abs=2e-3)
    broken = committed_tables.mutants(ROOT)
    by_room = committed_tables.mutants_by_room(ROOT)
    assert by_room.sum().tolist() == broken[["broken methods", "caught"]].sum().tolist()
    found = committed_tables.summary(ROOT)["what was found"]
    assert (
        f"{len(pd.read_json(ROOT / 'benchmarks' / 'faults.jsonl', lines=True))} faults"
        in found.iloc[4]
    )
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


def test_pages_name_no_module_of_the_package():
    """Modules move; public names stay."""
    inner = re.compile(r"\bgpmcflow\.(?!__version__)[a-z_]+\.[a-z_]")
    for page in DOCS.glob("*/*.md"):
        if page.parent.name != "generated":
            text = page.read_text(encoding="utf-8").replace("api/generated/gpmcflow.", "")
            assert not inner.search(text), page


@pytest.mark.parametrize(
    ("typed", "typeset"),
    [
        ("k = s^2 exp(-r^2 / 2)", r"k = s^{2}\, \exp (-r^{2} / 2)"),
        ("l = -step / log rho", r"l = -\mathrm{step} / \log  \rho "),
        (
            "r^2 = sum_c (x_c - x'_c)^2 / l_c^2",
            r"r^{2} = \sum _{c} (x_{c} - x'_{c})^{2} / l_{c}^{2}",
        ),
        ("e = 1e-8 tr(K_mm) / m", r"e = 10^{-8}\, \mathrm{tr} (K_{mm}) / m"),
        ("kappa_(c-1) < eta", r"\kappa _{c-1} < \eta "),
        ("p = F(eta-hat) - p0(y)", r"p = F(\hat{\eta}) - p_{0}(y)"),
        ("y* = a sqrt(nu)", r"y^{*} = a\, \sqrt{\nu }"),
        ("f_* = K_*n f", r"f_{{*}} = K_{{*}n}\, f"),
    ],
)
def test_formulas_of_docstrings_are_typeset(typed, typeset):
    from docutils.utils.math.latex2mathml import tex2mathml
    from formulas import formulas, tex

    assert tex(typed) == typeset
    assert "<mo>=" in tex2mathml(typeset) or "&lt;" in tex2mathml(typeset)
    text = f"With {typed}, a number of the model."
    assert [text[slice(*span)] for span in formulas(text)] == [typed]


@pytest.mark.parametrize(
    "text",
    [
        "With mix = the share of both",
        "a word (or two = three",  # a bracket that does not close
        "log R = (1/2) sum_{l=3}^{order} k_l",  # goes on with what is not known
        "an iteration costs 20 moves",
        "where R~ = U_d",
    ],
)
def test_what_may_be_no_formula_stays_as_it_is_typed(text):
    from formulas import formulas

    assert formulas(text) == []


def test_docstrings_become_pages_with_formulas_and_code_as_it_was():
    from docstrings import prepare

    lines = [
        "Sum of x_i, where a = b_c and",
        "`a = 1` is code.",
        "",
        "    u = v^2",
        "",
        "Raises",
        "------",
    ]
    prepare(None, "", "", None, {}, lines)
    assert lines == [
        r"Sum of x_i, where :math:`a = b_{c}` and `a = 1` is code.", "",
        ".. math::", "", "    u = v^{2}", "", "", "Raises", "------",
    ]  # fmt: skip


def test_relative_links_of_pages_outside_the_site_lead_to_files():
    """Those of the site are checked when it is built."""
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / folder / "README.md" for folder in ("config", "examples", "benchmarks")),
    ]
    links = 0
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"
                links += 1
    assert links > 20


def test_the_faq_tells_the_defaults_that_models_have():
    """Priors of length scales, and the likelihood of a yes or no, by both ways to a model."""
    text = " ".join((DOCS / "faq.md").read_text(encoding="utf-8").split())
    ages, y = np.linspace(20.0, 80.0, 12), np.tile([-1.0, 1.0], 6)
    plain = gpmcflow.GPModel(ages, y, gpmcflow.Matern52(), gpmcflow.Gaussian())
    framed = gpmcflow.GPModel.from_frame({"age": ages, "ill": y > 0}, "ill", "matern52(age)")
    low, middle, high = np.exp(plain.parameters.free_priors[0].quantile([0.025, 0.5, 0.975]))
    assert f"from {low:.2f} to {high:.1f} in the unit of the column" in text
    own = np.exp(framed.parameters.free_priors[0].quantile(0.5))
    assert own == pytest.approx(middle * ages.std())
    assert "`gp.GPModel.from_frame`: their default priors take the standard deviation" in text
    by_file, by_frame = KINDS["binary"].likelihoods[0], framed.likelihood.name
    assert f"{by_file.capitalize()} in `gpmcflow new`" in text
    assert f"{by_frame} in `gp.GPModel.from_frame`" in text
