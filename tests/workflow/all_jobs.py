"""Make what each job of a config makes, in the order of the plan, in this folder: all_jobs.py CONFIG"""

import sys
from pathlib import Path

from gpmcflow.pipeline.config import check_config
from gpmcflow.pipeline.in_process import call
from gpmcflow.pipeline.plan import Plan
from gpmcflow.storage.input_files import load_yaml


def main(path: str) -> None:
    """Run them all."""
    config = check_config(load_yaml(path), path=path)
    plan = Plan({**config, "config_file": Path(path).name})
    for job in plan.jobs:
        call(plan, job)


if __name__ == "__main__":
    main(*sys.argv[1:])
