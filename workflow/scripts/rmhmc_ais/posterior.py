"""Posterior draws of one problem."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.storage import load_results
        from gpmcflow.studies.stages import posterior

        dataset = job.dataset()
        tree, facts = posterior(
            dataset,
            load_results(snakemake.input.approximation),
            snakemake.params.problem,
            snakemake.params.sampling,
            problem_name=snakemake.wildcards.problem,
            seed=snakemake.params.seed,
            execution=job.execution,
            state_dir=job.state_dir(dataset),
            memory_limit_gb=job.memory_limit_gb,
        )
        job.write(tree, facts)
