"""Every sampler on every likelihood: which pairs `sample` takes, and that those it takes are exact.

A case is a sampler, a likelihood and what is sampled: latents at fixed hyperparameters, both of a `GPModel`,
or a log density of its hyperparameters. Exactness is as elsewhere in this folder (exact draws in, some
transitions, exact draws out; p-values with Bonferroni's correction), with fewer draws and for every case;
``benchmarks/every_pair.py`` takes more. Evidences are held against quadrature over a tensor grid.

False alarms, measured with ``python benchmarks/every_pair.py --times 1 --seeds 15`` (seeds not used here,
1605 p-values): below 0.05 in 3.4 %, below 0.01 in 0.5 %, below 0.001 and ALPHA in none; of 210 z-scores of
annealed evidences the largest is 3.4, the mean square 0.89. One seed with four times the draws: no p-value
below 0.01.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.special import expit, log_expit, log_ndtr, logsumexp
from scipy.stats import (
    beta,
    betabinom,
    binom,
    gamma,
    lognorm,
    nbinom,
    norm,
    poisson,
    t,
    weibull_min,
)

import gpmcflow as gp
from gpmcflow.approximations import site_draws
from gpmcflow.approximations.fitted_density import FittedStudent
from gpmcflow.approximations.mixture import Mixture
from gpmcflow.approximations.stand_ins import SubsetOfData
from gpmcflow.errors import InputError
from gpmcflow.likelihoods import LIKELIHOODS, likelihood
from gpmcflow.models.collapsed_density import density_of
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.models.tempered import Target
from gpmcflow.samplers import LATENT_SAMPLERS, SAMPLERS
from gpmcflow.samplers.adaptation import fitted_proposal
from gpmcflow.samplers.density.univariate_slice import SliceSweep
from gpmcflow.samplers.joint import fitted_independence, pseudo_marginal, split_dynamics
from gpmcflow.samplers.joint.fitted_independence import (
    ExactTransition,
    JointIndependenceTransition,
)
from gpmcflow.samplers.joint.pseudo_marginal import EvidenceFrame
from gpmcflow.samplers.joint.pseudo_marginal_independence import BlockTransition, WithoutMean
from gpmcflow.samplers.joint.representations import REPRESENTATIONS, Surrogate
from gpmcflow.samplers.joint.split_dynamics import Frame, SplitTarget, transition
from gpmcflow.samplers.latent import hamiltonian
from gpmcflow.samplers.protocol import DENSITY, JOINT

from . import invariance
from .invariance import ALPHA, ROUGH, Problem, run_cell
from .test_joint_split_hmc import sites_of

KINDS = ("latents", "joint", "density")
X, MEAN, LENGTH, SIGNAL, JITTER = np.array([0.0, 0.4, 1.0]), 0.3, 0.7, 1.3, 0.05


def normal_log(median: float, sd: float) -> gp.Hyperprior:
    return gp.Hyperprior("norm", {"loc": float(np.log(median)), "scale": sd})


FREE = normal_log(0.6, 0.7)
SHARE = gp.Hyperprior("norm", {"loc": -1.0, "scale": 0.7}, scale="logit")
# parameters off their defaults, and what takes their place where hyperparameters are free
FIXED = {
    "probit": {},
    "logistic": {},
    "gaussian": {"noise_sd": 0.6},
    "poisson": {"exposure": 1.7},
    "negative_binomial": {"size": 2.5, "exposure": 1.7},
    "binomial": {"trials": 4},
    "student_t": {"scale": 0.5, "df": 3.0},
    "log_normal": {"noise_sd": 0.6},
    "gamma": {"shape": 2.5},
    "survival": {"scale": 0.6},
    "ordinal": {"cutpoints": (-0.5, 0.9)},
    "censored_gaussian": {"noise_sd": 0.6, "below": -0.2, "above": 1.0},
    "beta": {"precision": 6.0},
    "zero_inflated": {"base": {"poisson": {"exposure": 1.7}}, "probability": 0.3},
    "hurdle": {"base": {"negative_binomial": {"size": 2.5, "exposure": 1.7}}, "probability": 0.3},
    "beta_binomial": {"trials": 4, "precision": 6.0},
}
FREED = {
    "poisson": {"exposure": 5.0},
    "gaussian": {"noise_sd": FREE},
    "negative_binomial": {"size": FREE, "exposure": 5.0},
    "binomial": {"trials": np.array([4.0, 5.0, 6.0, 4.0, 5.0, 6.0])},
    "student_t": {"scale": FREE},
    "log_normal": {"noise_sd": FREE},
    "gamma": {"shape": FREE},
    "survival": {"scale": FREE},
    "ordinal": {"cutpoints": None, "levels": 3},
    "censored_gaussian": {"noise_sd": FREE, "below": -0.2, "above": 1.0},
    "beta": {"precision": normal_log(6.0, 0.7)},
    "zero_inflated": {"base": {"poisson": {"exposure": 5.0}}, "probability": SHARE},
    "hurdle": {"base": {"poisson": {"exposure": 5.0}}, "probability": SHARE},
    "beta_binomial": {
        "trials": np.array([4.0, 5.0, 6.0, 4.0, 5.0, 6.0]),
        "precision": normal_log(6.0, 0.7),
    },
}
Y = {
    "probit": [1.0, -1.0, 1.0],
    "logistic": [1.0, 1.0, -1.0],
    "gaussian": [1.4, -0.2, 0.5],
    "poisson": [0.0, 3.0, 1.0],
    "negative_binomial": [0.0, 5.0, 1.0],
    "binomial": [1.0, 4.0, 2.0],
    "student_t": [1.2, -1.1, 0.5],  # two contradict each other: l'' > 0 at the posterior's mean
    "log_normal": [4.1, 0.8, 1.6],
    "gamma": [4.1, 0.8, 1.6],
    "survival": [4.1, 0.8, 1.6],
    "ordinal": [3.0, 1.0, 2.0],
    "censored_gaussian": [1.0, -0.2, 0.5],
    "beta": [0.8, 0.1, 0.45],
    "zero_inflated": [0.0, 5.0, 1.0],
    "hurdle": [0.0, 5.0, 1.0],
    "beta_binomial": [1.0, 4.0, 2.0],
}


def _truncated_negative_binomial(eta: np.ndarray, y: np.ndarray) -> np.ndarray:
    law = nbinom(2.5, 2.5 / (2.5 + 1.7 * np.exp(eta)))
    return law.logpmf(y) - law.logsf(0)


# log p(y_i | eta_i) from SciPy alone
LOG_LIKELIHOODS = {
    "probit": lambda eta, y: log_ndtr(y * eta),
    "logistic": lambda eta, y: log_expit(y * eta),
    "gaussian": lambda eta, y: norm.logpdf(y, eta, 0.6),
    "poisson": lambda eta, y: poisson.logpmf(y, 1.7 * np.exp(eta)),
    "negative_binomial": lambda eta, y: nbinom.logpmf(y, 2.5, 2.5 / (2.5 + 1.7 * np.exp(eta))),
    "binomial": lambda eta, y: binom.logpmf(y, 4, expit(eta)),
    "student_t": lambda eta, y: t.logpdf(y, 3.0, eta, 0.5),
    "log_normal": lambda eta, y: lognorm.logpdf(y, 0.6, scale=np.exp(eta)),
    "gamma": lambda eta, y: gamma.logpdf(y, 2.5, scale=np.exp(eta) / 2.5),
    "survival": lambda eta, y: weibull_min.logpdf(y, 1.0 / 0.6, scale=np.exp(eta)),
    "ordinal": lambda eta, y: np.log(
        expit(np.choose(y.astype(int) - 1, (-0.5, 0.9, np.inf)) - eta)
        - expit(np.choose(y.astype(int) - 1, (-np.inf, -0.5, 0.9)) - eta)
    ),
    "censored_gaussian": lambda eta, y: np.select(
        [y <= -0.2, y >= 1.0],
        [norm.logcdf(-0.2, eta, 0.6), norm.logsf(1.0, eta, 0.6)],
        norm.logpdf(y, eta, 0.6),
    ),
    "beta": lambda eta, y: beta.logpdf(y, 6.0 * expit(eta), 6.0 * expit(-eta)),
    "zero_inflated": lambda eta, y: np.where(
        y == 0,
        np.log(0.3 + 0.7 * np.exp(-1.7 * np.exp(eta))),
        np.log(0.7) + poisson.logpmf(y, 1.7 * np.exp(eta)),
    ),
    "hurdle": lambda eta, y: np.where(
        y == 0, np.log(0.3), np.log(0.7) + _truncated_negative_binomial(eta, np.maximum(y, 1.0))
    ),
    "beta_binomial": lambda eta, y: betabinom.logpmf(y, 4, 6.0 * expit(eta), 6.0 * expit(-eta)),
}


def fixed_model(name: str) -> gp.GPModel:
    covariance = gp.SquaredExponential(LENGTH, SIGNAL)
    return gp.GPModel(X, Y[name], covariance, likelihood(name, **FIXED[name]), MEAN, JITTER)


def free_model(name: str) -> gp.GPModel:
    """Length scale and amplitude are free, and a parameter of the likelihood where it has one."""
    covariance = gp.SquaredExponential(normal_log(0.5, 0.7), normal_log(1.0, 0.7))
    settings = FIXED[name] | FREED.get(name, {})
    grid = np.linspace(0.0, 1.0, 6)
    return gp.GPModel(grid, 2 * Y[name], covariance, likelihood(name, **settings), MEAN)


# -- which pairs run -------------------------------------------------------------------------------

DENSITY_SAMPLERS = {
    "collapsed_scale": {},
    "density_hmc": {"step_size": 0.5, "n_steps": 3, "scales": (0.5, 0.5, 0.5)},
    "discretizing_chain": {"transition": SliceSweep((1.0, 1.0, 1.0))},
    "fitted_independence": {},
    "tempered_transitions": {"transitions": (SliceSweep((1.0, 1.0, 1.0)),)},
    "univariate_slice": {},
}
NEED_STAND_INS = {"discretizing_chain", "tempered_transitions"}
WITH_TAYLOR_SITES = {"gaussian", "log_normal", "gamma", "poisson"}


def samplers() -> dict[str, object]:
    """All that are registered, with the settings they need; surrogate_slice with each representation."""
    found = {}
    for name, kind in SAMPLERS.items():
        settings = DENSITY_SAMPLERS.get(name) or ROUGH.get(name, {})
        if name == "joint_split_hmc":
            settings = {"rounds": (6, 6)}
        if name == "pseudo_marginal_independence":
            settings = {"n_proposals": 3}
        if name == "joint_independence":
            settings = {"n_pilot": 20}  # an EP fit each; below, the proposal is given
        if name != "surrogate_slice":
            found[name] = kind(**settings)
    for representation in REPRESENTATIONS:
        found[f"surrogate_slice {representation}"] = kind_of("surrogate_slice")(
            representation, n_elliptical=2
        )
    return found


def kind_of(name: str) -> type:
    return SAMPLERS[name.split()[0]]


def runs(sampler: str, name: str, kind: str) -> bool:
    """The rule: which cases `sample` takes."""
    samples = kind_of(sampler).samples
    if kind == "latents":
        return sampler in LATENT_SAMPLERS
    if samples == JOINT:
        taylor = sampler.endswith("taylor")
        if sampler.startswith("pseudo_marginal") and LIKELIHOODS[name].conjugate:
            return False
        return kind == "joint" and (not taylor or name in WITH_TAYLOR_SITES)
    if samples == DENSITY:  # of a GPModel: its hyperparameters, with the latents integrated out
        return LIKELIHOODS[name].conjugate and (kind == "density" or sampler not in NEED_STAND_INS)
    return False


CASES = [(s, name, kind) for kind in KINDS for name in LIKELIHOODS for s in samplers()]
RUN = [case for case in CASES if runs(*case)]


def subject(sampler: str, name: str, kind: str) -> object:
    """What is given to `sample`."""
    if kind == "latents":
        return fixed_model(name).at()
    model = free_model(name)
    if kind == "joint":
        return model
    exact = RegressionDensity(model)
    return [exact, SubsetOfData(model, [0, 2, 5])] if sampler in NEED_STAND_INS else exact


def test_the_walk_is_whole():
    assert set(FIXED) == set(Y) == set(LOG_LIKELIHOODS) == set(LIKELIHOODS)
    assert set(DENSITY_SAMPLERS) == {n for n, kind in SAMPLERS.items() if kind.samples == DENSITY}
    free = {name: len(free_model(name).names) for name in LIKELIHOODS}
    with_own = {name for name in LIKELIHOODS if likelihood(name, **FIXED[name]).entries()}
    assert {name for name, d in free.items() if d == 3} == with_own
    assert len(RUN) == 16 * len(LATENT_SAMPLERS) + 16 * 6 + 2 * 14 + 4 * 2 + 2 * (6 + 4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_pairs_run_or_are_refused_in_one_line(name, kind, monkeypatch):
    for module in (fitted_proposal, fitted_independence):
        monkeypatch.setattr(
            module, "N_JUDGED", 10
        )  # an EP fit each, for a warning about a poor pilot
    monkeypatch.setattr(pseudo_marginal, "SETTLING", 2)
    ran, refusals = set(), []
    for label, sampler in samplers().items():
        start = free_model(name).prior_median() if kind == "density" else None
        try:
            given = subject(label, name, kind)
            tree = gp.sample(given, sampler, n_chains=2, n_draws=3, n_warmup=1, start=start)
        except InputError as error:
            refusals.append(str(error))
        else:
            ran.add(label)
            check_layout(tree, label, name, kind)
    assert ran == {label for label in samplers() if runs(label, name, kind)}
    assert not any("\n" in message for message in refusals)


def check_layout(tree, label: str, name: str, kind: str) -> None:
    model, posterior, stats = free_model(name), tree["posterior"], tree["sample_stats"]
    own = kind_of(label).samples
    n = 3 if kind == "latents" else 6
    layout = {"latent": ("latent_dim", n)} if own != DENSITY else {}
    layout |= {"theta": ("theta_dim", model.dim)} if kind != "latents" else {}
    layout |= {parameter: () for parameter in model.names} if kind != "latents" else {}
    assert set(posterior.data_vars) == set(layout), label
    for variable, trailing in layout.items():
        shape = (2, 3, *trailing[1:])
        assert posterior[variable].dims == ("chain", "draw", *trailing[:1]), (label, variable)
        assert posterior[variable].shape == shape, (label, variable)
        assert np.all(np.isfinite(posterior[variable])), (label, variable)
    for statistic in ("lp", "sum_log_likelihood", "acceptance_rate"):
        assert stats[statistic].dims == ("chain", "draw"), (label, statistic)
        assert np.all(np.isfinite(stats[statistic])), (label, statistic)


@pytest.mark.parametrize("label", sorted(set(DENSITY_SAMPLERS) - NEED_STAND_INS))
def test_a_sampler_of_a_density_takes_a_model_for_its_density(label):
    """The same draws, so that only one of the two has to be asked for exactness below."""
    sampler, model = samplers()[label], free_model("gaussian")
    sizes = {"n_chains": 2, "n_draws": 5, "n_warmup": 0}
    one = gp.sample(model, sampler, **sizes)
    other = gp.sample(RegressionDensity(model), sampler, **sizes)
    np.testing.assert_array_equal(one.posterior["theta"], other.posterior["theta"])


# -- exactness -------------------------------------------------------------------------------------

DRAWS = 1  # seed of the exact draws that samplers of one likelihood share
FEW = 8000  # chains of latents at fixed hyperparameters, in a batch
STEP = 1.1
MANY, SLOW = 450, 150  # joint draws one by one; where sites are fitted by Newton's method
QUICK = 1500  # of hyperparameters alone
DEAR_FITS = {"beta", "beta_binomial"}  # tenths of a second each
FEWER = {"rmhmc": 800, "elliptical_slice": 2500}
FITTED = {
    "negative_binomial",
    "binomial",
    "student_t",
    "gamma",
    "beta",
    "zero_inflated",
    "hurdle",
    "beta_binomial",
}


@pytest.fixture(autouse=True)
def in_the_harness(monkeypatch):
    """The models of this file stand beside those of the harness, under other names."""
    known_to_harness(monkeypatch.setitem)


def known_to_harness(put) -> None:
    for name in LIKELIHOODS:
        put(invariance.LOG_LIKELIHOODS, f"every {name}", LOG_LIKELIHOODS[name])
        put(invariance.models(), f"every {name}", latent_model(name))


@cache
def latent_model(name: str):
    return fixed_model(name).at()


@cache
def posterior_target(name: str) -> Problem:
    """The posterior in the coordinates of a Gaussian that is no fit."""
    base = GaussianSites(latent_model(name), np.array([0.15, 0.4, 0.6]), np.array([0.5, 0.1, -0.3]))
    return Problem(f"every {name}", Target.posterior(base), 1.0, base.precision, base.shift)


def joint_statistics(model, theta, f) -> np.ndarray:
    """h(theta, f, y), without f where latents are integrated out."""
    y, z = model.y, (theta - model.prior_median()) / 0.7
    data = [np.tanh(y[0] / 3), *np.log(0.1 + np.array([y.std(), np.diff(y).std()]))]
    found = [z, np.outer(z, [*z, *data]).ravel()]
    if f is not None:
        g = np.tanh(f[::2])
        fit = [np.tanh(0.1 * model.log_likelihood(f, theta)), np.log(0.1 + f.std())]
        mixed = g * np.tanh(y[::2] / 3)
        found += [np.outer(z, [*g, *fit]).ravel(), g, g**2, mixed, fit, [g[0] * g[1]]]
    return np.concatenate(found)


def move_of(label: str, sampler, model):
    """Function (rng, theta, f) -> (theta, f) of two transitions for the data the model holds then."""
    if label in {"joint_independence", "fitted_independence"}:
        student = FittedStudent(np.zeros(model.dim), np.eye(model.dim), 5.0, model.names)
        sampler = replace(sampler, proposal=student)
    if label == "pseudo_marginal_hmc":
        sampler = replace(sampler, frame=evidence_frame(model))
    if label == "pseudo_marginal_independence":
        return lambda rng, theta, f: block_move(rng, sampler, model, theta, f)
    if label == "joint_split_hmc":
        return lambda rng, theta, f: split_move(rng, model, theta, f)
    if kind_of(label).samples == JOINT:
        chain = sampler.bind(model)

        def start(theta, f):
            return {"theta": theta, "latent": f}
    else:
        stand_ins = [SubsetOfData(model, [0, 2, 5])] if label in NEED_STAND_INS else []
        chain = sampler.bind([RegressionDensity(model), *stand_ins])

        def start(theta, f):
            return theta

    def move(rng, theta, f):
        state = chain.init(rng, start(theta, f))
        for _ in range(2):
            state, _ = chain.step(rng, state)
        drawn = chain.record(rng, state)
        return drawn["theta"], drawn.get("latent")

    return move


def block_move(rng, sampler, model, theta, f):
    """Draws until the first of a second block; the model without its mean holds the data of one bind."""
    frame = evidence_frame(WithoutMean(model).model)
    chain = replace(sampler, frame=frame).bind(model)
    state = chain.init(rng, {"theta": theta, "latent": f})
    for _ in range(sampler.n_proposals + 1):
        state, _ = chain.step(rng, state)
    drawn = chain.record(rng, state)
    return drawn["theta"], drawn["latent"]


def evidence_frame(model) -> EvidenceFrame:
    """As a pilot's that has not seen the draw."""
    d, none = model.dim, np.zeros((1, model.n_cases))
    mixture = Mixture(np.ones(1), np.zeros((1, d)), np.eye(d)[None])
    trials = np.random.default_rng(0).standard_normal((8, model.n_cases))
    center, scale = np.full(d, 0.3), 0.7 * np.eye(d)
    return EvidenceFrame(mixture, center, scale, 0.8, np.zeros((1, d)), none, none, trials)


