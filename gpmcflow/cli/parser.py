"""Commands and their options, with what `--help` says of them."""

from __future__ import annotations

import argparse
import os
import sys

import gpmcflow
from gpmcflow.cli import commands


def parser_of_commands() -> argparse.ArgumentParser:
    """Parser whose options have the function of `commands` to run as ``command``."""
    parser = argparse.ArgumentParser(prog="gpmcflow", description=gpmcflow.__doc__)
    parser.add_argument("--version", action="version", version=gpmcflow.__version__)
    kinds = parser.add_subparsers(required=True, metavar="command")

    datasets = kinds.add_parser("datasets", help="list the data sets known by name")
    datasets.set_defaults(command=commands.datasets)

    new = kinds.add_parser(
        "new", help="look at a CSV file of yours and write a config for it", description=NEW
    )
    new.add_argument("csv", help="such as patients.csv")
    new.add_argument("--target", required=True, help="column of the outcome")
    new.add_argument("--positive", help="value of the target that counts as yes")
    new.add_argument(
        "--map", help="GeoJSON file of the areas that a column names; the report draws them"
    )
    new.add_argument("--neighbours", help="CSV file of pairs of areas that are neighbours")
    new.add_argument("--force", action="store_true", help="overwrite a config that is there")
    new.set_defaults(command=commands.new)

    check = kinds.add_parser("check", help="list all problems of a config file and its data")
    check.add_argument("config", help="such as patients.yaml")
    check.add_argument("--cores", type=_count, help="for the forecast; default: all")
    check.add_argument("--quick", action="store_true", help="forecast of run --quick")
    check.set_defaults(command=commands.check)

    run = kinds.add_parser(
        "run",
        help="check a config file and run it",
        description=RUN,
        usage="%(prog)s [-h] [--cores N] [--quick] config [-- snakemake options]",
    )
    run.add_argument("config", help="such as patients.yaml; the results go into its folder")
    run.add_argument("--cores", type=_count, help="jobs at a time; default: all cores")
    run.add_argument("--quick", action="store_true", help="an analysis by approximations only")
    run.set_defaults(command=commands.run)

    certify = kinds.add_parser(
        "certify", help="check the fits of an analysis on simulated data", description=CERTIFY
    )
    certify.add_argument("config", help="such as patients.yaml")
    certify.add_argument("-n", type=_count, default=100, help="data sets; default: %(default)s")
    certify.add_argument("--models", nargs="+", default=(), help="names; default: all models")
    certify.add_argument("--cores", type=_count, help="fits at a time; default: all cores")
    certify.add_argument("--quick", action="store_true", help="certify run --quick")
    certify.set_defaults(command=commands.certify)

    predict = kinds.add_parser(
        "predict", help="predict new rows with a finished analysis", description=PREDICT
    )
    predict.add_argument("analysis", help="its name, or its config file, such as patients")
    predict.add_argument("csv", help="file of new rows, with the columns of the first file")
    predict.add_argument(
        "-o",
        "--output",
        default="predictions.csv",
        help="a file, a pipe, or - for standard output; default: %(default)s",
    )
    predict.add_argument(
        "--raw-text", action="store_true", help="no apostrophe before text such as =1+1"
    )
    predict.set_defaults(command=commands.predict)

    show = kinds.add_parser("show", help="show what a results file holds")
    show.add_argument("file", help="such as results/rmhmc_ais/digits-hard/approximation.nc")
    show.set_defaults(command=commands.show)

    status = kinds.add_parser(
        "status", help="show how far each job is, while it runs", description=STATUS
    )
    status.add_argument("results", nargs="?", default="results", help="default: results")
    status.add_argument("--json", action="store_true", help="print a JSON list, for scripts")
    status.set_defaults(command=commands.status)

    verify = kinds.add_parser(
        "verify", help="compare every result file with its checksum", description=VERIFY
    )
    verify.add_argument("results", nargs="?", default="results", help="default: results")
    verify.set_defaults(command=commands.verify)

    clean = kinds.add_parser(
        "clean", help="show state that nothing needs any more; --yes removes it", description=CLEAN
    )
    clean.add_argument("results", nargs="?", default="results", help="default: results")
    clean.add_argument(
        "--configfile", help="state of outputs this config does not make may go, too"
    )
    clean.add_argument("--yes", action="store_true", help="remove what is shown")
    clean.set_defaults(command=commands.clean)

    keep = kinds.add_parser(
        "keep", help="keep one row of each finished run of a study", description=KEEP
    )
    keep.add_argument("study", help="such as split_hmc")
    keep.add_argument("table", help="file for the rows, a line of JSON each, such as parts.jsonl")
    keep.add_argument("--results", default="results", help="default: results")
    keep.set_defaults(command=commands.keep)

    verdict = kinds.add_parser(
        "verdict", help="print a study's verdict table from kept rows", description=VERDICT
    )
    verdict.add_argument("study", help="such as split_hmc")
    verdict.add_argument("table", help="such as docs/results/split_hmc/parts.jsonl")
    verdict.set_defaults(command=commands.verdict)

    forecast = kinds.add_parser(
        "forecast", help="memory, disk and time of a config, before it runs", description=FORECAST
    )
    forecast.add_argument("--configfile", help="default: the config of the default job")
    forecast.add_argument("--cores", type=_count, default=1, help="default: 1")
    forecast.set_defaults(command=commands.forecast)
    return parser


