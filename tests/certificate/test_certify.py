"""Certificates: right samplers pass, wrong ones fail, and a certificate that was stopped goes on."""

from __future__ import annotations

import logging

import arviz_stats
import numpy as np
import pytest
import xarray as xr

import gpmcflow as gp
from gpmcflow.certificate.certificate import Certificate, certified, results_of
from gpmcflow.certificate.fits import (
    CertificateProgram,
    Draws,
    compared,
    heard_warnings,
    quantity_names,
    read,
)
from gpmcflow.certificate.priors import sensitivities
from gpmcflow.errors import InputError, NumericalError
from gpmcflow.execution import Execution
from gpmcflow.pipeline.certify import AsAnalysed

from .models import MUTANTS, RIGHT, SIZES, counts

FIXED = gp.GPModel(np.linspace(0.0, 1.0, 6), np.ones(6), gp.Matern32(0.5, 1.0), gp.Poisson())
CHEAP = {"sampler": gp.EllipticalSlice(4), "n_chains": 1, "n_draws": 60}


def untimed(certificate) -> xr.Dataset:
    return certificate.results.drop_vars("seconds")


def test_a_right_sampler_passes():
    certificate = gp.certify(counts(), n=60, sampler=RIGHT, seed=1, **SIZES)
    assert certificate.passed, certificate
    assert "All 7 quantities pass" in str(certificate)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_sampler_with_a_mistake_fails(mutant):
    certificate = gp.certify(counts(), n=60, sampler=MUTANTS[mutant], seed=1, **SIZES)
    assert not certificate.passed, certificate
    assert "The fits are wrong: " in str(certificate)
    assert not certificate.results["passed"].sel(quantity="signal_sd")


def test_an_effect_is_the_difference_between_rows_high_and_low_in_a_column():
    X = np.column_stack([np.arange(9.0), np.repeat([0.0, 1.0], [2, 7]), np.ones(9)])
    covariance = gp.Matern32(0.5, 1.0, columns=[0, 1])
    model = gp.GPModel(X, np.ones(9), covariance, gp.Poisson())
    assert quantity_names(model)[-3:-1] == (
        "predictor, high less low x1",
        "predictor, high less low x2",
    )
    eta = np.square(np.arange(9.0))[None]
    values = Draws(np.empty((1, 0)), eta, np.zeros(1)).quantities(model, points=False)
    assert values[0, -3:-1].tolist() == [149.0 / 3.0 - 5.0 / 3.0, eta[0, 2:].mean() - 0.5]


def test_quick_evidence_stands_beside_that_of_the_draws():
    """Gaussian noise and a free scale: both average over it."""
    x = np.linspace(0.0, 1.0, 5)
    model = gp.GPModel(x, np.zeros(5), gp.Matern32(0.5), gp.Gaussian(0.3))
    fit = AsAnalysed(chains=2, draws=200, warmup=0)
    certificate = certified(model, fit, 2, seed=0, key=(), execution=None)
    results = certificate.results
    assert np.abs(results["evidence_z"]).max() < 5.0
    assert np.abs(results["quick_evidence"] - results["log_evidence"]).max() < 0.5
    assert certificate.quick_table()["quantity"].iloc[-1] == "log evidence"
    assert any("Quick log evidences of 2 data sets" in text for text in certificate.notes)


def test_more_data_sets_leave_the_first_as_they_are(tmp_path):
    whole = gp.certify(FIXED, n=9, **CHEAP)
    how = Execution(state_dir=tmp_path)
    few = gp.certify(FIXED, n=4, **CHEAP, execution=how)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("segment_*.npz")}
    more = gp.certify(FIXED, n=9, **CHEAP, execution=how)
    assert len(files) == 4
    assert all(path.stat().st_mtime_ns == time for path, time in files.items())
    xr.testing.assert_identical(untimed(more), untimed(whole))
    first = ["truth", "mean", "low", "high", "rank", "uniform"]
    xr.testing.assert_identical(
        few.results[first].isel(data_set=slice(4)), more.results[first].isel(data_set=slice(4))
    )


