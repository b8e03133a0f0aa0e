"""Contrasts and average effects against closed forms of Gaussian models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, ndtr, ndtri

import gpmcflow as gp
from gpmcflow.errors import InputError

N = 36
rng = np.random.default_rng(7)
FRAME = pd.DataFrame({
    "age": rng.uniform(30.0, 70.0, N),
    "drug": rng.choice(["drug", "placebo"], N),
    "ward": rng.choice(list("abc"), N),
})  # fmt: skip
FRAME["score"] = 0.05 * FRAME.age + (FRAME.drug == "drug") * 0.6 + 0.4 * rng.normal(size=N) + 0.125
COVARIANCE = (
    gp.Linear(0.05, columns="age") + gp.Group(0.7, columns="drug") + gp.Group(0.3, columns="ward")
)


def fitted(structure="auto", outcome="score", likelihood=None):
    model = gp.GPModel.from_frame(
        FRAME, outcome, COVARIANCE, likelihood or gp.Gaussian(0.4), mean=2.0, structure=structure
    )
    return gp.approximate(model)


def of_differences(A, B):
    """Mean and sd of f(A) - f(B) given y, by the closed form."""
    age = FRAME.age.mean()
    rows = pd.concat([FRAME, A, B])[["age", "drug", "ward"]]
    K = COVARIANCE(rows.assign(age=rows.age - age))
    n, m = N, len(A)
    signs = np.zeros((m, len(K)))
    signs[np.arange(m), n + np.arange(m)] = 1.0
    signs[np.arange(m), n + m + np.arange(m)] = -1.0
    C = K[:n, :n] + 0.4**2 * np.eye(n)
    cross = signs @ K[:, :n]
    mean = cross @ np.linalg.solve(C, FRAME.score - 2.0)
    covariance = signs @ K @ signs.T - cross @ np.linalg.solve(C, cross.T)
    return mean, np.sqrt(np.diag(covariance))


ROWS = pd.DataFrame({"age": [40.0, 60.0], "ward": ["a", "c"]}, index=["young", "old"])


@pytest.mark.parametrize("structure", ["auto", "dense"])
def test_a_difference_is_that_of_the_closed_form(structure):
    A, B = ROWS.assign(drug="drug"), ROWS.assign(drug="placebo")
    n = 20_000
    table = gp.contrast(fitted(structure), A, B, n_draws=n, interval=0.9)
    mean, sd = of_differences(A, B)
    np.testing.assert_allclose(table["mean"], mean, atol=5 * sd.max() / np.sqrt(n))
    np.testing.assert_allclose(table["sd"], sd, rtol=0.03)
    np.testing.assert_allclose(table["low"], mean + sd * ndtri(0.05), atol=0.05 * sd.max())
    np.testing.assert_allclose(table["high"], mean + sd * ndtri(0.95), atol=0.05 * sd.max())
    np.testing.assert_allclose(table["probability"], ndtr(mean / sd), atol=0.01)
    frame = table.to_dataframe()
    assert list(frame.index) == ["young", "old"]
    assert list(frame) == ["mean", "median", "sd", "low", "high", "probability"]


def test_one_row_stands_against_many():
    one = gp.contrast(
        fitted(), ROWS.assign(drug="drug"), {"age": 50.0, "ward": "a", "drug": "placebo"}, seed=2
    )
    same = pd.DataFrame({"age": 50.0, "ward": "a", "drug": "placebo"}, index=[0, 1])
    many = gp.contrast(fitted(), ROWS.assign(drug="drug"), same, seed=2)
    assert list(one.new_case.values) == ["young", "old"]
    np.testing.assert_allclose(one["mean"], many["mean"], atol=0.1)
    np.testing.assert_allclose(one["sd"], many["sd"], rtol=0.25)


def test_a_row_against_itself_differs_by_nothing():
    for structure in ("auto", "dense"):
        A = ROWS.assign(drug="drug")
        table = gp.contrast(fitted(structure), A, A)
        np.testing.assert_allclose(table["high"] - table["low"], 0.0, atol=1e-4)


def test_ratios_and_odds_are_made_of_the_same_draws():
    frame = FRAME.assign(well=(FRAME.score > FRAME.score.median()).astype(int))
    model = gp.GPModel.from_frame(frame, "well", COVARIANCE, mean=0.0)
    A, B = ROWS.assign(drug="drug"), ROWS.assign(drug="placebo")
    fit = gp.approximate(model)
    eta = gp.draws_at(fit, pd.concat([A, B]), kind="latent").latent.values[0]
    a, b = expit(eta[:, :2]), expit(eta[:, 2:])
    for scale, values, none in (
        ("difference", a - b, 0.0),
        ("ratio", a / b, 1.0),
        ("odds", np.exp(eta[:, :2] - eta[:, 2:]), 1.0),
    ):
        table = gp.contrast(fit, A, B, scale=scale)
        np.testing.assert_allclose(table["median"], np.median(values, axis=0), rtol=1e-6)
        np.testing.assert_allclose(table["probability"], (values > none).mean(0), rtol=1e-6)
        assert table.attrs["long_name"] == "P(well = 1)"
    latent = gp.contrast(fit, A, B, kind="latent")
    np.testing.assert_allclose(latent["mean"], (eta[:, :2] - eta[:, 2:]).mean(0), rtol=1e-6)


def test_the_average_over_rows_is_that_of_the_closed_form():
    with_drug = FRAME[["age", "ward"]].assign(drug="drug")
    mean, _ = of_differences(with_drug, with_drug.assign(drug="placebo"))
    table = gp.effects(fitted(), "drug", compare="difference", n_draws=20_000)
    assert list(table.contrast.values) == ["placebo - drug"]
    assert table.attrs["n_rows"] == N
    assert float(table["mean"][0]) == pytest.approx(-mean.mean(), abs=0.01)
    by_value = gp.effects(fitted(), "drug", n_draws=20_000)
    assert float(by_value["mean"][1] - by_value["mean"][0]) == pytest.approx(-mean.mean(), abs=0.01)


def test_a_slope_is_that_of_the_linear_term_in_natural_units():
    young, old = (ROWS.iloc[:1].assign(age=age, drug="drug") for age in (40.0, 50.0))
    mean, sd = of_differences(old, young)
    for structure in ("auto", "dense"):
        slope = gp.effects(fitted(structure), "age", compare="slope", n_draws=4000)
        assert float(slope["mean"][0]) == pytest.approx(mean[0] / 10.0, abs=0.3 * sd[0] / 10.0)
        assert float(slope["sd"][0]) == pytest.approx(sd[0] / 10.0, rel=0.08)
    ends = gp.effects(fitted(), "age", values=[40, 50], compare="difference", n_draws=4000)
    assert list(ends.contrast.values) == ["50 - 40"]
    assert float(ends["mean"][0]) == pytest.approx(mean[0], abs=0.3 * sd[0])


def test_by_and_at_set_further_columns():
    table = gp.effects(fitted(), "drug", by="ward", at={"age": 50.0}, n_draws=4000)
    assert dict(table.sizes) == {"drug": 2, "ward": 3}
    assert table["mean"].dims == ("drug", "ward")
    row = {"age": 50.0, "drug": "placebo", "ward": "c"}
    told = gp.predict(fitted(), row).latent_mean
    at = table["mean"].sel(drug="placebo", ward="c")
    assert float(at) == pytest.approx(float(told[0]), abs=0.02)
    pairs = gp.effects(fitted(), "ward", by="drug", compare="difference", n_draws=50)
    assert list(pairs.contrast.values) == ["b - a", "c - a", "c - b"]
    assert len(pairs.to_dataframe()) == 6


def test_dates_and_grids():
    frame = FRAME.assign(day=pd.date_range("2026-03-01", periods=N))
    model = gp.GPModel.from_frame(frame, "score", "matern32(day)", gp.Gaussian(0.4), mean=2.0)
    fit = gp.approximate(gp.GPModel.from_frame(
        frame, "score", gp.Matern32(10.0, 0.5, columns="day"), gp.Gaussian(0.4), mean=2.0))  # fmt: skip
    table = gp.effects(fit, "day", n_draws=10)
    assert table.day.dtype.kind == "M"
    assert table.sizes["day"] == 11
    ends = gp.effects(fit, "day", values=["2026-03-02", "2026-03-30"], compare="slope", n_draws=10)
    both = gp.effects(
        fit, "day", values=["2026-03-02", "2026-03-30"], compare="difference", n_draws=10
    )
    np.testing.assert_allclose(28.0 * ends["mean"], both["mean"])
    assert list(both.contrast.values) == ["2026-03-30 - 2026-03-02"]
    assert model.dim > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fit: gp.contrast(fit, ROWS.assign(drug="drug"), FRAME.iloc[:3]), "A has 2 rows, B has 3"),
        (lambda fit: gp.contrast(fit, FRAME, FRAME, scale="odds ratio"), "scale: unknown name"),
        (lambda fit: gp.contrast(fit, FRAME, FRAME, interval=95), "interval is 95; allowed: between 0 and 1"),
        (lambda fit: gp.contrast(fit, FRAME, FRAME, scale="odds"), "odds of values above 1"),
        (lambda fit: gp.contrast(fit, FRAME, FRAME, kind="latent", scale="ratio"), 'kind="mean"'),
        (lambda fit: gp.effects(fit, "agee"), "unknown name 'agee'; did you mean 'age'"),
        (lambda fit: gp.effects(fit, "drug", compare="slope"), "holds words, which have no slope"),
        (lambda fit: gp.effects(fit, "drug", by="drug"), "set twice"),
        (lambda fit: gp.effects(fit, "age", n_rows=0), "n_rows is 0; allowed: a whole number"),
        (lambda fit: gp.effects(fit, "age", values=["old"]), r"are \['old'\]; allowed: numbers"),
        (lambda fit: gp.effects(fit, "drug", values=["aspirin"]), None),
    ],
)  # fmt: skip
def test_messages(call, message):
    if message is None:  # a level of a group that was not seen is a new group
        assert call(fitted()).sizes["drug"] == 1
        return
    with pytest.raises(InputError, match=message):
        call(fitted())
