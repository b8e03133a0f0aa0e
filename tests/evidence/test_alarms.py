"""Each alarm fires where it should, and is silent where it should be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.laplace import laplace
from gpmcflow.evidence import alarms
from gpmcflow.evidence.parallel_tempering import temper, tempering_evidence
from gpmcflow.evidence.schedule import Schedule, linear
from gpmcflow.evidence.sequential_monte_carlo import particle_evidence, resample_move
from gpmcflow.likelihoods import Gaussian
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import PreconditionedSplitHMC

nan = np.nan


@pytest.mark.parametrize(
    ("sd", "n", "rings"), [(1.0, 128, False), (3.0, 128, True), (3.0, 10**5, False)]
)
def test_the_tail_alarm_rings_before_the_effective_size_can_know(sd, n, rings):
    """Normal log weights: silent where the estimate has no bias, ringing where most runs are below."""
    runs = np.random.default_rng(5).normal(-0.5 * sd**2, sd, (40, n))  # the evidence is 1
    values = logsumexp(runs, axis=1) - np.log(n)
    found = [bool(alarms.tail_alarms(v, run)) for v, run in zip(values, runs, strict=True)]
    assert np.mean(found) == rings
    assert (np.median(values) < -0.5) == rings


def test_the_tail_alarm_knows_the_way_back():
    """A reverse run's log weights are the negatives: its estimate is below their mean."""
    log_weights = np.random.default_rng(6).normal(0.0, 3.0, 128)
    forward = logsumexp(log_weights) - np.log(128)
    assert alarms.tail_alarms(forward, log_weights) == alarms.tail_alarms(-forward, -log_weights)
    assert alarms.tail_alarms(forward, log_weights)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (alarms.weight_alarms(10.0, 0.5), []),
        (alarms.weight_alarms(9.9), ["effective size 9.9 < 10"]),
        (alarms.weight_alarms(20.0, 0.51), ["largest weight 0.51 > 0.5"]),
        (alarms.weight_alarms(nan, nan), []),
        (alarms.tail_alarms(0.0, np.array([-0.3, 0.1, 0.2, -np.inf])), []),
        (alarms.tail_alarms(nan, np.array([nan, 0.0])), []),
        (alarms.transition_alarms(1e-3, 0.02), []),
        (
            alarms.transition_alarms(2e-3, 0.0),
            ["0.2 % of transitions had a non-finite energy"],
        ),
        (
            alarms.transition_alarms(0.0, 0.03),
            ["3 % of transitions had implicit equations unsolved"],
        ),
        (alarms.swap_alarms(np.array([0.05, 0.9]), 1), []),
        (
            alarms.swap_alarms(np.array([0.5, 0.049, nan]), 1),
            ["swap rate 0.049 < 0.05 between temperatures 1 and 2"],
        ),
        (
            alarms.swap_alarms(np.array([0.5, 0.5]), 0),
            ["no round trip between beta = 0 and beta = 1"],
        ),
        (alarms.disagreement_alarms(("a", 1.0), ("b", 2.6), 1.6, 0.4, 7), []),
        (
            alarms.disagreement_alarms(("a", 1.0), ("b", 2.6), 1.6, 0.3, 7),
            ["a 1 and b 2.6 are 5.3 errors of their difference apart (limit 4.5)"],
        ),
        (
            alarms.disagreement_alarms(("a", 1.0), ("b", 2.6), -1.6, 0.4, 10**6),
            ["a 1 and b 2.6 are 4.0 errors of their difference apart (limit 3.0)"],
        ),
        (alarms.disagreement_alarms(("a", 1.0), ("b", 9.0), 8.0, nan, 7), []),
        (alarms.spread_alarms(0.29, 0.1, 8), []),
        (
            alarms.spread_alarms(0.4, 0.1, 8),
            ["replicates spread 4.0 times as far as their own errors say (limit 3)"],
        ),
        (alarms.spread_alarms(0.4, 0.1, 3), []),
        (alarms.spread_alarms(nan, 0.1, 8), []),
        (alarms.spread_alarms(1e-13, 0.0, 8), []),  # rounding
        (alarms.disagreement_alarms(("a", 1.0), ("b", 1.0 + 1e-12), 1e-12, 0.0, 7), []),
        (alarms.pareto_alarms(0.69, 10_000, 50.0), []),
        (alarms.pareto_alarms(0.71, 10_000, 50.0), ["Pareto k 0.71 > 0.70"]),
        (alarms.pareto_alarms(0.55, 100, 50.0), ["Pareto k 0.55 > 0.50"]),
        (alarms.pareto_alarms(np.inf, 100, 50.0), ["Pareto k inf > 0.50"]),
        (alarms.pareto_alarms(nan, 10, 50.0), []),
        (alarms.pareto_alarms(3.29, 1000, 950.0), []),  # nearly all draws are effective
        (alarms.pareto_alarms(3.29, 1000, 850.0), ["Pareto k 3.29 > 0.67"]),
        (alarms.spread_alarms(3.5e-5, 1e-5, 8), []),  # nats that no answer depends on
        (
            alarms.spread_alarms(3.5e-3, 1e-3, 8),
            ["replicates spread 3.5 times as far as their own errors say (limit 3)"],
        ),
        (alarms.not_finite_alarms(-3.0), []),
        (alarms.not_finite_alarms(-np.inf), ["the log evidence is not finite"]),
    ],
)
def test_thresholds(found, expected):
    assert found == expected


