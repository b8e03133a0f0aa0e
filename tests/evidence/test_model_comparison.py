"""Models compared by their evidence, and evidence under other hyperpriors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import norm

import gpmcflow as gp
from gpmcflow.errors import InputError
from gpmcflow.execution import Execution

QUIET = Execution(progress=False)


def result(value: float, error: float, df: float = np.inf, data: str = "a", alarm: str = ""):
    """What `model_evidence` returns, as far as a comparison reads it."""
    by = {"log_evidence": value, "standard_error": error, "degrees_of_freedom": df}
    group = xr.Dataset(
        {name: ("estimator", [number, np.nan]) for name, number in by.items()}
        | {"fit": -3.0, "complexity": -3.0 - value, "alarm": alarm},
        {"estimator": ["bridge", "stepping_stones"]},
    )
    tree = xr.DataTree.from_dict({"evidence": group})
    tree.attrs["data_checksum"] = data
    return tree


def test_numbers_of_three_models():
    runs = {
        "low": result(-12.0, 0.1),
        "high": result(-9.0, 0.2, 3.0),
        "mid": result(-9.3, 0.2, alarm="k"),
    }
    table = gp.compare_models(runs)
    assert list(table.index) == ["high", "mid", "low"]
    weights = np.exp([0.0, -0.3, -3.0])
    assert np.allclose(table["probability"], weights / weights.sum())
    assert np.allclose(table["log_bayes_factor"], [0.0, -0.3, -3.0])
    assert np.allclose(table["bayes_factor_error"], [0.0, np.hypot(0.2, 0.2), np.hypot(0.1, 0.2)])
    assert list(table["verdict"]) == ["best", "not resolved", "worse"]
    assert list(table["alarm"]) == ["", "k", ""]
    assert np.allclose(table["complexity"], table["fit"] - table["log_evidence"])
    assert np.all((table["low"] < table["probability"]) & (table["probability"] < table["high"]))


def test_a_small_difference_that_is_known_is_no_preference():
    table = gp.compare_models({"a": result(-9.0, 0.01), "b": result(-9.5, 0.01)})
    assert list(table["verdict"]) == ["best", "no preference"]


def test_prior_probabilities_count():
    runs = {"a": result(-9.0, 0.0), "b": result(-10.0, 0.0)}
    odds = gp.compare_models(runs, {"a": 1.0, "b": np.e})["probability"]
    assert np.allclose(odds, 0.5)


@pytest.mark.parametrize("df", [3.0, np.inf])
def test_intervals_of_two_models_are_those_of_their_difference(df):
    """Ends are monotone in log Z_a - log Z_b; with t_3 they are wider."""
    table = gp.compare_models({"a": result(-9.0, 0.4, df), "b": result(-10.0, 0.3, df)}, seed=3)
    low, high = (table.loc["a", end] for end in ("low", "high"))
    half = 1.96 * 0.5
    expected = [1.0 / (1.0 + np.exp(-(1.0 + side * half))) for side in (-1.0, 1.0)]
    if np.isinf(df):
        assert np.allclose([low, high], expected, atol=0.02)
    else:
        assert low < expected[0] - 0.05
        assert high > expected[1] + 0.01


def test_what_cannot_be_compared():
    one = result(-9.0, 0.1)
    fit = gp.approximate(
        gp.GPModel([0.1, 0.2], [1, -1], gp.SquaredExponential(0.3, 1.0), gp.Probit())
    )
    for message, runs in {
        "two models or more": {"a": one},
        "b is no result of model_evidence": {"a": one, "b": fit},
        "b and a are of different outcomes": {"a": one, "b": result(-9.0, 0.1, data="b")},
    }.items():
        with pytest.raises(InputError, match=message):
            gp.compare_models(runs)
    for prior in ({"a": 1.0}, {"a": 1.0, "b": 0.0}, {"a": 1.0, "b": np.inf}):
        with pytest.raises(InputError, match=r"positive number"):
            gp.compare_models({"a": one, "b": one}, prior)


# -- other hyperpriors ---------------------------------------------------------------------------


def model(longest: float = 3.0, sd: float | None = None) -> gp.GPModel:
    rng = np.random.default_rng(2)
    x = np.linspace(0.0, 1.0, 20)
    y = np.sin(6.0 * x) + 0.2 * rng.standard_normal(20)
    length = gp.Hyperprior.log_uniform(0.02, longest)
    if sd is not None:
        length = gp.Hyperprior("norm", {"loc": -1.0, "scale": sd})
    return gp.GPModel(x, y, gp.SquaredExponential(length, 1.0), gp.Gaussian(0.2))


@pytest.fixture(scope="module")
def run():
    return gp.model_evidence(model(), n_draws=800, target_error=0.01, seed=1, execution=QUIET)


def value(tree) -> tuple[float, float]:
    group = tree["evidence"].to_dataset().isel(estimator=0)
    return float(group["log_evidence"]), float(group["standard_error"])


def test_a_narrower_box_around_the_posterior_costs_its_width(run):
    shift = value(gp.change_hyperpriors(run, model(), model(2.5)))[0] - value(run)[0]
    assert shift == pytest.approx(np.log(np.log(150.0) / np.log(125.0)), abs=1e-9)


def test_another_density_against_a_run_of_its_own():
    wide, narrow = model(sd=1.0), model(sd=0.6)
    before = gp.model_evidence(wide, n_draws=800, target_error=0.01, seed=1, execution=QUIET)
    changed = gp.change_hyperpriors(before, wide, narrow)
    own = gp.model_evidence(narrow, n_draws=800, target_error=0.01, seed=2, execution=QUIET)
    (a, ea), (b, eb) = value(changed), value(own)
    assert abs(a - b) < 4.0 * np.hypot(ea, eb) < 0.1
    assert abs(value(before)[0] - b) > 5.0 * np.hypot(ea, eb)
    assert float(changed.evidence["fit"]) == pytest.approx(float(own.evidence["fit"]), abs=0.3)
    assert set(changed.evidence.data_vars) == set(before.evidence.data_vars)
    assert float(changed.evidence["effective_size"]) <= float(before.evidence["effective_size"])
    assert list(gp.compare_models({"wide": before, "narrow": changed}).columns)


def test_a_hyperprior_where_the_draws_are_not_rings(run):
    theta = run["posterior/theta"].values
    far = gp.Hyperprior("norm", {"loc": float(theta.min()) - 0.5, "scale": 0.05})
    wide = model(sd=1.0)
    before = gp.model_evidence(wide, n_draws=200, seed=1, execution=QUIET)
    x, y = wide.X[:, 0], wide.y
    other = gp.GPModel(x, y, gp.SquaredExponential(far, 1.0), gp.Gaussian(0.2))
    alarm = str(gp.change_hyperpriors(before, wide, other).evidence["alarm"].values)
    assert "Pareto k" in alarm
    assert norm.cdf(theta.min(), *far.parameters.values()) > 0.9


def test_what_reweighting_cannot_do(run):
    with pytest.raises(
        InputError, match=r"length_scale goes from -3.9.* to 1.6.*; allowed: the same support"
    ):
        gp.change_hyperpriors(run, model(), model(5.0))
    with pytest.raises(InputError, match="another model than the first"):
        gp.change_hyperpriors(run, model(2.0), model(1.0))
    x, y = model().X[:, 0], model().y
    other = gp.GPModel(
        x, y, gp.Matern32(gp.Hyperprior.log_uniform(0.02, 3.0), 1.0), gp.Gaussian(0.2)
    )
    with pytest.raises(InputError, match="differ in more than hyperpriors"):
        gp.change_hyperpriors(run, model(), other)


def stable(differences: np.ndarray, errors: np.ndarray) -> bool:
    """Whether log Bayes factors of seeds agree, each pair of them within 3 joint errors."""
    joint = np.hypot(errors[:, None], errors)
    return bool(np.all(np.abs(differences[:, None] - differences) <= 3.0 * joint))


def test_order_of_two_models_is_that_of_every_seed():
    """Labels of one column: a model of it against one of a column that has nothing to do with them."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-2.0, 2.0, (40, 2))
    y = np.where(np.sin(2.0 * X[:, 0]) > 0.0, 1, -1)
    models = [gp.GPModel(X[:, [k]], y, gp.SquaredExponential(), gp.Logistic()) for k in range(2)]
    differences, errors = [], []
    for seed in range(3):
        runs = [
            gp.model_evidence(model, n_replicates=2, n_draws=200, seed=seed, execution=QUIET)
            for model in models
        ]
        table = gp.compare_models(dict(zip(("own", "other"), runs, strict=True)))
        assert list(table.index) == ["own", "other"]
        assert table.loc["other", "verdict"] == "worse"
        differences.append(-table.loc["other", "log_bayes_factor"])
        errors.append(table.loc["other", "bayes_factor_error"])
    differences, errors = np.array(differences), np.array(errors)
    assert np.all(differences > 3.0 * errors)
    assert stable(differences, errors)


