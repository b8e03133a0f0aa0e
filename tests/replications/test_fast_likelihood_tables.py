from __future__ import annotations

import copy
import math

import numpy as np
import pandas as pd
import pytest
import yaml

from gpmcflow.pipeline.config import check_config
from gpmcflow.replications.fast_likelihood.estimates import type_runs
from gpmcflow.replications.fast_likelihood.tables import tables
from gpmcflow.replications.fast_likelihood.types import GRID, data_sets, fast_likelihood_types
from gpmcflow.replications.judgement import VERDICT_COLUMNS
from gpmcflow.replications.parts import PUBLISHED

PRINTED = yaml.safe_load((PUBLISHED / "fast_likelihood.yaml").read_text())
CELLS = sum(len(row[key]) for row in PRINTED["types"].values() for key in row)


def settings_of(**types) -> dict:
    config = check_config({"studies": {"fast_likelihood": {"types": types}}})
    return fast_likelihood_types(config["studies"]["fast_likelihood"])


def estimates(tau=4.0, *, cost=None, m=(), acceptance=0.6, seconds=1e-3, D=None) -> dict:
    """One method on one data set; theta has one coordinate."""
    return {
        "setting": "kappa_2", "tau": tau, "tau_run_rule": tau, "acceptance": acceptance,
        "D": [0.5] * len(m) if D is None else D, "m": list(m), "n_exact": 1.0,
        "n_fast": [5.0] * len(m), "n_gradients": 0.0, "shares": [1.0], "gradient_share": 0.0,
        "pi_equivalents": 2.0, "pilot": 100.0, "run_cost": 2.0 * tau,
        "cost": 2.1 * tau if cost is None else cost, "seconds": seconds,
        "efficiency": tau * seconds, "mean_log_likelihood": -10.0, "sd_log_likelihood": 1.0,
        "theta_mean": [0.0], "theta_sd": [1.0], "theta_tau": [4.0],
    }  # fmt: skip


def part(name: str, settings: dict, replicate: int, methods: dict, **more) -> dict:
    return {
        "kind": "replicate", "problem": name, "replicate": replicate, "settings": {"type": settings},
        "values": {"methods": methods, **more},
    }  # fmt: skip


def study(settings: dict, methods_of, n: int = 6) -> list[dict]:
    """Parts of all types; ``methods_of(name, k)`` are a data set's estimates."""
    return [
        part(name, here, k, methods_of(name, k))
        for name, here in settings.items()
        for k in range(n)
    ]


def spread(k: int) -> float:
    """Data sets differ, methods on them less: 0.9 to 1.1."""
    return 0.9 + 0.04 * k


def typical(name: str, k: int) -> dict:
    return {
        "standard": estimates(2.9 * spread(k)),
        "sod": estimates(4.3 * spread(k), m=(40,), seconds=3e-4),
        "nystrom": estimates(3.5 * spread(k), m=(30,), seconds=5e-4),
        "tempered": estimates(5.4 * spread(k), m=(40, 20), seconds=6e-4),
        "student": estimates(1.5 * spread(k), m=(0,)),
    }


def verdict_of(parts: list[dict]) -> pd.DataFrame:
    found = tables(parts, PRINTED)["verdict"]
    assert list(found.columns) == VERDICT_COLUMNS
    return found


def cell(verdict: pd.DataFrame, row: str, column: str) -> pd.Series:
    (found,) = verdict[(verdict["row"] == row) & (verdict["column"] == column)].to_dict("records")
    return found


def claim(verdict: pd.DataFrame, start: str, **where) -> list[dict]:
    found = verdict[verdict["table"].str.startswith(f"claim: {start}")]
    for key, value in where.items():
        found = found[found[key].str.contains(value, regex=False)]
    return found.to_dict("records")


# Estimates


def test_log_ratio_is_paired():
    settings = settings_of(t={"data": 1})
    factors = [1.0, 10.0, 100.0]
    parts = [
        part("t", settings["t"], k, {"standard": estimates(f), "sod": estimates(f / 2, m=(40,))})
        for k, f in enumerate(factors)
    ]
    runs = type_runs(parts)["t"]
    ratio = runs.log_ratio("sod", "standard", "run_cost")
    assert (ratio.centre, ratio.freedom) == (pytest.approx(math.log(0.5)), 2)
    assert ratio.error == pytest.approx(0.0, abs=1e-12)
    assert math.isnan(runs.log_ratio("hmc", "standard", "run_cost").centre)


