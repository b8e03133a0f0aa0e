"""Python of the README and of the page on models, as printed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import gpmcflow as gp

ROOT = Path(__file__).parents[2]


def python_of(*path: str) -> list[str]:
    text = ROOT.joinpath(*path).read_text()
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def test_the_python_of_the_readme_runs_as_printed(capsys):
    """Eight lines that say what the data were made with: a slope of -0.4 a day, and its week."""
    (block,) = python_of("README.md")
    exec(block, names := {})
    table = gp.coefficients(names["draws"]).to_dataframe()
    assert table.low["day"] < -0.4 < table.high["day"]
    low, high = map(float, capsys.readouterr().out.splitlines()[-1].split()[2:])
    assert low < -7 * 0.4 < high


def test_the_python_of_the_page_on_models_runs_as_printed(capsys):
    blocks = python_of("docs", "models.md")
    assert len(blocks) == 5
    exec("\n".join(blocks), names := {})
    length, probabilities, evidence, *models, rates = capsys.readouterr().out.splitlines()
    assert 0.1 < float(length) < 50.0
    assert all(0.0 < float(p) < 1.0 for p in probabilities.strip("[]").split())
    ep, annealed, error = map(float, evidence.split())
    assert abs(ep - annealed) < 1.0
    assert error < 0.1
    table = gp.compare_models(names["runs"])
    assert [line.split()[0] for line in models if line.split()[0] in table.index] == list(
        table.index
    )
    assert np.all(table["standard_error"] < 0.15)
    assert np.isfinite(names["other"]["evidence"].log_evidence).all()
    expected = np.exp(np.sin(np.linspace(0.0, 10.0, 5)))
    np.testing.assert_allclose(np.array(rates.strip("[]").split(), float), expected, rtol=0.1)
    assert names["draws"].posterior.sizes["weight_dim"] == 66


def test_the_python_of_the_home_page_runs_as_printed():
    """On the trial of the README."""
    (made,) = python_of("README.md")
    exec(made.partition("terms = ")[0], names := {})
    (block,) = python_of("docs", "index.md")
    exec(block, names)
    table = gp.coefficients(names["draws"]).to_dataframe()
    assert table.low["day"] < -0.4 < table.high["day"]


def test_the_python_of_the_start_page_runs_as_printed(capsys):
    (block,) = python_of("docs", "start.md")
    exec(block, names := {})
    length, *_ = capsys.readouterr().out.split()
    assert 0.5 < float(length) < 8.0
    assert names["rates"]["response_mean"].shape == (25,)


def test_no_other_page_has_python_that_nothing_runs():
    """Pages of cells are executed when the site is built; those about a cluster run in
    tests/execution/test_cluster.py."""
    pages = {
        page.relative_to(ROOT).as_posix()
        for folder in ("docs", "docs/tutorials", "docs/explanations", "config", "examples", ".")
        for page in (ROOT / folder).glob("*.md")
        if "```python" in page.read_text()
    }
    run_here = {"README.md", "docs/index.md", "docs/start.md", "docs/models.md"}
    assert pages == run_here | {"docs/tutorials/clusters.md"}


def commands(*path: str) -> set[str]:
    """Lines of a page that call the command line, without their comments."""
    text = "\n".join(re.findall(r"```bash\n(.*?)```", ROOT.joinpath(*path).read_text(), re.DOTALL))
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return {line for line in lines if line.startswith("gpmcflow ")}


def test_commands_of_home_and_start_are_those_that_the_wheel_runs():
    """The README's five lines run in tests/workflow/test_wheel.py."""
    readme = commands("README.md")
    assert commands("docs", "index.md") < readme
    assert commands("docs", "start.md") == readme | {"gpmcflow run patients.yaml"}
