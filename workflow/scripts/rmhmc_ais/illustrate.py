"""What Figure 1 shows: trajectories on a mixture of three Gaussians."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.studies.rmhmc_ais.illustration import illustrate

        job.write(*illustrate(seed=snakemake.params.seed))
