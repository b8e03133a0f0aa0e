"""Tables of the surrogate-slice study from made-up parts: printed numbers, statements, claims, agreement."""

from __future__ import annotations

import copy
import math

import numpy as np
import pandas as pd
import pytest
import yaml

from gpmcflow.replications.judgement import VERDICT_COLUMNS
from gpmcflow.replications.parts import PUBLISHED
from gpmcflow.replications.surrogate_slice import comparisons
from gpmcflow.replications.surrogate_slice.estimates import (
    MethodRuns,
    ProblemRuns,
    log_ratio,
    problem_runs,
)
from gpmcflow.replications.surrogate_slice.settings import REPRESENTATIONS
from gpmcflow.replications.surrogate_slice.tables import COLUMNS, tables
from gpmcflow.storage import write_csv

PRINTED = yaml.safe_load((PUBLISHED / "surrogate_slice.yaml").read_text())
LINE, PLANE = ["log_length", "log_signal_sd", "offset"], ["log_length_1", "log_length_2", "offset"]
SPREAD = (0.9, 0.95, 1.0, 1.05, 1.1, 1.0)  # of chains about the mean
SIX = {
    "fixed": 10.0, "prior-white": 40.0, "surr-site": 100.0, "post-site": 110.0, "surr-taylor": 130.0,
    "post-taylor": 120.0,
}  # fmt: skip
FOUR = {name: SIX[name] for name in ("fixed", "prior-white", "surr-site", "post-site")}


def chain(ess=100.0, *, n_lik=1e5, n_cov=5e4, seconds=10.0, mean=0.0, names=LINE, **more) -> dict:
    """Estimates of one chain; every coordinate has unit variance and ``ess`` effective samples."""
    d = len(names)
    return {
        "iterations": 5000, "ess": ess, "ess_bulk": ess, "n_hyp": 2 * n_cov, "n_cov": n_cov,
        "n_lik": n_lik, "n_failed": 0, "acceptance": 1.0, "seconds": seconds, "T_mean": mean,
        "T_sd": 1.0, "theta_mean": [mean] * d, "theta_sd": [1.0] * d, "theta_ess": [ess] * d,
    } | more  # fmt: skip


def part(
    problem, method, replicate, chains, *, settings=None, likelihood="poisson", n=60, names=LINE
):
    given = {"representation": method, "update": "slice", "width": 1.0, "site_scale": 1.0}
    return {
        "study": "surrogate_slice", "kind": "replicate", "problem": problem, "method": method,
        "replicate": replicate, "values": {"n_cases": n, "names": list(names), "chains": chains},
        "settings": {"problem": {"likelihood": likelihood}, "method": given | (settings or {})},
    }  # fmt: skip


def runs(problem="toy", efficiency=SIX, *, variants=None, spread=SPREAD, **where) -> list[dict]:
    """Parts of every method with these mean effective samples; ``variants``: method -> (mean, settings)."""
    names = where.get("names", LINE)
    found = {name: (mean, None) for name, mean in efficiency.items()} | (variants or {})
    return [
        part(problem, name, k, [chain(mean * s, names=names)], settings=settings, **where)
        for name, (mean, settings) in found.items()
        for k, s in enumerate(spread)
    ]


def verdict_of(parts) -> pd.DataFrame:
    found = tables(parts, PRINTED)["verdict"]
    assert list(found.columns) == VERDICT_COLUMNS
    return found


def claim(verdict, start, **where) -> list[dict]:
    found = verdict[verdict["table"].str.startswith(f"claim: {start}")]
    for key, value in where.items():
        found = found[found[key].str.contains(value, regex=False)]
    return found.to_dict("records")


def verdicts(parts, start, **where) -> list[str]:
    return [row["verdict"] for row in claim(verdict_of(parts), start, **where)]


# Estimates


def test_interval_of_a_ratio_covers_the_truth():
    """Effective sizes that vary by a factor 1.5 between ten and six chains."""
    rng, inside = np.random.default_rng(0), []
    for _ in range(1500):
        sizes = [rng.gamma(6.0, 1.0, 10), rng.gamma(6.0, 2.0, 6)]
        a, b = (
            MethodRuns(name, {}, "poisson", tuple(chain(v) for v in values))
            for name, values in zip("ab", sizes, strict=True)
        )
        low, high = log_ratio(a, b, "n_cov").interval()
        inside.append(low < math.log(0.5) < high)
    assert abs(np.mean(inside) - 0.95) < 0.02