def split_move(rng, model, theta, f):
    """Trajectories in a frame that depends on y alone, as a pilot's that has not seen the draw."""
    d, sites = model.dim, sites_of(model)
    density = density_of(model, sites)
    target = SplitTarget(density, Frame(np.full(d, 0.3), 0.7 * np.eye(d), sites))
    state = target.start(rng, model.parameters.to_normal(theta), f)
    for _ in range(2):
        state, _ = transition(rng, target, state, STEP, 2, 0.2)
    latents = state.latents if density.n_z else density.draw_latents(rng, state.theta)[0]
    return state.theta, latents


def joint_p_value(label: str, name: str, n: int, seed: int, until: float = 0.0) -> float:
    """Corrected p-value that means of functions of n exact joint draws of (theta, f, y) do not change.

    Fewer draws are made once it is below ``until``, which a wrong sampler's is soon.
    """
    rng, model = np.random.default_rng(seed), free_model(name)
    move, changes = move_of(label, samplers()[label], model), []
    for k in range(1, n + 1):
        theta = model.draw_prior(rng)
        f, model.y[:] = model.simulate(rng, theta)
        moved, latents = move(rng, theta, f)
        kept = None if latents is None else f
        changes.append(
            joint_statistics(model, moved, latents) - joint_statistics(model, theta, kept)
        )
        if k == n or (until and k % 100 == 0):
            p_value = _p_value(np.array(changes))
            if p_value < until:
                break
    return p_value


