"""The jobs a config stands for: what the rules of the workflow make of it. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpmcflow.config import split_hmc_methods


@dataclass(frozen=True)
class PlannedJob:
    """One Snakemake job: its rule, the first file it declares, and the files it waits for."""

    rule: str
    output: str
    problem: str | None = None
    method: str | None = None
    needs: tuple[str, ...] = field(default=())


def planned_jobs(config: dict) -> list[PlannedJob]:
    """Return the jobs of a checked config, each after those it needs.

    A test compares them with those of Snakemake.
    """
    jobs = []
    datasets = dict.fromkeys(problem["dataset"] for problem in config["problems"].values())
    used = {name for study in config["studies"].values() for name in study["problems"]}
    wanted = {config["problems"][name]["dataset"] for name in used}
    for study in config["studies"].values():
        if study.get("map"):
            wanted.add(config["problems"][study["map"]["problem"]]["dataset"])
    jobs += [PlannedJob("prepare", data_file(name)) for name in datasets if name in wanted]
    for study, settings in config["studies"].items():
        jobs += STUDIES[study](config, settings)
    shown = [job.output for job in jobs if Path(job.output).suffix in (".csv", ".png")]
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
    table = "results/rmhmc_ais/verdict.csv"
    yield PlannedJob("rmhmc_ais_summarise", table, needs=tuple(needed))
    annealed = [name for name, method in study["methods"].items() if method["kind"] == "ais"]
    for problem in study["problems"]:
        folder, draws = f"results/rmhmc_ais/figures/{problem}", f"results/rmhmc_ais/{problem}"
        shown = {"evidence": ("evidence_against_time", [table])}
        weights = f"log_weights_{next(iter(study['methods']))}"
        shown["log_weights"] = (weights, [f"{draws}/evidence/{m}.nc" for m in study["methods"]])
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
    needed = ["results/split_hmc/illustrations.nc"]
    yield PlannedJob("split_hmc_illustrate", needed[0])
    for problem, methods in split_hmc_methods(study).items():
        data = data_file(config["problems"][problem]["dataset"])
        fit = f"results/split_hmc/{problem}/fit.nc"
        yield PlannedJob("split_hmc_fit", fit, problem, needs=(data,))
        needed.append(fit)
        for method in methods:
            output = f"results/split_hmc/{problem}/{method}.nc"
            yield PlannedJob("split_hmc_chains", output, problem, method, (data, fit))
            needed.append(output)
    table, folder = "results/split_hmc/verdict.csv", "results/split_hmc/figures"
    yield PlannedJob("split_hmc_summarise", table, needs=tuple(needed))
    yield PlannedJob("split_hmc_figure_illustrations", f"{folder}/figure_1.png", needs=(needed[0],))
    yield PlannedJob("split_hmc_figure_cost", f"{folder}/cost.png", needs=(table,))
    for problem, methods in split_hmc_methods(study).items():
        draws = tuple(f"results/split_hmc/{problem}/{method}.nc" for method in methods)
        output = f"{folder}/{problem}/traces.png"
        yield PlannedJob("split_hmc_figure_runs", output, problem, needs=draws)


STUDIES = {"rmhmc_ais": _rmhmc_ais, "split_hmc": _split_hmc}


def method_settings(config: dict, job: PlannedJob) -> dict:
    """Return the settings of a job's method, as its script is given them."""
    if job.rule == "split_hmc_chains":
        return split_hmc_methods(config["studies"]["split_hmc"])[job.problem][job.method]
    return config["studies"]["rmhmc_ais"]["methods"][job.method]


def annealing_runs(method: dict) -> list[tuple[str, int]]:
    """Return (state folder, draws) of each run a method of study rmhmc_ais makes of one problem."""
    runs = []
    plain = method.get("kind") == "importance_sampling"
    for length in [1] if plain else method["temperatures"]:
        for replicate in range(method["replicates"]):
            runs.append((f"t{length:04d}_r{replicate}", length))
            if method.get("reverse"):
                runs.append((f"reverse_T{length}_r{replicate}_start", 1))
                runs.append((f"reverse_T{length}_r{replicate}", length))
    return runs