@pytest.mark.parametrize(
    ("settings", "variant"),
    [({}, ""), ({"sites": "standard", "elliptical": 10, "max_steps": 1}, ""), ({"sites": "laplace"}, ""),
     ({"sites": "moments"}, "moments sites"), ({"site_scale": 100.0}, "S x 100"),
     ({"site_variance": 2.0}, "S = 2 I"),
     ({"width": 0.1}, "width 0.1"), ({"max_steps": 8}, "8 steps out"),
     ({"update": "metropolis", "scale": 0.5}, "metropolis 0.5"),
     ({"elliptical": 0}, "no elliptical updates")],
)  # fmt: skip
def test_methods_are_told_by_settings_not_names(settings, variant):
    given = {"representation": "surr-site", "width": 1.0} | settings
    found = MethodRuns("a-name", given, "poisson", (chain(),))
    assert (found.representation, found.variant, found.plain) == ("surr-site", variant, not variant)


def test_problems_by_kind_and_methods_in_the_papers_order():
    parts = [
        *runs("b", names=PLANE, n=625), *runs("a", n=811), *runs("c", n=60),
        *runs("d", likelihood="logistic", n=90), *runs("e", likelihood={"name": "gaussian"}),
    ]  # fmt: skip
    found = problem_runs(parts[::-1])
    assert {p.name: p.kind for p in found.values()} == {
        "d": "classification", "e": "regression", "a": "line", "c": "line", "b": "plane",
    }  # fmt: skip
    assert list(found) == ["d", "e", "c", "a", "b"]
    assert [p.fine for p in found.values()] == [False, False, False, True, False]
    assert list(found["c"].methods) == list(REPRESENTATIONS)
    there, back = tables(parts, PRINTED), tables(parts[::-1], PRINTED)
    for name, frame in there.items():
        pd.testing.assert_frame_equal(frame, back[name])


# Efficiency


def test_efficiency_relative_to_surr_site():
    table = tables(runs(), PRINTED)["efficiency"].set_index("method")
    row = table.loc["prior-white"]
    expected = np.array(SPREAD) * 40.0 / 5e4
    assert row["per_n_cov"] == pytest.approx(expected.mean())
    assert row["per_n_cov_mcse"] == pytest.approx(expected.std(ddof=1) / math.sqrt(6))
    assert row["per_second"] == pytest.approx(4.0)
    assert row["per_n_hyp"] == pytest.approx(0.5 * row["per_n_cov"])
    assert row["per_n_lik_ratio"] == pytest.approx(0.4)
    relative = np.std(SPREAD, ddof=1) / math.sqrt(6)
    assert row["per_n_lik_ratio_mcse"] == pytest.approx(0.4 * relative * math.sqrt(2.0))
    assert table.loc["surr-site", ["per_n_lik_ratio", "per_n_lik_ratio_mcse"]].tolist() == [
        1.0,
        0.0,
    ]
    assert row["seconds_per_covariance"] == pytest.approx(10.0 / 5e4)


def test_a_chain_that_never_moved():
    parts = runs(efficiency=SIX | {"fixed": 0.0})
    table = tables(parts, PRINTED)["efficiency"].set_index("method")
    assert table.loc["fixed", "per_n_cov_ratio"] == 0.0
    assert set(verdicts(parts, "figure 3 (1): fixed is by far")) == {"holds"}


def test_without_surr_site_there_is_no_ratio():
    table = tables(runs(efficiency={"fixed": 1.0, "post-site": 3.0}), PRINTED)["efficiency"]
    assert table["per_n_cov_ratio"].isna().all()


# Printed numbers


def mining(factor=1.0, noise=0.0) -> list[dict]:
    """Chains with ``factor`` times the paper's effective samples per covariance construction."""
    sizes = [7.4e-4 * 5e4 * factor * math.exp(noise * z) for z in (-1.5, -1, 0.5, 0.5, 1.5)]
    chains = [chain(ess, n_lik=17.2 * 5e4) for ess in sizes]
    return [part("coal", "surr-site", k, [c], n=112) for k, c in enumerate(chains)]