NEW = """Look at a CSV file: which columns hold numbers, categories, dates, ids, how many cells are missing,
what kind of outcome the target is. Writes a commented YAML file that says what was found and what will be
done with each column; change in it what you like."""

PREDICT = """Predict the rows of another CSV file with the model that the report of a finished analysis shows.
Each row gets a prediction; the column note says where a cell was missing, outside the range of the learning
rows, or of a category not seen before. Text that a spreadsheet would take for a formula (such as =1+1)
gets an apostrophe before it, unless --raw-text is given."""

RUN = """Check a config file as `gpmcflow check` does, then run its workflow with the config file's
folder as working directory: relative paths in it start there, and results/ appears beside it. A line is
printed for each finished step. Ctrl-C is safe: the same command goes on from there. What follows -- goes
to Snakemake, such as -- --dry-run, and its own messages are shown then."""

CERTIFY = """Simulate data sets from the priors of each model at the rows of your file, fit each as the
analysis does, and compare with the truth: how often the intervals held it, and whether its ranks among the
draws are those of a right fit. Writes certificate.html and certificate.csv beside the report. Ctrl-C is
safe: the same command goes on from there, and one with a larger -n goes on from what is finished."""

STATUS = """Every job with state below the results folder: finished segments of all, mean acceptance, R-hat
and bulk effective size of the log likelihood so far (for annealing: the effective size of the weights),
and the time left by the pace of the last segments. A job is finished when its output is there; else it
is interrupted if its process is gone, stalled if nothing was written for ten times as long as a segment
usually takes, or running. Finished segments can be read while a job runs:
gpmcflow.partial_results(state_dir) opens them as an xarray.DataTree; --json has each
job's state_dir."""

VERIFY = """Compare each file below the results folder with the SHA-256 it had when it was written: NetCDF
files and their sidecars (.nc.json), tables, figures, pages. A line for each that is damaged or missing, or
was made of a file, such as your CSV file, that has changed since, and exit code 1 then. Delete what is
damaged and run the workflow again: the same file comes back. A job refuses damaged files by itself, and
gpmcflow run ends with this check of the files that its config makes."""

CLEAN = """Show the state folders below the results folder, with size, age and job, and mark those that
nothing needs any more; with --yes, remove these. A state folder holds the finished segments of one job,
so that the job can go on where it was stopped. It is not needed any more if (1) the declared output of
its job is there and newer than the state: the job is finished; or (2) a later state folder belongs to
the same output: settings, code or data have changed since, and a job only looks at the state of its own
settings; or (3) --configfile is given and this config does not make its output; or (4) it says of no
job, and nothing was written to it for an hour. Everything else is kept, in any case the state of a job
whose process is alive or, on another machine where that cannot be asked, that wrote something within
the last day. Removing state never changes a result; at worst a job that is asked for again starts
over."""

KEEP = """Write one line of JSON for each finished run of a study below the results folder: estimates with
standard errors, counts, seconds, settings, seed, checksums, versions. A line of the same run that the
file has already is replaced, others stay. They outlive the results, and `gpmcflow verdict` rebuilds the
study's table from them, runs of several machines together."""

VERDICT = """Print a study's verdict table, printed numbers and claims beside ours, as CSV, rebuilt from the
rows that `gpmcflow keep` wrote. What was not run is marked: missing."""

FORECAST = """Print memory, disk and time of each rule, from a short pilot on this machine: every data set
that is here is loaded, and a few transitions of each method are timed at their full size. A data set
that would have to be downloaded is not: what depends on it is unknown. Ends with exit code 1 if something
cannot fit into memory or on the disk."""


def at_work(options: argparse.Namespace) -> str:
    """What a command is at while it prints nothing, for those who wait; empty where none has to."""
    if options.command in (commands.new, commands.predict):
        return f"{options.command.__name__}: at work on {options.csv}{_size(options.csv)}"
    if options.command is commands.check:
        return f"check: reading the data of {options.config}, then timing a few steps of each model"
    if (
        options.command is commands.run and sys.stderr.isatty()
    ):  # its steps are a line each elsewhere
        return f"run: at work on {options.config}"
    return ""


def _size(path: str) -> str:
    try:
        return f" ({os.path.getsize(path) / 1e6:.1f} MB)"
    except (OSError, ValueError):
        return ""


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed: 1, 2, 3, ...")
    return int(text)
