"""What each command does: a call of the room that knows, and lines of what it says.

Rooms are imported when a command is run, so that the others start fast.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpmcflow.errors import refuse_unfit
from gpmcflow.jobs.installation import workflow_home

if TYPE_CHECKING:
    import xarray as xr


def datasets(options: argparse.Namespace) -> None:
    """List the data sets known by name."""
    from gpmcflow.data import CATALOGUE

    width = max(map(len, CATALOGUE))
    for name, entry in CATALOGUE.items():
        print(f"{name:{width}}  {entry.title}: {entry.description}")


def new(options: argparse.Namespace) -> None:
    """Write a config for a CSV file."""
    from gpmcflow.pipeline import new as first_look

    lines = first_look.new(
        options.csv,
        options.target,
        positive=options.positive,
        area_map=options.map,
        neighbours=options.neighbours,
        force=options.force,
    )
    print("\n".join(lines))


def check(options: argparse.Namespace) -> None:
    """List all problems of a config and its data."""
    from gpmcflow.pipeline import run as checking

    cores = options.cores or os.cpu_count() or 1
    print("\n".join(checking.check(options.config, cores, quick=options.quick)))


def predict(options: argparse.Namespace) -> None:
    """Predict new rows with a finished analysis."""
    from gpmcflow.pipeline.predict import is_standard_output, predict_file

    lines = predict_file(options.analysis, options.csv, options.output, raw=options.raw_text)
    print("\n".join(lines), file=sys.stderr if is_standard_output(options.output) else sys.stdout)


def run(options: argparse.Namespace) -> int:
    """Check a config and run its workflow; return Snakemake's exit code."""
    from gpmcflow.pipeline import run as whole_run

    return whole_run.run(options.config, options.cores, options.snakemake, quick=options.quick)


def certify(options: argparse.Namespace) -> int:
    """Certify the fits of an analysis; after a SIGTERM return 75, with the fits under way kept."""
    from gpmcflow.execution.signals import EXIT_CODE, Stopped, graceful_stop
    from gpmcflow.pipeline import certify as certificates

    lines = certificates.certify(
        options.config, options.n, options.cores, options.models, quick=options.quick
    )
    try:
        with graceful_stop():
            for line in lines:
                print(line, flush=True)
    except Stopped as stopped:
        print(f"gpmcflow: {stopped}", file=sys.stderr)
        return EXIT_CODE
    return 0


def show(options: argparse.Namespace) -> None:
    """Print what a results file holds."""
    from gpmcflow.storage import open_results

    what = refuse_unfit(str(options.file), "delete it and run again")
    with what, open_results(options.file) as tree:
        print(options.file)
        for node in tree.subtree:
            _show_group(node)


def status(options: argparse.Namespace) -> None:
    """Print how far each job is."""
    from gpmcflow.monitor.status import as_json, job_statuses, status_table

    statuses = job_statuses(options.results)
    if options.json:
        print(json.dumps([as_json(status) for status in statuses], indent=2))
    elif statuses:
        print(status_table(statuses))
    else:
        print(f"{options.results}: no job has left state here")


def verify(options: argparse.Namespace) -> int:
    """Compare result files with their checksums; return 1 where one differs."""
    from gpmcflow.pipeline import verify as checksums

    verification = checksums.verify(options.results)
    for line in verification.problems:
        print(f"gpmcflow: {line}", file=sys.stderr)
    for path in verification.unknown:
        print(f"{path}: has no checksum")
    print(verification.in_words)
    return 1 if verification.problems else 0


def clean(options: argparse.Namespace) -> None:
    """Show, or remove, state that nothing needs."""
    from gpmcflow.execution.disk import human_bytes
    from gpmcflow.monitor.clean import remove_state, state_table, unneeded_state
    from gpmcflow.pipeline.plan import certificate_table, planned_jobs
    from gpmcflow.pipeline.run import check_for_run

    outputs = None
    if options.configfile:
        config = check_for_run(options.configfile, Path(options.results).parent)
        outputs = [job.output for job in planned_jobs(config)]
        outputs += map(certificate_table, config["analyses"])
    folders = unneeded_state(options.results, outputs)
    print(state_table(folders))
    if options.yes:
        print(f"removed {human_bytes(remove_state(folders, options.results))}")
    elif any(folder.reason for folder in folders):
        print("nothing was removed; --yes removes what is marked")


def forecast(options: argparse.Namespace) -> None:
    """Print memory, disk and time of a config."""
    from gpmcflow.pipeline import forecast as costs
    from gpmcflow.pipeline.run import check_for_run

    path = Path(options.configfile or workflow_home() / "config" / "config.yaml")
    folder = path.resolve().parent if options.configfile else Path()
    needs = costs.forecast(check_for_run(path, folder), cores=options.cores, folder=folder)
    print(costs.forecast_table(needs))
    costs.require_fit(needs)


def keep(options: argparse.Namespace) -> None:
    """Keep a row of each finished run of a study."""
    from gpmcflow.replications.parts import collect

    rows = collect(options.study, options.results, options.table)
    print(f"{options.table}: {len(rows)} rows kept")


def verdict(options: argparse.Namespace) -> None:
    """Print a study's verdict table from kept rows."""
    from gpmcflow.replications.parts import PUBLISHED, rebuild

    tables = rebuild(options.study, options.table, PUBLISHED / f"{options.study}.yaml")
    print(tables["verdict"].to_csv(index=False), end="")


def _show_group(node: xr.DataTree) -> None:
    dataset = node.to_dataset(inherit=False)
    sizes = ", ".join(f"{name} {size}" for name, size in dataset.sizes.items())
    print(f"{node.path}  ({sizes})" if sizes else node.path)
    for name, array in dataset.data_vars.items():
        value = f" = {array.values}" if array.ndim == 0 else f" ({', '.join(map(str, array.dims))})"
        print(f"    {name}{value}")
    for name, value in dataset.attrs.items():
        if name == "settings":
            value = json.dumps(json.loads(value), indent=2).replace("\n", "\n      ")
        print(f"    {name}: {value}")
