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

from gpmcflow.jobs.resources import (
    analysis_memory_mb,
    fit_numbers,
    memory_mb,
    model_numbers,
    of_problem,
    problem_sizes,
    run_numbers,
    small,
)
from gpmcflow.models.gp_model import MANY_CASES
from gpmcflow.pipeline.config import check_config
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
def test_jobs_ask_for_what_they_hold_and_their_processes(config, data, n, workers):
    """The arrays below which a job refuses to start, with a quarter of the fit to spare, fit into the ask."""
    path, execution = data(n, 50), config["execution"]
    gp, linear = (config["problems"][name] for name in ("digits", "simulated"))
    for method in [{}, *config["studies"]["rmhmc_ais"]["methods"].values()]:
        held = 8 * run_numbers(gp, execution, n, 50, method, workers)
        asked = memory_mb(config, "digits", path, workers, method) * 1e6
        assert asked >= held + 16 * n * n + 270e6 * (1 + workers)
    held = 8 * fit_numbers(linear, n, 50)
    assert held >= 8 * 6 * n * 51
    assert memory_mb(config, "simulated", path, 1, {}) * 1e6 >= 1.25 * held + 270e6


def test_what_a_run_holds_is_counted_once():
    """n = 100 cases: a fit of 8 n^2, and per chain of a block 2000 numbers, 18 n of a state, what is kept."""
    gp, execution = {"model": "gp"}, {"block_size": 10, "segment_length": 50}
    ais = {"kind": "ais", "particles": 30, "temperatures": [5, 20], "replicates": 2}
    fit, state = 8 * 100**2, 2000 + 18 * 100

    def held(processes: int = 1, **changes) -> int:
        return run_numbers(gp, execution, 100, 3, ais | changes, processes)

    kept = 30 * 8 * 20 * 2
    assert held() == fit + 10 * state + kept
    assert held(3) == fit + 30 * state + kept
    assert held(particles=4) == fit + 4 * (state + 8 * 20 * 2)
    assert held(reverse=True) == held() + 30 * 3 * 100
    assert held(store_latents=True) == held() + 10 * 2 * 50 * 100
    assert held(sampler="rmhmc") == held() + 10 * (100**2 + (56 - 18) * 100)
    inside = {"kind": "parallel_tempering", "replicates": 4, "draws": 6, "warmup": 1}
    assert held(**inside) == fit + 4 * (2000 + 20 * 18 * 100 + 8 * 20 * 7)
    slices = {"chains": 4, "iterations": 100, "warmup": 20, "thin": 10}
    joint = run_numbers({"model": "joint"}, execution, 100, 3, slices, 1)
    assert joint == 12 * 100**2 + 4 * (state + 2 * 50 * 100 + 2 * 100 * 12)
    many = {"model": "linear", "likelihood": "multinomial"}
    assert fit_numbers(many, 100, 3) == 6 * 100 * 32 + 32**2
    assert run_numbers(many, execution, 100, 3, {"chains": 1}, 1) == fit_numbers(many, 100, 3) + (
        2000 + 18 * (32 + 8 * 100) + 2 * 50 * 32
    )


@pytest.mark.parametrize("n", [200, 5000])
def test_memory_of_an_analysis_grows_with_processes_and_follows_the_structure(config, tmp_path, n):
    path = tmp_path / "data.nc"
    with h5py.File(path, "w") as file:
        file.create_dataset("learning/X", shape=(n, 7), dtype="f8")
    for processes in (1, 4):
        asked = analysis_memory_mb(config, path, processes, "dense") * 1e6
        assert asked >= processes * (1.25 * 8 * model_numbers(n) + 270e6)
    basis = analysis_memory_mb(config, path, 1, "basis") * 1e6
    assert basis >= 8 * model_numbers(n, 400) + 270e6
    dense, auto = (
        analysis_memory_mb(config, path, 1, structure) * 1e6 for structure in ("dense", "auto")
    )
    assert (basis < dense) == (n > 1000)
    most = max(basis, 1.25 * 8 * model_numbers(MANY_CASES) + 1200e6)
    assert auto == (pytest.approx(most, abs=1e6) if n > MANY_CASES else dense)
    limited = {**config, "memory_limit_gb": 0.5}
    assert analysis_memory_mb(limited, path, 1) <= 500 + 1200


def test_memory_and_walltime_grow_with_the_attempt_up_to_twice_and_an_hour():
    asked = small(1000, 25)
    memory, minutes = zip(
        *((asked.megabytes({}, None, 1, k), asked.minutes(k)) for k in range(1, 5)), strict=True
    )
    assert memory == (1000, 1500, 2000, 2000)
    assert minutes == (25, 50, 60, 60)
    assert of_problem().minutes(1) == 60  # of chains, which go on in the next attempt


def test_memory_limit_of_the_config_is_enough(config, data):
    limited = {**config, "memory_limit_gb": 0.5}
    assert memory_mb(limited, "digits", data(20000, 5), 1, {}) == 500 + 1200


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
