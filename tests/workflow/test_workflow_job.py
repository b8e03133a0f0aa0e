"""What surrounds the one call of a script."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from gpmcflow import storage
from gpmcflow.errors import InputError
from gpmcflow.execution import Execution, array_digest, run
from gpmcflow.execution.lock import state_lock
from gpmcflow.execution.waiting import Waiting
from gpmcflow.jobs import job as module
from gpmcflow.jobs.job import configure_logging, workflow_job


class Named(dict):
    """Like Snakemake's named lists: attributes and items."""

    __getattr__ = dict.__getitem__


@pytest.fixture(autouse=True)
def _restore_logging():
    logger = logging.getLogger("gpmcflow")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before
    logging.captureWarnings(False)
    logging.getLogger("py.warnings").handlers.clear()


@pytest.fixture
def snakemake(tmp_path):
    return SimpleNamespace(
        log=[str(tmp_path / "logs" / "job.log")],
        rule="evidence",
        threads=2,
        config={
            "memory_limit_gb": 3.0,
            "execution": {"workers": 4, "scheduler": None, "block_size": 8, "segment_length": 5},
        },
        wildcards=Named(problem="a", method="b"),
        params=Named(method={"particles": 8}, code="c0"),
        input=Named(),
        output=Named(results=str(tmp_path / "out.nc")),
    )


def test_users_error_is_one_line_and_exit_code_1(snakemake, capsys):
    with pytest.raises(SystemExit) as raised, workflow_job(snakemake):
        raise InputError("file.csv: column 'a', row 3: found 'x\n'")
    assert raised.value.code == 1
    assert capsys.readouterr().err == "ERROR: file.csv: column 'a', row 3: found 'x\\n'\n"
    log = Path(snakemake.log[0]).read_text()
    assert log.count("\n") == 1
    assert "row 3" in log


def test_our_error_keeps_its_traceback(snakemake):
    with pytest.raises(ZeroDivisionError), workflow_job(snakemake):
        raise ZeroDivisionError("ours")
    assert "Traceback" in Path(snakemake.log[0]).read_text()


def test_want_of_memory_is_one_line_with_a_remedy(snakemake, capsys):
    with pytest.raises(SystemExit) as raised, workflow_job(snakemake):
        np.empty(2**56)
    assert raised.value.code == 1
    error = capsys.readouterr().err
    assert "given no more memory (Unable to allocate 512. PiB" in error
    assert "Traceback" not in Path(snakemake.log[0]).read_text()


