"""The report of a model made in Python: its tables are what verbs give, its page says what it lacks."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import gpmcflow as gp
from gpmcflow.analysis.of_model import data_of_model
from gpmcflow.errors import InputError
from gpmcflow.numerics.product_limit import turnbull

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
    capped = gp.GPModel(line, line, gp.Matern32(1.0), gp.CensoredGaussian(above=2.0))
    with pytest.raises(
        InputError, match="report: the likelihood is censored_gaussian; allowed: probit"
    ):
        data_of_model(capped)
    both = gp.GPModel(line, line, gp.Matern32(1.0), gp.HeteroscedasticGaussian())
    with pytest.raises(InputError, match="heteroscedastic_gaussian likelihood has several latent"):
        data_of_model(both)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def trial():
    """Grades, kinds and times of 56 rows; all rise with the dose."""
    rng, n = np.random.default_rng(3), 56
    frame = pd.DataFrame({"dose": rng.uniform(0, 10, n), "arm": rng.choice(["new", "old"], n)})
    score = (frame["dose"] - 5.0) / 2.0
    grade = np.searchsorted([-1.0, 1.0], score + rng.logistic(size=n))
    frame["felt"] = pd.Categorical.from_codes(grade, ["poor", "fair", "good"], ordered=True)
    utility = np.stack([score, -score, 0.0 * score]) + rng.gumbel(size=(3, n))
    frame["kind"] = np.array(["ash", "elm", "oak"])[utility.argmax(0)]
    time, followed = 20.0 * np.exp(0.5 * score + 0.5 * rng.normal(size=n)), rng.exponential(60.0, n)
    frame["weeks"], frame["ended"] = np.minimum(time, followed), (time <= followed).astype(int)
    return frame


def reported(trial, folder, y, **stated):
    """Draws of a model of y, the folder of its report, and the effects of the dose."""
    model = gp.GPModel.from_frame(trial, y, "linear(dose) + group(arm)", **stated)
    draws = gp.sample(model, n_draws=60, n_chains=2, seed=1)
    gp.report(draws, folder)
    table = pd.read_csv(folder / "effects.csv", dtype={"value": str})
    own = table[table["column"] == "dose"].astype({"value": float})
    text = text_of((folder / "report.html").read_text())
    assert "dose (rising)" in text.replace("\u00a0", " ") or y == "kind"
    for nothing in ("None", "nan", "gpmcflow run"):
        assert nothing not in text
    return draws, own, text


def averaged(draws, trial, values, **chosen):
    """Mean over the rows of P(each level) with the dose at each value, by `gp.predict` (level, value)."""
    means = []
    for value in values:
        table = gp.predict(draws, trial[["dose", "arm"]].assign(dose=value))
        means.append(table["response_probability"].mean("new_case").values)
    return np.array(means).T


@pytest.mark.parametrize("y", ["felt", "kind"])
def test_levels_have_the_probabilities_of_predictions(y, trial, tmp_path):
    draws, own, text = reported(trial, tmp_path, y)
    levels = ["poor", "fair", "good"] if y == "felt" else ["ash", "elm", "oak"]
    bands = pd.read_csv(tmp_path / "grades.csv", dtype={"value": str})
    bands = bands[bands["column"] == "dose"].pivot(
        index="grade", columns="value", values="probability"
    )
    bands = bands.loc[levels, own["value"].map("{:.10g}".format)]
    ends = own["value"].iloc[[0, -1]]
    found = averaged(draws, trial, ends)
    np.testing.assert_allclose(bands.to_numpy()[:, [0, -1]], found, atol=0.02)
    np.testing.assert_allclose(bands.sum(axis=0), 1.0)
    info = json.loads((tmp_path / "info.json").read_text())["target"]
    assert info["levels"] == levels
    upper = found[info["split"] - 1 :].sum(0) if y == "felt" else found[info["split"] - 1]
    np.testing.assert_allclose(own["mean"].iloc[[0, -1]], upper, atol=0.03)
    if y == "kind":
        of_class = gp.effects(draws, "dose", values=own["value"], of=info["positive"])
        np.testing.assert_allclose(own["mean"], of_class["median"], rtol=1e-6)
    assert ("grades poor, fair and good" if y == "felt" else "one of ash, elm and oak") in text


def test_times_are_medians_and_the_share_that_lasts_longer(trial, tmp_path):
    stated = {"likelihood": gp.Survival("lognormal"), "event": "ended"}
    draws, own, text = reported(trial, tmp_path, "weeks", **stated)
    latent = gp.effects(
        draws, "dose", values=own["value"], kind="latent"
    )  # log medians of this law
    np.testing.assert_allclose(own["mean"], np.exp(latent["median"]), rtol=0.01)
    np.testing.assert_allclose(own["high"], np.exp(latent["high"]), rtol=0.03)
    longer = pd.read_csv(tmp_path / "survival.csv", dtype={"of": str})
    ends = pd.read_csv(tmp_path / "relevance.csv", dtype=str).set_index("column").loc["dose"]
    one = longer[longer["of"] == ends["high"]].set_index("time")["longer"]
    rows = trial[["dose", "arm"]].assign(dose=float(ends["high"]))
    times = one.index[[5, 20, 40]]
    curve = gp.survival_curve(draws, rows, times)
    np.testing.assert_allclose(
        one[times], next(iter(curve.data_vars.values())).mean("new_case"), atol=0.02
    )
    assert f"{int(trial['ended'].sum())} rows, of 56, whose end was seen" in text
    with_all = gp.GPModel.from_frame(trial, "weeks", "linear(dose)", gp.Survival("lognormal"))
    np.testing.assert_array_equal(data_of_model(with_all).learning.unit, 1.0)


def test_times_known_to_an_interval_are_those_of_the_likelihood(trial, tmp_path):
    """Looked at every 8 weeks: three in four ends lie in an interval, some before the first look."""
    seen, looks = np.arange(len(trial)) % 4 == 0, 8.0 * np.floor(trial["weeks"] / 8.0)
    ended, first = (trial["ended"] == 1).to_numpy(), (looks == 0).to_numpy()
    event = np.select([~ended, ended & ~seen & first], [0.0, -1.0], 1.0)
    until = np.where(ended & ~seen & ~first, looks + 8.0, np.nan)
    time = np.select([event == 0.0, event == -1.0, ~np.isnan(until)], [trial["weeks"], 8.0, looks],
                     trial["weeks"])  # fmt: skip
    inputs = trial[["dose"]] / 5.0
    likelihood = gp.Survival("lognormal", event=event, until=until)
    draws = gp.sample(gp.GPModel(inputs, time, gp.Linear(), likelihood), n_draws=60, seed=1)
    gp.report(draws, tmp_path)
    text = text_of((tmp_path / "report.html").read_text()).replace("\u00a0", " ")
    exact, within = int((ended & seen).sum()), int(np.isfinite(until).sum())
    assert (
        f"Of 56 times {exact} were seen exactly, {within} lie in an interval, {int((event < 0).sum())} ended "
        f"before they were first looked at and {int((~ended).sum())} had not ended." in text
    )
    assert "a time between y and until" in text
    assert "by Turnbull's method" in text
    of_rows = pd.read_csv(tmp_path / "survival.csv", dtype={"of": str}).query("of == 'all rows'")
    high = np.select([event == 0.0, np.isfinite(until)], [np.inf, until], time)
    ends, share = turnbull(np.where(event < 0.0, 0.0, time), high)
    np.testing.assert_allclose(of_rows["time"][1:-1], ends)
    np.testing.assert_allclose(of_rows["longer"][1:-1], share)
    for nothing in ("None", "nan"):
        assert nothing not in text


def test_times_of_which_no_end_was_seen_all_last(trial, tmp_path):
    """The Kaplan-Meier curve of all rows stays at 1."""
    none = trial.assign(ended=0)
    model = gp.GPModel.from_frame(none, "weeks", "linear(dose)", "survival", event="ended")
    gp.report(gp.sample(model, n_draws=40, n_chains=2, seed=1), tmp_path)
    longer = pd.read_csv(tmp_path / "survival.csv", dtype={"of": str})
    seen = longer[longer["of"] == "all rows"]
    assert seen["longer"].tolist() == [1.0, 1.0]
    assert seen["time"].tolist() == [0.0, pytest.approx(trial["weeks"].max())]


def test_a_page_replaces_one_of_another_outcome(ward, tmp_path):
    """Tables of the earlier page, such as grades.csv of its classes, are gone, and not read as its own."""
    classes = ward.assign(kind=np.resize(["a", "b", "c"], len(ward)))
    first = gp.GPModel.from_frame(classes, "kind", "linear(age)", "softmax")
    second = gp.GPModel.from_frame(ward, "age", "group(sex)", "gaussian")
    gp.report(gp.approximate(first, integrated=True), tmp_path / "one")
    assert (tmp_path / "one" / "grades.csv").exists()
    gp.report(gp.approximate(second, integrated=True), tmp_path / "one")
    gp.report(gp.approximate(second, integrated=True), tmp_path / "two")
    one, two = (sorted(p.name for p in (tmp_path / name).iterdir()) for name in ("one", "two"))
    assert one == two
    pages = [(tmp_path / name / "report.html").read_text() for name in ("one", "two")]
    assert pages[0] == pages[1]
