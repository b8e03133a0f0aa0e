"""Tables of the surrogate-slice study: efficiency, posterior means, and the verdict on what is printed.

They are made of parts, one for each finished run (of `READERS`), so that they can be rebuilt from parts that
were kept where the runs were not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.base import array_stats

from gpmcflow.diagnostics.autocorrelation import mean_and_error
from gpmcflow.errors import InputError
from gpmcflow.jobs.parts import make_part
from gpmcflow.replications.judgement import (
    PRECISION,
    TIME_PRECISION,
    Estimate,
    joined,
    number_cells,
    printed_row,
    verdict_row,
    verdict_table,
)
from gpmcflow.replications.surrogate_slice.claims import claim_rows, statement_rows
from gpmcflow.replications.surrogate_slice.comparisons import (
    FEW,
    SLOW,
    agreement_rows,
    exact_rows,
    posterior_rows,
)
from gpmcflow.replications.surrogate_slice.estimates import (
    COSTS,
    MethodRuns,
    ProblemRuns,
    log_ratio,
    problem_runs,
)
from gpmcflow.replications.surrogate_slice.settings import BASELINE, STUDY
from gpmcflow.storage import open_results, read_sidecar

# Effective sample size as R-CODA computes it: the spectral density at zero of a fitted autoregression.

FLAT = 1.5e-8  # relative deviation from a straight line below which a series counts as one


class SpectrumAtZero(NamedTuple):
    """Spectral density at frequency zero, and the order of the autoregression it comes from."""

    value: float
    order: int


def spectrum_at_zero(series: np.ndarray) -> SpectrumAtZero:
    """v N / (N - p - 1) / (1 - sum_j a_j)^2 of the AR(p) that AIC chooses for one chain (N,).

    Autocovariances have the divisor N; orders are 0 .. floor(10 log10 N), by Levinson's and Durbin's
    recursion; AIC = N log v + 2 p, the least order among equals. A series that is a straight line up to
    rounding has value 0 and order 0. Raises `InputError` for fewer than 4 draws or values not finite.

    Source: R 4.2 `ar.yw`, coda 0.19 `spectrum0.ar`.
    """
    x = _checked(series)
    n = len(x)
    centred = x - x.mean()
    time = np.arange(n) - 0.5 * (n - 1)
    line = centred - time * (time @ centred) / (time @ time)
    scale = max(float(np.abs(x).max()), float(np.std(centred)))
    if np.std(line) <= FLAT * scale:
        return SpectrumAtZero(0.0, 0)
    largest = min(int(np.floor(10.0 * np.log10(n))), n - 1)
    r = np.array([centred[: n - j] @ centred[j:] for j in range(largest + 1)]) / n
    best = _best_order(r, n)
    value = best[1] * n / (n - best[0] - 1) / (1.0 - best[2].sum()) ** 2
    return SpectrumAtZero(float(value), best[0])


def effective_size(series: np.ndarray) -> np.ndarray | float:
    """N s^2 / spectrum(0) of chains (..., N), shape (...); s^2 has the divisor N - 1, no cap at N.

    0 for a series that is a straight line. Source: Murray & Adams (2010), section 6; coda 0.19
    `effectiveSize`.
    """
    series = np.asarray(series, dtype=np.float64)
    if series.ndim == 1:
        spectrum = spectrum_at_zero(series).value
        return len(series) * float(series.var(ddof=1)) / spectrum if spectrum > 0.0 else 0.0
    if series.ndim == 0:
        _checked(series)
    flat = series.reshape(-1, series.shape[-1])
    return np.array([effective_size(row) for row in flat]).reshape(series.shape[:-1])


def _best_order(r: np.ndarray, n: int) -> tuple[int, float, np.ndarray]:
    """Order, innovation variance and coefficients with the least AIC."""
    a, v = np.empty(0), r[0]
    best, least = (0, v, a), n * np.log(v)
    for m in range(1, len(r)):
        kappa = (r[m] - a @ r[m - 1 : 0 : -1]) / v
        a = np.append(a - kappa * a[::-1], kappa)
        v = v * (1.0 - kappa * kappa)
        if not v > 0.0:  # an exact recurrence: no further order can be fitted
            break
        criterion = n * np.log(v) + 2.0 * m
        if criterion < least:
            best, least = (m, v, a), criterion
    return best


def _checked(series: np.ndarray) -> np.ndarray:
    x = np.asarray(series, dtype=np.float64)
    if x.ndim != 1 or len(x) < 4:
        raise InputError(
            f"effective_size: found shape {x.shape}; allowed: 4 or more draws of a chain on the last axis"
        )
    wrong = np.flatnonzero(~np.isfinite(x))
    if wrong.size:
        raise InputError(
            f"effective_size: value {wrong[0]} is {x[wrong[0]]}; give finite draws only"
        )
    return x


COUNTERS = ("n_hyp", "n_cov", "n_lik")


def replicate_part(path: str | Path) -> dict:
    """Problem, method, settings, origin and, of each chain, what `chain_estimates` gives."""
    tree = open_results(path)
    seconds = read_sidecar(path)["seconds"]
    series = traces(tree)
    stats = tree["sample_stats"].to_dataset()
    chains = [
        chain_estimates(series.isel(chain=k), stats.isel(chain=k), seconds) | {"latent_ess": size}
        for k, size in enumerate(latent_sizes(tree))
    ]
    for chain, share in zip(chains, seconds.get("pilot") or (), strict=False):
        chain["pilot_seconds"] = share
    values = {
        "n_cases": int(tree["observed_data"].sizes["case"]),
        "names": [str(name) for name in series["theta_dim"].values],
        "chains": chains,
    }
    part = make_part(STUDY, "replicate", path, tree.attrs, values)
    part["settings"] = {key: part["settings"][key] for key in ("problem", "method")}
    tree.close()
    return part


def latent_sizes(tree: xr.DataTree) -> list[float]:
    """Least effective size (R-CODA's) of the kept latent values of each chain; thinning bounds it."""
    latents = tree["posterior"]["latent"].values
    return [float(np.min(effective_size(chain.T))) for chain in latents]


def traces(tree: xr.DataTree) -> xr.Dataset:
    """Theta, T and the counters of every iteration kept: (chain, iteration).

    A gradient is one setting of theta, one covariance and one evaluation of the likelihood.
    """
    if "trace" in tree:
        every = tree["trace"].to_dataset()
    else:
        stats = tree["sample_stats"].to_dataset()
        every = stats.assign(theta=tree["posterior"].to_dataset()["theta"])
        every = every.rename({"draw": "iteration"})
    if "n_gradient" in every:
        every = every.assign(dict.fromkeys(COUNTERS, every["n_gradient"]))
    return every[["complete_log_likelihood", "theta", *COUNTERS]].load()


def chain_estimates(series: xr.Dataset, stats: xr.Dataset, seconds: dict) -> dict:
    """Effective sizes of T and theta (R-CODA's; of T also ArviZ's bulk), moments, sums of the counters.

    ``seconds`` are those of one iteration; the chain's are as many times these as it kept iterations.
    ``dense_seconds`` are those with a dense covariance: the chain's own, but for a Kronecker one. Of joint
    split HMC ``n_failed`` are trajectories.
    """
    T, theta = series["complete_log_likelihood"].values, series["theta"].values
    n = len(T)
    failed = "n_failed" if "n_failed" in stats else "diverging"
    return {
        "iterations": n,
        "ess": float(effective_size(T)),
        "ess_bulk": float(array_stats.ess(T[None], chain_axis=0, draw_axis=1, method="bulk")),
        **{name: int(series[name].values.sum()) for name in COUNTERS},
        "n_failed": int(stats[failed].values.sum()),
        "acceptance": float(stats["acceptance_rate"].values.mean()),
        "seconds": n * seconds["iteration"],
        "dense_seconds": n * (seconds["dense_iteration"] or seconds["iteration"]),
        "T_mean": float(T.mean()),
        "T_sd": float(T.std(ddof=1)),
        "theta_mean": theta.mean(0).tolist(),
        "theta_sd": theta.std(0, ddof=1).tolist(),
        "theta_ess": np.asarray(effective_size(theta.T)).tolist(),
    }


READERS = {f"{STUDY}/*/*/replicate_*.nc": replicate_part}


TABLE = "Figure 3"
SECOND_TABLE = "independent computation"
WANTED = 100.0  # effective samples
COLUMNS = [
    *("problem", "method", "rank", "advice", "seconds_to_100", "seconds_to_100_mcse"),
    *("times_the_best", "seconds_before", "slowest_per_second", "slowest_per_second_mcse"),
    *("T_per_second", "T_per_second_mcse", "latents_per_second", "latents_per_second_mcse"),
    *("covariances_per_slowest", "chains"),
]


def tables(parts: Iterable[dict], published: dict) -> dict[str, pd.DataFrame]:
    """Frames "verdict", "which_sampler", "efficiency" and "posterior" from parts and printed numbers.

    which_sampler: the plain methods of a problem by the time to 100 effective samples (`which_sampler_rows`).
    efficiency: one row a problem and method; per n_lik, n_cov, n_hyp and second the mean over the chains of
    effective samples of T (R-CODA's), its standard error, and the ratio to surr-site with its own.
    posterior: mean of each coordinate and of T by each method.
    """
    problems = problem_runs(parts)
    paper = paper_names(problems, published)
    printed = (_printed(name, problems, paper, published) for name in published["problems"])
    rows = [
        *itertools.chain.from_iterable(printed),
        *statement_rows(problems, paper),
        *claim_rows(problems, paper, published),
        *agreement_rows(problems, paper),
        *exact_rows(problems, published["exact"]),
    ]
    every = problems.values()
    return {
        "verdict": verdict_table(STUDY, rows),
        "which_sampler": pd.DataFrame(
            [row for p in every for row in which_sampler_rows(p)], columns=COLUMNS
        ),
        "efficiency": pd.DataFrame(
            [_efficiency_row(p, m) for p in every for m in p.methods.values()]
        ),
        "posterior": pd.DataFrame([row for p in every for row in posterior_rows(p)]),
    }


def paper_names(problems: dict[str, ProblemRuns], published: dict) -> dict[str, str]:
    """Which problems of the config are the paper's: {name in the config: name in the paper}.

    They have the paper's likelihood, number of cases and number of coordinates.
    """
    return {
        problem.name: name
        for name, printed in published["problems"].items()
        for problem in problems.values()
        if problem.likelihood == printed["likelihood"]
        and (problem.n_cases, len(problem.names)) == (printed["cases"], printed["coordinates"])
    }


def _efficiency_row(problem: ProblemRuns, runs: MethodRuns) -> dict:
    chains = pd.DataFrame(runs.chains)
    base = problem.plain(BASELINE)
    row = {
        "problem": problem.name,
        "method": runs.name,
        "representation": runs.representation,
        "plain": runs.plain,
        "variant": runs.variant,
        "n_cases": problem.n_cases,
        "chains": len(chains),
        "iterations": runs.chains[-1]["iterations"],
    }
    row["ess"], row["ess_mcse"] = mean_and_error(chains["ess"])
    row |= {"ess_least": chains["ess"].min(), "ess_bulk": chains["ess_bulk"].mean()}
    for cost in COSTS:
        name = f"per_{cost.removesuffix('s')}"
        row[name], row[f"{name}_mcse"] = mean_and_error(runs.per(cost))
        ratio = (log_ratio(runs, base, cost) if base is not None else Estimate(math.nan)).exp()
        row[f"{name}_ratio"] = ratio.centre
        row[f"{name}_ratio_mcse"] = 0.0 if runs is base else ratio.error
    for name in ("n_hyp", "n_cov", "n_lik"):
        row[f"{name}_per_iteration"] = runs.mean_of(name, "iterations").centre
    row["seconds_per_covariance"] = runs.mean_of("seconds", "n_cov").centre
    row["acceptance"] = chains["acceptance"].mean()
    failed, asked = chains["n_failed"].sum(), chains["n_hyp"].sum()
    row["failed_share"] = failed / asked if asked else math.nan
    return row


def _printed(
    name: str, problems: dict[str, ProblemRuns], paper: dict[str, str], published: dict
) -> list[dict]:
    """Rows of one problem of the paper: printed numbers, what follows from them, a second opinion."""
    printed = published["problems"][name]
    here = [problems[ours] for ours, theirs in paper.items() if theirs == name]
    if not here:
        why = f"no run of {name} as in the paper: {printed['cases']} cases, {printed['likelihood']}"
        return [
            verdict_row(row=name, verdict="missing", why=why, **cells)
            for cells, _ in _cells(printed)
            if cells["table"] == TABLE
        ]
    rows = []
    for problem in here:
        runs = problem.plain(BASELINE)
        row = name if len(here) == 1 else f"{name}: {problem.name}"
        for cells, quantity in _cells(printed):
            judged = runs and _judged(runs, cells, quantity, published)
            reasons = printed.get("reasons", {}) if cells["table"] == TABLE else {}
            missing = f"{problem.name}: no {BASELINE} as in the paper"
            reason = reasons.get("_".join(quantity), "")
            rows.append(printed_row(cells | {"row": row}, judged, missing, reason))
    return rows


def _cells(printed: dict) -> list[tuple[dict, tuple[str, str]]]:
    """Cells of every row of one problem with its quantity: one counter over another."""
    values = printed["effective_samples"]
    rows = []
    for cost in ("n_lik", "n_cov", "seconds"):
        cells = {"column": f"{BASELINE} per {COSTS[cost]}", "printed": values[cost]}
        rows.append(({"table": TABLE, "unit": "effective samples", **cells}, ("ess", cost)))
    for top, what in (("n_lik", "likelihood evaluations"), ("seconds", "seconds")):
        implied = float(f"{values['n_cov'] / values[top]:.2g}")
        cells = {"column": f"{what} per covariance construction", "recomputed": implied}
        unit = "s" if top == "seconds" else ""
        rows.append(({"table": TABLE, "unit": unit, **cells}, (top, "n_cov")))
    for key, value in printed["independent"].items():
        cells = {"table": SECOND_TABLE, "column": f"{BASELINE}: {key}", "printed": value}
        rows.append((cells, tuple(key.split(" / "))))
    return rows


def _judged(runs: MethodRuns, cells: dict, quantity: tuple[str, str], published: dict) -> dict:
    """Ours beside a printed number: within a factor of it, with what the error leaves open."""
    top, bottom = quantity
    ours = runs.mean_of(top, bottom)
    note = f"{len(runs.chains)} chains of {runs.chains[-1]['iterations']} iterations"
    if "seconds" in quantity:
        per_covariance = runs.mean_of("seconds", "n_cov").centre
        why = f"CPU seconds of one core; {per_covariance:.2g} s a covariance construction; {note}"
        return ours.cells() | {"verdict": "machine-dependent", "why": why}
    if quantity == ("ess", "n_cov"):
        per_setting = runs.mean_of("ess", "n_hyp").centre
        note += f"; {per_setting:.2g} per setting of theta, moves of c counted"
    second = cells["table"] == SECOND_TABLE
    kind = "counts" if top != "ess" else "independent" if second else "printed"
    precision = PRECISION if kind == "counts" else TIME_PRECISION
    value = cells.get("printed") or cells["recomputed"]
    judged = number_cells(ours, value, published["tolerances"][kind], precision=precision)
    return judged | {"why": joined(judged["why"], note)}


def which_sampler_rows(problem: ProblemRuns) -> list[dict]:
    """The plain methods of a problem by CPU seconds to 100 effective samples of what mixes slowest.

    That is the least effective size (R-CODA's) among T, the coordinates of theta and the latent values, its
    mean over the chains; the time is that of burn-in, or of the pilot, and of the iterations. There is no
    time for a method with fewer than 30 effective samples in all chains, and it is rough below 100 a chain.
    """
    rows = [_sampler_row(problem, runs) for runs in problem.all(plain=True)]
    rows.sort(key=lambda row: (math.isnan(row["seconds_to_100"]), row["seconds_to_100"]))
    for k, row in enumerate(rows):
        times = row["seconds_to_100"] / rows[0]["seconds_to_100"]
        row |= {"rank": k + 1, "times_the_best": times}
        if not row["advice"].startswith("do not"):
            row["advice"] = ("use" if times < 2.0 else "slower") + row["advice"]
    return rows


def _sampler_row(problem: ProblemRuns, runs: MethodRuns) -> dict:
    chains = pd.DataFrame(runs.chains)
    least = [  # what a chain mixes slowest in, latent values if they are known
        min(chain["ess"], chain.get("latent_ess", math.inf), *chain["theta_ess"])
        for chain in runs.chains
    ]
    sizes = {"slowest": np.array(least)}
    for name, column in (("T", "ess"), ("latents", "latent_ess")):
        sizes[name] = chains.get(column, pd.Series(math.nan, chains.index)).to_numpy()
    rates = {}
    for name, size in sizes.items():
        rate = f"{name}_per_second"
        rates[rate], rates[f"{rate}_mcse"] = mean_and_error(size / chains["seconds"].to_numpy())
    # the pilot and burn-in come before the first draw that is kept
    burn_in = chains["seconds"] / chains["iterations"] * (runs.settings.get("warmup") or 0)
    before = float((burn_in + chains.get("pilot_seconds", 0.0)).mean())
    row = {"problem": problem.name, "method": runs.name, "seconds_before": before, **rates}
    row["chains"], total = len(chains), sizes["slowest"].sum()
    if total < FEW:
        row["advice"] = f"do not use: {total:.2g} effective samples in all chains"
        unknown = ("seconds_to_100", "seconds_to_100_mcse", "covariances_per_slowest")
        return row | dict.fromkeys(unknown, math.nan)
    mean, rate = total / len(chains), rates["slowest_per_second"]
    row["advice"] = f"; rough: {mean:.2g} effective samples a chain" if mean < SLOW else ""
    row["seconds_to_100"] = before + WANTED / rate
    row["seconds_to_100_mcse"] = WANTED * rates["slowest_per_second_mcse"] / rate**2
    row["covariances_per_slowest"] = float(chains["n_cov"].sum() / total)
    return row
