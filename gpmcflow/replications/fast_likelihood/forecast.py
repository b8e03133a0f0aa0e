"""Costs of the jobs of study fast_likelihood."""

from __future__ import annotations

from gpmcflow.jobs.costs import Context, Cost, timed
from gpmcflow.jobs.study import PlannedJob
from gpmcflow.replications.fast_likelihood.costs import TIMED_SECONDS, seconds_per_iteration
from gpmcflow.replications.fast_likelihood.methods import settings_of, tuned_name
from gpmcflow.replications.fast_likelihood.runs import MATRICES, make_bench
from gpmcflow.replications.fast_likelihood.types import fast_likelihood_types

PILOT_SWEEPS = 12
TIMED_ITERATIONS = 3
DRAW_BYTES = 300  # of one iteration of one method, in the output and in its state
STATE_SECONDS = 0.05  # to begin, write and read one chain


def tune_cost(context: Context, job: PlannedJob) -> Cost:
    """All settings of all methods on the data sets for tuning."""
    tuning = job.settings["tuning"]
    types = fast_likelihood_types(context.config["studies"]["fast_likelihood"])
    settings = types[job.method]  # with the iterations of its runs
    pilot, iteration = _measured(context, job.method, settings)
    methods = {tuned_name(m) for m in settings["methods"] if len(settings_of(tuned_name(m))) > 1}
    chains = sum(len(settings_of(m)) for m in methods)
    iterations = tuning["iterations"]
    seconds = sum(len(settings_of(m)) * iteration[m] * iterations for m in methods)
    seconds = tuning["replicates"] * (seconds + pilot + chains * STATE_SECONDS)
    return context.single(
        seconds, 8 * MATRICES * settings["n"] ** 2, chains * iterations * DRAW_BYTES
    )


def replicate_cost(context: Context, job: PlannedJob) -> Cost:
    """One chain of every method on one data set, its pilot, and what is timed afterwards, if it is."""
    settings = job.settings["settings"]
    pilot, iteration = _measured(context, job.method, settings)
    chains = sum(settings["iterations"] * iteration[m] + STATE_SECONDS for m in settings["methods"])
    timing = sum(max(2 * TIMED_SECONDS, 15 * iteration[m]) for m in settings["methods"])
    seconds = pilot + chains + settings["timed"] * timing
    disk = len(settings["methods"]) * settings["iterations"] * DRAW_BYTES
    return context.single(seconds, 8 * MATRICES * settings["n"] ** 2, disk)


def _measured(context: Context, name: str, settings: dict) -> tuple[float, dict[str, float]]:
    """Seconds of the pilot, and of an iteration of each method with the middle one of its settings."""

    def make() -> tuple[float, dict[str, float]]:
        few = settings | {"pilot": PILOT_SWEEPS}
        make_bench(few | {"n": 20, "sizes": {}}, 0, 0, "forecast ")  # loads compiled code
        seconds, bench = timed(lambda: make_bench(few, 0, 0, "forecast "))
        iteration = {}
        for method in {*settings["methods"], *map(tuned_name, settings["methods"])}:
            choices = settings_of(tuned_name(method))
            if method == "student":  # its pilot is some 400 evaluations
                iteration[method] = (
                    1.1 * _exact_seconds(bench) * (1.0 + 400.0 / settings["iterations"])
                )
                continue
            run = bench.run(method, choices[len(choices) // 2])
            iteration[method] = seconds_per_iteration(
                run.densities, run.sampler, bench.pilot.last, 0.0, TIMED_ITERATIONS
            )
        return seconds * settings["pilot"] / PILOT_SWEEPS, iteration

    return context.once(("fast_likelihood", name), make)


def _exact_seconds(bench) -> float:
    density, theta = bench.exact.fresh(), bench.pilot.last
    density(theta)
    moved = theta + 1e-3
    return timed(lambda: [density(moved + k * 1e-6) for k in range(5)])[0] / 5


COSTS = {"fast_likelihood_tune": tune_cost, "fast_likelihood_replicate": replicate_cost}
