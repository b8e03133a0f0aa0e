"""Widths, or steps, of each method for one type of data."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake) as job:
        from gpmcflow.studies.fast_likelihood.runs import tune

        tree, facts = tune(
            snakemake.wildcards.type,
            snakemake.params.settings,
            snakemake.params.tuning,
            seed=snakemake.params.seed,
            execution=job.execution,
            state_dir=job.state_dir(),
        )
        job.write(tree, facts)
