"""Job 1: log evidence at fixed hyperparameters, beside BlackJAX's tempered SMC and PyMC's `sample_smc`.

    python -m benchmarks.peers.evidence --peers FOLDER [--problems digits-easy digits-hard usps-a]

A rate is the inverse of variance x second, the variance that of estimates over seeds. Ours begin with the
fit of `gp.approximate`; `gp.log_evidence` with its defaults, and by sequential Monte Carlo. A first run of
eight particles, with the EP fit, the pilot and the start of workers, is our warm-up; of the runs that follow
the share of gradients of the particles counts. Compilation is the peers' warm-up. The means over seeds are
compared in joint standard errors. PyMC moves whitened latents by independent proposals.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

import gpmcflow as gp

from .common import (
    APART,
    FOLDER,
    busy_cores,
    environment,
    of_the_table,
    parser,
    peer_run,
    stamp,
    verdict,
    words,
    write_rows,
)

# data set, log length scale, log signal sd, label, the peer's seconds, repeats of ours and theirs
PROBLEMS = {
    "digits-easy": ("digits-3v5", 1.5, 0.0, "digits, easy", 3.0, 8, 10),
    "digits-hard": ("digits-3v5", 1.0, 4.0, "digits, hard", 3.0, 8, 10),
    "usps-a": ("usps-3v5", 4.85, 5.1, "USPS A, n = 767", 8.0, 6, 6),
}
# by route the chains of a block, half of all: particles of annealing, replicates of sequential Monte Carlo
ROUTES = {
    "gp.log_evidence": ("annealing", 128),
    "gp.log_evidence, SMC": ("sequential_monte_carlo", 4),
}
WHY = {  # of a goal that is missed
    "digits-hard": "the EP fit that ours begins at is far from the posterior: importance weights have an "
    "effective size of 15 in 10,000, on the easy ones of 8,860",
}
GOAL, UNIT = 20.0, "1 / (variance x second)"
PYMC = ("digits-easy",)  # in the others independent proposals do not reach the posterior
JITTER = 1e-6


def ours(model: gp.GPModel, route: str, block_size: int, repeats: int) -> dict:
    """Estimates over seeds; seconds of a first run of few particles, and mean ones of the particles."""

    def run(seed: int, pool: object, n_particles: int | None = None) -> tuple[float, float]:
        began = time.perf_counter()
        fit = gp.approximate(model)
        fitting = time.perf_counter() - began
        size = {} if n_particles is None else {"n_particles": n_particles}
        blocks = min(block_size, (n_particles or 256) // 2)
        how = gp.Execution(scheduler=pool, block_size=blocks, progress=False)
        tree = gp.log_evidence(fit, route, seed=seed, execution=how, **size)
        evidence, spent = tree["evidence"], time.perf_counter() - began - fitting
        gradients, pilot = float(evidence["n_gradient"]), float(evidence["n_gradient_pilot"])
        return float(evidence["log_evidence"]), spent * gradients / (gradients + pilot)

    began = time.perf_counter()
    with gp.workers("processes", 2) as pool:
        run(0, pool, 8)
        before = time.perf_counter() - began
        values, seconds = zip(*(run(seed, pool) for seed in range(1, repeats + 1)), strict=True)
    return {"values": values, "warmup": before, "sampling": float(np.mean(seconds))}


def blackjax(
    model: gp.GPModel,
    name: str,
    folder: str,
    known: tuple[dict, float] | None,
    reference: float,
    repeats: int,
) -> dict:
    """The peer's estimates with the best of its settings, or with those that are known."""
    _, log_length, log_sd, _, seconds, _, _ = PROBLEMS[name]
    ends = np.array([log_length, log_sd, 0.0])
    with tempfile.TemporaryDirectory() as here:
        problem, result = Path(here) / "problem.npz", Path(here) / "result.json"
        np.savez(
            problem, X=model.X, y=model.y, likelihood="probit", jitter=JITTER, low=ends, high=ends,
            reference=reference,
        )  # fmt: skip
        command = [f"{folder}/bin/python", str(FOLDER / "blackjax_tempered.py"), str(problem)]
        command += [str(result), f"--seconds={seconds}", f"--repeats={repeats}", "--cores", "2"]
        command += ["--setting", json.dumps(known[0])] if known else []
        subprocess.run(command, check=True, env=environment())
        theirs = json.loads(result.read_text())
    if known:
        theirs["search_seconds"] = known[1]
    return theirs | {
        "warmup": theirs["compilation"], "sampling": theirs["seconds"],
        "settings": words(theirs["setting"] | {"particles": theirs["particles"]}),
    }  # fmt: skip


