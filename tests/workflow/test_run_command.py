"""`gpmcflow run`: one line for each finished step, one for each error, and signals handed on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import yaml

from gpmcflow.cli import main
from gpmcflow.pipeline import run as run_module
from gpmcflow.pipeline.run import Messages, one_config, snakemake_command
from gpmcflow.pipeline.verify import verify
from gpmcflow.storage import load_results, write_csv

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "import sys; from gpmcflow.cli import main; sys.exit(main())"]
CONFIG = """
datasets: {mine: {csv: mine.csv, target: y}}
problems: {p: {dataset: mine, hyperparameters: {select: maximum}}}
studies:
  rmhmc_ais:
    problems: [p]
    illustrations: false
    methods: {is_ep: {kind: importance_sampling, particles: 50}}
"""
ROWS = "a,y\n" + "".join(f"{0.1 * k},{k * k % 3 == 1:d}\n" for k in range(12))
OUTPUT = """Building DAG of jobs...
[Sun Nov 22 07:00:00 2026]
localrule prepare:
    output: results/data/a.nc
    log: results/logs/data/a.log
    jobid: 3
    wildcards: dataset=a
    resources: tmpdir=/tmp
[Sun Nov 22 07:00:00 2026]
rule fit:
    jobid: 5
    wildcards: problem=p, method=hmc
INFO: 3 of 5 segments
Finished jobid: 5 (Rule: fit)
1 of 4 steps (25%) done
ERROR: a.csv: column 'x' is empty
Error in rule prepare:
    message: None
    jobid: 3
    log: results/logs/data/a.log (check log file(s) for error details)
"""


def gpmcflow(
    folder: Path, *arguments: str, stop: int | None = None, **environ: str
) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SNAKEMAKE")}
    environment |= {"PYTHONPATH": str(ROOT), **environ}
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # ignored in the background
    )
    first = process.stdout.readline() if stop else ""
    if stop:
        process.send_signal(stop)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(arguments, process.returncode, first + out, err)


@pytest.fixture
def project(tmp_path):
    """Folder with a subfolder that holds a config and its data."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.yaml").write_text(CONFIG)
    (tmp_path / "own" / "mine.csv").write_text(ROWS)
    return tmp_path


def test_results_lie_beside_the_config_and_each_step_is_a_line(project):
    done = gpmcflow(project, "run", "own/mine.yaml", "--cores", "2")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    *steps, took, last = done.stdout.splitlines()
    assert [line.split()[0] for line in steps] == [
        f"{k + 1}/{len(steps)}" for k in range(len(steps))
    ]
    assert steps[0].split()[1:3] == ["prepare", "mine"]
    assert took.startswith("done in ")
    assert last == "report: own/results/report.html"
    assert (project / "own" / "results" / "report.html").is_file()
    assert sorted(path.name for path in project.iterdir()) == ["own"]
    again = gpmcflow(project, "run", "own/mine.yaml")
    assert (again.returncode, len(again.stdout.splitlines())) == (0, 2)
    assert verify(project / "own" / "results").unknown == []

    table = project / "own" / "results" / "rmhmc_ais" / "evidence.csv"
    seen = table.stat()
    table.write_bytes(table.read_bytes().replace(b"is_ep", b"is_eq"))
    os.utime(table, ns=(seen.st_atime_ns, seen.st_mtime_ns))  # Snakemake sees no change
    damaged = gpmcflow(project, "run", "own/mine.yaml")
    assert damaged.returncode == 1
    assert "own/results/rmhmc_ais/evidence.csv: not what was written" in damaged.stderr
    table.unlink()
    first = project / "own" / "results" / "data" / "mine.nc"  # Snakemake alone would not miss it
    content = first.read_bytes()
    first.unlink()
    assert gpmcflow(project, "run", "own/mine.yaml").returncode == 0
    assert b"is_ep" in table.read_bytes()
    assert first.read_bytes() == content


