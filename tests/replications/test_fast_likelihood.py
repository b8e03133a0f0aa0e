from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import solve_triangular
from scipy.stats import multivariate_normal, norm

from gpmcflow.errors import InputError
from gpmcflow.execution import array_digest
from gpmcflow.jobs.parts import part_name
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.pipeline.config import check_config
from gpmcflow.replications import parts
from gpmcflow.replications.fast_likelihood import costs, forecast
from gpmcflow.replications.fast_likelihood import runs as study
from gpmcflow.replications.fast_likelihood.data import make_problem
from gpmcflow.replications.fast_likelihood.methods import BUILDERS, settings_of, tuned_name
from gpmcflow.replications.fast_likelihood.tables import method_costs, replicate_part
from gpmcflow.replications.fast_likelihood.types import (
    LEVERS,
    METHODS,
    PAPER_METHODS,
    TYPES,
    fast_likelihood_types,
)
from gpmcflow.storage import load_results, write_results

EXECUTION = {"segment_length": 3}
STUDY = {
    "replicates": 2,
    "iterations": 90,
    "pilot": 40,
    "tuning": {"replicates": 1, "iterations": 60},
    "types": {
        "one": {"data": 1, "n": 30, "sizes": {"sod": 14, "nystrom": 12, "tempered": [15, 8]}},
        "two": {"data": 2, "n": 30, "methods": ["standard", "nystrom", "sod"]},
        "real": {"data": "diabetes", "n": 40},
    },
}


def checked(**types) -> dict:
    section = copy.deepcopy(STUDY) | ({"types": types} if types else {})
    return check_config({"studies": {"fast_likelihood": section}})["studies"]["fast_likelihood"]


def types_of(**types) -> dict:
    return fast_likelihood_types(checked(**types))


ONE = types_of()["one"]
TIMED = ONE | {"timed": True}


@pytest.fixture(scope="module")
def bench():
    return study.make_bench(ONE, 0, 5)


@pytest.fixture(scope="module")
def tuned():
    tree, _ = study.tune("one", ONE, STUDY["tuning"], seed=5, execution=EXECUTION)
    return tree


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tuned):
    """Results folder with the tuning and two data sets of one type, and the trees."""
    folder = tmp_path_factory.mktemp("results")
    here = folder / "fast_likelihood" / "one"
    write_results(tuned, here / "tuning.nc", sidecar={})
    trees = []
    for k in range(2):
        tree, facts = study.replicate_runs("one", TIMED, k, tuned, seed=5, execution=EXECUTION)
        write_results(tree, here / f"replicate_{k}.nc", sidecar=facts)
        trees.append(tree)
    return folder, trees


# Data


@pytest.mark.parametrize("number", TYPES)
def test_data_have_the_covariance_of_their_type(number):
    settings = types_of(t={"data": number, "n": 200})["t"]
    problem = make_problem(settings, 0, 1)
    model, kind = problem.model, TYPES[number]
    assert model.X.shape == (200, kind.p)
    assert 0.0 <= model.X.min() < 0.05
    assert 0.95 < model.X.max() <= 1.0
    eta, sigma, *rho = np.exp(problem.truth)
    assert (eta, sigma) == pytest.approx((5.0, 0.2))
    scale = 0.1 if number in (1, 2, 3, 6, 7, 8) else 2.0
    np.testing.assert_allclose(rho, scale * (np.arange(1, 6) if kind.ard else np.ones(1)))
    D = (((model.X[:, None] - model.X) / np.array(rho)) ** 2).sum(-1)
    C = 100.0 + eta**2 * np.exp(-D) + sigma**2 * np.eye(200)  # eqs. 22-24
    white = solve_triangular(np.linalg.cholesky(C), model.y, lower=True)
    assert abs((white**2).mean() - 1.0) < 5.0 * np.sqrt(2.0 / 200)  # fails for another scale
    exact, off = RegressionDensity(model), problem.truth + 0.1
    for theta in (problem.truth, off):
        prior = norm(problem.truth).logpdf(theta).sum()
        assert exact.log_prior(theta) == pytest.approx(prior)
        want = multivariate_normal(np.zeros(200), C).logpdf(model.y) if theta is not off else None
        assert want is None or exact.log_likelihood(theta) == pytest.approx(want, abs=1e-6)
    rho_names = ["log_rho"] if not kind.ard else [f"log_rho_{k}" for k in range(1, 6)]
    assert list(exact.names) == ["log_eta", "log_sigma", *rho_names]


