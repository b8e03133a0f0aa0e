"""Analyses without Snakemake: the same files and notes, each of the two goes on from the other."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
import numpy as np
import psutil
import pytest

from gpmcflow.analysis import steps
from gpmcflow.cli import main
from gpmcflow.pipeline import in_process
from gpmcflow.pipeline.run import check_for_run
from gpmcflow.storage.checksums import sha256_of

ROOT = Path(__file__).parents[2]
CONFIG = """
data: {csv: own.csv, target: y}
likelihood: gaussian
models:
  straight: {covariance: "linear() + constant()"}
  curved: {covariance: "squared_exponential()"}
"""
BY_DRAWS = (
    CONFIG
    + """
sampling: {chains: 2, draws: 20, warmup: 5}
evidence: {route: maximum}
"""
)
STEPS = ["read", "fit", "fit", "final", "report", "build"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = [f"{x:.3f},{2 * x + rng.normal(0, 0.1):.3f}" for x in rng.uniform(size=40)]
    (tmp_path / "own.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    (tmp_path / "own.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def quick(capsys, cores: int = 2) -> list[str]:
    """Steps that a quick run made, as words of its lines."""
    assert main(["run", "own.yaml", "--quick", "--cores", str(cores)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "report: results/own/report.html"
    return [line.split()[2 if line.split()[1] == "analysis" else 1] for line in lines[:-2]]


def files() -> dict[str, str]:
    """SHA-256 of results, but for those that tell seconds."""
    found = (path for path in Path("results").rglob("*") if path.suffix in (".nc", ".csv"))
    return {str(path): sha256_of(path) for path in found if path.name != "models.csv"}


def planned(snakemake, folder) -> list[str]:
    """Rules that Snakemake would run."""
    options = ["--dry-run", "--quiet", "progress", "--config", "quick=True"]
    done = snakemake(folder, *options, config=folder / "own.yaml")
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    return [line.split()[1].rstrip(":") for line in text.splitlines() if "rule " in line]


def test_snakemake_makes_the_same_files_and_either_goes_on_from_the_other(
    folder, capsys, snakemake
):
    assert sorted(quick(capsys)) == sorted(STEPS)
    made = files()
    assert quick(capsys) == []
    assert planned(snakemake, folder) == []
    for path in [path for path in made if path.endswith("straight/fit.nc")]:
        Path(path).unlink()
    remade = [rule for rule in planned(snakemake, folder) if rule != "all"]
    assert sorted(remade) == sorted(
        ["analysis_fit", "analysis_final", "analysis_report", "build_report"]
    )
    done = snakemake(folder, "--config", "quick=True", config=folder / "own.yaml")
    assert done.returncode == 0, done.stderr
    assert quick(capsys) == []
    assert files() == made


@pytest.fixture
def by_draws(folder, monkeypatch):
    """A folder with a config by draws, in what passes for a process without other threads."""
    if not in_process.CAN_FORK:
        pytest.skip("jobs are forked")
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    Path("own.yaml").write_text(BY_DRAWS)
    return folder


def test_beside_threads_and_on_a_cluster_jobs_by_draws_are_left_to_snakemake(by_draws, monkeypatch):
    config = check_for_run("own.yaml")
    assert in_process.takes(config)
    elsewhere = {**config, "execution": {**config["execution"], "scheduler": "tcp://host:8786"}}
    assert not in_process.takes(elsewhere)
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert not in_process.takes(config)
    assert in_process.takes(check_for_run("own.yaml", quick=True))


def test_by_draws_the_same(by_draws, capsys, snakemake):
    folder = by_draws
    dask.compute([dask.delayed(time.sleep)(0.05) for _ in range(16)], scheduler="threads")
    time.sleep(0.1)  # all threads of the pool are idle now, and are not in a fork
    assert main(["run", "own.yaml", "--cores", "2"]) == 0
    *_, steps, _, report = capsys.readouterr().out.splitlines()
    assert (steps.split()[0], report) == ("11/11", "report: results/own/report.html")
    made = files()
    assert sum("posterior" in path for path in made) == 3
    dry = snakemake(folder, "--dry-run", config=folder / "own.yaml")
    assert "Nothing to be done" in dry.stdout + dry.stderr
    for path in made:
        Path(path).unlink()
    done = snakemake(folder, config=folder / "own.yaml")
    assert done.returncode == 0, done.stderr
    assert files() == made
    assert main(["run", "own.yaml", "--cores", "1"]) == 0
    assert "analysis" not in capsys.readouterr().out  # no job ran


@pytest.mark.skipif(not in_process.CAN_FORK, reason="jobs are forked")
@pytest.mark.parametrize(
    ("cores", "of_draws", "of_one"), [(1, 1, 1), (2, 1, 2), (3, 1, 2), (4, 2, 2)]
)
def test_jobs_side_by_side_have_no_more_cores_than_there_are(
    folder, monkeypatch, cores, of_draws, of_one
):
    Path("own.yaml").write_text(BY_DRAWS)
    log = folder / "log"

    def called(plan, job, threads):
        began = time.monotonic()
        time.sleep(0.5 if "draw" in job.rule else 0.0)  # longer than it takes to fork the next
        seen = {"needs": job.needs, "made": [*job.outputs.values()], "rule": job.rule}
        seen |= {"threads": threads, "began": began, "ended": time.monotonic()}
        with log.open("a") as file:
            file.write(json.dumps(seen) + "\n")
        return in_process.Ended(0, "", 0.0)

    monkeypatch.setattr(in_process, "_called", called)
    in_process.run_jobs(check_for_run("own.yaml"), cores, lambda *_: None)
    jobs = [json.loads(line) for line in log.read_text().splitlines()]
    for rule, threads in (("analysis_draw", of_draws), ("analysis_final_draw", of_one)):
        assert {job["threads"] for job in jobs if job["rule"] == rule} == {threads}
    most = 0
    for job in jobs:
        beside = [own for own in jobs if own["began"] <= job["began"] < own["ended"]]
        most = max(most, sum(own["threads"] for own in beside))
        for own in jobs:
            if set(own["made"]) & set(job["needs"]):
                assert own["ended"] <= job["began"]
    assert most == min(cores, 2 * of_draws)


def test_quick_fits_keep_all_cores_busy(folder, monkeypatch):
    """A job that is done makes room for the next, also while the first still runs."""
    models = "\n".join(f'  more{k}: {{covariance: "matern32()"}}' for k in range(2))
    Path("own.yaml").write_text(CONFIG + models + "\n")
    log = folder / "log"

    def called(plan, job, threads):
        seconds = {"straight": 2.0, "curved": 0.1}.get(job.wildcards.get("model"), 0.3)
        began = time.monotonic()
        time.sleep(seconds if job.rule == "analysis_fit" else 0.0)
        seen = {"model": job.wildcards.get("model"), "rule": job.rule, "here": os.getpid() == own}
        with log.open("a") as file:
            file.write(json.dumps(seen | {"began": began, "ended": time.monotonic()}) + "\n")
        return in_process.Ended(0, "", 0.0)

    own = os.getpid()
    monkeypatch.setattr(in_process, "_called", called)
    config = check_for_run("own.yaml", quick=True)
    in_process.run_jobs(config, 2, lambda *_: None)
    jobs = [json.loads(line) for line in log.read_text().splitlines()]
    fits = {job["model"]: job for job in jobs if job["rule"] == "analysis_fit"}
    assert fits["more0"]["ended"] < fits["straight"]["ended"]
    assert {job["rule"] for job in jobs if job["here"]} == {
        "analysis_read", "analysis_report", "build_report",
    }  # fmt: skip
    log.unlink()
    in_process.run_jobs(config, 1, lambda *_: None)
    assert all(json.loads(line)["here"] for line in log.read_text().splitlines())


def test_what_has_changed_is_made_again_and_nothing_else(folder, capsys, snakemake):
    quick(capsys, cores=1)
    Path("own.yaml").write_text(CONFIG + "title: A better name\n")
    assert quick(capsys) == ["report", "build"]
    Path("own.csv").write_text(Path("own.csv").read_text() + "0.5,1.0\n")
    os.utime("own.csv", (1e9, 1e9))  # content decides, not its time
    assert sorted(quick(capsys)) == sorted(STEPS)
    Path("results/own/models.csv").unlink()
    assert quick(capsys) == ["report", "build"]
    changed = CONFIG.replace("squared_exponential", "matern32")
    Path("own.yaml").write_text(changed)
    assert "fit" in planned(snakemake, folder)[0]  # by the notes of another config


def test_a_failure_is_told_and_what_is_finished_stays(folder, capsys, monkeypatch):
    from gpmcflow.errors import NumericalError

    def fails(job):
        if job.wildcards.model == "curved":
            raise NumericalError("no maximum")
        raise ZeroDivisionError

    monkeypatch.setattr("gpmcflow.analysis.steps.fit", fails)
    assert main(["run", "own.yaml", "--quick", "--cores", "1"]) == 1
    error = capsys.readouterr().err.splitlines()
    assert error[-3] == "ZeroDivisionError"
    assert error[-2] == "failed: analysis_fit, log: results/logs/own/straight/fit.log"
    assert error[-1] == "gpmcflow run: not finished; what is finished stays in ./results"
    assert "ZeroDivisionError" in Path("results/logs/own/straight/fit.log").read_text()
    monkeypatch.undo()
    monkeypatch.chdir(folder)

    def dies(job, whole=steps.fit):
        if multiprocessing.parent_process():  # one is forked, one runs in this process
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(job)

    monkeypatch.setattr("gpmcflow.analysis.steps.fit", dies)
    assert main(["run", "own.yaml", "--quick", "--cores", "2"]) == 1
    assert "the process was killed by SIGKILL" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert "read" not in quick(capsys)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_within_a_job_is_a_stop_and_no_failure(folder, capsys, monkeypatch, number):
    monkeypatch.setattr("gpmcflow.analysis.steps.fit", lambda job: os.kill(os.getpid(), number))
    before = signal.signal(number, signal.default_int_handler)  # ignored in the background
    try:
        assert main(["run", "own.yaml", "--quick", "--cores", "1"]) == 128 + number
    finally:
        signal.signal(number, before)
    assert capsys.readouterr().err == "stopped; the same command goes on from here\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_and_the_same_command_goes_on(folder, capsys, number):
    command = "import sys; from gpmcflow.cli import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "run", "own.yaml", "--quick"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout.readline().startswith("1/6  analysis read")
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert error == "stopped; the same command goes on from here\n"
    assert "read" not in quick(capsys)


def started(folder: Path, code: str) -> tuple[subprocess.Popen, psutil.Process]:
    """A run by draws whose first fit runs some code, and the process of that fit."""
    Path("own.yaml").write_text(BY_DRAWS)
    command = f"""