def test_a_certificate_that_was_stopped_goes_on(tmp_path, monkeypatch):
    one, done = CertificateProgram._data_set, []

    def stops(self, rng, number):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(number)
        return one(self, rng, number)

    how = Execution(state_dir=tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(CertificateProgram, "_data_set", stops)
        with pytest.raises(KeyboardInterrupt):
            gp.certify(FIXED, n=6, **CHEAP, execution=how)
    assert len(list(tmp_path.rglob("segment_*.npz"))) == 3
    again = gp.certify(FIXED, n=6, **CHEAP, execution=how)
    xr.testing.assert_identical(untimed(again), untimed(gp.certify(FIXED, n=6, **CHEAP)))


def test_another_sampler_does_not_take_what_is_there(tmp_path):
    how = Execution(state_dir=tmp_path)
    one = gp.certify(FIXED, n=2, **CHEAP, execution=how)
    other = gp.certify(FIXED, n=2, **CHEAP | {"sampler": gp.EllipticalSlice(5)}, execution=how)
    assert (one.results["truth"] == other.results["truth"]).all()
    assert (one.results["mean"] != other.results["mean"]).all()


def test_the_truth_is_ranked_among_as_many_draws_as_count():
    rng = np.random.default_rng(0)
    independent = rng.standard_normal((1, 400))
    sticky = np.repeat(rng.standard_normal((1, 40)), 10, axis=1)
    still = np.zeros((1, 400))
    values = np.stack([independent, sticky, still], axis=-1)
    row = compared(values, np.array([9.0, -9.0, 0.5]), rng)
    assert row["n_ranked"][0] == 99
    assert 20 <= row["n_ranked"][1] < 70
    assert row["rank"][0] == 99
    assert row["rank"][1] == 0
    assert row["effective"][2] == 0
    assert row["rank"][2] == row["n_ranked"][2]  # a chain that stands still does not hold the truth
    assert np.allclose(row["low"][0, 0], np.quantile(independent, 0.25))


def columns(uniform: np.ndarray, **changes) -> dict:
    """What a program gives for one quantity with these ranks."""
    n = len(uniform)
    made = {name: np.zeros((n, 1)) for name in ("truth", "mean", "rank", "n_ranked")}
    made["effective"] = np.full((n, 1), 99.0)
    limit = np.ones((n, 2, 1))
    made |= {"sd": np.ones((n, 1)), "uniform": uniform[:, None], "low": -limit, "high": limit}
    about = {"state": np.zeros(n, int), "seconds": np.ones(n), "n_warnings": np.zeros(n, int)}
    return {**made, **about, "warning": np.full(n, ""), **changes}


@pytest.mark.parametrize(
    ("shape", "word"),
    [((3, 1), "too low"), ((1, 3), "too high"), ((0.4, 0.4), "too narrow"), ((4, 4), "too wide")],
)
def test_the_verdict_says_how_ranks_stray(shape, word):
    uniform = np.random.default_rng(3).beta(*shape, 100)
    results = results_of(columns(uniform), ("f",))
    assert word in str(Certificate(results))


def test_a_narrow_failure_is_said_to_be_one():
    slightly = results_of(columns(np.random.default_rng(3).beta(1.8, 1.0, 60)), ("f",))
    clearly = results_of(columns(np.random.default_rng(3).beta(3.0, 1.0, 60)), ("f",))
    assert not slightly["passed"].any()
    assert "It failed narrowly" in str(Certificate(slightly))
    assert "It failed narrowly" not in str(Certificate(clearly))


def test_quick_answers_stand_beside_the_draws():
    """With Gaussian noise and fixed parameters both are exact: what is left is the draws' error."""
    x = np.linspace(0.0, 1.0, 5)
    model = gp.GPModel(x, np.zeros(5), gp.Matern32(0.5, 1.0), gp.Gaussian(0.3))
    sampler = gp.IndependenceMetropolis()
    results = gp.certify(model, n=10, sampler=sampler, n_chains=2, n_draws=500).results
    quick = results.isel(quantity=slice(-1))
    assert np.abs(quick["quick_error"]).max() < 5.0 / np.sqrt(results["effective"].min())
    assert np.allclose(quick["quick_sd"] / quick["sd"], 1.0, atol=0.25)
    assert gp.certify(model, n=2, approximate=True).results.get("quick_error") is None


def test_quick_answers_are_averaged_over_hyperparameters():
    """Ranks of a hyperparameter among the settings of a quick answer are uniform."""
    x = np.linspace(0.0, 2.0, 12)
    model = gp.GPModel(x, np.zeros(12), gp.SquaredExponential(signal_sd=1.0), gp.Gaussian(0.3))
    certificate = gp.certify(model, n=40, approximate=True)
    assert certificate.results["quantity"].values[0] == "length_scale"
    assert certificate.passed
    assert certificate.results["sd"].isel(quantity=0).min() > 0.0
    held = certificate.results["held"].sel(level=0.95).isel(quantity=0)
    assert 0.85 < held.mean() <= 1.0


def test_the_error_of_quick_answers_is_in_words():
    made = columns((np.arange(50) + 0.5) / 50)
    made |= {"quick_mean": np.full((50, 1), 0.25), "quick_sd": np.full((50, 1), 0.8)}
    words = Certificate(results_of(made, ("predictor of row 0",))).in_words[-1]
    assert words == (
        "Quick answers to the same data were off by 0.25 posterior sds of the predictor in the median, "
        "0.25 at most; their intervals were 0.8 times as wide."
    )


@pytest.mark.parametrize(
    ("y", "likelihood", "told"),
    [
        ([1.0, -1.0, 1.0, 1.0], gp.Probit(), "of yes; yours have 75 %."),
        ([3.0, 1.0, 4.0, 0.0], gp.Poisson(), "; yours have 2."),
    ],
)
def test_outcomes_that_the_priors_expect_are_in_words(y, likelihood, told):
    x = np.linspace(0.0, 1.0, 4)
    model = gp.GPModel(x, np.array(y), gp.Matern32(0.5, 1.0), likelihood)
    certificate = gp.certify(model, n=30, approximate=True)
    simulated = certificate.results["simulated_mean"]
    words = next(line for line in certificate.notes if "simulated from the priors" in line)
    assert words.endswith(told)
    low, high = np.quantile(simulated, [0.025, 0.975])
    share = isinstance(likelihood, gp.Probit)
    ends = [f"{50 * (e + 1):.0f} %" if share else f"{e:.3g}" for e in (low, high)]
    assert f"between {ends[0]} and {ends[1]}" in words
    posterior = gp.certify(model, n=2, around="posterior", n_chains=1, n_draws=50)
    assert "simulated from the priors" not in str(posterior)


def test_outcomes_that_the_priors_hardly_expect_are_said_to_be():
    x = np.linspace(0.0, 1.0, 6)
    y = np.array([0.0, 9.0, 0.0, 9.0, 0.0, 9.0])  # of a rate between 0.1 and 10 that hardly changes
    model = gp.GPModel(x, y, gp.SquaredExponential(2.0, 0.5), gp.Poisson())
    words = gp.certify(model, n=60, approximate=True).notes
    assert words[-1].startswith(
        "95 % of data sets simulated from the priors have a standard deviation"
    )
    assert words[-1].endswith("; yours have 4.5, which the priors hardly expect.")
    assert "hardly expect" not in " ".join(gp.certify(model, n=20, approximate=True).notes)


def poisson(n: int, sd_of_scale: float, end: float = 6.0) -> gp.GPModel:
    """Counts at n places about one sine, and a hyperprior of this width about a length scale of e^3."""
    x = np.linspace(0.0, end, n)
    scale = gp.Hyperprior("norm", {"loc": 3.0, "scale": sd_of_scale})
    y = np.round(np.exp(1.0 + np.sin(x)))
    return gp.GPModel(x, y, gp.SquaredExponential(scale, 1.0), gp.Poisson())


def test_sensitivities_are_those_of_arviz():
    """But for its smoothing of the weights."""
    model = poisson(8, 1.0)
    tree = gp.sample(model, n_chains=2, n_draws=500)
    draws = read(tree, model, np.random.default_rng(0), 1000)
    own = sensitivities(model, draws, 2)
    for values, group in zip(own, ("prior", "likelihood"), strict=True):
        theirs = arviz_stats.psense(tree, var_names=["theta", "latent"], group=group)
        assert values[0] == pytest.approx(float(theirs["theta"].squeeze()), rel=0.05)
        assert values[2] == pytest.approx(float(theirs["latent"][0]), rel=0.05)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(
    ("model", "moved", "words"),
    [
        (poisson(2, 1.0, 1e-3), "prior", "These data say little about length_scale."),
        (poisson(12, 0.3), "prior and data", "Given your own data the priors matter for"),
        (poisson(25, 9.0), "data", "Given your own data the priors hardly matter: none of 6"),
    ],
)
def test_a_prior_matters_where_it_is_alone_or_against_the_data(model, moved, words, quick):
    how = {"approximate": True} if quick else {"n_chains": 2, "n_draws": 500}
    certificate = gp.certify(model, n=1, **how)
    table = certificate.prior_table().set_index("quantity")
    assert table["moved_by"]["length_scale"] == moved
    assert words in " ".join(certificate.priors_in_words)
    assert words in str(certificate)


def test_a_posterior_is_measured_by_its_prior():
    """Of two rows at one place a length scale has its prior again."""
    model = poisson(2, 1.0, 1e-3)
    table = gp.certify(model, n=200, approximate=True).prior_table().set_index("quantity")
    assert table["sd_of_prior"]["length_scale"] == pytest.approx(1.0, abs=0.15)
    assert table["shift"]["length_scale"] == pytest.approx(0.0, abs=0.2)
    around = gp.certify(model, n=2, around="posterior", n_chains=1, n_draws=50).prior_table()
    assert around["sd_of_prior"].isna().all()
    assert around["prior_sensitivity"].notna().all()


def test_nothing_is_said_of_priors_without_a_fit_that_tells(monkeypatch):
    assert gp.certify(FIXED, n=2, approximate=True).prior_table() is None
    monkeypatch.setattr("gpmcflow.approximations.integrated.MOST_ROWS", 5)  # points above
    assert gp.certify(poisson(6, 1.0), n=2, approximate=True).prior_table() is None
    monkeypatch.setattr("gpmcflow.certificate.priors.fitted_draws", fails)
    failed = gp.certify(counts(), n=2, sampler=RIGHT, **SIZES)
    assert failed.priors_in_words == (
        "The fit of your own data failed, so nothing says whether the priors matter.",
    )


def fails(*arguments):
    raise NumericalError("no fit")


def test_many_wrong_quantities_are_counted_not_named():
    uniform = np.random.default_rng(3).beta(3, 1, 100)
    made = columns(uniform)
    four = {name: np.concatenate([v] * 4, axis=-1) if v.ndim > 1 else v for name, v in made.items()}
    certificate = Certificate(results_of(four, ("a", "b", "c", "d")))
    assert certificate.judgement == "The fits are wrong: too low for 4 of 4 quantities."


def test_data_sets_that_could_not_be_fitted_are_counted_and_left_out():
    uniform = (np.arange(50) + 0.5) / 50
    state = np.zeros(50, int)
    state[:3], state[3] = 1, 2
    uniform[:4] = np.nan
    low = -np.ones((50, 2, 1))
    low[4:7] = 0.5  # above the truth
    certificate = Certificate(results_of(columns(uniform, state=state, low=low), ("f",)))
    words = " ".join(certificate.in_words)
    assert "From 3 of 50 draws of the priors no data could be simulated." in words
    assert "1 of 50 fits failed." in words
    assert "Of 46 data sets like yours, the 95 % intervals held the truth in 93 %" in words
    assert not certificate.passed
    assert certificate.results["passed"].all()
    assert not certificate.failed


def test_intervals_that_hold_the_truth_too_seldom_fail():
    """Ranks alone would pass: of 20 data sets, those in both tails are 15 % each."""
    uniform = np.concatenate([[0.01, 0.012, 0.015, 0.99, 0.985, 0.98], np.linspace(0.1, 0.9, 14)])
    low = -np.ones((20, 2, 1))
    low[:6] = 0.5  # above the truth
    right = results_of(columns(uniform), ("f",))
    wrong = Certificate(results_of(columns(uniform, low=low), ("f",)))
    assert right["passed"].all()
    assert wrong.failed == {"f": "too narrow"}


def test_around_the_posterior_new_data_are_fitted_with_the_old():
    """A normal mean, exactly: the posterior of two data sets, from an exact sampler of latents."""
    x = np.linspace(0.0, 1.0, 4)
    y = np.array([3.0, 1.0, 4.0, 0.0])
    model = gp.GPModel(x, y, gp.Matern32(0.5, 1.0), gp.Poisson())
    certificate = gp.certify(model, n=60, around="posterior", **CHEAP | {"n_draws": 200})
    assert certificate.passed, certificate
    truth = certificate.results["truth"].sel(quantity="predictor of row 0")
    prior = gp.certify(model, n=60, **CHEAP).results["truth"].sel(quantity="predictor of row 0")
    assert truth.mean() > 0.3  # near log 3, and not near the prior's 0
    assert truth.std() < 0.8 * prior.std()


def test_a_grid_with_gaussian_noise_cannot_have_its_rows_twice():
    side = np.linspace(0.0, 1.0, 3)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    covariance = gp.SquaredExponential(0.5, 1.0, ard=True)
    model = gp.GPModel(grid, np.ones(9), covariance, gp.Gaussian(), structure="kronecker")
    with pytest.raises(InputError, match="fits each row twice, which this model cannot"):
        gp.certify(model, n=2, around="posterior", **CHEAP)


def test_warnings_are_heard_not_shown(caplog):
    log = logging.getLogger("gpmcflow.samplers.sampling")
    with caplog.at_level(logging.WARNING), heard_warnings() as heard:
        log.warning("chains do not agree")
    assert heard == ["chains do not agree"]
    assert not caplog.records
    log.warning("shown")
    assert [record.getMessage() for record in caplog.records] == ["shown"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"model": "patients"}, "found str"),
        ({"n": 0}, "n is 0"),
        ({"around": "data"}, "around is 'data'"),
        ({"approximate": True, "sampler": "hmc"}, "leave one of them out"),
        ({"sampler": "joint_split_hmc"}, "is a sampler of"),
    ],
)
def test_wrong_settings_are_refused(changes, word):
    with pytest.raises(InputError, match=word):
        gp.certify(**{"model": FIXED, "n": 2} | changes)


