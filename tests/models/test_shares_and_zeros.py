"""Models of shares, overdispersed k of n, and counts with many zeros: every verb, simulation, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import chisquare, poisson

import gpmcflow as gp
from gpmcflow.errors import InputError
from gpmcflow.jobs.stated_models import likelihood_of
from gpmcflow.likelihoods import likelihood as by_name

X = np.linspace(0.0, 1.0, 15)
MEAN = gp.Hyperprior("norm", {"loc": 0.0, "scale": 1.0})
SHORT = {"n_draws": 100, "n_replicates": 2}
LIKELIHOODS = {
    "beta": (gp.Beta(), ("precision",), gp.Beta(8.0)),
    "zero-inflated": (
        gp.ZeroInflated(gp.Poisson(2.0)),
        ("probability",),
        gp.ZeroInflated(gp.Poisson(2.0), 0.3),
    ),
    "hurdle": (gp.Hurdle(gp.Poisson(2.0)), ("probability",), gp.Hurdle(gp.Poisson(2.0), 0.3)),
    "beta-binomial": (gp.BetaBinomial(9), ("precision",), gp.BetaBinomial(9, 8.0)),
    "hurdle over two parameters": (
        gp.Hurdle(gp.NegativeBinomial()),
        ("size", "probability"),
        gp.Hurdle(gp.NegativeBinomial(3.0), 0.3),
    ),
}
BASES = [gp.Poisson(1.3), gp.NegativeBinomial(0.6, 1.3), gp.NegativeBinomial(20.0, 1.3)]


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_every_verb_takes_the_model(name):
    likelihood, names, known = LIKELIHOODS[name]
    rng = np.random.default_rng(1)
    y = known.simulate(rng, 1.0 + np.sin(6.0 * X))
    model = gp.GPModel(X, y, gp.SquaredExponential(), likelihood, MEAN)
    assert model.names == ("length_scale", "signal_sd", "mean", *names)
    fixed = gp.GPModel(X, y, gp.SquaredExponential(0.5, 0.7), known, 1.0)
    ep, laplace = gp.approximate(fixed), gp.approximate(fixed, "laplace")
    assert ep.log_evidence == pytest.approx(laplace.log_evidence, abs=0.2)
    annealed = gp.log_evidence(ep, "annealing", n_particles=100, n_temperatures=8, seed=1).evidence
    error = float(annealed["standard_error"])
    assert float(annealed["log_evidence"]) == pytest.approx(ep.log_evidence, abs=4 * error + 0.1)
    assert np.isfinite(gp.approximate(model).log_evidence)
    draws = gp.sample(model, n_chains=2, n_draws=40, seed=1)
    assert np.all(np.isfinite(draws.log_likelihood["y"]))
    found = gp.predict(draws, np.array([0.3, 0.8]))
    assert np.all(found["response_quantile"][0] <= found["response_mean"])
    assert np.all(found["response_mean"] <= found["response_quantile"][-1])
    replicates = gp.simulate(draws, n_draws=5).posterior_predictive["y"].values
    for replicate in replicates.reshape(-1, len(X)):
        likelihood.validate(replicate)
    averaged = gp.model_evidence(model, seed=1, **SHORT).evidence["log_evidence"]
    assert np.all(np.isfinite(averaged))


def test_shares_of_0_and_1_are_refused_in_one_line():
    for value in (0.0, 1.0):
        y = np.full(15, 0.5)
        y[4] = value
        with pytest.raises(InputError) as error:
            gp.GPModel(X, y, gp.Matern32(), gp.Beta())
        assert str(error.value) == (
            f"beta likelihood: y[4] is {value:g}; allowed: numbers above 0 and below 1; leave such cases "
            "out, shrink y to (y (n - 1) + 0.5) / n, or take binomial where y is k of n"
        )


def test_simulated_shares_have_the_density():
    """Frequencies in 20 cells, with mass near both ends."""
    likelihood, n = gp.Beta(0.7), 40_000
    y = likelihood.simulate(np.random.default_rng(0), np.full(n, 0.4))
    ends = np.linspace(0.0, 1.0, 21)
    x, weight = np.polynomial.legendre.leggauss(60)
    inner = 0.5 * (ends[1:-2, None] + ends[2:-1, None]) + 0.025 * x
    density = np.exp(likelihood.derivatives(np.full_like(inner, 0.4), inner)[0])
    expected = n * 0.025 * density @ weight
    seen = np.histogram(y, ends)[0][1:-1]
    assert np.all(np.abs(seen - expected) < 4.5 * np.sqrt(expected))


@pytest.mark.parametrize("base", BASES, ids=repr)
@pytest.mark.parametrize("kind", [gp.ZeroInflated, gp.Hurdle])
@pytest.mark.parametrize("eta", [-3.0, 0.4, 1.6])
def test_simulated_counts_have_the_density(kind, base, eta):
    likelihood, n, counts = kind(base, 0.25), 40_000, np.arange(40.0)
    y = likelihood.simulate(np.random.default_rng(1), np.full(n, eta))
    expected = n * np.exp(likelihood.derivatives(np.full(40, eta), counts)[0])
    seen = np.bincount(y.astype(int), minlength=40)[:40]
    many = expected > 20.0
    cells = np.array([[*v[many], n - v[many].sum()] for v in (seen, expected)])
    assert chisquare(*cells).pvalue > 1e-5


@pytest.mark.parametrize("precision", [0.4, 6.0])
def test_simulated_successes_have_the_density(precision):
    likelihood, n, counts = gp.BetaBinomial(9, precision), 40_000, np.arange(10.0)
    y = likelihood.simulate(np.random.default_rng(1), np.full(n, 0.7))
    expected = n * np.exp(likelihood.derivatives(np.full(10, 0.7), counts)[0])
    assert chisquare(np.bincount(y.astype(int), minlength=10), expected).pvalue > 1e-5


@pytest.mark.parametrize("base", BASES, ids=repr)
def test_limits_of_zero_inflated_and_hurdle(base):
    """Without extra zeros the base; a hurdle whose probability is p0(0) is the base, too."""
    eta, y = np.linspace(-2.0, 2.0, 6), np.array([0.0, 3.0, 1.0, 0.0, 7.0, 2.0])
    own = base.derivatives(eta, y)
    for ours, expected in zip(gp.ZeroInflated(base, 1e-14).derivatives(eta, y), own, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-9)
    none = np.exp(base.derivatives(eta, np.zeros(6))[0])
    for k in range(6):
        one = slice(k, k + 1)
        value = gp.Hurdle(base, none[k]).derivatives(eta[one], y[one])[0]
        assert value == pytest.approx(own[0][one], rel=1e-12)


def test_the_exposure_of_the_base_goes_where_its_cases_go():
    exposure = np.linspace(0.5, 3.0, 15)
    for kind in (gp.ZeroInflated, gp.Hurdle):
        likelihood = kind(gp.NegativeBinomial(2.0, exposure), 0.2)
        cases = np.array([7, 2, 11])
        assert likelihood.per_case
        np.testing.assert_array_equal(likelihood.take(cases).exposure, exposure[cases])
        other = likelihood.with_constants(exposure=2.0 * exposure)
        np.testing.assert_array_equal(other.base.exposure, 2.0 * exposure)
        assert other.probability == 0.2
        assert len({likelihood, other, likelihood.take(cases)}) == 3
        assert (
            len({one.digest() for one in (likelihood, other, kind(gp.Poisson(exposure), 0.2))}) == 3
        )
        with pytest.raises(InputError, match=r"exposure has 3 entries, y has 15"):
            likelihood.take(cases).validate(np.ones(15))


def test_means_of_new_cases_with_exposures():
    """A hurdle's mean is not proportional to its exposure: against the sum over counts."""
    y = np.array([0.0, 3.0, 1.0, 0.0, 7.0, 2.0, 0.0, 1.0, 1.0, 4.0, 0.0, 0.0, 2.0, 3.0, 1.0])
    counts, new, units = np.arange(400.0), np.array([0.2, 0.9]), np.array([0.3, 4.0])
    nodes = np.linspace(-8.0, 8.0, 401)
    weights = np.exp(-0.5 * nodes**2) / np.exp(-0.5 * nodes**2).sum()
    for likelihood in (
        gp.ZeroInflated(gp.Poisson(), 0.3),
        gp.Hurdle(gp.NegativeBinomial(2.0), 0.3),
    ):
        fit = gp.approximate(gp.GPModel(X, y, gp.SquaredExponential(0.5, 0.7), likelihood, 0.5))
        found = gp.predict(fit, new, exposure=units)
        for k in range(2):
            mean, sd = float(found["latent_mean"][k]), float(found["latent_sd"][k])
            own = likelihood.with_constants(exposure=units[k])
            eta = np.broadcast_to((mean + sd * nodes)[:, None], (401, 400))
            expected = weights @ np.exp(own.derivatives(eta, counts)[0]) @ counts
            assert float(found["response_mean"][k]) == pytest.approx(expected, rel=1e-6)


