"""The jobs a config stands for: what the rules of the workflow make of it. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpmcflow.pipeline.study_config import split_hmc_methods
from gpmcflow.studies.fast_likelihood.types import fast_likelihood_types
from gpmcflow.studies.frame.registry import STUDIES as FRAME
from gpmcflow.studies.frame.study import PlannedJob
from gpmcflow.studies.surrogate_slice.settings import (
    has_counts,
    replicate_files,
    run_settings,
    shown_method,
    surrogate_slice_methods,
)


def planned_jobs(config: dict) -> list[PlannedJob]:
    """Return the jobs of a checked config, each after those it needs.

    A test compares them with those of Snakemake.
    """
    jobs = []
    datasets = dict.fromkeys(problem["dataset"] for problem in config["problems"].values())
    used = {name for study in config["studies"].values() for name in study.get("problems", ())}
    wanted = {config["problems"][name]["dataset"] for name in used}
    for study in config["studies"].values():
        if study.get("map"):
            wanted.add(config["problems"][study["map"]["problem"]]["dataset"])
    jobs += [PlannedJob("prepare", data_file(name)) for name in datasets if name in wanted]
    for study, settings in config["studies"].items():
        jobs += STUDIES[study](config, settings)
    for own in FRAME:
        jobs += own.jobs(config)
    shown = [job.output for job in jobs if Path(job.output).suffix in (".csv", ".png")]
    shown += [job.output for job in jobs if job.output.endswith("/report.html")]
    return [*jobs, PlannedJob("build_report", "results/report.html", needs=tuple(shown))]


def data_file(dataset: str) -> str:
    """Return where the data set of that name is written."""
    return f"results/data/{dataset}.nc"


def _rmhmc_ais(config: dict, study: dict) -> Iterator[PlannedJob]:
    needed = []
    for problem in study["problems"]:
        data = data_file(config["problems"][problem]["dataset"])
        folder = f"results/rmhmc_ais/{problem}"
        fit = f"{folder}/approximation.nc"
        yield PlannedJob("rmhmc_ais_approximate", fit, problem, needs=(data,))
        needed.append(fit)
        if study["sampling"]:
            output = f"{folder}/posterior.nc"
            yield PlannedJob("rmhmc_ais_posterior", output, problem, needs=(data, fit))
            needed.append(output)
        for method in study["methods"]:
            output = f"{folder}/evidence/{method}.nc"
            yield PlannedJob("rmhmc_ais_evidence", output, problem, method, (data, fit))
            needed.append(output)
    if study["map"]:
        problem = study["map"]["problem"]
        data = data_file(config["problems"][problem]["dataset"])
        needed.append("results/rmhmc_ais/map.nc")
        yield PlannedJob("rmhmc_ais_hyperparameter_map", needed[-1], problem, needs=(data,))
    if study["illustrations"]:
        picture = "results/rmhmc_ais/illustration.nc"
        yield PlannedJob("rmhmc_ais_illustrate", picture)
        figure = "results/rmhmc_ais/figures/figure_1.png"
        yield PlannedJob("rmhmc_ais_figure_illustration", figure, needs=(picture,))
    table = "results/rmhmc_ais/verdict.csv"
    yield PlannedJob("rmhmc_ais_summarise", table, needs=tuple(needed))
    kinds = {name: method["kind"] for name, method in study["methods"].items()}
    annealed = [name for name, kind in kinds.items() if kind == "ais"]
    weighted = [name for name, kind in kinds.items() if kind in ("ais", "importance_sampling")]
    for problem in study["problems"]:
        folder, draws = f"results/rmhmc_ais/figures/{problem}", f"results/rmhmc_ais/{problem}"
        shown = {"evidence": ("evidence_against_time", [table])}
        if weighted:
            files = [f"{draws}/evidence/{m}.nc" for m in weighted]
            shown["log_weights"] = (f"log_weights_{weighted[0]}", files)
        if annealed:
            shown["ladders"] = ("effective_size", [f"{draws}/evidence/{m}.nc" for m in annealed])
        if study["sampling"]:
            shown["posterior"] = ("posterior", [f"{draws}/posterior.nc"])
        for rule, (figure, needs) in shown.items():
            output = f"{folder}/{figure}.png"
            yield PlannedJob(f"rmhmc_ais_figure_{rule}", output, problem, needs=tuple(needs))
    if study["map"]:
        output, needs = "results/rmhmc_ais/figures/map.png", ("results/rmhmc_ais/map.nc",)
        yield PlannedJob("rmhmc_ais_figure_map", output, needs=needs)


def _split_hmc(config: dict, study: dict) -> Iterator[PlannedJob]:
    needed, folder = [], "results/split_hmc/figures"
    if study["illustrations"]:
        picture = "results/split_hmc/illustrations.nc"
        yield PlannedJob("split_hmc_illustrate", picture)
        figure = f"{folder}/figure_1.png"
        yield PlannedJob("split_hmc_figure_illustrations", figure, needs=(picture,))
        needed.append(picture)
    for problem, methods in split_hmc_methods(study).items():
        data = data_file(config["problems"][problem]["dataset"])
        fit = f"results/split_hmc/{problem}/fit.nc"
        yield PlannedJob("split_hmc_fit", fit, problem, needs=(data,))
        needed.append(fit)
        for method in methods:
            output = f"results/split_hmc/{problem}/{method}.nc"
            yield PlannedJob("split_hmc_chains", output, problem, method, (data, fit))
            needed.append(output)
    table = "results/split_hmc/verdict.csv"
    yield PlannedJob("split_hmc_summarise", table, needs=tuple(needed))
    yield PlannedJob("split_hmc_figure_cost", f"{folder}/cost.png", needs=(table,))
    for problem, methods in split_hmc_methods(study).items():
        draws = tuple(f"results/split_hmc/{problem}/{method}.nc" for method in methods)
        output = f"{folder}/{problem}/traces.png"
        yield PlannedJob("split_hmc_figure_runs", output, problem, needs=draws)


def _fast_likelihood(config: dict, study: dict) -> Iterator[PlannedJob]:
    needed, runs = [], {}
    types = fast_likelihood_types(study)
    for name, settings in types.items():
        folder = f"results/fast_likelihood/{name}"
        tuning = f"{folder}/tuning.nc"
        yield PlannedJob("fast_likelihood_tune", tuning, method=name)
        runs[name] = [f"{folder}/replicate_{k}.nc" for k in range(settings["replicates"])]
        for output in runs[name]:
            yield PlannedJob("fast_likelihood_replicate", output, method=name, needs=(tuning,))
        needed += [tuning, *runs[name]]
    shown = next((name for name in types if types[name]["data"] == 2), next(iter(types)))
    table, folder = "results/fast_likelihood/verdict.csv", "results/fast_likelihood/figures"
    yield PlannedJob("fast_likelihood_summarise", table, needs=tuple(needed))
    figure = f"{folder}/figure_2.png"
    yield PlannedJob("fast_likelihood_figure_2", figure, needs=tuple(runs[shown]))
    yield PlannedJob("fast_likelihood_figure_cost", f"{folder}/cost.png", needs=(table,))


def _surrogate_slice(config: dict, study: dict) -> Iterator[PlannedJob]:
    needed, runs = [], replicate_files(study)
    for problem, methods in runs.items():
        data = data_file(config["problems"][problem]["dataset"])
        for method, outputs in methods.items():
            for output in outputs:
                yield PlannedJob("surrogate_slice_replicate", output, problem, method, (data,))
            needed += outputs
    folder = "results/surrogate_slice"
    table = f"{folder}/efficiency.csv"
    yield PlannedJob("surrogate_slice_summarise", table, needs=tuple(needed))
    if study["illustrations"]:
        picture = f"{folder}/illustrations.nc"
        yield PlannedJob("surrogate_slice_illustrate", picture)
        figure = f"{folder}/figures/figure_1.png"
        yield PlannedJob("surrogate_slice_figure_illustrations", figure, needs=(picture,))
    figure = f"{folder}/figures/figure_3.png"
    yield PlannedJob("surrogate_slice_figure_3", figure, needs=(table,))
    for problem, methods in surrogate_slice_methods(study).items():
        if has_counts(config["problems"][problem]):
            draws = runs[problem][shown_method(methods)][0]
            output = f"{folder}/figures/{problem}/intensity.png"
            yield PlannedJob("surrogate_slice_figure_intensity", output, problem, needs=(draws,))


MAX_STAGES = 400  # of sequential Monte Carlo that chooses its own ladder
STUDIES = {
    "rmhmc_ais": _rmhmc_ais,
    "split_hmc": _split_hmc,
    "fast_likelihood": _fast_likelihood,
    "surrogate_slice": _surrogate_slice,
}


def method_settings(config: dict, job: PlannedJob) -> dict:
    """Return the settings of a job's method, as its script is given them."""
    if job.rule == "split_hmc_chains":
        return split_hmc_methods(config["studies"]["split_hmc"])[job.problem][job.method]
    if job.rule == "surrogate_slice_replicate":
        methods = surrogate_slice_methods(config["studies"]["surrogate_slice"])
        return run_settings(methods[job.problem][job.method])
    return config["studies"]["rmhmc_ais"]["methods"][job.method]


def annealing_runs(method: dict) -> list[tuple[str, int]]:
    """Return (state folder, draws) of each run a method of study rmhmc_ais makes of one problem."""
    kind = method.get("kind")
    if kind == "parallel_tempering":
        draws = method["draws"] + method["warmup"]
        return [(f"t{length:04d}", draws) for length in method["temperatures"]]
    if kind == "sequential_monte_carlo":
        own = method.get("effective_fraction") is not None  # as many stages as it turns out to need
        return [
            (f"t{length:04d}", MAX_STAGES if own else length) for length in method["temperatures"]
        ]
    runs = []
    for length in [1] if kind == "importance_sampling" else method["temperatures"]:
        for replicate in range(method["replicates"]):
            runs.append((f"t{length:04d}_r{replicate}", length))
            if method.get("reverse"):
                runs.append((f"reverse_T{length}_r{replicate}_start", 1))
                runs.append((f"reverse_T{length}_r{replicate}", length))
    return runs


def chains_of(method: dict) -> int:
    """Return the chains of each of these runs: particles, or replicates that have theirs inside."""
    inside = method.get("kind") in ("parallel_tempering", "sequential_monte_carlo")
    return method["replicates" if inside else "particles"]