@pytest.mark.parametrize("approximate", [False, True])
def test_each_function_is_ranked(approximate):
    x = np.linspace(0.0, 1.0, 6)
    sd = gp.Hyperprior("norm", {"loc": 0.0, "scale": 0.1})
    covariance = {"mean": gp.Matern32(0.5, sd), "log_sd": gp.Matern32(0.5, 0.3)}
    mean = {"mean": 0.0, "log_sd": -0.5}
    model = gp.GPModel(x, x, covariance, gp.HeteroscedasticGaussian(), mean)
    certificate = gp.certify(model, 3, n_chains=1, n_draws=40, approximate=approximate)
    names = list(certificate.results["quantity"].values)
    rows = ["predictor, mean over rows", *(f"predictor of row {k}" for k in (0, 3, 5))]
    rows.append("predictor, high less low x1")
    parameters = [] if approximate else ["mean.signal_sd"]
    assert names == [
        *parameters,
        *(f"{f}: {row}" for f in ("mean", "log_sd") for row in rows),
        "log likelihood",
    ]
    assert certificate.n_fitted == 3
    of_mean, of_noise = (
        certificate.results["truth"].sel(quantity=f"{f}: predictor of row 0") for f in covariance
    )
    assert abs(of_noise + 0.5).max() < 1.5 < 3.0 * abs(of_mean - of_noise).max()
