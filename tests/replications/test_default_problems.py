"""The digits of config/replications.yaml show what they are there to show, at the smallest ladder lengths."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpmcflow.pipeline.config import check_config
from gpmcflow.replications import stages
from gpmcflow.replications.rmhmc_ais import runs as rmhmc_ais

CONFIG = Path(__file__).parents[2] / "config" / "replications.yaml"
EXECUTION = {"workers": 1, "scheduler": None, "block_size": 64, "segment_length": 25}
LENGTHS = (10, 30)
COST_RATIO = 1.5  # methods whose gradients differ by no more than that cost the same


@pytest.fixture(scope="module")
def config():
    return check_config(yaml.safe_load(CONFIG.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def fits(config):
    """Data set and approximations of each problem."""
    found = {}
    for name in ("digits-easy", "digits-hard"):
        problem = config["problems"][name]
        dataset = stages.prepare_data(problem["dataset"], None)
        found[name] = dataset, stages.approximate(dataset, problem, seed=config["seed"])[0]
    return found


@pytest.fixture(scope="module")
def run(config, fits):
    """A function: table of evidences of a method on a problem, one replicate, short ladders."""

    def table(problem: str, name: str):
        method = config["studies"]["rmhmc_ais"]["methods"][name] | {"replicates": 1}
        if "temperatures" in method:
            assert set(LENGTHS) <= set(method["temperatures"])
            method |= {"temperatures": list(LENGTHS), "reverse": False}
        tree, _ = rmhmc_ais.evidence(
            *fits[problem],
            config["problems"][problem],
            method,
            problem_name=problem,
            method_name=name,
            seed=config["seed"],
            execution=EXECUTION,
        )
        return tree["evidence"].to_dataset().isel(replicate=0)

    return table


@pytest.fixture(scope="module")
def from_prior(run):
    return run("digits-hard", "hmc_prior")


@pytest.fixture(scope="module")
def from_ep(run):
    return run("digits-hard", "split_hmc_ep")


def corrected(fits, name: str) -> float:
    """EP evidence plus the second-order correction."""
    fit = fits[name][1]["approximation"].to_dataset()
    return float(fit["log_evidence"].sel({"method": "ep"})) + float(fit["correction"][-1])


def test_hard_is_hard_for_ep(fits):
    assert abs(float(fits["digits-hard"][1]["approximation/correction"][-1])) >= 0.1


def test_easy_is_easy_for_plain_importance_sampling(config, run):
    table = run("digits-easy", "is_ep")
    n_draws = config["studies"]["rmhmc_ais"]["methods"]["is_ep"]["particles"]
    assert float(table["effective_size"][0]) > 0.5 * n_draws


def test_prior_start_fails_loudly_at_equal_cost(fits, from_prior, from_ep):
    """More than 5 nat low and with an alarm, where an EP start of that cost is right."""
    expected = corrected(fits, "digits-hard")
    shown = []
    for length in LENGTHS:
        prior, ep = (table.sel(n_temperatures=length) for table in (from_prior, from_ep))
        same_cost = int(prior["n_gradient"]) >= int(ep["n_gradient"]) / COST_RATIO
        low = float(prior["log_evidence"]) < expected - 5.0 and bool(str(prior["alarm"].values))
        right = abs(float(ep["log_evidence"]) - expected) < 1.5
        shown.append(same_cost and low and right)
    assert any(shown)
