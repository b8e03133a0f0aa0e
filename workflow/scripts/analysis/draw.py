"""Posterior draws of one model."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.studies.analysis.steps import draw_step

        tree = draw_step(
            snakemake.input.data,
            snakemake.wildcards,
            snakemake.params,
            execution=job.execution,
            state_dir=job.state_dir(),
        )
        job.write(tree)
