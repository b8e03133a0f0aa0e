"""Pairs of columns that act together: which are looked at, what is said of them, and when."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit

import gpmcflow as gp
from gpmcflow.analysis.effects import sweeps
from gpmcflow.analysis.interactions import interaction_tables, joined, pair_sweep
from gpmcflow.analysis.of_model import data_of_model
from gpmcflow.analysis.page import build_page

from .made_up import MADE
from .reading import section_of


@pytest.fixture(scope="module")
def trial():
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame({"dose": rng.uniform(0, 3, n), "sex": rng.choice(["f", "m"], n)})
    frame["age"] = rng.uniform(20, 80, n)
    slope = np.where(frame["sex"] == "m", 2.0, 0.5)
    frame["gain"] = slope * frame["dose"] + frame["age"] / 40 + rng.normal(0, 0.3, n)
    return frame


def _of(frame, covariance):
    model = gp.GPModel.from_frame(frame, "gain", covariance, "gaussian")
    return model, data_of_model(model)


@pytest.mark.parametrize(
    ("covariance", "pairs"),
    [
        ("linear(dose, age) + group(sex) + matern32(age)", []),
        ("linear(dose) * group(sex) + linear(age)", [("dose", "sex")]),
        ("matern52(dose, age)", [("dose", "age")]),
        ("matern52(dose, age) + linear(dose) * group(sex)", [("dose", "sex"), ("dose", "age")]),
    ],
)
def test_columns_may_act_together_in_a_term_that_they_share(trial, covariance, pairs):
    assert joined(*_of(trial, covariance)) == pairs


def _tables(trial, values):
    """Tables of draws of averages (draw, dose, sex)."""
    _, data = _of(trial, "linear(dose) * group(sex) + linear(age)")
    swept = sweeps(data, np.random.default_rng(0))
    averages = ("sample", "value"), values.reshape(len(values), -1)
    group = xr.Dataset(
        {"average": averages}, attrs={"column": "dose", "by": "sex", "n_possible": 3}
    )
    texts = {
        sweep.column: lambda value: f"{value:g}" if isinstance(value, float) else value
        for sweep in swept
    }
    return interaction_tables(xr.DataTree.from_dict({"pairs/0": group}), swept, data, texts), swept


def _draws(interaction, noise=0.1):
    rng = np.random.default_rng(1)
    dose, sex = np.linspace(0.0, 1.0, 5)[:, None], np.array([0.0, 1.0])
    amounts = interaction + noise * rng.standard_normal((500, 1, 1))
    return dose + 2.0 * sex + amounts * dose * sex + 0.1 * rng.standard_normal((500, 5, 2))


def test_the_difference_of_changes_is_told_with_its_interval(trial):
    drawn = _draws(3.0)
    tables, swept = _tables(trial, drawn)
    (row,) = tables["interactions"].to_dict("records")
    by_name = {sweep.column: sweep for sweep in swept}
    levels = by_name["sex"].values
    assert (row["column"], row["by"], row["by_low"], row["by_high"]) == ("dose", "sex", *levels)
    low, high = (by_name["dose"].values[k] for k in by_name["dose"].usual)
    assert (float(row["low"]), float(row["high"])) == (
        pytest.approx(low, rel=1e-4), pytest.approx(high, rel=1e-4),
    )  # fmt: skip
    amounts = drawn[:, 4, 1] - drawn[:, 0, 1] - drawn[:, 4, 0] + drawn[:, 0, 0]
    expected = np.quantile(amounts, [0.5, 0.025, 0.975])
    assert [row[f"difference{end}"] for end in ("", "_low", "_high")] == pytest.approx(
        list(expected)
    )
    for name, column in (("at_low", 0), ("at_high", 1)):
        change = np.median(drawn[:, 4, column] - drawn[:, 0, column])
        assert row[name] == pytest.approx(change)
    assert row["chance"] < 0.001
    pairs = tables["pairs"]
    assert len(pairs) == 10
    np.testing.assert_allclose(pairs["mean"], np.median(drawn, axis=0).ravel())


def test_columns_that_add_up_do_not_act_together(trial):
    tables, _ = _tables(trial, _draws(0.0))
    assert tables["interactions"]["chance"].item() > 0.2


def test_the_scale_is_that_of_the_link(trial):
    """Probabilities of an additive predictor differ in their changes, and do not act together."""
    frame = trial.assign(gain=np.where(trial["gain"] > trial["gain"].median(), "yes", "no"))
    model = gp.GPModel.from_frame(frame, "gain", "linear(dose) * group(sex)")
    data = data_of_model(model)
    swept = sweeps(data, np.random.default_rng(0))
    for interaction, acts in ((0.0, False), (3.0, True)):
        averages = ("sample", "value"), expit(_draws(interaction) - 1.0).reshape(500, -1)
        group = xr.Dataset(
            {"average": averages}, attrs={"column": "dose", "by": "sex", "n_possible": 1}
        )
        tree = xr.DataTree.from_dict({"pairs/0": group})
        tables = interaction_tables(tree, swept, data, {"dose": str, "sex": str})
        assert (tables["interactions"]["chance"].item() < 0.05) == acts


def test_a_pair_is_set_at_once_in_the_same_rows(trial):
    _, data = _of(trial, "linear(dose) * group(sex)")
    first, second = sweeps(data, np.random.default_rng(0))
    pair = pair_sweep(first, second, n_values=2)
    assert pair.values == tuple((a, b) for a in (first.values[first.usual[0]], first.values[first.usual[1]])
                                for b in second.values)  # fmt: skip
    n = len(pair.rows)
    block = pair.inputs.iloc[:n]
    assert block["dose"].nunique() == 1
    assert len(pair.inputs) == 4 * n


@pytest.mark.parametrize(("chance", "said"), [(0.001, True), (0.03, True), (0.2, False)])
def test_the_page_has_a_section_where_a_pair_acts_together(tmp_path, chance, said):
    info, tables = MADE["machine"]()
    columns = [c for c in tables["relevance"]["column"] if c in set(tables["effects"]["column"])][
        :2
    ]
    row = {
        "column": columns[0],
        "by": columns[1],
        "low": "1",
        "high": "9",
        "by_low": "2",
        "by_high": "3",
    }
    for name, value in (("at_low", 1.0), ("at_high", 4.0), ("difference", 3.0)):
        row |= {name: value, f"{name}_low": value - 0.5, f"{name}_high": value + 0.5}
    tables["interactions"] = pd.DataFrame([row | {"chance": chance}])
    grid = [(v, b) for v in (1.5, 5.5, 9.5) for b in (2, 3)]
    values = [(*columns, v, b, v * b, v * b - 1, v * b + 1) for v, b in grid]
    head = ["column", "by", "value", "by_value", "mean", "low", "high"]
    tables["pairs"] = pd.DataFrame(values, columns=head)
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    page = build_page(tmp_path, info)
    assert ("Do columns act together?" in page) == said
    if said:
        text = section_of(page, "interactions")
        assert "1.0" in text
        assert "4.0" in text
        assert ("though the evidence is weak" in text) == (chance > 0.01)


def test_an_analysis_finds_the_pair_that_was_put_in(trial, tmp_path):
    analysis = gp.analyse(trial, "gain", quick=True, folder=tmp_path, cores=1)
    table = pd.read_csv(analysis.folder / "interactions.csv").set_index(["column", "by"])
    own = table.loc[("dose", "sex")]
    span = float(own["high"]) - float(own["low"])
    sign = 1.0 if own["by_high"] == "m" else -1.0
    assert own["difference_low"] < sign * 1.5 * span < own["difference_high"]
    assert own["chance"] < 0.01
    assert "Do columns act together?" in (analysis.folder / "report.html").read_text()


@pytest.mark.parametrize("acts", [True, False])
def test_two_numbers_are_shown_where_their_product_counts_and_not_where_they_add_up(tmp_path, acts):
    """One term that both share, of x1 x2 and of x1 + x2."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x1": rng.uniform(-1, 1, 100), "x2": rng.uniform(-1, 1, 100)})
    effect = 2.0 * frame["x1"] * frame["x2"] if acts else frame["x1"] + frame["x2"]
    frame["gain"] = effect + rng.normal(0, 0.2, 100)
    models = {"surface": "squared_exponential(x1, x2)"}
    analysis = gp.analyse(frame, "gain", models=models, quick=True, folder=tmp_path, cores=1)
    (row,) = pd.read_csv(analysis.folder / "interactions.csv").to_dict("records")
    page = (analysis.folder / "report.html").read_text()
    assert ("Do columns act together?" in page) == acts
    assert (row["chance"] < 0.01) == acts
    spans = (row["high"] - row["low"]) * (row["by_high"] - row["by_low"])
    truth = 2.0 * spans if acts else 0.0
    assert row["difference_low"] < truth < row["difference_high"]
