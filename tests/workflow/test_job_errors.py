"""What a job that failed keeps for its retries."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpmcflow.errors import InputError, NumericalError, ResourceError, StorageError
from gpmcflow.jobs.job import workflow_job
from gpmcflow.jobs.job_errors import LastError, name_this_run
from gpmcflow.monitor.clean import remove_state, unneeded_state
from gpmcflow.monitor.status import job_statuses


class Named(dict):
    """Like Snakemake's named lists: attributes and items."""

    __getattr__ = dict.__getitem__


@pytest.fixture
def snakemake(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPMCFLOW_RUN", "")  # so that it is as before when the test ends
    name_this_run()
    Path("data.nc").write_text("data")
    return SimpleNamespace(
        log=["job.log"],
        rule="evidence",
        threads=1,
        input=["data.nc"],
        output=[],
        config={"seed": 1},
        wildcards=Named(problem="a"),
        params=Named(method={"particles": 8}, sources={"csv": {"file.csv": "1f"}}),
    )


def attempt(snakemake, error: Exception | None = None) -> bool:
    """Whether a job that meets this error does its work."""
    began = False
    with suppress(SystemExit), workflow_job(snakemake):
        began = True
        if error is not None:
            raise error
    return began


def other_run(_):
    name_this_run()


def other_data(_):
    Path("data.nc").write_text("other data")


def touched_data(_):
    os.utime("data.nc", ns=(1, 1))


def other_config(snakemake):
    snakemake.config["seed"] = 2


def other_params(snakemake):
    snakemake.params["method"] = {"particles": 9}


def other_job(snakemake):
    snakemake.wildcards["problem"] = "b"


def test_a_retry_ends_with_the_same_line_before_any_work(snakemake, capsys):
    assert attempt(snakemake, InputError("file.csv: row 3: found 'x'"))
    first = capsys.readouterr().err
    assert not attempt(snakemake)
    assert capsys.readouterr().err == first == "ERROR: file.csv: row 3: found 'x'\n"


@pytest.mark.parametrize(
    "change", [other_run, other_data, touched_data, other_config, other_params, other_job]
)
def test_what_may_go_better_is_tried(snakemake, change):
    attempt(snakemake, InputError("wrong"))
    change(snakemake)
    assert attempt(snakemake)


@pytest.mark.parametrize(
    ("error", "tried"),
    [
        (NumericalError("not positive definite"), False),
        (StorageError("data.nc: the file is truncated; delete it and run again."), False),
        (StorageError("file.csv: has changed since the run began; run again"), False),
        (StorageError("out.nc: cannot be written: the disk is full."), True),
        (ResourceError("a worker process died"), True),
    ],
)
def test_disk_and_memory_may_be_better_next_time(snakemake, error, tried):
    attempt(snakemake, error)
    assert attempt(snakemake) is tried


def test_success_and_clean_remove_it_and_status_knows_no_such_job(snakemake):
    attempt(snakemake, InputError("wrong"))
    (kept,) = Path("results/.state/errors").iterdir()
    assert json.loads(kept.read_text())["line"] == "wrong"
    assert job_statuses() == []
    name_this_run()
    attempt(snakemake)
    assert not kept.exists()
    attempt(snakemake, InputError("wrong"))
    remove_state(unneeded_state())
    assert not kept.parent.exists()


def test_without_a_run_of_snakemake_nothing_is_kept(snakemake, monkeypatch):
    monkeypatch.delenv("GPMCFLOW_RUN")
    attempt(snakemake, InputError("wrong"))
    assert LastError(snakemake).line() is None
    assert not Path("results").exists()
