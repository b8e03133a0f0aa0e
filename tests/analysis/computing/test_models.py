"""Models of an analysis: columns as inputs, factors by column, likelihoods, means."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, ndtr

import gpmcflow as gp
from gpmcflow.analysis.costs import _timed
from gpmcflow.analysis.data import Rows
from gpmcflow.analysis.models import overall_level
from gpmcflow.analysis.summaries import Places
from gpmcflow.errors import InputError, InputErrors
from gpmcflow.models.latent_prior import CovarianceAt


def matrix(model, **values):
    """K of the cases at values of the hyperparameters; 1 unless given."""
    theta = model.theta_of({name: values.get(name, 0.0 if name == "mean" else 1.0)
                            for name in model.names})  # fmt: skip
    return CovarianceAt(model, model.full(theta))(model.X)


def apart(data, *inputs):
    """Squared distances of learning rows (n, n) over some inputs."""
    X = data.learning.X[list(inputs)].to_numpy()
    return ((X[:, None] - X) ** 2).sum(-1)


WARDS = ("ward=north", "ward=south", "ward=west")
ALL = ("age", "age missing", *WARDS, "smoker=yes", "day")


def test_columns_of_categories_are_all_their_inputs(data, model):
    own = data("binary")
    assert tuple(own.learning.X.columns) == ALL
    made = model(own, "squared_exponential(ward, age)")
    K = matrix(made, length_scale=2.0, signal_sd=1.5)
    expected = 2.25 * np.exp(-apart(own, "age", "age missing", *WARDS) / 8.0)
    np.testing.assert_allclose(K, expected, atol=1e-12)


def test_without_columns_all_inputs_count(data, model):
    own = data("binary")
    made = model(own, "linear() + constant(signal_sd=2.0)")
    X = own.learning.X.to_numpy()
    np.testing.assert_allclose(matrix(made, **{"linear.sd": 3.0}), 9.0 * X @ X.T + 4.0, atol=1e-10)


def test_areas_are_the_names_of_the_file(data, model, table):
    """North and south are neighbours, harbour has no rows, west has no neighbours."""
    own = data("binary", groups=["ward"])
    pairs = "(('south', 'north'), ('south', 'harbour'))"
    K = matrix(model(own, f"areal(ward, graph={pairs}, mix=0.6)"))
    names = table("binary")["ward"].to_numpy()[own.learning.row - 2]
    alike = gp.Areal([("south", "north"), ("south", "harbour")], 0.6, 1.0, columns="ward")
    np.testing.assert_allclose(K, alike(pd.DataFrame({"ward": names.astype(str)})), atol=1e-7)
    with pytest.raises(InputError, match=r"allowed: one column of names; write groups: \[ward\]"):
        model(data("binary"), f"areal(ward, graph={pairs})")


@pytest.mark.parametrize("column", ["ward", "smoker"])
@pytest.mark.parametrize("structure", ["auto", "basis"])
def test_groups_are_the_levels_of_a_column(data, model, column, structure):
    own = data("binary")
    made = model(own, f"group({column}) + linear(age, sd=1.0)", structure=structure)
    inputs = [name for name in ALL if name.startswith(column)]
    same = apart(own, *inputs) == 0.0
    ages = own.learning.X[["age", "age missing"]].to_numpy()
    expected = 2.25 * same + ages @ ages.T
    theta = made.theta_of({"group.signal_sd": 1.5, "mean": 0.0})
    K = CovarianceAt(made, made.full(theta))(made.X)
    np.testing.assert_allclose(K, expected, atol=1e-12)
    new = own.learning.X.iloc[:2].copy()
    new[inputs] = 0.3 if column == "smoker" else 0.0  # as the encoding has levels not seen
    K = CovarianceAt(made, made.full(theta))(made.new_inputs(new), made.X)
    np.testing.assert_allclose(K, (new[["age", "age missing"]].to_numpy() @ ages.T), atol=1e-12)


@pytest.mark.parametrize("column", ["day", "age"])
def test_a_period_is_in_units_of_its_column(data, model, column):
    own = data("binary")
    made = model(own, f"periodic({column}, period=7.0)")
    x = own.encoding.natural(column, own.learning.X[column].to_numpy())
    expected = np.exp(-2.0 * np.sin(np.pi * (x[:, None] - x) / 7.0) ** 2 / 0.25)
    np.testing.assert_allclose(matrix(made, length_scale=0.5), expected, atol=1e-10)


def test_a_period_needs_one_column_of_numbers(data, model):
    allowed = "; allowed: one column of numbers or dates"
    with pytest.raises(InputError, match="periodic.ward." + allowed):
        model(data("binary"), "periodic(ward, period=7.0)")
    with pytest.raises(InputError, match="periodic.age, ward, smoker, day." + allowed):
        model(data("binary"), "periodic(period=7.0)")


def test_ard_has_one_length_scale_for_all_levels_of_a_column(data, model):
    own = data("binary")
    made = model(own, "squared_exponential(ard=True)")
    alone = ("age", "age missing", "smoker=yes", "day")
    scales = {f"squared_exponential.length_scale[{name}]": 0.5 + k for k, name in enumerate(alone)}
    assert made.names == (*scales, "squared_exponential.signal_sd", "ward.length_scale", "mean")
    values = {**scales, "squared_exponential.signal_sd": 1.5, "ward.length_scale": 0.7}
    r2 = sum(
        apart(own, name) / scale**2 for name, scale in zip(alone, scales.values(), strict=True)
    )
    expected = 2.25 * np.exp(-0.5 * (r2 + apart(own, *WARDS) / 0.49))
    np.testing.assert_allclose(matrix(made, **values), expected, atol=1e-12)


def test_a_stated_amplitude_counts_once_in_a_product_of_factors(data, model):
    made = model(data("binary"), "matern32(ard=True, signal_sd=3.0)")
    np.testing.assert_allclose(np.diag(matrix(made)), 9.0)


def test_ard_of_two_columns_of_categories_alone_has_one_amplitude(data, model, table):
    rows = table("binary").assign(town=np.random.default_rng(0).choice(["a", "b", "c"], 40))
    own = data("binary", rows=rows)
    made = model(own, "matern32(ward, town, ard=True)")
    assert sorted(made.names) == [
        "mean",
        "town.length_scale",
        "ward.length_scale",
        "ward.signal_sd",
    ]
    values = {"ward.length_scale": 0.8, "town.length_scale": 1.7, "ward.signal_sd": 2.0}
    towns = [f"town={level}" for level in "abc"]
    a = [np.sqrt(3.0 * apart(own, *WARDS)) / 0.8, np.sqrt(3.0 * apart(own, *towns)) / 1.7]
    expected = 4.0 * (1 + a[0]) * np.exp(-a[0]) * (1 + a[1]) * np.exp(-a[1])
    np.testing.assert_allclose(matrix(made, **values), expected, atol=1e-12)
    one = model(own, "matern32(ward, ard=True)")
    assert one.names == ("length_scale", "signal_sd", "mean")


def test_two_terms_with_factors_by_column_have_different_names(data, model):
    made = model(data("binary"), "matern32(ard=True) + squared_exponential(ard=True)")
    assert {"matern32_ward.length_scale", "squared_exponential_ward.length_scale"} < set(made.names)


def test_sums_and_products_keep_their_structure(data, model):
    own = data("binary")
    made = model(
        own, "linear(age) * matern32(ward) + constant(signal_sd=0.5) + white(signal_sd=0.1)"
    )
    linear = own.learning.X[["age", "age missing"]].to_numpy()
    a = np.sqrt(3.0 * apart(own, *WARDS))
    expected = linear @ linear.T * (1 + a) * np.exp(-a) + 0.25
    K = matrix(made)
    np.testing.assert_allclose(K - np.diag(np.diag(K)), expected - np.diag(np.diag(expected)),
                               atol=1e-12)  # fmt: skip


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"covariance": "matern32(aeg)"}, "mine.models.a.covariance: column: unknown name 'aeg'; did"
         " you mean 'age'?"),
        ({"covariance": "linear()", "likelihood": "poisson"}, "mine.models.a.likelihood: found poisson"
         " for an outcome that is binary; allowed: probit, logistic"),
        ({"covariance": "matern32(length_scale=1.0, signal_sd=1.0)", "mean": 0.0},
         "mine.models.a: found a number for every parameter"),
        ({"covariance": "linear()", "likelihood": "probt"}, "mine.models.a.likelihood: unknown name"
         " 'probt'; did you mean 'probit'?"),
    ],
)  # fmt: skip
def test_what_is_refused_in_one_line(data, model, stated, message):
    with pytest.raises(InputError) as error:
        model(data("binary"), **stated)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_categories_have_no_covariance_of_levels(data, model):
    with pytest.raises(
        InputError, match="columns of categories are inputs of any other covariance"
    ):
        model(data("binary"), "categorical(ward)")
    with pytest.raises(
        InputError, match=r"found group\(age\), of numbers .*groups: \[age\] under data"
    ):
        model(data("binary"), "group(age)")
    with pytest.raises(InputError, match=r"covariance: group.. names no columns; name one of age"):
        model(data("binary"), "group()")


@pytest.mark.parametrize(
    ("kind", "likelihood"),
    [("binary", "probit"), ("counts", "poisson"), ("binomial", "binomial"), ("many", "gaussian")],
)
def test_likelihood_by_the_outcome(data, model, kind, likelihood):
    own = data(kind)
    made = model(own, "linear()")
    assert made.likelihood.name == likelihood
    for name, unit in own.learning.units(own.target.kind).items():
        np.testing.assert_array_equal(getattr(made.likelihood, name), unit)


def test_successes_that_vary_more_than_chance(data, model):
    own = data("binomial")
    made = model(own, "linear()", likelihood="beta_binomial")
    assert made.likelihood.name == "beta_binomial"
    np.testing.assert_array_equal(made.likelihood.trials, own.learning.unit)


def test_missing_trials_are_named_where_a_column_may_be_them(data):
    with pytest.raises(InputErrors, match="needs the column of trials; write trials: tested"):
        data("binomial", outcome="binomial", trials=None)


def test_stated_likelihoods_of_one_model_and_of_all(data):
    from gpmcflow.analysis.models import build_model

    settings = {
        "models": {"a": {"covariance": "linear()"}, "b": {"covariance": "linear()"}},
        "likelihood": "negative_binomial",
        "priors": {},
    }
    settings["models"]["b"]["likelihood"] = "poisson"
    own = data("counts")
    made = {name: build_model(settings, name, own, "mine") for name in "ab"}
    assert made["a"].likelihood.name == "negative_binomial"
    assert made["b"].likelihood.name == "poisson"
    np.testing.assert_array_equal(made["b"].likelihood.exposure, own.learning.unit)
    settings["models"]["b"]["likelihood"] = {"poisson": {"exposure": 2.0}}
    message = r"mine\.models\.b\.likelihood: found exposure .* the name of a column of the file"
    with pytest.raises(InputError, match=message):
        build_model(settings, "b", own, "mine")


def rows(outcome, unit=None):
    unit = None if unit is None else np.array(unit, dtype=float)
    return Rows(np.arange(len(outcome)), None, None, np.array(outcome, dtype=float), unit)


def test_overall_level_gives_the_mean_outcome():
    labels, trials = rows([1, 0, 0, 1, 1]), rows([3, 1, 2], [4, 6, 10])
    assert ndtr(overall_level(labels, "probit")) == pytest.approx(0.6)
    assert expit(overall_level(labels, "logistic")) == pytest.approx(0.6)
    assert expit(overall_level(trials, "binomial")) == pytest.approx(0.3)
    assert np.exp(overall_level(rows([3, 1, 2], [0.5, 1.0, 2.5]), "poisson")) == pytest.approx(1.5)
    assert np.exp(overall_level(rows([3, 1, 2]), "negative_binomial")) == pytest.approx(2.0)
    assert overall_level(rows([30.0, 10.0]), "gaussian") == 0.0


def test_overall_level_is_finite_where_nothing_was_counted():
    assert np.exp(overall_level(rows([0, 0], [1.0, 4.0]), "poisson")) == pytest.approx(0.1)
    assert ndtr(overall_level(rows([0] * 10), "probit")) == pytest.approx(0.05)
    assert expit(overall_level(rows([4, 6], [4, 6]), "binomial")) == pytest.approx(0.95)


def test_mean_is_free_around_the_overall_level(data, model):
    own = data("binary")
    level = overall_level(own.learning, "probit")
    made = model(own, "matern32()")
    assert made.names[-1] == "mean"
    median = made.natural(made.prior_median())
    assert median["mean"] == pytest.approx(level)
    assert made.parameters.free_priors[-1].quantile([ndtr(1.0)])[0] == pytest.approx(level + 1.0)


def test_mean_is_fixed_beside_a_constant_and_for_real_outcomes(data, model):
    own, real = data("binary"), data("many")
    beside = model(own, "matern32() + constant()")
    assert "mean" not in beside.names
    level = overall_level(own.learning, "probit")
    assert beside.natural(beside.prior_median())["mean"] == pytest.approx(level)
    regression = model(real, "matern32()")
    assert "mean" not in regression.names
    assert regression.natural(regression.prior_median())["mean"] == 0.0


def test_mean_as_stated(data, model):
    own = data("binary")
    made = model(own, "matern32()", mean=0.3)
    assert "mean" not in made.names
    assert made.natural(made.prior_median())["mean"] == 0.3
    prior = {"level": {"distribution": "norm", "parameters": {"loc": -2.0}}}
    with pytest.raises(InputError, match=r"a\.mean: unknown name 'levle'; did you mean 'level'"):
        model(own, "matern32()", priors=prior, mean="levle")
    free = model(own, "matern32()", priors=prior, mean="level")
    assert free.natural(free.prior_median())["mean"] == pytest.approx(-2.0)


def test_auto_takes_basis_functions_for_straight_lines_and_their_products_alone(data, model):
    own = data("binary")
    assert model(own, "linear() + constant(signal_sd=2.0)").basis is not None
    assert model(own, "linear(age) * linear(ward)").basis is not None
    for text in (
        "linear() + squared_exponential(age)",
        "linear(age) * matern32(day)",
        "matern32()",
    ):
        assert model(own, text).basis is None
    first = np.arange(2 * len(ALL))
    few = Rows(
        first, own.learning.X.iloc[first], own.learning.y[first], own.learning.outcome[first], None
    )
    assert (
        model(own._replace(learning=few), "linear()").basis is None
    )  # slopes are half of the rows


def test_the_forecast_counts_a_latent_for_each_cell_of_a_grid(data, model, quick_measurements):
    """A number and two levels are a grid whose empty cells are latents, too: more than rows."""
    own = data("survival")
    made = model(own, "squared_exponential(ard=True)")
    assert made.n_latents > made.n_cases
    unit = _timed(Places.of(own, np.random.default_rng(0)), made)
    assert (unit.n, unit.held) == (made.n_cases, made.numbers_held)
