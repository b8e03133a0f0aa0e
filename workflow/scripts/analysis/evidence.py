"""The log evidence of one model, averaged over its hyperparameters, from its posterior draws."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.studies.analysis.steps import evidence_step

        tree = evidence_step(
            snakemake.input.data,
            snakemake.input.draws,
            snakemake.wildcards,
            snakemake.params,
            execution=job.execution,
            state_dir=job.state_dir(),
        )
        job.write(tree)
