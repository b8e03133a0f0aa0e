"""Models of several functions in a config: parameters that depend on the columns, noise that varies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gpmcflow as gp
from gpmcflow.analysis.models import units_of_parameters
from gpmcflow.errors import InputError
from gpmcflow.pipeline.predict import predict_file

from ..reading import text_of
from .conftest import SETTINGS

NOISY = {
    "likelihood": "heteroscedastic_gaussian",
    "covariance": {"mean": "matern32(dose)", "log_sd": "linear(dose)"},
}
OTHERS = {
    "counts": ("negative_binomial", "size", "matern32(east, north)"),
    "binomial": ("beta_binomial", "precision", "matern32(dose)"),
    "share": ("beta", "precision", "matern32(dose)"),
    "positive": ("log_normal", "noise_sd", "matern32(area)"),
    "survival": ("survival", "scale", "matern32(dose)"),
}


@pytest.fixture(scope="module")
def done(analysis, tmp_path_factory):
    """Noise of 1 below a dose of 50, of 8 above."""
    folder = tmp_path_factory.mktemp("functions")
    rng, n = np.random.default_rng(5), 120
    dose = rng.uniform(30.0, 70.0, n).round(1)
    noise = np.where(dose < 50.0, 1.0, 8.0)
    rows = pd.DataFrame({"dose": dose, "yield": (dose + noise * rng.normal(size=n)).round(2)})
    rows.to_csv(folder / "mine.csv", index=False)
    pd.DataFrame({"dose": [35.0, 65.0]}).to_csv(folder / "new.csv", index=False)
    config = {
        "data": {"csv": "mine.csv", "target": "yield", "new": "new.csv"},
        "quick": True,
        "models": {"plain": {"covariance": "matern32(dose)"}, "noisy": NOISY},
    }
    return folder, analysis(folder, config)


def test_noise_that_varies_wins_and_is_told(done):
    _, run = done
    models = pd.read_csv(run.folder / "models.csv").set_index("name")
    assert models.loc["noisy", "test_score"] > models.loc["plain", "test_score"] + 0.2
    assert models.loc["noisy", "log_evidence"] > models.loc["plain", "log_evidence"] + 10.0
    text = text_of((run.folder / "report.html").read_text(encoding="utf-8"))
    assert "noise that varies (straight lines)" in text
    assert "normal errors whose size varies" in text
    assert "mean: matern32(dose); log_sd: linear(dose)" in text
    assert not (run.folder / "coefficients.csv").exists()


def test_intervals_of_new_rows_are_as_wide_as_the_noise_there(done, monkeypatch):
    folder, run = done
    monkeypatch.chdir(folder)
    predict_file("mine", "new.csv", "out.csv")
    found = pd.read_csv("out.csv")
    width = (found["q975"] - found["q025"]).to_numpy()
    assert 1.5 < width[0] < 10.0 < 20.0 < width[1] < 50.0
    pd.testing.assert_series_equal(
        found["mean"], pd.read_csv(run.folder / "predictions_new.csv")["mean"]
    )


@pytest.mark.parametrize("kind", OTHERS)
def test_a_quick_run_of_each_kind(kind, analysis, table, tmp_path):
    likelihood, function, covariance = OTHERS[kind]
    table(kind, 60).to_csv(tmp_path / "mine.csv", index=False)
    stated = {"mean": covariance, function: covariance}
    config = {
        "data": {"csv": "mine.csv", **SETTINGS[kind]},
        "quick": True,
        "models": {"own": {"likelihood": likelihood, "covariance": stated}},
    }
    run = analysis(tmp_path, config)
    scores = pd.read_csv(run.folder / "models.csv").set_index("role").loc["model"]
    assert scores["difference"] > -1.0  # a row, beside the simple model
    text = text_of((run.folder / "report.html").read_text(encoding="utf-8"))
    assert f"{function.replace('noise_sd', 'noise')} that varies (" in text
    effects = pd.read_csv(run.folder / "effects.csv")
    assert np.isfinite(effects[["mean", "low", "high"]].to_numpy(float)).all()
    assert (effects["low"] <= effects["mean"]).all()


def test_draws_of_several_functions(analysis, table, tmp_path):
    table("real", 40).to_csv(tmp_path / "mine.csv", index=False)
    config = {
        "data": {"csv": "mine.csv", "target": "yield"},
        "models": {"noisy": NOISY},
        "sampling": {"chains": 2, "draws": 20, "warmup": 5},
    }
    run = analysis(tmp_path, config)
    names = set(pd.read_csv(run.folder / "hyperparameters.csv")["parameter"])
    assert {"mean.length_scale", "log_sd.sd", "log_sd.mean"} <= names


def test_periods_of_every_function_are_in_units_of_their_column(data, model):
    own = data("real", 40)
    stated = {"mean": "periodic(dose, period=p)", "log_sd": "periodic(dose, period=p) + constant()"}
    priors = {"p": {"distribution": "norm", "parameters": {"loc": 2.0, "scale": 0.1}}}
    made = model(own, stated, priors, likelihood="heteroscedastic_gaussian")
    scale = own.encoding.code("dose").scale
    units = units_of_parameters(made, own.encoding)
    assert units == {"mean.period": scale, "log_sd.periodic.period": scale}


def test_one_text_is_the_form_of_every_function(data, model):
    made = model(data("real", 40), "matern32(dose)", likelihood="heteroscedastic_gaussian")
    assert made.names[:3] == ("mean.length_scale", "mean.signal_sd", "log_sd.length_scale")
    alone = model(data("real", 40), {"mean": "matern32(dose)"})
    assert isinstance(alone, gp.GPModel)
    assert alone.names[0] == "length_scale"


@pytest.mark.parametrize(
    ("kind", "likelihood", "covariance", "message"),
    [
        (
            "real", "gaussian", {"mean": "linear()", "noise_sd": "matern32()"},
            "with the gaussian likelihood; allowed: mean, log_sd; write likelihood: "
            "heteroscedastic_gaussian, for noise that varies, and covariance: "
            '{mean: "linear()", log_sd: "matern32()"}',
        ),
        (
            "counts", "negative_binomial", {"mean": "linear()", "sise": "matern32()"},
            'allowed: mean, size; write covariance: {mean: "linear()", size: "matern32()"}',
        ),
        (
            "counts", "poisson", {"mean": "linear()", "size": "matern32()"},
            'the poisson likelihood; allowed: mean; write covariance: "linear()"',
        ),
        (
            "real", "heteroscedastic_gaussian", {"log_sd": "linear()"},
            'allowed: mean, log_sd; write covariance: {mean: "linear()", log_sd: "linear()"}',
        ),
        (
            "classes", "softmax", {"mean": "matern32()", "oak": "linear()"},
            'the softmax likelihood; allowed: mean; write covariance: "matern32()"',
        ),
    ],
)  # fmt: skip
def test_functions_that_a_likelihood_does_not_have(
    kind, likelihood, covariance, message, data, model
):
    with pytest.raises(InputError) as error:
        model(data(kind, 40), covariance, likelihood=likelihood)
    assert str(error.value).startswith("mine.models.a.covariance: found covariances of ")
    assert str(error.value).endswith(message)


def test_a_misspelt_term_names_its_function(data, model):
    with pytest.raises(InputError, match=r"a\.covariance\.size: .*matern33"):
        model(
            data("counts", 40),
            {"mean": "linear()", "size": "matern33()"},
            likelihood="negative_binomial",
        )
