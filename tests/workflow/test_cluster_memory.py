"""The memory a cluster job asks for its chains is that of real jobs: enough, and not four times it."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
import xarray as xr

from gpmcflow.data import load_dataset
from gpmcflow.jobs.resources import memory_mb
from gpmcflow.replications import stages
from gpmcflow.replications.rmhmc_ais import runs as rmhmc_ais
from gpmcflow.replications.split_hmc import runs as split_hmc
from gpmcflow.storage import write_results

PROBLEMS = {
    "gp": {
        "model": "gp", "likelihood": "probit",
        "hyperparameters": {"log_length_scale": 0.3, "log_signal_sd": 1.0},
    },
    "linear": {"model": "linear", "likelihood": "logistic", "prior_sd": 3.0},
}  # fmt: skip
SEGMENT = 20
AIS = {"kind": "ais", "sampler": "preconditioned_split_hmc", "ladder": "linear", "reference": "ep",
       "temperatures": [5], "replicates": 1, "step_size": 0.3, "n_steps": 1}  # fmt: skip
LADDER = {"kind": "parallel_tempering", "temperatures": [5], "draws": 20, "warmup": 0}
DRAWN = {"draws": 2 * SEGMENT, "warmup": 0, "tuning": {"max_steps": 2, "rounds": 1}}
# a job, and which of its settings is the number of chains
EVIDENCE = {
    "annealing": (AIS, "particles"),
    "annealing with latents": (
        AIS | {"temperatures": [2 * SEGMENT], "store_latents": True},
        "particles",
    ),
    "rmhmc": (AIS | {"sampler": "rmhmc"}, "particles"),
    "parallel tempering": (AIS | LADDER, "replicates"),
}
POSTERIOR = {
    "split": DRAWN | {"sampler": "preconditioned_split_hmc"},
    "elliptical": DRAWN | {"sampler": "elliptical_slice"},
}
REGRESSION = {
    "sampler": "data_split_hmc", "step_size": 0.1, "n_steps": 1, "inner_steps": 2,
    "draws": SEGMENT, "thin": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def gp():
    dataset = stages.prepare_data("toy", {"synthetic": {"n": 150, "n_test": 0, "seed": 2}})
    return dataset, stages.approximate(dataset, PROBLEMS["gp"], seed=1)[0]


@pytest.fixture(scope="module")
def regression():
    dataset = load_dataset("shahbaba-simulated", n=150).isel(feature=slice(0, 60))
    dataset = dataset.assign_attrs(name="drawn")
    return dataset, split_hmc.fit(dataset, PROBLEMS["linear"], seed=3)[0]


@pytest.fixture
def check(tmp_path):
    """A function: compare what more chains take with what they ask for; the rest cancels."""

    def compare(problem: str, dataset, job, settings, fewer: int, more: int):
        data = tmp_path / "data.nc"
        write_results(xr.DataTree(dataset), data)

        def megabytes(chains: int, folder: str) -> tuple[float, float]:
            execution = {"workers": 1, "scheduler": None, "block_size": chains}
            execution["segment_length"] = SEGMENT
            config = {"problems": PROBLEMS, "execution": execution, "memory_limit_gb": None}
            asked = memory_mb(config, problem, data, 1, settings(chains))
            gc.collect()
            tracemalloc.start()
            try:
                job(settings(chains), execution=execution, state_dir=tmp_path / folder)
                return tracemalloc.get_traced_memory()[1] / 1e6, asked
            finally:
                tracemalloc.stop()

        megabytes(fewer, "first")  # what is loaded and kept once
        (taken_by_fewer, asked_by_fewer) = megabytes(fewer, "fewer")
        (taken_by_more, asked_by_more) = megabytes(more, "more")
        taken, asked = taken_by_more - taken_by_fewer, asked_by_more - asked_by_fewer
        assert taken > 4  # well above the megabyte to which a job rounds
        assert taken - 1 <= asked <= 4 * taken + 1

    return compare


@pytest.mark.parametrize("name", EVIDENCE)
def test_evidence(name, gp, check):
    method, chains = EVIDENCE[name]

    def job(settings, **how):
        names = {"problem_name": "toy", "method_name": name, "seed": 1}
        rmhmc_ais.evidence(*gp, PROBLEMS["gp"], settings, **names, **how)

    sizes = (20, 75) if name in ("rmhmc", "parallel tempering") else (200, 600)
    check("gp", gp[0], job, lambda number: method | {chains: number}, *sizes)


@pytest.mark.parametrize("name", POSTERIOR)
def test_posterior(name, gp, check):
    def job(settings, **how):
        stages.posterior(*gp, PROBLEMS["gp"], settings, problem_name="toy", seed=1, **how)

    check("gp", gp[0], job, lambda number: POSTERIOR[name] | {"chains": number}, 50, 200)


def test_regression(regression, check, monkeypatch):
    monkeypatch.setattr(split_hmc, "TIMED_SECONDS", 0.01)

    def job(settings, **how):
        names = {"problem_name": "drawn", "method_name": "split", "seed": 1}
        split_hmc.chains(*regression, PROBLEMS["linear"], settings, **names, **how)

    check("linear", regression[0], job, lambda number: REGRESSION | {"chains": number}, 100, 300)
