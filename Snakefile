"""From data sets to evidence, figures and a report: snakemake --cores all"""

import os

from snakemake.exceptions import WorkflowError

from gpmcflow.studies.frame.resources import (
    analysis_memory_mb,
    memory_mb,
    runtime_minutes,
)
from gpmcflow.pipeline.config import check_config, portable
from gpmcflow.errors import GpmcflowError
from gpmcflow.execution.digest import code_digest
from gpmcflow.pipeline.installation import REPORT_TEMPLATE
from gpmcflow.pipeline.job_errors import name_this_run
from gpmcflow.pipeline.plan import planned_jobs
from gpmcflow.studies.analysis.study import is_single
from gpmcflow.pipeline.study_config import MODEL_CODE

# Without this, Snakemake would merge the default problems and methods into a config given by name.
if not workflow.overwrite_configfiles:

    configfile: os.path.join(workflow.basedir, "config", "config.yaml")


# The analysis of own data runs beside its config file; --directory goes before this.
CONFIGFILE = next(iter(workflow.overwrite_configfiles), None)
if is_single(config) and CONFIGFILE:

    workdir: os.path.dirname(os.path.abspath(CONFIGFILE))


try:
    checked = check_config(
        config,
        os.path.join(workflow.basedir, "workflow", "schemas", "config.schema.yaml"),
        path=CONFIGFILE,
    )
    config.clear()
    config.update(checked)
    if workflow.is_main_process:  # once: this loads the models
        from gpmcflow.studies.stated_models import check_models

        check_models(config)
        name_this_run()
except GpmcflowError as error:
    raise WorkflowError(str(error)) from None

STUDIES = config["studies"]
PUBLISHED = os.path.join(workflow.basedir, "workflow", "published")
# A cluster's workers are not on the cores of the job.
WORKERS = 1 if config["execution"]["scheduler"] else config["execution"]["workers"]
# Study -> title, tables and figures; each study's rules fill in theirs.
REPORT = {}


wildcard_constraints:
    dataset="|".join(sorted({p["dataset"] for p in config["problems"].values()})) or "-",
    problem="|".join(config["problems"]) or "-",


localrules:
    all,
    prepare,
    build_report,


include: "workflow/rules/data.smk"


if config["analyses"]:

    include: "workflow/rules/analysis.smk"


for study in STUDIES:

    include: f"workflow/rules/{study}.smk"


TABLES = [
    f"results/{study}/{table}.csv"
    for study in REPORT
    for table in REPORT[study]["tables"]
]
FIGURES = [path for study in REPORT.values() for path, caption in study["figures"]]


include: "workflow/rules/report.smk"


# All that the jobs write: a file that was deleted comes back, whatever was made of it.
PLANNED = [job.output for job in planned_jobs(config)]


rule all:
    default_target: True
    input:
        PLANNED,
        [f"{path}.json" for path in PLANNED if path.endswith(".nc")],
        TABLES,
        FIGURES,
