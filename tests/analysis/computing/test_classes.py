"""Classes without an order: from the words of a file to a probability for each, and a confusion table."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.linear_model import LogisticRegression

import gpmcflow as gp
from gpmcflow.analysis.baselines import baselines
from gpmcflow.analysis.grades import class_predictions
from gpmcflow.analysis.page import build_page
from gpmcflow.approximations.multi_laplace import multi_laplace
from gpmcflow.approximations.multi_prediction import MultiConditional
from gpmcflow.data.suggestions import suggest
from gpmcflow.errors import InputError, InputErrors
from gpmcflow.likelihoods import Softmax
from gpmcflow.pipeline.predict import predict_file

from ..reading import text_of

PLAIN = "linear() + constant(signal_sd=2.0)"
KINDS = ("ash", "beech", "oak")


@pytest.fixture(scope="module")
def done(analysis, table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    rows = table("classes", 160)
    rows.to_csv(folder / "mine.csv", index=False)
    new = pd.DataFrame({"height": [15.0, 20.0, 26.0], "leaf": [5.0, 6.5, 5.0]})
    new.to_csv(folder / "new.csv", index=False)
    made = yaml.safe_load(suggest(folder / "mine.csv", "kind").text("mine"))
    plain = {"covariance": made["models"]["plain"]["covariance"]}
    config = {**made, "quick": True, "models": {"plain": plain}}
    config.pop("priors", None)
    config["data"] |= {"new": "new.csv"}
    return folder, analysis(folder, config), rows


def read(run, name, **options):
    return pd.read_csv(run.folder / f"{name}.csv", **options)


def test_new_reads_words_as_classes(done):
    folder, run, rows = done
    made = yaml.safe_load(suggest(folder / "mine.csv", "kind").text("mine"))
    assert made["data"]["outcome"] == "classes"
    assert made["likelihood"] == "softmax"
    assert made["data"]["positive"] == rows["kind"].value_counts().idxmax() == "oak"
    assert run.data.target.levels == KINDS
    assert (run.data.target.split, run.data.target.negative) == (3, "not oak")


def test_very_many_words_are_set_against_one(tmp_path):
    rows = pd.DataFrame({"town": [f"t{k % 15}" for k in range(90)], "x": np.arange(90.0)})
    rows.to_csv(tmp_path / "towns.csv", index=False)
    made = yaml.safe_load(suggest(tmp_path / "towns.csv", "town").text("towns"))
    assert made["data"]["positive"] == "t0"
    assert "outcome" not in made["data"]


def test_probabilities_are_of_the_class_seen_and_sum_to_one(done):
    _, run, _ = done
    table, held = read(run, "predictions_test"), run.data.held_out
    found = table[[f"p_{kind}" for kind in KINDS]].to_numpy()
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-9)
    seen = found[np.arange(len(found)), held.outcome.astype(int) - 1]
    fit = gp.load_results(run.folder / "plain" / "fit.nc")
    np.testing.assert_allclose(fit["held_out/log_density"], np.log(seen), atol=1e-9)
    assert list(table["class"]) == [KINDS[k] for k in found.argmax(1)]
    np.testing.assert_allclose(table["probability"], table["p_oak"])
    assert ((table["q025"] <= table["p_oak"]) & (table["p_oak"] <= table["q975"])).all()
    assert np.log(seen).mean() > -0.75  # guessing gives -1.1


def test_the_spread_of_a_probability_is_that_of_draws():
    """One setting, known functions: no spread; else quantiles of the softmax of normal draws."""
    likelihood = Softmax(3)
    mean = np.array([[[0.4], [-0.3]]])
    rng = np.random.default_rng(0)
    known = class_predictions(MultiConditional(mean, np.zeros_like(mean), [likelihood]), 1, rng)
    exact = likelihood.class_probabilities(mean[0], np.zeros((2, 1)))[:, 0]
    assert known["grade_probability"].values[:, 0] == pytest.approx(exact)
    assert float(known["response_sd"][0]) < 1e-15
    wide = class_predictions(MultiConditional(mean, np.ones_like(mean), [likelihood]), 1, rng)
    u = mean[0] + rng.standard_normal((100_000, 2, 1))
    draws = likelihood.class_probabilities(u, np.zeros_like(u))[1, :, 0]
    assert wide["response_quantile"].values[:, 0] == pytest.approx(
        np.quantile(draws, wide["quantile"]), abs=0.03
    )


def test_bands_agree_with_the_effects(done):
    _, run, _ = done
    bands = read(run, "grades", dtype={"value": str})
    np.testing.assert_allclose(bands.groupby(["column", "value"])["probability"].sum(), 1.0)
    effects = read(run, "effects", dtype={"value": str}).set_index(["column", "value"])
    oak = bands[bands["grade"] == "oak"].set_index(["column", "value"])["probability"]
    np.testing.assert_allclose(oak, effects["mean"].reindex(oak.index), atol=0.05)
    height = bands[(bands["column"] == "height") & (bands["grade"] == "oak")]
    assert (np.diff(height["probability"]) < 0.0).all()


def test_left_out_rows_are_scored_by_the_cavities_of_ep(done):
    _, run, _ = done
    fit = gp.load_results(run.folder / "plain" / "fit.nc")
    assert fit["leave_one_out"].attrs["by"] == "EP"
    own = fit["leave_one_out/log_density"].values
    assert own.mean() == pytest.approx(float(fit["held_out/log_density"].mean()), abs=0.3)


def test_the_simple_model_is_a_multinomial_logit(data):
    own = data("classes", 120)
    learning, held = own.learning, own.held_out
    found = {baseline.role: baseline for baseline in baselines(own, held, "softmax")}
    fitted = LogisticRegression(max_iter=1000).fit(learning.X.to_numpy(), learning.outcome)
    chances = fitted.predict_proba(held.X.to_numpy())
    seen = chances[np.arange(len(chances)), held.outcome.astype(int) - 1]
    np.testing.assert_allclose(found["simple"].log_density, np.log(seen), atol=1e-8)
    shares = np.bincount(learning.outcome.astype(int))[1:] / len(learning.outcome)
    np.testing.assert_allclose(
        found["base"].log_density, np.log(shares)[held.outcome.astype(int) - 1]
    )


def test_sentences_of_the_report(done):
    _, run, _ = done
    text = text_of((run.folder / "report.html").read_text(encoding="utf-8"))
    assert "outcome: kind, one of ash, beech and oak" in text
    assert "always answering “oak” misclassifies" in text
    assert "guessing among all three gives 33 %" in text
    assert "multinomial logistic regression" in text
    assert "Are the class probabilities calibrated?" in text
    assert "predicted beech" in text
    assert "Each prediction is the most probable class" in text
    assert "Kind is less likely to be oak as height rises" in text


def test_a_shared_page_has_the_same_answer_and_no_rows(done):
    _, run, _ = done
    info = json.loads((run.folder / "info.json").read_text(encoding="utf-8"))
    page, shared = (
        text_of(build_page(run.folder, {**info, "share": own})) for own in (False, True)
    )
    assert "Kind is less likely to be oak as height rises" in shared
    assert "The 3 rows of new.csv. All:" in page
    assert "3 rows of new.csv were predicted:" in shared
    first = read(run, "predictions_new").iloc[0]
    row = f"{first['class']} | {100 * first['probability']:.0f} %"
    assert row in page
    assert row not in shared


def test_predictions_of_a_file(done, monkeypatch):
    folder, run, _ = done
    monkeypatch.chdir(folder)
    told = predict_file("mine", "new.csv", "mine_new.csv")
    found, report = pd.read_csv("mine_new.csv"), read(run, "predictions_new")
    names = ["class", *(f"p_{kind}" for kind in KINDS)]
    assert list(found.columns[1:5]) == names
    np.testing.assert_allclose(found[names[1:]], report[names[1:]], rtol=1e-6)
    assert found["p_oak"].is_monotonic_decreasing
    assert any(f"kind {found.loc[0, 'class']} (" in line for line in told)


def test_settings_of_the_likelihood(data, model):
    own = data("classes", 120)
    made = model(own, PLAIN)
    assert made.likelihood == Softmax(3)
    assert "Constant(signal_sd=1.0)" in repr(model(own, "linear()"))  # classes of other sizes
    assert np.isfinite(multi_laplace(made, made.prior_median()).log_evidence)
    with pytest.raises(InputError, match="found levels among the settings of softmax"):
        model(own, PLAIN, likelihood={"softmax": {"levels": 3}})
    with pytest.raises(InputError, match="outcome that is classes; allowed: softmax"):
        model(own, PLAIN, likelihood="gaussian")
    with pytest.raises(InputErrors, match="no value"):
        data("classes", outcome="classes", positive="elm")
