"""Effects of columns: averages of the response over rows, their uncertainty, and what is said of them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal

import gpmcflow as gp
from gpmcflow.analysis.effects import (
    N_JOINT,
    N_PLACES,
    N_PLACES_ALONE,
    N_ROWS,
    CodedInputs,
    Sweep,
    average_shift,
    effect,
    on_link,
    sampled_averages,
    sweeps,
)
from gpmcflow.approximations.conditional import State, regression_predictor
from gpmcflow.approximations.expectation_propagation import expectation_propagation


def sweep_of(X, values, column, kind="number", usual=(0, 1)):
    """Column ``column`` of rows X (m, p) set to each of the values, and the inputs as an array."""
    blocks = []
    for value in values:
        block = X.copy()
        block[:, column] = value
        blocks.append(block)
    return Sweep("x", kind, tuple(values), usual, pd.DataFrame()), np.concatenate(blocks)


def test_linear_averages_have_the_moments_of_dense_algebra():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=20)
    covariance = gp.SquaredExponential(1.1, 1.4)
    model = gp.GPModel(X, y, covariance, gp.Gaussian(), mean=0.7, jitter=0.0)
    predictor = regression_predictor(model, model.theta_of({"noise_sd": 0.4}))
    sweep, inputs = sweep_of(X[:6], [-1.0, 0.5, 2.5], 0)

    def k(a, b):
        return 1.4**2 * np.exp(-0.5 * ((a[:, None] - b) ** 2).sum(-1) / 1.1**2)

    solved = np.linalg.solve(k(X, X) + 0.16 * np.eye(20), k(X, inputs))
    mean = 0.7 + solved.T @ (y - 0.7)
    covariance = k(inputs, inputs) - k(inputs, X) @ solved
    mean = mean.reshape(3, 6).mean(1)
    covariance = covariance.reshape(3, 6, 3, 6).mean((1, 3))
    draws = sampled_averages(predictor, sweep, inputs, rng, 200_000, linear=True)
    assert draws.shape == (200_000, 3)
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.01 * sd.max())
    np.testing.assert_allclose(np.cov(draws.T) / np.outer(sd, sd), covariance / np.outer(sd, sd),
                               atol=0.015)  # fmt: skip


def test_averages_of_probabilities_have_their_exact_moments():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=20) > 0, 1.0, -1.0)
    model = gp.GPModel(X, y, gp.SquaredExponential(1.0, 1.5), gp.Probit(), mean=0.2)
    at = model.at(np.zeros(0))
    predictor = State(at, sites=expectation_propagation(at).sites).predictor()
    sweep, inputs = sweep_of(X[:2], [-1.0, 1.5], 0)
    m, S = predictor.joint(inputs)
    m = m[0]
    mean = ndtr(m / np.sqrt(1.0 + np.diag(S))).reshape(2, 2).mean(1)
    second = np.empty((4, 4))  # E[Phi(a) Phi(b)] is an orthant probability
    for i in range(4):
        for j in range(4):
            C = S[np.ix_([i, j], [i, j])] + np.eye(2)
            second[i, j] = multivariate_normal.cdf(m[[i, j]], np.zeros(2), C)
    covariance = second.reshape(2, 2, 2, 2).mean((1, 3)) - np.outer(mean, mean)
    draws = sampled_averages(predictor, sweep, inputs, rng, 100_000, linear=False)
    np.testing.assert_allclose(draws.mean(0), mean, atol=2e-3)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.03 * covariance.max())
    assert covariance[0, 0] > 0.01


@pytest.mark.parametrize("linear", [True, False])
def test_a_column_that_is_not_used_has_no_effect(linear):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20, 2))
    likelihood = gp.Gaussian(0.3) if linear else gp.Poisson()
    model = gp.GPModel(
        X, np.floor(rng.random(20) * 4), gp.Matern32(1.0, 1.0, columns=[0]), likelihood
    )
    if linear:
        predictor = regression_predictor(model, np.zeros(0))
    else:
        at = model.at(np.zeros(0))
        predictor = State(at, sites=expectation_propagation(at).sites).predictor()
    sweep, inputs = sweep_of(X, np.linspace(-2.0, 2.0, 8), 1)
    draws = sampled_averages(predictor, sweep, inputs, rng, 50, linear=linear)
    np.testing.assert_allclose(np.ptp(draws, axis=1), 0.0, atol=1e-9)
    assert draws.std(0).min() > 0.01
    sweep, inputs = sweep_of(X, np.linspace(-2.0, 2.0, 8), 0)
    draws = sampled_averages(predictor, sweep, inputs, rng, 50, linear=linear)
    assert np.ptp(draws, axis=1).min() > 0.01


@pytest.fixture(scope="module")
def swept(data):
    own = data("binary", 48)  # fewer learning rows than N_JOINT: all are taken
    return own, {sweep.column: sweep for sweep in sweeps(own, np.random.default_rng(0))}


def test_a_number_is_set_in_all_rows_and_counts_as_present(swept):
    data, own = swept
    sweep, n = own["age"], len(data.learning.row)
    assert list(own) == ["age", "ward", "smoker", "day"]
    assert data.learning.X["age missing"].sum() > 0
    assert len(sweep.inputs) == n * len(sweep.values)
    blocks = sweep.inputs.to_numpy().reshape(len(sweep.values), n, -1)
    names = list(sweep.inputs.columns)
    assert names == list(data.learning.X.columns)
    code = data.encoding.code("age")
    expected = (np.array(sweep.values) - code.mean) / code.scale
    np.testing.assert_allclose(blocks[:, :, names.index("age")], np.tile(expected[:, None], n))
    assert np.all(blocks[:, :, names.index("age missing")] == 0.0)
    others = [k for k, name in enumerate(names) if not name.startswith("age")]
    np.testing.assert_array_equal(
        blocks[:, :, others], np.tile(data.learning.X.to_numpy()[:, others], (len(blocks), 1, 1))
    )


def test_usual_range_is_that_of_the_cells_filled_in(swept):
    data, own = swept
    X = data.learning.X
    code = data.encoding.code("age")
    filled = (X["age"] * code.scale + code.mean)[X["age missing"] == 0.0].to_numpy()
    low, high = (own["age"].values[place] for place in own["age"].usual)
    assert low == np.quantile(filled, 0.1, method="nearest")
    assert high == np.quantile(filled, 0.9, method="nearest")
    assert own["age"].values[0] == pytest.approx(np.quantile(filled, 0.03))
    assert own["age"].values[-1] == pytest.approx(np.quantile(filled, 0.97))
    assert np.all(np.diff(own["age"].values) > 0)
    assert own["day"].kind == "date"
    assert own["age"].kind == "number"


def test_a_category_is_set_to_each_level(swept):
    data, own = swept
    ward, smoker = own["ward"], own["smoker"]
    assert ward.kind == "category"
    levels = data.encoding.code("ward").levels
    assert ward.values == levels
    assert levels[0] == "north"  # the most frequent
    n = len(data.learning.row)
    hot = ward.inputs[[f"ward={level}" for level in levels]].to_numpy().reshape(3, n, 3)
    np.testing.assert_array_equal(hot, np.tile(np.eye(3)[:, None], (1, n, 1)))
    assert smoker.values == ("no", "yes")
    np.testing.assert_array_equal(smoker.inputs["smoker=yes"], np.repeat([0.0, 1.0], n))


def test_few_values_are_shown_one_by_one(data, table):
    rows = table("binary", 60)
    rows["age"] = np.random.default_rng(0).integers(0, 5, 60)
    own = data("binary", rows=rows)
    (sweep,) = (s for s in sweeps(own, np.random.default_rng(0)) if s.column == "age")
    np.testing.assert_allclose(sweep.values, [0, 1, 2, 3, 4], atol=1e-12)
    assert sweep.usual == (0, 4)


def test_averages_are_over_at_most_so_many_rows(data):
    own = data("many", 80, test_fraction=0.0)
    for sweep in sweeps(own, np.random.default_rng(0)):
        g, p = len(sweep.values), own.learning.X.shape[1]
        assert len(sweep.inputs) == 80 * g
        joint = sweep.joint(sweep.inputs.to_numpy())
        assert joint.shape == (N_JOINT * g, p)
        np.testing.assert_array_equal(joint[N_JOINT : 2 * N_JOINT], sweep.inputs[80 : 80 + N_JOINT])
    for sweep in sweeps(data("many", 500, test_fraction=0.0), np.random.default_rng(0)):
        assert len(sweep.inputs) == N_ROWS * len(sweep.values)


@pytest.mark.parametrize("kind", ["real", "binary", "counts"])
def test_the_shift_leads_from_joint_rows_to_all_of_them(kind):
    """Where columns interact, an average over 40 rows is not that over all."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(90, 2))
    f = 0.8 * X[:, 0] * X[:, 1] + X[:, 1] ** 2 / 2.0
    likelihood, y = {
        "real": (gp.Gaussian(0.3), f + 0.3 * rng.normal(size=90)),
        "binary": (gp.Probit(), np.where(f + rng.normal(size=90) > 0, 1.0, -1.0)),
        "counts": (gp.Poisson(), rng.poisson(np.exp(f / 2.0)).astype(float)),
    }[kind]
    model = gp.GPModel(X, y, gp.SquaredExponential(1.2, 1.0), likelihood)
    linear = kind == "real"
    if linear:
        predictor = regression_predictor(model, np.zeros(0))
    else:
        at = model.at(np.zeros(0))
        predictor = State(at, sites=expectation_propagation(at).sites).predictor()
    sweep, inputs = sweep_of(X, [-1.0, 0.0, 1.5], 0)
    draws = sampled_averages(predictor, sweep, sweep.joint(inputs), rng, 40_000, linear=linear)
    shift = average_shift(predictor, sweep, inputs, linear=linear)
    eta = predictor.moments(inputs)
    rows = eta.mean[0] if linear else eta.mean_response()
    every = on_link(rows.reshape(3, 90).mean(1), kind)
    found = on_link(draws.mean(0), kind) + shift
    np.testing.assert_allclose(found, every, atol=0.012)
    assert np.abs(on_link(draws.mean(0), kind) - every).max() > 0.025


