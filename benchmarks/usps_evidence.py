"""Evidence of the USPS benchmark: what standard error two cores reach within a minute.

    python benchmarks/usps_evidence.py [--data-dir DIR] [--seed 1]

Annealing from an EP fit by split HMC, with EP and the pilot inside the time, checked against
annealing by HMC from the same fit. Two worker processes, one BLAS thread each. Exits with code 1 if
a standard error, a time or the agreement misses its bound. The data set "usps-3v5" is not shipped:
`--data-dir` (or GPMCFLOW_DATA) names the folder that holds it.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from math import exp, hypot

import xarray as xr

from gpmcflow import (
    GPModel,
    Probit,
    SquaredExponential,
    expectation_propagation,
    load_dataset,
)
from gpmcflow.evidence.log_evidence import log_evidence
from gpmcflow.execution import Execution, pin_blas

SECONDS = 60.0
JOINT_ERRORS = 3.0


@dataclass(frozen=True)
class Setting:
    """Hyperparameters, the bound of the standard error, and (temperatures, particles) of each run."""

    log_length_scale: float
    log_signal_sd: float
    standard_error: float
    sizes: dict[str, tuple[int, int]]


SETTINGS = {
    "A": Setting(4.85, 5.1, 0.015, {"preconditioned_split_hmc": (260, 256), "hmc": (300, 200)}),
    "B": Setting(4.85, 2.55, 0.002, {"preconditioned_split_hmc": (50, 256), "hmc": (60, 256)}),
}


@dataclass(frozen=True)
class Run:
    """One estimate and what it cost; seconds from the covariance matrix to the estimate."""

    log_evidence: float
    standard_error: float
    effective_size: float
    n_gradient: int
    alarm: str
    ep_seconds: float
    seconds: float


def estimate(data: xr.Dataset, setting: Setting, sampler: str, seed: int) -> Run:
    """Fit EP, then anneal from it; nothing is shared with other runs."""
    began = time.perf_counter()
    covariance = SquaredExponential(exp(setting.log_length_scale), exp(setting.log_signal_sd))
    model = GPModel(data["X"], data["y"].values, covariance, Probit()).at()
    ep = expectation_propagation(model)
    ep_seconds = time.perf_counter() - began
    n_temperatures, n_particles = setting.sizes[sampler]
    tree = log_evidence(
        ep.sites,
        "annealing",
        sampler,
        ladder="adaptive",
        n_temperatures=n_temperatures,
        n_particles=n_particles,
        seed=seed,
        execution=Execution(workers=2, block_size=n_particles // 2),
    )
    found = tree["evidence"]
    return Run(
        float(found["log_evidence"]),
        float(found["standard_error"]),
        float(found["effective_size"]),
        int(found["n_gradient"]),
        str(found["alarm"].values),
        ep_seconds,
        time.perf_counter() - began,
    )


def judge(name: str, setting: Setting, runs: dict[str, Run]) -> bool:
    """Print whether each bound holds; return whether all do."""
    ours, other = runs["preconditioned_split_hmc"], runs["hmc"]
    joint = hypot(ours.standard_error, other.standard_error)
    distance = (ours.log_evidence - other.log_evidence) / joint
    checks = [
        ("standard error of split_hmc", ours.standard_error, setting.standard_error, ""),
        ("seconds of split_hmc, EP included", ours.seconds, SECONDS, " s"),
        ("split_hmc - hmc, joint standard errors", abs(distance), JOINT_ERRORS, ""),
    ]
    for text, value, bound, unit in checks:
        verdict = "holds" if value <= bound else "does not hold"
        print(f"{name}: {text}: {value:.4g}{unit}, at most {bound:g}{unit}: {verdict}")
    alarms = [f"{sampler}: {run.alarm}" for sampler, run in runs.items() if run.alarm]
    for alarm in alarms:
        print(f"{name}: alarm of {alarm}")
    return not alarms and all(value <= bound for _, value, bound, _ in checks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder of data files; else GPMCFLOW_DATA")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    pin_blas()
    data = load_dataset("usps-3v5", data_dir=options.data_dir)
    print(
        f"{'setting':7s} {'sampler':9s} {'T':>4s} {'P':>4s} {'log evidence':>12s} {'se':>7s} "
        f"{'ESS':>6s} {'EP s':>5s} {'s':>5s} {'gradients':>10s}"
    )
    found: dict[str, dict[str, Run]] = {}
    for name, setting in SETTINGS.items():
        found[name] = {}
        for sampler, (n_temperatures, n_particles) in setting.sizes.items():
            run = found[name][sampler] = estimate(data, setting, sampler, options.seed)
            print(
                f"{name:7s} {sampler:9s} {n_temperatures:4d} {n_particles:4d} "
                f"{run.log_evidence:12.4f} {run.standard_error:7.4f} {run.effective_size:6.1f} "
                f"{run.ep_seconds:5.1f} {run.seconds:5.1f} {run.n_gradient:10d}",
                flush=True,
            )
    kept = [judge(name, setting, found[name]) for name, setting in SETTINGS.items()]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
