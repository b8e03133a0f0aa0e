"""Survival times, grades and censored measurements as models: limits, references, bad input, every verb."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.optimize import minimize
from scipy.stats import weibull_min

import gpmcflow as gp
from gpmcflow.approximations import survival_curve as survival_curves
from gpmcflow.errors import InputError

X = np.linspace(0.0, 3.0, 30)
ETA = np.sin(2.0 * X)
SE = gp.SquaredExponential(0.7, 0.9)


def evidence(y, likelihood, mean=0.2, method="ep") -> float:
    return gp.approximate(gp.GPModel(X, y, SE, likelihood, mean), method).log_evidence


def test_two_grades_are_labels():
    """An interval above or below 0 is a label: logistic with logit, probit with probit."""
    y = np.where(np.random.default_rng(0).random(30) < 0.6, 1.0, -1.0)
    for link, labels in (("logit", gp.Logistic()), ("probit", gp.Probit())):
        grades = gp.Ordinal(2, link)
        assert gp.GPModel(X, y + (y < 0) * 2.0, SE, grades).names == ("mean",)
        for method in ("ep", "laplace"):
            two = evidence(1.5 + 0.5 * y, grades.with_values([]), method=method)
            assert two == pytest.approx(evidence(y, labels, method=method), abs=1e-7), (
                link,
                method,
            )


def test_without_a_limit_that_is_met_it_is_gaussian():
    y = ETA + 0.3 * np.random.default_rng(1).standard_normal(30)
    plain = evidence(y, gp.Gaussian(0.3))
    for censored in (
        gp.CensoredGaussian(0.3),
        gp.CensoredGaussian(0.3, below=-9.0, above=[9.0] * 30),
    ):
        assert evidence(y, censored) == pytest.approx(plain, abs=1e-7)


def test_seen_times_are_log_normal_and_narrow_intervals_their_density_times_the_width():
    y = np.exp(ETA + 0.4 * np.random.default_rng(2).standard_normal(30))
    plain = evidence(y, gp.LogNormal(0.4))
    assert evidence(y, gp.Survival("lognormal", 0.4)) == pytest.approx(plain, abs=1e-6)
    narrow = gp.Survival("lognormal", 0.4, until=y * (1.0 + 1e-7))
    assert evidence(y, narrow) == pytest.approx(
        plain + 30 * np.log(1e-7) + np.log(y).sum(), abs=1e-4
    )
    inf = gp.Survival("loglogistic", 0.4, until=np.full(30, np.inf))
    assert evidence(y, inf) == evidence(y, gp.Survival("loglogistic", 0.4, event=np.zeros(30)))


def test_intervals_add_up_to_one():
    """P(before 1) + P(1 to 4) + P(after 4) = 1, for each law."""
    eta, y = np.linspace(-3.0, 3.0, 7), np.ones(7)
    for law in ("weibull", "loglogistic", "lognormal"):
        shares = [
            gp.Survival(law, 0.8, event=np.full(7, -1)).derivatives(eta, y)[0],
            gp.Survival(law, 0.8, until=np.full(7, 4.0)).derivatives(eta, y)[0],
            gp.Survival(law, 0.8, event=np.zeros(7)).derivatives(eta, 4.0 * y)[0],
        ]
        np.testing.assert_allclose(np.exp(shares).sum(0), 1.0, rtol=1e-12)
        after = gp.Survival(law, 0.8).log_survival(eta, np.array(4.0))
        np.testing.assert_allclose(after, shares[2], rtol=1e-12)


def test_a_censored_linear_model_is_what_maximum_likelihood_finds():
    """Under wide priors slopes and scale are at the maximum of a Weibull regression's likelihood."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((300, 2))
    times = np.exp(1.0 + x @ [0.5, -0.3] + 0.6 * np.log(rng.exponential(size=300)))
    limit = np.quantile(times, 0.7)
    event, y = (times <= limit).astype(float), np.minimum(times, limit)

    def loss(p):
        law = weibull_min(np.exp(-p[3]), scale=np.exp(p[0] + x @ p[1:3]))
        return -np.where(event == 1.0, law.logpdf(y), law.logsf(y)).sum()

    best = minimize(loss, [0.0, 0.0, 0.0, 0.0], method="BFGS")
    wide = gp.Hyperprior("norm", {"loc": 0.0, "scale": 10.0})
    covariance = gp.Linear(sd=30.0) + gp.Constant(30.0)
    model = gp.GPModel(x, y, covariance, gp.Survival(scale=wide, event=event))
    fit = gp.approximate(model)
    eta = gp.predict(fit, [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).latent_mean.values
    errors = np.sqrt(np.diag(best.hess_inv))
    assert np.all(
        np.abs([eta[0] - best.x[0], *(eta[1:] - eta[0] - best.x[1:3])]) < 0.5 * errors[:3]
    )
    assert abs(np.log(fit.parameters["scale"]) - best.x[3]) < 0.5 * errors[3]
    # censoring taken for events gives shorter times: the test would see it
    wrong = gp.approximate(gp.GPModel(x, y, covariance, gp.Survival(scale=wide)))
    assert gp.predict(wrong, [[0.0, 0.0]]).latent_mean.item() < best.x[0] - 3.0 * errors[0]


@pytest.fixture(scope="module")
def draws():
    """Short runs of each kind, with what was made."""
    rng, models = np.random.default_rng(3), {}
    times = gp.Survival(scale=0.5).simulate(rng, ETA)
    limit = np.quantile(times, 0.7)
    event = (times <= limit).astype(int)
    grades = gp.Ordinal(cutpoints=(-0.5, 0.5)).simulate(rng, ETA)
    words = pd.Series(pd.Categorical(np.array(["low", "some", "high"])[grades.astype(int) - 1]))
    amounts = gp.CensoredGaussian(0.4, below=-0.3).simulate(rng, ETA)
    for name, y, likelihood in (
        ("survival", np.minimum(times, limit), gp.Survival(event=event)),
        ("ordinal", words, gp.Ordinal(["low", "some", "high"])),
        ("censored", amounts, gp.CensoredGaussian(below=-0.3)),
    ):
        model = gp.GPModel(X, y, gp.SquaredExponential(), likelihood)
        models[name] = model, gp.sample(model, n_chains=2, n_draws=100, seed=1)
    return models


def test_every_verb_takes_them(draws, tmp_path):
    new = [0.2, 1.5]
    for name, (model, run) in draws.items():
        gp.write_results(run, tmp_path / f"{name}.nc")
        read = gp.load_results(
            tmp_path / f"{name}.nc"
        )  # constants, words and options are in the file
        here, there = gp.predict(run, new), gp.predict(read, new)
        np.testing.assert_array_equal(here.response_quantile, there.response_quantile, name)
        assert np.all(np.isfinite(here.response_mean)), name
        fit = gp.approximate(model)
        assert np.all(np.abs(gp.predict(fit, new).latent_mean - here.latent_mean) < 0.5), name
        assert gp.simulate(run, n_draws=3).posterior_predictive["y"].shape == (1, 3, 30), name
        two_ways = gp.model_evidence(model, draws=run, seed=2).evidence.log_evidence.values
        below = fit.log_evidence - two_ways  # hyperpriors cost something against the maximum
        assert np.all((below > 0.5) & (below < 12.0)), (name, below)


def test_probabilities_of_grades(draws):
    model, run = draws["ordinal"]
    found = gp.predict(run, X)["response_probability"]
    assert found.coords["class"].values.tolist() == ["low", "some", "high"]
    np.testing.assert_allclose(found.sum("class"), 1.0, rtol=1e-10)
    shares = [(model.y == grade).mean() for grade in (1.0, 2.0, 3.0)]
    np.testing.assert_allclose(found.mean("new_case"), shares, atol=0.08)
    expected = (found * np.array([[1.0], [2.0], [3.0]])).sum("class")
    np.testing.assert_allclose(gp.predict(run, X).response_mean, expected, rtol=1e-10)


def test_survival_curves_fall_and_are_simulated_times(draws, monkeypatch):
    _, run = draws["survival"]
    times = np.array([0.1, 0.5, 1.0, 3.0, 40.0])
    curve = gp.survival_curve(run, [0.2, 1.5], times)
    assert np.all(np.diff(curve.survival, axis=0) < 0.0)
    assert np.all(
        curve.survival_quantile.sel(quantile=0.025) <= curve.survival_quantile.sel(quantile=0.975)
    )
    medians = gp.predict(run, [0.2, 1.5]).response_quantile.sel(quantile=0.5).values
    halves = np.diag(gp.survival_curve(run, [0.2, 1.5], medians).survival)
    np.testing.assert_allclose(halves, 0.5, atol=0.03)  # quantiles of 4000 simulated times
    monkeypatch.setattr(survival_curves, "_BLOCK", 1)  # a case at a time
    by_case = gp.survival_curve(run, [0.2, 1.5], times)
    xr.testing.assert_allclose(by_case, curve, rtol=1e-12)
    with pytest.raises(InputError, match=r"times is .* allowed: a list of positive numbers"):
        gp.survival_curve(run, [0.2], [0.0])
    with pytest.raises(InputError, match="the likelihood is ordinal; allowed: survival"):
        gp.survival_curve(draws["ordinal"][1], [0.2], [1.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gp.Survival("weibul"), r"law: .*did you mean 'weibull'"),
        (
            lambda: gp.Survival(event=[1, 2]),
            r"event\[1\] is 2; allowed: 1 \(the end was seen\), 0 .*recode",
        ),
        (lambda: gp.Survival(event=1), r"event is 1; allowed: one for each case"),
        (lambda: gp.Survival(event=[0, 1], until=[3.0, np.nan]), r"case 0 has event 0 and until 3"),
        (lambda: gp.Survival(event=[1, 1]).validate(np.ones(3)), r"event has 2 entries, y has 3"),
        (
            lambda: gp.Survival().validate(np.array([1.0, 0.0])),
            r"y\[1\] is 0; allowed: numbers above 0",
        ),
        (
            lambda: gp.Survival(until=[0.5]).validate(np.ones(1)),
            r"until\[0\] is 0.5, y is 1; allowed: an",
        ),
        (lambda: gp.Ordinal(), r"levels is None; allowed: the number of grades, or their names"),
        (lambda: gp.Ordinal(1), r"levels is 1; allowed: 2 grades or more"),
        (lambda: gp.Ordinal(3, "cloglog"), r"link: unknown name 'cloglog'"),
        (
            lambda: gp.Ordinal(cutpoints=(1.0, 0.0)),
            r"cutpoints is \(1.0, 0.0\); allowed: increasing",
        ),
        (
            lambda: gp.Ordinal(4, cutpoints=(0.0, 1.0)),
            r"2 cutpoints for 4 levels; allowed: one fewer",
        ),
        (lambda: gp.Ordinal(3).validate(np.array([0.0])), r"y\[0\] is 0; allowed: grades 1 to 3"),
        (
            lambda: gp.Ordinal(["a", "b"]).coded(["a", "c"]),
            r"y\[1\] is .*'c'.*; allowed: a, b; add it to",
        ),
        (lambda: gp.CensoredGaussian(below=1.0, above=0.0), r"below is not less than above"),
        (
            lambda: gp.CensoredGaussian(below=0.0).validate(-np.ones(1)),
            r"y\[0\] is -1, beyond the limits",
        ),
        (lambda: gp.CensoredGaussian(until=[1.0]).validate(np.ones(1)), r"until\[0\] is 1, y is 1"),
    ],
)
def test_bad_input_in_one_line(make, message):
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_wide_interval_has_the_tilted_moments_of_a_fine_grid():
    """Ends 60 scales apart are two bends: log Z, alpha and r by brute force."""
    likelihood = gp.Survival("loglogistic", 0.05, until=np.full(3, np.exp(3.0)))
    y, mean, variance = np.ones(3), np.array([1.0, 4.0, -14.0]), np.array([4.0, 0.3, 0.5])
    found = likelihood.tilted(y, mean, variance)
    for i in range(3):  # the last one's mode is 14 cavity deviations up a tail, far from both ends
        eta = np.linspace(-22.0, 24.0, 1_000_001)
        weight = np.exp(
            likelihood.take(slice(i, i + 1)).derivatives(eta[:, None], y[:1])[0][:, 0]
            - 0.5 * (eta - mean[i]) ** 2 / variance[i]
        )
        z = weight.sum()
        centre = (weight @ eta) / z
        spread = (weight @ (eta - centre) ** 2) / z
        log_z = np.log(z * (eta[1] - eta[0]) / np.sqrt(2.0 * np.pi * variance[i]))
        assert found[0][i] == pytest.approx(log_z, abs=1e-8)
        assert mean[i] + variance[i] * found[1][i] == pytest.approx(centre, abs=1e-7)
        assert variance[i] * (1.0 - variance[i] * found[2][i]) == pytest.approx(spread, rel=1e-7)


@pytest.mark.parametrize("scale", [0.003, 0.03])
@pytest.mark.parametrize("variance", [0.1, 4.0])
def test_times_hopelessly_far_from_the_cavity_have_the_tilted_mean_of_a_grid(scale, variance):
    """The square of a cumulative hazard overflows there."""
    own, y, mean = gp.Survival(scale=scale, event=[1, 0]), np.array([20.0, 20.0]), -8.0
    alpha, _ = own.tilted_site(y, np.full(2, mean), np.full(2, variance))
    eta = np.linspace(np.log(20.0) - 1.0, np.log(20.0) + 4.0, 200_001)[:, None]
    log_p = own.derivatives(eta, y)[0] - 0.5 * (eta - mean) ** 2 / variance
    weight = np.exp(log_p - log_p.max(0))
    expected = ((weight * eta).sum(0) / weight.sum(0) - mean) / variance
    np.testing.assert_allclose(alpha, expected, rtol=1e-4)
