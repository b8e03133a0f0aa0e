"""Annealing and sampling through the runner: same arrays everywhere, files others can open, memory."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import arviz_base
import arviz_stats
import netCDF4
import numpy as np
import pytest

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.data import load_dataset
from gpmcflow.evidence.annealing import evidence_dataset
from gpmcflow.evidence.log_evidence import log_evidence
from gpmcflow.execution import Execution, array_digest
from gpmcflow.likelihoods import Probit
from gpmcflow.models.gp_model import GPModel
from gpmcflow.samplers.sampling import sample
from gpmcflow.storage import load_results, open_results, write_results

HOW = Execution(block_size=5, segment_length=4)
RUN = {"n_temperatures": 12, "n_particles": 12, "execution": HOW}


@pytest.fixture(scope="module")
def sites():
    data = load_dataset("synthetic-gpc", n=30, seed=4)
    covariance = SquaredExponential(1.0, 2.0)
    model = GPModel(data.X, data.y.values, covariance, Probit()).at()
    return expectation_propagation(model).sites


def digest(tree):
    return array_digest({name: np.asarray(v.values) for name, v in tree["annealing"].items()})


@pytest.fixture(scope="module")
def reference_digest(sites):
    return digest(log_evidence(sites, "annealing", **RUN))


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_schedulers_give_the_same_arrays(sites, reference_digest, scheduler):
    how = replace(HOW, scheduler=scheduler, workers=2)
    run = log_evidence(sites, "annealing", **RUN | {"execution": how})
    assert digest(run) == reference_digest


def test_segments_on_disk_and_their_length_do_not_change_the_arrays(
    sites, reference_digest, tmp_path
):
    how = replace(HOW, segment_length=5, state_dir=tmp_path, settings={})
    first = log_evidence(sites, "annealing", **RUN | {"execution": how})
    assert digest(first) == reference_digest
    for path in sorted(tmp_path.rglob("segment_00002.npz")):
        path.unlink()  # what a killed run would not have
    again = log_evidence(sites, "annealing", **RUN | {"execution": how})
    assert digest(again) == reference_digest


def test_another_seed_gives_other_arrays(sites, reference_digest):
    run = log_evidence(sites, "annealing", seed=1, **RUN)
    assert digest(run) != reference_digest


def test_lazy_run_computes_the_same_when_asked(sites, reference_digest):
    how = replace(HOW, compute=False)
    lazy = log_evidence(sites, "annealing", **RUN | {"execution": how})
    assert lazy["annealing/log_weight_increment"].chunks == ((5, 5, 2), (4, 4, 4))
    assert "evidence" not in lazy.children
    done = lazy["annealing"].to_dataset().compute(scheduler="threads", num_workers=2)
    assert array_digest({k: v.values for k, v in done.items()}) == reference_digest
    eager = log_evidence(sites, "annealing", **RUN)["evidence"]
    assert float(evidence_dataset(done)["log_evidence"]) == float(eager["log_evidence"])


def test_stored_latents_are_the_particles_and_do_not_change_the_weights(sites, reference_digest):
    run = log_evidence(sites, "annealing", store_latents=True, **RUN)
    latent = run["annealing/latent"]
    assert latent.dims == ("chain", "temperature", "latent_dim")
    expected = Probit().log_density(latent.values[:, -1], sites.model.y)
    found = run["annealing/sum_log_likelihood"].values[:, -1]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    without = {k: v.values for k, v in run["annealing"].items() if k != "latent"}
    assert array_digest(without) == reference_digest


def test_posterior_file_opens_in_arviz_and_netcdf4(sites, tmp_path):
    tree = sample(sites, n_chains=4, n_draws=100, n_warmup=20)
    path = tmp_path / "posterior.nc"
    write_results(tree, path)
    loaded = load_results(path)
    rhat = arviz_stats.rhat(loaded)
    assert float(rhat["latent"].max()) < 1.1
    assert arviz_base.convert_to_datatree(str(path))["posterior"].sizes["draw"] == 100
    assert set(arviz_base.extract(loaded, num_samples=5).dims) >= {"sample", "latent_dim"}
    with netCDF4.Dataset(path) as raw:
        assert set(raw.groups) == {
            "posterior", "sample_stats", "observed_data", "constant_data", "log_likelihood",
            "posterior_predictive", "log_prior", "prior", "prior_predictive",
        }  # fmt: skip
        stored = raw["posterior/latent"][:]
    np.testing.assert_array_equal(stored, tree["posterior/latent"].values)


def test_annealing_file_opens_in_arviz_and_netcdf4(sites, tmp_path):
    tree = log_evidence(sites, "annealing", **RUN)
    path = tmp_path / "evidence.nc"
    write_results(tree, path)
    with netCDF4.Dataset(path) as raw:
        increments = raw["annealing/log_weight_increment"][:]
        assert raw["evidence/log_evidence"][...] == float(tree["evidence/log_evidence"])
    np.testing.assert_array_equal(increments, tree["annealing/log_weight_increment"].values)
    assert "annealing" in arviz_base.convert_to_datatree(str(path)).children
    assert open_results(path)["annealing"].sizes == {"chain": 12, "temperature": 12}


@pytest.fixture(scope="module")
def peak_memory(tmp_path_factory):
    """Peak bytes of a process that runs a share of the large benchmark."""
    benchmarks = Path(__file__).parents[2] / "benchmarks"
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import memory; from pathlib import Path\n"
        "from gpmcflow.execution import pin_blas; pin_blas()\n"
        "facts = memory.run(int(sys.argv[2]), sys.argv[3] == 'latents', 1, Path(sys.argv[4]))\n"
        "print(facts['peak'])"
    )

    def peak(share: int, latents: str) -> int:
        folder = tmp_path_factory.mktemp("memory")
        command = [sys.executable, "-c", script, benchmarks, str(share), latents, folder]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    return peak


def test_memory_of_a_sixteenth_of_the_large_run(peak_memory):
    """4096 particles x 767 x 200 must stay under 2 GB; a sixteenth of the particles in proportion.

    The bound is what a process with the package loaded and the 767 x 767 factors takes (2 particles)
    plus a sixteenth of 2 GB; holding every latent would take 0.3 GB more.
    """
    bound = peak_memory(2048, "none") + 2e9 / 16
    assert peak_memory(16, "none") < bound
    assert peak_memory(16, "latents") < bound
