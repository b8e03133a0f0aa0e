"""The evidence study: what a run holds, how its tables judge."""

import numpy as np
import pandas as pd
import pytest

from gpmcflow.errors import ResourceError
from gpmcflow.storage import write_results
from gpmcflow.studies import rmhmc_ais, stages
from gpmcflow.studies.rmhmc_ais_tables import (
    claim_rows,
    evidence_rows,
    pooled,
    published_rows,
    summarise,
)
from gpmcflow.studies.verdict import compare

EXECUTION = {"workers": 1, "scheduler": None, "block_size": 32, "segment_length": 10}
PROBLEM = {
    "dataset": "toy",
    "likelihood": "probit",
    "hyperparameters": {"log_length_scale": 0.3, "log_signal_sd": 1.0},
}
AIS = {
    "kind": "ais",
    "sampler": "preconditioned_split_hmc",
    "reference": "ep",
    "ladder": "adaptive",
    "coordinates": "reference",
    "temperatures": [5, 10],
    "particles": 32,
    "replicates": 2,
}


@pytest.fixture(scope="module")
def study():
    dataset = stages.prepare_data("toy", {"synthetic": {"n": 25, "n_test": 10, "seed": 2}})
    approximation, sidecar = stages.approximate(dataset, PROBLEM, seed=1)
    return dataset, approximation, sidecar


def run(study, method, **options):
    dataset, approximation, _ = study
    names = {"problem_name": "toy-1", "method_name": "m", "seed": 1, "execution": EXECUTION}
    return rmhmc_ais.evidence(dataset, approximation, PROBLEM, method, **names | options)


@pytest.fixture(scope="module")
def both_ways(study):
    return run(study, AIS | {"reverse": True})


def test_groups_and_dimensions(both_ways):
    tree, sidecar = both_ways
    assert set(tree.children) == {"evidence", "annealing_t0005", "annealing_t0010", "pilot"}
    assert tree["evidence/log_evidence"].dims == ("n_temperatures", "replicate")
    assert dict(tree["annealing_t0010"].sizes) == {"replicate": 2, "chain": 32, "temperature": 10}
    assert len(sidecar["seconds"]["runs"]) == 4


def test_forward_and_reverse_bracket_the_evidence(both_ways):
    table = both_ways[0]["evidence"].to_dataset().isel(n_temperatures=1)
    gap = table["reverse_log_evidence"] - table["log_evidence"]
    joint = np.hypot(table["standard_error"], table["reverse_standard_error"])
    assert np.all(np.abs(gap) < 4 * joint)
    assert np.all(joint < 0.05)


def test_replicates_differ_and_are_reproducible(study, both_ways):
    found = both_ways[0]["evidence/log_evidence"]
    assert len(np.unique(found)) == 4
    again, _ = run(study, AIS)
    np.testing.assert_array_equal(again["evidence/log_evidence"], found)


def test_two_workers_give_the_same_numbers(study, both_ways):
    found, _ = run(
        study, AIS | {"replicates": 1}, execution=EXECUTION | {"workers": 2, "block_size": 32}
    )
    expected = both_ways[0]["evidence/log_evidence"].isel(replicate=[0])
    np.testing.assert_array_equal(found["evidence/log_evidence"], expected)


def test_importance_sampling_is_one_jump(study, both_ways):
    method = {"kind": "importance_sampling", "reference": "ep", "particles": 2000, "replicates": 1}
    tree, _ = run(study, method)
    assert tree["evidence"].sizes == {"n_temperatures": 1, "replicate": 1}
    assert int(tree["evidence/n_gradient"].sum()) == 0
    expected = float(both_ways[0]["evidence/log_evidence"][1, 0])
    assert float(tree["evidence/log_evidence"][0, 0]) == pytest.approx(expected, abs=0.05)


def test_stated_step_size_needs_no_pilot(study):
    tree, _ = run(
        study, AIS | {"ladder": "linear", "step_size": 0.7, "n_steps": 3, "replicates": 1}
    )
    assert "pilot" not in tree.children
    assert set(tree["annealing_t0005/step_size"].values) == {0.7}


def test_forecast_refuses_what_does_not_fit(study):
    with pytest.raises(ResourceError, match="m on toy-1: needs"):
        run(study, AIS | {"particles": 10**6}, memory_limit_gb=0.001)


def test_tables_from_files(study, both_ways, tmp_path):
    _, approximation, fit_sidecar = study
    tree, sidecar = both_ways
    write_results(approximation, tmp_path / "approximation.nc", sidecar=fit_sidecar)
    write_results(tree, tmp_path / "m.nc", sidecar=sidecar)
    published = tmp_path / "published.yaml"
    published.write_text("values: []\n")
    frames = summarise(
        {"toy-1": tmp_path / "approximation.nc"},
        {("toy-1", "m"): tmp_path / "m.nc"},
        {},
        None,
        published,
    )
    fits, rows = frames["approximations"].iloc[0], frames["evidence"]
    corrected = fits["log_evidence_ep"] + fits["correction"]
    assert fits["log_evidence_corrected"] == pytest.approx(corrected)
    assert len(rows) == 8
    assert set(rows["direction"]) == {"forward", "reverse"}
    assert list(evidence_rows(tmp_path / "m.nc")["seconds"]) == list(rows["seconds"])


