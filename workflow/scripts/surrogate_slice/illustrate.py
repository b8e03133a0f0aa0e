"""Data of the paper's figures 1 and 2."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.studies.surrogate_slice.illustrations import illustrate

        job.write(illustrate(seed=snakemake.params.seed))
