"""Call what each job of a config calls, in the order of the plan, in this folder: all_jobs.py CONFIG

The rules hand the same to the same function (`workflow/rules/stages.smk`, `workflow/scripts/job.py`), in a
process a job. Only what Snakemake keeps for itself is missing: its benchmarks and its notes.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

from snakemake.iocontainers import Namedlist

from gpmcflow.pipeline.config import check_config
from gpmcflow.pipeline.plan import Plan
from gpmcflow.storage.input_files import load_yaml
from gpmcflow.studies.frame.job import run_job


def named(values: dict) -> Namedlist:
    """As in a script of Snakemake."""
    return Namedlist(fromdict=dict(values))


def files_of(inputs: dict) -> Namedlist:
    """Inputs as a script of Snakemake sees them: lists are flat, and have their name all the same."""
    files = Namedlist()
    for name, own in inputs.items():
        first = len(files)
        files.extend([own] if isinstance(own, str) else own)
        files._set_name(name, first, end=None if isinstance(own, str) else len(files))
    return files


def main(path: str) -> None:
    """Run them all."""
    config = check_config(load_yaml(path), path=path)
    config["config_file"] = Path(path).name
    plan = Plan(config)
    for job in plan.jobs:
        stage, wildcards = job.stage, named(job.wildcards)
        params = {
            "entry": stage.entry,
            "settings": dict(job.settings),
            "sources": plan.sources(stage)(wildcards),
            "seed": config["seed"],
            "block_size": config["execution"]["block_size"] if stage.in_blocks else None,
            "code": plan.code(stage)(wildcards),
        }
        files = {name: text.format(**job.wildcards) for name, text in stage.files.items()}
        log = Path(stage.log.format(**job.wildcards))
        for file in [*files.values(), log]:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
        run_job(
            SimpleNamespace(
                config=config,
                rule=stage.rule,
                params=named(params),
                wildcards=wildcards,
                input=files_of(plan.inputs(stage)(wildcards)),
                output=named(files),
                log=[str(log)],
                threads=1,
            )
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
