"""The evidence study: what a run holds, how its tables judge."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from gpmcflow.errors import ResourceError
from gpmcflow.replications import stages
from gpmcflow.replications.judgement import Estimate, number_cells
from gpmcflow.replications.parts import summarise
from gpmcflow.replications.rmhmc_ais import runs as rmhmc_ais
from gpmcflow.replications.rmhmc_ais.tables import (
    advice,
    claim_rows,
    evidence_part,
    published_rows,
    size_rows,
    which_method,
    with_flops,
)
from gpmcflow.storage import write_results

EXECUTION = {"workers": 1, "scheduler": None, "block_size": 32, "segment_length": 10}
PROBLEM = {
    "dataset": "toy",
    "model": "gp",
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
    folder = tmp_path / "rmhmc_ais" / "toy-1"
    paths = [folder / "approximation.nc", folder / "evidence" / "m.nc"]
    paths[1].parent.mkdir(parents=True)
    write_results(approximation, paths[0], sidecar=fit_sidecar)
    write_results(tree, paths[1], sidecar=sidecar)
    published = tmp_path / "published.yaml"
    published.write_text("values: []\nsizes: []\n")
    frames = summarise("rmhmc_ais", paths, published)
    fits, rows = frames["approximations"].iloc[0], frames["evidence"]
    corrected = fits["log_evidence_ep"] + fits["correction"]
    assert fits["log_evidence_corrected"] == pytest.approx(corrected)
    assert len(rows) == 8
    assert set(rows["direction"]) == {"forward", "reverse"}
    part = evidence_part(paths[1])
    assert (part["kind"], part["problem"], part["method"]) == ("evidence", "toy-1", "m")
    assert [row["seconds"] for row in part["values"]["rows"]] == list(rows["seconds"])
    assert set(frames["which_method"]["method"]) == {"m"}


def estimate(**cells):
    row = {
        "problem": "p",
        "method": "split_hmc_ep",
        "kind": "ais",
        "sampler": "preconditioned_split_hmc",
        "reference": "ep",
        "ladder": "adaptive",
        "coordinates": "reference",
        "fixed_iters": 0,
        "direction": "forward",
        "n_temperatures": 10,
        "replicate": 0,
        "log_evidence": -10.0,
        "standard_error": 0.05,
        "degrees_of_freedom": np.inf,
        "effective_size": 100.0,
        "acceptance_rate": 0.8,
        "irreversible": np.nan,
        "n_particles": 100,
        "n_gradient": 1000,
        "n_likelihood": 1100,
        "n_factorisation": 0,
        "pilot_gradient": 100,
        "gigaflops": 1.0,
        "pilot_gigaflops": 0.1,
        "seconds": 10.0,
        "pilot_seconds": 1.0,
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
    ep = estimate(standard_error=0.02)
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
    # errors of 4 degrees of freedom say little of the ratio of two variances
    assert claim([automatic, by_hand | {"degrees_of_freedom": 4.0}], 4) == ["not resolved"]


FIXED = {"method": "rmhmc_ep_fixed_5", "sampler": "rmhmc", "fixed_iters": 5}


def test_claim_of_fixed_iterations_needs_the_way_back_and_no_bias():
    converged = estimate(method="rmhmc_ep", sampler="rmhmc", standard_error=0.02)
    fine = estimate(**FIXED, irreversible=0.0, standard_error=0.02)
    assert claim([converged, fine], 2) == ["holds"]
    assert claim([converged, fine | {"irreversible": 0.02}], 2) == ["does not hold"]
    assert claim([converged, fine | {"log_evidence": -11.0}], 2) == ["does not hold"]
    assert claim([converged, fine | {"alarm": "x"}], 2) == ["not resolved"]
    lost = fine | {"alarm": "x", "irreversible": 1.0}  # weights are not needed to see this
    assert claim([converged, lost], 2) == ["does not hold"]


def test_methods_agree_where_a_material_difference_would_be_seen():
    def agreement(**cells):
        rows = [
            estimate(standard_error=0.02),
            estimate(**{"method": "other", "standard_error": 0.02} | cells),
        ]
        return [
            row["verdict"]
            for row in claim_rows(FITS, pd.DataFrame(rows))
            if row["table"] == "methods agree"
        ]

    assert agreement() == ["agrees"]
    assert agreement(standard_error=0.06) == ["not resolved"]
    assert agreement(log_evidence=-10.15) == ["differs"]
    assert agreement(log_evidence=-10.15, degrees_of_freedom=2.0) == ["not resolved"]


def test_estimates_that_are_off_without_an_alarm_are_counted():
    off = estimate(method="m", log_evidence=-12.0)
    rows = claim_rows(FITS, pd.DataFrame([estimate(), off, off | {"method": "n", "alarm": "x"}]))
    row = next(row for row in rows if row["table"] == "an estimate that is off says so")
    assert (row["ours"], row["verdict"]) == (1, "does not hold")
    assert "silent: m at 10" in row["why"]


def test_every_method_and_size_has_its_row():
    """Missing until it is run; agreement is judged where an estimate claims to be right."""
    entry = {
        "dataset": "d", "log_length_scale": 1, "log_signal_sd": 2.0,
        "methods": {"split_hmc_ep": [10, 30], "far": [10], "rough": [10], "lost": [10], "near": [10]},
    }  # fmt: skip
    runs = [
        estimate(standard_error=0.01),
        estimate(method="far", log_evidence=-12.0),
        estimate(method="rough", log_evidence=-10.4, standard_error=0.2),
        estimate(method="lost", log_evidence=-90.0, alarm="effective size 1"),
        estimate(method="near", log_evidence=-10.1),
    ]
    rows = size_rows(FITS, pd.DataFrame(runs), {"sizes": [entry]})
    assert [row["verdict"] for row in rows] == [
        "shown", "missing", "differs", "not resolved", "shown", "agrees",
    ]  # fmt: skip
    assert size_rows(FITS, pd.DataFrame(runs), {"sizes": [entry | {"dataset": "other"}]}) == []


def test_sizes_are_those_of_the_paper_config():
    root = Path(__file__).parents[2]
    published = yaml.safe_load((root / "workflow/published/rmhmc_ais.yaml").read_text())
    methods = yaml.safe_load((root / "config/paper.yaml").read_text())["studies"]["rmhmc_ais"][
        "methods"
    ]
    lengths = {name: method.get("temperatures", [1]) for name, method in methods.items()}
    assert [entry["methods"] for entry in published["sizes"]] == [lengths, lengths]


def test_work_to_the_wanted_error():
    """Four times the particles halve the error; the pilot is paid once, a collapse has no time."""
    fits = FITS.assign(n=100)
    half = estimate(method="half", standard_error=0.1, n_factorisation=3000)
    lost = estimate(method="lost", alarm="effective size 1.0 < 10")
    rows = with_flops(fits, pd.DataFrame([estimate(), half, lost]))
    table = which_method(rows).set_index("method")
    assert list(table.index) == ["split_hmc_ep", "half", "lost"]
    fixed = which_method(rows.assign(fixed_iters=5))
    assert fixed["advice"].str.startswith("not estimable").all()
    assert table["seconds_to_0.05"].tolist()[:2] == [pytest.approx(11.0), pytest.approx(41.0)]
    assert np.isnan(table.loc["lost", "seconds_to_0.05"])
    assert table.loc["lost", "advice"].startswith("not estimable: effective size 1.0")
    # 100 likelihoods beside the gradients; the pilot factorises as often for a gradient as the run
    run = 1000 * 2e4 + 100 * 1e4 + 3000 * 1e6 / 3.0
    flops = (100 * (2e4 + 3 * 1e6 / 3.0) + 4 * run) / 1e9
    assert table.loc["half", "gigaflops_to_0.05"] == pytest.approx(flops)
    assert table.loc["split_hmc_ep", "time_times_variance"] == pytest.approx(10.0 * 0.05**2)


def test_advice_can_be_acted_on():
    assert advice(estimate()) == "use"
    assert advice(estimate(standard_error=0.12)).startswith("usable; 6 times the runs")
    assert (
        advice(estimate(alarm="largest weight 0.9 > 0.5")) == "do not use: largest weight 0.9 > 0.5"
    )


TEMPERING = {
    "kind": "parallel_tempering", "sampler": "preconditioned_split_hmc", "reference": "ep",
    "ladder": "adaptive", "temperatures": [3], "replicates": 8, "draws": 40, "warmup": 5,
}  # fmt: skip
PARTICLES = {
    "kind": "sequential_monte_carlo", "sampler": "preconditioned_split_hmc", "reference": "ep",
    "ladder": "adaptive", "temperatures": [4], "replicates": 8, "particles": 64, "moves": 1,
    "waste_free": False,
}  # fmt: skip
RIEMANNIAN = AIS | {
    "sampler": "rmhmc", "temperatures": [5], "replicates": 1,
    "tuning": {"n_steps": 3, "n_particles": 12, "rounds": 3},
}  # fmt: skip
ROUTES = {
    "tempering": (TEMPERING, {"forward", "integration"}),
    "particles": (PARTICLES, {"forward"}),
    "adaptive": (PARTICLES | {"effective_fraction": 0.9}, {"forward"}),
    "riemannian": (RIEMANNIAN, {"forward"}),
    "fixed": (RIEMANNIAN | {"fixed_iters": 6}, {"forward"}),
}


@pytest.mark.parametrize("name", ROUTES)
def test_every_route_agrees_and_fills_its_rows(study, both_ways, tmp_path, name):
    method, directions = ROUTES[name]
    tree, sidecar = run(study, method)
    write_results(tree, tmp_path / "m.nc", sidecar=sidecar)
    rows = pd.DataFrame(evidence_part(tmp_path / "m.nc")["values"]["rows"])
    assert set(rows["direction"]) == directions
    assert (rows["kind"] == method["kind"]).all()
    expected = both_ways[0]["evidence"].to_dataset().isel(n_temperatures=1, replicate=0)
    joint = np.hypot(rows["standard_error"], float(expected["standard_error"]))
    assert (abs(rows["log_evidence"] - float(expected["log_evidence"])) < 4 * joint).all()
    assert (rows["standard_error"] < 0.1).all()
    assert (rows["n_gradient"] > 0).all()
    assert (rows["n_factorisation"] > 0).all() == (method["sampler"] == "rmhmc")
    assert rows["irreversible"].notna().all() == (name == "fixed")


def test_importance_sampling_tells_the_shape_of_its_tail(study):
    method = {"kind": "importance_sampling", "reference": "ep", "particles": 500, "replicates": 2}
    table = run(study, method)[0]["evidence"].to_dataset()
    assert table["pareto_k"].shape == (1, 2)
    assert np.isfinite(table["pareto_k"]).all()


def test_published_numbers_meet_the_problem_they_belong_to():
    entry = {
        "table": "t", "row": "r", "column": "log_evidence_ep", "unit": "nat", "dataset": "d",
        "log_length_scale": 1, "log_signal_sd": 2.0, "value": -5.0, "tolerance": 0.1, "why": "w",
    }  # fmt: skip
    fits = FITS.assign(log_evidence_ep=-5.05)
    rows = published_rows(fits, pd.DataFrame([estimate()]), {"values": [entry]})
    assert [row["verdict"] for row in rows] == ["agrees"]
    assert published_rows(fits, pd.DataFrame(), {"values": [entry | {"dataset": "other"}]}) == []


def test_a_printed_number_agrees_where_the_whole_interval_is_within_the_tolerance():
    allowed = {"value": 0.1, "why": "printed to one digit"}
    for ours, error, expected in (
        (1.3, 0.0, "differs"), (1.05, 0.01, "agrees"), (1.05, 0.05, "not resolved"),
        (1.3, 0.2, "not resolved"), (1.3, 0.05, "differs"),
    ):  # fmt: skip
        assert number_cells(Estimate(ours, error), 1.0, allowed)["verdict"] == expected


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
