"""Problems of the config: data, hyperparameters, models, forecasts."""

import numpy as np
import pandas as pd
import pytest

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.errors import InputError, ResourceError
from gpmcflow.jobs.problems import (
    build_model,
    choose_hyperparameters,
    model_of,
    prepare_data,
    reference_of,
)
from gpmcflow.jobs.stated_models import likelihood_of
from gpmcflow.likelihoods import Gaussian
from gpmcflow.replications import stages


@pytest.fixture(scope="module")
def dataset():
    return prepare_data("toy", {"synthetic": {"n": 40, "n_test": 20, "seed": 2}})


def problem(**hyperparameters):
    own = {"dataset": "toy", "model": "gp", "likelihood": "probit"}
    return {**own, "hyperparameters": hyperparameters}


def test_own_csv_becomes_a_named_data_set(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "my.csv"
    frame = pd.DataFrame({"a": rng.normal(size=30), "label": np.repeat(["no", "yes"], 15)})
    frame.to_csv(path, index=False)
    found = prepare_data("mine", {"csv": str(path), "target": "label", "test_fraction": 0.2})
    assert found.attrs["name"] == "mine"
    assert (found.sizes["case"], found.sizes["test_case"]) == (24, 6)


def test_stated_hyperparameters_pass_through(dataset):
    found = choose_hyperparameters(dataset, problem(log_length_scale=0.3, log_signal_sd=1.0))
    assert found == (0.3, 1.0, None)


def test_grid_takes_its_best_point(dataset):
    lengths, signals = [-1.0, 0.0, 1.0], [0.0, 1.0]
    wanted = problem(select="grid", log_length_scale=lengths, log_signal_sd=signals)
    length, signal, grid = choose_hyperparameters(dataset, wanted)
    best = expectation_propagation(build_model(dataset, wanted, length, signal))
    assert grid.max() == pytest.approx(best.log_evidence, rel=1e-12)
    assert np.array_equal(
        np.argwhere(grid == grid.max())[0], [lengths.index(length), signals.index(signal)]
    )


def test_likelihood_with_settings():
    assert likelihood_of({"likelihood": {"gaussian": {"noise_sd": 0.2}}}) == Gaussian(0.2)
    with pytest.raises(InputError, match=r"student_t: df is Hyperprior.* a number"):
        likelihood_of({"likelihood": {"student_t": {"scale": 0.2}}})


def test_model_and_references_are_rebuilt_from_the_approximation(dataset):
    wanted = problem(select="maximum", ard=True)
    tree, sidecar = stages.approximate(dataset, wanted, seed=1)
    model = model_of(dataset, tree, wanted)
    chosen = tree["hyperparameters"].to_dataset()
    coordinates = [*chosen["log_length_scale"].values, float(chosen["log_signal_sd"]), 0.0]
    np.testing.assert_allclose(model.covariance_function.full, coordinates, rtol=1e-14)
    assert model.jitter == float(chosen["jitter"])
    assert reference_of(tree, model, "prior").is_prior
    ep = reference_of(tree, model, "ep")
    moments = tree["approximation"].to_dataset().sel({"method": "ep"})
    np.testing.assert_allclose(ep.predictor_mean, moments["predictor_mean"], rtol=1e-9)
    assert tree["predictions/probability"].shape == (2, 20)
    assert sidecar["seconds"]["ep"] > 0


def test_too_large_a_covariance_is_refused_before_work(dataset):
    with pytest.raises(ResourceError, match="limit of") as error:
        stages.approximate(
            dataset, problem(log_length_scale=0, log_signal_sd=0), seed=1, memory_limit_gb=1e-5
        )
    assert "\n" not in str(error.value)


def test_non_positive_length_scale_cannot_be_built(dataset):
    with pytest.raises(InputError, match="length_scale"):
        build_model(dataset, problem(), -np.inf, 0.0)
