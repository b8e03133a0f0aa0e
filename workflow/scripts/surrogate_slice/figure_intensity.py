"""Posterior intensity of a Cox process over its events."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.storage import open_results, write_figure
        from gpmcflow.studies.surrogate_slice.figures import intensity

        tree = open_results(snakemake.input.chains)
        write_figure(intensity(tree), snakemake.output.figure)
        tree.close()