def test_two_coordinates_are_one_place(data, table):
    rows = table("counts", 150)
    (alone,) = sweeps(data("counts", rows=rows), np.random.default_rng(0))
    assert (alone.column, alone.kind, len(alone.values)) == ("east, north", "place", N_PLACES_ALONE)
    assert len(alone.inputs) == N_PLACES_ALONE  # of one row: nothing else differs
    places = np.array(alone.values)
    assert places.min() >= 0.0
    assert places.max() <= 20.0
    own = data("counts", rows=rows.assign(tide=np.arange(150) % 7))
    tide, place = sweeps(own, np.random.default_rng(0))
    assert (tide.column, place.kind, len(place.values)) == ("tide", "place", N_PLACES)
    block = place.inputs.iloc[: len(own.learning.X)]
    assert block["east"].nunique() == 1
    assert block["tide"].nunique() == 7
    averages = np.linspace(1.0, 2.0, N_PLACES) + 0.01 * np.random.default_rng(1).normal(
        size=(9, N_PLACES)
    )
    found = effect(place, averages, "real")
    assert found.places == (2, 21)  # one in ten lie below, and above
    assert found.change[0] == pytest.approx(19.0 / 23.0, abs=0.05)


def test_a_column_alone_has_many_values_and_one_row(data):
    own = data("real", 80, test_fraction=0.0)
    (sweep,) = sweeps(own, np.random.default_rng(0))
    assert len(sweep.inputs) == len(sweep.values)
    assert np.diff(sweep.values).max() < 0.007 * np.ptp(
        own.encoding.natural("dose", own.learning.X["dose"])
    )


