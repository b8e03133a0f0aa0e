"""Gaussian fit of one problem, which the samplers start from and split off."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.studies.split_hmc.runs import fit

        tree, facts = fit(
            job.dataset(),
            snakemake.params.problem,
            seed=snakemake.params.seed,
            memory_limit_gb=job.memory_limit_gb,
        )
        job.write(tree, facts)