def test_a_ratio_takes_the_data_sets_that_have_both_methods():
    settings = settings_of(t={"data": 1, "replicates": 2, "more": 2})
    few = ("standard", "sod")
    every = {"standard": estimates(1.0), "sod": estimates(2.0, m=(40,)), "student": estimates(0.5)}
    longer = {"standard": estimates(4.0), "sod": estimates(8.0, m=(40,))}
    parts = [part("t", settings["t"], k, every if k < 2 else longer) for k in range(4)]
    runs = type_runs(parts)["t"]
    assert [runs.count(m) for m in runs.methods] == [4, 4, 2]
    assert (runs.count(*few), runs.count("sod", "student"), runs.has("hmc")) == (4, 2, False)
    assert runs.log_ratio("student", "standard", "run_cost").centre == pytest.approx(math.log(0.5))
    assert runs.mean("standard", "tau").centre == pytest.approx(2.5)
    assert runs.mean("student", "tau").freedom == 1


def test_autocorrelation_times_of_data_sets_that_are_not_timed_narrow_the_ratio_of_costs():
    """The cost of an iteration is that of the timed ones: a product of two means in logs."""
    rng, settings = np.random.default_rng(0), settings_of(t={"data": 1})["t"]
    n_timed, n = 8, 32
    ratios, errors = [], []
    for _ in range(400):
        parts = []
        for k in range(n):
            tau, seconds = np.exp(rng.normal([0.5, -1.0], [0.8, 0.1]))
            methods = {
                "standard": estimates(1.0),
                "sod": estimates(tau, m=(40,), seconds=1e-3 * seconds * tau**0.2),
            }
            if k >= n_timed:
                for name in ("cost", "efficiency", "run_cost", "seconds"):
                    for run in methods.values():
                        del run[name]
            parts.append(part("t", settings, k, methods))
        runs = type_runs(parts)["t"]
        ratio = runs.log_ratio("sod", "standard", "efficiency")
        ratios.append(ratio.centre)
        errors.append(ratio.error)
    assert runs.number("sod", "standard") == "32 data sets, 8 of them timed"
    assert np.mean(ratios) == pytest.approx(0.5 * 1.2 - 1.0, abs=4 * np.std(ratios) / 20.0)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(ratios), rel=0.15)
    assert np.std(ratios) < 0.65 * 0.96 / math.sqrt(n_timed)


def test_a_chain_that_never_moved_costs_infinitely_much_wherever_it_was():
    settings = settings_of(t={"data": 1})["t"]
    moved, stuck = estimates(2.0, m=(40,)), estimates(math.inf, m=(40,))
    without = {key: value for key, value in stuck.items() if key != "cost"}
    for own in ([stuck, moved], [moved, without]):
        sets = [{"standard": estimates(1.0), "sod": run} for run in own]
        parts = [part("t", settings, k, methods) for k, methods in enumerate(sets)]
        assert type_runs(parts)["t"].log_ratio("sod", "standard", "cost").centre == math.inf


def test_more_data_sets_have_the_papers_methods_alone_and_are_not_timed():
    sets = data_sets(settings_of(t={"data": 1, "replicates": 2, "more": 3})["t"])
    assert [len(data_set["methods"]) for data_set in sets] == [12, 12, 4, 4, 4]
    assert [data_set["timed"] for data_set in sets] == [True, True, False, False, False]
    assert sets[2]["methods"] == ["standard", "sod", "nystrom", "tempered"]
    fewer = settings_of(
        t={"data": 7, "replicates": 1, "more": 1, "methods": ["standard", "sod", "student"]}
    )
    assert data_sets(fewer["t"])[1]["methods"] == ["standard", "sod"]


# Printed cells


def test_every_cell_has_a_row_and_what_was_not_run_is_missing():
    verdict = verdict_of(study(settings_of(a={"data": 1}), typical))
    printed = verdict[verdict["table"].isin(["Table 2", "Table 3"])]
    assert len(printed) == CELLS == 118
    others = printed[printed["row"] != "#1"]
    assert (others["verdict"] == "missing").all()
    assert (printed[printed["row"] == "#1"]["verdict"] != "missing").all()


@pytest.mark.parametrize(
    "changed", [{"n": 100}, {"noise": 1.0}, {"prior": "weak"}, {"sizes": {"sod": 50}}]
)
def test_other_sizes_and_priors_do_not_stand_for_the_paper(changed):
    verdict = verdict_of(study(settings_of(a={"data": 1} | changed), typical))
    printed = verdict[verdict["table"].isin(["Table 2", "Table 3"])]
    assert (printed["verdict"] == "missing").all()