def estimate(**cells):
    row = {
        "problem": "p",
        "method": "split_hmc_ep",
        "sampler": "preconditioned_split_hmc",
        "reference": "ep",
        "coordinates": "reference",
        "direction": "forward",
        "n_temperatures": 10,
        "replicate": 0,
        "log_evidence": -10.0,
        "standard_error": 0.05,
        "effective_size": 100.0,
        "n_gradient": 1000,
        "pilot_gradient": 100,
        "alarm": "",
    }
    return row | cells


FITS = pd.DataFrame(
    [{"problem": "p", "dataset": "d", "log_length_scale": 1.0, "log_signal_sd": 2.0}]
)
PRIOR = {"method": "hmc_prior", "sampler": "hmc", "reference": "prior"}


def claim(rows, number):
    found = claim_rows(FITS, pd.DataFrame(rows))
    return [row["verdict"] for row in found if row["table"].startswith(f"claim {number}")]


def test_claim_of_the_prior_start_needs_distance_and_alarm():
    ep = estimate()
    far = PRIOR | {"log_evidence": -18.0, "alarm": "effective size 1.0 < 10"}
    assert claim([ep, estimate(**far)], 3) == ["holds"]
    assert claim([ep, estimate(**far | {"alarm": ""})], 3) == ["does not hold"]
    assert claim([ep, estimate(**far | {"log_evidence": -13.0})], 3) == ["does not hold"]
    # an EP start that costs more than 1.5 times as much is not at the same cost
    assert claim([ep, estimate(**far | {"n_gradient": 500})], 3) == []


def test_claim_of_tuning_charges_the_pilot():
    automatic = estimate(n_gradient=1000, pilot_gradient=400)
    by_hand = estimate(method="split_hmc_ep_hand", n_gradient=1000, pilot_gradient=0)
    assert claim([automatic, by_hand], 4) == ["holds"]
    assert claim([automatic | {"pilot_gradient": 600}, by_hand], 4) == ["does not hold"]
    assert claim([automatic | {"alarm": "x"}, by_hand], 4) == ["not resolved"]


def test_pooling_averages_the_evidence_not_its_log():
    runs = pd.DataFrame([estimate(log_evidence=np.log(2.0)), estimate(log_evidence=np.log(4.0))])
    found = pooled(runs)
    assert found["log_evidence"] == pytest.approx(np.log(3.0))
    # var(mean)/mean^2 with relative errors 0.05 of 2 and of 4
    assert found["standard_error"] == pytest.approx(0.05 * np.hypot(2, 4) / 6)


def test_published_numbers_meet_the_problem_they_belong_to():
    entry = {
        "table": "t", "row": "r", "column": "log_evidence_ep", "unit": "nat", "dataset": "d",
        "log_length_scale": 1, "log_signal_sd": 2.0, "value": -5.0, "tolerance": 0.1, "why": "w",
    }  # fmt: skip
    fits = FITS.assign(log_evidence_ep=-5.05)
    rows = published_rows(fits, pd.DataFrame([estimate()]), {"values": [entry]})
    assert [row["verdict"] for row in rows] == ["agrees"]
    assert published_rows(fits, pd.DataFrame(), {"values": [entry | {"dataset": "other"}]}) == []


def test_verdict_counts_three_standard_errors():
    entry = {
        "table": "t",
        "row": "r",
        "column": "c",
        "unit": "u",
        "value": 1.0,
        "tolerance": 0.1,
        "why": "",
    }
    assert compare("s", entry, 1.3, 0.0)["verdict"] == "differs"
    assert compare("s", entry, 1.3, 0.1)["verdict"] == "agrees"


def test_map_holds_evidence_correction_and_spread(study):
    dataset, approximation, _ = study
    grid = {"log_length_scale": [0.3, 1.0], "log_signal_sd": [1.0]}
    tree, _ = rmhmc_ais.hyperparameter_map(dataset, PROBLEM, grid, seed=1)
    fit = approximation["approximation"].to_dataset()
    here = tree["map"].to_dataset().isel(log_length_scale=0, log_signal_sd=0)
    ep = float(fit["log_evidence"].sel({"method": "ep"}))
    assert float(here["log_evidence_ep"]) == pytest.approx(ep, abs=1e-10)
    assert float(here["correction"]) == pytest.approx(float(fit["correction"][-1]), abs=1e-10)
    assert 0.0 < float(here["ratio_sd"]) < 1.0
