"""From data sets to evidence, figures and a report: snakemake --cores all"""

import os

from snakemake.exceptions import WorkflowError

from gpmcflow.config import (
    check_config,
    marked_settings,
    memory_to_ask_for,
    portable,
)
from gpmcflow.errors import GpmcflowError
from gpmcflow.execution.digest import code_digest

# Without this, Snakemake would merge the default problems and methods into a config given by name.
if not workflow.overwrite_configfiles:

    configfile: "config/config.yaml"


try:
    config.update(
        check_config(
            config,
            os.path.join(workflow.basedir, "workflow", "schemas", "config.schema.yaml"),
        )
    )
except GpmcflowError as error:
    raise WorkflowError(str(error)) from None

STUDIES = config["studies"]
PUBLISHED = os.path.join(workflow.basedir, "workflow", "published")
# A cluster's workers are not on the cores of the job.
WORKERS = 1 if config["execution"]["scheduler"] else config["execution"]["workers"]
FIGURES, TITLES = {}, {}  # of each study, for the report


wildcard_constraints:
    study="|".join(STUDIES),
    dataset="|".join(sorted({p["dataset"] for p in config["problems"].values()})),
    problem="|".join(config["problems"]),
    method="|".join(sorted({m for s in STUDIES.values() for m in s["methods"]})),


localrules:
    all,
    prepare,
    summarise,
    figure_evidence,
    figure_log_weights,
    figure_ladders,
    figure_posterior,
    figure_map,
    build_report,


include: "workflow/rules/data.smk"
include: "workflow/rules/approximate.smk"
include: "workflow/rules/sample.smk"
include: "workflow/rules/evidence.smk"
include: "workflow/rules/summarise.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        expand(
            "results/{study}/{table}.csv",
            study=STUDIES,
            table=["verdict", "evidence", "approximations"],
        ),
        "results/report.html",
