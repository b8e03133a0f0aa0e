"""`gpmcflow certify`: a certificate of an analysis, its page and table, and going on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpmcflow.cli import main
from gpmcflow.pipeline.verify import verify
from gpmcflow.storage import read_csv

CONFIG = """
data: {csv: plots.csv, target: harvest}
models:
  lines: {covariance: "linear()"}
  curve: {covariance: "matern32(rain)"}
sampling: {chains: 2, draws: 40, warmup: 0}
"""


@pytest.fixture
def plots(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rain = np.random.default_rng(0).normal(80.0, 10.0, 12)
    frame = pd.DataFrame({"rain": rain, "harvest": 0.1 * rain})
    frame.to_csv("plots.csv", index=False)
    (tmp_path / "plots.yaml").write_text(CONFIG)
    return tmp_path


def contents(folder) -> dict:
    return {name: (folder / name).read_bytes() for name in ("certificate.csv", "certificate.html")}


def test_a_certificate_is_written_and_grows(plots, capsys):
    certify = ["certify", "plots.yaml", "--quick", "--cores", "1"]
    assert main([*certify, "-n", "4"]) == 0
    folder = plots / "results" / "plots"
    first = contents(folder)
    assert "Of 4 data sets like yours" in capsys.readouterr().out
    assert main([*certify, "-n", "6"]) == 0
    said = capsys.readouterr().out
    assert "6 data sets for each of 2 models (lines and curve), 8 of them finished" in said
    table = read_csv(folder / "certificate.csv")
    assert list(table["model"].unique()) == ["lines", "curve"]
    assert set(table["verdict"]) <= {"passed", "too low", "too high", "too narrow", "too wide"}
    assert (
        "gpmcflow certify plots.yaml -n 6 --quick" in contents(folder)["certificate.html"].decode()
    )
    assert not verify("results").problems
    assert main([*certify, "-n", "4"]) == 0  # read from what is there
    assert "nothing is left to fit" in capsys.readouterr().out
    assert contents(folder) == first


def test_draws_are_those_of_the_analysis(plots, capsys):
    assert main(["certify", "plots.yaml", "--models", "lines", "--cores", "1", "-n", "2"]) == 0
    table = read_csv(plots / "results" / "plots" / "certificate.csv")
    assert list(table["model"].unique()) == ["lines"]
    assert {"sd", "noise_sd"} <= set(table["quantity"])
    page = (plots / "results" / "plots" / "certificate.html").read_text()
    assert "as the analysis is: 2 chains of 40 draws" in page


def test_wrong_options_are_refused(plots, capsys):
    with pytest.raises(SystemExit):
        main(["certify", "plots.yaml", "-n", "0"])
    assert "allowed: 1, 2, 3" in capsys.readouterr().err
    assert main(["certify", "plots.yaml", "--models", "line"]) == 1
    error = capsys.readouterr().err
    assert "plots.yaml: --models" in error
    assert "lines" in error
    assert not (plots / "results" / "plots" / "certificate.csv").exists()
