"""From data sets to evidence, figures and a report: snakemake --cores all"""

import os

from snakemake.exceptions import WorkflowError

from gpmcflow.errors import GpmcflowError
from gpmcflow.pipeline.config import check_config
from gpmcflow.pipeline.parent import end_without_parent
from gpmcflow.pipeline.plan import Plan
from gpmcflow.analysis.study import is_single
from gpmcflow.jobs.job_errors import name_this_run

# No job imports modules from the folder of the data, where a random.py may lie.
os.environ.update(PYTHONSAFEPATH="1")

end_without_parent(workflow.is_main_process)

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
        os.path.join(workflow.basedir, "workflow", "schemas"),
        path=CONFIGFILE,
    )
    config.clear()
    config.update(checked, config_file=os.path.basename(CONFIGFILE or "config.yaml"))
    if workflow.is_main_process:  # once: this loads the models
        from gpmcflow.jobs.stated_models import check_models
        from gpmcflow.storage.input_files import load_yaml

        check_models(config)
        name_this_run()
        if CONFIGFILE:  # Snakemake takes the last of two keys of a name
            load_yaml(CONFIGFILE)
    PLAN = Plan(config)
except GpmcflowError as error:
    raise WorkflowError(str(error)) from None


include: "workflow/rules/stages.smk"


rule all:
    default_target: True
    input:
        PLAN.outputs,
