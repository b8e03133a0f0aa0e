"""What the paper's figures 1 to 4 show."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.studies.split_hmc.illustrations import illustrate

        job.write(*illustrate(seed=snakemake.params.seed))
