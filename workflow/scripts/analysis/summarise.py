"""What the posterior draws of one model say."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.studies.analysis.steps import summary_step

        tree = summary_step(
            snakemake.input.data, snakemake.input.draws, snakemake.wildcards, snakemake.params
        )
        job.write(tree)