def _p_value(changes: np.ndarray) -> float:
    if not np.all(np.isfinite(changes)):
        return 0.0
    sd = changes.std(0)
    z = changes.mean(0)[sd > 0] / sd[sd > 0] * np.sqrt(len(changes))
    return float(min(1.0, 2.0 * len(z) * norm.sf(np.abs(z).max())))


def size_of(label: str, name: str, kind: str) -> int:
    if kind == "latents":
        return FEWER.get(label, FEW)
    if kind_of(label).samples == DENSITY:
        return QUICK
    fitted = label in {
        "joint_independence",
        "pseudo_marginal_hmc",
        "pseudo_marginal_independence",
    } or (name in FITTED and label.endswith("site"))
    return SLOW if fitted else MANY


def seed_of(*case: str) -> int:
    return zlib.crc32(" ".join(case).encode())


def p_value_of(case: tuple[str, str, str], n: int, seed: int) -> float:
    """Corrected p-value of one case."""
    label, name, kind = case
    if kind == "latents":
        return run_cell(samplers()[label], posterior_target(name), seed, n).p_value
    return joint_p_value(label, name, n, seed)


EXACT = [c for c in RUN if c[2] != "joint" or kind_of(c[0]).samples == JOINT]


@pytest.mark.parametrize(("label", "name"), [case[:2] for case in EXACT if case[2] == "latents"])
def test_latents_stay_exact(label, name):
    n, seed = size_of(label, name, "latents"), seed_of(label, name)
    outcome = run_cell(samplers()[label], posterior_target(name), seed, n)
    assert outcome.passed, outcome


