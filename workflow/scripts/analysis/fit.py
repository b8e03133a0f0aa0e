"""The quick answer of one model: a fit at the maximum of its evidence, and what it says."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.studies.analysis.steps import fit_step

        job.write(fit_step(snakemake.input.data, snakemake.wildcards, snakemake.params))
