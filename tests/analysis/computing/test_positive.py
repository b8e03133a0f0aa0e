"""Outcomes that are positive amounts: on the log scale inside, in their own units wherever they are read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression

import gpmcflow as gp
from gpmcflow.analysis.baselines import baselines
from gpmcflow.analysis.fitting import fit, summarise
from gpmcflow.analysis.scores import _constant, _error
from gpmcflow.analysis.summaries import Places
from gpmcflow.analysis.tables import grid
from gpmcflow.approximations.conditional import regression_predictor
from gpmcflow.approximations.prediction import predictors
from gpmcflow.data.suggestions import suggest
from gpmcflow.errors import InputError, InputErrors
from gpmcflow.pipeline.predict import predict_file

from ..reading import text_of

EVIDENCE = {"temperatures": 5, "particles": 8}
PLAIN = "linear() + constant(signal_sd=2.0)"
KEY = {"seed": 1, "key": ("x", "a")}


def config(likelihood: str, **data) -> dict:
    return {
        "seed": 2,
        "data": {
            "csv": "mine.csv",
            "target": "price",
            "outcome": "positive",
            "new": "new.csv",
            **data,
        },
        "likelihood": likelihood,
        "quick": True,
        "models": {"plain": {"covariance": PLAIN}},
    }


@pytest.fixture(scope="module", params=["log_normal", "gamma"])
def done(request, analysis, table, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    table("positive", 150).to_csv(folder / "mine.csv", index=False)
    new = pd.DataFrame({"area": [30.0, 50.0, 75.0], "town": ["south", "north", "south"]})
    new.to_csv(folder / "new.csv", index=False)
    return request.param, folder, analysis(folder, config(request.param))


def read(run, name):
    return pd.read_csv(run.folder / f"{name}.csv")


def test_intervals_are_positive_and_hold_what_they_promise(done):
    _, _, run = done
    held = read(run, "predictions_test")
    assert (held["q025"] > 0.0).all()
    for low, high, share, slack in (("q025", "q975", 0.95, 0.12), ("q25", "q75", 0.5, 0.25)):
        inside = ((held[low] <= held["outcome"]) & (held["outcome"] <= held[high])).mean()
        assert abs(inside - share) < slack
    assert (held["mean"] > held["q50"]).all()  # skewed
    assert held["q50"].corr(held["outcome"]) > 0.5


def test_scores_are_densities_of_the_outcome_itself(done):
    likelihood, _, run = done
    models = read(run, "models").set_index("role")
    name = {"log_normal": "log-linear regression", "gamma": "gamma regression"}[likelihood]
    assert models.loc["simple", "name"] == name
    # the same straight lines: nearly the same scores and errors as the regression
    assert abs(models.loc["model", "difference"]) < 0.05
    assert models.loc["model", "base_difference"] > 0.2
    held = read(run, "predictions_test")
    error = (held["outcome"] - held["q50"]).abs().mean()
    assert models.loc["model", "error"] == pytest.approx(error)
    assert models.loc["model", "error"] == pytest.approx(models.loc["simple", "error"], rel=0.05)
    assert models.loc["base", "error"] > 1.2 * error


def test_effects_are_factors(done):
    _, _, run = done
    changes = read(run, "relevance").set_index("column")
    ends = changes.loc["area", ["low", "high"]].astype(float)
    factor = np.exp(0.5 * (ends["high"] - ends["low"]) / 10.0)
    assert changes.loc["area", "change_low"] < factor < changes.loc["area", "change_high"]
    town = changes.loc["town", "change"]
    assert max(town, 1.0 / town) == pytest.approx(np.exp(0.6), rel=0.25)
    curves = read(run, "effects")
    assert (curves["low"] > 0.0).all()
    assert curves["mean"].between(100.0, 2000.0).all()


def test_sentences_of_the_report(done):
    likelihood, _, run = done
    text = text_of((run.folder / "report.html").read_text(encoding="utf-8"))
    assert "the expected price is higher by a factor of" in text
    assert "always answering with the median is off by" in text
    assert "mean distance from the predicted median" in text
    assert "The typical error is the mean distance between outcome and predicted median." in text
    assert (
        "Each prediction is the median: the outcome is as likely to be above it as below." in text
    )
    assert "both axes are logarithmic" in text
    assert "Are the intervals calibrated? Yes" in text
    assert ("relative errors, log-normal" in text) == (likelihood == "log_normal")
    assert (
        "typical probability" not in text.replace("Typical probability", "").split("Technical")[0]
    )


def test_predictions_of_a_file(done, monkeypatch):
    _, folder, run = done
    monkeypatch.chdir(folder)
    told = predict_file("mine", "new.csv", "mine_new.csv")
    found, report = pd.read_csv("mine_new.csv"), read(run, "predictions_new")
    np.testing.assert_allclose(found["q50"], report["q50"], rtol=1e-6)
    assert (found["q025"] > 0.0).all()
    assert (found["q025"] < found["q50"]).all()
    assert any(f"price {found['q50'][0]:.3g} (" in line for line in told)


@pytest.fixture(scope="module")
def fitted(data, model, at_maximum):
    own = data("positive", 60, test_fraction=0.3)
    made = model(own, "squared_exponential(area) + linear(town)", likelihood="log_normal")
    with at_maximum():
        return own, made, fit(made, own, EVIDENCE, **KEY)


def test_the_scale_is_the_geometric_mean_of_the_learning_rows(fitted):
    own, made, _ = fitted
    scale = np.exp(np.log(own.learning.outcome).mean())
    assert (own.target.scale, own.target.shift) == (pytest.approx(scale), 0.0)
    np.testing.assert_allclose(made.y, own.learning.outcome / scale)
    assert made.mean == 0.0


def test_densities_and_evidence_have_the_jacobian(fitted):
    own, made, quick = fitted
    rows, best, scale = own.held_out, gp.approximate(made), np.log(own.target.scale)
    (predictor,) = predictors(best, n_draws=1)
    eta = predictor.moments(made.new_inputs(rows.X))
    sd = np.sqrt(eta.variance[0] + predictor.likelihood.noise_sd**2)
    law = stats.lognorm(sd, scale=np.exp(scale + eta.mean[0]))
    group = quick["held_out"].to_dataset()
    np.testing.assert_allclose(group["log_density"], law.logpdf(rows.outcome), rtol=1e-9)
    np.testing.assert_allclose(group["response_mean"], law.mean(), rtol=1e-9)
    quantiles = group["response_quantile"].sel(quantile=0.975)
    np.testing.assert_allclose(quantiles, law.ppf(0.975), rtol=1e-9)
    factor = regression_predictor(made, best.theta).factor
    logs = np.log(own.learning.outcome)
    natural = stats.multivariate_normal(np.full(len(logs), scale), factor @ factor.T)
    expected = natural.logpdf(logs) - logs.sum()
    assert float(quick["evidence/log_evidence"]) == pytest.approx(expected, abs=1e-6)
    C, left = factor @ factor.T, quick["leave_one_out/log_density"].values
    for i in (0, 7):
        rest = np.arange(len(logs)) != i
        weights = np.linalg.solve(C[np.ix_(rest, rest)], C[rest, i])
        mean = scale + weights @ (logs[rest] - scale)
        one = stats.lognorm(np.sqrt(C[i, i] - weights @ C[rest, i]), scale=np.exp(mean))
        assert left[i] == pytest.approx(one.logpdf(own.learning.outcome[i]), rel=1e-8)


def test_draws_say_nearly_what_the_fit_says(fitted, draw):
    own, made, quick = fitted
    full = summarise(made, draw(made, 60), own, **KEY)
    for quantile in (0.025, 0.5, 0.975):
        one, other = (
            tree["held_out/response_quantile"].sel(quantile=quantile) for tree in (full, quick)
        )
        np.testing.assert_allclose(np.log(one), np.log(other), atol=0.5)
    assert abs(float((full["held_out/log_density"] - quick["held_out/log_density"]).mean())) < 0.2


def test_effects_have_the_noise_of_each_draw(fitted, draw):
    """The mean of a log-normal response is exp(noise_sd^2 / 2) times its median."""
    own, made, _ = fitted
    draws = draw(made, 20)
    wide = draws.copy()
    theta = draws["posterior"]["theta"].copy()
    theta[..., -1] += np.log(3.0)
    wide["posterior"] = wide["posterior"].to_dataset().assign(theta=theta)
    levels = [
        float(summarise(made, tree, own, **KEY)["effects/area/average"].median())
        for tree in (draws, wide)
    ]
    assert levels[1] > 1.2 * levels[0]


def test_a_curve_and_a_map(data, model, table):
    rows = table("positive", 60)[["area", "price"]]
    own = data("positive", rows=rows)
    made = model(own, "squared_exponential()", likelihood="log_normal")
    places = Places.of(own, np.random.default_rng(0))
    curve = grid(fit(made, own, EVIDENCE, **KEY), places.grid, own)["curve"]
    assert (curve["predictive_low"] > 0.0).all()
    assert (curve["predictive_low"] < curve["low"]).all()
    assert (curve["low"] < curve["mean"]).all()
    assert (curve["mean"] < curve["high"]).all()
    rng = np.random.default_rng(1)
    east, north = rng.uniform(0.0, 20.0, (2, 60)).round(2)
    price = np.exp(np.sin(east / 4.0) + 0.3 * rng.standard_normal(60)).round(3)
    rows = pd.DataFrame({"east": east, "north": north, "price": price})
    own = data("positive", rows=rows, coordinates=["east", "north"])
    made = model(own, "matern32()", likelihood="log_normal")
    places = Places.of(own, np.random.default_rng(0))
    cells = grid(fit(made, own, EVIDENCE, **KEY), places.grid, own)["map"]
    np.testing.assert_allclose(cells["factor"], np.sqrt(cells["high"] / cells["low"]))
    assert (cells["low"] > 0.0).all()


def by_role(found):
    return {baseline.role: baseline for baseline in found}


def test_the_simple_model_of_amounts_is_a_regression_of_their_logarithms(data):
    own = data("positive", 80)
    learning, held = own.learning, own.held_out
    found = by_role(baselines(own, held, "log_normal"))
    line = LinearRegression().fit(learning.X, np.log(learning.outcome))
    middle = line.predict(held.X)
    np.testing.assert_allclose(found["simple"].mean, np.exp(middle))
    logs, n = np.log(learning.outcome), len(learning.outcome)
    scale = logs.std(ddof=1) * np.sqrt(1.0 + 1.0 / n)
    expected = stats.t.logpdf(np.log(held.outcome), n - 1, logs.mean(), scale)
    np.testing.assert_allclose(found["base"].log_density, expected - np.log(held.outcome))
    np.testing.assert_allclose(found["base"].mean, np.exp(logs.mean()))
    best = stats.lognorm(logs.std(), scale=np.exp(logs.mean())).logpdf(learning.outcome)
    np.testing.assert_allclose(_constant(own, "log_normal"), best)
    apart = np.abs(held.outcome - found["base"].mean)
    assert _error("positive", held, found["base"].mean)["error"] == pytest.approx(apart.mean())


def test_the_simple_model_of_a_gamma_model_is_a_gamma_regression(data):
    own = data("positive", 200)
    learning, held = own.learning, own.held_out
    found = by_role(baselines(own, held, "gamma"))
    X, X_new = (np.insert(part.X.to_numpy(), 0, 1.0, axis=1) for part in (learning, held))

    def loss(at):
        a = np.exp(at[-1])
        return -stats.gamma.logpdf(learning.outcome, a, scale=np.exp(X @ at[:-1]) / a).mean()

    at = minimize(loss, [np.log(300.0), 0.0, 0.0, 1.0], method="BFGS").x
    law = stats.gamma(np.exp(at[-1]), scale=np.exp(X_new @ at[:-1] - at[-1]))
    np.testing.assert_allclose(found["simple"].log_density, law.logpdf(held.outcome), atol=0.02)
    np.testing.assert_allclose(found["simple"].mean, law.median(), rtol=0.01)
    assert found["base"].log_density.mean() < found["simple"].log_density.mean()


def test_new_reads_amounts_and_says_how_to_change_that(table, tmp_path):
    table("positive", 80).to_csv(tmp_path / "mine.csv", index=False)
    found = suggest(tmp_path / "mine.csv", "price")
    text = found.text("mine")
    loaded = yaml.safe_load(text)
    assert (loaded["data"]["outcome"], loaded["likelihood"]) == ("positive", "log_normal")
    assert "# read as positive" in text
    assert "; or real, with likelihood: gaussian" in text
    assert "the model gamma has the other choice" in text
    assert "outcome      price (a positive number, " in found.summary()


def test_a_cell_that_is_not_positive_is_named(data, table):
    rows = table("positive", 40)
    rows.loc[4, "price"] = 0.0
    with pytest.raises(InputErrors) as error:
        data("positive", rows=rows)
    (line,) = error.value.problems
    assert 'row 6, column price: "0.0" is not above 0' in line
    assert "correct the cell or write outcome: real and likelihood: gaussian" in line


def test_a_likelihood_of_other_outcomes_is_refused(data, model):
    with pytest.raises(InputError, match="outcome that is positive; allowed: log_normal, gamma"):
        model(data("positive"), PLAIN, likelihood="gaussian")
    assert model(data("positive"), PLAIN).likelihood.name == "log_normal"
    level = model(data("positive"), "linear()", likelihood="gamma").mean
    assert level.parameters["loc"] == pytest.approx(0.1, abs=0.3)
