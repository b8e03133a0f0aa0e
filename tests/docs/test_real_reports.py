"""Peers of the real files' reports: densities of the outcome itself, and known rates found."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.real_files import reports
from benchmarks.real_files.peers import Problem, _fitted, coded, density_of


def problem(kind: str, y: np.ndarray, X: np.ndarray, unit: float = 1.0) -> Problem:
    n = len(y)
    return Problem(kind, X, np.asarray(y, float), np.full(n, unit), np.arange(n))


def test_columns_are_coded_by_the_learning_rows():
    table = pd.DataFrame(
        {"dose": [1.0, np.nan, 3.0, 100.0], "ward": ["a", "b", None, "c"], "code": [1, 2, 3, 1]}
    )
    X = coded(table, {"code"}, np.array([0, 1, 2]))
    assert X.shape == (4, 1 + 3 + 3)  # a gap is a level; the level "c" is not known
    assert np.allclose(X[:3].mean(axis=0), 0)
    assert X[1, 0] == pytest.approx(0)  # the median of 1 and 3 is their mean


@pytest.mark.parametrize("kind", ["counts", "binomial"])
def test_probabilities_of_counts_sum_to_one(kind):
    rng = np.random.default_rng(0)
    y = rng.negative_binomial(2, 0.3, 60) if kind == "counts" else rng.binomial(9, 0.4, 60)
    known = problem(kind, y, np.zeros((60, 1)), 1.0 if kind == "counts" else 9.0)
    apart = np.full(60, y.mean() / known.unit[0])
    density = density_of(known, apart)
    values = np.arange(10 if kind == "binomial" else 500)
    every = problem(kind, values, np.zeros((len(values), 1)), known.unit[0])
    assert np.exp(density(every, np.full(len(values), apart[0]))).sum() == pytest.approx(
        1, abs=1e-6
    )


def test_the_density_of_a_positive_outcome_is_in_its_own_units():
    rng = np.random.default_rng(0)
    y = np.exp(rng.normal(3.0, 0.5, 400))
    known = problem("positive", y, np.zeros((400, 1)))
    density = density_of(known, np.full(400, np.log(y).mean()))
    grid = np.linspace(0.05, 400, 20000)
    every = problem("positive", grid, np.zeros((len(grid), 1)))
    total = np.exp(density(every, np.full(len(grid), np.log(y).mean()))).sum() * (grid[1] - grid[0])
    assert total == pytest.approx(1, abs=1e-3)


def test_a_count_regression_finds_the_rate_per_exposure():
    rng = np.random.default_rng(0)
    X, unit = rng.normal(size=(600, 1)), rng.uniform(1, 10, 600)
    y = rng.poisson(unit * np.exp(0.5 + 0.4 * X[:, 0])).astype(float)
    predict = _fitted("glm", {}, Problem("counts", X, y, unit, np.arange(600)))
    assert np.log(predict(np.array([[0.0], [1.0]]))) == pytest.approx([0.5, 0.9], abs=0.06)


def test_a_classifier_that_is_too_sure_is_calibrated():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 0.8, 500)
    y = (rng.random(500) < p).astype(float)
    known = problem("binary", y, np.zeros((500, 1)))
    sure = np.clip((p - 0.5) * 3 + 0.5, 0, 1)
    assert density_of(known, sure)(known, sure).mean() > -0.68
    assert density_of(known, sure, calibrate=False)(known, sure).mean() < -0.7


def test_the_first_sentence_is_that_of_the_answer():
    page = (
        '<p class="answer">Two matter: <i>a</i> (0.5 of it)\nand <b>U.S. &amp; b</b>. The rest.</p>'
    )
    assert reports.headline(page) == "Two matter: a (0.5 of it) and U.S. & b."


def test_a_config_that_holds_out_too_few_rows_holds_out_more(tmp_path):
    pd.DataFrame({"y": [1.0] * 62, "x": range(62)}).to_csv(tmp_path / "few.csv", index=False)
    config = tmp_path / "file.yaml"
    (tmp_path / "few.csv").rename(tmp_path / "file.csv")
    config.write_text("# file.csv: 62 rows\ndata:\n  target: y\n  test_fraction: 0.2  # share\n")
    assert reports.hold_out_enough(config) == 0.5
    assert "test_fraction: 0.5  # share" in config.read_text()


def test_figures_count_wins_and_near_misses():
    row = {"coverage": 0.9, "held_out": 10, "difference_se": 0.1}
    rows = [
        row | {"difference": d, "coverage": c} for d, c in ((0.1, 1.0), (-0.1, 0.8), (-0.3, ""))
    ]
    text = reports.figures_text(rows)
    assert "three peers: 1 of 3" in text
    assert "of it: 2 of 3" in text
    assert "hold 90.0 % of 20" in text


@pytest.mark.parametrize("size", [2.0, 1e6])
def test_counts_get_the_spread_they_have(size):
    rng = np.random.default_rng(0)
    y = rng.negative_binomial(size, size / (size + 4.0), 600)
    known = problem("counts", y, np.zeros((600, 1)))
    found = density_of(known, np.full(600, 4.0))(known, np.full(600, 4.0)).mean()
    truth = stats.nbinom.logpmf(y, size, size / (size + 4.0)).mean()
    assert found == pytest.approx(truth, abs=0.01)
