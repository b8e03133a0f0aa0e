"""Scores of models and baselines: held out or by leave-one-out, differences, errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression

from gpmcflow.analysis import convergence
from gpmcflow.analysis.baselines import baselines, separated
from gpmcflow.analysis.scores import (
    COLUMNS,
    HELD_OUT,
    LEAVE_ONE_OUT,
    Results,
    _cross_validated,
    _error,
    choice_of,
    models_table,
    score_kind,
)


def by_role(found):
    return {baseline.role: baseline for baseline in found}


def test_binary_baselines(data):
    own = data("binary", 60)
    X, y, rows = own.learning.X.to_numpy(), own.learning.outcome, own.held_out
    found = by_role(baselines(own, rows))
    np.testing.assert_allclose(found["base"].mean, y.mean())
    p = LogisticRegression(max_iter=1000).fit(X, y).predict_proba(rows.X.to_numpy())[:, 1]
    np.testing.assert_allclose(found["simple"].mean, p, atol=1e-4)
    for role, mean in (("base", np.full(len(p), y.mean())), ("simple", found["simple"].mean)):
        expected = np.where(rows.outcome == 1.0, np.log(mean), np.log1p(-mean))
        np.testing.assert_allclose(found[role].log_density, expected, rtol=1e-10)
    assert (found["simple"].name, found["base"].name) == ("logistic regression", "base rate")


def test_baselines_of_counts(data):
    own = data("counts", 60)
    learning, rows = own.learning, own.held_out
    found = by_role(baselines(own, rows))
    rate = learning.outcome.sum() / learning.unit.sum()
    np.testing.assert_allclose(found["base"].mean, rate * rows.unit)
    np.testing.assert_allclose(
        found["base"].log_density, stats.poisson.logpmf(rows.outcome, rate * rows.unit)
    )
    # Poisson regression by Newton's method with the unit as exposure
    X = np.column_stack([np.ones(len(learning.X)), learning.X])
    beta = np.array([np.log(rate), 0.0, 0.0])
    penalty = 1e-3 * learning.unit.sum() * np.diag([0.0, 1.0, 1.0])
    for _ in range(20):
        mean = learning.unit * np.exp(X @ beta)
        slope = X.T @ (learning.outcome - mean) - penalty @ beta
        beta = beta + np.linalg.solve((X.T * mean) @ X + penalty, slope)
    expected = rows.unit * np.exp(np.column_stack([np.ones(len(rows.X)), rows.X]) @ beta)
    np.testing.assert_allclose(found["simple"].mean, expected, rtol=2e-3)
    np.testing.assert_allclose(
        found["simple"].log_density, stats.poisson.logpmf(rows.outcome, found["simple"].mean)
    )


def test_baselines_of_successes_are_those_of_their_single_trials(data):
    own = data("binomial", 40)
    learning, rows = own.learning, own.held_out
    found = by_role(baselines(own, rows))
    share = learning.outcome.sum() / learning.unit.sum()
    np.testing.assert_allclose(found["base"].mean, share * rows.unit)
    trials = learning.unit.astype(int)
    single = np.concatenate(
        [np.arange(n) < k for n, k in zip(trials, learning.outcome, strict=True)]
    )
    X = np.repeat(learning.X.to_numpy(), trials, axis=0)
    p = LogisticRegression(max_iter=1000).fit(X, single).predict_proba(rows.X.to_numpy())[:, 1]
    np.testing.assert_allclose(found["simple"].mean, p * rows.unit, rtol=1e-3)
    np.testing.assert_allclose(
        found["simple"].log_density,
        stats.binom.logpmf(rows.outcome, rows.unit, found["simple"].mean / rows.unit),
    )


def test_baselines_of_real_outcomes(data):
    own = data("many", 60)
    X, y, rows = own.learning.X.to_numpy(), own.learning.outcome, own.held_out
    found = by_role(baselines(own, rows))
    n = len(y)
    np.testing.assert_allclose(found["base"].mean, y.mean())
    expected = stats.t.logpdf(rows.outcome, n - 1, y.mean(), y.std(ddof=1) * np.sqrt(1 + 1 / n))
    np.testing.assert_allclose(found["base"].log_density, expected, rtol=1e-8)
    line = LinearRegression().fit(X, y)
    np.testing.assert_allclose(found["simple"].mean, line.predict(rows.X.to_numpy()))
    # levels of a category add up to 1: leave one out for a design of full rank
    keep = [k for k, name in enumerate(own.learning.X.columns) if name != "ward=west"]
    Z, Z_new = (np.column_stack([np.ones(len(a)), a[:, keep]]) for a in (X, rows.X.to_numpy()))
    dof = n - Z.shape[1]
    variance = np.sum((y - line.predict(X)) ** 2) / dof
    leverage = np.diag(Z_new @ np.linalg.inv(Z.T @ Z) @ Z_new.T)
    scale = np.sqrt(variance * (1.0 + leverage))
    np.testing.assert_allclose(
        found["simple"].log_density,
        stats.t.logpdf(rows.outcome, dof, found["simple"].mean, scale),
        rtol=1e-6,
    )


def test_the_baseline_of_a_negative_binomial_model_is_negative_binomial(data, table):
    rng, rows = np.random.default_rng(1), table("counts", 200)
    rate = rows["hours"] * np.exp(0.5 + np.sin(rows["east"] / 4.0))
    rows["count"] = rng.poisson(rate * rng.gamma(0.7, 1.0 / 0.7, 200))
    own = data("counts", rows=rows)
    learning, held = own.learning, own.held_out
    found = by_role(baselines(own, held, "negative_binomial"))
    assert found["simple"].name == "negative binomial regression"
    for role, X, X_new in (
        ("simple", learning.X, held.X),
        ("base", learning.X.iloc[:, :0], held.X.iloc[:, :0]),
    ):
        X, X_new = (np.insert(part.to_numpy(), 0, 1.0, axis=1) for part in (X, X_new))

        def loss(at, X=X):
            mean, d = learning.unit * np.exp(X @ at[:-1]), np.exp(at[-1])
            density = stats.nbinom.logpmf(learning.outcome, d, d / (d + mean)).mean()
            return -density + 0.5e-3 * np.sum(at[1:-1] ** 2)

        at = minimize(loss, np.zeros(X.shape[1] + 1), method="BFGS").x
        mean, d = held.unit * np.exp(X_new @ at[:-1]), np.exp(at[-1])
        np.testing.assert_allclose(found[role].mean, mean, rtol=1e-3)
        expected = stats.nbinom.logpmf(held.outcome, d, d / (d + mean))
        np.testing.assert_allclose(found[role].log_density, expected, atol=2e-3)
    poisson = by_role(baselines(own, held))["simple"]
    assert found["simple"].log_density.mean() > poisson.log_density.mean() + 0.3


@pytest.mark.parametrize("name", ["zero_inflated", "hurdle"])
def test_baselines_of_counts_with_zeros_have_zeros_of_that_kind(data, table, name):
    rng, rows = np.random.default_rng(3), table("counts", 200)
    mean = rows["hours"] * np.exp(1.0 + np.sin(rows["east"] / 4.0))
    drawn = rng.negative_binomial(3.0, 3.0 / (3.0 + mean))
    rows["count"] = np.where(rng.random(200) < 0.4, 0, drawn)
    own = data("counts", rows=rows)
    learning, held = own.learning, own.held_out

    def log_p(y, mean, d, pi):
        law = stats.nbinom(d, d / (d + mean))
        if name == "hurdle":
            some = np.log1p(-pi) + law.logpmf(y) - np.log1p(-law.pmf(0))
            return np.where(y == 0, np.log(pi), some)
        return np.log(pi * (y == 0) + (1.0 - pi) * law.pmf(y))

    found = by_role(baselines(own, held, name))
    assert found["simple"].name == f"{name.replace('_', '-')} regression"
    for role, kept in (("simple", slice(None)), ("base", slice(0, 0))):
        X, X_new = (np.insert(p.X.to_numpy()[:, kept], 0, 1.0, axis=1) for p in (learning, held))

        def loss(at, X=X):
            mean = learning.unit * np.exp(X @ at[:-2])
            density = log_p(learning.outcome, mean, np.exp(at[-2]), expit(at[-1])).mean()
            return -density + 0.5e-3 * np.sum(at[1:-2] ** 2)

        at = minimize(loss, np.zeros(X.shape[1] + 2), method="BFGS").x
        mean, d, pi = held.unit * np.exp(X_new @ at[:-2]), np.exp(at[-2]), expit(at[-1])
        expected = log_p(held.outcome, mean, d, pi)
        np.testing.assert_allclose(found[role].log_density, expected, atol=2e-3)
        some = 1.0 - (d / (d + mean)) ** d if name == "hurdle" else 1.0
        np.testing.assert_allclose(found[role].mean, (1.0 - pi) * mean / some, rtol=2e-3)
    plain = by_role(baselines(own, held, "negative_binomial"))["simple"]
    assert found["simple"].log_density.mean() > plain.log_density.mean()


def test_the_baseline_of_a_beta_binomial_model_is_beta_binomial(data, table):
    rng, rows = np.random.default_rng(4), table("binomial", 200)
    chance = expit(0.02 * (rows["dose"] - rows["dose"].mean()) - 0.3)
    rows["sick"] = rng.binomial(rows["tested"], rng.beta(1.5 * chance, 1.5 * (1.0 - chance)))
    own = data("binomial", rows=rows)
    learning, held = own.learning, own.held_out
    found = by_role(baselines(own, held, "beta_binomial"))
    assert found["simple"].name == "beta-binomial regression"
    for role, kept in (("simple", slice(None)), ("base", slice(0, 0))):
        X, X_new = (np.insert(p.X.to_numpy()[:, kept], 0, 1.0, axis=1) for p in (learning, held))

        def loss(at, X=X):
            phi, mean = np.exp(at[-1]), expit(X @ at[:-1])
            law = stats.betabinom(learning.unit.astype(int), phi * mean, phi * (1.0 - mean))
            return -law.logpmf(learning.outcome).mean() + 0.5e-3 * np.sum(at[1:-1] ** 2)

        at = minimize(loss, np.zeros(X.shape[1] + 1), method="BFGS").x
        phi, mean = np.exp(at[-1]), expit(X_new @ at[:-1])
        np.testing.assert_allclose(found[role].mean, held.unit * mean, rtol=2e-3)
        law = stats.betabinom(held.unit.astype(int), phi * mean, phi * (1.0 - mean))
        np.testing.assert_allclose(found[role].log_density, law.logpmf(held.outcome), atol=2e-3)
    plain = by_role(baselines(own, held, "binomial"))["simple"]
    assert found["simple"].log_density.mean() > plain.log_density.mean() + 0.1


def test_the_baseline_of_a_student_t_model_is_student_t(data, table):
    rng, rows = np.random.default_rng(2), table("real", 200)
    rows["yield"] = 100.0 + 0.8 * (rows["dose"] - 50.0) + 3.0 * rng.standard_t(1.8, 200)
    own = data("real", rows=rows)
    learning, held = own.learning, own.held_out
    found = by_role(baselines(own, held, "student_t"))
    assert found["simple"].name == "Student-t regression"
    X, X_new = (np.insert(part.X.to_numpy(), 0, 1.0, axis=1) for part in (learning, held))
    y = (learning.outcome - learning.outcome.mean()) / learning.outcome.std()

    def loss(at):
        return -stats.t.logpdf(y, np.exp(at[3]), X @ at[:2], np.exp(at[2])).mean()

    at = minimize(loss, [0.0, 0.5, -1.0, 1.0], method="BFGS").x
    scale = learning.outcome.std()
    mean = learning.outcome.mean() + scale * (X_new @ at[:2])
    np.testing.assert_allclose(found["simple"].mean, mean, rtol=2e-3)
    expected = stats.t.logpdf(held.outcome, np.exp(at[3]), mean, scale * np.exp(at[2]))
    np.testing.assert_allclose(found["simple"].log_density, expected, atol=0.02)
    normal = by_role(baselines(own, held))["simple"]
    assert found["simple"].log_density.mean() > normal.log_density.mean() + 0.1
    assert found["base"].log_density.mean() < found["simple"].log_density.mean()


def test_models_of_one_kind_are_compared_with_a_regression_of_that_kind(data):
    own = data("counts", 200)
    models = {
        name: result._replace(likelihood="negative_binomial")
        for name, result in results(own, {"a": 0.0}).items()
    }
    names = set(models_table(own, models, {"a": ""}, "a")["name"])
    assert names == {"a", "negative binomial regression", "base rate"}


def test_separated_classes_are_seen(data, table):
    def found(ill, **columns):
        rows = table("binary", 60, seed=5)[["age", "smoker"]].assign(**columns)
        rows["age"] = np.linspace(30.0, 70.0, 60)
        return separated(data("binary", rows=rows.assign(ill=ill(rows)), test_fraction=0.0))

    assert found(lambda r: np.where(r["age"] > 52, "yes", "no")) == "age"
    assert found(lambda r: np.where(r["smoker"] == "yes", "yes", "no")) == "smoker"
    other = np.random.default_rng(0).normal(50.0, 10.0, 60)
    together = lambda r: np.where(r["age"] + r["other"] > 100.0, "yes", "no")  # noqa: E731
    assert found(together, other=other) == ""

    def noisy(rows):
        ill = together(rows)
        ill[:2] = ["yes", "no"]
        ill[-2:] = ["yes", "no"]
        return ill

    assert found(noisy, other=other) is None
    assert separated(data("real", 40)) is None


def changed(data, **fields):
    return data._replace(learning=data.learning._replace(**fields))


@pytest.mark.parametrize(
    ("kind", "outcome", "rate"),
    [("binary", 0.0, lambda unit: 0.5 / unit), ("binary", 1.0, lambda unit: 1 - 0.5 / unit),
     ("counts", 0.0, lambda unit: 0.5 / unit), ("binomial", 0.0, lambda unit: 0.5 / unit)],
)  # fmt: skip
def test_baselines_where_nothing_differs_rule_nothing_out(data, kind, outcome, rate):
    own = data(kind, 40)
    same = changed(own, outcome=np.full(len(own.learning.row), outcome))
    unit = len(own.learning.row) if own.learning.unit is None else own.learning.unit.sum()
    new = 1.0 if own.held_out.unit is None else own.held_out.unit
    for baseline in baselines(same, own.held_out):
        np.testing.assert_allclose(baseline.mean, rate(unit) * new)
        assert np.isfinite(baseline.log_density).all()


@pytest.mark.parametrize("kind", ["binary", "counts", "binomial", "many"])
def test_cross_validated_baselines_never_see_their_rows(data, kind):
    own = data(kind, 40)
    learning = own.learning
    whole = _cross_validated(own)
    assert {baseline.role for baseline in whole} == {"simple", "base"}
    for i in (
        0,
        7,
    ):  # another outcome changes the density there, and the means elsewhere, not its own
        other = learning.outcome.copy()
        other[i] = 1.0 - other[i] if kind in ("binary", "binomial") else other[i] + 3.0
        again = _cross_validated(changed(own, outcome=other))
        for before, after in zip(whole, again, strict=True):
            assert after.mean[i] == before.mean[i]
            assert after.log_density[i] != before.log_density[i]
            assert np.mean(after.mean != before.mean) > 0.8


def test_cross_validation_of_a_single_success(data):
    own = data("binary", 40)
    outcome = np.zeros(len(own.learning.row))
    outcome[3] = 1.0
    for baseline in _cross_validated(changed(own, outcome=outcome)):
        assert np.isfinite(baseline.log_density).all()
        assert baseline.log_density[3] < -2.0


def results(data, shifts, draws=None, held_out=True, apart=0.0):
    """Results of models whose log densities are those of a first one, shifted; ``apart`` of the quick fit."""
    rng = np.random.default_rng(5)
    base = rng.normal(-1.0, 0.5, len(data.learning.row))
    out = {}
    for name, shift in shifts.items():
        loo = base + shift * np.linspace(0.0, 2.0, len(base))

        def tree(loo=loo, shift=shift, moved=0.0):
            groups = {
                "leave_one_out": xr.Dataset(
                    {"log_density": ("case", loo), "pareto_k": ("case", np.linspace(0, 0.72, len(loo)))}
                ),
                "evidence": xr.Dataset({"log_evidence": -20.0 + shift, "standard_error": 0.2,
                                        "approximate_log_evidence": -21.0 + shift},
                                       attrs={"alarm": "two ways differ" if shift < 0 else ""}),
                "maximum": xr.Dataset(coords={"parameter": ["length_scale", "signal_sd", "mean"]}),
            }  # fmt: skip
            if held_out and data.held_out is not None:
                m = len(data.held_out.row)
                density = np.linspace(-2.0, -0.5, m) + shift
                mean = np.linspace(0.2, 0.9, m) + moved
                groups["held_out"] = xr.Dataset(
                    {name: ("case", values) for name, values in
                     (("log_density", density), ("response_mean", mean),
                      ("response_sd", np.full(m, 0.5)))}
                )  # fmt: skip
            return xr.DataTree.from_dict(groups)

        quick = tree(moved=apart)
        out[name] = Results(
            "linear()", "", 3.0, quick, draws, tree() if draws is not None else None
        )
    return out


def test_table_by_held_out_rows(data):
    own = data("binary", 160)
    assert score_kind(own) == HELD_OUT
    models = results(own, {"a": 0.0, "b": 0.1, "c": -0.1})
    assert choice_of(models) == ("b", "leave-one-out", (), (), ())
    table = models_table(own, models, dict.fromkeys("abc", "straight lines"), "b")
    assert tuple(table.columns) == COLUMNS
    assert list(table["role"]) == ["model"] * 3 + ["simple", "base"]
    table = table.set_index("name")
    simple = by_role(baselines(own, own.held_out))["simple"]
    density = np.linspace(-2.0, -0.5, len(own.held_out.row))
    assert table.loc["a", "test_score"] == pytest.approx(density.mean())
    assert table.loc["b", "test_score"] == pytest.approx(density.mean() + 0.1)
    assert table.loc["a", "test_score_se"] == pytest.approx(
        density.std(ddof=1) / np.sqrt(len(density))
    )
    apart = density - simple.log_density
    assert table.loc["a", "difference"] == pytest.approx(apart.mean())
    assert table.loc["a", "difference_se"] == pytest.approx(apart.std(ddof=1) / np.sqrt(len(apart)))
    assert table.loc["logistic regression", "difference"] == 0.0
    assert table.loc["logistic regression", "difference_se"] == 0.0
    n = len(own.learning.row)
    assert table.loc["b", "loo_difference"] == 0.0
    assert table.loc["b", "loo_difference_se"] == 0.0
    tilt = -0.1 * np.linspace(0.0, 2.0, n)
    assert table.loc["a", "loo_difference"] == pytest.approx(tilt.sum())
    assert table.loc["a", "loo_difference_se"] == pytest.approx(np.sqrt(n) * tilt.std(ddof=1))
    loo = models["a"].fit["leave_one_out/log_density"].values
    assert table.loc["a", "elpd_loo"] == pytest.approx(loo.sum())
    assert table.loc["a", "elpd_loo_se"] == pytest.approx(np.sqrt(n) * loo.std(ddof=1))
    assert table.loc["a", "loo_bad_share"] == np.mean(np.linspace(0, 0.72, n) > 0.7)
    assert table.loc["c", "evidence_alarm"] == "two ways differ"
    assert table.loc["c", "log_evidence"] == pytest.approx(-20.1)
    assert table.loc["a", "seconds"] == 3.0
    share = own.learning.outcome.mean()  # of binary ones
    constant = np.log(np.where(own.learning.outcome == 1.0, share, 1.0 - share))
    base = by_role(baselines(own, own.held_out))["base"].log_density
    beyond = np.concatenate([loo - constant, density - base])  # all rows, held out or left out
    assert table.loc["a", "unseen_difference"] == pytest.approx(beyond.mean())
    error = beyond.std(ddof=1) / np.sqrt(len(beyond))
    assert table.loc["a", "unseen_difference_se"] == pytest.approx(error, rel=0.01)
    assert table.loc["a", "evidence_beyond"] == pytest.approx(-21.0 - constant.sum())
    assert table.loc["a", "evidence_limit"] == pytest.approx(stats.chi2.ppf(0.95, 2) / 2.0)
    wrong = (np.linspace(0.2, 0.9, len(density)) > 0.5) != (own.held_out.outcome == 1.0)
    assert table.loc["a", "error"] == wrong.sum()
    assert table.loc["a", ["r_hat", "quick_difference"]].isna().all()


def test_fewer_than_thirty_held_out_rows_are_scored_by_leave_one_out(data):
    own = data("binary", 40)
    assert len(own.held_out.row) < 30
    assert score_kind(own) == LEAVE_ONE_OUT
    assert score_kind(data("binary", 40, test_fraction=0.0)) == LEAVE_ONE_OUT
    table = models_table(own, results(own, {"a": 0.0}), {"a": ""}, "a").set_index("name")
    loo = results(own, {"a": 0.0})["a"].fit["leave_one_out/log_density"].values
    assert table.loc["a", "test_score"] == pytest.approx(loo.mean())
    whole = by_role(_cross_validated(own))
    assert table.loc["base rate", "test_score"] == pytest.approx(whole["base"].log_density.mean())
    apart = loo - whole["simple"].log_density
    assert table.loc["a", "difference"] == pytest.approx(apart.mean())
    assert table.loc["a", "error"] == np.sum(loo <= np.log(0.5))  # less than half for what happened
    assert table.loc["base rate", "error"] > 0
    counts = data("counts", 40)
    table = models_table(counts, results(counts, {"a": 0.0}), {"a": ""}, "a").set_index("name")
    assert np.isnan(table.loc["a", "error"])  # of leave-one-out only densities are known


def test_always_answering_alike_is_one_answer_whatever_the_fold(data):
    """Where two grades are as frequent, folds of cross-validation differ in which is more so."""
    own = data("grades", 40)
    n = len(own.learning.row)
    outcome = np.where(np.arange(n) % 2 == 0, 2.0, 3.0)
    own = own._replace(learning=own.learning._replace(outcome=outcome, y=outcome))
    table = models_table(own, results(own, {"a": 0.0}), {"a": ""}, "a").set_index("role")
    assert table.loc["base", "error"] == n / 2


def test_thirty_held_out_rows_are_enough(data):
    own = data("binary", 60, test_fraction=0.5)
    assert len(own.held_out.row) == 30
    assert score_kind(own) == HELD_OUT


def test_error_by_kind(data):
    def rows(outcome):
        return data("many")[1]._replace(outcome=np.array(outcome, dtype=float))

    outcome, mean = [1.0, 0.0, 1.0, 0.0], np.array([0.6, 0.7, 0.2, 0.1])
    binary = _error("binary", rows(outcome), mean)
    assert binary == {"error": 2, "error_se": pytest.approx(1.0)}
    counts = _error("counts", rows([3, 0, 5, 1]), np.array([1.0, 0.5, 5.0, 2.5]))
    assert counts["error"] == pytest.approx(1.0)
    assert counts["error_se"] == pytest.approx(np.std([2, 0.5, 0, 1.5], ddof=1) / 2.0)
    for kind in ("real", "binomial"):
        real = _error(kind, rows([3, 0, 5, 1]), np.array([1.0, 0.0, 5.0, 1.0]))
        assert real["error"] == pytest.approx(1.0)
        assert real["error_se"] == pytest.approx(np.std([4, 0, 0, 0], ddof=1) / 2.0 / 2.0)


def test_errors_of_successes_count_them(data, model):
    from gpmcflow.analysis.fitting import fit

    own = data("binomial", 120, test_fraction=0.3)
    tree = fit(
        model(own, "matern32()"), own, {"temperatures": 3, "particles": 8}, seed=1, key=("x", "a")
    )
    table = models_table(own, {"a": Results("matern32()", "", 0.0, tree)}, {"a": ""}, "a")
    table = table.set_index("name")
    rows = own.held_out
    expected = np.sqrt(np.mean((rows.outcome - tree["held_out/response_mean"].values) ** 2))
    assert table.loc["a", "error"] == pytest.approx(expected)
    assert table.loc["a", "error"] == pytest.approx(
        table.loc["logistic regression", "error"], rel=0.3
    )
    assert table.loc["a", "error"] < table.loc["base rate", "error"]


def test_diagnostics_are_the_worst_of_the_parameters(data):
    rng = np.random.default_rng(0)
    good, bad = rng.normal(size=(2, 4, 100))
    bad[0] += 3.0
    draws = xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(
                {
                    "a": (("chain", "draw"), good),
                    "b": (("chain", "draw"), bad),
                    "latent": (("chain", "draw", "case"), np.zeros((4, 100, 3))),
                }
            ),
            "sample_stats": xr.Dataset(
                {"acceptance_rate": (("chain", "draw"), np.tile([0.25, 0.75], (4, 50)))}
            ),
        }
    )
    own = data("binary", 160)
    models = results(own, {"a": 0.0}, draws, apart=0.03)
    row = models_table(own, models, {"a": ""}, "a").iloc[0]
    assert (row["chains"], row["draws"], row["acceptance"]) == (4, 100, 0.5)
    assert row["r_hat"] > 1.3
    assert row["ess_bulk"] < 20
    assert row["quick_difference"] == pytest.approx(0.03)
    real = data("many", 160)
    models = results(real, {"a": 0.0}, draws, apart=0.03)
    row = models_table(real, models, {"a": ""}, "a").iloc[0]
    assert row["quick_difference"] == pytest.approx(0.06)  # in their sd
    assert set(convergence.parameters(draws)) == {"a", "b"}


@pytest.mark.parametrize("kind", ["real", "binary", "positive"])
def test_baselines_and_separation_take_no_numbers_of_groups(data, table, kind):
    """The numbers of levels follow how frequent they are: a slope in them is no regression."""
    rows = table(kind, 120, seed=5)
    levels = np.repeat([f"D{k:02d}" for k in range(30)], 4)
    grouped = data(kind, rows=rows.assign(doctor=levels), groups=["doctor"])
    alone = data(kind, rows=rows)
    for found, expected in zip(
        baselines(grouped, grouped.held_out), baselines(alone, alone.held_out), strict=True
    ):
        np.testing.assert_allclose(found.log_density, expected.log_density, rtol=1e-9)


def test_only_groups_leave_the_base_rate(data):
    rng = np.random.default_rng(0)
    levels = np.repeat([f"D{k:02d}" for k in range(30)], 4)
    ill = np.where(rng.random(120) < 0.4, "yes", "no")
    ill[levels == "D00"] = "no"
    rows = pd.DataFrame({"doctor": levels, "ill": ill})
    own = data("binary", rows=rows, groups=["doctor"])
    simple, base = baselines(own, own.held_out)
    np.testing.assert_array_equal(simple.mean, base.mean)
    every = np.where(levels < "D15", "yes", "no")
    whole = data("binary", rows=rows.assign(ill=every), groups=["doctor"], test_fraction=0.0)
    assert separated(whole) is None