@pytest.mark.parametrize("case", [case for case in EXACT if case[2] != "latents"], ids=" ".join)
def test_joint_draws_stay_exact(case):
    assert p_value_of(case, size_of(*case), seed_of(*case)) > ALPHA


# -- wrong samplers and likelihoods that this has to notice ----------------------------------------


def always(accepted, proposal, state):
    return proposal


@pytest.mark.parametrize("label", ["hmc", "preconditioned_split_hmc", "split_hmc"])
def test_a_sampler_that_always_accepts_is_caught(label, monkeypatch):
    monkeypatch.setattr(hamiltonian, "select", always)
    n = size_of(label, "gaussian", "latents")
    assert (
        run_cell(samplers()[label], posterior_target("gaussian"), 0, n, draws_seed=DRAWS).p_value
        < ALPHA**2
    )


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_wrong_sign_of_a_gradient_is_caught(name, monkeypatch):
    """Accept or reject mends a wrong force, so the acceptance at small steps has to tell."""
    kind = LIKELIHOODS[name]
    both = kind.log_density_and_gradient

    def wrong(self, eta, y):
        value, slope = both(self, eta, y)
        return value, -slope

    monkeypatch.setattr(kind, "log_density_and_gradient", wrong)
    monkeypatch.setattr(kind, "gradient", lambda self, eta, y: wrong(self, eta, y)[1])
    outcome = run_cell(samplers()["hmc"], posterior_target(name), 0, FEW, draws_seed=DRAWS)
    assert outcome.small_step_acceptance < invariance.SMALL_STEP_ACCEPTANCE
    assert not outcome.passed


