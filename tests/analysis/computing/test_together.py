"""What columns say together: which go with each other, that they share an effect, and that noise does not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpmcflow.analysis import fitting, interactions
from gpmcflow.analysis.effects import CLEAR_CHANCE, LIKELY_CHANCE, effect, sweeps
from gpmcflow.analysis.together import association, basis_of, sets_of, spread_chance, together_table

SMOOTH, LINES = "matern32()", "linear() + constant(signal_sd=2.0)"


def alike(rng, n, shared=("a", "b", "c"), alone=("d", "e"), spread=0.3):
    """Columns of which some say nearly the same."""
    common = rng.normal(size=n)
    names = {name: common + spread * rng.normal(size=n) for name in shared}
    return pd.DataFrame(names | {name: rng.normal(size=n) for name in alone}).round(3)


@pytest.fixture(autouse=True)
def no_pairs(monkeypatch):
    """Without effects of pairs of columns, a third of an answer: their random numbers are their own."""
    monkeypatch.setattr(interactions, "MOST_COLUMNS", 0)


def found(data, model, covariance):
    """What columns say together, and the answer that it is of."""
    answer = fitting.answer(model(data, covariance), data, None, seed=1, key=("mine", "a"))
    table = together_table(answer, data.target.kind)
    table["columns"] = table["columns"].map(eval)
    return table, answer


def chances_of(data, answer):
    """The chance of no effect of each column on its own."""
    swept, kind = sweeps(data, np.random.default_rng(0)), data.target.kind
    return {
        s.column: effect(s, answer[f"effects/{s.column}/average"].values, kind).chance
        for s in swept
    }


def test_association_of_numbers_and_categories(data):
    rng = np.random.default_rng(0)
    x = rng.normal(50.0, 10.0, 200).round(1)
    ward = np.where(x < 45.0, "low", np.where(x < 55.0, "mid", "high"))
    rows = pd.DataFrame(
        {"x": x, "twice": 2.0 * x, "ward": ward, "z": rng.normal(size=200).round(3)}
    )
    own = data(
        "real", rows=rows.assign(**{"yield": rng.normal(size=200).round(2)}), test_fraction=0.0
    )
    assert association(basis_of(own, "x"), basis_of(own, "twice")) == pytest.approx(1.0)
    r = np.corrcoef(rows["x"], rows["z"])[0, 1]
    assert association(basis_of(own, "x"), basis_of(own, "z")) == pytest.approx(r**2)
    between = rows.groupby("ward")["x"].transform("mean").var() / rows["x"].var()
    assert association(basis_of(own, "ward"), basis_of(own, "x")) == pytest.approx(between)
    assert sets_of(own, ["x", "ward", "z"]) == [(["x", "ward"], True), (["x", "ward", "z"], False)]
    assert sets_of(own, ["x", "z"]) == [(["x", "z"], False)]
    assert sets_of(own, ["x", "twice", "ward"]) == [(["x", "twice", "ward"], True)]
    assert sets_of(own, ["z"]) == []


def test_the_chance_of_no_effect_is_as_often_small_as_is_said():
    """Exact normal posteriors of two columns about flat curves: uniform, up to the count of 200."""
    rng = np.random.default_rng(1)
    at = np.column_stack([np.repeat([0, 1], [4, 6]), rng.dirichlet(np.ones(10))])
    root = np.linalg.qr(rng.normal(size=(10, 10)))[0] * np.geomspace(1.0, 0.05, 10)
    level = np.array([3.0, -2.0])[at[:, 0].astype(int)]  # of each column, which is no effect
    chances = np.array(
        [
            spread_chance(level + (rng.normal(size=10) + rng.normal(size=(300, 10))) @ root.T, at)
            for _ in range(200)
        ]
    )
    for share in (0.05, 0.2, 0.5):
        assert np.mean(chances < share) == pytest.approx(
            share, abs=4.0 * np.sqrt(share * (1 - share) / 200)
        )
    rising = 4.0 * np.arange(10) + rng.normal(size=(300, 10)) @ root.T
    assert spread_chance(rising, at) < 0.001
    assert spread_chance(np.zeros((300, 10)) + level, at) == 1.0


@pytest.mark.parametrize("covariance", [SMOOTH, LINES])
def test_columns_that_say_the_same_matter_together(data, model, covariance):
    """None of three is clear, though together they are beyond doubt; the two others stay out."""
    rng = np.random.default_rng(2)
    rows = alike(rng, 90, spread=0.15)
    rows["yield"] = (rows[["a", "b", "c"]].mean(axis=1) + 1.2 * rng.normal(size=90)).round(2)
    own = data("real", rows=rows, test_fraction=0.0)
    table, answer = found(own, model, covariance)
    chances = chances_of(own, answer)
    assert min(chances.values()) * 5 > CLEAR_CHANCE
    assert [*table["columns"]] == [["a", "b", "c"], ["a", "b", "c", "d", "e"]]
    assert [*table["alike"]] == [1, 0]
    assert table["chance"][0] < 0.001
    low, middle, high = (table[f"change{end}"][0] for end in ("_low", "", "_high"))
    truth = np.subtract(*np.quantile(rows[["a", "b", "c"]].mean(axis=1), [0.9, 0.1]))
    assert low < middle < high
    assert middle == pytest.approx(truth, abs=0.8)


def test_many_weak_columns_matter_together(data, model):
    """Yes-or-no outcomes of six columns, none of which is clear: as one regression against none."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(140, 6))
    p = 1.0 / (1.0 + np.exp(-0.45 * X.sum(1)))
    rows = pd.DataFrame(X.round(3), columns=list("abcdef"))
    rows["ill"] = np.where(rng.random(140) < p, "yes", "no")
    own = data("binary", rows=rows, test_fraction=0.0)
    table, answer = found(own, model, LINES)
    chances = chances_of(own, answer)
    unclear = [c for c, chance in chances.items() if chance * 6 >= CLEAR_CHANCE]
    assert table["columns"][0] == unclear
    assert table["chance"][0] < CLEAR_CHANCE


@pytest.mark.parametrize("covariance", [SMOOTH, LINES])
@pytest.mark.parametrize("shared", [(), ("a", "b", "c")])
def test_noise_is_no_effect_of_columns_together(data, model, covariance, shared):
    """20 files of noise, with columns that say the same and without: none clear, at most 3 likely."""
    likely = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, len(shared)])
        rows = alike(rng, 50, shared, [name for name in "abcde" if name not in shared])
        rows["yield"] = rng.normal(size=50).round(2)
        table, _ = found(data("real", rows=rows, test_fraction=0.0), model, covariance)
        chances = table["chance"] * len(table)
        assert (chances >= CLEAR_CHANCE).all()
        likely += (chances < LIKELY_CHANCE).any()
    assert likely <= 3
