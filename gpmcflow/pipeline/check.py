"""`gpmcflow check`: all problems of a config and its files at once, and the time and memory to expect."""

from __future__ import annotations

from pathlib import Path

from gpmcflow.errors import InputErrors
from gpmcflow.jobs.stated_models import check_models
from gpmcflow.pipeline.config import check_config, config_problems, load_config
from gpmcflow.pipeline.forecast import forecast, require_fit
from gpmcflow.pipeline.plan import count_runs
from gpmcflow.pipeline.run import analysis_problems, require_results_folders


def check(path: str | Path, cores: int, *, quick: bool = False) -> list[str]:
    """Check a config file and the CSV files it names; return lines with the time and memory to expect.

    Raises `InputErrors` with all that is wrong, `StorageError` where results cannot go, and `ResourceError`
    for what cannot fit into memory or disk.
    """
    folder, where = Path(path).resolve().parent, str(path)
    config = load_config(path, quick=quick)
    problems = config_problems(config, where=where, path=path)
    if not problems:
        config = check_config(config, where=where, folder=folder, path=path)
        check_models(config, where=where)
        require_results_folders(config, folder)
        problems += analysis_problems(config, folder)
    if problems:
        raise InputErrors([line.removeprefix(f"{where}: ") for line in problems], where)
    lines = []
    if config["studies"]:
        n, runs = len(config["problems"]), count_runs(config)
        lines.append(f"{path}: ok, {n} problems of studies, {runs} runs of a method")
    if config["analyses"]:
        cost = forecast(config, cores=cores, folder=folder)
        require_fit(cost)
        lines += [f"{path}: no problems; {cost.in_words}", *cost.notes]
        if all(settings["quick"] for settings in config["analyses"].values()):
            lines.append(f"next: gpmcflow run {path}{' --quick' * quick}")
        else:
            lines.append(
                f"next: gpmcflow run {path} --quick   # an answer in seconds; without --quick by Monte Carlo"
            )
    return lines