@pytest.mark.parametrize("name", ["gaussian", "student_t"])
def test_a_joint_sampler_that_always_accepts_is_caught(name, monkeypatch):
    monkeypatch.setattr(split_dynamics, "energy", lambda state, momentum, beta: 0.0)
    assert joint_p_value("joint_split_hmc", name, MANY, 0, ALPHA) < ALPHA


@pytest.mark.parametrize("name", ["logistic", "gaussian"])
def test_a_surrogate_without_its_precisions_is_caught(name, monkeypatch):
    monkeypatch.setattr(Surrogate, "_log_precisions", staticmethod(lambda w: 0.0))
    assert joint_p_value("surrogate_slice surr-site", name, MANY, 0, ALPHA) < ALPHA


@pytest.mark.parametrize("label", ["univariate_slice", "tempered_transitions"])
def test_half_a_log_likelihood_is_caught(label, monkeypatch):
    whole = RegressionDensity.log_likelihood
    monkeypatch.setattr(RegressionDensity, "log_likelihood", lambda self, x: 0.5 * whole(self, x))
    assert joint_p_value(label, "gaussian", QUICK, 0, ALPHA) < ALPHA


# -- evidence --------------------------------------------------------------------------------------


def quadrature(name: str, jitter: float = JITTER) -> float:
    """log p(y) by the trapezoid rule over whitened latents, on a tensor grid."""
    K = SIGNAL**2 * np.exp(-0.5 * (X[:, None] - X) ** 2 / LENGTH**2)
    L = np.linalg.cholesky(K + jitter * np.diag(np.diag(K)))
    step = (
        0.25 if fixed_model(name).likelihood.log_concave else 0.14
    )  # at half of it the same to 2e-8
    axis = np.arange(-8.0, 8.0, step)
    xi = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    xi = xi[(xi**2).sum(1) < 64.0]
    f = xi @ L.T + MEAN
    logs = LOG_LIKELIHOODS[name](f, np.array(Y[name])).sum(1) + norm.logpdf(xi).sum(1)
    return float(logsumexp(logs) + 3 * np.log(step))