def printed(verdict, column) -> dict:
    found = verdict[(verdict["table"] == "Figure 3") & (verdict["row"] == "mining")]
    (row,) = found[found["column"] == column].to_dict("records")
    return row


def test_twelve_printed_numbers_and_what_follows_from_them():
    found = verdict_of(runs())
    table = found[found["table"] == "Figure 3"]
    assert len(table) == 20
    assert (table["verdict"] == "missing").all()
    numbers = table[table["printed"] != ""]["printed"]
    assert sorted(numbers) == sorted(
        [1.6e-4, 3.3e-4, 4.3e-5, 4.8e-4, 2.9e-4, 1.1e-3, 7.4e-4, 3.7e-3, 7.7e-3, 5.4e-2, 1.2e-1, 1.5e-2]
    )  # fmt: skip
    implied = table[table["recomputed"] != ""]["recomputed"].tolist()
    assert implied == [1.8, 0.038, 3.3, 0.02, 17.0, 0.0062, 7.7, 0.25]


@pytest.mark.parametrize(
    ("factor", "noise", "expected"),
    [(1.0, 0.1, "agrees"), (3.0, 0.1, "differs"), (0.3, 0.1, "differs"), (2.0, 0.3, "not resolved"),
     (0.5, 0.3, "not resolved")],
)  # fmt: skip
def test_verdict_on_a_printed_number(factor, noise, expected):
    row = printed(verdict_of(mining(factor, noise)), "surr-site per covariance construction")
    assert row["verdict"] == expected
    assert ("independent computation" in row["why"]) == (expected in ("differs", "not resolved"))
    assert "per setting of theta" in row["why"]


def test_seconds_are_shown_and_not_judged():
    found = verdict_of(mining(50.0))
    assert printed(found, "surr-site per second")["verdict"] == "machine-dependent"
    row = printed(found, "seconds per covariance construction")
    assert (row["verdict"], row["recomputed"]) == ("machine-dependent", 0.0062)
    assert row["ours"] == pytest.approx(2e-4)
    row = printed(found, "likelihood evaluations per covariance construction")
    assert (row["verdict"], row["ours"]) == ("agrees", pytest.approx(17.2))


def test_one_chain_resolves_no_printed_number():
    row = printed(verdict_of(mining()[:1]), "surr-site per covariance construction")
    assert row["verdict"] == "not resolved"


@pytest.mark.parametrize("changed", [{"n": 111}, {"likelihood": "gaussian"}, {"names": PLANE[1:]}])
def test_other_problems_do_not_stand_for_the_papers(changed):
    parts = runs("coal", **({"n": 112} | changed))
    assert (printed(verdict_of(parts), "surr-site per second"))["verdict"] == "missing"


def test_variants_do_not_stand_for_the_papers_method():
    parts = mining()
    for each in parts:
        each["settings"]["method"]["width"] = 0.1
    assert printed(verdict_of(parts), "surr-site per second")["verdict"] == "missing"


def test_two_problems_of_the_papers_size_have_rows_each():
    parts = mining() + [p | {"problem": "coal-short"} for p in mining(3.0)]
    found = verdict_of(parts)
    column = found["column"] == "surr-site per covariance construction"
    rows = found[column & found["row"].str.startswith("mining")]
    assert rows["row"].tolist() == ["mining: coal", "mining: coal-short"]


# Statements 1 to 5


def test_baselines_by_far():
    assert set(verdicts(runs(), "figure 3 (1)")) == {"holds"}
    close = SIX | {"fixed": 35.0}
    rows = claim(verdict_of(runs(efficiency=close)), "figure 3 (1): fixed", column="evaluation")
    assert [row["verdict"] for row in rows] == ["does not hold"]
    assert rows[0]["ours"] == pytest.approx(40.0 / 35.0)  # the worst of the others
    assert rows[0]["column"].endswith("prior-white / fixed")


