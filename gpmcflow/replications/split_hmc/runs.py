"""The split Hamiltonian study of Shahbaba, Lan, Johnson & Neal (2014): fits and chains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from scipy.linalg import cho_factor, cho_solve

from gpmcflow.approximations.expectation_propagation import expectation_propagation
from gpmcflow.approximations.laplace import laplace
from gpmcflow.errors import NumericalError
from gpmcflow.execution import chain_generators, code_digest, pin_blas, remember
from gpmcflow.jobs.costs import seconds_per_step
from gpmcflow.jobs.job import Job
from gpmcflow.jobs.problems import build_linear_model, require_fit_memory, require_run_memory
from gpmcflow.models.gaussian_sites import GaussianSites, PrincipalAxes
from gpmcflow.models.latent_gaussian import LatentGaussianModel
from gpmcflow.models.multinomial import DenseGaussian, MultinomialLogit, MultinomialTarget
from gpmcflow.models.tempered import Target
from gpmcflow.replications.stages import execution_of, result_attributes
from gpmcflow.samplers import SAMPLERS, Sampler, make_sampler
from gpmcflow.samplers.adaptation.step_sizes import StepSizeTuner, TuningSettings
from gpmcflow.samplers.latent.problem import LatentProblem
from gpmcflow.samplers.program import ChainProgram
from gpmcflow.samplers.sampling import sample
from gpmcflow.storage import load_results, with_attributes

# Laplace approximation of a multinomial logit by damped Newton steps.

MAX_ITERATIONS = 100
TOLERANCE = 1e-10


def multinomial_laplace(model: MultinomialLogit) -> tuple[DenseGaussian, int]:
    """Gaussian at the posterior mode with the Hessian there as precision, and the Newton steps taken.

    From theta = 0; a step is halved while U = -log likelihood + |theta|^2 / (2 s^2) rises, and the
    iteration ends when the step is shorter than 1e-10. The prior makes U strictly convex. Raises
    `NumericalError` if that does not happen.
    """
    pin_blas()
    theta = np.zeros(model.dim)
    potential, slope = _potential(model, theta)
    for iteration in range(1, MAX_ITERATIONS + 1):
        step = cho_solve(cho_factor(model.hessian(theta), lower=True), slope)
        length = float(np.linalg.norm(step))
        following, gradient = _potential(model, theta - step)
        while following > potential + TOLERANCE * abs(potential) and np.linalg.norm(step) > 1e-14:
            step = 0.5 * step
            following, gradient = _potential(model, theta - step)
        theta, potential, slope = theta - step, following, gradient
        if length < TOLERANCE * (1.0 + float(np.linalg.norm(theta))):
            return DenseGaussian(model, theta, model.hessian(theta)), iteration
    raise NumericalError(
        f"multinomial logit: Newton's method has not converged after {MAX_ITERATIONS} steps; "
        "standardise the features"
    )


def _potential(model: MultinomialLogit, theta: np.ndarray) -> tuple[float, np.ndarray]:
    _, value, gradient = model.cases.evaluate(theta[None])
    scale = model.prior_sd**-2.0
    return 0.5 * scale * float(theta @ theta) - float(value[0]), scale * theta - gradient[0]


Model = LatentGaussianModel | MultinomialLogit
Base = PrincipalAxes | DenseGaussian

STUDY = "split_hmc"
# Each iteration takes one step size, uniform between 0.8 and 1 of the largest.
MEAN_STEP, JITTER = 0.9, 1.0 / 9.0
TIMED_SECONDS, TIMED_ITERATIONS = 2.0, 2  # of all chains, and at once
RANKED_FRACTION = 0.4  # of the cases, whose ranks by curvature and by |eta| are compared
TUNING_ROUNDS = 40


@dataclass(frozen=True)
class Slopes:
    """Sums of squares of the paper's diagnostics: of the slopes, and of all parameters."""

    intercepts: tuple[int, ...] = (0,)

    names = ("squared_slopes", "squared_norm")

    def __call__(self, latent: np.ndarray) -> np.ndarray:
        """Sum of beta_j^2 without the intercepts, and |theta|^2, (chain, 2)."""
        norm = np.einsum("ij,ij->i", latent, latent)
        intercepts = latent[:, list(self.intercepts)]
        return np.column_stack([norm - np.einsum("ij,ij->i", intercepts, intercepts), norm])


def fit_job(job: Job) -> tuple[xr.DataTree, dict]:
    """`fit` of the data of a job."""
    limit = job.memory_limit_gb
    return fit(job.dataset(), job.settings["problem"], seed=job.seed, memory_limit_gb=limit)