@cache
def exact_evidence(name: str) -> float:
    return quadrature(name)


# log evidence less quadrature (good to 1e-11): what the approximations themselves are off by
OFF = {
    "probit": {"ep": 0.00082272, "laplace": -0.02317801},
    "logistic": {"ep": -0.00027528, "laplace": -0.03354608},
    "gaussian": {"ep": 0.0, "laplace": 0.0},
    "poisson": {"ep": -0.00232563, "laplace": -0.01808674},
    "negative_binomial": {"ep": -0.00002858, "laplace": -0.03945521},
    "binomial": {"ep": -0.00014966, "laplace": -0.04305675},
    "student_t": {"ep": 0.02154575, "laplace": -0.16194547},
    "log_normal": {"ep": 0.0, "laplace": 0.0},
    "gamma": {"ep": -0.00108373, "laplace": -0.02231775},
    "survival": {"ep": -0.00219339, "laplace": -0.053425},
    "ordinal": {"ep": 0.00002202, "laplace": -0.03513012},
    "censored_gaussian": {"ep": 0.00038284, "laplace": -0.02435201},
    "beta": {"ep": -0.00009399, "laplace": -0.09830491},
    "zero_inflated": {"ep": 0.00010996, "laplace": 0.04763474},
    "beta_binomial": {"ep": -0.00019024, "laplace": -0.07539668},
    "hurdle": {"ep": 0.00000233, "laplace": -0.02737758},
}
NEAR = 1e-6


