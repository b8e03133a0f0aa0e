"""Laplace and EP fits of one problem, the correction, and predictions."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.studies.stages import approximate

        tree, facts = approximate(
            job.dataset(),
            snakemake.params.problem,
            seed=snakemake.params.seed,
            memory_limit_gb=job.memory_limit_gb,
        )
        job.write(tree, facts)
