"""What surrounds the one call of a script."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
import xarray as xr

from gpmcflow.errors import InputError
from gpmcflow.workflow_job import workflow_job


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
        output=Named(results=str(tmp_path / "out.nc")),
    )


def test_users_error_is_one_line_and_exit_code_1(snakemake, capsys):
    with pytest.raises(SystemExit) as raised, workflow_job(snakemake):
        raise InputError("file.csv: column 'a',\n row 3: found 'x'")
    assert raised.value.code == 1
    assert capsys.readouterr().err == "ERROR: file.csv: column 'a', row 3: found 'x'\n"
    log = Path(snakemake.log[0]).read_text()
    assert log.count("\n") == 1
    assert "row 3" in log


def test_our_error_keeps_its_traceback(snakemake):
    with pytest.raises(ZeroDivisionError), workflow_job(snakemake):
        raise ZeroDivisionError("ours")
    assert "Traceback" in Path(snakemake.log[0]).read_text()


def test_workers_are_the_cores_snakemake_grants(snakemake):
    with workflow_job(snakemake) as job:
        assert job.execution["workers"] == 2
        assert job.execution["block_size"] == 8
        assert job.memory_limit_gb == 3.0


def test_state_folder_changes_with_whatever_changes_the_numbers(snakemake):
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
        job.write(xr.DataTree(xr.Dataset({"a": ("x", [1.0])})), {"seconds": {"fit": 2.0}})
    sidecar = (tmp_path / "out.nc.json").read_text()
    for word in ("job_seconds", '"fit": 2.0', "versions", '"job_threads": 2'):
        assert word in sidecar
