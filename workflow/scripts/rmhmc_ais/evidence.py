"""Evidence of one problem by one method."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.storage import load_results
        from gpmcflow.studies.rmhmc_ais.runs import evidence

        dataset = job.dataset()
        tree, facts = evidence(
            dataset,
            load_results(snakemake.input.approximation),
            snakemake.params.problem,
            snakemake.params.method,
            problem_name=snakemake.wildcards.problem,
            method_name=snakemake.wildcards.method,
            seed=snakemake.params.seed,
            execution=job.execution,
            state_dir=job.state_dir(dataset),
            memory_limit_gb=job.memory_limit_gb,
        )
        job.write(tree, facts)
