"""The report of a model made in Python: its tables are what verbs give, its page says what it lacks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gpmcflow as gp
from gpmcflow.analysis.of_model import data_of_model
from gpmcflow.errors import InputError

from .reading import section_of, text_of


@pytest.fixture(scope="module")
def ward():
    rng = np.random.default_rng(0)
    n = 60
    frame = pd.DataFrame({"age": rng.uniform(20, 80, n), "sex": rng.choice(["f", "m"], n)})
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400, n), unit="D")
    frame["hours"] = rng.uniform(0.5, 2.0, n)
    frame["visits"] = rng.poisson(frame["hours"] * np.exp(0.03 * frame["age"] - 1.0))
    frame["ill"] = np.where(rng.random(n) < 1 / (1 + np.exp(-(frame["age"] - 50) / 5)), "yes", "no")
    return frame


@pytest.fixture(scope="module")
def counted(ward, tmp_path_factory):
    """Draws of a model of counts, and the folder of its report."""
    covariance = "linear(age) + group(sex) + linear(day)"
    model = gp.GPModel.from_frame(ward, "visits", covariance, "poisson", exposure="hours")
    draws = gp.sample(model, n_draws=100, n_chains=2)
    report = gp.report(draws, tmp_path_factory.mktemp("report"), title="Visits")
    return draws, report.path.parent


def test_effects_are_those_of_the_verb(counted):
    draws, folder = counted
    table = pd.read_csv(folder / "effects.csv")
    own = table[table["column"] == "age"]
    values = own["value"].astype(float)
    again = gp.effects(draws, "age", values=values)
    for name, verb in (("mean", "median"), ("low", "low"), ("high", "high")):
        np.testing.assert_allclose(own[name], again[verb], rtol=1e-6)


def test_scores_are_those_of_leave_one_out(counted):
    draws, folder = counted
    models = pd.read_csv(folder / "models.csv").set_index("name")
    scores = gp.leave_one_out(draws)
    assert models.loc["model", "elpd_loo"] == pytest.approx(scores.attrs["elpd"])
    assert models.loc["model", "test_score"] == pytest.approx(float(scores.elpd.mean()))
    assert set(models["role"]) == {"model", "simple", "base"}


def test_the_page_answers_and_says_what_is_left_out(counted):
    _, folder = counted
    page = (folder / "report.html").read_text()
    text = text_of(page)
    assert "age (rising)" in text.replace("\u00a0", " ")
    assert "Left out, as this page is made from one model" in text
    assert "Visits" in text
    for nothing in ("None", "nan", "gpmcflow run", "test_fraction"):
        assert nothing not in text
    assert page.count("<svg") >= 6  # three effects, scores, columns, parameters
    assert "2024-" in section_of(page, "relevance")  # dates are dates
    assert "R-hat" in text


def test_labels_are_calibrated_by_leave_one_out(ward, tmp_path):
    model = gp.GPModel.from_frame(ward, "ill", "linear(age)")
    draws = gp.sample(model, n_draws=100, n_chains=2)
    gp.report(draws, tmp_path)
    table = pd.read_csv(tmp_path / "predictions_loo.csv")
    seen = np.exp(gp.leave_one_out(draws)["elpd"].values)
    yes = (ward["ill"] == "yes").to_numpy()
    np.testing.assert_allclose(table["probability"], np.where(yes, seen, 1.0 - seen))
    assert list(table["outcome"]) == list(yes.astype(int))


def test_a_fit_over_settings_has_its_evidence(ward, tmp_path):
    model = gp.GPModel.from_frame(ward, "age", "group(sex)", "gaussian")
    fit = gp.approximate(model, integrated=True)
    gp.report(fit, tmp_path)
    models = pd.read_csv(tmp_path / "models.csv").set_index("name")
    assert models.loc["model", "log_evidence"] == pytest.approx(fit.log_evidence)
    assert models.loc["model", "settings"] == len(fit.theta)
    after = pd.read_csv(tmp_path / "hyperparameters.csv").set_index("parameter")
    assert after.loc["noise_sd", "q50"] == pytest.approx(np.median(fit.parameters["noise_sd"]))
    assert (
        "evidence" not in text_of((tmp_path / "report.html").read_text()).split("Left out")[1][:120]
    )


def test_inputs_and_outcomes_are_those_of_the_frame(ward):
    model = gp.GPModel.from_frame(
        ward, "visits", "linear(age) + group(sex) + linear(day)", "poisson", exposure="hours"
    )
    data = data_of_model(model)
    encoding, X = data.encoding, data.learning.X
    np.testing.assert_allclose(encoding.natural("age", X["age"].to_numpy()), ward["age"])
    days = encoding.natural("day", X["day"].to_numpy())
    assert [encoding.code("day").text(day) for day in days[:3]] == [
        f"{d:%Y-%m-%d}" for d in ward["day"][:3]
    ]
    level = encoding.code("sex").shown_levels[0]
    np.testing.assert_array_equal(X[f"sex={level}"], ward["sex"] == level)
    np.testing.assert_array_equal(data.learning.outcome, ward["visits"])
    np.testing.assert_array_equal(data.learning.unit, ward["hours"])


def test_what_has_no_report_is_refused(ward, tmp_path):
    model = gp.GPModel.from_frame(ward, "age", "group(sex)", "gaussian")
    with pytest.raises(
        InputError, match=r"report: found Approximation; allowed: draws of gp\.sample"
    ):
        gp.report(gp.approximate(model), tmp_path)
    line = np.linspace(0.0, 1.0, 6)
    grades = gp.GPModel(line, [1, 2, 3, 1, 2, 3], gp.Matern32(1.0), gp.Ordinal(3))
    with pytest.raises(InputError, match="report: the likelihood is ordinal; allowed: probit"):
        gp.report(gp.sample(grades, n_draws=10, n_chains=1), tmp_path)
    assert not list(tmp_path.iterdir())