def test_an_order_whose_interval_has_the_limit_is_not_resolved():
    parts = runs(efficiency=SIX | {"prior-white": 21.0})
    assert set(verdicts(parts, "figure 3 (1): prior-white")) == {"not resolved"}


def test_classification():
    here = {"likelihood": "logistic", "names": ["log_length_1", "log_signal_sd"]}
    assert set(verdicts(runs(efficiency=FOUR, **here), "figure 3 (2)")) == {"holds"}
    worse = runs(efficiency=FOUR | {"post-site": 30.0}, **here)
    found = claim(verdict_of(worse), "figure 3 (2)")
    by_method = {row["column"].split(": ")[1]: row["verdict"] for row in found}
    assert by_method["post-site / prior-white"] == "does not hold"
    assert by_method["surr-site / prior-white"] == "holds"
    assert by_method["surr-site / post-site"] == "does not hold"


@pytest.mark.parametrize(
    ("likelihood", "names", "kind"),
    [
        ({"gaussian": {"noise_sd": 0.3}}, ["log_length"], "regression"),
        ({"gaussian": {"noise_sd": "wide"}}, ["log_length"], "regression"),  # of a hyperprior
        ({"gaussian": {"noise_sd": 1.0e9}}, ["log_length"], "other"),
        ({"name": "gaussian", "noise_sd": 1.0e9}, ["log_length"], "other"),  # of an earlier version
        ("negative_binomial", ["log_length"], "line"),
        ({"poisson": {"exposure": 2.0}}, ["log_length_1", "log_length_2"], "plane"),
        ("student_t", ["log_length"], "other"),
        ({"binomial": {"trials": 3}}, ["log_length"], "other"),
    ],
)
def test_kinds_of_problems(likelihood, names, kind):
    problem = ProblemRuns("mine", {"likelihood": likelihood}, 9, tuple(names))
    assert problem.kind == kind


def test_regression_by_count_and_second():
    parts = runs(efficiency={"surr-site": 100.0, "post-site": 105.0}, likelihood="gaussian")
    for each in parts:
        if each["method"] == "post-site":
            each["values"]["chains"][0]["seconds"] = 6.0
    assert verdicts(parts, "figure 3 (3)") == ["holds"] * 3
    assert verdicts(parts, "figure 3 (4)") == ["missing"] * 2


@pytest.mark.parametrize(
    ("post", "expected"),
    [(100.0, "holds"), (195.0, "not resolved"), (52.0, "not resolved"), (300.0, "does not hold"),
     (30.0, "does not hold")],
)  # fmt: skip
def test_about_equal_is_an_equivalence_test(post, expected):
    parts = runs(efficiency={"surr-site": 100.0, "post-site": post}, likelihood="gaussian")
    assert set(verdicts(parts, "figure 3 (3): regression: post and")) == {expected}


def test_mining_variable_between_runs():
    assert set(verdicts(runs(), "figure 3 (4): mining: post-taylor")) == {"holds"}
    assert set(verdicts(runs(), "figure 3 (4): mining: results")) == {"does not hold"}
    middle = runs(spread=(0.65, 0.8, 1.0, 1.0, 1.2, 1.35))
    assert set(verdicts(middle, "figure 3 (4): mining: results")) == {"not resolved"}
    wide = runs(spread=(0.3, 0.5, 1.0, 1.0, 1.5, 1.9))
    rows = claim(verdict_of(wide), "figure 3 (4): mining: results")
    assert [row["verdict"] for row in rows] == ["holds", "holds"]
    values = np.array([0.3, 0.5, 1.0, 1.0, 1.5, 1.9])
    assert rows[0]["ours"] == pytest.approx(values.std(ddof=1) / values.mean())


def test_redwoods():
    order = SIX | {"surr-site": 200.0, "post-site": 210.0, "surr-taylor": 90.0, "post-taylor": 42.0}
    assert set(verdicts(runs(efficiency=order, names=PLANE), "figure 3 (5)")) == {"holds"}
    parts = runs(efficiency=order | {"surr-taylor": 400.0}, names=PLANE)
    found = claim(verdict_of(parts), "figure 3 (5)")
    best = [row["verdict"] for row in found if "best" in row["table"]]
    assert best == ["does not hold"] * 4


