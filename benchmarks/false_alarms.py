"""How often correct short runs warn, and whether runs with a planted fault do.

    python benchmarks/false_alarms.py [--models gaussian poisson ..] [--data-sets 50] [--anew]
    python benchmarks/false_alarms.py --references

Of each of four models (squared exponential of 20 inputs, default hyperpriors) 50 data sets are drawn from the
model itself: `sample` with 4 chains of 150 draws, and `model_evidence` from such chains of 600, whose own
warnings are a part of their own. Then a fault is planted in the draws of one chain, before the package looks
at them: it stands still from its first draw or from the middle on, or all its hyperparameters are `APART`
posterior standard deviations away, in another mode. A row of `false_alarms.csv` has what a run warned of,
empty if nothing; rows that are there are not made again.

A run without a planted fault need not be right: chains may be too slow for 150 draws, or stand still. With
`--references` each such run that warned of chains is made again, and beside it one of 1500 draws with another
seed; `false_alarms_references.csv` has the longest autocorrelation time of the parameters in the long run,
its largest R-hat, and the longest stand of a chain in both.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import arviz_stats
import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import binomtest

import gpmcflow as gp
from gpmcflow.diagnostics.autocorrelation import initial_positive_sequence_time
from gpmcflow.execution import Execution
from gpmcflow.samplers.protocol import Sampler
from gpmcflow.samplers.sampling import warn

ROWS = Path(__file__).with_name("false_alarms.csv")
REFERENCES = Path(__file__).with_name("false_alarms_references.csv")
REFERENCE_DRAWS, ABOUT_CHAINS = 1500, "R-hat|stood still|accepts"
COLUMNS = ("part", "model", "data_set", "fault", "warned")
QUIET = Execution(progress=False)
N_CASES, N_CHAINS, DRAWS = 20, 4, {"sample": 150, "evidence": 600}
APART = 3.0
LIKELIHOODS = {
    "gaussian": [gp.Gaussian()],
    "poisson": [gp.Poisson()],
    "labels": [gp.Probit(), gp.Logistic()],
    "student": [gp.StudentT()],
}
FAULTS = ("", "stuck", "stuck halfway", "another mode")


def model_of(kind: str, data_set: int) -> gp.GPModel:
    """A model with data drawn from itself; labels of both classes, counts below a million."""
    rng = np.random.default_rng([data_set, 43])
    likelihoods = LIKELIHOODS[kind]
    likelihood = likelihoods[data_set % len(likelihoods)]
    x, y = np.sort(rng.uniform(-2.0, 2.0, N_CASES)), np.tile([-1.0, 1.0], N_CASES // 2)
    model = gp.GPModel(x, np.abs(y), gp.SquaredExponential(), likelihood)
    while True:
        try:
            _, y = model.simulate(rng, model.draw_prior(rng))
        except ValueError:  # a rate too large to draw counts from
            continue
        if np.ptp(y) > 0.0 and np.abs(y).max() < 1e6:
            return model.with_y(y)


@contextmanager
def warnings() -> Iterator[list[str]]:
    """All that the package warns of."""
    told: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: told.append(record.getMessage())
    logger = logging.getLogger("gpmcflow")
    logger.addHandler(handler)
    try:
        yield told
    finally:
        logger.removeHandler(handler)


def planted(tree: xr.DataTree, fault: str) -> xr.DataTree:
    """The same draws with a fault in the first chain."""
    tree = tree.copy(deep=True)
    first = tree["posterior/theta"].values[0]
    if fault == "another mode":
        first += APART * tree["posterior/theta"].values.std((0, 1))
        return tree
    for group in (tree["posterior"], tree["sample_stats"]):
        for values in group.data_vars.values():
            if values.dims[:2] == ("chain", "draw"):
                since = values.sizes["draw"] // 2 if fault == "stuck halfway" else 0
                values.values[0, since:] = values.values[0, since]
    return tree


def sampler_of(tree: xr.DataTree) -> Sampler:
    """The sampler that `sample` chose; which proposals count as failed depends on its class alone."""
    return getattr(gp, json.loads(tree.attrs["settings"])["sampler"].partition("(")[0])()


def told(part: str, model: gp.GPModel, data_set: int, fault: str, tree: xr.DataTree) -> list[str]:
    """What diagnostics say of draws."""
    if part == "sample":
        with warnings() as messages:
            warn(tree, sampler_of(tree))
        return messages
    settings = {"predictive": False, "seed": data_set, "execution": QUIET}
    if fault:  # new chains would have none
        settings["n_draws"] = DRAWS[part]
    run = gp.model_evidence(model, draws=tree, **settings)
    return [message for message in [run["evidence/alarm"].item()] if message]


def rows_of(part: str, kind: str, data_set: int) -> Iterator[tuple[str, str, int, str, str]]:
    """A run of the model's own data, and those with a fault."""
    model = model_of(kind, data_set)
    with warnings() as of_sample:
        tree = drawn(model, DRAWS[part], data_set)
    if part == "evidence":
        yield "sample 600", kind, data_set, "", "; ".join(of_sample)
    for fault in FAULTS:
        if fault:
            messages = told(part, model, data_set, fault, planted(tree, fault))
        else:
            messages = of_sample if part == "sample" else told(part, model, data_set, "", tree)
        yield part, kind, data_set, fault, "; ".join(messages)


