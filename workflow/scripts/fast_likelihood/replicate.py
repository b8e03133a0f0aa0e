"""All methods on one data set of a type."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.storage import load_results
        from gpmcflow.studies.fast_likelihood.runs import replicate_runs

        tree, facts = replicate_runs(
            snakemake.wildcards.type,
            snakemake.params.settings,
            int(snakemake.wildcards.replicate),
            load_results(snakemake.input.tuning),
            seed=snakemake.params.seed,
            execution=job.execution,
            state_dir=job.state_dir(),
            memory_limit_gb=job.memory_limit_gb,
        )
        job.write(tree, facts)