def miss(name: str, method: str) -> float:
    """How far a fit's log evidence is from where it should be."""
    found = gp.approximate(fixed_model(name), method).log_evidence
    return abs(found - exact_evidence(name) - OFF[name][method])


@pytest.mark.parametrize("method", ["ep", "laplace"])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_evidence_of_fits(name, method):
    assert miss(name, method) < NEAR


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_dropped_determinant_or_jitter_is_caught(name, monkeypatch):
    assert abs(quadrature(name, jitter=0.0) - exact_evidence(name)) > 500 * NEAR
    monkeypatch.setattr(GaussianSites, "log_det", 0.0)
    methods = ["ep"] + ["laplace"] * fixed_model(
        name
    ).likelihood.log_concave  # others take one of their own
    assert all(miss(name, method) > 1e5 * NEAR for method in methods)


@cache
def fit_of(name: str):
    return gp.approximate(fixed_model(name))


def annealing_z(
    name: str, reference: str, seed: int, n_particles: int = 300
) -> tuple[float, float]:
    """z-score of annealed importance sampling against quadrature, and its standard error."""
    start, n_temperatures = fit_of(name), 8
    if reference == "prior":
        start, n_temperatures = GaussianSites.prior(latent_model(name)), 20
    found = gp.log_evidence(
        start, "annealing", n_particles=n_particles, n_temperatures=n_temperatures, seed=seed
    ).evidence
    error = max(float(found["standard_error"]), 1e-9)  # 0 where the reference is the posterior
    return (float(found["log_evidence"]) - exact_evidence(name)) / error, error


@pytest.mark.parametrize("reference", ["fit", "prior"])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_annealed_evidence(name, reference):
    z, error = annealing_z(name, reference, seed_of(name, reference))
    assert abs(z) < 4.0
    assert error < (0.05 if reference == "fit" else 0.1)