def effect_of(averages, kind, sweep_kind="number", usual=(1, 3)):
    g = np.shape(averages)[1]
    sweep = Sweep("x", sweep_kind, tuple(range(g)), usual, pd.DataFrame())
    return effect(sweep, np.array(averages, dtype=float), kind)


def test_change_of_a_probability_is_a_difference():
    found = effect_of([[0.9, 0.2, 0.3, 0.5, 0.1], [0.9, 0.3, 0.3, 0.5, 0.1]], "binary")
    assert found.change == pytest.approx((0.25, 0.2025, 0.2975))
    assert found.places == (1, 3)
    np.testing.assert_allclose(found.mean, [0.9, 0.25, 0.3, 0.5, 0.1])
    np.testing.assert_allclose(found.low[1], 0.2025)
    np.testing.assert_allclose(found.high[1], 0.2975)
    falling = effect_of([[0.9, 0.5, 0.3, 0.2]], "binomial")
    assert falling.change[0] == pytest.approx(-0.3)


@pytest.mark.parametrize("flip", [1.0, -1.0])
@pytest.mark.parametrize("kind", ["binary", "counts"])
def test_a_curve_that_clearly_turns_is_told_from_its_turning_point(kind, flip):
    """A valley or a peak whose ends are level: the change of the ends would be none."""
    noise = 0.02 * np.random.default_rng(0).standard_normal((200, 7))
    valley = 0.5 + flip * np.array([0.3, 0.2, 0.0, -0.3, -0.2, 0.1, 0.3]) + noise
    turned = effect_of(valley, kind, usual=(1, 5))
    assert turned.places == (1, 3)
    if kind == "binary":
        assert turned.change[0] == pytest.approx(-0.5 * flip, abs=0.01)
    assert effect_of(valley, "real", usual=(1, 5)).places == (1, 3)
    wave = 0.5 + flip * np.array([0.0, 0.0, 0.3, 0.0, -0.3, 0.0, 0.0]) + noise
    assert effect_of(wave, kind, usual=(1, 5)).places == (2, 4)  # of two turning points both
    unsure = effect_of(valley + 10.0 * noise, kind, usual=(1, 5)) if kind == "binary" else None
    assert unsure is None or unsure.places == (1, 5)
    rising = effect_of(0.5 + np.linspace(0.0, 0.4, 7) + noise, kind, usual=(1, 5))
    assert rising.places == (1, 5)


