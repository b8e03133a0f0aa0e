"""Study surrogate_slice as the workflow sees it: slice sampling of covariance hyperparameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpmcflow.errors import InputError
from gpmcflow.jobs import study as frame
from gpmcflow.jobs.resources import of_problem
from gpmcflow.jobs.study import require_problem
from gpmcflow.replications.surrogate_slice.settings import (
    JOINT,
    METHODS,
    OF_UPDATE,
    SURROGATES,
    WITHOUT_SITES,
    has_counts,
    likelihood_name,
    run_settings,
    shown_method,
    surrogate_slice_methods,
)

NAME = "surrogate_slice"
# One thread: two of these jobs side by side beat two workers in one.
REPLICATE = frame.results_stage(
    NAME,
    "surrogate_slice.runs:replicate_job",
    "{problem}/{method}/replicate_{replicate}.nc",
    ask=of_problem(30, method="method"),
)
ILLUSTRATE = frame.results_stage(
    NAME, "surrogate_slice.illustrations:illustrate_job", "illustrations.nc"
)
TABLES = frame.tables_stage(
    NAME,
    {
        "verdict": "Printed numbers and claims beside those of this run.",
        "which_sampler": "Samplers by CPU seconds to 100 effective samples of what a chain mixes slowest "
        "in, the complete-data log likelihood, a hyperparameter or a latent value: burn-in or pilot, and "
        "iterations.",
        "efficiency": "One row for each problem and method: effective samples of the complete-data log "
        "likelihood per hyperparameter setting, covariance construction, likelihood evaluation and "
        "second, with standard errors over the chains, and relative to surr-site.",
        "posterior": "Posterior means and standard deviations of the hyperparameters by each method: all "
        "methods have the same target.",
    },
)
FIGURE_3 = {
    "figure_3": "Effective samples per likelihood evaluation, covariance construction and second, "
    "relative to surr-site, with standard errors over the chains; burn-in and pilots are not counted. A "
    "gradient of joint-split counts as one of each, and takes the time of several; bars above 8 are cut, "
    "their height written on them."
}
WITH_MAXIMUM = ("gaussian", "log_normal", "gamma", "poisson")  # likelihoods
ILLUSTRATIONS = {
    "figure_1": "Three functions from the same whitened draw, and what each of them leaves of the "
    "posterior of the length scale.",
    "figure_2": "Proposals of another length scale by prior whitening and by surrogate data.",
}


def check(config: Mapping[str, Any], where: str, folder: Path) -> None:
    """Refuse what does not go together."""
    study, problems = config["studies"][NAME], config["problems"]
    path = f"{where}: studies.{NAME}"
    for problem, methods in study["problems"].items():
        require_problem(problem, problems, "joint", f"{path}.problems")
        for name, method in methods.items():
            _check_representation(f"{path}.problems.{problem}.{name}", name, method)
    for problem, methods in surrogate_slice_methods(study).items():
        for name, method in methods.items():
            place = f"{path}.problems.{problem}.{name}"
            _check_sites(place, method, problems[problem])
            for key in ("iterations", "warmup"):
                if method[key] % method["thin"]:
                    raise InputError(
                        f"{place}.thin: found {method['thin']}; allowed: what divides {key}, which are "
                        f"{method[key]}"
                    )
            if method["elliptical"] == 0 and method["representation"] not in SURROGATES:
                raise InputError(
                    f"{place}.elliptical: found 0 with representation {method['representation']}, which "
                    f"then never reaches all latents; allowed: with {' or '.join(SURROGATES)} only"
                )


def _check_representation(place: str, name: str, method: Mapping[str, Any]) -> None:
    kind = method.get("representation", name)
    if kind not in METHODS:
        raise InputError(
            f"{place}.representation: missing, and the method's name is none; give one of "
            f"{', '.join(METHODS)}"
        )
    if kind == JOINT:
        _check_joint_split(place, method)
    stated = [key for key in ("sites", "site_variance") if key in method]
    stated += ["site_scale"] if method["site_scale"] != 1.0 else []
    if stated and kind in WITHOUT_SITES:
        raise InputError(
            f"{place}.{stated[0]}: found with representation {kind}, which has no sites; leave it out"
        )
    if "site_variance" in method and method["site_scale"] != 1.0:
        raise InputError(
            f"{place}.site_variance: found with site_scale, which it overrides; leave one out"
        )


def _check_joint_split(place: str, method: Mapping[str, Any]) -> None:
    """Settings of slice sampling and of Metropolis updates, which joint split HMC has no use for."""
    usual = {"update": "slice", "width": 1.0, "max_steps": 1, "site_scale": 1.0}
    slicing = {"sites", "site_variance", "elliptical", *usual, *OF_UPDATE["metropolis"]}
    stated = [key for key in method if key in slicing and method[key] != usual.get(key)]
    if stated:
        raise InputError(
            f"{place}.{stated[0]}: found with representation {JOINT}, which sets itself up; leave it out"
        )


def _check_sites(place: str, method: Mapping[str, Any], problem: Mapping[str, Any]) -> None:
    """An expansion of a likelihood that has no maximum."""
    name = likelihood_name(problem)
    if method["sites"] == "taylor" and name not in WITH_MAXIMUM:
        raise InputError(
            f"{place}.sites: found taylor with likelihood {name}, which has no maximum to expand at; "
            "allowed: standard, laplace, moments"
        )


def jobs(config: Mapping[str, Any]) -> Iterator[frame.PlannedJob]:
    """The replicates of each method on each problem, then tables and figures."""
    study, runs, intensities = config["studies"][NAME], [], []
    captions = dict(FIGURE_3)
    for problem, methods in surrogate_slice_methods(study).items():
        settings = config["problems"][problem]
        inputs = {"data": frame.data_file(config, problem)}
        for name, method in methods.items():
            stated = {"problem": settings, "method": run_settings(method)}
            for k in range(method["replicates"]):
                names = {"problem": problem, "method": name, "replicate": str(k)}
                run = REPLICATE.job(inputs, stated, **names)
                yield run
                runs.append(run.output)
                if has_counts(settings) and name == shown_method(methods) and k == 0:
                    intensities.append(run.output)
                    captions[f"{problem}/intensity"] = (
                        f"{problem}: posterior intensity over the events."
                    )
    yield TABLES.job({"runs": runs, frame.PUBLISHED: frame.published_file(NAME)}, {"study": NAME})
    inputs = {"efficiency": TABLES.outputs["efficiency"], "intensities": intensities}
    if study["illustrations"]:
        job = ILLUSTRATE.job()
        yield job
        inputs["illustrations"] = job.output
        captions |= ILLUSTRATIONS
    yield frame.figures_stage(NAME, captions).job(inputs)


STUDY = frame.paper_study(
    NAME,
    check,
    jobs,
    "Slice sampling covariance hyperparameters (Murray & Adams 2010)",
    runs=lambda settings: sum(
        method["replicates"]
        for methods in surrogate_slice_methods(settings).values()
        for method in methods.values()
    ),
)