def test_streams_of_data_sets():
    settings = types_of()["one"]
    first, again = make_problem(settings, 0, 1), make_problem(settings, 0, 1)
    assert first.checksum == again.checksum
    others = [
        make_problem(settings, 1, 1),
        make_problem(settings, 0, 2),
        make_problem(settings, 0, 1, "tuning data"),
    ]
    assert len({first.checksum, *(other.checksum for other in others)}) == 4


def test_types_that_differ_in_prior_or_noise_share_their_inputs():
    types = types_of(
        a={"data": 2, "n": 20}, b={"data": 2, "n": 20, "prior": "weak"},
        c={"data": 2, "n": 20, "noise": 1.0},
    )  # fmt: skip
    a, b, c = (make_problem(types[name], 0, 1).model for name in "abc")
    assert a.with_y(b.y).digest() == a.digest()
    theta = np.array([0.3, -1.0, 0.4])
    assert b.log_prior(theta) == pytest.approx(norm(0.0, 2.0).logpdf(theta).sum())
    np.testing.assert_array_equal(a.X, c.X)
    assert not np.allclose(a.y, c.y)


def test_real_data_are_standardised_and_know_no_truth():
    settings = types_of()["real"]
    problem = make_problem(settings, 0, 1)
    assert problem.truth is None
    assert problem.model.X.shape == (40, 10)
    np.testing.assert_allclose(problem.model.X.std(0), 1.0)
    np.testing.assert_allclose([problem.model.y.mean(), problem.model.y.std()], [0, 1], atol=1e-12)


def test_the_guess_knows_the_data_alone():
    weak = types_of(t={"data": 3, "n": 40, "prior": "weak"})["t"]
    centred = types_of(t={"data": 3, "n": 40})["t"]
    first, second = (make_problem(s, 0, 1) for s in (weak, centred))
    np.testing.assert_array_equal(first.guess, second.guess)
    assert first.guess.shape == (7,)
    assert np.isfinite(RegressionDensity(first.model)(first.guess))


@pytest.mark.parametrize("number", [2, 3])
def test_gradient_in_the_papers_coordinates(number):
    problem = make_problem(types_of(t={"data": number, "n": 30})["t"], 0, 1)
    density, theta = RegressionDensity(problem.model), problem.truth + 0.1
    steps = 1e-5 * np.eye(len(theta))
    numerical = [(density(theta + h) - density(theta - h)) / 2e-5 for h in steps]
    np.testing.assert_allclose(
        density.value_and_gradient(theta)[1], numerical, rtol=1e-5, atol=1e-5
    )


# Types and methods


def test_sizes_are_the_papers_in_proportion():
    types = types_of(
        full={"data": 4}, half={"data": 4, "n": 150}, own={"data": 2, "sizes": {"nystrom": 285}}
    )
    assert types["full"]["sizes"] == {"sod": 150, "nystrom": 120, "tempered": [130, 65]}
    assert types["half"]["sizes"] == {"sod": 75, "nystrom": 60, "tempered": [65, 32]}
    assert types["full"]["methods"] == list(METHODS)
    assert "nystrom_spaced" in types["own"]["methods"]
    assert types_of()["two"]["methods"] == ["standard", "sod"]  # no Nystrom in the paper
    assert not {"nystrom", "nystrom_spaced"} & set(types_of(t={"data": 7})["t"]["methods"])


