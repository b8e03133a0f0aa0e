"""The jobs of study surrogate_slice: those of the plan and of the forecast, and what they write."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpmcflow.errors import InputError
from gpmcflow.pipeline.config import check_config
from gpmcflow.pipeline.forecast import forecast, forecast_table
from gpmcflow.pipeline.plan import count_runs, planned_jobs
from gpmcflow.storage import load_results
from gpmcflow.storage.input_files import load_yaml

ROOT = Path(__file__).parents[2]
CONFIG = {
    "datasets": {
        "calls": {"csv": "calls.csv", "target": "calls", "task": "counts"},
        "drawn": {"synthetic_regression": {"n": 12, "n_features": 2}},
    },
    "problems": {
        "mine": {
            "dataset": "calls",
            "model": "joint",
            "likelihood": "poisson",
            "covariance": "matern32() * group(place)",
        },
        "drawn": {"dataset": "drawn", "model": "joint", "likelihood": "gaussian"},
    },
    "studies": {
        "surrogate_slice": {
            "replicates": 1,
            "chains": 2,
            "iterations": 40,
            "warmup": 10,
            "thin": 2,
            "problems": {
                "mine": {"surr-site": {"replicates": 1}, "post-taylor": {}, "joint-split": {}},
                "drawn": {"mh": {"representation": "surr-site", "update": "metropolis"}},
            },
        }
    },
}
CSV = "hours,place,calls\n" + "".join(f"{k % 5},{k * k % 7}.5,{k * 3 % 5}\n" for k in range(20))
RUNS = [
    "mine/surr-site/replicate_0", "mine/post-taylor/replicate_0", "mine/joint-split/replicate_0",
    "drawn/mh/replicate_0",
]  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory, run_all_jobs):
    folder = tmp_path_factory.mktemp("surrogate_slice")
    (folder / "calls.csv").write_text(CSV)
    run_all_jobs(folder, CONFIG)
    return folder


@pytest.fixture
def config(tmp_path, monkeypatch):
    (tmp_path / "calls.csv").write_text(CSV)
    monkeypatch.chdir(tmp_path)
    return check_config(CONFIG)


def test_intensities_are_of_counts_alone(config):
    drawn = next(job for job in planned_jobs(config) if job.rule == "surrogate_slice_figures")
    intensities = [path for path in drawn.outputs.values() if "intensity" in path]
    assert intensities == ["results/surrogate_slice/figures/mine/intensity.png"]
    assert drawn.inputs["intensities"] == ["results/surrogate_slice/mine/surr-site/replicate_0.nc"]


def test_whole_run_from_a_csv_file_ends_in_tables_and_one_page(finished):
    results = finished / "results"
    for name in RUNS:
        assert (results / "surrogate_slice" / f"{name}.nc.json").is_file()
    for table in ("verdict", "which_sampler", "efficiency", "posterior"):
        assert len((results / "surrogate_slice" / f"{table}.csv").read_text().splitlines()) > 3
    tree = load_results(results / "surrogate_slice" / "mine" / "post-taylor" / "replicate_0.nc")
    assert tree["posterior"].sizes["latent_dim"] == 20
    assert tree["constant_data"]["feature"].values.tolist() == ["hours", "place"]
    page = (results / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "Murray &amp; Adams 2010" in page or "Murray & Adams 2010" in page


def test_more_replicates_change_no_job_that_was_planned(config):
    more = copy.deepcopy(config)
    more["studies"]["surrogate_slice"]["replicates"] = 3
    runs, many = (
        {job.output: (job.inputs, job.settings) for job in planned_jobs(c) if ".nc" in job.output}
        for c in (config, more)
    )
    assert {name: many[name] for name in runs} == runs
    assert len(many) - len(runs) == 6  # one method states its own number


def test_wrong_data_end_in_one_line(tmp_path, snakemake):
    (tmp_path / "calls.csv").write_text(CSV.replace(",3\n", ",3.5\n"))
    config = copy.deepcopy(CONFIG)
    config["datasets"]["calls"]["task"] = "regression"  # which takes any number
    output = "results/surrogate_slice/mine/surr-site/replicate_0.nc"
    failed = snakemake(tmp_path, output, "--quiet", "rules", config=config)
    assert failed.returncode == 1
    lines = [line for line in failed.stderr.splitlines() if line.startswith("ERROR:")]
    assert lines == [
        "ERROR: config: problems.mine.likelihood: data set calls: poisson likelihood: y[1] is 3.5; "
        "allowed: counts 0, 1, 2, ..."
    ]


@pytest.mark.usefixtures("quick_measurements")
def test_forecast_and_count_of_runs(tmp_path, config):
    assert count_runs(config) == 1 + 1 + 1 + 1
    found = forecast(config, folder=tmp_path)
    costs = {job.job.output: job.cost for job in found.jobs}
    assert all(cost is not None and cost.seconds > 0 for cost in costs.values())
    assert "surrogate_slice_replicate" in forecast_table(found)
    config["studies"]["surrogate_slice"]["iterations"] = 60_000
    more = {job.job.output: job.cost for job in forecast(config, folder=tmp_path).jobs}
    name = f"results/surrogate_slice/{RUNS[0]}.nc"
    assert more[name].seconds > costs[name].seconds + 2.0
    assert more[name].disk > costs[name].disk


def test_forecast_of_joint_split_hmc_counts_its_pilots(monkeypatch, tmp_path, config):
    from gpmcflow.replications.surrogate_slice import forecast as costs

    model = SimpleNamespace(
        dim=3,
        n_cases=10,
        numbers_held=1000,
        kronecker=False,
        likelihood=SimpleNamespace(relative_sites=False),
    )
    monkeypatch.setattr(costs, "_pace", lambda *_: (0.5, model))
    found = {job.job.output: job.cost for job in forecast(config, folder=tmp_path).jobs}
    joint, slices = (found[f"results/surrogate_slice/{RUNS[k]}.nc"].seconds for k in (2, 1))
    # rounds of 760 once and 60 transitions of two chains, in place of 10 iterations of either
    pilots, warmup = 760 + 2 * 60, 2 * 10
    assert joint - slices == pytest.approx(0.5 * (pilots - warmup), abs=1.0)


def test_forecast_of_a_hyperprior_without_a_transform_names_the_key(tmp_path, config):
    normal = {"distribution": "norm", "parameters": {"loc": 1.0, "scale": 1.0}, "scale": "natural"}
    covariance = {"covariance": "matern32(length_scale=normal)", "priors": {"normal": normal}}
    config["problems"]["mine"] |= covariance
    with pytest.raises(
        InputError, match=r"config: studies\.surrogate_slice\.problems\.mine\.joint-split"
    ):
        forecast(config, folder=tmp_path)


def test_paper_has_its_problems_methods_and_sizes(monkeypatch):
    monkeypatch.chdir(ROOT)
    paper = check_config(load_yaml(ROOT / "config" / "paper.yaml"))
    study = paper["studies"]["surrogate_slice"]
    assert (study["replicates"], study["iterations"], study["warmup"]) == (10, 5000, 1000)
    six = {"fixed", "prior-white", "surr-site", "surr-taylor", "post-site", "post-taylor"}
    plain = {
        problem: {name: method["replicates"] for name, method in methods.items() if name in six}
        for problem, methods in study["problems"].items()
    }
    four = dict.fromkeys(six - {"surr-taylor", "post-taylor"})  # as many as the study has
    assert plain["ionosphere"] == four
    assert plain["synthetic"] == four | dict.fromkeys(("fixed", "surr-site", "post-site"), 20)
    assert plain["coal"] == plain["redwoods"] == dict.fromkeys(six)
    assert all(study["problems"]["coal"][name]["iterations"] == 20000 for name in six)


def test_data_with_options_that_are_not_here_are_not_downloaded(tmp_path, monkeypatch):
    from gpmcflow.jobs import costs as context

    monkeypatch.delenv("GPMCFLOW_DATA", raising=False)
    monkeypatch.setattr(context, "cache_folder", lambda: tmp_path)
    config = {
        "datasets": {"cells": {"redwood": {"side": 5}}, "coarse": {"coal": {"bin_days": 4000}}},
        "studies": {"fast_likelihood": {"types": {"a": {"data": 1}}}},
    }
    found = context.Context(check_config(config), tmp_path)
    assert found.data("cells") is None
    assert found.data("coarse")[1].sizes["case"] == 11