def pymc(
    model: gp.GPModel, name: str, folder: str, known: tuple[dict, float] | None
) -> dict | None:
    """PyMC's `sample_smc` on whitened latents; its one setting is the correlation that ends a mutation.

    None if it does not end in its time.
    """
    began, least, settings = time.perf_counter(), {}, {"sampler": "smc", "cores": 2}
    ends = np.array([*PROBLEMS[name][1:3], 0.0])
    problem = {
        "X": model.X,
        "y": model.y,
        "likelihood": "probit",
        "jitter": JITTER,
        "low": ends,
        "high": ends,
    }
    for correlation in () if known else (0.01, 0.001):
        own = settings | {"draws": 1000, "correlation_threshold": correlation, "repeats": 2}
        run = peer_run(folder, "pymc_peers.py", problem, own, limit=40.0)
        least[correlation] = np.inf if run is None else run.sampling * run.draws["values"].var()
    if known:
        own, spent = known
    else:
        spent, best = time.perf_counter() - began, min(least, key=least.get)
        own = settings | {"draws": 2000, "correlation_threshold": best, "repeats": 3}
    run = peer_run(folder, "pymc_peers.py", problem, own, limit=120.0)
    if run is None:
        print(f"{name}: PyMC took more than its time, left out", flush=True)
        return None
    return {
        "values": run.draws["values"].ravel(), "warmup": run.warmup, "sampling": run.sampling,
        "search_seconds": spent, "settings": words(own), "version": run.version,
    }  # fmt: skip


def row(name: str, label: str, mine: dict, peer: str, theirs: dict, load: float) -> dict:
    """A row of the table."""
    rates, spreads, centres = [], [], []
    for side in (mine, theirs):
        values = np.asarray(side["values"])
        variance = values.var(ddof=1)
        total = side["sampling"] + side["warmup"]
        rates.append((1.0 / (variance * side["sampling"]), 1.0 / (variance * total)))
        spreads.append(np.sqrt(variance / len(values)))
        centres.append(values.mean())
    (rate, rate_all), (peer_rate, peer_all) = rates
    ratio, apart = rate / peer_rate, abs(centres[0] - centres[1]) / np.hypot(*spreads)
    why = (
        f"estimates {centres[0]:.2f} and {centres[1]:.2f}, spread over seeds "
        f"{spreads[0] * len(mine['values']) ** 0.5:.2g} and {spreads[1] * len(theirs['values']) ** 0.5:.2g}"
    )
    if ratio < GOAL:
        why = "; ".join(filter(None, (f"{ratio / GOAL:.0%} of the goal", WHY.get(name), why)))
    return {
        "job": 1, "problem": PROBLEMS[name][3], "quantity": "log evidence", "unit": UNIT,
        "ours": label, "peer": peer, "version": theirs["version"], "settings": theirs["settings"],
        "ours_value": rate, "ours_all": rate_all, "ours_draws": len(mine["values"]),
        "peer_value": peer_rate, "peer_all": peer_all, "peer_draws": len(theirs["values"]),
        "search_seconds": theirs["search_seconds"], "ratio": ratio, "ratio_all": rate_all / peer_all,
        "gap": apart, "not_converged": "the peer" if apart > APART else "", "goal": GOAL,
        "reached": verdict(ratio, GOAL, apart), "why": why, **stamp(load),
    }  # fmt: skip


def main() -> None:
    options = parser(__doc__, PROBLEMS).parse_args()
    for name in options.problems:
        dataset, log_length, log_sd, _, _, *repeats = PROBLEMS[name]
        repeats, peer_repeats = (round(number * options.longer) for number in repeats)
        data, load = gp.load_dataset(dataset), busy_cores()
        covariance = gp.SquaredExponential(float(np.exp(log_length)), float(np.exp(log_sd)))
        model = gp.GPModel(data["X"], data["y"].values, covariance, gp.Probit(), jitter=JITTER)
        mine = {label: ours(model, *route, repeats) for label, route in ROUTES.items()}
        for label, own in mine.items():
            print(f"{name}, {label}: {np.mean(own['values']):.3f}, {np.std(own['values']):.3f}, "
                  f"{own['warmup']:.1f} + {own['sampling']:.1f} s", flush=True)  # fmt: skip
        reference = float(np.mean(mine["gp.log_evidence"]["values"]))
        peers = {
            "BlackJAX tempered SMC": (
                "blackjax",
                partial(blackjax, reference=reference, repeats=peer_repeats),
            )
        }
        if name in PYMC:
            peers["PyMC sample_smc"] = ("pymc", pymc)
        for peer, (folder, run) in peers.items():
            known = of_the_table(options, 1, PROBLEMS[name][3], peer)
            theirs = run(model, name, f"{options.peers}/{folder}", known)
            if theirs is not None:
                rows = [row(name, label, own, peer, theirs, load) for label, own in mine.items()]
                write_rows(rows, options.again)


if __name__ == "__main__":
    main()
