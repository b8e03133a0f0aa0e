"""What all jobs beside peers share: effective samples, means, runs in a peer's environment, searches, rows.

A peer's script is a program of its own environment, `script PROBLEM.npz DRAWS.npz SETTINGS`, the settings as
JSON; it knows nothing of this package, and leaves draws (chain, draw, ..) by quantity with
``seconds_warmup`` (compilation, tuning and what else comes before the first draw that counts), of which
``seconds_compilation`` may stand apart, ``seconds_sampling`` and ``version``. Effective samples of both sides
are ArviZ's, by one function.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import psutil
import yaml
from arviz_stats.base import array_stats

FOLDER = Path(__file__).parent
ROWS, AGAIN = FOLDER / "peers.csv", FOLDER / "again.csv"
KEY = ["job", "problem", "quantity", "ours", "peer"]
RATE = "effective samples a second"
FEWEST = 100.0  # effective draws, below which a rate is said to be rough
FEWEST_MIXED = 10.0  # below which the peer has not got to know the posterior in its time
MEANS_DIFFER, NOT_MIXED = "means differ", "the peer did not mix"  # so that a ratio says nothing
APART = 4.0  # joint standard errors of the means, above which one of the two has not converged
# chains of a peer have a core each: LAPACK with two threads in both is up to 40 times slower
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Run(NamedTuple):
    """Draws (chain, draw, ..) by quantity, and seconds before and while they were drawn."""

    draws: dict[str, np.ndarray]
    warmup: float
    sampling: float
    version: str = ""
    compilation: float = 0.0  # inside ``warmup``


def columns_of(values: np.ndarray) -> list[np.ndarray]:
    """The scalar functions (chain, draw) of draws (chain, draw, ..)."""
    flat = values.reshape(*values.shape[:2], -1)
    return [flat[..., k] for k in range(flat.shape[-1])]


def sizes(values: np.ndarray) -> float:
    """Smallest bulk effective size of (chain, draw, ..)."""
    return float(
        min(
            array_stats.ess(column, chain_axis=0, draw_axis=1, method="bulk")
            for column in columns_of(values)
        )
    )


def means(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means of (chain, draw, ..), with Monte Carlo standard errors."""
    columns = columns_of(values)
    size = [array_stats.ess(own, chain_axis=0, draw_axis=1, method="mean") for own in columns]
    spread = np.array([own.std() for own in columns])
    return np.array([own.mean() for own in columns]), spread / np.sqrt(size)