def test_draws_hold_the_base():
    exposure = np.linspace(0.5, 3.0, 15)
    likelihood = gp.Hurdle(gp.NegativeBinomial(exposure=exposure))
    y = likelihood.with_values([2.0, 0.3]).simulate(np.random.default_rng(2), np.ones(15))
    model = gp.GPModel(X, y, gp.SquaredExponential(0.5), likelihood)
    draws = gp.sample(model, n_chains=1, n_draws=20, seed=1)
    assert set(draws.constant_data.data_vars) == {"X", "exposure"}
    found, expected = (gp.predict(draws, np.array([0.4]), **own) for own in ({}, {"model": model}))
    np.testing.assert_array_equal(found["response_mean"], expected["response_mean"])


def test_a_change_of_hyperpriors_is_not_one_of_the_base():
    y = np.array([0.0, 3.0, 1.0, 0.0, 7.0, 2.0, 0.0, 1.0, 1.0, 4.0, 0.0, 0.0, 2.0, 3.0, 1.0])

    def model(exposure, loc):
        prior = gp.Hyperprior("norm", {"loc": loc, "scale": 1.0}, scale="logit")
        likelihood = gp.ZeroInflated(gp.Poisson(exposure), prior)
        return gp.GPModel(X, y, gp.SquaredExponential(0.5, 0.7), likelihood)

    run = gp.model_evidence(model(1.0, -1.0), seed=1, **SHORT)
    changed = gp.change_hyperpriors(run, model(1.0, -1.0), model(1.0, 0.0)).evidence
    assert np.all(np.isfinite(changed["log_evidence"]))
    with pytest.raises(InputError, match="differ in more than hyperpriors"):
        gp.change_hyperpriors(run, model(1.0, -1.0), model(2.0, 0.0))


