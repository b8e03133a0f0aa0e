"""Command line: `gpmcflow datasets`, `gpmcflow check CONFIG`, `gpmcflow show FILE.nc`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import gpmcflow
from gpmcflow.config import check_config, load_yaml
from gpmcflow.errors import GpmcflowError

if TYPE_CHECKING:
    import xarray as xr


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 1 after an error of the user's, in one line on stderr."""
    options = _parser().parse_args(argv)
    try:
        options.command(options)
    except GpmcflowError as error:
        print(f"gpmcflow: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpmcflow", description=gpmcflow.__doc__)
    parser.add_argument("--version", action="version", version=gpmcflow.__version__)
    commands = parser.add_subparsers(required=True, metavar="command")

    datasets = commands.add_parser("datasets", help="list the data sets known by name")
    datasets.set_defaults(command=_datasets)

    check = commands.add_parser("check", help="check a config file")
    check.add_argument("config", help="such as config/own_data.yaml")
    check.set_defaults(command=_check)

    show = commands.add_parser("show", help="show what a results file holds")
    show.add_argument("file", help="such as results/rmhmc_ais/digits-hard/approximation.nc")
    show.set_defaults(command=_show)
    return parser


def _datasets(options: argparse.Namespace) -> None:
    from gpmcflow.datasets import CATALOGUE

    width = max(map(len, CATALOGUE))
    for name, entry in CATALOGUE.items():
        print(f"{name:{width}}  {entry.title}: {entry.description}")


def _check(options: argparse.Namespace) -> None:
    config = check_config(load_yaml(options.config), where=options.config)
    runs = sum(
        len(study["problems"]) * len(study["methods"]) for study in config["studies"].values()
    )
    print(f"{options.config}: ok, {len(config['problems'])} problems, {runs} runs of a method")


def _show(options: argparse.Namespace) -> None:
    from gpmcflow.storage import open_results

    with open_results(options.file) as tree:
        print(options.file)
        for node in tree.subtree:
            _show_group(node)


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
