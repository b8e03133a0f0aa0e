"""Convergence of the posterior draws of one problem."""

from gpmcflow.pipeline.workflow_job import workflow_job

if __name__ == "__main__":
    with workflow_job(snakemake):
        from gpmcflow.figures import posterior_summary
        from gpmcflow.storage import load_results, write_figure

        tree = load_results(snakemake.input.posterior)
        figure = posterior_summary(tree, title=snakemake.wildcards.problem)
        write_figure(figure, snakemake.output.figure)