def test_jump_along_the_ladder():
    mean, sd = np.array([0.0, 2.0, 9.0, 9.5]), np.array([1.0, 1.0, 2.0, 2.0])
    # pooled deviation of the pair (1, 2): sqrt((1 + 4) / 2) = 1.58, a jump of 4.4 of them
    assert alarms.jump_alarms(mean, sd) == [
        "log likelihood jumps by 4.4 standard deviations between temperatures 1 and 2 (limit 3)"
    ]
    assert alarms.jump_alarms(mean, 2.0 * sd) == []
    assert alarms.jump_alarms(np.array([0.0, nan]), np.array([1.0, nan])) == []
    stuck = alarms.jump_alarms(np.array([0.0, 1.0]), np.zeros(2), "u")
    assert stuck[0].startswith("u jumps by inf")
    assert alarms.jump_alarms(np.array([1.0, 1.0 + 1e-12]), np.zeros(2)) == []


def test_alarms_as_text():
    assert alarms.join([], ["a"], [], ["b", "c"]) == "a; b; c"
    assert alarms.join() == alarms.join([], []) == ""


# The alarms of runs: a good one is silent, and one that is made bad tells which way.


SAMPLER = PreconditionedSplitHMC(0.7, 2)


@pytest.fixture(scope="module")
def good(one_factor):
    q = expectation_propagation(one_factor(20, 12)[0]).sites
    schedule = Schedule.constant(linear(3), SAMPLER)
    tree = temper(TemperedPath(q), SAMPLER, schedule, n_draws=100, n_warmup=10)
    assert not str(tree["evidence/alarm"].values)
    return tree["tempered"].to_dataset()


def alarm_of(tempered) -> str:
    return str(tempering_evidence(tempered)["alarm"].values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["diverging"].values.__setitem__((0, 1, slice(0, 9)), 1), "non-finite energy"),
        (lambda t: t["unsolved"].values.__setitem__((slice(0, 2), 1), 1), "equations unsolved"),
        (lambda t: t["swap_accepted"].values.__setitem__((slice(None), 1), 0), "swap rate 0.000"),
        (
            lambda t: t["walker"].values.__setitem__(slice(None), np.arange(4)[:, None]),
            "no round trip",
        ),
        (
            lambda t: t["log_ratio"].values.__setitem__(
                (slice(None), 2), 50.0 + t["log_ratio"][:, 2]
            ),
            "u jumps by",
        ),
        (
            lambda t: t["log_ratio"].values.__setitem__((slice(None), 1), np.arange(8.0)[:, None]),
            "effective size 0.0",
        ),
        (
            lambda t: t["log_ratio"].values.__iadd__(np.arange(8.0)[:, None, None] * 0.2),
            "replicates spread",
        ),
        (
            lambda t: t["log_ratio"].values.__setitem__(
                (slice(None), 3), t["log_ratio"][:, 3] + 0.2
            ),
            "errors of their difference apart",
        ),
        (lambda t: t["log_ratio"].values.__setitem__((0, 1, 0), -np.inf), "not finite"),
    ],
)
def test_parallel_tempering_tells(good, change, message):
    bad = good.copy(deep=True)
    with np.errstate(invalid="ignore"):
        change(bad)
        assert message in alarm_of(bad)


