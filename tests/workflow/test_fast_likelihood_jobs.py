"""The jobs of study fast_likelihood: those of the plan and of the forecast, and what they write."""

from __future__ import annotations

import copy

import pandas as pd
import pytest

from gpmcflow.pipeline.config import check_config
from gpmcflow.pipeline.forecast import forecast, forecast_table
from gpmcflow.pipeline.plan import count_runs, planned_jobs

CONFIG = {
    "studies": {
        "fast_likelihood": {
            "replicates": 2,
            "iterations": 60,
            "pilot": 30,
            "tuning": {"replicates": 1, "iterations": 60},
            "types": {
                "first": {
                    "data": 1,
                    "n": 30,
                    "methods": ["standard", "sod", "student"],
                    "replicates": 1,
                    "more": 1,
                },
                "second": {"data": 2, "n": 30, "methods": ["standard", "sod", "tempered"]},
            },
        }
    }
}
RUNS = [f"{name}/replicate_{k}" for name in ("first", "second") for k in (0, 1)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, run_all_jobs):
    folder = tmp_path_factory.mktemp("fast_likelihood")
    run_all_jobs(folder, CONFIG)
    return folder


def test_figures_are_of_the_type_of_most_methods():
    planned = {job.output: job for job in planned_jobs(check_config(CONFIG))}
    figures = planned["results/fast_likelihood/figures/figure_2.png"]
    runs = [f"results/fast_likelihood/{name}.nc" for name in RUNS[2:]]
    assert figures.needs == ("results/fast_likelihood/runs.csv", *runs)


def test_whole_run_ends_in_tables_and_one_page(finished):
    results = finished / "results"
    for name in (*RUNS, "first/tuning", "second/tuning"):
        assert (results / "fast_likelihood" / f"{name}.nc.json").is_file()
    runs = (results / "fast_likelihood" / "runs.csv").read_text().splitlines()
    assert len(runs) == 1 + 3 + 3
    page = (results / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "Wang &amp; Neal 2013" in page or "Wang & Neal 2013" in page


def test_data_sets_beside_have_the_papers_methods_alone(finished):
    """They count for these, and leave the others as they are."""
    planned = {job.output: job.settings for job in planned_jobs(check_config(CONFIG))}
    own, beside = (
        planned[f"results/fast_likelihood/first/replicate_{k}.nc"]["settings"] for k in (0, 1)
    )
    assert beside == own | {"methods": ["standard", "sod"], "timed": False}
    runs = pd.read_csv(finished / "results" / "fast_likelihood" / "runs.csv")
    counts = runs[runs["problem"] == "first"].set_index("method")["replicates"]
    assert counts.to_dict() == {"standard": 2, "sod": 2, "student": 1}


def test_more_data_sets_change_no_job_that_was_planned():
    few, many = (check_config(copy.deepcopy(CONFIG)) for _ in range(2))
    many["studies"]["fast_likelihood"]["replicates"] = 4
    runs, more = (
        {
            job.output: (job.inputs, job.settings)
            for job in planned_jobs(config)
            if ".nc" in job.output
        }
        for config in (few, many)
    )
    assert {name: more[name] for name in runs} == runs
    new = sorted(more.keys() - runs.keys())  # the first type states its own number
    assert new == [f"results/fast_likelihood/second/replicate_{k}.nc" for k in (2, 3)]


@pytest.mark.usefixtures("quick_measurements")
def test_forecast_and_count_of_runs(tmp_path):
    config = check_config(CONFIG)
    assert count_runs(config) == 1 * 3 + 1 * 2 + 2 * 3
    found = forecast(config, folder=tmp_path)
    costs = {job.job.output: job.cost for job in found.jobs}
    assert all(cost is not None and cost.seconds > 0 for cost in costs.values())
    assert "fast_likelihood_replicate" in forecast_table(found)
    longer = check_config(CONFIG)
    longer["studies"]["fast_likelihood"]["iterations"] = 60_000
    name = "results/fast_likelihood/first/replicate_0.nc"
    more = {job.job.output: job.cost for job in forecast(longer, folder=tmp_path).jobs}
    assert more[name].seconds > costs[name].seconds + 2.0