def gap(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Largest difference of posterior means, in joint standard errors."""
    (mean, error), (other, other_error) = means(ours), means(theirs)
    return float(np.max(np.abs(mean - other) / np.hypot(error, other_error)))


def worst_rhat(run: Run) -> float:
    """Largest rank-normalised R-hat of all quantities."""
    return max(
        float(array_stats.rhat(column, chain_axis=0, draw_axis=1))
        for values in run.draws.values()
        for column in columns_of(values)
    )


def peer_run(
    folder: str | Path, script: str, problem: dict, settings: dict, limit: float | None = None
) -> Run | None:
    """A peer's script in the environment of ``folder``; None if it takes more than ``limit`` seconds."""
    with tempfile.TemporaryDirectory() as here:
        given, draws = Path(here) / "problem.npz", Path(here) / "draws.npz"
        np.savez(given, **problem)
        command = [f"{folder}/bin/python", str(FOLDER / script), str(given), str(draws)]
        try:
            subprocess.run(
                [*command, json.dumps(settings)], check=True, timeout=limit, env=environment()
            )
        except subprocess.TimeoutExpired:
            return None
        values = dict(np.load(draws))
    version, seconds = str(values.pop("version")), "seconds_"
    spent = [float(values.pop(seconds + name)) for name in ("warmup", "sampling")]
    compilation = float(values.pop(seconds + "compilation", 0.0))
    return Run(values, *spent, version, compilation)


def timed(
    model: object,
    n_draws: int,
    draws_of: Callable,
    sampler: object = None,
    n_chains: int = 2,
    block_size: int | None = None,
    workers: int = 2,
    clock: Callable[[], float] = time.perf_counter,
    seed: int = 11,
    predictive: bool = True,
) -> Run:
    """Our own run on two cores; a run of four draws times its pilot and the start of its workers."""
    import gpmcflow as gp

    def run(draws: int) -> tuple[float, object]:
        began = clock()
        how = gp.Execution(workers=workers, block_size=block_size, progress=False)
        tree = gp.sample(
            model, sampler, n_chains=n_chains, n_draws=draws, predictive=predictive, seed=seed,
            execution=how,
        )  # fmt: skip
        return clock() - began, tree

    before = min(run(4)[0] for _ in range(2))  # the first also loads compiled loops from disk
    total, tree = run(n_draws)
    return Run(draws_of(tree), before, total - before)


def environment() -> dict[str, str]:
    """Environment of a peer's process, in which our package is not."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | ONE_THREAD


def slowest_rate(run: Run) -> float:
    """Effective samples a second of sampling, of the slowest quantity."""
    return min(sizes(values) for values in run.draws.values()) / run.sampling


def search(
    trial: Callable[[dict], Run | None],
    settings: dict,
    stages: Iterable[tuple[str, list]],
    score: Callable[[Run], float] = slowest_rate,
) -> tuple[dict, float]:
    """The best of a peer's own settings, one key after another, and what the search took in seconds."""
    began, best, scores = time.perf_counter(), dict(settings), {}

    def of(candidate: dict) -> float:
        known = json.dumps(candidate, sort_keys=True)
        if known not in scores:
            run = trial(candidate)
            scores[known] = -np.inf if run is None else score(run)
            print(f"  search: {candidate}: {scores[known]:.3g}", flush=True)
        return np.nan_to_num(scores[known], nan=-np.inf)

    for key, options in stages:
        best = max(({**best, key: option} for option in options), key=of)
    return best, time.perf_counter() - began


def of_the_table(
    options: argparse.Namespace, job: int, problem: str, peer: str
) -> tuple[dict, float] | None:
    """In place of a search the settings of the committed row and the seconds that theirs took."""
    if not (options.known or options.again):
        return None
    rows = pd.read_csv(ROWS).query("job == @job and problem == @problem and peer == @peer")
    if rows.empty:
        raise SystemExit(f"{ROWS}: no row of {problem} beside {peer}; run it with a search")
    row = rows.iloc[0]
    pairs = (pair.split(" ", 1) for pair in row["settings"].split(", "))
    return {key: yaml.safe_load(value) for key, value in pairs}, float(row["search_seconds"])


def longer(lengths: dict, options: argparse.Namespace) -> dict:
    """Lengths of a peer's run, its seconds of sampling (draws, where it has none) times ``--longer``."""
    key = "seconds" if "seconds" in lengths else "draws"
    return lengths | {key: type(lengths[key])(lengths[key] * options.longer)}


def words(settings: dict) -> str:
    """Settings as the table shows them."""
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def busy_cores() -> float:
    """Cores that others use: those in use for a second in which we wait."""
    return psutil.cpu_percent(interval=1.0) / 100.0 * psutil.cpu_count()


def machine() -> str:
    """Processor and its cores."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if os.name == "posix" else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor()
    return f"{name}, {len(os.sched_getaffinity(0))} cores"


def stamp(load: float) -> dict:
    """Machine, versions and date of a row; the load is that of others, in cores, before the runs."""
    import gpmcflow

    versions = f"gpmcflow {gpmcflow.__version__}, numpy {np.__version__}, Python {platform.python_version()}"
    date = datetime.now(UTC).date().isoformat()
    return {"load": round(load, 1), "date": date, "machine": machine(), "versions": versions}


def compare(
    options: argparse.Namespace,
    names: dict,
    ours: Mapping[str, Callable[[], Run]],
    peer: Callable[..., Run | None],
    base: dict,
    stages: Iterable[tuple[str, list]],
    short: dict,
    long: dict,
    limit: float,
    goals: dict[str, float],
    why: str = "",
) -> None:
    """Rows of a job: the search over the peer's settings, our runs by label, the peer's at its best.

    ``names`` has job, problem and peer; ``peer(settings, limit)`` runs it, in a trial of the search with the
    lengths ``short`` and at most ``limit`` seconds, at last with ``long``.
    """
    known = of_the_table(options, names["job"], names["problem"], names["peer"])
    best, spent = known or search(lambda own: peer(own | short, limit), base, stages)
    load = busy_cores()
    mine = {label: run() for label, run in ours.items()}
    theirs = peer(best | longer(long, options))
    names = {**names, "settings": words(best), "search_seconds": spent, "load": load}
    rows = [
        row
        for label, run in mine.items()
        for row in rate_rows({**names, "ours": label}, run, theirs, goals, why)
    ]
    write_rows(rows, options.again)


def rate_rows(
    names: dict, ours: Run, peer: Run, goals: dict[str, float], why: str = ""
) -> list[dict]:
    """A row for each quantity both have: rates, ratios, and whether means agree.

    ``names`` has job, problem, ours, peer, settings, search_seconds, and the load before the runs.
    """
    rows, rhats = [], {"ours": worst_rhat(ours), "the peer": worst_rhat(peer)}
    for quantity, goal in goals.items():
        mine, theirs = ours.draws[quantity], peer.draws[quantity]
        size, peer_size = sizes(mine), sizes(theirs)
        rates = size / ours.sampling, size / (ours.sampling + ours.warmup)
        peer_rates = peer_size / peer.sampling, peer_size / (peer.sampling + peer.warmup)
        ratio, apart = rates[0] / peer_rates[0], gap(mine, theirs)
        notes = [f"{ratio / goal:.0%} of the goal"] if ratio < goal else []
        notes += [why] if why and (ratio < 1.0 or ratio < goal) else []
        if peer_size < FEWEST:
            notes.append(f"the peer has {peer_size:.0f} effective draws in its time")
        rows.append({
            **{key: names[key] for key in ("job", "problem", "ours", "peer", "settings")},
            "quantity": quantity, "unit": RATE, "version": peer.version,
            "ours_value": rates[0], "ours_all": rates[1], "ours_draws": size,
            "peer_value": peer_rates[0], "peer_all": peer_rates[1], "peer_draws": peer_size,
            "search_seconds": names["search_seconds"], "ratio": ratio,
            "ratio_all": rates[1] / peer_rates[1], "gap": apart,
            "not_converged": max(rhats, key=rhats.get) if apart > APART else "",
            "goal": goal, "reached": verdict(ratio, goal, apart, peer_size), "why": "; ".join(notes),
            **stamp(names["load"]),
        })  # fmt: skip
    return rows


def verdict(ratio: float, goal: float, apart: float, peer_draws: float = np.inf) -> str:
    """Of a ratio: yes or no; shown where there is no goal; neither where means are apart or draws too few."""
    if apart > APART:
        return MEANS_DIFFER
    if peer_draws < FEWEST_MIXED:
        return NOT_MIXED
    return "shown" if np.isnan(goal) else "yes" if ratio >= goal else "no"


def write_rows(rows: list[dict], again: bool = False) -> None:
    """Rows in place of those of the same key, in the order of jobs.

    Those of runs made ``again`` have a table of their own.
    """
    new, path = pd.DataFrame(rows), ROWS
    if again:
        new, path = new.drop(columns=["goal", "reached", "why", "search_seconds"]), AGAIN
    for name in new.select_dtypes("float"):
        new[name] = new[name].map(lambda value: float(f"{value:.6g}"))
    if path.exists():
        old = pd.read_csv(path, dtype={"why": str, "not_converged": str})
        known = old.set_index(KEY).index.isin(new.set_index(KEY).index)
        new = pd.concat([old[~known], new])
    new.sort_values("job", kind="stable").to_csv(path, index=False)
    print(
        pd.DataFrame(rows)[[*KEY, "ratio", "ratio_all", "gap", "reached"]].to_string(), flush=True
    )


def parser(doc: str, problems: Iterable[str]) -> argparse.ArgumentParser:
    """Options that all jobs have."""
    options = argparse.ArgumentParser(description=doc.splitlines()[0])
    logging.getLogger("gpmcflow").setLevel(logging.ERROR)  # runs of four draws warn of R-hat
    options.add_argument("--peers", default="peers", help="folder of the environments, by peer")
    options.add_argument(
        "--known",
        action="store_true",
        help="the peers' settings of the table, in place of a search",
    )
    options.add_argument(
        "--again",
        action="store_true",
        help="the same, and rows go to again.csv, not into the table",
    )
    options.add_argument(
        "--longer", type=float, default=1.0, metavar="FACTOR",
        help="of the seconds that a peer samples, on a slower machine; of the repeats of an evidence",
    )  # fmt: skip
    options.add_argument("--problems", nargs="+", default=list(problems), choices=list(problems))
    return options