def test_grids_are_methods():
    methods = types_of(t={"data": 1, "chain_grid": True, "ranks": True})["t"]["methods"]
    grid = [m for m in methods if m.startswith("sod_r")]
    assert len(grid) == 15
    assert "sod_r1_s1" not in grid
    assert {tuned_name(m) for m in grid} == {"sod"}
    assert tuned_name("nystrom_m95") == "nystrom"
    assert tuned_name("nystrom_spaced") == "nystrom_spaced"


def test_every_method_has_a_builder_and_its_settings():
    assert set(BUILDERS) == set(METHODS) == {*PAPER_METHODS, *LEVERS, "standard_wide"}
    assert settings_of("standard") == ("kappa_1", "kappa_2", "kappa_3", "kappa_6")
    assert settings_of("standard_wide") == settings_of("student") == ("",)


def test_subsets_of_layers_are_nested_and_all_methods_see_one_model(bench):
    one = types_of(t={"data": 1, "n": 30, "chain_grid": True, "ranks": True})["t"]
    densities = bench.run("tempered", "kappa_1").densities
    large, small = (set(d.cases.tolist()) for d in densities[1:])
    assert small < large
    assert bench.run("sod", "kappa_2").densities[1].cases.tolist() == bench.order[:14].tolist()
    for method in one["methods"]:
        run = bench.run(method, settings_of(tuned_name(method))[-1])
        assert run.densities[0].model is bench.problem.model
        assert np.isfinite(run.densities[0](run.start))


def test_rank_and_chain_grids_vary_what_they_say(bench):
    assert len(bench.run("nystrom_m50", "kappa_1").densities[1].columns) == 15
    assert bench.run("nystrom_m50", "kappa_1").densities[1].constant == "inside"
    assert bench.run("nystrom_spaced", "kappa_1").densities[1].constant == "exact"
    sampler = bench.run("sod_r4_s8", "kappa_1").sampler
    assert (sampler.r, sampler.s) == (4, 8)


def test_pilots_are_charged_but_where_there_is_none(bench):
    assert bench.run("standard_wide", "").pilot_calls == 0
    for method in ("standard", "sod", "collapsed", "float32", "rotated"):
        assert bench.run(method, "kappa_1").pilot_calls == bench.pilot.n_calls > 100
    student = bench.run("student", "")
    assert student.pilot_calls > 200
    assert student.pilot_gradients > 5
    hmc = bench.run("hmc", "steps_4")
    assert hmc.pilot_calls > bench.pilot.n_calls
    assert hmc.pilot_gradients == 60 * 4 + 1


@pytest.mark.parametrize("setting", ["steps_1", "steps_4"])
def test_hmc_finds_its_step_size_on_the_data_set(bench, setting):
    run = bench.run("hmc", setting)
    rng, state, rates = np.random.default_rng(0), run.sampler.init(run.densities, run.start), []
    for _ in range(300):
        state, info = run.sampler.step(rng, run.densities, state)
        rates.append(info.acceptance_rate)
    assert 0.6 < np.mean(rates) < 0.95


def test_no_lever_starts_from_the_generating_values(bench):
    for method in METHODS:
        start = bench.run(method, settings_of(method)[-1]).start
        assert np.array_equal(start, bench.problem.truth) == (method not in LEVERS)


def test_the_pilot_is_remembered(tmp_path, bench):
    kept = study.make_bench(ONE, 0, 5, state_dir=tmp_path)
    again = study.make_bench(ONE, 0, 5, state_dir=tmp_path)
    for found in (kept, again):
        np.testing.assert_array_equal(found.pilot.draws, bench.pilot.draws)
        assert found.pilot.n_calls == bench.pilot.n_calls


# Runs


def test_tuning_takes_the_setting_of_least_cost(tuned):
    runs = tuned["runs"].to_dataset().to_dataframe()
    chosen = tuned["chosen"].to_dataset().to_dataframe()["setting"]
    assert set(chosen.index) == set(METHODS) - {"student", "standard_wide"}
    for method, setting in chosen.items():
        here = runs[runs["method"] == method]
        assert list(here["setting"]) == list(settings_of(method))
        assert here.loc[here["cost"].idxmin(), "setting"] == setting
    np.testing.assert_allclose(runs["cost"], runs["tau"] * runs["equivalents"])


