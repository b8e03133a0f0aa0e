"""`gpmcflow certify`: a certificate of an analysis, its page and table, and going on."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpmcflow.cli import main
from gpmcflow.execution.signals import EXIT_CODE
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
    moved = table.set_index("quantity")["moved_by"]
    assert set(moved.drop("log likelihood")) <= {"prior and data", "prior", "data", "neither"}
    page = (plots / "results" / "plots" / "certificate.html").read_text()
    assert "as the analysis is: 2 chains of 40 draws" in page
    assert "Given your own data the priors" in page


def n_kept(folder) -> list[int]:
    """Data sets of each model that are kept."""
    states = folder.glob("results/.state/*")
    return [len(list(state.glob("block_*/segment_*.npz"))) for state in states]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, EXIT_CODE)]
)
def test_a_certificate_that_was_stopped_comes_to_the_same_bytes(
    plots, tmp_path_factory, monkeypatch, capsys, number, code
):
    command = ["certify", "plots.yaml", "--quick", "-n", "10"]
    program = Path(sys.executable).with_name("gpmcflow")
    stopped = subprocess.Popen([program, *command, "--cores", "2"])
    until = time.monotonic() + 60.0
    while sum(n_kept(plots)) < 5 and time.monotonic() < until:
        time.sleep(0.02)
    stopped.send_signal(number)
    assert stopped.wait(60) == code
    assert not (plots / "results" / "plots" / "certificate.csv").exists()
    kept = n_kept(plots)
    assert 5 <= sum(kept) < 20
    assert main([*command, "--cores", "1"]) == 0
    finished = sum(max(n, 3) for n in kept)  # 3 of each are timed
    assert f", {finished} of them finished" in capsys.readouterr().out
    at_once = tmp_path_factory.mktemp("at_once")
    for name in ("plots.csv", "plots.yaml"):
        shutil.copy(name, at_once)
    monkeypatch.chdir(at_once)
    assert main([*command, "--cores", "1"]) == 0
    assert contents(at_once / "results" / "plots") == contents(plots / "results" / "plots")


def test_workers_of_a_cluster_give_the_same_bytes(plots, capsys):
    distributed = pytest.importorskip("distributed")
    command = ["certify", "plots.yaml", "--models", "lines", "--quick", "-n", "4"]
    assert main([*command, "--cores", "1"]) == 0
    here = contents(plots / "results" / "plots")
    shutil.rmtree(plots / "results")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0"
    ) as cluster:
        execution = f"execution: {{scheduler: '{cluster.scheduler_address}'}}\n"
        (plots / "plots.yaml").write_text(CONFIG + execution)
        capsys.readouterr()
        assert main([*command, "--cores", "7"]) == 0
    assert "on 1 core;" in capsys.readouterr().out  # those of the cluster
    assert contents(plots / "results" / "plots") == here


def test_clean_keeps_a_certificate_that_is_not_finished(plots, capsys):
    assert main(["certify", "plots.yaml", "--quick", "--cores", "1", "-n", "2"]) == 0
    (plots / "results" / "plots" / "certificate.csv").unlink()
    capsys.readouterr()
    assert main(["clean", "--configfile", "plots.yaml"]) == 0
    assert "remove" not in capsys.readouterr().out


def test_wrong_options_are_refused(plots, capsys):
    with pytest.raises(SystemExit):
        main(["certify", "plots.yaml", "-n", "0"])
    assert "allowed: 1, 2, 3" in capsys.readouterr().err
    assert main(["certify", "plots.yaml", "--models", "line"]) == 1
    error = capsys.readouterr().err
    assert "plots.yaml: --models" in error
    assert "lines" in error
    assert not (plots / "results" / "plots" / "certificate.csv").exists()