def test_fine_grids_and_one_unknown_are_no_test_of_the_statements():
    for parts in (runs(n=811), runs(names=["log_length"])):
        assert set(verdicts(parts, "figure 3")) == {"missing"}


# Claims


def test_fine_discretisation():
    three = {"prior-white": 90.0, "surr-site": 40.0, "post-site": 200.0}
    parts = runs(efficiency=three, n=811) + runs("usual", n=112)
    surr, post = claim(verdict_of(parts), "text (1)")
    assert (surr["verdict"], post["verdict"]) == ("holds", "does not hold")
    assert "0.4 with 112 bins" in surr["why"]


def test_laplace_sites_on_classification():
    variants = {"laplace": (30.0, {"representation": "surr-site", "sites": "laplace"})}
    parts = runs(efficiency=FOUR, variants=variants, likelihood="logistic")
    (row,) = claim(verdict_of(parts), "text (2)")
    assert (row["verdict"], row["ours"]) == ("holds", pytest.approx(100.0 / 30.0))
    assert verdicts(runs(variants=variants), "text (2)") == [
        "missing"
    ]  # Laplace is usual for counts


def test_poor_choice_of_site_variances():
    scaled = {
        f"{kind}-{scale}": (mean, {"representation": f"{kind}-site", "site_scale": scale})
        for kind, scale, mean in (("surr", 0.01, 50.0), ("surr", 100.0, 60.0), ("post", 0.01, 20.0),
                                  ("post", 100.0, 80.0))
    }  # fmt: skip
    found = verdict_of(runs(variants=scaled))
    assert [r["verdict"] for r in claim(found, "text (3): a poor")] == ["holds", "holds"]
    small, large = claim(found, "text (3): with a poor")
    assert (small["verdict"], large["verdict"]) == ("holds", "does not hold")
    assert small["row"].endswith("S x 0.01")
    assert "0.5 of surr-site" in small["why"]


def widths(*sizes, scales=(90.0, 10.0, 30.0)) -> dict:
    kind = {"representation": "surr-site"}
    found = {f"w{k}": (mean, kind | {"width": 10.0**-k}) for k, mean in enumerate(sizes, 1)}
    return found | {
        f"mh{k}": (mean, {"representation": "surr-site", "update": "metropolis", "scale": 10.0**-k})
        for k, mean in enumerate(scales)
    }


def test_robust_to_width():
    found = verdict_of(runs(variants=widths(90.0, 80.0)))
    assert [row["verdict"] for row in claim(found, "text (4): slice sampling is")] == ["holds"] * 2
    (row,) = claim(found, "text (4): slice sampling depends")
    assert row["verdict"] == "holds"
    assert row["ours"] == pytest.approx((80.0 / 100.0) / (10.0 / 90.0))
    found = verdict_of(runs(variants=widths(90.0, 10.0, scales=(90.0, 80.0, 80.0))))
    assert {row["verdict"] for row in claim(found, "text (4)", row="width 0.01")} == {
        "does not hold"
    }
    assert claim(found, "text (4): slice sampling depends")[0]["verdict"] == "does not hold"


def test_joint_split_hmc_beside_every_representation():
    ahead = SIX | {"joint-split": 400.0}
    (row,) = claim(verdict_of(runs(efficiency=ahead)), "beyond the paper")
    assert (row["verdict"], row["ours"]) == ("holds", pytest.approx(400.0 / 130.0))
    assert row["column"] == "ESS per second: joint-split / surr-taylor"
    assert verdicts(runs(efficiency=SIX | {"joint-split": 60.0}), "beyond") == ["does not hold"]
    assert verdicts(runs(), "beyond") == ["missing"]
    # it is none of the methods the paper speaks of
    paper = verdict_of(runs(efficiency=ahead))
    assert not paper[paper["table"].str.contains("figure 3")]["column"].str.contains("joint").any()