def test_one_length_scale_comes_before_one_a_column_on_ionosphere_at_every_seed():
    """The measured rows: five seeds of each model, four replicates a seed."""
    path = Path(__file__).parents[2] / "benchmarks" / "model_evidence.csv"
    rows = pd.read_csv(path).query("part == 'routes'").set_index(["problem", "seed"])
    one, each = (rows.loc[f"ionosphere-{kind}"].sort_index() for kind in ("isotropic", "ard"))
    assert list(one.index) == list(each.index) == [0, 1, 2, 3, 4]
    differences = (one["log_evidence"] - each["log_evidence"]).to_numpy()
    errors = np.hypot(one["standard_error"], each["standard_error"]).to_numpy()
    assert np.all(differences > 11.0)
    assert stable(differences, errors)


def test_densities_beside_probabilities_are_refused():
    """Counts have a probability under Poisson, a density under Gaussian: their ratio says nothing."""
    x, y = np.linspace(0.0, 1.0, 6), np.array([1.0, 0.0, 3.0, 2.0, 5.0, 4.0])
    fixed = gp.SquaredExponential(gp.Hyperprior.log_uniform(0.1, 10.0), 1.0)
    short = {"n_draws": 100, "n_replicates": 2, "execution": QUIET}
    runs = {
        name: gp.model_evidence(gp.GPModel(x, y, fixed, likelihood), **short)
        for name, likelihood in (("poisson", gp.Poisson()), ("gaussian", gp.Gaussian(1.0)))
    }
    with pytest.raises(
        InputError, match=r"gaussian has a density of y in 6 cases .* poisson a density in 0"
    ):
        gp.compare_models(runs)
    events = np.array([1, 1, 0, 1, 0, 1])
    for likelihood, n in (
        (gp.Survival(event=events), 4), (gp.LogNormal(), 6), (gp.Ordinal(6), 0), (gp.Binomial(6), 0),
        (gp.ZeroInflated(gp.Poisson()), 0), (gp.Probit(), 0), (gp.CensoredGaussian(0.3, below=1.0), 4),
    ):  # fmt: skip
        fixed_one = likelihood.with_values([0.5] * len(likelihood.entries()))
        assert fixed_one.densities(np.maximum(y, 1.0)).sum() == n, likelihood
