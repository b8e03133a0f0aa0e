"""What would silently be taken for something else: each is the right number, or one line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gpmcflow as gp
from gpmcflow.diagnostics.importance_weights import smooth_weights
from gpmcflow.errors import InputError
from gpmcflow.models.marginal_likelihood import MarginalLikelihood

X = np.linspace(0.0, 1.0, 8)
Y = np.sin(6.0 * X)
LENGTH = gp.Hyperprior.log_uniform(0.05, 5.0)


def squared(X, X2, _):
    return np.exp(-0.5 * ((X - X2.T) / 0.2) ** 2)


def model(covariance=None, likelihood=None, **settings):
    covariance = gp.SquaredExponential(LENGTH, 1.0) if covariance is None else covariance
    return gp.GPModel(X, Y, covariance, likelihood or gp.Gaussian(0.1), **settings)


def test_a_covariance_without_parameters_is_filled_in_at_the_first_call():
    full = np.array([-1.0])
    own, written = (
        MarginalLikelihood(gp.GPModel(X, Y, covariance, gp.Gaussian()))
        for covariance in (gp.PythonCovariance(squared), gp.SquaredExponential(0.2, 1.0))
    )
    own.E[:] = 7.0  # what the memory may hold
    expected = written.factorise(written.model.full(full))
    assert own.factorise(own.model.full(full)) == pytest.approx(expected, rel=1e-12)


@pytest.fixture(scope="module")
def run():
    return gp.model_evidence(model(), n_draws=400, n_replicates=2)


@pytest.mark.parametrize(
    "other",
    [
        model(gp.SquaredExponential(LENGTH, 5.0)),
        model(likelihood=gp.Gaussian(0.5)),
        model(likelihood=gp.Gaussian(np.full(8, 0.1))),
        model(mean=1.0),
        model(jitter=1e-3),
    ],
)
def test_models_that_differ_in_more_than_hyperpriors_are_refused(run, other):
    with pytest.raises(InputError, match="differ in more than hyperpriors"):
        gp.change_hyperpriors(run, model(), other)


def test_a_sum_is_no_product():
    first = gp.SquaredExponential(LENGTH, 1.0, name="a")
    second = gp.SquaredExponential(LENGTH, 1.0, name="b")
    apart, together = model(first + second), model(first * second)
    run = gp.model_evidence(apart, n_draws=200, n_replicates=1)
    with pytest.raises(InputError, match="differ in more than hyperpriors"):
        gp.change_hyperpriors(run, apart, together)


def test_a_narrower_hyperprior_has_finite_errors(run):
    """The draws lie inside, or some are cut off; the same shift as by the density at the draws."""
    theta = run["posterior/theta"].values.ravel()
    for end in (np.exp(theta.max()) * 1.01, np.exp(np.quantile(theta, 0.95))):
        narrow = model(gp.SquaredExponential(gp.Hyperprior.log_uniform(0.05, end), 1.0))
        changed = gp.change_hyperpriors(run, model(), narrow).evidence
        shift = np.log((theta <= np.log(end)).mean() * np.log(100.0) / np.log(end / 0.05))
        before = run.evidence["log_evidence"].item()
        got = changed["log_evidence"].item()
        assert got - before == pytest.approx(shift, abs=0.01)
        errors = changed["standard_error"], changed["replicate_standard_error"]
        assert all(np.isfinite(values.values).all() and (values > 0).all() for values in errors)


def test_the_same_upper_end_is_no_wider_support(run):
    narrow = model(gp.SquaredExponential(gp.Hyperprior.log_uniform(0.06, 5.0), 1.0))
    assert np.isfinite(gp.change_hyperpriors(run, model(), narrow).evidence["fit"])


def test_weights_whose_largest_are_equal_have_no_tail():
    log_weights = np.where(np.arange(400) % 10 == 0, -np.inf, 0.5)
    smoothed, k = smooth_weights(log_weights)
    assert k == -np.inf
    np.testing.assert_array_equal(smoothed, log_weights)


def test_draws_under_other_noise_by_case_are_refused():
    draws = gp.sample(model(likelihood=gp.Gaussian(np.full(8, 0.1))), n_chains=2, n_draws=100)
    with pytest.raises(InputError, match="they are of another noise_sd; draw from this model"):
        gp.model_evidence(model(likelihood=gp.Gaussian(np.full(8, 1.0))), draws=draws)


def test_results_without_data_are_refused_in_words(run):
    for verb in (lambda: gp.predict(run, [0.5]), lambda: gp.simulate(run)):
        with pytest.raises(InputError, match="these results hold no data"):
            verb()
    assert np.isfinite(gp.predict(run, [0.5], model=model())["response_mean"]).all()


def test_draws_written_by_xarray_are_opened(tmp_path):
    draws = gp.sample(model(), n_chains=2, n_draws=20)
    for engine in ("netcdf4", "h5netcdf"):
        path = tmp_path / f"{engine}.nc"
        draws.to_netcdf(path, engine=engine)
        with gp.open_results(path) as tree:
            assert tree["posterior/theta"].shape == draws["posterior/theta"].shape


def test_degrees_from_a_range_of_numpy_are_numbers_of_the_text():
    draws = gp.sample(model(gp.Polynomial(degree=np.arange(3)[2])), n_chains=1, n_draws=20)
    assert gp.predict(draws, X[:2])["response_mean"].shape == (2,)


@pytest.mark.parametrize(
    "values",
    [
        np.ma.masked_greater([0.0, 1.0, 2.0, 9999.0], 100.0),
        np.array(["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04"], dtype="datetime64[D]"),
        np.arange(4) + 1.0j,
    ],
)
def test_dates_masked_and_complex_values_are_refused(values):
    numbers = np.arange(4.0)
    for pair in ((values, numbers), (numbers, values)):
        with pytest.raises(InputError, match=r"masked|dates|complex"):
            gp.GPModel(*pair, gp.SquaredExponential(), gp.Gaussian())


def test_new_rows_of_dates_and_of_two_columns_of_a_name_are_refused():
    frame = pd.DataFrame({"a": X, "b": X[::-1]})
    fit = gp.approximate(gp.GPModel(frame, Y, gp.SquaredExponential(0.2, 1.0), gp.Gaussian(0.1)))
    dates = pd.DataFrame({"a": pd.to_datetime(["2020-01-01"]), "b": [0.0]})
    with pytest.raises(InputError, match="column 'a' holds dates"):
        gp.predict(fit, dates)
    with pytest.raises(InputError, match="two columns are named 'a'"):
        gp.predict(fit, pd.DataFrame(np.ones((2, 3)), columns=["a", "a", "b"]))


def test_no_quantiles_and_no_temperatures_are_refused():
    fit = gp.approximate(model(gp.SquaredExponential(0.2, 1.0)))
    with pytest.raises(InputError, match="quantiles is"):
        gp.predict(fit, [0.5], quantiles=[])
    with pytest.raises(InputError, match="temperatures"):
        gp.log_evidence(fit, n_temperatures=0)