def test_which_sampler_counts_the_slowest_and_what_comes_before():
    parts = runs(efficiency={"fixed": 1.0, "surr-site": 100.0, "joint-split": 400.0})
    for each in parts:
        (found,) = each["values"]["chains"]
        if each["method"] == "joint-split":
            found["theta_ess"] = [400.0, 200.0, 300.0]
            found["pilot_seconds"] = 6.0
            found["latent_ess"] = 250.0
        elif each["method"] == "surr-site":
            found["latent_ess"] = 1e3
        each["settings"]["method"]["warmup"] = 1000 if each["method"] == "surr-site" else None
    table = tables(parts, PRINTED)["which_sampler"].set_index("method")
    assert table["rank"].to_dict() == {"joint-split": 1, "surr-site": 2, "fixed": 3}
    # 200 samples of the slowest in 10 seconds, after 6; 100 in 10, after a fifth of that
    assert table.loc["joint-split", "seconds_to_100"] == pytest.approx(6.0 + 5.0)
    assert table.loc["surr-site", "seconds_to_100"] == pytest.approx(2.0 + 10.0)
    assert table.loc["surr-site", "times_the_best"] == pytest.approx(12.0 / 11.0)
    assert table["advice"].tolist()[:2] == ["use", "use"]
    # by the delta method
    error = 100.0 * np.std(SPREAD, ddof=1) / 6**0.5 * 10.0 / 10.0**2
    assert table.loc["surr-site", "seconds_to_100_mcse"] == pytest.approx(error)
    assert table.loc["fixed", "advice"].startswith("do not use: 6 effective samples")
    assert math.isnan(table.loc["fixed", "seconds_to_100"])
    assert table.loc["joint-split", "covariances_per_slowest"] == pytest.approx(5e4 / 200.0)
    rates = np.array(SPREAD) * 10.0
    assert table.loc["surr-site", "T_per_second"] == pytest.approx(rates.mean())
    assert table.loc["surr-site", "T_per_second_mcse"] == pytest.approx(rates.std(ddof=1) / 6**0.5)


def test_which_sampler_by_latent_values_that_are_slower():
    parts = runs(efficiency={"surr-site": 100.0, "post-site": 100.0})
    for each in parts:
        if each["method"] == "post-site":
            each["values"]["chains"][0]["latent_ess"] = 50.0
    table = tables(parts, PRINTED)["which_sampler"].set_index("method")
    assert table.loc["surr-site", "advice"] == "use"
    # fewer than 100 a chain: R-CODA's size is too large then
    assert table.loc["post-site", "advice"] == "slower; rough: 50 effective samples a chain"
    assert table.loc["post-site", "slowest_per_second"] == pytest.approx(5.0)
    assert table.loc["post-site", "latents_per_second"] == pytest.approx(5.0)
    assert math.isnan(table.loc["surr-site", "latents_per_second"])


def test_variants_alone_leave_a_table_that_can_be_read(tmp_path):
    parts = runs(
        efficiency={}, variants={"a": (50.0, {"representation": "surr-site", "width": 0.5})}
    )
    table = tables(parts, PRINTED)["which_sampler"]
    assert table.empty
    write_csv(table, tmp_path / "which_sampler.csv")
    assert list(pd.read_csv(tmp_path / "which_sampler.csv").columns) == COLUMNS


def test_less_than_two_decades_of_widths_show_nothing():
    assert verdicts(runs(variants=widths(90.0)), "text (4)") == ["not resolved"] * 2


@pytest.mark.parametrize(("rate", "expected"), [(1.0, "holds"), (0.999, "does not hold")])
def test_acceptance_without_data(rate, expected):
    settings = {"representation": "prior-white", "update": "metropolis", "proposal": "prior"}
    for noise_sd, found in ((1e9, expected), (0.3, "missing")):
        where = {"likelihood": {"name": "gaussian", "noise_sd": noise_sd}, "settings": settings}
        parts = [part("none", "prior", 0, [chain(acceptance=1.0), chain(acceptance=rate)], **where)]
        assert verdicts(parts, "text (5): without") == [found]
        assert set(verdicts(parts, "figure 3")) == {"missing"}


def test_support_of_length_scales_and_the_sign_of_equation_13():
    found = verdict_of(runs(likelihood="gaussian"))
    (row,) = claim(found, "text (6)")
    assert row["verdict"] == "holds"
    assert "27 % of data sets" in row["why"]
    (row,) = claim(found, "text (7)")
    assert (row["verdict"], row["ours"]) == ("does not hold", pytest.approx(-1.0))