def drawn(model: gp.GPModel, n_draws: int, seed: int) -> xr.DataTree:
    return gp.sample(
        model, n_chains=N_CHAINS, n_draws=n_draws, predictive=False, seed=seed, execution=QUIET
    )


def longest_stand(tree: xr.DataTree) -> int:
    """Most draws in a row that are equal, in any chain."""
    stands = []
    for chain in tree["sample_stats/lp"].transpose("chain", "draw").values:
        moves = np.flatnonzero(np.diff(chain))
        stands.append(np.diff([-1, *moves, len(chain) - 1]).max())
    return int(max(stands))


def references(rows: pd.DataFrame) -> None:
    """Rows of `REFERENCES`."""
    own = rows[(rows["part"] == "sample") & rows["fault"].isna()]
    with REFERENCES.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("model", "data_set", "time", "r_hat", "stand_of_150", "stand_of_1500"))
        for row in own[own["warned"].str.contains(ABOUT_CHAINS, na=False)].itertuples():
            model = model_of(row.model, row.data_set)
            short = drawn(model, DRAWS["sample"], row.data_set)
            tree = drawn(model, REFERENCE_DRAWS, 1000 + row.data_set)
            stats = {"lp": tree["sample_stats/lp"], "theta": tree["posterior/theta"]}
            traces = xr.Dataset(stats).transpose("chain", "draw", ...)
            theta = np.moveaxis(traces["theta"].values, -1, 0)
            times = autocorrelation_times(np.concatenate([theta, traces["lp"].values[None]]))
            r_hat = arviz_stats.rhat(traces)
            largest = max(float(values.max()) for values in r_hat.data_vars.values())
            stands = longest_stand(short), longest_stand(tree)
            writer.writerow((
                row.model, row.data_set, f"{times.max():.3g}", f"{largest:.3f}", *stands
            ))  # fmt: skip
            file.flush()


def autocorrelation_times(traces: np.ndarray) -> np.ndarray:
    """Of each trace (trace, chain, draw), from the effective draws of all its chains."""
    return 1.0 / np.mean(1.0 / initial_positive_sequence_time(traces), axis=1)


def table(rows: pd.DataFrame) -> None:
    """Runs that warn, by part and fault, in all and by model."""
    rows = rows.fillna("")
    print("| part | fault | runs | warn | 95 % interval | by model |")
    for (part, fault), own in rows.groupby(["part", "fault"], sort=False):
        warned = own["warned"] != ""
        if not fault and part != "evidence":
            rhat = own["warned"].str.contains("R-hat")
            print(f"of {int(warned.sum())} {int(rhat.sum())} warn of R-hat")
        ends = binomtest(int(warned.sum()), len(own)).proportion_ci()
        models = ", ".join(f"{name} {n}" for name, n in warned.groupby(own["model"]).sum().items())
        shares = f"{int(warned.sum())} | {ends.low:.1%} to {ends.high:.1%}"
        print(f"| {part} | {fault or 'none'} | {len(own)} | {shares} | {models} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=DRAWS, default=list(DRAWS))
    parser.add_argument("--models", nargs="+", choices=LIKELIHOODS, default=list(LIKELIHOODS))
    parser.add_argument("--data-sets", type=int, default=50)
    parser.add_argument("--anew", action="store_true", help="make all rows again")
    parser.add_argument(
        "--references", action="store_true", help="long runs beside those that warn"
    )
    options = parser.parse_args()
    if options.references:
        references(pd.read_csv(ROWS))
        return
    if options.anew:
        ROWS.unlink(missing_ok=True)
    rows = pd.read_csv(ROWS) if ROWS.exists() else pd.DataFrame(columns=COLUMNS)
    made = set(zip(rows["part"], rows["model"], rows["data_set"], strict=True))
    with ROWS.open("a", newline="") as file:
        writer = csv.writer(file)
        if not made:
            writer.writerow(COLUMNS)
        for part in options.parts:
            for data_set in range(options.data_sets):
                for kind in options.models:
                    if (part, kind, data_set) not in made:
                        writer.writerows(rows_of(part, kind, data_set))
                        file.flush()
    table(pd.read_csv(ROWS))


if __name__ == "__main__":
    main()