def test_the_content_of_an_input_decides_and_not_its_time(tmp_path, snakemake):
    """`mv`, `cp -p` and `unzip` keep times, older ones and those of a clock that is ahead."""
    config, own, results = tmp_path / "mine.yaml", tmp_path / "mine.csv", tmp_path / "results"
    config.write_text(CONFIG)
    own.write_text(ROWS)

    def run(seconds: float, *options: str) -> str:
        os.utime(own, (time.time() + seconds,) * 2)
        done = snakemake(tmp_path, "results/data/mine.nc", *options, config=config)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    run(2e8)
    first = load_results(results / "data" / "mine.nc")["X"].values
    assert "Nothing to be done" in run(-2e8, "--dry-run")
    assert "Nothing to be done" in run(2e8, "--dry-run")
    own.write_text(ROWS.replace("0.5,", "4.5,"))
    (line,) = verify(results).problems
    assert line.startswith(f"{results / 'data' / 'mine.nc'}: made from a different {own} (")
    run(-2e8)
    assert not np.array_equal(load_results(results / "data" / "mine.nc")["X"].values, first)
    assert verify(results).problems == []


def test_a_run_is_judged_by_its_own_files(project, capsys, monkeypatch):
    monkeypatch.chdir(project)
    calls = []
    monkeypatch.setattr(run_module, "_snakemake", lambda *call: calls.append(call) or (0, []))
    for name in ("results/other/models.csv", "results/data/mine.csv"):
        write_csv(pd.DataFrame({"a": [1.0]}), project / "own" / name)
        (project / "own" / name).write_text("damaged")
    assert main(["run", "own/mine.yaml"]) == 0
    write_csv(pd.DataFrame({"a": [1.0]}), project / "own/results/rmhmc_ais/evidence.csv")
    (project / "own/results/rmhmc_ais/evidence.csv").write_text("damaged")
    assert main(["run", "own/mine.yaml"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(
        "gpmcflow run: own/results/rmhmc_ais/evidence.csv: not what was written"
    )
    assert error.count("\n") == 1


def test_a_job_that_was_killed_for_memory_is_told_so(project, capsys, monkeypatch):
    monkeypatch.chdir(project)
    counts = iter([4, 5])
    monkeypatch.setattr(run_module, "kills_for_memory", lambda: next(counts))
    monkeypatch.setattr(run_module, "_snakemake", lambda *call: (1, []))
    assert main(["run", "own/mine.yaml"]) == 1
    assert (
        "the kernel ended a process for want of memory; run fewer jobs" in capsys.readouterr().err
    )
    counts = iter([5, 5])
    assert main(["run", "own/mine.yaml"]) == 1
    assert "memory" not in capsys.readouterr().err


def test_settings_of_snakemake_are_all_taken():
    """Of several --config it takes the last, and forgets that the run is quick."""
    quick = ["--config", "quick=True"]
    for options, expected in (
        ([], []),
        (["-n"], ["-n"]),
        (quick, quick),
        (["-C", "seed=5", "-n", *quick], ["-n", "--config", "seed=5", "quick=True"]),
        (["--config=seed=5", "all", *quick], ["all", "--config", "seed=5", "quick=True"]),
        (["all", *quick], ["all", *quick]),
        (["-Ca=1", "--config", "b=2", "c=3", "-n"], ["-n", "--config", "a=1", "b=2", "c=3"]),
    ):
        assert one_config(options) == expected


def test_error_of_a_job_is_shown_with_its_log(project):
    (project / "own" / "mine.csv").write_text("a,y\n1,0\n2,1\nnan,0\n")
    failed = gpmcflow(project, "run", "own/mine.yaml", "--cores", "1")
    assert failed.returncode == 1
    message, where, end = failed.stderr.splitlines()
    assert "column 'a', row 4" in message
    assert where == "failed: prepare, log: own/results/logs/data/mine.log"
    assert (project / "own/results/logs/data/mine.log").is_file()
    assert end.startswith("gpmcflow run: not finished")


def test_wrong_config_is_told_before_snakemake_starts(project, capsys, monkeypatch):
    monkeypatch.chdir(project)
    (project / "own" / "mine.csv").unlink()
    assert main(["run", "own/mine.yaml"]) == 1
    assert "datasets.mine.csv: no file 'mine.csv'" in capsys.readouterr().err
    (project / "own" / "mine.yaml").write_text(CONFIG + "sede: 3\n")
    assert main(["run", "own/mine.yaml"]) == 1
    assert capsys.readouterr().err.startswith("gpmcflow: own/mine.yaml: key: unknown name 'sede'")
    assert not (project / "own" / ".snakemake").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_snakemake_and_the_same_command_goes_on(tmp_path, number):
    config = yaml.safe_load((ROOT / "tests" / "workflow" / "small.yaml").read_text())
    del config["analyses"]  # whose forecast would be the first line
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(config))
    stopped = gpmcflow(tmp_path, "run", "small.yaml", "--cores", "1", stop=number)
    assert stopped.returncode != 0
    assert stopped.stdout.startswith(" 1/33")
    assert stopped.stderr == "stopped; the same command goes on from here\n"
    rest = gpmcflow(tmp_path, "run", "small.yaml", "--", "--dry-run", "--quiet", "rules")
    assert rest.returncode == 0, rest.stderr  # not locked
    assert len((rest.stdout + rest.stderr).splitlines()) > 0


def started(project: Path) -> subprocess.Popen:
    """A run whose first job is done."""
    (project / "own" / "mine.csv").write_text(ROWS)
    own = [*COMMAND, "run", "own/mine.yaml", "--cores", "1"]
    here = {"cwd": project, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, "text": True}
    first = subprocess.Popen(own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **here)
    assert first.stdout.readline().startswith("1/")
    return first


def test_after_a_kill_the_same_command_goes_on(project):
    """Snakemake's own lock would outlive it; its jobs are stopped, and no second run begins beside it."""
    first = started(project)
    second = gpmcflow(project, "run", "own/mine.yaml")
    assert second.returncode == 1
    assert f"another run is at work on it (process {first.pid}" in second.stderr
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 137
    assert err.splitlines()[-1].startswith("gpmcflow run: not finished")
    assert gpmcflow(project, "run", "own/mine.yaml").returncode == 0


def test_a_snakemake_that_lost_its_front_end_ends_with_its_jobs(project):
    """Also while a job is long at work and says nothing, so that nobody misses the front end."""
    first = started(project)
    (snakemake,) = psutil.Process(first.pid).children()
    while not (jobs := snakemake.children(recursive=True)):
        time.sleep(0.01)
    for job in jobs:
        job.suspend()
    first.kill()
    first.communicate(timeout=60)
    assert not psutil.wait_procs([snakemake], timeout=20)[1]
    for job in jobs:
        with contextlib.suppress(psutil.NoSuchProcess):  # some end while they are suspended
            job.resume()
    assert not psutil.wait_procs(jobs, timeout=20)[1]


def test_a_snakemake_without_it_is_not_disturbed(project, capsys, monkeypatch):
    monkeypatch.chdir(project)
    locks = project / "own" / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.output.lock").write_text("results/report.html")
    assert main(["run", "own/mine.yaml"]) == 1
    assert "snakemake --unlock" in capsys.readouterr().err


def test_options_behind_two_dashes_go_to_snakemake(project):
    # Nothing can be made below a file: as on batch nodes with a home that is missing or read-only.
    here = {"HOME": str(project / "own" / "mine.csv"), "XDG_CACHE_HOME": ""}
    dry = gpmcflow(project, "run", "own/mine.yaml", "--", "--dry-run", "--quiet", "rules", **here)
    assert dry.returncode == 0
    assert "rmhmc_ais_evidence" in dry.stdout + dry.stderr
    assert not (project / "own" / "results").exists()
    command = snakemake_command(project / "a.yaml", None, ["--forceall"])
    assert command[command.index("--cores") + 1] == "all"
    assert command[command.index("--directory") + 1] == str(project)
    assert command[-1] == "--forceall"


def test_options_of_snakemake_are_refused_elsewhere(capsys):
    assert main(["datasets", "--", "-n"]) == 1
    assert "allowed: with gpmcflow run" in capsys.readouterr().err


def test_messages_of_snakemake_become_steps_and_errors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    messages = Messages(tmp_path / "own")
    (step,) = messages.steps(OUTPUT.splitlines(keepends=True))
    assert step.split() == ["1/3", "fit", "p", "hmc", "0", "s"]
    assert messages.failure() == [
        "a.csv: column 'x' is empty",
        "failed: prepare, log: own/results/logs/data/a.log",
        "gpmcflow run: not finished; what is finished stays in own/results",
    ]


def test_failure_that_no_job_explains_shows_the_last_lines(tmp_path):
    messages = Messages(tmp_path)
    assert list(messages.steps(["LockException:\n", "Directory cannot be locked.\n"])) == []
    assert messages.failure()[:2] == ["LockException:", "Directory cannot be locked."]