def test_constant_and_slope_of_zero_inflated_counts_against_maximum_likelihood():
    """A wide prior of a line: the posterior's mode is the maximum of the likelihood."""
    rng, n = np.random.default_rng(3), 300
    x = rng.uniform(-1.0, 1.0, n)
    y = np.where(rng.random(n) < 0.3, 0.0, rng.poisson(np.exp(0.8 + 0.9 * x)))

    def minus_log_likelihood(at):
        rate, share = np.exp(at[0] + at[1] * x), expit(at[2])
        zero = np.log(share + (1.0 - share) * np.exp(-rate))
        return -np.where(y == 0, zero, np.log1p(-share) + poisson.logpmf(y, rate)).sum()

    best = minimize(minus_log_likelihood, np.zeros(3), method="BFGS", options={"gtol": 1e-8}).x
    likelihood = gp.ZeroInflated(gp.Poisson(), float(expit(best[2])))
    line = gp.GPModel(x, y, gp.Linear(sd=1e3) + gp.Constant(1e3), likelihood)
    eta = gp.approximate(line, "laplace").sites.predictor_mean
    np.testing.assert_allclose(eta, best[0] + best[1] * x, atol=2e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: gp.ZeroInflated(gp.Binomial(3)),
            r"ZeroInflated likelihood: base is Bin.*; allowed: Poi",
        ),
        (
            lambda: gp.Hurdle("poisson"),
            r"Hurdle likelihood: base is 'poisson'; allowed: Poisson\(\) or Neg",
        ),
        (
            lambda: gp.Hurdle(gp.Poisson(), 1.0),
            r"probability is 1.0; allowed: a number between 0 and 1, or a",
        ),
        (lambda: by_name("hurdle"), r"likelihood hurdle: setting 'base' is missing"),
        (
            lambda: by_name("hurdle", base="poison"),
            r"hurdle: base: .*'poison'; did you mean 'poisson'",
        ),
        (
            lambda: by_name("hurdle", base={"poisson": 3}),
            r"hurdle: base is \{'poisson': 3\}; allowed: a na",
        ),
        (
            lambda: gp.Hurdle(gp.Poisson()).validate(np.array([0.5])),
            r"hurdle likelihood: y\[0\] is 0.5",
        ),
    ],
)
def test_bad_bases_probabilities_and_counts(make, message):
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_bases_by_name():
    made = by_name("zero_inflated", base={"negative_binomial": {"size": 2.0}}, probability=0.2)
    assert made == gp.ZeroInflated(gp.NegativeBinomial(2.0), 0.2)
    assert by_name("hurdle", base="poisson") == gp.Hurdle(gp.Poisson())
    problem = {
        "likelihood": {"hurdle": {"base": {"negative_binomial": {"size": "wide"}}}},
        "priors": {"wide": {"distribution": "norm", "parameters": {"scale": 2.0}}},
        "model": "joint",
    }
    wide = gp.Hyperprior("norm", {"scale": 2.0})
    assert likelihood_of(problem) == gp.Hurdle(gp.NegativeBinomial(wide))
