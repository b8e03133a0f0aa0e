"""The invariance test: exact draws of a target must still be exact draws after a few transitions.

No burn-in, no effective size: chains start from exact independent draws of the target, take a few
transitions, and are compared with fresh exact draws, by the two-sample Kolmogorov-Smirnov test and
by tests of the mean and the mean square of several functionals, joint ones among them. Each p-value
is corrected for the number of tests (Bonferroni), so that a cell of sampler x model x setting raises
a false alarm with a probability of at most ALPHA.

Run as a program to measure the false-alarm rate: ``python invariance.py SEEDS [SAMPLER ...]``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_expit, log_ndtr
from scipy.stats import ks_2samp, norm, poisson, t

from gpmcflow.likelihoods import Gaussian, Logistic, Poisson, Probit, StudentT
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.tempered import Target, TemperedPath
from gpmcflow.samplers import RMHMC
from gpmcflow.samplers.latent.hamiltonian import HamiltonianSampler

N_CHAINS = 20_000
N_TRANSITIONS = 10
ALPHA = 1e-4
SMALL_STEP_ACCEPTANCE = 0.98
STALE = 1e-9

NOISE_SD, EXPOSURE, SCALE, DF = 0.6, 1.7, 0.4, 3.0
_K = 1.8 * np.array([[1.0, 0.6, 0.1], [0.6, 1.2, 0.5], [0.1, 0.5, 0.8]])
_DESIGN = np.array([[1.0, 0.4], [1.0, -1.3], [-0.5, 2.0], [0.3, 0.9]])

# log p(y_i | eta_i) from SciPy alone, so that a wrong likelihood of ours is met here, too
LOG_LIKELIHOODS: dict[str, Callable] = {
    "gp_probit": lambda eta, y: log_ndtr(y * eta),
    "gp_poisson": lambda eta, y: poisson.logpmf(y, EXPOSURE * np.exp(eta)),
    "gaussian": lambda eta, y: norm.logpdf(y, eta, NOISE_SD),
    "student_t": lambda eta, y: t.logpdf(y, DF, eta, SCALE),
    "logistic_regression": lambda eta, y: log_expit(y * eta),
}

SETTINGS = ("prior_reference", "sites_reference", "posterior", "own_base")


@cache
def models() -> dict[str, LatentGaussianModel]:
    """The models of the matrix, all with a prior mean and settings off their defaults."""
    build = LatentGaussianModel.from_covariance
    return {
        "gp_probit": build(3.0 * _K, Probit(), np.array([1.0, -1.0, 1.0]), mean=0.3),
        "gp_poisson": build(0.6 * _K, Poisson(EXPOSURE), np.array([0.0, 3.0, 1.0]), mean=-0.4),
        "gaussian": build(_K, Gaussian(NOISE_SD), np.array([1.4, -0.2, 0.5]), mean=0.3),
        # the first two contradict each other: at the mean of the posterior l'' > 0
        "student_t": build(_K, StudentT(SCALE, DF), np.array([1.9, -1.6, 0.5]), mean=0.3),
        "logistic_regression": build(
            np.array([[4.0, 0.5], [0.5, 2.5]]),
            Logistic(),
            np.array([1.0, -1.0, 1.0, 1.0]),
            mean=np.array([0.2, -0.3]),
            design=_DESIGN,
        ),
    }


@dataclass(frozen=True, eq=False)
class Problem:
    """A target, the inverse temperature and the sites of its reference, for exact draws."""

    name: str
    target: Target
    beta: float
    precision: np.ndarray
    shift: np.ndarray


@cache
def problem(model_name: str, setting: str) -> Problem:
    """One model at one setting.

    prior_reference, sites_reference: beta = 0.3 on the path from the prior, and from a Gaussian
    with sites. posterior: beta = 1 in that Gaussian's coordinates. own_base: beta = 0.3 on the path
    from the prior in coordinates that are not the reference's.
    """
    model = models()[model_name]
    tau = np.linspace(0.15, 0.6, model.n_cases)
    nu = np.linspace(0.5, -0.3, model.n_cases)
    prior, sites = GaussianSites.prior(model), GaussianSites(model, tau, nu)
    beta = 1.0 if setting == "posterior" else 0.3
    reference = sites if setting in ("sites_reference", "posterior") else prior
    base = sites if setting == "own_base" else None
    target = TemperedPath(reference).target(beta, base)
    return Problem(model_name, target, beta, reference.precision, reference.shift)


def exact_draws(p: Problem, rng: np.random.Generator, n: int) -> np.ndarray:
    """Independent draws of theta (n, d): closed form for the Gaussian, else rejection from the prior.

    h_beta is prior times prod_i exp(phi_i), phi_i = beta log p(y_i | eta_i) + (1 - beta) (nu_i
    eta_i - tau_i eta_i^2 / 2), and each phi_i is bounded by its maximum over the line.
    """
    model = p.target.model
    A = np.eye(model.dim) if model.design is None else model.design
    P = model.cholesky @ model.cholesky.T
    keep = 1.0 - p.beta
    if p.name == "gaussian":
        precision = p.beta / NOISE_SD**2 + keep * p.precision
        shift = p.beta * model.y / NOISE_SD**2 + keep * p.shift
        covariance = np.linalg.inv(np.linalg.inv(P) + A.T @ np.diag(precision) @ A)
        mean = covariance @ (np.linalg.solve(P, model.mean) + A.T @ shift)
        return mean + rng.standard_normal((n, model.dim)) @ np.linalg.cholesky(covariance).T

    def phi(eta, i):
        sites = p.shift[i] * eta - 0.5 * p.precision[i] * eta**2
        return p.beta * LOG_LIKELIHOODS[p.name](eta, model.y[i]) + keep * sites

    bounds = _bounds(p.name, p.beta, tuple(p.precision), tuple(p.shift))
    accepted, missing = [], n
    while missing > 0:
        theta = model.mean + rng.standard_normal((20_000, model.dim)) @ np.linalg.cholesky(P).T
        spare = -np.log(rng.random(len(theta)))  # what is left of it after the cases so far
        for i, row in enumerate(A):  # most proposals are out after the first case
            spare += phi(theta @ row, i) - bounds[i]
            theta, spare = theta[spare > 0.0], spare[spare > 0.0]
        accepted.append(theta[:missing])
        missing -= len(accepted[-1])
    return np.concatenate(accepted)


@lru_cache(maxsize=32)  # a megabyte each
def start_and_fresh(p: Problem, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two independent sets of exact draws (N_CHAINS, d), for all samplers: the draws cost the most."""
    draws = exact_draws(p, np.random.default_rng([seed, 1]), 2 * N_CHAINS)
    draws.flags.writeable = False
    return draws[:N_CHAINS], draws[N_CHAINS:]