def fit(
    dataset: xr.Dataset, problem: dict, *, seed: int, memory_limit_gb: float | None = None
) -> tuple[xr.DataTree, dict]:
    """Mode and Laplace fit of a regression problem.

    Group ``map``: theta by parameter, potential U = -log likelihood - log prior without its constant,
    log likelihood, sum of squared slopes, frequencies omega. Group ``approximation`` (but for a
    multinomial logit): sites of each case, log evidence. The sidecar has the CPU seconds the mode took.
    """
    require_fit_memory(dataset, problem, memory_limit_gb, f"fit of {dataset.attrs['name']}")
    model = build_linear_model(dataset, problem)
    groups = {}
    if isinstance(model, MultinomialLogit):
        work = partial(multinomial_laplace, model)
        base, iterations = work()
        log_likelihood = float(model.cases.evaluate(base.mean[None])[1][0])
    else:
        work = partial(laplace, model)
        approximation = work()
        base, iterations = approximation.sites.principal_axes, approximation.iterations
        groups["approximation"] = xr.Dataset(
            {
                "site_precision": ("case", base.precision),
                "site_shift": ("case", base.shift),
                "log_evidence": ((), approximation.log_evidence),
            },
            {"case": dataset["case"]},
        )
        eta = np.abs(base.predictor_mean)
        fast = base.split_cases(RANKED_FRACTION).case_indices[0]
        nearest = np.argsort(eta, kind="stable")[: len(fast)]
        groups["approximation"]["ranking_differences"] = len(np.setdiff1d(fast, nearest))
        log_likelihood = float(model.likelihood.log_density(base.predictor_mean[None], model.y)[0])
    theta = base.mean
    scale = float(problem["prior_sd"]) ** -2.0
    groups["map"] = xr.Dataset(
        {
            "theta": ("parameter", theta),
            "potential": ((), 0.5 * scale * float(theta @ theta) - log_likelihood),
            "log_likelihood": ((), log_likelihood),
            "squared_slopes": ((), float(slopes_of(model)(theta[None])[0, 0])),
            "frequency": ("direction", base.frequencies),
            "iterations": ((), iterations),
        },
        {"parameter": _parameter_names(dataset, model), "direction": np.arange(model.dim)},
    )
    attributes = result_attributes(dataset, seed, problem=problem)
    tree = xr.DataTree.from_dict(groups)
    seconds = seconds_per_step(lambda share: work, 0.0, least=1)
    return with_attributes(tree, attributes), {"seconds": {"map": seconds}}


def slopes_of(model: Model) -> Slopes:
    """Sums of squares for a model: a multinomial logit has an intercept a class."""
    if isinstance(model, MultinomialLogit):
        return Slopes(tuple(range(0, model.dim, model.design.shape[1])))
    return Slopes()


def _parameter_names(dataset: xr.Dataset, model: Model) -> list[str]:
    names = ["intercept", *map(str, dataset["feature"].values)]
    if isinstance(model, MultinomialLogit):
        return [f"class_{k}_{name}" for k in range(model.n_classes) for name in names]
    return names


def chains_job(job: Job) -> tuple[xr.DataTree, dict]:
    """`chains` of the data and the fit of a job."""
    dataset, fitted = job.dataset(), load_results(job.input.fit)
    return chains(dataset, fitted, **job.settings, **job.names, **job.run_settings(dataset))