def test_what_is_not_to_be_had_now_is_worth_a_retry(snakemake, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    how = Execution(segment_length=5, state_dir=tmp_path / "state")
    file = str(tmp_path / "scheduler.json")
    with pytest.raises(SystemExit) as raised, workflow_job(snakemake):
        run(Counting(), **SIZES, execution=replace(how, scheduler=file))
    assert raised.value.code == 75
    assert capsys.readouterr().err.startswith(f"ERROR: run: there is no Dask scheduler file {file}")
    with (
        state_lock(tmp_path / "state"),
        pytest.raises(SystemExit) as raised,
        workflow_job(snakemake),
    ):
        run(Counting(), **SIZES, execution=how)
    assert raised.value.code == 75
    assert "another run is at work on it" in capsys.readouterr().err


def test_a_job_waits_for_minutes(snakemake):
    with workflow_job(snakemake):
        assert not longer_than(60, Waiting("a lock"))
        assert longer_than(600, Waiting("a lock"))
    assert longer_than(2, Waiting("a lock"))


def longer_than(seconds: float, wait: Waiting) -> bool:
    wait._began -= seconds
    return wait.over


def test_a_log_that_another_job_removes_is_written_again(snakemake):
    path = Path(snakemake.log[0])
    first, second = logging.getLogger("first"), logging.getLogger("second")
    one = configure_logging(first, path)
    first.info("before")
    path.unlink()  # as Snakemake does, also with --nolock
    two = configure_logging(second, path)
    second.info("of the other")
    first.info("after")
    two.close()
    path.unlink()
    one.close()
    for line in ("before", "of the other", "after"):
        assert f"INFO {'second' if 'other' in line else 'first'}: {line}\n" in path.read_text()


def test_a_job_says_what_it_is_made_of_and_refuses_a_file_that_changes(snakemake, tmp_path, capsys):
    source, earlier = tmp_path / "file.csv", tmp_path / "data.nc"
    source.write_text("a\n1\n")
    storage.write_results(xr.DataTree(), earlier, sidecar={})
    snakemake.input = [str(earlier)]
    digest = hashlib.sha256(b"a\n1\n").hexdigest()
    snakemake.params |= {"sources": {"csv": {str(source): digest}}, "entry": "module:entry"}
    run_job = partial(module.run_job, snakemake)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "load", lambda _: lambda job: xr.DataTree())
        run_job()
        facts = storage.read_sidecar(snakemake.output.results)
        recorded = hashlib.sha256(earlier.read_bytes()).hexdigest()
        assert facts["made_of"] == {str(source): digest, str(earlier): recorded}
        assert facts["code"] == "c0"
        seen = source.stat()
        source.write_text("a\n2\n")
        os.utime(source, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        with pytest.raises(SystemExit):
            run_job()
    assert (
        capsys.readouterr().err == f"ERROR: {source}: has changed since the run began; run again\n"
    )


def test_workers_are_the_cores_snakemake_grants(snakemake):
    with workflow_job(snakemake) as job:
        assert job.execution["workers"] == 2
        assert job.execution["block_size"] == 8
        assert job.memory_limit_gb == 3.0


def test_state_folder_changes_with_whatever_changes_the_numbers(snakemake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = xr.Dataset(attrs={"checksum": "d0"})
    with workflow_job(snakemake) as job:
        folders = {job.state_dir(data)}
        assert job.state_dir(data) in folders
        snakemake.threads, snakemake.config["memory_limit_gb"] = 1, None
        assert job.state_dir(data) in folders
        folders.add(job.state_dir(data.assign_attrs(checksum="d1")))
        snakemake.params["method"] = {"particles": 9}
        folders.add(job.state_dir(data))
        snakemake.params["code"] = "c1"
        folders.add(job.state_dir(data))
        snakemake.wildcards["method"] = "c"
        folders.add(job.state_dir(data))
    assert len(folders) == 5
    assert all(folder.startswith("results/.state/") for folder in folders)


def test_results_have_a_sidecar_with_the_times(snakemake, tmp_path):
    with workflow_job(snakemake) as job:
        job.write((xr.DataTree(xr.Dataset({"a": ("x", [1.0])})), {"seconds": {"fit": 2.0}}))
    sidecar = (tmp_path / "out.nc.json").read_text()
    for word in ("job_seconds", '"fit": 2.0', "versions", '"job_threads": 2'):
        assert word in sidecar


def test_state_folder_tells_which_job_it_belongs_to(snakemake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with workflow_job(snakemake) as job:
        folder = Path(job.state_dir(xr.Dataset(attrs={"checksum": "d0"})))
    told = json.loads((folder / "job.json").read_text())
    assert told.pop("started_at")
    assert told.pop("host")
    assert told == {
        "rule": "evidence",
        "wildcards": {"problem": "a", "method": "b"},
        "output": str(tmp_path / "out.nc"),
        "identity_digest": folder.name,
        "pid": os.getpid(),
    }


class Counting:
    """Counts draws; asks its own process to end in the middle of the second segment, once."""

    def __init__(self):
        self.calls, self.asked = [], False

    def outputs(self):
        return {"n": ((), "<i8")}

    def start(self, rng):
        return {"n": np.zeros(len(rng), "i8")}

    def advance(self, rng, carry, start, stop):
        self.calls.append(start)
        if start == 5 and not self.asked:
            self.asked = True
            os.kill(os.getpid(), signal.SIGTERM)
        n = carry["n"][:, None] + np.arange(1, stop - start + 1)
        return {"n": n[:, -1]}, {"n": n}


SIZES = {"n_chains": 2, "length": 20, "seed": 1}


def test_sigterm_ends_it_after_the_segment_with_code_75_and_the_next_goes_on(snakemake, tmp_path):
    program, how = Counting(), Execution(segment_length=5, state_dir=tmp_path / "state")
    with pytest.raises(SystemExit) as raised, workflow_job(snakemake):
        run(program, **SIZES, execution=how)
    assert raised.value.code == 75
    log = Path(snakemake.log[0]).read_text()
    assert log.count("\n") == 1
    assert "stopped by SIGTERM: 2 of 4 segments are kept in" in log
    assert "give the same command again" in log
    with workflow_job(snakemake):
        arrays = run(program, **SIZES, execution=how)
    assert program.calls == [0, 5, 10, 15]
    assert array_digest(arrays) == array_digest({"n": np.tile(np.arange(1, 21), (2, 1))})


def test_a_signal_while_results_are_written_does_not_undo_the_job(snakemake, tmp_path, monkeypatch):
    real = storage.write_results

    def signalled(*arguments, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        real(*arguments, **options)

    monkeypatch.setattr(storage, "write_results", signalled)
    with workflow_job(snakemake) as job:
        job.write(xr.DataTree(xr.Dataset({"a": ("x", [1.0])})))
    assert (tmp_path / "out.nc").is_file()


@pytest.mark.parametrize("steps", ["replications.stages", "analysis.steps"])
def test_a_job_loads_no_statistics_before_it_needs_them(steps):
    """They take as long to load as all else together, and a cluster starts a job many times."""
    code = (
        f"import sys; import gpmcflow.jobs.job, gpmcflow.{steps};"
        "print([m for m in ('scipy.stats', 'arviz_stats', 'matplotlib', 'dask') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