@cache
def _bounds(name: str, beta: float, precision: tuple, shift: tuple) -> np.ndarray:
    model, largest = models()[name], np.empty(models()[name].n_cases)
    for i in range(model.n_cases):

        def negative(eta, i=i):
            sites = shift[i] * eta - 0.5 * precision[i] * eta**2
            return -beta * LOG_LIKELIHOODS[name](eta, model.y[i]) - (1.0 - beta) * sites

        largest[i] = -minimize_scalar(negative, bounds=(-30.0, 30.0), method="bounded").fun
    return largest + 1e-6  # above the maximum even if the search ended beside it


@dataclass
class BatchRandom:
    """The random source samplers expect, from one generator for all chains: fast."""

    shared: np.random.Generator
    n_chains: int

    def standard_normal(self, size=()) -> np.ndarray:
        return self.shared.standard_normal((self.n_chains, *np.atleast_1d(size).astype(int)))

    def uniform(self, size=()) -> np.ndarray:
        return self.shared.random((self.n_chains, *np.atleast_1d(size).astype(int)))

    def generator(self, index) -> np.random.Generator:
        return self.shared


def functionals(p: Problem, theta: np.ndarray) -> np.ndarray:
    """Columns of functionals (n, k): coordinates, a product, log likelihood, squared distance."""
    model = p.target.model
    eta = theta if model.design is None else theta @ model.design.T
    with np.errstate(over="ignore", invalid="ignore"):  # a wrong sampler can go anywhere
        log_likelihood = LOG_LIKELIHOODS[p.name](eta, model.y).sum(1)
    centred = theta - model.mean
    distance = (np.linalg.solve(model.cholesky, centred.T) ** 2).sum(0)
    product = centred[:, 0] * centred[:, 1]
    return np.column_stack([theta, product, log_likelihood, distance])


def p_value(a: np.ndarray, b: np.ndarray) -> float:
    """Corrected p-value that the rows of a and b, functionals of independent draws, are alike."""
    if not np.all(np.isfinite(a)):
        return 0.0
    found = []
    for x, y in zip(a.T, b.T, strict=True):
        found.append(ks_2samp(x, y, method="asymp").pvalue)
        centre, scale = y.mean(), y.std()
        for power in (1, 2):
            u, v = ((x - centre) / scale) ** power, ((y - centre) / scale) ** power
            error = np.sqrt(u.var() / len(u) + v.var() / len(v))
            found.append(2.0 * norm.sf(abs(u.mean() - v.mean()) / error))
    return float(min(1.0, len(found) * np.min(found)))


@dataclass(frozen=True)
class Outcome:
    """Result of one cell.

    Corrected p-value; mean acceptance as set, and at a small step size (1 without a step size); and
    the largest difference between the cached evaluation in the last state and one at its position.
    """

    p_value: float
    acceptance: float
    small_step_acceptance: float
    stale: float

    @property
    def exact(self) -> bool:
        """Whether the target was left invariant."""
        return self.p_value > ALPHA

    @property
    def passed(self) -> bool:
        """Exact, along a force that matches the energy, from states that are up to date."""
        return (
            self.exact and self.small_step_acceptance > SMALL_STEP_ACCEPTANCE and self.stale < STALE
        )


