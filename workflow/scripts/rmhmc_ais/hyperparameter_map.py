"""EP evidence and its correction over a grid of hyperparameters."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.studies.rmhmc_ais.runs import hyperparameter_map

        tree, facts = hyperparameter_map(
            job.dataset(),
            snakemake.params.problem,
            snakemake.params.grid,
            seed=snakemake.params.seed,
            marked=snakemake.params.marked,
        )
        job.write(tree, facts)