import os, sys, time
from gpmcflow.analysis import steps
from gpmcflow.cli import main
from gpmcflow.execution import finish_first
def fit(job):
    {code}
    open("at_work", "w").close()
    time.sleep(60)
steps.fit = fit
sys.exit(main())
"""
    run = [sys.executable, "-c", command, "run", "own.yaml", "--cores", "1"]
    process = subprocess.Popen(
        run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    while not (folder / "at_work").exists():
        assert process.poll() is None
        time.sleep(0.01)
    (job,) = psutil.Process(process.pid).children()
    return process, job


@pytest.mark.skipif(not in_process.CAN_FORK, reason="jobs are forked")
def test_jobs_end_with_a_run_that_is_killed(folder):
    process, job = started(folder, "pass")
    process.kill()
    process.communicate(timeout=60)
    job.wait(timeout=20)


@pytest.mark.skipif(not in_process.CAN_FORK, reason="jobs are forked")
def test_a_second_signal_ends_jobs_that_finish_their_segment_first(folder):
    process, job = started(folder, "whole = finish_first(); whole.__enter__()")
    process.send_signal(signal.SIGINT)
    line = process.stderr.readline()
    assert line.endswith(
        "the segment under way is finished first; a second signal ends it at once.\n"
    )
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=20)
    assert error.endswith("stopped; the same command goes on from here\n")
    assert process.returncode == 128 + signal.SIGINT
    assert not job.is_running()


def test_a_folder_that_is_at_work_elsewhere_is_a_failure_and_no_stop(by_draws, capsys, monkeypatch):
    from gpmcflow.errors import UnavailableError

    def fails(job):
        raise UnavailableError("another run is at work")

    monkeypatch.setattr("gpmcflow.analysis.steps.fit", fails)
    assert main(["run", "own.yaml", "--cores", "1"]) == 1
    assert "\nanother run is at work\nfailed: analysis_fit" in "\n" + capsys.readouterr().err


def test_it_is_left_alone_where_notes_are_kept_in_another_way(tmp_path, monkeypatch):
    package = tmp_path / "snakemake"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "snakemake", raising=False)
    for version, expected in (("6", True), ("7", False)):
        (package / "persistence.py").write_text(f"RECORD_FORMAT_VERSION = {version}\n")
        assert in_process.usable() is expected