def run_cell(
    sampler, p: Problem, seed: int, n_chains: int = N_CHAINS, draws_seed: int | None = None
) -> Outcome:
    """Put one sampler through the test on one problem.

    The target is put into the coordinates the sampler moves in. ``draws_seed`` names exact draws that are
    shared with other samplers, for at most N_CHAINS chains; without it the cell makes its own.

    Accept or reject makes any reversible map exact, even one along a wrong force; what that costs
    is acceptance, which no longer goes to one as the step size goes to zero. So samplers with a
    step size among their settings are also asked for that, at the same reduction of the error: an
    eighth of the step for Hamiltonian ones, whose error is of second order, a sixty-fourth else.
    """
    rng = np.random.default_rng(seed)
    chains = BatchRandom(rng, n_chains)
    target = p.target.in_coordinates(sampler.coordinates(p.target.base))
    base = target.base
    if draws_seed is None:
        start, fresh = exact_draws(p, rng, n_chains), None
    else:
        start, fresh = start_and_fresh(p, draws_seed)
    state = sampler.init(target, base.from_latent(start[:n_chains]))
    small = 1.0
    if "step_size" in sampler.__dataclass_fields__:
        reduction = 8.0 if isinstance(sampler, HamiltonianSampler | RMHMC) else 64.0
        slow = replace(sampler, step_size=sampler.step_size / reduction)
        small = float(slow.step(chains, target, state)[1].acceptance_rate.mean())
    rates = []
    for _ in range(N_TRANSITIONS):
        state, info = sampler.step(chains, target, state)
        rates.append(info.acceptance_rate.mean())
    after = functionals(p, base.latent(state.position))
    fresh = exact_draws(p, rng, n_chains) if fresh is None else fresh
    again = sampler.init(target, state.position)
    pairs = zip(state, again, strict=True)
    stale = max(np.max(np.abs(a - b), initial=0.0) for a, b in pairs)  # no gradient: empty
    return Outcome(
        p_value(after, functionals(p, fresh)), float(np.mean(rates)), small, float(stale)
    )


# Settings of each sampler, off their defaults and rough enough that about one proposal in four is
# rejected: a sampler that never rejects has nothing to correct. A sampler that is not listed here is
# tested at its defaults. Steps of samplers with unit mass on theta are in units of theta.
ROUGH: dict[str, dict] = {
    "data_split_hmc": {
        "step_size": 1.2,
        "n_steps": 2,
        "jitter": 0.25,
        "inner_steps": 3,
        "fraction": 0.6,
    },
    "hmc": {"step_size": 0.9, "n_steps": 3, "jitter": 0.25},
    "independence_metropolis": {"n_steps": 2},
    "latent_hmc": {"step_size": 0.7, "n_steps": 3, "jitter": 0.25},
    "preconditioned_split_hmc": {"step_size": 1.1, "n_steps": 2, "jitter": 0.25},
    "random_walk_metropolis": {"step_size": 0.6, "n_steps": 3},
    "rmhmc": {"step_size": 0.9, "n_steps": 2, "jitter": 0.25},
    "split_hmc": {"step_size": 1.1, "n_steps": 2, "jitter": 0.25},
}


def cells(sampler_names) -> Iterator[tuple[str, str, str]]:
    """Sampler x model x setting: the whole matrix."""
    for sampler in sampler_names:
        for model in LOG_LIKELIHOODS:
            for setting in SETTINGS:
                yield sampler, model, setting


def measure(n_seeds: int, sampler_names, first: int = 0) -> np.ndarray:
    """Corrected p-values of every cell for seeds first, first + 1, .., shape (seeds, cells)."""
    from gpmcflow.samplers import make_sampler

    rows, n_problems = [], len(LOG_LIKELIHOODS) * len(SETTINGS)
    for seed in range(first, first + n_seeds):
        row = [
            run_cell(
                make_sampler(s, **ROUGH.get(s, {})),
                problem(m, k),
                1_000_003 * seed + j,
                draws_seed=1000 * seed + j % n_problems,
            )
            for j, (s, m, k) in enumerate(cells(sampler_names))
        ]
        rows.append([outcome.p_value for outcome in row])
    return np.array(rows)


if __name__ == "__main__":
    from gpmcflow.samplers import LATENT_SAMPLERS

    names = sys.argv[2:] or sorted(LATENT_SAMPLERS)
    p_values = measure(int(sys.argv[1]), names, first=100)
    for level in (0.05, 0.01, 1e-3, ALPHA):
        alarms = p_values < level
        print(f"level {level:g}: {alarms.sum()} of {alarms.size} cells ({alarms.mean():.5f}), "
              f"{alarms.any(1).mean():.3f} of {len(alarms)} seeds")  # fmt: skip
