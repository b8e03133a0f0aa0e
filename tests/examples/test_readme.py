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
    low, high = map(float, capsys.readouterr().out.splitlines()[-1].split()[4:6])
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