def test_silence_where_the_reference_is_the_posterior(gp):
    """Then all weights are Z: estimates equal it but for rounding, and no alarm is raised by that."""
    model = gp(Gaussian(noise_sd=0.8), n=8)
    covariance = model.predictor_factor @ model.predictor_factor.T + 0.64 * np.eye(8)
    exact = multivariate_normal(model.predictor_mean, covariance).logpdf(model.y)
    path, schedule = TemperedPath(laplace(model).sites), Schedule.constant(linear(3), SAMPLER)
    for tree in (
        temper(path, SAMPLER, schedule, n_draws=40, n_warmup=0),
        resample_move(path, SAMPLER, schedule, n_particles=20),
    ):
        np.testing.assert_allclose(tree["evidence/log_evidence"], exact, atol=1e-8)
        assert not str(tree["evidence/alarm"].values)


def test_a_ladder_of_one_step_from_the_prior_raises_alarms(one_factor):
    q = GaussianSites.prior(one_factor(50, 30)[0])
    sampler = PreconditionedSplitHMC(0.2, 8)  # steps short enough for the posterior
    schedule = Schedule.constant(linear(1), sampler)
    tree = temper(TemperedPath(q), sampler, schedule, n_draws=300, n_warmup=50)
    assert "swap rate" in str(tree["evidence/alarm"].values)


def test_sequential_monte_carlo_tells(one_factor):
    model = one_factor(20, 12)[0]
    schedule = Schedule.constant(linear(2), SAMPLER)
    settings = {"n_particles": 60, "n_replicates": 8}
    tree = resample_move(
        TemperedPath(expectation_propagation(model).sites), SAMPLER, schedule, **settings
    )
    assert not str(tree["evidence/alarm"].values)
    stages = tree["sequential_monte_carlo"].to_dataset()
    for name, value, message in (
        ("effective_size", 3.0, "effective size 3.0 < 10"),
        ("max_weight", 0.8, "largest weight 0.80"),
        ("diverging", 0.5, "non-finite energy"),
        ("unsolved", 0.5, "equations unsolved"),
        ("log_ratio_mean", 1e3, "u jumps by"),
        ("log_increment", -0.5 - 5.0, "replicates spread"),
    ):
        bad = stages.copy(deep=True)
        bad[name][0, 1] = value
        assert message in str(particle_evidence(bad)["alarm"].values)
    wide = resample_move(TemperedPath(GaussianSites.prior(model)), SAMPLER, schedule, **settings)
    assert "effective size" in str(wide["evidence/alarm"].values)


def test_alarms_of_bridges_and_ladders():
    assert alarms.overlap_alarms(19.0, 0.9, 0.05) == []  # a heavy tail of terms that cannot matter
    assert "little overlap" in alarms.overlap_alarms(21.0, 0.0, 0.0)[0]
    assert "Pareto k 0.80" in alarms.overlap_alarms(1.0, 0.8, 0.2)[0]
    assert alarms.slow_alarms([], 100.0) == []
    assert alarms.slow_alarms([150.0, 50.0], 100.0) == []
    assert "99 effective draws" in alarms.slow_alarms([99.0, 99.0], 100.0)[0]
    assert "49 in one" in alarms.slow_alarms([400.0, 49.0], 100.0)[0]
    assert alarms.short_ladder_alarms(30.0, 20) == []
    assert "1.6 sd" in alarms.short_ladder_alarms(32.0, 20)[0]
    theta = np.random.default_rng(0).standard_normal((4, 200, 2))
    assert alarms.apart_alarms(theta) == []
    theta[3, :, 1] += 1.0
    assert "replicates differ" in alarms.apart_alarms(theta)[0]
    assert alarms.apart_alarms(theta[:1]) == []
    few = np.random.default_rng(6).standard_normal((4, 20, 2))  # R-hat 1.12
    assert alarms.apart_alarms(few) == []
    few[3] += 3.0
    assert "replicates differ" in alarms.apart_alarms(few)[0]
    assert alarms.stand_alarms(theta) == []
    theta[1, 100:] = theta[1, 100]
    assert "stood still for 100 of 200 draws" in alarms.stand_alarms(theta)[0]