def test_a_setting_that_never_moves_is_not_chosen():
    found = ((1, np.inf, 0.0), (2, 5.0, 0.1), (3, 9.0, 0.9), (6, np.inf, 0.0))
    columns = ["method", "setting", "cost", "acceptance"]
    rows = [("sod", f"kappa_{k}", cost, rate) for k, cost, rate in found for _ in range(2)]
    runs = pd.DataFrame(rows, columns=columns)
    assert costs.least_costs(runs) == {"sod": "kappa_2"}
    assert costs.least_costs(runs.assign(cost=np.inf)) == {"sod": "kappa_3"}


def test_checks_of_the_algebra(tuned):
    checks = {name: float(value) for name, value in tuned["checks"].data_vars.items()}
    assert checks["forms"] < 1e-10
    assert checks["not_orthonormal"] > 1e-2
    assert checks["general_noise"] < 1e-6


def test_counts_of_a_data_set(finished):
    _, (tree, _) = finished
    found = tree["methods"].to_dataset()
    for method in ("sod", "nystrom", "nystrom_spaced", "student", "float32", "tempered"):
        assert float(found["calls"].sel({"method": method, "density": 0})) == 1.0
    calls = tree["sample_stats/n_calls"]
    assert int(calls.sel({"method": "standard", "density": 0}).min()) >= 3
    assert int(found["gradients"].sel({"method": "hmc"})) in (1, 2, 4, 8, 16)
    assert float(found["D"].sel({"method": "float32", "density": 1})) < 0.05
    shapes = {name: tree["posterior"].sizes[name] for name in ("method", "chain", "draw")}
    assert shapes == {"method": len(METHODS), "chain": 1, "draw": 90}


def test_state_folders_and_segment_lengths_do_not_change_the_arrays(finished, tuned, tmp_path):
    _, (tree, _) = finished
    few = ONE | {"methods": ["standard", "tempered"], "timed": False}
    for length in (2, 2, 50):  # the second time from the segments of the first
        again, _ = study.replicate_runs(
            "one", few, 0, tuned, seed=5, execution={"segment_length": length},
            state_dir=tmp_path / str(length),
        )  # fmt: skip
        for group in ("posterior", "sample_stats"):
            ours = again[group].to_dataset()
            theirs = tree[group].to_dataset().sel({"method": few["methods"]})
            assert array_digest(ours.data_vars) == array_digest(theirs.data_vars)
    chains = {path.name for path in (tmp_path / "2").iterdir() if path.is_dir()}
    assert chains == {"one-standard-0", "one-tempered-0"}


def test_a_data_set_that_is_not_timed_has_the_same_chains_and_no_costs(finished, tuned, tmp_path):
    folder, _ = finished
    few = ONE | {"methods": ["standard", "sod"], "timed": False}
    again, facts = study.replicate_runs("one", few, 0, tuned, seed=5, execution=EXECUTION)
    assert facts["seconds"] == {}
    write_results(again, tmp_path / "replicate_0.nc", sidecar=facts)
    own = replicate_part(tmp_path / "replicate_0.nc")["values"]
    timed = replicate_part(folder / "fast_likelihood/one/replicate_0.nc")["values"]
    assert list(own) == ["methods"]
    assert list(own["methods"]) == ["standard", "sod"]
    for method, estimates in own["methods"].items():
        assert not {"cost", "efficiency", "seconds"} & set(estimates)
        assert estimates == {key: timed["methods"][method][key] for key in estimates}


def test_the_forecast_counts_timing_where_there_is_some(monkeypatch):
    monkeypatch.setattr(forecast, "_measured", lambda *given: (2.0, {"standard": 0.1, "sod": 0.01}))
    context = SimpleNamespace(single=lambda seconds, *sizes: seconds)

    def seconds(timed: bool) -> float:
        settings = TIMED | {"methods": ["standard", "sod"], "iterations": 90, "timed": timed}
        job = SimpleNamespace(method="one", settings={"settings": settings})
        return forecast.replicate_cost(context, job)

    chains = 2.0 + 90 * 0.11 + 2 * forecast.STATE_SECONDS
    assert seconds(False) == pytest.approx(chains)
    assert seconds(True) == pytest.approx(chains + 15 * 0.1 + 2 * costs.TIMED_SECONDS)