def test_claims_without_their_runs_are_missing():
    for start in ("text (1)", "text (2)", "text (3)", "text (4)", "text (5)", "text (6)"):
        assert set(verdicts(runs(), start)) == {"missing"}


# Agreement


def ten_counts(mean=-1.617, T=-15.77, **settings) -> list[dict]:
    chains = [
        chain(400.0, names=["log_length"]) | {"theta_mean": [mean + d], "T_mean": T + d}
        for d in (-0.05, 0.05, 0.01, -0.01)
    ]
    where = {"n": 10, "names": ["log_length"], "settings": settings}
    return [part("ten", "surr-site", 0, chains, **where)]


@pytest.mark.parametrize(("shift", "expected"), [(0.0, "agrees"), (0.3, "differs")])
def test_exact_small_posterior(shift, expected):
    found = verdict_of(ten_counts(-1.617 + shift))
    rows = found[found["table"] == "exact small posterior"].set_index("column")
    assert rows.loc["E log_length", "verdict"] == expected
    assert rows.loc["E T", "verdict"] == "agrees"


@pytest.mark.parametrize(("shift", "expected"), [(0.0, "holds"), (0.3, "does not hold")])
def test_no_elliptical_updates(shift, expected):
    found = ten_counts(-1.617 + shift, elliptical=0)
    assert verdicts(found, "text (5): surrogate") == [expected]
    elsewhere = runs(variants={"alone": (100.0, {"representation": "surr-site", "elliptical": 0})})
    for each in elsewhere:
        if each["method"] == "alone":
            each["values"]["chains"][0]["theta_mean"][0] += shift
    assert verdicts(elsewhere, "text (5): surrogate") == [expected]


def test_methods_that_disagree_are_seen():
    parts = runs(efficiency=SIX | {"fixed": 50.0})
    wrong = copy.deepcopy(parts)
    for each in wrong:
        if each["method"] == "post-taylor":
            each["values"]["chains"][0]["theta_mean"][1] = 0.5
    assert set(verdicts(parts, comparisons.SAME_POSTERIOR)) == {"holds"}
    rows = {row["column"]: row for row in claim(verdict_of(wrong), comparisons.SAME_POSTERIOR)}
    assert rows.pop("root mean square z: post-taylor - surr-taylor")["verdict"] == "does not hold"
    assert {row["verdict"] for row in rows.values()} == {"holds"}


def test_a_slow_method_is_told_and_not_compared():
    rows = claim(
        verdict_of(runs(efficiency=SIX | {"fixed": 3.0})),
        comparisons.SAME_POSTERIOR,
        column="fixed",
    )
    assert [row["verdict"] for row in rows] == ["not resolved"]
    assert "no error is known" in rows[0]["why"]


@pytest.mark.parametrize(
    ("means", "ess", "expected"),
    [
        ((0.0, 0.0, 0.0, 0.0), 400.0, 1.0 / math.sqrt(1600.0)),  # chains agree: from within
        ((0.0, 0.0, 0.0, 0.0), 25.0, 2.0 / math.sqrt(100.0)),  # slow ones: doubled
        ((-1.0, 1.0, -1.0, 1.0), 400.0, math.sqrt(4.0 / 3.0) / 2.0),  # from between
        ((0.0,), 400.0, 1.0 / 20.0),
    ],
)
def test_error_is_the_larger_of_between_and_within(means, ess, expected):
    chains = tuple(chain(ess, mean=mean) for mean in means)
    found = comparisons.moments(MethodRuns("m", {}, "poisson", chains), LINE)
    assert set(found) == {*LINE, comparisons.TRACE}
    assert found["offset"].error == pytest.approx(expected)
    assert found["offset"].mean == 0.0


def test_posterior_has_a_row_a_coordinate():
    table = tables(runs(), PRINTED)["posterior"]
    assert len(table) == len(SIX) * (len(LINE) + 1)
    row = table[(table["method"] == "fixed") & (table["coordinate"] == "T")].iloc[0]
    assert (row["chains"], row["ess"]) == (6, pytest.approx(10.0 * sum(SPREAD)))
