"""Counts with zeros of another kind: rates, predictions and evidence beside the negative binomial law."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpmcflow.analysis.effects import _responses
from gpmcflow.analysis.models import build_model
from gpmcflow.approximations.approximate import approximate
from gpmcflow.approximations.prediction import predictors

from ..reading import text_of

PLAIN = "linear() + constant(signal_sd=2.0)"


@pytest.fixture(scope="module")
def done(analysis, tmp_path_factory):
    folder, rng, n = tmp_path_factory.mktemp("zeros"), np.random.default_rng(5), 160
    dose = rng.normal(50.0, 10.0, n).round(1)
    drawn = rng.negative_binomial(6.0, 6.0 / (6.0 + np.exp(1.8 + 0.05 * (dose - 50.0))))
    visits = np.where(rng.random(n) < 0.35, 0, drawn)
    pd.DataFrame({"dose": dose, "arm": rng.choice(["a", "b"], n), "visits": visits}).to_csv(
        folder / "mine.csv", index=False
    )
    plain = {"covariance": PLAIN}
    config = {
        "seed": 1,
        "data": {"csv": "mine.csv", "target": "visits", "outcome": "counts"},
        "likelihood": "negative_binomial",
        "quick": True,
        "models": {"plain": plain, "zeros": {**plain, "likelihood": "zero_inflated"}},
    }
    return analysis(folder, config)


def read(run, name):
    return pd.read_csv(run.folder / f"{name}.csv")


def test_the_evidence_favours_the_law_that_made_the_counts(done):
    models = read(done, "models").set_index("name")
    assert models.loc["zeros", "log_evidence"] > models.loc["plain", "log_evidence"] + 5.0
    assert models.loc["zeros", "likelihood"] == "zero_inflated"
    text = text_of((done.folder / "report.html").read_text(encoding="utf-8"))
    assert "counts with zeros of another kind, zero-inflated" in text
    assert "This page shows zeros" in text


def test_effects_and_rates_are_of_all_counts_zeros_among_them(done):
    """The share of zeros is in the mean, and not in its ratios."""
    dose = read(done, "relevance").set_index("column").loc["dose"]
    width = float(dose["high"]) - float(dose["low"])
    assert dose["change"] == pytest.approx(np.exp(0.05 * width), rel=0.25)
    curve = read(done, "effects").query("column == 'dose'").astype({"value": float})
    at_50 = np.interp(50.0, curve["value"], curve["mean"])
    assert at_50 == pytest.approx(0.65 * np.exp(1.8), rel=0.25)
    table = read(done, "predictions_test")
    assert ((table["rate_q025"] < table["mean"]) & (table["mean"] < table["rate_q975"])).all()


def test_the_expected_number_of_zeros_is_that_of_the_file(done):
    table = read(done, "predictions_test")
    chances = table.filter(regex=r"^p_")
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert table["p_0"].mean() == pytest.approx(0.37, abs=0.08)


def test_the_base_is_negative_binomial_unless_it_is_stated(done):
    settings = {**done.settings, "models": {"a": {"covariance": PLAIN}}}

    def base(likelihood):
        model = build_model({**settings, "likelihood": likelihood}, "a", done.data, "mine")
        return model.likelihood.base.name

    assert base("zero_inflated") == base("hurdle") == "negative_binomial"
    assert base({"zero_inflated": {"base": "poisson"}}) == "poisson"


def test_rates_of_hurdle_counts_are_not_taken_for_probabilities(done):
    """Averages above 1 are rates; the response has the share of zeros in it."""
    settings = {**done.settings, "models": {"a": {"covariance": PLAIN}}, "likelihood": "hurdle"}
    model = build_model(settings, "a", done.data, "mine")
    predictor = next(iter(predictors(approximate(model), n_draws=1)))
    X = done.data.learning.X.to_numpy()
    rates, kind = _responses(predictor, X, len(X), False)
    assert kind == "counts"
    assert rates.mean() == pytest.approx(done.data.learning.outcome.mean(), rel=0.1)
