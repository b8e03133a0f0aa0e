"""The jobs of study fast_likelihood: those of Snakemake, of the plan and of the forecast."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gpmcflow.pipeline.config import check_config
from gpmcflow.pipeline.forecast import forecast, forecast_table
from gpmcflow.pipeline.plan import count_runs, planned_jobs

ROOT = Path(__file__).parents[2]
CONFIG = {
    "studies": {
        "fast_likelihood": {
            "replicates": 2,
            "iterations": 60,
            "pilot": 30,
            "tuning": {"replicates": 1, "iterations": 60},
            "types": {
                "first": {"data": 1, "n": 30, "methods": ["standard", "sod"], "replicates": 1},
                "second": {"data": 2, "n": 30, "methods": ["standard", "sod", "tempered"]},
            },
        }
    }
}
RUNS = ["first/replicate_0", "second/replicate_0", "second/replicate_1"]


def snakemake(folder: Path, config: dict, *arguments: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    command += ["--directory", str(folder), "--configfile", str(path), "--cores", "1", *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SNAKEMAKE")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fast_likelihood")
    snakemake(folder, CONFIG)
    return folder


def test_the_jobs_are_those_of_snakemake(tmp_path):
    planned = {job.output: job for job in planned_jobs(check_config(CONFIG))}
    text = snakemake(tmp_path, CONFIG, "--dry-run")
    found = set(re.findall(r"output: (.+)", text))
    outputs = {name for line in found for name in line.split(", ")}
    assert set(planned) <= outputs
    counts = dict(re.findall(r"^(\w+) +(\d+)$", text, flags=re.MULTILINE))
    rules = [job.rule for job in planned.values()]
    assert {rule: str(rules.count(rule)) for rule in rules} == {
        rule: n for rule, n in counts.items() if rule not in ("all", "total")
    }
    figures = planned["results/fast_likelihood/figures/figure_2.png"]
    runs = [f"results/fast_likelihood/{name}.nc" for name in RUNS[1:]]
    assert figures.needs == ("results/fast_likelihood/runs.csv", *runs)


def test_whole_run_ends_in_tables_and_one_page(finished):
    results = finished / "results"
    for name in (*RUNS, "first/tuning", "second/tuning"):
        assert (results / "fast_likelihood" / f"{name}.nc.json").is_file()
    runs = (results / "fast_likelihood" / "runs.csv").read_text().splitlines()
    assert len(runs) == 1 + 2 + 3
    page = (results / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "Wang &amp; Neal 2013" in page or "Wang & Neal 2013" in page


def test_more_data_sets_run_no_job_again(finished):
    more = {"studies": {"fast_likelihood": dict(CONFIG["studies"]["fast_likelihood"])}}
    more["studies"]["fast_likelihood"] |= {"replicates": 4}
    text = snakemake(finished, more, "--dry-run", "--quiet", "rules")
    counts = dict(re.findall(r"^(\w+) +(\d+)$", text, flags=re.MULTILINE))
    assert counts["fast_likelihood_replicate"] == "2"  # the first type states its own number
    assert "fast_likelihood_tune" not in counts


def test_forecast_and_count_of_runs(tmp_path):
    config = check_config(CONFIG)
    assert count_runs(config) == 1 * 2 + 2 * 3
    found = forecast(config, folder=tmp_path)
    costs = {job.job.output: job.cost for job in found.jobs}
    assert all(cost is not None and cost.seconds > 0 for cost in costs.values())
    assert "fast_likelihood_replicate" in forecast_table(found)
    longer = check_config(CONFIG)
    longer["studies"]["fast_likelihood"]["iterations"] = 60_000
    name = "results/fast_likelihood/first/replicate_0.nc"
    more = {job.job.output: job.cost for job in forecast(longer, folder=tmp_path).jobs}
    assert more[name].seconds > costs[name].seconds + 2.0
