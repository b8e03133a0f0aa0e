"""The SLURM profile is one that Snakemake and its plugin understand; jobs ask for what they need."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr
import yaml

from gpmcflow.analysis import costs
from gpmcflow.jobs.problems import MATRICES
from gpmcflow.jobs.resources import (
    WALLTIME_MINUTES,
    analysis_memory_mb,
    memory_mb,
    problem_sizes,
    runtime_minutes,
)
from gpmcflow.pipeline.config import check_config
from gpmcflow.replications.rmhmc_ais import runs as rmhmc_ais
from gpmcflow.replications.split_hmc import runs as split_hmc
from gpmcflow.replications.split_hmc.study import methods_of
from gpmcflow.storage import standard_attributes, write_results

ROOT = Path(__file__).parents[2]
PROFILE = ROOT / "workflow" / "profiles" / "slurm"
PLUGIN = importlib.util.find_spec("snakemake_executor_plugin_slurm") is not None
PLUGIN_OPTIONS = {  # of version 2.8, for machines without the plugin
    "slurm-requeue",
    "slurm-status-command",
    "slurm-init-seconds-before-status-checks",
}


@pytest.fixture(scope="module")
def profile() -> dict:
    (path,) = PROFILE.iterdir()
    return yaml.safe_load(path.read_text())


def test_every_key_is_an_option_of_snakemake(profile):
    from snakemake.cli import get_argument_parser

    options = {
        option.removeprefix("--")
        for action in get_argument_parser()._actions
        for option in action.option_strings
    }
    assert set(profile) <= options | (set() if PLUGIN else PLUGIN_OPTIONS)


@pytest.mark.skipif(not PLUGIN, reason="needs snakemake-executor-plugin-slurm")
def test_snakemake_reads_the_values():
    from snakemake.cli import parse_args

    _, options = parse_args(["--profile", str(PROFILE), "--dry-run"])
    assert (options.executor, options.retries, options.slurm_requeue) == ("slurm", 20, True)
    assert options.default_resources is not None
    # sacct may be there and disabled: Snakemake would ask it for ever
    assert options.slurm_status_command == "squeue"
    # SLURM forgets a job after 300 s; below three times the first interval the plugin takes sacct
    assert 3 * options.slurm_init_seconds_before_status_checks <= 120


def test_jobs_are_told_to_stop_before_their_time_is_over(profile):
    extra = profile["default-resources"]["slurm_extra"].strip("'")
    signal, seconds = re.fullmatch(r"--signal=(\w+)@(\d+)", extra).groups()
    assert signal == "TERM"  # USR1 ends the Snakemake that runs the job, and its job with it
    assert int(seconds) < 60 * profile["default-resources"]["runtime"]
    assert profile["retries"] >= 10
    assert profile["slurm-requeue"] is True


@pytest.fixture(scope="module")
def config() -> dict:
    return check_config(yaml.safe_load((ROOT / "tests" / "workflow" / "small.yaml").read_text()))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A function: path of a data file with so many cases and features."""
    folder = tmp_path_factory.mktemp("data")

    def make(n: int, p: int) -> str:
        path = folder / f"{n}_{p}.nc"
        with h5py.File(path, "w") as file:
            file.create_dataset("X", (n, p), np.float64)
        return str(path)

    return make


@pytest.mark.parametrize("n", [200, 5000])
@pytest.mark.parametrize("workers", [1, 4])
def test_memory_is_more_than_the_jobs_forecast(config, data, n, workers):
    path, execution = data(n, 50), {**config["execution"], "workers": workers}
    gp = memory_mb(config, "digits", path, workers, 1) * 1e6
    for method in config["studies"]["rmhmc_ais"]["methods"].values():
        assert gp > rmhmc_ais.memory_forecast(n, method, execution, on_disk=True) + 270e6
    assert gp > MATRICES * 8 * n * n + 270e6
    linear = memory_mb(config, "simulated", path, workers, 1) * 1e6
    assert linear > 8 * (split_hmc.MATRICES * n * 51 + 8 * n * 4) + 270e6
    assert memory_mb(config, "digits", data(2 * n, 50), 1, 1) > memory_mb(
        config, "digits", path, 1, 1
    )