@pytest.mark.parametrize(
    ("dropped", "n"), [("log_det", 200), ("log_prior", 200), ("log_proposal", 800)]
)
def test_a_joint_independence_with_a_wrong_weight_is_caught(dropped, n, monkeypatch):
    exact = JointIndependenceTransition._at

    def wrong(self, theta, log_proposal, rng, latent):
        state = exact(self, theta, log_proposal, rng, latent)
        part = {
            "log_det": lambda: 0.5 * self.density.fit(theta).sites.log_det,
            "log_prior": lambda: -self.model.log_prior(theta),
            "log_proposal": lambda: log_proposal,
        }[dropped]()
        return state._replace(log_weight=state.log_weight + part)

    monkeypatch.setattr(JointIndependenceTransition, "_at", wrong)
    assert joint_p_value("joint_independence", "poisson", n, 0, ALPHA) < ALPHA


@pytest.fixture
def fits_of_no_sweep(monkeypatch):
    """EP ends before its first update, at the prior: draws of the latents have to make up for all of it."""
    monkeypatch.setattr(site_draws, "TOLERANCE", np.inf)


@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_pseudo_marginal_draws_are_exact_whatever_ep_finds(name, fits_of_no_sweep):
    assert joint_p_value("pseudo_marginal_hmc", name, MANY, 3) > ALPHA


@pytest.mark.parametrize("dropped", ["second decision", "weights", "the kept draw", "levels"])
def test_a_pseudo_marginal_sampler_that_drops_a_part_is_caught(
    dropped, monkeypatch, fits_of_no_sweep
):
    """One part left out at a time; of levels, the threshold of a move is that of another level."""
    fit = site_draws.SettingFit
    exact, move = fit.draws, fit._slice

    def wrong(self, rng, n, n_levels, kept=None):
        if dropped == "the kept draw":
            return exact(self, rng, n, n_levels)
        found = exact(self, rng, n, n_levels, kept)
        if dropped == "second decision":
            return found._replace(log_ratio=0.0)
        return found._replace(weights=np.full(n, 1.0 / n))

    if dropped == "levels":
        monkeypatch.setattr(
            fit,
            "_slice",
            lambda self, rng, at, to, level, w: move(self, rng, at, to, 0.5 * level, w),
        )
    else:
        monkeypatch.setattr(fit, "draws", wrong)
    settings = {"n_latents": 2} if dropped == "the kept draw" else {}
    known = replace(samplers()["pseudo_marginal_hmc"], **settings)
    monkeypatch.setitem(globals(), "samplers", lambda: {"pseudo_marginal_hmc": known})
    assert joint_p_value("pseudo_marginal_hmc", "poisson", 800, 0, ALPHA) < ALPHA


@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_draws_of_blocks_are_exact_whatever_ep_finds(name, fits_of_no_sweep):
    assert joint_p_value("pseudo_marginal_independence", name, MANY, 3) > ALPHA


@pytest.mark.parametrize("dropped", ["estimate", "log_proposal", "log_prior", "the kept draw"])
def test_blocks_with_a_wrong_weight_are_caught(dropped, monkeypatch, fits_of_no_sweep):
    exact = BlockTransition._at

    def wrong(self, rng, x, kept):
        found = exact(self, rng, x, None if dropped == "the kept draw" else kept)
        log_proposal = float(self.frame.mixture.log_density(x[None])[0])
        part = {
            "estimate": -found.log_weight - log_proposal - 0.5 * float(x @ x),
            "log_proposal": log_proposal,
            "log_prior": 0.5 * float(x @ x),
            "the kept draw": 0.0,
        }[dropped]
        return found._replace(log_weight=found.log_weight + part)

    monkeypatch.setattr(BlockTransition, "_at", wrong)
    settings = {"n_latents": 2, "n_proposals": 1} if dropped == "the kept draw" else {}
    known = replace(samplers()["pseudo_marginal_independence"], **settings)
    monkeypatch.setitem(globals(), "samplers", lambda: {"pseudo_marginal_independence": known})
    assert joint_p_value("pseudo_marginal_independence", "poisson", 800, 0, ALPHA) < ALPHA


@pytest.mark.parametrize("dropped", ["log_prior", "log_proposal"])
def test_a_joint_independence_of_a_regression_with_a_wrong_weight_is_caught(dropped, monkeypatch):
    exact = ExactTransition._log_weight

    def wrong(self, theta, log_proposal, log_prior):
        part = {"log_prior": -log_prior, "log_proposal": log_proposal}[dropped]
        return exact(self, theta, log_proposal, log_prior) + part

    monkeypatch.setattr(ExactTransition, "_log_weight", wrong)
    assert joint_p_value("joint_independence", "gaussian", 800, 0, ALPHA) < ALPHA