def test_printed_numbers_agree_within_their_tolerances():
    verdict = verdict_of(study(settings_of(a={"data": 1}), typical))
    for name in ("STD", "SOD", "NYS", "TMP"):
        assert cell(verdict, "#1", f"ACT {name}")["verdict"] == "agrees"
        assert cell(verdict, "#1", f"cpu {name}")["verdict"] == "machine-dependent"
    row = cell(verdict, "#1", "efficiency SOD")
    assert row["ours"] == pytest.approx(4.3 * 0.3 / 2.9)
    assert row["verdict"] == "agrees"
    assert row["recomputed"] == pytest.approx(0.078 * 4.32 / (0.26 * 2.90), abs=1e-3)
    assert cell(verdict, "#1", "m TMP")["ours"] == "40 20"
    assert cell(verdict, "#1", "efficiency STD")["verdict"] == "machine-dependent"


@pytest.mark.parametrize(
    ("factor", "noise", "expected"),
    [
        (1.0, 0.0, "agrees"),
        (3.0, 0.0, "differs"),
        (2.0, 0.4, "not resolved"),
        (0.3, 0.0, "differs"),
    ],
)
def test_verdict_on_an_autocorrelation_time(factor, noise, expected):
    def methods(name, k):
        return {"standard": estimates(2.9 * factor * math.exp(noise * (k - 2.5)))}

    verdict = verdict_of(study(settings_of(a={"data": 1}), methods))
    assert cell(verdict, "#1", "ACT STD")["verdict"] == expected


def test_what_differs_in_autocorrelation_tells_that_of_other_widths():
    parts = study(settings_of(a={"data": 1}), lambda name, k: {"standard": estimates(9.0)})
    checks = {"forms": 0.0, "not_orthonormal": 1.0, "general_noise": 0.0}
    tried = {
        "method": ["standard", "standard", "sod"], "setting": ["kappa_1", "kappa_1", "kappa_1"],
        "tau": [2.0, 4.0, 99.0],
    }  # fmt: skip
    tuning = {"kind": "tuning", "problem": "a", "values": {"checks": checks, "runs": tried}}
    row = cell(verdict_of([*parts, tuning]), "#1", "ACT STD")
    assert row["verdict"] == "differs"
    assert "kappa_1 3.0;" in row["why"]


@pytest.mark.parametrize(("ratio", "expected"), [(1.5, "agrees"), (3.5, "differs")])
def test_subset_ratio_within_a_quarter(ratio, expected):
    def methods(name, k):
        found = {"standard": estimates(2.9 * spread(k))}
        return found | {"sod": estimates(2.9 * spread(k) * ratio, m=(40,), seconds=3e-4)}

    verdict = verdict_of(study(settings_of(a={"data": 1}), methods))
    assert cell(verdict, "#1", "efficiency SOD")["verdict"] == expected


def test_a_stuck_chain_differs_and_is_told():
    def methods(name, k):
        found = typical(name, k)
        return found | {"nystrom": estimates(math.inf if k == 2 else 3.5, m=(30,))}

    verdict = verdict_of(study(settings_of(a={"data": 1}), methods))
    row = cell(verdict, "#1", "ACT NYS")
    assert row["verdict"] == "differs"
    assert "1 of 6 chains never moved" in row["why"]
    assert cell(verdict, "#1", "efficiency NYS")["verdict"] == "differs"


@pytest.mark.parametrize("tau", [2.0, 200.0])
def test_a_chain_at_another_mode_is_not_cheap_and_is_told(tau):
    """It may mix better there than all others, or be too slow there for an error of its mean."""

    def methods(name, k):
        there = estimates(1.5, m=(0,)) | {"theta_mean": [1.3], "theta_tau": [tau]}
        off = {"mean_log_likelihood": -14.5 if k == 2 else -13.5}
        return typical(name, k) | {"student": there | off}

    verdict = verdict_of(study(settings_of(a={"data": 1}), methods))
    (row,) = claim(verdict, "beyond the paper", column="student")
    assert row["verdict"] == "does not hold"
    assert "1 of 6 chains stayed far from the others" in row["why"]
    (row,) = claim(verdict, "all methods draw")
    assert row["verdict"] == "does not hold"
    assert row["why"].endswith(
        "4 posterior sd or more off in the log likelihood: student on 1 of the data sets"
    )
    (row,) = claim(verdict, "discretizing chain", column="CPU")
    assert row["verdict"] == "holds"  # the other methods keep their costs


