"""Study rmhmc_ais as the workflow sees it: evidence by annealing, beside EP and its correction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpmcflow.errors import InputError
from gpmcflow.jobs import study as frame
from gpmcflow.jobs.resources import of_problem, worker_threads
from gpmcflow.jobs.study import require_problem

NAME = "rmhmc_ais"
APPROXIMATE = frame.results_stage(
    NAME, "stages:approximate_job", "{problem}/approximation.nc", ask=of_problem(minutes=30)
)
POSTERIOR = frame.results_stage(
    NAME,
    "stages:posterior_job",
    "{problem}/posterior.nc",
    ask=of_problem(threads=worker_threads, method="sampling"),
    in_blocks=True,
)
EVIDENCE = frame.results_stage(
    NAME,
    "rmhmc_ais.runs:evidence_job",
    "{problem}/evidence/{method}.nc",
    ask=of_problem(threads=worker_threads, method="method"),
    in_blocks=True,
)
MAP = frame.results_stage(NAME, "rmhmc_ais.runs:hyperparameter_map_job", "map.nc", ask=of_problem())
ILLUSTRATE = frame.results_stage(NAME, "rmhmc_ais.illustration:illustrate_job", "illustration.nc")
TABLES = frame.tables_stage(
    NAME,
    {
        "verdict": "Printed numbers and claims beside those of this run.",
        "which_method": "The methods of each problem by the time they take to a standard error of 0.05 "
        "nats, the pilot included. Methods whose estimates raised an alarm have no time: their weights "
        "have collapsed, and their errors mean nothing.",
        "evidence": "One row for each method, ladder length and replicate: the log evidence with its "
        "standard error, effective size and bootstrap interval, what it cost, and the reasons not to "
        "trust it, if there are any.",
        "approximations": "One row for each problem: log evidence by Laplace and EP, the second-order "
        "correction, and test errors.",
    },
)


def check(config: Mapping[str, Any], where: str, folder: Path) -> None:
    """Refuse what does not go together."""
    settings, path = config["studies"][NAME], f"{where}: studies.{NAME}"
    for position, name in enumerate(settings["problems"]):
        require_problem(name, config["problems"], "gp", f"{path}.problems[{position}]")
    if settings["map"] is not None:
        require_problem(settings["map"]["problem"], config["problems"], "gp", f"{path}.map.problem")
    for name, method in settings["methods"].items():
        stated = [key for key in ("step_size", "n_steps") if method.get(key) is not None]
        if len(stated) == 1:
            raise InputError(
                f"{path}.methods.{name}.{stated[0]}: found without its partner; "
                "give step_size and n_steps together, or neither"
            )
        _check_route(f"{path}.methods.{name}", method)


def _check_route(path: str, method: Mapping[str, Any]) -> None:
    """Settings of a method that do not go together."""
    riemannian = method.get("sampler") == "rmhmc"
    if method.get("fixed_iters") is not None and not riemannian:
        raise InputError(
            f"{path}.fixed_iters: found with sampler: {method['sampler']}; allowed: with rmhmc only"
        )
    if riemannian and method.get("coordinates") == "mode":
        raise InputError(
            f"{path}.coordinates: found mode with sampler: rmhmc, whose metric follows the curvature "
            "by itself; leave coordinates out"
        )
    if method.get("effective_fraction") is not None and len(method["temperatures"]) > 1:
        raise InputError(
            f"{path}.temperatures: found {len(method['temperatures'])} lengths with "
            "effective_fraction, which makes one ladder of its own; give one number"
        )
    ancestors = method.get("moves", 0) + 1
    if method.get("waste_free") and (
        method["particles"] % ancestors or method["adaptive_particles"]
    ):
        raise InputError(
            f"{path}.particles: with waste_free allowed: a fixed number, a multiple of moves + 1 = "
            f"{ancestors}"
        )


def marked_settings(config: Mapping[str, Any]) -> dict[str, list[float]]:
    """{problem: [log length scale, log signal sd]} of the problems on the map's data set.

    Only stated, isotropic hyperparameters have a place on the map.
    """
    problems, settings = config["problems"], config["studies"][NAME]
    dataset = problems[settings["map"]["problem"]]["dataset"]
    places = {}
    for name in settings["problems"]:
        stated = problems[name]["hyperparameters"]
        place = [stated.get("log_length_scale"), stated.get("log_signal_sd")]
        numbers = all(isinstance(value, (int, float)) for value in place)
        if problems[name]["dataset"] == dataset and numbers:
            places[name] = [float(value) for value in place]
    return places


def jobs(config: Mapping[str, Any]) -> Iterator[frame.PlannedJob]:
    """Fits, posterior draws and evidences of each problem, the map, then tables and figures."""
    settings = config["studies"][NAME]
    methods = settings["methods"]
    inputs: dict[str, Any] = {"approximate": [], "posterior": [], "evidence": []}
    for problem in settings["problems"]:
        data, known = frame.data_file(config, problem), {"problem": config["problems"][problem]}
        fit = APPROXIMATE.job({"data": data}, known, problem=problem)
        yield fit
        inputs["approximate"].append(fit.output)
        fitted = {"data": data, "approximation": fit.output}
        if settings["sampling"]:
            sampling = known | {"sampling": settings["sampling"]}
            run = POSTERIOR.job(fitted, sampling, problem=problem)
            yield run
            inputs["posterior"].append(run.output)
        for name, method in methods.items():
            run = EVIDENCE.job(fitted, known | {"method": method}, problem=problem, method=name)
            yield run
            inputs["evidence"].append(run.output)
    if settings["map"]:
        problem = settings["map"]["problem"]
        stated = {"problem": config["problems"][problem], "grid": settings["map"]}
        stated["marked"] = marked_settings(config)
        job = MAP.job({"data": frame.data_file(config, problem)}, stated, about=problem)
        yield job
        inputs["map"] = job.output
    yield TABLES.job(inputs | {frame.PUBLISHED: frame.published_file(NAME)}, {"study": NAME})
    if settings["illustrations"]:
        job = ILLUSTRATE.job()
        yield job
        inputs["illustration"] = job.output
    inputs["tables"] = [TABLES.outputs["evidence"], TABLES.outputs["approximations"]]
    yield frame.figures_stage(NAME, _captions(settings)).job(inputs, {"methods": methods})


def _captions(settings: Mapping[str, Any]) -> dict[str, str]:
    """Path of each figure -> what it shows."""
    kinds = {name: method["kind"] for name, method in settings["methods"].items()}
    own = {
        "evidence_against_time": "log evidence against compute time and floating-point operations, with "
        "error bars; lines are EP, corrected EP and Laplace."
    }
    if "ais" in kinds.values():
        own |= {
            "effective_size": "effective size of the weights along the longest ladder.",
            "acceptance": "acceptance rate and tuned step size along the longest ladder.",
        }
    if settings["sampling"]:
        own["posterior"] = "convergence of the posterior draws."
    for name, kind in kinds.items():
        if kind in ("ais", "importance_sampling"):
            own[f"log_weights_{name}"] = f"log weights of {name}."
    captions = {
        f"{problem}/{name}": f"{problem}: {text}"
        for name, text in own.items()
        for problem in settings["problems"]
    }
    if settings["map"]:
        captions["map"] = "EP evidence over the hyperparameters."
    if settings["illustrations"]:
        captions["figure_1"] = (
            "HMC and Riemannian-manifold HMC from the same start on a mixture of three Gaussians."
        )
    return captions


STUDY = frame.paper_study(
    NAME,
    check,
    jobs,
    "Evidence by annealing (Paquet & Fraccaro 2018)",
    open_figures=lambda settings: len(settings["problems"]),
    runs=lambda settings: len(settings["problems"]) * len(settings["methods"]),
)