def chains(
    dataset: xr.Dataset,
    fitted: xr.DataTree,
    problem: dict,
    method: dict,
    *,
    problem_name: str,
    method_name: str,
    seed: int,
    execution: dict,
    state_dir: Any = None,
    memory_limit_gb: float | None = None,
) -> tuple[xr.DataTree, dict]:
    """Chains of one method on one problem, from the mode, without burn-in, as published.

    Groups of `gpmcflow.samplers.sampling.sample`: ``trace`` (chain, iteration) holds the log
    likelihood, the sums of squares, acceptance and cost of every iteration, ``posterior`` every
    thin-th parameter vector. The sidecar has the CPU seconds of one iteration of one chain, measured
    on a few iterations after the run, so that a resumed run has them too.
    """
    what = f"{method_name} on {problem_name}"
    require_run_memory(dataset, problem, method, execution, memory_limit_gb, what)
    key = (STUDY, dataset.attrs["name"], problem_name, method_name)
    target = target_of(dataset, fitted, problem, method)
    sampler, tuned = sampler_of(method, target, seed, key, state_dir)
    thin = int(method["thin"])
    n_draws = max(1, int(method["draws"]) // thin)
    target = target.in_coordinates(sampler.coordinates(target.base))
    mode = fitted["map/theta"].values
    summary = slopes_of(target.model)
    tree = sample(
        target,
        sampler,
        n_chains=int(method["chains"]),
        n_draws=n_draws,
        n_warmup=0,
        thin=thin,
        start=mode,
        keep_latents=summary,
        predictive=False,
        seed=seed,
        key=key,
        execution=execution_of(
            execution,
            state_dir=state_dir,
            settings={"problem": problem, "method": method, "data": dataset.attrs["checksum"]},
            progress=f"{problem_name}: {method_name}",
        ),
    )
    program = ChainProgram(LatentProblem(target, mode[None]), sampler, summary=summary)
    seconds = _seconds_per_iteration(program, int(method["chains"]), seed, key)
    names = (STUDY, problem_name, method_name)
    attributes = result_attributes(dataset, seed, names, problem=problem, method=method)
    tree["settings"] = xr.DataTree(_settings(target, sampler, method, tuned))
    facts = {"seconds": {"iteration": seconds}, "code": code_digest(__name__)}
    return with_attributes(tree, attributes), facts


def target_of(
    dataset: xr.Dataset, fitted: xr.DataTree, problem: dict, method: dict
) -> Target | MultinomialTarget:
    """Posterior in the coordinates of the Laplace fit, or of an EP fit."""
    model = build_linear_model(dataset, problem)
    if isinstance(model, MultinomialLogit):
        mode = fitted["map/theta"].values
        return MultinomialTarget(DenseGaussian(model, mode, model.hessian(mode)))
    if method.get("gaussian", "laplace") == "ep":
        return Target.posterior(expectation_propagation(model).sites)
    sites = fitted["approximation"]
    base = GaussianSites(model, sites["site_precision"].values, sites["site_shift"].values)
    return Target.posterior(base)


def sampler_of(
    method: dict, target: Target | MultinomialTarget, seed: int, key: tuple, state_dir: Any
) -> tuple[Sampler, dict]:
    """Sampler of a method, and what a pilot found (acceptance, gradients) where one was needed."""
    names = {"flow", "inner_steps", "fraction", "order", "n_steps"}
    stated = {name: method[name] for name in names if method.get(name) is not None}
    fields = SAMPLERS[method["sampler"]].__dataclass_fields__
    if "jitter" in fields:
        stated["jitter"] = JITTER
    sampler = make_sampler(method["sampler"], **stated)
    if "step_size" not in fields:
        return sampler, {}
    if method.get("step_size") is not None:
        scale = MEAN_STEP if "jitter" in fields else 1.0
        return replace(sampler, step_size=scale * method["step_size"]), {}
    wanted = {name: method.get(name) for name in ("target_acceptance", "n_steps")}
    tuning = TuningSettings(**wanted, rounds=TUNING_ROUNDS)
    target = target.in_coordinates(sampler.coordinates(target.base))

    def tune() -> dict:
        rng = chain_generators(seed, *key, "pilot", chains=range(tuning.n_particles))
        tuner = StepSizeTuner(tuning, sampler)
        tuner.tune(rng, target, sampler.init(target, rng.standard_normal((target.dim,))))
        return {
            "step_size": tuner.step_size,
            "n_steps": tuner.n_steps,
            "pilot_acceptance": tuner.acceptance_rate,
            "pilot_gradients": tuner.n_gradient / tuning.n_particles,
        }

    identity = {"target": target.digest(), "sampler": repr(sampler), "tuning": repr(tuning)}
    identity |= {"seed": int(seed), "key": list(key)}
    arrays = remember(state_dir, "pilot", identity, tune)
    tuned = {name: value.item() for name, value in arrays.items()}
    return sampler.with_steps(tuned.pop("step_size"), tuned.pop("n_steps")), tuned


def _settings(target: Target, sampler: Sampler, method: dict, tuned: dict) -> xr.Dataset:
    """Settings used: largest step size, steps, cases of the fast part, and the stability numbers."""
    step = float(sampler.step_size) / (MEAN_STEP if hasattr(sampler, "jitter") else 1.0)
    used = {"step_size": step, "n_steps": int(sampler.n_steps), "dim": target.dim}
    used |= {"n_cases": len(target.model.y)} | tuned
    frequencies = getattr(target.base, "frequencies", None)
    if frequencies is not None:
        used["largest_angle"] = float(frequencies[-1] * step)
        used["smallest_angle"] = float(frequencies[0] * step * sampler.n_steps)
    if hasattr(sampler, "inner_steps"):
        used["fast_cases"] = target.base.parts[0].n_cases
        used["inner_angle"] = _fast_frequency(target) * step / sampler.inner_steps
    return xr.Dataset({name: ((), value) for name, value in used.items()})


def _fast_frequency(target: Target | MultinomialTarget) -> float:
    """Largest frequency omega_0 of U_0 at the mode, of the prior and the fast cases.

    By central differences of its gradient along the axes, in coordinates of unit mass.
    """
    base, step = target.base, 1e-4
    move = step * np.diag(base.frequencies)
    both = np.concatenate([move, -move])
    fast = base.parts[0].gradient(both) - target.sites_gradient(both)
    slope = (both - fast) * base.frequencies
    hessian = (slope[: len(move)] - slope[len(move) :]) / (2.0 * step)
    return float(np.sqrt(np.linalg.eigvalsh(0.5 * (hessian + hessian.T))[-1]))


def _seconds_per_iteration(program: ChainProgram, n_chains: int, seed: int, key: tuple) -> float:
    """CPU seconds of one iteration of one chain, n_chains in lockstep."""
    rng = chain_generators(seed, *key, "timing", chains=range(n_chains))
    carry = program.start(rng)

    def step() -> None:
        nonlocal carry
        carry, _ = program.advance(rng, carry, 0, TIMED_ITERATIONS)

    return seconds_per_step(lambda share: step, TIMED_SECONDS) / TIMED_ITERATIONS / n_chains
