"""Runs of the fast-likelihood paper, and their checks."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import multivariate_normal

from gpmcflow.approximations.stand_ins import JITTER, Nystrom
from gpmcflow.diagnostics.autocorrelation import MIN_DRAWS, _autocorrelation, _checked, _moved
from gpmcflow.errors import InputError
from gpmcflow.execution import Execution, code_digest, pin_blas, remember, require_memory
from gpmcflow.jobs.job import Job
from gpmcflow.jobs.problems import limit_bytes
from gpmcflow.likelihoods import Gaussian
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.log_density import LogDensity
from gpmcflow.models.regression_density import RegressionDensity
from gpmcflow.replications.fast_likelihood.costs import (
    eigen_seconds,
    least_costs,
    mean_calls,
    method_seconds,
    nominal_equivalents,
)
from gpmcflow.replications.fast_likelihood.data import STUDY, Problem, generator, make_problem
from gpmcflow.replications.fast_likelihood.methods import Bench, Run, settings_of, tuned_name
from gpmcflow.replications.fast_likelihood.pilots import DensityPilot, find_widths
from gpmcflow.samplers.sampling import sample
from gpmcflow.storage import load_results, standard_attributes, with_attributes


def log_ratio_sd(exact: LogDensity, stand_in: LogDensity, thetas: np.ndarray) -> float:
    """D = sd(log pi - log pi*) over draws thetas (draw, d) of pi; inf where either is -inf.

    Constants do not count. Below about 1 a stand-in is useful: nearly independent proposals from it are
    accepted with probability 2 Phi(-D / sqrt 2). Raises `InputError` for fewer than two draws. Source:
    Wang & Neal (2013), section 4.
    """
    thetas = np.asarray(thetas, dtype=np.float64)
    if thetas.ndim != 2 or len(thetas) < 2:
        raise InputError(
            f"log_ratio_sd: thetas has shape {thetas.shape}; allowed: (draw, d), 2 draws or more"
        )
    values = np.array([(exact(theta), stand_in(theta)) for theta in thetas])
    if not np.all(np.isfinite(values)):
        return float("inf")
    return float((values[:, 0] - values[:, 1]).std(ddof=1))


# Autocorrelation times of one short chain: Geyer's initial monotone sequence, and a run rule.

RUN = 5  # consecutive lags that are not significant end the sum of the run rule
LIMIT = 1.96


def initial_monotone_sequence_time(series: np.ndarray) -> np.ndarray:
    """Autocorrelation time tau = 2 sum_j G_j - 1 of each series, in draws.

    G_j = rho_(2j) + rho_(2j+1), up to before the first G_j <= 0, each replaced by the least of those
    so far: for a reversible chain the G_j are positive and decrease. White noise of 1334 draws gives
    1.04 in the mean, with sd 0.08.

    ``series`` is (..., N); returns (...). A chain that never moved has no autocorrelation time: inf.
    Raises `InputError` for fewer than 4 draws and for values that are not finite.

    Source: Geyer (1992), section 3.3.
    """
    series = _checked(series, MIN_DRAWS, "initial_monotone_sequence_time")
    n_draws = series.shape[-1]
    rho = _autocorrelation(series, n_draws - 1)
    pairs = rho[..., : n_draws // 2 * 2].reshape(*series.shape[:-1], -1, 2).sum(axis=-1)
    positive = np.logical_and.accumulate(pairs > 0.0, axis=-1)
    least = np.minimum.accumulate(pairs, axis=-1)
    tau = 2.0 * np.where(positive, least, 0.0).sum(axis=-1) - 1.0
    return np.where(_moved(series), np.maximum(tau, 1.0 / np.log10(n_draws)), np.inf)


def run_rule_time(series: np.ndarray) -> np.ndarray:
    """Autocorrelation time tau = 1 + 2 sum_(i <= k) rho_i of each series, in draws.

    k is the last lag with |rho_i| >= 1.96 / sqrt(N) before the first 5 consecutive lags that are
    below it: "k such that later lags are not significantly different from 0" made a rule.

    ``series`` is (..., N); returns (...); inf for a chain that never moved. Raises `InputError` for
    fewer than 4 draws and for values that are not finite. Source: Wang & Neal (2013), eq. 44.
    """
    series = _checked(series, MIN_DRAWS, "run_rule_time")
    n_draws = series.shape[-1]
    rho = _autocorrelation(series, n_draws - 1)[..., 1:]
    significant = np.abs(rho) >= LIMIT / np.sqrt(n_draws)
    flat, out = significant.reshape(-1, n_draws - 1), np.empty(rho[..., 0].size)
    for row, (marks, values) in enumerate(zip(flat, rho.reshape(flat.shape), strict=True)):
        last = -1
        for lag in np.flatnonzero(marks):
            if lag - last > RUN:
                break
            last = lag
        out[row] = 1.0 + 2.0 * values[: last + 1].sum()
    tau = np.maximum(out.reshape(series.shape[:-1]), 1.0 / np.log10(n_draws))
    return np.where(_moved(series), tau, np.inf)


# Claims in words that one computation settles: Nystrom's two forms, and noise that differs by case.

CASES = 60  # the checks need no more
COLUMNS = 12


def algebra_checks(bench: Bench) -> dict[str, float]:
    """Numbers behind claims 2 and 6, from the first cases of a data set.

    ``forms``: largest difference between Nystrom's matrix by eigenvectors of K_mm (eqs. 40-41) and by
    its Cholesky factor (42), over the largest entry. ``not_orthonormal``: largest entry of B'B - I of
    the eigenvectors' extension: far from 0, so that eq. 37 cannot take them. ``general_noise``:
    difference of the low-rank log likelihood with noise variances that differ from case to case (32,
    38) from dense algebra.
    """
    problem = bench.problem
    few = problem.model.take(np.arange(min(CASES, problem.model.n_cases)))
    theta = problem.guess
    columns = np.arange(min(COLUMNS, few.n_cases - 1))
    full = few.full(theta)
    K = few.cross_covariance(full, few.X)
    core, cross = K[np.ix_(columns, columns)], K[:, columns]
    core = core + 1e-6 * np.trace(core) / len(core) * np.eye(len(core))  # both forms take the same
    values, vectors = np.linalg.eigh(core)
    n, m = cross.shape
    extended = np.sqrt(m / n) * (cross @ vectors) / values
    by_eigen = (extended * (values * n / m)) @ extended.T
    B = np.linalg.solve(np.linalg.cholesky(core), cross.T).T
    forms = np.abs(by_eigen - B @ B.T).max() / np.abs(K).max()
    gram = extended.T @ extended
    noise = np.exp(theta[1]) * np.sqrt(np.linspace(0.5, 2.0, few.n_cases))
    general = GPModel(few.X, few.y, few.covariance, Gaussian(noise), jitter=0.0)
    at = full[np.sort(few.free)[:-1]]  # all but the noise level, in the order of a `GPModel`
    stand_in = Nystrom(general, columns, constant="inside")
    core = K[np.ix_(columns, columns)]
    core = core + JITTER * np.trace(core) / len(core) * np.eye(len(core))
    C = K[:, columns] @ np.linalg.solve(core, K[columns]) + np.diag(noise**2)
    difference = abs(
        stand_in.log_likelihood(at) - multivariate_normal(np.zeros(len(C)), C).logpdf(few.y)
    )
    return {
        "forms": float(forms),
        "not_orthonormal": float(np.abs(gram - np.eye(m)).max()),
        "general_noise": float(difference),
    }


# The fast-likelihood study of Wang & Neal (2013): tuning, and all methods on one data set.

log = logging.getLogger(__name__)
LAYERS = 3  # densities of the method with the most of them
QUALITY_DRAWS = 60
TUNING_COLUMNS = ["method", "setting", "replicate", "tau", "equivalents", "cost", "acceptance"]
STATISTICS = ["sum_log_likelihood", "lp", "acceptance_rate", "accepted", "diverging"]
COUNTERS = ["n_calls", "n_gradients", "n_failed"]  # by density
LONGER_SEGMENTS = 10  # a draw of one chain of a few numbers is small: segments are longer here
MATRICES = 8  # (n, n) float64 arrays alive at once


def last_two_thirds(series: np.ndarray) -> np.ndarray:
    """The last two thirds of the iterations (..., N), from which the paper's estimates are."""
    return series[..., series.shape[-1] // 3 :]


def make_bench(
    settings: dict, replicate: int, seed: int, purpose: str = "", state_dir: Any = None
) -> Bench:
    """Return data set ``replicate`` of a type with its subset and its pilot, which is remembered.

    ``purpose`` tells the data for tuning from those of the results. Streams of data, subset, pilot and
    chains are separate; all methods see the same data.
    """
    problem = make_problem(settings, replicate, seed, f"{purpose}data")
    key = (str(settings["data"]), replicate)
    rng = generator(seed, f"{purpose}subset", *key)
    n = problem.model.n_cases
    order, columns = rng.permutation(n), rng.permutation(n)
    identity = {"data": problem.model.digest(), "pilot": settings["pilot"], "seed": int(seed)}
    identity |= {"key": [purpose, *key]}

    def find() -> dict:
        sweeps = settings["pilot"]
        widths = find_widths(
            RegressionDensity(problem.model),
            problem.guess,
            generator(seed, f"{purpose}pilot", *key),
            n_sweeps=sweeps,
            n_dropped=sweeps // 6,
        )
        return {name: getattr(widths, name) for name in ("draws", "values", "sd", "n_calls")}

    arrays = remember(state_dir, f"{purpose}pilot_{replicate}", identity, find)
    pilot = DensityPilot(arrays["draws"], arrays["values"], arrays["sd"], arrays["n_calls"].item())
    stream = lambda name: generator(seed, f"{purpose}{name}", *key)  # noqa: E731
    return Bench(problem, pilot, settings["sizes"], order, columns, stream)


def tune_job(job: Job) -> tuple[xr.DataTree, dict]:
    """`tune` for the type of a job."""
    run = {"seed": job.seed, "execution": job.execution, "state_dir": job.state_dir()}
    return tune(job.wildcards.type, **job.settings, **run)


def replicate_job(job: Job) -> tuple[xr.DataTree, dict]:
    """`replicate_runs` for the data set of a job."""
    replicate, tuned = int(job.wildcards.replicate), load_results(job.input.tuning)
    settings = job.settings["settings"]
    return replicate_runs(job.wildcards.type, settings, replicate, tuned, **job.run_settings())


def tune(
    name: str, settings: dict, tuning: dict, *, seed: int, execution: dict, state_dir: Any = None
) -> tuple[xr.DataTree, dict]:
    """Choose each method's setting on data sets of their own: widths, or leapfrog steps of HMC.

    Every method gets the same: all its settings, on each tuning data set, for as many iterations. Of
    these the one of least cost is taken, in the geometric mean: the autocorrelation time of the log
    likelihood times exact evaluations an iteration. Those of stand-ins count at their share of
    floating-point operations, so that the choice does not depend on a clock. All settings of a method
    share its pilot. Group ``runs`` (run) and ``chosen`` (method), and
    ``checks`` of claims in words.
    """
    pin_blas()
    methods = dict.fromkeys(map(tuned_name, settings["methods"]))
    methods = [method for method in methods if len(settings_of(method)) > 1]
    rows, benches = [], []
    for replicate in range(tuning["replicates"]):
        bench = make_bench(settings, replicate, seed, "tuning ", state_dir)
        benches.append(bench)
        for method, setting in ((m, setting) for m in methods for setting in settings_of(m)):
            run, key = bench.run(method, setting), (name, method, setting, replicate, "tuning")
            tree = _chain(run, key, tuning["iterations"], seed, execution, state_dir, quiet=True)
            stats = tree["sample_stats"].to_dataset()
            series = last_two_thirds(stats["sum_log_likelihood"].values[0])
            tau = float(initial_monotone_sequence_time(series))
            equivalents = nominal_equivalents(run, stats, bench)
            accepted = float(stats["acceptance_rate"].mean())
            costs = (tau, equivalents, tau * equivalents, accepted)
            rows.append((method, setting, replicate, *costs))
        log.info("%s: data set %d of %d for tuning", name, replicate + 1, tuning["replicates"])
    runs = pd.DataFrame(rows, columns=TUNING_COLUMNS)
    chosen, bench = least_costs(runs), benches[0]
    settings_chosen = np.array([chosen[method] for method in methods], dtype=str)
    groups = {
        "runs": xr.Dataset({c: ("run", np.array(runs[c].to_list())) for c in runs if rows}),
        "chosen": xr.Dataset(
            {"setting": ("method", settings_chosen)}, {"method": np.array(methods, dtype=str)}
        ),
        "checks": xr.Dataset({k: ((), v) for k, v in algebra_checks(bench).items()}),
    }
    attributes = _attributes(name, settings, bench.problem, seed, tuning=tuning)
    facts = {"code": code_digest(__name__)}
    return with_attributes(xr.DataTree.from_dict(groups), attributes), facts


def replicate_runs(
    name: str,
    settings: dict,
    replicate: int,
    tuned: xr.DataTree,
    *,
    seed: int,
    execution: dict,
    state_dir: Any = None,
    memory_limit_gb: float | None = None,
) -> tuple[xr.DataTree, dict]:
    """One chain of every method on one data set, each at the setting that tuning chose.

    Groups: ``posterior`` (theta: method, chain, draw, theta_dim); ``sample_stats`` (method, chain,
    draw: sum_log_likelihood, lp, acceptance_rate, accepted, and n_calls, n_gradients, n_failed by
    density); ``methods`` (method: autocorrelation times by the initial monotone sequence and by the
    run rule, acceptance, calls per iteration, pilot, setting, D = sd(log pi - log pi*) of each stand-in
    on the baseline's draws). The sidecar of a data set that is timed has CPU seconds: of an iteration of each
    method, and of a call of each density.
    """
    pin_blas()
    n = settings["n"]
    require_memory(8 * MATRICES * n * n, limit_bytes(memory_limit_gb), f"{name}, n = {n}")
    bench = make_bench(settings, replicate, seed, "", state_dir)
    chosen = tuned["chosen"].to_dataset()
    chosen = dict(zip(chosen["method"].values, chosen["setting"].values, strict=True))
    trees, rows, seconds, draws = [], [], {}, bench.pilot.draws
    for method in settings["methods"]:
        setting = str(chosen.get(tuned_name(method), ""))
        run = bench.run(method, setting)
        key = (name, method, replicate)
        tree = _chain(run, key, settings["iterations"], seed, execution, state_dir)
        if method == "standard":
            draws = tree["posterior/theta"].values[0]
        trees.append(tree)
        rows.append(_method_row(setting, run, tree, bench, draws))
        if settings["timed"]:
            seconds[method] = method_seconds(run, bench)
    groups = _groups(settings["methods"], trees, rows)
    if settings["timed"]:
        seconds["eigen_exact"] = eigen_seconds(bench)
    attributes = _attributes(name, settings, bench.problem, seed, replicate=replicate)
    facts = {"seconds": seconds, "code": code_digest(__name__)}
    return with_attributes(xr.DataTree.from_dict(groups), attributes), facts


def _chain(
    run: Run,
    key: tuple,
    iterations: int,
    seed: int,
    execution: dict,
    state_dir: Any,
    quiet: bool = False,
) -> xr.DataTree:
    """One chain, in memory; its segments are below the state folder of the job."""
    folder = None if state_dir is None else Path(state_dir) / "-".join(map(str, key))
    return sample(
        run.densities,
        run.sampler,
        n_chains=1,
        n_draws=iterations,
        n_warmup=0,
        start=run.start,
        predictive=False,
        seed=seed,
        key=(STUDY, *key),
        execution=Execution(
            segment_length=LONGER_SEGMENTS * int(execution["segment_length"]),
            state_dir=folder,
            progress=False if quiet else ": ".join(map(str, key[:2])),
        ),
    ).load()


def _method_row(
    setting: str, run: Run, tree: xr.DataTree, bench: Bench, draws: np.ndarray
) -> xr.Dataset:
    stats = tree["sample_stats"].to_dataset()
    series = last_two_thirds(stats["sum_log_likelihood"].values[0])
    theta = last_two_thirds(tree["posterior/theta"].values[0].T)
    stand_ins = run.densities[1:]
    chosen = draws[np.linspace(0, len(draws) - 1, min(QUALITY_DRAWS, len(draws))).astype(int)]
    quality = [log_ratio_sd(bench.exact.fresh(), d.fresh(), chosen) for d in stand_ins]
    pad = [np.nan] * (LAYERS - len(run.densities))
    m = [len(d.columns) if isinstance(d, Nystrom) else _cases(d) for d in stand_ins]
    return xr.Dataset(
        {
            "setting": setting,
            "tau": float(initial_monotone_sequence_time(series)),
            "tau_run_rule": float(run_rule_time(series)),
            "acceptance": float(stats["acceptance_rate"].mean()),
            "mean_log_likelihood": float(series.mean()),
            "sd_log_likelihood": float(series.std(ddof=1)),
            "theta_mean": ("theta_dim", theta.mean(axis=1)),
            "theta_sd": ("theta_dim", theta.std(axis=1, ddof=1)),
            "theta_tau": ("theta_dim", initial_monotone_sequence_time(theta)),
            "calls": ("density", [*mean_calls(stats), *pad]),
            "gradients": float(stats["n_gradients"].values[..., 0].mean()),
            "pilot_calls": run.pilot_calls,
            "pilot_gradients": run.pilot_gradients,
            "D": ("density", [0.0, *quality, *pad]),
            "m": ("density", [bench.problem.model.n_cases, *m, *pad]),
        },
        {"theta_dim": tree["posterior"]["theta_dim"], "density": np.arange(LAYERS)},
    )


def _cases(density: Any) -> float:
    """Cases a stand-in uses; a fitted density has none."""
    return 0.0 if density.model is None else float(density.model.n_cases)


def _groups(
    methods: list[str], trees: list[xr.DataTree], rows: list[xr.Dataset]
) -> dict[str, xr.Dataset]:
    """What the chains hold, of all methods; counters of densities that a method lacks are 0."""
    stats = []
    for tree in trees:
        one = tree["sample_stats"].to_dataset()[[*STATISTICS, *COUNTERS]]
        missing = LAYERS - one.sizes["density"]
        one = one.drop_vars("density", errors="ignore").pad(density=(0, missing), constant_values=0)
        stats.append(one.assign_coords(density=np.arange(LAYERS)))
    groups = {
        "posterior": [tree["posterior"].to_dataset()[["theta"]] for tree in trees],
        "sample_stats": stats,
        "methods": rows,
    }
    names = xr.DataArray(np.array(methods, dtype=str), dims="method", name="method")
    return {group: xr.concat(datasets, names).drop_attrs() for group, datasets in groups.items()}


def _attributes(name: str, settings: dict, problem: Problem, seed: int, **more: Any) -> dict:
    return standard_attributes(
        settings={"type": settings, **more},
        seed=seed,
        data_checksum=problem.checksum,
        study=STUDY,
        problem=name,
    )