def test_results_hold_no_timings(finished):
    folder, _ = finished
    tree = load_results(folder / "fast_likelihood/one/replicate_0.nc")
    names = {name for node in tree.subtree for name in node.data_vars}
    assert not {name for name in names if "second" in name}


# Parts


def test_cost_of_a_method_by_hand(finished):
    _, (tree, _) = finished
    row = tree["methods"].to_dataset().sel({"method": "sod"})
    row["calls"].values[:] = [1.0, 5.0, np.nan]
    row["pilot_calls"].values[()] = 900
    seconds = {"calls": [2e-3, 2e-4], "exact": 2e-3, "iteration": 3e-3}
    found = method_costs(row, 4.0, seconds, 300)
    assert found["pi_equivalents"] == pytest.approx(1.0 + 5.0 * 0.1)
    assert found["cost"] == pytest.approx(4.0 * (1.5 + 900 / 300))
    assert found["efficiency"] == pytest.approx(4.0 * 3e-3)


def test_gradients_are_charged_at_their_share(finished):
    _, (tree, _) = finished
    row = tree["methods"].to_dataset().sel({"method": "hmc"})
    seconds = {"calls": [1e-3], "exact": 1e-3, "gradient": 3e-3, "iteration": 1e-2}
    found = method_costs(row, 2.0, seconds, 90)
    assert found["pi_equivalents"] == pytest.approx(3.0 * float(row["gradients"]))


def test_parts_give_the_tables_again(finished, tmp_path):
    folder, _ = finished
    path = tmp_path / "parts.jsonl"
    written = parts.collect("fast_likelihood", folder, path)
    assert sorted(map(part_name, written)) == ["one.replicate_0", "one.replicate_1", "one.tuning"]
    published = parts.PUBLISHED / "fast_likelihood.yaml"
    tables = parts.rebuild("fast_likelihood", path, published)
    assert list(tables["runs"]["method"]) == list(METHODS)
    assert (tables["runs"].loc[tables["runs"]["method"] == "standard", "cost_ratio"] == 1.0).all()
    verdict = tables["verdict"]
    printed = verdict[verdict["table"].str.startswith("Table")]
    assert (printed["verdict"] == "missing").all()
    assert printed["why"].str.contains("as in the paper").all()


# Bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    {
        "m above n": ({"data": 1, "n": 50, "sizes": {"sod": 51}}, "sizes.sod: found 51"),
        "layer above n": ({"data": 1, "n": 50, "sizes": {"tempered": [60]}}, "at most n = 50"),
        "three layers": ({"data": 1, "sizes": {"tempered": [9, 6, 3]}}, "allowed: one or two"),
        "more cases than there are": ({"data": "diabetes", "n": 443}, "at most 442"),
        "no baseline": ({"data": 1, "methods": ["sod"]}, "found without standard"),
        "nothing to run": ({"data": 7, "methods": ["nystrom"]}, "none of them has a size"),
        "unknown data": ({"data": "diabets"}, "did you mean 'diabetes'?"),
        "unknown number": ({"data": 11}, "types.t.data: found 11; allowed: one of 1, 2"),
        "unknown method": ({"data": 1, "methods": ["sodd"]}, "did you mean 'sod'?"),
        "no data": ({}, "types.t.data: missing"),
        "one case": ({"data": 1, "n": 1}, "types.t.n: found 1; allowed"),
        "no noise": ({"data": 1, "noise": 0.0}, "types.t.noise: found 0.0"),
    }.values(),
)
def test_wrong_type(settings, message):
    with pytest.raises(InputError, match=r"studies\.fast_likelihood\.types\.t") as error:
        checked(t=settings)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
