"""Posterior intensity of a Cox process over its events."""

from gpmcflow.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.figures.surrogate_slice import intensity
        from gpmcflow.storage import open_results, write_figure

        tree = open_results(snakemake.input.chains)
        write_figure(intensity(tree), snakemake.output.figure)
        tree.close()