@pytest.mark.parametrize("n", [200, 5000])
def test_memory_of_an_analysis_is_more_than_its_forecast_and_grows_with_processes(
    config, tmp_path, n
):
    path = tmp_path / "data.nc"
    with h5py.File(path, "w") as file:
        file.create_dataset("learning/X", shape=(n, 7), dtype="f8")
    for processes in (1, 4):
        asked = analysis_memory_mb(config, path, processes, 1) * 1e6
        assert asked > processes * (8 * costs.DENSE_MATRICES * n * n + 270e6)
    basis = analysis_memory_mb(config, path, 1, 1, "basis") * 1e6
    assert basis > 8 * (costs.BASIS_MATRICES * 400 * n + 30 * n + 10 * 400**2) + 270e6
    assert (basis < analysis_memory_mb(config, path, 1, 1) * 1e6) == (n > 1000)
    assert analysis_memory_mb(config, path, 1, 2) > analysis_memory_mb(config, path, 1, 1)
    limited = {**config, "memory_limit_gb": 0.5}
    assert analysis_memory_mb(limited, path, 1, 1) <= 500 + 1200


def test_memory_grows_with_the_attempt_up_to_twice(config, data):
    asked = [memory_mb(config, "digits", data(1000, 5), 1, attempt) for attempt in range(1, 22)]
    assert asked[1] == pytest.approx(1.5 * asked[0], rel=1e-3)
    assert asked[2] == pytest.approx(2 * asked[0], rel=1e-3)
    assert len(set(asked[2:])) == 1


def test_memory_limit_of_the_config_is_enough(config, data):
    limited = {**config, "memory_limit_gb": 0.5}
    assert memory_mb(limited, "digits", data(20000, 5), 1, 1) == 500 + 1200


def test_walltime_follows_the_work_and_the_attempt_up_to_an_hour(config, data):
    method = methods_of(config["studies"]["split_hmc"])["simulated"]["hmc"]

    def minutes(n: int, attempt: int = 1, **changed) -> int:
        changed = {**method, **changed}
        return runtime_minutes(config, "simulated", data(n, 100), changed, attempt)

    assert minutes(200) < minutes(4000, draws=50_000) <= WALLTIME_MINUTES
    assert minutes(200, attempt=2) == 2 * minutes(200)
    assert minutes(200, attempt=20) == WALLTIME_MINUTES
    annealing = config["studies"]["rmhmc_ais"]["methods"]["split_hmc_ep"]
    assert runtime_minutes(config, "digits", data(300, 5), annealing, 1) >= 15


def test_data_that_are_not_there_yet_are_named(tmp_path):
    path = str(tmp_path / "later.nc")
    with pytest.raises(FileNotFoundError) as raised:
        problem_sizes(path)
    assert raised.value.filename == path  # by which Snakemake knows that it is an input


def test_a_damaged_data_file_is_for_its_job_to_refuse(tmp_path):
    """An error here would be a traceback of Snakemake's, before any job starts."""
    path = tmp_path / "data.nc"
    with pytest.raises(FileNotFoundError):
        problem_sizes(path)
    path.write_bytes(b"no HDF5")
    assert problem_sizes(path) == (1, 1)
    attributes = standard_attributes(settings={}, seed=0, data_checksum="a")
    inputs = xr.Dataset({"X": (("case", "feature"), np.ones((7, 3)))}, attrs=attributes)
    write_results(xr.DataTree(inputs), path)
    assert problem_sizes(path) == (7, 3)
    content = path.read_bytes()
    for at in range(0, len(content), 97):
        path.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
        os.utime(path, ns=(at + 1, at + 1))  # another state of the file
        assert problem_sizes(path) == (1, 1)
