"""Study split_hmc as the workflow sees it: split Hamiltonian Monte Carlo beside other samplers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpmcflow.errors import InputError
from gpmcflow.jobs import study as frame
from gpmcflow.jobs.resources import of_problem
from gpmcflow.jobs.study import require_problem

NAME = "split_hmc"
FIT = frame.results_stage(
    NAME, "split_hmc.runs:fit_job", "{problem}/fit.nc", ask=of_problem(minutes=30)
)
# One thread: two of these jobs side by side beat two workers in one.
CHAINS = frame.results_stage(
    NAME,
    "split_hmc.runs:chains_job",
    "{problem}/{method}.nc",
    ask=of_problem(method="method"),
    in_blocks=True,
)
ILLUSTRATE = frame.results_stage(NAME, "split_hmc.illustrations:illustrate_job", "illustrations.nc")
TABLES = frame.tables_stage(
    NAME,
    {
        "verdict": "Printed numbers and claims beside those of this run.",
        "runs": "One row for each problem and method: step size, acceptance rate, autocorrelation times "
        "with their standard errors, and what an independent draw costs.",
    },
)
RUN_FIGURES = {
    "traces": "traces of each method.",
    "autocorrelation": "autocorrelation of each method.",
}
ILLUSTRATIONS = {
    "figure_1": "Hamiltonian Monte Carlo and random walk Metropolis on a bivariate normal.",
    "figure_2": "Two features, two classes and the fitted boundary.",
    "figure_3": "The potential energy and its slope, and those of its Gaussian part.",
    "figure_4": "The cases nearest to the boundary, and the slope of the potential energy that they make "
    "up.",
}


def methods_of(settings: Mapping[str, Any]) -> dict[str, dict[str, dict]]:
    """{problem: {method: settings}}, each with its chains, draws and thin.

    Chains and draws of a method go before those of the study.
    """
    shared = {key: settings[key] for key in ("chains", "draws", "thin")}
    own = ("chains", "draws")
    return {
        problem: {
            name: method | shared | {key: method[key] for key in own if method[key] is not None}
            for name, method in methods.items()
        }
        for problem, methods in settings["problems"].items()
    }


def check(config: Mapping[str, Any], where: str, folder: Path) -> None:
    """Refuse what does not go together."""
    settings, path = config["studies"][NAME], f"{where}: studies.{NAME}"
    for problem, methods in methods_of(settings).items():
        require_problem(problem, config["problems"], "linear", f"{path}.problems")
        for name, method in methods.items():
            place = f"{path}.problems.{problem}.{name}"
            if name == "fit":
                raise InputError(f"{place}: the name of the file of the Gaussian fit; rename it")
            if method.get("step_size") is not None and method["n_steps"] is None:
                raise InputError(f"{place}.step_size: found without n_steps; give n_steps, too")
            if method["draws"] % settings["thin"]:
                raise InputError(
                    f"{path}.thin: found {settings['thin']}; allowed: what divides the draws of each "
                    f"method, and {problem}.{name} has {method['draws']}"
                )


def jobs(config: Mapping[str, Any]) -> Iterator[frame.PlannedJob]:
    """A fit and the chains of each method of each problem, then tables and figures."""
    settings = config["studies"][NAME]
    methods, fits, chains, illustrations = methods_of(settings), [], [], []
    figures = {"cost": "What an independent draw costs in gradients; hollow: as printed."}
    for problem in methods:
        known = {"problem": config["problems"][problem]}
        fit = FIT.job({"data": frame.data_file(config, problem)}, known, problem=problem)
        yield fit
        fits.append(fit.output)
        for name, method in methods[problem].items():
            inputs = {"data": frame.data_file(config, problem), "fit": fit.output}
            run = CHAINS.job(inputs, known | {"method": method}, problem=problem, method=name)
            yield run
            chains.append(run.output)
        figures |= {f"{problem}/{key}": f"{problem}: {text}" for key, text in RUN_FIGURES.items()}
    if settings["illustrations"]:
        yield ILLUSTRATE.job()
        illustrations = [ILLUSTRATE.outputs["results"]]
        figures |= ILLUSTRATIONS
    inputs = {"fits": fits, "chains": chains, "illustrations": illustrations}
    yield TABLES.job(inputs | {frame.PUBLISHED: frame.published_file(NAME)}, {"study": NAME})
    shown = {"runs": TABLES.outputs["runs"], "chains": chains, "illustrations": illustrations}
    yield frame.figures_stage(NAME, figures).job(shown)


STUDY = frame.paper_study(
    NAME,
    check,
    jobs,
    "Split Hamiltonian Monte Carlo (Shahbaba, Lan, Johnson & Neal 2014)",
    open_figures=lambda settings: 1,
    runs=lambda settings: sum(map(len, settings["problems"].values())),
)