def test_a_far_chain_is_told_where_nothing_else_can_be_compared():
    def methods(name, k):
        slow = {"standard": estimates(9.0, acceptance=0.01), "sod": estimates(9.0, acceptance=0.01)}
        return slow | {"student": estimates(2.0) | {"mean_log_likelihood": 30.0}}

    (row,) = claim(verdict_of(study(settings_of(a={"data": 1}), methods)), "all methods draw")
    assert row["verdict"] == "does not hold"
    assert "student on 6 of the data sets" in row["why"]


def test_one_data_set_resolves_nothing():
    verdict = verdict_of(study(settings_of(a={"data": 1}), typical, n=1))
    assert cell(verdict, "#1", "ACT STD")["verdict"] == "not resolved"
    (row,) = claim(verdict, "discretizing chain", column="CPU")
    assert row["verdict"] == "not resolved"


def test_known_outliers_have_their_reason():
    def methods(name, k):
        found = {"standard": estimates(5.8 * spread(k)), "sod": estimates(9.0, m=(150,))}
        return found | {"tempered": estimates(7.0 * spread(k), m=(100, 50))}

    verdict = verdict_of(study(settings_of(a={"data": 2}), methods))
    row = cell(verdict, "#2", "ACT TMP")
    assert row["verdict"] == "differs"
    assert "outlier" in row["why"]


def test_tables_do_not_depend_on_the_order_of_the_parts():
    parts = study(settings_of(z={"data": 1}, b={"data": 10}, a={"data": "diabetes"}), typical)
    there, back = tables(parts, PRINTED), tables(parts[::-1], PRINTED)
    for name in ("runs", "verdict"):
        pd.testing.assert_frame_equal(there[name], back[name])
    assert list(dict.fromkeys(there["runs"]["problem"])) == ["z", "b", "a"]


# Claims


def test_order_by_paired_ratios():
    verdict = verdict_of(study(settings_of(a={"data": 1}), typical))
    cpu, machine_free = (
        claim(verdict, "discretizing chain", column=c)[0] for c in ("CPU", "equivalents")
    )
    assert cpu["verdict"] == "holds"
    assert machine_free["verdict"] == "does not hold"  # as many pi-equivalents, larger tau
    (row,) = claim(verdict, "beyond the paper", column="student")
    assert row["verdict"] == "holds"
    assert row["ours"] == pytest.approx(1.5 / 2.9)


def test_gain_at_900_cases():
    def methods(name, k):
        seconds = {"small": 5e-4, "large": 1e-4}[name]
        return {
            "standard": estimates(3.0 * spread(k)),
            "sod": estimates(4.5 * spread(k) * (1 + 0.01 * k), m=(40,), seconds=seconds),
        }

    settings = settings_of(small={"data": 1}, large={"data": 6})
    verdict = verdict_of(study(settings, methods))
    rows = claim(verdict, "the gain of the subset chain")
    assert [row["verdict"] for row in rows] == ["holds", *["missing"] * 4]
    assert rows[0]["ours"] == pytest.approx(0.2)


def test_grid_of_r_and_s():
    settings = settings_of(a={"data": 1, "chain_grid": True})

    def methods(name, k):
        found = {"standard": estimates(3.0), "sod": estimates(4.0 * spread(k), m=(40,))}
        for r in GRID:
            for s in GRID:
                if (r, s) != (1, 1):
                    tau = 8.0 * spread(k) * (1 + 0.01 * k) if r > 1 else 2.0 * spread(k)
                    found[f"sod_r{r}_s{s}"] = estimates(tau, m=(40,))
        return found

    rows = claim(verdict_of(study(settings, methods)), "r = s = 1")
    assert len(rows) == 15
    for row in rows:
        better = "r = 1," in row["row"]
        assert row["verdict"] == ("does not hold" if better else "holds")


@pytest.mark.parametrize(
    ("data", "accepted", "expected"),
    [(2, [0, 0, 0.01, 0.02, 0.9], "holds"), (2, [0, 0.3, 0.5, 0.7, 0.9], "does not hold"),
     (4, [0.8, 0.9, 1, 1, 1], "holds"), (4, [0, 0.4, 1, 1, 1], "does not hold")],
)  # fmt: skip
def test_ranks_that_nystrom_needs(data, accepted, expected):
    settings = settings_of(a={"data": data, "ranks": True})

    def methods(name, k):
        found = {"standard": estimates(3.0)}
        for share, rate in zip((10, 30, 50, 70, 95), accepted, strict=True):
            found[f"nystrom_m{share}"] = estimates(4.0, m=(share,), acceptance=rate)
        return found

    (row,) = claim(verdict_of(study(settings, methods)), "Nystrom needs m near")
    assert row["verdict"] == expected