def test_change_of_a_rate_is_a_ratio():
    found = effect_of([[9.0, 2.0, 2.5, 3.0], [9.0, 2.0, 2.5, 4.0]], "counts")
    assert found.change == pytest.approx((1.75, 1.5125, 1.9875))


def test_change_of_a_real_outcome_has_a_sign():
    found = effect_of([[99.0, 7.0, 3.0, 2.0, -99.0]], "real")
    assert found.change == pytest.approx((-5.0, -5.0, -5.0))
    noise = np.random.default_rng(0).normal(size=(400, 5))
    none = effect_of(noise, "real")
    assert none.change[1] < 0.0 < none.change[2]
    assert none.chance > 0.1


def test_an_effect_beyond_the_usual_range_is_seen():
    """The change is that over the usual range, the chance that of the whole curve."""
    noise = 0.1 * np.random.default_rng(0).normal(size=(400, 7))
    found = effect_of(np.array([2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]) + noise, "real", usual=(2, 5))
    assert abs(found.change[0]) < 0.1
    assert found.places == (2, 5)
    assert found.chance < 1e-4


def test_an_estimate_lies_inside_its_interval():
    """Of probabilities near 1 the mean may lie below 97.5 % of the draws."""
    draws = np.ones((400, 5))
    draws[:4] = 0.2
    draws[:, 1] = 0.01
    found = effect_of(draws, "binary")
    assert np.all((found.low <= found.mean) & (found.mean <= found.high))
    assert found.change[1] <= found.change[0] <= found.change[2]


@pytest.mark.parametrize(
    ("kind", "averages", "last", "change"),
    [
        ("binary", [[0.5, 0.6, 0.1]], 2, -0.4),
        ("real", [[5.0, 6.5, 4.0]], 1, 1.5),
        ("counts", [[2.0, 4.0, 0.5]], 2, 0.25),  # a factor of 4 down counts for more than 2 up
    ],
)
def test_change_of_a_category_is_to_the_level_that_differs_most(kind, averages, last, change):
    found = effect_of(averages, kind, "category", (0, 0))
    assert found.places == (0, last)
    assert found.change[0] == pytest.approx(change)


@pytest.mark.parametrize("joint", [False, True])
def test_inputs_of_many_columns_are_made_anew_and_the_same(data, monkeypatch, joint):
    own = data("many", 500, test_fraction=0.0)
    swept = sweeps(own, np.random.default_rng(0))
    model = SimpleNamespace(new_inputs=lambda X, _: X.to_numpy(float))
    kept = CodedInputs(model, swept, joint=joint)
    monkeypatch.setattr("gpmcflow.analysis.effects.MOST_KEPT", 0)
    anew = CodedInputs(model, swept, joint=joint)
    for _ in range(2):
        for sweep, a, b in zip(swept, kept, anew, strict=True):
            np.testing.assert_array_equal(a, b)
            assert len(a) == len(sweep.values) * (N_JOINT if joint else len(sweep.rows))
    held = sum(getattr(part, "nbytes", 0) for part in vars(anew).values())
    assert (held, anew._kept) == (0, None)
    assert sum(X.nbytes for X in CodedInputs(model, swept)) == sum(s.nbytes for s in swept)
