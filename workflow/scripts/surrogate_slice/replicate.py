"""Chains of one method on one problem."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.studies.problems import limit_bytes
        from gpmcflow.studies.surrogate_slice.runs import replicate_chains

        dataset = job.dataset()
        tree, facts = replicate_chains(
            dataset,
            snakemake.wildcards.problem,
            snakemake.params.problem,
            snakemake.wildcards.method,
            snakemake.params.method,
            int(snakemake.wildcards.replicate),
            seed=snakemake.params.seed,
            execution=job.execution,
            state_dir=job.state_dir(dataset),
            memory_limit=limit_bytes(job.memory_limit_gb),
        )
        job.write(tree, facts)