def test_best_lever_over_types_1_to_5():
    names = {f"t{k}": {"data": k} for k in range(1, 6)}

    def methods(name, k):
        factor = {"t1": 9.0, "t2": 3.0, "t3": 6.0, "t4": 6.0, "t5": 6.0}[name]
        base = estimates(4.0, cost=20.0 * spread(k))
        wobble = 1.0 + 0.01 * k
        good, poor = (estimates(2.0, cost=20 * spread(k) * wobble / f) for f in (factor, 2.0))
        return {"standard": base, "student": good, "hmc": poor}

    rows = claim(verdict_of(study(settings_of(**names), methods)), "the best lever")
    found = {row["column"]: row for row in rows}
    expected = math.exp(np.mean(np.log([9.0, 3.0, 6.0, 6.0, 6.0])))
    assert found["baseline / student"]["ours"] == pytest.approx(expected, rel=0.03)
    assert found["baseline / student"]["verdict"] == "holds"
    assert found["baseline / hmc"]["verdict"] == "does not hold"


def test_levers_are_compared_with_the_better_baseline():
    def methods(name, k):
        wide = estimates(2.0, cost=(5.0 if name == "a" else 20.0) * spread(k))
        found = {"standard": estimates(3.0, cost=10.0 * spread(k)), "standard_wide": wide}
        return found | {"student": estimates(2.0, cost=2.0 * spread(k))}

    verdict = verdict_of(study(settings_of(a={"data": 1}, b={"data": 2}), methods))
    a, b = claim(verdict, "beyond the paper")
    assert a["column"].endswith("student / standard_wide")
    assert a["ours"] == pytest.approx(2.0 / 5.0)
    assert b["column"].endswith("student / standard")
    assert b["ours"] == pytest.approx(2.0 / 10.0)


def test_sensitivity_stands_beside_the_defaults():
    settings = settings_of(a={"data": 1}, b={"data": 1, "prior": "weak"})
    rows = claim(verdict_of(study(settings, typical)), "sensitivity")
    assert {row["row"] for row in rows} == {"b"}
    methods = ("standard", "sod", "nystrom", "tempered")
    assert [row["column"] for row in rows] == [f"ACT: {method}" for method in methods]
    assert all(row["ours"] == pytest.approx(row["recomputed"]) for row in rows)


def test_methods_that_disagree_are_seen():
    def methods(name, k):
        found = typical(name, k)
        wrong = copy.deepcopy(found["sod"])
        wrong["theta_mean"] = [2.0]
        return found | ({"sod": wrong} if name == "b" else {})

    verdict = verdict_of(study(settings_of(a={"data": 1}, b={"data": 4}), methods))
    a, b = claim(verdict, "all methods draw")
    assert (a["verdict"], b["verdict"]) == ("holds", "does not hold")


def test_a_baseline_that_mixes_too_slowly_is_no_reference():
    """Its own mean is far off, and its error is not known."""

    def methods(name, k):
        found = typical(name, k)
        slow = {"theta_tau": [400.0], "theta_mean": [1.5]} if name == "b" else {"theta_mean": [1.5]}
        return found | {"standard": found["standard"] | slow}

    verdict = verdict_of(study(settings_of(a={"data": 1}, b={"data": 4}), methods))
    a, b = claim(verdict, "all methods draw")
    assert (a["verdict"], b["verdict"]) == ("does not hold", "holds")
    assert "6 chains left out" in b["why"]


def test_claims_of_one_computation():
    checks = {"forms": 1e-13, "not_orthonormal": 3.0, "general_noise": 1e-10}
    tuning = {"kind": "tuning", "problem": "a", "values": {"checks": checks, "runs": {}}}
    parts = study(settings_of(a={"data": 1}), typical)
    for k, kept in enumerate(parts):
        kept["values"]["eigen"] = [12.0 + k, 30]
    verdict = verdict_of([*parts, tuning])
    for start in ("eqs. 40-41", "residual variances", "eigen-exact"):
        assert [row["verdict"] for row in claim(verdict, start)] == ["holds"]
    checks |= {"forms": 1e-3, "general_noise": 1.0}
    verdict = verdict_of([*parts, tuning])
    for start in ("eqs. 40-41", "residual variances"):
        assert [row["verdict"] for row in claim(verdict, start)] == ["does not hold"]


def test_claims_without_their_runs_are_missing():
    verdict = verdict_of(study(settings_of(a={"data": "diabetes"}), typical))
    for start in ("r = s = 1", "Nystrom needs", "tempered transitions", "residual", "sensitivity"):
        rows = claim(verdict, start)
        assert rows
        assert all(row["verdict"] == "missing" for row in rows)
