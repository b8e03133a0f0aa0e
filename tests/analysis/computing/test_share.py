"""Shares between 0 and 1: beta predictions, effects in points, a beta regression beside them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit

from gpmcflow.analysis.baselines import baselines
from gpmcflow.analysis.scores import _constant
from gpmcflow.data.suggestions import suggest
from gpmcflow.errors import InputErrors

from ..reading import text_of


@pytest.fixture(scope="module")
def done(analysis, table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("share")
    table("share", 160).to_csv(folder / "mine.csv", index=False)
    made = yaml.safe_load(suggest(folder / "mine.csv", "cover").text("mine"))
    plain = {"covariance": made["models"]["plain"]["covariance"]}
    config = {**made, "quick": True, "models": {"plain": plain}}
    config.pop("priors", None)
    assert (made["data"]["outcome"], made["likelihood"]) == ("share", "beta")
    return analysis(folder, config)


def read(run, name):
    return pd.read_csv(run.folder / f"{name}.csv")


@pytest.mark.parametrize("cell", ["0", "1"])
def test_a_share_of_0_or_1_gets_a_line_with_the_remedy(data, table, cell, tmp_path):
    rows = table("share").astype(object)
    rows.loc[4, "cover"] = cell
    with pytest.raises(InputErrors) as error:
        data("share", rows=rows)
    (line,) = error.value.problems
    assert line.startswith(f'row 6, column cover: "{cell}" is not above 0 and below 1')
    assert line.endswith("or write outcome: real and likelihood: gaussian")
    rows.to_csv(tmp_path / "mine.csv", index=False)
    found = suggest(tmp_path / "mine.csv", "cover")
    assert (found.reading.kind, found.target.kind, found.likelihood) == (
        "share",
        "real",
        "gaussian",
    )
    assert "a beta outcome has no 0 and no 1" in found.text("mine")


@pytest.mark.parametrize("write", ["{:.1f} %", "{:.1f}"])
def test_percent_are_divided_by_100(data, table, write, tmp_path):
    rows = table("share")
    own = data("share", rows=rows, test_fraction=0.0)
    name = "cover" if "%" in write else "cover_pct"
    percent = rows.drop(columns="cover").assign(
        **{name: [write.format(100 * v) for v in rows.cover]}
    )
    same = data("share", rows=percent, test_fraction=0.0, target=name)
    np.testing.assert_allclose(same.learning.outcome, own.learning.outcome, atol=1e-12)
    percent.to_csv(tmp_path / "mine.csv", index=False)
    assert suggest(tmp_path / "mine.csv", name).likelihood == "beta"


def test_numbers_up_to_100_are_no_shares_without_a_word_for_it(table, tmp_path):
    rows = table("share").assign(cover=lambda t: 100 * t.cover)
    rows.to_csv(tmp_path / "mine.csv", index=False)
    assert suggest(tmp_path / "mine.csv", "cover").reading.kind != "share"


def test_predictions_stay_inside_and_effects_are_differences(done):
    table = read(done, "predictions_test")
    assert ((table["q025"] > 0.0) & (table["q975"] < 1.0)).all()
    assert ((table["q025"] < table["mean"]) & (table["mean"] < table["q975"])).all()
    dose = read(done, "relevance").set_index("column").loc["dose"]
    z = (dose[["low", "high"]].astype(float) - 50.0) / 10.0
    truth = [
        np.mean([expit(-1.0 + 0.8 * at), expit(-0.5 + 0.8 * at)]) for at in z
    ]  # half the rows are of either soil
    assert dose["change"] == pytest.approx(truth[1] - truth[0], abs=0.05)
    models = read(done, "models").set_index("role")
    assert models.loc["simple", "name"] == "beta regression"
    assert abs(models.loc["model", "difference"]) < 0.05
    assert models.loc["model", "error"] == pytest.approx(
        np.sqrt(((table["outcome"] - table["mean"]) ** 2).mean())
    )


def test_the_simple_model_is_a_beta_regression(data):
    own = data("share", 120)
    learning, held = own.learning, own.held_out
    found = {baseline.role: baseline for baseline in baselines(own, held)}
    for role, kept in (("simple", slice(None)), ("base", slice(0, 0))):
        X, X_new = (
            np.insert(part.X.to_numpy()[:, kept], 0, 1.0, axis=1) for part in (learning, held)
        )

        def law(at, X):
            mean, phi = expit(X @ at[:-1]), np.exp(at[-1])
            return stats.beta(phi * mean, phi * (1.0 - mean))

        def loss(at, X=X, law=law):
            penalty = 0.5e-3 * (at[1:-1] ** 2).sum()
            return penalty - law(at, X).logpdf(learning.outcome).mean()

        at = minimize(loss, [*[0.0] * X.shape[1], 2.0], method="BFGS").x
        np.testing.assert_allclose(
            found[role].log_density, law(at, X_new).logpdf(held.outcome), atol=2e-4
        )
        np.testing.assert_allclose(found[role].mean, expit(X_new @ at[:-1]), atol=1e-4)
    best = law(at, np.ones((len(learning.row), 1))).logpdf(learning.outcome)
    np.testing.assert_allclose(_constant(own, "beta"), best, atol=1e-3)


def test_sentences_of_the_report(done):
    text = text_of((done.folder / "report.html").read_text(encoding="utf-8"))
    dose = read(done, "relevance").set_index("column").loc["dose"]
    assert "the expected cover is" in text
    assert f"{100 * dose['change']:.0f} points higher" in text
    error = 100 * read(done, "models").set_index("role").loc["model", "error"]
    assert f"predictions are typically off by {error:.1f}" in text
    outcome = np.concatenate([done.data.learning.outcome, done.data.held_out.outcome])
    assert f"The average is {100 * outcome.mean():.0f} %." in text
    assert "Are the intervals calibrated?" in text
    assert "shares, beta" in text
    assert "probability that" not in text.split("Technical tables")[0]
