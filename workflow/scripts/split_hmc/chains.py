"""Chains of one method on one problem."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.storage import load_results
        from gpmcflow.studies.split_hmc.runs import chains

        dataset = job.dataset()
        tree, facts = chains(
            dataset,
            load_results(snakemake.input.fit),
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
